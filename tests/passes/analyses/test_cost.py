"""The costs of operators and graphs."""

from __future__ import annotations

import pytest

import graphad as ga
from graphad.passes.analyses import Cost, estimated, trip_count
from graphad.passes.inspection import AnnotateCost

BACKWARD = "find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"


def graph_of(text: str) -> ga.Graph:
    return ga.lower(ga.Program.parse(f"program {{ block 0 {{ {text} }} }}"))


def only(text: str, batch: int = 1) -> tuple[int, int, int]:
    (cost,) = estimated(graph_of(text), batch).ops.values()
    return cost[:3]


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("var x: float32[8, 3] var w: float32[3, 5] var y: float32[8, 5] mul(X=x, Y=w) -> (Out=y)", 2 * 8 * 3 * 5),
        ("var x: float32[2, 3, 8] var w: float32[2, 3, 5] var y: float32[2, 8, 5] "
         "matmul_v2(X=x, Y=w) -> (Out=y) {trans_x=true}", 2 * 2 * 3 * 8 * 5),
        ("var x: float32[2, 3, 6, 6] var w: float32[4, 3, 3, 3] var y: float32[2, 4, 4, 4] "
         "conv2d(Input=x, Filter=w) -> (Output=y)", 2 * 2 * 4 * 4 * 4 * 27),
        ("var x: float32[2, 3, 6, 6, 6] var w: float32[4, 3, 3, 3, 3] var y: float32[2, 4, 4, 4, 4] "
         "conv3d(Input=x, Filter=w) -> (Output=y)", 2 * 2 * 4 * 4**3 * 81),
        ("var x: float32[2, 3, 4, 4] var w: float32[3, 5, 3, 3] var y: float32[2, 5, 6, 6] "
         "conv2d_transpose(Input=x, Filter=w) -> (Output=y)", 2 * 2 * 3 * 4 * 4 * 5 * 9),
        ("var x: float32[8, 3] var w: float32[3] var y: float32[8] mv(X=x, Vec=w) -> (Out=y)", 2 * 8 * 3),
        ("var x: float32[8, 3] var y: float32[8, 3] tanh(X=x) -> (Out=y)", 24),
        ("var x: float32[8, 3] var y: float32[] mean(X=x) -> (Out=y)", 24),
        ("var x: float32[8, 3] var y: float32[8, 3] softmax(X=x) -> (Out=y)", 5 * 24),
        ("var x: float32[4] var y: float32[4] var z: float32[4] var s: float32[4] sum(X=[x, y, z]) -> (Out=s)", 8),
        ("var x: float32[2, 1, 4, 4] var y: float32[2, 1, 2, 2] pool2d(X=x) -> (Out=y) {ksize=[2, 2], strides=[2, 2]}", 32),
        ("var x: float32[8, 3] var y: float32[3, 8] transpose(X=x) -> (Out=y) {axis=[1, 0]}", 0),
        ("var x: float32[8, 3] var y: float32[8, 3] my_own(X=x) -> (Out=y)", 24),
    ],
)  # fmt: skip
def test_formulas(text: str, flops: int) -> None:
    assert only(text)[0] == flops


def test_bytes_and_the_batch() -> None:
    text = "var x: float32[-1, 3] var w: float64[3, 5] var y: float32[-1, 5] mul(X=x, Y=w) -> (Out=y)"
    assert only(text, 8) == (2 * 8 * 3 * 5, 8 * 3 * 4 + 3 * 5 * 8, 8 * 5 * 4)
    with pytest.raises(ValueError, match="at least, not 0"):
        estimated(graph_of(text), 0)


def test_a_value_read_twice_is_read_once_and_a_view_costs_nothing() -> None:
    assert only("var x: float32[4] var y: float32[4] elementwise_mul(X=x, Y=x) -> (Out=y)") == (4, 16, 16)
    assert only("var x: float32[4] var y: float32[2, 2] reshape(X=x) -> (Out=y) {shape=[2, 2]}") == (0, 0, 0)


def test_peak_memory_is_the_most_that_lives_at_once() -> None:
    chain = " ".join(f"var v{i}: float64[100]" for i in range(6)) + " " + " ".join(f"tanh(X=v{i}) -> (Out=v{i + 1})" for i in range(5))
    cost = Cost.of(graph_of(chain))
    assert (cost.given, cost.peak) == (800, 2400)


