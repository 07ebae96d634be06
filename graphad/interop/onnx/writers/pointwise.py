"""Operators on single elements that ONNX has under a name of its own; all others are written by their formulas."""

from __future__ import annotations

import numpy as np

from graphad.interop.onnx.stacks import Stack, added, zeros
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, Writer, by_formula, writes
from graphad.ops.activation import _slope_axis

_UNARY = {
    "abs": "Abs",
    "ceil": "Ceil",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "logical_not": "Not",
    "mish": "Mish",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "rint": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
}
_FLOATS = ("float16", "float32", "float64")


def _unary(type: str) -> Writer:
    def writer(call: Call) -> Result:
        x = call["X"]
        return call.nodes.elementwise(type, x) if x.kind in (*_FLOATS, "bool") else by_formula(call)

    return writer


for _type, _name in _UNARY.items():
    writes(_type)(_unary(_name))


def _with(type: str, **renamed: str) -> Writer:
    """An activation with attributes: its own name -> ONNX's."""

    def writer(call: Call) -> Result:
        attrs = {onnx_name: float(call.attr(name)) for name, onnx_name in renamed.items()}
        x = call["X"]
        return call.nodes.one(type, [x], x.kind, x.sizes, **attrs)

    return writer


writes("leaky_relu")(_with("LeakyRelu", alpha="alpha"))
writes("elu")(_with("Elu", alpha="alpha"))
writes("thresholded_relu")(_with("ThresholdedRelu", threshold="alpha"))
writes("hard_sigmoid")(_with("HardSigmoid", slope="alpha", offset="beta"))


@writes("selu")
def _selu(call: Call) -> Result:
    if not 1.0 < call.attr("scale") or call.attr("alpha") < 0:
        return by_formula(call)
    return call.nodes.elementwise("Selu", call["X"], alpha=float(call.attr("alpha")), gamma=float(call.attr("scale")))


@writes("silu", "swish")
def _silu(call: Call) -> Result:
    """Swish is an operator since version 24, of which runtimes have no kernels yet."""
    x = call["X"]
    slope = float(call.attr("beta")) if call.type == "swish" else 1.0
    return x * call.nodes.elementwise("Sigmoid", x if slope == 1.0 else x * slope)


@writes("hard_swish")
def _hard_swish(call: Call) -> Result:
    # ONNX's operator has fixed numbers.
    if any(call.attr(name) != value for name, value in (("threshold", 6.0), ("scale", 6.0), ("offset", 3.0))):
        return by_formula(call)
    return call.nodes.elementwise("HardSwish", call["X"])


@writes("relu6")
def _relu6(call: Call) -> Result:
    return _between(call, 0.0, float(call.attr("threshold")))


def _between(call: Call, low: float, high: float) -> Term:
    x = call["X"]
    return call.nodes.one("Clip", [x, call.nodes.like(low, x), call.nodes.like(high, x)], x.kind, x.sizes)


@writes("assign")
def _assign(call: Call) -> Result:
    (x,) = call.inputs["X"]
    return x if isinstance(x, Stack) else call.nodes.one("Identity", [x], x.kind, x.sizes)


@writes("cast")
def _cast(call: Call) -> Result:
    return call.nodes.cast(call["X"], call.output("Out").dtype)


@writes("where")
def _where(call: Call) -> Result:
    return call.nodes.where(call["Condition"], call["X"], call["Y"])


@writes("sum")
def _sum(call: Call) -> Result:
    first, *rest = [part for part in call.inputs["X"] if part is not None]
    total: Term | Stack = first
    for part in rest:
        total = added(call.nodes, total, part) if isinstance(total, Stack) else total + part
    return total


@writes("fill_zeros_like")
def _zeros(call: Call) -> Result:
    (x,) = call.inputs["X"]
    return zeros(call.nodes, x) if isinstance(x, Stack) else on.zeros_like(x)


