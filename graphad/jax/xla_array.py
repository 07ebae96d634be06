"""Arrays that a kernel computes on while a program is lowered to XLA: numpy's functions of them are ``jax.numpy``'s.

    out = np.zeros((n, 3), x.dtype)        a constant, as long as nothing traced is put into it
    out[ids] = x                       ⇒   out.value = zeros.at[ids].set(x)
    np.add(out, 1, out=out)            ⇒   out.value = out.value + 1

A kernel sees an array that it may also write into: the object holds a value, and writing gives it another one, in views of it too. What is
known while a program is lowered (shapes, constants) stays a numpy array, and may be looked at; what is not has no truth value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import EllipsisType

import jax
import jax.numpy as jnp
import numpy as np

from graphad.ops.formulas import Tracer, Untraceable, converted, filled, raised
from graphad.types import Array, Function, Tensor

Key = object  # a subscript
Value = Tensor  # an array of numpy's, or of jax's

_BASIC = int | np.integer | slice | EllipsisType | None


class Known(Untraceable):
    """A kernel asks for a value that is not known before the program runs."""


class XlaArray(Tracer):
    """An array in a kernel: a numpy array, or one of jax's.

    Args:
        value: what it holds.
        parent: the array that it is a view of.
        read: the view of a value of the parent.
        write: the value of the parent with that of the view put into it.
    """

    __slots__ = ("_read", "_seen", "_value", "_write", "parent", "version")
    __array_priority__ = 100

    def __init__(self, value: Value, parent: XlaArray | None = None, read: Function | None = None, write: Function | None = None) -> None:
        self._value = value
        self.dtype = np.dtype(value.dtype)
        self.parent, self._read, self._write = parent, read, write
        self.version = 0
        self._seen = parent.version if parent is not None else 0

    # -- values ----------------------------------------------------------------------------------

    @property
    def value(self) -> Value:
        """The current content; that of a view is read from its parent again if the parent has been written to."""
        if self.parent is not None and self._seen != self.parent.stamp():
            assert self._read is not None
            self._value, self._seen = self._read(self.parent.value), self.parent.stamp()
        return self._value

    def stamp(self) -> int:
        """A number that changes whenever the value does."""
        return self.version if self.parent is None else self.version + self.parent.stamp()

    def assign(self, value: Value) -> None:
        """Hold another value of the same shape and dtype; so do the arrays that this is a view of."""
        value = _as(value, self.dtype)
        if tuple(value.shape) != self.shape:
            value = _numpy_or_jax(value).broadcast_to(value, self.shape)
        if self.parent is not None:
            assert self._write is not None
            self.parent.assign(self._write(self.parent.value, value))
            # The view shows the parent's version of now.
            self._value, self._seen = value, self.parent.stamp()
            return
        self._value = value
        self.version += 1

    @property
    def is_known(self) -> bool:
        """Whether the value is known while the program is lowered."""
        return isinstance(self.value, np.ndarray)

    def known(self) -> Array:
        """The value, where it is known.

        Raises:
            Known: it is not.
        """
        value = self.value
        if not isinstance(value, np.ndarray):
            raise Known("it depends on values that are known only when the program runs")
        return value

    # -- what arrays have ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._value.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def T(self) -> XlaArray:
        return self.transpose()

    @property
    def flat(self) -> XlaArray:
        return self.reshape(-1)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        return bool(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def __int__(self) -> int:
        return int(self.known())

    def __index__(self) -> int:
        return int(self.known().__index__())

    # An array of numpy's needs the numbers, which a traced value has not: ``known`` says so.
    def __array__(self, dtype: Tensor = None, copy: object = None) -> Array:
        return np.asarray(self.known(), dtype)

    def item(self, *at: int) -> Tensor:
        return self.known().item(*at)

    def tolist(self) -> Tensor:
        return self.known().tolist()

    def __pow__(self, other: object) -> Tensor:
        # Through the ufunc, so that the dtype is numpy's.
        return self.__array_ufunc__(np.power, "__call__", self, other)

    def __rpow__(self, other: object) -> Tensor:
        return self.__array_ufunc__(np.power, "__call__", other, self)

    def like(self, number: object) -> Tensor:
        return self.dtype.type(number)

    # -- other layouts ---------------------------------------------------------------------------

    def reshape(self, *shape: Tensor, order: str = "C") -> XlaArray:
        new_shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
        # An extent may be a numpy integer; jit wants Python's.
        new_shape = tuple(int(e) for e in new_shape)
        old_shape = self.shape
        # numpy's reshape is a view where it can be: what is written into it is written into the array, so the way back is kept.
        return self._view(lambda v: v.reshape(new_shape, order=order), lambda _, part: part.reshape(old_shape, order=order))

    def transpose(self, *axes: Tensor) -> XlaArray:
        argument = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
        order = tuple(range(self.ndim))[::-1] if argument is None or not len(argument) else tuple(int(a) % self.ndim for a in argument)
        back = tuple(np.argsort(order)) if order else ()
        return self._view(lambda v: v.transpose(order), lambda _, part: part.transpose(back))

    def swapaxes(self, one: int, other: int) -> XlaArray:
        order = list(range(self.ndim))
        order[one], order[other] = order[other], order[one]
        return self.transpose(order)

    def ravel(self, order: str = "C") -> XlaArray:
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Tensor = None) -> XlaArray:
        old_shape = self.shape
        return self._view(lambda v: v.squeeze(axis), lambda _, part: part.reshape(old_shape))

    def view(self, dtype: Tensor = None) -> XlaArray:
        # The bits of another dtype are no view here: XLA has no aliases.
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return XlaArray(_bits(self.value, np.dtype(dtype)))
        return self._view(lambda v: v, lambda _, part: part)

    def _view(self, read: Function, write: Function) -> XlaArray:
        return XlaArray(read(self.value), self, read, write)

    def copy(self, order: str = "C") -> XlaArray:
        value = self.value
        # jax's arrays never change, so the value itself is a copy.
        return XlaArray(value.copy() if isinstance(value, np.ndarray) else value)

    def flatten(self, order: str = "C") -> XlaArray:
        return self.ravel(order).copy()

    def astype(self, dtype: Tensor, copy: bool = True, **_: object) -> XlaArray:
        target = np.dtype(dtype)
        if target == self.dtype:
            return self.copy() if copy else self
        return XlaArray(_as(self.value, target))

    def fill(self, value: object) -> None:
        self[...] = value

    # -- parts -----------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> XlaArray:
        parts = key if isinstance(key, tuple) else (key,)
        if all(isinstance(part, _BASIC) for part in parts):
            # Basic indices give a view, as in numpy: an assignment to it has to reach the array that it is of.
            plain = tuple(int(p) if isinstance(p, np.integer) else p for p in parts)
            # A scalar of numpy's would lose the way back.
            return self._view(
                lambda v: np.asarray(v[plain]) if isinstance(v, np.ndarray) else v[plain], lambda v, part: _put(v, plain, part)
            )
        index = tuple(_index(part) for part in parts)
        value = self.value
        if all(isinstance(part, np.ndarray | _BASIC) for part in index):
            if isinstance(value, np.ndarray):
                return XlaArray(np.asarray(value[index]))
        # Its elements would have an extent that only the run knows.
        elif any(not isinstance(part, _BASIC) and part.dtype == bool for part in index):
            raise Known("the number of elements that a mask takes depends on its values")
        return XlaArray(jnp.asarray(value)[index])

    def __setitem__(self, key: Key, value: Tensor) -> None:
        parts = tuple(_index(part) for part in (key if isinstance(key, tuple) else (key,)))
        self.assign(_put(self.value, parts, _plain(value)))

    # -- methods that are functions --------------------------------------------------------------

    def sum(self, axis: Tensor = None, dtype: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Tensor = None, dtype: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def var(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.var(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.prod(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Tensor = None, keepdims: bool = False, **options: Tensor) -> Tensor:
        return np.max(self, axis=axis, keepdims=keepdims, **options)

    def min(self, axis: Tensor = None, keepdims: bool = False, **options: Tensor) -> Tensor:
        return np.min(self, axis=axis, keepdims=keepdims, **options)

    def any(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.all(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: Tensor = None, keepdims: bool = False) -> Tensor:
        return np.argmin(self, axis=axis, keepdims=keepdims)

    def argsort(self, axis: Tensor = -1, kind: Tensor = None) -> Tensor:
        return np.argsort(self, axis=axis, kind=kind)

    def cumsum(self, axis: Tensor = None) -> Tensor:
        return np.cumsum(self, axis=axis)

    def clip(self, *bounds: Tensor) -> Tensor:
        return np.clip(self, *bounds)

    def round(self, decimals: int = 0) -> Tensor:
        return np.round(self, decimals)

    def repeat(self, count: Tensor, axis: Tensor = None) -> Tensor:
        return np.repeat(self, count, axis=axis)

    def take(self, index: Tensor, axis: Tensor = None) -> Tensor:
        return np.take(self, index, axis=axis)

    def dot(self, other: Tensor) -> Tensor:
        return np.dot(self, other)

    def conj(self) -> XlaArray:
        return self

    # -- numpy's functions -----------------------------------------------------------------------

    def apply(self, function: Function, args: Sequence[object]) -> Tensor:
        """A ufunc, or one of the primitives of formulas."""
        if isinstance(function, np.ufunc):
            return self.__array_ufunc__(function, "__call__", *args)
        if function is converted:
            return self.astype(args[1])
        if function is filled:
            # Filled from a shape alone: numpy's array is a constant of the program.
            return XlaArray(np.full(self.shape, args[1], args[2]))
        if function is raised:
            return wrapped(jnp.power(self.value, jnp.asarray(args[1], self.dtype)))
        if function in (np.where, np.clip, np.zeros_like):
            return self.__array_function__(function, (), args, {})
        if hasattr(function, "__wrapped__"):  # a primitive, over this numpy
            # A primitive's function, which calls numpy's functions on this array in turn.
            return function.__wrapped__(*args)
        raise Untraceable(f"{function.__name__} has no form over jax.numpy")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Tensor, out: Tensor = None, **options: Tensor) -> Tensor:
        values = [_plain(operand) for operand in inputs]
        # ``where`` of a call chooses what is written into ``out``; of a reduction it is an option.
        mask = options.pop("where", True) if method == "__call__" else True
        options = {name: _plain(option) for name, option in options.items() if option is not np._NoValue}
        # add.at is a scatter in XLA.
        if method == "at":
            return self._add_at(ufunc, inputs[0], values[1:])
        if any(isinstance(value, jax.Array) for value in (*values, *options.values())):
            result = _on_jax(ufunc, method, values, options)
        else:
            # No traced value among them: numpy computes now, and the program has a constant.
            result = getattr(ufunc, method)(*values, **options)
        if out is None or (isinstance(out, tuple) and out[0] is None):
            return wrapped(result)
        targets = out if isinstance(out, tuple) else (out,)
        for target, part in zip(targets, result if isinstance(result, tuple) else (result,), strict=True):
            if not isinstance(target, XlaArray):
                raise Untraceable("numpy's own arrays are not written into")
            # XLA's arrays do not change: an output gets a new value, with the old elements where the mask is false.
            target.assign(part if mask is True else jnp.where(_plain(mask), part, target.value))
        return targets[0] if len(targets) == 1 else targets

    def _add_at(self, ufunc: np.ufunc, target: Tensor, values: Sequence[Value]) -> None:
        names = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min", "subtract": "subtract"}
        if not isinstance(target, XlaArray) or ufunc.__name__ not in names:
            raise Untraceable(f"np.{ufunc.__name__}.at")
        index, part = values
        index = tuple(map(_index, index)) if isinstance(index, tuple) else _index(index)
        target.assign(getattr(jnp.asarray(target.value).at[index], names[ufunc.__name__])(_as(jnp.asarray(part), target.dtype)))

    def __array_function__(self, function: Function, types: object, args: Tensor, options: Mapping[str, Tensor]) -> Tensor:
        module = (function.__module__ or "").removeprefix("numpy").removeprefix("._core").strip(".")
        # Functions with a form of their own here.
        form = _OWN.get(function.__name__)
        if form is not None and module != "linalg":
            return form(*args, **options)
        operands, keywords = _plain(list(args)), {name: _plain(option) for name, option in options.items()}
        # The same for functions: what is known stays numpy's, to the last bit.
        if not any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves((operands, keywords))):
            return wrapped(function(*operands, **keywords))
        if function is np.where:
            return _where(*args)
        home: Tensor = jnp.linalg if module == "linalg" else jnp
        counterpart = _one_triangle if function is np.linalg.eigh else getattr(home, function.__name__, None)
        if counterpart is None:
            raise Untraceable(f"numpy's {function.__name__} is not in jax.numpy")
        # jax's sorts are stable, and its arrays have one order.
        keywords.pop("kind", None)
        out = keywords.pop("out", None)
        if keywords.get("order") in ("C", "K", "A", None):
            # All orders but Fortran's are the one that jax has.
            keywords.pop("order", None)
        keywords = {name: option for name, option in keywords.items() if option is not np._NoValue}
        result = counterpart(*operands, **keywords)
        if out is None:
            return wrapped(result)
        options["out"].assign(result)
        return options["out"]


# -- values --------------------------------------------------------------------------------------


def wrapped(result: Tensor) -> Tensor:
    """The result of a function as a kernel sees it: JAX's arrays and numpy's as XlaArrays."""
    if isinstance(result, tuple | list):
        return type(result)(wrapped(item) for item in result) if type(result) in (tuple, list) else tuple(map(wrapped, result))
    if isinstance(result, np.ndarray | np.generic):
        # Known numbers stay numpy's, so that shapes can be made of them.
        return XlaArray(np.asarray(result))
    return XlaArray(result) if isinstance(result, jax.Array) else result


def _plain(value: Tensor) -> Tensor:
    """An argument with XlaArrays unwrapped."""
    if isinstance(value, XlaArray):
        return value.value
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value
    return value


def _index(part: Tensor) -> Tensor:
    value = np.asarray(part) if isinstance(part, list) and not any(isinstance(p, XlaArray) for p in part) else _plain(part)
    if isinstance(value, range):
        return np.asarray(value)
    return jnp.stack([jnp.asarray(_plain(p)) for p in value]) if isinstance(value, list) else value


def _put(value: Value, key: Tensor, part: Value) -> Value:
    """A value with another one in some of its elements."""
    # Arrays of numpy's are written into while all is known.
    if isinstance(value, np.ndarray) and not any(isinstance(index, jax.Array) for index in (*key, part)):
        result = value.copy()
        result[key] = part
        return result
    masks = [index for index in key if not isinstance(index, _BASIC) and index.dtype == bool]
    if masks and len(key) == 1 and np.ndim(part) == 0:
        # Which elements a mask takes need not be known where all of them get the same number.
        mask = masks[0].reshape(masks[0].shape + (1,) * (value.ndim - masks[0].ndim))
        return jnp.where(mask, jnp.asarray(part, value.dtype), value)
    if any(isinstance(mask, jax.Array) for mask in masks):
        raise Known("which elements a mask takes depends on its values")
    value, part = jnp.asarray(value), _as(jnp.asarray(part), np.dtype(value.dtype))
    if all(isinstance(index, _BASIC) for index in key):
        return _put_slice(value, key, part)
    if any(isinstance(index, jax.Array) and index.size > 1 for index in key) and part.size > 1:
        return _put_in_order(value, key, part)
    return value.at[key].set(part)


def _put_slice(value: jax.Array, key: Tensor, part: jax.Array) -> jax.Array:
    """A slice of an array: an update in one piece, or elements spread with gaps (XLA would make a scatter of it)."""
    shape = np.broadcast_to(np.empty((), bool), value.shape)[key].shape
    starts, steps, extents = [], [], []
    axis_count = sum(index is not None and index is not ... for index in key)
    dots = [i for i, index in enumerate(key) if index is ...] or [len(key)]
    whole = [slice(None)] * (value.ndim - axis_count)
    parts = [index for index in (*key[: dots[0]], *whole, *key[dots[0] + 1 :]) if index is not None]
    for index, extent in zip(parts, value.shape, strict=True):
        places = range(extent)[index] if isinstance(index, slice) else range(extent)[index : index + 1 or None]
        starts.append(places.start)
        # One axis at a time: where the slice begins, its step, and how many places it has.
        steps.append(places.step)
        extents.append(len(places))
    if 0 in extents:
        return value
    part = jnp.broadcast_to(part, shape).reshape(extents)
    backwards = [i for i, step in enumerate(steps) if step < 0]
    part = jax.lax.rev(part, backwards) if backwards else part
    # A backward slice is a forward one, its elements in the opposite order.
    starts = [s + (n - 1) * k if k < 0 else s for s, k, n in zip(starts, steps, extents, strict=True)]
    if all(abs(step) == 1 for step in steps):
        return jax.lax.dynamic_update_slice(value, part, starts)
    around = [
        (s, whole_ - s - (n - 1) * abs(k) - 1, abs(k) - 1) for s, k, n, whole_ in zip(starts, steps, extents, value.shape, strict=True)
    ]
    # With gaps: the elements are spread by an interior padding, and a mask known at compile time says where they go.
    mask = np.zeros(value.shape, bool)
    mask[key] = True
    return jnp.where(mask, jax.lax.pad(part, jnp.zeros((), part.dtype), around), value)


def _put_in_order(value: jax.Array, key: Tensor, part: jax.Array) -> jax.Array:
    """A place that is given twice gets what comes last, as in numpy; XLA's scatter leaves the order open."""
    if any(isinstance(index, _BASIC) for index in key):
        raise Untraceable("indices and slices in one subscript of what is written")
    places = jnp.broadcast_shapes(*(jnp.shape(index) for index in key))
    count = int(np.prod(places))
    order = jnp.arange(count).reshape(places)
    # Of the writes to a place the one with the greatest number is kept, found by a scatter whose order does not matter.
    last = jnp.full(value.shape[: len(key)], -1, order.dtype).at[key].max(order)
    parts = jnp.broadcast_to(part, (*places, *value.shape[len(key) :])).reshape(count, *value.shape[len(key) :])
    is_written = (last >= 0).reshape(last.shape + (1,) * (value.ndim - last.ndim))
    return jnp.where(is_written, parts[jnp.maximum(last, 0)], value)


