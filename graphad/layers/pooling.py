"""Pooling, with Fluid's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidValue
from graphad.layers.checks import checked_flag, checked_format, listed, padding_attrs
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line

Window = int | Sequence[int]
_FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _checked_type(pool_type: str) -> None:
    if pool_type not in ("max", "avg"):
        raise InvalidValue(f"pool_type is 'max' or 'avg', not {pool_type!r}")


def _pooled(
    axes: int, input: Variable, size: Any, windows: tuple[Any, Any], flags: dict[str, Any], data_format: str, name: str | None
) -> Variable:
    kind = f"pool{axes}d"
    stride, padding = windows
    with at_users_line(f"layers.{kind}"):
        x = checked_input(kind, input)
        last = checked_format("data_format", data_format, _FORMATS[axes])
        _checked_type(flags["pooling_type"])
        for what in ("global_pooling", "ceil_mode", "exclusive"):
            checked_flag(what, flags[what])
        if not flags["global_pooling"] and size in (-1, [-1] * axes):
            raise InvalidValue("pool_size is the extents of the window, or global_pooling=True pools over whole images")
        window = [1] * axes if flags["global_pooling"] and size == -1 else listed("pool_size", size, axes)
        attrs = {**flags, "ksize": window, "strides": window if stride is None else listed("pool_stride", stride, axes)}
        attrs |= padding_attrs("pool_padding", padding, axes, last)
        attrs |= {"data_format": data_format} if last else {}
    return LayerHelper(kind, name).append(kind, {"X": x}, attrs)


@layer
def pool2d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window | None = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Two-dimensional pooling.

    Args:
        input: ``[batch, channels, height, width]``, or ``[batch, height, width, channels]`` with ``data_format="NHWC"``.
        pool_size: the extents of the window; left out only with ``global_pooling=True``.
        pool_type: "max" or "avg".
        pool_stride: how far the window moves; None moves it by its size.
        pool_padding: a number, one for each axis, ``[top, bottom, left, right]``, pairs for all four axes, "SAME" or "VALID".
        use_cudnn: a hint without effect.
        exclusive: whether averages leave the padding out.
    """
    checked_flag("layers.pool2d: use_cudnn", use_cudnn)
    flags = {"pooling_type": pool_type, "global_pooling": global_pooling, "ceil_mode": ceil_mode, "exclusive": exclusive}
    return _pooled(2, input, pool_size, (pool_stride, pool_padding), flags, data_format, name)


@layer
def pool3d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window | None = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """Three-dimensional pooling; arguments as ``pool2d``, with an axis for the depth before the height."""
    checked_flag("layers.pool3d: use_cudnn", use_cudnn)
    flags = {"pooling_type": pool_type, "global_pooling": global_pooling, "ceil_mode": ceil_mode, "exclusive": exclusive}
    return _pooled(3, input, pool_size, (pool_stride, pool_padding), flags, data_format, name)


def _adaptive(axes: int, input: Variable, size: Any, pool_type: str, with_index: bool, name: str | None) -> Any:
    kind = f"pool{axes}d"
    with at_users_line(f"layers.adaptive_{kind}"):
        x = checked_input(f"adaptive_{kind}", input)
        _checked_type(pool_type)
        if checked_flag("require_index", with_index) and pool_type != "max":
            raise InvalidValue(f"require_index is for pool_type='max', not {pool_type!r}")
        window = listed("pool_size", size, axes)
    helper = LayerHelper(f"adaptive_{kind}", name)
    if with_index:
        slots = ("Out", "Mask")
        return tuple(helper.append_all(f"max_{kind}_with_index", {"X": x}, slots, {"ksize": window, "adaptive": True}, stopped=("Mask",)))
    return helper.append(kind, {"X": x}, {"pooling_type": pool_type, "ksize": window, "adaptive": True})


@layer
def adaptive_pool2d(
    input: Variable, pool_size: Window, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """Pooling to ``pool_size``, whatever the image's extents; with ``require_index`` the places of the largest elements as well."""
    return _adaptive(2, input, pool_size, pool_type, require_index, name)


@layer
def adaptive_pool3d(
    input: Variable, pool_size: Window, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """``adaptive_pool2d`` with an axis for the depth before the height."""
    return _adaptive(3, input, pool_size, pool_type, require_index, name)