@writes("scale")
def _scale(call: Call) -> Result:
    """Without the factor or the summand that changes nothing."""
    x, scale, bias = call["X"], float(call.attr("scale")), float(call.attr("bias"))
    if scale == -1.0 and not bias and x.kind not in ("uint8", "bool"):
        # Shorter, and exact: a sign.
        return call.nodes.elementwise("Neg", x)
    steps = [("Mul", scale, 1.0), ("Add", bias, 0.0)]
    # The order of the two is an attribute of Paddle's.
    for type, number, neutral in steps if call.attr("bias_after_scale") else steps[::-1]:
        if number != neutral:
            x = call.nodes.elementwise(type, x, call.nodes.like(number, x))
    # A node is needed: an output of a file is not its input.
    return call.nodes.one("Identity", [x], x.kind, x.sizes) if x is call["X"] else x


@writes("pow")
def _pow(call: Call) -> Result:
    x, factor = call["X"], float(call.attr("factor"))
    if not x.is_float:
        return by_formula(call)
    return x * x if factor == 2.0 else call.nodes.elementwise("Pow", x, call.nodes.like(factor, x))


@writes("clip")
def _clip(call: Call) -> Result:
    """Bounds of one element, whatever their axes are."""
    x, nodes = call["X"], call.nodes
    if x.is_float and call.get("Min") is None and call.get("Max") is None:
        return _between(call, float(call.attr("min")), float(call.attr("max")))
    bounds = [
        nodes.like(call.attr(name), x) if (bound := call.get(slot)) is None else nodes.as_scalar(bound)
        for slot, name in (("Min", "min"), ("Max", "max"))
    ]
    return on.minimum(on.maximum(x, bounds[0]), bounds[1])


@writes("view_dtype")
def _view(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    if nodes.opset < 26:
        raise CannotWrite("ONNX takes the bits of an element for another dtype since operator set 26")
    dtype = np.dtype(call.attr("dtype"))
    return nodes.one("BitCast", [x], dtype.name, x.sizes, to=dtype)


_BINARY = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "minus": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_div": None,
    "elementwise_max": np.maximum,
    "elementwise_min": np.minimum,
    "elementwise_fmax": np.fmax,
    "elementwise_fmin": np.fmin,
    "elementwise_heaviside": np.heaviside,
    "elementwise_floordiv": np.floor_divide,
    "elementwise_mod": np.remainder,
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def aligned(call: Call, x: Term, y: Term, axis: int) -> Term:
    """The second operand with the axes after its own that it lacks."""
    # As in Fluid: aligned from an axis on, so that it lacks the last axes.
    if axis == -1 or y.ndim > x.ndim:
        return y
    return call.nodes.unsqueeze(y, list(range(y.ndim, x.ndim - axis)))


def _over_axis(function: np.ufunc | None) -> Writer:
    def writer(call: Call) -> Result:
        x = call["X"]
        y = aligned(call, x, call["Y"], int(call.attr("axis")))
        if function is None:
            return _quotient(x, y)
        result: Term = function(x, y)
        return result

    return writer


def _quotient(x: Term, y: Term) -> Term:
    """A quotient; that of integers is truncated towards zero, and 0 for a divisor of 0."""
    if x.is_float:
        return x / y
    # ONNX's Div is not defined for a divisor of 0, which graphad's is.
    down = on.floor_divide(x, y)
    inexact = on.logical_and(on.not_equal(on.remainder(x, y), 0), on.not_equal(on.less(x, 0), on.less(y, 0)))
    return down + x.nodes.cast(inexact, x.kind)


for _type, _function in _BINARY.items():
    writes(_type)(_over_axis(_function))


@writes("prelu")
def _prelu(call: Call) -> Result:
    """The slopes are aligned with the channels, or with the last axes."""
    x, slopes = call["X"], call["Alpha"]
    axis = _slope_axis(x.ndim, slopes.ndim, call.attr("mode"), call.attr("data_format"))
    return call.nodes.one("PRelu", [x, aligned(call, x, slopes, axis)], x.kind, x.sizes)


@writes("elementwise_pow")
def _power(call: Call) -> Result:
    x = call["X"]
    return on.power(x, aligned(call, x, call["Y"], int(call.attr("axis"))))
