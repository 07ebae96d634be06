"""A compiled program at run: the function that its source makes, and what it needs of the run."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache
from sys import getrefcount
from time import perf_counter
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.codegen import HEAD, Options, Source, written
from graphad.execution.compiler import Compiler, Unsupported
from graphad.execution.nodes import Compiled, values_of
from graphad.execution.parallel import made_parallel, new_signals
from graphad.execution.planning import MemoryPlan, grouped, planned, updated_early, without_unread
from graphad.execution.prepared import Prepared
from graphad.execution.profiling import Profile, batch_of, costs_of
from graphad.execution.runtime import ABSENT, HELPERS, Changed
from graphad.execution.scope import Scope
from graphad.execution.tracing import Value
from graphad.ops import lookup
from graphad.ops.communication import rewind
from graphad.ops.loops import LOOPS
from graphad.program.gc_pause import paused_collector
from graphad.references import COUNTING
from graphad.types import Array, Function, Tensor

FIRST: ContextVar[int] = ContextVar("first", default=2)  # the run at which a program without loops is compiled; 0: never is any
MANY = 16  # functions that a program has at most
LARGEST = 20_000  # operators of programs that are compiled
NOTED = 2  # runs whose results say which types others will have
ROUNDS = 3  # how often a program is compiled again for types that runs had
SHORT = 16  # elements of results that are kept as they are
FAILURES = 3  # runs that are left to the interpreter and succeed there, after which it runs all of them


def compiled_program(
    run: Prepared,
    feeds: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    fetched: Sequence[str],
    unguarded: frozenset[int] = frozenset(),
    seen: Mapping[int, Array | None] | None = None,
    given: bool = False,
) -> tuple[Compiled, MemoryPlan]:
    """Compile a program for the types of such feeds and variables, and plan the memory of its values; if ``given``, some are written into
    arrays that are passed in."""
    compiled = Compiler(run, unguarded, seen).compiled(feeds, stored, fetched)
    # In this order: dead calls would make groups and live ranges larger, moved updates change what can be grouped, and the plan needs the
    # final order.
    without_unread(compiled)
    updated_early(compiled)
    grouped(compiled, run.numba)
    if run.threads is not None and run.profile is None:
        batch = batch_of(run.block.program, {name: np.shape(value) for name, value in feeds.items()})
        made_parallel(compiled, run.threads.count, costs_of(run.block.program, batch))
    return compiled, planned(compiled, given=given)


class CompiledFunction:
    """A program compiled to one function, for feeds and variables of some types.

    Raises:
        Unsupported: the program has something that is left to the interpreter.
    """

    def __init__(
        self,
        run: Prepared,
        feeds: Mapping[str, Tensor],
        fetched: Sequence[str],
        unguarded: frozenset[int] = frozenset(),
        seen: Mapping[int, Array | None] | None = None,
    ) -> None:
        compiled, self.plan = compiled_program(run, feeds, run.stored, fetched, unguarded, seen or {}, given=True)
        self.source: Source = written(
            compiled, self.plan, Options(limit=run.max_iterations, marks=run.profile is not None, native=run.numba)
        )
        self.profile = run.profile
        self.marked: list[tuple[int, float]] = []
        self.states = [(name, _type_of(value)) for name, value in compiled.states.items()]
        self.seen: list[object] = [MISSING] * len(self.states)  # the variables that it read last, whose types are therefore known
        self.places = {name: at for at, (name, _) in enumerate(self.states)}
        self.get = operator.itemgetter(*self.places) if len(self.places) > 1 else None
        self.initial = _initializations(run)
        self.kept = list(compiled.kept)
        self.spare: dict[str, Array | None] = dict.fromkeys(self.source.spare)
        self.kinds = [(name, _kind_of(compiled.kept[name])) for name in self.spare]
        self.returned = [(i, _kind_of(compiled.fetched[i])) for i in self.source.returned]
        # The results of the last run, which are written to again once nothing else refers to them.
        self.results: list[Array | None] = [None] * len(self.returned)
        self.iterations: list[int] = []
        self.trips: set[int] = set()
        self.failures = 0
        self.made: dict[int, Array | None] = {}  # examples of what it made where it was compiled without any; None: not of one type
        self.notes = "note(" in self.source.text
        self.runs = 0
        self.has_loops = " trips" in self.source.text
        self.random = compiled.random
        self.carried = _carried(compiled)
        self.may_be_absent = any(value.absent for value in compiled.kept.values())
        self.feeds = [(name, _type_of(value) or ((), None, False)) for name, value in compiled.feeds.items()]
        self.function = self._made(run)
        self.context = _own_context(self.source.objects.values())
        for value in values_of(compiled):
            value.let_go()

    def _made(self, run: Prepared) -> Function:
        def count_iteration() -> None:
            if not run.iterations_left:
                raise Changed
            run.iterations_left -= 1

        names: dict[str, Any] = {
            **_head(),
            **HELPERS,
            "generator": run.generator,
            "iterations": self.iterations,
            "all_trips": self.trips,
            "count_iteration": count_iteration,
            "new_signals": new_signals,
            "together": None if run.threads is None else run.threads.together,
            "note": self.see,
            "mark": lambda number: self.marked.append((number, perf_counter())),
            **{name: getattr(item, "call", item) for name, item in self.source.objects.items()},
        }
        # What is the same in all of them is compiled once; the lines keep their numbers.
        text = "\n" * HEAD.count("\n") + self.source.text.removeprefix(HEAD)
        exec(compile(text, "<compiled program>", "exec"), names)
        function: Function = names["make"]()
        return function

    def see(self, number: int, value: Tensor) -> None:
        """Note of what type an operator's result is."""
        example = None
        if type(value) is np.ndarray and value.flags.c_contiguous:
            # Sizes computed from it are examples too, so short ones are kept as they are; of long ones a single element is.
            example = value.copy() if value.size <= SHORT else np.broadcast_to(np.ones((), value.dtype), value.shape)
        earlier = self.made.get(number, example)
        is_alike = example is not None and earlier is not None and (earlier.shape, earlier.dtype) == (example.shape, example.dtype)
        self.made[number] = earlier if is_alike else None

    def variables(self, stored: Mapping[str, Tensor]) -> list[Tensor] | None:
        """The variables that the function reads; None if a type differs from the compiled one."""
        if any(all(name in stored for name in names) is not has_run for names, has_run in self.initial):
            return None
        try:  # in one step: another thread may be changing the scope
            arrays = [*self.get(stored)] if self.get is not None else [stored[name] for name in self.places]
        except KeyError:
            return None
        if not all(map(operator.is_, arrays, self.seen)):
            if not all(last is array or _is(array, kind) for array, last, (_, kind) in zip(arrays, self.seen, self.states, strict=True)):
                return None
            self.seen = arrays.copy()
        return arrays

    def fed(self, feed: Mapping[str, Tensor]) -> list[Tensor] | None:
        """The fed arrays; None if a type differs from the compiled one."""
        if len(feed) != len(self.feeds):
            return None
        arrays = []
        for name, (shape, dtype, in_order) in self.feeds:
            array = feed.get(name)
            if (
                type(array) is not np.ndarray
                or array.shape != shape
                or array.dtype is not dtype
                or array.flags.c_contiguous is not in_order
            ):
                return None
            arrays.append(array)
        return arrays

    def __call__(self, args: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Run it on what is fed and the variables: the fetched values, and the new values of variables."""
        # Arrays of earlier runs are written to again where nothing outside has them: references are the table's and that of the variable.
        alone = 2 + COUNTING
        for name, kind in self.kinds:
            array = self.spare[name]
            args.append(np.empty(*kind) if array is None or getrefcount(array) != alone else array)
        for i, (_, kind) in enumerate(self.returned):
            array = self.results[i]
            args.append(np.empty(*kind) if array is None or getrefcount(array) != alone else array)
        array = None
        if self.has_loops:
            self.iterations.clear()
            self.trips.clear()
        start = perf_counter() if self.profile is not None else 0.0
        if self.context is None:
            with np.errstate(all="ignore"):
                results, new_states = self.function(*args)
        else:
            results, new_states = self.context.run(self.function, *args)
        if self.returned:
            self.results = [results[i] for i, _ in self.returned]
        if self.profile is not None:
            self.note(self.profile, start)
        return results, new_states

    def note(self, profile: Profile, start: float) -> None:
        """Tell where the time went; in a loop over tiles an operator runs once for all of them."""
        calls, tiled_numbers, marks = self.source.marks, set[int](), []
        for number, end in self.marked:
            call, first = calls[number]
            marks.append((call.op, end, first and number not in tiled_numbers))
            if call.tiles > 1:
                tiled_numbers.add(number)
        profile.marked(marks, start)
        self.marked.clear()

    def commit(self, kept: Sequence[Tensor], scope: Scope) -> None:
        """Keep the new values of variables in the scope. The arrays of the old ones may be written to if nothing else refers to them."""
        scope.runs += 1
        if not kept:
            return
        old = scope.arrays
        for name, kind in self.kinds:
            array = old.get(name)
            # The array of the old value takes the next new one: two arrays of a variable take turns.
            self.spare[name] = array if _is_usable(array, kind) else None
        for at, number in self.carried:
            self.seen[at] = kept[number]
        new = zip(self.kept, kept, strict=True)
        old.update([pair for pair in new if pair[1] is not ABSENT] if self.may_be_absent else new)  # in one step: other threads copy them


@cache
def _head() -> dict[str, object]:
    """The functions that every source begins with."""
    names: dict[str, object] = {"np": np}
    exec(compile(HEAD, "<compiled program>", "exec"), names)
    return names


def _initializations(run: Prepared) -> list[tuple[list[str], bool]]:
    """The results of initialization operators, each with whether it had run: then it is left out, otherwise compiled."""
    results = [] if run.reinitialize else [op.output_names() for op in run.block.ops if op.attrs.get("run_once")]
    return [(names, run.stored.keys() >= set(names)) for names in results]


def _carried(compiled: Compiled) -> list[tuple[int, int]]:
    """The places of variables, as they are read and as they are kept, whose new value has the type of the old one."""
    places = {name: place for place, name in enumerate(compiled.states)}
    new_states = enumerate(compiled.kept.items())
    return [(places[name], i) for i, (name, value) in new_states if name in places and value.alike(compiled.states[name])]


def _own_context(objects: Iterable[object]) -> Context | None:
    """A context in which numpy's errors are ignored; None if something that is called looks at context variables.

    numpy's error state is a context variable: set once, in a context of the function's own, it need not be set for each run. What looks at
    other context variables has to see those of the run.
    """
    if any(map(_is_foreign, objects)):
        return None
    context = copy_context()
    context.run(np.seterr, all="ignore")
    return context


def _kind_of(value: Value) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """The shape and dtype of the array that a value is."""
    return value.example.shape, value.example.dtype


MISSING = object()


def _is(array: object, kind: object) -> bool:
    """Whether something is an array of a type, or, where that is None, an aggregate."""
    if kind is None:
        return array is not None and type(array) is not np.ndarray
    return type(array) is np.ndarray and (array.shape, array.dtype, array.flags.c_contiguous) == kind


def _is_foreign(thing: object) -> bool:
    """Whether something that a function calls may look at context variables, which have to be those of the run."""
    description = getattr(thing, "described", None)
    if description is not None:
        definition = lookup(description[0])
        kernel = (getattr(definition, "forward", None) or definition).kernel
        return definition.ordered or _is_foreign(kernel)  # ordered: who the other ranks are
    return (
        callable(thing)
        and not isinstance(thing, np.ufunc)
        and not str(getattr(thing, "__module__", "")).startswith(("graphad.ops.", LOOPS))
    )


def _is_usable(array: object, kind: object) -> bool:
    """Whether a new value can be written into an array, if nothing else refers to it."""
    return type(array) is np.ndarray and (array.shape, array.dtype) == kind and array.base is None and bool(array.flags.carray)


@dataclass
class _Candidates:
    """The functions for one signature of feeds and one list of fetched values, and why there are none."""

    functions: list[CompiledFunction] = field(default_factory=list)
    unguarded: set[int] = field(default_factory=set)
    failures: int = 0
    reason: str = ""
    seen: dict[int, Array | None] = field(default_factory=dict)
    rounds: int = 0

    def learn(self, function: CompiledFunction) -> bool:
        """Take the types that a function's runs had for those of others, and let it be compiled again; whether its runs are looked at."""
        if not function.notes or self.rounds >= ROUNDS:
            return False
        function.runs += 1
        if function.runs < NOTED:
            return True
        news = {number: example for number, example in function.made.items() if number not in self.seen}
        self.seen |= news
        if all(example is None for example in news.values()):
            return False
        self.rounds += 1
        self.functions.remove(function)
        return True


def run_compiled(run: Prepared, fetched: tuple[str, ...]) -> list[Tensor] | None:
    """Run a program by the function for such feeds, which is made if there is none: the fetched values.

    None if it is left to the interpreter.
    """
    run.runs += 1
    first = FIRST.get()
    if not first or (run.runs < first and not run.has_loops):
        return None
    feeds = run.env
    # A function is for types, not for arrays: another batch size is another function.
    key = (fetched, *[(name, v.shape, v.dtype, v.flags.c_contiguous) if type(v) is np.ndarray else name for name, v in feeds.items()])
    candidates = run.functions.get(key)
    if candidates is None:
        # The oldest goes: feeds of another shape in every run would otherwise keep a function each.
        if len(run.functions) >= MANY:
            del run.functions[next(iter(run.functions))]
        candidates = run.functions[key] = _Candidates()
    if candidates.reason:
        return None
    variables = None
    for function in candidates.functions:
        variables = function.variables(run.stored)
        if variables is not None:
            break
    if variables is None:
        new_function = _made(run, candidates, fetched)
        if new_function is None:
            return None
        function, variables = new_function, new_function.variables(run.stored)
        assert variables is not None
    run.iterations = function.iterations
    try:
        results, new_states = function([*feeds.values(), *variables])
    # Whatever it was: the interpreter runs the program from the start, and raises the error of the operator, with the user's line.
    except Exception as error:
        _failed(candidates, function, error)
        run.restart()
        rewind()
        return None
    run.trips = set(function.trips)
    run.iterations = []
    function.commit(new_states, run.scope)
    run.last = None if candidates.learn(function) else (fetched, function)
    return list(results)


def run_again(run: Prepared, fetched: tuple[str, ...], feed: Mapping[str, Tensor], scope: Scope) -> list[Tensor] | None:
    """Run a program by the function that it was run by last; None if that is for other types or another list, or the run fails."""
    if run.last is None or run.last[0] != fetched:
        return None
    function: CompiledFunction = run.last[1]
    if function.random or run.max_iterations is not None:
        return None
    args = function.fed(feed)
    variables = None if args is None else function.variables(scope.arrays)
    if args is None or variables is None:
        return None
    args += variables
    del variables
    try:
        results, new_states = function(args)
    except Exception:
        rewind()
        return None
    function.commit(new_states, scope)
    return list(results)


def _made(run: Prepared, candidates: _Candidates, fetched: tuple[str, ...]) -> CompiledFunction | None:
    if len(candidates.functions) >= MANY:
        candidates.functions.pop(0)
    try:
        with paused_collector(len(run.block.ops)):
            function = CompiledFunction(run, run.env, fetched, frozenset(candidates.unguarded), candidates.seen)
    except (Unsupported, GraphadError) as error:
        candidates.reason = f"{type(error).__name__}: {error}"
        return None
    finally:
        run.restart()
    candidates.functions.append(function)
    run.bodies.clear()  # steps of the interpreter, which is needed no more
    return function


def _failed(candidates: _Candidates, function: CompiledFunction, error: Exception) -> None:
    """A run did what the function is not made for; if it goes on so, all are left to the interpreter."""
    candidates.failures += 1
    # An assumption about one operator's result did not hold: the next function is compiled without it.
    if isinstance(error, Changed) and error.operator >= 0:
        candidates.unguarded.add(error.operator)
        candidates.functions.remove(function)
    elif candidates.failures > FAILURES:
        candidates.reason = f"{type(error).__name__}: {error}"


def _type_of(value: Value) -> tuple[tuple[int, ...], np.dtype[np.generic], bool] | None:
    """The shape, the dtype, and whether the elements are laid out in order; None if it is no array."""
    return (value.example.shape, value.example.dtype, value.in_order) if value.static else None
