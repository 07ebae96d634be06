"""Small programs, graphs, rules and passes to try the framework on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphad as ga
from graphad import ops
from graphad.ir import Op
from graphad.ir.verify import verify
from graphad.ops import REGISTRY
from graphad.rewriting import Pass, PatternRule, Rule, RuleSet, rewrite_greedily
from tests.scratch import passes

Line = tuple[Any, ...]
SHAPE = (2, 3)


def written(*lines: Line, shapes: Mapping[str, Sequence[int]] | None = None, dtype: str = "float64") -> ga.Program:
    """The program of lines ``(type, input names, output names, attributes)``; a name that nothing writes is data.

    Inputs are one name, or one entry a slot: a name, or a list of names.
    """
    program = ga.Program()
    for op_type, given, out, *attrs in lines:
        definition = REGISTRY[op_type]
        slots = dict(zip(definition.inputs, given if isinstance(given, tuple) else (given,), strict=False))
        outs = dict(zip(definition.outputs, out if isinstance(out, tuple) else (out,), strict=False))
        _declare(program.global_block(), slots, shapes or {}, dtype)
        program.global_block().append_op(type=op_type, inputs=slots, outputs=outs, attrs=attrs[0] if attrs else {})
    return program


def _declare(block: ga.Block, slots: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], dtype: str) -> None:
    for name in (n for names in slots.values() for n in ([names] if isinstance(names, str) else names)):
        if not block.has_var(name):
            block.create_var(name=name, shape=list(shapes.get(name, SHAPE)), dtype=dtype)


def lowered(*lines: Line, targets: Sequence[str] | None = None, **options: Any) -> ga.Graph:
    """The graph of the program that the lines are."""
    return ga.lower(written(*lines, **options), targets)


def filled(name: str, value: float, dtype: str = "float64", shape: Sequence[int] = SHAPE) -> Line:
    """The line of a tensor filled with one number."""
    return "fill_constant", (), name, {"shape": list(shape), "value": value, "dtype": dtype}


def looping() -> ga.Graph:
    """A loop whose body is ``y = tanh(tanh(y))``."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3], append_batch_size=False)
        body: Callable[..., Any] = lambda i, y: [i + 1.0, ga.layers.tanh(ga.layers.tanh(y))]  # noqa: E731
        ga.layers.while_loop(lambda i, y: i < 3.0, body, [0.0, x])
    return ga.lower(program)


def body(graph: ga.Graph) -> ga.Graph:
    """The graph nested in the only operator that has one."""
    (op,) = graph.controls
    (inner,) = op.graphs.values()
    return inner


def type_names(graph: ga.Graph) -> list[str]:
    """The types of the operators in topological order."""
    return [op.type for op in graph.ordered_ops()]


def only(graph: ga.Graph, op_type: str) -> Op:
    """The one operator of a type."""
    (found,) = [op for op in graph.ops if op.type == op_type]
    return found


def greedily(graph: ga.Graph, *rules: Rule) -> bool:
    """Apply rules until none applies; the graph keeps what graphs have to keep."""
    changed = rewrite_greedily(graph, RuleSet(*rules), tuple(rule.name for rule in rules))
    verify(graph)
    return changed


def arrays_of(graph: ga.Graph, feed: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The results of the scheduled graph."""
    return list(ga.Executor().run(ga.schedule(graph), dict(feed), list(names), scope=ga.Scope()))


def agrees(before: ga.Graph, after: ga.Graph, names: Sequence[str]) -> bool:
    """Whether two graphs compute the same under the names, on random inputs of their own shapes."""
    rng = np.random.default_rng(7)
    feed = {v.name: rng.normal(size=[4 if e == -1 else e for e in v.shape or ()]).astype(v.dtype or "float64") for v in before.inputs}
    pairs = zip(arrays_of(before, feed, names), arrays_of(after, feed, names), strict=True)
    return all(a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, equal_nan=True) for a, b in pairs)


def applied(rule: PatternRule, graph: ga.Graph) -> list[str]:
    """The types of the operators after the rule, which keeps names, types and results."""
    before, names = graph.clone(), [value.name for value in graph.targets]
    types = {value.name: value.type for value in graph.targets}
    assert greedily(graph, rule)
    assert {value.name: value.type for value in graph.targets} == types
    assert agrees(before, graph, names)
    return type_names(graph)


def scales(first: dict[str, Any], second: dict[str, Any]) -> ga.Graph:
    return lowered(("scale", "x", "h", first), ("scale", "h", "y", second))


@ga.rewrite
def log_exp(x: Any) -> Any:
    """Log undoes exp."""
    return ops.log(ops.exp(x)), x


@ga.rewrite
def add_zero(x: Any, *, c: Any) -> Any:
    """Zero adds nothing."""
    return ops.elementwise_add(x, ga.constant(c)), x, c == 0


@ga.rewrite
def relu_twice(x: Any) -> Any:
    """relu changes nothing after relu."""
    return ops.relu(ops.relu(x)), ops.relu(x)


class Counting(Rule):
    """Remembers what it is asked about, and does nothing."""

    name = "counting"

    def __init__(self, depth: int = 1, types: frozenset[str] | None = None) -> None:
        self.depth = depth
        self.types = types
        self.seen: list[Op] = []

    def rewrite(self, op: Op) -> bool:
        self.seen.append(op)
        return False

    def take(self) -> list[str]:
        """The types of the operators it was asked about since the last time."""
        taken, self.seen = [op.type for op in self.seen], []
        return taken


with passes():

    @dataclass(frozen=True)
    class Apply(Pass):
        """Apply the rules log-exp and add-zero."""

        name = "apply"

        def apply(self, graph: ga.Graph) -> bool:
            return rewrite_greedily(graph, RuleSet(log_exp, add_zero), self)

    @dataclass(frozen=True)
    class Fail(Pass):
        """Fail where an operator of a type is found."""

        name = "fail"
        at: str = "cos"

        def apply(self, graph: ga.Graph) -> bool:
            if any(op.type == self.at for op in graph.ops):
                raise ZeroDivisionError(f"{self.at} was found")
            return False
