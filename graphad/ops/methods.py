"""The methods that arrays have, on symbols: each records operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from graphad.ops.registry import REGISTRY
from graphad.ops.tensor_literals import as_tensor
from graphad.types import FLOATS, Shape, Tensor, as_float, dtype_name, element_count

if TYPE_CHECKING:
    from graphad.ops.definition import OpDef

Axis = int | Sequence[int] | None


class Methods:
    """Shapes, reductions and functions of one tensor, under numpy's names and Paddle's."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        """The extents, -1 where unknown."""
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        raise NotImplementedError

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        """Record ``op`` over the inputs; return a symbol for its output, or a tuple of them."""
        raise NotImplementedError

    def refuse(self, message: str) -> NoReturn:
        """Raise TypeError."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int | Self:
        """The number of elements: an int, or a tensor of it where an extent is unknown before the program runs."""
        count = element_count(self.shape)
        return count if -1 not in self.shape else self._on("size")

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int | Self:
        """The bytes of all elements: an int, or a tensor of it where an extent is unknown before the program runs."""
        size: Any = self.size
        return size * self.itemsize  # type: ignore[no-any-return]

    def _beside(self, value: object) -> Self:
        """The tensor in the dtype in which it meets a number or an array."""
        return self

    def _operands(self, x: object, y: object) -> tuple[Tensor, Tensor]:
        """Two operands, one of which is this tensor, as an operator takes them."""
        return as_tensor(x, self), as_tensor(y, self)

    def _with(self, op: str, other: object) -> Self:
        """An operator of this tensor and another operand."""
        result: Self = REGISTRY[op](*self._operands(self, other))
        return result

    def _to_power(self, power: float) -> Self:
        base = self if power >= 0 else self._beside(0.5)
        return base._beside(power)._on("pow", factor=as_float(power))

    def _on(self, op: str, *others: object, **attrs: object) -> Self:
        result: Self = REGISTRY[op](self, *others, **attrs)
        return result

    def how_to_fetch(self) -> str:
        """How to get the value."""
        return "executor.run(program, feed, fetch_list=[x]) returns its value as an array"

    def numpy(self) -> NoReturn:
        """Raise TypeError: a run returns values, ``executor.run(program, feed, fetch_list=[x])``."""
        self.refuse(f"{self!r} has no value before the program runs: {self.how_to_fetch()}")

    def item(self) -> NoReturn:
        """Raise TypeError as ``numpy`` does."""
        self.numpy()

    def tolist(self) -> NoReturn:
        """Raise TypeError as ``numpy`` does."""
        self.numpy()

    # -- shapes ----------------------------------------------------------------------------------

    @property
    def T(self) -> Self:
        """The tensor with its axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: object) -> Self:
        """The axes in another order: ``x.transpose(0, 2, 1)`` or ``x.transpose([0, 2, 1])``; reversed if none is given."""
        order = _listed(axes) or list(range(self.ndim))[::-1]
        return self._on("transpose", axis=[axis % self.ndim if -self.ndim <= axis < 0 else axis for axis in order])

    def reshape(self, *shape: object, order: str = "C") -> Self:
        """The same elements in another shape: ``x.reshape(6, -1)`` or ``x.reshape([6, -1])``; one extent may be -1, 0 copies the extent."""
        if order != "C":
            self.refuse(f"elements are taken row by row, order='C', not {order!r}: x.T reverses the axes before and after")
        return self._on("reshape", shape=_listed(shape))

    def flatten(self, start_axis: int = 0, stop_axis: int = -1) -> Self:
        """The axes from ``start_axis`` to ``stop_axis`` as one; all of them unless told otherwise."""
        if not self.ndim:
            return self.reshape(1)
        return self._on("flatten_contiguous_range", start_axis=start_axis, stop_axis=stop_axis)

    def ravel(self) -> Self:
        """The elements along one axis."""
        return self.flatten()

    def squeeze(self, axis: Axis = None) -> Self:
        """Without axes of extent 1: those named, or all of them."""
        return self._on("squeeze", axes=axes_of(axis))

    def unsqueeze(self, axis: int | Sequence[int]) -> Self:
        """With axes of extent 1 at the places named."""
        return self._on("unsqueeze", axes=axes_of(axis))

    def astype(self, dtype: object) -> Self:
        """The elements in another dtype, by name or as numpy's."""
        return self._on("cast", out_dtype=dtype_name(dtype))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes in each other's place."""
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self._on("transpose", axis=order)

    @property
    def mT(self) -> Self:
        """The last two axes in each other's place."""
        return self.swapaxes(-1, -2)

    def repeat(self, repeats: int, axis: int | None = None) -> Self:
        """Each element ``repeats`` times along an axis, or of ``x.flatten()``."""
        x = self.flatten() if axis is None else self
        at = (axis or 0) % x.ndim
        # Each element gets an axis of its own, which is tiled and then joined to its axis.
        times = x.unsqueeze(at + 1)._on("tile", repeat_times=[repeats if i == at + 1 else 1 for i in range(x.ndim + 1)])
        return times.flatten(at, at + 1)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        """The elements at places along an axis, or of ``x.flatten()``."""
        x: Any = self.flatten() if axis is None else self
        at = (axis or 0) % x.ndim
        return x[(*[slice(None)] * at, indices)]

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The diagonals of the matrices that two axes make, as the last axis."""
        return self._on("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The sums of the diagonals."""
        return self._on("trace", offset=offset, axis1=axis1, axis2=axis2)

    def nonzero(self) -> tuple[Any, ...]:
        """Where elements are not zero: the places along each axis."""
        places: Any = self._on("where_index")
        return tuple(places[:, axis] for axis in range(self.ndim))

    def copy(self) -> Self:
        """The same elements."""
        return self._on("assign")

    def compress(self, condition: Any, axis: int | None = None) -> Any:
        """The elements where a list of booleans holds, along an axis, or of ``x.flatten()``; a list that ends early leaves out the rest."""
        return self.take(np.flatnonzero(np.asarray(condition)), axis)

    def conj(self) -> Self:
        """The elements themselves: they are real numbers."""
        return self._on("assign")

    def conjugate(self) -> Self:
        """The elements themselves: they are real numbers."""
        return self.conj()

    @property
    def real(self) -> Self:
        """The tensor itself: its elements are real numbers."""
        return self

    # -- reductions ------------------------------------------------------------------------------

    def _reduced(self, op: str, axis: Axis, keepdims: bool) -> Self:
        if axis is not None and not axes_of(axis):  # over no axis, as numpy has it; the operator takes an empty list for all of them
            return self._on("assign")
        return self._on(op, dim=axes_of(axis), keep_dim=keepdims, reduce_all=axis is None)

    def _counted(self) -> Self:
        return self.astype("int64") if self.dtype == "bool" else self

    def _floating(self) -> Self:
        return self if self.dtype in FLOATS else self.astype("float32")

    def sum(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = None) -> Self:
        """The sum over all axes or those named; of booleans how many hold."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._reduced("reduce_sum", axis, keepdims or keepdim)

    def mean(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = None) -> Self:
        """The mean over all axes or those named; of integers as float32."""
        x = self._floating() if dtype is None else self.astype(dtype)
        return x._reduced("reduce_mean", axis, keepdims or keepdim)

    def max(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False) -> Self:
        """The largest element over all axes or those named."""
        return self._reduced("reduce_max", axis, keepdims or keepdim)

    def min(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False) -> Self:
        """The smallest element over all axes or those named."""
        return self._reduced("reduce_min", axis, keepdims or keepdim)

    def prod(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = None) -> Self:
        """The product over all axes or those named."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._reduced("reduce_prod", axis, keepdims or keepdim)

    def all(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False) -> Self:
        """Whether all elements hold, over all axes or those named."""
        return self.astype("bool")._reduced("reduce_all", axis, keepdims or keepdim)

    def any(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False) -> Self:
        """Whether an element holds, over all axes or those named."""
        return self.astype("bool")._reduced("reduce_any", axis, keepdims or keepdim)

    def var(self, axis: Axis = None, keepdims: bool = False, *, ddof: int = 0, keepdim: bool = False) -> Self:
        """The mean of the squared distances from the mean, as numpy has it; with ``ddof=1`` over one less, as Paddle does."""
        x = self._floating()
        mean = x.mean(axis, keepdims=True)
        out = x._on("elementwise_sub", mean)._on("square").mean(axis, keepdims or keepdim)
        return out if not ddof else out._on("scale", scale=self._degrees(axis, ddof))

    def _degrees(self, axis: Axis, ddof: int) -> float:
        """A number of elements over ``ddof`` less."""
        count = element_count(tuple(self.shape[number] for number in axes_of(axis)) if axis is not None else self.shape)
        if count < 0 or count <= ddof:
            self.refuse(f"ddof={ddof} needs more elements than that along axis={axis} of {self!r}, and their number known")
        return count / (count - ddof)

    def std(self, axis: Axis = None, keepdims: bool = False, *, ddof: int = 0, keepdim: bool = False) -> Self:
        """The square root of ``var``."""
        return self.var(axis, keepdims or keepdim, ddof=ddof)._on("sqrt")

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Where the largest element is along an axis, or in ``x.flatten()``; int64."""
        return self._on("arg_max", axis=-1 if axis is None else axis, flatten=axis is None, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Where the smallest element is along an axis, or in ``x.flatten()``; int64."""
        return self._on("arg_min", axis=-1 if axis is None else axis, flatten=axis is None, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, *, dtype: object = None) -> Self:
        """The sums of the elements up to each, along an axis, or of ``x.flatten()``."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._on("cumsum", axis=axis) if axis is not None else x.flatten()._on("cumsum", axis=0)

    def cumprod(self, axis: int | None = None, *, dtype: object = None) -> Self:
        """The products of the elements up to each, along an axis, or of ``x.flatten()``."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._on("cumprod", dim=axis) if axis is not None else x.flatten()._on("cumprod", dim=0)

    def argsort(self, axis: int | None = -1) -> Self:
        """Where the elements come from when they are sorted along an axis, or in ``x.flatten()``; int64."""
        return (self.flatten() if axis is None else self)._sorted(-1 if axis is None else axis)[1]  # type: ignore[no-any-return]

    def sort(self, axis: int | None = -1) -> Self:
        """The elements sorted along an axis, or those of ``x.flatten()``; a new tensor, not in place."""
        return (self.flatten() if axis is None else self)._sorted(-1 if axis is None else axis)[0]  # type: ignore[no-any-return]

    def _sorted(self, axis: int) -> Any:
        return self._on("argsort", axis=axis)

    # -- two tensors -----------------------------------------------------------------------------

    def dot(self, other: Tensor) -> Self:
        """``x @ other``."""
        return self._with("matmul_v2", other)

    def matmul(self, other: Tensor) -> Self:
        """``x @ other``."""
        return self._with("matmul_v2", other)

    def clip(self, min: float | None = None, max: float | None = None) -> Self:
        """The elements, at least ``min`` and at most ``max``; None leaves a side open."""
        if min is not None and max is not None:
            return self._beside(min)._beside(max)._on("clip", min=float(min), max=float(max))
        if min is None and max is None:
            return self._on("assign")
        # One side alone is a maximum or minimum with a number.
        return self._with("elementwise_max", min) if max is None else self._with("elementwise_min", max)

    def softmax(self, axis: int = -1) -> Self:
        """``exp(x)`` over its sum along an axis."""
        return self._floating()._on("softmax", axis=axis)

    # -- functions of each element ---------------------------------------------------------------

    def abs(self) -> Self:
        """The absolute values."""
        return self._on("abs")

    def ceil(self) -> Self:
        """The next whole numbers above."""
        return self._on("ceil")

    def cos(self) -> Self:
        """The cosines."""
        return self._floating()._on("cos")

    def erf(self) -> Self:
        """The error function."""
        return self._floating()._on("erf")

    def exp(self) -> Self:
        """The exponentials."""
        return self._floating()._on("exp")

    def floor(self) -> Self:
        """The next whole numbers below."""
        return self._on("floor")

    def log(self) -> Self:
        """The natural logarithms."""
        return self._floating()._on("log")

    def log10(self) -> Self:
        """The logarithms to base 10."""
        return self._floating()._on("log10")

    def log1p(self) -> Self:
        """The logarithms of 1 + x."""
        return self._floating()._on("log1p")

    def log2(self) -> Self:
        """The logarithms to base 2."""
        return self._floating()._on("log2")

    def reciprocal(self) -> Self:
        """1 / x."""
        return self._floating()._on("reciprocal")

    def relu(self) -> Self:
        """The larger of x and 0."""
        return self._on("relu")

    def round(self, decimals: int = 0) -> Self:
        """The nearest whole numbers, or multiples of ``10**-decimals``."""
        # Integers are rounded already, unless to tens or hundreds.
        if self.dtype not in FLOATS and decimals >= 0:
            return self._on("assign")
        if not decimals:
            return self._on("round")
        return self._floating()._on("scale", scale=10.0**decimals)._on("round")._on("scale", scale=10.0**-decimals)

    def rsqrt(self) -> Self:
        """1 over the square root."""
        return self._floating()._on("rsqrt")

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return self._floating()._on("sigmoid")

    def sign(self) -> Self:
        """-1, 0 or 1."""
        return self._on("sign")

    def sin(self) -> Self:
        """The sines."""
        return self._floating()._on("sin")

    def sqrt(self) -> Self:
        """The square roots."""
        return self._floating()._on("sqrt")

    def square(self) -> Self:
        """The squares."""
        return self._on("square")

    def tan(self) -> Self:
        """The tangents."""
        return self._floating()._on("tan")

    def tanh(self) -> Self:
        """The hyperbolic tangents."""
        return self._floating()._on("tanh")


def _listed(items: tuple[Any, ...]) -> list[int]:
    """``(2, 3)`` of ``f(2, 3)`` and of ``f((2, 3))``."""
    return list(items[0]) if len(items) == 1 and isinstance(items[0], list | tuple) else list(items)


def axes_of(axis: Axis) -> list[int]:
    """The axes as a list; none of them if it is None."""
    return [] if axis is None else [index(axis)] if hasattr(axis, "__index__") else list(axis)
