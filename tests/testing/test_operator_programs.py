"""``operator_program``: every operator, every attribute, dtype, extent and kind of number occurs, and every program runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from graphad.errors import ExecutionError
from graphad.execution import Executor, Scope
from graphad.execution.names import blocks_of
from graphad.ir import lower
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, ControlDef, GradOpDef, operator
from graphad.ops.inference import same
from graphad.ops.linalg import NoSolution
from graphad.program import Operator, Program
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, RandomChoices, completed
from graphad.testing.equivalence import observe
from graphad.testing.operator_programs import operator_program
from graphad.testing.programs import differentiated
from graphad.types import Array

COUNT = 2000
RUN = 500  # of these programs are run, and further ones until every operator has been
# What a branch leaves that does not write a variable, and what needs another rank.
WITHOUT_VALUE = {"undefined", "send_v2", "recv_v2"}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that overflow are among those that are drawn


@cache
def cases() -> list[Case]:
    return [operator_program(RandomChoices(f"program {i}")) for i in range(COUNT)]


def operators(case: Case) -> Iterator[Operator]:
    return (op for block in case.program.blocks for op in block.ops)


def representative(count: int) -> list[Case]:
    """The first programs, and of the others those with an operator that no earlier one has."""
    seen: set[str] = set()
    chosen = []
    for i, case in enumerate(cases()):
        types = {op.type for op in operators(case)}
        if i < count or types - seen:
            chosen.append(case)
        seen |= types
    return chosen


def run(case: Case) -> list[Array]:
    scope = Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    return Executor().run(case.program, case.feeds, case.targets, scope=scope)


@pytest.mark.parametrize("count", [RUN // 3, pytest.param(RUN, marks=pytest.mark.long)])
def test_programs_run_verify_and_read_back(count: int) -> None:
    for case in representative(count):
        text = str(case.program)
        assert str(Program.parse(text)) == text
        assert completed(case.program)
        graph = lower(case.program)
        verify(graph)
        run(case)


def test_losses_are_finite_scalars() -> None:
    with_loss = [case for case in cases() if case.loss_name]
    assert len(with_loss) > 0.75 * COUNT
    # Without those that read a tensor of no elements: the mean of none is nan.
    full = [case for case in with_loss if all(np.size(array) for array in {**case.feeds, **case.params}.values())]
    for case in full[:300]:
        scope = Scope()
        for name, array in case.params.items():
            scope.set(name, array)
        (loss,) = Executor().run(case.program, case.feeds, [case.loss_name], scope=scope)
        assert loss.size == 1
        assert loss.dtype in ("float32", "float64")
        assert np.isfinite(loss).all(), case


def test_every_operator_occurs() -> None:
    seen = Counter(op.type for case in cases() for op in operators(case))
    drawn = [op_type for op_type, definition in REGISTRY.items() if not isinstance(definition, GradOpDef | ControlDef)]
    missing = [op_type for op_type in drawn if not seen[op_type] and op_type not in WITHOUT_VALUE]
    assert not missing


def test_every_attribute_occurs_with_two_values() -> None:
    definitions = {op_type: definition for op_type, definition in REGISTRY.items() if not isinstance(definition, GradOpDef | ControlDef)}
    seen: dict[tuple[str, str], set[str]] = {
        (op_type, name): set() for op_type, definition in definitions.items() for name in definition.attrs
    }

    def note(case: Case) -> None:
        for op in operators(case):
            for name, attr in definitions[op.type].attrs.items() if op.type in definitions else ():
                seen[op.type, name].add(repr(op.attrs.get(name, attr.default)))

    for case in cases():
        note(case)
    for op_type, definition in definitions.items():
        for i in range(5):
            if all(len(seen[op_type, name]) > 1 for name in definition.attrs):
                break
            note(operator_program(RandomChoices(f"of {op_type} {i}"), Interest((op_type,))))
    missing = [f"{op_type}.{name}" for (op_type, name), values in seen.items() if len(values) < 2]
    assert len(missing) < 0.1 * len(seen), f"{len(missing)} of {len(seen)}: {missing}"


def test_small() -> None:
    sizes = sorted(len(list(operators(case))) for case in cases())
    assert sizes[COUNT // 2] <= 8
    assert sizes[-1] < 80


def test_dtypes() -> None:
    seen = Counter(array.dtype.name for case in cases() for array in {**case.feeds, **case.params}.values())
    assert 0.8 < seen["float32"] / seen["float64"] < 1.25
    assert all(seen[dtype] > 100 for dtype in ("int32", "int64", "bool", "float16")), seen


def test_extents() -> None:
    seen = Counter(extent for case in cases() for array in {**case.feeds, **case.params}.values() for extent in array.shape)
    assert all(seen[extent] > 100 for extent in (0, 1, 2, 3, 5, 7)), seen
    assert sum(array.ndim == 0 for case in cases() for array in case.feeds.values()) > 100
    declared = [case.program.global_block().var(name).shape for case in cases() for name in case.feeds]
    assert sum(-1 in shape for shape in declared) > 50


def test_numbers() -> None:
    floats = [array for case in cases() for array in {**case.feeds, **case.params}.values() if array.dtype.kind == "f" and array.size]
    seen = {
        "ties": sum(array.size > len(np.unique(array)) for array in floats),
        "negative zeros": sum(bool((np.signbit(array) & (array == 0)).any()) for array in floats),
        "kinks": sum(bool(np.isin(array, (0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0)).any()) for array in floats),
        "large": sum(bool((np.abs(array) >= 100).any()) for array in floats),
        "tiny": sum(bool(((np.abs(array) < 1e-7) & (array != 0)).any()) for array in floats),
        "nan": sum(bool(np.isnan(array).any()) for array in floats),
        "infinity": sum(bool(np.isinf(array).any()) for array in floats),
    }
    assert min(seen.values()) > 30, seen


def test_blocks() -> None:
    seen = Counter(op.type for case in cases() for op in operators(case) if blocks_of(op))
    assert all(seen[op_type] > 60 for op_type in ("while", "conditional_block", "if_else", "net")), seen
    assert sum(len(case.program.blocks) > 1 for case in cases()) > 0.25 * COUNT


def test_trip_counts() -> None:
    looped = [case for case in cases() if any(op.type == "while" for op in operators(case))][:200]
    seen = Counter(trips for case in looped for trips in observe(case.program, case, []).trips)
    assert all(seen[trips] > 15 for trips in (0, 1, 2, 3, 7)), seen


def test_counters() -> None:
    starts, steps, tests = set[float](), set[float](), set[str]()
    for case in cases():
        for loop in (op for op in operators(case) if op.type == "while"):
            condition = loop.input("Condition")[0]
            (body,) = blocks_of(loop)
            tests |= {op.type for op in body.ops if condition in op.output_names()}
            counters = {name for op in body.ops if condition in op.output_names() for name in op.input_names()}
            steps |= {op.attrs["step"] for op in body.ops if op.type == "increment" and op.output("Out")[0] in counters}
            starts |= {op.attrs["value"] for op in loop.block.ops if op.type == "fill_constant" and op.output("Out")[0][0] == "i"}
    assert {-1.0, 0.0, 1.0, 2.0, 3.0} <= starts
    assert {-1.0, 1.0, 2.0} <= steps
    assert {"less_than", "less_equal", "greater_than", "greater_equal", "not_equal"} <= tests


def test_state_is_overwritten() -> None:
    seen: Counter[str] = Counter()
    for case in cases():
        written = {name for op in operators(case) for name in op.output_names()}
        seen.update(name[0] for name in case.params if name in written)
        seen.update("x" for name in case.feeds if name in written)
    assert all(seen[kind] > 50 for kind in "wsx"), seen


def test_interest_is_followed() -> None:
    interest = Interest(types=("pool2d", "while", "tanh_grad"), attrs=("exclusive",))
    drawn = [operator_program(RandomChoices(f"interest {i}"), interest) for i in range(60)]
    assert sum(any(op.type == "pool2d" for op in operators(case)) for case in drawn) > 15
    assert sum(any(op.type == "tanh" for op in operators(case)) for case in drawn) > 15
    assert all(any(op.type == "while" for op in operators(case)) for case in drawn)
    assert sum("exclusive" in op.attrs for case in drawn for op in operators(case)) > 5


def test_an_operator_of_another_package_occurs() -> None:
    operator("X -> Out", name="of_another_package", infer=same, grad={})(np.sinh)
    try:
        interest = Interest(types=("of_another_package",))
        drawn = [operator_program(RandomChoices(f"other {i}"), interest) for i in range(10)]
        assert any(op.type == "of_another_package" for case in drawn for op in operators(case))
    finally:
        del REGISTRY["of_another_package"]


def test_the_same_choices_give_the_same_program() -> None:
    choices = RandomChoices("one")
    case = operator_program(choices)
    again = operator_program(RandomChoices("another", prefix=choices.numbers))
    assert repr(again) == repr(case)


def has_no_solution(case: Case) -> bool:
    """Whether a run solves with a matrix that is singular for the numbers drawn; any other error is raised."""
    try:
        assert math.isfinite(len(run(case)))
    except ExecutionError as error:
        if isinstance(error.__cause__, NoSolution):
            return True
        raise
    return False


def test_differentiated_programs_run() -> None:
    orders: Counter[int] = Counter()
    unsolved = 0
    for i, case in enumerate(cases()[:300]):
        differentiated_case = differentiated(RandomChoices(f"differentiated {i}"), case)
        if differentiated_case is not None:
            names = differentiated_case.program.global_block().vars
            orders[2 if any(name.count("@GRAD") > 1 and "TEMP" not in name for name in names) else 1] += 1
            unsolved += has_no_solution(differentiated_case)
    assert unsolved <= 5
    assert orders[1] > 100
    assert orders[2] > 10