def test_gradients_keep_what_they_read() -> None:
    chain = " ".join(f"var v{i}: float64[100]" for i in range(6)) + " var loss: float64[] "
    chain += " ".join(f"tanh(X=v{i}) -> (Out=v{i + 1})" for i in range(5)) + " mean(X=v5) -> (Out=loss)"
    graph = graph_of(chain)
    ga.Pipeline.parse(BACKWARD).run(graph)
    assert Cost.of(graph).peak >= 800 * 7


def test_grad_operators_of_products() -> None:
    text = "var x: float32[8, 3] param w: float32[3, 5] var y: float32[8, 5] var loss: float32[] "
    text += "mul(X=x, Y=w) -> (Out=y) mean(X=y) -> (Out=loss)"
    graph = graph_of(text)
    ga.Pipeline.parse(BACKWARD).run(graph)
    flops = {op.type: cost.flops for op, cost in Cost.of(graph).ops.items()}
    assert flops["mul_grad"] == flops["mul"] * len(next(op for op in graph.ops if op.type == "mul_grad").outputs)


@pytest.mark.parametrize(
    ("x", "w", "y", "call"),
    [
        ("4, 8, 3", "3, 5", "4, 8, 5", "matmul_v2(X=x, Y=w) -> (Out=y)"),
        ("3, 8", "5, 3", "8, 5", "matmul_v2(X=x, Y=w) -> (Out=y) {trans_x=true, trans_y=true}"),
        ("2, 3, 6, 6", "4, 3, 3, 3", "2, 4, 4, 4", "conv2d(Input=x, Filter=w) -> (Output=y)"),
        ("2, 3, 4, 4", "3, 5, 3, 3", "2, 5, 6, 6", "conv2d_transpose(Input=x, Filter=w) -> (Output=y)"),
    ],
)
def test_a_gradient_of_a_product_is_a_product_as_large(x: str, w: str, y: str, call: str) -> None:
    """Also where only one gradient is requested, so that one operand is not read."""
    text = f"var x: float32[{x}] param w: float32[{w}] var y: float32[{y}] var loss: float32[] {call} mean(X=y) -> (Out=loss)"
    for names, count in (("", 2), ("x", 1), ("w", 1)):
        graph = graph_of(text)
        graph.value("x").var.stop_gradient = False  # type: ignore[union-attr]
        ga.Pipeline.parse(BACKWARD.replace("targets=[loss]", f"targets=[loss], inputs=[{names}]")).run(graph)
        (forward, _, *_, gradient) = Cost.of(graph).ops.values()
        assert gradient.flops == count * forward.flops


LOOP = """program { block 0 {
  var h: float64[3] var i: int64[1] var n: int64[1] var more: bool[1] var loss: float64[] var x: float64[3]
  assign(X=x) -> (Out=h)
  fill_constant() -> (Out=i) {shape=[1], value=START, dtype="int64"}
  fill_constant() -> (Out=n) {shape=[1], value=5.0, dtype="int64"}
  TEST(X=i, Y=n) -> (Out=more)
  while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
  mean(X=h) -> (Out=loss)
} block 1 in 0 {
  tanh(X=h) -> (Out=h) increment(X=i) -> (Out=i) {step=STEP} TEST(X=i, Y=n) -> (Out=more)
} }"""


@pytest.mark.parametrize(
    ("start", "step", "test", "count"),
    [
        ("0.0", "1.0", "less_than", 5), ("0.0", "2.0", "less_than", 3), ("0.0", "1.0", "less_equal", 6), ("5.0", "1.0", "less_than", 0),
        ("0.0", "-1.0", "less_than", None), ("4.0", "0.0", "less_than", None),
        ("9.0", "-2.0", "greater_than", 2), ("0.0", "1.0", "not_equal", 5),
    ],
)  # fmt: skip
def test_trips(start: str, step: str, test: str, count: int | None) -> None:
    graph = ga.lower(ga.Program.parse(LOOP.replace("START", start).replace("STEP", step).replace("TEST", test)))
    loop = next(op for op in graph.ops if op.type == "while")
    assert trip_count(loop) == count
    if count is not None:
        executor = ga.Executor()
        executor.run(graph.block.program, {"x": [1.0, 2.0, 3.0]}, ["loss"])  # type: ignore[union-attr]
        assert executor.trips == {count}


