"""Programs beside one that a pass changed: the same but for an operand, an attribute, a name, a mark, or the numbers it runs on.

    y = scale(x, 2); z = relu(y)      ⇒      y = scale(x, 2); y' = scale(y, -1); z = relu(y')

A pass that forgets a condition is right on most of the programs that it changes, and wrong on some that differ from these in one thing.
What is drawn from nothing seldom has both, what the pass looks for and what it forgets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from graphad.ops import REGISTRY, ControlDef, GradOpDef, LoopDef, OpDef, lookup
from graphad.program import EMPTY, FORWARD, OPTIMIZE, Block, Operator, Program
from graphad.testing.calls import NONE, Interest, values_beside
from graphad.testing.cases import NARROW, WIDE, Case, Choices, RandomChoices, array_of, fitted, renumbered_case, retyped
from graphad.testing.lawful import fits_extents, missing
from graphad.testing.operator_programs import CLIP
from graphad.testing.programs import case_with_gradients
from graphad.testing.samples import samples_of
from graphad.testing.shrinking import Edit, Place, edited, places
from graphad.types import FLOATS, TENSOR, Array, Shape

KEPT, ORIGINS = 8, 64  # programs of one origin, and origins, that are kept
MOST_OPERATORS = 40  # of a program that another one is made of: with each change it may get longer
TRIES = 4  # changes drawn until one leaves a program valid
IDENTITIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("assign", {}),
    ("scale", {"scale": 1.0}),
    ("scale", {"scale": -1.0}),
    ("relu", {}),
    ("tanh", {}),
)
NUMBERS = (0.0, 1.0, -1.0, 2.0, -0.0)
T = TypeVar("T")


class NothingToChange(Exception):
    """What was to be changed is not in the program."""


@dataclass
class Draw:
    """What a change is drawn from: a program, what the pass looks at, and names of what it changed there and of what is beside that."""

    choices: Choices
    program: Program
    interest: Interest
    touched: frozenset[str]

    def one_of(self, elements: Sequence[T]) -> T:
        """One of some elements, without which there is nothing to change."""
        if not elements:
            raise NothingToChange
        return self.choices.one_of(elements)

    @cached_property
    def place(self) -> Place:
        """That of the operator to change, mostly of one that the pass changed."""
        found = _calls(self.program)
        touched = [place for place in found if not self.touched.isdisjoint(_operator(self.program, place).output_names())]
        return self.choices.one_of(touched) if touched and not self.choices.chance(4) else self.one_of(found)

    @property
    def op(self) -> Operator:
        return _operator(self.program, self.place)

    @property
    def block(self) -> Block:
        return self.program.blocks[self.place[0]]

    def operand(self) -> tuple[str, int, str]:
        """A slot of the operator, a number in it, and the name that is read there."""
        return self.one_of([(slot, i, name) for slot, names in self.op.inputs.items() for i, name in enumerate(names) if name != EMPTY])

    def result(self) -> str:
        """The name of a result of the operator."""
        return self.one_of([name for name in self.op.output_names() if name != EMPTY])

    def declared(self, name: str) -> tuple[Shape | None, str | None]:
        """What a tensor is declared as that the operator's block sees."""
        if not self.block.has_var_recursive(name) or self.block.var_recursive(name).type != TENSOR:
            raise NothingToChange
        return self.block.var_recursive(name).declared

    def alike(self, block: Block, name: str) -> str:
        """Another tensor that a block sees and that is declared as one is."""
        if not block.has_var_recursive(name):
            raise NothingToChange
        var = block.var_recursive(name)
        names = dict.fromkeys(other for around in block.chain() for other in around.vars)
        others = ((other, block.var_recursive(other)) for other in names if other != name)
        return self.one_of([other for other, alike in others if alike.type == var.type == TENSOR and alike.declared == var.declared])

    def free(self, name: str) -> str:
        """A name that no variable has."""
        taken = {other for block in self.program.blocks for other in block.vars}
        while name in taken:
            name += "_"
        return name


# A change of a program, of which ``NothingToChange`` says that there is none; and one of the arrays, or None.
Change = Callable[[Draw], Edit]
OtherArrays = Callable[[Choices, Case, Interest], Case | None]


class Drawn(NamedTuple):
    """A case, the number of the drawn one that it goes back to, and the choices that it was drawn by; None: it is beside another one."""

    case: Case
    origin: int
    choices: RandomChoices | None = None


