"""Training on parts of the batch: the same losses and parameters as one process, and the bytes that a closed form says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import graphad as ga
from graphad.distribution import LocalGroup, split_feed
from graphad.errors import InvalidValue, Refused
from graphad.ops import lookup
from graphad.ops.definition import OpDef
from graphad.rewriting import Pipeline
from graphad.testing import check_pass
from graphad.types import Array
from tests.distribution.ranks import MODES, parsed

STEPS, ROWS, BYTES = 20, 10, 1100  # of the parameters: (6 * 16 + 16 + 16 * 8 + 8 + 8 * 3 + 3) * 4
Network = tuple[ga.Program, ga.Program, ga.Variable]


def network(optimizer: Callable[[], object] = lambda: ga.optimizer.Adam(0.01), summed: bool = False, rows: int = -1) -> Network:
    """A classifier of three layers: program, startup program, loss."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", shape=[rows, 6], append_batch_size=False)
        y = ga.layers.data("y", shape=[rows, 1], dtype="int64", append_batch_size=False)
        h = ga.layers.fc(ga.layers.fc(x, size=16, act="tanh"), size=8, act="relu")
        losses = ga.layers.softmax_with_cross_entropy(ga.layers.fc(h, size=3), y)
        loss = ga.layers.reduce_sum(losses) if summed else ga.layers.mean(losses)
        optimizer().minimize(loss)  # type: ignore[attr-defined]
    return main, startup, loss


def batches() -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=(ROWS, 6)).astype("float32"), "y": rng.integers(0, 3, (ROWS, 1))} for _ in range(STEPS)]


def alone(made: Network) -> tuple[list[float], ga.Scope]:
    """The losses of one process, and its scope at the end."""
    main, startup, loss = made
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    return [float(executor.run(main, feed, [loss], scope)[0]) for feed in batches()], scope


def together(made: Network, pipeline: str, group: LocalGroup) -> list[list[float]]:
    """The losses of the ranks, step by step."""
    main, startup, loss = made
    graph = ga.lower(main, [loss.name])
    Pipeline.parse(pipeline).run(graph)
    program = ga.schedule(graph)
    group.run(startup)
    fed = [split_feed(feed, group.size) for feed in batches()]
    return [[float(result[0]) for result in group.run(program, feeds, [loss.name])] for feeds in fed]


def compare(losses: list[float], scope: ga.Scope, found: list[list[float]], scopes: list[ga.Scope], scale: float = 1.0) -> None:
    for expected, ranks in zip(losses, found, strict=True):
        assert ranks == pytest.approx([expected] * len(ranks), abs=1e-6 * scale)
    for name in scope.names():
        for each in scopes:
            np.testing.assert_allclose(each.get(name), scope.get(name), rtol=0, atol=1e-6 * scale, err_msg=name)


OPTIMIZERS: Mapping[str, Callable[[], object]] = {
    "adam": lambda: ga.optimizer.Adam(0.01),
    "momentum, clipped and decayed": lambda: ga.optimizer.Momentum(
        0.05, 0.9, regularization=ga.optimizer.L2Decay(0.01), grad_clip=ga.optimizer.ClipByGlobalNorm(0.5)
    ),
}


@pytest.mark.parametrize(
    ("ranks", "mode"), [(3, "compiled"), (8, "compiled"), *(pytest.param(n, m, marks=pytest.mark.long) for n in (2, 4, 8) for m in MODES)]
)
def test_losses_and_parameters_are_those_of_one_process(ranks: int, mode: str) -> None:
    """10 rows on 3, 4 and 8 ranks are parts of different sizes."""
    group = LocalGroup(ranks, mode=mode)
    found = together(network(), f"data-parallel{{ranks={ranks}}}", group)
    compare(*alone(network()), found, group.scopes)


def test_after_clipping_and_decay_the_whole_gradient_is_applied() -> None:
    make = OPTIMIZERS["momentum, clipped and decayed"]
    group = LocalGroup(3)
    compare(*alone(network(make)), together(network(make), "data-parallel{ranks=3}", group), group.scopes)


def test_a_sum_over_the_batch_is_not_scaled() -> None:
    def make() -> Network:
        return network(lambda: ga.optimizer.SGD(0.01), summed=True)

    group = LocalGroup(4)
    compare(*alone(make()), together(make(), "data-parallel{ranks=4}", group), group.scopes, scale=10.0)


