"""The graph: a networkx MultiDiGraph of operators and single-assignment values, changed in a few ways.

    x ─▶ mul ─▶ y        an edge is keyed by the slot it fills: ``mul(x, x)`` is two edges

Operators keep an order (that of the program they came from, or where a pass put them); the order is a
preference, what an operator reads is the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn

import networkx as nx

from graphad.errors import InvalidGraph, InvalidType, InvalidValue
from graphad.ir.clone import cloned, keep_marks
from graphad.ir.nodes import Node, Op, Value, fill_slot, frozen_slots
from graphad.ir.old_names import OldNames
from graphad.ir.pickling import fill, reduced_graph, reduced_node
from graphad.ir.printer import print_graph
from graphad.ir.provenance import Origin, chain, origin_of
from graphad.ir.regions import has_effects, has_ordered_effects
from graphad.ir.residuals import replace_residual, retype_inputs
from graphad.ir.tables import OpList, ValueTable, WideSlots
from graphad.ir.views import Adjacency, NodeTable, PlainResults, predecessors, successors
from graphad.ops.definition import did_you_mean
from graphad.ops.out_kernels import INPLACE
from graphad.program import Block, Variable
from graphad.program.gc_pause import paused_collector
from graphad.types import FLOATS, Shape, joined_shape

# -- journal ---------------------------------------------------------------------------------------
# The state that a graph shares with the graphs nested in it: the current pass, the changes, the claimed properties.

# Properties a graph can have; passes require, clear and establish them, the verifier checks those claimed.
SINGLE_WRITER, TYPED = "single_writer", "typed"


@dataclass
class Journal:
    """The current pass, the changes to the graphs, and the properties that they claim.

    ``requested`` are the names requested when the program was lowered, None for all that are unused, ``history`` the passes that ran.
    ``rewrites`` counts single rewrites, of which there may be ``limit``; ``origin`` describes the last one, ``matched`` are its operators.
    ``touched`` holds, once there is a listener, the operators that changed or may have become dead, in order. ``kept`` are
    tables of passes about the graph, by class: they are dropped when the list is started again, and entries for changed operators are
    checked again. ``memory`` lasts as long as the graph. ``watcher`` is told of every rewrite before it is made: its rule and the
    operators that it sees. ``fired`` collects, if it is a set, the pass and the rule of each rewrite, as texts.
    """

    properties: set[str] = field(default_factory=lambda: {SINGLE_WRITER, TYPED})
    author: str | None = None
    origin: Origin | None = None
    matched: Sequence[Op] = ()
    edits: int = 0
    typings: int = 0
    rewrites: int = 0
    limit: int | None = None
    requested: tuple[str, ...] | None = None
    history: list[Any] = field(default_factory=list)
    touched: list[Op] | None = None
    cursors: dict[object, int] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict)
    watcher: Callable[[str, Sequence[Op]], None] | None = None
    fired: set[str] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether as many rewrites were made as there may be."""
        return self.limit is not None and self.rewrites >= self.limit

    def allows(self, rule: str, ops: Sequence[Op]) -> bool:
        """Count one rewrite of these operators and remember where it comes from; False where the limit is reached."""
        if self.is_exhausted:
            return False
        if self.watcher is not None:
            self.watcher(rule, ops)
        if self.fired is not None:
            self.fired.add(f"{self.author}: {rule}")
        self.rewrites += 1
        self.matched, self.origin = ops, origin_of(self.author, rule, ops)
        return True

    def touch(self, *ops: Op) -> None:
        """Remember operators that changed, or that may have become dead, if there is a listener."""
        if self.touched is not None:
            self.touched += ops

    def leave(self, op: Op) -> None:
        """Remember an operator that is removed, if rewrites are watched."""
        if self.watcher is not None:
            self.touch(op)


# -- marks of what is computed in place ------------------------------------------------------------
# Marks that an operator may compute into the memory of an input: true of a graph as it is, so any change to the graph drops them.


