"""Layers with parameters, layers that shape data, costs and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any, Literal, overload

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.initializer import Constant, Initializer
from graphad.layers.alike import alike
from graphad.layers.checks import checked_flag, checked_float, checked_format, checked_int, has_last_one
from graphad.layers.helper import AttrLike, LayerHelper, as_param_attr, checked_input, emitted, layer
from graphad.ops.definition import did_you_mean
from graphad.ops.methods import axes_of
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line, located, user_line
from graphad.types import FLOATS, dtype_name, element_count

# -- nn --------------------------------------------------------------------------------------------
# Layers with parameters, and layers that feed data: signatures are Fluid's.


@overload
def data(
    name: str,
    shape: Sequence[int | str | None],
    append_batch_size: bool = ...,
    dtype: object = ...,
    lod_level: int = ...,
    type: object = ...,
    stop_gradient: bool = ...,
) -> Variable: ...
@overload
def data(
    name: str,
    shape: Sequence[int | str | None],
    dtype: object,
    append_batch_size: bool = ...,
    lod_level: int = ...,
    stop_gradient: bool = ...,
) -> Variable: ...
def data(name: str, shape: object, *more: object, **options: object) -> Variable:
    """A variable that is fed: ``[-1, *shape]`` of a minibatch, or exactly ``shape`` with ``append_batch_size=False``.

    Args:
        name: what the feed calls it.
        shape: extents of one sample; -1 (or None) where unknown, or a name, ``"batch"``: extents of one name are one number in each
            run. A shape that holds -1 or a name already is not prefixed.
        append_batch_size: whether the extent of the batch comes before ``shape``; a dtype in its place is taken as one, as in Paddle 2.
        dtype: float32 unless given.
        lod_level, type: as in Fluid; sequences of tensors of different lengths do not exist here, so they are 0 and None.
        stop_gradient: False to differentiate with respect to the data.
    """
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InvalidType(f"layers.data: shape is a list of ints, not {shape!r}")
    with at_users_line("layers.data"):
        options_ = _data_options(more, options)
    extents = [-1 if extent is None else extent for extent in shape]
    # Fluid's rule: a shape that has an unknown extent already gets no batch in front.
    if options_.get("append_batch_size", True) and not any(extent == -1 or isinstance(extent, str) for extent in extents):
        extents = [-1, *extents]
    # Gradients stop at data unless requested otherwise, as in Fluid.
    dtype, stop = options_.get("dtype"), options_.get("stop_gradient", True)
    return default_main_program().global_block().create_var(name, extents, "float32" if dtype is None else dtype, stop_gradient=stop)


_DATA = {"append_batch_size": True, "dtype": "float32", "lod_level": 0, "type": None, "stop_gradient": True}
data.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        *(
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for name, kind in (("name", "str"), ("shape", "Sequence[int | str | None]"))
        ),
        *(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation="Any") for name, default in _DATA.items()),
    ],
    return_annotation="Variable",
)


def _data_options(more: tuple[object, ...], options: dict[str, object]) -> dict[str, Any]:
    """The arguments of ``data`` after the shape by name, in Fluid's order, or with the dtype first, as in Paddle 2."""
    order = [*_DATA]
    if more and not isinstance(more[0], bool):
        # Fluid's third argument is a bool, Paddle 2's is the dtype: the type tells them apart.
        order = ["dtype", "append_batch_size", "stop_gradient"] if len(more) < 2 or isinstance(more[1], bool) else ["dtype", "lod_level"]
    unknown = [key for key in options if key not in _DATA]
    if unknown or len(more) > len(order):
        hint = did_you_mean(unknown[0], _DATA) if unknown else ""
        raise InvalidType(f"it takes name, shape, {', '.join(_DATA)}, not {', '.join(unknown) or f'{len(more)} more arguments'}{hint}")
    arguments = dict(zip(order, more, strict=False))
    repeats = [key for key in arguments if key in options]
    if repeats:
        raise InvalidType(f"{repeats[0]} is given twice")
    arguments |= options
    for key in ("append_batch_size", "stop_gradient"):
        checked_flag(key, arguments.get(key, True))
    if arguments.get("lod_level", 0) not in (0, None):
        raise InvalidValue("lod_level is 0: tensors here have no levels of detail; pad the sequences, and feed their lengths")
    return arguments


