"""Changes of one thing in a program: an operand, an attribute, a name, a shape, a mark, an operator more.

y = scale(x, 2); z = relu(y)      ⇒      y = scale(x, 2); y' = scale(y, -1); z = relu(y')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from graphad.ops import REGISTRY, ControlDef, GradOpDef, LoopDef, OpDef, lookup
from graphad.program import EMPTY, OPTIMIZE, Block, Operator, Program
from graphad.testing.calls import NONE, Interest, values_beside
from graphad.testing.cases import Choices
from graphad.testing.derivatives import is_forward
from graphad.testing.operator_programs import CLIP
from graphad.testing.program_edits import Edit, Place, places, renamed
from graphad.testing.samples import samples_of
from graphad.types import FLOATS, TENSOR, Shape

# Operators of one operand that are put before others.
UNARY: tuple[tuple[str, dict[str, object]], ...] = (
    ("assign", {}),
    ("scale", {"scale": 1.0}),
    ("scale", {"scale": -1.0}),
    ("relu", {}),
    ("tanh", {}),
)
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
        found = changeable(self.program)
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


def has_no_gradients(program: Program) -> bool:
    """Whether there are neither gradients nor updates, nor gradient operators on their own."""
    return is_forward(program) and not any(isinstance(REGISTRY.get(op.type), GradOpDef) for block in program.blocks for op in block.ops)


def changeable(program: Program) -> list[Place]:
    """The places of the operators without blocks; beside gradients only those of updates, since gradients are of what is there."""
    is_plain = has_no_gradients(program)
    known = [place for place in places(program) if _definition(_operator(program, place)) is not None]
    return [place for place in known if is_plain or _operator(program, place).role == OPTIMIZE]


def _operator(program: Program, place: Place) -> Operator:
    return program.blocks[place[0]].ops[place[1]]


def _definition(op: Operator) -> OpDef | None:
    definition = REGISTRY.get(op.type)
    return None if isinstance(definition, ControlDef | GradOpDef) else definition


Change = Callable[[Draw], Edit]  # ``NothingToChange`` says that there is none


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
    role, (op_type, attrs), new_name = draw.op.role, draw.choices.one_of(UNARY), draw.free(f"{name}.near")

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
    role, (op_type, attrs), new_name = draw.op.role, draw.choices.one_of(UNARY), draw.free(f"{name}.again")
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
        op.outputs = renamed(op.outputs, {name: other})
        for later in _after(copy, block, place[1]):
            later.inputs = renamed(later.inputs, {name: other})

    return edit


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
