"""Functions of ``graphad.ops`` run over another numpy: the same code, in which ``np`` and some helpers are others.

    def pad2d(X, ...):  out = np.zeros(...)      ⇒     the same function with np = the namespace of XlaArrays

Kernels and gradient rules so have one definition. A helper that has a form of its own (``forms``) is replaced wherever it is called.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from graphad.jax.xla_array import XlaArray, wrapped
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import OpDef
from graphad.ops.formulas import Tracer
from graphad.ops.symbol import Symbol
from graphad.types import Function, Tensor

HOME = "graphad.ops"
# Not rebound: a copy of such a class would not be the one that an ``isinstance`` names.
_ASKED_FOR = (BaseException, Aggregate, Tracer, Symbol)  # classes that kernels ask values for with isinstance
_KEPT = ("__call__", "__post_init__")  # the methods of a class with underscores that compute something


# -- a numpy of XlaArrays ------------------------------------------------------------------------


def _array(value: Tensor, dtype: Tensor = None, **_: object) -> Tensor:
    """``numpy.asarray``."""
    if isinstance(value, XlaArray):
        return value if dtype is None else value.astype(dtype, copy=False)
    if isinstance(value, jax.Array):
        return wrapped(value if dtype is None else value.astype(dtype))
    if isinstance(value, list | tuple) and any(isinstance(v, XlaArray) and not v.is_known for v in value):
        # Numbers of which some are traced: numpy would ask each for its value.
        return wrapped(jnp.stack([jnp.asarray(v.value if isinstance(v, XlaArray) else v, dtype) for v in value]))
    return wrapped(np.asarray(value, dtype))


def _copied(value: Tensor, dtype: Tensor = None, copy: Tensor = True, **_: object) -> Tensor:
    array = _array(value, dtype)
    return array.copy() if copy else array


def _filled(shape: Tensor, fill_value: Tensor, dtype: Tensor = None) -> Tensor:
    if isinstance(fill_value, XlaArray):
        return wrapped(jnp.full(shape, fill_value.value, dtype))
    return wrapped(np.full(shape, fill_value, dtype))


class _IsArray(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, np.ndarray | XlaArray)


class _NdArray(metaclass=_IsArray):
    """The class that kernels know as ``np.ndarray`` in ``isinstance``; an XlaArray is an instance."""


def _made(function: Function) -> Function:
    def make(*args: Tensor, **options: Tensor) -> Tensor:
        return wrapped(function(*args, **options))

    return make


class Namespace:
    """``numpy``, with arrays that may be written into."""

    ndarray = _NdArray
    asarray = staticmethod(_array)
    asanyarray = staticmethod(_array)
    ascontiguousarray = staticmethod(_array)
    require = staticmethod(_array)
    array = staticmethod(_copied)
    full = staticmethod(_filled)

    def __init__(self) -> None:
        for name in ("zeros", "ones", "empty", "arange", "linspace", "eye", "identity", "tri", "indices"):
            setattr(self, name, _made(getattr(np, name)))

    def __getattr__(self, name: str) -> Tensor:
        return getattr(np, name)


NUMPY = Namespace()


# -- functions -----------------------------------------------------------------------------------


class Rebinder:
    """Functions over ``NUMPY``.

    Args:
        replaced: the forms of helper functions, by the function.
        call: what calling an operator's definition does.
    """

    def __init__(self, replaced: Mapping[Tensor, Function], call: Callable[[OpDef, tuple[Tensor, ...], dict[str, Tensor]], Tensor]) -> None:
        self.replaced = replaced
        self.call = call
        self._known: dict[int, tuple[Tensor, Tensor]] = {}
        self._globals: dict[int, dict[str, Tensor]] = {}

    def __call__(self, thing: Tensor) -> Tensor:
        """The thing - a function, a definition, an object with methods - over the other numpy; what has nothing to do with it as it is."""
        if thing is np:
            return NUMPY
        entry = self._known.get(id(thing))
        if entry is not None:
            return entry[1]
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, OpDef):
            return self._keep(thing, _Operator(thing, self))
        if isinstance(thing, types.MethodType):
            return types.MethodType(self(thing.__func__), self(thing.__self__))
        if isinstance(thing, dict | tuple | list):
            return self._container(thing)
        # Foreign code keeps its numpy; what it gets are arrays that stand for jax's.
        if not _is_ours(thing):
            return thing
        return self._class(thing) if isinstance(thing, type) else self._object(thing)

    def _container(self, thing: Tensor) -> Tensor:
        """A collection of functions, or the table of operators."""
        if isinstance(thing, dict) and thing and all(isinstance(v, OpDef) for v in thing.values()):
            return self._keep(thing, _Table(thing, self))
        if isinstance(thing, dict) and any(callable(item) for item in thing.values()):
            return self._keep(thing, {key: self(item) for key, item in thing.items()})
        if type(thing) in (tuple, list) and any(callable(item) for item in thing):
            return self._keep(thing, type(thing)(map(self, thing)))
        return thing

    def _keep(self, thing: Tensor, made: Tensor) -> Tensor:
        self._known[id(thing)] = (thing, made)  # with the thing: its id stays its own
        return made

    def _function(self, function: types.FunctionType) -> Tensor:
        if (form := self.replaced.get(function)) is not None:
            return self._keep(function, form)
        if not (function.__module__ or "").startswith(HOME) and not hasattr(function, "__wrapped__"):
            return function
        if not (function.__globals__.get("__name__") or "").startswith(HOME):
            return function
        # The copy is known before the contents of its cells are: a function that calls itself has itself in its closure.
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        code, names = function.__code__, self.globals_of(function.__globals__)
        counterpart = types.FunctionType(code, names, function.__name__, function.__defaults__, cells or None)
        counterpart.__kwdefaults__ = function.__kwdefaults__
        counterpart.__dict__.update({name: item for name, item in function.__dict__.items() if name != "__wrapped__"})
        self._keep(function, counterpart)
        if "__wrapped__" in function.__dict__:
            counterpart.__dict__["__wrapped__"] = self(function.__dict__["__wrapped__"])
        for new, old in zip(cells, function.__closure__ or (), strict=True):
            new.cell_contents = self(old.cell_contents)
        return counterpart

    def globals_of(self, names: dict[str, Tensor]) -> dict[str, Tensor]:
        """The names that a module's functions see, those of functions looked up when they are used."""
        namespace = self._globals.get(id(names))
        if namespace is None:
            namespace = self._globals[id(names)] = _Globals(names, self)
        return namespace

    def _class(self, thing: type) -> Tensor:
        kinds = (types.FunctionType, property, classmethod, staticmethod)
        members = {name: item for name, item in vars(thing).items() if isinstance(item, kinds) and (name[:2] != "__" or name in _KEPT)}
        if not members:
            return self._keep(thing, thing)
        # A subclass, so that isinstance still holds; known before its members are made, which may refer to it.
        counterpart = types.new_class(thing.__name__, (thing,), {}, lambda names: names.update({"__slots__": ()}))
        self._keep(thing, counterpart)
        for name, item in members.items():
            setattr(counterpart, name, self._member(item))
        return counterpart

    def _member(self, member: Tensor) -> Tensor:
        if isinstance(member, property):
            return property(self(member.fget))
        if isinstance(member, classmethod | staticmethod):
            return type(member)(self(member.__func__))
        return self(member)

    def _object(self, thing: Tensor) -> Tensor:
        kind = self(type(thing))
        if kind is type(thing):
            return thing
        try:
            # The same fields under the rebound class; an object whose class lays out its memory otherwise refuses, and stays as it is.
            counterpart = copy.copy(thing)
            object.__setattr__(counterpart, "__class__", kind)  # it may be a frozen one
        except TypeError:
            return thing
        return self._keep(thing, counterpart)