@pytest.mark.parametrize(("ranks", "rows"), [(2, 5), (5, 2), (4, -1)])
def test_a_declared_number_of_rows_is_that_of_a_part(ranks: int, rows: int) -> None:
    """Where it can be shared out, nothing is sent to find out how many rows there are."""
    made, group = network(rows=ROWS), LocalGroup(ranks)
    graph = ga.lower(made[0], [made[2].name])
    Pipeline.parse(f"data-parallel{{ranks={ranks}}}").run(graph)
    assert ga.schedule(graph).global_block().var("x").shape == (rows, 6)
    compare(*alone(network()), together(network(rows=ROWS), f"data-parallel{{ranks={ranks}}}", group), group.scopes)
    assert group.traffic[0].counts()["c_allgather"] == (1 if rows > 0 else 2)


# -- bytes and counts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "passes"),
    [
        (5, "gradient-accumulation{micro_batches=2}"),
        pytest.param(
            5,
            "bucket-all-reduce, shard-optimizer{ranks=5, stage=2}, gradient-accumulation{micro_batches=2}",
            marks=pytest.mark.long,
        ),
        pytest.param(3, "recompute", marks=pytest.mark.long),
        pytest.param(3, "bucket-all-reduce{bytes=200}, shard-optimizer{ranks=3, stage=1}", marks=pytest.mark.long),
    ],
)
def test_passes_after_it(ranks: int, passes: str) -> None:
    """The collectives of a step stay around a loop over parts of a rank's rows; momentum, clipped and decayed."""
    made, group = network(OPTIMIZERS["momentum, clipped and decayed"]), LocalGroup(ranks)
    found = together(made, f"data-parallel{{ranks={ranks}}}, {passes}", group)
    losses, scope = alone(made)
    for expected, each in zip(losses, found, strict=True):
        assert each == pytest.approx([expected] * ranks, abs=1e-6)
    for parameter in made[0].all_parameters():
        np.testing.assert_allclose(group.scopes[0].get(parameter.name), scope.get(parameter.name), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [(4, 2), (2, 4)])
def test_accumulated_sums_over_unequal_parts_are_not_scaled(rows: tuple[int, int]) -> None:
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", shape=[6])
        loss = ga.layers.reduce_sum(ga.layers.square(ga.layers.fc(x, size=1)))
        ga.optimizer.SGD(0.01).minimize(loss)
    graph = ga.lower(main, [loss.name])
    Pipeline.parse("data-parallel{ranks=2}, gradient-accumulation{micro_batches=2}").run(graph)
    program, group, scope = ga.schedule(graph), LocalGroup(2), ga.Scope()
    ga.Executor().run(startup, scope=scope)
    group.run(startup)
    x_all = np.random.default_rng(0).normal(size=(6, 6)).astype("float32")
    for _ in range(3):
        (expected,) = ga.Executor().run(main, {"x": x_all}, [loss], scope)
        for (got,) in group.run(program, [{"x": x_all[: rows[0]]}, {"x": x_all[rows[0] :]}], [loss.name]):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(("most", "count"), [(1 << 20, 1), (550, 3), (1, 6)])
def test_bytes_and_counts_are_those_of_the_closed_form(most: int, count: int) -> None:
    """A step all-reduces the bytes of the parameters, in as many calls as there are buckets; besides, the rows and the loss of each rank.

    The gradients come in the order 12, 96, 32, 512, 64, 384 bytes: buckets of at most 550 are 140, 512, 448.
    """
    group = LocalGroup(2)
    together(network(), f"data-parallel{{ranks=2}}, bucket-all-reduce{{bytes={most}}}", group)
    for traffic in group.traffic:
        assert traffic.bytes() == {"c_allgather": 2 * 4, "c_allreduce_sum": BYTES}
        assert traffic.counts() == {"c_allgather": 2, "c_allreduce_sum": count}


def test_buckets_give_the_same_bits() -> None:
    plain, bucketed = LocalGroup(3), LocalGroup(3)
    assert together(network(), "data-parallel{ranks=3}", plain) == together(
        network(), "data-parallel{ranks=3}, bucket-all-reduce{bytes=600}", bucketed
    )
    for name in plain.scopes[0].names():
        np.testing.assert_array_equal(plain.scopes[1].get(name), bucketed.scopes[1].get(name))


def test_an_all_reduce_follows_the_backward_that_it_needs_and_not_the_rest() -> None:
    """So that it can go on beside it: the last layer's gradients are reduced before those of the first are computed."""
    main, _, loss = network()
    graph = ga.lower(main, [loss.name])
    Pipeline.parse("data-parallel{ranks=2}, bucket-all-reduce{bytes=600}").run(graph)
    types = [op.type for op in ga.schedule(graph).global_block().ops]
    assert types.index("c_allreduce_sum") < types.index("tanh_grad") < len(types) - 1 - types[::-1].index("c_allreduce_sum")


