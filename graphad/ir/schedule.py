"""From a graph back to ordered lists of operators over names, nested graphs to blocks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphad.errors import InvalidGraph, InvalidType
from graphad.ir.graph import Graph, drop_outdated_marks
from graphad.ir.nodes import Op, Slots, Value
from graphad.ir.regions import OTHERWISE, carried_count, definition_of, is_forward_loop, operands, results_of
from graphad.ir.residuals import drop_all_unread_residuals, forward_graph, is_read, residual_inputs
from graphad.ops import REGISTRY, BranchDef, ControlDef, lookup
from graphad.program import BACKWARD, EMPTY, FORWARD, RANDOM_STREAM, Block, Operator, Program, Variable, located, settle_streams
from graphad.program.block import check_depth
from graphad.program.gc_pause import paused_collector

# -- names -----------------------------------------------------------------------------------------
# Which name each value of a graph has in a block: its own where that works.
#
# Where two values of one name live at the same time,
#
#     x#0 ─▶ increment ─▶ x#1          x@SAVED@0 = assign(x)
#      └───────────────▶ tanh     ⇒    x = increment(x)
#                                      y = tanh(x@SAVED@0)
#
# the name goes to the final value, and to a value given from outside at the start (which is then
# copied, as above); any other one gets a name of its own. The results of a nested graph, and its residuals, are live at its end.

ValueNames = dict[Value, str]
UNDEFINED = "undefined"  # the operator that says that there is no value


@dataclass
class Plan:
    """Names of values where they differ from their own, and copies to make before an operator.

    ``from_copy`` says by which name an operator reads a copied value, ``captured`` by which a loop does that overwrites it itself,
    ``ends`` by which it is known at the end.
    """

    names: ValueNames = field(default_factory=dict)
    copies: dict[Op, list[tuple[Value, str]]] = field(default_factory=dict)
    from_copy: dict[Op, ValueNames] = field(default_factory=dict)
    captured: dict[Op, ValueNames] = field(default_factory=dict)
    ends: ValueNames = field(default_factory=dict)

    def name(self, value: Value) -> str:
        """The name a value is written under."""
        return self.names.get(value, value.name)

    def end(self, value: Value) -> str:
        """The name a value is known by at the end."""
        return self.ends.get(value) or self.name(value)

    def read(self, op: Op, value: Value) -> str:
        """The name an operator reads a value by."""
        copies = self.from_copy.get(op)
        return (copies and copies.get(value)) or self.name(value)


def planned(graph: Graph) -> Plan:
    """The names of a graph whose operators know their order (``Graph.ordered_ops``)."""
    naming = _Naming(graph)
    for name in graph.values.contested:
        if name != EMPTY:
            naming.settle(graph.versions(name))
    return naming.plan


class _Naming:
    """Decides which value has a contested name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plan = Plan()
        self.numbers: dict[str, int] = {}
        self.lasting = {*graph.results, *graph.residuals}

    # Linear scan over live ranges, as in register allocation (M. Poletto and V. Sarkar, "Linear scan register allocation", 1999), with the
    # one name in the place of the registers. A value is live from its writer to its last reader; results and residuals are live to the
    # end.
    def settle(self, versions: tuple[Value, ...]) -> None:
        """Give the name to one value after the other, as long as no two need it at once."""
        if len(versions) < 2:
            return
        final = versions[-1]
        holder: Value | None = None
        # Greedy over the starts of the live ranges: only the holder and the next value can compete, since all before were settled.
        for value in sorted(versions, key=_written_at):
            if holder is not None and (holder is final or self._overlaps(holder, value)):
                holder = self._evict(holder, value, final)
            else:
                holder = value

    def _last_read(self, value: Value) -> float:
        if value in self.lasting:
            return math.inf
        # A loop reads what it captures in every iteration, so also after its own writes: half an order later than any other reader.
        return max((op.order + (0.5 if op.graphs and _captures(op, value) else 0) for op in value.readers), default=-1)

    def _overlaps(self, holder: Value, value: Value) -> bool:
        """Whether a value still needs its name where a later one is written; what one operator writes is there at once."""
        return self._last_read(holder) > _written_at(value) or (bool(holder.writers) and _written_at(holder) == _written_at(value))

    def _evict(self, holder: Value, value: Value, final: Value) -> Value:
        """Both live at once: one of them gets another name; return who has the name from here on."""
        if holder is final:
            self.plan.names[value] = self._fresh(value)
            return holder
        # The earlier value gives way, since the name belongs to the last one at the end. An input has no writer that could use another
        # name: it is copied before the name is overwritten, and later readers read the copy.
        if holder.writers:
            self.plan.names[holder] = self._fresh(holder)
            return value
        self._copy(holder, value)
        return value

    def _copy(self, holder: Value, value: Value) -> None:
        writer = value.writers[0]
        name = self.plan.ends[holder] = self._fresh(holder)
        self.plan.copies.setdefault(writer, []).append((holder, name))
        for reader in holder.readers:
            # The operator that overwrites the name reads its operands before it writes, so it needs no copy; a loop that captures it does.
            if reader.order > writer.order:
                self.plan.from_copy.setdefault(reader, {})[holder] = name
            elif reader is writer and reader.graphs and _captures(reader, holder):
                self.plan.captured.setdefault(reader, {})[holder] = name

    def _fresh(self, value: Value) -> str:
        n, values = self.numbers.get(value.name, 0), self.graph.values
        while values.taken(name := f"{value.name}@SAVED@{n}"):
            n += 1
        self.numbers[value.name] = n + 1
        return name