def drop_outdated_marks(graph: Graph) -> bool:
    """Take the marks from a graph that was changed since they were made; return whether there were any."""
    dropped_any = False
    if graph.marked != graph.journal.edits:
        op = graph.ops.first
        while op is not None:
            if INPLACE in op.attrs:
                dropped_any = True
                op.attrs = {name: value for name, value in op.attrs.items() if name != INPLACE}
            op = op.next
    graph.marked = graph.journal.edits
    return dropped_any


def mark(op: Op, value: object) -> None:
    """Mark an operator, or take its mark away (an empty list); no change of the graph itself."""
    drop_outdated_marks(op.graph)
    attrs = {name: old for name, old in op.attrs.items() if name != INPLACE}
    op.attrs = {**attrs, INPLACE: value} if value else attrs
    op.graph.journal.touch(op)


__all__ = ["INPLACE", "drop_outdated_marks", "mark"]


# -- order -----------------------------------------------------------------------------------------
# The order of a graph's operators: theirs where it works, else the closest topological one.


def _reordered(graph: nx.MultiDiGraph, ops: list[Op]) -> list[Op]:  # type: ignore[type-arg]
    """The numbered operators of a graph, which are not in order, in topological order; see ``Graph.ordered_ops``."""
    ops, count = _sorted(ops), len(ops)
    if len(ops) < count:
        cycle = " -> ".join(repr(edge[0]) for edge in nx.find_cycle(graph))
        raise InvalidGraph(f"operators wait for one another in a cycle: {cycle}")
    return ops


def _in_order(ops: list[Op]) -> bool:
    """Whether every operator comes after the writers of what it reads."""
    for op in ops:
        order = op.order
        for values in op.inputs.values():
            for value in values:
                for writer in value.writers:
                    if writer.order >= order:
                        return False
    return True


def _sorted(ops: list[Op]) -> list[Op]:
    """The lexicographically first topological order (Kahn's algorithm with a heap), without the operators that wait for a cycle.

    A value is complete once all its writers have run, an operator is ready once all it reads is complete. Those with ordered effects
    keep their order among themselves, unless what they read is against it.
    """
    writers = {value: len(value.writers) for op in ops for value in op.writes()}
    effects = dict.fromkeys(op for op in ops if has_ordered_effects(op))
    early_places: list[int] = []  # of these, those that are ready before it is their turn
    counts = {op: sum(value in writers for value in dict.fromkeys(op.reads())) for op in ops}
    ready_places = [op.order for op in ops if not counts[op]]
    heapify(ready_places)
    result = []
    while ready_places or early_places:
        is_forced = not ready_places  # what they read wants another order
        op = ops[heappop(early_places if is_forced else ready_places)]
        if op in effects:
            # An effect that is ready too early waits in ``early``. When the one before it has run, all that waited compete again with the
            # rest, so that the order stays the lexicographically first one.
            if not is_forced and op is not next(iter(effects)):
                heappush(early_places, op.order)
                continue
            del effects[op]
            ready_places += early_places
            heapify(ready_places)
            early_places.clear()
        result.append(op)
        for value in op.writes():
            writers[value] -= 1
            for reader in value.readers if not writers[value] else ():
                counts[reader] -= 1
                if not counts[reader]:
                    heappush(ready_places, reader.order)
    return result


# -- substitution ----------------------------------------------------------------------------------
# Replace one value by another: its uses, the name it is requested by, and whether gradients stop there.


