"""Elementwise operators fused into one: which, that it computes the same bits, and how it is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.execution import codegen, planning
from graphad.execution.compiled import FIRST
from graphad.execution.nodes import Group
from graphad.ops import REGISTRY, operator
from graphad.ops.inference import same_float
from graphad.ops.out_kernels import takes_required, writer
from graphad.passes.fusion import FuseElementwise
from graphad.testing import check_pass
from graphad.testing.samples import SAMPLES
from tests.scratch import operators

Array = NDArray[Any]
X = np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def program_of(text: str, *names: str) -> ga.Program:
    declared = " ".join(f"var {name}: float64[-1, 3]" for name in names)
    return ga.Program.parse(f"program {{ block 0 {{ {declared} {text} }} }}")


def fuse(program: ga.Program, targets: list[str] | None = None, **options: Any) -> ga.Program:
    graph = ga.lower(program, targets)
    FuseElementwise(**options).run(graph)
    return ga.schedule(graph)


def groups(program: ga.Program) -> list[list[str]]:
    """The types in each fused operator."""
    return [[o.type for o in op.attrs["sub_block"].ops] for b in program.blocks for op in b.ops if op.type == "fused_elementwise"]


def run(program: ga.Program, *fetch: str, **feeds: Array) -> list[Array]:
    return ga.Executor().run(program, feed=feeds, fetch_list=list(fetch))


def interpreted(program: ga.Program, *fetch: str, **feeds: Array) -> list[Array]:
    return ga.Executor(mode="interpreted").run(program, feed=feeds, fetch_list=list(fetch))


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Programs are compiled at their first run, and elementwise operators go by tiles of 5 elements; how many elements each group has."""
    for name, value in (("LARGE", 1), ("_LEAST", 5), ("_MOST", 5)):
        monkeypatch.setattr(planning, name, value)
    monkeypatch.setattr(planning, "pays", lambda group: True)  # on a few elements no group does
    sizes: list[int] = []

    def counted(group: Group) -> int:
        sizes.append(group.calls[0].results[0].example.size)
        return planning.tile_of(group)

    monkeypatch.setattr(codegen, "tile_of", counted)
    before = FIRST.set(1)
    yield sizes
    FIRST.reset(before)


# -- which ---------------------------------------------------------------------------------------

CHAIN = "scale(X=x) -> (Out=a) {scale=2.0} tanh(X=a) -> (Out=b) elementwise_mul(X=b, Y=y) -> (Out=c)"


def test_a_chain(in_pieces: list[int]) -> None:
    program = program_of(CHAIN, "x", "y", "a", "b", "c")
    after = fuse(program)
    assert groups(after) == [["scale", "tanh", "elementwise_mul"]]
    assert str(ga.Program.parse(str(after))) == str(after)
    np.testing.assert_array_equal(run(after, "c", x=X, y=X + 1)[0], interpreted(program, "c", x=X, y=X + 1)[0])
    assert in_pieces == [12]


def test_targets_and_what_others_read_come_out(in_pieces: list[int]) -> None:
    program = program_of("var m: float64[] " + CHAIN + " mean(X=b) -> (Out=m)", "x", "y", "a", "b", "c")
    after = fuse(program, ["a", "c", "m"])
    (op,) = (op for op in after.global_block().ops if op.type == "fused_elementwise")
    assert op.output("Out") == ["a", "b", "c"]
    for before, now in zip(interpreted(program, "a", "c", "m", x=X, y=X), run(after, "a", "c", "m", x=X, y=X), strict=True):
        np.testing.assert_array_equal(now, before)


def test_two_that_wait_for_each_other_by_way_of_another_are_not_one() -> None:
    text = "var m: float64[] tanh(X=x) -> (Out=a) mean(X=a) -> (Out=m) exp(X=a) -> (Out=b) elementwise_add(X=b, Y=m) -> (Out=c)"
    assert groups(fuse(program_of(text, "x", "a", "b", "c"))) == [["exp", "elementwise_add"]]


