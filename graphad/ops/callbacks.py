"""Python while a program runs: values that are printed, functions of Python that are called.

Both have ordered effects: each run prints and calls as the program says, in its order, so no pass removes, merges, moves or repeats one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, NoGradient, ShapeError
from graphad.ops.definition import AS_INPUT, GRAD, operator
from graphad.ops.inference import same
from graphad.types import DTYPES, Array, Tensor, TensorType, dtype_name, element_count

NO_INTS: list[int] = []

# -- printing --------------------------------------------------------------------------------------

Printer = Callable[[str, Array], None]  # gets what the operator says before the value, and the value

_printer: ContextVar[Printer | None] = ContextVar("what gets the values that are printed; None: standard output", default=None)


@contextmanager
def printing(printer: Printer) -> Iterator[None]:
    """Within it a function gets what programs print.

    >>> from graphad import ops
    >>> with printing(lambda label, value: print(label, value)):
    ...     ops.lookup("print").kernel(np.ones(2), message="seen:")
    seen: [1. 1.]
    array([1., 1.])
    """
    token = _printer.set(printer)
    try:
        yield
    finally:
        _printer.reset(token)


def silent() -> AbstractContextManager[None]:
    """Within it programs print nothing: tools that run programs of their own have nothing to say to the user.

    >>> from graphad import ops
    >>> with silent():
    ...     ops.lookup("print").kernel(np.ones(2))
    array([1., 1.])
    """
    return printing(lambda label, value: None)


def _is_printed(Counter: Any, first_n: int, print_phase: str, is_forward: bool) -> bool:
    """Whether this run prints: its phase is one of those, and it is one of the first runs."""
    if print_phase == ("BACKWARD" if is_forward else "FORWARD"):
        return False
    return first_n < 1 or Counter is None or int(np.reshape(Counter, ())) <= first_n


def _print_type(In: TensorType, Counter: TensorType | None = None, *, print_phase: str = "BOTH", **_: object) -> TensorType:
    if print_phase not in ("FORWARD", "BACKWARD", "BOTH"):
        raise ShapeError(f"print_phase is 'FORWARD', 'BACKWARD' or 'BOTH', not {print_phase!r}")
    if Counter is not None and element_count(Counter.shape) not in (1, -1):
        raise ShapeError(f"Counter is {Counter}; one integer is expected")
    return same(In)


def _print_grad(
    dOut: Tensor,
    Counter: Tensor = None,
    *,
    first_n: int,
    message: str,
    summarize: int,
    print_tensor_name: bool,
    print_tensor_type: bool,
    print_tensor_shape: bool,
    print_phase: str,
    tensor_name: str,
) -> Tensor:
    if print_phase == "FORWARD":
        return dOut
    # Out is In, so dIn is dOut, which is printed where it comes by.
    return print_(
        dOut,
        Counter,
        first_n=first_n,
        message=message,
        summarize=summarize,
        print_tensor_name=print_tensor_name,
        print_tensor_type=print_tensor_type,
        print_tensor_shape=print_tensor_shape,
        print_phase=print_phase,
        is_forward=False,
        tensor_name=tensor_name,
    )


@operator(
    "In Counter? -> Out",
    name="print",
    infer=_print_type,
    grad={"In": _print_grad},
    kinds={"Out": AS_INPUT},
    ordered=True,
    linear="In",
    view="In",
    flops=0,
)
def print_(
    In: Array,
    Counter: Array | None = None,
    *,
    first_n: int = -1,
    message: str = "",
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_phase: str = "BOTH",
    is_forward: bool = True,
    tensor_name: str = "",
) -> Array:
    """In itself, which is printed: name, shape, dtype and the first ``summarize`` elements (all of them where it is negative).

    The gradient is printed too, unless ``print_phase`` is "FORWARD"; with "BACKWARD" it alone is. With ``first_n`` above 0 and a
    ``Counter`` of the runs it is printed in the first runs only.
    """
    if not _is_printed(Counter, first_n, print_phase, is_forward):
        return In
    printer, name = _printer.get(), f"{tensor_name}{'' if is_forward else GRAD}" if print_tensor_name else ""
    if printer is not None:
        printer(f"{message}{name}", In)
    else:
        parts = (message, name, print_tensor_shape, print_tensor_type, summarize)
        print("\n".join(_lines(In, *parts)), flush=True)
    return In


def _lines(value: Array, message: str, name: str, has_shape: bool, has_dtype: bool, summarize: int) -> Iterator[str]:
    yield f"Variable: {name}" if name else "Variable"
    if message:
        yield f"  - message: {message}"
    if not isinstance(value, np.ndarray | np.generic):
        yield f"  - {value!r}"  # an array of tensors
        return
    if has_shape:
        yield f"  - shape: {list(value.shape)}"
    if has_dtype:
        yield f"  - dtype: {value.dtype.name}"
    # Cut before it is converted: a large array costs no more than what is shown of it.
    first = value.reshape(-1)[: summarize if summarize >= 0 else None].tolist()
    dots = " ..." if len(first) < value.size else ""
    yield f"  - data: [{' '.join(map(_number, np.asarray(first, value.dtype)))}{dots}]"


def _number(value: np.generic) -> str:
    # Without an exponent where that is not long.
    if isinstance(value, np.floating) and (value == 0 or 1e-4 <= abs(float(value)) < 1e16):
        return np.format_float_positional(value, trim="-")
    return str(value)


# -- functions of Python ---------------------------------------------------------------------------

# The functions that this process has registered, by name. A program holds the name alone, so that it stays plain data.
FUNCTIONS: dict[str, Callable[..., object]] = {}


def registered(function: Callable[..., object]) -> str:
    """A name for a function: that of its module and its own, with a number where another function has that one.

    A function that is registered again keeps its name. It is kept for as long as the process runs.
    """
    own = f"{getattr(function, '__module__', None) or '__main__'}.{getattr(function, '__qualname__', type(function).__name__)}"
    name, number = own, 1
    # Looked up and entered in one step: of two threads that register functions of one name, one goes on to the next number.
    while FUNCTIONS.setdefault(name, function) is not function:
        number += 1
        name = f"{own}#{number}"
    return name


def _function(name: str) -> Callable[..., object]:
    if name not in FUNCTIONS:
        raise InvalidValue(
            f"py_func calls the function {name!r} of Python, which only the process that wrote the program has: "
            "write the program again where the function is, or define an operator with @graphad.operator"
        )
    return FUNCTIONS[name]


def declared_type(text: str) -> TensorType:
    """The type that a text says: ``float32[-1, 3]``."""
    dtype, _, extents = text.partition("[")
    numbers = [extent for extent in extents.removesuffix("]").replace(" ", "").split(",") if extent]
    if dtype not in DTYPES or not extents.endswith("]") or not all(extent.removeprefix("-").isdigit() for extent in numbers):
        raise InvalidValue(f"out_types has a type such as 'float32[-1, 3]', not {text!r}")
    return TensorType(tuple(map(int, numbers)), dtype)


def type_text(shape: Sequence[int], dtype: object) -> str:
    """A type as ``out_types`` has it, whose extents are numbers."""
    return f"{dtype_name(dtype)}[{', '.join(str(int(extent)) for extent in shape)}]"


def _py_func_types(X: list[TensorType] | None = None, *, out_types: list[str], **_: object) -> list[TensorType]:
    return list(map(declared_type, out_types))


def _py_func_grad(
    X: list[Tensor], Out: list[Tensor], dOut: list[Tensor], *, backward: str, skipped: list[int], function: str
) -> Sequence[Tensor]:
    if not backward:
        raise NoGradient(f"py_func calls {function!r}, which has no gradient: give backward_func")
    operands = [value for place, value in enumerate([*X, *Out]) if place not in skipped]
    types = [type_text(x.shape, x.dtype) for x in X]
    return py_func([*operands, *dOut], function=backward, out_types=types)  # type: ignore[no-any-return]


@operator("X*? -> Out*", infer=_py_func_types, grad={"X": _py_func_grad}, ordered=True, shapes="", flops=0)
def py_func(
    X: list[Array] | None = None, *, function: str, out_types: list[str], backward: str = "", skipped: list[int] = NO_INTS
) -> list[Array]:
    """Call a Python function on the arrays; its results have the types in ``out_types``, such as ``float32[-1, 3]``.

    ``backward`` names the function that makes the cotangents of X from X, Out (those but the ``skipped`` ones, by their place in both)
    and the cotangents of Out. Both are in the process that wrote the program alone.
    """
    callee = _function(function)
    try:
        result = callee(*(X or []))
    except Exception as error:  # anything may go wrong in it; the cause is the chained error
        raise InvalidValue(f"the function {function!r} of Python failed: {type(error).__name__}: {error}") from error
    values = [] if result is None else list(result) if isinstance(result, list | tuple) else [result]
    if len(values) != len(out_types):
        raise InvalidValue(f"the function {function!r} gives {len(values)} arrays; py_func writes {len(out_types)}")
    return [_settled(function, at, value, declared_type(text)) for at, (value, text) in enumerate(zip(values, out_types, strict=True))]


def _settled(function: str, at: int, value: object, expected: TensorType) -> Array:
    """A result as an array of the type that is declared; zeros for None, which says that there is no gradient."""
    if value is None and -1 not in expected.shape:
        return np.zeros(expected.shape, expected.dtype)
    array = np.asarray(value)
    if array.dtype == object or not np.can_cast(array.dtype, expected.dtype, "same_kind"):
        raise InvalidType(f"the function {function!r} gives {value!r} as result {at}; {expected} is declared")
    fits = array.ndim == len(expected.shape) and all(e in (-1, a) for e, a in zip(expected.shape, array.shape, strict=True))
    if not fits:
        raise ShapeError(
            f"the function {function!r} gives {TensorType(array.shape, array.dtype.name)} as result {at}; {expected} is declared"
        )
    return array.astype(expected.dtype, copy=False)


__all__ = ["FUNCTIONS", "declared_type", "print_", "printing", "py_func", "registered", "silent", "type_text"]