def _as(value: Value, dtype: np.dtype[Tensor]) -> Value:
    # The usual case, and the only one without an operation.
    if value is not None and hasattr(value, "dtype") and value.dtype == dtype:
        return value
    if not isinstance(value, jax.Array):
        return np.asarray(value).astype(dtype)
    if value.dtype.kind == "f" and dtype.kind in "iu":
        value = _whole(value, dtype)
    return value.astype(dtype)


def _whole(value: jax.Array, dtype: np.dtype[Tensor]) -> jax.Array:
    """Numbers in a signed type, from which they are narrowed: those too large are the least one, as of x86. XLA would take the nearest."""
    if dtype == np.uint64:
        return value
    limits = np.iinfo("int32" if dtype.itemsize < 4 or dtype == np.int32 else "int64")
    return jnp.where(value >= 2.0 ** (limits.bits - 1), jnp.asarray(limits.min, limits.dtype), value.astype(limits.dtype))


def _numpy_or_jax(value: Value) -> Tensor:
    return jnp if isinstance(value, jax.Array) else np


# -- ufuncs --------------------------------------------------------------------------------------

_NAMES = {"abs": "absolute", "arcsin": "arcsin", "conjugate": "conjugate"}
_REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod"}


@lru_cache(maxsize=4096)
def _dtypes(ufunc: np.ufunc, kinds: tuple[Tensor, ...]) -> tuple[np.dtype[Tensor], ...]:
    """The dtypes that numpy computes a ufunc in, inputs and outputs."""
    return tuple(ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout)))


