"""Layers as methods of variables, as Paddle 2's tensors have them: ``x.lerp(y, 0.3)`` is ``layers.lerp(x, y, 0.3)``.

Those that arrays have as well are methods of their own, in ``graphad.ops``: what they record is said there once for symbols of rules too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

from graphad.program.layer_methods import LayerMethods, hint_at
from graphad.types import Function

# Not here: what means something else as a method of Paddle's than as a layer of Fluid's (addmm, expand, unfold, unique, where), what
# takes a list of tensors first (concat, stack), and what makes no tensor of this one (create_parameter).
METHODS = (
    *("acosh", "allclose", "amax", "amin", "asinh", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "bincount"),
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bucketize", "cdist", "cholesky", "cholesky_solve", "combinations"),
    *("corrcoef", "count_nonzero", "cov", "cross", "cummax", "cummin", "cumulative_trapezoid", "deg2rad", "det", "diag", "diag_embed"),
    *("diagflat", "diff", "digamma", "dist", "eigvalsh", "equal_all", "floor_mod", "fmax", "fmin", "frac"),
    *("heaviside", "histogram", "hypot"),
    *("index_add", "index_fill", "index_sample", "inner", "inverse", "is_empty", "isclose", "kthvalue", "ldexp", "lerp", "lgamma"),
    *("logaddexp", "logcumsumexp", "logit", "masked_fill", "matrix_power", "median", "moveaxis", "mv", "nan_to_num", "nanmean", "nansum"),
    *("outer", "pinv", "polygamma", "put_along_axis", "qr", "quantile", "rad2deg", "rank", "renorm", "repeat_interleave", "reverse"),
    *("rot90", "scatter", "scatter_nd_add", "sgn", "shard_index", "slice", "solve", "stanh", "strided_slice", "take_along_axis"),
    *("tensordot", "trapezoid", "triangular_solve", "trunc", "unflatten", "unstack", "vander", "vsplit"),
)


class _LayerMethod:
    """A layer as a method, looked up when it is used: most layers are imported only then."""

    def __init__(self, find: Callable[[str], Function], name: str) -> None:
        self.find, self.name = find, name

    def __get__(self, variable: object, owner: type | None = None) -> Any:
        layer = self.find(self.name)
        return layer if variable is None else MethodType(layer, variable)


def provide(find: Callable[[str], Function], names: Callable[[], Iterable[str]]) -> None:
    """Give variables the methods that are layers: ``find`` gives a layer by name, ``names`` all their names."""
    for name in METHODS:
        setattr(LayerMethods, name, _LayerMethod(find, name))
    hint_at(names)