def _captures(op: Op, value: Value) -> bool:
    """Whether a loop reads a value in every iteration, also when it has written what has the value's name."""
    return is_forward_loop(op) and value in operands(op)[carried_count(op) :]


def _written_at(value: Value) -> int:
    return value.writers[0].order if value.writers else -1


# -- nested graphs ---------------------------------------------------------------------------------
# Nested graphs prepared to become blocks: under the names around them, with ``assign`` operators for copies.


def settle_body(graph: Graph, inputs: Sequence[str], results: Sequence[str], role: str) -> set[str]:
    """Make a graph work on names: its inputs are the variables ``inputs`` around it, and at its end ``results`` hold its results.

    Return the names around that it reads or writes; any other it may use for a variable of its own.
    """
    # First the inputs get the names around them; then nothing else may write a name that is only read, and variables of the block's own
    # give way to results; at the end each result is under its name, by a copy where it has another one.
    _merge_repeated(graph, inputs)
    free_names = {*_untouched(graph, inputs, results), *_undefined(graph, results)}
    for value, name in zip(graph.inputs, inputs, strict=True):
        if name in free_names:
            _rename(graph, value)
        else:
            _name_first(graph, value, name)
    _keep_off(graph, set(inputs) - set(results) - free_names)
    _keep_own_apart(graph, set(results) - free_names)
    for i, (value, name) in enumerate(zip(list(graph.results), results, strict=True)):
        if name in free_names:
            continue
        if value.name != name or graph.values.last(name) is not value or graph.results.count(value) > 1:
            graph.results[i] = _copied_to(graph, value, name, role)
    return {*inputs, *results} - free_names


def _untouched(graph: Graph, inputs: Sequence[str], results: Sequence[str]) -> Iterator[str]:
    """The names around whose values nothing in the graph reads; what goes in under them comes out again, if anything does."""
    values = set(graph.residuals)
    # A name is untouched if its input is read by nothing, and the result of that name, if any, is the input itself, and only once.
    out = dict(zip(results, graph.results, strict=True))
    used_names = set()
    for name, value in zip(inputs, graph.inputs, strict=True):
        if value.readers or value in values or out.get(name, value) is not value or graph.results.count(value) > (name in out):
            used_names.add(name)
    yield from (name for name in inputs if name not in used_names)


