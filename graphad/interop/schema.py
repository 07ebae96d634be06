"""The messages of Paddle's serialized programs, as a table of field numbers, made into protobuf classes on first use.

A line is ``<label> <type> <name> = <number>``; the labels are proto2's. Names and numbers are those of the format
(package ``paddle.framework.proto``), enumerations are int32; what is only carried along (maps of versions, readers) is bytes. A
field that is not listed is kept by the protobuf runtime. ``random_seed`` is graphad's own; other readers pass over it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from graphad.errors import GraphadError, ParseError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:  # reported on the first use of a message
    descriptor_pb2 = None  # type: ignore[assignment]

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
_SCALARS = ("double", "float", "int64", "int32", "bool", "string", "bytes")


class MissingProtobuf(GraphadError, ImportError):
    """Paddle's format is used, and the protobuf runtime is not installed."""


@cache
def message(name: str) -> Any:
    """The class of a message: ``message("ProgramDesc")()``; ``MissingProtobuf`` names what to install."""
    if descriptor_pb2 is None:
        raise MissingProtobuf("Paddle's programs are read and written by the protobuf runtime: pip install 'graphad[paddle]'")
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def text(value: Any) -> str:
    """A name in a message; ParseError if it is not UTF-8, which the runtime returns as bytes."""
    if not isinstance(value, str):
        raise ParseError(f"the name {value!r} is not UTF-8")
    return value


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="graphad/framework.proto", package=PACKAGE, syntax="proto2")
    made: dict[str, Any] = {}
    for name in sorted(MESSAGES, key=lambda name: name.count(".")):
        around, _, own = name.rpartition(".")
        made[name] = (made[around].nested_type if around else file.message_type).add(name=own)
        for line in filter(None, map(str.split, MESSAGES[name].splitlines())):
            _add_field(made[name], *line)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(owner: Any, label: str, kind: str, name: str, _: str, number: str) -> None:
    field = owner.field.add(name=name, number=int(number))
    field.label = getattr(field, f"LABEL_{label.upper()}")
    if kind in _SCALARS:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