def stopped(graph: Graph, old: Value, new: Value) -> Value:
    """The value that can replace ``old``: gradients stop there if they stop at ``old``, and are clipped as they are there.

    That is ``new``, unless something reads it already through which gradients flow: then a copy of it.
    """
    is_clipped = old.error_clip is not None and new.error_clip != old.error_clip
    if not (is_clipped or (old.stop_gradient and not new.stop_gradient)) or not _may_have_gradient(old):
        return new
    assert old.var is not None
    # The mark is on the variable, so on ``new`` itself it would also hold for the gradients of its other uses.
    if new.given or new.persistable or new.readers or graph.is_observed(new) or new.error_clip is not None:
        copy = graph.add_version(graph.values.numbered(old.name, "{}@STOP@{}"), old.shape, old.dtype)
        copy.kind = old.kind
        writer = old.writer or new.writer
        role = None if writer is None else writer.role
        graph.add_op("assign", {"X": [new]}, {"Out": [copy]}, before=graph.ops.first if writer is None else writer.next, role=role)
        new = copy
    new.var = Variable.trusted(old.var.block, new.name, new.shape, new.dtype, old.stop_gradient, new.kind, old.error_clip)
    return new


def _may_have_gradient(value: Value) -> bool:
    return value.dtype is None or value.dtype in FLOATS


def refine(graph: Graph, old: Value, new: Value) -> None:
    """Let ``new``, which is equal to ``old``, have the extents that only ``old`` is known to have: those that its program declares.

    What an operator infers may say less: ``logical_not(x)`` for a condition of shape [1] is as long as x, of unknown extent. A value that
    is declared or given itself stays as it is declared.
    """
    is_declared = new.given or (new.var is not None and new.var is not old.var)
    if is_declared or old.shape is None or new.shape is None or -1 not in new.shape:
        return
    shape = joined_shape(new.shape, old.shape) if (old.dtype, old.kind) == (new.dtype, new.kind) else None
    if shape is not None and any(a != b or type(a) is not type(b) for a, b in zip(shape, new.shape, strict=True)):
        graph.set_type(new, shape, new.dtype)


def transfer_name(graph: Graph, old: Value, new: Value) -> None:
    """Give ``new`` the name of ``old``; ``old`` becomes a copy of it where that is not possible.

    A value that is given from outside or requested itself keeps its own name, one at which gradients stop would no longer do
    so under the name of one where they flow, and no operator writes a name twice. Where ``new`` has the name already, and nothing comes
    between the two, it is the final value again.
    """
    if graph.versions(old.name)[-2:] == (new, old):
        return _withdraw(graph, old, new)
    # The name carries the declaration of a variable, and with it whether gradients flow through what has it.
    changes = (new.stop_gradient and not old.stop_gradient) or (new.error_clip is not None and new.error_clip != old.error_clip)
    flows = changes and _may_have_gradient(new)
    if new.given or new.persistable or graph.is_observed(new) or flows or _writes_name(new, old):
        _copy(graph, old, new)
    else:
        _rename(graph, old, new)


def _withdraw(graph: Graph, old: Value, new: Value) -> None:
    """Remove the last version of a name, so that the version before it is the final one."""
    graph.values.discard(old)
    old.name, old.var = graph.values.numbered(old.name, "{}@OLD@{}"), None
    graph.values.add(old)
    graph.targets = {new if v is old else v: None for v in graph.targets}


def _writes_name(new: Value, old: Value) -> bool:
    """Whether the operator that writes ``new`` writes another value under the name of ``old``."""
    return any(value.name == old.name and value not in (old, new) for writer in new.writers for value in writer.writes())


def _copy(graph: Graph, old: Value, new: Value) -> None:
    writer = old.writers[0]
    spare = graph.add_version(graph.values.numbered(old.name, "{}@OLD@{}"), old.shape, old.dtype)
    spare.kind = old.kind
    graph.add_op("assign", {"X": [new]}, {"Out": [old]}, before=writer.next, role=writer.role)  # a value without a writer would be removed
    graph.replace_output(writer, old, spare)


def _rename(graph: Graph, old: Value, new: Value) -> None:
    # ``exchange`` keeps the place of ``old`` among the versions of its name: which one is final must not change.
    graph.values.discard(new)
    graph.values.exchange(old, new)
    new.name, old.name = old.name, graph.values.numbered(old.name, "{}@OLD@{}")
    graph.values.add(old)
    new.var, old.var = old.var, None
    graph.targets = {new if v is old else v: None for v in graph.targets}


