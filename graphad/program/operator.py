"""Operators of a program: a type, names by slot, attributes; checked where they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

from graphad.errors import GraphadError, InvalidType, InvalidValue, ShapeError
from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef, Slot, lookup
from graphad.ops.definition import AS_INPUT, EXACT, checked_attr, did_you_mean, fits_64_bits, shortened
from graphad.ops.parameters import REQUIRED
from graphad.program.gc_pause import paused_collector
from graphad.program.signatures import Checked, known, remember, signature_of
from graphad.program.source import SourceLine, located
from graphad.program.variable import Variable, name_in
from graphad.showing import Table
from graphad.types import TENSOR, TENSOR_ARRAY, Shape, TensorType, common_extent, joined_shape

if TYPE_CHECKING:
    from graphad.program.block import Block
    from graphad.program.program import Program

FORWARD, BACKWARD, OPTIMIZE = "forward", "backward", "optimize"
ROLES = (FORWARD, BACKWARD, OPTIMIZE)
EMPTY = "@EMPTY@"

# Attributes that Fluid's programs carry on any operator; ``run_once`` marks graphad's initialization operators, and ``random_stream`` names
# what a random operator draws from.
RANDOM_STREAM = "random_stream"
COMMON_ATTRS = frozenset(
    {
        RANDOM_STREAM,
        "Scale_out",
        "Scale_x",
        "Scale_y",
        "inplace",
        "mkldnn_data_type",
        "op_callstack",
        "op_device",
        "op_namescope",
        "op_role",
        "op_role_var",
        "run_once",
        "use_cudnn",
        "use_mkldnn",
        "use_quantizer",
        "with_quant_attr",
    }
)

Names = dict[str, list[str]]


class Operator:
    """One statement of a block: ``type`` reads the names in ``inputs`` and writes those in ``outputs``.

    ``stored`` is how the file it was read from wrote it, for writing it back; here and in programs, blocks and variables
    None if it was made here. Only ``graphad.interop`` looks at it.
    """

    __slots__ = ("attrs", "block", "inputs", "made_by", "outputs", "role", "source", "stored", "type")

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: Names,
        outputs: Names,
        attrs: dict[str, Any],
        role: str = FORWARD,
        source: SourceLine | None = None,
        made_by: str | None = None,
        stored: bytes | None = None,
    ) -> None:
        self.block = block
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.role = role
        self.source = source
        self.made_by = made_by
        self.stored = stored

    def input(self, slot: str) -> list[str]:
        """The names in an input slot, empty if it is absent."""
        # Absent and empty slots are the same.
        return self.inputs.get(slot, [])

    def output(self, slot: str) -> list[str]:
        """The names in an output slot, empty if it is absent."""
        return self.outputs.get(slot, [])

    def input_names(self) -> list[str]:
        """All names read, in slot order, with repetitions."""
        return [name for names in self.inputs.values() for name in names]

    def output_names(self) -> list[str]:
        """All names written, in slot order."""
        return [name for names in self.outputs.values() for name in names]

    @property
    def input_arg_names(self) -> list[str]:
        """``input_names()``, as Fluid calls it."""
        return self.input_names()

    @property
    def output_arg_names(self) -> list[str]:
        """``output_names()``, as Fluid calls it."""
        return self.output_names()

    @property
    def attr_names(self) -> list[str]:
        """The attributes that ``attr`` has a value for: those that are set, and those with a default."""
        return list(self.all_attrs())

    def has_attr(self, name: str) -> bool:
        """Whether ``attr`` has a value for the name."""
        return name in self.all_attrs()

    def attr(self, name: str) -> object:
        """An attribute's value, the default of its definition where none is set; ValueError for a name that the operator does not have."""
        attrs = self.all_attrs()
        if name not in attrs:
            raise InvalidValue(located(f"operator {self.type!r} has no attribute {name!r}{did_you_mean(name, list(attrs))}", self.source))
        return attrs[name]

    def all_attrs(self) -> dict[str, object]:
        """All attributes by name, with the defaults of the definition; ``attrs`` are those that are set."""
        declared = REGISTRY[self.type].attrs if self.type in REGISTRY else {}
        defaults = {name: attr.default for name, attr in declared.items() if attr.default is not REQUIRED}
        return {**defaults, **self.attrs}

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        block = deepcopy(self.block, memo)
        return memo[id(self)] if id(self) in memo else copied(self, block)

    def __repr__(self) -> str:
        return f"{self.type}({_slots_text(self.inputs)}) -> ({_slots_text(self.outputs)})"

    def _repr_html_(self) -> str:
        rows = [("reads", slot, ", ".join(names)) for slot, names in self.inputs.items()]
        rows += [("writes", slot, ", ".join(names)) for slot, names in self.outputs.items()]
        rows += [("attribute", name, str(value)) for name, value in self.attrs.items()]
        if self.source:
            rows.append(("written at", "", str(self.source)))
        return Table((self.type, "", ""), tuple(rows)).html()


