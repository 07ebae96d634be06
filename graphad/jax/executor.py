"""``JaxExecutor`` runs programs on XLA; ``to_jax`` makes a pure function of one.

run(program, feed, fetch_list, scope)      state of the scope and feeds -> one jitted function -> fetched values, state of the scope
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from graphad.errors import ExecutionError, GraphadError, InvalidType, InvalidValue
from graphad.execution import Scope, global_scope
from graphad.execution.feeds import another_dtype, as_declared, check_fed_shape, fed_array, fed_type, fed_values, fetch_names, with_read
from graphad.execution.interpreter import SEED
from graphad.ir import Graph
from graphad.jax.bounded import Bounded
from graphad.jax.device import OnDevice, on_device
from graphad.jax.lowering import Lowering, Options
from graphad.jax.pcg64 import words_of
from graphad.jax.stacks import Buffer
from graphad.ops import REGISTRY
from graphad.ops.aggregates import Aggregate, TensorArray
from graphad.places import CPUPlace
from graphad.program import Program, default_main_program
from graphad.program.snapshot import Snapshot
from graphad.types import Array, Tensor

RANDOM = "@random"  # of a state: the seed and the number of the run, from which all streams are made
NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
KEPT = 8  # programs that an executor keeps compiled

State = dict[str, Tensor]


class JaxFunction:
    """A program as a pure function ``(feeds, state) -> (fetches, state)`` of jax's arrays.

    It may be jitted, mapped by ``vmap``, differentiated (where its loops have known trip counts), sharded and exported. ``feeds`` are
    arrays by name; ``state`` has the persistable variables, and ``"@random"`` if the program draws random numbers: uint32 words of the
    seed and the number of the run, of which the new state has the next. A fetched tensor with an extent that only the run knows is a
    ``Bounded``: ``np.asarray`` of it has the elements that there are.

    Attributes:
        program: what it runs.
        fetched: the names of what it returns, in this order.
        reads: the persistable variables that the program reads or initializes.
        failures: of the last tracing, what operators refuse; the number of the first that was refused is the last result of ``checked``.
    """

    def __init__(self, program: Program, fetched: Sequence[str], options: Options) -> None:
        self.program, self.fetched, self.options = program, list(fetched), options
        block = program.global_block()
        self.persistable = [name for name, var in block.vars.items() if var.persistable]
        self.is_random = any(op.type in REGISTRY and REGISTRY[op.type].random for part in program.blocks for op in part.ops)
        self.failures: list[str] = []

    def __call__(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[Tensor], State]:
        fetches, new, _ = self.checked(feeds, state)
        return fetches, new

    def checked(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[Tensor], State, Tensor]:
        """The same, and the number of the first of ``failures`` that happened, 0 if none did."""
        # The caller's setting, before it is wide in here.
        is_wide = jax.config.jax_enable_x64
        with jax.enable_x64(True):
            key = state.get(RANDOM)
            lowering = Lowering(self.program, self.options, key)
            frame = {name: value for name, value in state.items() if name != RANDOM}
            frame.update((name, self._fed(name, value, is_wide)) for name, value in feeds.items())
            frame = lowering.run(frame)
            fetches = [_fetched(name, frame) for name in self.fetched]
            new = {name: frame[name] for name in self.persistable if name in frame}
            new = {name: value if isinstance(value, Aggregate) else jax.numpy.asarray(value) for name, value in new.items()}
            if key is not None:
                # The number of the run is the last word of the key; the interpreter counts runs in the scope.
                new[RANDOM] = jax.numpy.asarray(key).at[-1].add(1)
            self.failures = lowering.failures
            return fetches, new, lowering.failed

    def _fed(self, name: str, value: Tensor, is_wide: bool) -> Tensor:
        """A feed in the declared dtype; InvalidValue or InvalidType for one of another shape, or another kind of numbers."""
        shape, dtype = fed_type(self.program.global_block(), name)
        if isinstance(value, Aggregate):
            return value
        if not hasattr(value, "dtype"):
            return fed_array(name, value, shape, dtype)
        check_fed_shape(name, np.shape(value), shape)
        # JAX narrows numbers of 64 bits unless it is told otherwise; then they stay so.
        if dtype is None or value.dtype == dtype or (not is_wide and value.dtype == NARROW.get(dtype)):
            return value
        if np.dtype(value.dtype).kind != np.dtype(dtype).kind:
            raise another_dtype(name, value.dtype, dtype)
        return value.astype(dtype)

    def state(self, scope: Scope | None = None) -> State:
        """The state that a scope has: a copy of its variables that the program declares, and the random streams' numbers."""
        scope = global_scope() if scope is None else scope
        arrays = scope.arrays
        # Arrays that are on the device already are not copied to the host and back.
        raw = arrays.raw if isinstance(arrays, OnDevice) else arrays.__getitem__
        values: State = {
            name: as_declared(self.program.global_block(), name, raw(name), None) for name in self.persistable if name in arrays
        }
        if self.is_random:
            values[RANDOM] = np.array(words_of(*_key(self.program, scope)), "uint32")
        return values

    def __repr__(self) -> str:
        return f"<{self.program.identity} as a function of feeds and state, which returns {', '.join(self.fetched)}>"


