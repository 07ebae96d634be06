"""Graphs as ONNX graphs: operators in their order, each by its writer; loops, branches and calls with the graphs in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NoReturn

import numpy as np

from graphad.interop.onnx import composites, stacks
from graphad.interop.onnx.emitting import Frame, Nodes, is_same
from graphad.interop.onnx.layouts import Layouts
from graphad.interop.onnx.stacks import Layout, NoRows, Stack
from graphad.interop.onnx.terms import Axis, Size, Term, on
from graphad.interop.onnx.writers import WRITERS, Call, CannotWrite, by_formula
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import BranchLike, CallLike, LoopLike, control_definition
from graphad.ops import GradOpDef
from graphad.types import TENSOR

Bound = Term | Stack
_TAPES = ("create_tape", "push_tape", "pop_tape")


class Again(Exception):
    """A guess was wrong, and was corrected: the graph has to be written again."""


@dataclass
class Guesses:
    """Assumptions about a graph that is written, each held until the writing refutes it.

    Attributes:
        sequences: numbers of the arrays and tapes whose elements differ in shape: the others are rows.
        changing: axes of the arguments of loops, by their place, whose extent an iteration may change.
        carried: arrays and tapes, by their place, whose rows a loop changes: of the others it changes the count alone.
    """

    sequences: set[int] = field(default_factory=set)
    changing: set[tuple[int, int, int]] = field(default_factory=set)
    carried: set[tuple[int, int]] = field(default_factory=set)


class GraphWriter:
    """Writes a graph, all of whose gradients are expanded.

    Args:
        graph: what to write.
        nodes: what makes nodes.
        guesses: what is taken for granted.

    Raises:
        Again: a guess was wrong.
    """

    def __init__(self, graph: Graph, nodes: Nodes, guesses: Guesses) -> None:
        self.nodes, self.guesses = nodes, guesses
        # Layouts depend on the guesses: they are found again for each attempt.
        self.layouts = Layouts(graph, guesses.sequences)
        self.bound: dict[Value, Bound] = {}
        self.failed: dict[str, list[Op]] = {}
        self.loops = 0
        self.wrong = False

    def write(self, graph: Graph) -> None:
        """The operators of a graph, in order; those that cannot be written are noted."""
        for op in graph.ordered_ops():
            self._write(op)

    def _write(self, op: Op) -> None:
        try:
            if op.graphs:
                self._regions(op)
            elif op.type in _TAPES:
                self._tape(op)
            else:
                self._plain(op)
        except NoRows as error:
            self._no_rows(error.layout, op)
        except CannotWrite as error:
            self.failed.setdefault(f"{op.type}: {error}", []).append(op)
            # It goes on, so that one error names all operators that cannot be written.
            for value in op.writes():
                self.bound[value] = self._stand_in(value)

    def _no_rows(self, layout: Layout, op: Op) -> None:
        """The arrays and tapes of an operator of a layout are sequences from now on."""
        values = [value for value in (*op.reads(), *op.writes()) if value.kind != TENSOR and self.layouts.of(value) == layout]
        # An operator may read one layout and write another.
        values = values or [value for value in (*op.reads(), *op.writes()) if value.kind != TENSOR]
        numbers = {self.layouts.number(value) for value in values}
        # Guesses are only ever added to, and there are finitely many: writing again ends.
        if numbers <= self.guesses.sequences:
            raise CannotWrite("an array that neither is rows nor a sequence")
        self.guesses.sequences |= numbers
        raise Again

    def _stand_in(self, value: Value) -> Bound:
        """A placeholder for a result of an operator that cannot be written, so that writing goes on and finds all such operators."""
        if value.kind != TENSOR:
            return stacks.empty(self.nodes, self.layouts.of(value))
        return Term(self.nodes, value.dtype or "float32", value.shape or ())

    # -- operators -------------------------------------------------------------------------------

    def _plain(self, op: Op) -> None:
        definition = op.definition
        # A gradient operator has no counterpart: it is expanded before.
        if definition is None or isinstance(definition, GradOpDef):
            raise CannotWrite("there is no such operator in ONNX")
        inputs = {slot: [self.bound.get(value) for value in values] for slot, values in op.inputs.items()}
        call = Call(op, definition, self.nodes, inputs, self.layouts.of)
        # By name where ONNX has it otherwise, else by the formula that defines it.
        writer = WRITERS.get(op.type, by_formula)
        outcome = writer(call)
        results = list(outcome) if isinstance(outcome, list | tuple) else [outcome]
        for slot, result in zip(definition.outputs.values(), results, strict=False):
            terms = list(result) if isinstance(result, list | tuple) else [result]
            for value, term in zip(op.outputs.get(slot.name, ()), terms, strict=False):
                if term is not None:
                    self.bind(value, term)

    def bind(self, value: Value, term: Bound) -> None:
        """Say what a value is in the file: of its dtype, with what is known of its extents."""
        if isinstance(term, Term):
            # ONNX casts nothing by itself: dtypes are made equal here.
            term = self.nodes.cast(term, value.dtype or term.kind)
            if value.shape is not None and term.array is None:
                term.refine(value.shape)
        self.bound[value] = term

    def _tape(self, op: Op) -> None:
        nodes = self.nodes
        if op.type == "create_tape":
            self.bound[op.output("Out")] = stacks.empty(nodes, self.layouts.of(op.output("Out")))
            return
        value = op.input("Scopes")
        tape = self.bound[value]
        assert isinstance(tape, Stack)
        if op.type == "push_tape":
            values = op.inputs.get("X", ())
            # A sequence in ONNX has tensors, and no holes.
            gaps = [element for element in values if element not in self.bound]
            if gaps:
                raise CannotWrite(f"{gaps[0]!r} may have no value when it is kept")
            kind = self.layouts.kind_of(value, values)
            self.bound[op.output("Out")] = stacks.push(nodes, tape, kind, [self.bound[element] for element in values])
            return
        outputs = op.outputs.get("X", ())
        kind = self.layouts.kind_of(value, outputs)
        rest, terms = stacks.pop(nodes, tape, kind, [element.shape or () for element in outputs])
        self.bound[op.output("Out")] = rest
        for element, term in zip(outputs, terms, strict=True):
            self.bind(element, term)

    # -- nested graphs ---------------------------------------------------------------------------

    def _regions(self, op: Op) -> None:
        loop, branch, call = LoopLike.of(op), BranchLike.of(op), CallLike.of(op)
        definition = control_definition(op)
        assert definition is not None
        if definition.is_grad:
            raise CannotWrite("a gradient with graphs is expanded before it is written")
        if loop is not None:
            self._loop(op, loop)
        elif branch is not None:
            self._branches(op, branch)
        # A composite that a pass has changed is no longer what it says it is: its block is written.
        elif op.is_sealed and composites.is_intact(op, self.nodes.opset) and self._whole(op):
            return
        elif call is not None:
            # A net is written in place: ONNX has functions, which not every runtime inlines.
            (graph,) = op.graphs.values()
            self._enter(graph, [self.bound.get(operand) for operand in call.operands])
            for value, result in zip(call.results, graph.results, strict=True):
                self.bound[value] = self.bound[result]

    def _whole(self, op: Op) -> bool:
        """Write a composite as the operator that it is; whether all that this reads is a tensor of the file."""
        inputs = [self.bound.get(value) for value in op.inputs.get("Input", ())]
        terms = [term for term in inputs if isinstance(term, Term)]
        if len(terms) < len(inputs):
            return False
        for value, term in zip(op.outputs["Out"], composites.written(self.nodes, op, terms), strict=True):
            self.bind(value, term)
        return True

    def _enter(self, graph: Graph, operands: Iterable[Bound | None]) -> None:
        for argument, term in zip(graph.inputs, operands, strict=False):
            if term is not None:
                self.bound[argument] = term
        self.write(graph)

    def _branches(self, op: Op, branch: BranchLike) -> None:
        operands = [self.bound.get(operand) for operand in branch.operands]
        outs: list[list[Bound]] = []

        def build(graph: Graph) -> Callable[[], list[Term]]:
            def run() -> list[Term]:
                self._enter(graph, operands)
                outs.append([self._result(value, out) for value, out in zip(graph.results, branch.results, strict=True)])
                return [part for item in outs[-1] for part in (item.parts if isinstance(item, Stack) else (item,))]

            return run

        # ONNX has the graph for true first.
        yes, no = (build(graph) for graph in op.graphs.values())
        terms = self.nodes.choose(self._condition(op, branch), yes, no)
        # Rows of the two branches may be rows of different things; then what they have in common is what stays known.
        for value, yes_value, no_value in zip(branch.results, _like(outs[0], terms), outs[1], strict=True):
            if isinstance(yes_value, Stack) and yes_value.layout.is_rows:
                yes_value = self._merged(yes_value, no_value)
            self.bind(value, yes_value)

    def _condition(self, op: Op, branch: BranchLike) -> Term:
        """The condition of a branch: a scalar, or whether all of several tensors have elements."""
        terms = [term for value in branch.condition if isinstance(term := self.bound[value], Term)]
        if op.attrs.get("is_scalar_condition", True):
            return terms[0]
        return reduce(on.logical_and, [on.greater(self.nodes.size(term), 0) for term in terms])

    def _merged(self, stack: Stack, bound: Bound) -> Stack:
        """Rows from one of two branches: as many as the first tensor has, or one."""
        assert isinstance(bound, Stack)
        if len(stack.parts) != len(bound.parts):
            raise NoRows(stack.layout)
        if len(stack.layout.entries) > 1:
            return Stack(stack.layout, stack.parts, 1)
        return Stack(stack.layout, stack.parts, self.nodes.extent(stack.parts[0], 0) if stack.parts else 0)

    def _result(self, value: Value, out: Value) -> Bound:
        """The result of a branch in the type of ``out``; an arbitrary one if the branch does not write a value that had none before."""
        bound = self.bound.get(value)
        if bound is None:
            bound = self._nothing(out)
        return self.nodes.cast(bound, out.dtype or bound.kind) if isinstance(bound, Term) else bound

    def _nothing(self, value: Value) -> Bound:
        if value.kind != TENSOR:
            return stacks.empty(self.nodes, self.layouts.of(value))
        return self.nodes.full([max(size, 0) for size in value.shape or ()], 0, value.dtype or "float32")

    def _loop(self, op: Op, loop: LoopLike) -> None:
        """Values that iterations leave as they are are read from around; the condition is what the file's loop has of its own."""
        (body,) = op.graphs.values()
        operands = [self._operand(operand) for operand in loop.operands]
        # The condition is the last of what a loop carries.
        at = loop.carried_at
        indices = [i for i in at if body.results[i] is not body.inputs[i] and i != at[-1]]
        for i, argument in enumerate(body.inputs):
            if i not in indices:
                self.bound[argument] = operands[i]
        number = self.loops = self.loops + 1
        # Numbered in the order of writing, which is the same in each attempt: guesses are kept by number.
        carries = [_Carried(self, body, i, operands[i], number) for i in indices]

        def run(step: Term, terms: list[Term]) -> tuple[Term, list[Term], list[Term]]:
            rest = list(terms)
            for carry in carries:
                self.bound[carry.argument] = carry.enter([rest.pop(0) for _ in carry.first])
            condition = self.bound.get(body.inputs[at[-1]])
            assert isinstance(condition, Term)
            self.write(body)
            outs = [carry.leave(self._result(carry.result, carry.argument)) for carry in carries]
            # Only after the body is written: all axes that one pass can find are then in the guesses, and it takes few passes.
            if self.wrong:
                raise Again
            goes_on = self.bound[body.results[-1]]
            assert isinstance(goes_on, Term)
            return goes_on, [term for out in outs for term in out], [row for carry in carries for row in carry.rows]

        condition = operands[at[-1]]
        assert isinstance(condition, Term)
        outputs = list(self.nodes.loop(None, condition, [term for carry in carries for term in carry.first], run))
        results: dict[int, Bound] = {}
        ends = [[outputs.pop(0) for _ in carry.first] for carry in carries]
        for carry, end in zip(carries, ends, strict=True):
            results[carry.place] = carry.end(end, [outputs.pop(0) for _ in carry.rows])
        for i, value in enumerate(loop.results):
            if i == at[-1]:
                # After a loop its condition is false.
                self.bound[value] = self.nodes.reshape(self.nodes.constant(np.asarray(False)), [1] * len(value.shape or ()))
            else:
                self.bind(value, results.get(i, operands[i]))

    def _operand(self, value: Value) -> Bound:
        bound = self.bound.get(value)
        return self._nothing(value) if bound is None else bound