def copied(op: Operator, block: Block) -> Operator:
    """The same operator in a block of a copy of its program."""
    attrs = {k: _copied_attr(v, block.program) for k, v in op.attrs.items()}
    inputs, outputs = ({s: list(n) for s, n in slots.items()} for slots in (op.inputs, op.outputs))
    return Operator(block, op.type, inputs, outputs, attrs, op.role, op.source, op.made_by, op.stored)


def _copied_attr(value: Any, program: Program) -> Any:
    if isinstance(value, list):
        return [_copied_attr(item, program) for item in value]
    # A block, known by its attribute, so that this module need not import blocks.
    return value if isinstance(value, bool | int | float | str) or not hasattr(value, "parent_idx") else program.blocks[value.idx]


def _slots_text(slots: Names) -> str:
    return ", ".join(f"{s}={n[0]}" if len(n) == 1 else f"{s}=[{', '.join(n)}]" for s, n in slots.items())


# -- checks --------------------------------------------------------------------------------------


_SEVERAL = (list, tuple)
_PRINTABLE = (bool, int, float, str)
_UNKNOWN = (None, None)


def names_by_slot(side: str, op_type: str, block: Block, slots: object) -> Names:
    """The slots of one side ("inputs"), given as names or variables, one or a list, as lists of names; TypeError for anything else."""
    if slots is None:
        return {}
    # The usual case first: an isinstance of an abstract class takes longer than the rest.
    if type(slots) is not dict and not isinstance(slots, Mapping):
        raise InvalidType(f"{side} of operator {op_type!r} is a dict from slot to names, not {slots!r}")
    names: Names = {}
    for slot, value in slots.items():
        # The usual cases first, and of those without a call.
        if type(value) is str and value:
            names[slot if type(slot) is str else str(slot)] = [value]
        elif isinstance(value, Variable) and value.block is block:
            names[slot if type(slot) is str else str(slot)] = [value.name]
        elif isinstance(value, _SEVERAL):
            names[str(slot)] = [
                item.name if isinstance(item, Variable) and item.block is block else _name(side, op_type, block, slot, item)
                for item in value
            ]
        else:
            names[str(slot)] = [_name(side, op_type, block, slot, value)]
    return names


def _name(side: str, op_type: str, block: Block, slot: str, item: object) -> str:
    if isinstance(item, str) and item:
        return item
    if isinstance(item, Variable) and item.block is block:
        return item.name
    what = f"{side} of operator {op_type!r} slot {slot!r}"
    if isinstance(item, Variable):
        return name_in(what, block, item)
    if isinstance(item, str):
        raise InvalidValue(f"{what}: a variable's name is not empty")
    raise InvalidType(f"{what} takes variables or their names, not {item!r}")


def check(op: Operator, definition: OpDef, new: str = "") -> None:
    """Check slots, names and attributes against the definition, and declare the outputs; an error shows the mistake and the user's line.

    What an operator of the same signature has passed (``graphad.program.signatures``) is not checked again. ``new`` is the name of its only
    output, if nothing declares that yet.
    """
    try:
        signature = signature_of(op)
        # Programs repeat the same operator on the same types thousands of times, as layers do: what one has passed holds
        # for the others.
        checked = None if signature is None else known(definition).get(signature)
        if checked is None:
            checked = _checked(op, definition)
            if signature is not None:
                remember(definition, signature, checked)
        else:
            if checked.several:
                check_distinct(op)
            if checked.converted:
                # A value in another form than it is stored in is converted each time: it may be an array.
                op.attrs = op.attrs | {name: _checked_value(op, definition, name, op.attrs[name]) for name in checked.converted}
            if checked.copied:
                # Lists are the operator's own.
                op.attrs = op.attrs | {name: op.attrs[name].copy() for name in checked.copied}
        if new and checked.only is not None:
            shape, dtype = checked.only
            op.block.vars[new] = Variable.trusted(op.block, new, shape, dtype)
        else:
            _declare(op, definition, checked)
    except GraphadError as error:
        raise type(error)(located(str(error), op.source)) from None