def _undefined(graph: Graph, results: Sequence[str]) -> Iterator[str]:
    """The names around that are left without a value."""
    for name, value in zip(results, graph.results, strict=True):
        if value.writer is not None and is_silent(value.writer):
            yield name


def is_silent(op: Op) -> bool:
    """Whether an operator only says that there is no value, which in a program goes without saying."""
    return op.type == UNDEFINED and op.made_by is None


def _may_be_fed(op: Op, plan: Plan) -> bool:
    """Whether what has no value is the first under its name in the outermost block: a feed or the scope may give it one there.

    ``lower`` cannot tell where one branch writes a name that nothing reads; once a pass inlines the other branch, what was there stays.
    """
    (value,) = op.writes()
    return op.operator is None and plan.name(value) == value.name and op.graph.values.first(value.name) is value


def settle_gradient(graph: Graph, names: Mapping[Value, str]) -> None:
    """Make a gradient's graph read residuals by the names that they have in the forward block; the rest keeps off those.

    Args:
        graph: the gradient's graph.
        names: those of its inputs for residuals that are read, and their names.
    """
    for value, name in names.items():
        _name_first(graph, value, name)
    _keep_off(graph, set(names.values()))
    used_names = set(names.values())
    for value in graph.inputs:
        if value in names:
            continue
        if value.name in used_names:
            _rename(graph, value)
        used_names.add(value.name)


def _merge_repeated(graph: Graph, inputs: Sequence[str]) -> None:
    """Two inputs of one name are one value: read the first."""
    first: dict[str, Value] = {}
    for value, name in zip(graph.inputs, inputs, strict=True):
        if first.setdefault(name, value) is not value:
            graph.replace(value, first[name])


def _name_first(graph: Graph, value: Value, name: str) -> None:
    """Make a value the first one of a name."""
    if graph.values.first(name) is not value:
        graph.values.discard(value)
        value.name = name
        graph.values.add_first(value)


def _keep_off(graph: Graph, names: Collection[str]) -> None:
    """Rename what would overwrite a variable that is only read."""
    for name in sorted(names):
        for value in graph.versions(name):
            if value.writers:
                _rename(graph, value)


def _keep_own_apart(graph: Graph, names: Collection[str]) -> None:
    """Rename what was a variable of the block's own, now that a variable around it is written under that name."""
    for name in sorted(names):
        for value in graph.versions(name):
            if value.var is not None and value.var.block is graph.block:
                _rename(graph, value)


def _rename(graph: Graph, value: Value) -> None:
    graph.values.discard(value)
    value.name = graph.values.numbered(value.name, "{}@INNER@{}")
    graph.values.add(value)


def _copied_to(graph: Graph, value: Value, name: str, role: str) -> Value:
    copy = graph.add_version(name, value.shape, value.dtype)
    copy.kind = value.kind
    graph.add_op("assign", {"X": [value]}, {"Out": [copy]}, role=role).made_by = "schedule"
    return copy


# -- operators in order ----------------------------------------------------------------------------
# From a graph back to ordered lists of operators over names, nested graphs to blocks. ``graphad.ir.schedule`` decides the names.

SlotNames = dict[str, list[str]]


def schedule(graph: Graph) -> Program:
    """A new program that computes the graph; ``schedule(lower(p))`` has p's operators in p's order.

    Raises:
        InvalidGraph: operators wait for one another in a cycle.
        TypeError: it is not a graph.
        ValueError: graphs are nested more than 100 deep.
    """
    check_graph("schedule takes", graph)
    with paused_collector(len(graph.ops)):
        program = Program()
        block = program.global_block()
        if graph.block is not None:
            program = graph.block.program.clone_empty()
            block = program.block(graph.block.idx)
        _Schedule(program, reuse=False).root(block, graph)
        return program


