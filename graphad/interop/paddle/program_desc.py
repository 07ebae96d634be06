"""Paddle's serialized programs (ProgramDesc) as graphad programs, and back."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from graphad.errors import GraphadError, InvalidType, InvalidValue, ParseError
from graphad.interop.declarations import DEFAULTS, Fields, add_block, check_blocks, declare, differing, fields_of
from graphad.interop.paddle.roles import BITS, ROLE, ROLE_VAR, Note, notes, role_of
from graphad.interop.protobuf import Desc, Format, message_class
from graphad.ops import OpDef, find
from graphad.ops.definition import checked_attr
from graphad.program import Block, Operator, Program, SourceLine, Variable, check_distinct
from graphad.program.operator import COMMON_ATTRS, RANDOM_STREAM
from graphad.program.source import NAMESCOPE, with_scope, without_scope
from graphad.program.text import print_value
from graphad.types import DTYPE_OF_NUMBER, STEP_SCOPES, TENSOR, TENSOR_ARRAY

# -- schema ----------------------------------------------------------------------------------------
# The messages of Paddle's serialized programs, as a table of field numbers, made into protobuf classes on first use.
#
# A line is ``<label> <type> <name> = <number>``. Names and numbers are those of the format
# (package ``paddle.framework.proto``), enumerations are int32; what is only carried along (maps of versions, readers) is bytes. A
# field that is not listed is kept by the protobuf runtime. ``random_seed`` is graphad's own; other readers pass over it.

PACKAGE = "paddle.framework.proto"

MESSAGES = {
    "Version": "optional int64 version = 1",
    "Complex": """
        required double r = 1
        required double i = 2""",
    "Scalar": """
        required int32 type = 1
        optional bool b = 2
        optional int64 i = 3
        optional double r = 4
        optional Complex c = 5""",
    "OpDesc.Attr": """
        required string name = 1
        required int32 type = 2
        optional int32 i = 3
        optional float f = 4
        optional bytes s = 5
        repeated int32 ints = 6
        repeated float floats = 7
        repeated bytes strings = 8
        optional bool b = 10
        repeated bool bools = 11
        optional int32 block_idx = 12
        optional int64 l = 13
        repeated int32 blocks_idx = 14
        repeated int64 longs = 15
        repeated double float64s = 16
        optional string var_name = 17
        repeated string vars_name = 18
        optional double float64 = 19
        optional Scalar scalar = 20
        repeated Scalar scalars = 21""",
    "OpDesc.Var": """
        required string parameter = 1
        repeated string arguments = 2""",
    "OpDesc": """
        repeated OpDesc.Var inputs = 1
        repeated OpDesc.Var outputs = 2
        required string type = 3
        repeated OpDesc.Attr attrs = 4
        optional bool is_target = 5""",
    "VarType.TensorDesc": """
        required int32 data_type = 1
        repeated int64 dims = 2""",
    "VarType.LoDTensorDesc": """
        required VarType.TensorDesc tensor = 1
        optional int32 lod_level = 2""",
    "VarType.LoDTensorArrayDesc": """
        required VarType.TensorDesc tensor = 1
        optional int32 lod_level = 2""",
    "VarType": """
        required int32 type = 1
        optional VarType.TensorDesc selected_rows = 2
        optional VarType.LoDTensorDesc lod_tensor = 3
        optional VarType.LoDTensorArrayDesc tensor_array = 4
        optional bytes reader = 5
        optional bytes tuple = 7
        optional bytes string = 8
        optional bytes strings = 9
        optional bytes vocab = 10
        optional bytes sparse_coo = 11
        optional bytes sparse_csr = 12""",
    "VarDesc.Attr": """
        required string name = 1
        required int32 type = 2
        optional int32 i = 3
        optional bytes s = 4
        repeated int32 ints = 5""",
    "VarDesc": """
        required string name = 1
        required VarType type = 2
        optional bool persistable = 3
        optional bool need_check_feed = 4
        optional bool is_parameter = 5
        optional bool stop_gradient = 6
        repeated VarDesc.Attr attrs = 7""",
    "BlockDesc": """
        required int32 idx = 1
        required int32 parent_idx = 2
        repeated VarDesc vars = 3
        repeated OpDesc ops = 4
        optional int32 forward_block_idx = 5""",
    "ProgramDesc": """
        repeated BlockDesc blocks = 1
        optional bytes op_compatible_map = 3
        optional Version version = 4
        optional bytes op_version_map = 5
        optional int64 random_seed = 1001""",
}
FORMAT = Format(PACKAGE, MESSAGES, "Paddle's programs are read and written", "paddle")


@cache
def message(name: str) -> type[Any]:
    """The class of a message: ``message("ProgramDesc")()``; ``MissingProtobuf`` names what to install."""
    class_: type[Any] = message_class(FORMAT, name)
    return class_


def text(value: object) -> str:
    """A name in a message; ParseError if it is not UTF-8, which the runtime returns as bytes."""
    if not isinstance(value, str):
        raise ParseError(f"the name {value!r} is not UTF-8")
    return value


# -- attributes ------------------------------------------------------------------------------------
# Attributes of Paddle's operators: protobuf messages and values, and what of them means nothing here.
#
# Paddle writes every attribute of an operator, most of which say where or how fast it runs. Such ones are left out of
# ``Operator.attrs``, so that a program prints as what it computes; they are written back from ``Operator.stored``.

NUMBER_OF_DTYPE = {name: number for number, name in DTYPE_OF_NUMBER.items()}


class Kind(NamedTuple):
    """A type of attribute: its name, the field that holds its value, and the Python type of its items."""

    name: str
    field: str
    item: type
    many: bool = False


KINDS = (  # by their numbers
    Kind("INT", "i", int),
    Kind("FLOAT", "f", float),
    Kind("STRING", "s", str),
    Kind("INTS", "ints", int, True),
    Kind("FLOATS", "floats", float, True),
    Kind("STRINGS", "strings", str, True),
    Kind("BOOLEAN", "b", bool),
    Kind("BOOLEANS", "bools", bool, True),
    Kind("BLOCK", "block_idx", Block),
    Kind("LONG", "l", int),
    Kind("BLOCKS", "blocks_idx", Block, True),
    Kind("LONGS", "longs", int, True),
    Kind("FLOAT64S", "float64s", float, True),
    Kind("VAR", "var_name", str),
    Kind("VARS", "vars_name", str, True),
    Kind("FLOAT64", "float64", float),
    Kind("SCALAR", "scalar", object),
    Kind("SCALARS", "scalars", object, True),
)
_NUMBER = {kind.name: number for number, kind in enumerate(KINDS)}
_EMPTY = {"list[int]": "INTS", "list[float]": "FLOATS", "list[str]": "STRINGS", "list[bool]": "BOOLEANS"}
_SCALAR_FIELDS = {1: "b", 2: "i", 3: "r"}

# -- what is left out ----------------------------------------------------------------------------

# On any operator: where it was written, on which device and by which library it runs, what a quantizer noted.
_UNIVERSAL = COMMON_ATTRS - {"run_once", RANDOM_STREAM}
# On an operator whose definition does not have it: the values that change nothing (None: any value).
_NEUTRAL: Mapping[str, tuple[object, ...] | None] = {
    **dict.fromkeys(
        ("exhaustive_search", "force_cpu", "is_test", "place_type", "skip_eager_deletion_vars", "use_addto", "workspace_size_MB")
    ),
    **dict.fromkeys(("Scale_in", "Scale_in_eltwise", "Scale_weights", "scale_out", "scale_x", "scale_y"), (1.0, [1.0], [])),
    **dict.fromkeys(("deterministic", "force_fp32_output", "fuse_brelu", "fuse_relu", "fuse_relu_before_depthwise_conv"), (False,)),
    **dict.fromkeys(("fuse_residual_connection", "fuse_with_relu"), (False,)),
    **dict.fromkeys(("fuse_alpha", "fuse_beta", "fuse_brelu_threshold")),
    **dict.fromkeys(("fuse_activation", "rng_name", "str_value", "x_data_format", "y_data_format"), ("",)),
    **dict.fromkeys(("epmap", "height_sections", "table_names"), ([],)),
    **dict.fromkeys(("slot", "trainer_id"), (0,)),
    **dict.fromkeys((f"fused_{what}_{slot}" for what in ("reshape", "transpose") for slot in ("Out", "X", "Y")), ([],)),
}


def shown(definition: OpDef | None, name: str, value: object) -> bool:
    """Whether an attribute says something about what the operator computes."""
    if definition is not None and name in definition.attrs:
        return True
    if name == NAMESCOPE:  # "/" is outside of any
        return isinstance(value, str) and bool(value.strip("/"))
    if name in _UNIVERSAL:
        return False
    neutral = _NEUTRAL.get(name, ()) if definition is not None else ()
    return neutral is not None and value not in neutral


# -- reading -------------------------------------------------------------------------------------


def value_of(message: Desc, program: Program) -> Any:
    """The value in a message of an attribute."""
    if not 0 <= message.type < len(KINDS):
        raise ParseError(f"attribute {message.name!r} is of type {message.type}; types are 0 to {len(KINDS) - 1}")
    kind = KINDS[message.type]
    content = getattr(message, kind.field)
    if kind.many:
        return [_item(kind, item, program) for item in content]
    return _item(kind, content, program)


def _item(kind: Kind, content: Any, program: Program) -> Any:
    if isinstance(content, bytes):
        return content.decode("utf-8", "surrogateescape")
    if kind.item is Block:
        return program.block(content)
    if kind.item is object:
        field = _SCALAR_FIELDS.get(content.type)
        # There are no complex numbers here: they are kept as text.
        return str(complex(content.c.r, content.c.i)) if field is None else getattr(content, field)
    return content


def canonical(definition: OpDef | None, name: str, value: object) -> Any:
    """The value as the definition wants it (dtypes by name, 0 and 1 as booleans); as it is where it does not fit."""
    if definition is None or name not in definition.attrs or definition.attrs[name].kind == "Block":
        return value
    attr = definition.attrs[name]
    if attr.kind == "bool" and type(value) is int and value in (0, 1):
        return bool(value)
    # What does not fit stays as it was read, so that it is written back the same; the operator is refused when it runs.
    try:
        return checked_attr(attr, value)
    except GraphadError:
        return value


# -- writing -------------------------------------------------------------------------------------


def number_of(dtype: str) -> int:
    """Fluid's number of a dtype; InvalidValue if it has none."""
    if dtype not in NUMBER_OF_DTYPE:
        raise InvalidValue(f"Paddle's files have no {dtype}; they have {', '.join(NUMBER_OF_DTYPE)}")
    return NUMBER_OF_DTYPE[dtype]


