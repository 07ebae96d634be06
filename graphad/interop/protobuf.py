"""Message formats as tables of field numbers, made into classes of the protobuf runtime on first use.

A message is lines of ``<label> <type> <name> = <number>``; the labels are proto2's, and a type is a scalar's or another message of the
same format. A field that is not listed is kept by the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from graphad.errors import GraphadError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:  # reported on the first use of a message
    descriptor_pb2 = None  # type: ignore[assignment]

_SCALARS = ("double", "float", "int64", "int32", "uint64", "bool", "string", "bytes")
_PACKED = ("double", "float", "int64", "int32", "uint64")


class MissingProtobuf(GraphadError, ImportError):
    """A format made of protobuf messages is used, and the protobuf runtime is not installed."""


@dataclass(frozen=True, eq=False)
class Format:
    """Messages of one package.

    Args:
        package: its name.
        messages: fields by the name of the message; ``Outer.Inner`` is nested.
        purpose: what needs the runtime, and the extra that brings it; for the error where it is missing.
        packed: whether repeated numbers are written in one piece.
    """

    package: str
    messages: Mapping[str, str]
    purpose: str
    extra: str
    packed: bool = False


class Desc(Protocol):
    """A message, or one of its repeated fields: protobuf makes its attributes when the program runs."""

    def __getattr__(self, name: str, /) -> Any: ...

    def __setattr__(self, name: str, value: Any, /) -> None: ...


@cache
def message_class(format: Format, name: str) -> Any:
    """The class of a message; ``MissingProtobuf`` names what to install."""
    if descriptor_pb2 is None:
        raise MissingProtobuf(f"{format.purpose} by the protobuf runtime: pip install 'graphad[{format.extra}]'")
    return message_factory.GetMessageClass(_pool(format).FindMessageTypeByName(f"{format.package}.{name}"))


@cache
def _pool(format: Format) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=f"graphad/{format.package}.proto", package=format.package, syntax="proto2")
    files: dict[str, Any] = {}
    # Messages before those nested in them.
    for name in sorted(format.messages, key=lambda name: name.count(".")):
        around, _, simple_name = name.rpartition(".")
        files[name] = (files[around].nested_type if around else file.message_type).add(name=simple_name)
        for line in filter(None, map(str.split, format.messages[name].splitlines())):
            _add_field(format, files[name], *line)
    # A pool of its own: the process may have Paddle's or ONNX's own messages in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(format: Format, owner: Desc, label: str, kind: str, name: str, _: str, number: str) -> None:
    field = owner.field.add(name=name, number=int(number))
    field.label = getattr(field, f"LABEL_{label.upper()}")
    if kind not in _SCALARS:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{format.package}.{kind}"
        return
    field.type = getattr(field, f"TYPE_{kind.upper()}")
    if format.packed and label == "repeated" and kind in _PACKED:
        field.options.packed = True
