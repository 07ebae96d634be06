"""From a program's block to a graph: each writing of a name becomes a value of its own.

x = increment(x)            x#0 ─▶ increment ─▶ x#1
y = tanh(x)          ⇒                           └─▶ tanh ─▶ y
"""

from __future__ import annotations

from graphad.errors import InvalidType
from graphad.graph.collector import collect_if_due, paused_collector
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Slots, Value
from graphad.program import Block, Operator, Program, Variable
from graphad.types import Shape


def lower(program: Program) -> Graph:
    """The graph of a program's block 0, with the same operators in the same order.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[3], append_batch_size=False)
    ...     y = ga.layers.tanh(x)
    >>> print(lower(program))
    graph (x: float32[3]) {
      tanh(X=x) -> (Out=tanh_0.tmp_0: float32[3])
    }
    <BLANKLINE>
    """
    if not isinstance(program, Program):
        raise InvalidType(f"lower takes a Program, not {program!r}")
    collect_if_due()
    with paused_collector():
        return lower_block(program.global_block())


def lower_block(block: Block) -> Graph:
    """The graph of one block; names it reads before writing them are the graph's inputs."""
    graph = Graph(block)
    current: dict[str, Value] = {}
    for operator in block.ops:
        _lower_operator(graph, operator, current)
    return graph


def _lower_operator(graph: Graph, operator: Operator, current: dict[str, Value]) -> None:
    block = operator.block
    inputs: Slots = {}
    for slot, names in operator.inputs.items():
        inputs[slot] = tuple([current.get(name) or _given(graph, block, name, current) for name in names])
    outputs: Slots = {}
    for slot, names in operator.outputs.items():
        values = []
        for name in names:
            current[name] = value = graph.add_version(name, *_declared(block, name))
            values.append(value)
        outputs[slot] = tuple(values)
    op = Op(graph, operator.type, inputs, outputs, operator.attrs)
    op.role, op.source, op.made_by, op.operator = operator.role, operator.source, operator.made_by, operator
    graph.link(op)


def _given(graph: Graph, block: Block, name: str, current: dict[str, Value]) -> Value:
    value = current[name] = graph.add_input(name, *_declared(block, name))
    return value


def _declared(block: Block, name: str) -> tuple[Shape | None, str | None, Variable | None]:
    var = block.vars.get(name)
    if var is None and block.has_var_recursive(name):
        var = block.var_recursive(name)
    return (None, None, None) if var is None else (var._shape, var._dtype, var)
