"""Attributes that several operators share, written once as a dataclass.

@operator("X Like -> Out", infer=..., grad={"X": applied("pool2d", "dOut", Pooling)})
@attributes(Pooling)
def pool2d_spread(X: Array, Like: Array, **attrs: Any) -> Array: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeVar

from graphad.ops.definition import Tensor
from graphad.ops.parameters import REQUIRED, Parameter, declare, parameters_of
from graphad.ops.symbol import REGISTRY

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def attributes(spec: Any, **defaults: Any) -> Callable[[Kernel], Kernel]:
    """Give a kernel or a rule that takes ``**attrs`` the fields of a dataclass as its attributes, some with defaults of its own."""

    def add(function: Kernel) -> Kernel:
        own = [p for p in parameters_of(function) if not p.variable]
        declare(function, [*own, *_parameters(spec, defaults)])
        return function

    return add


def _parameters(spec: Any, defaults: Mapping[str, Any]) -> Iterator[Parameter]:
    """The fields of a dataclass as keyword-only parameters."""
    return (p._replace(default=defaults[p.name]) if p.name in defaults else p for p in _fields(spec))


@cache
def _fields(spec: Any) -> tuple[Parameter, ...]:
    return tuple(Parameter(f.name, _default(f), f.type, keyword_only=True) for f in fields(spec))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return REQUIRED if field.default is MISSING else field.default


def applied(op_type: str, reads: str, spec: Any) -> Callable[..., Tensor]:
    """A gradient rule: another operator, with the same attributes, applied to what ``reads`` names."""

    def rule(*operands: Tensor, **attrs: Any) -> Tensor:
        return REGISTRY[op_type](*operands, **attrs)

    declare(rule, [*map(Parameter, reads.split()), *_parameters(spec, {})])
    return rule
