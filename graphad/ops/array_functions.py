"""numpy's functions on symbols: which ones record operators, and what to use instead of the others."""

from __future__ import annotations

from collections.abc import Container

# What numpy calls for `array + symbol`: the symbol's methods with the symbol on the left, and on the right.
BINARY = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
}

_INSTEAD = {
    "absolute": "abs(x)",
    "amax": "layers.reduce_max(x)",
    "amin": "layers.reduce_min(x)",
    "all": "layers.reduce_all(x)",
    "any": "layers.reduce_any(x)",
    "argmax": "layers.argmax(x)",
    "argmin": "layers.argmin(x)",
    "arccos": "layers.acos(x)",
    "arcsin": "layers.asin(x)",
    "arctan": "layers.atan(x)",
    "arctan2": "layers.atan2(x, y)",
    "concatenate": "layers.concat([x, y], axis)",
    "dot": "x @ y",
    "expand_dims": "layers.unsqueeze(x, axes)",
    "invert": "~x",
    "isfinite": "layers.isfinite_v2(x)",
    "isinf": "layers.isinf_v2(x)",
    "isnan": "layers.isnan_v2(x)",
    "matmul": "x @ y",
    "max": "layers.reduce_max(x)",
    "maximum": "layers.elementwise_max(x, y)",
    "mean": "layers.reduce_mean(x)",
    "min": "layers.reduce_min(x)",
    "minimum": "layers.elementwise_min(x, y)",
    "ndim": "x.ndim",
    "negative": "-x",
    "prod": "layers.reduce_prod(x)",
    "repeat": "layers.expand(x, expand_times)",
    "rint": "layers.round(x)",
    "size": "x.size",
    "sum": "layers.reduce_sum(x)",
    "tile": "layers.expand(x, expand_times)",
}

# The layers that are no operators and are called as numpy's functions are.
# fmt: off
_LAYERS = frozenset((
    "broadcast_to", "count_nonzero", "cov", "cross", "deg2rad", "diag", "diff", "full_like", "inner", "linspace", "logaddexp",
    "median", "meshgrid", "moveaxis", "nan_to_num", "nanmean", "nansum", "nonzero", "ones_like", "outer", "quantile", "rad2deg",
    "rot90", "searchsorted", "sort", "std", "swapaxes", "tensordot", "tril", "triu", "unique", "var", "zeros_like",
))
# fmt: on


def instead_of(name: str, known: Container[str]) -> str:
    """The hint for a function of numpy that variables do not have: its replacement."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    return f"layers.{name}" if name in known or name in _LAYERS else "layers or arithmetic on the variable, or the array that a run returns"
