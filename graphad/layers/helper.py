"""Shared by layers: parameters with their initialization, operators with generated names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from graphad.errors import InvalidType
from graphad.initializer import Constant, Initializer, Xavier
from graphad.program import Parameter, Variable, default_main_program, default_startup_program

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class ParamAttr:
    """How a layer's parameter is made: its name, its start, how it is trained."""

    name: str | None = None
    initializer: Initializer | None = None
    learning_rate: float = 1.0
    regularizer: Any = None
    trainable: bool = True
    need_clip: bool = True


class LayerHelper:
    """Names everything in a layer after its kind: ``fc_0.w_0``, ``fc_0.b_0``, ``fc_0.tmp_0``."""

    def __init__(self, kind: str, name: str | None = None) -> None:
        self.main = default_main_program()
        self.name = self.main.names.generate(kind) if name is None else name

    def parameter(self, attr: Any, suffix: str, shape: list[int], dtype: str, default: Initializer | None = None) -> Parameter:
        """A parameter, initialized in the startup program; one that exists by its given name is shared."""
        attr = as_param_attr(attr)
        name = attr.name or self.main.names.generate(f"{self.name}.{suffix}")
        options = {"learning_rate": attr.learning_rate, "regularizer": attr.regularizer, "need_clip": attr.need_clip}
        shared = self.main.global_block().has_var(name)
        param = self.main.global_block().create_parameter(name, shape, dtype, attr.trainable, **options)
        if not shared:
            self.initialize(param, attr.initializer or default or Xavier())
        return param

    def bias(self, attr: Any, shape: list[int], dtype: str) -> Parameter | None:
        """A bias that starts at zero; None if ``attr`` is False."""
        return None if attr is False else self.parameter(attr, "b", shape, dtype, Constant(0.0))

    def persistable(self, suffix: str, shape: list[int], dtype: str, start: float) -> Variable:
        """A variable that outlives a run without being trained, such as running statistics."""
        name = self.main.names.generate(f"{self.name}.{suffix}")
        var = self.main.global_block().create_var(name, shape, dtype, persistable=True, stop_gradient=True)
        self.initialize(var, Constant(start))
        return var

    def initialize(self, var: Variable, initializer: Initializer) -> None:
        """Append the initialization operator to the startup program."""
        startup = default_startup_program()
        self.main.startup = startup
        initializer.append(startup.global_block(), declare_in(startup.global_block(), var))

    def append(self, type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] | None = None, out: str = "Out") -> Variable:
        """Append an operator with one fresh output; return that."""
        (result,) = self.append_all(type, inputs, (out,), attrs)
        return result

    def append_all(
        self,
        type: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str],
        attrs: Mapping[str, Any] | None = None,
        written: Mapping[str, Any] | None = None,
        stopped: Sequence[str] = (),
    ) -> list[Variable]:
        """Append an operator with fresh outputs and return those.

        ``written`` are outputs that exist already, ``stopped`` those of ``outputs`` that no gradient flows through.
        """
        block = self.main.current_block()
        names = {slot: self.main.names.generate(f"{self.name}.tmp") for slot in outputs}
        block.append_op(type, inputs, {**names, **(written or {})}, attrs)
        for slot in stopped:
            block.var(names[slot]).stop_gradient = True
        return [block.var(name) for name in names.values()]

    def activate(self, x: Variable, act: str | None) -> Variable:
        """Apply an activation by its operator's type."""
        return x if act is None else self.append(act, {"X": x})


def layer(function: Callable[P, R]) -> Callable[P, R]:
    """A layer that, if it fails, leaves the programs as they were."""

    @wraps(function)
    def atomic(*args: P.args, **kwargs: P.kwargs) -> R:
        with default_main_program().appending(), default_startup_program().appending():
            return function(*args, **kwargs)

    return atomic


def declare_in(block: Any, var: Variable) -> Variable:
    """The variable of the same name in another block, declared there if need be."""
    if block.has_var(var.name):
        return block.var(var.name)  # type: ignore[no-any-return]
    block.vars[var.name] = var.copy_to(block)
    return block.vars[var.name]  # type: ignore[no-any-return]


def as_param_attr(attr: Any) -> ParamAttr:
    """A ParamAttr from one, a name, an initializer, or None."""
    if attr is None or attr is True:
        return ParamAttr()
    if isinstance(attr, str):
        return ParamAttr(name=attr)
    if isinstance(attr, Initializer):
        return ParamAttr(initializer=attr)
    if isinstance(attr, ParamAttr):
        return attr
    raise InvalidType(f"param_attr is a ParamAttr, a name, an initializer, or None, not {attr!r}")


def checked_input(layer: str, x: Any) -> Variable:
    """The input of a layer; TypeError if it is no variable."""
    if not isinstance(x, Variable):
        raise InvalidType(f"layers.{layer} takes a Variable, not {x!r}")
    return x
