"""From a graph back to an ordered list of operators over names.

Every value keeps its name where it can. Where two values of one name live at the same time,

    x#0 ─▶ increment ─▶ x#1          x@SAVED@0 = assign(x)
     └───────────────▶ tanh     ⇒    x = increment(x)
                                     y = tanh(x@SAVED@0)

the name goes to the final value, and to a value given from outside at the start (which is then
copied, as above); any other one gets a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphad.graph.collector import paused_collector
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Slots, Value
from graphad.program import EMPTY, Block, Operator, Program, Variable

Names = dict[Value, str]


def schedule(graph: Graph) -> Program:
    """A new program that computes the graph; ``schedule(lower(p))`` has p's operators in p's order.

    Raises:
        InvalidGraph: operators wait for one another in a cycle.
    """
    with paused_collector():
        program = Program()
        block = program.global_block()
        if graph.block is not None:
            program = graph.block.program.clone_empty()
            block = program.block(graph.block.idx)
        _fill(block, graph, reuse=False)
        return program


def write_back(graph: Graph) -> None:
    """Bring the program that the graph was lowered from up to the graph; unchanged operators stay the same objects."""
    assert graph.block is not None
    with paused_collector():
        _fill(graph.block, graph, reuse=True)


def _fill(block: Block, graph: Graph, reuse: bool) -> None:
    ops = graph.ordered_ops()
    plan = _Naming(graph).plan()
    if graph.block is not None and graph.block is not block:
        block.vars = {name: var.copy_to(block) for name, var in graph.block.vars.items()}
    emitted = _Emitter(block, plan, reuse)
    for value in graph.inputs:
        emitted.declare(value.name, value)
    block.ops = emitted.all_operators(ops) if plan.names or plan.copies else emitted.plain_operators(ops)
    block.program.names.skip(plan.names.values())
    if graph.block is not None and graph.lost_operators:
        _drop_leftovers(block, graph.block)


def _drop_leftovers(block: Block, origin: Block) -> None:
    """Forget the variables that only removed operators touched."""
    used = {n for op in block.ops for n in (*op.input_names(), *op.output_names())}
    touched = {n for op in origin.ops for n in (*op.input_names(), *op.output_names())} - used
    block.vars = {name: var for name, var in block.vars.items() if var.persistable or name not in touched}


@dataclass
class _Plan:
    """Names of values where they differ from their own, and copies to make before an operator."""

    names: Names = field(default_factory=dict)
    copies: dict[Op, list[tuple[Value, str]]] = field(default_factory=dict)
    from_copy: dict[Op, dict[Value, str]] = field(default_factory=dict)


class _Naming:
    """Decides which value has a contested name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.result = _Plan()
        self.numbers: dict[str, int] = {}

    def plan(self) -> _Plan:
        for name in self.graph.values.contested:
            if name != EMPTY:
                self._settle(self.graph.versions(name))
        return self.result

    def _settle(self, versions: tuple[Value, ...]) -> None:
        if len(versions) < 2:
            return
        final = versions[-1]
        in_order = sorted(versions, key=_written_at)
        holder: Value | None = None
        for value in in_order:
            if holder is not None and (holder is final or _last_read(holder) > _written_at(value)):
                holder = self._evict(holder, value, final)
            else:
                holder = value

    def _evict(self, holder: Value, value: Value, final: Value) -> Value:
        """Both live at once: one of them gets another name; return who has the name from here on."""
        if holder is final:
            self.result.names[value] = self._fresh(value)
            return holder
        if holder.writers:
            self.result.names[holder] = self._fresh(holder)
            return value
        self._copy(holder, value)
        return value

    def _copy(self, holder: Value, value: Value) -> None:
        writer = value.writers[0]
        name = self._fresh(holder)
        self.result.copies.setdefault(writer, []).append((holder, name))
        for reader in holder.readers:
            if reader.order > writer.order:
                self.result.from_copy.setdefault(reader, {})[holder] = name

    def _fresh(self, value: Value) -> str:
        n, values = self.numbers.get(value.name, 0), self.graph.values
        while values.taken(name := f"{value.name}@SAVED@{n}"):
            n += 1
        self.numbers[value.name] = n + 1
        return name


def _written_at(value: Value) -> int:
    return value.writers[0].order if value.writers else -1


def _last_read(value: Value) -> int:
    return max((op.order for op in value.readers), default=-1)


class _Emitter:
    """Writes operators and declarations into a block."""

    def __init__(self, block: Block, plan: _Plan, reuse: bool) -> None:
        self.block = block
        self.plan = plan
        self.reuse = reuse

    def plain_operators(self, ops: list[Op]) -> list[Operator]:
        """The operators where every value keeps its own name, which is nearly always."""
        declared, result = self.block.vars, []
        for op in ops:
            outputs = {}
            for slot, values in op.outputs.items():
                names = outputs[slot] = [values[0].name] if len(values) == 1 else [v.name for v in values]
                for i, name in enumerate(names):
                    if name not in declared:
                        self.declare(name, values[i])
            inputs = {slot: [v[0].name] if len(v) == 1 else [x.name for x in v] for slot, v in op.inputs.items()}
            result.append(self._operator(op, inputs, outputs))
        return result

    def all_operators(self, ops: list[Op]) -> list[Operator]:
        """The operators, each behind the copies to make before it."""
        return [operator for op in ops for operator in self._with_copies(op)]

    def _with_copies(self, op: Op) -> Iterator[Operator]:
        for value, name in self.plan.copies.get(op, ()):
            yield self._copy_of(value, name)
        for value in op.writes():
            self.declare(self.plan.names.get(value, value.name), value)
        yield self._operator(op, self._named(op.inputs, self.plan.from_copy.get(op)), self._named(op.outputs, None))

    def _operator(self, op: Op, inputs: dict[str, list[str]], outputs: dict[str, list[str]]) -> Operator:
        old = op.operator
        if self.reuse and old is not None and (old.block, old.inputs, old.outputs, old.attrs) == (self.block, inputs, outputs, op.attrs):
            return old
        return Operator(self.block, op.type, inputs, outputs, dict(op.attrs), op.role, op.source, op.made_by)

    def _named(self, slots: Slots, copies: dict[Value, str] | None) -> dict[str, list[str]]:
        local = {**self.plan.names, **copies} if copies else self.plan.names
        return {slot: [local.get(v) or v.name for v in values] for slot, values in slots.items()}

    def _copy_of(self, value: Value, name: str) -> Operator:
        self.block.vars[name] = Variable.trusted(self.block, name, value.shape, value.dtype)
        return Operator(self.block, "assign", {"X": [value.name]}, {"Out": [name]}, {}, made_by="schedule")

    def declare(self, name: str, value: Value) -> None:
        """Declare the variable of a value, if the block does not yet."""
        if name in self.block.vars or name == EMPTY:
            return
        var = value.var
        if var is None or var.name != name:
            self.block.vars[name] = Variable.trusted(self.block, name, value.shape, value.dtype, value.stop_gradient)
        elif var.block.idx == self.block.idx:
            self.block.vars[name] = var.copy_to(self.block)