# -- the graph -------------------------------------------------------------------------------------

_FEW = 2  # readers of a value given from outside that may care how many they are


class Graph(OldNames, PlainResults):
    """Operators and values; every networkx algorithm that reads a graph works on it.

    Args:
        block: the program block it is lowered from, whose declarations it keeps.

    Attributes:
        ops, values: the operators in order, and the values; ``value(name)`` finds one.
        inputs: the values given from outside: data, parameters; in a nested graph the block arguments, in a gradient's also the residuals.
        analyses: results of analyses by their class, dropped when a pass changes the graph.
        journal: what it shares with the graphs nested in it.
        lost_operators: whether an operator of the program it was lowered from was removed.
        controls: its operators that have nested graphs.
        parent, owner: for a nested graph the graph that it is nested in, and the operator there that holds it; None for a whole program's.
        results: of a nested graph, the values that it returns.
        residuals: of a nested graph, the values of each run that its operator keeps (``graphad.ir.residuals``).
        targets: of a whole program's graph, the requested final values, by name. Persistable variables are kept besides.
        redeclared: the variables that ``redeclare`` made in the place of those of the block, by name.
    """

    def __init__(self, block: Block | None = None, **_: object) -> None:
        super().__init__()
        self.block = block
        self.ops = OpList()
        self.values = ValueTable({} if block is None else block.vars)
        self.inputs: list[Value] = []
        self.analyses: dict[type, Any] = {}
        self.journal = Journal()
        self.lost_operators = False
        self.controls: dict[Op, None] = {}
        self.parent: Graph | None = None
        self.owner: Op | None = None
        self.results, self.residuals = list[Value](), list[Value]()
        self.targets: dict[Value, None] = {}
        self.redeclared: dict[str, Variable] = {}
        self.marked = 0  # the journal's edits when the marks of operators that compute in place were true
        # Whether operators are known to come after the writers of what they read; if they do not, the journal's edits when they were
        # put in order, and that order.
        self._is_in_order = True
        self._reordered: tuple[int, list[Op]] = (-1, [])
        self._node, self.wide = NodeTable(self), WideSlots()
        self._adj, self._pred = Adjacency(self._node, successors), Adjacency(self._node, predecessors)

    def nested(self, block: Block | None = None) -> Graph:
        """An empty graph for an operator of this one."""
        graph = Graph(block)
        graph.journal, graph.parent, graph.wide = self.journal, self, self.wide
        return graph

    @property
    def properties(self) -> set[str]:
        """The claimed properties, of ``single_writer`` and ``typed``; the verifier checks them."""
        return self.journal.properties

    @properties.setter
    def properties(self, claims: set[str]) -> None:
        self.journal.properties = claims

    def tree(self, sealed: bool = True) -> Iterator[Graph]:
        """This graph and all that are nested in it; without ``sealed`` those alone that passes may rewrite (``CallDef.sealed``)."""
        yield self
        for op in self.controls:
            if sealed or not op.is_sealed:
                for graph in op.graphs.values():
                    yield from graph.tree(sealed)

    # -- looking ---------------------------------------------------------------------------------

    def versions(self, name: str) -> tuple[Value, ...]:
        """All values of a name, oldest first; empty if there is none."""
        return self.values.versions(name)

    def value(self, name: str) -> Value:
        """The final value of a name; ``x#0`` is its first. ValueError if there is none."""
        if not isinstance(name, str):
            raise InvalidType(f"a value is looked up by its name, not by {name!r}")
        final = self.values.last(name)
        if final is not None:
            return final
        stem, _, number = name.rpartition("#")
        if stem and number.isdigit() and int(number) < len(self.versions(stem)):
            return self.versions(stem)[int(number)]
        raise InvalidValue(f"the graph has no value {name!r}{did_you_mean(name, self.values.by_name)}")

    def given(self, name: str) -> Value:
        """The value of a name, made an input of the graph if its block declares it and no operator touches it yet."""
        if name in self.values.by_name or self.block is None or not self.block.has_var_recursive(name):
            return self.value(name)
        var = self.block.var_recursive(name)
        return self.add_input(name, *var.declared, var)

    def is_observed(self, value: Value) -> bool:
        """Whether something other than an operator of this graph reads the value: the user, the operator around it, or a gradient."""
        if self.parent is None:
            # Of a persistable name only the last version outlives the run.
            return value in self.targets or (value.persistable and bool(value.writers) and self.values.last(value.name) is value)
        return value in self.results or value in self.residuals

    def is_dead(self, op: Op) -> bool:
        """Whether the operator can be removed: it has no effect but its outputs, and those are unused."""
        return not any(v.readers or self.is_observed(v) for values in op.outputs.values() for v in values) and not has_effects(op)

    def why(self, node: Node | str) -> str:
        """The provenance of an operator or a value (or its name): passes, rules and operators, down to the user's line."""
        return chain(self.value(node) if isinstance(node, str) else node)

    def ordered_ops(self) -> list[Op]:
        """The operators in topological order: each comes after the writers of what it reads. Otherwise their order is kept.

        Raises:
            InvalidGraph: operators wait for one another in a cycle.
        """
        if self._is_in_order:
            return self.ops.numbered()
        edits, ops = self._reordered
        if edits != self.journal.edits:
            ops = self.ops.numbered()
            # The ordinary case: a program as written is in order, and passes insert before the readers. One walk, no heap.
            if _in_order(ops):
                self._is_in_order = True
                return ops
            ops = _reordered(self, ops)
            self._reordered = self.journal.edits, ops
        self.ops.in_places = None
        for i, op in enumerate(ops):
            op.order = i
        return ops.copy()

    def check_order(self) -> None:
        """InvalidGraph if operators wait for one another in a cycle, whatever is known of their order."""
        self._is_in_order, self._reordered = False, (-1, [])
        self.ordered_ops()

    # -- changing --------------------------------------------------------------------------------

    def add_value(self, name: str, shape: Shape | None = None, dtype: str | None = None, var: Variable | None = None) -> Value:
        """A new value; its name gets a number if it is taken."""
        return self.add_version(self.values.fresh(name), shape, dtype, var)

    def add_version(self, name: str, shape: Shape | None = None, dtype: str | None = None, var: Variable | None = None) -> Value:
        """A new value of exactly this name: its last version."""
        value = Value(self, name, shape, dtype, var)
        values = self.values
        if name in values.by_name:
            values.add(value)
        else:  # a name of its own, as nearly all have
            values.by_name[name] = value
            values.count += 1
        self.journal.edits += 1
        return value

    def add_input(
        self, name: str, shape: Shape | None = None, dtype: str | None = None, var: Variable | None = None, first: bool = False
    ) -> Value:
        """A new value that is given to the graph from outside; the ``first`` one of its name, or the last."""
        value = Value(self, name, shape, dtype, var)
        self.values.add_first(value) if first else self.values.add(value)
        self.journal.edits += 1
        value.given = True
        self.inputs.append(value)
        return value

    def set_type(self, value: Value, shape: Shape | None, dtype: str | None) -> None:
        """Set the type of a value, and of the inputs that stand for it in gradients' graphs where it is a residual."""
        if value.graph is not self:
            raise InvalidGraph(f"{value.name} is not in this graph")
        value.shape, value.dtype = shape, dtype
        self.journal.typings += 1
        if value in self.residuals:
            retype_inputs(value)
        if self.journal.touched is not None:
            self.journal.touch(*value.writers, *value.readers)

    def redeclare(self, value: Value, shape: Shape | None, dtype: str | None) -> None:
        """Say what a value is, and that its variable is declared so: the ranks of a group have parts of what one process has."""
        self.set_type(value, shape, dtype)
        if value.var is not None:
            variable = value.var.copy_to(value.var.block)
            variable._shape, variable._dtype = shape, dtype
            value.var = variable
            # A variable of a block around this one is declared there: the block may have another one of its name.
            if variable.block is self.block:
                self.redeclared[value.name] = variable

    def add_op(
        self,
        type: str,
        inputs: Mapping[str, Sequence[Value]],
        outputs: Mapping[str, Sequence[Value]],
        attrs: Mapping[str, object] | None = None,
        before: Op | None = None,
        role: str | None = None,
        forward: Op | None = None,
        graphs: Mapping[str, Graph] | None = None,
    ) -> Op:
        """A new operator over values of this graph, before another one or last.

        ``forward`` is the operator it is made for: its source line, and its role unless one is given, are taken over.

        Raises:
            InvalidGraph: a value or ``before`` is of another graph.
        """
        op = Op(self, type, frozen_slots(inputs), frozen_slots(outputs), attrs or {})
        if before is not None and before.graph is not self:
            raise InvalidGraph(f"{type} cannot be inserted before {before!r}, which is not in this graph")
        if forward is not None:
            op.forward, op.source, op.role = forward, forward.source, forward.role
        if role is not None:
            op.role = role
        op.made_by, op.origin = self.journal.author, self.journal.origin
        op.graphs = graphs or op.graphs
        self.link(op, before)
        return op

    def link(self, op: Op, before: Op | None = None) -> None:
        """Insert an operator that was constructed directly; ``add_op`` makes one and does this.

        Raises:
            InvalidGraph: it touches a value of another graph.
        """
        # Checked while linking, so that an operator is walked once; ``_refuse`` takes back what is linked by then.
        journal = self.journal
        journal.edits += 1
        for values in op.inputs.values():
            for value in values:
                if value.graph is not self:
                    self._refuse(op, value)
                value.readers[op] = None
        for values in op.outputs.values():
            for value in values:
                if value.graph is not self:
                    self._refuse(op, value)
                value.writers.append(op)
                self._is_in_order &= not value.readers
        self._is_in_order &= before is None
        self.ops.insert(op, before)
        if journal.touched is not None:
            journal.touched.append(op)
        if op.graphs:
            self.controls[op] = None
            for graph in op.graphs.values():
                graph.parent, graph.owner = self, op

    def append(self, op: Op) -> None:
        """``link`` an operator last whose values are known to be of this graph: nothing is checked."""
        journal, ops = self.journal, self.ops
        journal.edits += 1
        for values in op.inputs.values():
            for value in values:
                value.readers[op] = None
        for values in op.outputs.values():
            for value in values:
                value.writers.append(op)
                if value.readers:
                    self._is_in_order = False
        previous = op.previous = ops.last
        if previous is None:
            ops.first = op
        else:
            previous.next = op
        ops.last = op
        ops.count += 1
        ops.in_places = None
        if journal.touched is not None:
            journal.touched.append(op)

    def reorder(self, ops: Sequence[Op]) -> None:
        """Reorder the operators; later edits keep this order where dependences allow it.

        Raises:
            InvalidGraph: these are not the operators of the graph, or one comes before a writer of what it reads; nothing is changed.
        """
        if len(ops) != len(self.ops) or set(ops) != set(self.ops):
            raise InvalidGraph(f"{len(ops)} operators are given for the order of a graph of {len(self.ops)}: all of them, each once")
        places = {op: place for place, op in enumerate(ops)}
        # Everything is checked before the first operator moves.
        for op in ops:
            for writer in [writer for value in op.reads() for writer in value.writers if places[writer] >= places[op]]:
                raise InvalidGraph(f"{op.type} comes before {writer.type}, which writes what it reads")
        for op in ops:
            self.ops.unlink(op)
            self.ops.insert(op, None)
        self.journal.edits += 1

    def _refuse(self, op: Op, stranger: Value) -> NoReturn:
        """Undo what was linked, and complain."""
        for value in op.reads():
            value.readers.pop(op, None)
        for value in op.writes():
            if op in value.writers:
                value.writers.remove(op)
        raise InvalidGraph(f"{op.type} touches {stranger.name}, which is not in this graph")

    def remove_op(self, op: Op) -> None:
        """Remove an operator, and the values that no operator reads or writes any more, unless they are inputs of the graph.

        Raises:
            InvalidGraph: the operator is not in this graph.
        """
        self._require(op)
        if not isinstance(op, Op):
            raise InvalidType(f"remove_op takes an operator, not the value {op!r}; it goes with its last writer and reader")
        self.ops.unlink(op)
        log = self.journal.touched
        for values in op.inputs.values():
            for value in values:
                value.readers.pop(op, None)
                # What wrote an operand may be dead now. An input has no writer: its other readers are told, since rules ask whether a value
                # has one reader only, unless they are many.
                if log is not None:
                    log += value.writers or (value.readers if len(value.readers) <= _FEW else ())
                if not value.readers and not value.writers:
                    self._drop_if_unused(value)
        for values in op.outputs.values():
            for value in values:
                value.writers.remove(op)
                if not value.readers and not value.writers:
                    self._drop_if_unused(value)
        if op.graphs:
            self.controls.pop(op, None)
        self.journal.leave(op)
        op.graph, op.forward = _NOWHERE, None
        self.lost_operators |= op.operator is not None
        self._node.attributes.pop(op, None)

    def set_inputs(self, op: Op, slot: str, values: Sequence[Value]) -> None:
        """Set the operands of an operator in a slot; no values removes the slot."""
        self._require(op, *values)
        before = op.inputs.get(slot, ())
        fill_slot(op.inputs, slot, values)
        self.journal.touch(op)
        # A value that left this slot may fill another slot of the operator as well.
        reads = set(op.reads())
        for value in before:
            if value not in reads:
                value.readers.pop(op, None)
                if value.writers:
                    self.journal.touch(value.writers[0])
                self._drop_if_unused(value)
        for value in values:
            value.readers[op] = None
            if value.writers:
                self._is_in_order = False

    def replace_input(self, op: Op, old: Value, new: Value) -> None:
        """Let one operator read another value wherever it reads ``old``; ``replace`` is for all readers."""
        for slot, values in list(op.inputs.items()):
            if old in values:
                self.set_inputs(op, slot, [new if v is old else v for v in values])

    def replace_output(self, op: Op, old: Value, new: Value) -> None:
        """Let an operator write another value in the place of ``old``."""
        for slot, values in list(op.outputs.items()):
            if old in values:
                self.set_outputs(op, slot, [new if v is old else v for v in values])

    def set_outputs(self, op: Op, slot: str, values: Sequence[Value]) -> None:
        """Set the results of an operator in a slot; no values removes the slot."""
        self._require(op, *values)
        before = op.outputs.get(slot, ())
        fill_slot(op.outputs, slot, values)
        self.journal.touch(op)
        # The new ones first: a value on both sides would have no writer in between, and be dropped.
        for value in values:
            value.writers.append(op)
            if value.readers:
                self._is_in_order = False
        for value in before:
            value.writers.remove(op)
            self._drop_if_unused(value)

    def set_residuals(self, values: Sequence[Value]) -> None:
        """Set what each run of a nested graph keeps; ``graphad.ir.residuals`` does so in step with the graphs of gradients."""
        self._require(*values)
        before, self.residuals = self.residuals, list(values)
        for value in (value for value in before if value not in self.residuals):
            self.journal.touch(*value.writers)
            self._drop_if_unused(value)

    def set_attr(self, op: Op, name: str, value: object) -> None:
        """Give an operator an attribute."""
        if name == INPLACE:
            return mark(op, value)
        self._require(op)
        self.journal.touch(op)
        op.attrs = {**op.attrs, name: value}

    def replace(self, old: Value, new: Value) -> None:
        """Make every reader of ``old`` read ``new`` instead."""
        self._require(old, new)
        if new is old:
            return
        for op in old.readers:
            self.wide.replace(op, old, new)
        new.readers |= old.readers
        if new.writers:
            self._is_in_order = False
        self.journal.touch(*old.readers, *old.writers)
        old.readers = {}
        self.results = [new if v is old else v for v in self.results]
        replace_residual(self, old, new)
        self._drop_if_unused(old)

    def substitute(self, old: Value, new: Value) -> None:
        """Replace all uses of ``old`` by ``new``, also where it is requested, so that the writer of ``old`` may become dead.

        A requested value transfers its name to ``new``. If ``new`` cannot have it, since it is an input or requested itself, an
        ``assign`` writes ``old``. Gradients that stop at ``old`` stop at its replacement. The two are equal, so what is known of the
        extents of either is known of ``new``.
        """
        self._require(old, new)
        if new is not old:
            by_name = self.parent is None and self.is_observed(old) and old.writer is not None
            new = stopped(self, old, new)
            refine(self, old, new)
            self.replace(old, new)
            if by_name:
                transfer_name(self, old, new)

    def rename(self, value: Value, name: str) -> None:
        """Give a value another name; ValueError if a value has it already."""
        if not isinstance(name, str):
            raise InvalidType(f"a value's name is a string, not {name!r}")
        if name in self.values.by_name:
            raise InvalidValue(f"cannot rename {value!r} to {name!r}: the graph has a value of that name")
        self._require(value)
        self.values.discard(value)
        value.name = name
        self.values.add(value)

    def _require(self, *nodes: Node) -> None:
        self.journal.edits += 1
        for node in nodes:
            if not isinstance(node, Op | Value):
                raise InvalidType(f"an operator or a value of the graph is expected, not {node!r}")
            if node.graph is not self:
                raise InvalidGraph(f"{node.type if isinstance(node, Op) else node.name} is not in this graph")

    def allows(self, rule: str, *ops: Op) -> bool:
        """Begin one rewrite: count it, and say that operators made from here on come from these, by this rule of the pass at work.

        False, and nothing should be done, where as many rewrites were made as ``journal.limit`` allows.
        """
        return self.journal.allows(rule, ops)

    def drop(self, value: Value) -> None:
        """Take out a value that was given from outside and that no operator reads."""
        self._require(value)
        value.given = False
        self.inputs = [v for v in self.inputs if v is not value]
        self._drop_if_unused(value)

    def _drop_if_unused(self, value: Value) -> None:
        if value.readers or value.writers or value.given or value.graph is not self:
            return
        # Results and residuals are read by the operator around, which is no reader within this graph.
        if value in self.results or value in self.residuals:
            return
        self.values.discard(value)
        self.targets.pop(value, None)
        value.graph = _NOWHERE
        self._node.attributes.pop(value, None)

    # -- networkx --------------------------------------------------------------------------------

    def clone(self) -> Graph:
        """A graph of its own with the same operators and values (``copy`` is networkx's: a plain MultiDiGraph to edit)."""
        with paused_collector(len(self.ops)):
            return keep_marks(self, cloned(self, Graph(self.block)))

    def __deepcopy__(self, memo: object) -> Graph:
        return self.clone()

    def __reduce_ex__(self, protocol: object) -> Any:
        return "_NOWHERE" if self is _NOWHERE else reduced_graph(self)

    def reduced(self, node: Node) -> Any:
        """Pickle an operator or a value of this graph as the outermost graph and its number there."""
        return reduced_node(node)

    def __setstate__(self, state: object) -> None:
        fill(self, state)

    def __str__(self) -> str:
        return print_graph(self)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.ops)} operators and {len(self.values)} values>"


# What was removed belongs to this empty graph: ``_require`` then refuses it everywhere, without a check of its own.
_NOWHERE: Any = Graph()