def check_graph(what: str, graph: object) -> None:
    """Refuse an argument that is not a graph; ``what`` begins the message: "schedule takes"."""
    if not isinstance(graph, Graph):
        hint = "; graphad.lower(program) makes one" if isinstance(graph, Program) else ""
        raise InvalidType(f"{what} a Graph, not {graph!r}{hint}")


def write_back(graph: Graph) -> None:
    """Bring the program that the graph was lowered from up to the graph; unchanged operators stay the same objects."""
    assert graph.block is not None
    with paused_collector(len(graph.ops)):
        _Schedule(graph.block.program, reuse=True).root(graph.block, graph)


class _Schedule:
    """One program being written: the blocks in use, which graph went to which, and the names of the values that gradients read."""

    def __init__(self, program: Program, reuse: bool) -> None:
        self.program = program
        self.reuse = reuse
        self.used: set[int] = set()
        self.home: dict[Graph, int] = {}
        self.kept: dict[Value, str] = {}
        self.streams: dict[Operator, str | None] = {}

    def root(self, block: Block, graph: Graph) -> None:
        """Write a whole graph; where graphs are nested a copy of it, since copies between names are added to those."""
        for subgraph in graph.tree():
            drop_outdated_marks(subgraph)
            if graph.controls:
                check_depth(_depth(subgraph), subgraph.owner.source if subgraph.owner is not None else None)
        self.used.add(block.idx)
        # Blocks that the removed operators held have no place in the program any more.
        has_blocks = graph.block is not None and len(graph.block.program.blocks) > 1
        before = set(_held(graph.block)) if has_blocks and graph.block is not None else set()
        # Settling nested graphs renames values and adds copies. The graph that the caller holds stays as it is.
        if graph.controls:
            graph = graph.clone()
            drop_all_unread_residuals(graph)
        self.fill(block, graph, ())
        if indices := before - self.used:
            self.program.drop_blocks(indices)
        if self.streams:
            settle_streams(self.program, self.streams)

    def fill(
        self, block: Block, graph: Graph, around: Collection[str], works_on_names: bool = False, unread: Collection[Value] = ()
    ) -> Plan:
        """Write a graph into a block; ``around`` are the names that belong to blocks around it.

        A block that ``works_on_names`` has its inputs from there; to any other they are given. ``unread`` are those that another
        gradient of the same operator reads.
        """
        ops = graph.ordered_ops()
        plan = planned(graph)
        silent = {op: None for op in ops if op.type == UNDEFINED and is_silent(op) and (graph.parent is not None or _may_be_fed(op, plan))}
        if silent:
            ops = [op for op in ops if op not in silent]
        # The block's own declarations first: variables that no operator touches are kept, as a user declared them.
        origin = graph.block
        self.home[graph] = block.idx
        if origin is not None and origin is not block:
            block.vars = {name: var.copy_to(block) for name, var in origin.vars.items()}
        for name in around:
            block.vars.pop(name, None)
        block.vars.update((name, var.copy_to(block)) for name, var in graph.redeclared.items() if name in block.vars)
        writer = _Writer(self, block, plan, around)
        for value in graph.inputs:
            if value.readers or not (works_on_names or value in unread):
                writer.declare(value.name, value)
        # No name was contested: then each value has its own, and operators need no look at the plan.
        simple = not (plan.names or plan.copies or graph.controls)
        before = list(origin.ops) if origin is not None and graph.lost_operators else []
        block.ops = writer.plain_operators(ops) if simple else writer.all_operators(ops)
        self.program.names.skip(plan.names.values())
        if before:
            _drop_leftovers(block, before, {plan.name(value) for value in graph.targets})
        if graph.parent is None:
            for value in (value for op in silent for value in op.writes()):
                writer.declare(value.name, value)
        self.kept.update((value, plan.end(value)) for value in graph.residuals)
        return plan

    def block_of(self, graph: Graph, parent: int) -> Block:
        """The block to write a nested graph to: the one it came from, unless that is taken."""
        old = graph.block
        if old is not None and old.idx not in self.used and old.idx < len(self.program.blocks):
            block = self.program.blocks[old.idx]
            if block.parent_idx == parent:
                self.used.add(old.idx)
                return block
        block = Block(self.program, len(self.program.blocks), parent)
        self.program.blocks.append(block)
        self.used.add(block.idx)
        return block


