"""Annotated programs on the ranks of a mesh: the same losses and parameters as one process, and the collectives of closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.distribution import LocalGroup, ProcessMesh, declared_parts, split_arrays, whole_state
from graphad.drawing import to_svg
from graphad.drawing.folding import Folding
from graphad.drawing.options import Options
from graphad.drawing.overlays import Overlay, overlay_of
from graphad.errors import ExecutionError, InvalidGraph, InvalidValue, Refused
from graphad.passes import Partition, Shard
from graphad.passes.analyses import Sharding
from graphad.testing import Case, check_case, check_pass
from graphad.testing.programs import case_with_gradients
from graphad.testing.trial import BACKWARD
from graphad.types import Array
from tests.distribution.ranks import parsed
from tests.distribution.test_data_parallel import network

STEPS = 20
Network = tuple[ga.Program, ga.Program, ga.Variable]
Feed = Mapping[str, Array]


def built(loss: Callable[[], ga.Variable], optimizer: Callable[[], object] = lambda: ga.optimizer.Adam(0.01)) -> Network:
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup):
        value = loss()
        optimizer().minimize(value)  # type: ignore[attr-defined]
    return main, startup, value


def given(name: str, *shape: int, dtype: str = "float32") -> ga.Variable:
    return L.data(name, shape=list(shape), append_batch_size=False, dtype=dtype)


# -- networks ------------------------------------------------------------------------------------

LAYERS, BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 4, 6, 8, 4, 12


def transformer() -> ga.Variable:
    h = L.embedding(L.unsqueeze(given("ids", BATCH, LENGTH, dtype="int64"), axes=[2]), size=[WORDS, WIDTH])
    for i in range(LAYERS):
        normal = L.layer_norm(h, begin_norm_axis=2)
        q, k, v = (_heads(L.fc(normal, size=WIDTH, num_flatten_dims=2, bias_attr=False, name=f"{each}{i}")) for each in "qkv")
        weights = L.softmax(L.scale(L.matmul(q, k, transpose_y=True), scale=(WIDTH // HEADS) ** -0.5))
        mixed = L.reshape(L.transpose(L.matmul(weights, v), perm=[0, 2, 1, 3]), shape=[0, 0, WIDTH])
        h = h + L.fc(mixed, size=WIDTH, num_flatten_dims=2, bias_attr=False, name=f"o{i}")
        up = L.fc(L.layer_norm(h, begin_norm_axis=2), size=2 * WIDTH, num_flatten_dims=2, act="gelu", name=f"up{i}")
        h = h + L.dropout(L.fc(up, size=WIDTH, num_flatten_dims=2, name=f"down{i}"), 0.1)
    logits = L.fc(h, size=WORDS, num_flatten_dims=2, name="head")
    return L.mean(L.softmax_with_cross_entropy(logits, given("y", BATCH, LENGTH, 1, dtype="int64")))


def _heads(x: ga.Variable) -> ga.Variable:
    return L.transpose(L.reshape(x, shape=[0, 0, HEADS, WIDTH // HEADS]), perm=[0, 2, 1, 3])


MEGATRON = ("[qkv]?.w_0: - model", "o?.w_0: model -", "up?.w_0: - model", "down?.w_0: model -")


def convolutions() -> ga.Variable:
    h = L.pool2d(L.conv2d(given("x", 6, 1, 8, 8), 6, 3, padding=1, act="relu"), 2, pool_stride=2)
    h = L.pool2d(L.conv2d(h, 8, 3, padding=1, act="relu"), 2, pool_stride=2)
    return L.mean(L.softmax_with_cross_entropy(L.fc(h, size=4), given("y", 6, 1, dtype="int64")))


def looping() -> ga.Variable:
    h = L.fc(given("x", 6, 4), size=8, act="tanh")
    i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
    w = L.create_parameter([8, 8], "float32", name="w")
    _, h = L.while_loop(lambda i, h: i < n, lambda i, h: [i + 1, L.tanh(L.mul(h, w)) * 0.9], [i, h])
    h = L.cond(L.reduce_sum(h) > 0.0, lambda: h * 2.0, lambda: L.matmul(h, w))
    return L.mean(L.square(h - given("y", 6, 8)))


def feeds(name: str) -> list[Feed]:
    rng = np.random.default_rng(0)

    def one() -> Feed:
        if name == "transformer":
            return {"ids": rng.integers(0, WORDS, (BATCH, LENGTH)), "y": rng.integers(0, WORDS, (BATCH, LENGTH, 1))}
        if name == "convolutions":
            return {"x": rng.normal(size=(6, 1, 8, 8)).astype("float32"), "y": rng.integers(0, 4, (6, 1))}
        if name == "looping":
            return {"x": rng.normal(size=(6, 4)).astype("float32"), "y": rng.normal(size=(6, 8)).astype("float32")}
        return {"x": rng.normal(size=(10, 6)).astype("float32"), "y": rng.integers(0, 3, (10, 1))}

    return [one() for _ in range(STEPS)]


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "classifier": lambda: network(rows=10),
    "transformer": lambda: built(transformer),
    "convolutions": lambda: built(convolutions),
    "looping": lambda: built(looping, lambda: ga.optimizer.SGD(0.1)),
}


@cache
def alone(name: str) -> tuple[list[float], dict[str, Array], dict[str, Array]]:
    """The losses of one process, what it begins with, and what it has at the end."""
    main, startup, loss = NETWORKS[name]()
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    start = {each: scope.get(each).copy() for each in scope.names()}
    losses = [float(executor.run(main, feed, [loss], scope)[0]) for feed in feeds(name)]
    return losses, start, {each: scope.get(each) for each in scope.names()}


def partitioned(made: Network, mesh: str, spec: Sequence[str]) -> ga.Program:
    graph = ga.lower(made[0], [made[2].name])
    (Shard(mesh, tuple(spec)) | Partition()).run(graph)
    return ga.schedule(graph)


def together(name: str, mesh: str, spec: Sequence[str]) -> tuple[list[list[float]], dict[str, Array], LocalGroup]:
    """The losses of the ranks, what they have at the end as one process would, and the group."""
    made, size = NETWORKS[name](), ProcessMesh.parse(mesh).size
    program, group = partitioned(made, mesh, spec), LocalGroup(size)
    group.run(made[1])
    begin(group, program, alone(name)[1])
    fed = [split_arrays(program, feed, size) for feed in feeds(name)]
    losses = [[float(result[0]) for result in group.run(program, each, [made[2].name])] for each in fed]
    return losses, whole_state(program, group.scopes), group


def begin(group: LocalGroup, program: ga.Program, start: Mapping[str, Array]) -> None:
    """Give each rank its parts of what one process begins with."""
    for scope, parts in zip(group.scopes, split_arrays(program, start, group.size), strict=True):
        for name, array in parts.items():
            scope.set(name, np.asarray(array))


CASES = [
    *(("classifier", f"data={n}", ("x: data -",)) for n in (2, 3, 4, 8)),
    *(("classifier", f"model={n}", ("fc_0.w_0: - model", "fc_1.w_0: model -")) for n in (2, 3, 4, 8)),
    ("classifier", "data=2", ("x: data -", "*.w_0: data -")),  # weights in parts: ZeRO 3
    ("classifier", "data=2,model=2", ("x: data+model -", "fc_*.w_0: data model")),
    ("transformer", "data=2,model=2", ("ids: data -", *MEGATRON)),
    ("transformer", "model=3", MEGATRON),
    ("transformer", "data=2,model=4", ("ids: data -", *MEGATRON, "head.w_0: - model")),
    ("convolutions", "data=4", ("x: data - - -",)),
    ("convolutions", "data=2,model=2", ("x: data - - -", "conv2d_0.w_0: model - - -")),
    ("convolutions", "model=2", ("conv2d_0.w_0: model - - -", "conv2d_1.w_0: - model - -")),
    ("looping", "data=4", ("x: data -",)),
    ("looping", "data=2,model=2", ("x: data -", "w: model -")),
    ("looping", "model=3", ("fc_0.w_0: - model", "w: model -")),
]
QUICK = {1, 6, 8, 10, 13, 17}


@pytest.mark.parametrize(
    ("name", "mesh", "spec"), [pytest.param(*case, marks=() if i in QUICK else pytest.mark.long) for i, case in enumerate(CASES)]
)
def test_losses_and_parameters_are_those_of_one_process(name: str, mesh: str, spec: Sequence[str]) -> None:
    """20 steps; 10 rows on 3, 4 and 8 ranks, 16 columns on 3, and heads on 3 are parts of different sizes."""
    losses, _, end = alone(name)
    found, state, _ = together(name, mesh, spec)
    for expected, ranks in zip(losses, found, strict=True):
        assert ranks == pytest.approx([expected] * len(ranks), abs=1e-6)
    for each, array in end.items():
        np.testing.assert_allclose(state[each], array, rtol=0, atol=1e-6, err_msg=each)


# -- collectives ---------------------------------------------------------------------------------


def collectives(program: ga.Program) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in program.global_block().ops:
        if op.type.startswith("c_") and op.type != "c_clear_padding":
            found[op.type] = found.get(op.type, 0) + 1
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_transformer_in_tensor_parallel_sends_what_megatron_says(ranks: int) -> None:
    """Four all-reduces of [batch, length, width] a layer: two forward, two backward (Shoeybi et al. 2019, section 3)."""
    made = NETWORKS["transformer"]()
    program = partitioned(made, f"model={ranks}", MEGATRON)
    assert collectives(program) == {"c_allreduce_sum": 4 * LAYERS}
    group = LocalGroup(ranks)
    group.run(made[1])
    begin(group, program, alone("transformer")[1])
    group.run(program, split_arrays(program, feeds("transformer")[0], ranks), [made[2].name])
    assert group.traffic[0].bytes() == {"c_allreduce_sum": 4 * LAYERS * BATCH * LENGTH * WIDTH * 4}


def test_data_parallel_sends_the_gradients_and_the_loss() -> None:
    """One all-reduce for each parameter, and one for the loss."""
    assert collectives(partitioned(NETWORKS["classifier"](), "data=2", ("x: data -",))) == {"c_allreduce_sum": 7}


def test_the_second_matrix_of_a_pair_is_cut_by_rows() -> None:
    """One all-reduce forward; backward none, since nothing before the first matrix needs a gradient."""
    program = partitioned(NETWORKS["classifier"](), "model=2", ("fc_0.w_0: - model", "fc_1.w_0: model -"))
    assert collectives(program) == {"c_allreduce_sum": 1}
    assert {name for name in declared_parts(program) if "fc_0.w_0" in name} == {
        f"fc_0.w_0{end}" for end in ("", "_moment1_0", "_moment2_0")
    }


PRODUCT = "var x: float32[8, 6] var w: float32[6, 4] var h: float32[8, 4] mul(X=x, Y=w) -> (Out=h)"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (("x: r -",), ["mul", "c_allgather"]),  # the result is requested: whole
        (("x: - r", "w: r -"), ["mul", "c_allreduce_sum"]),
        (("x: - r",), ["mul", "c_allreduce_sum"]),  # w follows
        (("x: r -", "h: - r"), ["mul", "c_allgather", "c_split"]),
        (("w: - r", "h: r -"), ["c_split", "c_allgather", "mul", "c_allgather"]),
    ],
)
def test_one_product(spec: tuple[str, ...], expected: list[str]) -> None:
    graph = ga.lower(parsed(PRODUCT))
    Partition("r=2", spec).run(graph)
    types = [op.type for op in graph.ordered_ops() if op.type != "shard_tensor"]
    if len(spec) == 2 and spec[1].startswith("h"):
        assert types.count("mul") == 1
    else:
        assert types == expected
    program = ga.schedule(graph)
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(8, 6)).astype("float32"), "w": rng.normal(size=(6, 4)).astype("float32")}
    for (h,) in LocalGroup(2).run(program, split_arrays(program, feed, 2), ["h"]):
        np.testing.assert_allclose(h, feed["x"] @ feed["w"], rtol=1e-5, atol=1e-6)


# -- propagation ---------------------------------------------------------------------------------


def test_facts_go_into_loops_and_branches_and_out_again() -> None:
    graph = ga.lower(NETWORKS["looping"]()[0])
    Shard("data=2,model=2", ("x: data -", "w: - model")).run(graph)
    sharding = Sharding.of(graph)
    loop = next(op for op in graph.controls if op.type == "while")
    (body,) = loop.graphs.values()
    h = next(value for value in body.inputs if value.shape == (6, 8))
    assert sharding[h] == (("data",), ("model",))
    assert sharding[next(value for value in loop.writes() if value.shape == (6, 8))] == (("data",), ("model",))
    assert "while sub_block:" in str(sharding)
    branch = next(op for op in graph.controls if op.type == "if_else")
    assert all(sharding[value] == (("data",), ("model",)) for nested in branch.graphs.values() for value in nested.results)


def test_open_dimensions_are_filled_and_closed_ones_stay() -> None:
    graph = ga.lower(parsed(PRODUCT))
    Shard("a=2,b=2", ("h: a b", "x: ? -", "w: - -")).run(graph)
    sharding = Sharding.of(graph)
    assert sharding[graph.value("x")] == (("a",), ())
    assert sharding[graph.value("w")] == ((), ())


def test_what_persists_lies_as_before_after_a_step() -> None:
    main = NETWORKS["classifier"]()[0]
    graph = ga.lower(main)
    Shard("r=2", ("fc_0.w_0: - r",)).run(graph)
    sharding = Sharding.of(graph)
    for name in ("fc_0.w_0", "fc_0.w_0_moment1_0"):
        first, *_, last = graph.versions(name)
        assert sharding[first] == sharding[last] == ((), ("r",))


# -- drawings ------------------------------------------------------------------------------------


def test_drawings_show_who_shares_what_and_what_is_sent() -> None:
    graph = ga.lower(parsed(PRODUCT))
    with pytest.raises(InvalidValue, match="nothing is annotated"):
        to_svg(graph, overlay="parts")
    Shard("a=2,b=3", ("x: a b",)).run(graph)
    drawn = overlay_of(graph, Folding(), Options(overlay="parts"))
    assert isinstance(drawn, Overlay)
    assert {value.name: drawn.numbers[value] for value in graph.values} == {"x": 6.0, "x@LAID@0": 6.0, "w": 3.0, "h": 2.0}
    Partition().run(graph)
    sent = overlay_of(graph, Folding(), Options(overlay="sent"))
    assert isinstance(sent, Overlay)
    totals = {op.type: sent.numbers[op] for op in graph.ops if op in sent.numbers}
    assert totals == {"c_allreduce_sum": 4 * 4 * 4.0, "c_allgather": 4 * 4 * 4.0}  # a part of h: 4 of 8 rows, 4 columns, float32
    assert "bytes that a rank passes into collectives" in to_svg(graph, overlay="sent")


# -- checkpoints ---------------------------------------------------------------------------------


def test_another_mesh_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """10 steps on 3 x 2 ranks, a file with what they keep, 10 steps on 4 ranks: as one process without a pause."""
    losses, start, end = alone("classifier")
    spec = ("x: data -", "fc_0.w_0: - model")
    found: list[float] = []
    for mesh, steps in (("data=3,model=2", slice(0, 10)), ("data=2,model=2", slice(10, 20))):
        made, size = NETWORKS["classifier"](), ProcessMesh.parse(mesh).size
        program, group = partitioned(made, mesh, spec), LocalGroup(size)
        begin(group, program, start)
        for feed in feeds("classifier")[steps]:
            found.append(float(group.run(program, split_arrays(program, feed, size), [made[2].name])[0][0]))
        np.savez(tmp_path / "checkpoint.npz", **whole_state(program, group.scopes))  # type: ignore[arg-type]
        with np.load(tmp_path / "checkpoint.npz") as file:
            start = {name: file[name] for name in file.files}
    assert found == pytest.approx(losses, abs=1e-6)
    for name, array in end.items():
        np.testing.assert_allclose(start[name], array, rtol=0, atol=1e-6, err_msg=name)


def test_a_rank_that_fails_ends_all_and_leaves_what_they_keep() -> None:
    """A label that there is not, on the rank that has it: its error, with the line of the program, and every scope as before."""
    made = NETWORKS["classifier"]()
    program, group = partitioned(made, "data=2", ("x: data -",)), LocalGroup(2)
    begin(group, program, alone("classifier")[1])
    before = whole_state(program, group.scopes)
    feed = dict(feeds("classifier")[0])
    feed["y"] = np.where(np.arange(10)[:, None] == 9, 100, feed["y"])
    with pytest.raises(ExecutionError, match=r"on rank 1: operator 'softmax_with_cross_entropy' failed[\s\S]*test_data_parallel.py"):
        group.run(program, split_arrays(program, feed, 2), [made[2].name])
    for name, array in whole_state(program, group.scopes).items():
        np.testing.assert_array_equal(array, before[name])


# -- errors --------------------------------------------------------------------------------------


def test_refusals() -> None:
    with pytest.raises(Refused, match="nothing is annotated"):
        Partition().apply(ga.lower(parsed(PRODUCT)))
    with pytest.raises(Refused, match="already"):
        Partition("r=2").apply(ga.lower(parsed("var x: float32[4] var y: float32[4] c_allreduce_sum(X=x) -> (Out=y)")))
    with pytest.raises(Refused, match="3 dimensions, but the value is of 2 dimensions"):
        Shard("r=2", ("x: r - -",)).apply(ga.lower(parsed(PRODUCT)))
    with pytest.raises(InvalidValue, match="no axis 's'"):
        Shard("r=2", ("x: s -",))
    with pytest.raises(InvalidValue, match="cuts two dimensions"):
        Shard("r=2", ("x: r r",))
    with pytest.raises(InvalidValue, match="written as data=2,model=4"):
        Shard("2x4")
    graph = ga.lower(parsed(PRODUCT))
    Shard("r=2", ("x: r -",)).run(graph)
    Shard("r=3", ("w: - r",)).run(graph)
    with pytest.raises(InvalidGraph, match="lies on one mesh"):
        Sharding.of(graph)
    text = 'var x: float32[4, 6] shard_tensor(X=x) -> (Out=x) {mesh="r=2", spec=["r"]}'
    with pytest.raises(InvalidGraph, match=r"spec=\['r'\] says how 1 dimensions are cut, but x has 2"):
        Sharding.of(ga.lower(parsed(text)))


def test_arrays_that_do_not_fit_are_refused() -> None:
    graph = ga.lower(parsed(PRODUCT.replace("[8,", "[-1,")))
    Partition("r=2", ("x: r -",)).run(graph)
    program = ga.schedule(graph)
    with pytest.raises(InvalidValue, match="5 places, declared as -1, cannot be cut into 2 parts"):
        split_arrays(program, {"x": np.zeros((5, 6), "float32")}, 2)
    with pytest.raises(InvalidValue, match="the mesh r=2, which has 2 ranks, not 3"):
        split_arrays(program, {}, 3)
    with pytest.raises(InvalidValue, match=r"parts are of \[-1, 6\]"):
        split_arrays(program, {"x": np.zeros((4, 5), "float32")}, 2)


# -- random programs -----------------------------------------------------------------------------


def test_random_programs_on_two_ranks() -> None:
    check_pass('partition{mesh="data=2"}', examples=12)
    check_pass('shard{mesh="data=2"}, partition', examples=6)  # the mesh of the program says how many ranks run it


def test_the_mean_of_integers_is_taken_whole() -> None:
    """It is cut to a whole number: half of each rank's would be cut once more."""
    graph = ga.lower(parsed("var x: int64[4, 3] var m: int64[3] reduce_mean(X=x) -> (Out=m) {dim=[0]}"))
    Partition("r=2", ("x: r -",)).run(graph)
    program, x = ga.schedule(graph), np.full((4, 3), -1)
    for (m,) in LocalGroup(2).run(program, split_arrays(program, {"x": x}, 2), ["m"]):
        assert m.tolist() == [-1, -1, -1]


