"""``any_program`` and its kinds: each program runs, reads back, verifies, and its types hold; and what has to occur does."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from graphad import ops
from graphad.errors import ExecutionError
from graphad.execution import Executor, Scope
from graphad.ir import lower
from graphad.ir.verify import verify
from graphad.passes.cleanup import Simplify
from graphad.program import Program
from graphad.rewriting import PatternRule, rewrite, rules_of
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, RandomChoices, completed, unread
from graphad.testing.equivalence import observe
from graphad.testing.optimizable import optimizable_program
from graphad.testing.planted import planted_program, planted_with_all
from graphad.testing.programs import KINDS, any_program
from graphad.testing.training import OPTIMIZERS, training_program

COUNT = 150
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that overflow are among those that are drawn


@cache
def cases(kind: str) -> list[Case]:
    return [KINDS[kind][1](RandomChoices(f"{kind} {i}"), Interest()) for i in range(COUNT)]


SMALL = ["optimizable", "nested", "straight-line", "training", "trainable"]


def check_runs(case: Case) -> None:
    text = str(case.program)
    assert str(Program.parse(text)) == text
    assert completed(case.program)
    verify(lower(case.program))
    scope = Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    targets = [case.loss_name] if case.loss_name else case.targets  # a block that does not run may leave others without a value
    Executor().run(case.program, case.feeds, targets, scope=scope)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("count", [COUNT // 2, pytest.param(COUNT, marks=pytest.mark.long)])
def test_programs_run_verify_and_read_back(count: int, kind: str) -> None:
    for case in cases(kind)[:count]:
        check_runs(case)


def test_any_program_runs_and_a_quarter_is_differentiated() -> None:
    drawn = [any_program(RandomChoices(f"any {i}"), Interest()) for i in range(COUNT)]
    for case in drawn:
        check_runs(case)
    roles = [{op.role for op in case.program.global_block().ops} for case in drawn]
    assert 0.15 * COUNT < sum("backward" in each and "optimize" not in each for each in roles) < 0.35 * COUNT


@pytest.mark.parametrize("kind", SMALL)
def test_float32_occurs_as_often_as_float64(kind: str) -> None:
    seen = Counter(array.dtype.name for case in cases(kind) for array in {**case.feeds, **case.params}.values())
    assert 0.5 < seen["float32"] / seen["float64"] < 2.0


@pytest.mark.parametrize("kind", ["optimizable", "nested"])
def test_extents_ties_and_trips(kind: str) -> None:
    arrays = [array for case in cases(kind) for array in case.feeds.values() if array.dtype.kind == "f"]
    extents = Counter(extent for array in arrays for extent in array.shape)
    assert all(extents[extent] > 15 for extent in (1, 2, 3, 5)), extents
    assert sum(array.size > len(np.unique(array)) for array in arrays) > 15
    values = Counter(op.attrs["value"] for case in cases(kind) for op in case.program.global_block().ops if op.type == "fill_constant")
    assert all(values[float(trips)] > 1 for trips in (0, 1, 2, 7)), values


def test_an_operator_repeated_where_a_name_is_hidden_has_the_types_it_had() -> None:
    """The program of this seed repeats, in a block that hides ``x0``, an operator that writes the outer ``x0``."""
    for seed in (154, *range(20)):
        assert completed(optimizable_program(RandomChoices(str(seed)), max_statements=2).program)


def test_training_programs_have_all_optimizers_and_options() -> None:
    drawn = [training_program(RandomChoices(f"training {i}"), max_layers=2) for i in range(250)]
    types = Counter(op.type for case in drawn for block in case.program.blocks for op in block.ops)
    missing = [kind.type for kind in OPTIMIZERS if not types[kind.type]]
    assert not missing
    layers = ("lookup_table_v2", "batch_norm", "dropout", "conv2d", "while", "relu", "clip", "sqrt", "sign")
    assert not [op_type for op_type in layers if not types[op_type]]
    assert {case.feeds["y"].shape[0] for case in drawn} == {1, 2, 5}
    terms = Counter(len(op.input("X")) for case in drawn for op in case.program.global_block().ops if op.type == "sum")
    assert all(terms[count] for count in (2, 3, 4)), terms
    state = [array for case in drawn for name, array in case.params.items() if "velocity" in name or "moment" in name]
    assert state
    assert all(array.any() for array in state)


def test_a_program_that_cannot_run_is_found() -> None:
    program = Program.parse("program { block 0 { var x: float64[2] tanh(X=x) -> (Out=y) } }")
    with pytest.raises((ExecutionError, ValueError)):
        check_runs(Case(program, "", {}, {}))


def test_planted_programs_run_in_blocks_in_all_dtypes_and_with_hard_numbers() -> None:
    rules = [rule for rule in rules_of(Simplify()) if isinstance(rule, PatternRule)]
    drawn = [planted_program(RandomChoices(f"planted {i}"), rules) for i in range(COUNT)]
    for case in drawn:
        check_runs(case)
    types = Counter(op.type for case in drawn for block in case.program.blocks for op in block.ops)
    assert types["while"] > 10
    assert types["conditional_block"] > 10
    arrays = [array for case in drawn for array in case.feeds.values()]
    dtypes = Counter(array.dtype.name for array in arrays)
    assert all(dtypes[dtype] > 10 for dtype in ("float32", "float64", "int64", "bool")), dtypes
    assert 0.5 < dtypes["float32"] / dtypes["float64"] < 2.0
    floats = [array for array in arrays if array.dtype.kind == "f" and array.size]
    assert sum(bool((np.signbit(array) & (array == 0)).any()) for array in floats) > 3
    assert sum(bool((np.abs(array) >= 100).any()) for array in floats) > 3


def test_planted_programs_request_results_and_have_rows_of_axes_alike() -> None:
    rules = [rule for rule in rules_of(Simplify()) if isinstance(rule, PatternRule)]
    drawn = [planted_program(RandomChoices(f"planted {i}"), rules) for i in range(COUNT)]
    assert sum(len(case.requested) > 1 for case in drawn) > COUNT // 2
    shapes = [array.shape for case in drawn for array in case.feeds.values()]
    assert sum(len(shape) > 2 and len({*shape}) == 1 for shape in shapes) > COUNT // 8
    mixed = [a for case in drawn for a in case.feeds.values() if a.dtype.kind == "f" and not np.isfinite(a).all()]
    assert sum(len({*a[np.isfinite(a)].ravel().tolist()}) > 3 for a in mixed) > COUNT // 50


def test_where_one_rule_gives_nan_another_one_shows() -> None:
    @rewrite(fast=True, verify=False)
    def exp_of_log(x):  # type: ignore[no-untyped-def]
        return ops.exp(ops.log(x)), x

    @rewrite(fast=True, verify=False)
    def wrong(x, y):  # type: ignore[no-untyped-def]
        return ops.elementwise_sub(x, y), ops.elementwise_sub(y, x)

    cases = [planted_with_all(RandomChoices(f"beside {i}"), [(exp_of_log, "float64"), (wrong, "float64")], False) for i in range(20)]
    shown = 0
    for case in cases:
        results = observe(case.program, case, case.requested).values
        shown += len(results) > 2 and not all(map(np.isfinite, results.values())) and any(map(np.isfinite, results.values()))
    assert shown > 3


def test_some_planted_programs_do_not_say_their_extents() -> None:
    rules = [rewrite(verify=False)(lambda x: (ops.relu(ops.relu(x)), ops.relu(x)))]
    cases = [planted_program(RandomChoices(f"open {i}"), rules) for i in range(60)]
    assert any(-1 in (var.shape or ()) for case in cases for var in case.program.list_vars() if var.name in case.feeds)


def test_exact_rules_are_planted_on_numbers_that_are_not_finite_the_first_time() -> None:
    rules = [(rule, "float32") for rule in rules_of(Simplify()) if isinstance(rule, PatternRule) and rule.name == "add-zero"]
    counts = []
    for exact, hard in ((True, True), (False, True), (True, False)):
        cases = [planted_with_all(RandomChoices(f"hard {i}"), rules, exact, hard) for i in range(60)]
        counts.append(sum(any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in case.feeds.values()) for case in cases))
    # Nearly all that have more than a few elements; where a rule may round, and later, some.
    assert counts[0] > 30 > max(counts[1:]), counts


def test_what_nothing_reads_is_what_a_graph_has_as_targets() -> None:
    for seed in range(40):
        program = any_program(RandomChoices(f"unread {seed}")).program
        assert set(unread(program)) == {value.name for value in lower(program).targets}
