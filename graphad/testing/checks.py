"""Whether everything holds that has to hold of a pass on a case, one check each, in the order in which they are tried."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from graphad.errors import GraphadError, InvalidGraph, NoGradient, ParseError, PassError, Refused
from graphad.ir import Graph, schedule
from graphad.ir.regions import BranchLike, CallLike, LoopLike, RegionOp, types_of
from graphad.ir.untraced import MODULES, untraced
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.linalg import NoSolution
from graphad.plugins import ensure_plugins
from graphad.program import EMPTY, RANDOM_STREAM, Program
from graphad.rewriting import Pass, Rule
from graphad.rewriting.passes import Applier, applying, take_as_verified
from graphad.testing.calls import Constants, Interest, attribute_words
from graphad.testing.cases import NARROW, WIDE, Case, completed
from graphad.testing.equivalence import (
    LEAST,
    Observed,
    Stepwise,
    difference,
    observe,
    observe_each_rank,
    observed_difference,
    seeded,
)
from graphad.testing.trial import (
    ROUNDED,
    ROUNDED_UNITS,
    Finding,
    HiddenChange,
    RefusedLate,
    Subject,
    Trial,
    Unfit,
    differenced,
    finished,
    gradient_values,
    is_double,
    is_forward,
    is_in_range,
    is_normal,
    program_of,
    quietly,
    request_gradients,
    rounding_noise,
    roundings,
    run_requesting_gradients,
    scheduled,
)
from graphad.testing.watched import is_marked, run_reusing
from graphad.types import Array

# -- naming ----------------------------------------------------------------------------------------
# The same program with other names, in the same order: a pass that follows the hashes of names makes something else of it.


def free_prefix(case: Case) -> str:
    """A prefix that is in none of a case's names."""
    program = case.program
    names = {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}
    names.update(*(block.vars for block in program.blocks), case.feeds, case.params)
    # In none of the names, so that no name becomes another one's, or a gradient's.
    candidates = (f"renamed{number or ''}." for number in itertools.count())
    return next(prefix for prefix in candidates if not any(prefix in name for name in names))


