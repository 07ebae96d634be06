"""From a program to a graph: each write to a name becomes a value of its own, each block of an operator a nested graph.

x = increment(x)            x#0 ─▶ increment ─▶ x#1
y = tanh(x)          ⇒                           └─▶ tanh ─▶ y

A block works on the names around it; its graph takes arguments and returns results:

while(h, w) { h = h * w }   ⇒   while(X=[h#0, w]) -> (Out=h#1) { graph (h#0, w) { h#1 = h#0 * w } -> h#1 }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.ir.graph import Graph
from graphad.ir.nodes import Op, Slots, Value
from graphad.ir.regions import OTHERWISE
from graphad.ir.residuals import forward_graph, take_residuals
from graphad.ops import REGISTRY, BranchDef, ControlDef, LoopDef
from graphad.program import (
    EMPTY,
    RANDOM_STREAM,
    Block,
    Operator,
    Program,
    Variable,
    check_slots_and_attributes,
    in_own_form,
    located,
    name_in,
    random_streams,
)
from graphad.program.block import check_runnable
from graphad.program.gc_pause import collect_if_due, paused_collector
from graphad.types import STEP_SCOPES, Shape

Current = dict[str, Value]


def lower(program: Program, targets: Sequence[str | Variable] | None = None) -> Graph:
    """The graph of a program, with the same operators in the same order.

    Operators of types that are not registered, which a program that was read may have, are kept: passes take them to have effects.

    Args:
        program: what to lower.
        targets: the requested variables, whose final values are kept, by name or themselves: ``graph.targets``. None takes those that no
            operator reads. Passes keep them, and persistable variables, under their names; the rest they may remove.

    Raises:
        ValueError: an operator has a slot or an attribute that its definition does not have, and the program was not read with
            ``allow_unknown=True``, nor from Paddle's format; the program has no variable of a target's name, a target is a variable
            of another program, or two operators draw from one random stream.

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
    # The last graph of the same program may be garbage by now.
    collect_if_due()
    with paused_collector(sum(len(block.ops) for block in program.blocks)):
        _check_known(program)
        program = in_own_form(program)
        block = program.global_block()
        lowering = _Lowering()
        graph = lowering.fill(Graph(block), block)
        # After all blocks: a gradient's graph is filled before it is known which values of the forward block it reads.
        lowering.pass_residuals()
        _give_streams(graph, random_streams(program))
        graph.targets = dict.fromkeys(_unread(graph) if targets is None else _requested(graph, block, targets))
        graph.journal.requested = None if targets is None else tuple(value.name for value in graph.targets)
        for subgraph in graph.tree():
            # Nothing has changed since: what the program's operators say holds for the graph's.
            subgraph.marked = graph.journal.edits
        return graph


def graph_of(source: object, use: str, own: bool = False) -> Graph:
    """The graph of a program, or a graph itself.

    Args:
        use: what is done with it, for the error: "drawn".
        own: whether it is going to be changed: of a graph then a copy.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(source, Program):
        return lower(source)
    if isinstance(source, Graph):
        return source.clone() if own else source
    raise InvalidType(f"a Program or a Graph is {use}, not {source!r}")


def _check_known(program: Program) -> None:
    for block in program.blocks if not program.allows_unknown else ():
        check_slots_and_attributes(block.ops)


def _give_streams(graph: Graph, streams: Mapping[Operator, str]) -> None:
    """Let the random operators of a graph, and of those nested in it, draw from the streams of the program's."""
    for op in (op for subgraph in graph.tree() for op in subgraph.ops) if streams else ():
        op.stream = streams.get(op.operator) if op.operator is not None else None
        if op.stream is not None and RANDOM_STREAM in op.attrs:
            op.attrs = {name: value for name, value in op.attrs.items() if name != RANDOM_STREAM}


def _unread(graph: Graph) -> Iterator[Value]:
    """The final values that operators write and none reads."""
    for value in graph.values:
        if (
            value.writers
            and not value.readers
            and value.kind != STEP_SCOPES
            and value.name != EMPTY
            and value.graph.values.last(value.name) is value
        ):
            yield value


