"""The arithmetic of an elementwise operator, read off the one function that defines it.

    def scale(X, *, scale=1.0, bias=0.0):          multiply(x0, 2.0) -> 0
        return X * like(scale, X) + like(bias, X)      ⇒      add(0, 1.0) -> 1

The function is written over numpy's functions and ``+ - * /``. On arrays it is the kernel. On a ``Tracer`` it records the calls that it
makes: they are what compiled blocks call, and what writes into an array that is there. On terms of a solver it is a proof's meaning.
A function that looks at shapes or values cannot be traced: it is the kernel and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, wraps
from types import FunctionType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from graphad.ops.inference import aligned
from graphad.ops.parameters import Parameter, declare, parameters_of
from graphad.types import Array, Function, Tensor

_F = TypeVar("_F", bound=Function)
_FUNCTION = "__graphad_function__"
_PLAIN = (np.where, np.zeros_like, np.clip)  # functions of numpy that are not ufuncs


class Untraceable(TypeError):
    """A function does something with a tracer that only arrays can do."""


class Tracer(NDArrayOperatorsMixin):
    """Stands for an array of a dtype: what numpy's functions would do with it, ``apply`` does."""

    __slots__ = ("dtype",)
    __hash__ = object.__hash__
    dtype: np.dtype[np.generic]

    def apply(self, function: Function, args: Sequence[object]) -> Tracer:
        """The result of a function of tracers and numbers: a ufunc, one of numpy's ``where`` and such, or a ``primitive``."""
        raise NotImplementedError

    def like(self, number: object) -> Tensor:
        """A number in the dtype of the array."""
        return self.dtype.type(number)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Tracer:
        """The array in another dtype."""
        is_same = np.dtype(dtype) == self.dtype and not copy
        return self if is_same else self.apply(converted, (self, np.dtype(dtype).name))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Tracer:
        # Ufuncs of one result, elementwise: what matmul's signature or a reduction says cannot be written down as a call
        # of elements.
        if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
            raise Untraceable(f"{ufunc.__name__} with {method} or options")
        return self.apply(ufunc, inputs)

    def __array_function__(self, function: Function, types: object, args: Sequence[object], options: Mapping[str, object]) -> Tracer:
        if function not in _PLAIN or options:
            raise Untraceable(f"{function.__name__} with {options}")
        return self.apply(function, args)

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        raise Untraceable("a tracer is no array")

    def __bool__(self) -> bool:
        raise Untraceable("a tracer has no value")

    def __pow__(self, other: object) -> NoReturn:
        raise Untraceable("what arrays do with ** depends on the exponent: use np.power, or raised")


# -- what functions are written with ---------------------------------------------------------------


def like(number: float, X: Tensor) -> Tensor:
    """A number in the dtype of an array."""
    return X.like(number) if isinstance(X, Tracer) else X.dtype.type(number)


def as_array(X: Any, dtype: Any = None) -> Array:
    """``numpy.asarray``, and a tracer as what it stands for: with it a kernel says that its result is an array."""
    if isinstance(X, Tracer):
        return X if dtype is None else X.astype(dtype, copy=False)  # type: ignore[return-value]
    return np.asarray(X, dtype)


def primitive(function: _F) -> _F:
    """Let a function of an array, and of others or of plain values, be one call in a trace."""

    @wraps(function)
    def call(x: object, *args: object) -> Tensor:
        return x.apply(call, (x, *args)) if isinstance(x, Tracer) else function(x, *args)

    return call  # type: ignore[return-value]


@primitive
def converted(x: Array, dtype: str) -> Array:
    """A copy in another dtype."""
    return x.astype(dtype)


@primitive
def filled(x: Array, value: float, dtype: str) -> Array:
    """One value in the shape of an array."""
    return np.full_like(x, value, dtype, order="C")