def test_a_bucket_does_not_wait_for_what_it_gives() -> None:
    """The second all-reduce reads what the first one gives: no bucket holds both."""
    program = parsed(
        "var x: float32[4] var y: float32[4] var a: float32[4] var b: float32[4] var c: float32[4] var d: float32[4]"
        " c_allreduce_sum(X=x) -> (Out=a) tanh(X=a) -> (Out=b) c_allreduce_sum(X=b) -> (Out=c) c_allreduce_sum(X=y) -> (Out=d)"
    )
    graph = ga.lower(program)
    Pipeline.parse("bucket-all-reduce").run(graph)
    types = [op.type for op in ga.schedule(graph).global_block().ops if op.type in ("tanh", "c_allreduce_sum")]
    assert types == ["c_allreduce_sum", "tanh", "c_allreduce_sum"]


# -- refusals ------------------------------------------------------------------------------------


def refused(program: ga.Program, text: str = "data-parallel{ranks=2}") -> str:
    with pytest.raises(Refused) as caught:
        Pipeline.parse(text).run(ga.lower(program))
    return str(caught.value)


def test_refusals_say_what_is_missing() -> None:
    forward = "var x: float32[-1, 2] param w: float32[2, 1] mul(X=x, Y=w) -> (Out=h) mean(X=h) -> (Out=loss)"
    assert "no loss is found" in refused(parsed(forward))
    assert "nothing is given that could be shared out" in refused(parsed("param w: float32[2] tanh(X=w) -> (Out=h)"))
    assert "3 rows cannot be shared out to 4 ranks" in refused(network(rows=3)[0], "data-parallel{ranks=4}")
    with pytest.raises(InvalidValue, match="1 rank at least, not ranks=0"):
        Pipeline.parse("data-parallel{ranks=0}")


def test_statistics_of_the_batch_are_refused_unless_each_rank_is_to_take_its_own() -> None:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = ga.layers.data("x", shape=[4])
        loss = ga.layers.mean(ga.layers.batch_norm(ga.layers.fc(x, size=3)))
        ga.optimizer.SGD(0.1).minimize(loss)
    assert "say which with loss=mean or loss=sum" in refused(main)
    graph = ga.lower(main)
    assert Pipeline.parse("data-parallel{ranks=2, loss=mean}").run(graph)


# -- mistakes that are found ---------------------------------------------------------------------


def test_check_pass_finds_a_gradient_that_is_not_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphad.passes.distribution.data_parallel._begin", lambda *_: None)
    with pytest.raises(Exception, match="differ"):
        check_pass("data-parallel{ranks=2}", 10)


def test_check_pass_finds_a_rank_that_has_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of the parts instead of their sum."""
    definition: OpDef = lookup("c_allreduce_sum")
    monkeypatch.setitem(vars(definition), "kernel", lambda X, **_: X.copy())
    with pytest.raises(Exception, match="differ"):
        check_pass("data-parallel{ranks=2}", 10)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("rows", [3, 4])
def test_what_has_as_many_rows_as_the_data_is_refused_before_anything_changes(rows: int, nested: bool) -> None:
    """A rank has two rows, and w all of them."""
    text = f"var x: float32[{rows}, 3] param w: float32[{rows}, 3] param v: float32[3] var h: float32[{rows}, 3] var loss: float32[] "
    text += "var c: bool[1] persistable var s: ?[?] STEP_SCOPES mean(X=v) -> (Out=loss) "
    text += "conditional_block(Cond=c, Input=[x, w]) -> (Out=h, Scope=s) {sub_block=block(1)} } block 1 in 0 { " if nested else ""
    text += "elementwise_add(X=x, Y=w) -> (Out=h)"
    program = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("loss"))
    graph = ga.lower(program, ["loss"])
    before = str(graph)
    with pytest.raises(Refused, match=r"elementwise_add.* does not fit the part of the batch that a rank has"):
        ga.Pipeline.parse("data-parallel").run(graph)
    assert str(graph) == before


@pytest.mark.parametrize("choice", [1.0, -1.0])
def test_branches_of_a_batch_of_known_size(choice: float) -> None:
    """In their gradients operators read nothing that has the rows of a rank, but names say what the gradients are of."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 1
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", shape=[6, 4], append_batch_size=False)
        c = ga.layers.create_parameter([1], "float32", attr=ga.ParamAttr(name="c", trainable=False))
        v = ga.layers.create_parameter([4, 4], "float32", name="v")
        h = ga.layers.fc(x, size=4)
        h = ga.layers.cond(c > 0.0, lambda: ga.layers.tanh(ga.layers.matmul(h, v)), lambda: h * 2.0)
        loss = ga.layers.mean(ga.layers.square(h))
        ga.optimizer.SGD(0.1).minimize(loss)
    graph = ga.lower(main, [loss.name])
    Pipeline.parse("data-parallel{ranks=3, loss=mean}").run(graph)
    group, scope, feed = LocalGroup(3), ga.Scope(), {"x": np.random.default_rng(0).normal(size=(6, 4)).astype("float32")}
    ga.Executor().run(startup, scope=scope)
    group.run(startup)
    for each in (scope, *group.scopes):
        each.set("c", np.array([choice], "float32"))
    for _ in range(3):
        (expected,) = ga.Executor().run(main, feed, [loss], scope)
        found = group.run(ga.schedule(graph), split_feed(feed, 3), [loss.name])
        assert np.mean([rank[0] for rank in found]) == pytest.approx(expected, rel=1e-6)
    for name in scope.names():
        np.testing.assert_allclose(group.scopes[1].get(name), scope.get(name), rtol=0, atol=1e-6, err_msg=name)