def _requested(graph: Graph, block: Block, targets: Sequence[str | Variable]) -> Iterator[Value]:
    if isinstance(targets, str | Variable):
        raise InvalidType(f"targets are a list of variables or their names, not {targets!r}")
    for target in targets:
        yield graph.given(name_in("targets", block, target) if isinstance(target, Variable) else target)


class _Lowering:
    """The state of lowering one program.

    ``graphs`` and ``final`` are the graph of each block so far, and the last value of each name in it, ``reads`` the values that the
    graphs of gradients read of their forward graphs, and the inputs made for them.
    """

    def __init__(self) -> None:
        self.graphs: dict[int, Graph] = {}
        self.final: dict[int, Current] = {}
        self.reads: dict[Graph, tuple[Operator, Current]] = {}

    def fill(self, graph: Graph, block: Block) -> Graph:
        """Lower a block into an empty graph; names it reads before writing them become the graph's inputs."""
        self.graphs[block.idx] = graph
        if _is_straight(block):
            _lower_straight(graph, block)
            return graph
        current = self.final[block.idx] = {}
        # SSA construction without phi functions: control flow is structured, so the value of a name at a point is the last one written
        # before it in this block, or an input. What branches and iterations leave in a name are results of the operator that has the
        # blocks.
        for operator in block.ops:
            definition = REGISTRY.get(operator.type)
            if not isinstance(definition, ControlDef):
                _lower_operator(graph, operator, current, follows=False)
                continue
            check_runnable(operator, definition)
            if definition.is_grad:
                self._gradient(graph, operator, definition, current)
            else:
                self._forward(graph, operator, definition, current)
        return graph

    # -- forward ---------------------------------------------------------------------------------

    def _forward(self, graph: Graph, operator: Operator, definition: ControlDef, current: Current) -> None:
        blocks: dict[str, Block] = {name: operator.attrs[name] for name in definition.blocks}
        graphs = {name: self.fill(graph.nested(block), block) for name, block in blocks.items()}
        finals = [self.final[block.idx] for block in blocks.values()]
        if isinstance(definition, BranchDef) and len(definition.blocks) == 1:
            graphs[OTHERWISE] = graph.nested()
            finals.append({})
        # The interface of the operator is inferred: what its blocks write of the variables around are its results, what they read there
        # are its operands. Both are matched with the nested graphs by position.
        results = _written_outside(operator, definition, blocks.values(), finals)
        reads = _read_outside(operator, definition, graphs.values())
        # A loop carries all that it writes, and so reads it. A branch reads only the old values of those names that not every block writes.
        if isinstance(definition, LoopDef):
            names = [*results, *(name for name in reads if name not in results)]
        else:
            around = [{n for n in final if not _shadows(g, n)} for g, final in zip(graphs.values(), finals, strict=True)]
            names = [*reads, *(n for n in results if n not in reads and _needs_old(operator, n, current, around))]
        for subgraph, final in zip(graphs.values(), finals, strict=True):
            arguments = _give(subgraph, operator.block, names, final)
            _check_own(operator, subgraph, len(names))
            # At the end of the block a name means what was written last; one that the block never writes, its argument.
            visible = {**arguments, **{name: value for name, value in final.items() if not _shadows(subgraph, name)}}
            subgraph.results = [visible.get(n) or _undefined(subgraph, operator.block, n, _shadows(subgraph, n)) for n in results]
        # Operands are read before the results are made, so a loop that writes ``h`` starts from the version before.
        inputs = {
            slot: _reading(graph, operator.block, names_in_slot, current)
            for slot, names_in_slot in operator.inputs.items()
            if slot != definition.operands
        }
        if names:
            inputs[definition.operands] = tuple(current.get(n) or _given_or_undefined(graph, operator.block, n, current) for n in names)
        outputs = {slot: names_in_slot for slot, names_in_slot in operator.outputs.items() if slot != definition.results}
        _link(graph, operator, inputs, ({definition.results: results} if results else {}) | outputs, current, graphs)

    # -- gradients -------------------------------------------------------------------------------

    def _gradient(self, graph: Graph, operator: Operator, definition: ControlDef, current: Current) -> None:
        inputs = {slot: _reading(graph, operator.block, names, current) for slot, names in operator.inputs.items()}
        count = len(operator.input("X")), len(operator.input("Out@GRAD")), len(operator.output("X@GRAD"))
        graphs = {}
        for place, name in enumerate(definition.blocks):
            block: Block = operator.attrs[name]
            primals, cotangents, results = (
                operator.attrs[attr][place * n : (place + 1) * n]
                for attr, n in zip(("original_input", "original_output_grad", "original_input_grad"), count, strict=True)
            )
            subgraph = graphs[name] = self.fill(graph.nested(block), block)
            final, forward = self.final[block.idx], self.final.get(block.parent_idx, {})
            _set_arguments(subgraph, block, [*primals, *cotangents], final)
            subgraph.results = [final.get(n) or _undefined(subgraph, block, n) for n in results]
            # What the block reads besides its arguments are names of the forward block. They are matched later, when all graphs exist.
            _check_residuals(operator, block, subgraph.inputs[count[0] + count[1] :], forward)
            self.reads[subgraph] = operator, {v.name: v for v in subgraph.inputs[count[0] + count[1] :]}
            subgraph.inputs = subgraph.inputs[: count[0] + count[1]]
        _link(graph, operator, inputs, operator.outputs, current, graphs)

    def pass_residuals(self) -> None:
        """Make what gradients read by name of a forward block its residuals, and match them by position: the outer gradients first."""
        gradients = sorted(self.reads, key=_depth)
        # A gradient nested in a gradient reads residuals of a graph whose own residuals have to be known: outer levels first.
        for _, level in groupby(gradients, _depth):
            pairs = [(gradient, self._forward_graph(gradient)) for gradient in level]
            residuals = [(gradient, forward, self._kept(gradient, forward)) for gradient, forward in pairs if forward is not None]
            for _, forward, reads in residuals:
                forward.residuals = list(dict.fromkeys([*forward.residuals, *reads]))
            for gradient, forward, reads in residuals:
                take_residuals(gradient, forward, reads)

    def _forward_graph(self, nested: Graph) -> Graph | None:
        """The forward graph of a gradient's graph, which is that of its forward block: of the operator that keeps what it reads."""
        operator, reads = self.reads[nested]
        forward, block = forward_graph(nested), nested.block
        assert block is not None
        # What it reads beyond its arguments are residuals, which only the runs of its forward block can have kept.
        if reads and (forward is None or forward.block is None or forward.block.idx != block.parent_idx):
            name, definition = next(iter(reads)), REGISTRY[operator.type]
            scopes = [name for slot in (definition.scopes if isinstance(definition, ControlDef) else "",) for name in operator.input(slot)]
            message = f"its block {block.idx} reads {name!r} of block {block.parent_idx}, whose runs are not kept in {', '.join(scopes)}"
            raise InvalidValue(located(f"operator {operator.type!r}: {message}", operator.source))
        return forward

    def _kept(self, nested: Graph, forward: Graph) -> dict[Value, Value]:
        """The values of the forward graph that a gradient's graph reads, and the inputs made for them."""
        _, reads = self.reads[nested]
        return {self.final[forward.block.idx][name]: value for name, value in reads.items()} if forward.block is not None else {}