@primitive
def raised(x: Array, factor: float) -> Array:
    """An array to the power of a number; a scalar of numpy's has a power of its own, which rounds otherwise."""
    return np.asarray(np.asarray(x) ** factor)


def kernel_of(function: Function, *inputs: str, module: str | None = None) -> Function:
    """The kernel that a function defines: numpy gives scalars for arrays without axes, and the kernel arrays.

    Args:
        function: of arrays and attributes; a ufunc, too.
        inputs: the input slots of a function that does not say its parameters.
        module: where it is defined, if not where the function is.
    """

    def kernel(*arrays: object, **attrs: object) -> Tensor:
        # The plain function is what is traced, and what compiled code is made from.
        result = function(*arrays, **attrs)
        return np.asarray(result) if isinstance(result, np.generic) else result

    kernel.__name__ = kernel.__qualname__ = function.__name__
    kernel.__module__ = module or function.__module__
    kernel.__doc__ = function.__doc__ if isinstance(function, FunctionType) else None
    declare(kernel, [Parameter(name) for name in inputs] if inputs else parameters_of(function))
    setattr(kernel, _FUNCTION, function)
    return kernel


def over_axis(function: Function) -> Function:
    """A function of two arrays, the second of which is aligned with the first from ``axis`` on, as Fluid has it."""

    def aligning(X: Array, Y: Array, *, axis: int = -1) -> Tensor:
        return function(X, Y if axis == -1 else Y.reshape(aligned(X.shape, Y.shape, axis)))

    return aligning


def function_of(kernel: Function) -> Function:
    """The function that a kernel was made of, or the kernel itself."""
    function: Function = getattr(kernel, _FUNCTION, kernel)
    return function


# -- recording -----------------------------------------------------------------------------------


class Input(NamedTuple):
    """An input of a formula, by its number."""

    number: int


class Constant(NamedTuple):
    """A value that is known; ``text`` tells apart what is equal and not the same, as 0.0 and -0.0 are."""

    value: Any
    text: str


class Call(NamedTuple):
    """One call: of inputs, results of earlier calls by their number, and constants.

    ``out`` is the earlier result in whose memory this one may be put: nothing reads that later, and it is as large.
    """

    function: Function
    args: tuple[Input | int | Constant, ...]
    out: int | None


class Formula(NamedTuple):
    """The calls of an elementwise function for inputs of some dtypes; ``reads`` and ``dtypes`` are those of each call's result."""

    calls: tuple[Call, ...]
    reads: tuple[frozenset[int], ...]
    dtypes: tuple[np.dtype[np.generic], ...]
    result: Input | int


class _Recorded(Tracer):
    """A tracer whose functions are noted, in ``trace``."""

    __slots__ = ("place", "trace")

    def __init__(self, trace: list[_Note], dtype: np.dtype[np.generic], place: Input | int) -> None:
        self.trace, self.dtype, self.place = trace, dtype, place

    def apply(self, function: Function, args: Sequence[object]) -> Tracer:
        for item in args:
            # An array in a formula, or a tracer of another one, would be a value of this call frozen into all later ones.
            if isinstance(item, np.ndarray) or (isinstance(item, _Recorded) and item.trace is not self.trace):
                raise Untraceable(f"{function} of {item!r}")
        if isinstance(function, np.ufunc):
            kinds: list[object] = [element.dtype if isinstance(element, _Recorded | np.generic) else type(element) for element in args]
            dtype = _result_dtype(function, *kinds)
            # Of a number beside arrays numpy takes the dtype of the arrays.
            beside = {element.dtype for element in args if isinstance(element, _Recorded)}
        else:
            # numpy says the dtype: on arrays without elements that costs nothing.
            dtype = function(*(np.empty(0, element.dtype) if isinstance(element, _Recorded) else element for element in args)).dtype
            beside = set()
        places = tuple([element.place if isinstance(element, _Recorded) else _constant(element, beside) for element in args])
        self.trace.append(_Note(function, places, dtype))
        return _Recorded(self.trace, dtype, len(self.trace) - 1)