def _on_jax(ufunc: np.ufunc, method: str, values: Sequence[Tensor], options: Mapping[str, Tensor]) -> Tensor:
    """A ufunc of jax's arrays, in the dtypes that numpy would compute in."""
    if method == "__call__":
        return _called(ufunc, values, options)
    if method == "reduce" and ufunc.__name__ in _REDUCED:
        axis = values[1] if len(values) > 1 else options.get("axis", 0)
        rest = {name: options[name] for name in ("keepdims", "initial", "where") if options.get(name) is not None}
        x = values[0] if options.get("dtype") is None else values[0].astype(options["dtype"])
        # A scalar has no axis to reduce.
        axis = None if not x.ndim else axis
        if x.dtype == bool and ufunc.__name__ in ("maximum", "minimum"):
            # jax has no maximum of booleans.
            return getattr(jnp, {"maximum": "any", "minimum": "all"}[ufunc.__name__])(x, axis=axis, keepdims=bool(rest.get("keepdims")))
        result = getattr(jnp, _REDUCED[ufunc.__name__])(x, axis=axis, **rest)
        # numpy itself says of which dtype a reduction is: it widens narrow integers.
        dtype = np.dtype(options["dtype"]) if options.get("dtype") is not None else ufunc.reduce(np.ones(1, x.dtype)).dtype
        return result.astype(dtype)
    if method == "accumulate":
        axis = values[1] if len(values) > 1 else options.get("axis", 0)
        if ufunc.__name__ in _ACCUMULATED:
            return getattr(jnp, _ACCUMULATED[ufunc.__name__])(values[0], axis=axis).astype(values[0].dtype)
        along = {"maximum": jax.lax.cummax, "minimum": jax.lax.cummin, "logaddexp": jax.lax.cumlogsumexp}.get(ufunc.__name__)
        if along is not None:
            return along(values[0], axis=axis % values[0].ndim)
    if method == "outer":
        x, y = (jnp.asarray(value) for value in values)
        # An outer product is a plain one with the axes of the second after those of the first.
        return _called(ufunc, [x.reshape(x.shape + (1,) * y.ndim), y], options)
    raise Untraceable(f"np.{ufunc.__name__}.{method}")