def test_other_shapes_and_roles_stay_outside() -> None:
    text = "var s: float64[] var t: float64[] exp(X=s) -> (Out=t) tanh(X=x) -> (Out=a) elementwise_add(X=a, Y=t) -> (Out=b)"
    assert groups(fuse(program_of(text, "x", "a", "b"))) == [["tanh", "elementwise_add"]]
    text = "var r: float64[3] var q: float64[3] exp(X=r) -> (Out=q) tanh(X=x) -> (Out=a) elementwise_add(X=a, Y=q) -> (Out=b)"
    assert groups(fuse(program_of(text, "x", "a", "b"))) == []
    text = "tanh(X=x) -> (Out=a) exp(X=a) -> (Out=b) backward"
    assert groups(fuse(program_of(text, "x", "a", "b"))) == []


def test_random_operators_and_strangers_stay_outside() -> None:
    text = "var mask: uint8[-1, 3] "
    text += "tanh(X=x) -> (Out=a) dropout(X=a) -> (Out=b, Mask=mask) {dropout_prob=0.5} my_own(X=b) -> (Out=c) exp(X=c) -> (Out=d)"
    assert groups(fuse(program_of(text, "x", "a", "b", "c", "d"))) == []


def test_options() -> None:
    program = program_of(CHAIN, "x", "y", "a", "b", "c")
    assert groups(fuse(program, least=4)) == []
    known = ga.Program.parse(str(program).replace("-1", "4"))
    assert groups(fuse(known, smallest=13)) == []
    assert len(groups(fuse(known, smallest=12))) == 1
    with pytest.raises(ValueError, match="least=1"):
        FuseElementwise(least=1)


def test_a_second_run_changes_nothing() -> None:
    graph = ga.lower(program_of(CHAIN, "x", "y", "a", "b", "c"))
    assert FuseElementwise().run(graph)
    assert not FuseElementwise().run(graph)


def test_a_name_written_twice(in_pieces: list[int]) -> None:
    text = "var m: float64[] tanh(X=x) -> (Out=a) mean(X=a) -> (Out=m) exp(X=a) -> (Out=a) scale(X=a) -> (Out=x) {scale=3.0}"
    program = program_of(text, "x", "a")
    after = fuse(program, ["m", "a", "x"])
    for before, now in zip(interpreted(program, "m", "a", "x", x=X), run(after, "m", "a", "x", x=X), strict=True):
        np.testing.assert_array_equal(now, before)


def test_in_loops_and_branches() -> None:
    text = """program { block 0 { var h: float64[8] var i: int64[1] var n: int64[1] var more: bool[1]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"} fill_constant() -> (Out=n) {shape=[1], value=20.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more) while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)} }
    block 1 in 0 { var a: float64[8] tanh(X=h) -> (Out=a) scale(X=a) -> (Out=h) {scale=1.5} increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more) } }"""
    program, h = ga.Program.parse(text), np.linspace(-1.0, 1.0, 8)
    after = fuse(program)
    assert groups(after) == [["tanh", "scale"]]
    np.testing.assert_array_equal(run(after, "h", h=h)[0], interpreted(program, "h", h=h)[0])


def test_many_operators_take_time_in_proportion() -> None:
    ops = " ".join(f"tanh(X=v{i}) -> (Out=v{i + 1})" for i in range(5000))
    program = program_of(ops, *(f"v{i}" for i in range(5001)))
    graph = ga.lower(program)
    assert FuseElementwise().run(graph)
    assert len(graph.ops) == 1


# -- how it is run -------------------------------------------------------------------------------


def test_shapes_that_turn_out_to_differ_stay_outside_of_the_pieces(in_pieces: list[int]) -> None:
    program = program_of(CHAIN, "x", "y", "a", "b", "c")
    after = fuse(program)
    np.testing.assert_array_equal(run(after, "c", x=X, y=X[:1])[0], interpreted(program, "c", x=X, y=X[:1])[0])
    assert in_pieces == [12]  # scale and tanh


@pytest.mark.parametrize("order", ["F", "strided"])
def test_arrays_that_do_not_lie_in_a_row(order: str, in_pieces: list[int]) -> None:
    program = program_of(CHAIN, "x", "y", "a", "b", "c")
    x = np.asfortranarray(X) if order == "F" else np.repeat(X, 2, axis=0)[::2]
    np.testing.assert_array_equal(run(fuse(program), "c", x=x, y=X)[0], interpreted(program, "c", x=x, y=X)[0])
    assert in_pieces == ([] if order == "F" else [12])  # what is computed of every second row is in a row