@lru_cache(maxsize=4096)
def _result_dtype(function: np.ufunc, *kinds: Any) -> np.dtype[np.generic]:
    """The dtype of what a ufunc makes of arrays of dtypes, and of Python's numbers."""
    result: np.dtype[np.generic] = function(*(np.empty(0, kind) if isinstance(kind, np.dtype) else kind() for kind in kinds)).dtype
    return result


class _Note(NamedTuple):
    function: Function
    args: tuple[Input | int | Constant, ...]
    dtype: np.dtype[np.generic]


def _constant(value: object, beside: Collection[np.dtype[np.generic]]) -> Constant:
    """A number beside arrays of one floating-point dtype becomes an array of that dtype, as numpy makes it at each call of a ufunc."""
    text = f"{type(value).__name__} {value!r}"
    if len(beside) != 1:
        return Constant(value, text)
    (dtype,) = beside
    # numpy 2 (NEP 50) takes Python's numbers in the dtype of the array beside them.
    if dtype.kind != "f" or type(value) not in (dtype.type, float, int):
        return Constant(value, text)
    array = np.asarray(value, dtype)
    # Shared by all calls of a formula.
    array.flags.writeable = False
    return Constant(array, f"{text} as {dtype.char}")


def formula(
    function: Function, dtypes: Sequence[np.dtype[np.generic]], attrs: Mapping[str, object], variadic: bool = False
) -> Formula | None:
    """The calls that a function makes for inputs of some dtypes; None if it cannot be traced.

    Args:
        variadic: whether the inputs are one list.
    """
    try:
        # 0.0 and -0.0, 1 and True are equal as keys: the text tells them apart.
        return _formula(function, tuple(dtypes), tuple((name, _Exact(value, repr(value))) for name, value in attrs.items()), variadic)
    except TypeError:  # an attribute that cannot be hashed
        return None


class _Exact(NamedTuple):
    value: object
    text: str


@lru_cache(maxsize=4096)
def _formula(
    function: Function, dtypes: tuple[np.dtype[np.generic], ...], attrs: tuple[tuple[str, _Exact], ...], variadic: bool
) -> Formula | None:
    trace: list[_Note] = []
    inputs = [_Recorded(trace, dtype, Input(i)) for i, dtype in enumerate(dtypes)]
    try:
        # Traced on no numbers: what a division by zero would warn of is not seen.
        with np.errstate(all="ignore"):
            result = function(*([inputs] if variadic else inputs), **{name: exact.value for name, exact in attrs})
    except Exception:  # whatever a function of arrays does with what is none
        return None
    # A function that returns an array or a number did not compute with its input.
    if not isinstance(result, _Recorded) or result.trace is not trace:
        return None
    return _ordered(_simplified(trace, result.place), result.place)


def _simplified(trace: Sequence[_Note], result: Input | int) -> list[_Note]:
    """The calls without factors 1, and with ``b - x`` for ``x * -1 + b``: the same to the last bit by IEEE 754."""
    # The usual trace has no such number, and is returned as it is.
    if not any(_is_number(arg) and abs(float(arg.value)) == 1.0 for note in trace for arg in note.args):  # type: ignore[union-attr]
        return [*trace]
    replacements: dict[int, Input | int] = {}
    notes: list[_Note] = []
    for i, note in enumerate(trace):
        args = tuple(replacements.get(arg, arg) if isinstance(arg, int) else arg for arg in note.args)
        # x * 1 is x to the last bit, NaN and -0.0 included.
        if i != result and (factor := _times(note.function, args, 1.0)) is not None:
            replacements[i] = factor
        if note.function is np.add and isinstance(args[0], int) and _is_number(args[1]):
            product = notes[args[0]]
            factor = _times(product.function, product.args, -1.0)
            # b + (x * -1) rounds as b - x does: negation is exact.
            note, args = (note, args) if factor is None else (note._replace(function=np.subtract), (args[1], factor))
        notes.append(note._replace(args=args))
    return notes


