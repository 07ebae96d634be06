"""A program, or a case on which a pass is wrong, made as small as possible."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.names import blocks_of
from graphad.ops import REGISTRY, ControlDef
from graphad.ops.callbacks import silent
from graphad.ops.parameters import REQUIRED
from graphad.program import Block, Program
from graphad.testing.cases import Case, completed, fitted
from graphad.testing.checks import examine
from graphad.testing.equivalence import observe
from graphad.testing.lawful import is_lawful
from graphad.testing.program_edits import Edit, Place, edited, places, renamed, used_names
from graphad.testing.programs import case_with_gradients
from graphad.testing.trial import Finding, Subject
from graphad.types import TENSOR, Array

# -- simpler programs ----------------------------------------------------------------------------


def without(places_: Collection[Place]) -> Edit:
    """Leave operators out, and the blocks they hold."""

    def edit(program: Program) -> None:
        for block in program.blocks:
            block.ops = [op for i, op in enumerate(block.ops) if (block.idx, i) not in places_]

    return edit


def inlined(place: Place, which: int) -> Edit:
    """Put the operators of a block in the place of the operator that holds it."""

    def edit(program: Program) -> None:
        block, index = program.blocks[place[0]], place[1]
        inner = blocks_of(block.ops[index])[which]
        # Names of the inner block may be taken around it, or in blocks beside.
        new_names = {name: _free_name(block, name) for name in inner.vars}
        for name, var in inner.vars.items():
            var.name = new_names[name]
            block.vars[var.name] = var.copy_to(block)
        for owner in program.blocks:
            if inner in owner.chain():
                for op in owner.ops:
                    op.inputs, op.outputs = renamed(op.inputs, new_names), renamed(op.outputs, new_names)
        for op in inner.ops:
            op.block = block
            for sub in blocks_of(op):
                sub.parent_idx = block.idx
        # The block itself is left empty; ``_mend`` drops it, since no operator holds it any more.
        block.ops[index : index + 1] = inner.ops
        inner.ops = []

    return edit


def _free_name(block: Block, name: str) -> str:
    if not any(
        name in inner_block.vars for inner_block in block.program.blocks if inner_block is not block and block in inner_block.chain()
    ):
        name = name if not block.has_var_recursive(name) else f"{name}_"
    while block.has_var_recursive(name):
        name += "_"
    return name


def simpler_attrs(program: Program) -> Iterator[Edit]:
    """Attributes left to their defaults, and constants 0 or 1, or half as large."""
    for place in places(program):
        op = program.blocks[place[0]].ops[place[1]]
        definition = REGISTRY.get(op.type)
        for name, value in op.attrs.items():
            if (
                definition is not None
                and name in definition.attrs
                and definition.attrs[name].kind != "Block"
                and definition.attrs[name].default is not REQUIRED
            ):
                yield _with_attr(place, name)
            if isinstance(value, float):
                yield from (_with_attr(place, name, simple) for simple in _edits_simpler(value))


def _edits_simpler(value: float) -> list[float]:
    numbers = [0.0, 1.0]
    if value in numbers:
        return numbers[: numbers.index(value)]
    # 0 is simpler than 1, and 1 than any other number; halves lead to a small one in as many steps as it has bits.
    return [*numbers, value // 2] if math.isfinite(value) and abs(value) > 3 and value == int(value) else numbers


def _with_attr(place: Place, name: str, value: object = None) -> Edit:
    """Give an attribute another value, or take it away."""

    def edit(program: Program) -> None:
        attrs = program.blocks[place[0]].ops[place[1]].attrs
        if value is None:
            del attrs[name]
        else:
            attrs[name] = value

    return edit


def fewer_operands(program: Program) -> Iterator[Edit]:
    """One name less in a slot that takes several, or an optional slot left out."""
    for place in places(program):
        op = program.blocks[place[0]].ops[place[1]]
        if isinstance(REGISTRY.get(op.type), ControlDef):
            continue
        for slots in ("inputs", "outputs"):
            for slot, names in getattr(op, slots).items():
                for i in range(len(names)):
                    yield _without_name(place, slots, slot, i)


def _without_name(place: Place, slots: str, slot: str, index: int) -> Edit:
    def edit(program: Program) -> None:
        names_of_slots: dict[str, list[str]] = getattr(program.blocks[place[0]].ops[place[1]], slots)
        del names_of_slots[slot][index]
        if not names_of_slots[slot]:
            del names_of_slots[slot]

    return edit


def fewer_variables(program: Program) -> Iterator[Edit]:
    """Without the persistable variables that no operator touches: all of them, or one."""
    used = used_names(program)
    names = [name for name, var in program.global_block().vars.items() if var.persistable and name not in used]
    if names:
        yield from map(_without_variables, (names, *([name] for name in names)))


def _without_variables(names: Collection[str]) -> Edit:
    def edit(program: Program) -> None:
        for name in names:
            del program.global_block().vars[name]

    return edit


def bypasses(program: Program) -> Iterator[Edit]:
    """An operator left out whose readers get one of its inputs, of the same type, in the place of its only output."""
    for place in places(program):
        block = program.blocks[place[0]]
        op = block.ops[place[1]]
        if isinstance(REGISTRY.get(op.type), ControlDef) or len(op.output_names()) != 1:
            continue
        for name in dict.fromkeys(op.input_names()):
            operands = [word for word in (name, *op.output_names()) if block.has_var_recursive(word)]
            if len({*operands}) == 2 and block.var_recursive(operands[0]).declared == block.var_recursive(operands[1]).declared:
                yield _bypassed(place, name)


def _bypassed(place: Place, name: str) -> Edit:
    def edit(program: Program) -> None:
        (result,) = program.blocks[place[0]].ops.pop(place[1]).output_names()
        for op in (op for block in program.blocks for op in block.ops):
            op.inputs = renamed(op.inputs, {result: name})

    return edit


def smaller_extents(program: Program) -> Iterator[Edit]:
    """An extent, everywhere it occurs, made 1 or 2."""
    extents = {extent for var in program.list_vars() for extent in var.declared[0] or ()}
    for extent in sorted(extents, reverse=True):
        yield from (_with_extent(extent, new) for new in (1, 2) if new < extent)


def _with_extent(old: int, new: int) -> Edit:
    def edit(program: Program) -> None:
        for var in program.list_vars():
            shape, dtype = var.declared
            var.declare(None if shape is None else tuple(new if e == old else e for e in shape), dtype)
        for op in (op for block in program.blocks for op in block.ops):
            for name, value in op.attrs.items():
                # Attributes that are shapes hold the extent, too; other lists may hold the number by chance.
                if "shape" in name and isinstance(value, list):
                    op.attrs[name] = [new if e == old else e for e in value]

    return edit


# -- reduction -------------------------------------------------------------------------------------
# Make a program smaller while it stays bad.
#
# Delta debugging: A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE Transactions on Software
# Engineering 28(2), 2002. The parts left out are operators of all blocks; then blocks are inlined, operators bypassed, numbers made
# simpler, operands and extents fewer, until none of it goes on.

IsBad = Callable[[Program], bool]
TRIES = 3000


class _Search:
    """The smallest bad program so far, and how many more may be tried."""

    def __init__(self, program: Program, is_bad: IsBad, tries: int) -> None:
        self.program = program
        self.is_bad = is_bad
        self.left = tries
        self.seen = {str(program)}

    def take(self, edit: Edit, keeps_types: bool = False) -> bool:
        """Whether an edit leaves the program bad; it is then the one to go on from."""
        program = edited(self.program, edit, keeps_types) if self.left > 0 else None
        # Edits lead to one program on many ways; it is tried once.
        if program is None or (text := str(program)) in self.seen:
            return False
        self.seen.add(text)
        self.left -= 1
        if self.is_bad(program):
            self.program = program
            return True
        return False


def reduce_program(program: Program, is_bad: IsBad, tries: int = TRIES) -> Program:
    """A smaller program that is still bad, to which no single step of those tried can be done any more.

    Args:
        program: one that is bad; it stays as it is.
        is_bad: told of each smaller program whether it is still bad. What reads a name that nothing writes any more takes it from
            outside; a program need not run, and ``is_bad`` is to say False if it does not.
        tries: how many programs may be tried.

    Returns:
        A program of its own, the same for the same arguments.

    >>> rows = "tanh(X=x) -> (Out=y) sin(X=y) -> (Out=z) tanh(X=z) -> (Out=o)"
    >>> program = Program.parse("program { block 0 { var x: float64[3] " + rows + " } }")
    >>> print(reduce_program(program, lambda smaller: "sin(" in str(smaller)))
    program {
      block 0 {
        var y: float64[1]
        var z: float64[1]
        sin(X=y) -> (Out=z)
      }
    }
    <BLANKLINE>
    """
    search = _Search(completed(program), is_bad, tries)
    while search.left > 0:
        before = str(search.program)
        _fewer_ops(search)
        _fewer_blocks(search)
        for edits in (fewer_variables, bypasses, simpler_attrs, fewer_operands, smaller_extents):
            _reduction_simpler(search, edits)
        if str(search.program) == before:
            break
    return search.program


def _fewer_ops(search: _Search) -> None:
    """Leave out parts of the operators, of half their number first; smaller parts when none of a size goes."""
    # Delta debugging (A. Zeller and R. Hildebrandt, 2002): large pieces first, smaller ones when none can go.
    size = max(len(places(search.program)) // 2, 1)
    while True:
        is_smaller = _one_round(search, size)
        if not is_smaller and size == 1:
            return
        # One operator at a time until a round removes none: each one that goes may have been the last reader of another.
        size = max(min(size, len(places(search.program))) // 2, 1) if not is_smaller or size > 1 else 1


def _one_round(search: _Search, size: int) -> bool:
    """Try each part of a size once, the last first: readers go before what they read."""
    end, is_smaller = len(places(search.program)), False
    while end > 0:
        all_places = places(search.program)
        end = min(end, len(all_places))
        part = set(all_places[max(end - size, 0) : end])
        # Where all is inferred, the second is the same program, which is not tried again.
        is_smaller |= search.take(without(part)) or search.take(without(part), keeps_types=True)
        end -= size
    return is_smaller


def _fewer_blocks(search: _Search) -> None:
    while any(search.take(edit) for edit in list(_inlinings(search.program))):
        pass


def _inlinings(program: Program) -> Iterator[Edit]:
    for place in places(program):
        block, op = place
        yield from (inlined(place, number) for number in range(len(list(blocks_of(program.blocks[block].ops[op])))))


def _reduction_simpler(search: _Search, edits: Callable[[Program], Iterator[Edit]]) -> None:
    """Take each edit that goes; those that are left are found again, since an edit moves what follows it."""
    while any(search.take(edit) for edit in list(edits(search.program))):
        pass


# -- smallest --------------------------------------------------------------------------------------
# A case on which a pass is wrong, made as small as possible: the program first, then the arrays.

SECONDS = 20.0  # of processor time that making it small may take
SINGLY = 12  # elements that an array may have for each to be made simpler by itself


def smallest(subject: Subject, case: Case, finding: Finding) -> tuple[Case, Finding]:
    """The case made as small as possible while the same thing is wrong, and what then is.

    It ends early where it takes too long, or is interrupted; what was found is never lost.
    """
    with silent():
        shrinking = _Shrinking(subject, case, finding)
        with suppress(KeyboardInterrupt, _OutOfTime):
            shrinking.run()
    return shrinking.case, shrinking.finding


class _OutOfTime(Exception):
    """It took too long."""


class _Shrinking:
    """The smallest case so far, and what is wrong with it."""

    def __init__(self, subject: Subject, case: Case, finding: Finding) -> None:
        self.subject, self.case, self.finding = subject, case, finding
        self.deadline = time.process_time() + SECONDS
        self.is_lawful = is_lawful(case)
        self.values = _intermediate_values(case)

    def run(self) -> None:
        """Make the program smaller, then the arrays simpler, and both again while that goes on."""
        if self.case.forward is not None:
            self.shrink_forward(self.case.forward, self.case.order)
        self.take(replace(self.case, forward=None))
        for _ in range(2):
            size = _size(self.case)
            with suppress(GraphadError):  # inference does not accept the program, so that it stays whole
                reduce_program(self.case.program, lambda program: self.take(fitted(self.case, program, self.values)))
            simplify_arrays(self.case, self.take)
            if self.case.requested:
                self.take(replace(self.case, requested=()))
            if _size(self.case) == size:
                break

    def shrink_forward(self, forward: Case, order: int) -> None:
        """Make the program smaller that was differentiated, and differentiate it again each time; gradients alone are hard to shrink."""
        fewest = next((fewer for fewer in range(1, order + 1) if self.take_gradients(forward, fewer)), None)
        if fewest is not None:
            values = _intermediate_values(forward)
            reduce_program(forward.program, lambda program: self.take_gradients(fitted(forward, program, values), fewest))

    def take_gradients(self, forward: Case, order: int) -> bool:
        """``take`` for a case with the gradients of another one."""
        self.check_time()
        case = case_with_gradients(replace(forward, requested=()), order)
        return case is not None and self.take(case)

    def take(self, smaller: Case) -> bool:
        """Whether the same is wrong with another case; it is then the one to go on from."""
        self.check_time()
        try:
            finding = examine(self.subject, smaller, {self.finding.kind})
        except (GraphadError, ArithmeticError, LookupError, ValueError, TypeError):
            return False
        # On the way to a smaller case another mistake may show up: it would hide the one that was found.
        if finding is None or (finding.kind, finding.mark) != (self.finding.kind, self.finding.mark) or not self._is_fit(smaller):
            return False
        self.case, self.finding = smaller, finding
        return True

    def _is_fit(self, smaller: Case) -> bool:
        """Whether a smaller case runs, and is one on which a pass has to be right if the first one was."""
        return is_lawful(smaller) if self.is_lawful else _runs(smaller)

    def check_time(self) -> None:
        """Raise where it takes too long."""
        if time.process_time() > self.deadline:
            raise _OutOfTime


def _runs(case: Case) -> bool:
    try:
        observe(case.program, case, [])
    except Exception:  # a kernel may raise anything
        return False
    return True


def _intermediate_values(case: Case) -> dict[str, Array]:
    """The final values of the tensors of a case's program, which smaller programs are fed where nothing writes them any more."""
    variables = case.program.global_block().vars.values()
    written_names = {name for op in case.program.global_block().ops for name in op.output_names()}
    names = [var.name for var in variables if var.type == TENSOR and var.name in written_names]
    try:
        # Fed in place of the operators that wrote them, they keep the rest of the program on the numbers that showed the mistake.
        return {name: value for name, value in observe(case.program, case, names).values.items() if isinstance(value, np.ndarray)}
    except (GraphadError, ArithmeticError):
        return {}