NAMED_TWICE = """
program { block 0 {
    var x: float64[2] var y: float64[2] var a: float64[2] var b: float64[2] var c: bool[1] stop_gradient var s: ?[?] STEP_SCOPES
    var t: float64[] var u: float64[] var v: float64[2] var loss: float64[]
    conditional_block(Cond=c, Input=[x, y, b]) -> (Out=[a, b], Scope=s) {sub_block=block(1)}
    reduce_sum(X=a) -> (Out=t)
    square(X=b) -> (Out=v)
    reduce_sum(X=v) -> (Out=u)
    sum(X=[t, u]) -> (Out=loss)
  }
  block 1 in 0 { elementwise_mul(X=x, Y=y) -> (Out=a) elementwise_add(X=b, Y=a) -> (Out=b) }
}"""


def test_gradients_of_one_name_that_lie_in_different_ways_get_names_of_their_own() -> None:
    """In the gradient of the block, that of what is written there is a rank's part; that of what was there before is zeros, and whole."""
    arrays = {name: np.array([1.0, 2.0 + i]) for i, name in enumerate("xyab")}
    case = Case(ga.Program.parse(NAMED_TWICE), "loss", {**arrays, "c": np.array([True])})
    check_case('partition{mesh="data=2", spec=["x: data", "a: data", "b: data"]}', case, prepare=", ".join(BACKWARD))