def _depth(graph: Graph) -> int:
    return 0 if graph.parent is None else 1 + _depth(graph.parent)


def _check_own(operator: Operator, nested: Graph, count: int) -> None:
    """A block writes its own variables before it reads them."""
    for value in nested.inputs[count:]:
        message = f"operator {operator.type!r}: its block reads its own variable {value.name!r} before any operator there writes it"
        raise InvalidValue(located(message, next((op.source for op in value.readers), operator.source)))


def _check_residuals(operator: Operator, block: Block, reads: Sequence[Value], forward: Current) -> None:
    """Whatever a gradient's block reads is passed in, or left by a run of the forward block."""
    for value in reads:
        if value.name not in forward:
            message = f"operator {operator.type!r}: its block {block.idx} reads {value.name!r}, which is not passed in"
            raise InvalidValue(located(f"{message}, and which block {block.parent_idx} neither reads nor writes", operator.source))


def _written_outside(operator: Operator, definition: ControlDef, blocks: Iterable[Block], finals: list[Current]) -> list[str]:
    """The names around that the blocks write, in the operator's order; a loop's condition comes last."""
    names = dict.fromkeys(operator.output(definition.results))
    for block, final in zip(blocks, finals, strict=False):
        outer_names = (name for name, value in final.items() if value.writers and name not in block.vars)
        names.update(dict.fromkeys(filter(operator.block.has_var_recursive, outer_names)))
    if not isinstance(definition, LoopDef):
        return list(names)
    # The condition is carried like any other value; its place, the last one, is how the rest of the IR finds it.
    (condition,) = operator.input(definition.condition)
    names.pop(condition, None)
    return [*names, condition]


