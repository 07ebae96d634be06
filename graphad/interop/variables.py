"""Variables of Paddle's programs: protobuf messages and fields.

What a message has no place for (a parameter's learning rate, a rank that is not known) is written as JSON into an attribute
of the variable called ``graphad``, which other readers pass over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphad.errors import GraphadError, ParseError
from graphad.interop.attributes import NUMBER_OF_DTYPE
from graphad.interop.declarations import DEFAULTS, Fields, declare, differing, fields_of
from graphad.interop.schema import message, text
from graphad.program import Block, Variable
from graphad.types import DTYPE_OF_NUMBER, STEP_SCOPES, TENSOR, TENSOR_ARRAY

OWN = "graphad"  # the attribute for fields without another place
STRING = 2
KIND_OF_NUMBER = {7: TENSOR, 11: STEP_SCOPES, 13: TENSOR_ARRAY}
NUMBER_OF_KIND = {kind: number for number, kind in KIND_OF_NUMBER.items()}
_TENSOR_FIELDS = ("lod_tensor", "tensor_array")
_FLAGS = ("persistable", "stop_gradient")


def read_variable(block: Block, desc: Any, scalars: bool) -> Variable:
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


def read_fields(desc: Any, scalars: bool) -> Fields:
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
    for attr in desc.attrs:
        if attr.name == OWN and attr.type == STRING:
            fields |= _own(attr.s)
    return fields


def _tensor(kind: Any) -> Any:
    """The message of shape and dtype, None if there is none."""
    for name in _TENSOR_FIELDS:
        if kind.HasField(name):
            return getattr(kind, name).tensor
    return None


def _own(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"its attribute {OWN!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ParseError(f"its attribute {OWN!r} is not a JSON object")
    return found


def write_variable(desc: Any, var: Variable, scalars: bool) -> None:
    """Fill a message from a variable; where it was read from one, only what has changed is written anew."""
    now = fields_of(var)
    if var.stored is not None:
        desc.CopyFrom(message("VarDesc").FromString(var.stored))
    changed = now if var.stored is None else differing(now, read_fields(desc, scalars))
    if not changed:
        return
    desc.name = var.name
    for name in _FLAGS:
        if name in changed:
            setattr(desc, name, now[name])
    if "parameter" in changed and (now["parameter"] or desc.is_parameter):
        desc.is_parameter = now["parameter"]
    if "type" in changed:
        desc.type.type = NUMBER_OF_KIND[now["type"]]
    if "shape" in changed or "dtype" in changed:
        _write_tensor(desc.type, now)
    _write_own(desc, now, scalars)


def _write_tensor(kind: Any, now: Fields) -> None:
    if now["type"] == STEP_SCOPES or (now["shape"] is None and now["dtype"] is None):
        for name in _TENSOR_FIELDS:
            kind.ClearField(name)
        return
    tensor = (kind.tensor_array if now["type"] == TENSOR_ARRAY else kind.lod_tensor).tensor
    tensor.data_type = NUMBER_OF_DTYPE[now["dtype"] or "float32"]
    tensor.dims[:] = now["shape"] or []


def _write_own(desc: Any, now: Fields, scalars: bool) -> None:
    """The fields that the message cannot hold, found by reading it back."""
    for i in reversed(range(len(desc.attrs))):
        if desc.attrs[i].name == OWN:
            del desc.attrs[i]
    left = differing(now, read_fields(desc, scalars))
    if left:
        desc.attrs.add(name=OWN, type=STRING, s=json.dumps(left, sort_keys=True).encode())