def write_value(message: Desc, value: Any, definition: OpDef | None) -> None:
    """Put a value into the message of an attribute that has its name: of the type it has already if that can hold the value."""
    spec = definition.attrs.get(message.name) if definition is not None else None
    if spec is not None and spec.kind == "DType":
        value = NUMBER_OF_DTYPE.get(value, -1) if isinstance(value, str) else value
    # Paddle's readers look at the type of an attribute: one that was INT stays INT, not LONG, as long as the number fits.
    form = KINDS[message.type] if message.HasField("type") else None
    if form is None or not _holds(form, value):
        form = KINDS[_NUMBER[_kind_for(message.name, value, spec.kind if spec is not None else "")]]
    name = message.name
    message.Clear()
    message.name, message.type = name, _NUMBER[form.name]
    if form.many:
        getattr(message, form.field).extend(map(_stored, value))
    else:
        setattr(message, form.field, _stored(value))


def _stored(item: object) -> object:
    if isinstance(item, Block):
        return item.idx
    return item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item


def _holds(kind: Kind, value: Any) -> bool:
    """Whether a type of attribute holds a value as it is."""
    if kind.item is object or kind.name.startswith("VAR") or isinstance(value, list) != kind.many:
        return False
    return all(_holds_item(kind, item) for item in (value if kind.many else [value]))