@pytest.mark.long
@pytest.mark.parametrize("mesh", ["data=2", "data=3"])
def test_more_random_programs(mesh: str) -> None:
    check_pass(f'partition{{mesh="{mesh}"}}', examples=60)


UNEVEN: Mapping[str, tuple[str, Feed]] = {
    "what may have no value is whole": (
        """program { block 0 {
            var t: float64[2, 1] var u: float64[2, 1] var b: bool[1] stop_gradient var s: ?[?] STEP_SCOPES
            var o: float64[2, 1] var c: bool[1] stop_gradient var q: ?[?] STEP_SCOPES
            var y: float64[2, 1] var v: float64[2, 1] var loss: float64[]
            conditional_block(Cond=b, Input=t) -> (Scope=s, Out=u) {sub_block=block(1)}
            while(Condition=c, X=[o, u]) -> (StepScopes=q, Out=[o, c]) {sub_block=block(2)}
            elementwise_mul(X=o, Y=y) -> (Out=v)
            reduce_sum(X=v) -> (Out=loss)
          }
          block 1 in 0 { tanh(X=t) -> (Out=u) }
          block 2 in 0 { elementwise_add(X=o, Y=u) -> (Out=o) fill_constant() -> (Out=c) {shape=[1], value=0.0, dtype="bool"} }
        }""",
        {"t": np.ones((2, 1)), "b": np.zeros(1, bool), "c": np.zeros(1, bool), "o": np.zeros((2, 1)), "y": np.ones((2, 1))},
    ),
    "what an operator with effects writes is whole": (
        """program { block 0 {
            var x: float64[3, 3] var t: float64[3, 3] var y: float64[3, 3] var u: float64[3, 3] var loss: float64[]
            fetch(X=x) -> (Out=t)
            elementwise_mul(X=t, Y=y) -> (Out=u)
            reduce_sum(X=u) -> (Out=loss)
        } }""",
        {"x": np.zeros((3, 3)), "y": np.ones((3, 3))},
    ),
    "an extent known of one factor only": (
        """program { block 0 {
            var x: float64[-1, 1, 1] var y: float64[2, 1, 1] var t: float64[2, 1, 1] var loss: float64[]
            bmm(X=x, Y=y) -> (Out=t)
            reduce_sum(X=t) -> (Out=loss)
        } }""",
        {"x": np.ones((2, 1, 1)), "y": np.ones((2, 1, 1))},
    ),
    "what a quotient's gradient would divide by in the padding": (
        """program { block 0 {
            var x: float64[3] var y: float64[3, 3] var t: float64[3, 3] var loss: float64[]
            elementwise_div(X=x, Y=y) -> (Out=t)
            reduce_sum(X=t) -> (Out=loss)
        } }""",
        {"x": np.ones(3), "y": -np.ones((3, 3))},
    ),
    "the one axis that an operator works along": (
        """program { block 0 {
            var x: float64[5] var t: float64[5] var i: int64[5] var w: float64[] var loss: float64[]
            top_k(X=x) -> (Out=t, Indices=i) {k=5}
            reduce_sum(X=w) -> (Out=loss)
        } }""",
        {"x": np.arange(5.0), "w": np.ones(())},
    ),
    "an array of tensors, which is requested": (
        """program { block 0 {
            var x: float64[2, 1] var i: int64[1] var a: float64[2, 1] LOD_TENSOR_ARRAY var w: float64[] var loss: float64[]
            write_to_array(X=x, I=i) -> (Out=a)
            reduce_sum(X=w) -> (Out=loss)
        } }""",
        {"x": np.ones((2, 1)), "i": np.zeros(1, "int64"), "w": np.ones(())},
    ),
    "a sum that is cut to a boolean": (
        """program { block 0 {
            var x: int64[2, 2] var b: bool[] var w: float64[] var loss: float64[]
            reduce_sum(X=x) -> (Out=b) {out_dtype="bool"}
            reduce_sum(X=w) -> (Out=loss)
        } }""",
        {"x": np.ones((2, 2), "int64"), "w": np.ones(())},
    ),
    "an extent known of the gradient only": (
        """program { block 0 {
            var p: float64[-1, 1] var g: float64[2, 1] var r: float64[1] var m: float64[2, 1] var t: float64[-1, 1] var loss: float64[]
            decayed_adagrad(Param=p, Grad=g, LearningRate=r, Moment=m) -> (ParamOut=t, MomentOut=m)
            reduce_sum(X=r) -> (Out=loss)
        } }""",
        {"p": np.ones((2, 1)), "g": np.ones((2, 1)), "r": -np.ones(1), "m": np.zeros((2, 1))},
    ),
}