def test_the_first_iteration_is_decided_by_the_condition_at_the_start() -> None:
    """A loop that counts down from 9 to 5, and whose first condition is 9 < 5."""
    text = LOOP.replace("TEST(X=i, Y=n) -> (Out=more)\n  while", "less_than(X=i, Y=n) -> (Out=more)\n  while")
    graph = ga.lower(ga.Program.parse(text.replace("START", "9.0").replace("STEP", "-2.0").replace("TEST", "greater_than")))
    (loop,) = graph.controls
    assert trip_count(loop) == 0


def test_a_long_loop_is_counted_without_running_it() -> None:
    text = LOOP.replace("value=5.0", "value=1e12").replace("START", "0.0").replace("STEP", "1.0").replace("TEST", "less_than")
    (loop,) = ga.lower(ga.Program.parse(text)).controls
    assert trip_count(loop) == 10**12


@pytest.mark.parametrize(("start", "limit", "step", "count"), [(0, 5, 1, 5), (0, 5, 2, 3), (7, 5, 1, 0), (1, 50, 1, 49)])
def test_trips_of_a_loop_of_layers(start: int, limit: int, step: int, count: int) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [3], "float64", append_batch_size=False, stop_gradient=False)
        i, h = ga.layers.while_loop(lambda i, h: i < limit, lambda i, h: [i + step, ga.layers.tanh(h)], [start, x])
        (gradient,) = ga.gradients([ga.layers.mean(h)], [x])
    assert gradient is not None
    graph = ga.lower(program, [i.name, gradient.name])
    assert [trip_count(op) for op in graph.ops if op.graphs] == [count, count]
    executor = ga.Executor(max_iterations=100)
    assert executor.run(program, {"x": [1.0, 2.0, 3.0]}, [i]) == [start + step * count]
    assert estimated(graph).unknown == 0


def test_a_loop_costs_its_body_so_often() -> None:
    graph = ga.lower(ga.Program.parse(LOOP.replace("START", "0.0").replace("STEP", "1.0").replace("TEST", "less_than")))
    cost = estimated(graph)
    loop = next(op for op in graph.ops if op.type == "while")
    assert cost.ops[loop].trips == 5
    assert cost.ops[loop].flops == 5 * (3 + 1 + 1)
    assert cost.unknown == 0
    assert "while -> h, i, more (5 times)" in str(cost)


def test_what_a_loop_keeps_for_its_gradient_is_there_at_once() -> None:
    graph = ga.lower(ga.Program.parse(LOOP.replace("START", "0.0").replace("STEP", "1.0").replace("TEST", "less_than")))
    before = estimated(graph).peak
    ga.Pipeline.parse(BACKWARD).run(graph)
    assert estimated(graph).peak >= before + 5 * 24


def test_an_unknown_number_of_iterations_counts_once_and_is_said() -> None:
    graph = ga.lower(ga.Program.parse(LOOP.replace("START", "0.0").replace("STEP", "-1.0").replace("TEST", "less_than")))
    cost = estimated(graph)
    assert cost.unknown == 1
    assert "times unknown" in str(cost)
    assert "at least" in str(cost)


def test_annotations() -> None:
    graph = ga.lower(ga.Program.parse(LOOP.replace("START", "0.0").replace("STEP", "1.0").replace("TEST", "less_than")))
    text = str(graph)
    assert not AnnotateCost(batch=2).run(graph)
    assert str(graph) == text
    loop = next(op for op in graph.ops if op.type == "while")
    assert graph.nodes[loop]["trips"] == 5
    assert graph.nodes[graph.value("loss")]["bytes"] == 8
    body = loop.graphs["sub_block"]
    assert body.nodes[body.ops.first]["flops"] == 3
    assert graph.graph["peak_memory"] == estimated(graph).peak
    with pytest.raises(ValueError, match="batch=0"):
        AnnotateCost(batch=0)


# -- unknown extents -----------------------------------------------------------------------------

