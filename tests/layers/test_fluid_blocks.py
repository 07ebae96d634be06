"""Fluid's blocks: ``While``, ``IfElse`` and ``Switch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import Given, Row, S, T, V, built, layers, ops, ran, refused, write
from tests.execution.test_executor import run

X = np.arange(8, dtype="float32").reshape(4, 2)


# -- While ---------------------------------------------------------------------------------------


def doubled_until(x: Any, n: Any) -> Any:
    """x is doubled in place while its mean is less than n."""
    total = x * 1.0
    go = layers.mean(total) < n
    with layers.While(go).block():
        write("scale", total, {"scale": 2.0}, X=total)
        write("less_than", go, X=layers.mean(total), Y=n)
    return [total, go]


def test_while_runs_a_block_on_the_variables_around() -> None:
    program, _ = built(doubled_until, x=X, n=np.float32(9.0))
    assert ops(program.block(0))[-1] == (
        "while(Condition=less_than_0.tmp_0, X=[scale_0.tmp_0, n]) -> (Out=[scale_0.tmp_0, less_than_0.tmp_0], StepScopes=_generated_var_0)"
    )
    assert [op.type for op in program.block(1).ops] == ["scale", "mean", "less_than"]
    assert [v.tolist() for v in ran(doubled_until, x=X, n=np.float32(9.0))] == [(X * 4).tolist(), False]
    assert [v.tolist() for v in ran(doubled_until, x=X, n=np.float32(0.0))] == [X.tolist(), False]


def test_while_keeps_arrays() -> None:
    def build(x: Any, n: Any) -> Any:
        i = n * 0
        mem = layers.array_write(x, i)
        go = i < n
        with layers.While(go, is_test=True).block():
            grown = layers.array_read(mem, i) * 3.0
            write("increment", i, X=i)
            layers.array_write(grown, i, mem)
            write("less_than", go, X=i, Y=n)
        return [layers.array_read(mem, n), layers.array_length(mem)]

    last, length = ran(build, x=X, n=[3])
    np.testing.assert_array_equal(last, X * 27)
    assert length.tolist() == [4]


# -- IfElse --------------------------------------------------------------------------------------


def halves(x: Any, limit: Any, w: Any) -> Any:
    """Rows whose first entry is less than a limit times w, the others less one, and the entries' signs."""
    rows = layers.IfElse(layers.slice(x, axes=[1], starts=[0], ends=[1]) < limit)
    with rows.true_block():
        part = rows.input(x)
        rows.output(part * w, part * 0.0 - 1.0)
    with rows.false_block():
        part = rows.input(x)
        rows.output(part - 1.0)
        rows.output(part * 0.0 + 1.0)
    return rows()


@pytest.mark.parametrize("limit", [-1.0, 3.0, 100.0])
def test_each_block_computes_its_rows(limit: float) -> None:
    w = np.array([10, 100], "float32")
    first, second = ran(halves, x=X, limit=np.float32(limit), w=w)
    rows = X[:, :1] < limit
    np.testing.assert_array_equal(first, np.where(rows, X * w, X - 1))
    np.testing.assert_array_equal(second, np.where(rows, -1, 1) + X * 0)