def _depth(graph: Graph) -> int:
    """The nesting depth of a graph. A gradient's graph counts as nested in its forward graph."""
    depth = 0
    while (around := forward_graph(graph) or graph.parent) is not None:
        graph, depth = around, depth + 1
    return depth


def _held(block: Block) -> Iterator[int]:
    """The blocks that operators of a block hold, and those that operators of these hold."""
    for op in block.ops:
        for inner in (value for value in op.attrs.values() if isinstance(value, Block)):
            yield inner.idx
            yield from _held(inner)


def _drop_leftovers(block: Block, before: Sequence[Operator], requested: set[str]) -> None:
    """Forget the variables that only removed operators touched, unless they are requested: data may be."""
    live_names = requested.union(n for op in block.ops for n in (*op.input_names(), *op.output_names()))
    dead_names = {n for op in before for n in (*op.input_names(), *op.output_names())} - live_names
    block.vars = {name: var for name, var in block.vars.items() if var.persistable or name not in dead_names}


def _names_by_slot(slots: Slots) -> SlotNames:
    names = {}
    for slot, values in slots.items():
        names[slot] = [values[0].name] if len(values) == 1 else [value.name for value in values]
    return names


def _is_same(op: Op, operator: Operator, block: Block) -> bool:
    """Whether an operator of a block says what one of the graph does, each value under its own name."""
    if operator.type != op.type or operator.block is not block or operator.attrs is not op.attrs:
        return False
    return _has_names(op.inputs, operator.inputs) and _has_names(op.outputs, operator.outputs)


def _has_names(slots: Slots, names_by_slot: Mapping[str, list[str]]) -> bool:
    if len(slots) != len(names_by_slot):
        return False
    for slot, values in slots.items():
        names = names_by_slot.get(slot)
        if names is None:
            return False
        if len(values) == 1 == len(names):
            if values[0].name != names[0]:
                return False
        elif [value.name for value in values] != names:
            return False
    return True


