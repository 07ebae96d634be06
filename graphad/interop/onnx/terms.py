"""The tensors of a file that is written: what arithmetic and numpy's functions do with them becomes nodes.

    t = on.tanh(x * 2.0)        Mul(x, 2.0) -> a;  Tanh(a) -> t

So the function that defines an elementwise operator (``graphad.ops.formulas``) also says how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphad.ops.formulas import Tracer, Untraceable, converted, filled, raised
from graphad.ops.special import error_function
from graphad.types import Array, Extent, Function, Shape, Tensor

if TYPE_CHECKING:
    from graphad.interop.onnx.emitting import Nodes

NARROW = ("bool", "uint8", "int8", "int16", "uint16")  # ONNX defines most arithmetic for wider numbers only


class _OnTerms:
    """numpy's functions, as they are of terms: ``on.tanh(x)``."""

    def __getattr__(self, name: str) -> Callable[..., Term]:
        # A term is a Tracer: numpy's functions of it become nodes by ``__array_ufunc__``.
        function: Callable[..., Term] = getattr(np, name)
        return function


on = _OnTerms()


class Axis(NamedTuple):
    """An extent that only a run knows: that of an axis of a term."""

    term: Term
    place: int


class Term(Tracer):
    """A tensor of a file, or a sequence of tensors.

    Attributes:
        nodes: what makes nodes of what is done with it.
        dtype: of its elements.
        shape: its extents, -1 where one is not known before the file runs.
        sizes: its extents by what they are: a number, a term that has it, or the axis of the term that it was first seen at. Two
            axes of one size have one extent.
        array: its value, of a constant.
        name: in the file; what has none gets one when the file is made.
        is_sequence: whether it is a sequence of tensors of the dtype; ``shape`` says nothing then.
        frame: the graph of the file that it is in.
        elements: of a vector of extents what each of them is.
        is_extent: whether it has an extent of a tensor, so that it is not negative.
        holds: what it holds in the file instead of numbers: "strings", "maps of strings" or "maps of numbers", by their keys.
    """

    __slots__ = ("array", "elements", "frame", "holds", "is_extent", "is_sequence", "name", "nodes", "shape", "sizes")

    def __init__(self, nodes: Nodes, dtype: str, sizes: Sequence[Size], array: Array | None = None, is_sequence: bool = False) -> None:
        self.nodes, self.array, self.is_sequence = nodes, array, is_sequence
        # Constants are made once, in the outermost graph, where all nested ones see them.
        self.frame = nodes.frames[-1 if array is None else 0]
        self.dtype = np.dtype(dtype)
        self.name = ""
        self.elements: tuple[int | Term, ...] | None = None
        self.is_extent = False
        self.holds = ""
        self.sizes: tuple[Size, ...] = tuple(self._axis(i, size) for i, size in enumerate(sizes))
        self.shape: Shape = tuple(size if isinstance(size, int) else -1 for size in self.sizes)

    def _axis(self, i: int, size: Size) -> Size:
        """An extent that is not known is that of its name, or the axis' own."""
        if not isinstance(size, int) or size != -1:
            return size
        return self.nodes.named.get(size.name) or Axis(self, i) if isinstance(size, Extent) else Axis(self, i)

    def refine(self, shape: Sequence[int]) -> None:
        """Say what else is known of the extents."""
        if len(shape) == len(self.shape):
            axes_by_name = self.nodes.named
            # What is known stays known. A named extent is the axis that had this name first, which compares equal wherever it is met.
            self.sizes = tuple(
                new if new != -1 else axes_by_name.get(new.name, old) if isinstance(new, Extent) and not isinstance(old, int) else old
                for old, new in zip(self.sizes, shape, strict=True)
            )
        else:
            self.sizes = tuple(self._axis(i, size) for i, size in enumerate(shape))
        self.shape = tuple(size if isinstance(size, int) else -1 for size in self.sizes)

    if TYPE_CHECKING:

        def __add__(self, other: object) -> Term: ...
        def __radd__(self, other: object) -> Term: ...
        def __sub__(self, other: object) -> Term: ...
        def __rsub__(self, other: object) -> Term: ...
        def __mul__(self, other: object) -> Term: ...
        def __rmul__(self, other: object) -> Term: ...
        def __truediv__(self, other: object) -> Term: ...
        def __rtruediv__(self, other: object) -> Term: ...
        def __neg__(self) -> Term: ...

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def kind(self) -> str:
        """The name of the dtype."""
        return self.dtype.name

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    def reshape(self, *shape: object) -> Term:
        """As numpy's; the extents have to be known."""
        dims = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        if tuple(dims) == (-1,):
            # One axis with all elements is right whatever the extents are.
            return self.nodes.flatten(self)
        if not all(isinstance(dim, int | np.integer) for dim in dims) or list(dims).count(-1) > 1:
            raise Untraceable(f"a reshape to {dims}")
        return self.nodes.reshape(self, [int(str(dim)) for dim in dims])

    def __getitem__(self, index: int) -> Term:
        """An element of a vector."""
        if self.ndim != 1 or not isinstance(index, int):
            raise Untraceable(f"{index} of a tensor with {self.ndim} axes")
        return self.nodes.gather(self, self.nodes.constant(np.asarray(index)), 0)

    def apply(self, function: Function, args: Sequence[object]) -> Term:
        writer = _FUNCTIONS.get(function)
        if writer is None:
            # The caller falls back on another way to write the operator, or says that there is none.
            raise Untraceable(f"{getattr(function, '__name__', function)} has no operator in ONNX")
        return writer(self.nodes, *args)

    def __repr__(self) -> str:
        return f"<{self.kind}{list(self.shape)} {self.name or 'without a name'}>"


