"""Operators under the names that numpy and Paddle 2 have for them, with Paddle 2's signatures: ``maximum``, ``max``, ``isnan``."""

from __future__ import annotations

from graphad.layers.signatures import Spec


def _binary(op: str) -> Spec:
    return Spec("x, y, name=None", op)


def _reduction(op: str) -> Spec:
    return Spec("x, axis=None, keepdim=False, name=None", op, binds={"axis": "dim", "keepdim": "keep_dim"}, counts=op == "reduce_prod")


NAMES: dict[str, Spec] = {
    "add": _binary("elementwise_add"),
    "subtract": _binary("elementwise_sub"),
    "multiply": _binary("elementwise_mul"),
    "power": _binary("elementwise_pow"),
    "mod": _binary("elementwise_mod"),
    "remainder": _binary("elementwise_mod"),
    "floor_mod": _binary("elementwise_mod"),
    "floor_divide": _binary("elementwise_floordiv"),
    "maximum": _binary("elementwise_max"),
    "minimum": _binary("elementwise_min"),
    "fmax": _binary("elementwise_fmax"),
    "fmin": _binary("elementwise_fmin"),
    "heaviside": _binary("elementwise_heaviside"),
    "svd": Spec("x, full_matrices=False, name=None", "svd"),
    "eigh": Spec("x, UPLO='L', name=None", "eigh"),
    "mm": Spec("input, mat2, name=None", "matmul_v2", binds={"input": "X", "mat2": "Y"}),
    **{kind: _reduction(f"reduce_{kind}") for kind in ("max", "min", "prod", "all", "any", "amax", "amin")},
    "isnan": Spec("x, name=None", "isnan_v2"),
    "isinf": Spec("x, name=None", "isinf_v2"),
    "hardshrink": Spec("x, threshold=0.5, name=None", "hard_shrink"),
    "hardswish": Spec("x, name=None", "hard_swish"),
    "log_sigmoid": Spec("x, name=None", "logsigmoid"),
    "nll_loss": Spec("input, label, weight=None, ignore_index=-100, reduction='mean', name=None", "nll_loss", out=("Out",)),
    "tanhshrink": Spec("x, name=None", "tanh_shrink"),
    "smooth_l1_loss": Spec("x, y, sigma=1.0, name=None", "smooth_l1_loss", paddle2="functional_losses.smooth_l1_loss"),
    "take_along_axis": Spec("arr, indices, axis", "take_along_axis", binds={"arr": "Input", "indices": "Index", "axis": "Axis"}),
    "atan2": Spec("x, y, name=None", "atan2", binds={"x": "X1", "y": "X2"}),
    "sgn": Spec("x, name=None", "sign"),
}