class Neighbourhood:
    """Programs that a pass changed, or on which its code ran a new way, by the drawn ones that they go back to; and what is beside them.

    Args:
        interest: the constants that attributes and arrays may have, and whether gradients may be clipped.
        often: one program in so many is to be one beside those.

    Attributes:
        changed: how many of the drawn programs it changed.
    """

    def __init__(self, interest: Interest, often: int) -> None:
        self.interest, self.often = interest, often
        self.origins: dict[int, list[tuple[Case, Program, Program]]] = {}
        self.changed = 0
        self.random = random.Random("neighbourhood")

    def note(self, origin: int, case: Case, before: Program, after: Program) -> None:
        """Keep a case, with what the pass got and what it made; it may take the place of another one."""
        if sum(len(block.ops) for block in case.program.blocks) > MOST_OPERATORS:
            return
        # Each drawn program has as many descendants as any other: what is small would soon be all there is.
        cases = self.origins.setdefault(origin, [])
        cases.append((case, before, after))
        if len(cases) > KEPT:
            del cases[self.random.randrange(KEPT)]
        if len(self.origins) > ORIGINS:
            del self.origins[self.random.choice([*self.origins][:-1])]

    def drawn(self, choices: Choices) -> Drawn | None:
        """A case beside one of those; None if there is none, or nothing that was drawn leaves it valid."""
        if not self.origins:
            return None
        origin = choices.one_of([*self.origins])
        case, before, after = choices.one_of(self.origins[origin])
        other = neighbour(choices, case, _touched(before, after), self.interest)
        return None if other is None else Drawn(other, origin)


def neighbour(choices: Choices, case: Case, touched: frozenset[str], interest: Interest) -> Case | None:
    """The case with one or two things changed; None if nothing that was drawn leaves it valid.

    Args:
        choices: where the decisions come from.
        case: it is not changed. Of one with gradients the program is changed that they are of, and gradients are taken again.
        touched: names of results at which changes are mostly made.
        interest: the constants that attributes and arrays may have, and whether gradients may be clipped.
    """
    forward = case if case.forward is None else case.forward
    for _ in range(TRIES):
        other = _changed(choices, forward, interest, touched)
        if other is None or other is forward:
            continue
        if case.forward is not None:
            other = case_with_gradients(replace(other, requested=()), case.order)
        if other is not None:
            return replace(other, altered=True)
    return None


def _touched(before: Program, after: Program) -> frozenset[str]:
    """The names of the results of operators that are not there after a pass, of those that read these, and of what those read."""
    texts = {str(op) for block in after.blocks for op in block.ops}
    ops = [op for block in before.blocks for op in block.ops]
    changed = [op for op in ops if str(op) not in texts]
    written = {name for op in changed for name in op.output_names()}
    read = {name for op in changed for name in op.input_names()}
    beside = (op for op in ops if not written.isdisjoint(op.input_names()) or not read.isdisjoint(op.output_names()))
    return frozenset(written.union(*(op.output_names() for op in beside)) - {EMPTY})


def _changed(choices: Choices, case: Case, interest: Interest, touched: frozenset[str]) -> Case | None:
    if choices.chance(3) or not _calls(case.program):
        return choices.one_of(OTHER_ARRAYS)(choices, case, interest)
    other: Case | None = case
    for _ in range(choices.one_of((1, 1, 2))):
        if other is not None:
            other = _edited(Draw(choices, other.program, interest, touched), other)
    return other


def _edited(draw: Draw, case: Case) -> Case | None:
    choices = draw.choices
    change, keeps_types = choices.one_of(CHANGES if _is_forward(case.program) else OF_UPDATES)
    try:
        program = edited(case.program, change(draw), keeps_types)
    except NothingToChange:
        return None
    if program is None:
        return None
    other = fitted(case, program)
    # What nothing writes before a block that may not run reads it stays without a value.
    if missing(other) - missing(case):
        return None
    new_names = [name for name in program.global_block().vars if name not in case.program.global_block().vars]
    return replace(other, requested=(*case.requested, *new_names) if case.requested and choices.boolean() else case.requested)


def _is_forward(program: Program) -> bool:
    """Whether there are neither gradients nor updates."""
    return all(op.role == FORWARD and not isinstance(REGISTRY.get(op.type), GradOpDef) for block in program.blocks for op in block.ops)


def _calls(program: Program) -> list[Place]:
    """The places of the operators without blocks; beside gradients only those of updates, since gradients are of what is there."""
    is_forward = _is_forward(program)
    known = [place for place in places(program) if _definition(_operator(program, place)) is not None]
    return [place for place in known if is_forward or _operator(program, place).role == OPTIMIZE]


def _operator(program: Program, place: Place) -> Operator:
    return program.blocks[place[0]].ops[place[1]]