def _size(case: Case) -> str:
    return str(case.program)


def simplify_arrays(case: Case, is_bad: Callable[[Case], bool]) -> Case:
    """The case with simpler arrays, as far as that leaves it bad: 0, 1 or -1 everywhere, 1, 2, 3...; then element by element."""
    for name in (*case.feeds, *case.params):
        for array in _simpler_arrays(case.arrays[name]):
            candidate = case.with_array(name, array)
            if is_bad(candidate):
                case = candidate
                break
        else:
            case = _simplify_elements(case, name, is_bad)
    return case


def _simplify_elements(case: Case, name: str, is_bad: Callable[[Case], bool]) -> Case:
    array = case.arrays[name]
    for place in range(array.size if array.size <= SINGLY else 0):
        for number in _simpler_numbers(array.flat[place]):
            simpler = case.arrays[name].copy()
            simpler.flat[place] = number
            candidate = case.with_array(name, simpler)
            if is_bad(candidate):
                case = candidate
                break
    return case


def _simpler_arrays(array: Array) -> Iterator[Array]:
    # 1, 2, 3, ... tells elements apart, where equal ones would hide the mistake.
    numbers = np.arange(1, array.size + 1).reshape(array.shape).astype(array.dtype)
    candidates = [np.zeros_like(array), np.ones_like(array), numbers]
    if array.dtype.kind in "fi":
        candidates.insert(2, -np.ones_like(array))
    return (operand for operand in candidates if not np.array_equal(operand, array))


def _simpler_numbers(number: object) -> Iterator[float]:
    value = float(number)  # type: ignore[arg-type]
    simple = [0.0, 1.0, -1.0, 2.0, *([float(round(value))] if np.isfinite(value) else [])]
    return iter(simple[: simple.index(value)] if value in simple else simple)
