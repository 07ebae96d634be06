"""Whether two programs compute the same: both are run on the same arrays in fresh scopes, and all they give is compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.contexts import binding
from graphad.distribution import LocalGroup, declared_parts, split_arrays, split_feed, whole_state
from graphad.errors import ExecutionError, NoValue
from graphad.execution import Scope, interpreter
from graphad.execution.compiled import FIRST
from graphad.execution.executor import OneRun
from graphad.execution.feeds import fed_values, fetch_names
from graphad.execution.interpreter import Interpreter, RunOptions
from graphad.execution.runtime import own
from graphad.ir import lower
from graphad.ops import GRAD
from graphad.ops.callbacks import printing
from graphad.ops.mesh import joined
from graphad.program import Program
from graphad.testing.cases import Case
from graphad.testing.values import number, short_text
from graphad.types import TENSOR, Array, Shape

SEED = 1  # of programs that have none: what they draw is then the same in each run
Printed = tuple[str, Any]
ITERATIONS = 2000  # of the loops of a run, all together
LEAST = 1e-3  # what is smaller than this may differ by as much as this may


@dataclass(frozen=True)
class Observed:
    """The results of a run: the targets that have a value, the scope after it, the trip counts of its loops, and what it printed.

    Printed values come with what is said before them; gradients are left out, which passes make, and may scale on their way. None: nobody
    listened.
    """

    values: dict[str, Any]
    scope: dict[str, Array]
    trips: frozenset[int] = frozenset()
    printed: Sequence[Printed] | None = None

    def without(self, other: Observed) -> Observed:
        """This less the names of another one."""
        values = {name: value for name, value in self.values.items() if name not in other.values}
        return replace(self, values=values, scope={name: array for name, array in self.scope.items() if name not in other.scope})


def seeded() -> AbstractContextManager[None]:
    """Within it, a program without a seed has one, in this thread alone: another one may run the same program."""
    return binding(interpreter.SEED, SEED)


class Stepwise:
    """A program prepared to be run step by step, on the arrays of several cases.

    Args:
        program: which loops may take ``ITERATIONS`` iterations, all together.
        names: what is read after each run.
        interpreter: what runs it.
    """

    def __init__(self, program: Program, names: Iterable[str], interpreter: type[Interpreter] = Interpreter) -> None:
        self.names = list(names)
        self._block = program.global_block()
        self._run = interpreter(program, self.names, RunOptions(max_iterations=ITERATIONS))

    def run(self, case: Case) -> Observed:
        """Run the program on a case; names without a value are omitted, and so are feeds that the program does not declare.

        Raises:
            GraphadError: the program does not run, or does not end.
        """
        run, scope, values, printed = self._run, _scope_of(case), dict[str, Any](), list[Printed]()
        run.begin(fed_values(self._block, _fed(self._block.program, case)), scope)
        try:
            with seeded(), _noting(printed), np.errstate(all="ignore"):
                run.operators()
                # What a block that did not run would have written has no value; a name without one is a difference too, if the other
                # program has one.
                for name in fetch_names(self._block, self.names):
                    with suppress(NoValue):
                        values[name] = own(run.fetch((run.env,), (0, name), None))
                run.commit()
        except RecursionError:
            raise ExecutionError(f"the blocks of {self._block.program.identity} are nested too deep for Python's recursion limit") from None
        values = {name: value for name, value in values.items() if value is not None}
        return Observed(values, dict(scope.arrays), frozenset(run.trips), printed)

    def close(self) -> None:
        """Forget the steps, which refer to the run: Python's collector need not look for them."""
        self._run.bodies.clear()


def observe(program: Program, case: Case, names: Sequence[str], compiled: bool = False) -> Observed:
    """Run a program on the arrays of a case: interpreted, or compiled.

    Names without a value (of a block that did not run) are left out; so are arrays for what the program does not declare.

    Raises:
        GraphadError: the program does not run, or does not end.
    """
    if compiled:
        try:
            return _compiled(program, case, names)
        except NoValue:  # of the first such name
            # The interpreter says which names have a value: a compiled program stops at the first that has none.
            return _compiled(program, case, list(observe(program, case, names).values))
    steps = Stepwise(program, names)
    try:
        return steps.run(case)
    finally:
        steps.close()