def to_jax(
    program: Program,
    fetch_list: object = None,
    *,
    max_trips: int | None = None,
    reinitialize: bool = False,
) -> JaxFunction:
    """A program as a pure function of jax's arrays, ``(feeds, state) -> (fetches, state)``.

    Args:
        program: what the function runs: block 0, once.
        fetch_list: variables or names whose values it returns.
        max_trips: how many iterations a loop may take whose trip count depends on values, where its gradient or an array that it writes
            needs a bound. Loops whose trip count is known, or follows from constants and shapes, need none.
        reinitialize: run initialization operators although what they write has a value in the state.

    Raises:
        TypeError: the program is none, or ``max_trips`` no integer.
        ValueError: ``max_trips`` is below 1; a fetched name is unknown.
        NotLowered: (where the function is traced) an operator needs values that XLA does not know; the message names it and its line.

    Collectives (``c_allreduce_sum`` and others) are those of a process that is alone, so the function is not one to shard by ``shard_map``.
    Programs with float64 or int64 values want 64 bits: call the function, and what is made of it, within ``jax.enable_x64(True)``.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[3])
    ...     y = ga.layers.tanh(x) * 2.0
    >>> function = to_jax(program, [y])
    >>> fetches, state = jax.jit(function)({"x": np.zeros((1, 3), "float32")}, {})
    >>> fetches[0].shape, state
    ((1, 3), {})
    """
    if not isinstance(program, Program):
        raise InvalidType(f"to_jax takes a Program, not {program!r}")
    if max_trips is not None and (not isinstance(max_trips, int) or isinstance(max_trips, bool)):
        raise InvalidType(f"max_trips is an integer or None, not {max_trips!r}")
    if max_trips is not None and max_trips < 1:
        raise InvalidValue(f"max_trips is 1 or more, not {max_trips}")
    options = Options(max_trips, reinitialize)
    return JaxFunction(program, fetch_names(program.global_block(), fetch_list), options)


