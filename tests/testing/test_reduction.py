"""Programs made smaller while they stay bad, and the rewrite that makes results differ."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphad as ga
from graphad.ir.verify import verify
from graphad.rewriting import Pipeline
from graphad.testing import Case, bisect, nested_programs, optimizable_programs, reduce_program, training_programs
from graphad.testing.cases import fitted, random_case
from graphad.testing.equivalence import observe
from tests.nested_programs import add, constant, count_to, if_else, nested, net
from tests.scratch import Swap
from tests.testing.wrong_passes import IgnoresAliasing, IsNotIdempotent, RewritesOneByOne, Stumbles, SwapsSubtraction

many = settings(max_examples=max(15, settings().max_examples // 10), suppress_health_check=list(HealthCheck))


def types(program: ga.Program) -> list[str]:
    return [op.type for block in program.blocks for op in block.ops]


def test_blocks_are_inlined_and_dropped() -> None:
    body = net(add("y", "x", "y")), if_else("b", [add("y", "y", "y")])
    program = nested(constant("y", 0), *count_to("n", *body), x=[1], n=([1], "int64"), b=([1], "bool"))
    small = reduce_program(program, lambda p: "elementwise_add" in types(p))
    assert types(small) == ["elementwise_add"]
    assert len(small.blocks) == 1


def test_operators_are_bypassed() -> None:
    rows = "tanh(X=x) -> (Out=y) sin(X=y) -> (Out=z) exp(X=z) -> (Out=o)"
    program = ga.Program.parse(
        "program { block 0 { var x: float64[3] var y: float64[3] var z: float64[3] var o: float64[3] " + rows + " } }"
    )

    def is_bad(smaller: ga.Program) -> bool:
        written = {name for op in smaller.global_block().ops for name in op.output_names()}
        return "tanh" in types(smaller) and any(op.type == "exp" and op.input("X")[0] in written for op in smaller.global_block().ops)

    assert types(reduce_program(program, is_bad)) == ["tanh", "exp"]


def test_what_needs_a_loop_keeps_it() -> None:
    program = nested(constant("y", 0), *count_to("n", add("y", "x", "y"), add("z", "y", "z")), x=[1], z=[1], n=([1], "int64"))
    small = reduce_program(program, lambda p: any(op.type == "elementwise_add" for block in p.blocks[1:] for op in block.ops))
    assert types(small) == ["while", "elementwise_add"]


def test_extents_and_constants_become_small() -> None:
    rows = 'fill_constant() -> (Out=k) {shape=[5, 7], value=64.0, dtype="float64"} elementwise_mul(X=x, Y=k) -> (Out=y)'
    program = ga.Program.parse("program { block 0 { var x: float64[5, 7] var k: float64[5, 7] var y: float64[5, 7] " + rows + " } }")

    def bad(p: ga.Program) -> bool:
        return types(p) == ["fill_constant", "elementwise_mul"] and p.global_block().ops[0].attrs.get("value", 0.0) > 3

    small = reduce_program(program, bad)
    assert small.global_block().var("x").shape == (1, 1)
    assert small.global_block().ops[0].attrs["value"] == 4.0


def test_arrays_without_axes_still_fit() -> None:
    rows = 'fill_constant(ValueTensor=v) -> (Out=k) {shape=[3], dtype="float64"} tanh(X=k) -> (Out=t) sin(X=k) -> (Out=y)'
    program = ga.Program.parse("program { block 0 { var v: float64[] persistable " + rows + " } }")
    case = random_case(program)

    def bad(p: ga.Program) -> bool:
        return "sin" in types(p) and bool(observe(p, fitted(case, p), ["y"]).values["y"].size)

    assert types(reduce_program(program, bad)) == ["sin"]
    assert fitted(case, program).params["v"].shape == ()


def test_operators_keep_their_lines() -> None:
    program = nested(constant("y", 0), add("z", "x", "y"), x=[1], z=[1])
    (kept,) = reduce_program(program, lambda p: "elementwise_add" in types(p)).global_block().ops
    assert kept.source == program.global_block().ops[-1].source is not None


@many
@given(st.one_of(optimizable_programs(), nested_programs(), training_programs()))
def test_what_is_left_is_a_program_that_is_bad(case: Case) -> None:
    """Every program that ``is_bad`` sees is a valid one; the result is one that it found bad."""
    wanted = sorted(types(case.program))[len(types(case.program)) // 2]

    def bad(program: ga.Program) -> bool:
        verify(ga.lower(program))
        return wanted in types(program)

    text = str(case.program)
    small = reduce_program(case.program, bad, tries=60)
    assert str(case.program) == text
    assert bad(small)
    assert str(ga.Program.parse(str(small))) == str(small)


@many
@given(optimizable_programs())
def test_a_reduced_program_runs_if_it_is_asked_to(case: Case) -> None:
    def bad(program: ga.Program) -> bool:
        smaller = fitted(case, program)
        try:
            return bool(observe(program, smaller, smaller.targets).values)
        except ga.errors.GraphadError:
            return False

    assert len(types(reduce_program(case.program, bad, tries=150))) == 1


# -- the rewrite ---------------------------------------------------------------------------------


def subtractions(*operands: tuple[str, str]) -> Case:
    variables = "".join(f"var {name}: float64[2] " for name in ("a", "b", *(f"y{i}" for i in range(len(operands)))))
    rows = "".join(f"elementwise_sub(X={x}, Y={y}) -> (Out=y{i}) " for i, (x, y) in enumerate(operands))
    return random_case(ga.Program.parse("program { block 0 { " + variables + rows + "} }"))


def test_bisect_takes_a_program_and_says_what_else_it_takes() -> None:
    program = subtractions(("b", "a")).program
    found = bisect(program, SwapsSubtraction())
    assert found is not None
    assert found.pass_text == "wrong-swaps-subtraction"
    with pytest.raises(TypeError, match=r"a Program or a Case, then a Pass or its text, not SwapsSubtraction\(\) and <Program"):
        bisect(SwapsSubtraction(), program)  # type: ignore[arg-type]


def test_the_pass_is_named() -> None:
    found = bisect(subtractions(("b", "a")), Pipeline(Swap("sin", "cos"), SwapsSubtraction(), Swap("sub", "add")))
    assert found is not None
    assert (found.number, found.total, found.pass_text) == (1, 1, "wrong-swaps-subtraction")
    assert found.difference.startswith("y0: at [0]: ")
    assert "\n    before: [" in found.difference


@pytest.mark.parametrize("wrong", range(6))
def test_the_rewrite_is_named(wrong: int) -> None:
    case = subtractions(*(("b", "a") if i == wrong else ("a", "a") for i in range(6)))
    found = bisect(case, RewritesOneByOne())
    assert found is not None
    assert (found.number, found.total) == (wrong + 1, 6)
    assert f"rule swap\n  of elementwise_sub -> y{wrong}" in str(found)


def test_a_pipeline_that_fails_is_bisected_too() -> None:
    case = random_case(ga.Program.parse("program { block 0 { fill_constant() -> (Out=y) {shape=[1], value=1.0} } }"))
    found = bisect(case, Pipeline(Stumbles()))
    assert found is not None
    assert "KeyError" in found.difference


def test_nothing_is_named_where_nothing_is_wrong() -> None:
    assert bisect(subtractions(("b", "a")), Pipeline(IgnoresAliasing(), IsNotIdempotent())) is None