def _compiled(program: Program, case: Case, names: Sequence[str]) -> Observed:
    scope, executor, printed = _scope_of(case), OneRun(max_iterations=ITERATIONS), list[Printed]()
    # Compiled at once: else a program is interpreted as long as it may run only once.
    with binding(FIRST, 1), seeded(), _noting(printed):
        results = executor.run(program, feed=_fed(program, case), fetch_list=list(names), scope=scope)
    values = {name: value for name, value in zip(names, results, strict=True) if value is not None}
    return Observed(values, dict(scope.arrays), executor.trips, printed)


def _noting(printed: list[Printed]) -> AbstractContextManager[None]:
    """Within it, what programs print is put into a list, but for gradients."""
    return printing(lambda label, value: None if label.endswith(GRAD) else printed.append((label, own(value))))


def _fed(program: Program, case: Case) -> dict[str, Array]:
    """The feeds of a case that a program declares."""
    variables = program.global_block().vars
    return {name: array for name, array in case.feeds.items() if name in variables}


def _scope_of(case: Case) -> Scope:
    """A new scope that holds the parameters of a case."""
    scope = Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    return scope


def observe_on_ranks(program: Program, case: Case, names: Sequence[str], like: Observed, ranks: int, compiled: bool = False) -> Observed:
    """Run a program on simulated ranks, each with its rows of what is fed, and put together what they give: ``like`` says of what shapes.

    What has the shape of the whole on every rank has to be the same on all.

    Raises:
        GraphadError: the program does not run.
    """
    variables, feeds = program.global_block().vars, _fed(program, case)
    parts, input_names = declared_parts(program), {value.name for value in lower(program).inputs}
    if parts:  # what is fed and written before it is read has become a part under its old name
        feeds = {name: array for name, array in feeds.items() if name in input_names or has_shape(array, variables[name].shape)}
    else:  # what nothing reads is declared as it was; it shows only where it is requested, and nothing is written over it
        shown = set(names).difference(*(op.output_names() for op in program.global_block().ops))
        feeds = {name: array for name, array in feeds.items() if name in input_names or name in shown}
    group = LocalGroup(ranks)
    group.executors = [OneRun(max_iterations=ITERATIONS) for _ in range(ranks)]
    for scope, params in zip(group.scopes, split_arrays(program, case.params, ranks), strict=True):
        for name, array in params.items():
            scope.set(name, np.asarray(array))
    with binding(FIRST, 1 if compiled else 0), seeded():
        by_rank = group.run(program, split_arrays(program, feeds, ranks) if parts else split_feed(feeds, ranks), list(names))
    values: dict[str, Any] = {}
    for i, name in enumerate(names):
        results_by_rank, part = [results[i] for results in by_rank], parts.get(name)
        # A declared part is put together by its spec; of anything else, the shape on one device says whether ranks have rows or the same.
        values[name] = (
            _together(results_by_rank, like.values.get(name)) if part is None else joined(results_by_rank, part.shape, part.spec, part.mesh)
        )
    common_state = {name: _together([s.arrays[name] for s in group.scopes], like.scope.get(name)) for name in like.scope}
    # State that is cut, as optimizers' moments are, exists as a whole on no rank.
    whole = whole_state(program, group.scopes)
    state = {**common_state, **{name: array for name, array in whole.items() if name in parts or f"{name}@SHARD" in group.scopes[0].arrays}}
    return Observed(values, state, group.executors[0].trips)


def observe_each_rank(program: Program, case: Case, names: Sequence[str], ranks: int = 2) -> Observed:
    """Run a program on simulated ranks that have other numbers each: what each gives, under its names with the rank before them.

    Integers and booleans are the same on all, so that loops and branches run alike; parameters are, too.

    Raises:
        GraphadError: the program does not run.
    """
    variables = program.global_block().vars
    rings = {op.attrs["ring_id"] for block in program.blocks for op in block.ops if op.attrs.get("ring_id")}
    group = LocalGroup(ranks, {ring: [list(range(ranks))] for ring in sorted(rings)})
    group.executors = [OneRun(max_iterations=ITERATIONS) for _ in range(ranks)]
    for scope in group.scopes:
        for name, array in case.params.items():
            scope.set(name, array)
    feeds = [{n: _of_rank(array, rank) for n, array in case.feeds.items() if n in variables} for rank in range(ranks)]
    with seeded():
        by_rank = group.run(program, feeds, list(names))
    values = {f"rank {i}, {name}": value for i, results in enumerate(by_rank) for name, value in zip(names, results, strict=True)}
    return Observed(values, {f"rank {i}, {name}": array for i, scope in enumerate(group.scopes) for name, array in scope.arrays.items()})