def test_no_elements(in_pieces: list[int]) -> None:
    program = program_of(CHAIN, "x", "y", "a", "b", "c")
    assert run(fuse(program), "c", x=X[:0], y=X[:0])[0].shape == (0, 3)


def test_a_block_that_is_not_elementwise_is_run_as_a_net(in_pieces: list[int]) -> None:
    text = """program { block 0 { var x: float64[4, 3] var y: float64[4, 3] fused_elementwise(X=x) -> (Out=y) {sub_block=block(1)} }
    block 1 in 0 { softmax(X=x) -> (Out=y) } }"""
    np.testing.assert_allclose(run(ga.Program.parse(text), "y", x=X)[0].sum(axis=1), 1.0)
    assert in_pieces == []


def test_several_dtypes_and_a_number(in_pieces: list[int]) -> None:
    text = """var s: float32[1] var p: bool[-1, 3] var q: float32[-1, 3] var r: float32[-1, 3]
    greater_than(X=x, Y=y) -> (Out=p) cast(X=p) -> (Out=q) {out_dtype="float32"} elementwise_mul(X=q, Y=s) -> (Out=r)"""
    program, number = program_of(text, "x", "y"), np.array([3.0], "float32")
    after = fuse(program)
    assert len(groups(after)) == 1
    np.testing.assert_array_equal(run(after, "r", x=X, y=-X, s=number)[0], interpreted(program, "r", x=X, y=-X, s=number)[0])
    assert in_pieces == [12]


@pytest.mark.parametrize("type", sorted(type for type, definition in REGISTRY.items() if definition.elementwise))
def test_every_operator_gives_the_bits_of_its_kernel_in_pieces(type: str) -> None:
    """On pieces of every length up to 40: whether an element is in a full vector of the processor or not makes no difference."""
    definition = REGISTRY[type]
    for sample in SAMPLES[type]:
        arrays = [a for given in sample.slots().values() for a in given]
        if not takes_required(definition, sample.inputs) or len({a.shape for a in arrays}) != 1 or arrays[0].size in (0, 1):
            continue
        slots = {s: [np.resize(a, 1000) for a in given] for s, given in sample.slots().items()}
        attrs = {name: value for name, value in sample.attrs.items() if name != "axis"}
        ((whole,),) = definition.run(slots, attrs, [*definition.outputs]).values()
        write = writer(definition, attrs, [a.dtype for given in slots.values() for a in given], whole.dtype)
        if write is None:
            continue
        out, length = np.empty_like(whole), 1
        start = 0
        while start < 1000:
            piece = [a[start : start + length] for given in slots.values() for a in given]
            write(piece, out[start : start + length])
            start, length = start + length, length % 40 + 1
        np.testing.assert_array_equal(out, whole)


def test_an_operator_of_another_package_that_says_so_is_fused_and_one_that_does_not_is_left(in_pieces: list[int]) -> None:
    text = "var a: float64[-1, 3] var b: float64[-1, 3] halved(X=x) -> (Out=a) tanh(X=a) -> (Out=b)"
    program = program_of(text, "x")
    for says, expected in ((True, [["halved", "tanh"]]), (False, [])):
        with operators():
            operator("X -> Out", name="halved", infer=same_float, grad=None, elementwise=says)(lambda X: X / 2.0)
            after = fuse(program)
            assert groups(after) == expected
            np.testing.assert_array_equal(run(after, "b", x=X)[0], np.tanh(X / 2.0))
    assert in_pieces == [12, 12]  # what the kernel does is elementwise, also where the definition does not say so


# -- gradients and random programs ---------------------------------------------------------------


def test_it_has_a_gradient() -> None:
    text = "var loss: float64[] " + CHAIN + " mean(X=c) -> (Out=loss)"
    program = program_of(text, "x", "y", "a", "b", "c")
    results = []
    for each in (program, fuse(program)):
        block = each.global_block()
        found = ga.gradients([block.var("loss")], [block.var("x"), block.var("y")])
        results.append(run(each, *(g.name for g in found if g is not None), x=X, y=X))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


def test_on_random_programs() -> None:
    assert check_pass(FuseElementwise(), examples=60).changed > 10