class _Globals(dict[str, Tensor]):
    """The global names of a module, over the other numpy."""

    def __init__(self, names: dict[str, Tensor], rebinder: Rebinder) -> None:
        super().__init__({"__name__": names["__name__"], "__builtins__": names["__builtins__"]})
        self.names, self.rebinder = names, rebinder

    # A function whose globals are of a subclass of dict looks names up by ``__getitem__``, and so comes here once for each.
    def __missing__(self, name: str) -> Tensor:
        value = self[name] = self.rebinder(self.names[name])
        return value


class _Operator:
    """A definition that other code calls."""

    def __init__(self, definition: OpDef, rebinder: Rebinder) -> None:
        self._definition, self._rebinder = definition, rebinder

    def __call__(self, *inputs: Tensor, **attrs: Tensor) -> Tensor:
        return self._rebinder.call(self._definition, inputs, attrs)

    @property
    def kernel(self) -> Tensor:
        return self._rebinder(self._definition.kernel)

    @property
    def function(self) -> Tensor:
        return self._rebinder(self._definition.function)

    def __getattr__(self, name: str) -> Tensor:
        return getattr(self._definition, name)


class _Table(dict[str, Tensor]):
    """The table of operators."""

    def __init__(self, table: Mapping[str, OpDef], rebinder: Rebinder) -> None:
        super().__init__()
        self.table, self.rebinder = table, rebinder

    def __missing__(self, name: str) -> Tensor:
        return self.rebinder(self.table[name])

    def get(self, name: str, default: Tensor = None) -> Tensor:
        return self[name] if name in self.table else default


def _is_ours(thing: Tensor) -> bool:
    kind = thing if isinstance(thing, type) else type(thing)
    return kind.__module__.startswith(HOME) and not issubclass(kind, _ASKED_FOR)