Size = int | Term | Axis


def terms(nodes: Nodes, *args: object) -> list[Term]:
    """The arguments of a function as terms of one dtype, as numpy takes them: Python's numbers take the dtype of the other operand."""
    dtypes = [arg.dtype for arg in args if isinstance(arg, Term | np.ndarray | np.generic)]
    dtype = np.result_type(*dtypes)
    # numpy's rule (NEP 50): a Python float beside integers makes float64, beside floats their dtype.
    if any(type(arg) is float for arg in args) and dtype.kind != "f":
        dtype = np.dtype("float64")
    return [nodes.cast(arg, dtype.name) if isinstance(arg, Term) else nodes.constant(_number(arg, dtype)) for arg in args]


def _number(value: Tensor, dtype: np.dtype[np.generic]) -> Array:
    # A number beyond the range of a narrow dtype is an infinity, as numpy makes it, without a warning.
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype)


Writer = Callable[..., Term]


def _floats(nodes: Nodes, x: Term) -> Term:
    return x if x.is_float else nodes.cast(x, "float64")


def _unary(type: str) -> Writer:
    return lambda nodes, x: nodes.elementwise(type, _floats(nodes, x))


def _plain(type: str) -> Writer:
    return lambda nodes, x: nodes.elementwise(type, x)


def _binary(type: str) -> Writer:
    return lambda nodes, x, y: nodes.elementwise(type, *terms(nodes, x, y))


def _compared(type: str) -> Writer:
    return lambda nodes, x, y: nodes.elementwise(type, *terms(nodes, x, y), dtype="bool")


def _logical(type: str) -> Writer:
    return lambda nodes, *args: nodes.elementwise(type, *(nodes.cast(term, "bool") for term in terms(nodes, *args)), dtype="bool")


def _summed(nodes: Nodes, x: object, y: object) -> Term:
    """A sum; that of truth values is the logical or."""
    a, b = terms(nodes, x, y)
    return nodes.elementwise("Or" if a.kind == "bool" else "Add", a, b)


