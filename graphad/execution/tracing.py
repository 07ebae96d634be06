"""The numpy calls that a kernel makes: a kernel is run on tracers, each of which stands for an array and holds an example of it.

    def mul(X, Y):                       t0 = np.dot(x, w)
        return (X.reshape(m, k) @ Y)  ⇒      # [8, 16] float32, laid out in order

What is known of the example - shape, dtype, strides, whether it is a view - holds for every run on arrays of these types. A kernel that
looks at values is not traced: it is called as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.ops.formulas import Tracer, Untraceable, converted, filled
from graphad.program import Operator
from graphad.types import Array, Function, Tensor

CHOSEN = 1024  # elements from which on a choice between two arrays is made of their bits
SMALL = 4096  # bytes of a result that is not worth computing again: others may be computed twice to save memory


@dataclass(eq=False)
class Value:
    """One value of a compiled program.

    Attributes:
        example: an array of the type that it has in every run, or an aggregate; None if nothing is known of it.
        static: whether it is an array of this shape, dtype and layout in every run.
        base: the value in whose memory it lies, if it is a view.
        constant: whether it is the same in every run; ``example`` is then the value.
        hint: what to call it.
        absent: whether it may have no value when it is read.
        kept: of residuals, what they are.
        scalar: the value of one element that it is everywhere.
        in_order: whether it is contiguous in C order.
    """

    example: Tensor = None
    static: bool = False
    base: Value | None = None
    constant: bool = False
    hint: str = "t"
    absent: bool = False
    kept: Residuals | Restarts | None = None
    scalar: Value | None = None
    in_order: bool = False

    def __post_init__(self) -> None:
        self.in_order = self.static and isinstance(self.example, np.ndarray) and bool(self.example.flags.c_contiguous)

    def let_go(self) -> None:
        """Keep the type of the example, and not its memory."""
        if isinstance(self.example, np.ndarray) and not self.constant:
            # One element with strides 0: the layout is lost, which is why ``in_order`` was noted before.
            self.example = np.broadcast_to(np.empty((), self.example.dtype), self.example.shape)

    @property
    def root(self) -> Value:
        """The value that has the memory."""
        root = self
        while root.base is not None:
            root = root.base
        return root

    @property
    def nbytes(self) -> int:
        return int(self.example.nbytes) if self.static else 0

    def alike(self, other: Value) -> bool:
        """Whether both are arrays of one type, laid out in one way."""
        if not (self.static and other.static):
            return False
        own_example, other_example = self.example, other.example
        return bool(
            own_example.shape == other_example.shape and own_example.dtype == other_example.dtype and self.in_order and other.in_order
        )


@dataclass
class Residuals:
    """The residuals of each run of a block: their names and values."""

    names: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass
class Restarts:
    """The checkpoints of a loop whose gradient runs iterations again: the values that some iterations started from.

    Attributes:
        names: of the residuals of an iteration.
        iteration: notes the calls of an iteration, of what it starts from; gives what it carries on, and the residuals.
        carried: what an iteration starts from.
        count: the number of iterations that there were.
        every: how far apart those are whose starts are kept; 0 if there is the first alone.
    """

    names: tuple[str, ...]
    iteration: Callable[[Sequence[Value]], tuple[tuple[Value, ...], tuple[Value, ...]]]
    carried: tuple[Value, ...]
    count: Value
    every: int


@dataclass(eq=False)
class Call:
    """One call, which makes values.

    Attributes:
        form: how Python writes it: ``{0}``, ``{1}``... are the arguments.
        args: what it reads.
        results: what it makes; more than one if it returns a tuple.
        into: how it is written where the result goes into an array ``{out}`` that is there; empty if it cannot be.
        in_place: whether that array may be an argument of the same type.
        elementwise: whether each element is made of the elements at its place.
        pure: it may be left out where nothing reads its results.
        op: the operator that it belongs to.
        tiles: how many times it is made, if it is made for one part of the arrays after the other.
        unpacks: whether it takes a tuple apart that is its argument.
    """

    form: str
    args: tuple[Value, ...]
    results: tuple[Value, ...]
    into: str = ""
    in_place: bool = False
    elementwise: bool = False
    pure: bool = True
    op: Operator | None = None
    tiles: int = 1
    unpacks: bool = False


@dataclass
class Trace:
    """The calls so far, and the objects that their forms name."""

    calls: list[Any] = field(default_factory=list)
    objects: dict[str, object] = field(default_factory=dict)
    known: dict[int, tuple[object, str]] = field(default_factory=dict)
    views: dict[tuple[object, ...], Value] = field(default_factory=dict)  # and results of functions: one call for all that ask for the same
    small: dict[tuple[object, ...], Value] = field(default_factory=dict)  # as well
    op: Operator | None = None

    def name(self, thing: object, hint: str) -> str:
        """The name of an object in the source."""
        entry = self.known.get(id(thing))
        if entry is None:
            name, i = hint, 1
            while name in self.objects:
                i += 1
                name = f"{hint}_{i}"
            # The object is kept with its name: Python gives an id again to another object once its owner is gone.
            self.objects[name] = thing
            entry = self.known[id(thing)] = (thing, name)
        return entry[1]

    def mark(self) -> tuple[int, int, int]:
        """How much there is so far."""
        return len(self.calls), len(self.views), len(self.small)

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Forget what has been noted since a mark."""
        del self.calls[mark[0] :]
        # Dictionaries are in the order of insertion, and entries are only added: the last ones are those since the mark.
        for table, count in ((self.views, mark[1]), (self.small, mark[2])):
            while len(table) > count:
                table.popitem()

    def constant(self, array: Tensor) -> Value:
        """A value that is the same in every run."""
        return Value(array, static=isinstance(array, np.ndarray), constant=True, hint="constant")

    def add(self, form: str, args: Sequence[Value], example: Tensor, **options: Tensor) -> Value:
        """Note a call of one result."""
        example = example if isinstance(example, np.ndarray) else np.asarray(example)
        # Constants are folded while tracing: the example is the value.
        if all(arg.constant for arg in args):
            example.flags.writeable = False
            return self.constant(example)
        # The example says whether the result is a view of an argument: numpy decides that by shape and strides, so it is the same in every
        # run.
        base = next((arg for arg in args if arg.static and example.size and np.may_share_memory(example, arg.example)), None)
        # Common subexpressions: views cost nothing to keep; of small results one is kept rather than computed twice. Large ones may be
        # computed twice, which needs less memory.
        key = (form, *map(id, args))
        table = self.views if base is not None else self.small
        if key in table:
            return table[key]
        result = Value(example, static=True, base=base)
        if base is not None:
            options = {"pure": options.get("pure", True)}
        if base is not None or (example.nbytes <= SMALL and options.get("pure", True)):
            table[key] = result
        self.calls.append(Call(form, tuple(args), (result,), op=self.op, **options))
        return result