class _Carried:
    """A value that is carried round a loop, and how: a tensor, the rows or the count of a tape, what iterations push, or sequences."""

    def __init__(self, writer: GraphWriter, body: Graph, place: int, given: Bound, number: int) -> None:
        self.writer, self.nodes, self.place, self.given, self.number = writer, writer.nodes, place, given, number
        self.argument, self.result = body.inputs[place], body.results[place]
        self.rows: list[Term] = []
        self.entered: Bound = given
        # A tape that an iteration only pushes to is a stacked output of the Loop (its scan outputs): no copy is made in an iteration.
        self.collects = isinstance(given, Stack) and given.layout.is_rows and _is_pushed_once(body, place)
        # A count alone is carried where the rows do not change.
        self.whole = (number, place) in writer.guesses.carried
        self.first = self._first()

    def _first(self) -> list[Term]:
        start = self.given
        if isinstance(start, Term):
            return [start]
        if not start.layout.is_rows:
            return list(start.parts)
        if self.collects:
            return []
        # Rows of nothing have no shape that a loop could declare.
        if not start.parts:
            self._no_rows()
        return [self.nodes.as_scalar(start.count), *(start.parts if self.whole else ())]

    def _no_rows(self) -> NoReturn:
        """Write the graph again, with sequences in place of rows."""
        self.writer.guesses.sequences.add(self.writer.layouts.number(self.argument))
        raise Again

    def enter(self, terms: list[Term]) -> Bound:
        """The block argument in the body of the loop."""
        start = self.given
        if isinstance(start, Term):
            self._extents(terms[0])
            self.entered = terms[0]
        elif not start.layout.is_rows:
            self.entered = Stack(start.layout, tuple(terms))
        elif self.collects:
            self.entered = Stack(start.layout, (), 0, [])
        else:
            self.entered = Stack(start.layout, tuple(terms[1:]) if self.whole else start.parts, terms[0])
        return self.entered

    def _extents(self, term: Term) -> None:
        """Give a term the argument's extents, and open those that iterations change."""
        shape = self.argument.shape
        if shape is None:
            # Axes of which an attempt has shown that an iteration changes them.
            return
        open_ = [axis for axis in range(term.ndim) if (self.number, self.place, axis) in self.writer.guesses.changing]
        if len(shape) != term.ndim or open_:
            sizes = [-1 if axis in open_ or len(shape) != term.ndim else size for axis, size in enumerate(term.sizes)]
            _widen(term, [extent if extent != -1 else size for extent, size in zip(shape, sizes, strict=True)] if sizes else shape)
        else:
            term.refine(shape)

    def leave(self, bound: Bound) -> list[Term]:
        """The terms carried to the next iteration."""
        if isinstance(bound, Term):
            self._compare(bound)
            return [bound]
        if not bound.layout.is_rows:
            return list(bound.parts)
        assert isinstance(self.entered, Stack)
        if self.collects:
            return self._stacked(bound)
        # By identity: rows that were written again are other terms.
        is_unchanged = len(bound.parts) == len(self.entered.parts) and all(
            a is b for a, b in zip(bound.parts, self.entered.parts, strict=True)
        )
        # The guess was that the loop only reads these rows. It was wrong: the graph is written again with a better one.
        if not is_unchanged and not self.whole:
            self.writer.guesses.carried.add((self.number, self.place))
            raise Again
        if not all(
            is_same(x, y) for a, b in zip(bound.parts, self.entered.parts, strict=True) for x, y in zip(a.sizes, b.sizes, strict=True)
        ):
            self._no_rows()
        return [self.nodes.as_scalar(bound.count), *(bound.parts if self.whole else ())]

    def _compare(self, term: Term) -> None:
        assert isinstance(self.entered, Term)
        if term.ndim != self.entered.ndim:
            # A rank that changes is found where the graph is read.
            return
        for axis, (a, b) in enumerate(zip(term.sizes, self.entered.sizes, strict=True)):
            # An extent that is the argument's own may change: that is what it says.
            is_own = isinstance(b, Axis) and b.term is self.entered
            if not is_own and not is_same(a, b):
                self.writer.guesses.changing.add((self.number, self.place, axis))
                # The guess that the extent stays was wrong: the loop is written once more, with the extent open.
                self.writer.wrong = True

    def _stacked(self, stack: Stack) -> list[Term]:
        """Collect the rows that an iteration pushed, which need one shape in all iterations; if they have not, the loop is written again
        with sequences."""
        rows = stack.collected
        outer = self.nodes.frames[:-1]
        if rows is None or not rows or not all(_is_outside(size, outer) for row in rows for size in row.sizes):
            self._no_rows()
        self.rows = list(rows)
        return []

    def end(self, terms: list[Term], rows: list[Term]) -> Bound:
        """The value after the loop."""
        start = self.given
        if isinstance(start, Term):
            return terms[0]
        if not start.layout.is_rows:
            return Stack(start.layout, tuple(terms))
        if not self.collects:
            return Stack(start.layout, tuple(terms[1:]) if self.whole else start.parts, terms[0])
        if start.parts:
            # What was there before the loop comes first, then what the iterations have collected.
            front = [self.nodes.part(part, 0, 0, start.count) for part in start.parts]
            rows = [self.nodes.concat(list(pair), 0) for pair in zip(front, rows, strict=True)]
        return Stack(start.layout, tuple(rows), self.nodes.extent(rows[0], 0))