def _checked(op: Operator, definition: OpDef) -> Checked:
    """Check everything; the attributes then have their canonical values."""
    _check_slots(op.type, "input", op.inputs, definition.inputs)
    _check_slots(op.type, "output", op.outputs, definition.outputs)
    attrs = op.attrs
    if attrs or definition.needs_attrs:
        op.attrs = dict(_checked_attrs(op, definition))
    for name in op.input_names():
        if name != EMPTY and not op.block.has_var_recursive(name):
            raise InvalidValue(f"operator {op.type!r} reads {name!r}, which no block here declares")
    check_distinct(op)
    # Which values were replaced by checked ones, so that the next operator of this signature does as much and no more.
    new = [name for name, value in op.attrs.items() if value is not attrs[name]]
    copied = tuple(name for name in new if _is_copy(op.attrs[name], attrs[name]))
    converted = tuple(name for name in new if name not in copied)
    # The collector would look through the whole program for the types of very many inputs.
    with paused_collector(sum(map(len, op.inputs.values()))):
        types = inferred_types(op, definition)
    slots = [slot for slot, names in op.outputs.items() for _ in names]
    only = types.get(slots[0], ()) if len(slots) == 1 and not definition.kinds else ()
    return Checked(types, only[0] if len(only) == 1 else None, len(slots) > 1, copied, converted)


def _is_copy(value: object, of: object) -> bool:
    """Whether a value is a list of just the items of another one."""
    return type(value) is list and type(of) is list and all(a is b for a, b in zip(value, of, strict=True))


def check_known(op: Operator) -> None:
    """The type, the slots and the attributes of an operator that was read: ValueError or TypeError names what is known instead."""
    definition = lookup(op.type)
    _check_slots(op.type, "input", op.inputs, definition.inputs)
    _check_slots(op.type, "output", op.outputs, definition.outputs)
    for _ in _checked_attrs(op, definition):
        pass


def check_slots_and_attributes(ops: Iterable[Operator]) -> None:
    """Refuse slots and attributes that the definitions do not have; Paddle's grad operators may have more inputs than needed."""
    # Most operators of a program have the slots and attributes of one before them.
    known: set[tuple[object, ...]] = set()
    for op in ops:
        key = (op.type, *op.inputs, None, *op.outputs, None, *op.attrs)
        if key in known:
            continue
        # A type that is not registered cannot be checked; it may be read, drawn and written back.
        definition = REGISTRY.get(op.type)
        if definition is None or isinstance(definition, GradOpDef) or _is_known(op, definition):
            known.add(key)
        else:
            _check_unknown(op, definition)


def _is_known(op: Operator, definition: OpDef) -> bool:
    return _has_only(op.inputs, definition.inputs) and _has_only(op.outputs, definition.outputs) and _has_only(op.attrs, definition.attrs)


def _check_unknown(op: Operator, definition: OpDef) -> None:
    """Refuse what the definition does not have, but for slots that are empty."""
    try:
        for side, arguments, slots in (("input", op.inputs, definition.inputs), ("output", op.outputs, definition.outputs)):
            for slot, names in arguments.items():
                if slot not in slots and names:
                    _refuse_slot(op.type, side, slot, slots)
        for name in op.attrs:
            if name not in definition.attrs and name not in COMMON_ATTRS:
                _refuse_attr(op.type, name, definition)
    except InvalidValue as error:
        raise InvalidValue(located(str(error), op.source)) from None


def _has_only(names: Collection[str], known: Mapping[str, object]) -> bool:
    # A comparison of the keys as sets takes three times as long.
    return not names or all(map(known.__contains__, names))


def check_distinct(op: Operator) -> None:
    """Refuse an operator that writes one name twice: it would not say which of the two values the name is."""
    # The usual operator writes one name.
    if len(op.outputs) == 1 and len(next(iter(op.outputs.values()))) == 1:
        return
    names: set[str] = {EMPTY}
    for name in op.output_names():
        if name in names and name != EMPTY:
            raise InvalidValue(f"operator {op.type!r} writes {name!r} twice: every output needs a name of its own")
        names.add(name)