@alike
@layer
def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: AttrLike | Sequence[AttrLike] = None,
    bias_attr: AttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: ``act(X @ W + b)``, X flattened to a matrix after ``num_flatten_dims`` axes.

    Args:
        input: of shape ``[n, ..., d]``; the extents after ``num_flatten_dims`` must be known. Of a list each has its own W, and the
            products are added.
        size: the number of outputs.
        param_attr, bias_attr: how W and b are made; no b with False.

    Returns:
        A variable of shape ``input.shape[:num_flatten_dims] + [size]``.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     ga.layers.fc(ga.layers.data("x", shape=[4]), size=3, act="relu")
    Variable fc_0.tmp_2: float32[-1, 3]
    """
    with at_users_line("layers.fc"):
        checked_int("size", size, 1)
        checked_int("num_flatten_dims", num_flatten_dims)
    inputs = list(input) if isinstance(input, list | tuple) else [input]
    # One attr for all inputs, or one for each.
    attrs = list(param_attr) if isinstance(param_attr, Sequence) and not isinstance(param_attr, str) else [param_attr] * len(inputs)
    if not inputs or len(attrs) != len(inputs):
        raise InvalidValue(f"layers.fc: {len(inputs)} inputs and {len(attrs)} param_attr do not match")
    helper = LayerHelper("fc", name)
    x = checked_input("fc", inputs[0])
    # A negative number counts from the end.
    axes = num_flatten_dims if num_flatten_dims >= 0 else len(x.shape) + num_flatten_dims
    terms = [_product(helper, checked_input("fc", variable), size, axes, attr) for variable, attr in zip(inputs, attrs, strict=True)]
    # The bias is added once, after the sum of the products.
    out = terms[0] if len(terms) == 1 else helper.append("sum", {"X": terms})
    bias = helper.bias(bias_attr, [size], x.dtype)
    if bias is not None:
        out = helper.append("elementwise_add", {"X": out, "Y": bias}, {"axis": axes})
    return helper.activate(out, act)


def _product(helper: LayerHelper, x: Variable, size: int, axes: int, attr: AttrLike) -> Variable:
    width = element_count(x.shape[axes:])
    # The columns are the product of the extents after the first axes.
    if width <= 0:
        raise InvalidValue(f"layers.fc: {x!r} has no known width after its first {axes} axes")
    if x.dtype not in FLOATS:
        raise InvalidValue(f"layers.fc takes a floating-point variable, not {x!r}; cast it first")
    w = helper.parameter(attr, "w", [width, size], x.dtype)
    return helper.append("mul", {"X": x, "Y": w}, {"x_num_col_dims": axes, "y_num_col_dims": 1})


@layer
def dropout(
    x: Variable,
    dropout_prob: float | None = None,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
    *,
    p: float | None = None,
    axis: int | Sequence[int] | None = None,
    training: bool | None = None,
    mode: str | None = None,
) -> Variable:
    """Zero each element with a probability (N. Srivastava et al., 2014).

    Args:
        x: a tensor.
        dropout_prob: the probability.
        is_test: whether this is inference, where no element is zeroed.
        seed: draws the same in every run; None or 0 draws again.
        dropout_implementation: "downgrade_in_infer" multiplies by ``1 - dropout_prob`` in inference; "upscale_in_train" divides by it
            in training, so that inference needs no change.
        p, training, mode: Paddle 2's words for ``dropout_prob``, ``not is_test`` and ``dropout_implementation``, which is
            "upscale_in_train" with one of them, as it is there; "downscale_in_infer" is its "downgrade_in_infer".
        axis: the axes along which elements are zeroed one by one; along the others all of them together.

    Raises:
        ValueError: the probability is not between 0 and 1, or the implementation unknown.
        TypeError: there is no probability, or two.
    """
    with at_users_line("layers.dropout"):
        if (p is None) == (dropout_prob is None) and (p is not None or training is None):
            raise InvalidType(f"dropout_prob is the probability, p its other name: one of them is needed, not {dropout_prob!r} and {p!r}")
        if p is not None or training is not None or mode is not None:
            dropout_implementation = "upscale_in_train" if mode is None else {"downscale_in_infer": "downgrade_in_infer"}.get(mode, mode)
        dropout_prob = p if dropout_prob is None else dropout_prob
        dropout_prob = checked_float("dropout_prob", 0.5 if dropout_prob is None else dropout_prob)
        is_test = checked_flag("is_test", is_test) or not checked_flag("training", True if training is None else training)
        if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
            choices = "'downgrade_in_infer' or 'upscale_in_train'"
            raise InvalidValue(f"dropout_implementation is {choices}, not {dropout_implementation!r}")
    helper = LayerHelper("dropout", name)
    attrs = {"dropout_prob": float(dropout_prob), "is_test": is_test, "dropout_implementation": dropout_implementation}
    # 0 means a new draw in every run.
    if seed:
        attrs |= {"seed": seed, "fix_seed": True}
    x = checked_input("dropout", x)
    # Along other axes all elements share one draw: ones of extent 1 there are dropped out, and broadcast.
    noise_input = x if axis is None else _ones_along(x, axis)
    out, _ = helper.append_all("dropout", {"X": noise_input}, ("Out", "Mask"), attrs, stopped=("Mask",))
    return out if axis is None else x * out


def _ones_along(x: Variable, axis: int | Sequence[int]) -> Variable:
    """Ones of the extents of x along some axes, and 1 along the others."""
    kept_axes = {at % x.ndim if -x.ndim <= at < x.ndim else at for at in axes_of(axis)}
    if not kept_axes <= set(range(x.ndim)):
        raise ShapeError(located(f"layers.dropout: axis={axis!r} is out of range for {x!r}", user_line()))
    other_axes = [at for at in range(x.ndim) if at not in kept_axes]
    ends = emitted("slice", [x], axes=other_axes, starts=[0] * len(other_axes), ends=[1] * len(other_axes)) if other_axes else x
    return emitted("fill_any_like", [ends], value=1.0)  # type: ignore[no-any-return]


@alike
@layer
def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: AttrLike = None,
    dtype: object = "float32",
    name: str | None = None,
) -> Variable:
    """Rows of a ``[count, width]`` table by integer ids.

    Args:
        input: ids. A last axis of extent 1 goes, as in ``fluid.layers.embedding``; other shapes keep theirs, as in Paddle 2.
        size: ``[count, width]``.
        is_sparse, is_distributed: hints without effect.
        padding_idx: the id whose row is zero and is not trained; a negative one counts from the end.

    Returns:
        The ids' shape (without a last axis of extent 1), and a last axis of ``width``.
    """
    with at_users_line("layers.embedding"):
        checked_flag("is_sparse", is_sparse)
        checked_flag("is_distributed", is_distributed)
        # Paddle says -1 for no padding; a negative index of a row counts from the end of the table.
        row = -1 if padding_idx is None else checked_int("padding_idx", padding_idx) % size[0]
        if padding_idx is not None and not -size[0] <= padding_idx < size[0]:
            raise InvalidValue(f"padding_idx is {padding_idx}, but the table has {size[0]} rows")
    helper = LayerHelper("embedding", name)
    ids = checked_input("embedding", input)
    w = helper.parameter(param_attr, "w", list(size), dtype_name(dtype))
    return helper.append("lookup_table" if has_last_one(ids) else "lookup_table_v2", {"Ids": ids, "W": w}, {"padding_idx": row})


@layer
def prelu(x: Variable, mode: str, param_attr: AttrLike = None, name: str | None = None, *, data_format: str = "NCHW") -> Variable:
    """``x`` where it is positive, else ``alpha * x``, alpha being trained (K. He et al., 2015).

    Args:
        mode: "all" has one alpha, "channel" one a channel, "element" one an element of a sample.
        data_format: "NCHW", or "NHWC" where the channels are last.
    """
    with at_users_line("layers.prelu"):
        x = checked_input("prelu", x)
        last = checked_format("data_format", data_format, ("NCHW", "NHWC"))
    ones = [1] * (len(x.shape) - 2)
    # Ones at the axes that share a slope, so that alpha broadcasts against x.
    by_channel = [1, *ones, *x.shape[-1:]] if last else [1, *x.shape[1:2], *ones]
    shapes = {"all": [1], "channel": by_channel, "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise InvalidValue(f"layers.prelu: mode is 'all', 'channel' or 'element', not {mode!r}")
    if -1 in shapes[mode]:
        raise ShapeError(f"layers.prelu: {x!r} has an unknown extent, so alpha of mode={mode!r} has no shape")
    helper = LayerHelper("prelu", name)
    alpha = helper.parameter(param_attr, "w", shapes[mode], x.dtype, Constant(0.25))
    return helper.append("prelu", {"X": x, "Alpha": alpha}, {"mode": mode})


@layer
def create_parameter(
    shape: Sequence[int],
    dtype: object,
    name: str | None = None,
    attr: AttrLike = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Variable:
    """A parameter by itself; a bias starts at zero, another one as Xavier's unless ``default_initializer`` or ``attr`` says otherwise."""
    parameters = as_param_attr(attr)
    helper = LayerHelper("create_parameter")
    default = default_initializer or (Constant(0.0) if is_bias else None)
    # A name in the attr is more particular than the argument's.
    if name is not None and parameters.name is None:
        return helper.parameter(as_param_attr(attr).named(name), "w", list(shape), dtype_name(dtype), default)
    return helper.parameter(parameters, "w", list(shape), dtype_name(dtype), default)