def _times(function: Function, args: Sequence[Input | int | Constant], number: float) -> Input | int | None:
    """The other factor of a product with this number; None if a call is no such product."""
    if function is np.multiply and len(args) == 2:
        for x, by in (args, args[::-1]):
            if not isinstance(x, Constant) and _is_number(by) and by.value == number:  # type: ignore[union-attr]
                return x
    return None


def _is_number(arg: object) -> bool:
    return isinstance(arg, Constant) and isinstance(arg.value, np.ndarray) and not arg.value.ndim


_ANY = Constant(None, "")


class _Plan(NamedTuple):
    """The parts of a trace that do not depend on its constants: which calls are needed, and a formula with ``_ANY`` in place of
    constants."""

    needed: tuple[int, ...]
    formula: Formula


def _ordered(trace: Sequence[_Note], result: Input | int) -> Formula:
    """The calls that a result is made of, each with the memory that it may use.

    That depends on the form of the trace alone. A program has many operators of one form, whose attributes differ.
    """
    # The plan of memory depends on the calls alone, not on the numbers in them, so it is looked up without these.
    form = tuple([_Note(n.function, tuple([_ANY if isinstance(a, Constant) else a for a in n.args]), n.dtype) for n in trace])
    kept_calls, expression = _plan(form, result)
    calls = []
    for at, (function, args, out) in zip(kept_calls, expression.calls, strict=True):
        note_args = trace[at].args
        calls.append(Call(function, tuple([k if a is _ANY else a for a, k in zip(args, note_args, strict=True)]), out))
    return Formula(tuple(calls), expression.reads, expression.dtypes, expression.result)


@lru_cache(maxsize=1024)
def _plan(trace: tuple[_Note, ...], result: Input | int) -> _Plan:
    # The last reader of each result, found from the end; what has none is not needed.
    last: dict[Input | int | Constant, int] = {result: len(trace)}
    order: list[int] = []
    for i in reversed(range(len(trace))):
        if i in last:
            order.append(i)
            last.update({arg: i for arg in trace[i].args if isinstance(arg, int) and arg not in last})
    new = {old: i for i, old in enumerate(reversed(order))}
    calls: list[Call] = []
    reads: list[frozenset[int]] = []
    dtypes = tuple(trace[old].dtype for old in new)
    for old in new:
        args = tuple(new[arg] if isinstance(arg, int) else arg for arg in trace[old].args)
        inputs_read = frozenset().union(
            *({arg.number} if isinstance(arg, Input) else reads[arg] for arg in args if isinstance(arg, Input | int))
        )
        reads.append(inputs_read)
        # Reading one array only (or the same one twice), a result is laid out as that array, so memory of an earlier
        # result fits.
        alike = len(inputs_read) == 1 or len({arg for arg in args if arg is not _ANY}) == 1  # laid out in one way
        free = (a for o, a in zip(trace[old].args, args, strict=True) if isinstance(a, int) and last[o] == old)
        # Its memory is free after its last reader, if it has the shape and the dtype, and if it is memory at all and not
        # a view.
        candidates = (
            a for a in free if reads[a] == inputs_read and dtypes[a] == dtypes[len(calls)] and isinstance(calls[a].function, np.ufunc)
        )
        calls.append(
            Call(trace[old].function, args, next(candidates, None) if alike and isinstance(trace[old].function, np.ufunc) else None)
        )
    expression = Formula(tuple(calls), tuple(reads), dtypes, new[result] if isinstance(result, int) else result)
    return _Plan(tuple(new), expression)


def text_of(function: str, args: Sequence[str], out: str | None) -> str:
    """A call as Python writes it."""
    return f"{function}({', '.join([*args, f'out={out}'] if out is not None else args)})"
