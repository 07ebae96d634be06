"""Which operators may run although nothing asks for what they compute: they cannot fail, print, or draw random numbers.

A kernel can fail where values decide (an index out of range, an integer power below zero) or where extents that are not known beforehand
do not fit together. So an operator must be one of those of which only types decide, and its types must fit, whatever the
unknown extents are. That a result may be nan or infinite is no failure.
"""

from __future__ import annotations

from graphad.errors import GraphadError
from graphad.graph import Op, Value
from graphad.ops import GradOpDef, OpDef
from graphad.passes.analyses.known_values import is_plain
from graphad.types import FLOATS, TENSOR, TensorType


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ELEMENT_BY_ELEMENT = _set(
    """
    abs acos acosh asin asinh assign atan atanh brelu cast ceil celu cos cosh elu erf exp expm1 fill_any_like fill_zeros_like floor
    gelu hard_shrink hard_sigmoid hard_swish increment isfinite_v2 isinf_v2 isnan_v2 leaky_relu log log10 log1p log2 logical_not
    logsigmoid mish pow reciprocal relu relu6 round rsqrt scale selu sigmoid sign silu sin sinh softplus softshrink softsign sqrt
    square stanh swish tan tanh tanh_shrink thresholded_relu
    """
)
_FITTING = _set(
    """
    bmm concat dot elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min elementwise_mod
    elementwise_mul elementwise_pow elementwise_sub equal expand_as_v2 expand_like greater_equal greater_than less_equal less_than
    logical_and logical_or logical_xor matmul matmul_v2 minus mul not_equal reduce_sum shape size square_error_cost
    squared_l2_norm squeeze2 stack stand_in sum transpose transpose2 unsqueeze2 where
    """
)
_WITH_KNOWN_EXTENTS = _set(
    """
    addmm conv2d depthwise_conv2d expand_v2 eye fill_constant flatten2 flatten_contiguous_range flip layer_norm log_softmax
    logsumexp mean pad pool2d reduce_all reduce_amax reduce_amin reduce_any reduce_max reduce_mean reduce_min reduce_prod reshape2
    slice softmax split squeeze strided_slice tile tril_triu unsqueeze unstack
    """
)
_FLOATS_ONLY = _set("pow reciprocal elementwise_pow elementwise_div elementwise_floordiv elementwise_mod")
_ALSO_BOOLS = _set(
    """
    assign cast concat equal expand_as_v2 expand_like expand_v2 fill_any_like fill_zeros_like flatten2 flatten_contiguous_range flip
    logical_and logical_not logical_or logical_xor not_equal reduce_all reduce_any reshape2 shape size slice split squeeze squeeze2 stack
    stand_in strided_slice tile transpose transpose2 unsqueeze unsqueeze2 unstack where
    """
)
_SIZES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)  # what unknown extents are taken to be: no two go together by chance


def may_run_early(op: Op) -> bool:
    """Whether running an operator where the program would not have run it goes unnoticed; what it reads must have values.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2, 3], append_batch_size=False)
    ...     y = ga.layers.log(x)
    ...     z = ga.layers.gather(x, ga.layers.data("at", shape=[1], dtype="int64", append_batch_size=False))
    >>> [may_run_early(op) for op in ga.lower(program).ops]
    [True, False]
    """
    row, values = op.row, (*op.reads(), *op.writes())
    if row is None or not is_plain(op) or any(value.kind != TENSOR or (value.persistable and value.writers) for value in values):
        return False
    forward = row.forward.type if isinstance(row, GradOpDef) and row.forward is not None else op.type
    if forward in _FLOATS_ONLY and any(value.dtype not in FLOATS for value in values):
        return False
    if forward not in _ALSO_BOOLS and any(value.dtype == "bool" for value in op.reads()):
        return False
    types = _types(op, forward)
    return types is not None and (isinstance(row, GradOpDef) or _fits(op, row, types))


def _types(op: Op, forward: str) -> dict[Value, TensorType] | None:
    """The types of what the operator reads, with a number for each unknown extent; None if it may fail for some."""
    reads = list(dict.fromkeys(op.reads()))
    known = {value: value.type for value in reads}
    types = {value: type for value, type in known.items() if type is not None}
    if len(types) < len(known):
        return None
    if all(-1 not in type.shape for type in types.values()):
        return types if forward in _ELEMENT_BY_ELEMENT | _FITTING | _WITH_KNOWN_EXTENTS else None
    if forward not in (_ELEMENT_BY_ELEMENT if forward != op.type else _ELEMENT_BY_ELEMENT | _FITTING):
        return None
    sizes = iter(_SIZES)
    if sum(type.shape.count(-1) for type in types.values()) > len(_SIZES):
        return None
    return {v: TensorType(tuple(next(sizes) if e == -1 else e for e in t.shape), t.dtype) for v, t in types.items()}


def _fits(op: Op, row: OpDef, types: dict[Value, TensorType]) -> bool:
    try:
        row.infer_types({slot: [types[v] for v in values] for slot, values in op.inputs.items()}, op.attrs)
    except (GraphadError, ValueError, TypeError, IndexError):
        return False
    return True
