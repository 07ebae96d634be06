"""The methods that arrays have, on symbols: each records operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from graphad.ops.registry import REGISTRY
from graphad.ops.tensor_literals import as_tensor, is_number
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
        """The advice for getting the value."""
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
        order = listed(axes if axes != (None,) else ()) or list(range(self.ndim))[::-1]
        return self._on("transpose", axis=[axis % self.ndim if -self.ndim <= axis < 0 else axis for axis in order])

    def reshape(self, *shape: object, order: str = "C") -> Self:
        """The same elements in another shape: ``x.reshape(6, -1)`` or ``x.reshape([6, -1])``; one extent may be -1, 0 copies the extent."""
        extents = listed(shape)
        if self._by_columns(order):
            return self.transpose()._on("reshape", shape=extents[::-1]).transpose()
        return self._on("reshape", shape=extents)

    def _by_columns(self, order: str) -> bool:
        """Whether numpy's ``order`` takes the first axis as the fastest; there is no memory, so "A" and "K" are "C"."""
        if order not in ("C", "F", "A", "K"):
            self.refuse(f"order is 'C', row by row, or 'F', column by column, not {order!r}")
        return order == "F"

    def flatten(self, start_axis: int | str = 0, stop_axis: int = -1, *, order: str = "C") -> Self:
        """The axes from ``start_axis`` to ``stop_axis`` as one, all of them unless told otherwise; ``order="F"`` has the first one fastest.

        An order in the place of ``start_axis`` is taken as one, as numpy has it.
        """
        first, by = (0, start_axis) if isinstance(start_axis, str) else (start_axis, order)
        x = self.transpose() if self._by_columns(by) else self
        return x._on("flatten_contiguous_range", start_axis=first, stop_axis=stop_axis) if self.ndim else x.reshape(1)

    def ravel(self, order: str = "C") -> Self:
        """The elements along one axis."""
        return self.flatten(order=order)

    @property
    def flat(self) -> Self:
        """The elements along one axis, as ``flatten`` gives them."""
        return self.flatten()

    def squeeze(self, axis: Axis = None) -> Self:
        """Without axes of extent 1: those named, or all of them."""
        return self._on("squeeze", axes=axes_of(axis))

    def unsqueeze(self, axis: int | Sequence[int]) -> Self:
        """With axes of extent 1 at the places named."""
        return self._on("unsqueeze", axes=axes_of(axis))

    def astype(self, dtype: object, *, casting: str = "unsafe", copy: bool = True) -> Self:
        """The elements in another dtype, by name or as numpy's; TypeError where numpy's rule ``casting`` does not allow it.

        ``copy`` has no effect: no value is a view of another.
        """
        name = dtype_name(dtype)
        if casting != "unsafe" and not np.can_cast(np.dtype(self.dtype), np.dtype(name), casting):  # type: ignore[arg-type]
            self.refuse(f"{self!r} cannot be cast to {name} by the rule casting={casting!r}; 'unsafe' casts anything")
        return self._on("cast", out_dtype=name)

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

    def take(self, indices: Any, axis: int | None = None, *, mode: str = "raise") -> Any:
        """The elements at places along an axis, or of ``x.flatten()``.

        A place that is out of range is an error; with ``mode="clip"`` it is the nearest one, with "wrap" it is taken modulo the extent.
        """
        x: Any = self.flatten() if axis is None else self
        at = (axis or 0) % x.ndim
        return x[(*[slice(None)] * at, self._within(indices, x.shape[at], mode))]

    def _within(self, indices: Any, extent: int, mode: str) -> Any:
        """Indices as numpy's ``mode`` has them."""
        if mode not in ("raise", "clip", "wrap"):
            self.refuse(f"mode is 'raise', 'clip' or 'wrap', not {mode!r}")
        if mode == "raise":
            return indices
        if extent < 0:
            self.refuse(f"mode={mode!r} needs the extent of {self!r} along the axis, which is known only when the program runs")
        places = indices if hasattr(indices, "emit") else np.asarray(indices)
        return places.clip(0, extent - 1) if mode == "clip" else places % extent

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The diagonals of the matrices that two axes make, as the last axis."""
        return self._on("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The sums of the diagonals."""
        return self._on("trace", offset=offset, axis1=axis1, axis2=axis2)

    def nonzero(self, as_tuple: bool = True) -> Any:
        """The indices of the elements that are not zero, along each axis; with ``as_tuple=False`` one a row, as Paddle has it."""
        places: Any = self._on("where_index")
        return tuple(places[:, axis] for axis in range(self.ndim)) if as_tuple else places

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

    def _where(self, where: object, otherwise: float) -> Self:
        """The elements where a condition holds, a number elsewhere."""
        if where is True:
            return self
        condition = where if hasattr(where, "emit") else self.emit(REGISTRY["assign_value"], (), _booleans(where))
        result: Self = REGISTRY["where"](condition, self, as_tensor(otherwise, self))
        return result

    def _counts(self, where: object, axis: Axis, keepdims: bool) -> Self:
        """How many elements a reduction reads where a condition holds."""
        ones = self._on("fill_any_like", value=1.0)
        return ones._where(where, 0.0)._reduced("reduce_sum", axis, keepdims)

    def _reduced(self, op: str, axis: Axis, keepdims: bool) -> Self:
        if axis is not None and not axes_of(axis):  # over no axis, as numpy has it; the operator takes an empty list for all of them
            return self._on("assign")
        return self._on(op, dim=axes_of(axis), keep_dim=keepdims, reduce_all=axis is None)

    def _accumulated(self, reduction: str, joining: str, axis: Axis, keepdims: bool, initial: float | None) -> Self:
        """A reduction, joined with what it starts from."""
        out = self._reduced(reduction, axis, keepdims)
        return out if initial is None else out._with(joining, initial)

    def _counted(self) -> Self:
        return self.astype("int64") if self.dtype == "bool" else self

    def _floating(self) -> Self:
        return self if self.dtype in FLOATS else self.astype("float32")

    def sum(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        keepdim: bool = False,
        dtype: object = None,
        initial: float | None = None,
        where: object = True,
    ) -> Self:
        """The sum over all axes or those named; of booleans how many hold.

        ``initial`` is added, and ``where`` says which elements count, for all reductions as numpy has it.
        """
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._where(where, 0)._accumulated("reduce_sum", "elementwise_add", axis, keepdims or keepdim, initial)

    def mean(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = None, where: object = True) -> Self:
        """The mean over all axes or those named; of integers as float32."""
        x = self._floating() if dtype is None else self.astype(dtype)
        if where is True:
            return x._reduced("reduce_mean", axis, keepdims or keepdim)
        return x.sum(axis, keepdims or keepdim, where=where)._with("elementwise_div", x._counts(where, axis, keepdims or keepdim))

    def max(
        self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, initial: float | None = None, where: object = True
    ) -> Self:
        """The largest element over all axes or those named, and of ``initial``."""
        x = self._where(where, self._needed(initial, where))
        return x._accumulated("reduce_max", "elementwise_max", axis, keepdims or keepdim, initial)

    def min(
        self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, initial: float | None = None, where: object = True
    ) -> Self:
        """The smallest element over all axes or those named, and of ``initial``."""
        x = self._where(where, self._needed(initial, where))
        return x._accumulated("reduce_min", "elementwise_min", axis, keepdims or keepdim, initial)

    def _needed(self, initial: float | None, where: object) -> float:
        """The initial value of an extremum, which ``where=`` requires; 0 if there is none."""
        if initial is None and where is not True:
            self.refuse("an extremum with where= needs initial=, the result where no element counts")
        return 0.0 if initial is None else initial

    def prod(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        keepdim: bool = False,
        dtype: object = None,
        initial: float | None = None,
        where: object = True,
    ) -> Self:
        """The product over all axes or those named."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._where(where, 1)._accumulated("reduce_prod", "elementwise_mul", axis, keepdims or keepdim, initial)

    def all(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, where: object = True) -> Self:
        """Whether all elements hold, over all axes or those named."""
        return self.astype("bool")._where(where, True)._reduced("reduce_all", axis, keepdims or keepdim)

    def any(self, axis: Axis = None, keepdims: bool = False, *, keepdim: bool = False, where: object = True) -> Self:
        """Whether an element holds, over all axes or those named."""
        return self.astype("bool")._where(where, False)._reduced("reduce_any", axis, keepdims or keepdim)

    def var(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        ddof: int = 0,
        correction: int = 0,
        unbiased: bool = False,
        keepdim: bool = False,
        where: object = True,
    ) -> Self:
        """The mean of the squared distances from the mean, as numpy has it; over one less with ``ddof=1`` or ``unbiased=True``."""
        x, less = self._floating(), ddof or correction or int(unbiased)
        mean = x.mean(axis, keepdims=True, where=where)
        squares = x._on("elementwise_sub", mean)._on("square")
        if where is not True:
            counts = x._counts(where, axis, keepdims or keepdim)
            rest = counts if not less else counts._on("scale", bias=float(-less))
            return squares.sum(axis, keepdims or keepdim, where=where)._with("elementwise_div", rest)
        out = squares.mean(axis, keepdims or keepdim)
        return out if not less else out._on("scale", scale=self._degrees(axis, less))

    def _degrees(self, axis: Axis, ddof: int) -> float:
        """A number of elements over ``ddof`` less."""
        count = element_count(tuple(self.shape[number] for number in axes_of(axis)) if axis is not None else self.shape)
        if count < 0 or count <= ddof:
            self.refuse(f"ddof={ddof} needs more elements than that along axis={axis} of {self!r}, and their number known")
        return count / (count - ddof)

    def std(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        ddof: int = 0,
        correction: int = 0,
        unbiased: bool = False,
        keepdim: bool = False,
        where: object = True,
    ) -> Self:
        """The square root of ``var``."""
        return self.var(axis, keepdims or keepdim, ddof=ddof or correction or int(unbiased), where=where)._on("sqrt")

    def ptp(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """The largest element less the smallest, over all axes or those named."""
        return self.max(axis, keepdims)._with("elementwise_sub", self.min(axis, keepdims))

    def argmax(self, axis: int | None = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = "int64") -> Self:
        """The index of the largest element along an axis, or in ``x.flatten()``."""
        return self._place("arg_max", axis, keepdims or keepdim, dtype)

    def argmin(self, axis: int | None = None, keepdims: bool = False, *, keepdim: bool = False, dtype: object = "int64") -> Self:
        """The index of the smallest element along an axis, or in ``x.flatten()``."""
        return self._place("arg_min", axis, keepdims or keepdim, dtype)

    def _place(self, op: str, axis: int | None, keepdims: bool, dtype: object) -> Self:
        return self._on(op, axis=-1 if axis is None else axis, flatten=axis is None, keepdims=keepdims, dtype=dtype_name(dtype))

    def cumsum(self, axis: int | None = None, *, dtype: object = None) -> Self:
        """The sums of the elements up to each, along an axis, or of ``x.flatten()``."""
        x = self._counted() if dtype is None else self.astype(dtype)
        return x._on("cumsum", axis=axis) if axis is not None else x.flatten()._on("cumsum", axis=0)

    def cumprod(self, axis: int | None = None, *, dim: int | None = None, dtype: object = None) -> Self:
        """The products of the elements up to each, along an axis (Paddle's ``dim``), or of ``x.flatten()``."""
        x = self._counted() if dtype is None else self.astype(dtype)
        axis = dim if axis is None else axis
        return x._on("cumprod", dim=axis) if axis is not None else x.flatten()._on("cumprod", dim=0)

    def argsort(
        self, axis: int | None = -1, kind: str | bool | None = None, *, descending: bool = False, stable: bool | None = None
    ) -> Self:
        """The indices that sort the elements along an axis, or those of ``x.flatten()``; int64.

        ``kind`` and ``stable`` are hints: of equal elements the first always comes first. A boolean in the place of ``kind`` is Paddle's
        ``descending``.
        """
        return self._sorted(axis, descending or kind is True)[1]

    def sort(self, axis: int | None = -1, kind: str | bool | None = None, *, descending: bool = False, stable: bool | None = None) -> Self:
        """The elements sorted along an axis, or those of ``x.flatten()``; a new tensor, not in place. The rest is as in ``argsort``."""
        return self._sorted(axis, descending or kind is True)[0]

    def _sorted(self, axis: int | None, descending: bool) -> tuple[Self, Self]:
        x: Any = self.flatten() if axis is None else self
        return x._on("argsort", axis=-1 if axis is None else axis, descending=descending)  # type: ignore[no-any-return]

    def searchsorted(self, v: Any, side: str = "left") -> Self:
        """The insertion points of values in a sorted vector: how many of its elements are less, with ``side="right"`` not more; int64.

        Every pair is compared.
        """
        if self.ndim != 1 or side not in ("left", "right"):
            self.refuse(f"searchsorted is of a vector, its side 'left' or 'right', not of {self!r} with side={side!r}")
        queries: Any = as_tensor(v, self)
        return self._on("less_than" if side == "left" else "less_equal", queries.unsqueeze(queries.ndim)).sum(-1)

    # -- two tensors -----------------------------------------------------------------------------

    def dot(self, y: Tensor) -> Self:
        """``x @ y``; a number multiplies, as numpy has it."""
        return self._with("elementwise_mul" if is_number(y) else "matmul_v2", y)

    def matmul(self, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Self:
        """``x @ y``; with ``transpose_x`` and ``transpose_y`` the last two axes of that side change places."""
        left, right = self._operands(self, y)
        result: Self = REGISTRY["matmul_v2"](left, right, trans_x=transpose_x, trans_y=transpose_y)
        return result

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """The elements, at least ``min`` and at most ``max``, numbers or tensors; None leaves a side open."""
        if is_number(min) and is_number(max):
            return self._beside(min)._beside(max)._on("clip", min=float(min), max=float(max))
        if min is None and max is None:
            return self._on("assign")
        # One side alone, or a tensor, is a maximum or a minimum.
        above = self if min is None else self._with("elementwise_max", min)
        return above if max is None else above._with("elementwise_min", max)

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


def _booleans(values: object) -> dict[str, object]:
    """The attributes of a constant of booleans."""
    array = np.asarray(values, bool)
    return {"shape": list(array.shape), "dtype": "bool", "bool_values": [*map(int, array.ravel().tolist())]}


def listed(items: tuple[Any, ...]) -> list[int]:
    """``(2, 3)`` of ``f(2, 3)`` and of ``f((2, 3))``."""
    return list(items[0]) if len(items) == 1 and isinstance(items[0], list | tuple) else list(items)


def axes_of(axis: Axis) -> list[int]:
    """The axes as a list; none of them if it is None."""
    return [] if axis is None else [index(axis)] if hasattr(axis, "__index__") else list(axis)
