"""The interpreter's view of a program: its blocks as steps, prepared once, and the values of the run that is on."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from graphad.errors import ExecutionError, GraphadError, InvalidValue, NoValue, TooManyIterations
from graphad.execution.blocks import Body, control_step
from graphad.execution.parallel import Threads
from graphad.execution.profiling import Costs, Profile
from graphad.execution.scope import Scope
from graphad.execution.steps import (
    Frames,
    Layout,
    Place,
    Step,
    blocks_of,
    checkpointed,
    control,
    controls,
    facts,
    last_uses,
    saved_names,
    step_of,
    unchanged,
)
from graphad.ir import lower, schedule
from graphad.ops import REGISTRY, ControlDef, GradOpDef, LoopDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import GRAD_SUFFIX, checked_attr, did_you_mean
from graphad.program import Block, Operator, Program, check_distinct, in_own_form, located, random_streams
from graphad.program.block import check_runnable
from graphad.program.operator import COMMON_ATTRS
from graphad.program.watching import latest, watch
from graphad.types import FLOATS, Array, Tensor

Env = dict[str, Any]
_PADDLES = " (graphad makes gradients of its own: read the program without its backward, and call append_backward or gradients)"
SEED: ContextVar[int] = ContextVar("seed", default=0)  # of programs that have none; 0: every run draws again


class Prepared:
    """A program prepared to run: how each of its blocks is run. And, while it runs, the values there are.

    Steps refer to it for the state of the run: the scope, the iterations that loops are in. One that ``lasts`` remembers what the program
    was like, so that it can be run again as long as that stays so.
    """

    def __init__(
        self,
        program: Program,
        fetched: Collection[str],
        check_finite: bool,
        reinitialize: bool,
        max_iterations: int | None = None,
        lasts: bool = True,
        profile: Profile | None = None,
        passes: Tensor = None,
        threads: Threads | None = None,
        numba: bool = False,
    ) -> None:
        self.written = program
        self.facts = facts(program) if lasts else []
        program = in_own_form(program)
        if passes is not None:
            program = _rewritten(program, passes, fetched)
        self.block = program.global_block()
        self.check_finite = check_finite
        self.reinitialize = reinitialize
        self.max_iterations = max_iterations
        self.profile = profile
        self.threads = threads
        self.numba = numba
        self.costs: dict[int, Costs] = {}  # of its operators, by the size of the batch
        self.persistable = {name: None for name, var in self.block.vars.items() if var.persistable}
        self.keep = {*fetched, *self.persistable}
        self.saved = saved_names(program)
        self.checkpointed = checkpointed(program)
        self.streams: dict[Operator, str] | None = None
        self.bodies: dict[tuple[int, ...], tuple[Body, Layout]] = {}
        read_names = {name for block in program.blocks for op in block.ops for name in op.input_names()}
        self.read_from_scope = sorted(read_names.intersection(self.persistable))
        self.functions: dict[tuple[Any, ...], Any] = {}  # compiled, by the types that they are for
        self.last: tuple[tuple[str, ...], Any] | None = None  # what was fetched last, and the function that did it
        self.mark: object = None  # of the last change that any watched program had when this one was compared last
        self.comparisons = 0
        self.others: list[Tensor] = []  # what of it cannot be watched, and copies of that
        self.copies: list[Tensor] = []
        self.runs = 0
        self.has_loops = any(isinstance(definition, LoopDef) for _, definition in controls(program))
        self.block_results = block_results(program)
        self.release()

    def is_up_to_date(self) -> bool:
        """Whether the program is still as it was prepared.

        It is compared as a whole. One that runs by a function again and again is watched, and compared only if it may have changed.
        """
        # No watched program has changed since: nothing to compare, which matters for programs of thousands of operators.
        if self.mark is latest[0] and self.others == self.copies:
            return True
        self.comparisons += 1
        rarely = not self.comparisons & (self.comparisons - 1)  # since what hindered it once may do so for ever
        leftovers = watch(self.written) if self.last is not None and (rarely or self.mark is not None) else None
        mark = latest[0]  # before it is compared: a change of another thread in between is seen by the next run
        is_unchanged = unchanged(self.written, self.facts)
        if is_unchanged and leftovers is not None:
            self.mark, self.others, self.copies = mark, [item for item, _ in leftovers], [copy for _, copy in leftovers]
        return is_unchanged

    def begin(self, env: Env, scope: Scope) -> None:
        """Start a run on fed values."""
        self._hold(env, scope)

    def release(self) -> None:
        """Let go of every value of a run."""
        self._hold({}, Scope())

    def _hold(self, env: Env, scope: Scope) -> None:
        self.env = env
        self.scope = scope
        self.stored = scope.arrays.copy()  # one step: another thread may be changing the scope
        self.number = scope.runs
        self.iterations_left = self.max_iterations
        self.given = dict(env)
        self.fed = [value for value in env.values() if isinstance(value, np.ndarray)]
        self.iterations: list[int] = []
        self.trips: set[int] = set()
        self.entropy: int | None = None

    def operators(self) -> None:
        """Run the operators of block 0."""
        for name in self.read_from_scope:
            with suppress(InvalidValue):
                self.fetch((self.env,), (0, name), None)
        self.body(self.block, (self.block.vars,))((self.env,))

    def body(self, block: Block, layout: Layout) -> Body:
        """How a block is run: its operators in order, each value freed after its last use."""
        key = (block.idx, *map(id, layout))
        known_body = self.bodies.get(key)
        if known_body is None:
            # A name is freed in the block that declares it; in block 0 every name is.
            nothing = frozenset[str]()
            free = last_uses(block, self.keep.union(self.saved.get(block.idx, nothing), self.block_results.get(block.idx, nothing)))
            if len(layout) > 1 or any(control(op) for op in block.ops if len(block.program.blocks) > 1):
                own_names = set(block.vars)
                if len(layout) == 1:
                    own_names.update(n for op in block.ops for n in (*op.input_names(), *op.output_names()))
                free = [[n for n in names if n in own_names] for names in free]
            steps = [(self._timed(op, self._step(op, layout, names)), names) for op, names in zip(block.ops, free, strict=True)]
            known_body = self.bodies[key] = _body(steps), layout
        return known_body[0]

    def _timed(self, op: Operator, step: Step) -> Step:
        return step if self.profile is None else self.profile.timed(op, step)

    def _step(self, op: Operator, layout: Layout, freed: list[str]) -> Step:
        definition = REGISTRY.get(op.type)
        # An operator that cannot run raises when its turn comes, not when the program is prepared: it may be in a branch that is not taken.
        if definition is None:
            hint = _PADDLES if op.type.endswith(GRAD_SUFFIX) else did_you_mean(op.type, REGISTRY)
            message = located(f"operator {op.type!r} is not registered, so it cannot run{hint}: {op!r}", op.source)
            return _raising(message)
        if isinstance(definition, ControlDef):
            check_runnable(op, definition)
            return control_step(self, op, definition, layout, freed)
        if reason := why_not(op, definition):
            return _raising(located(reason, op.source))
        step = step_of(self, op, definition, layout)
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
        stream = [stream_number(self, op), *self.iterations]
        seed = self.written.random_seed or SEED.get()
        if seed:
            return np.random.default_rng([seed, self.number, *stream])
        if self.entropy is None:
            self.entropy = int(np.random.default_rng().integers(1 << 62))
        return np.random.default_rng([self.entropy, *stream])

    def fetch(self, frames: Frames, place: Place, op: Operator | None) -> Tensor:
        """The value of a name: of this run, else of the scope."""
        at, name = place
        if name in frames[at]:
            return frames[at][name]
        if frames[at] is self.env and name in self.stored:
            return self._from_scope(name, op)
        self._refuse_missing(name, op)

    def _from_scope(self, name: str, op: Operator | None) -> Array:
        """The scope's value, in the declared dtype; ValueError if it is not what the program declares."""
        array = self.stored[name]
        if isinstance(array, Aggregate):
            self.env[name] = self.given[name] = array
            return array
        var = self.block.var_recursive(name) if self.block.has_var_recursive(name) else None
        shape, dtype = (None, None) if var is None else var.declared
        has_shape = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
        kind = dtype is None or array.dtype == dtype or (array.dtype.kind == "f" and dtype in FLOATS)
        if not has_shape or not kind:
            type_text = f"{array.dtype}{list(array.shape)}"
            raise InvalidValue(located(f"the scope has {name!r} as {type_text}, but it is declared {var!r}", op.source if op else None))
        # Floats of another width are converted: a parameter saved in float64 can be read by a program in float32.
        value = array if dtype is None else array.astype(dtype, copy=False)
        self.env[name] = self.given[name] = value
        return value

    def _refuse_missing(self, name: str, op: Operator | None) -> NoReturn:
        reader = f"operator {op.type!r} reads" if op else "the fetch list has"
        source = op.source if op else None
        if name in self.persistable:
            raise InvalidValue(located(f"{reader} {name!r}, which has no value in this scope: run the startup program, or set it", source))
        # Looked up only for the message: which of the reasons for a missing value it is.
        writers = [writer for block in self.block.program.blocks for writer in block.ops if name in writer.output_names()]
        if any(control(writer) or writer.block.idx or _may_write_nothing(writer) for writer in writers):
            raise NoValue(located(f"{reader} {name!r} before any operator wrote it: no block that writes it has run", source))
        if writers:
            raise InvalidValue(located(f"{reader} {name!r} before any operator wrote it", source))
        raise InvalidValue(located(f"{reader} {name!r}, which is not fed and no operator writes", source))

    def again(self) -> None:
        """Begin the run again."""
        self.iterations, self.trips, self.iterations_left = [], set(), self.max_iterations

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


