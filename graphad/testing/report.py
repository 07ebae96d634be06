"""What a check that found nothing has done: how many programs, how many of them changed, and what there was in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphad.ops import REGISTRY
from graphad.program import Program
from graphad.testing.cases import Case
from graphad.testing.reach import Unreached
from graphad.testing.trial import Trial

MOST = 8  # of one kind that the text names
Number = bool | int | float | str


@dataclass
class Checked:
    """A check that found nothing.

    Attributes:
        examples: programs tried.
        changed: how many of them the pass changed.
        unfit: programs drawn that the pass cannot be tried on: what prepares it refuses them.
        rewrites: how often each pass and rule made operators of the programs after it.
        operators: how many programs each operator type was in.
        attributes: the values that attributes had, by ``type.attribute``.
        dtypes: how many programs had variables of a dtype.
        extents: how many programs had variables with an axis of so many elements.
        trips: how many of the programs that the pass changed had a loop that ran so many iterations.
        special: how many programs were fed ties, zeros, large or tiny numbers, nan, infinities.
        unreached: the lines of the pass's own code that never ran.
        seconds: of processor time.
        interrupted: whether it was stopped before its end.
    """

    examples: int = 0
    changed: int = 0
    unfit: int = 0
    rewrites: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    attributes: dict[str, set[str]] = field(default_factory=dict)
    dtypes: Counter[str] = field(default_factory=Counter)
    extents: Counter[int] = field(default_factory=Counter)
    trips: Counter[int] = field(default_factory=Counter)
    special: Counter[str] = field(default_factory=Counter)
    unreached: list[Unreached] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    def count(self, trial: Trial) -> None:
        """Add a program that was tried."""
        self.examples += 1
        self.changed += trial.changed
        self._count_program(trial.case.program)
        self._count_arrays(trial.case)
        self.trips.update(trial.trips)
        if trial.changed:
            self.rewrites.update(_rewrites(trial))

    def _count_program(self, program: Program) -> None:
        ops = [op for block in program.blocks for op in block.ops]
        self.operators.update({op.type for op in ops})
        for op in ops:
            definition = REGISTRY.get(op.type)
            for name in definition.attrs if definition is not None else ():
                value = op.attrs.get(name, definition.attrs[name].default if definition is not None else None)
                self.attributes.setdefault(f"{op.type}.{name}", set()).add(_short(value))
        variables = [var.declared for block in program.blocks for var in block.vars.values()]
        self.dtypes.update({dtype for _, dtype in variables if dtype is not None})
        self.extents.update({extent for shape, _ in variables for extent in shape or ()})

    def _count_arrays(self, case: Case) -> None:
        self.special.update({kind for array in (*case.feeds.values(), *case.params.values()) for kind in _special(array)})

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        stopped = " before it was interrupted" if self.interrupted else ""
        programs = f"{self.examples} programs, of which it changed {self.changed}{stopped}"
        yield f"nothing wrong on {programs}; {self.seconds:.1f} s of processor time"
        if self.unfit:
            yield f"unfit: {self.unfit} more programs, which the preparation refuses"
        yield from _counts("rewrites", self.rewrites)
        yield from _counts("operators", self.operators)
        twice = sum(len(values) > 1 for values in self.attributes.values())
        yield f"attributes: {len(self.attributes)}, of which {twice} with two values or more"
        yield from _counts("dtypes", self.dtypes)
        yield from _counts("extents", self.extents)
        yield from _counts("trips of loops", self.trips)
        yield from _counts("values", self.special)
        for line in self.unreached[:MOST]:
            yield f"never ran: {line}"
        if len(self.unreached) > MOST:
            yield f"never ran: {len(self.unreached) - MOST} more lines"


def _short(value: Any) -> str:
    return str(value) if isinstance(value, Number | list | tuple) else type(value).__name__


def _counts(title: str, counts: Counter[Any]) -> Iterator[str]:
    """One line: how many there are, and those that occurred most often."""
    if counts:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        more = f" and {len(ordered) - MOST} more" if len(ordered) > MOST else ""
        yield f"{title}: {', '.join(f'{name} {count}' for name, count in ordered[:MOST])}{more}"


def _rewrites(trial: Trial) -> set[str]:
    ops = (op for graph in trial.graph.tree() for op in graph.ops)
    return {f"{op.made_by}: {op.origin.rule}" if op.origin is not None else str(op.made_by) for op in ops if op.made_by is not None}


def _special(array: Any) -> Iterator[str]:
    if array.dtype.kind != "f" or not array.size:
        yield from ["empty"] if not array.size else []
        return
    flat = array.ravel().tolist()
    if len(set(flat)) < len(flat):
        yield "ties"
    for kind, test in _KINDS.items():
        if any(map(test, flat)):
            yield kind


_KINDS = {
    "zero": lambda x: x == 0 and str(x)[0] != "-",
    "-zero": lambda x: x == 0 and str(x)[0] == "-",
    "nan": lambda x: x != x,
    "infinity": lambda x: abs(x) == float("inf"),
    "over 100": lambda x: 100 < abs(x) < float("inf"),
    "under 1e-6": lambda x: 0 < abs(x) < 1e-6,
}