def extents_hold_on_ranks(program: Program, case: Case) -> bool:
    """Whether what operators write has the declared extents on ranks with other numbers too: those that follow numbers may not.

    They are declared as they are with the numbers of the case, and a pass may rely on that.
    """
    block = program.global_block()
    names = [name for op in block.ops for name in op.output_names() if block.has_var(name) and block.var(name).type == TENSOR]
    results = observe_each_rank(program, case, list(dict.fromkeys(names))).values
    return all(
        has_shape(value, block.var(label.split(", ", 1)[1]).shape) for label, value in results.items() if isinstance(value, np.ndarray)
    )


def _of_rank(array: Array, rank: int) -> Array:
    """Other numbers of a kind: powers of two times what rank 0 has, which rounds as that does."""
    return np.asarray(array * array.dtype.type(0.5**rank)) if array.dtype.kind == "f" else array


def has_shape(array: Any, shape: Shape | None) -> bool:
    """Whether an array has a declared shape; -1 and None stand for any."""
    sizes = np.shape(array)
    return shape is None or (len(sizes) == len(shape) and all(extent in (-1, size) for size, extent in zip(sizes, shape, strict=True)))


def _together(parts: Sequence[Any], like: Any) -> Any:
    """The results of ranks as one: their rows concatenated; or the common value, or else one that differs from the first rank's."""
    if isinstance(like, list) and all(isinstance(part, list) and len(part) == len(like) for part in parts):
        return [_together(items, item) for *items, item in zip(*parts, like, strict=True)]  # an array of tensors
    if not isinstance(parts[0], np.ndarray):
        return parts[0]
    if not isinstance(like, np.ndarray) or parts[0].shape != like.shape:
        # What has no elements and other extents is there for these, such as XShape: they come after a 0.
        axis = 1 if parts[0].shape[:1] == (0,) and parts[0].ndim > 1 else 0
        return np.concatenate(parts, axis) if isinstance(like, np.ndarray) and parts[0].ndim else parts[0]
    return next((part for part in parts if not np.array_equal(part, parts[0], equal_nan=part.dtype.kind == "f")), parts[0])


def difference(one: Any, other: Any, tolerance: float = 0.0, labels: tuple[str, str] = ("before", "after"), least: float = LEAST) -> str:
    """The difference between two results, empty if there is none; nan equals nan, 0.0 equals -0.0.

    The first line names the first element that differs, both of its values and how far apart they are. Where there are several
    elements, two more lines show both arrays, or the ends of them if they are large.

    Args:
        one: what is right, an array or a list of arrays; where that is nan or infinite, and a tolerance is allowed, anything is.
        other: what is held against it.
        tolerance: how far elements may lie apart, relative to themselves or to the largest one; 0: not at all.
        labels: what the two are called in the text.
        least: what is smaller than this may differ by as much as this may.

    >>> print(difference(np.array([1.0, 2.0]), np.array([1.0, -2.0])))
    at [1]: 2.0 before, -2.0 after, 4 apart; 1 of 2 elements differs
        before: [1.0, 2.0]
        after:  [1.0, -2.0]
    """
    if isinstance(one, list) or isinstance(other, list):
        return _list_difference(one, other, tolerance, labels, least)
    if one is None or other is None:  # in an array of tensors, an element that nothing has written
        return "" if one is other else f"{_shown(one)} {labels[0]}, {_shown(other)} {labels[1]}"
    if one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes():
        return ""  # nearly always
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{one.dtype}{list(one.shape)} {labels[0]}, {other.dtype}{list(other.shape)} {labels[1]}"
    is_same = _same(one, other, tolerance, least)
    return "" if is_same.all() else _located(one, other, ~is_same, tolerance, labels)