def _rewritten(program: Program, passes: Tensor, fetched: Collection[str]) -> Program:
    """A copy of a program after a pipeline, which leaves what is fetched and what outlives a run; the program is as it was."""
    block = program.global_block()
    written_names = {name for inner in program.blocks for op in inner.ops for name in op.output_names()}
    graph = lower(program, sorted(name for name in fetched if name in block.vars and name in written_names))
    passes.run(graph)
    return schedule(graph)


def stream_number(run: Prepared, op: Operator) -> int:
    """The number of the stream that a random operator draws from."""
    if run.streams is None:
        run.streams = random_streams(run.block.program)
    return zlib.crc32(run.streams[op].encode(errors="surrogatepass"))


def _body(steps: list[tuple[Step, list[str]]]) -> Body:
    def run(frames: Frames) -> None:
        local = frames[0]
        for step, names in steps:
            step(frames)
            for name in names:
                local.pop(name, None)

    return run


def _may_write_nothing(op: Operator) -> bool:
    definition = REGISTRY.get(op.type)
    return op.type == "write_to_array" or (definition is not None and definition.partial)


def _raising(message: str) -> Step:
    def step(frames: Frames) -> None:
        raise ExecutionError(message)

    return step


def block_results(program: Program) -> dict[int, frozenset[str]]:
    """By block, the results of those of gradients, which the operators that run them return."""
    results: dict[int, frozenset[str]] = {}
    for op, definition in controls(program):
        names = op.attrs.get("original_input_grad")
        if definition.is_grad and isinstance(names, list):
            for block in blocks_of(op):
                results[block.idx] = results.get(block.idx, frozenset()).union(names)
    return results