# -- where a backward begins ---------------------------------------------------------------------


def by_ranks(program: ga.Program, pipeline: str, names: list[str]) -> tuple[list[Array], list[Array]]:
    """Values of a program of one process, and those of the first of two ranks after a pipeline; five rows are fed."""
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(5, 3)).astype("float32")}
    arrays = {p.name: rng.normal(size=p.shape).astype("float32") for p in program.all_parameters()}
    graph = ga.lower(program, names)
    Pipeline.parse(pipeline).run(graph)
    group, scope = LocalGroup(2), ga.Scope()
    for each in (scope, *group.scopes):
        for name, array in arrays.items():
            each.set(name, array)
    results = ga.Executor().run(program, feed, names, scope), group.run(ga.schedule(graph), split_feed(feed, 2), names)[0]
    return [np.asarray(array) for array in results[0]], [np.asarray(array) for array in results[1]]


def penalized(summed: bool) -> tuple[ga.Program, str]:
    """A program with a penalty on the gradient of its data, and the gradient of that; the penalty's name."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = ga.layers.data("x", shape=[3])
        x.stop_gradient = False
        w = ga.layers.create_parameter([3, 1], "float32", name="w")
        (g,) = ga.gradients(ga.layers.mean(ga.layers.tanh(ga.layers.mul(x, w))), [x])
        assert g is not None
        penalty = (ga.layers.reduce_sum if summed else ga.layers.mean)(ga.layers.square(g))
        ga.append_backward(penalty)
    return main, penalty.name


@pytest.mark.parametrize("summed", [False, True])
def test_the_gradient_of_a_penalty_on_gradients_is_that_of_the_whole_batch(summed: bool) -> None:
    program, penalty = penalized(summed)
    for one, other in zip(*by_ranks(program, "data-parallel", ["w@GRAD", penalty]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_a_gradient_that_no_longer_follows_from_its_start_is_refused() -> None:
    """Once simplified, the mean's gradient is 1 / rows of the rank, which no share is multiplied with."""
    for loss in ("", "{loss=sum}"):
        assert "made of 'x@GRAD', a gradient that is not known to be one of rows" in refused(
            penalized(True)[0], f"simplify, data-parallel{loss}"
        )


