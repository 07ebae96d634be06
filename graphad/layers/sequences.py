"""Fluid's layers of sequences, on padded ones: ``[batch, time, ...]``, with ``length`` ``[batch]`` where they differ.

Fluid's tensors carry the lengths of their sequences (LoD). Here they are padded, and the layers take the lengths by keyword: a step beyond
the length of its sequence is never read. Without ``length`` all steps count. Steps of a result that are beyond the length are zero where
the layer says so, and mean nothing otherwise.

    LoD                                     padded
    x: rows 1 2 3 | 4                       x: [[1, 2, 3], [4, 0, 0]], length [3, 1]
    sequence_pool(x, "sum")  ⇒  6 | 4       sequence_pool(x, "sum", length=length)  ⇒  [6, 4]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.fluid import StaticRNN
from graphad.layers.functional import named
from graphad.layers.helper import AttrLike, LayerHelper, checked_activation, checked_input, emitted, layer
from graphad.layers.recurrent import RNNCell, rnn
from graphad.layers.shaping import sequence_mask
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line

_POOLS = ("average", "sum", "sqrt", "max", "last", "first")


def _sequences(what: str, x: object, least: int = 2) -> Variable:
    """Sequences ``[batch, time, ...]`` of so many axes or more."""
    with at_users_line(f"layers.{what}"):
        tensor = checked_input(what, x)
        if tensor.ndim < least:
            raise ShapeError(f"it takes sequences [batch, time{', ...' if least == 2 else ', width'}], not {tensor!r}")
    return tensor


def _lengths(what: str, length: object) -> Variable | None:
    """Lengths ``[batch]``, int64."""
    if length is None:
        return None
    flat = checked_input(what, length).reshape(-1)
    # One dtype for all lengths, so that they can be compared with the numbers of steps.
    return flat if flat.dtype == "int64" else flat.astype("int64")


def _time(x: Variable) -> Any:
    """The number of steps: an int, or a tensor of it."""
    return x.shape[1] if x.shape[1] >= 0 else emitted("shape", [x])[1].astype("int64")


def _inside(x: Variable, lengths: Variable | None) -> Variable | None:
    """Whether steps are within their sequences, as booleans ``[batch, time, 1, ...]`` that go with x; None if all are."""
    if lengths is None:
        return None
    mask: Variable = sequence_mask(lengths, _time(x), "bool")
    # [batch, time], which gets an axis for each of x's own.
    return mask.unsqueeze([*range(2, x.ndim)]) if x.ndim > 2 else mask


def _chosen(inside: Variable | None, x: Variable, otherwise: float) -> Variable:
    """The steps within their sequences, a number elsewhere."""
    if inside is None:
        return x
    return emitted("where", [inside, x, x._on("fill_any_like", value=float(otherwise))])  # type: ignore[no-any-return]


def _gathered(x: Variable, places: Variable) -> Variable:
    """The steps of each sequence at places ``[batch, n]``: ``[batch, n, ...]``."""
    return emitted("gather_nd", [x, _pairs(x, places)])  # type: ignore[no-any-return]


def _pairs(x: Variable, places: Variable) -> Variable:
    """Places ``[batch, n]`` along the second axis with the numbers of their rows: ``[batch, n, 2]``."""
    ones: Variable = emitted("fill_constant_batch_size_like", [x], shape=[-1, 1], dtype="int64", value=1.0)
    # The numbers of rows 0, 1, ...: sums of ones, since the number of samples is known only in the run.
    rows = ones.cumsum(0) - 1
    # Rows broadcast to as many columns as there are places.
    return emitted("stack", [[rows + places * 0, places]], axis=2)  # type: ignore[no-any-return]


def _steps(x: Variable) -> Variable:
    """The numbers of steps ``[1, time]``, int64."""
    count = _time(x)
    if isinstance(count, int):
        # One row for all sequences.
        return assign(np.arange(count, dtype="int64").reshape(1, -1))
    zero, unit = assign(np.array([0])), assign(np.array([1]))
    return emitted("range", [zero, count.reshape(1), unit]).unsqueeze(0)  # type: ignore[no-any-return]


# -- a value of each sequence --------------------------------------------------------------------


@layer
def sequence_pool(
    input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0, *, length: Variable | None = None
) -> Variable:
    """One value of each sequence: ``[batch, ...]`` of ``[batch, time, ...]``.

    Args:
        pool_type: "sum", "average", "sqrt" (the sum over the square root of the length), "max", "last" or "first".
        is_test: a hint without effect.
        pad_value: what a sequence of length 0 gives.
        length: how many steps each sequence has, ``[batch]``; all of them if None.

    Raises:
        ValueError: the kind is another one.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x, length = ga.layers.assign([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0]]), ga.layers.assign([3, 1])
    ...     sums = ga.layers.sequence_pool(x, "sum", length=length)
    >>> ga.Executor().run(program, fetch_list=[sums])[0].tolist()
    [6.0, 4.0]
    """
    x, lengths = _sequences("sequence_pool", input), _lengths("sequence_pool", length)
    with at_users_line("layers.sequence_pool"):
        checked_flag("is_test", is_test)
        kind = pool_type.lower() if isinstance(pool_type, str) else pool_type
        if kind not in _POOLS:
            raise InvalidValue(f"pool_type is {', '.join(map(repr, _POOLS))}, not {pool_type!r}")
        empty = checked_float("pad_value", pad_value)
    out = _pooled(x, kind, lengths)
    if lengths is None:
        return out
    # An empty sequence has nothing of its own to give.
    filled = (lengths > 0).reshape(-1, *[1] * (out.ndim - 1))
    return _chosen(filled, out, empty)


def _pooled(x: Variable, kind: str, lengths: Variable | None) -> Variable:
    if kind == "first":
        return x[:, 0]
    # Of an empty sequence the first step, which is replaced afterwards.
    if kind == "last":
        return x[:, -1] if lengths is None else _gathered(x, (lengths - 1).maximum(0).unsqueeze(1)).squeeze(1)
    inside = _inside(x, lengths)
    if kind == "max":
        # The least number there is loses against every step that counts.
        return _chosen(inside, x, float(np.finfo(x.dtype).min) if x.dtype.startswith("float") else np.iinfo(x.dtype).min).max(1)
    total = _chosen(inside, x, 0.0).sum(1)
    if kind == "sum":
        return total
    if lengths is None:
        # As many ones as there are steps, counted in the program: the time may not be known before.
        share = x._on("fill_any_like", value=1.0).sum(1)
    else:
        # An empty sequence divides by one, not by zero.
        share = lengths.maximum(1).astype(x.dtype).reshape(-1, *[1] * (x.ndim - 2))
    return total / (share if kind == "average" else share.sqrt())


@layer
def sequence_first_step(input: Variable, *, length: Variable | None = None) -> Variable:
    """The first step of each sequence: ``sequence_pool(input, "first")``."""
    return sequence_pool(input, "first", length=length)


@layer
def sequence_last_step(input: Variable, *, length: Variable | None = None) -> Variable:
    """The last step of each sequence: ``sequence_pool(input, "last", length=length)``."""
    return sequence_pool(input, "last", length=length)


# -- sequences of the same lengths ---------------------------------------------------------------


@layer
def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, *, length: Variable | None = None) -> Variable:
    """Softmax over the steps of each sequence, ``[batch, time]`` or ``[batch, time, 1]``; 0 beyond their lengths."""
    x = _sequences("sequence_softmax", input)
    checked_flag("layers.sequence_softmax: use_cudnn", use_cudnn)
    inside = _inside(x, _lengths("sequence_softmax", length))
    # Half of the least number: nothing overflows when the maximum is subtracted. Its exponential is 0.
    shares = _chosen(inside, x, float(np.finfo(x.dtype).min) / 2).softmax(1)
    return named(_chosen(inside, shares, 0.0), name)


@layer
def sequence_reverse(x: Variable, name: str | None = None, *, length: Variable | None = None) -> Variable:
    """The steps of each sequence in the opposite order; those beyond its length stay."""
    sequences, lengths = _sequences("sequence_reverse", x), _lengths("sequence_reverse", length)
    if lengths is None:
        return emitted("flip", [sequences], name, axis=[1])  # type: ignore[no-any-return]
    # Within a sequence the mirrored place, beyond it the step itself.
    column, steps = lengths.unsqueeze(1), _steps(sequences)
    places = emitted("where", [steps < column, column - 1 - steps, steps + column * 0])
    return named(_gathered(sequences, places), name)


@layer
def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """The sequences of a batch in the order of lengths, the longest first; of those of one length the first stays first.

    Args:
        x: ``[batch, ...]``: sequences, or anything else that has a row for each of them.
        rank_table: the lengths to rank by, ``[batch]``, int32 or int64; in Fluid, where tensors carry their lengths, a table of these.

    Raises:
        TypeError: one of them is not a Variable, or lengths are not integers.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     rows = ga.layers.assign([[1, 0, 0], [2, 3, 4], [5, 6, 0]])
    ...     ga.Executor().run(ga.default_main_program(), {}, [ga.layers.reorder_lod_tensor_by_rank(rows, ga.layers.assign([1, 3, 2]))])[0]
    array([[2, 3, 4],
           [5, 6, 0],
           [1, 0, 0]])
    """
    what = "reorder_lod_tensor_by_rank"
    rows, lengths = checked_input(what, x), checked_input(what, rank_table)
    if lengths.dtype not in ("int32", "int64"):
        raise InvalidType(f"layers.{what}: rank_table are lengths of sequences, int32 or int64, not {lengths!r}")
    _, order = emitted("argsort", [lengths.reshape(-1)], axis=0, descending=True)
    return emitted("gather", [rows, order], axis=0)  # type: ignore[no-any-return]


@layer
def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None, *, length: Variable | None = None
) -> Variable:
    """Each step with the ``win_size - 1`` after it, of ids ``[batch, time]``: ``[batch, time, win_size]``; ``pad_value`` beyond the end."""
    ids, lengths = _sequences("sequence_enumerate", input), _lengths("sequence_enumerate", length)
    flat = ids.squeeze(-1) if ids.ndim == 3 else ids
    # Windows that reach over the end see the fill.
    count, fill = checked_int("layers.sequence_enumerate: win_size", win_size, 1), checked_int("pad_value", pad_value)
    flat = _chosen(_inside(flat, lengths), flat, fill)
    # So much more at the end that each step has a whole window.
    longer = emitted("pad", [flat], paddings=[0, 0, 0, count - 1], pad_value=float(fill))
    windows = [longer[:, step : step + 1 - count] if step + 1 < count else longer[:, step:] for step in range(count)]
    return emitted("stack", [windows], name, axis=2)  # type: ignore[no-any-return]


@layer
def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: AttrLike = None,
    param_attr: AttrLike = None,
    act: str | None = None,
    name: str | None = None,
    *,
    length: Variable | None = None,
) -> Variable:
    """A convolution over the steps of sequences ``[batch, time, width]``: ``[batch, time, num_filters]``.

    Args:
        filter_size: how many steps a window has. The weight is ``[filter_size * width, num_filters]``, the first step's rows first.
        filter_stride: 1.
        padding_start: where a window begins, before its step if it is negative; ``-(filter_size // 2)`` if None. Steps that are not
            there are zero, as they are where ``padding`` is a hint in Fluid.
    """
    x, lengths = _sequences("sequence_conv", input, 3), _lengths("sequence_conv", length)
    with at_users_line("layers.sequence_conv"):
        filters, size = checked_int("num_filters", num_filters, 1), checked_int("filter_size", filter_size, 1)
        checked_flag("padding", padding)
        if filter_stride != 1:
            raise InvalidValue(f"filter_stride is 1, as in Fluid, not {filter_stride!r}")
        start = -(size // 2) if padding_start is None else checked_int("padding_start", padding_start)
        if x.ndim != 3 or x.shape[2] < 1:
            raise ShapeError(f"it takes sequences [batch, time, width] of known width, not {x!r}")
    helper = LayerHelper("sequence_conv", name)
    weight = helper.parameter(param_attr, "w", [size * x.shape[2], filters], x.dtype)
    padded = _chosen(_inside(x, lengths), x, 0.0)
    before, after = max(-start, 0), max(start + size - 1, 0)
    longer = emitted("pad", [padded], paddings=[0, 0, before, after, 0, 0], pad_value=0.0)
    # Window k of the longer sequence begins ``before + start + k`` steps in, and has as many steps as x.
    firsts = [before + start + step for step in range(size)]
    windows = [_from(longer, first, before + after - first) for first in firsts]
    out = emitted("concat", [windows], axis=2) @ weight
    bias = helper.bias(bias_attr, [filters], x.dtype)
    return helper.activate(out if bias is None else out + bias, act)


def _from(x: Variable, start: int, less: int) -> Variable:
    """The steps from one on, without so many at the end."""
    return x[:, start:] if not less else x[:, start:-less]


# -- sequences of other lengths ------------------------------------------------------------------


@layer
def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None, *, length: Variable | None = None
) -> tuple[Variable, Variable]:
    """Sequences with a value beyond their lengths, and the lengths ``[batch]``.

    Args:
        pad_value: one element, or the shape of a step.
        maxlen: the number of steps of the result; that of x if None. x has a known number of steps then.
    """
    sequences, lengths = _sequences("sequence_pad", x), _lengths("sequence_pad", length)
    value = checked_input("sequence_pad", pad_value)
    if lengths is None:
        # Without lengths every sequence is as long as the tensor.
        ones = emitted("fill_constant_batch_size_like", [sequences], shape=[-1], dtype="int64", value=1.0)
        lengths = ones * _time(sequences)
    if maxlen is not None:
        sequences = _resized(sequences, checked_int("layers.sequence_pad: maxlen", maxlen, 1))
    inside = _inside(sequences, lengths)
    # One element for all, or a step of its own shape.
    fill = value.reshape([]) if value.size == 1 else value
    return named(emitted("where", [inside, sequences, fill]), name), lengths


def _resized(x: Variable, count: int) -> Variable:
    """The sequences with ``count`` steps, cut or filled up with zeros."""
    if x.shape[1] < 0:
        raise ShapeError(f"layers.sequence_pad: maxlen needs sequences with a known number of steps, not {x!r}")
    if count <= x.shape[1]:
        return x[:, :count]
    return emitted("pad", [x], paddings=[0, 0, 0, count - x.shape[1], *[0, 0] * (x.ndim - 2)], pad_value=0.0)  # type: ignore[no-any-return]


@layer
def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Sequences with zeros beyond their lengths: what Fluid cuts off."""
    sequences = _sequences("sequence_unpad", x)
    return named(_chosen(_inside(sequences, _lengths("sequence_unpad", length)), sequences, 0.0), name)


@layer
def sequence_concat(input: Sequence[Variable], name: str | None = None, *, length: Sequence[Variable] | None = None) -> Variable:
    """The steps of several sequences of each sample, one after the other; zeros after the last one.

    ``length`` is a list, the lengths of each tensor. Those of the result are their sums.
    """
    if not isinstance(input, list | tuple) or not input:
        raise InvalidType(f"layers.sequence_concat takes a list of tensors, not {input!r}")
    parts = [_sequences("sequence_concat", item) for item in input]
    concatenation: Variable = emitted("concat", [parts], name if length is None else None, axis=1)
    if length is None:
        return concatenation
    if not isinstance(length, list | tuple) or len(length) != len(parts):
        raise InvalidType(f"layers.sequence_concat: length is a list of {len(parts)} tensors, not {length!r}")
    steps = _steps(concatenation)
    places, padded, filled = steps, 0, assign(np.zeros((1, 1), "int64"))
    # Where a part begins among the steps that count, the steps of padding before it are skipped from there on.
    for part, lengths in zip(parts, length, strict=True):
        count = checked_input("sequence_concat", lengths).reshape(-1, 1).astype("int64")
        begins = (steps >= filled + count).astype("int64")
        places = places + begins * (_time(part) - count)
        # The next part begins after the steps of this one that count.
        filled, padded = filled + count, padded + _time(part)
    inside = steps < filled
    # Beyond the last step the places mean nothing, but they have to exist.
    rows = _gathered(concatenation, places.minimum(padded - 1))
    return named(_chosen(inside.unsqueeze([*range(2, rows.ndim)]) if rows.ndim > 2 else inside, rows, 0.0), name)


@layer
def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """A slice of each sequence: ``length`` steps from ``offset`` on, ``[batch]`` or ``[batch, 1]`` each; zeros after them."""
    x, lengths = _sequences("sequence_slice", input), _lengths("sequence_slice", length)
    starts = checked_input("sequence_slice", offset).reshape(-1, 1).astype("int64")
    # Kept within the tensor; what is beyond the length is zero afterwards.
    places = (_steps(x) + starts).minimum(_time(x) - 1)
    return named(_chosen(_inside(x, lengths), _gathered(x, places), 0.0), name)


@layer
def sequence_expand_as(x: Variable, y: Variable, name: str | None = None, *, length: Variable | None = None) -> Variable:
    """A row of each sample at all steps of its sequence in y: ``[batch, time, ...]`` of ``[batch, ...]``; zeros beyond the length."""
    rows, sequences = checked_input("sequence_expand_as", x), _sequences("sequence_expand_as", y)
    lengths = _lengths("sequence_expand_as", length)
    # A one for each step, to multiply rows by: time may be unknown.
    mask: Variable = emitted(
        "fill_any_like", [sequences if sequences.ndim == 2 else sequences.flatten(2)[:, :, 0]], value=1.0, dtype=rows.dtype
    )
    repeated = rows.unsqueeze(1) * mask.reshape(0, 0, *[1] * (rows.ndim - 1))
    return named(_chosen(_inside(repeated, lengths), repeated, 0.0), name)


@layer
def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None, *, length: Variable | None = None) -> Variable:
    """``sequence_expand_as``: x has one row for each sequence of y, whose lengths have one level (``ref_level`` -1 or 0)."""
    if checked_int("layers.sequence_expand: ref_level", ref_level) not in (-1, 0):
        raise InvalidValue(f"layers.sequence_expand: lengths have one level here: ref_level is -1 or 0, not {ref_level}")
    return sequence_expand_as(x, y, name, length=length)


