"""Sweeps run, read back and verify, and what they are for occurs in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from graphad.ops import REGISTRY, GradOpDef, lookup
from graphad.program import Program
from graphad.testing.calls import Constants, Interest
from graphad.testing.cases import SHORT, Case, RandomChoices
from graphad.testing.derivatives import can_difference, differenced, gradient_values, slope
from graphad.testing.equivalence import observe
from graphad.testing.nested import accumulate, delay, nested_program
from graphad.testing.open_extents import unknown_extent
from graphad.testing.sweeps import (
    OF_BACKWARDS,
    SWEEPS,
    Sweep,
    _tied_pairs,
    chain_sweep,
    drawn,
    name_sweep,
    pair_sweep,
    slope_sweep,
    smooth_variant,
    sweeps,
    tied_sweep,
)
from graphad.testing.swept_blocks import block_sweep
from graphad.testing.swept_calls import FLOATS_DRAWN, Gradually
from graphad.testing.swept_gradients import OPERATORS as OF_GRADIENTS
from graphad.testing.swept_gradients import gradient_call, gradient_operator_sweep
from graphad.testing.swept_values import steep_sweep, value_sweep
from graphad.types import TENSOR
from tests.testing.test_programs import check_runs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that overflow are among those that are drawn


def swept(sweep: Sweep, count: int, interest: Interest | None = None) -> list[Case]:
    return [sweep(RandomChoices(f"{sweep.__name__} {i}"), interest or Interest(), i) for i in range(count)]


def operands(case: Case, op_type: str) -> list[tuple[str, ...]]:
    """The names that operators of a type in block 0 read."""
    return [tuple(op.input_names()) for op in case.program.global_block().ops if op.type == op_type]


@pytest.mark.parametrize("sweep", dict.fromkeys((*SWEEPS, *OF_BACKWARDS, steep_sweep)), ids=lambda sweep: sweep.__name__)
def test_sweeps_run_verify_and_read_back(sweep: Sweep) -> None:
    for case in swept(sweep, 5):
        check_runs(case)


def test_pairs_come_in_both_orders_and_with_zeros_of_both_signs() -> None:
    cases = swept(pair_sweep, 25)
    pairs = {(i, *names) for i, case in enumerate(cases) for names in operands(case, "elementwise_sub")}
    assert any(x != y and (i, y, x) in pairs for i, x, y in pairs)
    zeros = [str(op.attrs.get("value")) for case in cases for op in case.program.global_block().ops if op.type == "fill_constant"]
    assert {"0.0", "-0.0"} <= {*zeros}


def test_operators_whose_gradients_alone_tell_inputs_apart_come_with_ties_in_both_orders() -> None:
    """Two programs have all of them, under a loss; which now and then stops the gradient of one."""
    cases = swept(tied_sweep, 8)
    for op_type in ("elementwise_max", "elementwise_min", "elementwise_fmax"):
        arrays = [(case, names) for case in cases for names in operands(case, op_type)]
        assert [names for _, names in arrays[:2]] == [arrays[0][1], arrays[0][1][::-1]]
        for case, (x, y) in arrays[::2]:
            assert x != y
            assert (case.feeds[x] == case.feeds[y]).all()
        assert any(all(map(np.any, gradient_values(case.program, case, list(names)).values())) for case, names in arrays[::2])


def test_operators_that_bend_at_ties_come_with_them_although_their_gradient_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphad.testing.sweeps._gradients_differ", lambda call, s, t: False)
    pairs = _tied_pairs.__wrapped__(("elementwise_max", "elementwise_min", "elementwise_add"), "float64").piece(0, 4)
    assert Counter(call.op.type for call, _ in pairs) == {"elementwise_max": 2, "elementwise_min": 2}


def test_values_have_ties_along_one_axis_and_large_integers() -> None:
    cases = swept(value_sweep, 40, Interest(("reduce_max",), ("keep_dim",)))
    maxima = [case.feeds[name] for case in cases for (name,) in operands(case, "reduce_max") if name in case.feeds]
    assert any(array.ndim == 1 and array.size and (array == array.max()).sum() > 1 for array in maxima)
    assert any(array.dtype == "int64" and (array > 2**24).any() for array in maxima)


def test_operators_of_interest_read_each_others_results() -> None:
    types, found = ("reduce_sum", "transpose2"), Counter[tuple[str, str]]()
    for case in swept(chain_sweep, 90, Interest(types)):
        ops = case.program.global_block().ops
        writers = {name: op.type for op in ops for name in op.output_names()}
        found.update((writers.get(name, ""), op.type) for op in ops for name in op.input("X") if op.type in types)
    assert found["transpose2", "reduce_sum"] > 10


def written_by(case: Case, name: str) -> str:
    """The type of the operator of block 0 that writes a name, empty if none does."""
    return next((op.type for op in case.program.global_block().ops if name in op.output_names()), "")


def test_an_operator_joins_results_of_another_one_over_different_values_of_the_dtype_that_a_pass_mentions() -> None:
    interest = Interest(("cast", "elementwise_add"), constants=Constants(words=("int32",)))
    sums = [
        [next(op for op in case.program.global_block().ops if name in op.output_names()) for name in names]
        for case in swept(chain_sweep, 180, interest)
        for names in operands(case, "elementwise_add")
        if len({*names}) == 2 and all(written_by(case, name) == "cast" for name in names)
    ]
    dtypes = [{op.block.program.global_block().vars[op.input("X")[0]].dtype for op in casts} for casts in sums]
    assert {"int32"} in dtypes


def test_an_operator_reads_the_result_of_another_one_and_what_that_reads() -> None:
    cases = swept(chain_sweep, 300, Interest(("greater_than", "where"), constants=Constants(numbers=(0.25,))))
    comparisons = [
        (comparison.input("X") == op.input("X"), comparison.input("Y") == op.input("Y"), written_by(case, op.input("Y")[0]))
        for case in cases
        for op in case.program.global_block().ops
        if op.type == "where"
        for comparison in case.program.global_block().ops
        if comparison.type == "greater_than" and comparison.output("Out") == op.input("Condition")
    ]
    assert (True, True, "") in comparisons
    assert (True, True, "fill_constant") in comparisons


def test_an_operator_comes_again_after_another_one() -> None:
    cases = swept(chain_sweep, 200, Interest(("flip", "cumsum")))
    threes = Counter[tuple[str, ...]]()
    for case in cases:
        chains: dict[str, tuple[str, ...]] = {}  # the operators that led to each name
        for op in case.program.global_block().ops:
            chain = (*chains.get(next(iter(op.input("X")), ""), ()), op.type)
            chains.update(dict.fromkeys(op.output_names(), chain))
            threes[chain[-3:]] += 1
    assert threes["flip", "cumsum", "flip"]


def test_operands_are_broadcast_on_both_sides() -> None:
    shapes = [
        [case.program.global_block().vars[name].shape for name in names]
        for case in swept(value_sweep, 60, Interest(("elementwise_add", "elementwise_mul")))
        for op_type in ("elementwise_add", "elementwise_mul")
        for names in operands(case, op_type)
    ]
    pairs = [(x, y) for x, y in shapes if len(x) == len(y) == 2]
    assert any(x[1] == 1 != y[1] for x, y in pairs)
    assert any(x[1] == 1 != y[1] and y[0] == 1 != x[0] for x, y in pairs)


def test_what_is_converted_is_converted_back_on_numbers_that_do_not_fit() -> None:
    found = Counter[str]()
    for case in swept(chain_sweep, 200, Interest(("cast",))):
        variables = case.program.global_block().vars
        for (x,) in operands(case, "cast"):
            writer = next((op for op in case.program.global_block().ops if x in op.output_names()), None)
            if writer is not None and writer.type == "cast" and (array := case.feeds.get(writer.input("X")[0])) is not None:
                is_back = any(variables[y].dtype == array.dtype.name for y in outputs_over(case, x))
                found[array.dtype.kind] += is_back and bool((np.abs(array.astype("float64")) > 2**24).any())
    assert found["i"] > 3


def outputs_over(case: Case, name: str) -> list[str]:
    """The results of the operators that read a name."""
    return [out for op in case.program.global_block().ops if name in op.input_names() for out in op.output_names()]


def test_extents_that_are_not_known_are_one_in_one_of_two_operands() -> None:
    draw, found = sweeps(Interest(("elementwise_add", "elementwise_mul"))), 0
    for i in range(400):
        case = draw(RandomChoices(f"open {i}"))
        variables = case.program.global_block().vars
        for x, y in operands(case, "elementwise_add") + operands(case, "elementwise_mul"):
            if x in case.feeds and y in case.feeds and variables[x].shape == variables[y].shape:
                found += case.feeds[x].shape != case.feeds[y].shape
    assert found


def test_declarations_stay_where_an_operator_would_take_an_unknown_extent_for_one() -> None:
    def program() -> Program:
        return Program.parse("program { block 0 { var x: float32[3, 3] var y: float32[3, 3] squeeze(X=x) -> (Out=y) {axes=[0]} } }")

    kept, feeds = program(), {"x": np.ones((3, 3), "float32")}
    for i in range(60):
        unknown_extent(RandomChoices(f"squeeze {i}"), kept, feeds)
    assert str(kept) == str(program())


def test_operators_of_gradients_occur() -> None:
    draw = sweeps(Interest())
    cases = [draw(RandomChoices(f"gradients {i}")) for i in range(350)]
    types = {op.type for case in cases if case.order for op in case.program.global_block().ops if op.type.endswith("_grad")}
    assert len(types) > 20


def test_chains_for_passes_that_narrow_are_of_wide_numbers() -> None:
    found = Counter(a.dtype.name for case in swept(chain_sweep, 40, Interest(("mul",), kinds=SHORT)) for a in case.feeds.values())
    assert found["float32"] > 0.4 * found.total()


def branches(case: Case, op_type: str) -> list[tuple[list[str], ...]]:
    """The operands of an operator in the two branches of each ``if_else``, where each has one."""
    ops = [op for block in case.program.blocks for op in block.ops if op.type == "if_else"]
    inner = [[[o for o in op.attrs[name].ops if o.type == op_type] for name in ("true_block", "false_block")] for op in ops]
    return [tuple([*one.input("X"), *one.input("Y")] for (one,) in pair) for pair in inner if all(len(found) == 1 for found in pair)]


def test_branches_take_operands_from_each_other_in_both_orders() -> None:
    pairs = [pair for case in swept(block_sweep, 120, Interest(("if_else",))) for pair in branches(case, "elementwise_sub")]
    assert any(one == other[::-1] != other for one, other in pairs)


@pytest.mark.parametrize("draw", [lambda c, i: block_sweep(c, Interest(("while",)), i), lambda c, i: nested_program(c)])
def test_loops_that_do_not_run_start_at_their_limit_and_beyond(draw: Callable[[RandomChoices, int], Case]) -> None:
    distances = set()
    for i in range(150):
        case = draw(RandomChoices(f"beyond {i}"), i)
        ops = case.program.global_block().ops
        constants = {op.output("Out")[0]: op.attrs["value"] for op in ops if op.type == "fill_constant"}
        tests = {name: op for op in ops if op.type == "less_than" for name in op.output("Out")}
        for op in ops:
            test = tests.get(op.input("Condition")[0]) if op.type == "while" else None
            names = [*test.input("X"), *test.input("Y")] if test is not None else []
            if names and all(name in constants for name in names):
                start, limit = (constants[name] for name in names)
                distances.add(limit - start)
    assert {0, -1} <= distances or {0, -2} <= distances


def test_blocks_overwrite_what_the_same_operator_reads_around_them() -> None:
    found = 0
    for case in swept(block_sweep, 60):
        root, *inner = case.program.blocks
        around = {(op.type, *op.input_names()) for op in root.ops}
        repeated = [op for block in inner for op in block.ops if (op.type, *op.input_names()) in around]
        found += any(name in other.output_names() for op in repeated for name in op.input_names() for other in op.block.ops)
    assert found > 5


def test_blocks_read_conditions_and_what_is_drawn_for_them_alone_and_have_steep_slopes() -> None:
    conditions = drawn_inside = steep = 0
    for case in swept(block_sweep, 300):
        root, *inner = case.program.blocks
        tests = {name for op in root.ops if op.type in ("if_else", "conditional_block") for name in op.input("Cond")}
        parts = {name for op in root.ops if tests.intersection(op.output_names()) for name in op.input_names()}
        conditions += any(op.type == "cast" and {*op.input("X")} & (tests | parts) for block in inner for op in block.ops)
        noise = {name for op in root.ops if op.type == "uniform_random" for name in op.output_names()}
        readers = [op for op in root.ops if noise.intersection(op.input_names())]
        drawn_inside += len(readers) == 1 and any(noise.intersection(op.input_names()) for block in inner for op in block.ops)
        steep += any(lookup(op.type).steep for block in inner for op in block.ops)
    assert conditions > 10
    assert drawn_inside > 3
    assert steep > 20


def test_losses_stay_where_blocks_run_or_not_on_zeros() -> None:
    source, found = sweeps(Interest(types=("if_else",), blocks=True)), 0
    for i in range(200):
        case = source(RandomChoices(f"zeros {i}"))
        zeros = sum((array == 0).mean() > 0.5 for array in case.feeds.values() if array.dtype.kind == "f" and array.size > 2)
        found += bool(case.loss_name) and zeros > 0 and len(case.program.blocks) > 1
    assert found > 5


def test_blocks_that_do_not_run_read_what_is_missing_and_indices_that_are_none() -> None:
    missing = far = 0
    over_missing = set[str]()
    for case in swept(block_sweep, 180):
        ops = case.program.global_block().ops
        once = {name for op in ops if op.type == "conditional_block" for name in op.output("Out")}
        missing += any(name in once and name not in case.feeds and name.startswith("u") for op in ops for name in op.input("X"))
        over_missing |= {op.type for block in case.program.blocks[1:] for op in block.ops if op.inputs.get("X", [""])[0].startswith("u")}
        far += any(array.dtype.kind == "i" and (array >= 1000).any() for array in case.feeds.values())
        observe(case.program, case, [])
    assert missing > 1
    assert far > 1
    assert over_missing >= {"exp", "tanh"}  # of infinite slopes, which are kept where they are, and of others


def test_many_smooth_operators_have_one_slope() -> None:
    """Central differences of a program agree with the standard backward, for all of its operators at once."""
    agreeing = 0
    for case in swept(slope_sweep, 8):
        assert can_difference(case.program)
        direction = {name: np.ones_like({**case.feeds, **case.params}[name]) for name in gradients_of(case)}
        expected = slope(differenced(case), direction)
        found = gradient_values(case.program, case, list(direction))
        if expected is not None:
            np.testing.assert_allclose(sum(float(array.sum()) for array in found.values()), expected, rtol=1e-4)
            agreeing += 1
    assert agreeing > 5


def test_operands_of_smooth_operators_move_by_unlike_amounts() -> None:
    """A tangent of ones is the same for every element, and what is wrongly taken for linear gives the right one."""
    scaled = 0
    for case in swept(slope_sweep, 6):
        stopped = {name for name, var in case.program.global_block().vars.items() if var.stop_gradient}
        factors = [case.feeds[y] for _, y in operands(case, "elementwise_mul") if y in case.feeds and y in stopped]
        scaled += sum(set(np.abs(array).ravel()) <= {0.5, 1.0, 2.0, 4.0} and len(set(array.ravel())) > 1 for array in factors)
    assert scaled > 6


def test_some_smooth_operators_have_gradients_with_respect_to_some_inputs_alone() -> None:
    stopped = Counter[bool]()
    for case in swept(slope_sweep, 20):
        variables = case.program.global_block().vars
        for x, y in operands(case, "elementwise_sub") + operands(case, "elementwise_div"):
            stopped[variables[x].stop_gradient != variables[y].stop_gradient] += 1
    assert stopped[True]
    assert stopped[False]


@pytest.mark.parametrize("interest", [Interest(), Interest(attrs=("axis",)), Interest(types=("pow", "scale"))], ids=repr)
def test_sweeps_over_the_same_operators_go_on_where_the_last_one_ended(interest: Interest, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: dict[tuple[str, ...], list[int]] = {}

    def noted(choices: RandomChoices, emphasis: Interest, start: int) -> Case:
        starts.setdefault(emphasis.types, []).append(start)
        return slope_sweep(choices, emphasis, 0)

    monkeypatch.setattr("graphad.testing.sweeps.OF_BACKWARDS", (noted, noted))
    draw = sweeps(interest, is_backward=True)
    for i in range(20):
        draw(RandomChoices(f"{i}"))
    assert starts.keys() == {(), interest.types}
    for found in starts.values():
        assert found == [*range(len(found))]


@pytest.mark.parametrize(("op_type", "name", "least"), [("pow", "factor", 4), ("softmax", "axis", 3), ("scale", "scale", 3)])
def test_the_first_smooth_variants_differ_in_attributes_and_move(op_type: str, name: str, least: int) -> None:
    calls = [smooth_variant(lookup(op_type), turn) for turn in range(6)]
    values = {repr(call.attrs.get(name)) for call in calls if call is not None}
    assert len(values) >= least, values
    for call in calls:
        assert call is not None
        assert call.outputs["Out"][0].size
        assert call.inputs["X"][0].dtype == "float64"


def test_values_reach_the_loss_through_all_iterations_of_a_loop() -> None:
    constant = 0
    for number in range(30):
        case = nested_program(RandomChoices(f"delay {number}"), 1, max_statements=1, max_nested=1, first=delay)
        check_runs(case)
        line = [op for block in case.program.blocks[1:2] for op in block.ops if op.type == "assign"]
        filled = {name for op in case.program.global_block().ops if op.type == "fill_constant" for name in op.output_names()}
        names = {name for op in line for name in (*op.input_names(), *op.output_names())}
        constant += len(names) > 2 and names <= filled
    assert constant > 5


def test_loops_add_to_a_name_with_nothing_between() -> None:
    added = 0
    for number in range(20):
        case = nested_program(RandomChoices(f"sum {number}"), 1, max_statements=1, max_nested=1, first=accumulate)
        check_runs(case)
        (body,) = case.program.blocks[1:2]
        outside = set(case.program.global_block().vars)
        added += any(set(op.output_names()) < set(op.input_names()) <= outside for op in body.ops if op.type == "elementwise_add")
    assert added > 3


def test_blocks_read_a_copy_of_what_they_overwrite_which_is_unused_after_them() -> None:
    found = 0
    for case in swept(block_sweep, 80):
        root = case.program.global_block()
        read = Counter(name for op in root.ops for name in op.input_names())
        for op in root.ops:
            copies = [each for each in root.ops if op.type == "while" and each.type == "assign" and each.output_names()[0] in op.input("X")]
            found += any(c.input_names()[0] in op.output("Out") and read[c.output_names()[0]] == 1 for c in copies)
    assert found > 2


def test_products_are_small_and_exponentials_of_them_too_large_for_float16() -> None:
    types, beyond = set[str](), 0
    for case in swept(steep_sweep, 20, Interest(kinds=SHORT)):
        ops = case.program.global_block().ops
        product = ops[0].output_names()[0]
        names = [(op.type, name) for op in ops for name in op.output_names() if product in op.input_names()]
        values = observe(case.program, case, [name for _, name in names]).values
        x, y = (case.feeds[name] for name in ops[0].input_names())
        assert np.abs(x @ y).max() < 16  # an update after it may overwrite its name
        types.update(op_type for op_type, _ in names)
        beyond += any(op_type == "exp" and np.max(values[name]) > np.finfo("float16").max for op_type, name in names)
    assert len(types) > 20
    assert beyond


def gradients_of(case: Case) -> list[str]:
    return [name for name in case.sources if not case.program.global_block().var(name).stop_gradient]


def test_state_is_written_twice_and_effects_occur() -> None:
    cases = swept(name_sweep, 60)
    written = [Counter(name for op in case.program.global_block().ops for name in op.output_names()) for case in cases]
    assert (
        sum(any(count > 1 and name in case.params for name, count in each.items()) for case, each in zip(cases, written, strict=True)) > 20
    )
    assert sum(bool(operands(case, "fetch")) for case in cases) > 10
    assert {bool(case.requested) for case in cases} == {True, False}


def test_every_gradient_operator_is_drawn() -> None:
    """Those of Paddle's gradients of gradients, which no backward makes, too."""
    of_slots = ("write_to_array", "read_from_array", "clear_in_array", "erase_in_array", "insert_in_array")
    of_arrays = (*of_slots, "tensor_array_to_tensor", "tensor_array_like")
    not_alone = {f"{op_type}_grad" for op_type in (*of_arrays, "push_tape", "pop_tape", "py_func")}  # of loops, and of a Python function
    every = [op.type for op in REGISTRY.values() if isinstance(op, GradOpDef)]  # the sweep goes through those that cannot be alone, too
    types = [op_type for op_type in every if op_type not in not_alone]
    cases = swept(gradient_operator_sweep, len(every) // OF_GRADIENTS + 1)
    drawn_types = {op.type for case in cases for op in case.program.global_block().ops}
    assert set(types) <= drawn_types | {op_type for op_type in types if gradient_call(op_type, "float32", 0) is None}
    for case in cases[::9]:
        check_runs(case)
    assert all(any(gradient_call(op_type, dtype, 0) for dtype in FLOATS_DRAWN) for op_type in types)


def test_float32_is_drawn_as_often_as_float64() -> None:
    draw, count = drawn(Interest()), 500
    found = Counter[str]()
    for number in range(count):
        dtypes = {var.dtype for var in draw(RandomChoices(f"dtypes {number}")).program.list_vars() if var.type == TENSOR}
        found.update(dtypes & {*FLOATS_DRAWN})
    assert abs(found["float32"] - found["float64"]) < count / 10, found


def test_an_attribute_that_a_pass_mentions_is_left_out_throughout_some_programs() -> None:
    """Every sample of ``scale`` has a bias; two in a row have none only where a program leaves it out."""
    interest = Interest(types=("scale",), attrs=("bias", "scale"))
    source, plain, biased = sweeps(interest), 0, 0
    for i in range(480):
        block = source(RandomChoices(f"left out {i}")).program.global_block()
        writers = {name: op for op in block.ops for name in op.output_names() if op.type == "scale"}
        pairs = [(op, writers[op.input("X")[0]]) for op in block.ops if op.type == "scale" and op.input("X")[0] in writers]
        plain += sum(not any(op.attrs.get("bias", 0.0) for op in pair) for pair in pairs)
        biased += sum(all(op.attrs.get("bias", 0.0) for op in pair) for pair in pairs)
    assert plain > 10
    assert biased > 10


def test_branches_end_with_operators_and_run_on_numbers_that_are_not_finite() -> None:
    source, ends, wild = sweeps(Interest(types=("if_else",), blocks=True)), 0, 0
    for i in range(480):  # one in forty-five is wild
        case = source(RandomChoices(f"branches {i}"))
        branches = [op for op in case.program.global_block().ops if op.type == "if_else"]
        for op in branches:
            last = [block.ops[-1] for block in (op.attrs["true_block"], op.attrs["false_block"]) if block.ops]
            written_names = op.output("Out")
            ends += len(last) == 2 and all(each.type != "assign" and {*each.output_names()} & {*written_names} for each in last)
        hard = any(array.dtype.kind == "f" and not np.isfinite(array).all() for array in case.feeds.values())
        wild += bool(branches) and hard and not case.loss_name
    assert ends > 5
    assert wild > 5


def test_elements_are_computed_when_they_are_needed_also_after_an_interrupt() -> None:
    computed: list[int] = []

    def numbers() -> Iterator[int]:
        for n in range(6):
            computed.append(n)
            if computed.count(3) == 1 and n == 3:
                raise KeyboardInterrupt
            yield n

    elements = Gradually(numbers)
    assert elements.piece(0, 2) == [0, 1]
    assert computed == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        elements.piece(2, 3)
    assert elements.piece(2, 3) == [2, 3, 4]
    assert elements.piece(4, 9) == [4, 5]


def test_a_program_of_pairs_requests_what_nothing_reads_and_no_more() -> None:
    """What is requested is not merged: a program that requests every tensor does not show what a merge leaves out."""
    for case in swept(pair_sweep, 12):
        ops = case.program.global_block().ops
        read_names = {name for op in ops for name in op.input_names()}
        assert case.requested == tuple(name for op in ops for name in op.output_names() if name not in read_names)


def test_blocks_print_some_of_them_alone_and_some_come_twice_with_operands_exchanged(capsys: pytest.CaptureFixture[str]) -> None:
    cases = swept(block_sweep, 200)
    assert not capsys.readouterr().out  # not while they are drawn
    blocks = [block for case in cases for block in case.program.blocks[1:]]
    assert sum(any(op.type == "print" for op in block.ops) for block in blocks) > 10
    assert sum([op.type for op in block.ops] == ["print"] for block in blocks) > 3
    conditions = [Counter(name for op in case.program.global_block().ops for name in op.inputs.get("Cond", ())) for case in cases]
    assert sum(max(counts.values(), default=0) > 1 for counts in conditions) > 4


def test_a_branch_in_a_branch_has_the_same_condition_now_and_then() -> None:
    cases = swept(block_sweep, 200, Interest(types=("if_else",)))
    inner = [op.inputs["Cond"] for case in cases for block in case.program.blocks[1:] for op in block.ops if op.type == "if_else"]
    outer = [op.inputs["Cond"] for case in cases for op in case.program.global_block().ops if op.type == "if_else"]
    assert any(names in outer for names in inner)


def test_some_variables_clip_their_gradients_where_they_may() -> None:
    def clips(interest: Interest) -> int:
        return sum(var.error_clip is not None for case in swept(chain_sweep, 60, interest) for var in case.program.list_vars())

    assert clips(Interest(marks=True, clips=True)) > 5
    assert not clips(Interest(marks=True))


def test_what_is_cut_into_parts_is_joined_again() -> None:
    """Rows are parted by a mask, both parts are treated alike, and merged by the same mask."""
    merges = Counter[tuple[str, ...]]()
    for case in swept(chain_sweep, 300, Interest(types=("merge_lod_tensor", "split_lod_tensor"))):
        writers = {name: op for op in case.program.global_block().ops for name in op.output_names()}
        for op in case.program.global_block().ops:
            names = [*op.inputs.get("InTrue", ()), *op.inputs.get("InFalse", ())] if op.type == "merge_lod_tensor" else []
            sides = [writers[name] for name in names if name in writers]
            parted = [writers.get(side.input_names()[0]) for side in sides if side.inputs]
            if len(sides) == 2 and all(each is not None and each.inputs.get("Mask") == op.inputs["Mask"] for each in parted):
                merges[tuple(side.type for side in sides)] += 1
    assert any(first == second for first, second in merges)
