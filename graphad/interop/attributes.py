"""Attributes of Paddle's operators: protobuf messages and values, and what of them means nothing here.

Paddle writes every attribute of an operator, most of which say where or how fast it runs. Such ones are left out of
``Operator.attrs``, so that a program prints as what it computes; they are written back from ``Operator.stored``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from graphad.errors import GraphadError, InvalidValue, ParseError
from graphad.ops import OpDef
from graphad.ops.attribute_kinds import checked_attr
from graphad.program import Block, Program
from graphad.program.operator import COMMON_ATTRS, RANDOM_STREAM
from graphad.types import DTYPE_OF_NUMBER

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
_NEUTRAL: Mapping[str, tuple[Any, ...] | None] = {
    **dict.fromkeys(
        ("exhaustive_search", "force_cpu", "is_test", "place_type", "skip_eager_deletion_vars", "use_addto", "workspace_size_MB")
    ),
    **dict.fromkeys(("Scale_in", "Scale_in_eltwise", "Scale_weights", "scale_out", "scale_x", "scale_y"), (1.0, [1.0], [])),
    **dict.fromkeys(("force_fp32_output", "fuse_brelu", "fuse_relu", "fuse_relu_before_depthwise_conv"), (False,)),
    **dict.fromkeys(("fuse_residual_connection", "fuse_with_relu"), (False,)),
    **dict.fromkeys(("fuse_alpha", "fuse_beta", "fuse_brelu_threshold")),
    **dict.fromkeys(("fuse_activation", "str_value", "x_data_format", "y_data_format"), ("",)),
    **dict.fromkeys(("epmap", "height_sections", "table_names"), ([],)),
    **dict.fromkeys(("slot", "trainer_id"), (0,)),
    **dict.fromkeys((f"fused_{what}_{slot}" for what in ("reshape", "transpose") for slot in ("Out", "X", "Y")), ([],)),
}


def shown(row: OpDef | None, name: str, value: Any) -> bool:
    """Whether an attribute says something about what the operator computes."""
    if row is not None and name in row.attrs:
        return True
    if name in _UNIVERSAL:
        return False
    neutral = _NEUTRAL.get(name, ()) if row is not None else ()
    return neutral is not None and value not in neutral


# -- reading -------------------------------------------------------------------------------------


def value_of(message: Any, program: Program) -> Any:
    """The value in a message of an attribute."""
    if not 0 <= message.type < len(KINDS):
        raise ParseError(f"attribute {message.name!r} is of type {message.type}; types are 0 to {len(KINDS) - 1}")
    kind = KINDS[message.type]
    found = getattr(message, kind.field)
    if kind.many:
        return [_item(kind, item, program) for item in found]
    return _item(kind, found, program)


def _item(kind: Kind, found: Any, program: Program) -> Any:
    if isinstance(found, bytes):
        return found.decode("utf-8", "surrogateescape")
    if kind.item is Block:
        return program.block(found)
    if kind.item is object:
        return str(complex(found.c.r, found.c.i)) if found.type not in _SCALAR_FIELDS else getattr(found, _SCALAR_FIELDS[found.type])
    return found


def canonical(row: OpDef | None, name: str, value: Any) -> Any:
    """The value as the row wants it (dtypes by name, 0 and 1 as booleans); as it is where it does not fit the row."""
    if row is None or name not in row.attrs or row.attrs[name].kind == "Block":
        return value
    attr = row.attrs[name]
    if attr.kind == "bool" and type(value) is int and value in (0, 1):
        return bool(value)
    try:
        return checked_attr(attr, value)
    except GraphadError:
        return value


# -- writing -------------------------------------------------------------------------------------


def write_value(message: Any, value: Any, row: OpDef | None) -> None:
    """Put a value into the message of an attribute that has its name: of the type it has already if that can hold the value."""
    spec = row.attrs.get(message.name) if row is not None else None
    if spec is not None and spec.kind == "DType":
        value = NUMBER_OF_DTYPE.get(value, -1) if isinstance(value, str) else value
    known = KINDS[message.type] if message.HasField("type") else None
    if known is None or not _holds(known, value):
        known = KINDS[_NUMBER[_kind_for(message.name, value, spec.kind if spec is not None else "")]]
    name = message.name
    message.Clear()
    message.name, message.type = name, _NUMBER[known.name]
    if known.many:
        getattr(message, known.field).extend(map(_stored, value))
    else:
        setattr(message, known.field, _stored(value))


def _stored(item: Any) -> Any:
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


def _kind_for(name: str, value: Any, wanted: str) -> str:
    """The name of the first type of attribute that holds a value; an empty list is of the kind that the definition wants."""
    if value == [] and isinstance(value, list):
        return _EMPTY.get(wanted, "INTS")
    for kind in KINDS:
        if _holds(kind, value):
            return kind.name
    raise InvalidValue(f"attribute {name!r} has no form in Paddle's format: {_described(value)}")


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"