def _definition(op: Operator) -> OpDef | None:
    definition = REGISTRY.get(op.type)
    return None if isinstance(definition, ControlDef | GradOpDef) else definition


# -- changes -------------------------------------------------------------------------------------


def _other_operand(draw: Draw) -> Edit:
    """An operator reads another value of the same type, perhaps one that it reads elsewhere."""
    place, (slot, i, name) = draw.place, draw.operand()
    other = draw.alike(draw.block, name)

    def edit(copy: Program) -> None:
        _operator(copy, place).inputs[slot][i] = other

    return edit


def _exchanged_operands(draw: Draw) -> Edit:
    """Two operands of an operator change places."""
    place = draw.place
    operands = [(slot, i) for slot, names in draw.op.inputs.items() for i in range(len(names))]
    if len(operands) < 2:
        raise NothingToChange
    (s, i), (t, j) = draw.choices.permutation(operands)[:2]

    def edit(copy: Program) -> None:
        inputs = _operator(copy, place).inputs
        inputs[s][i], inputs[t][j] = inputs[t][j], inputs[s][i]

    return edit


def _other_attribute(draw: Draw) -> Edit:
    """An attribute of an operator has another value."""
    place, op, definition = draw.place, draw.op, lookup(draw.op.type)
    if not definition.attrs:
        raise NothingToChange
    # Those that no sample names mostly change nothing.
    named = [attr for name, attr in definition.attrs.items() if any(name in sample.attrs for sample in samples_of(definition.type))]
    attr = draw.choices.one_of(named if named and not draw.choices.chance(4) else [*definition.attrs.values()])
    constants = draw.interest.constants if draw.choices.boolean() else NONE
    value = draw.one_of(values_beside(definition, attr.name, op.attrs.get(attr.name, attr.default), constants))

    def edit(copy: Program) -> None:
        _operator(copy, place).attrs[attr.name] = value

    return edit


def _hidden_operand(draw: Draw) -> Edit:
    """An operator reads what another one makes of an operand: the same, or what has another sign, or no negative elements."""
    place, (slot, i, name) = draw.place, draw.operand()
    shape, dtype = draw.declared(name)
    role, (op_type, attrs), new_name = draw.op.role, draw.choices.one_of(IDENTITIES), draw.free(f"{name}.near")

    def edit(copy: Program) -> None:
        block = copy.blocks[place[0]]
        block.create_var(name=new_name, shape=shape, dtype=dtype)
        block.insert_op(place[1], op_type, {"X": [name]}, {"Out": [new_name]}, dict(attrs), role)
        block.ops[place[1] + 1].inputs[slot][i] = new_name

    return edit


def _read_again(draw: Draw) -> Edit:
    """Another operator reads a result."""
    place, name = draw.place, draw.result()
    shape, dtype = draw.declared(name)
    role, (op_type, attrs), new_name = draw.op.role, draw.choices.one_of(IDENTITIES), draw.free(f"{name}.again")
    at = draw.choices.integer(place[1] + 1, len(draw.block.ops))

    def edit(copy: Program) -> None:
        block = copy.blocks[place[0]]
        block.create_var(name=new_name, shape=shape, dtype=dtype)
        block.insert_op(at, op_type, {"X": [name]}, {"Out": [new_name]}, dict(attrs), role)

    return edit


def _repeated(draw: Draw) -> Edit:
    """An operator is there twice; what reads the first one once reads the second."""
    place = draw.place
    names = {name: draw.free(f"{name}.twin") for name in draw.op.output_names() if name != EMPTY}
    if any(draw.block.var_recursive(name).persistable for name in names):
        raise NothingToChange
    later = [(k, op) for k, op in enumerate(draw.block.ops) if k > place[1]]
    readers = [(k, slot, i) for k, op in later for slot, read in op.inputs.items() for i, name in enumerate(read) if name in names]
    reader = draw.choices.one_of(readers) if readers else None

    def edit(copy: Program) -> None:
        block = copy.blocks[place[0]]
        op = block.ops[place[1]]
        for name, twin in names.items():
            block.vars[twin] = block.var_recursive(name).copy_to(block)
            block.vars[twin].name = twin
        if reader is not None:
            k, slot, i = reader
            block.ops[k].inputs[slot][i] = names[block.ops[k].inputs[slot][i]]
        inputs = {slot: list(read) for slot, read in op.inputs.items()}
        outputs = {slot: [names.get(name, name) for name in written] for slot, written in op.outputs.items()}
        block.insert_op(place[1] + 1, op.type, inputs, outputs, dict(op.attrs), op.role)

    return edit


