"""The interpreter: it runs a program operator by operator, and so defines what a program means."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from graphad.errors import ExecutionError, InvalidType, InvalidValue, NoValue
from graphad.execution.control import control_step
from graphad.execution.layout import Layout, blocks_of, checkpointed, control, last_uses, saved_names
from graphad.execution.replay import Body
from graphad.execution.scope import Scope, global_scope
from graphad.execution.steps import Frames, Place, Step, step_of
from graphad.ops import REGISTRY, ControlDef
from graphad.ops.aggregates import Aggregate, TensorArray
from graphad.ops.definition import did_you_mean
from graphad.program import Block, Operator, Program, Variable, default_main_program, located, stands_for
from graphad.types import FLOATS

Array = NDArray[Any]
Env = dict[str, Any]


class Executor:
    """Runs programs on numpy arrays, one operator after the other.

    Args:
        check_finite: raise at the first operator that makes a nan or an infinity.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], dtype="float64")
    ...     y = x * 2.0
    >>> Executor().run(program, feed={"x": [[1.0, 2.0]]}, fetch_list=[y])
    [array([[2., 4.]])]
    """

    def __init__(self, check_finite: bool = False) -> None:
        self.check_finite = check_finite

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Any = None,
        scope: Scope | None = None,
        reinitialize: bool = False,
    ) -> list[Array]:
        """Run block 0 of a program once.

        Args:
            program: the default main program if None.
            feed: arrays by the name of the variable; a list or a number becomes an array of the variable's dtype.
            fetch_list: variables or names whose values to return, in this order; one alone need not be a list.
            scope: where persistable variables are read and kept; the global scope if None.
            reinitialize: run initialisation operators although they have run in this scope before.

        Returns:
            The fetched arrays, each the caller's own.

        Raises:
            ValueError: a feed is missing, unknown, or of another shape or dtype than declared; a fetched name is unknown.
            ExecutionError: an operator failed; the message has its inputs' shapes and dtypes, and the user's line. The scope
                is then as it was before the run.
        """
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        if not isinstance(program, Program) or not isinstance(scope, Scope):
            raise InvalidType(f"run takes a Program and a Scope, not {program!r} and {scope!r}")
        block = program.global_block()
        fetched = [_fetch_name(block, item) for item in _fetch_items(fetch_list)]
        env = _fed(block, feed or {})
        run = _Run(block, env, scope, set(fetched), self.check_finite, reinitialize)
        try:
            with np.errstate(all="ignore"):
                run.operators()
            results = [_own(run.fetch((run.env,), (0, name), None)) for name in fetched]
            run.commit()
        finally:
            run.release()
        return results


class _Run:
    """One run of a program: how its blocks are run, and the values that outlive it."""

    def __init__(self, block: Block, env: Env, scope: Scope, fetched: set[str], check_finite: bool, reinitialize: bool) -> None:
        self.block = block
        self.env = env
        self.scope = scope
        self.check_finite = check_finite
        self.reinitialize = reinitialize
        self.fed = [value for value in env.values() if isinstance(value, np.ndarray)]
        self.given: Env = dict(env)
        self.persistable = {name for name, var in block.vars.items() if var.persistable}
        self.keep = fetched | self.persistable
        self.saved = saved_names(block.program)
        self.iterations: list[int] = []
        self.same_name: dict[str, list[Operator]] | None = None
        self.checkpointed = checkpointed(block.program)
        self.bodies: dict[tuple[int, ...], tuple[Body, Layout]] = {}

    def operators(self) -> None:
        """Run the operators of block 0."""
        self.body(self.block, (self.block.vars,))((self.env,))

    def body(self, block: Block, layout: Layout) -> Body:
        """How a block is run: its operators in order, each value freed behind its last use."""
        key = (block.idx, *map(id, layout))
        found = self.bodies.get(key)
        if found is None:
            free = last_uses(block, self.keep | self.saved.get(block.idx, frozenset()) | _handed_out(block))
            local = block.vars
            free = [[n for n in names if n in local or len(layout) == 1] for names in free]
            steps = [(self._step(op, layout, names), names) for op, names in zip(block.ops, free, strict=True)]
            found = self.bodies[key] = _body(steps), layout
        return found[0]

    def _step(self, op: Operator, layout: Layout, freed: list[str]) -> Step:
        row = REGISTRY.get(op.type)
        if row is None:
            message = located(f"operator {op.type!r} is not registered, so it cannot run: {op!r}", op.source)
            return _raising(message)
        if isinstance(row, ControlDef):
            return control_step(self, op, row, layout, freed)
        step = step_of(self, op, row, layout)
        return self._once(op, step) if op.attrs.get("run_once") and not self.reinitialize else step

    def _once(self, op: Operator, step: Step) -> Step:
        """An initialisation operator: it runs unless what it writes has values already."""

        def once(frames: Frames) -> None:
            if not all(name in frames[0] or self.scope.has(name) for name in op.output_names()):
                step(frames)

        return once

    def generator(self, op: Operator) -> np.random.Generator:
        """A stream of its own for each random operator and iteration, so that passes can move others; ``random_seed`` fixes it."""
        name = op.output_names()[0]
        stream = [zlib.crc32(name.encode()), *self.iterations, *self._before(op, name)]
        seed = self.block.program.random_seed
        return np.random.default_rng([seed, self.scope.runs, *stream] if seed else [self._entropy, *stream])

    def _before(self, op: Operator, name: str) -> list[int]:
        """The place of a random operator among those that write the same name, if it is not the first."""
        if self.same_name is None:
            writers: dict[str, list[Operator]] = {}
            for other in (each for block in self.block.program.blocks for each in block.ops):
                if other.type in REGISTRY and REGISTRY[other.type].random:
                    writers.setdefault(other.output_names()[0], []).append(other)
            self.same_name = writers
        place = next(i for i, other in enumerate(self.same_name[name]) if other is op)
        return [place] if place else []

    @cached_property
    def _entropy(self) -> int:
        return int(np.random.default_rng().integers(1 << 62))

    def fetch(self, frames: Frames, place: Place, op: Operator | None) -> Any:
        """The value of a name: of this run, else of the scope."""
        at, name = place
        if name in frames[at]:
            return frames[at][name]
        if frames[at] is self.env and name in self.scope.arrays:
            return self._from_scope(name, op)
        self._refuse_missing(name, op)

    def _from_scope(self, name: str, op: Operator | None) -> Array:
        """The scope's value, in the declared dtype; ValueError if it is not what the program declares."""
        array = self.scope.arrays[name]
        if isinstance(array, Aggregate):
            self.env[name] = self.given[name] = array
            return array
        var = self.block.var_recursive(name) if self.block.has_var_recursive(name) else None
        shape, dtype = (None, None) if var is None else var.declared
        fits = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
        kind = dtype is None or array.dtype == dtype or (array.dtype.kind == "f" and dtype in FLOATS)
        if not fits or not kind:
            found = f"{array.dtype}{list(array.shape)}"
            raise InvalidValue(located(f"the scope has {name!r} as {found}, but it is declared {var!r}", op.source if op else None))
        cast = array if dtype is None else array.astype(dtype, copy=False)
        self.env[name] = self.given[name] = cast
        return cast

    def _refuse_missing(self, name: str, op: Operator | None) -> NoReturn:
        reader = f"operator {op.type!r} reads" if op else "the fetch list asks for"
        source = op.source if op else None
        if name in self.persistable:
            raise InvalidValue(located(f"{reader} {name!r}, which has no value in this scope: run the startup program, or set it", source))
        writers = [other for block in self.block.program.blocks for other in block.ops if name in other.output_names()]
        if any(control(other) or other.block.idx or _may_write_nothing(other) for other in writers):
            raise NoValue(located(f"{reader} {name!r} before any operator wrote it: no block that writes it has run", source))
        if writers:
            raise InvalidValue(located(f"{reader} {name!r} before any operator wrote it", source))
        raise InvalidValue(located(f"{reader} {name!r}, which is not fed and no operator writes", source))

    def commit(self) -> None:
        """Keep the persistable values in the scope; nothing there shares memory with what was fed."""
        for name in self.persistable:
            array = self.env.get(name)
            if array is not None and array is not self.given.get(name):
                shared = isinstance(array, np.ndarray) and any(np.may_share_memory(array, fed) for fed in self.fed)
                self.scope.arrays[name] = array.copy() if shared else array
        self.scope.runs += 1

    def release(self) -> None:
        """Let go of every value: the steps and the run refer to each other, so they stay until Python collects cycles."""
        self.env.clear()
        self.given.clear()
        self.bodies.clear()
        self.fed.clear()


