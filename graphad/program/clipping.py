"""Clipping of gradients: before they are applied, as optimizers and parameters say it; and on their way, as variables do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.types import as_float


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, Python's or numpy's; a bool is none."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def number(what: str, value: object) -> float:
    """The value as a float; TypeError unless it is a number, ValueError unless it is finite."""
    if not is_number(value):
        raise InvalidType(f"{what} is a number, not {value!r}")
    if not math.isfinite(as_float(value)):
        raise InvalidValue(f"{what} is a finite number, not {value!r}")
    return float(value)


# -- before they are applied -----------------------------------------------------------------------


@dataclass(frozen=True)
class ClipByValue:
    """Bounds each element of the gradients to [min, bound]; ``min`` is ``-bound`` if not given.

    Raises:
        ValueError: ``min`` is above ``bound``.
    """

    bound: float
    min: float | None = None
    kind: ClassVar[str] = "value"

    def __post_init__(self) -> None:
        _range("ClipByValue", "bound", self.bound, self.min)


@dataclass(frozen=True)
class ClipByNorm:
    """Bounds the norm of each gradient."""

    bound: float
    kind: ClassVar[str] = "norm"

    def __post_init__(self) -> None:
        _check_norm("ClipByNorm", self.bound)


@dataclass(frozen=True)
class ClipByGlobalNorm:
    """Bounds the norm of all gradients together; as the clip of parameters (``set_gradient_clip``) that of each group."""

    bound: float
    group_name: str = "default_group"
    kind: ClassVar[str] = "global-norm"

    def __post_init__(self) -> None:
        _check_norm("ClipByGlobalNorm", self.bound)
        if not isinstance(self.group_name, str):
            raise InvalidType(f"group_name of ClipByGlobalNorm is a string, not {self.group_name!r}")


Clip = ClipByValue | ClipByNorm | ClipByGlobalNorm


def _check_norm(kind: str, bound: float) -> None:
    if number(f"the bound of {kind}", bound) <= 0:
        raise InvalidValue(f"the bound of {kind} is a norm above 0, not {bound!r}")


# -- on their way ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorClipByValue:
    """Bounds each element of the gradient of one variable to [min, max] when it is complete; ``min`` is ``-max`` if not given.

    What comes after it in the backward, the gradients of what the variable is computed from, starts from the bounded one.

    Raises:
        ValueError: ``min`` is above ``max``.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     x = ga.data("x", [3])
    ...     x.stop_gradient = False
    ...     h = x * 10.0
    ...     h.error_clip = ga.clip.ErrorClipByValue(max=1.0)
    ...     loss = ga.layers.reduce_sum(h * h)
    ...     pairs = ga.append_backward(loss)
    >>> ga.Executor().run(loss.block.program, {"x": [0.0, -5.0, 7.0]}, ["x@GRAD"])
    [array([  0., -10.,  10.], dtype=float32)]
    """

    max: float
    min: float | None = None

    def __post_init__(self) -> None:
        _range("ErrorClipByValue", "max", self.max, self.min)

    @property
    def low(self) -> float:
        """The lower bound."""
        return -self.max if self.min is None else self.min


def _range(kind: str, name: str, high: object, low: object) -> None:
    top = number(f"the bound of {kind}" if name == "bound" else f"{name} of {kind}", high)
    bottom = -top if low is None else number(f"min of {kind}", low)
    if bottom > top:
        raise InvalidValue(f"{kind} bounds to [{bottom!r}, {top!r}], which is empty")


# -- as plain lists --------------------------------------------------------------------------------
# The form in which programs store them: [kind, bound] with what else there is, and [min, max].


def listed(clip: Clip) -> list[object]:
    """The clip of a parameter as a list of its kind and its numbers.

    >>> listed(ClipByValue(2.0, -1.0)), listed(ClipByGlobalNorm(5.0, "encoder"))
    (['value', 2.0, -1.0], ['global-norm', 5.0, 'encoder'])
    """
    match clip:
        case ClipByValue(bound, low):
            # As short as it can be said, so that texts read back the same.
            return [clip.kind, float(bound), *([] if low is None else [float(low)])]
        case ClipByGlobalNorm(bound, group) if group != ClipByGlobalNorm.group_name:
            return [clip.kind, float(bound), group]
    return [clip.kind, float(clip.bound)]


def unlisted(form: Any) -> Clip:
    """The clip that a list stands for; InvalidValue or InvalidType for what is none."""
    match form:
        case ["value", bound]:
            return ClipByValue(bound)
        case ["value", bound, low]:
            return ClipByValue(bound, low)
        case ["norm", bound]:
            return ClipByNorm(bound)
        case ["global-norm", bound]:
            return ClipByGlobalNorm(bound)
        case ["global-norm", bound, group]:
            return ClipByGlobalNorm(bound, group)
    raise InvalidValue(f"a clip is ['value', max], ['value', max, min], ['norm', bound] or ['global-norm', bound, group], not {form!r}")


def bounds(clip: ErrorClipByValue) -> list[float]:
    """The clip of a variable as a list: [min, max]."""
    return [float(clip.low), float(clip.max)]


def error_clip(form: Any) -> ErrorClipByValue:
    """The clip of a variable that a list stands for; InvalidValue or InvalidType for what is none."""
    match form:
        case [low, high]:
            return ErrorClipByValue(high, low)
    raise InvalidValue(f"an error_clip is [min, max], not {form!r}")
