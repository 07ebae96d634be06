"""Operators on single elements: arithmetic, comparison, logic, activations, casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from graphad.interop.onnx.arrays import BFLOAT16, DTYPES
from graphad.interop.onnx.handlers.handler import Handler, Node, handles
from graphad.interop.onnx.operands import UNKNOWN, UnsupportedModel, Value, is_known
from graphad.types import FLOATS

# -- one operator for one ------------------------------------------------------------------------

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan_v2",
    "Log": "log",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "rint",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
_BINARY = {
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Greater": "greater_than",
    "GreaterOrEqual": "greater_equal",
    "Less": "less_than",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "logical_xor",
}


def _unary(type: str) -> Handler:
    return lambda node: node.ops.one(type, node[0])


def _binary(type: str) -> Handler:
    return lambda node: node.ops.one(type, *aligned(node, node[0], node[1]))


for _name, _type in _UNARY.items():
    handles(_name)(_unary(_type))
for _name, _type in _BINARY.items():
    handles(_name)(_binary(_type))


def aligned(node: Node, x: Value, y: Value) -> tuple[Value, Value]:
    """The operands as numpy would broadcast them; before version 7 ``axis`` said where the second one begins in the first."""
    if node.version >= 7 or not node.attr("broadcast") or y.rank == x.rank or "axis" not in node.attrs:
        return x, y
    after = x.rank - int(node.attrs["axis"]) - y.rank
    return x, node.ops.unsqueeze(y, axes=list(range(y.rank, y.rank + after))) if after > 0 else y


# -- arithmetic ----------------------------------------------------------------------------------


def _arithmetic(type: str, of_elements: Callable[[float, float], float]) -> Handler:
    def handler(node: Node) -> Value:
        x, y = aligned(node, node[0], node[1])
        out = node.ops.one(type, x, y)
        out.elements = elementwise(of_elements, x, y) if out.array is None else None
        return out

    return handler


def elementwise(function: Callable[..., float], *values: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]] | None:
    """A function of the known elements of small tensors; an element made of an unknown one is unknown."""
    parts = [value.partly() for value in values]
    if any(part is None for part in parts):
        return None
    # Object arrays: elements are Python integers, names of extents, or UNKNOWN.
    apply = np.frompyfunc(lambda *item: function(*item) if all(map(is_known, item)) else UNKNOWN, len(parts), 1)
    return np.asarray(apply(*parts), object)


handles("Add")(_arithmetic("elementwise_add", lambda a, b: a + b))
handles("Sub")(_arithmetic("elementwise_sub", lambda a, b: a - b))
handles("Mul")(_arithmetic("elementwise_mul", lambda a, b: a * b))


@handles("Div")
def _div(node: Node) -> Value:
    """A quotient; that of integers is truncated towards zero."""
    x, y = aligned(node, node[0], node[1])
    if x.is_float:
        return node.ops.elementwise_div(x, y)
    out = truncated_quotient(node, x, y)
    if out.array is None:
        out.elements = elementwise(_cut, x, y)
    return out


def _cut(a: float, b: float) -> float:
    """The quotient of whole numbers, cut towards zero; 0 for the divisor 0, as numpy has it."""
    if not b:
        return 0
    # Of magnitudes ``//`` cuts, and it is exact: ``a / b`` would be rounded to a double, and the end of a slice is often 2**63 - 1.
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncated_quotient(node: Node, x: Value, y: Value) -> Value:
    ops = node.ops
    if x.array is not None and y.array is not None:
        with np.errstate(all="ignore"):
            total = np.floor_divide(x.array, y.array)
            # The floor is one too low where the quotient is negative and not whole.
            inexact = (np.remainder(x.array, y.array) != 0) & ((x.array < 0) != (y.array < 0))
        return Value(np.asarray(total + inexact.astype(total.dtype), x.dtype))
    if x.dtype.startswith("u"):
        return ops.elementwise_floordiv(x, y)
    quotient = ops.elementwise_floordiv(ops.abs(x), ops.abs(y))
    result = ops.elementwise_mul(quotient, ops.elementwise_mul(ops.sign(x), ops.sign(y)))
    return result


@handles("Neg")
def _neg(node: Node) -> Value:
    return node.ops.scale(node[0], scale=-1.0)


@handles("Pow")
def _pow(node: Node) -> Value:
    """An exponent that is known is a number: its slope is none where something below zero is raised."""
    x, y = aligned(node, node[0], node[1])
    exponent = y.content
    narrower = y.rank <= x.rank and all(y_extent in (1, extent) for y_extent, extent in zip(y.shape[::-1], x.shape[::-1], strict=False))
    if exponent is not None and exponent.size and (exponent == exponent.flat[0]).all() and narrower and x.is_float:
        return node.ops.pow(x, factor=float(exponent.flat[0]))
    if x.dtype != y.dtype:
        if x.is_float:
            y = node.ops.cast(y, out_dtype=x.dtype)
        else:  # computed in floating point, and cut
            power = node.ops.elementwise_pow(node.ops.cast(x, out_dtype="float64"), node.ops.cast(y, out_dtype="float64"))
            return node.ops.cast(power, out_dtype=x.dtype)
    return node.ops.elementwise_pow(x, y)


@handles("Mod")
def _mod(node: Node) -> Value:
    x, y = node[0], node[1]
    if not node.attr("fmod", 0):
        return node.ops.elementwise_mod(x, y)
    # C's fmod has the sign of x; the other one that of y.
    ops = node.ops
    if not x.is_float:
        return ops.elementwise_sub(x, ops.elementwise_mul(truncated_quotient(node, x, y), y))
    # Of the sizes both are one, which is exact, as x - trunc(x / y) y is not. The size of 0 is x itself, so that it has the slope 1.
    is_negative = ops.less_than(x, ops.like(0.0, x))
    size = ops.where(is_negative, ops.scale(x, scale=-1.0), x)
    rest = ops.elementwise_mod(size, ops.abs(y))
    return ops.where(is_negative, ops.scale(rest, scale=-1.0), rest)


def _folded(type: str) -> Handler:
    return lambda node: reduce(partial(node.ops.one, type), [node[i] for i in range(len(node.inputs))])


handles("Max")(_folded("elementwise_max"))
handles("Min")(_folded("elementwise_min"))
handles("Sum")(_folded("elementwise_add"))


@handles("Mean")
def _mean(node: Node) -> Value:
    total = _folded("elementwise_add")(node)
    assert isinstance(total, Value)
    return node.ops.scale(total, scale=1.0 / len(node.inputs))


@handles("IsInf")
def _isinf(node: Node) -> Value:
    x, ops = node[0], node.ops
    result = ops.isinf_v2(x)
    if not node.attr("detect_positive", 1):
        result = ops.logical_and(result, ops.less_than(x, ops.like(0.0, x)))
    if not node.attr("detect_negative", 1):
        result = ops.logical_and(result, ops.greater_than(x, ops.like(0.0, x)))
    return result


@handles("BitShift")
def _bit_shift(node: Node) -> Value:
    """A shift as a product with a power of two, or a quotient; by the width or more only the number's sign is left."""
    x, y, ops = node[0], node[1], node.ops
    left, bits = node.required("direction") == "LEFT", 8 * np.dtype(x.dtype).itemsize
    zero = ops.like(0, y)
    is_far = ops.greater_equal(y, ops.like(bits, y))
    if not y.dtype.startswith("u"):
        is_far = ops.logical_or(is_far, ops.less_than(y, zero))
    # float64 holds every power of two up to the width exactly.
    near = ops.cast(ops.where(is_far, zero, y), out_dtype="float64")
    powers = ops.cast(ops.elementwise_pow(Value(np.asarray(2.0)), near), out_dtype=x.dtype)
    result = (ops.elementwise_mul if left else ops.elementwise_floordiv)(x, powers)
    rest = ops.fill_zeros_like(x)
    if not left and not x.dtype.startswith("u"):
        rest = ops.where(ops.less_than(x, ops.like(0, x)), ops.fill_any_like(x, value=-1.0), rest)
    return ops.where(is_far, rest, result)