def _holds_item(kind: Kind, item: Any) -> bool:
    if kind.item is not Block and type(item) is not kind.item:
        return False
    if kind.item is int:
        # Paddle's INT is of 32 bits.
        bits = 63 if kind.name.startswith("LONG") else 31
        return bool(-(1 << bits) <= item < 1 << bits)
    if kind.name in ("FLOAT", "FLOATS"):
        return is_single(item)
    return kind.item is not Block or isinstance(item, Block)


def is_single(value: float) -> bool:
    """Whether a number is one of float32."""
    return not math.isfinite(value) or single(value) == value


def single(value: float) -> float:
    """The nearest float32; an infinity where there is none."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _kind_for(name: str, value: object, expected: str) -> str:
    """The name of the first type of attribute that holds a value; an empty list is of the kind that the definition wants."""
    if value == [] and isinstance(value, list):
        return _EMPTY.get(expected, "INTS")
    for kind in KINDS:
        if _holds(kind, value):
            return kind.name
    raise InvalidValue(f"attribute {name!r} has no form in Paddle's format: {_described(value)}")


def _described(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


# -- variables -------------------------------------------------------------------------------------
# Variables of Paddle's programs: protobuf messages and fields.
#
# What a message has no place for (a parameter's learning rate, a rank that is not known) is written as JSON into an attribute
# of the variable called ``graphad``, which other readers pass over.

OWN = "graphad"  # the attribute for fields without another place
STRING = 2
KIND_OF_NUMBER = {7: TENSOR, 11: STEP_SCOPES, 13: TENSOR_ARRAY}
NUMBER_OF_KIND = {kind: number for number, kind in KIND_OF_NUMBER.items()}
_TENSOR_FIELDS = ("lod_tensor", "tensor_array")
_FLAGS = ("persistable", "stop_gradient")


def read_variable(block: Block, desc: Desc, scalars: bool) -> Variable:
    """Declare the variable of a message. ``scalars``: no extents mean a scalar, not that the rank is unknown."""
    fields = read_fields(desc, scalars)
    name = text(desc.name)
    try:
        var = declare(block, name, fields)
    except GraphadError:
        if not fields["parameter"]:
            raise
        var = declare(block, name, {**fields, "parameter": False, "trainable": True})  # of a shape ours cannot have
    var.stored = desc.SerializeToString()
    return var


def read_fields(desc: Desc, scalars: bool) -> Fields:
    """The fields of a variable as its message has them."""
    tensor = _tensor(desc.type)
    fields: Fields = {
        **DEFAULTS,
        "type": KIND_OF_NUMBER.get(desc.type.type, TENSOR),
        "shape": list(tensor.dims) if tensor is not None and (tensor.dims or scalars) else None,
        "dtype": None if tensor is None else DTYPE_OF_NUMBER.get(tensor.data_type),
        **{flag: getattr(desc, flag) for flag in _FLAGS},
        "parameter": desc.is_parameter,
        "trainable": not (desc.is_parameter and desc.stop_gradient),
    }
    # What Paddle's message has no field for lies in an attribute of our own, which Paddle keeps and ignores.
    for attr in desc.attrs:
        if attr.name == OWN and attr.type == STRING:
            fields |= _own(attr.s)
    return fields


def _tensor(kind: Desc) -> Desc | None:
    """The message of shape and dtype, None if there is none."""
    for name in _TENSOR_FIELDS:
        if kind.HasField(name):
            tensor: Desc = getattr(kind, name).tensor
            return tensor
    return None


def _own(content: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"its attribute {OWN!r} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ParseError(f"its attribute {OWN!r} is not a JSON object")
    return fields


def write_variable(desc: Desc, var: Variable, scalars: bool) -> None:
    """Fill a message from a variable; where it was read from one, only what has changed is written again."""
    fields = fields_of(var)
    if var.stored is not None:
        # What graphad does not know of the message, such as fields of newer versions, stays as it was read.
        desc.CopyFrom(message("VarDesc").FromString(var.stored))
    differences = fields if var.stored is None else differing(fields, read_fields(desc, scalars))
    if not differences:
        return
    desc.name = var.name
    for name in _FLAGS:
        if name in differences:
            setattr(desc, name, fields[name])
    if "parameter" in differences and (fields["parameter"] or desc.is_parameter):
        desc.is_parameter = fields["parameter"]
    if "type" in differences:
        desc.type.type = NUMBER_OF_KIND[fields["type"]]
    if "shape" in differences or "dtype" in differences:
        _write_tensor(desc.type, fields)
    _write_own(desc, fields, scalars)


def _write_tensor(kind: Desc, now: Fields) -> None:
    if now["type"] == STEP_SCOPES or (now["shape"] is None and now["dtype"] is None):
        for name in _TENSOR_FIELDS:
            kind.ClearField(name)
        return
    tensor = (kind.tensor_array if now["type"] == TENSOR_ARRAY else kind.lod_tensor).tensor
    tensor.data_type = number_of(now["dtype"] or "float32")
    tensor.dims[:] = [-1 if isinstance(extent, str) else extent for extent in now["shape"] or ()]


def _write_own(desc: Desc, now: Fields, scalars: bool) -> None:
    """The fields that the message cannot hold, found by reading it back."""
    for i in reversed(range(len(desc.attrs))):
        if desc.attrs[i].name == OWN:
            del desc.attrs[i]
    differences = differing(now, read_fields(desc, scalars))
    if differences:
        desc.attrs.add(name=OWN, type=STRING, s=json.dumps(differences, sort_keys=True).encode())


# -- operators -------------------------------------------------------------------------------------
# Operators of Paddle's programs: protobuf messages and ``Operator``.

Attrs = dict[str, object]

_SLOTS_THERE = {"read_from_array": {"Like": "X_W"}}  # input slots by what Paddle calls them
_FRAME = re.compile(r'\s*File "(.+)", line (\d{1,9})')
_WHOLE = re.compile(r"\s*[-+]?\d{1,400}\s*")


def read_operator(block: Block, desc: Desc) -> Operator:
    """The operator of a message; its type need not be known."""
    attrs = _values(desc, block.program)
    op_type = text(desc.type)
    shown_attrs, source = without_scope(_shown(op_type, attrs), _source(attrs.get("op_callstack")))
    inputs, outputs = _called(op_type, _slots("input", desc.inputs), here=True), _slots("output", desc.outputs)
    op = Operator(block, op_type, inputs, outputs, shown_attrs, role_of(attrs), source, stored=desc.SerializeToString())
    check_distinct(op)
    return op


def _values(desc: Desc, program: Program) -> Attrs:
    """The attributes by name. Paddle writes some twice; they have to agree."""
    attrs: Attrs = {}
    for attr in desc.attrs:
        name, value = text(attr.name), value_of(attr, program)
        if repr(attrs.setdefault(name, value)) != repr(value):
            raise ParseError(f"attribute {name!r} is given twice, as {attrs[name]!r} and as {value!r}")
    return attrs


def _slots(side: str, messages: Iterable[Desc]) -> dict[str, list[str]]:
    """Names by slot; a slot with nothing in it is as one that is not there."""
    slots: dict[str, list[str]] = {}
    for item in messages:
        slot, names = text(item.parameter), [text(name) for name in item.arguments]
        if slot in slots:
            raise ParseError(f"{side} slot {slot!r} is given twice")
        if not all(names):
            raise ParseError(f"{side} slot {slot!r} has an empty name in it")
        if names:
            slots[slot] = names
    return slots


def _called(op_type: str, inputs: dict[str, list[str]], here: bool) -> dict[str, list[str]]:
    """The input slots as they are called here, or in Paddle."""
    foreign_names = _SLOTS_THERE.get(op_type, {})
    names = {name: slot for slot, name in foreign_names.items()} if here else foreign_names
    return {names.get(slot, slot): values for slot, values in inputs.items()}


def _shown(op_type: str, attrs: Attrs) -> Attrs:
    definition = find(op_type)
    attrs = {name: canonical(definition, name, value) for name, value in attrs.items()}
    if op_type == "fill_constant":
        attrs = _with_exact_value(attrs)
    return {name: value for name, value in attrs.items() if shown(definition, name, value)}


def _with_exact_value(attrs: Attrs) -> Attrs:
    """``fill_constant`` has its value as a float32, and may have it as a string, which counts; a float64 may not hold that either."""
    text = attrs.get("str_value")
    if not isinstance(text, str):
        return attrs
    try:
        value = float(text)
        # A whole number that float64 does not hold stays text.
        exact = not _WHOLE.fullmatch(text) or int(text) == value
    except (ValueError, OverflowError):
        return attrs
    return {**attrs, "value": value, "str_value": ""} if exact else attrs


def _with_text(attrs: Attrs, has_text: bool) -> Attrs:
    """The other way round: the string is written where a float32 does not do, or to replace the one that was there."""
    value = attrs.get("value")
    if not isinstance(value, float) or (is_single(value) and not has_text):
        return attrs
    return {**attrs, "value": single(value), "str_value": "" if is_single(value) else repr(value)}


def _source(callstack: object) -> SourceLine | None:
    """The innermost line of a call stack that is not Paddle's own."""
    # Paddle lists the innermost frame last.
    for line in reversed(callstack if isinstance(callstack, list) else []):
        match = _FRAME.match(line) if isinstance(line, str) else None
        if match and "/paddle/" not in match[1].replace("\\", "/"):
            return SourceLine(match[1], int(match[2]))
    return None