def _read_outside(operator: Operator, definition: ControlDef, graphs: Iterable[Graph]) -> list[str]:
    """The names around that the blocks read, in the operator's order."""
    names = dict.fromkeys(name for name in operator.input(definition.operands) if name != EMPTY)
    for subgraph in graphs:
        names.update(dict.fromkeys(v.name for v in subgraph.inputs if not _shadows(subgraph, v.name)))
    return list(names)


def _shadows(nested: Graph, name: str) -> bool:
    """Whether a name means a variable of the nested block's own."""
    return nested.block is not None and name in nested.block.vars


def _needs_old(operator: Operator, name: str, current: Current, visible: list[set[str]]) -> bool:
    """Whether a branch that does not write a name leaves what was there before."""
    # Otherwise the branch not taken passes the old value through, if there can be one.
    if all(name in names for names in visible):
        return False
    block = operator.block
    return name in current or (name not in block.vars and block.idx > 0) or _is_given(block, name)


def _is_given(block: Block, name: str) -> bool:
    """Whether a name of block 0 has a value before the program runs: it is persistable, or an operator that needs one reads it."""
    if block.var_recursive(name).persistable:
        return True
    return any(name in names and not _is_lazy(op, slot) for op in block.ops for slot, names in op.inputs.items())


def _is_lazy(op: Operator, slot: str) -> bool:
    """Whether operands in a slot may be without a value."""
    definition = REGISTRY.get(op.type)
    return definition is not None and slot in definition.lazy


def _give(nested: Graph, around: Block, names: list[str], final: Current) -> Current:
    """Make the values of the names around a nested graph its first inputs, in this order; others follow. Return them by name."""
    own_values = [value for value in nested.inputs if _shadows(nested, value.name)]
    arguments = {value.name: value for value in nested.inputs if value not in own_values}
    for name in names:
        # Not read in this graph, but the operator passes it: a loop carries it, or the other branch reads it.
        if name not in arguments:
            arguments[name] = nested.add_input(name, *_declared(around, name), first=True)
            if not _shadows(nested, name):
                final.setdefault(name, arguments[name])
    leading = {name: arguments.pop(name) for name in names}
    nested.inputs = [*leading.values(), *arguments.values(), *own_values]
    return leading


def _set_arguments(nested: Graph, block: Block, names: list[str], final: Current) -> None:
    """Make the values passed in under the names the first inputs of a gradient's graph; the residuals of the forward block follow."""
    arguments = {value.name: value for value in nested.inputs}
    for name in names:
        if name not in arguments:
            final[name] = arguments[name] = nested.add_input(name, *_declared(block, name), first=True)
    nested.inputs = [*(arguments.pop(name) for name in names), *arguments.values()]


def _undefined(nested: Graph, around: Block, name: str, aside: bool = False) -> Value:
    """The value of a name that is left without one; ``aside`` if the name means something else in the block."""
    shape, dtype, var = _declared(around, name)
    value = nested.add_version(nested.values.numbered(name, "{}@UNDEFINED@{}") if aside else name, shape, dtype, var)
    nested.add_op("undefined", {}, {"Out": [value]}, {"shape": list(shape or ()), "dtype": dtype or "float32"})
    return value


# -- operators -----------------------------------------------------------------------------------


def _is_straight(block: Block) -> bool:
    """Whether a block is the only one of its program, and no operator is one with blocks."""
    return len(block.program.blocks) == 1 and not any(isinstance(REGISTRY.get(name), ControlDef) for name in {op.type for op in block.ops})


