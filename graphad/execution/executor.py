"""The interpreter: it runs a program operator by operator, and so defines what a program means."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import ExecutionError, GraphadError, InvalidType, InvalidValue
from graphad.execution.scope import Scope, global_scope
from graphad.ops import REGISTRY, OpDef
from graphad.ops.definition import did_you_mean
from graphad.program import EMPTY, Block, Operator, Program, Variable, default_main_program, located, stands_for
from graphad.types import FLOATS

Array = NDArray[Any]
Env = dict[str, Array]


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
        with np.errstate(all="ignore"):
            run.operators()
        results = [run.read(name, None).copy() for name in fetched]
        run.commit()
        return results


class _Run:
    """One run of a block: the values alive, and when each is read for the last time."""

    def __init__(self, block: Block, env: Env, scope: Scope, fetched: set[str], check_finite: bool, reinitialize: bool) -> None:
        self.block = block
        self.env = env
        self.scope = scope
        self.fetched = fetched
        self.check_finite = check_finite
        self.reinitialize = reinitialize
        self.fed = list(env.values())
        self.kept: Env = {}
        self.persistable = {name for b in block.chain() for name, var in b.vars.items() if var.persistable}
        self.last_use = {name: i for i, op in enumerate(block.ops) for name in (*op.input_names(), *op.output_names())}

    def operators(self) -> None:
        """Run the operators in order; free each value behind its last use."""
        for i, op in enumerate(self.block.ops):
            if not self._initialised(op):
                self._operator(op)
            for name in {*op.input_names(), *op.output_names()}:
                if self.last_use[name] == i and name not in self.fetched:
                    self.env.pop(name, None)

    def _initialised(self, op: Operator) -> bool:
        if not op.attrs.get("run_once") or self.reinitialize:
            return False
        return all(name in self.kept or self.scope.has(name) for name in op.output_names())

    def _operator(self, op: Operator) -> None:
        row = REGISTRY.get(op.type)
        if row is None:
            raise ExecutionError(located(f"operator {op.type!r} is not registered, so it cannot run: {op!r}", op.source))
        inputs = {slot: [self.read(n, op) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        wanted = [slot for slot, names in op.outputs.items() if any(n != EMPTY for n in names)]
        try:
            outputs = row.run(inputs, self._attrs(row, op), wanted)
        except Exception as error:
            raise ExecutionError(_failure(op, inputs, error)) from error
        for slot in wanted:
            for name, array in zip(op.outputs[slot], outputs[slot], strict=True):
                if name != EMPTY:
                    self._write(op, name, array, inputs)

    def _attrs(self, row: OpDef, op: Operator) -> dict[str, Any]:
        attrs = {k: v for k, v in op.attrs.items() if k in row.attrs}
        if row.random:
            attrs["rng"] = self._generator(op)
        return attrs

    def _generator(self, op: Operator) -> np.random.Generator:
        """A stream of its own for each random operator, so that passes can move or remove others; ``random_seed`` fixes it."""
        if not self.block.program.random_seed:
            return np.random.default_rng()
        name = zlib.crc32(op.output_names()[0].encode())
        return np.random.default_rng([self.block.program.random_seed, self.scope.runs, name])

    def read(self, name: str, op: Operator | None) -> Array:
        """The value of a name: of this run, else of the scope."""
        for values in (self.env, self.kept):
            if name in values:
                return values[name]
        if name in self.scope.arrays:
            return self._from_scope(name, op)
        raise InvalidValue(self._missing(name, op))

    def _from_scope(self, name: str, op: Operator | None) -> Array:
        """The scope's value, in the declared dtype; ValueError if it is not what the program declares."""
        array = self.scope.arrays[name]
        var = self.block.var_recursive(name) if self.block.has_var_recursive(name) else None
        shape, dtype = (None, None) if var is None else var.declared
        fits = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
        kind = dtype is None or array.dtype == dtype or (array.dtype.kind == "f" and dtype in FLOATS)
        if not fits or not kind:
            found = f"{array.dtype}{list(array.shape)}"
            raise InvalidValue(located(f"the scope has {name!r} as {found}, but it is declared {var!r}", op.source if op else None))
        self.env[name] = array if dtype is None else array.astype(dtype, copy=False)
        return self.env[name]

    def _missing(self, name: str, op: Operator | None) -> str:
        reader = f"operator {op.type!r} reads" if op else "the fetch list asks for"
        if name in self.persistable:
            message = f"{reader} {name!r}, which has no value in this scope: run the startup program, or set it"
            return located(message, op.source if op else None)
        if any(name in other.output_names() for other in self.block.ops):
            return located(f"{reader} {name!r} before any operator wrote it", op.source if op else None)
        return located(f"{reader} {name!r}, which is not fed and no operator writes", op.source if op else None)

    def _write(self, op: Operator, name: str, array: Any, inputs: Mapping[str, Sequence[Array]]) -> None:
        array = np.asarray(array)
        if self.check_finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = "nan" if np.isnan(array).any() else "an infinity"
            raise ExecutionError(located(f"operator {op.type!r} made {bad} in {name!r}\n{_inputs_text(op, inputs)}", op.source))
        self.env[name] = array
        if name in self.persistable:
            self.kept[name] = array

    def commit(self) -> None:
        """Keep the persistable values in the scope; nothing there shares memory with what was fed."""
        for name, array in self.kept.items():
            shared = any(np.may_share_memory(array, fed) for fed in self.fed)
            self.scope.arrays[name] = array.copy() if shared else array
        self.scope.runs += 1


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


def _failure(op: Operator, inputs: Mapping[str, Sequence[Array]], error: Exception) -> str:
    reason = str(error) if isinstance(error, GraphadError) else f"{type(error).__name__}: {error}"
    return located(f"operator {op.type!r} failed: {reason}\n{_inputs_text(op, inputs)}", op.source)


def _inputs_text(op: Operator, inputs: Mapping[str, Sequence[Array]]) -> str:
    lines = [
        f"  {slot} = {name}: {a.dtype}{list(a.shape)}"
        for slot, arrays in inputs.items()
        for name, a in zip(op.input(slot), arrays, strict=False)
    ]
    attrs = ", ".join(f"{k}={v!r}" for k, v in op.attrs.items())
    return "\n".join([*lines, *([f"  attributes: {attrs}"] if attrs else [])])