BATCHES = {
    "a split and a concatenation": """var x: float32[BATCH, 8] param w: float32[8, 3]
      var a: float32[HALF, 8] var b: float32[HALF, 8] var y: float32[BATCH, 8] var z: float32[BATCH, 3] var loss: float32[]
      var c: float32[HALF, 8] var d: float32[HALF, 8]
      split(X=x) -> (Out=[a, b]) {num=2, axis=0} tanh(X=a) -> (Out=c) exp(X=b) -> (Out=d)
      concat(X=[c, d]) -> (Out=y) {axis=0} mul(X=y, Y=w) -> (Out=z) mean(X=z) -> (Out=loss)""",
    "rows and columns as one": """var x: float32[BATCH, 4, 8] param w: float32[8, 3]
      var a: float32[ROWS, 8] var b: float32[ROWS, 3] var c: float32[ROWS, 3] var loss: float32[]
      reshape(X=x) -> (Out=a) {shape=[-1, 8]} mul(X=a, Y=w) -> (Out=b) relu(X=b) -> (Out=c) mean(X=c) -> (Out=loss)""",
    "every second row": """var x: float32[BATCH, 8]
      var a: float32[HALF, 8] var b: float32[HALF, 8] var c: float32[HALF, 8] var loss: float32[]
      strided_slice(Input=x) -> (Out=a) {axes=[0], starts=[0], ends=[64], strides=[2]}
      sigmoid(X=a) -> (Out=b) square(X=b) -> (Out=c) mean(X=c) -> (Out=loss)""",
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("text", BATCHES.values(), ids=list(BATCHES))
def test_the_batch_goes_in_at_the_data_and_the_rest_follows(text: str, backward: bool) -> None:
    known = graph_of(text.replace("BATCH", "64").replace("HALF", "32").replace("ROWS", "256"))
    unknown = graph_of(text.replace("BATCH", "-1").replace("HALF", "-1").replace("ROWS", "-1"))
    for graph in (known, unknown) if backward else ():
        ga.Pipeline.parse(BACKWARD).run(graph)
    expected, cost = estimated(known), estimated(unknown, 64)
    assert (cost.total, cost.given, cost.peak) == (expected.total, expected.given, expected.peak)
    again = estimated(ga.lower(ga.schedule(unknown)), 64)
    assert (again.total, again.given, again.peak) == (expected.total, expected.given, expected.peak)


def test_the_body_of_a_loop_has_the_batch_of_what_it_is_handed() -> None:
    text = LOOP.replace("START", "0.0").replace("STEP", "1.0").replace("TEST", "less_than")
    unknown = ga.lower(ga.Program.parse(text.replace("float64[3]", "float64[-1]")))
    known = ga.lower(ga.Program.parse(text.replace("float64[3]", "float64[7]")))
    assert estimated(unknown, 7).total == estimated(known).total
    for graph in (unknown, known):
        ga.Pipeline.parse(BACKWARD).run(graph)
    assert estimated(unknown, 7).total == estimated(known).total
    assert estimated(unknown, 7).peak == estimated(known).peak


def test_a_stand_in_takes_no_memory() -> None:
    cost = estimated(graph_of("var x: float32[100] var s: float32[100] var y: float32[] stand_in(X=x) -> (Out=s) mean(X=s) -> (Out=y)"))
    assert (cost.given, cost.peak) == (400, 404)


def test_a_view_lies_in_the_memory_of_another_value() -> None:
    calls = "tanh(X=x) -> (Out=y) reshape(X=y) -> (Out=z) {shape=[10, 10]} tanh(X=z) -> (Out=w)"
    graph = graph_of(f"var x: float32[100] var y: float32[100] var z: float32[10, 10] var w: float32[10, 10] {calls}")
    cost = Cost.of(graph)
    assert {value.name: size for value, size in cost.sizes.items()} == {"x": 400, "y": 400, "z": 0, "w": 400}
    # What is given, y, which lives for as long as z is read, and w.
    assert (cost.given, cost.peak) == (400, 1200)


def test_the_gradient_of_a_product_of_vectors_has_a_cost() -> None:
    program = ga.Program.parse(
        "program { block 0 { var x: float64[5] var m: float64[3, 5] var d: float64[] var v: float64[3] "
        "matmul_v2(X=x, Y=x) -> (Out=d) matmul_v2(X=m, Y=x) -> (Out=v) } }"
    )
    block = program.global_block()
    ga.gradients([block.var("d"), block.var("v")], [block.var("x"), block.var("m")])
    graph = ga.lower(program)
    dot, product = (op for op in graph.ops if op.type == "matmul_v2")
    costs = {len(op.input("X").shape or ()): estimated(graph).ops[op].flops for op in graph.ops if op.type == "matmul_v2_grad"}
    assert costs == {1: 2 * estimated(graph).ops[dot].flops, 2: 2 * estimated(graph).ops[product].flops}