def renamed_case(case: Case, prefix: str) -> Case:
    """A case whose variables all have a prefix, so that their order stays."""

    def prefixed(name: str) -> str:
        return name if name == EMPTY else prefix + name

    names = {name for block in case.program.blocks for name in block.vars}
    feeds, params = ({prefixed(name): array for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    loss = prefixed(case.loss_name) if case.loss_name else ""
    program = case.program.clone()
    _rename(program, names, prefixed)
    return replace(case, program=program, loss_name=loss, feeds=feeds, params=params, requested=tuple(map(prefixed, case.requested)))


def restored(program: Program, prefix: str) -> Program:
    """The program without the prefixes; it is changed."""
    names = {name for block in program.blocks for name in block.vars}
    _rename(program, names, lambda name: name.replace(prefix, ""))
    return program


def _rename(program: Program, known: set[str], rename: Callable[[str], str]) -> None:
    for block in program.blocks:
        for var in block.vars.values():
            var.name = rename(var.name)
        block.vars = {var.name: var for var in block.vars.values()}
        for op in block.ops:
            op.inputs = {slot: [rename(name) for name in names] for slot, names in op.inputs.items()}
            op.outputs = {slot: [rename(name) for name in names] for slot, names in op.outputs.items()}
            op.attrs.update({name: _renamed_names(value, known, rename) for name, value in op.attrs.items() if isinstance(value, list)})
            if RANDOM_STREAM in op.attrs:  # streams are called after what operators write
                op.attrs[RANDOM_STREAM] = rename(op.attrs[RANDOM_STREAM])


def _renamed_names(values: list[object], known: set[str], rename: Callable[[str], str]) -> list[object]:
    """The elements of an attribute, those that are names of variables renamed as well."""
    return [rename(value) if isinstance(value, str) and value in known else value for value in values]


# -- reach -----------------------------------------------------------------------------------------
# What of a pass's own code has run, and which names of operators, attributes and slots that code mentions.
#
# The own code of a pass are the methods of its class and the functions of the same file that those call, found through the names
# they use. Lines are traced with ``sys.settrace``, which costs nothing where tracing is off.

KNOWN = 16  # a function that ran on so many programs in no new way, and all of whose lines have run, is traced on a few programs only:
AGAIN = 8  # one in so many
CALLS = 16  # and so many of its calls, where all of its lines have run
Arc = tuple[int, int, int]  # the id of a function's code, and from one of its lines to the next; 0 before the first
TOLD_APART = 16  # so many operators at most that have the same text in a field of their definitions
OF_BLOCKS = {"is_loop", "carried_count"}  # names by which code speaks of operators with blocks, and by which of one kind of them
SPEAKS_OF_GRADIENTS = {"backward", "@GRAD", "grad_of"}  # words and names by which code does so without naming an operator
INTERFACES: dict[str, type[RegionOp]] = {
    **dict.fromkeys(("LoopLike", "is_forward_loop", "loops", "peel", "unroll", "split_loop", "run_once"), LoopLike),
    **dict.fromkeys(("BranchLike", "add_branch"), BranchLike),
    **dict.fromkeys(("CallLike", "split_call"), CallLike),
}
USUAL = (0, 1, -1, 2)  # numbers that code has for other reasons than to compare something with them; of floats the first two
LARGEST_CONSTANT, MOST_CONSTANTS = 64.0, 8  # of the numbers in a pass's code, those up to this size, and so many


def own_functions(kind: type) -> list[FunctionType]:
    """The methods that a class and its bases outside graphad's framework define, and the functions of their files they use."""
    # The framework's own lines run for every pass: only the author's say what is not reached.
    bases = [base for base in kind.__mro__ if base not in (*Pass.__mro__, *Rule.__mro__)]
    stack = [f for base in bases for value in vars(base).values() if (f := _function(value)) is not None and _is_in_file_of(f, base)]
    functions: dict[FunctionType, None] = {}
    while stack:
        function = stack.pop()
        if function not in functions and not function.__name__.startswith("__"):
            functions[function] = None
            stack += _mentioned(function)
    return sorted(functions, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))


def _function(value: object) -> FunctionType | None:
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _is_in_file_of(function: FunctionType, kind: type) -> bool:
    """Whether a method was written by hand; what dataclasses make has another file name."""
    return not function.__code__.co_filename.startswith("<string>") and function.__module__ == kind.__module__


def _mentioned(function: FunctionType) -> Iterator[FunctionType]:
    """The functions, and methods of classes, of the same file that a function's code mentions."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    values += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    for value in values:
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            inner = _function(member)
            if inner is not None and inner.__code__.co_filename == function.__code__.co_filename:
                yield inner


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def interest_of(passes: Iterable[Pass], rules: Iterable[Rule] = ()) -> Interest:
    """The operators, attributes, slots and numbers that the code of some passes and rules mentions, in its constants and its module's.

    Code also speaks of operators by a field of their definitions: ``row.narrow == "gains"`` mentions all that gain by narrow types.
    And whether it looks at loops and branches: at operators' graphs, or the blocks that they are written in. Code that mentions a gradient
    operator is about the operator that this is the gradient of, in programs that have been differentiated.
    """
    ensure_plugins()
    rules = list(rules)
    words: dict[str, None] = dict.fromkeys(op_type for rule in rules for op_type in sorted(rule.types or ()))
    names, fields = set[str](), _types_by_field(len(REGISTRY))
    numbers = dict.fromkeys(number for pass_ in passes for number in _numbers(_options(pass_)))
    for owner in (*passes, *rules):
        for function in own_functions(type(owner)):
            # What a pass looks at is read off its code: names of operators and attributes, numbers it compares with.
            for code in _codes(function.__code__):
                mentions = [*code.co_consts, *(function.__globals__.get(name) for name in code.co_names)]
                names.update(code.co_names)
                words.update(dict.fromkeys([*_words(mentions), *_told_apart(code, fields)]))
                numbers.update(dict.fromkeys(_numbers(mentions)))
    interfaces = dict.fromkeys(interface for name, interface in INTERFACES.items() if name in names)
    words.update(dict.fromkeys(op_type for interface in interfaces for op_type in sorted(types_of(interface))))
    op_types = [word for word in words if word in REGISTRY]
    types = tuple(sorted({_forward_type(word) for word in op_types}))
    attributes = {name for definition in REGISTRY.values() for name in definition.attrs}
    of_gradients = any(isinstance(REGISTRY[word], GradOpDef) for word in op_types)
    return Interest(
        types,
        tuple(sorted(word for word in words if word in attributes)),
        blocks=bool(names & OF_BLOCKS) or any(isinstance(REGISTRY[op_type], ControlDef) for op_type in types),
        gradients=of_gradients,
        backward=of_gradients or bool(SPEAKS_OF_GRADIENTS & (words.keys() | names)),
        constants=Constants(tuple(numbers)[:MOST_CONSTANTS], tuple(sorted(set(words) & attribute_words()))),
    )


def _forward_type(op_type: str) -> str:
    """The operator whose gradient this is, of whichever order; itself if it is no gradient."""
    definition = REGISTRY[op_type]
    while isinstance(definition, GradOpDef) and definition.forward is not None:
        definition = definition.forward
    return definition.type


@lru_cache(maxsize=1)
def _types_by_field(known: int) -> dict[str, dict[str, list[str]]]:
    """The types of operators by the fields of their definitions that are texts, and by these texts; only where few have the same.

    There are so many operators, to which others may be added.
    """
    types_by_field = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for definition in REGISTRY.values():
        for field_name, value in vars(definition).items():
            if isinstance(value, str) and value:
                types_by_field[field_name][value].append(definition.type)
    few = {name: {text: types for text, types in by_text.items() if len(types) <= TOLD_APART} for name, by_text in types_by_field.items()}
    return {name: by_text for name, by_text in few.items() if by_text}


def _told_apart(code: CodeType, types: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    """The operators that code tells from others by a field of their definitions."""
    for name in code.co_names:
        for text, op_types in types[name].items() if name in types else ():
            if text in code.co_consts:
                yield from op_types


def _words(values: Iterable[object], depth: int = 3) -> Iterator[str]:
    """The words in texts, and in collections of texts."""
    for value in values:
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, dict) and depth:
            yield from _words([*value.keys(), *value.values()], depth - 1)
        elif isinstance(value, tuple | list | set | frozenset) and depth:
            yield from _words(sorted(value, key=repr) if isinstance(value, set | frozenset) else value, depth - 1)


def _numbers(values: Iterable[object], depth: int = 2) -> Iterator[float]:
    """The numbers of moderate size in numbers, and in collections of them; 0 and 1, which are everywhere, say nothing."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # 0 and 1 are indices and counts nearly everywhere, and say nothing of the pass.
            usual_numbers = USUAL if isinstance(value, int) else USUAL[:2]
            yield from [float(value)] if abs(value) <= LARGEST_CONSTANT and value not in usual_numbers else []
        elif isinstance(value, tuple | list) and depth:
            yield from _numbers(value, depth - 1)


def _options(pass_: Pass) -> list[object]:
    """The values of a pass's own options."""
    return [getattr(pass_, name, None) for name in getattr(pass_, "__dataclass_fields__", ())]


# -- lines that ran ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unreached:
    """A line of a pass that never ran: its function, number and text."""

    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.line}: {self.text}"


