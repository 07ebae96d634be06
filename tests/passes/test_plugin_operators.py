"""Operators that no pass knows by name take part in what passes do, by what their definitions promise; without the promise they do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ir import Graph
from graphad.ops import lookup, operator
from graphad.ops.dimensions import matrix_product
from graphad.ops.inference import same, same_float
from graphad.ops.traits import FUNCTION, DimensionsRule
from graphad.passes.analyses.batch_dependence import MEAN, MIXED, ROWS, WHOLE, BatchDependence
from graphad.passes.analyses.cost import flops_of
from graphad.passes.differentiation import Jvp
from graphad.rewriting import Pipeline
from graphad.types import Function, TensorType
from tests.graphs import types
from tests.scratch import operators

CUTS = {"x": '["-", "model"]', "y": '["model", "-"]'}  # columns of x, rows of y


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with operators():
        yield


def define(name: str, kernel: Function, signature: str = "X -> Out", **options: Any) -> None:
    operator(signature, name=name, **{"infer": same, "grad": {}, **options})(kernel)


def after(pipeline: str, text: str) -> Graph:
    graph = ga.lower(ga.Program.parse(f"program {{ block 0 {{ {text} }} }}"))
    Pipeline.parse(pipeline).run(graph)
    return graph


def test_elementwise_operators_are_fused() -> None:
    for name, is_said in (("twice", False), ("twice_said", True)):
        promise: dict[str, Any] = {**FUNCTION} if is_said else {}
        define(name, lambda X: X * 2.0, infer=same_float, **promise)
        graph = after(
            "fuse-elementwise", f"var x: float64[4] var a: float64[4] var b: float64[4] tanh(X=x) -> (Out=a) {name}(X=a) -> (Out=b)"
        )
        assert (name not in types(graph)) is is_said


def test_commutative_operators_are_equal_either_way() -> None:
    for name, is_commutative in (("blend", False), ("blend_said", True)):
        define(name, lambda X, Y: X * Y, "X Y -> Out", infer=lambda X, Y: X, commutative=is_commutative)
        calls = f"{name}(X=x, Y=y) -> (Out=a) {name}(X=y, Y=x) -> (Out=b) sum(X=[a, b]) -> (Out=c)"
        graph = after("cse", f"var x: float64[4] var y: float64[4] var a: float64[4] var b: float64[4] {calls}")
        assert types(graph).count(name) == (1 if is_commutative else 2)


def test_uniform_operators_of_large_constants_are_folded() -> None:
    for name, is_uniform in (("lift", False), ("lift_said", True)):
        define(name, lambda X: X + 1.0, infer=same_float, uniform=is_uniform, **FUNCTION)
        call = f"fill_constant() -> (Out=x) {{shape=[2000000], value=2.0, dtype='float32'}} {name}(X=x) -> (Out=y)".replace("'", '"')
        graph = after("constant-folding", f"var x: float32[2000000] {call}")
        assert (name not in types(graph)) is is_uniform


def test_memory_of_its_own_is_written_in_place() -> None:
    for name, is_own in (("cover", False), ("cover_said", True)):
        define(name, lambda X: X, own=is_own)
        graph = after("in-place", f"var x: float64[4] var a: float64[4] var b: float64[4] {name}(X=x) -> (Out=a) relu(X=a) -> (Out=b)")
        assert any("inplace" in op.attrs for op in graph.ops) is is_own


def test_sums_of_more_than_one_operand_are_fresh() -> None:
    """An operator that adds up what is there, as ``sum`` does, gives a single operand as it is."""
    define("total", lambda X: sum(X), "X* -> Out", infer=lambda X: X[0], linear="X", passed_on="X", partial=True)
    for operands, is_fresh in (("[x, x]", True), ("[x]", False)):
        graph = after(
            "in-place", f"var x: float64[4] var a: float64[4] var b: float64[4] total(X={operands}) -> (Out=a) relu(X=a) -> (Out=b)"
        )
        assert any("inplace" in op.attrs for op in graph.ops) is is_fresh


@pytest.mark.parametrize(("narrow", "alone", "after_a_product"), [("", 64, 64), ("follows", 64, 32), ("gains", 32, 32)])
def test_what_may_be_narrow_is(narrow: str, alone: int, after_a_product: int) -> None:
    define("product", lambda X: X * X, infer=same_float, narrow=narrow)
    for text, bits in (("", alone), ("matmul(X=x, Y=x) -> (Out=x)", after_a_product)):
        graph = after('mixed-precision{dtype="float32"}', f"var x: float64[4, 4] {text} product(X=x) -> (Out=y)")
        (op,) = (op for op in graph.ops if op.type == "product")
        assert op.input("X").dtype == f"float{bits}"


def test_operations_are_counted() -> None:
    define("busy", lambda X: X, flops=7)
    (op,) = ga.lower(ga.Program.parse("program { block 0 { var x: float64[10] busy(X=x) -> (Out=y) } }")).ops
    assert flops_of(op, lambda value: value.shape or ()) == 70


def test_an_added_number_does_not_move() -> None:
    """The tangent has the number 0 in the place of a default that is another one."""
    one = {"X": lambda dOut: dOut}
    define("shift", lambda X, *, by=2.0: X + by, infer=lambda X, by=2.0: X, grad=one, linear="X", offset="by", passed_on="X")
    two = {"X": lambda dOut: dOut * 2.0}
    define("stretch", lambda X, *, by=2.0: 2.0 * X + by, infer=lambda X, by=2.0: X, grad=two, linear="X", offset="by")
    for name, slope in (("shift", 1.0), ("stretch", 2.0)):
        program = ga.Program.parse(f"program {{ block 0 {{ var x: float64[3] var y: float64[3] {name}(X=x) -> (Out=y) }} }}")
        graph = ga.lower(program)
        Jvp(("y",), ("x",)).run(graph)
        values = ga.Executor().run(ga.schedule(graph), feed={"x": np.array([0.5, -1.0, 2.0])}, fetch_list=["y@TANGENT"])
        np.testing.assert_array_equal(values[0], np.full(3, slope))


@pytest.mark.parametrize("said", [False, True])
def test_a_copy_is_seen_through(said: bool) -> None:
    """Of a branch that copies a value in two ways, once by an operator of another package, the result is that value."""
    promise: dict[str, Any] = {"linear": "X", "passed_on": "X", **FUNCTION} if said else {}
    define("same_as", lambda X: X, grad={"X": lambda dOut: dOut}, **promise)
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [4], dtype="float64", append_batch_size=False)
        chosen = ga.layers.data("chosen", [1], dtype="bool", append_batch_size=False)
        ga.layers.cond(chosen, lambda: lookup("same_as")(x), lambda: ga.layers.assign(x))
    graph = ga.lower(program)
    Pipeline.parse("fold-branches, dead-code").run(graph)
    assert ("if_else" not in types(graph)) is said


def facts_of(text: str) -> dict[str, str]:
    """How the values of a program depend on the batch x."""
    graph = ga.lower(ga.Program.parse(f"program {{ block 0 {{ var x: float64[4, 3] {text} }} }}"))
    facts = BatchDependence(frozenset({graph.given("x")})).solve(graph)
    return {value.name: facts[value] for op in graph.ops for value in op.writes()}


@pytest.mark.parametrize("said", ["", "X"])
def test_the_mean_of_what_is_linear_in_one_operand_alone_is_of_the_mean(said: str) -> None:
    define("over", lambda X, Y: X / (1.0 + Y * Y), "X Y -> Out", infer=lambda X, Y: X, partly_linear=said)
    calls = "reduce_mean(X=x) -> (Out=m) {dim=[0]} fill_constant() -> (Out=w) {shape=[3], value=2.0} over(X=m, Y=w) -> (Out=a)"
    facts = facts_of(f"{calls} over(X=w, Y=m) -> (Out=b) over(X=m, Y=m) -> (Out=c)")
    # Only the first slot is linear, and only while the second one stays.
    assert [facts[name] for name in "mabc"] == [MEAN, MEAN if said else MIXED, MIXED, MIXED]


def test_rows_are_apart_where_the_attributes_say_so() -> None:
    def centered(X: Any, Mean: Any, *, fixed: bool = False) -> Any:
        mean = Mean if fixed else X.mean(0)
        return X - mean, mean

    promise: dict[str, Any] = {"rows": "X", "apart": lambda attrs: attrs["fixed"], "statistics": "MeanOut"}
    define("centered", centered, "X Mean -> Y MeanOut", infer=lambda X, Mean, fixed=False: (X, Mean), **promise)
    start = "fill_constant() -> (Out=m) {shape=[3], value=2.0} centered(X=x, Mean=m) -> (Y=y, MeanOut=n)"
    assert [facts_of(start)[name] for name in "yn"] == [MIXED, MIXED]
    assert [facts_of(f"{start} {{fixed=true}}")[name] for name in "yn"] == [ROWS, WHOLE]


def test_what_converts_is_a_cast_for_mixed_precision() -> None:
    """A product reads the narrow value that was widened, not one that is cast back."""
    grad = {"X": lambda X, dOut: lookup("cast")(dOut, out_dtype=X.dtype.name)}
    for name, said in (("widen", ""), ("widen_said", "to")):
        promise: dict[str, Any] = {"converts": said} if said else {}
        define(name, lambda X, *, to="": X.astype(to), infer=lambda X, to="": TensorType(X.shape, to), grad=grad, linear="X", **promise)
        declared = "var h: float16[4, 4] var x: float32[4, 4] var y: float32[4, 4]"
        text = f'{declared} {name}(X=h) -> (Out=x) {{to="float32"}} matmul(X=x, Y=x) -> (Out=y)'
        graph = after('mixed-precision{dtype="float16"}', text)
        (product,) = (op for op in graph.ops if op.type == "matmul")
        assert (product.input("X").name == "h") is bool(said)


@pytest.mark.parametrize("said", [None, matrix_product])
def test_a_product_is_cut_along_the_dimensions_that_it_says(said: DimensionsRule | None) -> None:
    """Both operands are cut along what is summed over: each rank has a part of the sum, unless the product needs them whole."""
    define("matrices", np.matmul, "X Y -> Out", infer=lambda X, Y: TensorType((X.shape[0], Y.shape[1]), X.dtype), dimensions=said)
    declared = "var x: float64[4, 6] var y: float64[6, 2] var z: float64[4, 2]"
    cuts = " ".join(f'shard_tensor(X={name}) -> (Out={name}) {{mesh="model=2", spec={spec}}}' for name, spec in CUTS.items())
    graph = after('partition{mesh="model=2"}', f"{declared} {cuts} matrices(X=x, Y=y) -> (Out=z)")
    assert ("c_allreduce_sum" in types(graph), "c_allgather" in types(graph)) == (said is not None, said is None)