class JaxExecutor:
    """Runs programs on XLA, as ``Executor`` does on numpy.

    A program is compiled for the types of what is fed and of the scope's variables, at its first run with these; a change of it is seen.
    What it keeps in the scope stays on the device, and is donated to the next run.

    Args:
        place: one of ``jax.devices()``, or ``CPUPlace()``; JAX's default device, a GPU where there is one, if None.
        max_trips: see ``to_jax``.
        donate: let a run reuse the memory of the variables that it writes.
        check_finite: raise after a run in which an operator made a nan or an infinity; the first one is named.

    Raises:
        TypeError, ValueError: as ``to_jax``; the place is none.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], dtype="float64")
    ...     y = x * 2.0
    >>> JaxExecutor().run(program, feed={"x": [[1.0, 2.0]]}, fetch_list=[y])
    [array([[2., 4.]])]
    """

    def __init__(
        self,
        place: CPUPlace | jax.Device | None = None,
        *,
        max_trips: int | None = None,
        donate: bool = True,
        check_finite: bool = False,
    ) -> None:
        if not isinstance(place, CPUPlace | jax.Device | None):
            raise InvalidType(
                f"place is one of jax.devices(), CPUPlace() or None, not {place!r}; max_trips and others are given by keyword"
            )
        self.device = jax.devices("cpu")[0] if isinstance(place, CPUPlace) else place
        # For its checks of ``max_trips``: a mistake is said here, not at the first run.
        to_jax(Program(), max_trips=max_trips)
        self.max_trips, self.donate, self.check_finite = max_trips, donate, check_finite
        self._compiled: dict[tuple[object, ...], tuple[Snapshot, JaxFunction, Tensor]] = {}

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, object] | None = None,
        fetch_list: object = None,
        scope: Scope | None = None,
        reinitialize: bool = False,
        *,
        return_numpy: bool = True,
        use_program_cache: bool = True,
        use_prune: bool = False,
    ) -> list[Array]:
        """Run block 0 of a program once.

        Args:
            program: the default main program if None.
            feed: arrays by the name of the variable; a list or a number becomes an array of the variable's dtype.
            fetch_list: variables or names whose values to return, in this order; one alone need not be a list.
            scope: where persistable variables are read and kept; the global scope if None.
            reinitialize: run initialization operators although they have run in this scope before.
            return_numpy: False to have jax's arrays, which stay on the device.
            use_program_cache, use_prune: as ``Executor.run``.

        Returns:
            The fetched arrays, as numpy's.

        Raises:
            ValueError: a feed is missing, unknown, of another shape or dtype than declared, or a fetched name is unknown.
            ExecutionError: an operator failed, or refuses a value; the scope is then as it was before the run.
            NotLowered: the program cannot become an XLA program; the message names the operator and the user's line.
            EndOfData: a reader that feeds the program by itself (``layers.py_reader``) has no more.
        """
        if use_prune:
            raise InvalidValue("use_prune=True would prune at each run: run program.prune(fetch_list), made once")
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        if not isinstance(program, Program) or not isinstance(scope, Scope):
            hint = "; graphad.schedule(graph) makes a program" if isinstance(program, Graph) else ""
            raise InvalidType(f"run takes a Program and a Scope, not {program!r} and {scope!r}{hint}")
        feeds = fed_values(program.global_block(), with_read(program, feed))
        function, step = self._function(program, fetch_list, reinitialize)
        with jax.enable_x64(True), jax.default_device(self.device):
            state, arrays = function.state(scope), on_device(scope)
            # Only what a run left on the device: the memory of what the user has set is the user's.
            donated_state = {name: array for name in state if (array := arrays.device(name)) is not None} if self.donate else {}
            other_state = {name: value for name, value in state.items() if name not in donated_state}
            try:
                fetches, new, fault = step(feeds, donated_state, other_state)
            except GraphadError as error:
                error.__notes__ = []  # JAX's, about the lines of its own that it leaves out
                raise
            # Here the host waits for the device: a fault is known only after the run.
            number = int(fault)
        if number:
            raise ExecutionError(function.failures[number - 1])
        new.pop(RANDOM, None)
        arrays.put(new)
        scope.runs += 1
        return [_own(value) for value in fetches] if return_numpy else fetches

    def close(self) -> None:
        """Forget the compiled programs; the executor can still run programs."""
        self._compiled.clear()

    def __repr__(self) -> str:
        options = {"place": self.device, "max_trips": self.max_trips, "check_finite": self.check_finite}
        return ", ".join(["<JaxExecutor", *(f"{name}={value}" for name, value in options.items() if value)]) + ">"

    def _function(self, program: Program, fetch_list: object, reinitialize: bool) -> tuple[JaxFunction, Tensor]:
        names = fetch_names(program.global_block(), fetch_list)
        key = (id(program), tuple(names), reinitialize)
        entry = self._compiled.pop(key, None)
        # An id may have become another program's, and a program may have been changed since.
        if entry is None or entry[1].program is not program or not entry[0].is_current():
            function = JaxFunction(program, names, Options(self.max_trips, reinitialize, self.check_finite))
            entry = (Snapshot(program), function, jax.jit(_stepped(function), donate_argnums=1))
        self._compiled[key] = entry  # least recently used first: that one is dropped
        if len(self._compiled) > KEPT:
            del self._compiled[next(iter(self._compiled))]
        return entry[1], entry[2]


def _stepped(function: JaxFunction) -> Tensor:
    def step(feeds: State, taken: State, given: State) -> Tensor:
        return function.checked(feeds, {**taken, **given})

    return step


# -- values --------------------------------------------------------------------------------------


def _fetched(name: str, frame: Mapping[str, Tensor]) -> Tensor:
    if name not in frame:
        raise InvalidValue(f"the fetch list has {name!r}, which has no value")
    value = frame[name]
    if isinstance(value, TensorArray):
        return [value.read(i) for i in range(len(value))]
    return value if isinstance(value, Aggregate) else jax.numpy.asarray(value)


def _own(value: Tensor) -> Tensor:
    if isinstance(value, list):
        return [None if item is None else np.array(item) for item in value]
    if isinstance(value, Buffer):
        return [np.array(value.data[i]) if value.filled[i] else None for i in range(int(value.length))]
    return value if isinstance(value, Aggregate) and not isinstance(value, Bounded) else np.array(value)


def _key(program: Program, scope: Scope) -> tuple[int, int]:
    """The numbers that the streams of a run begin with, as on the numpy executor; without a seed each run draws again."""
    seed = program.random_seed or SEED.get()
    return (seed, scope.runs) if seed else (int(np.random.default_rng().integers(1 << 62)), scope.runs)