@dataclass
class Reach:
    """The lines and arcs of some passes' own code that ran while they were traced.

    >>> from graphad.passes import InlineNet
    >>> reach = Reach.of([InlineNet()])
    >>> reach.unreached()[0].function
    'InlineNet.apply'
    """

    # By id: to compute the hash of a code object, Python goes through all its names and constants, at every call that is traced.
    codes: dict[int, tuple[CodeType, str]] = field(default_factory=dict)
    arcs: set[Arc] = field(default_factory=set)
    passes: frozenset[type[Pass]] = frozenset()
    modules: frozenset[str] = frozenset()
    programs: int = 0
    unrun: dict[int, set[int]] = field(default_factory=dict)  # the lines of each function that have not run
    known: Counter[int] = field(default_factory=Counter)  # on how many programs since it last ran a new way each function ran

    @classmethod
    def of(cls, passes: Iterable[Pass]) -> Reach:
        kinds = dict.fromkeys(type(pass_) for pass_ in passes)
        functions = [function for kind in kinds for function in own_functions(kind)]
        codes = {id(code): (code, f.__qualname__) for f in functions for code in _codes(f.__code__)}
        unrun = {number: set(_lines(code)) for number, (code, _) in codes.items()}
        return cls(codes, passes=frozenset(kinds), modules=frozenset(function.__module__ for function in functions), unrun=unrun)

    @contextmanager
    def traced(self) -> Iterator[set[Arc]]:
        """Within it, arcs are noted while passes are applied; those that are new are in the set afterwards."""
        new = set[Arc]()
        if sys.gettrace() is not None or not self.codes:  # a debugger, or a coverage tool, is at work
            yield new
            return
        calls = self._calls_to_trace()
        if calls:
            with applying(self._tracing(new, calls)):
                yield new
        else:
            yield new
        self._note(new)

    def _calls_to_trace(self) -> dict[int, float]:
        """How many calls of each function are traced on the next program.

        Of a function all of whose lines have run, a few, and none where it ran in no new way for long, but on a program now and then: what
        has never run is known all the same.
        """
        self.programs += 1
        is_due = self.programs % AGAIN == 0
        return {code: inf if lines else CALLS for code, lines in self.unrun.items() if lines or is_due or self.known[code] < KNOWN}

    def _note(self, new: set[Arc]) -> None:
        """Add the arcs of a program to those that ran before, and leave in the set what they did not have."""
        ran = {code for code, _, _ in new}
        new -= self.arcs
        self.arcs |= new
        self.known.update(ran)
        for code, _, line in new:
            self.known[code] = 0
            self.unrun[code].discard(line)

    def _tracing(self, arcs: set[Arc], calls: dict[int, float]) -> Applier:
        tracer, watched_types = self._tracer(arcs, calls), self.passes
        setattr(tracer, MODULES, self.modules)

        def apply(pass_: Pass, graph: Graph) -> bool:
            # Only passes on trial are traced, since tracing makes Python many times slower.
            if type(pass_) not in watched_types:
                with untraced({type(pass_).__module__}) if not pass_.combines else nullcontext():
                    return pass_.apply(graph)
            # A debugger, or what measures coverage, may trace already.
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                return pass_.apply(graph)
            finally:
                sys.settrace(before)

        return apply

    def _tracer(self, arcs: set[Arc], calls: dict[int, float]) -> Any:
        calls_left = calls.get

        def trace_call(frame: FrameType, event: str, argument: object) -> Any:
            code = id(frame.f_code)
            left = calls_left(code)
            if not left:
                return None
            calls[code] = left - 1
            return trace_lines(code)

        def trace_lines(code: int) -> Any:
            last = 0

            def trace_line(frame: FrameType, event: str, argument: object) -> Any:
                nonlocal last
                # An arc is a line and the one before it in the same call, as branch coverage has it.
                if event == "line":
                    arcs.add((code, last, frame.f_lineno))
                    last = frame.f_lineno
                return trace_line

            return trace_line

        return trace_call

    def unreached(self) -> list[Unreached]:
        """The lines that never ran, in order."""
        lines_run = {(self.codes[code][0].co_filename, line) for code, _, line in self.arcs}
        unreached_lines: dict[tuple[str, int], Unreached] = {}
        for code, name in self.codes.values():
            for line in _lines(code):
                place = (code.co_filename, line)
                if place not in lines_run:
                    unreached_lines.setdefault(place, Unreached(name, line, linecache.getline(*place).strip()))
        return [unreached_lines[place] for place in sorted(unreached_lines)]


