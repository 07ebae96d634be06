"""The parameters of kernels and rules, which say what an operator's slots and attributes are.

``inspect.signature`` takes 20 times as long, and hundreds of functions are read whenever graphad is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import NamedTuple

REQUIRED: object = object()
_DECLARED = "__graphad_parameters__"
_OTHERS = ("__wrapped__", "__signature__")


class Parameter(NamedTuple):
    """A parameter; its default is ``REQUIRED`` if it has none."""

    name: str
    default: object = REQUIRED
    annotation: object = inspect.Parameter.empty
    keyword_only: bool = False
    variable: bool = False  # *args or **kwargs


def parameters_of(function: Callable[..., object]) -> tuple[Parameter, ...]:
    """The parameters of a function in their order: as declared by ``declare``, else as written.

    Raises:
        ValueError: it does not say what it takes, as some functions written in C.
    """
    namespace = getattr(function, "__dict__", {})
    if _DECLARED in namespace:
        return tuple(namespace[_DECLARED])
    # Wrapped, partial and built-in functions say their parameters in other ways, which ``inspect`` knows.
    if type(function) is not FunctionType or any(name in namespace for name in _OTHERS):
        return tuple(map(_converted, inspect.signature(function).parameters.values()))
    return _written(function)


def declare(function: Callable[..., object], parameters: Iterable[Parameter]) -> None:
    """Let a function that takes ``**attrs`` say what it takes."""
    setattr(function, _DECLARED, tuple(parameters))


def _written(function: FunctionType) -> tuple[Parameter, ...]:
    # By hand, since ``inspect.signature`` is slow, and hundreds of kernels are read at import.
    code, notes = function.__code__, function.__annotations__
    names, count = code.co_varnames, code.co_argcount
    all_named = count + code.co_kwonlyargcount
    empty, keywords = inspect.Parameter.empty, function.__kwdefaults__ or {}
    defaults = function.__defaults__ or ()
    padded_defaults = (*(REQUIRED,) * (count - len(defaults)), *defaults)
    parameters = [Parameter(name, default, notes.get(name, empty)) for name, default in zip(names, padded_defaults, strict=False)]
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(Parameter(names[all_named], variable=True))
    keyword_only = names[count:all_named]
    parameters += [Parameter(name, keywords.get(name, REQUIRED), notes.get(name, empty), keyword_only=True) for name in keyword_only]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(Parameter(names[all_named + bool(code.co_flags & inspect.CO_VARARGS)], variable=True))
    return tuple(parameters)


def _converted(p: inspect.Parameter) -> Parameter:
    variable = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    default = REQUIRED if p.default is p.empty else p.default
    return Parameter(p.name, default, p.annotation, p.kind is p.KEYWORD_ONLY, variable)
