"""Operators that are several operators in one."""

from __future__ import annotations

from typing import Any

from graphad.ops.control import ControlDef
from graphad.ops.definition import operator
from graphad.ops.symbol import REGISTRY
from graphad.types import STEP_SCOPES

FUSED_ELEMENTWISE = "fused_elementwise"


def types_named(text: str) -> frozenset[str]:
    """The operator types that a text names, with spaces between them."""
    return frozenset(text.split())


# Operators whose every output element depends on the elements at its place, and on nothing else: what can be fused.
ELEMENTWISE = types_named(
    """abs acos acosh asin asinh assign atan atanh brelu cast ceil celu clip cos cosh elementwise_add elementwise_div
    elementwise_floordiv elementwise_max elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub elu equal erf
    exp expm1 fill_any_like fill_zeros_like floor gelu greater_equal greater_than hard_shrink hard_sigmoid hard_swish increment
    isfinite_v2 isinf_v2 isnan_v2 leaky_relu less_equal less_than log log10 log1p log2 logical_and logical_not logical_or logical_xor
    logsigmoid minus mish not_equal pow reciprocal relu relu6 round rsqrt scale selu sigmoid sign silu sin sinh softplus softshrink
    softsign sqrt square stanh sum swish tan tanh tanh_shrink thresholded_relu where"""
)


def _nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("an operator with blocks is run by the executor")


@operator("X*? -> Out*? Scope?", name=FUSED_ELEMENTWISE, infer=_nothing, grad=None)
def _fused_elementwise(X: Any, *, sub_block: Any) -> Any:
    """Run the block, whose operators are elementwise: the executor does it piece by piece, as large as a cache."""


_fused_elementwise.attrs["sub_block"] = _fused_elementwise.attrs["sub_block"]._replace(kind="Block")
fused_elementwise = ControlDef(**{**vars(_fused_elementwise), "kinds": {"Scope": STEP_SCOPES}, "scopes": "Scope", "blocks": ("sub_block",)})
REGISTRY[FUSED_ELEMENTWISE] = fused_elementwise
