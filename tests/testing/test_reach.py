"""Which lines of a pass's own code ran: those that a tracer sees, although nothing is traced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Self

import pytest

from graphad.ir import Graph, Op, lower
from graphad.rewriting import Analysis, Pass, Rule, RuleSet, rewrite_greedily
from graphad.testing.cases import RandomChoices
from graphad.testing.checks import examine
from graphad.testing.programs import any_program
from graphad.testing.reach import Reach
from graphad.testing.trial import Subject, Unfit, as_pass, inner_passes, standard_preparation
from tests.scratch import passes

PASSES = ("simplify", "cse", "fold-branches", "hoist-invariants", "recompute", "jvp{targets=[$loss]}", "constant-folding, dead-code")


@dataclass(frozen=True)
class Tanhs(Analysis):
    """How many there are."""

    count: int

    @classmethod
    def compute(cls, graph: Graph) -> Self:
        return cls(sum(op.type == "tanh" for op in graph.ops))


class Never(Rule):
    """Looks at every operator."""

    name = "never"

    def rewrite(self, op: Op) -> bool:
        return op.type == ""


with passes():

    @dataclass(frozen=True)
    class LooksByOthers(Pass):
        """All of its own that runs is called by the library."""

        name = "looks-by-others"

        def apply(self, graph: Graph) -> bool:
            return rewrite_greedily(graph, RuleSet(Never()), self) or Tanhs.of(graph).count < 0

    @dataclass(frozen=True)
    class HasItAll(Pass):
        """Statements of many kinds, of which some never run."""

        name = "has-it-all"

        def apply(self, graph: Graph) -> bool:
            "Code that is written, not run, keeps what it says of itself."
            found = [
                op.type
                for op in graph.ops
                if op.type != "tanh"
            ]  # fmt: skip
            most = (
                len(found)
                if found
                else -1
            )  # fmt: skip
            for op_type in found:
                if op_type == "no such operator":
                    return True
                elif op_type == "nor this one":
                    most += 1
                else:
                    continue
            else:
                most -= 1

            class Local:
                def count(self) -> int:
                    nonlocal most
                    most += 1
                    return most

                def never(self) -> int:
                    return most

            try:
                with suppress(KeyError):
                    dict[int, int]()[Local().count()]
                    most = 0
                list[int]()[most]
            except IndexError:
                most = 1
            finally:
                most += 0
            match most:
                case 0:
                    return True
                case _:
                    return False


def cases(count: int) -> Iterator[Any]:
    for number in range(count):
        yield any_program(RandomChoices(f"reach {number}"))


def try_on(what: Pass | str, count: int, reach: Reach) -> None:
    for case in cases(count):
        with suppress(Unfit):
            examine(Subject(what, standard_preparation(what)), case, (), reach)


@contextmanager
def watching(codes: set[CodeType]) -> Iterator[set[tuple[str, int]]]:
    """The lines of these functions that run within it, by ``sys.settrace``."""
    lines = set[tuple[str, int]]()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace if frame.f_code in codes else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def all_codes(code: CodeType) -> set[CodeType]:
    return {code}.union(*(all_codes(each) for each in code.co_consts if isinstance(each, CodeType)))


@pytest.mark.parametrize("what", [*PASSES, LooksByOthers(), HasItAll()], ids=str)
def test_probes_see_the_lines_that_a_tracer_sees(what: Pass | str) -> None:
    reach = Reach.of(inner_passes(as_pass(what, "loss")))
    codes = set[CodeType]().union(*(all_codes(probed.code) for probed in reach.probed.values()))
    with watching(codes) as traced:
        try_on(what, 6, reach)
    hit = {probe for _, probe in reach.arcs}
    probed = {(p.code.co_filename, line) for p in reach.probed.values() for number, line in p.lines.items() if number in hit}
    assert probed
    assert probed <= traced
    # A tracer sees lines within statements as well; of those that have a probe none runs unseen.
    with_probe = {(p.code.co_filename, line) for p in reach.probed.values() for line in p.lines.values()}
    assert traced & with_probe == probed


def test_lines_that_never_ran_are_named() -> None:
    reach = Reach.of([HasItAll()])
    try_on(HasItAll(), 6, reach)
    assert [str(each).partition(": ")[2] for each in reach.unreached()] == [
        "else -1",
        "return True",
        "most += 1",
        "return most",
        "most = 0",
        "return True",
    ]


def test_rules_and_analyses_of_the_passs_own_module_are_watched() -> None:
    reach = Reach.of([LooksByOthers()])
    try_on(LooksByOthers(), 2, reach)
    ran = {function.__qualname__ for function, probed in reach.probed.items() if any(probe in probed.lines for _, probe in reach.arcs)}
    assert ran == {"LooksByOthers.apply", "Never.rewrite", "Tanhs.compute"}


def test_functions_have_their_own_code_again_afterwards() -> None:
    reach, before = Reach.of([HasItAll()]), HasItAll.apply.__code__
    graph = lower(any_program(RandomChoices("reach")).program, [])
    with suppress(RuntimeError), reach.probing():
        assert HasItAll.apply.__code__ is not before
        assert HasItAll.apply.__doc__ == "Code that is written, not run, keeps what it says of itself."
        HasItAll().apply(graph)
        raise RuntimeError
    assert HasItAll.apply.__code__ is before
    assert reach.arcs, "what ran until then counts"


def test_of_code_without_its_source_nothing_is_known() -> None:
    with passes():
        scope: dict[str, Any] = {"Pass": Pass, "__name__": "nowhere"}
        exec("class Typed(Pass):\n    name = 'typed'\n    def apply(self, graph):\n        return False\n", scope)
    assert not Reach.of([scope["Typed"]()]).unreached()