def functions_name(function: Function, trace: Trace) -> str:
    """How the source calls a function: as numpy's, or by a name of its own."""
    name = getattr(function, "__name__", "function")
    return f"np.{name}" if getattr(np, name, None) is function else trace.name(function, name)


class Traced(Tracer):
    """Stands for an array in a kernel."""

    __slots__ = ("fresh", "trace", "value")

    def __init__(self, trace: Trace, value: Value, fresh: bool = False) -> None:
        self.trace, self.value, self.fresh = trace, value, fresh
        self.dtype = value.example.dtype

    # -- what arrays have --

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.example.shape)

    @property
    def ndim(self) -> int:
        return int(self.value.example.ndim)

    @property
    def size(self) -> int:
        return int(self.value.example.size)

    @property
    def nbytes(self) -> int:
        return int(self.value.example.nbytes)

    @property
    def itemsize(self) -> int:
        return int(self.value.example.itemsize)

    @property
    def flags(self) -> Tensor:
        return self.value.example.flags

    @property
    def T(self) -> Traced:
        return self.transpose()

    def __len__(self) -> int:
        return len(self.value.example)

    def __iter__(self) -> Tensor:
        raise Untraceable("iteration")

    def __float__(self) -> float:
        raise Untraceable("a tracer has no value")

    __int__ = __index__ = __complex__ = __float__

    def reshape(self, *shape: Tensor, order: str = "C") -> Traced:
        extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
        view = self.value.example.reshape(extents, order=order)
        if view.shape == self.shape and order == "C":
            return self
        return self._shared(
            f"{{0}}.reshape({_listed(view.shape)})" if order == "C" else f"{{0}}.reshape({view.shape}, order={order!r})", view
        )

    def transpose(self, *axes: Tensor) -> Traced:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
        permutation = tuple(range(self.ndim))[::-1] if order is None or not len(order) else tuple(int(a) % self.ndim for a in order)
        if permutation == tuple(range(self.ndim)):
            return self
        form = "{0}.T" if permutation == (1, 0) else f"{{0}}.transpose({_listed(permutation)})"
        return self._shared(form, self.value.example.transpose(permutation))

    def swapaxes(self, one: int, other: int) -> Traced:
        axes = list(range(self.ndim))
        axes[one], axes[other] = axes[other], axes[one]
        return self.transpose(axes)

    def ravel(self) -> Traced:
        return self.reshape(-1)

    def copy(self, order: str = "C") -> Traced:
        if order != "C":
            raise Untraceable(f"copy in order {order}")
        return self.apply_form("{0}.copy()", (self,), self.value.example.copy(), into="np.copyto({out}, {0})")

    def astype(self, dtype: Tensor, copy: bool = True) -> Traced:
        new_dtype = np.dtype(dtype)
        if new_dtype == self.dtype and not copy:
            return self
        # numpy's astype keeps the layout of its argument (order "K"), and the plan's arrays are in order: the two agree only here.
        if self.value.in_order or self.ndim < 2:
            into = "np.copyto({out}, {0}, casting='unsafe')"
            return self.apply_form(
                f"{{0}}.astype({new_dtype.name!r})", (self,), self.value.example.astype(new_dtype), into=into, elementwise=True
            )
        return self.apply_form(f"{{0}}.astype({new_dtype.name!r})", (self,), self.value.example.astype(new_dtype))

    def sum(self, axis: Tensor = None, dtype: Tensor = None, keepdims: bool = False) -> Tensor:
        options = {} if dtype is None else {"dtype": dtype}
        return self.__array_ufunc__(np.add, "reduce", self, axis=axis, keepdims=keepdims, **options)

    def max(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return self.__array_ufunc__(np.maximum, "reduce", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return self.__array_ufunc__(np.minimum, "reduce", self, axis=axis, keepdims=keepdims)

    def __getitem__(self, key: Tensor) -> Traced:
        parts = key if isinstance(key, tuple) else (key,)
        if all(part is None or part is Ellipsis or isinstance(part, slice | int | np.integer) for part in parts):
            # An index of numbers gives numpy's scalar; with an Ellipsis it is an array of no axes, a view.
            view = self.value.example[key]
            if isinstance(view, np.generic) and Ellipsis not in parts:
                parts = (*parts, Ellipsis)
                view = self.value.example[parts]
            return self._shared(f"{{0}}[{', '.join(map(_index_text, parts))}]", view)
        return self._gathered(parts)

    def _gathered(self, parts: Sequence[Tensor]) -> Traced:
        # Integers as indices are data of the run, so they are arguments of the call; a mask would decide the shape.
        texts, args = [], [self.value]
        for part in parts:
            if isinstance(part, Traced | np.ndarray | list):
                value = self.operand(np.asarray(part) if isinstance(part, list) else part)
                if value.example.dtype.kind not in "iu":
                    raise Untraceable("a mask")
                texts.append(f"{{{len(args)}}}")
                args.append(value)
            else:
                texts.append(_index_text(part))
        # The same subscript of the example, each index replaced by its own example: it gives shape and dtype.
        examples = iter(args[1:])
        key = tuple(next(examples).example if isinstance(p, Traced | np.ndarray | list) else p for p in parts)
        return self.made(f"{{0}}[{', '.join(texts)}]", args, self.value.example[key], pure=False)

    def __setitem__(self, key: Tensor, value: Tensor) -> None:
        raise Untraceable("an assignment to elements")

    # -- calls --

    def operand(self, thing: object) -> Value:
        """An operand of a call: a value, or a constant."""
        if isinstance(thing, Traced):
            if thing.trace is not self.trace:
                raise Untraceable("another trace")
            return thing.value
        if isinstance(thing, np.ndarray | np.generic | bool | int | float):
            return self.trace.constant(thing)
        raise Untraceable(f"an argument {thing!r}")

    def _shared(self, form: str, example: Tensor) -> Traced:
        return self.made(form, (self.value,), example)

    def made(self, form: str, args: Sequence[Value], example: Tensor, **options: Tensor) -> Traced:
        value = self.trace.add(form, args, example, **options)
        return Traced(self.trace, value, fresh=value.base is None and not value.constant)

    def apply_form(self, form: str, args: Sequence[Tensor], example: Tensor, **options: Tensor) -> Traced:
        return self.made(form, [self.operand(arg) for arg in args], example, **options)

    def apply(self, function: Function, args: Sequence[Tensor]) -> Tensor:
        """A ufunc, or one of the primitives of formulas."""
        if isinstance(function, np.ufunc):
            return self.__array_ufunc__(function, "__call__", *args)
        if function is converted:
            return self.astype(args[1])
        if function in (filled, np.zeros_like):
            return Traced(self.trace, self.trace.constant(_read_only(function(self.value.example, *args[1:]))))
        if function in (np.where, np.clip):
            return self.__array_function__(function, (), args, {})
        values: list[Value] = []
        texts: list[str] = []
        for arg in args:
            if isinstance(arg, Traced | np.ndarray):
                texts.append(f"{{{len(values)}}}")
                values.append(self.operand(arg))
            else:
                texts.append(repr(arg))
        example = function(*(arg.value.example if isinstance(arg, Traced) else arg for arg in args))
        form = f"{functions_name(function, self.trace)}({', '.join(texts)})"
        key = (form, *map(id, values))
        # The same call on the same values gives the same: it is made once.
        if key not in self.trace.views:
            self.trace.views[key] = self.made(form, values, example, pure=False).value
        return Traced(self.trace, self.trace.views[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Tensor, out: Tensor = None, **options: Tensor) -> Tensor:
        if out is not None:
            return self._into(ufunc, method, inputs, out, options)
        if ufunc.nout != 1 or method not in ("__call__", "reduce") or not set(options) <= {"axis", "dtype", "keepdims", "initial"}:
            raise Untraceable(f"{ufunc.__name__} with {method} or options")
        options = {
            name: option for name, option in options.items() if option is not np._NoValue and not (name == "keepdims" and not option)
        }
        values = [self.operand(operand) for operand in inputs]
        # x * 1.0 is x, bit for bit (IEEE 754); gradients make many such products.
        if method == "__call__" and ufunc.signature is None:
            if (identity := _unchanged(ufunc, values)) is not None:
                return Traced(self.trace, identity)
            values = _narrowed(ufunc, values)
        numbers = [value.example for value in values]
        if method == "reduce":
            option_texts = "".join(f", {name}={_option_text(option)}" for name, option in options.items())
            form, example = f"{functions_name(ufunc, self.trace)}.reduce({{0}}{option_texts}", ufunc.reduce(numbers[0], **options)
        elif options:
            raise Untraceable(f"{ufunc.__name__} with options")
        else:
            places = ", ".join(f"{{{i}}}" for i in range(len(values)))
            form, example = f"{functions_name(ufunc, self.trace)}({places}", ufunc(*numbers)
        # ``out=`` is possible where the plan's arrays, which are in order, are laid out as numpy would lay out the result.
        is_ordered = self._ordered(values, np.asarray(example)) and not any(number is None for number in numbers)
        plain = method == "__call__" and ufunc.signature is None
        return self.made(form + ")", values, example, into=form + ", out={out})" if is_ordered else "", in_place=plain, elementwise=plain)

    def _ordered(self, values: Sequence[Value], example: Array) -> bool:
        """Whether a new result is laid out in order, so that an array that is there can take its place."""
        return bool(example.flags.c_contiguous)

    def _into(self, ufunc: np.ufunc, method: str, inputs: Sequence[Tensor], out: Tensor, options: Tensor) -> Traced:
        """An operation in place: on an array of the kernel's own that nothing else shows it is a new value under its name."""
        # In the trace there are no changes, only new values: that is right only if no view shows the old array, or nothing else has it.
        target = out[0] if isinstance(out, tuple) else out
        is_shared = isinstance(target, Traced) and any(view.root is target.value.root for view in self.trace.views.values())
        if not isinstance(target, Traced) or not target.fresh or is_shared:
            raise Untraceable("an operation in place")
        result = self.__array_ufunc__(ufunc, method, *inputs, **options)
        if result.dtype != target.dtype or result.shape != target.shape or result.value.in_order != target.value.in_order:
            raise Untraceable("an operation in place of another type")
        target.value = result.value
        return target

    def __array_function__(self, function: Function, types: Tensor, args: Sequence[Tensor], options: Tensor) -> Tensor:
        handler = _FUNCTIONS.get(function)
        if handler is None:
            raise Untraceable(function.__name__)
        return handler(self, *args, **options)


# -- functions of numpy --------------------------------------------------------------------------


def _unchanged(ufunc: np.ufunc, values: Sequence[Value]) -> Value | None:
    """The operand that a product with 1 is, to the last bit."""
    if ufunc is np.multiply:
        for x, by in (values, values[::-1]):
            # A product with exactly 1 changes no bit of a float but those of a signaling nan; with another dtype it would convert. Counters
            # of loops are integers that are multiplied by 1.
            number = by.constant and np.ndim(by.example) == 0 and by.example == 1
            if number and x.static and x.example.dtype.kind in "fiu" and np.result_type(by.example, x.example) == x.example.dtype:
                return x
    return None


def _narrowed(ufunc: np.ufunc, values: list[Value]) -> list[Value]:
    """Operands that are one number everywhere as that number, and Python's numbers as arrays, as numpy makes them at each call."""
    shape = np.broadcast_shapes(*(np.shape(value.example) for value in values))
    scalars = [_scalar_of(value) for value in values]
    # Where another operand has the full shape anyway, a broadcast operand of one number can be that number: no array to read.
    whole = any(scalar is None and np.shape(value.example) == shape for value, scalar in zip(values, scalars, strict=True))
    values = [scalar if scalar is not None and whole else value for value, scalar in zip(values, scalars, strict=True)]
    dtypes = {value.example.dtype for value in values if isinstance(value.example, np.ndarray | np.generic)}
    if len(dtypes) != 1 or next(iter(dtypes)).kind != "f":
        return values
    (dtype,) = dtypes
    return [
        Value(_read_only(np.asarray(v.example, dtype)), True, None, True, "constant") if type(v.example) in (int, float) else v
        for v in values
    ]


def _scalar_of(value: Value) -> Value | None:
    if value.constant and isinstance(value.example, np.ndarray) and value.example.size > 1 and not any(value.example.strides):
        return Value(_read_only(value.example.reshape(-1)[:1].copy().reshape(())), True, None, True, "constant")
    return value.scalar


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(int(n)) for n in numbers) or "()"


def _index_text(part: Tensor) -> str:
    if isinstance(part, slice):
        ends = [("" if bound is None else str(int(bound))) for bound in (part.start, part.stop)]
        return ":".join(ends) + ("" if part.step is None else f":{int(part.step)}")
    return "..." if part is Ellipsis else "None" if part is None else str(int(part))


def _option_text(option: object) -> str:
    if isinstance(option, np.ndarray | np.generic):
        return _option_text(option.item())
    if isinstance(option, float) and (option != option or option in (np.inf, -np.inf)):
        return f"float('{option}')"
    if isinstance(option, np.dtype | type):
        return repr(np.dtype(option).name)
    return repr(tuple(int(number) for number in option)) if isinstance(option, tuple | list) else repr(option)


def _reducing(ufunc: np.ufunc) -> Function:
    def handler(tracer: Traced, x: Tensor, axis: Tensor = None, dtype: Tensor = None, out: Tensor = None, **options: Tensor) -> Tensor:
        if out is not None or not isinstance(x, Traced):
            raise Untraceable("out")
        reduce_options = {"axis": tuple(axis) if isinstance(axis, list) else axis, **({} if dtype is None else {"dtype": dtype}), **options}
        return ufunc.reduce(x, **reduce_options)

    return handler


def _reduced_extreme(ufunc: np.ufunc) -> Function:
    inner = _reducing(ufunc)
    return lambda tracer, a, axis=None, out=None, **options: inner(tracer, a, axis, None, out, **options)


def _choice(example: Array, chosen: Sequence[Tensor]) -> str:
    """How ``np.where``, which has no ``out=``, is written into an array: one of two operands {1} and {2}, by the mask {0}."""
    # Of bits, y ^ (x ^ y) * mask is x or y. A copy with a mask goes one of two ways for each element: random ones are guessed wrong.
    if example.size < CHOSEN or any(not isinstance(part, np.ndarray) or part.dtype != example.dtype for part in chosen):
        return "np.copyto({out}, {2}); np.copyto({out}, {1}, where={0})"
    if example.dtype.kind != "f" or example.itemsize not in (4, 8):
        return "np.copyto({out}, {2}); np.copyto({out}, {1}, where={0})"
    bits = f".view('i{example.itemsize}')"
    both = f"np.bitwise_xor({{1}}{bits}, {{2}}{bits}, out={{out}}{bits})"
    masked = f"np.multiply({{out}}{bits}, {{0}}, out={{out}}{bits})"
    return f"{both}; {masked}; np.bitwise_xor({{out}}{bits}, {{2}}{bits}, out={{out}}{bits})"


def _where(tracer: Traced, condition: Tensor, *others: Tensor) -> Tensor:
    if len(others) != 2:
        raise Untraceable("where of a condition alone")
    values = [tracer.operand(part) for part in (condition, *others)]
    numbers = [part.value.example if isinstance(part, Traced) else part for part in (condition, *others)]
    example = np.where(*numbers)
    shapes = {value.example.shape for value in values if isinstance(value.example, np.ndarray) and value.example.ndim}
    plain = len(shapes) == 1 and example.flags.c_contiguous and values[0].example.dtype == bool
    into = _choice(example, [value.example for value in values[1:]]) if plain else ""
    return tracer.made("np.where({0}, {1}, {2})", values, example, into=into, elementwise=plain)


def _joining(function: Function) -> Function:
    def handler(tracer: Traced, arrays: Sequence[Tensor], axis: int = 0, **options: Tensor) -> Tensor:
        if options:
            raise Untraceable("options")
        values = [tracer.operand(array) for array in arrays]
        example = function([value.example for value in values], axis=axis)
        places = ", ".join(f"{{{i}}}" for i in range(len(values)))
        form = f"np.{function.__name__}(({places},), axis={int(axis)}"
        alike = len({value.example.dtype for value in values}) == 1 and example.flags.c_contiguous
        return tracer.made(form + ")", values, example, into=form + ", out={out})" if alike else "")

    return handler


def _dot(tracer: Traced, x: Tensor, y: Tensor) -> Tensor:
    values = [tracer.operand(matrix) for matrix in (x, y)]
    if any(value.example.ndim != 2 for value in values):
        raise Untraceable("a product of other than matrices")
    example = np.dot(*(value.example for value in values))
    alike = values[0].example.dtype == values[1].example.dtype
    return tracer.made("np.dot({0}, {1})", values, example, into="np.dot({0}, {1}, out={out})" if alike else "")


def _taken(tracer: Traced, x: Tensor, places: Tensor, axis: int | None = None) -> Tensor:
    values = [tracer.operand(x), tracer.operand(places)]
    array, indices = (np.asarray(value.example) for value in values)
    if axis is None or indices.dtype.kind not in "iu" or not array.shape[axis]:
        raise Untraceable("places that are no indices of an axis")
    at = axis % array.ndim
    try:
        example = np.take(array, indices, axis=at)
    except IndexError:  # of an example that has let go of its elements
        indices = np.zeros_like(indices)
        example = np.take(array, indices, axis=at)
    # One slice is a view. Indices out of range fail here too, and the interpreter says so.
    if indices.size == 1:
        view = array[(*[slice(None)] * at, indices.item(), ...)]
        row = tracer.made(f"{{0}}[{':, ' * at}{{1}}.item(), ...]", values, view, pure=False)
        return row.reshape(example.shape)
    return tracer.made(f"np.take({{0}}, {{1}}, axis={at})", values, example, pure=False)


def _repeated(tracer: Traced, x: Traced, repeats: Tensor, axis: int | None = None) -> Tensor:
    if not isinstance(repeats, int) or axis is None:
        raise Untraceable("repeats that a run computes, or of a flat array")
    example = np.repeat(x.value.example, repeats, axis)
    return tracer.made(f"{{0}}.repeat({repeats}, {int(axis)})", [x.value], example)


def _clip(tracer: Traced, x: Tensor, low: Tensor = None, high: Tensor = None) -> Tensor:
    values = [tracer.operand(x)]
    texts = []
    # Bounds that a run computes are arguments of the call; Python's numbers are written into it.
    for bound in (low, high):
        if isinstance(bound, Traced | np.ndarray | np.generic):
            texts.append(f"{{{len(values)}}}")
            values.append(tracer.operand(bound))
        else:
            texts.append(_option_text(bound))
    example = np.clip(*(bound.value.example if isinstance(bound, Traced) else bound for bound in (x, low, high)))
    form = f"np.clip({{0}}, {', '.join(texts)}"
    is_ordered = bool(example.flags.c_contiguous)
    return tracer.made(form + ")", values, example, into=form + ", out={out})" if is_ordered else "", in_place=True, elementwise=True)


def _broadcast(tracer: Traced, x: Traced, shape: Tensor) -> Tensor:
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if extents == x.shape:
        return x
    view = tracer.made(f"np.broadcast_to({{0}}, {_option_text(extents)})", [x.value], np.broadcast_to(x.value.example, extents))
    # One element that is broadcast: where another operand has the shape anyway, the element can be read in its place.
    view.value.scalar = x.value.scalar or (x.value if x.size == 1 and x.ndim <= view.ndim else None)
    return view


def _like(function: Function) -> Function:
    """A new array in the type of another: the same in every run."""

    def handler(tracer: Traced, x: Traced, *args: Tensor, **options: Tensor) -> Tensor:
        array = function(x.value.example, *args, **options)
        value = tracer.trace.constant(_read_only(array))
        return Traced(tracer.trace, value, fresh=True)

    return handler


def _moved(tracer: Traced, x: Traced, source: Tensor, destination: Tensor) -> Tensor:
    sources = [int(s) % x.ndim for s in (source if isinstance(source, list | tuple) else [source])]
    targets = [int(t) % x.ndim for t in (destination if isinstance(destination, list | tuple) else [destination])]
    order = [i for i in range(x.ndim) if i not in sources]
    # As numpy's: in the order of the places, so that each insertion leaves the ones before it.
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return x.transpose(order)


def _expanded(tracer: Traced, x: Traced, axis: Tensor) -> Tensor:
    return x.reshape(np.expand_dims(np.empty(x.shape, "i1"), axis).shape)


def _squeezed(tracer: Traced, x: Traced, axis: Tensor = None) -> Tensor:
    return x.reshape(np.squeeze(np.empty(x.shape, "i1"), axis).shape)


_FUNCTIONS: dict[Function, Function] = {
    np.sum: _reducing(np.add),
    np.prod: _reducing(np.multiply),
    np.max: _reduced_extreme(np.maximum),
    np.amax: _reduced_extreme(np.maximum),
    np.min: _reduced_extreme(np.minimum),
    np.amin: _reduced_extreme(np.minimum),
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.concatenate: _joining(np.concatenate),
    np.stack: _joining(np.stack),
    np.take: _taken,
    np.repeat: _repeated,
    np.broadcast_to: _broadcast,
    np.zeros_like: _like(np.zeros_like),
    np.ones_like: _like(np.ones_like),
    np.empty_like: _like(np.empty_like),
    np.full_like: lambda tracer, x, fill, *args, **options: _like(np.full_like)(tracer, x, _plain_number(fill), *args, **options),
    np.atleast_1d: lambda tracer, x: x if x.ndim else x.reshape(1),
    np.transpose: lambda tracer, x, axes=None: x.transpose(axes),
    np.swapaxes: lambda tracer, x, one, other: x.swapaxes(one, other),
    np.moveaxis: _moved,
    np.reshape: lambda tracer, x, shape: x.reshape(shape),
    np.expand_dims: _expanded,
    np.squeeze: _squeezed,
}


def _plain_number(fill: Tensor) -> Tensor:
    if isinstance(fill, Traced):
        raise Untraceable("an array full of a value")
    return fill