@pytest.mark.parametrize("what", UNEVEN)
def test_what_cannot_be_cut_is_whole(what: str) -> None:
    text, feeds = UNEVEN[what]
    check_case('partition{mesh="data=2"}', Case(ga.Program.parse(text), "loss", dict(feeds)), prepare=", ".join(BACKWARD))


# -- extents that are not known --------------------------------------------------------------------

OVERWRITTEN = """program { block 0 {
    var x: float64[-1, 2] var c: bool[1] var s: ?[?] STEP_SCOPES var loss: float64[]
    while(Condition=c, X=[x]) -> (Out=[x, c], StepScopes=s) {sub_block=block(1)}
    mean(X=x) -> (Out=loss)
  }
  block 1 in 0 {
    var t: float64[-1, 2]
    tanh(X=x) -> (Out=t)
    assign(X=t) -> (Out=x)
    logical_not(X=c) -> (Out=c)
  } }"""
LENGTHENED = """program { block 0 {
    var x: float64[-1, 2] var z: float64[-1, 2] var y: float64[-1, 2] var loss: float64[]
    concat(X=[x, z]) -> (Out=y)
    assign(X=y) -> (Out=x)
    mean(X=y) -> (Out=loss)
} }"""
CARRIED = """program { block 0 {
    var x: float64[-1, 2] var c: bool[1] var y: float64[-1, 2] var s: ?[?] STEP_SCOPES var loss: float64[]
    tanh(X=x) -> (Out=y)
    while(Condition=c, X=[y]) -> (Out=[y, c], StepScopes=s) {sub_block=block(1)}
    mean(X=y) -> (Out=loss)
  }
  block 1 in 0 {
    var t: float64[-1, 2]
    tanh(X=y) -> (Out=t)
    assign(X=t) -> (Out=y)
    logical_not(X=c) -> (Out=c)
  } }"""


