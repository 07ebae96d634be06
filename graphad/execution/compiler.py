"""Programs as calls of numpy: what a run does for feeds and variables of known types, found by tracing kernels on examples.

    y = fc(x)                     np.dot(x, w, out=t1)
    loss = mean(square(y))   ⇒    np.add(t1, b, out=t1)
                                  ...

Operators become the calls that their kernels make, loops and branches become Python's. What a run turns out to do otherwise - an array of
another type, an error - is left to the interpreter, which defines the meaning, from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.names import GradientBlock, Layout, depth, home, last_uses, names_around, writes_old_array, written
from graphad.execution.nodes import Again, Append, Assign, Body, Compiled, If, Keep, Return, Sum, While, Zeros, writes_of
from graphad.execution.operation import operation
from graphad.execution.prepared import Prepared
from graphad.execution.refusals import why_not
from graphad.execution.runtime import ABSENT
from graphad.execution.tracing import SMALL, Call, Residuals, Restarts, Trace, Traced, Value
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef
from graphad.ops.aggregates import settled, zeros_like
from graphad.ops.formulas import Formula, Input
from graphad.ops.inference import aligned
from graphad.ops.out_kernels import formula_of
from graphad.ops.rings import communicates
from graphad.program import EMPTY, Block, Operator
from graphad.types import Array, Function, Tensor, TensorType

DEEPEST = 12  # blocks in blocks: Python's own limit is 20


class Unsupported(Exception):
    """The compiler does not support the program: the interpreter runs it."""


Frame = dict[str, Value]
Frames = tuple[Frame, ...]
Made = dict[str, list[Value | None]]  # the values that an operator makes, by slot; None where it makes none


class Compiler:
    """Traces a program on example feeds and variables."""

    def __init__(self, run: Prepared, unguarded: frozenset[int] = frozenset(), seen: Mapping[int, Array | None] | None = None) -> None:
        self.run = run
        self.trace = Trace()
        self.unguarded = unguarded
        self.seen = seen  # by the numbers of operators: what runs have given where examples say nothing; None: runs do not note it
        self.guards: list[Operator] = []
        # Where operators are in the program: the numbers stay what they are when it is compiled again with more, or less, that is assumed.
        self.numbers = {op: i for i, op in enumerate(op for block in run.block.program.blocks for op in block.ops)}
        self.depth = 0
        self.random = False
        self.held: set[Value] = set()  # what iterations read that are traced again later

    def compiled(self, feeds: Mapping[str, Tensor], stored: Mapping[str, Tensor], fetched: Sequence[str]) -> Compiled:
        """Compile the program for such feeds and variables."""
        # Examples stand for all values of their types: what is read of an example beyond shape, dtype and layout has to be guarded.
        block = self.run.block
        names = {name for inner in block.program.blocks for op in inner.ops for name in (*op.input_names(), *op.output_names())}
        fed_values = {name: _given(name, array) for name, array in feeds.items()}
        states = {
            name: _given(name, array) for name, array in stored.items() if name not in fed_values and (name in names or name in fetched)
        }
        for name, value in states.items():
            self.check_declared(block, name, value.example)
        frame: Frame = {**states, **fed_values}
        self.body(block, (frame,), (block.vars,))
        results = []
        for name in fetched:
            if name not in frame or frame[name].kept is not None:
                raise Unsupported(f"{name} has no value, or is what a block keeps")
            results.append(frame[name])
        new_states = {}
        # Only what was written: the scope keeps the rest as it is.
        for name in self.run.persistable:
            if name in frame and frame[name] is not fed_values.get(name, states.get(name)):
                new_states[name] = frame[name]
        return Compiled(fed_values, states, self.trace.calls, results, new_states, self.trace.objects, self.random)

    def check_declared(self, block: Block, name: str, array: Tensor) -> None:
        """A variable of the scope is what the program declares: anything else the interpreter converts or refuses."""
        shape, dtype = block.var_recursive(name).declared if block.has_var_recursive(name) else (None, None)
        if not isinstance(array, np.ndarray):
            return
        has_shape = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
        if not has_shape or (dtype is not None and array.dtype != dtype):
            raise Unsupported(f"variable {name} is not of the declared type")

    # -- blocks --

    def body(self, block: Block, frames: Frames, layout: Layout) -> None:
        """The operators of a block."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unsupported("blocks nested deep")
        # Examples are freed only in block 0: a nested block is traced several times, until its types settle.
        keep = self.run.keep | self.run.saved.get(block.idx, frozenset())
        dead_names = last_uses(block, keep) if self.depth == 1 else [[]] * len(block.ops)
        for op, names in zip(block.ops, dead_names, strict=True):
            before = len(self.trace.calls)
            self.operator(op, frames, layout)
            if self.depth == 1:
                self.let_go(frames[0], names, before)
        self.depth -= 1

    def let_go(self, frame: Frame, names: Sequence[str], before: int) -> None:
        """Let go of examples that nothing reads later: those of names that are dead after an operator, and of what else it made."""
        candidates = [frame.pop(name) for name in names if name in frame]
        for node in self.trace.calls[before:]:
            candidates.extend(writes_of(node))
        # Examples are as large as the data of a run: all of them at once would not fit where the run itself does.
        large_values = [value for value in candidates if value.static and value.nbytes > SMALL]
        if not large_values:
            return
        garbage = set(large_values).difference(frame.values(), self.held)
        for value in garbage:
            value.let_go()
        if garbage:
            self.trace.views = {key: value for key, value in self.trace.views.items() if value not in garbage}

    def inner(self, work: Callable[[], None]) -> Body:
        """The calls of a nested block: what is made there is not there outside."""
        # Views and small results found outside hold inside too, not the other way round: a branch may not be taken.
        calls, views, small = self.trace.calls, self.trace.views, self.trace.small
        self.trace.calls, self.trace.views, self.trace.small = [], dict(views), dict(small)
        try:
            work()
            return self.trace.calls
        finally:
            self.trace.calls, self.trace.views, self.trace.small = calls, views, small

    def operator(self, op: Operator, frames: Frames, layout: Layout) -> None:
        """One operator."""
        definition = REGISTRY.get(op.type)
        if definition is None or (definition.side_effect and not (definition.view or definition.ordered)):
            raise Unsupported(f"operator {op.type}")
        # A run that a function does not fit starts again, and what depends on constants alone is called once: ranks get the same again,
        # but something would be printed twice, or not in each run.
        if definition.ordered and not communicates(op.type):
            raise Unsupported(f"operator {op.type}")
        if isinstance(definition, ControlDef):
            return self.control(op, definition, frames, layout)
        if why_not(op, definition):
            raise Unsupported(f"operator {op.type} does not fit its definition")
        if not self.has_run(op, frames):
            self.plain(op, definition, frames, layout)
        return None

    def has_run(self, op: Operator, frames: Frames) -> bool:
        """Whether an initialization operator need not run, since what it writes has values."""
        runs_once = op.attrs.get("run_once") and not self.run.reinitialize
        return bool(runs_once) and all(name in frames[0] for name in op.output_names())

    def plain(self, op: Operator, definition: OpDef, frames: Frames, layout: Layout) -> None:
        """An operator without blocks."""
        self.trace.op = op
        inputs = self.inputs(op, definition, frames, layout)
        places = {
            slot: [None if n == EMPTY else (home(layout, n) if len(layout) > 1 else 0, n) for n in names]
            for slot, names in op.outputs.items()
        }
        places = {slot: outs for slot, outs in places.items() if any(outs)}
        # First as the calls of the kernel, then as one call of it: a kernel that looks at values is not traced.
        results = self.renamed(definition, inputs) or self.traced(op, definition, inputs, list(places))
        if results is None:
            results = self.whole(op, definition, inputs, {slot: len(outs) for slot, outs in places.items()})
        for slot, targets in places.items():
            for place, value in zip(targets, results[slot], strict=True):
                if place is not None:
                    _bind(frames[place[0]], place[1], value)

    def inputs(self, op: Operator, definition: OpDef, frames: Frames, layout: Layout) -> dict[str, list[Value | None]]:
        """The operands of an operator by slot; None where one has no value."""
        slots = dict(op.inputs)
        if writes_old_array(op):
            slots["Array"] = op.output("Out")
        values: dict[str, list[Value | None]] = {}
        for slot, names in slots.items():
            values[slot] = [frames[depth(layout, n)].get(n) for n in names if n != EMPTY]
            if not (definition.partial or writes_old_array(op)) and None in values[slot]:
                raise Unsupported(f"operator {op.type} reads what has no value")
        return values

    # -- operators --

    def renamed(self, definition: OpDef, inputs: Mapping[str, Sequence[Value | None]]) -> Made | None:
        """The results of a copy of a tensor array by slot: the array itself, since arrays are immutable; None if the operator is no copy,
        or the array may have no value."""
        if not definition.is_copy:
            return None
        ((value,),), (slot,) = inputs.values(), definition.outputs
        return None if value is None or value.static or value.absent else {slot: [value]}

    def traced(self, op: Operator, definition: OpDef, inputs: Mapping[str, Sequence[Value | None]], wanted: list[str]) -> Made | None:
        """The results of an operator, traced through its kernel; None if the kernel is called as a whole."""
        values = [value for group in inputs.values() for value in group]
        if definition.random or definition.ordered or any(value is None or not value.static or value.absent for value in values):
            return None
        trace, attrs = self.trace, definition.own_attrs(op.attrs)
        # A kernel may fail halfway, when it meets what a tracer cannot do: its calls so far are taken back.
        before = trace.mark()
        tracers = {slot: [Traced(trace, value) for value in group if value is not None] for slot, group in inputs.items()}
        try:
            with np.errstate(all="ignore"):
                results = self.by_formula(definition, tracers, attrs, wanted) or definition.run(tracers, attrs, wanted)
                return {slot: [self.settled(result) for result in results[slot]] for slot in wanted}
        except Exception:  # whatever a kernel does with what is no array
            trace.back_to(before)
            return None

    def settled(self, result: Tensor) -> Value | None:
        """The value for the result of a traced kernel."""
        if isinstance(result, Traced):
            return result.value
        if result is None:
            return None
        array = settled(result)
        if not isinstance(array, np.ndarray):
            raise Unsupported("no array")
        # A kernel that returns an array instead of a tracer made it of attributes and shapes alone: it is the same in every run.
        array = array.view()
        array.flags.writeable = False
        return self.trace.constant(array)

    def by_formula(
        self, definition: OpDef, given: Mapping[str, Sequence[Traced]], attrs: Mapping[str, Tensor], wanted: list[str]
    ) -> dict[str, list[Traced]] | None:
        """An elementwise operator by its arithmetic; None if it has none."""
        operands = [tracer for values in given.values() for tracer in values]
        formula = (
            formula_of(definition, [operand.dtype for operand in operands], attrs) if definition.elementwise and len(wanted) == 1 else None
        )
        # Optional inputs are not in the formula: with one of them the kernel is traced instead.
        if formula is None or len([*given]) != len([slot for slot in definition.inputs.values() if not slot.optional]):
            return None
        axis = definition.attr("axis", attrs) if "axis" in definition.attrs and len(operands) == 2 else -1
        if axis != -1:
            x, y = operands
            operands = [x, y.reshape(aligned(x.shape, y.shape, axis))]
        return {wanted[0]: [_computed(formula, operands)]}

    def whole(self, op: Operator, definition: OpDef, inputs: Mapping[str, Sequence[Value | None]], wanted: Mapping[str, int]) -> Made:
        """The values that an operator makes by one call of its kernel."""
        values = [self.trace.constant(None) if value is None else value for group in inputs.values() for value in group]
        attrs, counts = definition.own_attrs(op.attrs), {slot: len(group) for slot, group in inputs.items()}
        call = operation(op.type, counts, wanted, **attrs)
        name = self.trace.name(_Described(call, (op.type, counts, dict(wanted), attrs)), op.type)
        if definition.ordered:  # whose effects are not to happen while a program is compiled
            examples = _typed_examples(_inferred(definition, inputs, attrs, wanted), sum(wanted.values()))
            bases = [inputs[definition.view][0] if definition.view else None] * len(examples)
        else:
            examples = self.examples(definition, call, values, sum(wanted.values()))
            bases = [_shared_with(example, values) for example in examples]
        number = self.numbers[op]
        at = self.open_result(number, definition, wanted, examples)
        if at is not None and self.seen:
            memory = self.seen.get(number)
            examples[at] = None if memory is None else np.array(memory, order="C")
        if self.is_fixed(op, definition, values, examples):
            return _by_slot([self.settled(example) for example in examples], wanted)
        results = tuple(Value(example, base=base) for example, base in zip(examples, bases, strict=True))
        self.random |= definition.random
        form = self.call_form(op, definition, name, values)
        if definition.partial and any(value.example is None for value in results):
            form = f"settled_or_absent({form})"
        self.trace.calls.append(Call(form, tuple(values), results, pure=False, op=op))
        # An aggregate may hold the arrays that it was made of: their memory is not the plan's to give again.
        if at is not None or not all(isinstance(value.example, np.ndarray) for value in results):
            self.trace.calls.append(Keep(tuple(values)))
        if at is not None and self.seen is not None and number not in self.seen:
            self.trace.calls.append(Call(f"note({number}, {{0}})", (results[at],), (), pure=False))
        self.guard(op, definition, inputs, attrs, wanted, results, by_run=at is not None)
        for value in results if definition.partial else ():
            value.absent = value.example is None
        return _by_slot(results, wanted)

    def call_form(self, op: Operator, definition: OpDef, name: str, values: Sequence[Value]) -> str:
        """The source of a call of a kernel, with places for its operands; those that may have no value are checked in it."""
        helper = "present" if definition.partial or writes_old_array(op) else "given"
        args = [f"{helper}({{{i}}})" if value.absent else f"{{{i}}}" for i, value in enumerate(values)]
        if definition.random:
            args.append(f"rng=generator({self.trace.name(op, 'random')})")
        return f"{name}({', '.join(args)})"

    def open_result(self, number: int, definition: OpDef, wanted: Mapping[str, int], examples: Sequence[Tensor]) -> int | None:
        """The number of the one required result of an operator, if no example says its type and a run's type may be assumed.

        That is so after loops: how many tensors are in an array that they fill, runs alone know. What is optional stays open.
        """
        if number in self.unguarded or definition.random or definition.ordered or definition.partial:
            return None
        is_optional = [definition.outputs[slot].optional for slot, count in wanted.items() for _ in range(count)]
        if is_optional.count(False) != 1 or any(example is not None for example in examples):
            return None
        return is_optional.index(False)

    def is_fixed(self, op: Operator, definition: OpDef, values: Sequence[Value], examples: Sequence[Tensor]) -> bool:
        """Whether an operator makes the same arrays in every run: all that it reads are constants, such as extents."""
        effects = definition.random or definition.ordered or definition.side_effect or definition.partial or writes_old_array(op)
        return not effects and all(value.constant for value in values) and all(isinstance(example, np.ndarray) for example in examples)

    def examples(self, definition: OpDef, call: Function, values: Sequence[Value], count: int) -> list[Tensor]:
        """The example results of an operator; empty where its operands have no examples."""
        if any(value.example is None and not value.constant for value in values) or any(value.absent for value in values):
            return [None] * count
        random = {"rng": np.random.default_rng(0)} if definition.random else {}
        try:
            with np.errstate(all="ignore"):
                outputs = call(*(value.example for value in values), **random)
        except Exception:
            return [None] * count
        examples = list(outputs) if count != 1 else [outputs]
        return examples if len(examples) == count else [None] * count

    def guard(
        self,
        op: Operator,
        definition: OpDef,
        inputs: Mapping[str, Sequence[Value | None]],
        attrs: Mapping[str, Tensor],
        wanted: Mapping[str, int],
        made: Sequence[Value],
        by_run: bool = False,
    ) -> None:
        """Make the results static: inferred types are those of the examples, or a check says so in every run."""
        number = self.numbers[op]
        if number in self.unguarded:
            return
        # Inference says the type for every run, so no check is needed in those. Otherwise the example's type is an assumption.
        sure = None if definition.ordered else _inferred(definition, inputs, attrs, wanted)  # other ranks may pass in something else
        for i, value in enumerate(made):
            array = value.example
            if not isinstance(array, np.ndarray):
                continue
            value.static, value.in_order = True, bool(array.flags.c_contiguous)
            if sure is None or sure[i] != TensorType(array.shape, array.dtype.name):
                test = f"{{0}}.shape != {tuple(map(int, array.shape))} or {{0}}.dtype != {array.dtype.name!r}"
                # The same kernel lays out the same types in one way; what came from a run says that of its own result alone.
                test += " or not {0}.flags.c_contiguous" if by_run else ""
                self.trace.calls.append(Call(f"if {test}: raise Changed({number})", (value,), (), pure=False))

    # -- operators with blocks --

    def control(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """An operator with blocks."""
        if isinstance(definition, LoopDef):
            if definition.is_grad:
                self.loop_gradient(op, definition, frames, layout)
            else:
                self.loop(op, definition, frames, layout)
        elif definition.is_grad:
            self.branch_gradient(op, definition, frames, layout)
        else:
            self.branch(op, definition, frames, layout)

    def saved(self, block: Block, layout: Layout) -> list[tuple[int, str]]:
        return [(depth(layout, name), name) for name in sorted(self.run.saved.get(block.idx, ()))]

    def loop(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """``while``: the names that its block writes outside are variables, which each iteration sets again."""
        block: Block = op.attrs[definition.blocks[0]]
        condition = op.input(definition.condition)[0]
        inner_layout = (block.vars, *layout)
        # By the block that declares a name: -1 is the loop's own, whose names do not outlive an iteration.
        places = dict.fromkeys((home(inner_layout, n) - 1, n) for inner in block.ops for n in sorted(written(inner)) if n != EMPTY)
        slots = [(at, n) for at, n in places if at >= 0]
        if (depth(layout, condition), condition) not in slots:
            raise Unsupported("a loop whose condition does not change")
        # Python's variables take the place of block arguments: assigned before the loop, and again at the end of each iteration.
        starts = [frames[at].get(n) for at, n in slots]
        inside = _Iteration(self, block, slots, frames, inner_layout)
        keeps = bool(op.output(definition.scopes)) and block.idx in self.run.saved
        every = self.run.checkpointed.get(block.idx) if keeps else None
        stack, number = Value(hint="residuals"), Value(hint="number")

        def iteration(variables: Sequence[Value]) -> tuple[list[Value | None], Tensor]:
            if every is not None:
                self.trace.calls.append(Append(stack, tuple(variables), number, every))
            ends, residuals = inside.traced(variables)
            if every is not None:
                self.trace.calls.append(Call("{0} + 1", (number,), (number,), pure=False))
            elif keeps:
                stack.kept = Residuals(inside.residual_names, residuals)
                self.trace.calls.append(Append(stack, residuals))
            return ends, None

        variables, body = self.fixed([n for _, n in slots], starts, iteration)
        test = variables[slots.index((depth(layout, condition), condition))]
        if keeps:
            self.trace.calls.append(Call("[]", (), (stack,), pure=False))
        if every is not None:
            self.trace.calls.append(Call("0", (), (number,), pure=False))
            stack.kept = Restarts(inside.residual_names, inside.traced_again, tuple(variables), number, every)
            self.held.update(variables, inside.reads())
        self.start(variables, starts)
        self.trace.calls.append(While(test, body))
        for (at, name), variable in zip(slots, variables, strict=True):
            frames[at][name] = variable
        for name in op.output(definition.scopes):
            frames[depth(layout, name)][name] = stack

    def or_absent(self, values: Sequence[Value | None]) -> tuple[Value, ...]:
        """The values, those that are missing as what stands for that."""
        return tuple(self.trace.constant(ABSENT) if value is None else value for value in values)

    def start(self, variables: Sequence[Value], starts: Sequence[Value | None]) -> None:
        """Give variables what they have before the first iteration."""
        if variables:
            self.trace.calls.append(Assign(tuple(variables), self.or_absent(starts)))

    def fixed(
        self,
        names: Sequence[str],
        starts: Sequence[Value | None],
        iteration: Callable[[Sequence[Value]], tuple[list[Value | None], Tensor]],
    ) -> tuple[list[Value], Body]:
        """Variables that have what they start with, and then what an iteration gives them; with types that hold for both."""
        # A fixpoint over types, as in dataflow analysis: variables begin with the types of their starts, and are widened until an iteration
        # gives types that they have. Each can be widened twice (static, absent), which bounds the rounds.
        variables = [_variable(name, start) for name, start in zip(names, starts, strict=True)]
        for _ in range(2 * len(variables) + 2):
            ends: list[Value | None] = []

            def work(variables: Sequence[Value] = variables, ends: list[Value | None] = ends) -> None:
                ends.extend(iteration(variables)[0])
                pairs = [
                    (v, e if e is not None else self.trace.constant(ABSENT)) for v, e in zip(variables, ends, strict=True) if e is not v
                ]
                if pairs:
                    self.trace.calls.append(Assign(*zip(*pairs, strict=True)))

            body = self.inner(work)
            wider = [_widened(variable, end) for variable, end in zip(variables, ends, strict=True)]
            if all(new is old for new, old in zip(wider, variables, strict=True)):
                return variables, body
            variables = wider
        raise Unsupported("a loop whose types do not settle")

    def loop_gradient(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """``while_grad``: its block over the residuals, the last first; some results are the next cotangents, the others are added up."""
        inside = self.gradient_block(op, definition, frames, layout, 0)
        stack = _residuals(inside)
        again, residuals, cell = None, stack.kept, {}
        if isinstance(residuals, Restarts):
            again, residuals = self.again(residuals)
        if residuals is None or not isinstance(residuals, Residuals):
            raise Unsupported(f"residuals from elsewhere {op}")
        terms: list[Value | None] = []

        def iteration(variables: Sequence[Value]) -> tuple[list[Value | None], Tensor]:
            copies = tuple(_copied(value, name) for name, value in zip(residuals.names, residuals.values, strict=True))
            cell["unpacked"] = copies
            frame = {n: u for n, u in zip(residuals.names, copies, strict=True) if not (u.constant and u.example is ABSENT)}
            results = inside.results(frame, variables)
            # Carried cotangents come first, then the terms of the sums.
            terms[:] = results[len(variables) :]
            sums[:] = [None if t is None else Value(t.example, static=t.in_order and not t.absent, hint="total") for t in terms]
            for term, total in zip(terms, sums, strict=True):
                if term is not None and total is not None:
                    self.add_up(total, term, first)
            self.trace.calls.append(Call("False", (), (first,), pure=False))
            return results[: len(variables)], None

        sums: list[Value | None] = []
        first = Value(hint="first")
        variables, body = self.fixed(inside.cotangent_names, inside.cotangents, iteration)
        # ``first`` tells the first term of a total from the others: copied instead of added to zeros, which costs a pass over the memory.
        self.trace.calls.append(Call("True", (), (first,), pure=False))
        self.start(variables, inside.cotangents)
        for total in sums:
            if total is not None:
                self.trace.calls.append(Zeros(total) if total.static else Assign((total,), (self.trace.constant(None),)))
        consumes = _is_last_reader(op, inside.scopes)
        self.trace.calls.append(While(None, body, stack, cell["unpacked"], consumes, again))
        self.trace.calls.extend(Zeros(total, first) for total in sums if total is not None and total.static)
        totals = [self.zeros(total, x) for total, x in zip(sums, inside.outer, strict=False)]
        inside.write([*variables, *totals])

    def again(self, kept: Restarts) -> tuple[Again, Residuals]:
        """An iteration as a function, and the residuals that it returns."""
        carried = tuple(_copied(variable, variable.hint) for variable in kept.carried)
        residuals: list[Value] = []

        def work() -> None:
            ends, residuals[:] = kept.iteration(carried)
            self.trace.calls.append(Return(ends, tuple(residuals)))

        body = self.inner(work)
        return Again(carried, body, kept.count, kept.every), Residuals(kept.names, tuple(residuals))

    def add_up(self, total: Value, term: Value, first: Value) -> None:
        """Add a term to a total: in place, if both are arrays of one type."""
        if total.static:
            self.trace.calls.append(Sum(total, term, first))
        else:
            self.trace.calls.append(Call("added({0}, {1})", (total, term), (total,), pure=False))
            self.trace.calls.append(Keep((term,)))

    def zeros(self, total: Value | None, like: Value | None) -> Value | None:
        """A total, or zeros where nothing was added."""
        if total is not None and not total.static:
            zeros = Value(total.example, hint="total", absent=like is None or like.absent)
            template = self.trace.constant(ABSENT) if like is None else like
            # Whether anything was added is known to the run alone: the zeros are made then, if they are needed.
            self.trace.calls.append(Call("total_or_zeros({0}, {1})", (total, template), (zeros,), pure=False))
            self.trace.calls.append(Keep((total,)))
            return zeros
        if total is not None or like is None:
            return total
        if not like.static:
            raise Unsupported("zeros like what is no array")
        return self.trace.constant(zeros_like(like.example))

    def taken(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> Value | int:
        """The condition that decides which block runs; the block's number where that is known."""
        tests = op.input(definition.condition)
        if not tests:
            return 0
        # A condition whose shape decides is known while compiling: types are fixed.
        values = [frames[depth(layout, name)].get(name) for name in tests]
        if any(value is None or value.absent for value in values):
            raise Unsupported("a condition without a value")
        if op.attrs.get("is_scalar_condition", True):
            assert values[0] is not None
            return values[0]
        if not all(value is not None and value.static for value in values):
            raise Unsupported("a condition on what is no array")
        return 0 if all(value is not None and value.example.size for value in values) else 1

    def branch(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """``if_else``, ``conditional_block``, ``net``.

        The names that the blocks write outside are variables, unless it is known which runs.
        """
        test = self.taken(op, definition, frames, layout)
        blocks: list[Block] = [op.attrs[name] for name in definition.blocks]
        stack = Value(hint="residuals")
        keeps = bool(op.output(definition.scopes)) and any(block.idx in self.run.saved for block in blocks)
        residuals: list[Residuals] = [Residuals((), ()) for _ in blocks]

        def run(which: int, local: tuple[Frame, ...]) -> None:
            if which >= len(blocks):
                return
            inner = (blocks[which].vars, *layout)
            frame: Frame = {}
            self.body(blocks[which], (frame, *local), inner)
            if keeps:
                values = [(name, (frame, *local)[at].get(name)) for at, name in self.saved(blocks[which], inner)]
                residuals[which] = Residuals(
                    tuple(n for n, _ in values), tuple(self.trace.constant(ABSENT) if v is None else v for _, v in values)
                )

        # Known which block runs (a ``net``, or a condition on shapes): its calls are simply part of those around.
        if isinstance(test, int):
            run(test, frames)
            stack.kept = residuals  # type: ignore[assignment]
            if keeps:
                self.keep(stack, residuals[test].values if test < len(residuals) else ())
            for name in op.output(definition.scopes):
                frames[depth(layout, name)][name] = stack
            return
        self.decided(test, run, frames, residuals, stack if keeps else None)
        for name in op.output(definition.scopes):
            frames[depth(layout, name)][name] = stack

    def keep(self, stack: Value, values: tuple[Value, ...]) -> None:
        """Make what a block keeps."""
        self.trace.calls.extend(_kept(stack, values))

    def decided(
        self,
        test: Value,
        run: Callable[[int, tuple[Frame, ...]], None],
        frames: Frames,
        kept: list[Residuals],
        stack: Value | None,
    ) -> None:
        """Both branches, and variables for what they set."""
        ends = [tuple(dict(frame) for frame in frames) for _ in range(2)]
        # The sides are traced one after the other, each on frames of its own: neither sees what the other writes.
        bodies = (self.inner(lambda: run(0, ends[0])), self.inner(lambda: run(1, ends[1])))
        if stack is not None:
            residual_values = [kept[i].values if i < len(kept) else () for i in range(2)]
            for i, body in enumerate(bodies):
                body.extend(_kept(stack, residual_values[i]))
            stack.kept = kept  # type: ignore[assignment]
        self.join(test, bodies, ends, frames)

    def branch_gradient(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """The gradient of the branch that ran."""
        test = self.taken(op, definition, frames, layout)
        branches = [self.gradient_block(op, definition, frames, layout, i) for i in range(len(definition.blocks))]
        stack = _residuals(branches[0])
        if not isinstance(stack.kept, list):
            raise Unsupported(f"residuals from elsewhere {op}")
        # An operator of one block has a second branch that does nothing, and keeps nothing.
        residuals: list[Residuals] = [*stack.kept, Residuals((), ())]
        if isinstance(test, int):
            inside, names = branches[test], residuals[test].names
            copies = self.unpacked(stack, residuals[test])
            inside.write(inside.results(_present(names, copies), inside.cotangents))
            return
        # Each branch writes into frames of its own; what both leave is joined.
        ends = [tuple(dict(frame) for frame in frames) for _ in range(2)]

        def work(i: int) -> None:
            if i >= len(branches):
                raise Unsupported("the gradient of no branch")
            copies = self.unpacked(stack, residuals[i])
            results = branches[i].results(_present(residuals[i].names, copies), branches[i].cotangents)
            branches[i].write(results, ends[i])

        bodies = (self.inner(lambda: work(0)), self.inner(lambda: work(1)))
        self.join(test, bodies, ends, frames)

    def gradient_block(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout, which: int) -> GradientBlock[Value]:
        return GradientBlock(
            op, definition, which, frames, layout, self.run.saved, lambda name: frames[depth(layout, name)].get(name), self.body
        )

    def unpacked(self, stack: Value, residuals: Residuals) -> tuple[Value, ...]:
        """The residuals of a branch."""
        values = tuple(_copied(value, name) for name, value in zip(residuals.names, residuals.values, strict=True))
        if values:
            self.trace.calls.append(Call("{0}", (stack,), values, pure=False, unpacks=True))
        return values

    def join(self, test: Value, bodies: tuple[Body, Body], ends: Sequence[tuple[Frame, ...]], frames: Frames) -> None:
        """A branch, and variables for the names that the two sides leave with different values."""
        merges: list[tuple[Value, Value, Value]] = []
        for at, frame in enumerate(frames):
            for name in dict.fromkeys([*ends[0][at], *ends[1][at]]):
                yes, no = ends[0][at].get(name), ends[1][at].get(name)
                # Names that both sides leave with one value need no variable: no assignment, and what is known of the value stays known.
                if yes is no:
                    if yes is not None:  # both sides say so, whatever the name had before
                        frame[name] = yes
                    continue
                hole = self.trace.constant(ABSENT)
                variable = _widened(_variable(name, yes), no) if yes is not None else _widened(_variable(name, no), yes)
                merges.append((variable, yes or hole, no or hole))
                frame[name] = variable
        for i, body in enumerate(bodies):
            if merges:
                body.append(Assign(tuple(j[0] for j in merges), tuple(j[i + 1] for j in merges)))
        self.trace.calls.append(If(test, bodies))


class _Described:
    """An operation that is called as a whole, with its parts."""

    def __init__(self, call: Function, described: tuple[Tensor, ...]) -> None:
        self.call = call
        self.described = described


class _Iteration:
    """An iteration of a loop: what its block makes of what the loop carries, in ``slots``."""

    def __init__(self, compiler: Compiler, block: Block, slots: Sequence[tuple[int, str]], frames: Frames, layout: Layout) -> None:
        self.compiler, self.block, self.slots, self.layout = compiler, block, slots, layout
        self.frames = tuple(dict(frame) for frame in frames)  # as they are before the loop
        self.residual_places = compiler.saved(block, layout)
        self.residual_names = tuple(name for _, name in self.residual_places)

    def traced(self, variables: Sequence[Value]) -> tuple[list[Value | None], tuple[Value, ...]]:
        """The next carried values, and the residuals."""
        # Frames are copied: an iteration is traced until its types settle, and only the last trace counts.
        frames: tuple[Frame, ...] = ({}, *(dict(frame) for frame in self.frames))
        for (at, name), variable in zip(self.slots, variables, strict=True):
            frames[at + 1][name] = variable
        self.compiler.body(self.block, frames, self.layout)
        residuals = self.compiler.or_absent([frames[at].get(name) for at, name in self.residual_places])
        return [frames[at + 1].get(name) for at, name in self.slots], residuals

    def traced_again(self, variables: Sequence[Value]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """The same, to be returned."""
        ends, residuals = self.traced(variables)
        return self.compiler.or_absent(ends), residuals

    def reads(self) -> list[Value]:
        """The values around the block that the iteration reads: examples, whose layouts hold until the iteration is traced again.

        Raises:
            Unsupported: that is not block 0; a gradient then reads what it was in an iteration of another loop.
        """
        if len(self.frames) > 1:
            raise Unsupported("iterations within others that are run again")
        frame = self.frames[0]
        return [frame[name] for name in names_around(self.block, self.compiler.run.saved) if name in frame]


def _residuals(inside: GradientBlock[Value]) -> Value:
    if inside.kept is None:
        raise Unsupported("residuals without a value")
    return inside.kept


def _is_last_reader(op: Operator, scopes: str) -> bool:
    """Whether no other operator reads the residuals."""
    # In the outermost block alone: there an operator runs once, so nothing reads the residuals a second time.
    readers = [reader for block in op.block.program.blocks for reader in block.ops if scopes in reader.input_names()]
    return len(readers) == 1 and op.block.idx == 0


# -- values --------------------------------------------------------------------------------------


def _bind(frame: Frame, name: str, value: Value | None) -> None:
    """Give a name a value, or none."""
    if value is None:
        frame.pop(name, None)
        return
    if value.hint == "t" and value.base is None:
        value.hint = name
    frame[name] = value


def _given(name: str, array: Tensor) -> Value:
    return Value(array, static=isinstance(array, np.ndarray), hint=name)


def _shared_with(example: Tensor, values: Sequence[Value]) -> Value | None:
    """The value in whose memory a result lies."""
    if not isinstance(example, np.ndarray) or not example.size:
        return None
    return next((value for value in values if value.static and np.may_share_memory(value.example, example)), None)


def _variable(name: str, start: Value | None) -> Value:
    """A variable that may have the type of what it starts with."""
    if start is None:
        return Value(hint=name, absent=True)
    return Value(start.example, static=start.static and start.in_order, hint=name, absent=start.absent)


def _widened(variable: Value, other: Value | None) -> Value:
    """The variable, if it can have another value too; else one of which less is known."""
    if other is None:
        return variable if variable.absent else Value(variable.example, hint=variable.hint, absent=True, static=False)
    # The join of two types in a small lattice: an array of one type, any array or aggregate, and each of them perhaps missing.
    may_be_absent, static = variable.absent or other.absent, variable.static and variable.alike(other)
    if (may_be_absent, static) == (variable.absent, variable.static) or other is variable:
        return variable
    example = variable.example if static or not variable.absent else None
    return Value(example if static else None, static=static, hint=variable.hint, absent=may_be_absent)


def _copied(value: Value, name: str) -> Value:
    """The value that reads of a residual get."""
    if value.constant:
        return value
    return Value(value.example, static=value.static, hint=name, absent=value.absent, kept=value.kept)


def _present(names: Sequence[str], values: Sequence[Value]) -> Frame:
    return {n: v for n, v in zip(names, values, strict=True) if not (v.constant and v.example is ABSENT)}


def _kept(stack: Value, values: tuple[Value, ...]) -> Body:
    a_tuple = "(" + "".join(f"{{{i}}}, " for i in range(len(values))) + ")"
    return [Call(a_tuple, values, (stack,), pure=False), Keep(values)]


def _computed(formula: Formula, operands: Sequence[Traced]) -> Traced:
    """Make the calls of a formula."""
    results: list[Traced] = []
    for call in formula.calls:
        args = [operands[a.number] if isinstance(a, Input) else results[a] if isinstance(a, int) else a.value for a in call.args]
        tracer = next(tracer for tracer in (*args, *operands) if isinstance(tracer, Traced))
        results.append(tracer.apply(call.function, args))
    return operands[formula.result.number] if isinstance(formula.result, Input) else results[formula.result]


def _by_slot(results: Sequence[Value | None], wanted: Mapping[str, int]) -> Made:
    """The results of an operator, grouped by the slots whose numbers of results are requested."""
    remaining = iter(results)
    return {slot: list(islice(remaining, count)) for slot, count in wanted.items()}


def _typed_examples(types: Sequence[TensorType] | None, count: int) -> list[Tensor]:
    """Arrays of some types; nothing where they are not known."""
    return [None] * count if types is None else [np.ones(type.shape, type.dtype) for type in types]


def _inferred(
    definition: OpDef, inputs: Mapping[str, Sequence[Value | None]], attrs: Mapping[str, Tensor], wanted: Mapping[str, int]
) -> list[TensorType] | None:
    """The types of an operator's results, if its inference says them; None if not."""
    values = [value for group in inputs.values() for value in group]
    if any(value is None or not value.static for value in values):
        return None
    types = {slot: [TensorType(v.example.shape, v.example.dtype.name) for v in group if v is not None] for slot, group in inputs.items()}
    try:
        types_by_slot = definition.infer_types(types, attrs)
        result = [TensorType(tuple(t.shape), t.dtype) for slot in wanted for t in types_by_slot[slot]]
    except (GraphadError, KeyError, TypeError, AttributeError, ValueError):
        return None
    # Unknown extents are no types to compile for.
    return result if len(result) == sum(wanted.values()) and not any(-1 in t.shape for t in result) else None


__all__ = ["Compiler", "Unsupported"]