def test_losses_that_begin_with_one_constant_are_refused_if_one_is_a_mean_and_one_a_sum() -> None:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = ga.layers.data("x", shape=[3])
        w, v = (ga.layers.create_parameter([3, 1], "float32", name=name) for name in "wv")
        ga.append_backward(ga.layers.mean(ga.layers.tanh(ga.layers.mul(x, w))))
        ga.append_backward(ga.layers.reduce_sum(ga.layers.tanh(ga.layers.mul(x, v))))
    for one, other in zip(*by_ranks(main, "data-parallel", ["w@GRAD", "v@GRAD"]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert "begin with one constant" in refused(main, "cse, data-parallel")


def test_a_loss_made_of_the_gradient_of_a_parameter_is_refused() -> None:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x, w = ga.layers.data("x", shape=[3]), ga.layers.create_parameter([3, 1], "float32", name="w")
        (g,) = ga.gradients(ga.layers.mean(ga.layers.tanh(ga.layers.mul(x, w))), [w])
        assert g is not None
        ga.append_backward(ga.layers.reduce_sum(ga.layers.square(g)))
    assert "is made of 'w@GRAD', a gradient that is not known to be one of rows" in refused(main)


def test_a_backward_whose_loss_is_not_in_the_program_is_refused() -> None:
    """Where the loss itself is left out as unused, nothing says what it is over the batch."""
    forward = "var x: float32[-1, 2] param w: float32[2, 1] mul(X=x, Y=w) -> (Out=h) mean(X=h) -> (Out=loss)"
    backward = (
        "fill_constant() -> (Out=l@GRAD) {shape=[], value=1.0} backward mul_grad(X=x, Y=w, Out@GRAD=h@GRAD) -> (Y@GRAD=w@GRAD) backward"
    )
    begin = "mean_grad(X=h, Out@GRAD=l@GRAD) -> (X@GRAD=h@GRAD) backward"
    first, last = backward.split(" mul_grad", 1)
    assert "nothing computes 'l', of which it is the gradient" in refused(parsed(f"{forward} {first} {begin} mul_grad{last}"))


@pytest.mark.parametrize("requested", [False, True])
def test_data_whose_name_is_written_again_has_another_type_there(requested: bool) -> None:
    """The data x have a row on a rank; what is written to x has as many as w."""
    forward = "var x: float32[2, 1] param w: float32[2, 1] mean(X=x) -> (Out=h) mean(X=w) -> (Out=g) sum(X=[h, g]) -> (Out=loss)"
    program = parsed(f"var h: float32[] var g: float32[] var loss: float32[] var z: float32[2, 1] {forward}")
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("loss"))
    block = program.global_block()
    block.append_op("scale", {"X": ["w"]}, {"Out": ["x"]}, {"scale": 3.0})
    block.append_op("tanh", {"X": ["x"]}, {"Out": ["z"]})
    graph = ga.lower(program, ["w@GRAD", "x" if requested else "z"])
    before = str(graph)
    if requested:
        with pytest.raises(Refused, match="'x' is given or requested both as rows of the batch and as a value of another type"):
            Pipeline.parse("data-parallel").run(graph)
        assert str(graph) == before
    else:
        Pipeline.parse("data-parallel").run(graph)
        group, feeds = LocalGroup(2), [{"x": np.full((1, 1), number, "float32")} for number in (1, 2)]
        for scope in group.scopes:
            scope.set("w", np.array([[0.5], [1.0]], "float32"))
        for gradient, z in group.run(ga.schedule(graph), feeds, ["w@GRAD", "z"]):
            np.testing.assert_allclose(gradient, [[0.5], [0.5]])
            np.testing.assert_allclose(z, np.tanh([[1.5], [3.0]]), rtol=1e-6)


def test_the_last_value_of_a_name_keeps_its_declaration() -> None:
    """The rows that t is first are half as many on a rank; what t is last is made of w alone."""
    forward = "elementwise_sub(X=x, Y=x) -> (Out=t) mean(X=w) -> (Out=loss) expand_v2(X=w) -> (Out=t) {shape=[2, 1]}"
    program = parsed(f"var x: float32[2, 1] param w: float32[1] var t: float32[2, 1] var loss: float32[] {forward}")
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("loss"))
    graph = ga.lower(program, ["w@GRAD", "t"])
    Pipeline.parse("data-parallel").run(graph)
    assert ga.schedule(graph).global_block().var("t").shape == (2, 1)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("split(X=x) -> (Out=[first, rest]) {sections=[3, -1]}", r"split\(X=x\) .*"),
        ("elementwise_add(X=first, Y=x) -> (Out=rest)", "elementwise_add.*"),
    ],
)
def test_what_fits_some_numbers_of_rows_only_is_refused(forward: str, message: str) -> None:
    """Three rows are not what a rank has, or more than that. Whoever says what the loss is takes that on."""
    variables = (
        "var x: float32[-1, 1] param w: float32[1] var first: float32[3, 1] persistable var rest: float32[-1, 1] var loss: float32[]"
    )
    program = parsed(f"{variables.replace(' persistable', '' if 'split' in forward else ' persistable')} {forward} mean(X=w) -> (Out=loss)")
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("loss"))
    with pytest.raises(Refused, match=message + " does not fit the part of the batch that a rank has"):
        Pipeline.parse("data-parallel").run(ga.lower(program, ["w@GRAD"]))
    Pipeline.parse("data-parallel{loss=mean}").run(ga.lower(program, ["w@GRAD"]))