def _lines(code: CodeType) -> list[int]:
    """The numbers of the lines of a function, but for that of ``def``, which runs at import, before anything is traced."""
    return sorted({line for _, _, line in code.co_lines() if line and line != code.co_firstlineno})


# -- checks ----------------------------------------------------------------------------------------
# What has to hold of a pass on a case, one check each; ``CHECKS`` lists them in the order in which they are tried.

EXACT = 1e-9  # tolerance of gradients where all is float64
UNSTABLE = 10  # how many times as much as arrays results may move within a tolerance
UNSTABLE_AT_ENDS = 25  # and where the pass makes something nan or infinite: exponentials move by more, and still are finite
IN_FLOAT16, NORMAL = 1e-3, 2.0**-14  # a tolerance with which a pass may compute in float16, and the least number that it holds in full
CANCELED = 10.0  # as many times what rounding makes of a gradient may be wrong with it
OF_TERMS = 0.1  # in float32, gradients that are smaller may be what is left of terms that cancel
OF_NARROW_TERMS = 1.0  # and in float16, where a gradient that is 0 by its terms has what they are rounded by
REORDERED = 1e-6  # by how much results may differ in float64 where numbers are added up in another order
DIFFERENCED = 1e-4  # and of gradients held against central differences

Check = Callable[[Trial], Finding | None]


def _readable(trial: Trial) -> Finding | None:
    """The program's text reads back as the same program."""
    text = "the program"
    try:
        text = str(trial.after)
        second_text = str(Program.parse(text))
    except Exception as error:
        return Finding("text", f"{type(error).__name__}: {error}")
    return None if second_text == text else Finding("text", f"written\n{text}read\n{second_text}")


def _typed(trial: Trial) -> Finding | None:
    """What is declared is what the operators give, if it is that before the pass."""
    assert trial.after is not None
    try:
        completed(trial.after)
    except GraphadError as error:
        return Finding("types", str(error)) if _is_typed(trial.before) else None
    return None


def _is_typed(program: Program) -> bool:
    try:
        completed(program)
    except GraphadError:
        return False
    return True


def _values(trial: Trial, compiled: bool = False) -> Finding | None:
    if trial.runs_compiled and not compiled and _compiled_after(trial):
        return None
    kind, expected, tolerance = "compiled" if compiled else "values", trial.expected.without(trial.intended), trial.allowed
    try:
        results = trial.got_compiled if compiled else trial.got
    except Exception as error:
        return _not_running(kind, "the program after the pass does not run", error)
    text = observed_difference(expected, results, tolerance, least=OF_TERMS if roundings(trial.before) else LEAST)
    # Only once they differ: it takes three runs more.
    if text and tolerance and _is_unstable(trial, tolerance, UNSTABLE if _is_finite(results) else UNSTABLE_AT_ENDS):
        return None
    text = text or _intended_difference(trial, results)
    return Finding(kind, text, "differ") if text else None


def _intended_difference(trial: Trial, results: Observed) -> str:
    """How what the pass is there to change differs from what it is meant to become; empty if it does not.

    An update is a value less a step. Where the two cancel, what is left is no more exact than the value was, which is why the tolerance is
    relative to the value before the run too.
    """
    labels, tolerance = ("intended", "after"), _tolerance(trial)
    text = observed_difference(replace(trial.intended, scope={}), results, tolerance, labels)
    for name, array in trial.intended.scope.items():
        before = np.abs(np.asarray(trial.case.params.get(name, 0.0), float))
        least = max(LEAST, float(before.max(initial=0.0, where=np.isfinite(before))))
        text = text or observed_difference(Observed({}, {name: array}), results, tolerance, labels, least)
    return text