def _called(ufunc: np.ufunc, values: Sequence[Tensor], options: Mapping[str, Tensor]) -> Tensor:
    dtype, mask, casting = options.get("dtype"), options.get("where", True), options.get("casting")
    if set(options) - {"dtype", "where", "casting"} or mask is not True:
        raise Untraceable(f"np.{ufunc.__name__} with options {sorted(options)}")
    function = getattr(jnp, _NAMES.get(ufunc.__name__, ufunc.__name__), None)
    if function is None:
        raise Untraceable(f"np.{ufunc.__name__} is not in jax.numpy")
    # Python's numbers are weak (NEP 50): they take the dtype of the arrays beside them.
    kinds = tuple(type(v) if type(v) in (int, float) else np.dtype(bool) if type(v) is bool else np.dtype(v.dtype) for v in values)
    dtypes = _dtypes(ufunc, kinds)
    if dtype is not None:
        dtypes = (np.dtype(dtype),) * len(dtypes)
    # How numbers are cast follows from the dtypes; a word for it changes nothing more.
    del casting
    args = [jnp.asarray(v, d) for v, d in zip(values, dtypes, strict=False)]
    result = function(*args)
    if isinstance(result, tuple):
        return tuple(r.astype(d) for r, d in zip(result, dtypes[ufunc.nin :], strict=True))
    return result.astype(dtypes[ufunc.nin])