def _multiplied(nodes: Nodes, x: object, y: object) -> Term:
    a, b = terms(nodes, x, y)
    return nodes.elementwise("And" if a.kind == "bool" else "Mul", a, b)


def _extreme(type: str, of_truths: str) -> Writer:
    def writer(nodes: Nodes, x: object, y: object) -> Term:
        a, b = terms(nodes, x, y)
        return nodes.elementwise(of_truths if a.kind == "bool" else type, a, b)

    return writer


def _divided(nodes: Nodes, x: object, y: object) -> Term:
    return nodes.elementwise("Div", *(_floats(nodes, term) for term in terms(nodes, x, y)))


def _floor_divided(nodes: Nodes, x: object, y: object) -> Term:
    """A floored quotient; that of integers is 0 for a divisor of 0, as in numpy, where ONNX's Div stops the processor."""
    a, b = terms(nodes, x, y)
    if a.is_float:
        return on.floor(a / b)
    # ONNX's Div of integers cuts towards zero; a less its remainder divides without one, so both agree.
    a, b = (nodes.cast(term, "int64") for term in (a, b))
    zero = on.equal(b, 0)
    safe = on.where(zero, 1, b)
    return nodes.cast(on.where(zero, 0, nodes.elementwise("Div", a - on.remainder(a, safe), safe)), terms(nodes, x, y)[0].kind)


def _remainder(nodes: Nodes, x: object, y: object) -> Term:
    """With the sign of the divisor."""
    a, b = terms(nodes, x, y)
    if not a.is_float:
        zero = on.equal(b, 0)
        return on.where(zero, 0, nodes.elementwise("Mod", a, on.where(zero, 1, b)))
    # For floats ONNX has C's fmod alone, with the sign of the dividend; numpy's remainder has the divisor's.
    rest = nodes.elementwise("Mod", a, b, fmod=1)
    has_other_sign = on.logical_and(on.not_equal(rest, 0.0), on.not_equal(on.less(rest, 0.0), on.less(b, 0.0)))
    return on.where(has_other_sign, rest + b, rest)


def _not_equal(nodes: Nodes, x: object, y: object) -> Term:
    # ONNX has no operator for it.
    return nodes.elementwise("Not", _compared("Equal")(nodes, x, y))


def _truncated(nodes: Nodes, x: Term) -> Term:
    if not x.is_float:
        return x
    return on.where(on.less(x, 0.0), on.ceil(x), on.floor(x))


def _log1p(nodes: Nodes, x: Term) -> Term:
    """Without the loss of digits near 0 (W. Kahan's, in N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 1.14.1)."""
    x = _floats(nodes, x)
    u = x + 1.0
    # u = 1 + x rounds: log(u) (x / (u - 1)) takes the rounding back. At u = 1 the result is x itself.
    exact = on.logical_or(on.equal(u, 1.0), on.isinf(u))
    divisor = on.where(exact, 1.0, u - 1.0)
    return on.where(on.equal(u, 1.0), x, on.where(on.isinf(u), u, on.log(u) * (x / divisor)))


def _expm1(nodes: Nodes, x: Term) -> Term:
    """``exp(x) - 1``, by a half of the hyperbolic tangent where the difference would lose digits."""
    x = _floats(nodes, x)
    # 2 t / (1 - t), with t = tanh(x / 2), is exp(x) - 1; t is kept away from 1.
    t = on.tanh(on.clip(x, -1.0, 1.0) * 0.5)
    return on.where(on.less(on.abs(x), 1.0), t * 2.0 / (1.0 - t), on.exp(x) - 1.0)


def _isfinite(nodes: Nodes, x: Term) -> Term:
    return on.logical_not(on.logical_or(on.isnan(x), on.isinf(x)))


def _special(type: str) -> Writer:
    """A question about floats that are no numbers, which integers answer with no."""

    def writer(nodes: Nodes, x: Term) -> Term:
        return nodes.elementwise(type, nodes.cast(x, "float32") if x.kind not in ("float32", "float64") else x, dtype="bool")

    return writer