# -- writing -------------------------------------------------------------------------------------


def write_operator(desc: Desc, op: Operator, note: Note) -> None:
    """Fill a message from an operator; where it was read from one, only what has changed is written again, and what a backward notes."""
    check_distinct(op)
    if op.stored is not None:
        desc.CopyFrom(message("OpDesc").FromString(op.stored))
    if not desc.HasField("type") or desc.type != op.type:
        desc.type = op.type
    for slots, messages in ((_called(op.type, op.inputs, here=False), desc.inputs), (op.outputs, desc.outputs)):
        # Only slots that differ are written: the others stay, byte for byte, with their order.
        if {item.parameter: list(item.arguments) for item in messages if item.arguments} != {s: n for s, n in slots.items() if n}:
            del messages[:]
            for slot, names in slots.items():
                messages.add(parameter=slot, arguments=names)
    _write_attrs(desc, op, note)


def _write_attrs(desc: Desc, op: Operator, note: Note) -> None:
    definition = find(op.type)
    raw = _values(desc, op.block.program)
    was = _shown(op.type, raw)
    attrs = {name: list(value) if isinstance(value, tuple) else value for name, value in with_scope(op.attrs, op.source).items()}
    # Compared as they are printed: 1 and True, or a float and its nearest single, are one text.
    equal_names = {name for name, value in was.items() if name in attrs and print_value(attrs[name]) == print_value(value)}
    if op.type == "fill_constant" and "value" not in equal_names:
        attrs = _with_text(attrs, "str_value" in raw)
    attrs |= _noted(op, attrs, raw, note)
    for name in (name for name in attrs if name not in equal_names):
        for attr in [attr for attr in desc.attrs if attr.name == name] or [desc.attrs.add(name=name)]:
            write_value(attr, attrs[name], definition)
    _remove(desc.attrs, {name for name in was if name not in attrs})


