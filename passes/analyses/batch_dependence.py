"""How values depend on the batch: what they are of a part of its rows.

    whole    the same whatever the batch is                  parameters, constants
    rows     row i is made of row i of the data              mul(x, w), relu, softmax over other axes
    mean     the mean over the rows                          mean, reduce_mean over axis 0, and what is affine in one
    total    the sum over the rows                           reduce_sum over axis 0
    mixed    anything else, or not known                     a maximum over the batch, statistics of the batch

Of the parts of a batch that is cut into parts of one size, ``rows`` are put together one behind the other, ``mean`` by the mean,
``total`` by the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphad.graph import Op, Value
from graphad.program import FORWARD
from graphad.types import FLOATS

WHOLE, ROWS, MEAN, TOTAL, MIXED = "whole", "rows", "mean", "total", "mixed"
Kinds = Mapping[Value, str]
Rule = Callable[[Op, Kinds], str]


def batch_dependence(ops: Sequence[Op], data: Sequence[Value]) -> dict[Value, str]:
    """What every value that the operators read or write is of the batch, ``data`` being its rows.

    Args:
        ops: operators in an order in which they can run; those of the forward part are looked at.
        data: the values whose axis 0 is the batch.
    """
    kinds = dict.fromkeys(data, ROWS)
    for op in ops:
        for value in op.reads():
            kinds.setdefault(value, WHOLE)
        if op.role == FORWARD:
            kind = _kind(op, kinds)
            kinds.update((value, kind) for value in op.writes())
    return kinds


def _kind(op: Op, kinds: Kinds) -> str:
    row, read = op.row, [kinds[value] for value in op.reads()]
    if row is None or row.random or row.side_effect:
        return MIXED
    if all(kind == WHOLE for kind in read):
        return WHOLE
    if MIXED in read or op.graphs:
        return MIXED
    rule = RULES.get(op.type)
    return MIXED if rule is None else rule(op, kinds)


def _attr(op: Op, name: str) -> object:
    row = op.row
    assert row is not None
    return row.attr(name, op.attrs)


def _rank(value: Value) -> int:
    return -1 if value.shape is None else len(value.shape)


# -- one rule for each family of operators -------------------------------------------------------


def _by_element(op: Op, kinds: Kinds) -> str:
    """Each element by itself: rows stay rows, what is not affine makes something else of a mean."""
    return ROWS if {kinds[v] for v in op.reads()} <= {ROWS, WHOLE} and _aligned(op, kinds) else MIXED


def _aligned(op: Op, kinds: Kinds) -> bool:
    """Whether the rows of all inputs lie along axis 0 of the output, and nothing else does."""
    rank = max(map(_rank, op.reads()))
    for value in op.reads():
        if kinds[value] == ROWS and _rank(value) != rank:
            return False
        if kinds[value] == WHOLE and not _lies_beside(op, value, rank):
            return False
    return rank > 0


def _lies_beside(op: Op, value: Value, rank: int) -> bool:
    """Whether a value that does not know the batch is broadcast along axis 0."""
    if value.shape is None:
        return False
    if len(value.shape) == rank:
        return value.shape[0] == 1
    row = op.row
    axis = row.attr("axis", op.attrs) if row is not None and "axis" in row.attrs else -1
    return axis != 0 or not value.shape or value.shape == (1,)


def _affine(op: Op, kinds: Kinds) -> str:
    """Sums and differences: those of means are means, those of totals totals."""
    read = {kinds[v] for v in op.reads()}
    if read <= {MEAN, WHOLE}:
        return MEAN if _same_shapes(op) else MIXED
    if read == {TOTAL}:
        return TOTAL if _same_shapes(op) else MIXED
    return _by_element(op, kinds)


def _same_shapes(op: Op) -> bool:
    return all(value.shape is not None for value in op.reads())


def _scaled(op: Op, kinds: Kinds) -> str:
    kind = kinds[op.input("X")]
    if op.type == "cast" and kind != ROWS and _attr(op, "out_dtype") not in FLOATS:
        return MIXED
    biased = op.type == "increment" or (op.type == "scale" and bool(_attr(op, "bias")))
    return MIXED if kind == TOTAL and biased else kind


def _product(op: Op, kinds: Kinds) -> str:
    """A product with what does not know the batch is linear."""
    read = {kinds[v] for v in op.reads()}
    if read == {MEAN, WHOLE} or read == {TOTAL, WHOLE}:
        return (read - {WHOLE}).pop()
    return _by_element(op, kinds)


def _quotient(op: Op, kinds: Kinds) -> str:
    if kinds[op.input("X")] in (MEAN, TOTAL) and kinds[op.input("Y")] == WHOLE:
        return kinds[op.input("X")]
    return _by_element(op, kinds)


def _matrix_product(op: Op, kinds: Kinds) -> str:
    x, y = op.input("X"), op.input("Y")
    turned = any(bool(op.attrs.get(name)) for name in ("trans_x", "transpose_X")) and _rank(x) < 3
    if kinds[x] != ROWS or turned or _rank(x) < 2:
        return MIXED
    if kinds[y] == WHOLE:
        return ROWS if op.type == "mul" or 0 < _rank(y) < max(_rank(x), 3) else MIXED
    return ROWS if kinds[y] == ROWS and _rank(x) == _rank(y) >= 3 and op.type != "mul" else MIXED


def _first_input(op: Op, kinds: Kinds) -> str:
    """Rows of the first input, each by itself; the others do not know the batch."""
    first, *others = op.reads()
    return ROWS if kinds[first] == ROWS and all(kinds[v] == WHOLE for v in others) else MIXED


def _lookup(op: Op, kinds: Kinds) -> str:
    return ROWS if kinds[op.input("W")] == WHOLE and kinds[op.input("Ids")] == ROWS else MIXED


def _fixed_statistics(op: Op, kinds: Kinds) -> str:
    return _first_input(op, kinds) if _attr(op, "is_test") or _attr(op, "use_global_stats") else MIXED


def _all_rows(op: Op, kinds: Kinds) -> str:
    return ROWS if all(kinds[v] == ROWS for v in op.reads()) else MIXED


def _along(name: str, more: Rule = _all_rows) -> Rule:
    """Something along one axis, which is not the batch."""

    def rule(op: Op, kinds: Kinds) -> str:
        axis, rank = _attr(op, name), max(map(_rank, op.reads())) + (op.type == "stack")
        inside = isinstance(axis, int) and rank > 1 and axis % rank != 0
        return more(op, kinds) if inside else MIXED

    return rule


def _reduced(op: Op, kinds: Kinds) -> str:
    value = op.input("X")
    dims, rank = _attr(op, "dim"), _rank(value)
    axes = {d % rank for d in dims} if isinstance(dims, list | tuple) and rank > 0 else set()
    if kinds[value] != ROWS or rank < 1:
        return MIXED
    if not axes or 0 in axes or bool(_attr(op, "reduce_all")):
        return {"reduce_mean": MEAN, "reduce_sum": TOTAL}.get(op.type, MIXED)
    return ROWS


def _mean(op: Op, kinds: Kinds) -> str:
    return MEAN if kinds[op.input("X")] == ROWS else MIXED


def _reshaped(op: Op, kinds: Kinds) -> str:
    """The first extent is taken over (0), or is what is left (-1) and the others are as many elements as before."""
    x, shape = op.input("X"), _attr(op, "shape")
    if len([*op.reads()]) > 1 or kinds[x] != ROWS or not x.shape or not isinstance(shape, list | tuple) or not shape or 0 in shape[1:]:
        return MIXED
    if shape[0] == 0:
        return ROWS
    left, before = list(shape[1:]), list(x.shape[1:])
    if shape[0] != -1 or -1 in left or -1 in before:
        return MIXED
    return ROWS if _elements(left) == _elements(before) else MIXED


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _transposed(op: Op, kinds: Kinds) -> str:
    axis = _attr(op, "axis")
    return _all_rows(op, kinds) if isinstance(axis, list | tuple) and axis and axis[0] == 0 else MIXED


def _axes(name: str) -> Rule:
    """Something about some axes, the batch not among them."""

    def rule(op: Op, kinds: Kinds) -> str:
        axes, rank = _attr(op, name), _rank(next(op.reads()))
        known = isinstance(axes, list | tuple) and bool(axes) and all(axis > 0 for axis in axes) and rank > 0
        return _all_rows(op, kinds) if known else MIXED

    return rule


_UNARY = """
    abs acos acosh asin asinh assign atan atanh brelu cast ceil celu clip cos cosh elu erf exp expm1 fill_any_like fill_zeros_like floor
    gelu hard_shrink hard_sigmoid hard_swish isfinite_v2 isinf_v2 isnan_v2 leaky_relu log log10 log1p log2 logical_not logsigmoid mish pow
    reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh softplus softshrink softsign sqrt square stanh swish tan tanh
    tanh_shrink thresholded_relu