def _is_outside(size: Size, frames: Sequence[Frame]) -> bool:
    """Whether an extent is a number, or is known before the loop."""
    # A number counts as known in the outermost graph.
    owner = size.term.frame if isinstance(size, Axis) else size.frame if isinstance(size, Term) else frames[0]
    return any(owner is frame for frame in frames)


def _is_pushed_once(body: Graph, place: int) -> bool:
    """Whether all that a body does with a tape is to push an entry, or with an array to write the next element."""
    argument, result = body.inputs[place], body.results[place]
    writer = result.writer
    # Nothing else reads the array within an iteration, so that the loop can stack its elements as a scan output.
    if writer is None or list(argument.readers) != [writer] or result.readers:
        return False
    if writer.type == "push_tape":
        return writer.inputs["Scopes"] == (argument,)
    return writer.type == "write_to_array" and writer.inputs.get("Array") == (argument,) and _is_counter(body, writer.input("I"))


def _is_counter(body: Graph, index: Value) -> bool:
    """Whether a value counts the iterations: it starts at 0, and each adds 1."""
    owner = body.owner
    if owner is None or index not in body.inputs:
        return False
    place = body.inputs.index(index)
    loop = LoopLike.of(owner)
    if loop is None or place >= len(loop.results):
        return False
    # By induction: 0 before the first iteration, and 1 more after each.
    start, step = loop.operands[place].writer, body.results[place].writer
    return _is_zero(start) and step is not None and index in step.reads() and _adds_one(step)