def test_if_else_splits_runs_blocks_with_rows_and_merges() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x, m = layers.data("x", [2]), layers.data("m", [1], "bool")
        rows = layers.IfElse(m)
        with rows.true_block():
            rows.output(rows.input(x) * 2.0)
        with rows.false_block():
            rows.output(rows.input(x))
        (out,) = rows()
    assert ops(program.block(0)) == [
        "split_lod_tensor(X=x, Mask=m) -> (OutTrue=ifelse_0.true_0, OutFalse=ifelse_0.false_0)",
        "reduce_any(X=m) -> (Out=ifelse_0.tmp_0)",
        "reduce_all(X=m) -> (Out=ifelse_0.tmp_1)",
        "logical_or(X=ifelse_0.tmp_0, Y=ifelse_0.tmp_1) -> (Out=ifelse_0.tmp_2)",
        "conditional_block(Cond=ifelse_0.tmp_2, Input=ifelse_0.true_0) -> (Out=ifelse_0.out_0, Scope=_generated_var_0)",
        "conditional_block(Cond=ifelse_0.false_0, Input=ifelse_0.false_0) -> (Out=ifelse_0.out_1, Scope=_generated_var_1)",
        "merge_lod_tensor(Mask=m, InTrue=ifelse_0.out_0, InFalse=ifelse_0.out_1) -> (Out=ifelse_0.tmp_3)",
    ]
    assert ops(program.block(1)) == [
        "scale(X=ifelse_0.true_0) -> (Out=scale_0.tmp_0)",
        "assign(X=scale_0.tmp_0) -> (Out=ifelse_0.out_0)",
    ]
    held, others = (op for op in program.block(0).ops if op.type == "conditional_block")
    assert held.attrs == {"sub_block": program.block(1), "is_scalar_condition": True}
    assert others.attrs == {"sub_block": program.block(2), "is_scalar_condition": False}
    assert (out.shape, out.dtype, out.stop_gradient) == ((-1, 2), "float32", False)
    assert str(ga.Program.parse(str(program))) == str(program)


def test_a_batch_without_rows() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x, m = layers.data("x", [2], "float64"), layers.data("m", [1], "bool")
        x.stop_gradient = False
        rows = layers.IfElse(m)
        with rows.true_block():
            rows.output(rows.input(x) * 2.0)
        with rows.false_block():
            rows.output(layers.tanh(rows.input(x)))
        (out,) = rows()
        (gradient,) = ga.gradients(out, x)
    for n in (0, 3):
        feed = {"x": np.ones((n, 2)), "m": np.zeros((n, 1), "bool")}
        y, dx = ga.Executor().run(program, feed, [out, gradient], ga.Scope())
        np.testing.assert_array_equal(y, np.tanh(np.ones((n, 2))))
        np.testing.assert_allclose(dx, 1 - np.tanh(np.ones((n, 2))) ** 2)


def test_a_block_without_inputs_runs_if_there_is_a_row_for_it() -> None:
    def build(x: Any, m: Any) -> Any:
        rows = layers.IfElse(m)
        with rows.true_block():
            rows.output(rows.input(x))
        with rows.false_block():
            rows.output(layers.fill_any_like(layers.slice(x, axes=[0], starts=[0], ends=[2]), value=7.0))
        return rows()

    mask = np.array([[True], [False], [False], [True]])
    np.testing.assert_array_equal(ran(build, x=X, m=mask)[0], np.where(mask, X, 7))
    np.testing.assert_array_equal(ran(build, x=X, m=mask | True)[0], X)


def test_an_input_that_was_overwritten_is_split_again() -> None:
    def build(x: Any, m: Any) -> Any:
        value, rows = x * 1.0, layers.IfElse(m)
        with rows.true_block():
            rows.output(rows.input(value), rows.input(value))
        write("scale", value, {"scale": 10.0}, X=value)
        with rows.false_block():
            rows.output(rows.input(value), rows.input(value) * 2.0)
        return rows()

    mask = np.array([[True], [False], [False], [True]])
    first, second = ran(build, x=X, m=mask)
    np.testing.assert_array_equal(first, np.where(mask, X, X * 10))
    np.testing.assert_array_equal(second, np.where(mask, X, X * 20))
    types = [op.type for op in built(build, x=X, m=mask)[0].block(0).ops]
    assert types.count("split_lod_tensor") == 2


# -- Switch --------------------------------------------------------------------------------------


def rate(step: Any, default: bool) -> Any:
    """A learning rate by the step."""
    result = step * 0.0
    with layers.Switch() as switch:
        for limit, value in ((10.0, 1.0), (20.0, 0.5), (15.0, 9.0)):
            with switch.case(step < limit):
                write("fill_constant", result, {"shape": [1], "value": value})
        if default:
            with switch.default():
                write("scale", result, {"bias": 0.25}, X=result)
    return result


