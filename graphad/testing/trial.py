"""A pass being tried on one case: what went in, what came out, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from graphad.errors import GraphadError
from graphad.graph import Graph
from graphad.knobs import changed_knobs
from graphad.ops import GRAD, REGISTRY
from graphad.program import Program
from graphad.rewriting import Pass
from graphad.testing.cases import Case
from graphad.testing.equivalence import Observed, observe
from graphad.testing.subject import Subject, inner_passes


@dataclass(frozen=True)
class Finding:
    """What is wrong with a pass.

    Args:
        kind: one word for it: ``values``, ``verifier``, ...
        text: the details.
        mark: what stays the same while the program is made smaller, so that another mistake is not taken for this one.
    """

    kind: str
    text: str
    mark: str = ""

    def __str__(self) -> str:
        return f"{HEADLINES[self.kind]}: {self.text}" if self.text else HEADLINES[self.kind]


HEADLINES = {
    "raises": "the pass raises",
    "verifier": "the graph after the pass breaks a rule",
    "claims": "what the pass claims is not true",
    "refused": "the pass refuses the graph, and has changed it",
    "changed": "the pass says it changed nothing, and did",
    "schedule": "the graph after the pass cannot be written as a program",
    "text": "the text of the program after the pass does not read back",
    "types": "the program after the pass declares what its operators do not give",
    "values": "the results differ",
    "compiled": "the results differ when the program runs as functions over numpy",
    "deterministic": "the pass makes another program of the same one",
    "idempotent": "the pass says it is idempotent, but a second run changes the graph",
    "gradients": "the gradients differ",
    "expect": "what was expected after the pass does not hold",
}


class Unfit(GraphadError, ValueError):
    """A case that a pass cannot be tried on: it does not run, or what prepares it refuses it."""


@dataclass
class Trial:
    """A case on trial.

    Attributes:
        before: the program that the pass gets, or where that cannot be one yet, the case's own.
        referred: the names of the targets that a reference leaves.
        graph: the graph after the pass.
        after: the program after the pass, None if the graph cannot be one yet.
        made: the gradients that passes made, by the source's name: the names they have in ``after``.
        changed: whether the pass says that it changed the graph.
        is_thorough: whether gradients are compared with the standard backward where differences agree with them, too.
        slope_agrees: whether differences agree with the gradients.
        random: what random directions are drawn from.
    """

    subject: Subject
    case: Case
    before: Program = field(default_factory=Program)
    referred: list[str] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)
    after: Program | None = None
    made: dict[str, str] = field(default_factory=dict)
    changed: bool = False
    is_thorough: bool = True
    slope_agrees: bool = False
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @cached_property
    def expected(self) -> Observed:
        """What ``before`` gives.

        Raises:
            Unfit: it does not run.
        """
        try:
            return observe(self.before, self.case, [*self.case.targets, *_fetched(self.before), *self._requested_by_both()])
        except Exception as error:  # a kernel may raise anything
            raise Unfit(f"{type(error).__name__}: {error}") from error

    @cached_property
    def got(self) -> Observed:
        """What ``after`` gives, the gradients that passes made included; see ``observed_after``."""
        return self.observed_after(list(self.made.values()))

    def observed_after(self, names: Sequence[str] = (), compiled: bool = False) -> Observed:
        """What ``after`` gives: what is expected, and ``names``. What operators with effects write may have got other names.

        Raises:
            GraphadError, or whatever else a kernel raises: it does not run.
        """
        assert self.after is not None
        new = self._renamed()
        found = observe(self.after, self.case, list(dict.fromkeys([*(new.get(n, n) for n in self.expected.values), *names])), compiled)
        values = {**found.values, **{old: found.values[name] for old, name in new.items() if name in found.values}}
        return replace(found, values=values)

    def _renamed(self) -> dict[str, str]:
        """The new names of what operators with effects write, by the old ones, where these are not requested."""
        assert self.after is not None
        old, new = _fetched(self.before), _fetched(self.after)
        pairs = zip(old, new, strict=True) if len(old) == len(new) else ()
        return {one: other for one, other in pairs if one != other and one not in self.case.targets}

    def _requested_by_both(self) -> list[str]:
        """The targets that the reference adds to the case's, and the pass too."""
        added = {value.name for value in self.graph.targets}.difference(self.case.targets)
        return [name for name in self.referred if name in added]

    @cached_property
    def intended(self) -> Observed:
        """Of what ``before`` gives, what the passes are there to change, as they say it becomes."""
        program, case = self.before, self.case
        if all(type(each).intended is Pass.intended for each in inner_passes(self.passes)):
            return Observed({}, {})
        gradients = [f"{p.name}{GRAD}" for p in program.all_parameters() if program.global_block().has_var(f"{p.name}{GRAD}")]
        known = observe(program, case, [*self.expected.values, *gradients])
        found = self.passes.intended(program, {**known.scope, **known.values})
        return Observed({n: a for n, a in found.items() if n in known.values}, {n: a for n, a in found.items() if n in known.scope})

    @property
    def allowed(self) -> float:
        """By how much results may differ, relatively."""
        return self.subject.allowed(self.case, is_prepared=self.before is not self.case.program)

    @property
    def trips(self) -> frozenset[int]:
        """How often the loops of ``before`` ran; none where it was not run, as where the pass changed nothing."""
        return self.expected.trips if "expected" in vars(self) else frozenset()

    @property
    def passes(self) -> Pass:
        return self.subject.passes(self.case)


def _fetched(program: Program) -> list[str]:
    """What operators with effects write that no other operator writes: it is requested as well, whatever the targets are."""
    writers = Counter(name for block in program.blocks for op in block.ops for name in op.output_names())
    effects = (op for op in program.global_block().ops if (row := REGISTRY.get(op.type)) is not None and row.side_effect)
    return [name for op in effects for name in op.output_names() if writers[name] == 1]


@contextmanager
def quietly() -> Iterator[None]:
    """Within it, everything a pass claims is checked, and a pass that fails leaves no files."""
    with changed_knobs(verify=True, check_claims=True, reproducers=""):
        yield
