"""The reference interpreter: it defines what programs mean. Operators run in their order, on numpy arrays by name.

    run = Interpreter(program, fetched)
    run.begin(feeds, scope)
    run.operators()                                     run.fetch(...): the value of a name
    run.commit()                                        persistable variables outlive the run, in the scope

A block runs on frames (``names``): dicts of its own variables, of those of the block around it, and so on. Every operator becomes a step, a
function of the frames, once for all the times that its block runs. From here on: an operator without blocks, loops, branches, their
gradients. Elsewhere: what an operator computes (``graphad.ops``), residuals of iterations (``iterations``), what is fed and
declared (``feeds``), the texts of errors (``refusals``), and what makes it fast, which computes the same (``compiled``).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from graphad.errors import ExecutionError, InvalidValue, NoValue, TooManyIterations
from graphad.execution.feeds import as_declared
from graphad.execution.iterations import Replay, Sums, backwards
from graphad.execution.names import (
    Frame,
    Frames,
    Layout,
    Place,
    Step,
    argument_names,
    block_results,
    checkpointed,
    dead_names,
    depth,
    home,
    names_around,
    nth,
    saved_names,
    written,
)
from graphad.execution.refusals import failure, missing_value, not_finite, unregistered, why_not
from graphad.execution.scope import Scope
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef
from graphad.ops.aggregates import Checkpoints, StepScopes, settled
from graphad.program import EMPTY, Block, Operator, Program, in_own_form, located, random_streams
from graphad.program.block import check_runnable
from graphad.program.gc_pause import paused_collector
from graphad.types import Tensor

SEED: ContextVar[int] = ContextVar("seed", default=0)  # of programs that have none; 0: every run draws again
_BOOL = np.dtype(bool)


class RunOptions(NamedTuple):
    """The options of a run that the prepared steps depend on.

    Attributes:
        check_finite: raise at the first operator that makes a nan or an infinity.
        reinitialize: run initialization operators also where their results have values.
        max_iterations: how many iterations the loops of a run may take, all of them together.
    """

    check_finite: bool = False
    reinitialize: bool = False
    max_iterations: int | None = None


AS_USUAL = RunOptions()


class Interpreter:
    """A program as steps; and, while it runs, the values there are.

    Args:
        program: what to run.
        fetched: names whose values are wanted after the run.
        options: how it is run.
    """

    def __init__(self, program: Program, fetched: Collection[str], options: RunOptions = AS_USUAL) -> None:
        self.written = program
        program = in_own_form(program)
        self.block = program.global_block()
        self.check_finite, self.reinitialize, self.max_iterations = options
        self.persistable = {name: None for name, var in self.block.vars.items() if var.persistable}
        self.keep = {*fetched, *self.persistable}
        read_names = {name for block in program.blocks for op in block.ops for name in op.input_names()}
        self.read_from_scope = sorted(read_names.intersection(self.persistable))
        self.saved, self.checkpointed = saved_names(program), checkpointed(program)
        self.block_results = block_results(program)
        self.streams: dict[Operator, str] | None = None
        self.bodies: dict[tuple[int, ...], tuple[Step, Layout]] = {}
        self.release()

    # -- a run -----------------------------------------------------------------------------------

    def begin(self, env: Frame, scope: Scope) -> None:
        """Start a run on fed values."""
        self.env, self.scope = env, scope
        self.stored = scope.arrays.copy()  # one step: another thread may be changing the scope
        self.number = scope.runs
        # Fed and stored values as they came, by which new ones are told apart.
        self.given = dict(env)
        # What is fed belongs to the caller, who may change it after the run.
        self.fed = [value for value in env.values() if isinstance(value, np.ndarray)]
        self.entropy: int | None = None
        self.restart()

    def restart(self) -> None:
        """Begin the run again, on what was fed."""
        self.iterations: list[int] = []  # of the loops that are running, the innermost last
        self.trips: set[int] = set()  # how often loops have run
        self.iterations_left = self.max_iterations

    def release(self) -> None:
        """Forget every value of a run."""
        self.begin({}, Scope())

    def operators(self) -> None:
        """Run the operators of block 0."""
        # What is stored comes into the frame first: residuals are taken from frames, whether or not an operator has read them there.
        for name in self.read_from_scope:
            with suppress(InvalidValue):
                self.fetch((self.env,), (0, name), None)
        self.body(self.block, (self.block.vars,))((self.env,))

    def commit(self) -> None:
        """Keep the persistable values in the scope; nothing there shares memory with fed arrays."""
        new = {}
        for name in self.persistable:
            array = self.env.get(name)
            # What was fed, or read from the scope, is not a new value.
            if array is not None and array is not self.given.get(name):
                is_shared = isinstance(array, np.ndarray) and any(np.may_share_memory(array, feed) for feed in self.fed)
                new[name] = array.copy() if is_shared else array
        self.scope.arrays.update(new)  # one step, as above
        self.scope.runs += 1

    def fetch(self, frames: Frames, place: Place, op: Operator | None) -> Tensor:
        """The value of a name, which an operator (None: the caller) reads: of this run, else of the scope."""
        at, name = place
        if name in frames[at]:
            return frames[at][name]
        if frames[at] is self.env and name in self.stored:
            self.env[name] = self.given[name] = as_declared(self.block, name, self.stored[name], op)
            return self.env[name]
        raise missing_value(self.block, name, op)

    # -- blocks and operators as steps -----------------------------------------------------------

    def body(self, block: Block, layout: Layout) -> Step:
        """A block as a step: its operators in order, each value freed after its last use."""
        # The same block runs on other frames when it is run again for a gradient.
        key = (block.idx, *map(id, layout))  # of objects that are kept beside, so that no others get their ids
        if key not in self.bodies:
            nothing = frozenset[str]()
            keep = self.keep.union(self.saved.get(block.idx, nothing), self.block_results.get(block.idx, nothing))
            with paused_collector(len(block.ops)):
                dead = dead_names(block, layout, keep)
                steps = [(self.step(op, layout, names), names) for op, names in zip(block.ops, dead, strict=True)]
            self.bodies[key] = _in_order(steps), layout
        return self.bodies[key][0]

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        """The step of an operator, after which the names ``freed`` are dead."""
        definition = REGISTRY.get(op.type)
        # An operator that cannot run raises when its turn comes, not when the program is prepared: it may be in a branch that is not taken.
        if definition is None:
            return _raising(unregistered(op))
        if isinstance(definition, ControlDef):
            check_runnable(op, definition)
            return _control_step(self, op, definition, layout, freed)
        if reason := why_not(op, definition):
            return _raising(located(reason, op.source))
        step = _plain_step(self, op, definition, layout)
        return self._once(op, step) if op.attrs.get("run_once") and not self.reinitialize else step

    def _once(self, op: Operator, step: Step) -> Step:
        """An initialization operator: it runs unless what it writes has values already."""

        def once(frames: Frames) -> None:
            if not all(name in frames[0] or name in self.stored for name in op.output_names()):
                step(frames)

        return once

    def count_iteration(self, op: Operator) -> None:
        """Count one iteration of a loop; TooManyIterations if there have been as many as there may be."""
        if self.iterations_left is None:
            return
        if not self.iterations_left:
            message = f"operator {op.type!r}: the loops of this run take more than max_iterations={self.max_iterations} iterations"
            raise TooManyIterations(located(f"{message}, of which this one has run {self.iterations[-1]}", op.source))
        self.iterations_left -= 1

    def generator(self, op: Operator) -> np.random.Generator:
        """A stream of its own for each random operator and iteration, so that passes can move others; ``random_seed`` fixes it."""
        # Counter-based: numbers depend on the operator's stream and the iteration alone, not on what was drawn before (J. Salmon et al.,
        # "Parallel random numbers: as easy as 1, 2, 3", 2011).
        stream = [self.stream(op), *self.iterations]
        seed = self.written.random_seed or SEED.get()
        if seed:
            return np.random.default_rng([seed, self.number, *stream])
        # One number for the whole run: each random operator makes its stream from it.
        if self.entropy is None:
            self.entropy = int(np.random.default_rng().integers(1 << 62))
        return np.random.default_rng([self.entropy, *stream])

    def stream(self, op: Operator) -> int:
        """The number of the stream that a random operator draws from."""
        if self.streams is None:
            self.streams = random_streams(self.block.program)
        # By a hash of the name that is the same in each process.
        return zlib.crc32(self.streams[op].encode(errors="surrogatepass"))


def _in_order(steps: list[tuple[Step, list[str]]]) -> Step:
    def run(frames: Frames) -> None:
        local = frames[0]
        for step, names in steps:
            step(frames)
            for name in names:
                local.pop(name, None)

    return run


def _raising(message: str) -> Step:
    def step(frames: Frames) -> None:
        raise ExecutionError(message)

    return step


# -- operators without blocks --------------------------------------------------------------------


def _plain_step(run: Interpreter, op: Operator, definition: OpDef, layout: Layout) -> Step:
    """The step of an operator without blocks.

    A partial one gets None for names without a value, and a result that is None is not written.
    """
    attrs, adds = definition.own_attrs(op.attrs), definition.extends_output(op.inputs, op.attrs)
    reads = {slot: _places(layout, [n for n in names if n != EMPTY] if EMPTY in names else names) for slot, names in op.inputs.items()}
    if adds:
        # An array that is written at an index is read under the name of the result.
        reads["Array"] = _places(layout, op.output("Out"))
    writes = {slot: _places(layout, names, home) for slot, names in op.outputs.items() if names.count(EMPTY) < len(names)}
    slots, compute, random, partial = list(writes), definition.run, definition.random, definition.partial or adds

    def elsewhere(frames: Frames, place: Place) -> Tensor:
        # A partial operator takes None for what a branch left without a value; any other error is one for it, too.
        with suppress(NoValue) if partial else nullcontext():
            return run.fetch(frames, place, op)

    def step(frames: Frames) -> None:
        inputs = {}
        for slot, places in reads.items():
            try:
                inputs[slot] = [frames[at][name] for at, name in places]
            except KeyError:
                inputs[slot] = [frames[at][name] if name in frames[at] else elsewhere(frames, (at, name)) for at, name in places]
        options = {**attrs, "rng": run.generator(op)} if random else attrs
        try:
            outputs = compute(inputs, options, slots)
        except Exception as error:
            arrays_by_name = {n: a for slot, arrays in inputs.items() for (_, n), a in zip(reads[slot], arrays, strict=True)}
            raise failure(op, arrays_by_name, error) from error
        for slot, places in writes.items():
            for (at, name), result in zip(places, outputs[slot], strict=True):
                if name != EMPTY:
                    _write(run, op, frames[at], name, result, inputs)

    return step


def _write(run: Interpreter, op: Operator, frame: Frame, name: str, result: object, inputs: Mapping[str, Sequence[object]]) -> None:
    if result is None:
        # No value: the name is as if it had never been written.
        frame.pop(name, None)
        return
    result = frame[name] = result if type(result) is np.ndarray else settled(result)
    if run.check_finite and isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        arrays_by_name = {n: a for slot, arrays in inputs.items() for n, a in zip(op.input(slot), arrays, strict=False)}
        raise not_finite(op, name, result, arrays_by_name)


def _places(layout: Layout, names: Sequence[str], frame_of: Callable[[Layout, str], int] = depth) -> list[Place]:
    # Block 0 has one frame, so nothing has to be looked up there.
    if len(layout) == 1:
        return [(0, names[0])] if len(names) == 1 else [(0, name) for name in names]
    return [(frame_of(layout, name), name) for name in names]


# -- loops and branches --------------------------------------------------------------------------


def _control_step(run: Interpreter, op: Operator, definition: ControlDef, layout: Layout, freed: Collection[str]) -> Step:
    if isinstance(definition, LoopDef):
        return _loop_gradient(run, op, definition, layout, freed) if definition.is_grad else _loop(run, op, definition, layout)
    return _branch_gradient(run, op, definition, layout) if definition.is_grad else _branch(run, op, definition, layout)


class _Block:
    """A block of an operator: how it runs, and its residuals."""

    def __init__(self, run: Interpreter, block: Block, layout: Layout) -> None:
        inner = (block.vars, *layout)
        self.run = run.body(block, inner)
        self.saved = _places(inner, sorted(run.saved.get(block.idx, ())))

    def keep(self, frames: Frames) -> Frame:
        """The residuals of a run that the gradient of the block reads."""
        # The usual case; values that a branch left out are missing.
        try:
            return {name: frames[at][name] for at, name in self.saved}
        except KeyError:
            return {name: frames[at][name] for at, name in self.saved if name in frames[at]}


def _truth(run: Interpreter, op: Operator, frames: Frames, place: Place) -> bool:
    condition = frames[place[0]].get(place[1])
    # The ordinary case without a call of fetch: a loop asks in every iteration.
    if type(condition) is np.ndarray and condition.dtype is _BOOL and condition.size == 1:
        return bool(condition.item())
    value = np.asarray(run.fetch(frames, place, op) if condition is None else condition)
    if value.size != 1 or value.dtype != bool:
        message = f"operator {op.type!r}: condition {place[1]!r} is one boolean, but it is {value.dtype}{list(value.shape)}"
        raise ExecutionError(located(message, op.source))
    return bool(value.reshape(())[()])


def _loop(run: Interpreter, op: Operator, definition: LoopDef, layout: Layout) -> Step:
    """Its block, in a new frame each time, as long as the condition holds; it keeps the residuals of each iteration for its gradient.

    With checkpoints it keeps what an iteration starts from instead, of every ``interval``th one, or of the first alone if that is 0.
    """
    block: Block = op.attrs[definition.blocks[0]]
    body, condition = _Block(run, block, layout), op.input(definition.condition)[0]
    # Found before the run, and raised only if the loop runs.
    endless = not any(condition in written(inner) for inner in block.ops)
    test, is_bounded = (depth(layout, condition), condition), run.max_iterations is not None
    scopes = _places(layout, op.output(definition.scopes))
    interval = run.checkpointed.get(block.idx)
    around = _places(layout, names_around(block, run.saved))
    result_places = _places(layout, op.output(definition.results))

    def step(frames: Frames) -> None:
        residual_frames: list[Frame] = []
        context = {} if interval is None else _values(run, op, frames, around)
        run.iterations.append(0)
        while _truth(run, op, frames, test):
            if endless:
                message = f"operator {op.type!r}: its block never writes the condition {condition!r}, so it would not end"
                raise ExecutionError(located(message, op.source))
            if is_bounded:
                run.count_iteration(op)
            # A frame for each iteration, so that residuals of one are not overwritten by the next.
            inner: Frames = ({}, *frames)
            # ``interval`` 0 keeps the start alone: no other iteration is a multiple of the largest integer.
            if interval is not None and run.iterations[-1] % (interval or sys.maxsize) == 0:
                residual_frames.append({name: frames[at][name] for at, name in result_places if name in frames[at]})
            body.run(inner)
            if body.saved and interval is None:
                residual_frames.append(body.keep(inner))
            run.iterations[-1] += 1
        count = run.iterations.pop()
        run.trips.add(count)
        for at, name in scopes:
            if interval is None:
                frames[at][name] = StepScopes(residual_frames, count)
            else:
                # Where iterations are run again, the numbers of the loops around say what they draw.
                frames[at][name] = Checkpoints(residual_frames, count, interval, context, tuple(run.iterations))

    return step


def _values(run: Interpreter, op: Operator, frames: Frames, places: Sequence[Place]) -> Frame:
    """The values of names, as far as they have any."""
    values = {}
    for at, name in places:
        with suppress(InvalidValue):
            values[name] = run.fetch(frames, (at, name), op)
    return values


def _branch(run: Interpreter, op: Operator, definition: ControlDef, layout: Layout) -> Step:
    """One of its blocks, or none, in a new frame, whose residuals it keeps for its gradient."""
    blocks = [_Block(run, op.attrs[name], layout) for name in definition.blocks]
    branch_number = _taken(run, op, definition, layout)
    scopes = _places(layout, op.output(definition.scopes))

    def step(frames: Frames) -> None:
        number, residuals = branch_number(frames), {}
        if number < len(blocks):
            inner: Frames = ({}, *frames)
            blocks[number].run(inner)
            residuals = blocks[number].keep(inner)
        # Where no block ran too: the gradient finds an entry without values.
        for at, name in scopes:
            frames[at][name] = StepScopes([residuals], 1)

    return step


def _taken(run: Interpreter, op: Operator, definition: ControlDef, layout: Layout) -> Callable[[Frames], int]:
    """A function that says which block an operator runs: the first one where its condition holds, else the second."""
    tests = _places(layout, op.input(definition.condition))
    if not tests:
        return lambda frames: 0
    if op.attrs.get("is_scalar_condition", True):
        return lambda frames: 0 if _truth(run, op, frames, tests[0]) else 1
    # Paddle's other meaning of conditions: the block runs where none of the tensors is empty.
    return lambda frames: 0 if all(np.size(run.fetch(frames, test, op)) for test in tests) else 1


# -- gradients of loops and branches -------------------------------------------------------------


def _loop_gradient(run: Interpreter, op: Operator, definition: LoopDef, layout: Layout, freed: Collection[str]) -> Step:
    """Its block once for each iteration of the loop, the last first: cotangents of what is carried go from one to the next, those of
    what every iteration reads are added."""
    body = _GradientBlock(run, op, definition, layout, 0)
    ((at, name),) = body.scopes
    is_last_use = name in freed

    def step(frames: Frames) -> None:
        outer, cotangents = body.read(frames)
        scopes = body.kept(frames)
        if is_last_use:
            frames[at].pop(name, None)
        sums, operands = Sums(body.count), body.operands(outer)
        # Residuals are dropped as they are used, if nothing reads them later.
        for residuals in _replayed(run, body.forward, scopes) if isinstance(scopes, Checkpoints) else backwards(scopes, is_last_use):
            results = body.results(residuals, operands, cotangents)
            cotangents = results[: len(cotangents)]
            sums.add(results[len(cotangents) :])
        body.write(frames, [*cotangents, *sums.total(outer)])

    return step


def _replayed(run: Interpreter, block: Block | None, scopes: Checkpoints) -> Iterator[Frame]:
    """The residuals of each iteration, the last one first, by running iterations again on two frames: a block's own, and what it carries
    and reads."""
    assert block is not None
    residual_names, outer = run.saved.get(block.idx, frozenset()), run.iterations
    body = run.body(block, (block.vars, frozenset(names_around(block, run.saved))))

    def iteration(frame: Frame, number: int) -> Frame:
        local: Frame = {}
        # Random operators draw by iteration number, so an iteration that is run again draws the same numbers.
        run.iterations, iterations_left = [*scopes.path, number], run.iterations_left
        run.iterations_left = None  # the loops in it were counted when they ran first
        body((local, frame))
        run.iterations_left = iterations_left
        return {name: home[name] for name in residual_names if name in (home := local if name in local else frame)}

    try:
        yield from Replay(scopes, iteration).residuals()
    finally:
        run.iterations = outer


def _branch_gradient(run: Interpreter, op: Operator, definition: ControlDef, layout: Layout) -> Step:
    """The gradient of the block that was taken, once."""
    branches = [_GradientBlock(run, op, definition, layout, i) for i in range(len(definition.blocks))]
    branch_number = _taken(run, op, definition, layout)

    def step(frames: Frames) -> None:
        inside = branches[branch_number(frames)]
        outer, cotangents = inside.read(frames)
        inside.write(frames, inside.results(inside.kept(frames).steps[0], inside.operands(outer), cotangents))

    return step


class _GradientBlock:
    """One block of a gradient operator: its arguments and results, and their names inside.

    It runs on two frames: its own, where its arguments are, and the residuals of one run of the forward block.
    """

    def __init__(self, run: Interpreter, op: Operator, definition: ControlDef, layout: Layout, which: int) -> None:
        block: Block = op.attrs[definition.blocks[which]]
        self.forward = block.parent
        self.inputs = argument_names(op, which)
        # An argument of the gradient hides the forward value of the same name.
        residual_names = run.saved.get(block.parent_idx, frozenset()) - {*block.vars, *self.inputs}
        self.body = run.body(block, (block.vars, residual_names))
        self.fetch, self.op = run.fetch, op
        self.x = _places(layout, op.input("X"))
        self.out_grad = _places(layout, op.input("Out@GRAD"))
        self.scopes = _places(layout, op.input(definition.scopes))
        self.targets = _places(layout, op.output("X@GRAD"))
        self.count = len(self.targets) - len(self.out_grad)
        self.cotangents = self.inputs[len(self.x) :]
        self.outputs = nth(op, "original_input_grad", which, len(self.targets))

    def read(self, frames: Frames) -> tuple[list[Tensor], list[Tensor]]:
        """The values of X and of Out@GRAD, None where there is none."""
        return [self._value(frames, place) for place in self.x], [self._value(frames, place) for place in self.out_grad]

    def _value(self, frames: Frames, place: Place) -> Tensor:
        try:
            return self.fetch(frames, place, self.op)
        except (InvalidValue, ExecutionError):
            return None

    def kept(self, frames: Frames) -> StepScopes:
        """The residuals of the forward operator."""
        residuals = self.fetch(frames, self.scopes[0], self.op)
        if not isinstance(residuals, StepScopes):
            name = self.scopes[0][1]
            message = f"operator {self.op.type!r} reads {name!r}, which is not what a forward operator keeps"
            raise InvalidValue(located(message, self.op.source))
        return residuals

    def operands(self, outer: Sequence[object]) -> Frame:
        """The operands X that are passed in, by their names inside."""
        # What has no value is missing inside, too.
        return {name: value for name, value in zip(self.inputs, outer, strict=False) if value is not None}

    def results(self, residuals: Frame, operands: Frame, cotangents: Sequence[Tensor]) -> list[Tensor]:
        """Run the block once."""
        frame = operands.copy()
        for name, value in zip(self.cotangents, cotangents, strict=True):
            if value is not None:
                frame[name] = value
        self.body((frame, residuals))
        # The ordinary case: all results are written in the block. A result may also be a residual as it is, or nothing.
        try:
            return [frame[name] for name in self.outputs]
        except KeyError:
            return [frame.get(name, residuals.get(name)) for name in self.outputs]

    def write(self, frames: Frames, results: Sequence[object]) -> None:
        """Give the results their names outside."""
        for (at, name), result in zip(self.targets, results, strict=True):
            if name != EMPTY and result is not None:
                frames[at][name] = result