def _not_running(kind: str, what: str, error: BaseException) -> Finding | None:
    """That a program does not run; nothing where a linear system has no solution: the gradient of a determinant, say, at zeros."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NoSolution):
            return None
        cause = cause.__cause__
    return Finding(kind, f"{what}: {type(error).__name__}: {error}", _mark(error))


def _is_finite(results: Observed) -> bool:
    """Whether no result is nan or infinite."""
    return all(
        np.isfinite(a).all()
        for arrays in (results.values, results.scope)
        for a in arrays.values()
        if isinstance(a, np.ndarray) and a.dtype.kind == "f"
    )


def _is_unstable(trial: Trial, tolerance: float, most: float = UNSTABLE) -> bool:
    """Whether the results before the pass differ much more than arrays that differ within the tolerance: at a jump, or a pole.

    All arrays are moved up or down; or every second one the other way, which shows where large numbers cancel. With a tolerance of float16,
    numbers that it holds with a few bits only decide nothing.
    """
    case, steps = trial.case, Stepwise(trial.before, trial.expected.values)
    if tolerance >= IN_FLOAT16 and not is_in_range(case, least=NORMAL, most=np.inf):
        return True
    # Inputs moved together, and against each other: a difference of two operands shows only then.
    for up, down in ((tolerance, tolerance), (-tolerance, -tolerance), (tolerance, -tolerance)):
        ways = itertools.cycle((up, down))
        feeds, params = ({name: _moved(array, next(ways)) for name, array in arrays.items()} for arrays in (case.feeds, case.params))
        try:
            results = steps.run(replace(case, feeds=feeds, params=params))
        except GraphadError:
            return True
        if observed_difference(Observed(trial.expected.values, {}), results, most * tolerance):
            return True
    return False


def _moved(array: Array, by: float) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array + by * np.maximum(np.abs(array), LEAST), array.dtype) if array.dtype.kind == "f" else array


def _compiled(trial: Trial) -> Finding | None:
    """Blocks as functions over numpy: the program before gives what it gives step by step, and the one after the same.

    Numbers may be added up in another order there; where they are, the bits of the two programs are not compared.
    """
    if trial.ran_compiled or _compiled_after(trial):
        return None
    names = list(trial.expected.values)
    try:
        plain = observe(trial.before, trial.case, names, compiled=True)
    except Exception as error:
        return _not_running("compiled", "before the pass already, it does not run", error)
    # It was right before the pass, so whatever is wrong after it comes from the pass.
    if not observed_difference(trial.expected, plain):
        return _values(trial, compiled=True)
    # Functions may add up in another order.
    tolerance = max(REORDERED, roundings(trial.before))
    text = observed_difference(trial.expected, plain, tolerance, ("step by step", "as functions"))
    return None if not text or _is_unstable(trial, tolerance) else Finding("compiled", f"before the pass already, {text}", "before")


def _compiled_after(trial: Trial) -> bool:
    """Whether the program after the pass, as functions over numpy, gives what the one before gives step by step: then both are right.

    What it gave is then taken for what it gives, so that it does not run step by step as well.
    """
    try:
        results = trial.got_compiled
    except Exception:
        return False
    if observed_difference(trial.expected.without(trial.intended), results, trial.allowed) or _intended_difference(trial, results):
        return False
    trial.got, trial.ran_compiled = results, True
    return True


def _marked(trial: Trial) -> Finding | None:
    """The program after the pass gives what it gives, also where each marked operator overwrites the input that its mark names."""
    after = trial.after
    if after is None or not is_marked(after):
        return None
    temporary = _exchanged(after).difference(trial.case.targets)
    values = {name: value for name, value in trial.got.values.items() if after.global_block().has_var(name) and name not in temporary}
    try:
        with seeded():
            results = Observed(*run_reusing(after, trial.case, values))
    except Exception as error:
        return _not_running("marks", "the program after the pass does not run", error)
    tolerance = max(REORDERED, roundings(after))  # the other memory may be laid out in another way, so that sums are in another order
    text = observed_difference(replace(trial.got, values=values), results, tolerance, ("without the marks", "with them"))
    return None if not text or _is_unstable(trial, tolerance) else Finding("marks", text, "differ")


def _on_ranks(trial: Trial) -> Finding | None:
    """Where ranks exchange values, they give what they gave, also where each has other numbers: alone, a sum over ranks is no sum."""
    before, after = trial.before, trial.after
    # Pipelines that take derivatives in two ways agree in the sum over ranks, not rank by rank.
    if trial.subject.reference is not None:
        return None
    if after is None or trial.ranks > 1 or not (_exchanged(before, is_read=False) or _exchanged(after, is_read=False)):
        return None
    shared_names = {op_name for op in after.global_block().ops for op_name in op.output_names()} | set(trial.case.feeds)
    names = [name for name in trial.expected.values if name in shared_names]
    try:
        expected = observe_each_rank(before, trial.case, names)
    except Exception:  # it needs another number of ranks, say
        return None
    try:
        results = observe_each_rank(after, trial.case, names)
    except Exception as error:
        return _not_running("ranks", "the program after the pass does not run on two ranks", error)
    text = observed_difference(expected, results, trial.allowed)
    return None if not text or (trial.allowed and _is_unstable(trial, trial.allowed)) else Finding("ranks", text, "differ")


def _exchanged(program: Program, is_read: bool = True) -> set[str]:
    """What collectives write and an operator reads: it is compared as it is written, and may be overwritten after its last reader."""
    ops = program.global_block().ops
    results = {name for op in ops if (definition := REGISTRY.get(op.type)) is not None and definition.ordered for name in op.output_names()}
    return results.intersection(name for op in ops for name in op.input_names()) if is_read else results


def _expected(trial: Trial) -> Finding | None:
    """The user's own condition."""
    if trial.subject.expect is None or trial.after is None:
        return None
    try:
        holds = trial.subject.expect(trial.before, trial.after)
    except Exception as error:
        return Finding("expect", f"{type(error).__name__}: {error}", type(error).__name__)
    return Finding("expect", "it is False") if holds is False else None


# -- the same again ------------------------------------------------------------------------------


def _deterministic(trial: Trial) -> Finding | None:
    """Once more, where everything lies elsewhere in memory, with other names in the same order, which have other hashes."""
    text, prefix = str(trial.after), free_prefix(trial.case)
    case = trial.case if trial.subject.names_variables(trial.case) else renamed_case(trial.case, prefix)
    graph = trial.subject.prepared(case)
    try:
        run_requesting_gradients(trial.subject.passes(case), graph, case)
        program = scheduled(graph, case)
        second_text = text if program is None else str(restored(program, prefix))
    except Exception as error:
        second_text = f"{type(error).__name__}: {error}\n"
    return None if second_text == text else Finding("deterministic", f"first\n{text}then\n{second_text}")