@layer
def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Steps of another width: ``[batch, time * width / new_dim, new_dim]``; lengths change as the number of steps does."""
    x, width = _sequences("sequence_reshape", input, 3), checked_int("layers.sequence_reshape: new_dim", new_dim, 1)
    if x.ndim != 3 or min(x.shape[1:]) < 1 or x.shape[1] * x.shape[2] % width:
        raise ShapeError(f"layers.sequence_reshape takes [batch, time, width] of known extents whose product {width} divides, not {x!r}")
    return emitted("reshape", [x], shape=[-1, x.shape[1] * x.shape[2] // width, width])  # type: ignore[no-any-return]


@layer
def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None, *, length: Variable | None = None
) -> Variable:
    """A matrix ``[batch, n]`` to whose rows updates are added at places, both ``[batch, time]``."""
    x, places = checked_input("sequence_scatter", input), _sequences("sequence_scatter", index)
    numbers, lengths = _sequences("sequence_scatter", updates), _lengths("sequence_scatter", length)
    flat, at = (item.squeeze(-1) if item.ndim == 3 else item for item in (numbers, places))
    inside = _inside(flat, lengths)
    # Steps beyond a length add 0 to element 0.
    pairs = _pairs(x, _chosen(inside, at.astype("int64"), 0.0))
    return emitted("scatter_nd_add", [x, pairs, _chosen(inside, flat, 0.0)], name)  # type: ignore[no-any-return]


# -- recurrent networks --------------------------------------------------------------------------


def _function(what: str, activation: object) -> Any:
    # "identity" is no operator.
    if activation == "identity":
        return lambda x: x
    op = checked_activation(activation)
    return lambda x: emitted(op, [x])


class _PeepholeCell(RNNCell):
    """A step of Fluid's ``dynamic_lstm``, from its share of the sums: candidate, input gate, forget gate, output gate."""

    def __init__(
        self, weight: Variable, peepholes: Sequence[Variable], functions: Sequence[Any], project: Any, cell_clip: float | None
    ) -> None:
        self.weight, self.peepholes, self.project, self.cell_clip = weight, peepholes, project, cell_clip
        self.gate, self.of_cell, self.candidate = functions

    def call(self, inputs: Any, states: Any, **kwargs: object) -> tuple[Any, Any]:
        hidden, cell = states
        candidate, take, keep, give = (inputs + hidden @ self.weight).split(4, 1)
        if self.peepholes:
            # Peepholes (F. Gers and J. Schmidhuber, 2000): two gates look at the old cell, the one of the output at the new cell.
            take, keep = take + cell * self.peepholes[0], keep + cell * self.peepholes[1]
        new = self.gate(take) * self.candidate(candidate) + self.gate(keep) * cell
        if self.cell_clip is not None:
            new = new.clip(-self.cell_clip, self.cell_clip)
        give = give + new * self.peepholes[2] if self.peepholes else give
        out = self.project(self.gate(give) * self.of_cell(new))
        return [out, new], [out, new]