def _is_zero(op: Op | None) -> bool:
    if op is None:
        return False
    values = {name: value for name, value in op.attrs.items() if name.endswith("values") and value}
    # Constants of a program: of lists, or of one value.
    if op.type == "assign_value":
        return [0] in [list(value) for value in values.values()] or not values
    return op.type == "fill_constant" and not op.inputs and float(op.attrs.get("value", 0.0)) == 0.0


def _adds_one(op: Op) -> bool:
    if op.type == "increment":
        return float(op.attrs.get("step", 1.0)) == 1.0
    return op.type == "scale" and float(op.attrs.get("scale", 1.0)) == 1.0 and float(op.attrs.get("bias", 0.0)) == 1.0


def _widen(term: Term, shape: Sequence[Size]) -> None:
    """An argument of a loop has extents of its own where they may change."""
    term.sizes = tuple(Axis(term, i) if isinstance(size, int) and size == -1 else size for i, size in enumerate(shape))
    term.shape = tuple(size if isinstance(size, int) else -1 for size in term.sizes)


def _like(bound: Sequence[Bound], terms: Sequence[Term]) -> list[Bound]:
    """Terms put together as those are of which they are the newer values."""
    result: list[Bound] = []
    rest = list(terms)
    for item in bound:
        if isinstance(item, Stack):
            result.append(Stack(item.layout, tuple(rest[: len(item.parts)]), item.count))
            del rest[: len(item.parts)]
        else:
            result.append(rest.pop(0))
    return result


def refuse(failed: Mapping[str, list[Op]]) -> None:
    """The error that names all operators that could not be written, with the lines that wrote them."""
    if not failed:
        return
    lines = []
    for reason, ops in failed.items():
        places = dict.fromkeys(str(op.source) for op in ops if op.source)
        suffix = f" (written at {', '.join(list(places)[:3])}{' ...' if len(places) > 3 else ''})" if places else ""
        lines.append(f"  {reason}; {len(ops)} of them{suffix}" if len(ops) > 1 else f"  {reason}{suffix}")
    raise CannotWrite("\n".join(["ONNX cannot say these operators:", *lines]))