def why_not(op: Operator, definition: OpDef) -> str:
    """Why an operator that was read from a file cannot run; empty if it can."""
    if misfit := _misfit(op, definition):
        return f"operator {op.type!r} {misfit}, so it cannot run: {op!r}"
    if unfit := _unfit(op, definition):
        return f"operator {op.type!r} cannot run: {unfit}"
    try:
        check_distinct(op)
    except InvalidValue as error:
        return str(error)
    return ""


def _unfit(op: Operator, definition: OpDef) -> str:
    """What is wrong with an attribute that a file gave and the operator does not take; empty if nothing is."""
    try:
        for name, value in op.attrs.items():
            if name in definition.attrs:
                checked_attr(definition.attrs[name], value)
    except GraphadError as error:
        return str(error)
    return ""


def _misfit(op: Operator, definition: OpDef) -> str:
    """How an operator that was read from a file does not fit its definition: a slot, the number of names in one, or an attribute.

    Paddle's grad operators have more inputs than graphad's; the additional ones are ignored.
    """
    is_grad = isinstance(definition, GradOpDef)
    for side, slots, names_by_slot in (("input", definition.inputs, op.inputs), ("output", definition.outputs, op.outputs)):
        for slot, names in names_by_slot.items():
            slot_definition = slots.get(slot)
            if slot_definition is None:
                if names and not (is_grad and side == "input"):
                    return f"has an {side} slot {slot}, which its definition does not have"
            elif len(names) > 1 and not slot_definition.variadic:
                return f"has {len(names)} names in its {side} slot {slot}, which takes one"
    for slot in definition.single:
        if not op.inputs.get(slot):
            return f"has nothing in its input slot {slot}"
    if is_grad or op.attrs.keys() <= definition.attrs.keys():
        return ""
    unknown = (name for name in op.attrs if name not in definition.attrs and name not in COMMON_ATTRS)
    return next((f"has an attribute {name}, which its definition does not have" for name in unknown), "")