# -- functions of numpy's that jax.numpy has otherwise ---------------------------------------------


def _copyto(target: Tensor, source: Tensor, casting: str = "same_kind", where: Tensor = True) -> None:
    if not isinstance(target, XlaArray):
        raise Untraceable("numpy's own arrays are not written into")
    if where is True:
        target[...] = source
        return
    target.assign(jnp.where(_plain(where), jnp.asarray(_plain(source), target.dtype), target.value))


def _sum(x: Tensor, axis: Tensor = None, dtype: Tensor = None, out: Tensor = None, keepdims: Tensor = False, **options: Tensor) -> Tensor:
    keep = keepdims if isinstance(keepdims, bool) else False
    return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keep, out=out, **options)


def _reduced_by(ufunc: np.ufunc) -> Function:
    def reduced(x: Tensor, axis: Tensor = None, out: Tensor = None, keepdims: Tensor = False, **options: Tensor) -> Tensor:
        keep = keepdims if isinstance(keepdims, bool) else False
        rest = {name: option for name, option in options.items() if option is not np._NoValue}
        return ufunc.reduce(x, axis=axis, keepdims=keep, out=out, **rest)

    return reduced


def _view_by(function: Function, back: Callable[..., Function]) -> Function:
    """A function of numpy's that returns a view, with how the view is put back."""

    def viewed(x: Tensor, *args: Tensor, **options: Tensor) -> Tensor:
        if not isinstance(x, XlaArray):
            return wrapped(function(x, *args, **options))
        old_shape = x.shape

        def read(v: Value) -> Value:
            return function(v, *args, **options) if isinstance(v, np.ndarray) else getattr(jnp, function.__name__)(v, *args, **options)

        return x._view(read, back(old_shape, *args, **options))

    return viewed