def _lower_straight(graph: Graph, block: Block) -> None:
    """Lower a block with no others around it and in it."""
    values = graph.values
    # Until a name is written again, the graph's own table says which value each name stands for: one large table less.
    current: Any = values.by_name
    for operator in block.ops:
        if values.contested and current is values.by_name:
            current = {name: values.last(name) for name in values.by_name}
        _lower_operator(graph, operator, current, follows=current is values.by_name)


def _lower_operator(graph: Graph, operator: Operator, current: Current, follows: bool) -> None:
    """Lower an operator without blocks; ``current`` may follow what is written by itself."""
    block, names_read = operator.block, operator.inputs
    inputs: Slots = {}
    for slot in names_read:
        names = names_read[slot]
        if len(names) == 1:  # nearly always
            name = names[0]
            inputs[slot] = (current.get(name) or _given(graph, block, name, current),)
        else:
            inputs[slot] = _reading(graph, block, names, current)
    definition = REGISTRY.get(operator.type)
    # The trait first: of most operators it is empty, and every operator of a program comes by here.
    if definition is not None and definition.extends and definition.extends_output(inputs, operator.attrs):
        _read_old_array(graph, operator, definition.extends, inputs, current)
    graph.append(_made(graph, operator, inputs, _written(graph, block, operator.outputs, current, follows)))


def _read_old_array(graph: Graph, operator: Operator, slot: str, inputs: Slots, current: Current) -> None:
    """In a program an array is written in place: what was there before is read, unless nothing can be there yet."""
    names, block = operator.output("Out"), operator.block
    if len(names) != 1:
        raise InvalidValue(located(f"operator {operator.type!r} writes one array, got {len(names)} names: {operator!r}", operator.source))
    name = names[0]
    if name in current or (block.idx > 0 and name not in block.vars):
        inputs[slot] = _reading(graph, block, [name], current)


def _link(
    graph: Graph, operator: Operator, inputs: Slots, writes: dict[str, list[str]], current: Current, graphs: dict[str, Graph]
) -> None:
    op = _made(graph, operator, inputs, _written(graph, operator.block, writes, current, follows=False))
    op.graphs = graphs
    # The names inside of blocks are Fluid's form of arguments and results; here these are values.
    op.attrs = {name: value for name, value in operator.attrs.items() if name not in graphs and not name.startswith("original_")}
    graph.link(op)


def _made(graph: Graph, operator: Operator, inputs: Slots, outputs: Slots) -> Op:
    op = Op(graph, operator.type, inputs, outputs, operator.attrs)
    op.role = operator.role
    op.source = operator.source
    op.made_by = operator.made_by
    op.operator = operator
    return op


def _written(graph: Graph, block: Block, writes: dict[str, list[str]], current: Current, follows: bool) -> Slots:
    """New values under the names that an operator writes."""
    declared = block.vars
    outputs: Slots = {}
    for slot in writes:
        values = []
        for name in writes[slot]:
            var = declared.get(name)
            shape, dtype, var = _declared(block, name) if var is None else (var._shape, var._dtype, var)
            value = graph.add_version(name, shape, dtype, var)
            if not follows:
                current[name] = value
            values.append(value)
        outputs[slot] = tuple(values)
    return outputs


def _reading(graph: Graph, block: Block, names: list[str], current: Current) -> tuple[Value, ...]:
    return tuple([current.get(name) or _given(graph, block, name, current) for name in names])


def _given(graph: Graph, block: Block, name: str, current: Current) -> Value:
    value = current[name] = graph.add_input(name, *_declared(block, name))
    return value


def _given_or_undefined(graph: Graph, block: Block, name: str, current: Current) -> Value:
    """The value of a name that no operator has written. A variable that a nested block declares has none."""
    if block.idx == 0 or name not in block.vars:
        return _given(graph, block, name, current)
    current[name] = _undefined(graph, block, name)
    return current[name]


def _declared(block: Block, name: str) -> tuple[Shape | None, str | None, Variable | None]:
    var = block.vars.get(name)
    if var is None and block.has_var_recursive(name):
        var = block.var_recursive(name)
    return (None, None, None) if var is None else (var._shape, var._dtype, var)