@pytest.mark.parametrize("prepare", ["", ", ".join(BACKWARD)])
@pytest.mark.parametrize("rows", [2, 3])
def test_rows_of_an_unknown_number_that_a_loop_may_leave_as_they_are_stay_whole(rows: int, prepare: str) -> None:
    feeds = {"x": np.arange(2.0 * rows).reshape(rows, 2), "c": np.ones(1, bool)}
    check_case('partition{mesh="data=2", spec=["x: data -"]}', Case(ga.Program.parse(OVERWRITTEN), "loss", feeds), prepare=prepare)


@pytest.mark.parametrize("prepare", ["", ", ".join(BACKWARD)])
def test_data_is_whole_that_is_left_with_rows_that_ranks_cannot_share(prepare: str) -> None:
    feeds = {"x": np.arange(4.0).reshape(2, 2), "z": np.ones((1, 2))}
    check_case('partition{mesh="data=2", spec=["x: data -"]}', Case(ga.Program.parse(LENGTHENED), "loss", feeds), prepare=prepare)


def test_rows_of_an_unknown_number_that_are_fed_in_parts_stay_in_parts_in_a_loop() -> None:
    graph = ga.lower(ga.Program.parse(CARRIED), ["loss"])
    Partition(mesh="data=2", spec=("x: data -",)).run(graph)
    collectives = [op.type for subgraph in graph.tree() for op in subgraph.ops if op.type.startswith("c_")]
    assert collectives == ["c_allreduce_sum"]  # of the mean