def _idempotent(trial: Trial) -> Finding | None:
    if not getattr(trial.passes, "idempotent", False):
        return None
    text = str(trial.graph)
    has_changed = trial.passes.run(trial.graph)
    if not has_changed and str(trial.graph) == text:
        return None
    return Finding("idempotent", "it says so itself" if str(trial.graph) == text else f"it is now\n{trial.graph}")


# -- gradients -----------------------------------------------------------------------------------


def _gradients(trial: Trial) -> Finding | None:
    """What is wrong with gradients; nothing is where the loss is not a finite number, which has none."""
    if not trial.subject.gradients or trial.after is None or not trial.case.loss_name:
        return None
    finding = _of_gradients(trial)
    return None if finding is not None and not _is_loss_finite(trial) else finding


def _is_loss_finite(trial: Trial) -> bool:
    loss = observe(trial.case.program, trial.case, [trial.case.loss_name]).values.get(trial.case.loss_name)
    return loss is not None and bool(np.isfinite(loss).all())


def _of_gradients(trial: Trial) -> Finding | None:
    """Gradients that passes made are those of the standard backward, and central differences; without any, those of what was made.

    Where the standard backward was there before the passes, it is not on trial: that its gradients stay is looked at every time, and they
    are held against differences, and those of another run of it, where that is asked for.
    """
    if trial.prepared is not None and not trial.is_thorough:
        return _made_gradients(trial)
    if trial.made or (trial.subject.differentiates(trial.case) and is_forward(trial.before)):
        finding = against_differences(trial)
        if finding is None and (trial.slope_agrees or trial.subject.is_standard_backward) and not trial.is_thorough:
            return None
        return _made_gradients(trial) or finding
    return _gradients_after(trial)


def _made_gradients(trial: Trial) -> Finding | None:
    """Every gradient that passes made; and one is missing where the standard backward has one that is not zero."""
    case = trial.case
    whole = trial.subject.differentiates(case)
    variables = case.program.global_block()
    sources = [name for name in case.sources if name in trial.made or (whole and not variables.var(name).stop_gradient)]
    is_known = trial.prepared is not None and not trial.is_thorough
    standard = _finite(lambda: trial.prepared_gradients(sources) if is_known else gradient_values(case.program, case, sources))
    if standard is None:
        return None
    try:
        values = trial.got.values
    except Exception as error:
        return _not_running("gradients", "the program with them does not run", error)
    # A gradient that is left out counts as zeros.
    zeros = {name: np.zeros_like(standard[name]) for name in sources if trial.made.get(name) not in values}
    gradients = {name: zeros[name] if name in zeros else values[trial.made[name]] for name in sources}
    return _compared(trial, case.program, standard, gradients, ("of the standard backward", "made here"))


def against_differences(trial: Trial) -> Finding | None:
    """The gradients along a random direction are the slope of the loss, where that is smooth; one that is missing is zero."""
    case = trial.case
    if not trial.can_difference:
        return None
    variables = case.program.global_block()
    sources = [name for name in case.sources if not variables.var(name).stop_gradient]
    arrays = {**case.feeds, **case.params}
    direction = {name: np.round(trial.random.uniform(-1, 1, arrays[name].shape), 3) for name in sources}
    if not direction:
        return None
    try:
        values = trial.got.values
    except Exception:  # the comparison with the standard backward says so, if that runs
        return None
    for name, way in direction.items():
        if np.shape(gradient := values.get(trial.made.get(name, ""), way)) != way.shape:
            return Finding("gradients", f"that of {name} is {list(np.shape(gradient))}, and {name} {list(way.shape)}", "shape")
    terms = [values[trial.made[name]] * direction[name] for name in sources if trial.made.get(name) in values]
    total, scale = sum(float(np.sum(term)) for term in terms), sum(float(np.sum(np.abs(term))) for term in terms)
    if not np.isfinite(total):
        return None  # what is nan here and finite in the standard backward is found by comparing the two

    def agrees(expected: float) -> bool:
        return abs(total - expected) <= max(DIFFERENCED, trial.allowed) * max(1.0, abs(expected), scale)

    smooth = differenced(case)
    expected = trial.slope(smooth, direction, agrees)
    trial.slope_agrees = expected is not None and agrees(expected)
    if expected is None or trial.slope_agrees or not is_in_range(case):
        return None
    if not is_double(case.program) and not _is_same_in_float64(case, smooth, direction):
        return None
    along = ", ".join(f"{name} {array.tolist()}" for name, array in direction.items())
    return Finding("gradients", f"along {along} the loss changes by {expected:.6g}, and the gradients say {total:.6g}", "slope")


def _is_same_in_float64(case: Case, wide: Case, direction: dict[str, Array]) -> bool:
    """Whether a program's standard gradients are in float64 what they are in float32, so that no rounding tells them from a slope."""
    sources = list(direction)
    narrow, exact = (_finite(lambda c=c: gradient_values(c.program, c, sources)) for c in (case, wide))  # type: ignore[misc]
    if narrow is None or exact is None:
        return False
    return not any(difference(exact[name], np.asarray(narrow[name], WIDE), ROUNDED[NARROW], least=OF_TERMS) for name in sources)


