"""Attributes that operators have in common, and those that may come as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeVar

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.inference import check_index, matched
from graphad.ops.parameters import REQUIRED, Parameter, declare, parameters_of
from graphad.ops.registry import REGISTRY
from graphad.types import Array, Function, Tensor, TensorType, element_count

# -- attributes as tensors -------------------------------------------------------------------------
# Attributes that may come as tensors instead: lists of integers that are known at run time only.

Types = Sequence[TensorType]


def numbers(attr: list[int], tensor: Array | None, parts: Sequence[Array] | None) -> list[int]:
    """The integers: of a list of tensors of one element each if there is one, else of one tensor, else the attribute's."""
    if parts:
        return [one_number(t) for t in parts]
    return attr if tensor is None else [int(i) for i in tensor.reshape(-1)]


def one_number(t: Array) -> int:
    """The integer in a tensor; InvalidValue if there is not exactly one."""
    if t.size != 1:
        raise InvalidValue(f"a tensor of one integer is expected, not of the shape {list(t.shape)}")
    return int(t.reshape(())[()])


def how_many(slot: str, attr: list[int], tensor: TensorType | None, parts: Types | None) -> int:
    """How many integers there will be; ShapeError if the tensors hold none, or their number is not known before the run."""
    if parts:
        for i, t in enumerate(parts):
            check_index(f"{slot}[{i}]", t)
            if not matched(element_count(t.shape), 1):
                raise ShapeError(f"{slot}[{i}] is {t}; a tensor of one integer is expected")
        return len(parts)
    if tensor is None:
        return len(attr)
    check_index(slot, tensor)
    if len(tensor.shape) > 1 or element_count(tensor.shape) == -1:
        raise ShapeError(f"{slot} is {tensor}; a vector is expected, and how long it is has to be known before the program runs")
    return element_count(tensor.shape)


def given(name: str, attr: list[int] | None, tensor: object, parts: Sequence[object] | None) -> list[int]:
    """The attribute, empty where tensors take its place; ShapeError if there is neither."""
    if attr is None and not is_given(tensor, parts):
        raise ShapeError(f"attribute {name!r} (list[int]) is missing, and no tensor takes its place")
    return attr or []


def hinted(slot: str, attr: list[int], tensor: TensorType | None, parts: Types | None) -> list[int]:
    """The integers as far as they are known before the run: the attribute, or -1 for each if its length differs from their number."""
    count = how_many(slot, attr, tensor, parts)
    return list(attr) if len(attr) == count else [-1] * count


def is_given(tensor: object, parts: Sequence[object] | None) -> bool:
    """Whether tensors take the place of the attribute."""
    return tensor is not None or bool(parts)


# -- attributes ------------------------------------------------------------------------------------
# Attributes that several operators share, written once as a dataclass.
#
# @operator("X Like -> Out", infer=..., grad={"X": applied("pool2d", "dOut", Pooling)})
# @attributes(Pooling)
# def pool2d_spread(X: Array, Like: Array, **attrs: Any) -> Array: ...

Kernel = TypeVar("Kernel", bound=Function)
Frozen = tuple[tuple[str, Any], ...]


def frozen(attrs: Mapping[str, Any]) -> Frozen:
    """Attributes as what a cache goes by: lists are tuples."""
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in attrs.items())


def thawed(attrs: Frozen) -> dict[str, Any]:
    """The attributes that ``frozen`` was called with."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attrs}


def attributes(spec: object, **defaults: object) -> Callable[[Kernel], Kernel]:
    """Give a kernel or a rule that takes ``**attrs`` the fields of a dataclass as its attributes, some with defaults of its own."""

    def add(function: Kernel) -> Kernel:
        parameters = [p for p in parameters_of(function) if not p.variable]
        declare(function, [*parameters, *_parameters(spec, defaults)])
        return function

    return add


def _parameters(spec: object, defaults: Mapping[str, object]) -> Iterator[Parameter]:
    """The fields of a dataclass as keyword-only parameters."""
    return (p._replace(default=defaults[p.name]) if p.name in defaults else p for p in _fields(spec))


@cache
def _fields(spec: Any) -> tuple[Parameter, ...]:
    return tuple(Parameter(f.name, _default(f), f.type, keyword_only=True) for f in fields(spec))


def _default(field: Field[object]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return REQUIRED if field.default is MISSING else field.default


def applied(op_type: str, reads: str, spec: object) -> Callable[..., Tensor]:
    """A gradient rule: another operator, with the same attributes, applied to what ``reads`` names."""

    def rule(*operands: Tensor, **attrs: object) -> Tensor:
        return REGISTRY[op_type](*operands, **attrs)

    declare(rule, [*map(Parameter, reads.split()), *_parameters(spec, {})])
    return rule