def _body(steps: list[tuple[Step, list[str]]]) -> Body:
    def run(frames: Frames) -> None:
        local = frames[0]
        for step, names in steps:
            step(frames)
            for name in names:
                local.pop(name, None)

    return run


def _may_write_nothing(op: Operator) -> bool:
    row = REGISTRY.get(op.type)
    return op.type == "write_to_array" or (row is not None and row.partial)


def _raising(message: str) -> Step:
    def step(frames: Frames) -> None:
        raise ExecutionError(message)

    return step


def _handed_out(block: Block) -> frozenset[str]:
    """The results of the block of a gradient, which the operator that runs it hands out."""
    ops = (op for each in block.program.blocks for op in each.ops if block in blocks_of(op))
    return frozenset(name for op in ops for name in op.attrs.get("original_input_grad", ()))


# -- feeding and fetching ------------------------------------------------------------------------


def _fed(block: Block, feed: Mapping[str, Any]) -> Env:
    if not isinstance(feed, Mapping):
        raise InvalidType(f"feed is a dict from name to array, not {feed!r}")
    return {name: _fed_array(block, name, value) for name, value in feed.items()}


def _fed_array(block: Block, name: str, value: Any) -> Array:
    if name not in block.vars:
        raise InvalidValue(f"feed has {name!r}, which the program does not declare{did_you_mean(str(name), block.vars)}")
    shape, dtype = block.vars[name].declared
    given = isinstance(value, np.ndarray | np.generic)
    try:
        array = np.asarray(value) if given or dtype is None else np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype}: {error}") from None
    if dtype is not None and array.dtype != dtype:
        raise InvalidValue(f"feed {name!r} is {array.dtype}, but the variable is declared {dtype}; convert it with .astype({dtype!r})")
    if shape is not None and (len(shape) != array.ndim or any(e not in (-1, a) for e, a in zip(shape, array.shape, strict=True))):
        raise InvalidValue(f"feed {name!r} has shape {list(array.shape)}, but the variable is declared {list(shape)}")
    return array


def _own(value: Any) -> Any:
    """What was fetched, as the caller's own: an array of tensors as a list."""
    if isinstance(value, TensorArray):
        return [_own(value.read(i)) for i in range(len(value))]
    return value.copy() if isinstance(value, np.ndarray) else value


def _fetch_items(fetch_list: Any) -> Sequence[Any]:
    if fetch_list is None:
        return ()
    return fetch_list if isinstance(fetch_list, list | tuple) else [fetch_list]


def _fetch_name(block: Block, item: Any) -> str:
    name = item.name if isinstance(item, Variable) else item
    if isinstance(item, Variable) and not stands_for(block, item):
        raise InvalidValue(f"cannot fetch {item!r}: it is of another program; here the name is {block.var_recursive(item.name)!r}")
    if not isinstance(name, str):
        raise InvalidType(f"fetch_list holds variables or their names, not {item!r}")
    if not block.has_var_recursive(name):
        raise InvalidValue(f"cannot fetch {name!r}: the program has no such variable{did_you_mean(name, block.vars)}")
    return name