def _check_slots(op_type: str, side: str, arguments: Names, slots: Mapping[str, Slot]) -> None:
    for slot, names in arguments.items():
        if slot not in slots:
            _refuse_slot(op_type, side, slot, slots)
        if len(names) > 1 and not slots[slot].variadic:
            raise InvalidValue(f"operator {op_type!r}: {side} slot {slot!r} takes one name, got {len(names)}: {', '.join(names)}")
    for declared in slots.values():
        if not declared.optional and not arguments.get(declared.name):
            raise InvalidValue(f"operator {op_type!r}: {side} slot {declared.name!r} is missing")


def _refuse_slot(op_type: str, side: str, slot: str, slots: Mapping[str, Slot]) -> NoReturn:
    names = ", ".join(slots) or "none"
    raise InvalidValue(f"operator {op_type!r} has no {side} slot {slot!r}; its {side} slots are {names}{did_you_mean(slot, slots)}")


def _refuse_attr(op_type: str, name: str, definition: OpDef) -> NoReturn:
    names = ", ".join(definition.attrs) or "none"
    raise InvalidValue(f"operator {op_type!r} has no attribute {name!r}; its attributes are {names}{did_you_mean(name, definition.attrs)}")


def _checked_attrs(op: Operator, definition: OpDef) -> Iterator[tuple[str, object]]:
    for name, value in op.attrs.items():
        if not isinstance(name, str):
            raise InvalidType(f"operator {op.type!r}: an attribute's name is a string, not {name!r}")
        if name in COMMON_ATTRS:
            yield name, _printable(op, name, value)
        elif (attr := definition.attrs.get(name)) is None:
            _refuse_attr(op.type, name, definition)
        # The common case: of just the right type, so that nothing is converted.
        elif type(value) is EXACT.get(attr.kind):
            yield name, value
        else:
            yield name, _checked_value(op, definition, name, value)
    for attr in definition.attrs.values() if definition.needs_attrs else ():
        if attr.default is REQUIRED and attr.name not in op.attrs:
            raise InvalidValue(f"operator {op.type!r}: attribute {attr.name!r} ({attr.kind}) is missing")


def _printable(op: Operator, name: str, value: object) -> Any:
    for item in value if isinstance(value, _SEVERAL) else (value,):
        if not isinstance(item, _PRINTABLE):
            raise InvalidType(
                f"operator {op.type!r}: attribute {name!r} is a boolean, a number, a string or a list of those, not {value!r}"
            )
        # Paddle's protobuf and ONNX store 64 bits.
        if isinstance(item, int) and not fits_64_bits(item):
            raise InvalidValue(f"operator {op.type!r}: attribute {name!r} is an integer of 64 bits at most, got {shortened(item)}")
    return list(value) if isinstance(value, tuple) else value


def _checked_value(op: Operator, definition: OpDef, name: str, value: object) -> Any:
    if definition.attrs[name].kind == "Block":
        assert isinstance(definition, ControlDef)
        return _block(op, definition, name, value)
    try:
        return checked_attr(definition.attrs[name], value)
    except GraphadError as error:
        raise type(error)(f"operator {op.type!r}: {error}") from None


def _block(op: Operator, definition: ControlDef, name: str, value: object) -> Block:
    """A block of the same program, given as one or by its index."""
    program = op.block.program
    if isinstance(value, int) and not isinstance(value, bool):
        value = program.block(value)
    if not isinstance(value, type(op.block)):
        raise InvalidType(f"operator {op.type!r}: attribute {name!r} is a block or its index, not {value!r}")
    if value.program is not program:
        raise InvalidValue(f"operator {op.type!r}: attribute {name!r} is a block of another program")
    # It would run itself without end.
    if value in op.block.chain():
        raise InvalidValue(f"operator {op.type!r}: block {value.idx} cannot hold an operator that runs it")
    # A gradient's block belongs to the forward block; a forward one to the block it is in.
    if not definition.is_grad and value.parent is not op.block:
        raise InvalidValue(f"operator {op.type!r} is in block {op.block.idx}, but block {value.idx} has the parent {value.parent_idx}")
    return value


# -- inference -----------------------------------------------------------------------------------