class _GateCell(RNNCell):
    """A step of Fluid's ``dynamic_gru``."""

    def __init__(self, weight: Variable, attrs: dict[str, Any]) -> None:
        self.weight, self.attrs = weight, attrs

    def call(self, inputs: Any, states: Any, **kwargs: object) -> tuple[Any, Any]:
        _, _, hidden = emitted("gru_unit", [inputs, states, self.weight], **self.attrs)
        return hidden, hidden


def _first_state(x: Variable, given: Variable | None, width: int) -> Variable:
    if given is not None:
        return given
    return emitted("fill_constant_batch_size_like", [x], shape=[-1, width], dtype=x.dtype, value=0.0)  # type: ignore[no-any-return]


def _lstm(
    what: str,
    x: Variable,
    width: int,
    attrs: tuple[AttrLike, AttrLike],
    options: dict[str, Any],
    states: tuple[Variable | None, Variable | None],
    name: str | None,
    length: Variable | None,
) -> tuple[Variable, Variable]:
    """Both recurrences of Fluid's LSTMs over padded sequences."""
    # The sums of all four gates come as the input; the layer adds the share of the state alone.
    if x.ndim != 3 or x.shape[2] != 4 * width:
        raise ShapeError(f"layers.{what} takes sums [batch, time, size] of a known size that 4 divides, not {x!r}")
    helper = LayerHelper(what, name)
    outward, use_peepholes = options["proj_size"] or width, checked_flag(f"layers.{what}: use_peepholes", options["use_peepholes"])
    weight = helper.parameter(attrs[0], "w", [outward, 4 * width], x.dtype)
    project: Any = lambda h: h  # noqa: E731
    if options["proj_size"]:
        # As in Fluid both weights are made by param_attr: the second under a name of its own.
        own = None if getattr(attrs[0], "name", None) is None and not isinstance(attrs[0], str) else f"{weight.name}_proj"
        second = helper.parameter(own or attrs[0], "w", [width, outward], x.dtype)
        activate, bound = _function(what, options["proj_activation"]), options["proj_clip"]

        def project(h: Variable) -> Variable:
            out: Variable = activate(h @ second)
            return out if bound is None else out.clip(-float(bound), float(bound))

    bias = helper.bias(attrs[1], [1, (7 if use_peepholes else 4) * width], x.dtype)
    # Paddle's bias: four gates, and then the three peepholes.
    peepholes = [] if bias is None or not use_peepholes else [bias[:, k * width : (k + 1) * width] for k in (4, 5, 6)]
    sums = x if bias is None else x + bias[:, : 4 * width]
    kinds = [_function(what, options[kind]) for kind in ("gate_activation", "cell_activation", "candidate_activation")]
    clip = None if options["cell_clip"] is None else checked_float(f"layers.{what}: cell_clip", options["cell_clip"])
    cell = _PeepholeCell(weight, peepholes, kinds, project, clip)
    first = [_first_state(x, states[0], outward), _first_state(x, states[1], width)]
    outputs, _ = rnn(cell, sums, first, length, is_reverse=checked_flag(f"layers.{what}: is_reverse", options["is_reverse"]))
    return outputs[0], outputs[1]


