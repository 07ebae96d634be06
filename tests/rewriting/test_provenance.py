"""Where operators come from: chains down to the user's line, in records that are shared and do not grow."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Op
from graphad.ir.provenance import Origin
from graphad.rewriting import Rule, RuleSet, is_float, rewrite_greedily
from tests.rewriting.samples import Apply, greedily, lowered, only, relu_twice
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with passes(Swap, Apply):
        yield


@ga.rewrite
def scale_twice(x: Any, *, a: Any, b: Any) -> Any:
    return ops.scale(ops.scale(x, scale=a), scale=b), ops.scale(x, scale=a * b), is_float(x)


@ga.rewrite
def square_to_product(x: Any) -> Any:
    size = ops.abs(x)
    return ops.square(x), ops.elementwise_mul(size, size), is_float(x)


class Turn(Rule):
    """Put an operator in the place of another one, up to a number of times."""

    def __init__(self, name: str, old: str, new: str, times: int = 1) -> None:
        self.name, self.types, self.new, self.left = name, frozenset({old}), new, times

    def rewrite(self, op: Op) -> bool:
        if not self.left or not op.graph.allows(self.name, op):
            return False
        self.left -= 1
        new = op.graph.add_op(self.new, op.inputs, op.outputs, before=op, role=op.role)
        new.source = op.source
        op.graph.remove_op(op)
        return True


def depth(origin: Origin | None) -> int:
    return 0 if origin is None else 1 + max((depth(a.origin) for a in origin.ancestors), default=0)


def chained(count: int) -> ga.Graph:
    return lowered(*(("scale", f"x{i}", f"x{i + 1}", {"scale": 1.001}) for i in range(count)))


# -- chains --------------------------------------------------------------------------------------


def test_what_was_written_leads_to_its_line() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        y = ga.layers.tanh(ga.layers.data("x", shape=[3]))
    head, op, where = ga.lower(program).why(y.name).split("\n")
    assert head == "tanh_0.tmp_0: float32[-1, 3]"
    assert op == "  tanh(X=x) -> (Out=tanh_0.tmp_0: float32[-1, 3])"
    assert where.startswith("    written at ")
    assert "test_provenance.py:" in where


def test_a_gradient_leads_to_pass_and_operator() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3])
        w = program.global_block().create_parameter(name="w", shape=[3], dtype="float32")
        ga.append_backward(ga.layers.mean(x * w + w))
    lines = ga.lower(program).why("w@GRAD@RENAME@0").split("\n")
    assert lines[0] == "w@GRAD@RENAME@0: float32[3]"
    assert any(line.strip() == "made by create-grad-ops" for line in lines)
    assert "test_provenance.py:" in lines[-1]


def test_the_forward_operator_of_a_gradient_is_said() -> None:
    graph = lowered(("sin", "x", "a"), ("mean", "a", "y"))
    graph.block.vars["x"].stop_gradient = False  # type: ignore[union-attr]
    ga.backward_pipeline(("y",), inputs=("x",)).run(graph)
    text = graph.why("x@GRAD")
    assert text.startswith("x@GRAD: float64[2, 3], the gradient of x\n")
    assert [line.strip().split(" at ")[0] for line in text.split("\n")[2:]] == [
        "made by create-grad-ops",
        "written",
        "for sin -> a",
        "written",
    ]


def test_a_rule_and_what_it_saw() -> None:
    graph = lowered(("scale", "x", "h", {"scale": 2.0}), ("scale", "h", "y", {"scale": 3.0}))
    graph.journal.author = "test"
    greedily(graph, scale_twice)
    text = graph.why("y").split("\n")
    assert [line for line in text if "written at" not in line] == [
        "y: float64[2, 3]",
        "  scale(X=x) -> (Out=y: float64[2, 3]) {scale=6.0}",
        "    made by test, rule scale-twice",
        "    from scale -> y",
        "    from scale -> h",
    ]


def test_several_rules_one_after_the_other() -> None:
    graph = lowered(("sin", "x", "y"))
    graph.journal.author = "test"
    for rule in (Turn("first", "sin", "cos"), Turn("second", "cos", "exp"), Turn("third", "exp", "tanh")):
        greedily(graph, rule)
    text = [line.strip() for line in graph.why("y").split("\n")][2:-1]
    assert text == [
        "made by test, rule third",
        "from exp -> y",
        "made by test, rule second",
        "from cos -> y",
        "made by test, rule first",
        "from sin -> y",
    ]


def test_operators_of_one_rewrite_share_its_record() -> None:
    graph = lowered(("square", "x", "y"), ("square", "y", "z"))
    greedily(graph, square_to_product)
    origins = {id(op.origin) for op in graph.ops}
    assert len(graph.ops) == 4
    assert len(origins) == 2


def test_what_comes_from_outside_or_from_nowhere() -> None:
    graph = lowered(("sin", "x", "y"))
    assert graph.why("x") == "x: float64[2, 3], given from outside"
    assert graph.why(graph.add_value("z")) == "z: ?, which nothing writes"
    assert graph.why(only(graph, "sin")).startswith("sin(X=x)")


def test_what_is_not_there_is_refused() -> None:
    graph = lowered(("sin", "x", "y"))
    with pytest.raises(InvalidValue, match="the graph has no value 'w@GRAD'"):
        graph.why("w@GRAD")
    with pytest.raises(InvalidType, match="an operator or a value comes from somewhere, 3 is neither"):
        graph.why(3)  # type: ignore[arg-type]


def test_a_version_of_a_name() -> None:
    graph = lowered(("increment", "x", "x"), ("increment", "x", "x"))
    assert graph.why("x#1").startswith("x#1: float64[2, 3]\n  increment(X=x#0)")


# -- records -------------------------------------------------------------------------------------


def test_records_are_immutable() -> None:
    graph = lowered(("sin", "x", "y"))
    greedily(graph, Turn("turn", "sin", "cos"))
    origin = only(graph, "cos").origin
    assert origin is not None
    for part, name in ((origin, "rule"), (origin.ancestors[0], "text")):
        with pytest.raises(AttributeError):
            setattr(part, name, "other")
    assert isinstance(origin.ancestors, tuple)


def test_a_record_does_not_hold_the_operators_it_tells_of() -> None:
    graph = lowered(("scale", "x", "h", {"scale": 2.0}), ("scale", "h", "y", {"scale": 3.0}))
    greedily(graph, scale_twice)
    origin = only(graph, "scale").origin
    assert origin is not None
    held = gc.get_referents(origin, *origin.ancestors)
    assert not [each for each in held if isinstance(each, Op | ga.Graph)]


def test_a_rule_a_thousand_times_on_its_own_output() -> None:
    graph = lowered(("sin", "x", "y"))
    graph.journal.author = "test"
    greedily(graph, Turn("turn", "sin", "sin", times=1000))
    assert graph.journal.rewrites == 1000
    assert depth(only(graph, "sin").origin) == 1
    assert len(graph.why("y").split("\n")) == 5


def test_a_rule_that_takes_in_a_thousand_operators() -> None:
    graph = chained(1200)
    greedily(graph, scale_twice)
    (op,) = graph.ops
    assert graph.journal.rewrites == 1199
    assert depth(op.origin) == 1
    assert len(graph.why(op).split("\n")) < 50
    assert "written at " in graph.why(op)


def test_two_rules_in_turns_keep_the_chain_short() -> None:
    graph = lowered(("sin", "x", "y"))
    there, back = Turn("there", "sin", "cos", times=500), Turn("back", "cos", "sin", times=500)
    greedily(graph, there, back)
    assert graph.journal.rewrites == 1000
    assert depth(only(graph, "sin").origin) <= 33
    assert "written at" in graph.why("y")


def test_the_text_of_what_comes_from_one_place_in_many_ways_is_short() -> None:
    """Every rewrite makes two operators of two: 2 ** 30 ways lead down."""

    class Cross(Rule):
        types = frozenset({"elementwise_add"})

        def __init__(self, name: str) -> None:
            self.name = name

        def rewrite(self, op: Op) -> bool:
            graph, (a, b) = op.graph, list(op.reads())
            if a.writer is None or (a.writer.origin is not None and a.writer.origin.rule == self.name):
                return False
            assert b.writer is not None
            assert graph.allows(self.name, a.writer, b.writer)
            for old in (a.writer, b.writer):
                graph.add_op(old.type, old.inputs, old.outputs, before=op, role=old.role)
                graph.remove_op(old)
            return True

    graph = lowered(("sin", "x", "a"), ("cos", "x", "b"), ("elementwise_add", ("a", "b"), "y"))
    for i in range(30):
        rewrite_greedily(graph, RuleSet(Cross(f"rule-{i}")), f"{i}")
    assert depth_of_first(graph.value("a").writer) == 30
    assert len(graph.why("a").split("\n")) < 200


def depth_of_first(op: Op | None) -> int:
    count, origin = 0, None if op is None else op.origin
    while origin is not None:
        count, origin = count + 1, origin.ancestors[0].origin
    return count


def test_memory_does_not_grow() -> None:
    graph = lowered(("sin", "x", "y"))
    there, back = Turn("there", "sin", "cos"), Turn("back", "cos", "sin")

    def turns(count: int) -> int:
        there.left = back.left = count
        rewrite_greedily(graph, RuleSet(there, back), "test")
        graph.journal.touched = None
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        turns(100)
        early = turns(100)
        late = [turns(300) for _ in range(3)][-1]
    finally:
        tracemalloc.stop()
    assert late - early < 20_000


def test_a_pass_that_does_not_tell_its_rewrites_is_one() -> None:
    graph = lowered(("sin", "x", "y"))
    Swap().run(graph)
    assert graph.journal.origin == Origin("swap", ())
    assert "made by swap" in graph.why("y")


def test_a_copy_knows_where_it_comes_from() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "b"), ("sin", "b", "y"), ("relu", "y", "r"), ("relu", "r", "s"))
    greedily(graph, relu_twice, square_to_product)
    assert graph.clone().why("s") == graph.why("s")


def test_a_chain_lasts_through_a_program() -> None:
    """Programs keep who made an operator, and the line; rules are remembered by the graph only."""
    graph = lowered(("relu", "x", "a"), ("relu", "a", "y"))
    graph.journal.author = "test"
    greedily(graph, relu_twice)
    again = ga.lower(ga.schedule(graph)).why("y")
    assert "made by test" in again
    assert graph.why("y").split("\n")[-1].strip().removeprefix("written at ").split(":")[0] in again
