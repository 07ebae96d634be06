"""Programs as plain data: variables, nested blocks, names, and arithmetic on variables."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga


def vector(program: ga.Program, name: str = "x") -> ga.Variable:
    return program.global_block().create_var(name, [-1, 3], "float32")


def types(program: ga.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


# -- variables -----------------------------------------------------------------------------------


def test_a_variable_keeps_what_it_is_declared_with() -> None:
    block = ga.Program().global_block()
    var = block.create_var("x", (2, -1), np.float64, persistable=True, stop_gradient=True)
    assert (var.name, var.shape, var.dtype, var.persistable, var.stop_gradient) == ("x", (2, -1), "float64", True, True)
    assert block.var("x") is var
    assert block.has_var("x")
    assert not block.has_var("y")


def test_declaring_again_the_same_way_gives_the_same_variable() -> None:
    block = ga.Program().global_block()
    var = block.create_var("x", [2, 3], "float32")
    assert block.create_var("x", [2, 3], "float32") is var
    assert block.create_var("x") is var


def test_declaring_again_fills_in_what_was_open() -> None:
    block = ga.Program().global_block()
    var = block.create_var("x")
    assert block.create_var("x", [2], "int64") is var
    assert var.declared == ((2,), "int64")


def test_an_unknown_shape_is_said_to_be_unknown() -> None:
    var = ga.Program().global_block().create_var("later")
    with pytest.raises(ValueError, match=r"shape of variable 'later' is not known"):
        _ = var.shape


def test_a_parameter_is_persistable_and_lives_in_block_0() -> None:
    program = ga.Program()
    inner = program.create_block()
    w = inner.create_parameter("w", [2, 3], trainable=False)
    assert w.block is program.global_block()
    assert not inner.has_var("w")
    assert w.persistable
    assert w.stop_gradient
    assert not w.trainable
    assert program.all_parameters() == [w]
    assert inner.var_recursive("w") is w
    assert inner.create_parameter("w", [2, 3]) is w


def test_parameters_come_in_the_order_of_their_making() -> None:
    program = ga.Program()
    for name in "cab":
        program.global_block().create_parameter(name, [1])
    assert [p.name for p in program.all_parameters()] == ["c", "a", "b"]


def test_a_missing_variable_is_named() -> None:
    program = ga.Program()
    with pytest.raises(ValueError, match=r"block 0 has no variable 'nope'"):
        program.global_block().var("nope")
    with pytest.raises(ValueError, match=r"neither block 1 nor a block around it has a variable 'nope'"):
        program.create_block().var_recursive("nope")
    with pytest.raises(TypeError, match=r"by its name, not by 3"):
        program.global_block().var(3)  # type: ignore[arg-type]


def test_op_is_the_last_operator_that_writes_the_variable() -> None:
    block = ga.Program().global_block()
    x = block.create_var("x", [2], "float32")
    block.append_op("scale", {"X": x}, {"Out": "y"})
    last = block.append_op("relu", {"X": "y"}, {"Out": "y"})
    assert block.var("y").op is last
    assert x.op is None


# -- nested blocks -------------------------------------------------------------------------------


def test_blocks_nest_and_roll_back() -> None:
    program = ga.Program()
    first = program.create_block()
    second = program.create_block()
    assert [(b.idx, b.parent_idx) for b in program.blocks] == [(0, -1), (1, 0), (2, 1)]
    assert list(second.chain()) == [second, first, program.global_block()]
    program.rollback()
    assert program.current_block() is first
    assert program.create_block(parent_idx=0).parent is program.global_block()
    program.rollback()
    program.rollback()
    assert program.current_block() is program.global_block()


def test_an_inner_block_reads_outer_names_and_keeps_its_own() -> None:
    program = ga.Program()
    x = vector(program)
    inner = program.create_block()
    inner.append_op("scale", {"X": x}, {"Out": "y"})
    assert inner.has_var("y")
    assert not program.global_block().has_var("y")
    assert inner.var("y").shape == (-1, 3)


def test_a_name_of_an_inner_block_hides_the_outer_one() -> None:
    program = ga.Program()
    vector(program)
    inner = program.create_block()
    inner.create_var("x", [7], "int64")
    inner.append_op("scale", {"X": "x"}, {"Out": "y"})
    assert inner.var("y").shape == (7,)
    assert inner.var("y").dtype == "int64"


def test_operators_of_a_guard_go_to_the_current_block() -> None:
    program = ga.Program()
    x = vector(program)
    inner = program.create_block()
    y = x + 1.0
    program.rollback()
    assert y.block is inner
    assert types(program) == []


def test_a_block_that_is_not_there_is_refused() -> None:
    program = ga.Program()
    for index in (1, -1):
        with pytest.raises(ValueError, match=rf"has blocks 0 to 0, no block {index}"):
            program.block(index)
        with pytest.raises(ValueError, match=rf"no block {index}"):
            program.create_block(index)
    assert len(program.blocks) == 1


# -- names and defaults --------------------------------------------------------------------------


def test_names_are_those_of_fluid() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        assert [ga.unique_name.generate("fc") for _ in range(2)] == ["fc_0", "fc_1"]
        assert ga.unique_name.generate("fc_0.w") == "fc_0.w_0"


def test_each_program_counts_its_own_names() -> None:
    names = []
    for _ in range(2):
        with ga.program_guard(ga.Program()):
            names.append(ga.layers.fc(ga.layers.data("x", [2]), 2).name)
    assert names == ["fc_0.tmp_1"] * 2


def test_a_guard_counts_anew_and_then_goes_on() -> None:
    with ga.program_guard(ga.Program()):
        ga.unique_name.generate("k")
        with ga.unique_name.guard("inner/"):
            assert ga.unique_name.generate("k") == "inner/k_0"
        assert ga.unique_name.generate("k") == "k_1"


def test_a_guard_prefixes_once() -> None:
    with ga.program_guard(ga.Program()):
        x = ga.layers.data("x", [2])
        with ga.unique_name.guard("inner/"):
            assert ga.layers.fc(x, 2).name == "inner/fc_0.tmp_1"


@pytest.mark.parametrize("name", ["scale_0.tmp_0", "tmp_0"])
def test_a_generated_name_is_never_the_users(name: str) -> None:
    program = ga.Program()
    x = vector(program, name)
    made = x * 2.0 if name.startswith("scale") else program.global_block().create_var()
    assert made is not x


def test_a_parsed_program_generates_names_it_does_not_have() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        ga.layers.fc(ga.layers.data("x", [2]), 2)
    parsed = ga.Program.parse(str(program))
    with ga.program_guard(parsed):
        assert ga.layers.fc(parsed.global_block().var("x"), 2).name == "fc_1.tmp_1"


def test_program_guard_sets_and_restores_the_defaults() -> None:
    outer = ga.default_main_program(), ga.default_startup_program()
    main, startup = ga.Program(), ga.Program()

    def fails_inside() -> None:
        with ga.program_guard(main, startup):
            assert (ga.default_main_program(), ga.default_startup_program()) == (main, startup)
            raise KeyError("out")

    with pytest.raises(KeyError, match="out"):
        fails_inside()
    assert (ga.default_main_program(), ga.default_startup_program()) == outer


def test_program_guard_without_a_startup_program_gives_a_fresh_one() -> None:
    outer = ga.default_startup_program()
    with ga.program_guard(ga.Program()):
        assert ga.default_startup_program() is not outer


@pytest.mark.parametrize("programs", [(None,), ("p",), (ga.Program(), 3)])
def test_program_guard_takes_programs(programs: Any) -> None:
    outer = ga.default_main_program()
    with pytest.raises(TypeError, match="program_guard takes Programs"), ga.program_guard(*programs):
        pass
    assert ga.default_main_program() is outer


# -- arithmetic ----------------------------------------------------------------------------------

Apply = Callable[[Any, Any], Any]
BINARY: list[tuple[Apply, str, str]] = [
    (operator.add, "elementwise_add", "float32"),
    (operator.sub, "elementwise_sub", "float32"),
    (operator.mul, "elementwise_mul", "float32"),
    (operator.truediv, "elementwise_div", "float32"),
    (operator.pow, "elementwise_pow", "float32"),
    (operator.lt, "less_than", "bool"),
    (operator.le, "less_equal", "bool"),
    (operator.gt, "greater_than", "bool"),
    (operator.ge, "greater_equal", "bool"),
    (operator.eq, "equal", "bool"),
    (operator.ne, "not_equal", "bool"),
]


@pytest.mark.parametrize(("apply", "op_type", "dtype"), BINARY, ids=[b[1] for b in BINARY])
def test_operators_of_two_variables(apply: Apply, op_type: str, dtype: str) -> None:
    program = ga.Program()
    x, k = vector(program), program.global_block().create_var("k", [3], "float32")
    result = apply(x, k)
    assert repr(result.op) == f"{op_type}(X=x, Y=k) -> (Out={op_type}_0.tmp_0)"
    assert (result.shape, result.dtype) == ((-1, 3), dtype)


@pytest.mark.parametrize(("apply", "op_type", "dtype"), BINARY, ids=[b[1] for b in BINARY])
@pytest.mark.parametrize("swapped", [False, True], ids=["variable first", "number first"])
def test_a_number_beside_a_variable_means_what_numpy_means(apply: Apply, op_type: str, dtype: str, swapped: bool) -> None:
    program = ga.Program()
    x = vector(program)
    result = apply(2.0, x) if swapped else apply(x, 2.0)
    values = np.array([[0.5, 2.0, 3.0]], "float32")
    (got,) = ga.Executor().run(program, feed={"x": values}, fetch_list=[result], scope=ga.Scope())
    np.testing.assert_allclose(got, apply(2.0, values) if swapped else apply(values, 2.0), rtol=1e-6)
    assert got.dtype == dtype == result.dtype


def test_negation_and_matrix_product() -> None:
    program = ga.Program()
    x, m = vector(program), program.global_block().create_var("m", [3, 4], "float32")
    negated, product = (-x).op, (x @ m).op
    assert negated is not None
    assert product is not None
    assert negated.attrs["scale"] == -1.0
    assert product.type == "matmul_v2"
    assert (x @ m).shape == (-1, 4)


def test_a_variable_has_no_truth_value() -> None:
    x = vector(ga.Program())
    with pytest.raises(TypeError, match=r"Variable x: float32\[-1, 3\] has no value before the program runs"):
        bool(x)


def test_comparing_with_what_is_no_number_compares_identity() -> None:
    program = ga.Program()
    x = vector(program)
    assert (x is None) is False
    assert (x != "x") is True
    assert len({x, x}) == 1
    assert types(program) == []


@pytest.mark.parametrize("other", ["a", None, ["a", "b"], np.array(["a"])], ids=repr)
def test_what_is_no_number_does_not_combine(other: Any) -> None:
    program = ga.Program()
    x = vector(program)
    with pytest.raises(TypeError, match=r"cannot combine Variable x: float32\[-1, 3\]"):
        x + other
    assert types(program) == []


def test_a_variable_combines_with_an_array_on_its_left() -> None:
    program = ga.Program()
    x = vector(program)
    total: Any = np.ones(3) + x
    assert (types(program), total.dtype) == (["assign_value", "elementwise_add"], "float32")


@pytest.mark.parametrize("apply", [operator.lt, operator.eq, operator.mul, operator.add], ids=["<", "==", "*", "+"])
def test_an_integer_beside_a_fraction_is_cast_to_float32(apply: Apply) -> None:
    program = ga.Program()
    i = program.global_block().create_var("i", [3], "int64")
    with ga.program_guard(program):
        result: Any = apply(i, 1.5)
    (got,) = ga.Executor().run(program, feed={"i": [1, 2, -3]}, fetch_list=[result], scope=ga.Scope())
    expected = apply(np.array([1, 2, -3], "float32"), np.float32(1.5))
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == result.dtype == expected.dtype


def test_a_list_of_numbers_is_a_constant() -> None:
    program = ga.Program()
    x = vector(program)
    with ga.program_guard(program):
        total = operator.add(x, [1, 2, 3])
    (got,) = ga.Executor().run(program, feed={"x": np.ones((2, 3), "float32")}, fetch_list=[total], scope=ga.Scope())
    np.testing.assert_array_equal(got, [[2, 3, 4], [2, 3, 4]])


def test_a_quotient_of_integers_is_a_float_and_that_of_the_operator_an_integer_rounded_towards_zero() -> None:
    program = ga.Program()
    i = program.global_block().create_var("i", [4], "int64")
    (got,) = ga.Executor().run(program, feed={"i": [1, 2, 3, -3]}, fetch_list=[half := i / 2], scope=ga.Scope())
    assert got.dtype == half.dtype == "float32"
    np.testing.assert_array_equal(got, [0.5, 1.0, 1.5, -1.5])
    two = i * 0 + 2
    (got,) = ga.Executor().run(program, feed={"i": [1, 2, 3, -3]}, fetch_list=[ga.ops.elementwise_div(i, two)], scope=ga.Scope())
    np.testing.assert_array_equal(got, [0, 1, 1, -1])