def test_rows_of_an_unknown_number_are_cut_where_an_annotation_says_so() -> None:
    graph = ga.lower(ga.Program.parse(LENGTHENED), ["loss"])
    Partition(mesh="data=2", spec=("y: data -",)).run(graph)
    assert "c_split" in [op.type for op in graph.ops]


NEVER_RUN = """program {{ block 0 {{
    var c: bool[1] var x: float64[-1, 1] var y: float64[{rows}, 1] var s: ?[?] STEP_SCOPES var loss: float64[]
    while(Condition=c, X=x) -> (Out=[y, c], StepScopes=s) {{sub_block=block(1)}}
    mean(X=y) -> (Out=loss)
  }}
  block 1 in 0 {{ assign(X=x) -> (Out=y) }} }}"""


@pytest.mark.parametrize("rows", [1, 2])
def test_a_gradient_of_rows_that_no_shape_tells_apart_gets_a_name_for_the_part_and_one_for_the_whole(rows: int) -> None:
    """The loop, were it run, would say how many rows there are: as many as the result has; one, and the data have two."""
    feeds = {"c": np.zeros(1, bool), "x": np.ones((2, 1)), "y": np.ones((rows, 1))}
    case = case_with_gradients(Case(ga.Program.parse(NEVER_RUN.format(rows=rows)), "loss", feeds), 2)
    assert case is not None
    check_case('partition{mesh="data=2", spec=["x: data -"]}', case)


