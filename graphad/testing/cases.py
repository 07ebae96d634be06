"""A program to try something on: the program, its loss, and arrays to run it on."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphad.drawing import draw
from graphad.errors import InvalidValue
from graphad.ops.definition import GRAD
from graphad.program import Program, Variable
from graphad.testing.names import always_written, reads, unread

Array = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Case:
    """A program with its loss, and arrays for its data and its persistable variables.

    Args:
        program: what is run.
        loss_name: the scalar to differentiate; empty if there is none.
        feeds: arrays by the name of the data.
        params: arrays by the name of the persistable variable.
        requested: the names that the program is lowered for; none stands for the loss, the gradients of the sources, and all final
            values that no operator reads.
        forward: the case that this one was made of by appending gradients, if it was.
        order: how often it was differentiated.
    """

    program: Program
    loss_name: str = ""
    feeds: dict[str, Array] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)
    requested: tuple[str, ...] = ()
    forward: Case | None = None
    order: int = 0

    @property
    def loss(self) -> Variable:
        """The loss; ValueError if there is none."""
        if not self.loss_name:
            raise InvalidValue("this case has no loss")
        return self.program.global_block().var(self.loss_name)

    @cached_property
    def targets(self) -> list[str]:
        """The names that are requested, as far as the program declares them."""
        variables = self.program.global_block().vars
        if self.requested:
            return [name for name in self.requested if name in variables]
        gradients = [f"{name}{GRAD}" for name in (*self.feeds, *self.params)]
        loss = [self.loss_name] if self.loss_name else []
        return list(dict.fromkeys([*loss, *unread(self.program), *(name for name in gradients if name in variables)]))

    @cached_property
    def sources(self) -> list[str]:
        """What one can differentiate with respect to: floating-point data and the parameters that train.

        A name of which the first that happens is that it is overwritten stands for what is written, so it is not among them.
        """
        data = [name for name, array in self.feeds.items() if array.dtype.kind == "f"]
        trained = [p.name for p in self.program.all_parameters() if p.trainable]
        return [name for name in (*data, *trained) if not self._overwritten(name)]

    def _overwritten(self, name: str) -> bool:
        for op in self.program.global_block().ops:
            if name in reads(op) or name in always_written(op):
                return name not in reads(op)
        return False

    def clone(self) -> Case:
        """A copy whose program can be changed."""
        return replace(self, program=self.program.clone())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"{self!r}\n{_picture(self.program)}\n" if len(self.program.blocks) > 1 else repr(self))

    def __repr__(self) -> str:
        arrays = [f"{name} = {array.tolist()}" for name, array in {**self.feeds, **self.params}.items()]
        return "\n".join([f"\n{self.program}loss {self.loss_name}", *arrays, ""])


def _picture(program: Program) -> str:
    """Where the drawing of a program is, or why there is none."""
    path = Path(tempfile.gettempdir()) / f"nested-program-{os.getpid()}.svg"
    try:
        return f"drawn in {draw(program, path, timeout=20.0)}"
    except Exception as error:
        return f"not drawn: {error}"