@layer
def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: object = "float32",
    name: str | None = None,
    *,
    length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM (S. Hochreiter and J. Schmidhuber, 1997) over sequences whose share of the sums is given, with peepholes (F. Gers, 2000).

    Args:
        input: ``[batch, time, size]``, as ``fc(x, size, num_flatten_dims=2)`` gives it.
        size: four times the width of the state.
        h_0, c_0: the states before, ``[batch, size / 4]``; zeros if None.
        param_attr: the weight ``[size / 4, size]``: of candidate, input gate, forget gate, output gate.
        bias_attr: ``[1, size]`` in the same order; with peepholes ``[1, 7 * size / 4]``, theirs of the three gates last.
        dtype: a hint: it is that of ``input``.
        length: the number of steps of each sequence, ``[batch]``.

    Returns:
        The hidden states and the cells of all steps, ``[batch, time, size / 4]``.
    """
    options = {"use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation, "cell_clip": None}
    options |= {"cell_activation": cell_activation, "candidate_activation": candidate_activation, "proj_size": 0}
    width = checked_int("layers.dynamic_lstm: size", size, 4) // 4
    x = _sequences("dynamic_lstm", input, 3)
    return _lstm("dynamic_lstm", x, width, (param_attr, bias_attr), options, (h_0, c_0), name, length)


@layer
def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: object = "float32",
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
    *,
    length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """``dynamic_lstm`` whose hidden state is projected to ``proj_size`` (H. Sak et al., 2014): the projections and the cells.

    The weight of the recurrence is ``[proj_size, size]``, that of the projection ``[size / 4, proj_size]``.
    """
    options = {"use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation, "cell_clip": cell_clip}
    options |= {"cell_activation": cell_activation, "candidate_activation": candidate_activation, "proj_clip": proj_clip}
    options |= {"proj_size": checked_int("layers.dynamic_lstmp: proj_size", proj_size, 1), "proj_activation": proj_activation}
    width = checked_int("layers.dynamic_lstmp: size", size, 4) // 4
    x = _sequences("dynamic_lstmp", input, 3)
    return _lstm("dynamic_lstmp", x, width, (param_attr, bias_attr), options, (h_0, c_0), name, length)


_UNITS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


@layer
def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
    *,
    length: Variable | None = None,
) -> Variable:
    """A GRU (K. Cho et al., 2014) over sequences whose share of the sums is given: the states of all steps, ``[batch, time, size]``.

    Args:
        input: ``[batch, time, 3 * size]``: of update gate, reset gate, candidate.
        param_attr: the weight ``[size, 3 * size]``; ``bias_attr``: ``[1, 3 * size]``.
        origin_mode: whether the update gate says how much of the state before is kept.
        length: the number of steps of each sequence, ``[batch]``.
    """
    x, width = _sequences("dynamic_gru", input, 3), checked_int("layers.dynamic_gru: size", size, 1)
    with at_users_line("layers.dynamic_gru"):
        if x.ndim != 3 or x.shape[2] != 3 * width:
            raise ShapeError(f"it takes sums [batch, time, {3 * width}], three times the size, not {x!r}")
        if gate_activation not in _UNITS or candidate_activation not in _UNITS:
            raise InvalidValue(f"activations are {', '.join(map(repr, _UNITS))}, not {gate_activation!r} and {candidate_activation!r}")
        attrs = {"gate_activation": _UNITS[gate_activation], "activation": _UNITS[candidate_activation], "origin_mode": origin_mode}
    helper = LayerHelper("dynamic_gru")
    weight = helper.parameter(param_attr, "w", [width, 3 * width], x.dtype)
    bias = helper.bias(bias_attr, [1, 3 * width], x.dtype)
    cell, first = _GateCell(weight, attrs), _first_state(x, h_0, width)
    backwards = checked_flag("layers.dynamic_gru: is_reverse", is_reverse)
    states, _ = rnn(cell, x if bias is None else x + bias, first, length, is_reverse=backwards)
    return states  # type: ignore[no-any-return]


class DynamicRNN(StaticRNN):
    """A network that is run for each step of padded sequences ``[batch, time, ...]``; memories stay as they are beyond their lengths.

    Args:
        name: what its variables are called after.
        length: the number of steps of each sequence, ``[batch]``; all of them if None.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x, length = ga.layers.assign([[[1.0], [2.0]], [[5.0], [9.0]]]), ga.layers.assign([2, 1])
    ...     network = ga.layers.DynamicRNN(length=length)
    ...     with network.block():
    ...         word = network.step_input(x)
    ...         total = network.memory(shape=[1], value=0.0)
    ...         network.update_memory(total, total + word)
    ...         network.output(total + word)
    ...     sums = network()
    >>> ga.Executor().run(program, fetch_list=[sums])[0].tolist()
    [[[1.0], [3.0]], [[5.0], [0.0]]]
    """

    def __init__(self, name: str | None = None, *, length: Variable | None = None) -> None:
        super().__init__(name)
        self._length = length
        self._first: Variable | None = None  # the first step input
        self._keep: Variable | None = None  # ones for the sequences that have this step, [batch]

    @contextmanager
    def block(self) -> Iterator[None]:
        """Within it, layers write into the block that is run for each step."""
        with self.step():
            yield

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The step's part of sequences ``[batch, time, ...]``. ``level`` is 0: lengths have one level here."""
        with at_users_line("layers.DynamicRNN"):
            step = self._inside("step_input")
            sequences = _sequences("DynamicRNN.step_input", x)
            if level != 0:
                raise InvalidValue(f"lengths have one level here: level is 0, not {level!r}")
        # Time comes first: a loop takes a row of its sequences in each step.
        order = [1, 0, *range(2, sequences.ndim)]
        part = super().step_input(step.append(step.around, "tmp", "transpose", {"X": sequences}, {"axis": order}))
        if self._first is None:
            self._first = part
            if self._length is not None:
                self._keep = super().step_input(self._counted(sequences))
        return part

    def _counted(self, sequences: Variable) -> Variable:
        """Ones ``[time, batch]`` for the steps that count, computed before the loop."""
        # Steps as a column and lengths as a row: the comparison has an element for each step of each sequence.
        step = self._inside("step_input")
        steps = step.numbers(sequences, 1)
        lengths = step.append(step.around, "tmp", "reshape", {"X": self._length}, {"shape": [1, -1]})
        lengths = step.append(step.around, "tmp", "cast", {"X": lengths}, {"out_dtype": "int64"})
        inside = step.append(step.around, "tmp", "less_than", {"X": steps, "Y": lengths})
        return step.append(step.around, "tmp", "cast", {"X": inside}, {"out_dtype": sequences.dtype})

    def static_input(self, x: Variable) -> Variable:
        """A tensor from outside that is the same in each step."""
        with at_users_line("layers.DynamicRNN"):
            self._inside("static_input")
        return checked_input("DynamicRNN.static_input", x)

    def memory(  # type: ignore[override]
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: object = "float32",
    ) -> Variable:
        """A value that each step passes to the next one: ``init``, or one number in ``[batch, *shape]``.

        ``need_reorder`` is a hint (sequences stay in their order), as is ``dtype``: it is that of the first step input.
        """
        if init is not None or self._first is None or shape is None:
            return super().memory(init, shape, self._first, value)
        return super().memory(None, [-1, *shape], self._first, value)

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Say what a memory is in the next step."""
        state = new_mem
        if self._keep is not None and isinstance(ex_mem, Variable) and isinstance(new_mem, Variable):
            keep = self._keep.reshape(-1, *[1] * (new_mem.ndim - 1))
            state = new_mem * keep + ex_mem * (1.0 - keep)
        super().update_memory(ex_mem, state)

    def output(self, *outputs: Variable) -> None:
        """Say what a step gives; the network gives those of all steps, zero beyond the lengths."""
        for item in outputs:
            keep = None if self._keep is None or not isinstance(item, Variable) else self._keep.reshape(-1, *[1] * (item.ndim - 1))
            super().step_output(item if keep is None else item * keep)

    def __call__(self) -> Any:
        """The outputs of all steps, ``[batch, time, ...]``: one Variable, or a list if there are several."""
        outputs = super().__call__()
        several = outputs if isinstance(outputs, list) else [outputs]
        swapped = [emitted("transpose", [item], axis=[1, 0, *range(2, item.ndim)]) for item in several]
        return swapped if isinstance(outputs, list) else swapped[0]
