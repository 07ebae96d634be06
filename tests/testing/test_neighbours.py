"""``neighbour``: what differs in one thing from a program that a pass changed is a valid program, and each thing does differ."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import graphad as ga
from graphad.ir import Graph, lower, schedule
from graphad.ir.verify import verify
from graphad.passes.cleanup import Simplify
from graphad.program import FORWARD, OPTIMIZE, Program
from graphad.rewriting import Pass
from graphad.testing import Counterexample, check_pass
from graphad.testing.array_changes import OTHER_ARRAYS, OtherArrays
from graphad.testing.calls import Constants, Interest
from graphad.testing.cases import Case, RandomChoices, random_case
from graphad.testing.checks import after_pass
from graphad.testing.neighbours import Neighbourhood, neighbour
from graphad.testing.program_changes import CHANGES, Change, Draw, NothingToChange
from graphad.testing.program_edits import edited
from graphad.testing.programs import any_program, differentiated, small_training
from graphad.testing.trial import Subject
from graphad.types import TENSOR

COUNT = 120
INTEREST = Interest(clips=True, constants=Constants((0.25,)))


@cache
def drawn(seed: int) -> Case:
    return any_program(RandomChoices(f"beside {seed}"))


def beside(case: Case, seed: int, touched: frozenset[str] = frozenset()) -> Case | None:
    return neighbour(RandomChoices(f"change {seed}"), case, touched, INTEREST)


def test_neighbours_are_valid_differ_and_leave_the_case_as_it_was() -> None:
    found = differ = 0
    for seed in range(COUNT):
        case = drawn(seed)
        before = str(case.program)
        other = beside(case, seed)
        assert str(case.program) == before
        if other is None:
            continue
        found += 1
        text = str(other.program)
        assert str(Program.parse(text)) == text
        verify(lower(other.program))
        assert {v.name for v in lower(other.program).inputs if v.persistable} <= other.params.keys()
        # Of arrays half may stay, a number may be where it was, and a width is changed where there may be no floats of it.
        differ += text != before or _arrays(other) != _arrays(case) or other.targets != case.targets
    assert found > 0.9 * COUNT
    assert differ > 0.8 * found


def _arrays(case: Case) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in case.arrays.items()}


def test_the_same_choices_give_the_same_neighbour() -> None:
    for seed in range(20):
        one, other = beside(drawn(seed), seed), beside(drawn(seed), seed)
        assert repr(one) == repr(other)


@pytest.mark.parametrize("change", [change for change, _ in CHANGES], ids=lambda change: change.__name__)
def test_each_change_leaves_some_programs_valid(change: Change) -> None:
    keeps_types = dict(CHANGES)[change]
    valid = 0
    for seed in range(COUNT):
        case = drawn(seed)
        if any(op.role != FORWARD for block in case.program.blocks for op in block.ops):
            continue
        with suppress(NothingToChange):
            edit = change(Draw(RandomChoices(f"{seed}"), case.program, INTEREST, frozenset()))
            program = edited(case.program, edit, keeps_types)
            valid += program is not None and str(program) != str(case.program)
    assert valid >= 5


@pytest.mark.parametrize("change", OTHER_ARRAYS, ids=lambda change: change.__name__)
def test_each_change_of_arrays_changes_some(change: OtherArrays) -> None:
    changed = Counter[bool]()
    for seed in range(COUNT):
        case = drawn(seed)
        other = change(RandomChoices(f"{seed}"), case, INTEREST)
        if other is not None:
            changed[_arrays(other) != _arrays(case) or other.targets != case.targets] += 1
    assert changed[True] >= 5


def test_what_is_declared_stays_where_nothing_is_inferred() -> None:
    """No types are inferred for the results of ``while_grad``: a training step must not lose those of its gradients by an edit."""
    program = ga.Program()
    with ga.program_guard(program):
        w = ga.layers.create_parameter([3, 3], "float32", name="w")
        x = ga.layers.data("x", shape=[3])
        _, y = ga.layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, ga.layers.tanh(ga.layers.matmul(y, w))], [0, x])
        ga.append_backward(ga.layers.mean(y))
    untyped = {name for name, var in program.global_block().vars.items() if var.type == TENSOR and var.declared[1] is None}
    copy = edited(program, lambda copy: copy.global_block().ops[0].attrs.update(value=1.0))
    assert copy is not None
    assert "w@GRAD" in copy.global_block().vars
    assert {name for name, var in copy.global_block().vars.items() if var.type == TENSOR and var.declared[1] is None} == untyped


def test_gradients_are_taken_again_of_the_changed_program() -> None:
    program = Program.parse("program { block 0 { var x: float64[3] square(X=x) -> (Out=y) tanh(X=y) -> (Out=z) mean(X=z) -> (Out=loss) } }")
    case = differentiated(RandomChoices("seed"), random_case(program, loss_name="loss"))
    assert case is not None
    others = [other for seed in range(30) if (other := beside(case, seed)) is not None]
    # Where gradients stop at x they are those of another name, which is read in its place.
    assert all(other.forward is not None and "@GRAD" in str(other.program) for other in others)
    assert len({str(other.forward.program) for other in others if other.forward is not None}) > 5


def test_of_training_steps_only_updates_are_changed() -> None:
    changed = 0
    for seed in range(60):
        case = small_training(RandomChoices(f"training {seed}"), Interest())
        other = beside(case, seed)
        if other is not None:
            assert _but_for_updates(other.program) == _but_for_updates(case.program)
            changed += len(other.program.global_block().ops) != len(case.program.global_block().ops)
    assert changed > 5


def _but_for_updates(program: Program) -> list[tuple[str, object, object]]:
    """The operators without dtypes, which may all be others."""
    return [(op.type, op.inputs, op.outputs) for op in program.global_block().ops if op.role != OPTIMIZE]


def test_what_the_pass_changed_is_changed_more_often() -> None:
    rows = "".join(f"var x{i}: float64[3] tanh(X=x{i}) -> (Out=y{i}) " for i in range(20))
    program = Program.parse("program { block 0 { var a: float64[3] " + rows + "scale(X=a) -> (Out=b) {scale=1.0} exp(X=b) -> (Out=c) } }")
    case = random_case(program)
    beside_them = Neighbourhood(INTEREST, 1)
    beside_them.note(0, case, program, schedule(after_pass(Subject(Simplify()), case)))
    counts = Counter[bool]()
    for seed in range(COUNT):
        other = beside_them.drawn(RandomChoices(f"change {seed}"))
        if other is not None:
            unchanged = {str(op) for op in other.case.program.global_block().ops}
            changed = [op for op in program.global_block().ops if str(op) not in unchanged]
            counts.update(op.type != "tanh" for op in changed)
    assert counts[True] > counts[False] > 0


@dataclass(frozen=True)
class MergeScales(Pass):
    """``scale(scale(x))`` is one ``scale``; what is between them may clip its gradient."""

    name = "merge-scales-that-clip"
    tolerance = 1e-5

    def apply(self, graph: Graph) -> bool:
        changed = False
        for op in [op for sub in graph.tree(sealed=False) for op in sub.ops if op.type == "scale"]:
            first = op.input("X").writer
            if first is None or first.type != "scale" or op.role != FORWARD or op.input("X").stop_gradient:
                continue
            if {"ScaleTensor"} & {*op.inputs, *first.inputs} or any(each.attrs.get("bias", 0.0) for each in (op, first)):
                continue
            if not op.graph.allows("merge", op, first) or op.input("X").dtype not in ("float32", "float64"):
                continue
            op.graph.set_attr(op, "scale", op.attrs.get("scale", 1.0) * first.attrs.get("scale", 1.0))
            op.graph.set_inputs(op, "X", [first.input("X")])
            changed = True
        return changed


def test_what_is_forgotten_between_two_operators_is_found() -> None:
    with pytest.raises(Counterexample) as caught:
        check_pass(MergeScales(), seconds=20)
    assert caught.value.finding.kind == "gradients"
    variables = caught.value.before.global_block().vars.values()
    assert any(var.error_clip is not None for var in variables)


def test_the_users_own_programs_are_tried_as_they_are() -> None:
    program = Program.parse("program { block 0 { var x: float64[3] scale(X=x) -> (Out=y) {scale=2.0} scale(X=y) -> (Out=z) {scale=3.0} } }")
    case = replace(random_case(program), feeds={"x": np.ones(3)})
    checked = check_pass(MergeScales(), examples=30, programs=[case])
    assert checked.operators.keys() == {"scale"}