# -- activations ---------------------------------------------------------------------------------


def _with(type: str, **renamed: tuple[str, float]) -> Handler:
    """An activation with attributes: its own name -> ONNX's and the default there."""

    def handler(node: Node) -> Value:
        attrs = {name: float(node.attr(onnx_name, default)) for name, (onnx_name, default) in renamed.items()}
        return node.ops.one(type, node[0], **attrs)

    return handler


handles("Elu")(_with("elu", alpha=("alpha", 1.0)))
handles("LeakyRelu")(_with("leaky_relu", alpha=("alpha", 0.01)))
handles("Celu")(_with("celu", alpha=("alpha", 1.0)))
handles("ThresholdedRelu")(_with("thresholded_relu", threshold=("alpha", 1.0)))
handles("Selu")(_with("selu", alpha=("alpha", 1.67326319217681884765625), scale=("gamma", 1.05070102214813232421875)))
handles("HardSigmoid")(_with("hard_sigmoid", slope=("alpha", 0.2), offset=("beta", 0.5)))


@handles("HardSwish")
def _hard_swish(node: Node) -> Value:
    return node.ops.hard_swish(node[0])


_LINEAR = 60.0  # from here on log(1 + exp(x)) is x in float64 too


@handles("Softplus")
def _softplus(node: Node) -> Value:
    return node.ops.softplus(node[0], threshold=_LINEAR)


@handles("Mish")
def _mish(node: Node) -> Value:
    return node.ops.mish(node[0])


@handles("Swish")
def _swish(node: Node) -> Value:
    return node.ops.swish(node[0], beta=float(node.attr("alpha", 1.0)))