"""
_BINARY = """
    elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_pow equal greater_equal greater_than less_equal
    less_than logical_and logical_or logical_xor not_equal square_error_cost bce_loss log_loss
    huber_loss
"""
_REDUCTIONS = "reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum"
RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_UNARY.split(), *_BINARY.split()), _by_element),
    **dict.fromkeys(("elementwise_add", "elementwise_sub", "minus", "sum"), _affine),
    **dict.fromkeys(("scale", "assign", "increment", "cast"), _scaled),
    **dict.fromkeys(_REDUCTIONS.split(), _reduced),
    **dict.fromkeys(("mul", "matmul", "matmul_v2", "bmm"), _matrix_product),
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose", "pool2d", "prelu"), _first_input),
    **dict.fromkeys(("instance_norm", "group_norm", "one_hot", "one_hot_v2"), _first_input),
    **dict.fromkeys(("lookup_table", "lookup_table_v2"), _lookup),
    **dict.fromkeys(("softmax", "log_softmax", "concat", "stack", "split", "top_k_v2"), _along("axis")),
    **dict.fromkeys(("softmax_with_cross_entropy",), _along("axis")),
    **dict.fromkeys(("squeeze", "squeeze2", "unsqueeze", "unsqueeze2"), _axes("axes")),
    **dict.fromkeys(("slice", "strided_slice"), _axes("axes")),
    **dict.fromkeys(("reshape", "reshape2"), _reshaped),
    **dict.fromkeys(("transpose", "transpose2"), _transposed),
    **dict.fromkeys(("flatten", "flatten2"), _along("axis")),
    "flatten_contiguous_range": _along("start_axis"),
    "sigmoid_cross_entropy_with_logits": lambda op, kinds: MIXED if _attr(op, "normalize") else _by_element(op, kinds),
    "cross_entropy": _all_rows,
    "top_k": _all_rows,
    "layer_norm": _along("begin_norm_axis", _first_input),
    "batch_norm": _fixed_statistics,
    "elementwise_mul": _product,
    "elementwise_div": _quotient,
    "mean": _mean,
}