def _list_difference(one: object, other: object, tolerance: float, labels: tuple[str, str], least: float) -> str:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return f"{_shown(one)} {labels[0]}, {_shown(other)} {labels[1]}"
    texts = (difference(a, b, tolerance, labels, least) for a, b in zip(one, other, strict=True))
    return next((f"array {i} of the list: {text}" for i, text in enumerate(texts) if text), "")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return short_text(value) if isinstance(value, np.ndarray) else str(value)


def _same(one: Array, other: Array, tolerance: float, least: float) -> NDArray[np.bool_]:
    """A mask of the elements that are the same."""
    if one.dtype.kind not in "fc":
        return np.asarray(one == other)
    if not tolerance:
        return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))
    finite = np.isfinite(one)
    largest = float(np.abs(one[finite]).max(initial=least))
    # Relative to the largest element too: small ones may be sums of large terms, and no more exact than those.
    return np.asarray(~finite | np.isclose(other, one, rtol=tolerance, atol=tolerance * largest))


def _located(one: Array, other: Array, differs: NDArray[np.bool_], tolerance: float, labels: tuple[str, str]) -> str:
    # The first one in memory's order: always the same element for the same arrays.
    first = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differs)))[: one.ndim]
    text = f"{number(one[first])} {labels[0]}, {number(other[first])} {labels[1]}"
    if one.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            text += f", {float(abs(other[first] - one[first])):.3g} apart"
    text += f", tolerance {tolerance:g}" if tolerance else ""
    if one.size == 1:
        return text
    count, width = int(differs.sum()), max(map(len, labels)) + 1
    lines = [f"    {label + ':':{width}} {short_text(array)}" for label, array in zip(labels, (one, other), strict=True)]
    return "\n".join([f"at {list(first)}: {text}; {count} of {one.size} elements differ{'s' * (count == 1)}", *lines])


def observed_difference(
    before: Observed, after: Observed, tolerance: float = 0.0, labels: tuple[str, str] = ("before", "after"), least: float = LEAST
) -> str:
    """The first difference between two runs, with its name; empty if there is none. Values that did not exist before may be anything; see
    ``difference``."""
    for prefix, old, new in (("", before.values, after.values), ("persistable ", before.scope, after.scope)):
        for name, value in old.items():
            if name not in new:
                return f"{prefix}{name}: {_shown(value)} {labels[0]}, no value {labels[1]}"
            text = difference(value, new[name], tolerance, labels, least)
            if text:
                return f"{prefix}{name}: {text}"
    return _printed_difference(before.printed, after.printed, tolerance, labels, least)


def _printed_difference(
    before: Sequence[Printed] | None, after: Sequence[Printed] | None, tolerance: float, labels: tuple[str, str], least: float
) -> str:
    """The first difference between what two runs printed; empty if there is none, or nobody listened to one of them."""
    if before is None or after is None:
        return ""
    # What is printed is part of what a program does: as often, and in the same order.
    for place, (one, other) in enumerate(itertools.zip_longest(before, after), 1):
        if one is None or other is None:
            return f"print number {place}: {_said(one)} {labels[0]}, {_said(other)} {labels[1]}"
        text = difference(one[1], other[1], tolerance, labels, least) if one[0] == other[0] else f"{one[0]!r} and {other[0]!r}"
        if text:
            return f"print number {place}: {text}"
    return ""


def _said(printed: Printed | None) -> str:
    return "nothing" if printed is None else f"{printed[0]!r} {_shown(printed[1])}"


def assert_equivalent(before: Program, after: Program, case: Case, tolerance: float = 0.0, compiled: bool = False) -> None:
    """Both programs give the same targets and leave the same in the scope.

    Args:
        before: what is right.
        after: what is to be the same.
        case: the arrays to run them on; its program's targets are compared.
        tolerance: relative; 0: equal to the last bit.
        compiled: whether ``after`` runs as functions over numpy, rather than step by step.

    Raises:
        AssertionError: a value, a shape or a dtype differs, or ``after`` does not run.

    >>> from graphad.testing.cases import Case
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> assert_equivalent(program, program.clone(), Case(program))
    """
    names = case.targets
    expected = observe(before, case, names)
    try:
        results = observe(after, case, list(expected.values), compiled)
    except Exception as error:
        raise AssertionError(f"the program after it does not run: {type(error).__name__}: {error}") from error
    text = observed_difference(expected, results, tolerance)
    if text:
        raise AssertionError(text)