def test_what_is_not_requested_is_no_value_that_lies_in_some_way() -> None:
    """Of two gradients that nobody needs, a loop's and a whole one, the second was taken for a part of the first, and got a name."""
    text = """program {
      block 0 {
        var x: float32[2, 2] var y: float32[2, 2] stop_gradient var both: float32[4, 2] var o: float32[2, 1]
        var a: float32[] var b: float32[] var loss: float32[] var t: float32[2, 1] var runs: bool[1] var scopes: ?[?] STEP_SCOPES
        concat(X=[x, y]) -> (Out=both)
        fill_constant() -> (Out=o) {shape=[2, 1]}
        while(Condition=runs, X=t) -> (StepScopes=scopes, Out=[o, runs]) {sub_block=block(1)}
        reduce_sum(X=o) -> (Out=a)
        reduce_sum(X=both) -> (Out=b)
        sum(X=[a, b]) -> (Out=loss)
      }
      block 1 in 0 {
        assign(X=t) -> (Out=o)
      }
    }"""
    floats = {"x": np.ones((2, 2), "float32"), "y": np.ones((2, 2), "float32"), "t": np.ones((2, 1), "float32")}
    case = Case(ga.Program.parse(text), "loss", {**floats, "runs": np.array([False])})
    check_case('partition{mesh="data=2"}', case, prepare=", ".join(BACKWARD))


def test_a_variable_of_a_block_keeps_its_declaration_beside_one_of_its_name_that_is_cut() -> None:
    """A branch declares another x, of another type, than the one around it, of which a rank gets a part."""
    program = ga.Program.parse("""program {
      block 0 {
        var x: float64[2]
        var c: bool[1]
        param w: float64[2, 2]
        var y: float64[2]
        scale(X=x) -> (Out=x)
        scale(X=x) -> (Out=y)
        if_else(Cond=c, X=[x, w]) -> (Out=x) {true_block=block(1), false_block=block(2)}
      }
      block 1 in 0 {
        matmul_v2(X=x, Y=w) -> (Out=x)
      }
      block 2 in 0 {
        var x: float32[1]
        fill_constant() -> (Out=x) {shape=[1]}
      }
    }""")
    case = Case(program, feeds={"x": np.array([1.0, 2.0]), "c": np.array([True])}, params={"w": np.eye(2)})
    check_case('partition{mesh="data=2"}', case)