def _arctan2(nodes: Nodes, y: object, x: object) -> Term:
    a, b = terms(nodes, y, x)
    are_zero = on.logical_and(on.equal(a, 0.0), on.equal(b, 0.0))
    turn = on.where(on.less(b, 0.0), on.where(on.less(a, 0.0), -math.pi, math.pi), 0.0)
    # At infinity the quotient is no number: directions of the diagonals come from the signs.
    infinite = on.logical_and(on.isinf(a), on.isinf(b))
    # arctan(y / x) is off by a half turn for x < 0; inf / inf would be NaN, where the direction is that of the signs.
    ratio = on.where(infinite, on.sign(a) * on.sign(b), a / on.where(are_zero, 1.0, b))
    return on.arctan(ratio) + nodes.cast(turn, a.kind)


def _copysign(nodes: Nodes, x: object, y: object) -> Term:
    a, b = terms(nodes, x, y)
    # The sign of -0.0 is not seen: ONNX compares it equal to 0.
    return on.where(on.less(b, 0.0), -on.abs(a), on.abs(a))


def _heaviside(nodes: Nodes, x: object, y: object) -> Term:
    a, b = terms(nodes, x, y)
    step = on.where(on.equal(a, 0.0), b, nodes.cast(on.greater(a, 0.0), a.kind))
    # numpy's step of nan is nan.
    return on.where(on.isnan(a), a, step)


def _passing_over(choose: Callable[..., Tensor]) -> Writer:
    """An extremum that passes over what is not a number."""

    def writer(nodes: Nodes, x: object, y: object) -> Term:
        a, b = terms(nodes, x, y)
        return on.where(on.isnan(a), b, on.where(on.isnan(b), a, choose(a, b)))

    return writer


def _where(nodes: Nodes, condition: object, x: object, y: object) -> Term:
    operands = [value for value in (x, y) if isinstance(value, Term | np.ndarray | np.generic)]
    if not operands:  # two of Python's numbers
        dtype = "float64" if float in (type(x), type(y)) else "int64"
        a, b = (nodes.constant(np.asarray(number, dtype)) for number in (x, y))
    else:
        a, b = terms(nodes, x, y)
    (mask,) = (nodes.cast(term, "bool") for term in terms(nodes, condition))
    return nodes.where(mask, a, b)


def _clipped(nodes: Nodes, x: Term, low: object, high: object) -> Term:
    return on.minimum(on.maximum(x, low), high)


def _zeros(nodes: Nodes, x: Term) -> Term:
    return nodes.full(nodes.dims(x), 0, x.kind)


def _raised(nodes: Nodes, x: Term, factor: float) -> Term:
    if factor == 2:
        return x * x
    if factor == 0.5 and x.is_float:
        return on.sqrt(x)
    # ONNX raises no narrow integers.
    wide = x if x.kind not in NARROW else nodes.cast(x, "int64")
    return nodes.cast(nodes.elementwise("Pow", wide, nodes.constant(np.asarray(factor, wide.dtype))), x.kind)


def _powered(nodes: Nodes, x: object, y: object) -> Term:
    a, b = terms(nodes, x, y)
    wide = a.kind if a.kind not in NARROW else "int64"
    return nodes.cast(nodes.elementwise("Pow", nodes.cast(a, wide), nodes.cast(b, wide)), a.kind)


def _log_added(nodes: Nodes, x: object, y: object) -> Term:
    a, b = terms(nodes, x, y)
    top = on.maximum(a, b)
    # -|a - b| never overflows exp; of two infinities of one sign the difference would be nan.
    gap = on.where(on.isinf(top), 0.0, -on.abs(a - b))
    return on.where(on.isinf(top), top, top + on.log1p(on.exp(gap)))