def _moved_back(own: Tensor, source: Tensor, destination: Tensor) -> Function:
    return lambda _, part: _numpy_or_jax(part).moveaxis(part, destination, source)


def _shaped_back(own: Tensor, *_: object, **__: object) -> Function:
    return lambda _, part: part.reshape(own)


def _reshape(x: Tensor, shape: Tensor, order: str = "C", **_: object) -> Tensor:
    return x.reshape(shape, order=order) if isinstance(shape, int | np.integer) else x.reshape(*shape, order=order)


def _isin(x: Tensor, among: Tensor, **_: object) -> Tensor:
    return wrapped(jnp.isin(_plain(x), jnp.asarray(_plain(among))))


def _take(x: Tensor, index: Tensor, axis: Tensor = None, **options: Tensor) -> Tensor:
    index = np.asarray(index) if isinstance(index, range | list) else _plain(index)
    x = _plain(x)
    if isinstance(x, np.ndarray) and not isinstance(index, jax.Array):
        return wrapped(np.take(x, index, axis))
    return wrapped(jnp.take(x, index, axis=axis))


def _einsum(equation: str, *operands: Tensor, dtype: Tensor = None) -> Tensor:
    """An einsum, in a dtype if one is named: operands and sums of their products have it."""
    values = [value if dtype is None else _as(value, np.dtype(dtype)) for value in map(_plain, operands)]
    return wrapped((jnp if any(isinstance(value, jax.Array) for value in values) else np).einsum(equation, *values))


