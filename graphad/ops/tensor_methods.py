"""The methods that Paddle 2's tensors have beside numpy's, on symbols: each records operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from graphad.ops.methods import Axis, Methods, axes_of, listed
from graphad.ops.tensor_literals import as_tensor, is_number
from graphad.types import Tensor

# What numpy's arrays and Paddle's and torch's tensors have and a symbol has not, and what does it here.
INSTEAD = {
    "argpartition": "x.argsort(axis) sorts all of it",
    "backward": "ga.append_backward(loss) or ga.gradients(loss, x) appends the backward",
    "base": "a Variable is a value by itself, never a view of another",
    "choose": "layers.multiplex, or layers.where",
    "addmm": "layers.addmm(x, y, z), or x * beta + y @ z * alpha",
    "clear_gradient": "gradients are values of the program, which nothing adds up over runs",
    "concat": "layers.concat([x, y], axis)",
    "cpu": "the program runs on numpy arrays",
    "cuda": "the program runs on numpy arrays, or with ga.JaxExecutor",
    "data": "executor.run(program, feed, fetch_list=[x]) returns its value as an array",
    "device": "the program runs on numpy arrays",
    "fill": "layers.full_like(x, value) makes another tensor",
    "fill_": "layers.full_like(x, value) makes another tensor",
    "grad": "ga.gradients(loss, x) makes a variable of it",
    "gradient": "ga.gradients(loss, x) makes a variable of it",
    "imag": "its elements are real numbers",
    "partition": "x.sort(axis) sorts all of it",
    "permute": "x.transpose(axes)",
    "put": "layers.scatter or layers.set_value make another tensor",
    "resize": "x.reshape(shape)",
    "requires_grad": "x.stop_gradient is its opposite",
    "set_value": "layers.where, layers.scatter or layers.set_value make another tensor; scope.set(name, array) sets a parameter",
    "stack": "layers.stack([x, y], axis)",
    "strides": "a Variable has no memory before the program runs",
    "tobytes": "executor.run(program, feed, fetch_list=[x]) returns its value as an array, which has it",
    "tofile": "executor.run(program, feed, fetch_list=[x]) returns its value as an array, which has it",
    "to": "x.astype(dtype)",
    "unique": "layers.unique(x), and with return_index=True sorted, as numpy has it",
    "view": "x.reshape(shape)",
    "where": "layers.where(condition, x, y)",
}


class TensorMethods(Methods):
    """Two tensors, choices and parts, under Paddle 2's names and with its parameters."""

    __slots__ = ()

    # -- two tensors -----------------------------------------------------------------------------

    def add(self, y: Tensor) -> Self:
        """``x + y``."""
        return self._with("elementwise_add", y)

    def subtract(self, y: Tensor) -> Self:
        """``x - y``."""
        return self._with("elementwise_sub", y)

    def multiply(self, y: Tensor) -> Self:
        """``x * y``."""
        return self._with("elementwise_mul", y)

    def divide(self, y: Tensor) -> Self:
        """``x / y``."""
        return self._floating()._with("elementwise_div", y)

    def floor_divide(self, y: Tensor) -> Self:
        """``x // y``."""
        return self._with("elementwise_floordiv", y)

    def mod(self, y: Tensor) -> Self:
        """``x % y``."""
        return self._with("elementwise_mod", y)

    def remainder(self, y: Tensor) -> Self:
        """``x % y``."""
        return self._with("elementwise_mod", y)

    def pow(self, y: Tensor) -> Self:
        """``x ** y``."""
        return self._to_power(y) if is_number(y) else self._with("elementwise_pow", y)

    def maximum(self, y: Tensor) -> Self:
        """The larger of two elements."""
        return self._with("elementwise_max", y)

    def minimum(self, y: Tensor) -> Self:
        """The smaller of two elements."""
        return self._with("elementwise_min", y)

    def equal(self, y: Tensor) -> Self:
        """``x == y``."""
        return self._with("equal", y)

    def not_equal(self, y: Tensor) -> Self:
        """``x != y``."""
        return self._with("not_equal", y)

    def less_than(self, y: Tensor) -> Self:
        """``x < y``."""
        return self._with("less_than", y)

    def less_equal(self, y: Tensor) -> Self:
        """``x <= y``."""
        return self._with("less_equal", y)

    def greater_than(self, y: Tensor) -> Self:
        """``x > y``."""
        return self._with("greater_than", y)

    def greater_equal(self, y: Tensor) -> Self:
        """``x >= y``."""
        return self._with("greater_equal", y)

    def logical_and(self, y: Tensor) -> Self:
        """Elementwise: whether both hold."""
        return self._with("logical_and", y)

    def logical_or(self, y: Tensor) -> Self:
        """Elementwise: whether one of them holds."""
        return self._with("logical_or", y)

    def logical_xor(self, y: Tensor) -> Self:
        """Elementwise: whether just one of them holds."""
        return self._with("logical_xor", y)

    def logical_not(self) -> Self:
        """Elementwise: whether it does not hold."""
        return self._on("logical_not")

    def mm(self, mat2: Tensor) -> Self:
        """``x @ mat2``."""
        return self._with("matmul_v2", mat2)

    def bmm(self, y: Tensor) -> Self:
        """The products of matrices, for each of a batch."""
        return self._with("bmm", y)

    def kron(self, y: Tensor) -> Self:
        """The Kronecker product."""
        return self._with("kron", y)

    # -- one tensor ------------------------------------------------------------------------------

    def cast(self, dtype: object) -> Self:
        """The elements in another dtype, by name or as numpy's."""
        return self.astype(dtype)

    def scale(self, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True) -> Self:
        """``x * scale + bias``, or ``(x + bias) * scale``."""
        return self._beside(scale)._beside(bias)._on("scale", scale=scale, bias=bias, bias_after_scale=bias_after_scale)

    def neg(self) -> Self:
        """``-x``."""
        return self._on("scale", scale=-1.0)

    def isnan(self) -> Self:
        """Elementwise: whether it is nan."""
        return self._on("isnan_v2")

    def isinf(self) -> Self:
        """Elementwise: whether it is infinite."""
        return self._on("isinf_v2")

    def isfinite(self) -> Self:
        """Elementwise: whether it is neither nan nor infinite."""
        return self._on("isfinite_v2")

    def acos(self) -> Self:
        """The arc cosines."""
        return self._floating()._on("acos")

    def asin(self) -> Self:
        """The arc sines."""
        return self._floating()._on("asin")

    def atan(self) -> Self:
        """The arc tangents."""
        return self._floating()._on("atan")

    def cosh(self) -> Self:
        """The hyperbolic cosines."""
        return self._floating()._on("cosh")

    def sinh(self) -> Self:
        """The hyperbolic sines."""
        return self._floating()._on("sinh")

    def expm1(self) -> Self:
        """``exp(x) - 1``, exact near 0."""
        return self._floating()._on("expm1")

    def clone(self) -> Self:
        """The same elements."""
        return self._on("assign")

    def numel(self) -> Self:
        """The number of elements, as a tensor of int64."""
        return self._on("size")

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The logarithm of the sum of the exponentials, over all axes or those named."""
        return self._floating()._on("logsumexp", axis=axes_of(axis), keepdim=keepdim, reduce_all=axis is None)

    def norm(self, p: float | str = "fro", axis: Axis = None, keepdim: bool = False) -> Self:
        """The norm of vectors along an axis, or of all elements: ``p`` is the power of which the absolute values are summed.

        "fro" is 2, over any number of axes. Unlike ``layers.norm(x, axis)`` it never divides by the length.
        """
        if p == "fro":
            return self._floating()._on("frobenius_norm", dim=axes_of(axis), keep_dim=keepdim, reduce_all=axis is None)
        if isinstance(p, str) or (axis is not None and not isinstance(axis, int)):
            self.refuse(f"norm of {self!r}: p is a number, with one axis, or 'fro', not p={p!r}, axis={axis!r}")
        return self._floating()._on("p_norm", porder=float(p), axis=-1 if axis is None else axis, keepdim=keepdim, asvector=axis is None)

    # -- shapes ----------------------------------------------------------------------------------

    def t(self) -> Self:
        """A matrix transposed; a vector or a scalar as it is.

        Raises:
            TypeError: there are more than 2 axes.
        """
        if self.ndim > 2:
            self.refuse(f"t() transposes a matrix, and {self!r} has {self.ndim} axes: x.transpose(order), x.mT the last two")
        return self.transpose()

    def tile(self, repeat_times: Sequence[int]) -> Self:
        """The whole repeated along each axis."""
        return self._on("tile", repeat_times=list(repeat_times))

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """The elements repeated to a shape, as in arithmetic; -1 leaves an extent as it is."""
        return self._on("expand_v2", shape=list(shape))

    def expand(self, *shape: object) -> Self:
        """The elements repeated to a shape, ``x.expand([2, 3])`` or ``x.expand(2, 3)``; unlike ``layers.expand``, which takes how often."""
        return self.broadcast_to(listed(shape))

    def expand_as(self, y: Tensor) -> Self:
        """The elements repeated to the shape of another tensor."""
        return self._with("expand_as_v2", y)

    def flip(self, axis: int | Sequence[int]) -> Self:
        """The elements in reverse order along axes."""
        return self._on("flip", axis=axes_of(axis))

    def roll(self, shifts: int | Sequence[int], axis: Axis = None) -> Self:
        """The elements shifted along axes; those that leave at the end come in at the beginning."""
        return self._on("roll", shifts=axes_of(shifts), axis=axes_of(axis))

    def tril(self, diagonal: int = 0) -> Self:
        """Zeros above a diagonal."""
        return self._on("tril_triu", diagonal=diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """Zeros below a diagonal."""
        return self._on("tril_triu", diagonal=diagonal, lower=False)

    # -- parts -----------------------------------------------------------------------------------

    def gather(self, index: Tensor, axis: int = 0) -> Self:
        """The rows that an index names, along an axis."""
        return self._on("gather", _places(self, index), axis=axis)

    def gather_nd(self, index: Tensor) -> Self:
        """The elements at places, which are the rows of ``index``."""
        return self._on("gather_nd", _places(self, index))

    def index_select(self, index: Tensor, axis: int = 0) -> Self:
        """The rows that an index names, along an axis."""
        return self._on("index_select", _places(self, index), dim=axis)

    def masked_select(self, mask: Tensor) -> Self:
        """The elements where a mask holds: ``x[mask]``."""
        part: Any = self
        return part[mask]  # type: ignore[no-any-return]

    def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Self, Self]:
        """The ``k`` largest (or smallest) elements along an axis in order, and where they are."""
        results: Any = self._on("top_k_v2", k=k, axis=axis, largest=largest)
        return results  # type: ignore[no-any-return]

    def unbind(self, axis: int = 0) -> list[Self]:
        """The parts at each place along an axis."""
        return list(self._on("unbind", axis=axis))  # type: ignore[call-overload, no-any-return]

    def split(self, num_or_sections: int | Sequence[int], axis: int = 0) -> list[Self]:
        """The parts along an axis: how many of one extent, or their extents, of which one may be -1."""
        if isinstance(num_or_sections, int):
            return list(self._on("split", num=num_or_sections, axis=axis))  # type: ignore[call-overload, no-any-return]
        return list(self._on("split", sections=list(num_or_sections), axis=axis))  # type: ignore[call-overload, no-any-return]

    def chunk(self, chunks: int, axis: int = 0) -> list[Self]:
        """As many parts of one extent along an axis."""
        return self.split(chunks, axis)


def _places(x: TensorMethods, index: Tensor) -> Tensor:
    """An index of integers: numpy arrays and lists become constants."""
    return index if hasattr(index, "emit") else as_tensor(index, _Whole(x))


# A constant takes the dtype of what it is beside: an index beside a tensor of floats would be one of floats.
class _Whole:
    """An emitter of int64 constants beside a symbol of another dtype."""

    dtype = "int64"

    def __init__(self, like: TensorMethods) -> None:
        self.emit, self.refuse = like.emit, like.refuse