_FUNCTIONS: dict[object, Writer] = {
    np.add: _summed,
    np.subtract: _binary("Sub"),
    np.multiply: _multiplied,
    np.divide: _divided,
    np.floor_divide: _floor_divided,
    np.remainder: _remainder,
    np.fmod: lambda nodes, x, y: nodes.elementwise("Mod", *terms(nodes, x, y), fmod=1),
    np.power: _powered,
    np.maximum: _extreme("Max", "Or"),
    np.minimum: _extreme("Min", "And"),
    np.fmax: _passing_over(np.maximum),
    np.fmin: _passing_over(np.minimum),
    np.negative: _plain("Neg"),
    np.positive: lambda nodes, x: x,
    np.absolute: _plain("Abs"),
    np.sign: _plain("Sign"),
    np.floor: lambda nodes, x: nodes.elementwise("Floor", x) if x.is_float else x,
    np.ceil: lambda nodes, x: nodes.elementwise("Ceil", x) if x.is_float else x,
    np.rint: lambda nodes, x: nodes.elementwise("Round", x) if x.is_float else x,
    np.trunc: _truncated,
    np.square: lambda nodes, x: x * x,
    np.sqrt: _unary("Sqrt"),
    np.exp: _unary("Exp"),
    np.exp2: lambda nodes, x: on.exp(_floats(nodes, x) * math.log(2.0)),
    np.expm1: _expm1,
    np.log: _unary("Log"),
    np.log2: lambda nodes, x: on.log(_floats(nodes, x)) * (1 / math.log(2.0)),
    np.log10: lambda nodes, x: on.log(_floats(nodes, x)) * (1 / math.log(10.0)),
    np.log1p: _log1p,
    np.logaddexp: _log_added,
    np.reciprocal: lambda nodes, x: 1.0 / x,
    np.sin: _unary("Sin"),
    np.cos: _unary("Cos"),
    np.tan: _unary("Tan"),
    np.arcsin: _unary("Asin"),
    np.arccos: _unary("Acos"),
    np.arctan: _unary("Atan"),
    np.arctan2: _arctan2,
    np.sinh: _unary("Sinh"),
    np.cosh: _unary("Cosh"),
    np.tanh: _unary("Tanh"),
    np.arcsinh: _unary("Asinh"),
    np.arccosh: _unary("Acosh"),
    np.arctanh: _unary("Atanh"),
    np.copysign: _copysign,
    np.heaviside: _heaviside,
    np.signbit: lambda nodes, x: on.less(x, 0),
    np.equal: _compared("Equal"),
    np.not_equal: _not_equal,
    np.less: _compared("Less"),
    np.less_equal: _compared("LessOrEqual"),
    np.greater: _compared("Greater"),
    np.greater_equal: _compared("GreaterOrEqual"),
    np.logical_and: _logical("And"),
    np.logical_or: _logical("Or"),
    np.logical_xor: _logical("Xor"),
    np.logical_not: _logical("Not"),
    np.bitwise_and: lambda nodes, x, y: _bits(nodes, "And", x, y),
    np.bitwise_or: lambda nodes, x, y: _bits(nodes, "Or", x, y),
    np.bitwise_xor: lambda nodes, x, y: _bits(nodes, "Xor", x, y),
    np.invert: lambda nodes, x: _bits(nodes, "Not", x),
    np.isnan: _special("IsNaN"),
    np.isinf: _special("IsInf"),
    np.isfinite: _isfinite,
    np.where: _where,
    np.clip: _clipped,
    np.zeros_like: _zeros,
    converted: lambda nodes, x, dtype: nodes.cast(x, dtype),
    filled: lambda nodes, x, value, dtype: nodes.full(nodes.dims(x), value, dtype),
    raised: _raised,
    error_function: _unary("Erf"),
}


def _bits(nodes: Nodes, name: str, *args: object) -> Term:
    operands = terms(nodes, *args)
    return nodes.elementwise(name if operands[0].kind == "bool" else f"Bitwise{name}", *operands)


def known(shape: Shape) -> bool:
    """Whether all extents are known."""
    return -1 not in shape