def _noted(op: Operator, attrs: Attrs, raw: Attrs, note: Note) -> Attrs:
    """The role and the pairs of an operator, as far as its message does not have them."""
    noted: Attrs = {}
    role_number = raw.get(ROLE)
    keeps = op.stored is not None and op.role == role_of(raw)
    bits = note.bits(role_number if keeps and isinstance(role_number, int) else BITS[op.role])
    if bits != (role_number or 0 if keeps else role_number) and (op.stored is not None or ROLE not in attrs):
        noted[ROLE] = bits
    if note.pairs and not raw.get(ROLE_VAR) and ROLE_VAR not in attrs:
        noted[ROLE_VAR] = list(note.pairs)
    return noted


def _remove(attrs: list[Desc], names: set[str]) -> None:
    for i in reversed(range(len(attrs) if names else 0)):
        if attrs[i].name in names:
            del attrs[i]


# -- program desc ----------------------------------------------------------------------------------
# Paddle's serialized programs (ProgramDesc) as graphad programs, and back.

# Version 2.5 is the first with tensors of rank 0; before, no extents meant an unknown shape. 0 is a build of its own.
_SINCE = 2005000


def load_program(data: bytes) -> Program:
    """The program that a serialized ProgramDesc holds, Paddle installed or not.

    Operators that graphad does not know stay in it (``unknown_operators`` lists them) and fail when they are run or
    differentiated. What a program here has no place for is kept and written back by ``dump_program``: an unchanged program is
    written back as the same bytes.

    Raises:
        TypeError: ``data`` is not bytes.
        ParseError: it is not a ProgramDesc, or one that makes no sense; the message says where.
        MissingProtobuf: the protobuf runtime is not installed.

    >>> import graphad as ga
    >>> program = ga.Program.parse("program { block 0 { var x: float32[2] tanh(X=x) -> (Out=x) } }")
    >>> str(load_program(dump_program(program))) == str(program)
    True
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidType(f"a serialized program is bytes, not {type(data).__name__}")
    desc = _parsed(bytes(data))
    program = Program()
    scalars = _has_scalars(desc)
    depths: list[int] = []
    for item in desc.blocks:
        if item.idx != len(depths):
            raise ParseError(f"block {item.idx} is where block {len(depths)} should be")
        add_block(program, depths, item.parent_idx)
    for block, item in zip(program.blocks, desc.blocks, strict=True):
        _read_block(block, item, scalars)
    check_blocks(program)
    desc.ClearField("blocks")
    program.allows_unknown = True  # of another version of Paddle, say
    program.random_seed, program.stored = desc.random_seed, desc.SerializeToString()
    program.names.skip(var.name for var in program.list_vars())
    return program


def _parsed(data: bytes) -> Desc:
    desc_class = message("ProgramDesc")
    try:
        desc: Desc = desc_class.FromString(data)
    except Exception as error:  # the runtime's DecodeError, whose module is not there without the runtime
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: {error}") from None
    if not desc.IsInitialized():
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: it lacks {desc.FindInitializationErrors()[0]}")
    if not desc.blocks:
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: it has no block")
    return desc


def _has_scalars(desc: Desc) -> bool:
    version = int(desc.version.version)
    return version == 0 or version >= _SINCE


def _read_block(block: Block, desc: Desc, scalars: bool) -> None:
    for i, item in enumerate(desc.vars):
        with _place(block, "variable", i, item, "name"):
            read_variable(block, item, scalars)
    for i, item in enumerate(desc.ops):
        with _place(block, "operator", i, item, "type"):
            block.ops.append(read_operator(block, item))
    # What is left are fields that are not read, such as those of newer versions: they are written back.
    desc.ClearField("vars")
    desc.ClearField("ops")
    block.stored = desc.SerializeToString()


@contextmanager
def _place(block: Block, what: str, i: int, desc: object, key: str) -> Iterator[None]:
    """Within it, an error says where in the file it is."""
    try:
        yield
    except GraphadError as error:
        raise ParseError(f"block {block.idx}, {what} {i} ({getattr(desc, key)!r}): {error}") from None


# -- writing -------------------------------------------------------------------------------------


def dump_program(program: Program) -> bytes:
    """The program as a serialized ProgramDesc: the same bytes for the same program, and those it was read from if it is unchanged.

    A number that is not a float32 is written as FLOAT64 (Paddle has these since 2.5), in ``fill_constant`` as a string as Paddle does.

    Raises:
        TypeError: ``program`` is not a Program.
        ValueError: an attribute has no form in the format (a list of lists); the message names the operator.
        MissingProtobuf: the protobuf runtime is not installed.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"dump_program takes a Program, not {program!r}")
    desc = message("ProgramDesc")()
    if program.stored is not None:
        desc.MergeFromString(program.stored)
    if desc.random_seed != program.random_seed:
        with _writing("random_seed"):
            desc.random_seed = program.random_seed
    scalars, noted = _has_scalars(desc), notes(program)
    for block in program.blocks:
        _write_block(desc.blocks.add(), block, scalars, noted)
    return bytes(desc.SerializeToString(deterministic=True))


def _write_block(desc: Desc, block: Block, scalars: bool, noted: Mapping[Operator, Note]) -> None:
    if block.stored is not None:
        desc.MergeFromString(block.stored)
    # With another number it would be another block's message.
    if block.stored is None or (desc.idx, desc.parent_idx) != (block.idx, block.parent_idx):
        desc.Clear()
        desc.idx, desc.parent_idx = block.idx, block.parent_idx
    for var in block.vars.values():
        with _writing(f"block {block.idx}, variable {var.name!r}"):
            write_variable(desc.vars.add(), var, scalars)
    for i, op in enumerate(block.ops):
        with _writing(f"block {block.idx}, operator {i} ({op.type!r})"):
            write_operator(desc.ops.add(), op, noted.get(op, Note()))


@contextmanager
def _writing(place: str) -> Iterator[None]:
    """Within it, what protobuf cannot hold is an error that says where in the program it is."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{place}: the text {error.object!r} has no form in UTF-8 (it has a lone surrogate)") from None
    except (GraphadError, ValueError, TypeError) as error:
        raise InvalidValue(f"{place}: {error}") from None