def _overwritten(draw: Draw) -> Edit:
    """A result has the name of a value before it, which what follows reads in its place."""
    place, name = draw.place, draw.result()
    other = draw.alike(draw.block, name)

    def edit(copy: Program) -> None:
        block = copy.blocks[place[0]]
        op = block.ops[place[1]]
        op.outputs = _renamed(op.outputs, name, other)
        for later in _after(copy, block, place[1]):
            later.inputs = _renamed(later.inputs, name, other)

    return edit


def _renamed(slots: dict[str, list[str]], old: str, new: str) -> dict[str, list[str]]:
    return {slot: [new if name == old else name for name in names] for slot, names in slots.items()}


def _after(program: Program, block: Block, index: int) -> Iterator[Operator]:
    """The operators of a block after one of it, and those of the blocks inside."""
    yield from block.ops[index + 1 :]
    yield from (op for inner in program.blocks if inner is not block and block in inner.chain() for op in inner.ops)


def _other_condition(draw: Draw) -> Edit:
    """A branch goes by another condition, perhaps that of another branch."""
    place, slot, name = draw.one_of([*_conditions(draw.program)])
    other = draw.alike(draw.program.blocks[place[0]], name)

    def edit(copy: Program) -> None:
        _operator(copy, place).inputs[slot] = [other]

    return edit


def _conditions(program: Program) -> Iterator[tuple[Place, str, str]]:
    """The branches, and the slot and name of the condition of each."""
    for place in places(program):
        op = _operator(program, place)
        definition = REGISTRY.get(op.type)
        if isinstance(definition, ControlDef) and not isinstance(definition, LoopDef) and not definition.is_grad:
            yield from ((place, definition.condition, name) for name in op.inputs.get(definition.condition, ()))


def _other_shape(draw: Draw) -> Edit:
    """What is fed, or all of a shape, has another extent along an axis, one that is not known, or an axis less."""
    block = draw.program.global_block()
    written_names = {name for op in block.ops for name in op.output_names()}
    fed = [var for name, var in block.vars.items() if name not in written_names and not var.persistable]
    # Of floats: what decides whether a loop goes on is one element.
    variables = [var for var in fed if var.type == TENSOR and var.declared[0] and var.declared[1] in FLOATS]
    shape = draw.one_of(variables).declared[0] or ()
    alike = [var.name for var in variables if var.declared[0] == shape]
    names = alike if draw.choices.boolean() else [draw.choices.one_of(alike)]
    axis, extent = draw.choices.below(len(shape)), draw.choices.one_of((1, 1, -1, -1, -1, 2, 0, None))
    new_shape = (*shape[:axis], *(() if extent is None else (extent,)), *shape[axis + 1 :])

    def edit(copy: Program) -> None:
        for name in names:
            var = copy.global_block().vars[name]
            var.declare(new_shape, var.declared[1])

    return edit


def _other_mark(draw: Draw) -> Edit:
    """Gradients stop at a value, or no longer do, or are clipped there."""
    blocks = draw.program.blocks
    index, name = draw.one_of([(block.idx, name) for block in blocks for name, var in block.vars.items() if var.declared[1] in FLOATS])
    clips = draw.interest.clips and draw.choices.boolean()

    def edit(copy: Program) -> None:
        var = copy.blocks[index].vars[name]
        if clips:
            var.error_clip = CLIP if var.error_clip is None else None
        else:
            var.stop_gradient = not var.stop_gradient

    return edit


CHANGES: tuple[tuple[Change, bool], ...] = (
    (_other_operand, True),
    (_other_operand, True),
    (_exchanged_operands, False),
    (_other_attribute, False),
    (_other_attribute, False),
    (_hidden_operand, True),
    (_hidden_operand, True),
    (_read_again, True),
    (_other_condition, True),
    (_other_shape, False),
    (_other_shape, False),
    (_other_mark, True),
    (_overwritten, True),
    (_repeated, True),
)
OF_UPDATES = tuple(
    (change, keeps) for change, keeps in CHANGES if change not in (_other_condition, _other_shape, _other_mark, _overwritten)
)

# -- arrays --------------------------------------------------------------------------------------


def _other_numbers(choices: Choices, case: Case, interest: Interest) -> Case | None:
    return renumbered_case(choices, case, interest.kinds)