@pytest.mark.parametrize(("step", "default", "expected"), [(3, True, 1.0), (12, True, 0.5), (30, True, 0.25), (30, False, 0.0)])
def test_the_first_case_that_holds_runs(step: float, default: bool, expected: float) -> None:
    assert ran(lambda s: rate(s, default), s=np.array([step], "float32")) == expected


def test_switch_is_a_chain_of_conditional_blocks() -> None:
    def build(p: Any, q: Any, x: Any) -> Any:
        with layers.Switch() as switch:
            with switch.case(p):
                write("scale", x, {"scale": 2.0}, X=x)
            with switch.case(q):
                write("assign", x, X=layers.exp(x))
            with switch.default():
                pass

    program, _ = built(build, p=[True], q=[True], x=X)
    assert ops(program.block(0)) == [
        "logical_not(X=p) -> (Out=switch_0.tmp_0)",
        "conditional_block(Cond=p, Input=x) -> (Out=x, Scope=_generated_var_0)",
        "logical_not(X=q) -> (Out=switch_0.tmp_1)",
        "logical_and(X=switch_0.tmp_0, Y=q) -> (Out=switch_0.tmp_2)",
        "logical_and(X=switch_0.tmp_0, Y=switch_0.tmp_1) -> (Out=switch_0.tmp_3)",
        "conditional_block(Cond=switch_0.tmp_2, Input=x) -> (Out=x, Scope=_generated_var_1)",
        "conditional_block(Cond=switch_0.tmp_3) -> (Scope=_generated_var_2)",
    ]
    assert program.block(0).ops[1].attrs == {"sub_block": program.block(1), "is_scalar_condition": True}


def test_a_case_may_write_what_the_next_one_tests() -> None:
    def build(p: Any) -> Any:
        q = layers.logical_not(p)
        with layers.Switch() as switch:
            with switch.case(p):
                write("assign", p, X=q)
            with switch.case(q):
                write("assign", p, X=layers.logical_not(q))
        return p

    assert ran(build, p=True).tolist() is False
    assert ran(build, p=False).tolist() is False


def test_a_persistable_variable_is_written_in_the_scope() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        rate, p = program.global_block().create_var("rate", [1], "float32", persistable=True), layers.data("p", [], "bool", False)
        with layers.Switch() as switch, switch.case(p):
            write("fill_constant", rate, {"shape": [1], "value": 0.5})
    assert program.block(0).ops[-1].inputs == {"Cond": ["p"], "Input": ["rate"]}
    scope = ga.Scope()
    scope.set("rate", np.ones(1, "float32"))
    for p, expected in ((False, 1.0), (True, 0.5)):
        run(program, {"p": np.array(p)}, scope=scope)
        assert scope.get("rate") == expected


# -- what they refuse ----------------------------------------------------------------------------


def while_block(g: Given, build: Callable[[], Any]) -> None:
    with layers.While(g.p).block():
        build()


def if_else(g: Given, build: Callable[[Any], Any], otherwise: Callable[[Any], Any] | None = None) -> Any:
    rows = layers.IfElse(g.mask)
    with rows.true_block():
        build(rows)
    if otherwise is not None:
        with rows.false_block():
            otherwise(rows)
    return rows


def twice(g: Given) -> None:
    with g.main.appending():
        loop = layers.While(g.p)
        for _ in range(2):
            with loop.block():
                write("assign", g.p, X=g.p)


def cases(g: Given, *parts: Any) -> None:
    with layers.Switch() as switch:
        for part in parts:
            with switch.default() if part is None else switch.case(part):
                pass