@layer
def create_global_var(
    shape: Sequence[int], value: float, dtype: object, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Variable:
    """A variable of block 0 that starts at a value, which the startup program gives it.

    It outlives a run whether ``persistable`` is set or not: what the startup program writes is read by other runs.
    """
    helper = LayerHelper("global_var")
    checked_flag("persistable", persistable)
    checked_flag("force_cpu", force_cpu)
    variable_name = name or helper.main.names.generate(helper.name)
    # Persistable whatever the flag says: other runs would find no value.
    var = helper.main.global_block().create_var(variable_name, shape, dtype_name(dtype), persistable=True, stop_gradient=True)
    helper.initialize(var, Constant(float(value)))
    return var


@layer
def create_tensor(dtype: object, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable without a shape yet, for ``layers.assign`` to write."""
    main = default_main_program()
    variable_name = name or main.names.generate("create_tensor")
    return main.current_block().create_var(variable_name, None, dtype_name(dtype), persistable=persistable)


# -- loss ------------------------------------------------------------------------------------------
# Costs and metrics.


@layer
def square_error_cost(input: Variable, label: Variable) -> Variable:
    """``(input - label) ** 2``, elementwise."""
    return LayerHelper("square_error_cost").append(
        "square_error_cost", {"X": checked_input("square_error_cost", input), "Y": checked_input("square_error_cost", label)}
    )


@layer
def mse(input: Variable, label: Variable) -> Variable:
    """The mean of the squared error, a scalar."""
    return mean(square_error_cost(input, label))


@layer
def mse_loss(input: Variable, label: Variable, *, reduction: str = "mean") -> Variable:
    """The mean of the squared error, a scalar; Fluid's name for ``mse``. As in Paddle 2 the ``reduction`` may be "sum" or "none"."""
    if reduction == "mean":
        return mse(input, label)
    with at_users_line("layers.mse_loss"):
        if reduction not in ("sum", "none"):
            raise InvalidValue(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    errors = square_error_cost(input, label)
    return errors.sum() if reduction == "sum" else errors


@layer
def mean(x: Variable, name: str | None = None, *, axis: int | Sequence[int] | None = None, keepdim: bool = False) -> Variable:
    """The mean of all elements, a scalar of shape []; with ``axis`` or ``keepdim``, as Paddle 2 has them, that along axes.

    The mean of integers is of float32.
    """
    if axis is not None or keepdim or checked_input("mean", x).dtype not in FLOATS:
        return checked_input("mean", x).mean(axis, keepdim=checked_flag("layers.mean: keepdim", keepdim))
    return LayerHelper("mean", name).append("mean", {"X": checked_input("mean", x)})


@layer
def cross_entropy(
    input: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    *,
    reduction: str | None = None,
    axis: int | None = None,
    use_softmax: bool | None = None,
) -> Variable:
    """``-log`` of the probability that ``input`` gives to the label; one value a row.

    With one of the last three it is Paddle 2's ``nn.functional.cross_entropy``: of ``softmax(input, axis)`` unless ``use_softmax=False``,
    with labels of one axis less or of extent 1 there, and the mean over what is not ignored unless ``reduction`` is "sum" or "none".
    """
    if reduction is not None or axis is not None or use_softmax is not None:
        along, softmax = (-1 if axis is None else axis), use_softmax is not False
        return _cross_entropy_of_paddle2(input, label, soft_label, ignore_index, reduction or "mean", along, softmax)
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index}
    inputs = {"X": checked_input("cross_entropy", input), "Label": checked_input("cross_entropy", label)}
    return LayerHelper("cross_entropy").append("cross_entropy", inputs, attrs, out="Y")


def _cross_entropy_of_paddle2(
    input: Variable, label: Variable, soft_label: bool, ignore_index: int, reduction: str, axis: int, use_softmax: bool
) -> Variable:
    with at_users_line("layers.cross_entropy"):
        x, classes = checked_input("cross_entropy", input), checked_input("cross_entropy", label)
        if reduction not in ("mean", "sum", "none"):
            raise InvalidValue(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    at = axis % x.ndim
    flat = not soft_label and classes.ndim < x.ndim
    labels = classes.unsqueeze(at) if flat else classes
    if use_softmax:
        losses = softmax_with_cross_entropy(x, labels, soft_label, ignore_index, axis=at)
    else:  # Fluid's operator has the classes last
        losses = cross_entropy(x.swapaxes(at, -1), labels.swapaxes(at, -1), soft_label, ignore_index).swapaxes(at, -1)
    if reduction == "none":
        return losses.squeeze(at) if flat else losses
    if reduction == "sum" or soft_label:
        return losses.sum() if reduction == "sum" else losses.mean()
    counted: Variable = (labels != ignore_index).astype(losses.dtype).sum()
    mean: Variable = losses.sum() / counted.maximum(1.0)
    return mean


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    return_softmax: Literal[False] = ...,
    axis: int = ...,
) -> Variable: ...
@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    *,
    return_softmax: Literal[True],
    axis: int = ...,
) -> tuple[Variable, Variable]: ...
@layer
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """Cross entropy of ``softmax(logits)``, computed without overflow; one value a row, and the softmax if requested."""
    with at_users_line("layers.softmax_with_cross_entropy"):
        for flag_name, flag in (
            ("soft_label", soft_label),
            ("numeric_stable_mode", numeric_stable_mode),
            ("return_softmax", return_softmax),
        ):
            checked_flag(flag_name, flag)
    helper = LayerHelper("softmax_with_cross_entropy")
    inputs = {"Logits": checked_input("softmax_with_cross_entropy", logits), "Label": checked_input("softmax_with_cross_entropy", label)}
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index, "axis": axis}
    softmax, loss = helper.append_all("softmax_with_cross_entropy", inputs, ("Softmax", "Loss"), attrs)
    return (loss, softmax) if return_softmax else loss


@layer
def accuracy(input: Variable, label: Variable, k: int = 1, correct: Variable | None = None, total: Variable | None = None) -> Variable:
    """The share of rows whose label is among the ``k`` largest entries, as a float32 of one element.

    ``correct`` and ``total`` are Variables to overwrite with the counts.
    """
    helper = LayerHelper("accuracy")
    slots = ("Out", "Indices")
    # The k largest first: accuracy compares their places with the label.
    values, indices = helper.append_all("top_k", {"X": checked_input("accuracy", input)}, slots, {"k": k}, stopped=slots)
    inputs = {"Out": values, "Indices": indices, "Label": checked_input("accuracy", label)}
    counts = ("Accuracy", "Correct", "Total")
    # Variables that were given are overwritten, under their names.
    outputs = {slot: var for slot, var in (("Correct", correct), ("Total", total)) if var is not None}
    fresh = [slot for slot in counts if slot not in outputs]
    result, *_ = helper.append_all("accuracy", inputs, fresh, written=outputs, stopped=fresh)
    return result