def _gradients_after(trial: Trial) -> Finding | None:
    """The standard backward of the program after the pass gives what it gives before."""
    case, after = trial.case, trial.after
    assert after is not None
    variables = case.program.global_block()
    sources = [name for name in case.sources if not variables.var(name).stop_gradient]
    if not sources or trial.ranks > 1 or not (is_forward(trial.before) and is_forward(after)):
        return None  # the gradients of a rank's part are not those of the whole
    expected = _finite(lambda: gradient_values(trial.before, case, sources))
    if expected is None:
        return None
    try:
        gradients = gradient_values(after, case, sources)
    except Exception as error:
        return _not_running("gradients", "after the pass there is none", error)
    return _compared(trial, trial.before, expected, gradients, ("before", "after"))


def _finite(values: Callable[[], dict[str, Array]]) -> dict[str, Array] | None:
    """Gradients, None where there are none or one is not finite."""
    try:
        arrays = values()
    except Exception:  # whatever the standard backward raises is no fault of the pass
        return None
    return arrays if all(np.isfinite(array).all() for array in arrays.values()) else None


def _tolerance(trial: Trial) -> float:
    return max(EXACT, roundings(trial.before), trial.allowed)


def _compared(trial: Trial, program: Program, expected: dict[str, Array], got: dict[str, Array], labels: tuple[str, str]) -> Finding | None:
    """The first gradient that differs from that of a program by more than rounding makes of it there."""
    tolerance, least = _tolerance(trial), OF_TERMS if roundings(trial.before) else LEAST
    least = OF_NARROW_TERMS if tolerance >= IN_FLOAT16 else least
    has_special = _has_special(trial.case)
    for name, array in expected.items():
        gradient = got[name]
        if has_special and np.shape(gradient) == array.shape:  # moved out of a branch that was not taken, 0 becomes 0 * nan
            gradient = np.where(np.isnan(gradient), array, gradient)
        text = difference(array, gradient, tolerance, labels, least)
        if text and not _is_rounding(program, trial.case, name, array, gradient, trial.allowed):
            return Finding("gradients", f"of {name}: {text}", "differ")
    return None


def _has_special(case: Case) -> bool:
    """Whether nan or infinities are among the inputs."""
    arrays = [np.asarray(array) for array in (*case.feeds.values(), *case.params.values())]
    return not all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")


def _is_rounding(program: Program, case: Case, name: str, expected: Array, got: Array, allowed: float) -> bool:
    """Whether two gradients differ by no more than rounding does: both may be what is left of large terms that cancel.

    Where a pass may round, it may do so before or after a number loses its digits at the lower end of the range.
    """
    if expected.shape != got.shape or expected.dtype != got.dtype or not np.isfinite(got).all():
        return False
    if allowed and not is_normal(case):
        return True
    apart = float(np.abs(got - expected).max(initial=0.0))
    # Of a gradient of which nothing cancels, arrays that move by this unit make about what is allowed anyway.
    unit = allowed / (CANCELED * max(ROUNDED_UNITS))
    return all(apart <= CANCELED * noise for noise in rounding_noise(program, case, name, unit))


CHECKS: dict[str, Check] = {
    "expect": _expected,
    "text": _readable,
    "types": _typed,
    "values": _values,
    "marks": _marked,
    "ranks": _on_ranks,
    "idempotent": _idempotent,
    "deterministic": _deterministic,
    "gradients": _gradients,
    "compiled": _compiled,
}
OF_RESULTS = ("text", "types", "values", "marks", "ranks", "compiled")  # these hold where the pass left the program as it was

# -- examine ---------------------------------------------------------------------------------------
# One case against one pass: whether everything holds that has to hold of a pass.

ALL = frozenset({"changed", "standard", *CHECKS})


def after_pass(subject: Subject, case: Case) -> Graph:
    """The graph of a case after the pass, or as far as the pass got."""
    with quietly():
        graph = subject.prepared(case)
        with suppress(Exception):
            run_requesting_gradients(subject.passes(case), graph, case)
    return graph


def examine(
    subject: Subject, case: Case, checks: Collection[str] = ALL, reach: Reach | None = None, arcs: set[Arc] | None = None
) -> Finding | None:
    """The first thing that is wrong with a pass on a case, None if nothing is; see ``tried``.

    Raises:
        Unfit: the case itself does not run, or what prepares it refuses it.
    """
    return tried(subject, case, checks, reach, arcs)[1]


def tried(
    subject: Subject,
    case: Case,
    checks: Collection[str] = ALL,
    reach: Reach | None = None,
    arcs: set[Arc] | None = None,
    more: Callable[[Trial], Collection[str]] = lambda trial: (),
) -> tuple[Trial, Finding | None]:
    """Try a pass on a case: the trial, and the first thing that is wrong.

    Args:
        subject: the pass.
        case: the program to run it on.
        checks: the names of the checks to make, of those in ``CHECKS``; that the pass runs and leaves a valid graph is always checked.
        reach: notes which lines of the pass run.
        arcs: gets what is new to ``reach``.
        more: further checks to make; it is called once the pass has run.

    Raises:
        Unfit: the case itself does not run, or what prepares it refuses it.
    """
    trial = Trial(subject, case)
    with quietly():
        _give_program(trial)
        finding = _first_finding(trial, checks, Reach() if reach is None else reach, set() if arcs is None else arcs, more)
        # Verified only now: what is wrong with the graph before is rare, and no fault of the pass.
        if finding is not None and (subject.prepare or finding.kind == "verifier"):
            _verify_given(trial)
    return trial, finding


