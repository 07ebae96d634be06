"""Blocks: ordered operators and the variables in their braces; they nest through ``parent_idx``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from graphad.errors import InvalidType, InvalidValue
from graphad.ops import REGISTRY, ControlDef, OpDef, Slot, lookup
from graphad.ops.definition import did_you_mean
from graphad.program.gc_pause import GROWTH, settle
from graphad.program.operator import FORWARD, ROLES, Operator, check, names_by_slot
from graphad.program.source import SourceLine, at_users_line, located, user_line
from graphad.program.variable import Parameter, Regularizer, Variable
from graphad.showing import Table
from graphad.types import TENSOR, Tensor, TensorType, checked_shape, dtype_name

if TYPE_CHECKING:
    from graphad.program.program import Program


# -- block -----------------------------------------------------------------------------------------
# A block: ordered operators and the variables in its braces; blocks nest through ``parent_idx``.

MAX_DEPTH = 100  # of blocks in blocks: what goes through them is recursive, and Python's stack has an end


def check_depth(depth: int, source: SourceLine | None = None) -> None:
    """Refuse blocks that are nested too deep, at the line of the operator that holds the block; block 0 has depth 0."""
    if depth > MAX_DEPTH:
        raise InvalidValue(located(f"a block is nested {depth} deep; at most {MAX_DEPTH} are possible", source))


class Block:
    """Operators in program order, and variables by name. Make blocks with ``Program.create_block``."""

    def __init__(self, program: Program, idx: int, parent_idx: int, stored: bytes | None = None) -> None:
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.stored = stored
        self.ops: list[Operator] = []
        self.vars: dict[str, Variable] = {}

    # -- variables -------------------------------------------------------------------------------

    @property
    def parent(self) -> Block | None:
        """The block around this one, None for block 0."""
        return None if self.parent_idx < 0 else self.program.blocks[self.parent_idx]

    def chain(self) -> Iterator[Block]:
        """This block, then the blocks around it."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def has_var(self, name: str) -> bool:
        """Whether this block declares the name."""
        return name in self.vars

    def all_parameters(self) -> list[Parameter]:
        """The parameters that this block declares, in the order of their making."""
        return [var for var in self.vars.values() if isinstance(var, Parameter)]

    def has_var_recursive(self, name: str) -> bool:
        """Whether this block or one around it declares the name."""
        return name in self.vars or self.find_var(name) is not None

    def find_var(self, name: str) -> Variable | None:
        """The variable of that name in this block or the nearest one around it, None if there is none."""
        var = self.vars.get(name)
        # The block itself first: most names are found there.
        if var is not None or self.parent_idx < 0:
            return var
        return next((block.vars[name] for block in self.chain() if name in block.vars), None)

    def var(self, name: str) -> Variable:
        """The variable this block declares under the name; ValueError if there is none."""
        if not isinstance(name, str):
            raise InvalidType(f"a variable is looked up by its name, not by {name!r}")
        if name not in self.vars:
            raise InvalidValue(f"block {self.idx} has no variable {name!r}{did_you_mean(name, self.vars)}")
        return self.vars[name]

    def var_recursive(self, name: str) -> Variable:
        """The variable of that name in this block or the nearest one around it; ValueError if there is none."""
        var = self.find_var(name)
        if var is not None:
            return var
        raise InvalidValue(f"neither block {self.idx} nor a block around it has a variable {name!r}")

    def create_var(
        self,
        name: str | None = None,
        shape: Iterable[int | str] | None = None,
        dtype: object = None,
        persistable: bool | None = None,
        stop_gradient: bool = False,
        type: str = TENSOR,
    ) -> Variable:
        """Declare a variable; one that exists is returned if it was declared the same way.

        Args:
            name: generated (``tmp_0``) if None.
            shape: extents, -1 or a name where unknown; None leaves it to the operator that writes the variable.
            dtype: a dtype's name, a numpy dtype or Fluid's number; None leaves it open as well.
            persistable: whether the value outlives a run, kept in the scope; None means no for a new variable, and leaves one that exists.
            stop_gradient: whether gradients stop here.
            type: LOD_TENSOR, LOD_TENSOR_ARRAY or STEP_SCOPES.

        Raises:
            ValueError: the name exists with another shape, dtype, kind or persistence; the shape or the kind makes no sense.
            TypeError: the name is not a string, the shape not a list of ints, or the dtype not a dtype.
        """
        name = self.program.names.generate("tmp") if name is None else name
        with at_users_line(f"variable {name!r}"):
            # Layers declare by name, so that a second call with the same name shares the variable.
            if isinstance(name, str) and name in self.vars:
                return self._redeclared(self.vars[name], shape, dtype, persistable, type)
            var = Variable(self, name, shape, dtype, bool(persistable), stop_gradient, type)
        self.vars[name] = var
        return var

    def create_parameter(
        self,
        name: str | None = None,
        shape: Iterable[int | str] | None = None,
        dtype: object = "float32",
        trainable: bool = True,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        need_clip: bool = True,
    ) -> Parameter:
        """Declare a parameter: a persistable variable of block 0 that training updates if ``trainable``.

        Raises:
            ValueError: the name exists with another shape or dtype; a new parameter has no shape, or an extent of -1.
        """
        # Parameters live in block 0, wherever the layer that makes them is called: each run has one of each.
        home = self.program.global_block()
        name = self.program.names.generate("param") if name is None else name
        with at_users_line(f"parameter {name!r}"):
            var = home.vars.get(name) if isinstance(name, str) else None
            # A name that is given twice is a shared parameter, if both say the same of it.
            if isinstance(var, Parameter):
                home._redeclared(var, shape, dtype, True, TENSOR)
                return var
            if var is not None:
                raise InvalidValue(f"{name!r} is declared already, and not as a parameter")
            if shape is None:
                raise InvalidValue(f"parameter {name!r} needs a shape and a dtype")
            param = Parameter(home, name, shape, dtype, trainable, learning_rate, regularizer, need_clip)
        home.vars[name] = param
        return param

    def _redeclared(self, var: Variable, shape: Iterable[int | str] | None, dtype: object, persistable: bool | None, type: str) -> Variable:
        old_shape, old_dtype = var.declared
        declaration = (
            ("shape", old_shape, old_shape if shape is None else checked_shape(shape)),
            ("dtype", old_dtype, old_dtype if dtype is None else dtype_name(dtype)),
            ("type", var.type, type),
            ("persistable", var.persistable, var.persistable if persistable is None else persistable),
        )
        for property_name, old, new in declaration:
            if old is not None and old != new:
                raise InvalidValue(f"variable {var.name!r} is declared with {property_name} {_plain(old)}, now with {_plain(new)}")
        # All was compared before anything is set: an error leaves the old declaration.
        var.declare(declaration[0][2], declaration[1][2])
        return var

    # -- operators -------------------------------------------------------------------------------

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, object] | None = None,
        outputs: Mapping[str, object] | None = None,
        attrs: Mapping[str, object] | None = None,
        role: str = FORWARD,
    ) -> Operator:
        """Append an operator; it is checked here, and its outputs' shapes and dtypes are inferred.

        Args:
            type: a registered operator type.
            inputs, outputs: slot -> names or variables, one or a list. Outputs that are not declared yet are declared here.
            attrs: attributes by name; those left out have their defaults.
            role: "forward", "backward" or "optimize".

        Raises:
            ValueError: unknown type, slot or attribute; a slot is missing or has the wrong number of names; an
                undeclared name; shapes or dtypes that do not fit (``ShapeError``).
            TypeError: slots or attributes of the wrong Python type.
        """
        return self.insert_op(len(self.ops), type, inputs, outputs, attrs, role)

    def insert_op(
        self,
        index: int,
        type: str,
        inputs: Mapping[str, object] | None = None,
        outputs: Mapping[str, object] | None = None,
        attrs: Mapping[str, object] | None = None,
        role: str = FORWARD,
    ) -> Operator:
        """Insert an operator before position ``index``; otherwise as ``append_op``."""
        # Found before anything can fail, so that each message has it.
        source = user_line()
        if not isinstance(type, str):
            raise InvalidType(located(f"an operator's type is a string, not {type!r}", source))
        if role not in ROLES:
            raise InvalidValue(located(f"role is one of {', '.join(ROLES)}, not {role!r}", source))
        return self._insert(index, type, inputs, outputs, attrs, role, source)

    def _insert(
        self, index: int, type: str, inputs: object, outputs: object, attrs: object, role: str, source: SourceLine | None
    ) -> Operator:
        try:
            definition = lookup(type)
            input_names = names_by_slot("inputs", type, self, inputs)
            output_names = names_by_slot("outputs", type, self, outputs)
            valid_attrs = _checked_dict(type, attrs)
        except (InvalidValue, InvalidType) as error:
            raise error.__class__(located(str(error), source)) from None
        op = Operator(self, type, input_names, output_names, valid_attrs, role, source)
        check(op, definition)
        self.ops.insert(index, op)
        if not len(self.ops) % GROWTH:
            settle(len(self.ops))
        return op

    def emit(self, definition: OpDef, inputs: Sequence[object], attrs: Mapping[str, object], name: str | None = None) -> Tensor:
        """Append an operator given positional inputs, with fresh outputs; return them (the optional ones are left out).

        The outputs are called after ``name``, or after the operator's type.
        """
        if len(inputs) > len(definition.inputs):
            raise InvalidType(
                located(f"operator {definition.type!r} takes {', '.join(definition.inputs)}; got {len(inputs)} inputs", user_line())
            )
        if name is not None and not isinstance(name, str):
            raise InvalidType(located(f"operator {definition.type!r}: name is a string, not {name!r}", user_line()))
        program = self.program
        if name is None and definition.only_output:
            # Nearly always one output of a stem that is new: the first name is free, without a counter for each stem.
            first_name = f"{program.names.generate(definition.type)}.tmp_0"
            if not program.declares(first_name):
                return self._emit_one(definition, inputs, attrs, first_name, user_line())
            stem = first_name.removesuffix(".tmp_0")
        else:
            stem = name or program.names.generate(definition.type)
        slots = {slot: value for slot, value in zip(definition.inputs, inputs, strict=False) if value is not None}
        names: dict[str, str | list[str]] = {}
        for slot in definition.outputs.values():
            if slot.variadic and not slot.optional:
                names[slot.name] = self._fresh(stem, definition, slots, attrs)
            elif not slot.optional:
                names[slot.name] = program.names.generate(f"{stem}.tmp")
        self._insert(len(self.ops), definition.type, slots, names, attrs, FORWARD, user_line())
        values = [self.vars[names_] if isinstance(names_, str) else [self.vars[v] for v in names_] for names_ in names.values()]
        return values[0] if len(values) == 1 else tuple(values)

    def _emit_one(
        self, definition: OpDef, inputs: Sequence[object], attrs: Mapping[str, object], output: str, source: SourceLine | None
    ) -> Variable:
        """Append an operator that writes one variable, which nothing declares yet."""
        read = {}
        for slot, value in zip(definition.inputs, inputs, strict=False):
            # The usual case first, and without a call.
            if isinstance(value, Variable) and value.block is self:
                read[slot] = [value.name]
            elif value is not None:
                read[slot] = self._names_read(definition.type, slot, value, source)
        op = Operator(self, definition.type, read, {definition.only_output: [output]}, dict(attrs), FORWARD, source)
        check(op, REGISTRY.get(definition.type) or lookup(definition.type), output)
        self.ops.append(op)
        if not len(self.ops) % GROWTH:
            settle(len(self.ops))
        return self.vars[output]

    def _names_read(self, type: str, slot: str, value: object, source: SourceLine | None) -> list[str]:
        try:
            return names_by_slot("inputs", type, self, {slot: value})[slot]
        except (InvalidValue, InvalidType) as error:
            raise error.__class__(located(str(error), source)) from None

    def _fresh(self, stem: str, definition: OpDef, slots: Mapping[str, object], attrs: Mapping[str, object]) -> list[str]:
        """Names for the variables of an output slot that holds several."""
        types = {s: _types(v) for s, v in slots.items()}
        with at_users_line(f"operator {definition.type!r}"):
            count = sum(map(len, definition.infer_types(types, definition.own_attrs(attrs)).values()))
        return [self.program.names.generate(f"{stem}.tmp") for _ in range(count)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Block:
        deepcopy(self.program, memo)
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        blocks = self.program.blocks
        if self.idx < len(blocks) and blocks[self.idx] is self:
            return _block_at, (self.program, self.idx)
        return super().__reduce_ex__(protocol)

    def __copy__(self) -> Block:
        copy = Block.__new__(Block)
        copy.__dict__.update(self.__dict__)
        return copy

    def __repr__(self) -> str:
        return f"<Block {self.idx} of {len(self.ops)} operators>"

    def _repr_html_(self) -> str:
        rows = tuple((at, op.type, ", ".join(op.input_names()), ", ".join(op.output_names())) for at, op in enumerate(self.ops))
        return Table((f"block {self.idx}", "operator", "reads", "writes"), rows).html()


def _block_at(program: Program, idx: int) -> Block:
    return program.blocks[idx]


def _types(value: Any) -> list[TensorType]:
    return [TensorType(v.shape, v.dtype) for v in (value if isinstance(value, list | tuple) else [value])]


def _checked_dict(op_type: str, attrs: object) -> dict[str, object]:
    if attrs is None:
        return {}
    if type(attrs) is not dict and not isinstance(attrs, Mapping):
        raise InvalidType(f"attrs of operator {op_type!r} is a dict, not {attrs!r}")
    return dict(attrs)


def _plain(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


# -- control ---------------------------------------------------------------------------------------
# Checks of an operator with blocks, from any source: its blocks, its condition, and the names that its gradient passes in.

# The attributes of a gradient that name values inside its blocks, each with the slot whose values they are.
INSIDE = {"original_input": ("inputs", "X"), "original_output_grad": ("inputs", "Out@GRAD"), "original_input_grad": ("outputs", "X@GRAD")}


def check_control(op: Operator, definition: ControlDef) -> None:
    """Refuse an operator without the blocks or the condition it needs, or with blocks in the wrong place.

    Raises:
        ValueError: the message names the operator, its block, and what is wrong.
    """
    for name in definition.blocks:
        inner = op.attrs.get(name)
        if not isinstance(inner, Block):
            raise InvalidValue(f"operator {op.type!r} in block {op.block.idx} has no block as its attribute {name!r}")
        # A gradient's block may be inside the forward block, which is not around its operator.
        if inner in op.block.chain() or (not definition.is_grad and inner.parent is not op.block):
            raise InvalidValue(
                f"operator {op.type!r} is in block {op.block.idx}, but holds block {inner.idx}, whose parent is {inner.parent_idx}"
            )
    if definition.condition and not op.input(definition.condition):
        raise InvalidValue(f"operator {op.type!r} in block {op.block.idx} has nothing in its input slot {definition.condition}")


def check_runnable(op: Operator, definition: ControlDef) -> None:
    """Refuse what only a reader may let through: ``check_control``, slots that lack their names, and names inside that do not fit.

    Paddle's own gradients of operators with blocks do not have all of the names inside, so that readers keep such operators.

    Raises:
        ValueError: the message names the operator, what is wrong, and the user's line.
    """
    try:
        check_control(op, definition)
        for side, slots in (("input", definition.inputs), ("output", definition.outputs)):
            for slot in slots.values():
                _check_count(op, side, slot, len((op.inputs if side == "input" else op.outputs).get(slot.name, ())))
        if definition.is_grad:
            _check_inside(op, definition)
    except InvalidValue as error:
        raise InvalidValue(located(str(error), op.source)) from None


def _check_count(op: Operator, side: str, slot: Slot, count: int) -> None:
    if not count and not slot.optional and not slot.variadic:
        raise InvalidValue(f"operator {op.type!r}: {side} slot {slot.name!r} is missing")
    if count > 1 and not slot.variadic:
        raise InvalidValue(f"operator {op.type!r}: {side} slot {slot.name!r} takes one name, got {count}")


def _check_inside(op: Operator, definition: ControlDef) -> None:
    for attr, (side, slot) in INSIDE.items():
        # One name inside for each value outside, block after block.
        names, count = op.attrs.get(attr), len(definition.blocks) * len(getattr(op, side).get(slot, ()))
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise InvalidValue(f"operator {op.type!r}: attribute {attr!r} is a list of names inside its blocks, not {names!r}")
        if len(names) != count:
            raise InvalidValue(
                f"operator {op.type!r}: attribute {attr!r} has {len(names)} names, but slot {slot} has {count} values for its blocks"
            )
