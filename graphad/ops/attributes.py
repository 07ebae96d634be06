"""Attributes that several operators share, written once as a dataclass.

@operator("X Like -> Out", infer=..., grad={"X": applied("pool2d", "dOut", Pooling)})
@attributes(Pooling)
def pool2d_spread(X: Array, Like: Array, **attrs: Any) -> Array: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from graphad.ops.definition import Tensor
from graphad.ops.symbol import REGISTRY

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def attributes(spec: Any) -> Callable[[Kernel], Kernel]:
    """Give a kernel or a rule that takes ``**attrs`` the fields of a dataclass as its attributes."""

    def add(function: Kernel) -> Kernel:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        vars(function)["__signature__"] = inspect.Signature([*own, *_parameters(spec)])
        return function

    return add


def _parameters(spec: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as keyword-only parameters."""
    return [inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=_default(f), annotation=f.type) for f in fields(spec)]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def applied(op_type: str, reads: str, spec: Any) -> Callable[..., Tensor]:
    """A gradient rule: another operator, with the same attributes, applied to what ``reads`` names."""

    def rule(*operands: Tensor, **attrs: Any) -> Tensor:
        return REGISTRY[op_type](*operands, **attrs)

    operands = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in reads.split()]
    vars(rule)["__signature__"] = inspect.Signature([*operands, *_parameters(spec)])
    return rule