class _Writer:
    """Writes operators and declarations into a block."""

    def __init__(self, schedule: _Schedule, block: Block, plan: Plan, around: Collection[str]) -> None:
        self.schedule = schedule
        self.block = block
        self.plan = plan
        self.around = around
        self.copied_forward = {v for reader, copies in plan.from_copy.items() if reader.role == FORWARD for v in copies}

    def plain_operators(self, ops: list[Op]) -> list[Operator]:
        """The operators where every value keeps its own name, which is nearly always."""
        block, reuse, result = self.block, self.schedule.reuse, []
        variables, declared_around = block.vars, bool(self.around)
        registry, trusted = REGISTRY, Variable.trusted
        for op in ops:
            # The two ordinary cases of ``_operator`` first: nothing has changed, and then nothing is written; or a pass has made it.
            old, outputs, definition = op.operator, op.outputs, registry.get(op.type)
            is_plain = definition is None or not definition.random
            is_kept = old is not None and is_plain and reuse and _is_same(op, old, block)
            # What a variable was lowered from is declared where its operator is kept.
            has_variables = is_kept and not declared_around
            for values in outputs.values():
                for value in values:
                    if (has_variables and value.var is not None) or (name := value.name) in variables:
                        continue
                    if value.var is None and not declared_around and name != EMPTY:  # made by a pass
                        variables[name] = trusted(block, name, value.shape, value.dtype, False, value.kind)
                    else:
                        self.declare(name, value)
            if is_kept:
                assert old is not None
                result.append(old)
            elif old is None and is_plain:
                names_read, names_written = _names_by_slot(op.inputs), _names_by_slot(outputs)
                result.append(Operator(block, op.type, names_read, names_written, dict(op.attrs), op.role, op.source, op.made_by))
            else:
                result.append(self._operator(op, _names_by_slot(op.inputs), _names_by_slot(outputs), op.attrs))
        return result

    def all_operators(self, ops: list[Op]) -> list[Operator]:
        """The operators, each after the copies to make before it."""
        return [operator for op in ops for operator in self._with_copies(op)]

    def _with_copies(self, op: Op) -> Iterator[Operator]:
        for value, name in self.plan.copies.get(op, ()):
            yield self._copy(value.name, name, value, self._role_of_copy(op, value))
        for value in op.writes():
            self.declare(self.plan.name(value), value)
        if op.graphs:
            yield from self._control(op)
        else:
            yield self._operator(op, self._reads(op), self._writes(op), op.attrs)

    def _reads(self, op: Op) -> SlotNames:
        return {slot: [self.plan.read(op, v) for v in values] for slot, values in op.inputs.items()}

    def _writes(self, op: Op) -> SlotNames:
        return {slot: [self.plan.name(v) for v in values] for slot, values in op.outputs.items()}

    def _operator(self, op: Op, inputs: SlotNames, outputs: SlotNames, attrs: Mapping[str, object], op_type: str | None = None) -> Operator:
        old, op_type = op.operator, op_type or op.type
        # Fluid writes arrays in place, without a slot for what was there: ``lower`` added the operand, and it goes again.
        definition = op.definition
        slot_left_out = "" if definition is None else definition.extends
        if slot_left_out and old is not None and inputs.get(slot_left_out) == outputs["Out"] and slot_left_out not in old.inputs:
            inputs = {slot: names for slot, names in inputs.items() if slot != slot_left_out}
        if definition is None or not definition.random:
            return self._made_or_kept(op, old, inputs, outputs, attrs, op_type)
        # The stream is written only where the program says it already. Otherwise the place of the operator decides, and ``settle_streams``
        # adds the attribute where that would draw other numbers.
        if old is not None and RANDOM_STREAM in old.attrs:
            attrs = {**{name: attrs.get(name) for name in old.attrs if name in attrs or name == RANDOM_STREAM}, **attrs}
            attrs[RANDOM_STREAM] = op.stream
        operator = self._made_or_kept(op, old, inputs, outputs, attrs, op_type)
        self.schedule.streams[operator] = op.stream
        return operator

    def _made_or_kept(
        self, op: Op, old: Operator | None, inputs: SlotNames, outputs: SlotNames, attrs: Mapping[str, object], op_type: str
    ) -> Operator:
        """The operator of the program that the graph was lowered from, where that is written back and it is the same; else a new one."""
        if old is not None and self.schedule.reuse:
            # Write-back keeps the operator objects of the program where nothing has changed: users may hold on to them.
            is_same = (old.type, old.block, old.inputs, old.outputs, old.attrs) == (op_type, self.block, inputs, outputs, attrs)
            if is_same:
                return old
        stored_desc = None if old is None or old.type != op_type else old.stored
        return Operator(self.block, op_type, inputs, outputs, dict(attrs), op.role, op.source, op.made_by, stored_desc)

    def _role_of_copy(self, op: Op, value: Value) -> str:
        """The role of a copy made before an operator overwrites a value: backward if only gradients read it."""
        return (
            FORWARD if value in self.copied_forward or value in self.plan.captured.get(op, {}) or value in value.graph.results else BACKWARD
        )

    def _copy(self, source: str, name: str, value: Value, role: str) -> Operator:
        if name not in self.block.vars and name not in self.around:
            self.block.vars[name] = Variable.trusted(self.block, name, value.shape, value.dtype, type=value.kind)
        return Operator(self.block, "assign", {"X": [source]}, {"Out": [name]}, {}, role, made_by="schedule")

    def declare(self, name: str, value: Value) -> None:
        """Declare the variable of a value, unless the block or one around it has it already."""
        if name in self.block.vars or name in self.around or name == EMPTY:
            return
        var = value.var
        if var is None:  # a pass has made the value
            self.block.vars[name] = Variable.trusted(self.block, name, value.shape, value.dtype, type=value.kind)
        elif var.name != name:
            marks = (value.stop_gradient, value.kind, value.error_clip)
            self.block.vars[name] = Variable.trusted(self.block, name, value.shape, value.dtype, *marks)
        else:
            self.block.vars[name] = var.copy_to(self.block)

    # -- operators with nested graphs ------------------------------------------------------------

    def _control(self, op: Op) -> Iterator[Operator]:
        definition = definition_of(op)
        if definition.is_grad:
            yield self._gradient(op, definition)
            return
        names_inside = self.plan.captured.get(op, {})
        values, results = list(operands(op)), [self.plan.name(v) for v in results_of(op)]
        names = [names_inside.get(v) or self.plan.read(op, v) for v in values]
        loop = is_forward_loop(op)
        if loop:
            count = carried_count(op)
            sources = [self.plan.read(op, v) for v in values[:count]]
            silent_writers = {name: v.writers[0] for name, v in zip(results, values, strict=False) if v.writers and is_silent(v.writers[0])}
            starts = [name if name in silent_writers else source for name, source in zip(results, sources, strict=True)]
            # Inside the block an operand has the name of the result that it becomes, so the starts have to be under those names.
            yield from self._parallel_copies(results, starts, results_of(op), op.role)
            yield from self._left_without(silent_writers, dict(zip(results, sources, strict=True)))
            names = [*results, *names[count:]]
        inputs, outputs = self._reads(op), self._writes(op)
        inputs[definition.operands] = names
        if loop:
            inputs[definition.condition] = results[-1:]
        op_type, graphs = op.type, dict(op.graphs)
        if OTHERWISE in graphs:
            op_type, graphs = self._conditional(op, definition, names, results)
            two_sided = lookup(op_type)
            assert isinstance(two_sided, ControlDef)
            inputs = inputs if op_type == op.type else {two_sided.condition: inputs[definition.condition], two_sided.operands: names}
        attrs = {name: self._body(graph, names, results, op.role) for name, graph in graphs.items()}
        yield self._as_written(op, inputs, outputs, {**attrs, **op.attrs}, definition, op_type)

    def _conditional(self, op: Op, definition: ControlDef, names: list[str], results: list[str]) -> tuple[str, dict[str, Graph]]:
        """An operator with one block if nothing is left to do where it is not taken, else one with two."""
        body, otherwise = op.graphs.values()
        name_of = dict(zip(otherwise.inputs, names, strict=True))
        # The second block can be left out if each result there is what the name holds anyway, or has no value.
        changed_results = [
            result for result, value in zip(results, otherwise.results, strict=True) if value.given and name_of[value] != result
        ]
        types = [value.writers[0].type for value in otherwise.results if value.writers]
        if not changed_results and all(t == UNDEFINED for t in types):
            return op.type, {definition.blocks[0]: body}
        two_sided = lookup(definition.two_sided) if isinstance(definition, BranchDef) else definition
        assert isinstance(two_sided, BranchDef)
        return two_sided.type, dict(zip(two_sided.blocks, (body, otherwise), strict=True))

    def _parallel_copies(self, names: Sequence[str], sources: Sequence[str], values: Sequence[Value], role: str) -> Iterator[Operator]:
        """Bring sources under other names as if all at once: none is overwritten before it is copied."""
        # A copy is safe if nothing left reads its name. Where none is, the copies that are left form cycles: one source moves aside, which
        # opens its cycle (L. Rideau, B. Serpette and X. Leroy, "Tilting at windmills with Coq", 2008).
        moves = {name: (source, value) for name, source, value in zip(names, sources, values, strict=True) if name != source}
        while moves:
            source_names = [source for source, _ in moves.values()]
            free = next((name for name in moves if name not in source_names), None)
            if free is not None:
                source, value = moves.pop(free)
                yield self._copy(source, free, value, role)
                continue
            name, (source, value) = next(iter(moves.items()))
            aside = self.program_name(f"{source}@SAVED")
            yield self._copy(source, aside, value, role)
            moves[name] = (aside, value)

    def _left_without(self, missing: dict[str, Op], sources: dict[str, str]) -> Iterator[Operator]:
        """Take the value from the names of what a loop starts without, where it has another name: what had the name before may be there."""
        for name, op in missing.items():
            if sources[name] != name:
                yield Operator(self.block, op.type, {}, {"Out": [name]}, dict(op.attrs), op.role, made_by="schedule")

    def program_name(self, stem: str) -> str:
        """A name that no block declares."""
        return self.schedule.program.names.generate(stem)

    def _body(self, graph: Graph, names: Sequence[str], results: Sequence[str], role: str) -> Block:
        around = settle_body(graph, names, results, role)
        block = self.schedule.block_of(graph, self.block.idx)
        self.schedule.fill(block, graph, around, works_on_names=True)
        return block

    def _gradient(self, op: Op, definition: ControlDef) -> Operator:
        names_inside: dict[str, list[str]] = {"original_input": [], "original_output_grad": [], "original_input_grad": []}
        blocks, count = {}, len(op.inputs.get("X", ()))
        for name, graph in op.graphs.items():
            forward, residuals = forward_graph(graph), residual_inputs(graph)
            # Residuals have names in the forward block; a gradient's block reads those as they are.
            names = {v: self._kept(op, value) for v, value in residuals.items() if is_read(v)}
            # Before the block is filled: a name that it makes itself must not hide the residual of that name.
            settle_gradient(graph, names)
            block = blocks[name] = self.schedule.block_of(graph, self.schedule.home.get(forward or graph, self.block.idx))
            plan = self.schedule.fill(block, graph, names.values(), unread=residuals.keys() - names.keys())
            arguments = [v.name for v in graph.inputs[: len(operands(op))]]
            names_inside["original_input"] += arguments[:count]
            names_inside["original_output_grad"] += arguments[count:]
            names_inside["original_input_grad"] += [plan.end(v) for v in graph.results]
        return self._as_written(op, self._reads(op), self._writes(op), {**blocks, **names_inside, **op.attrs}, definition, op.type)

    def _kept(self, op: Op, value: Value) -> str:
        """The name under which a forward operator keeps a value."""
        if value not in self.schedule.kept:
            raise InvalidGraph(located(f"{op!r} reads {value!r} of its forward graph, which no operator before it runs", op.source))
        return self.schedule.kept[value]

    def _as_written(
        self, op: Op, inputs: SlotNames, outputs: SlotNames, attrs: dict[str, object], definition: ControlDef, op_type: str
    ) -> Operator:
        """The operator with its names in the order its program had them, if they are the same."""
        results = set(outputs.get(definition.results, ()))
        # Paddle's ``while`` has its condition in a slot of its own, and not among X.
        if is_forward_loop(op):
            inputs[definition.operands] = [name for name in inputs[definition.operands] if name not in inputs[definition.condition]]
        inputs = {slot: names for slot, names in inputs.items() if names}
        old = op.operator
        if old is not None and old.type == op_type:
            exempt = set() if definition.is_grad else results
            if set(inputs.get(definition.operands, ())) - exempt == set(old.inputs.get(definition.operands, ())) - exempt:
                inputs = {slot: old.inputs[slot] if slot == definition.operands else inputs.get(slot, []) for slot in old.inputs}
            if results == set(old.outputs.get(definition.results, ())) and not definition.is_grad:
                outputs = {**{slot: outputs[slot] for slot in old.outputs}, **outputs}
                outputs |= {definition.results: old.outputs[definition.results]} if definition.results in outputs else {}
            attrs = {**{name: attrs[name] for name in old.attrs if name in attrs}, **attrs}
        return self._operator(op, inputs, outputs, attrs, op_type)