@handles("SwiGLU")
def _swiglu(node: Node) -> Value:
    return node.ops.elementwise_mul(node.ops.swish(node[0], beta=float(node.attr("alpha", 1.0))), node[1])


@handles("Gelu")
def _gelu(node: Node) -> Value:
    return node.ops.gelu(node[0], approximate=node.attr("approximate", "none") == "tanh")


@handles("Shrink")
def _shrink(node: Node) -> Value:
    x, ops = node[0], node.ops
    bias, bound = float(node.attr("bias", 0.0)), float(node.attr("lambd", 0.5))
    wide = x if x.is_float else ops.cast(x, out_dtype="float64")
    zero = ops.fill_zeros_like(wide)
    # x + bias below -lambd, x - bias above lambd, 0 in between.
    below = ops.where(ops.less_than(wide, ops.like(-bound, wide)), ops.scale(wide, scale=1.0, bias=bias), zero)
    out = ops.where(ops.greater_than(wide, ops.like(bound, wide)), ops.scale(wide, scale=1.0, bias=-bias), below)
    return out if x.is_float else ops.cast(out, out_dtype=x.dtype)


@handles("PRelu")
def _prelu(node: Node) -> Value:
    """Before version 7 a slope that is not one for all has an element for each channel; since then it is broadcast."""
    x, slope, ops = node[0], node[1], node.ops
    if node.version < 7 and slope.rank == 1 and x.rank > 2:
        slope = ops.unsqueeze(slope, axes=list(range(1, x.rank - 1)))
    if x.is_float:
        return ops.prelu(x, slope)
    zero = ops.like(0, x)
    return ops.elementwise_add(ops.elementwise_max(x, zero), ops.elementwise_mul(slope, ops.elementwise_min(x, zero)))


@handles("Clip")
def _clip(node: Node) -> Value:
    """Bounds are attributes before version 11; an integer is cut by maximum and minimum."""
    x, ops = node[0], node.ops
    if node.version < 11:
        return ops.clip(x, min=float(node.attr("min", -3.4028234663852886e38)), max=float(node.attr("max", 3.4028234663852886e38)))
    low, high = node.get(1), node.get(2)
    contents = [bound is None or (bound.content is not None and bound.content.size == 1) for bound in (low, high)]
    if x.is_float and all(contents):
        least = -np.inf if low is None or low.content is None else float(low.content.ravel()[0])
        most = np.inf if high is None or high.content is None else float(high.content.ravel()[0])
        # With bounds the wrong way round ONNX gives the upper one everywhere, as minimum after maximum does; ``clip`` refuses it.
        if least <= most:
            return ops.clip(x, min=least, max=most)
    out = x
    if low is not None:
        out = ops.elementwise_max(out, low)
    if high is not None:
        out = ops.elementwise_min(out, high)
    return out if out is not x else ops.assign(x)


# -- casts and copies ----------------------------------------------------------------------------


def dtype_of(number: int) -> str:
    """graphad's dtype of ONNX's number; bfloat16 is read as float32."""
    if number == BFLOAT16:
        return "float32"
    if number not in DTYPES:
        raise UnsupportedModel(f"elements of type {number} (TensorProto.DataType) are not supported")
    return DTYPES[number]


@handles("Cast")
def _cast(node: Node) -> Value:
    return cast(node, node[0], dtype_of(int(node.required("to"))))


def cast(node: Node, x: Value, dtype: str) -> Value:
    """A float becomes an integer by cutting; what is known of the elements stays."""
    if x.dtype == dtype:
        return x
    # An integer tensor that was rounded remembers the floats, so that gradients flow through quantization and back.
    if x.real is not None and dtype in FLOATS:
        return x.real if x.real.dtype == dtype else node.ops.cast(x.real, out_dtype=dtype)
    is_truth = dtype == "bool" and x.is_float
    out = node.ops.not_equal(x, node.ops.like(0.0, x)) if is_truth else node.ops.cast(x, out_dtype=dtype)
    if out.array is None and dtype in ("int32", "int64") and x.dtype not in FLOATS:
        out.elements = x.partly()
    return out


@handles("BitCast")
def _bit_cast(node: Node) -> Value:
    x, dtype = node[0], dtype_of(int(node.required("to")))
    return node.ops.view_dtype(x, dtype=dtype)


@handles("CastLike")
def _cast_like(node: Node) -> Value:
    return cast(node, node[0], node[1].dtype)


@handles("Identity", "StopGradient")
def _identity(node: Node) -> Value:
    return node[0]


@handles("Where")
def _where(node: Node) -> Value:
    out = node.ops.where(node[0], node[1], node[2])
    first, second = node[1].partly(), node[2].partly()
    if out.array is None and node[0].array is not None and first is not None and second is not None:
        out.elements = np.where(node[0].array, first, second)
    return out
