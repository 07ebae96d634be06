"""Layers of networks that predict clicks: features normalized by all that was seen, and rows chosen by their tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.initializer import Constant
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import AttrLike, LayerHelper, ParamAttr, checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import OPTIMIZE, Variable
from graphad.program.source import at_users_line

# -- statistics of all that was seen ---------------------------------------------------------------

STARTS = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4, "scale_w": 1.0, "bias": 0.0}


class _Statistics(NamedTuple):
    """How many samples there were of each feature, their sum, and the sum of their squared distances from the mean."""

    size: Variable
    sum: Variable
    square: Variable


def _starts(param_attr: object) -> tuple[AttrLike, dict[str, float]]:
    """How the layer's own parameters are made, and what its statistics start from."""
    if not isinstance(param_attr, Mapping):
        return param_attr, STARTS  # type: ignore[return-value]  # parameters check it
    if unknown := sorted(set(param_attr) - set(STARTS)):
        raise InvalidValue(f"param_attr has {unknown}: {', '.join(STARTS)} are expected")
    return None, {**STARTS, **{name: checked_float(name, value) for name, value in param_attr.items()}}


def _present(x: Variable, slot_dim: int) -> Variable:
    """1 for each feature of a slot whose first feature, the number of times it was shown, is not 0."""
    slots = x.shape[1] // slot_dim
    first = emitted("slice", [emitted("reshape", [x], shape=[-1, slots, slot_dim])], axes=[2], starts=[0], ends=[1])
    shown = emitted("cast", [emitted("abs", [first]) >= 1e-7], out_dtype=x.dtype)
    present: Variable = emitted("reshape", [emitted("expand", [shown], expand_times=[1, 1, slot_dim])], shape=[-1, x.shape[1]])
    present.stop_gradient = True
    return present


def _update(statistics: _Statistics, x: Variable, mean: Variable, present: Variable | None, epsilon: float, decay: float) -> None:
    """Let the statistics decay a little and add a batch; a clone for tests does without."""
    block = x.block
    start = len(block.ops)
    weight = emitted("fill_any_like", [x], value=1.0) if present is None else present
    size, total = (emitted("reduce_sum", [each], dim=[0]) for each in (weight, x * weight))
    square = emitted("reduce_sum", [(x - mean) * (x - mean) * weight], dim=[0])
    if present is None:
        news = (size, total, square + size * epsilon)
    else:
        # A slot that was shown counts as one sample, the mean of its rows, as in Paddle's kernel.
        one = emitted("fill_any_like", [size], value=1.0)
        count = emitted("elementwise_max", [size, one])
        news = (emitted("elementwise_min", [size, one]), total / count, square / count + size * epsilon)
    for statistic, new in zip(statistics, news, strict=True):
        assign(statistic * decay + new, statistic)
    for op in block.ops[start:]:
        op.role = OPTIMIZE