def _ravel_multi_index(places: Tensor, shape: Tensor) -> Tensor:
    return sum(place * int(np.prod(shape[i + 1 :])) for i, place in enumerate(places))


def _put_along_axis(target: Tensor, index: Tensor, values: Tensor, axis: int) -> None:
    index = _plain(index)
    grid: list[Tensor] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    target[tuple(grid)] = values


def _where(condition: Tensor, *values: Tensor) -> Tensor:
    """With numpy's promotion."""
    if len(values) != 2:
        raise Known("how many elements are not zero depends on their values")
    kinds = [v if type(v) in (int, float, bool) else np.empty(0, v.dtype) for v in values]
    dtype = np.result_type(*kinds)
    return wrapped(jnp.where(_plain(condition), *(jnp.asarray(_plain(v), dtype) for v in values)))


def _bits(value: Value, dtype: np.dtype[Tensor]) -> Value:
    """The bits of numbers as those of another type of their size; a boolean is a byte of 0 or 1."""
    if dtype.kind == "b":
        return jax.lax.bitcast_convert_type(value, np.uint8) != 0
    return jax.lax.bitcast_convert_type(value.astype("uint8") if value.dtype == bool else value, dtype)


def _never_shared(*_: object) -> bool:
    return False


def _one_triangle(x: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues and vectors by one triangle, as numpy has it; jax takes the mean of both unless it is told."""
    return jnp.linalg.eigh(x, UPLO=UPLO, symmetrize_input=False)


_OWN: dict[str, Function] = {
    "isin": _isin,
    "take": _take,
    "einsum": _einsum,
    "ravel_multi_index": _ravel_multi_index,
    "put_along_axis": _put_along_axis,
    "may_share_memory": _never_shared,
    "shares_memory": _never_shared,
    "copyto": _copyto,
    "sum": _sum,
    "max": _reduced_by(np.maximum),
    "amax": _reduced_by(np.maximum),
    "min": _reduced_by(np.minimum),
    "amin": _reduced_by(np.minimum),
    "any": _reduced_by(np.logical_or),
    "all": _reduced_by(np.logical_and),
    "moveaxis": _view_by(np.moveaxis, _moved_back),
    "expand_dims": _view_by(np.expand_dims, _shaped_back),
    "squeeze": _view_by(np.squeeze, _shaped_back),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "swapaxes": lambda x, a, b: x.swapaxes(a, b),
    "reshape": _reshape,
    "ravel": lambda x, order="C": x.ravel(order),
    "shape": lambda x: x.shape,
    "size": lambda x, axis=None: x.size if axis is None else x.shape[axis],
    "ndim": lambda x: x.ndim,
}