REFUSED: list[Row] = [
    (lambda g: layers.While(3), T, r"layers.While: cond is 3; a boolean Variable of one element is expected"),
    (lambda g: layers.While(g.x), S, r"layers.While: cond is 'x', float32\[3\]; a boolean"),
    (lambda g: while_block(g, lambda: write("scale", g.x, X=g.x)), V, r"the block does not write the condition 'p', so .* never end"),
    (lambda g: while_block(g, g.main.create_block), V, r"block 2 was begun inside and is still open"),
    (twice, V, r"layers.While: the loop has its block already"),
    (lambda g: layers.IfElse(3), T, r"layers.IfElse: cond is 3; a boolean Variable of shape \[N, 1\] is expected"),
    (lambda g: layers.IfElse(g.x), S, r"cond is 'x', float32\[3\]; a boolean Variable of shape \[N, 1\]"),
    (lambda g: layers.IfElse(g.bits), S, r"bool\[5, 2, 3\]; a boolean Variable of shape \[N, 1\]"),
    (lambda g: if_else(g, lambda rows: rows.input(3)), T, r"layers.IfElse: input takes a Variable, not 3"),
    (lambda g: if_else(g, lambda rows: rows.output()), T, r"output takes one or several Variables, not nothing"),
    (lambda g: if_else(g, lambda rows: rows.output(g.x, 3)), T, r"output takes one or several Variables, not Variable x: float32\[3\], 3"),
    (lambda g: if_else(g, lambda rows: rows.input(g.batch)), V, r"Must set output inside block"),
    (lambda g: if_else(g, lambda rows: rows()), V, r"IfElse::__call__ must be out of sub-block"),
    (lambda g: if_else(g, lambda rows: rows.false_block().__enter__()), V, r"belong where the IfElse was made, not inside another block"),
    (
        lambda g: if_else(g, lambda rows: rows.output(rows.input(g.batch * 1.0 + rows.input(g.batch)))),
        V,
        r"reads 'elementwise_add_0.tmp_0'",
    ),
    (lambda g: if_else(g, lambda rows: layers.cond(g.p, lambda: rows.input(g.x), lambda: g.x)), V, r"input must in true/false blocks"),
    (lambda g: layers.IfElse(g.mask).input(g.x), V, r"layers.IfElse: input must in true/false blocks"),
    (lambda g: layers.IfElse(g.mask).output(g.x), V, r"layers.IfElse: output must in true/false blocks"),
    (lambda g: layers.IfElse(g.mask)(), V, r"Must invoke true_block/false_block before __call__"),
    (lambda g: layers.Switch().case(g.p), V, r"layers.Switch: case should be called inside with"),
    (lambda g: layers.Switch().default(), V, r"layers.Switch: default should be called inside with"),
    (lambda g: cases(g, g.p, 3), T, r"layers.Switch: the condition of a case is 3; a boolean Variable of one element"),
    (lambda g: cases(g, g.x), S, r"the condition of a case is 'x', float32\[3\]"),
    (lambda g: cases(g, None), V, r"there should be at least one condition"),
    (lambda g: cases(g, g.p, None, g.p), V, r"case comes after default, where no condition is left"),
    (lambda g: cases(g, g.p, None, None), V, r"default comes after default, where no condition is left"),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_what_makes_no_sense_is_refused(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


def test_both_sides_of_if_else_are_requested() -> None:
    given = Given()
    with ga.program_guard(given.main):
        rows = if_else(given, lambda rows: rows.output(rows.input(given.batch)))
        with pytest.raises(V, match="Must invoke true_block/false_block before __call__"):
            rows()
        with pytest.raises(V, match=r"layers.IfElse: true_block is written already"), rows.true_block():
            pass
        with pytest.raises(V, match="Must set output inside block"), rows.false_block():
            rows.input(given.batch)
        with rows.false_block():
            rows.output(given.batch, given.batch)
        with pytest.raises(V, match="The output side must be same: true_block has 1 outputs, false_block 2"):
            rows()


def test_the_rows_of_both_sides_must_fit() -> None:
    given = Given()
    with ga.program_guard(given.main):
        rows = if_else(given, lambda r: r.output(r.input(given.batch)), lambda r: r.output(r.input(given.seq)))
        before = given.texts()
        with pytest.raises(S, match=r"InTrue is float32\[-1, 4\] but InFalse is float32\[-1, 2, 3\]"):
            rows()
    assert given.texts() == before