@layer
def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-5,
    param_attr: Mapping[str, float] | AttrLike = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Features normalized by the mean and the spread of all samples that training has seen: ``(x - sum / size) * sqrt(size / square)``.

    Each run of a program that trains adds its samples to the statistics, after it has used them: ``size``, ``sum``, and ``square``, of
    distances from the mean, which are persistable. Each falls by ``summary_decay_rate`` before. A ``clone(for_test=True)`` leaves them.
    (Fluid passes a batch's own statistics as gradients to its parameter server, which does the same.)

    Args:
        input, act: ``[batch, features]``, and the activation.
        epsilon: is added to ``square`` for each sample.
        param_attr: what the statistics start from, a dict with ``"batch_size"``, ``"batch_sum"`` and ``"batch_square"`` (10000, 0, 10000),
            and for ``enable_scale_and_shift`` ``"scale_w"`` and ``"bias"`` (1, 0).
        data_layout, in_place, moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var: without effect.
        name: what the names of the statistics begin with.
        slot_dim: features come in groups of so many, and a group whose first feature is 0 was not shown: it becomes 0 and does not count.
        sync_stats, summary_decay_rate: False, since there is one process; what the statistics are multiplied by before a batch is added.
        enable_scale_and_shift: whether the result is scaled and shifted by parameters.

    Raises:
        ShapeError, ValueError: ``input`` or ``param_attr`` is something else; ``sync_stats`` is set.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()) as program, ga.scope_guard(ga.Scope()):
    ...     x = ga.data("x", [None, 1])
    ...     y = ga.layers.data_norm(x, param_attr={"batch_size": 1.0, "batch_square": 1.0}, summary_decay_rate=1.0)
    ...     _ = ga.Executor().run(ga.default_startup_program())
    ...     [ga.Executor().run(program, {"x": [[3.0]]}, [y])[0].item() for _ in range(2)]  # 3, then (3 - 3 / 2) * sqrt(2 / 10)
    [3.0, 0.6708200573921204]
    """
    x = checked_input("data_norm", input)
    with at_users_line("layers.data_norm"):
        _check_features(x, slot_dim, sync_stats)
        attr, starts = _starts(param_attr)
        decay, least = checked_float("summary_decay_rate", summary_decay_rate), checked_float("epsilon", epsilon)
    helper, width = LayerHelper("data_norm", name), [x.shape[1]]
    statistics = _statistics(helper, x, starts)
    mean = statistics.sum / statistics.size
    out = (x - mean) * emitted("sqrt", [statistics.size / statistics.square])
    if checked_flag("enable_scale_and_shift", enable_scale_and_shift):
        scale = helper.parameter(attr, "scale_w", width, x.dtype, Constant(starts["scale_w"]))
        out = out * scale + helper.parameter(ParamAttr(), "bias", width, x.dtype, Constant(starts["bias"]))
    present = _present(x, slot_dim) if slot_dim > 0 else None
    out = out if present is None else out * present
    _update(statistics, x, mean, present, least, decay)
    return helper.activate(out, act)


def _check_features(x: Variable, slot_dim: int, sync_stats: bool) -> None:
    if checked_flag("sync_stats", sync_stats):
        raise InvalidValue("sync_stats=True: a process has its own statistics")
    if len(x.shape) != 2 or x.shape[1] < 1:
        raise ShapeError(f"it takes [batch, features] with known features, not {x!r}")
    if checked_int("slot_dim", slot_dim) > 0 and x.shape[1] % slot_dim:
        raise ShapeError(f"slot_dim={slot_dim}: {x.shape[1]} features are no whole number of groups")


def _statistics(helper: LayerHelper, x: Variable, starts: Mapping[str, float]) -> _Statistics:
    parts = (("batch_size", "batch_size"), ("batch_sum", "batch_sum"), ("batch_square_sum", "batch_square"))
    made = (helper.persistable(suffix, [x.shape[1]], x.dtype, starts[key], f"{helper.name}.{suffix}") for suffix, key in parts)
    statistics = _Statistics(*made)
    for each in statistics:
        each.stop_gradient = True
    return statistics


# -- rows by tags ----------------------------------------------------------------------------------


@layer
def filter_by_instag(
    ins: Variable, ins_tag: Variable, filter_tag: Variable, is_lod: bool, out_val_if_empty: int = 0, *, length: Variable | None = None
) -> tuple[Variable, Variable]:
    """The rows that have one of some tags, and a weight of 1 for each; where none has, one row of a number, and the weight 0.

    Args:
        ins: rows, ``[batch, ...]``.
        ins_tag: the tags of each row, integers ``[batch, tags]``, padded.
        filter_tag: the tags that are wanted, integers ``[wanted]``.
        is_lod: whether a row is a sequence, ``[batch, time, ...]``; without effect, since sequences are padded.
        out_val_if_empty: the number where no row has such a tag.
        length: how many tags each row has, integers ``[batch]``; all if it is left out.

    Returns:
        The rows ``[rows, ...]``, and the weights, float32 ``[rows, 1]``: what a loss is multiplied by.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     rows, tags = ga.layers.assign([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), ga.layers.assign([[7, 1], [2, 2], [1, 3]])
    ...     chosen, weight = ga.layers.filter_by_instag(rows, tags, ga.layers.assign([1]), is_lod=False)
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[chosen, weight])]
    [[[1.0, 2.0], [5.0, 6.0]], [[1.0], [1.0]]]
    """
    rows, tags, wanted = (checked_input("filter_by_instag", each) for each in (ins, ins_tag, filter_tag))
    with at_users_line("layers.filter_by_instag"):
        checked_flag("is_lod", is_lod)
        value = checked_int("out_val_if_empty", out_val_if_empty)
        if len(tags.shape) != 2 or len(wanted.shape) != 1 or not rows.shape:
            raise ShapeError(f"ins_tag is {tags!r} and filter_tag is {wanted!r}: integers [batch, tags] and [wanted] are expected")
        if tags.dtype != wanted.dtype or not tags.dtype.startswith("int"):
            raise InvalidType(f"tags are integers of one dtype, not {tags.dtype} and {wanted.dtype}")
    has = tags.unsqueeze(-1) == wanted
    if length is not None:
        counts = checked_input("filter_by_instag", length)
        places = emitted("element_places", [emitted("cast", [tags], out_dtype="float32")], axis=1)
        has = has & (places < emitted("cast", [counts], out_dtype="float32").unsqueeze(-1)).unsqueeze(-1)
    fits = emitted("reduce_any", [has], dim=[1, 2])
    # A row of the number comes last, and is chosen where no other one is.
    last = emitted("fill_any_like", [rows[:1]], value=float(value))
    none = emitted("logical_not", [emitted("reduce_any", [fits], dim=[0], keep_dim=True)])
    kept = emitted("reshape", [emitted("where_index", [emitted("concat", [[fits, none]], axis=0)])], shape=[-1])
    ones = emitted("cast", [emitted("fill_any_like", [fits], value=1.0)], out_dtype="float32").unsqueeze(-1)
    weights = emitted("concat", [[ones, emitted("fill_constant", [], shape=[1, 1], dtype="float32", value=0.0)]], axis=0)
    weights.stop_gradient = True
    return emitted("gather", [emitted("concat", [[rows, last]], axis=0), kept], axis=0), emitted("gather", [weights, kept], axis=0)