def _of_constants(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """An array is filled with one number: one that the pass knows, or the program, or a simple one."""
    known = [*interest.constants.numbers, *_constants(case.program)]
    number = choices.one_of(known if known and choices.boolean() else NUMBERS)
    return _with_array(choices, case, lambda array: np.full_like(array, number) if array.dtype.kind in "fi" else ~array)


def _constants(program: Program) -> list[float]:
    """The numbers that are attributes of a program's operators, but not ones that are very large."""
    values = (value for block in program.blocks for op in block.ops for value in op.attrs.values())
    return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 100]


def _equal(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Two arrays of one type are equal."""
    arrays = {**case.feeds, **case.params}
    pairs = [
        (one, other)
        for one, a in arrays.items()
        for other, b in arrays.items()
        if one != other and isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype)
    ]
    if not pairs:
        return None
    one, other = choices.one_of(pairs)
    return _replaced(case, one, arrays[other].copy())


def _other_rows(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Of an axis that is declared with an unknown extent there are fewer rows, one or none, or more, in one array or all.

    Where no extent is unknown, the first one of arrays of one shape becomes so: two of them need not be the same.
    """
    opened = case if _open_names(case) else _opened(choices, case)
    names = [] if opened is None else _open_names(opened)
    if opened is None or not names:
        return None
    extent = choices.one_of((1, 1, 0, 3))
    for name in [choices.one_of(names)] if opened is not case or choices.boolean() else names:
        shape = opened.program.global_block().vars[name].declared[0] or ()
        array = opened.feeds[name]
        for axis in [axis for axis, declared in enumerate(shape) if declared == -1]:
            array = np.take(array, np.arange(extent) % array.shape[axis], axis) if array.shape[axis] else array
        opened = _replaced(opened, name, array)
    return opened if fits_extents(opened) else None


def _open_names(case: Case) -> list[str]:
    """What is fed that has elements and an unknown extent."""
    variables = case.program.global_block().vars
    return [n for n, a in case.feeds.items() if isinstance(a, np.ndarray) and a.size and -1 in (variables[n].declared[0] or ())]


def _opened(choices: Choices, case: Case) -> Case | None:
    """The case with the first extents of what is fed unknown, of all arrays of one shape."""
    floats = {name: array for name, array in case.feeds.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f"}
    shapes = [array.shape for array in floats.values() if array.ndim and array.size]
    if not shapes or not _is_forward(case.program):
        return None
    shape = choices.one_of(shapes)
    names = [name for name, array in floats.items() if array.shape == shape]

    def edit(copy: Program) -> None:
        for name in names:
            var = copy.global_block().vars[name]
            var.declare((-1, *shape[1:]), var.declared[1])

    program = edited(case.program, edit)
    return None if program is None else fitted(case, program)


def _one_element(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """One element of an array is another number."""

    def other(array: Array) -> Array:
        if not array.size:
            return array
        # Integers stay small: an operator may take one for an extent, or an index of an array that grows.
        kind = choices.one_of(interest.kinds) if array.dtype.kind == "f" else "integers"
        array = array.copy()
        array.flat[choices.below(array.size)] = array_of(choices, (1,), str(array.dtype), kind)[0]
        return array

    return _with_array(choices, case, other)


def _other_dtype(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """All floats are of the other width."""
    dtypes = choices.permutation((NARROW, WIDE))
    return retyped(case.clone(), *dtypes)


def _other_request(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Another value is requested as well, or the loss alone."""
    if case.loss_name and choices.chance(3):
        return replace(case, requested=(case.loss_name,))
    block = case.program.global_block()
    names = dict.fromkeys(name for op in block.ops for name in op.output_names() if name in block.vars and block.vars[name].type == TENSOR)
    return replace(case, requested=tuple(dict.fromkeys((*case.targets, choices.one_of([*names]))))) if names else None


def _with_array(choices: Choices, case: Case, change: Callable[[Array], Array]) -> Case | None:
    arrays = {name: array for name, array in {**case.feeds, **case.params}.items() if isinstance(array, np.ndarray)}
    if not arrays:
        return None
    # Mostly it is a single number that decides something.
    single = [name for name, array in arrays.items() if array.size == 1]
    name = choices.one_of(single if single and choices.boolean() else [*arrays])
    return _replaced(case, name, change(arrays[name]))


def _replaced(case: Case, name: str, array: Array) -> Case:
    if name in case.feeds:
        return replace(case, feeds={**case.feeds, name: array})
    return replace(case, params={**case.params, name: array})


OTHER_ARRAYS: tuple[OtherArrays, ...] = (
    _other_numbers,
    _of_constants,
    _of_constants,
    _equal,
    _other_rows,
    _other_rows,
    _one_element,
    _other_dtype,
    _other_request,
)