def _give_program(trial: Trial) -> None:
    """Make the graph that the pass gets, and the program that what it makes is compared with; Unfit where that is refused."""
    subject, case = trial.subject, trial.case
    try:
        subject.check_fits(case)
        trial.graph = subject.prepared(case)
        if subject.reference is None:
            trial.before = subject.before(case, trial.graph)
            trial.is_prepared = trial.before is not case.program or not trial.graph.journal.rewrites
            if subject.is_after_standard_backward and trial.before is not case.program:
                trial.prepared = request_gradients(trial.graph, case)
        else:
            reference_graph = subject.referred(case)
            trial.before, trial.referred = program_of(reference_graph, case), [value.name for value in reference_graph.targets]
            trial.is_prepared = trial.before is not case.program
    except (GraphadError, ArithmeticError) as error:
        raise Unfit(str(error)) from error


def _first_finding(
    trial: Trial, checks: Collection[str], reach: Reach, arcs: set[Arc], more: Callable[[Trial], Collection[str]]
) -> Finding | None:
    """The first thing that is wrong, in the order of ``CHECKS``; see ``tried``."""
    finding = _applied(trial, checks, reach, arcs)
    if finding is not None or trial.after is None:
        return finding
    trial.check_rows()
    checks = {*checks, *more(trial)}
    trial.is_thorough, trial.runs_compiled = "standard" in checks, "compiled" in checks
    # What has not changed computes what it did.
    is_unchanged = not trial.changed and (trial.after is trial.before or str(trial.after) == str(trial.before))
    # Gradients that the passes made are on trial also then; those that were prepared are what they were, as any other result.
    of_results = OF_RESULTS if trial.made and (trial.prepared is None or trial.is_thorough) else (*OF_RESULTS, "gradients")
    for kind, check in CHECKS.items():
        skips = kind not in checks or (is_unchanged and kind in of_results)
        if not skips and (finding := _checked(check, trial)) is not None:
            return finding
    return None


def _checked(check: Check, trial: Trial) -> Finding | None:
    """What a check finds; if the program has no text, because of an attribute that cannot be written, that is found."""
    try:
        return check(trial)
    except ParseError:
        return _readable(trial)


def check_case(
    what: Pass | str, case: Case, prepare: str = "", tolerance: float | None = None, reference: Pass | str | None = None
) -> None:
    """Try a pass on one case; see ``check_pass``.

    Raises:
        AssertionError: something that has to hold of a pass does not.

    >>> from graphad.program import Program
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> check_case("find-op-path{targets=[y]}", Case(program))
    """
    finding = examine(Subject(what, prepare, tolerance, reference=reference), case)
    if finding is not None:
        raise AssertionError(str(finding))


def _applied(trial: Trial, checks: Collection[str], reach: Reach, arcs: set[Arc]) -> Finding | None:
    """Run the pass, and make the program after it; None there if it cannot be one yet."""
    case, graph = trial.case, trial.graph
    take_as_verified(graph)  # one that is not valid is looked for when something is wrong
    state = graph.journal.edits, graph.journal.typings, frozenset(graph.properties)
    try:
        with reach.traced() as new:
            trial.changed = run_requesting_gradients(trial.passes, graph, case, watched="changed" in checks)
        arcs |= new
    except (Refused, NoGradient) as error:
        raise Unfit(str(error)) from error
    except RefusedLate as late:
        return Finding("refused", str(late.__cause__), _mark(late.__cause__))
    except HiddenChange as error:
        return Finding("changed", str(error))
    except InvalidGraph as error:
        return Finding("verifier", str(error), _mark(error))
    except PassError as error:
        return Finding("claims", str(error), _mark(error))
    except Exception as error:
        return Finding("raises", f"{type(error).__name__}: {error}", _mark(error))
    try:
        if not finished(graph):
            return None
        trial.made = request_gradients(graph, case)
        is_as_prepared = not trial.changed and state == (graph.journal.edits, graph.journal.typings, frozenset(graph.properties))
        # The graph before was scheduled; the program as it was written has to come out of its graph once more.
        is_known = is_as_prepared and trial.subject.reference is None and trial.before is not case.program
        trial.after = trial.before if is_known else schedule(graph)
    except Exception as error:
        return Finding("schedule", f"{type(error).__name__}: {error}", _mark(error))
    return None


def _verify_given(trial: Trial) -> None:
    """Raise Unfit if the graph was not valid before the pass."""
    try:
        verify(trial.subject.prepared(trial.case))
    except InvalidGraph as error:
        raise Unfit(str(error)) from error


_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w@.#]*\d[\w@.#]*")


def _mark(error: BaseException | None) -> str:
    """The kind of an error and its message without names and numbers, which change as the program gets smaller."""
    return f"{type(error).__name__}: {_NAMES.sub('', str(error).splitlines()[0] if str(error) else '')}"