def _declare(op: Operator, definition: OpDef, checked: Checked) -> None:
    """Check that every output can be what inference says, then declare them: nothing is half-declared after an error."""
    block, types = op.block, checked.types
    declarations = []
    if checked.only is not None and _declare_new(block, op.outputs, checked.only):
        return
    for slot, names in op.outputs.items():
        inferred = types.get(slot)
        if inferred and len(inferred) != len(names):
            raise InvalidValue(
                f"operator {op.type!r} writes {len(inferred)} values to slot {slot!r}, got {len(names)} names: {', '.join(names)}"
            )
        for i, name in enumerate(names):
            if name != EMPTY:
                var = block.find_var(name)
                new = inferred[i] if inferred else None
                declarations.append((slot, name, var, new or _UNKNOWN if var is None else _joined(op, slot, name, var, new)))
    # Two passes over the outputs, so that an output that does not fit leaves none declared.
    for slot, name, var, (shape, dtype) in declarations:
        kind = TENSOR if not definition.kinds else _kind(op, definition, slot)
        if var is None:
            block.vars[name] = Variable.trusted(block, name, shape, dtype, type=kind)
            continue
        # What was declared as another kind than a tensor stays that.
        var.type = kind if var.type == TENSOR else var.type
        var.declare(shape, dtype)


def _declare_new(block: Block, outputs: Names, tensor_type: TensorType) -> bool:
    """Declare the only output of an operator, a tensor of a known type, if that is new, as it nearly always is; return whether it is."""
    for (name,) in filter(None, outputs.values()):
        if name != EMPTY and block.find_var(name) is None:
            block.vars[name] = Variable.trusted(block, name, tensor_type.shape, tensor_type.dtype)
            return True
    return False


def _kind(op: Operator, definition: OpDef, slot: str) -> str:
    """The kind of variable that an output slot makes."""
    kind = definition.kinds.get(slot, TENSOR)
    if kind != AS_INPUT:
        return kind
    return next((op.block.var_recursive(name).type for name in op.input_names() if name != EMPTY), TENSOR)


def inferred_types(op: Operator, definition: OpDef) -> dict[str, list[TensorType]]:
    """The types of the outputs by slot, as far as those of the inputs are known."""
    types = input_types(op)
    if types is None:
        return {}
    try:
        return definition.infer_types(types, definition.own_attrs(op.attrs) if op.attrs else {})
    except ShapeError as error:
        raise ShapeError(f"operator {op.type!r}: {error}\n  {described(op)}") from None


def input_types(op: Operator) -> dict[str, list[TensorType]] | None:
    """The types of the inputs by slot; None if one is unknown or not a tensor."""
    result: dict[str, list[TensorType]] = {}
    declared = op.block.vars
    for slot, names in op.inputs.items():
        types = result[slot] = []
        for name in names:
            if name != EMPTY:
                var = declared.get(name)
                tensor_type = (op.block.var_recursive(name) if var is None else var).tensor_type
                # One type that is not known leaves all results open.
                if tensor_type is None:
                    return None
                types.append(tensor_type)
    return result


def _joined(op: Operator, slot: str, name: str, var: Variable, new: TensorType | None) -> tuple[Shape | None, str | None]:
    """The type of a variable after the operator writes it; ShapeError if it is declared differently."""
    shape, dtype = var._shape, var._dtype
    if new is None or (shape == new.shape and dtype == new.dtype and -1 not in new.shape):  # an extent of -1 may have a name
        return shape, dtype
    # An extent that one side knows is known. Of an array of tensors the declaration is of any element, so extents that differ become
    # unknown.
    extents = new.shape if shape is None else joined_shape(shape, new.shape)
    if extents is None and var.type == TENSOR_ARRAY and shape is not None and len(shape) == len(new.shape):
        extents = tuple(map(common_extent, shape, new.shape))
    if extents is not None and shape is not None and -1 in extents:  # a variable may be written again, with other extents
        extents = tuple(common_extent(a, b) if j == -1 else j for j, a, b in zip(extents, shape, new.shape, strict=True))
    if extents is None or (dtype is not None and dtype != new.dtype):
        old = TensorType(new.shape if shape is None else shape, dtype or new.dtype)
        raise ShapeError(f"operator {op.type!r} writes {slot} = {name!r} as {new}, but it is declared as {old}\n  {described(op)}")
    return extents, new.dtype


def described(op: Operator) -> str:
    """The operator with the types of its inputs."""
    inputs = ", ".join(f"{slot}={n}: {op.block.var_recursive(n).tensor_type}" for slot, ns in op.inputs.items() for n in ns if n != EMPTY)
    return f"{op.type}({inputs}) -> ({_slots_text(op.outputs)})"
