"""Running programs: each is prepared once, and run by the interpreter, which defines what it means, or as what it was compiled to."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from graphad.errors import ExecutionError, InvalidType, InvalidValue
from graphad.execution.compiled import run_again, run_compiled
from graphad.execution.feeds import fed_values, fetch_names, with_read
from graphad.execution.interpreter import RunOptions
from graphad.execution.native import check_installed
from graphad.execution.parallel import Threads
from graphad.execution.prepared import Prepared
from graphad.execution.profiling import Profile, batch_of, costs_of
from graphad.execution.runtime import own
from graphad.execution.scope import Scope, global_scope
from graphad.execution.strategies import CompiledProgram
from graphad.ir import Graph
from graphad.ops.loops import COMPILED
from graphad.places import CPUPlace
from graphad.program import Program, default_main_program
from graphad.program.gc_pause import paused_collector
from graphad.types import Array

if TYPE_CHECKING:  # passes are not read for executors without
    from graphad.rewriting import Pipeline

# -- executor --------------------------------------------------------------------------------------
# Running programs: step by step, which defines what they mean; blocks that run again and again as Python functions over numpy.

MODES = ("compiled", "interpreted")
NO_TRIPS: frozenset[int] = frozenset()
MOST_KNOWN = 8  # lists of what is fetched that an executor remembers
KEPT = 8  # programs that an executor keeps prepared


class Executor:
    """Runs programs on numpy arrays.

    A program is prepared at its first run, and again if it has changed; keep an executor to have that done once. The interpreter
    goes through it operator by operator, which defines what it means. At its second run, or at once if it has loops, a program is
    compiled for the types of what is fed and of the scope's variables: to a Python function over numpy that computes the same, to the
    last bit, in memory that is reused from run to run. What a run does otherwise than the function was made for, errors included,
    is left to the interpreter.

    Args:
        place: ``CPUPlace()`` or None, which are the same; as in Fluid.
        check_finite: raise at the first operator that makes a nan or an infinity; everything is then interpreted.
        mode: ``"compiled"``, or ``"interpreted"`` to have all runs interpreted.
        passes: a pipeline or its text, as ``"optimize-for-speed"``, that programs go through before they are prepared. What is
            fetched, and what outlives a run, keeps its value, as closely as the passes promise; programs themselves stay as they are.
        profile: whether to note where the time of runs goes: ``executor.profile`` then has it by operator and line.
        threads: how many threads a compiled program runs on: calls that do not need each other's results run at the same time
            where that is expected to pay, and give the same to the last bit. Threads of BLAS are BLAS's: with
            ``OPENBLAS_NUM_THREADS=1`` they do not compete. With ``profile=True`` there is one.
        numba: whether elementwise operators that follow each other are compiled to one loop, which gives the same to the last bit, and
            depthwise convolutions, softmax, normalizations and their gradients are loops too, in all modes, which add in another
            order. They are kept on disk for later processes. It needs the extra ``numba``.
        max_iterations: how many iterations the loops of one run may take, all of them together; no limit if None. What
            ``checkpoint-while`` runs again for a gradient is not counted a second time.

    Attributes:
        trips: how often the loops of the run that ended last ran, each number once.
        profile: what the runs so far have taken; None without ``profile=True``.

    Raises:
        TypeError: max_iterations or threads is not an integer, or passes are none.
        ValueError: they are negative or 0, or a pass is not known.
        ImportError: numba is requested and not installed.

    Several threads may run programs on one executor: no two runs share a prepared program. Runs that share a scope read its values
    when they begin and write theirs when they end.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], dtype="float64")
    ...     y = x * 2.0
    >>> Executor().run(program, feed={"x": [[1.0, 2.0]]}, fetch_list=[y])
    [array([[2., 4.]])]
    """

    _keeps = True  # prepared programs, for later runs

    def __init__(
        self,
        place: CPUPlace | None = None,
        *,
        check_finite: bool = False,
        max_iterations: int | None = None,
        mode: str = "compiled",
        passes: object = None,
        profile: bool = False,
        threads: int = 1,
        numba: bool = False,
    ) -> None:
        if not isinstance(place, CPUPlace | None):
            raise InvalidType(f"place is CPUPlace() or None, not {place!r}; check_finite and others are given by keyword")
        if mode not in MODES:
            raise InvalidValue(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        if max_iterations is not None and (not isinstance(max_iterations, int) or isinstance(max_iterations, bool)):
            raise InvalidType(f"max_iterations is an integer or None, not {max_iterations!r}")
        if max_iterations is not None and max_iterations < 0:
            raise InvalidValue(f"max_iterations is 0 or more, not {max_iterations}")
        self.check_finite = check_finite
        self.max_iterations = max_iterations
        self.mode = mode
        self.passes = None if passes is None else _pipeline(passes)
        self.profile = Profile() if profile else None
        self._threads = _threads(threads)
        self.numba = bool(numba)
        if self.numba:
            check_installed()
        self.trips: frozenset[int] = frozenset()
        self._known: dict[tuple[int, ...], tuple[Program, list[Any], tuple[str, ...], list[Prepared]]] = {}
        self._idle: dict[tuple[Any, ...], list[Prepared]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        options = {"check_finite": self.check_finite, "max_iterations": self.max_iterations, "passes": self.passes, "numba": self.numba}
        return ", ".join([f"<Executor: {self.mode}", *(f"{name}={value}" for name, value in options.items() if value)]) + ">"

    def run(
        self,
        program: Program | CompiledProgram | None = None,
        feed: Mapping[str, object] | None = None,
        fetch_list: object = None,
        scope: Scope | None = None,
        reinitialize: bool = False,
        *,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
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
            feed_var_name, fetch_var_name, return_numpy, use_program_cache: hints of Fluid's, without effect: there are no operators
                that feed and fetch, results are arrays, and programs are kept prepared.
            use_prune: False; a program is pruned once, before it runs: ``program.prune(fetch_list)``.

        Returns:
            The fetched arrays, each the caller's own.

        Raises:
            ValueError: a feed is missing, unknown, of another shape or dtype than declared, or holds what that has no number for, or
                masked elements; a fetched name is unknown; ``use_prune`` is set.
            ExecutionError: an operator failed; the message has its inputs' shapes and dtypes, and the user's line. The scope
                is then as it was before the run.
            TooManyIterations: the loops took more than ``max_iterations``.
            EndOfData: a reader that feeds the program by itself (``layers.py_reader``) has no more.
        """
        if use_prune:
            raise InvalidValue("use_prune=True would prune at each run: run program.prune(fetch_list), made once")
        if COMPILED.get() is not self.numba:  # what kernels may be is the same in all modes
            before = COMPILED.set(self.numba)  # as ``binding`` does, in a third of its time
            try:
                return self.run(program, feed, fetch_list, scope, reinitialize, use_prune=use_prune)
            finally:
                COMPILED.reset(before)
        program = default_main_program() if program is None else program.program if isinstance(program, CompiledProgram) else program
        scope = global_scope() if scope is None else scope
        if isinstance(program, Program) and program.identity.family.readers:
            feed = with_read(program, feed)
        # The short way, for programs that run again and again: no checks but whether all is as it was in the last run.
        if type(fetch_list) is list and type(scope) is Scope and not reinitialize and self.profile is None:
            entry = self._known.get((id(program), *map(id, fetch_list)))
            results = None if entry is None else self._again(entry, {} if feed is None else feed, scope)
            if results is not None:
                return results
        return self._run(program, feed, fetch_list, scope, reinitialize)

    def close(self) -> None:
        """Forget the prepared programs; the executor can still run programs."""
        with self._lock:
            self._known.clear()
            self._idle.clear()

    def _again(self, known: tuple[Any, ...], feed: Any, scope: Scope) -> list[Array] | None:
        """Run a program as it was run last; None if that is not possible."""
        _, _, names, idle = known
        if not idle or type(feed) is not dict:
            return None
        try:
            run: Prepared = idle.pop()  # in one step: it then belongs to this thread
        except IndexError:
            return None
        results = run_again(run, names, feed, scope) if run.is_up_to_date() else None
        if results is not None:
            self.trips = frozenset(run.last[1].trips) if run.has_loops and run.last is not None else NO_TRIPS
        idle.append(run)
        return results

    def _run(
        self, program: Program, feed: Mapping[str, object] | None, fetch_list: object, scope: Scope, reinitialize: bool
    ) -> list[Array]:
        """Run a program: everything is checked."""
        if not isinstance(program, Program) or not isinstance(scope, Scope):
            hint = "; graphad.schedule(graph) makes a program" if isinstance(program, Graph) else ""
            raise InvalidType(f"run takes a Program and a Scope, not {program!r} and {scope!r}{hint}")
        block = program.global_block()
        names = fetch_names(block, fetch_list)
        env = fed_values(block, feed or {})
        # What changes how a program is prepared. A prepared program holds its program, so the id stays taken.
        options = RunOptions(self.check_finite, reinitialize, self.max_iterations)
        key = (id(program), frozenset(names), options)
        run = self._taken(key) or self._prepared(program, key[1], options)
        run.begin(env, scope)
        batch = batch_of(program, {name: np.shape(value) for name, value in env.items()}) if self.profile is not None else 1
        start, before = perf_counter(), {} if self.profile is None else self.profile.times()
        try:
            # The interpreter defines the meaning: what the compiler leaves, and what fails in a compiled run, it runs from the start, so
            # that errors are its.
            with np.errstate(all="ignore"):
                results = run_compiled(run, tuple(names)) if self.mode == "compiled" and not self.check_finite else None
                if results is None:
                    run.operators()
                    results = [own(run.fetch((run.env,), (0, name), None)) for name in names]
                    run.commit()
            self.trips = frozenset(run.trips)
            if self.profile is not None:
                run.costs[batch] = run.costs.get(batch) or costs_of(program, batch)
                self.profile.ran(program, run.costs[batch], start, before)
            if run.last is not None and type(fetch_list) is list and self._keeps and not reinitialize:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                # The entry holds the program and what is fetched: as long as it is there, their ids are nothing else's.
                idle = self._idle.setdefault(key, [])
                self._known[(id(program), *map(id, fetch_list))] = (program, list(fetch_list), tuple(names), idle)
        except RecursionError:
            raise ExecutionError(f"the blocks of {program.identity} are nested too deep for Python's recursion limit") from None
        finally:
            run.release()
            self._give_back(key, run)
        return results

    def _prepared(self, program: Program, fetched: frozenset[str], options: RunOptions) -> Prepared:
        with paused_collector(len(program.global_block().ops)):
            return Prepared(
                program,
                fetched,
                options,
                lasts=self._keeps,
                profile=self.profile,
                passes=self.passes,
                threads=self._threads,
                numba=self.numba,
            )

    def _taken(self, key: tuple[object, ...]) -> Prepared | None:
        """A prepared program that no run uses and that is still up to date, which then belongs to the caller; None if there is none."""
        # A prepared program holds the values of one run, so it belongs to one thread at a time.
        with self._lock:
            idle = self._idle.get(key, [])
            run = idle.pop() if idle else None
        if run is None or run.is_up_to_date():
            return run
        with self._lock:
            old_runs = self._idle.pop(key, None)
            self._known = {ids: entry for ids, entry in self._known.items() if entry[3] is not old_runs}
        return None

    def _give_back(self, key: tuple[object, ...], prepared: Prepared) -> None:
        """Keep a prepared program for later runs, and drop the least recently run one; or free it right away."""
        if not self._keeps:
            prepared.bodies.clear()  # whose steps refer to it: Python's collector need not look for them
            return
        with self._lock:
            idle = self._idle[key] = self._idle.pop(key, [])
            idle.append(prepared)
            if len(self._idle) > KEPT:
                old_runs = self._idle.pop(next(iter(self._idle)))
                self._known = {ids: entry for ids, entry in self._known.items() if entry[3] is not old_runs}


class OneRun(Executor):
    """An executor that keeps no program prepared, and does not remember what it was like: for programs that run once."""

    _keeps = False


def _threads(count: int) -> Threads | None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise InvalidType(f"threads is an integer, not {count!r}")
    if count < 1:
        raise InvalidValue(f"threads is 1 or more, not {count}")
    return Threads(count) if count > 1 else None


def _pipeline(passes: object) -> Pipeline:
    """The pipeline that is meant."""
    kind: type[Pipeline] = import_module("graphad.rewriting").Pipeline
    if isinstance(passes, str):
        return kind.parse(passes)
    return kind(*(passes if isinstance(passes, list | tuple) else [passes]))
