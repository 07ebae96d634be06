"""Small ONNX models, made of the format's messages without the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.interop.onnx.arrays import NUMBER_OF_DTYPE, to_tensor
from graphad.interop.onnx.schema import KIND_OF_FIELD, message
from graphad.types import Array

Infos = Mapping[str, tuple[str, Sequence[int | str]]]


def attribute(name: str, value: object) -> Any:
    """An attribute of the kind that a value has."""
    made = message("AttributeProto")(name=name)
    if isinstance(value, bool | int):
        made.i, field = int(value), "i"
    elif isinstance(value, float):
        made.f, field = value, "f"
    elif isinstance(value, str):
        made.s, field = value.encode(), "s"
    elif isinstance(value, np.ndarray):
        to_tensor(made.t, "", value)
        field = "t"
    elif isinstance(value, list):
        field = "ints" if all(isinstance(each, int) for each in value) else "floats"
        if value and isinstance(value[0], str):
            field, value = "strings", [each.encode() for each in value]
        getattr(made, field).extend(value)
    else:
        field = "sparse_tensor" if type(value) is message("SparseTensorProto") else "g"
        getattr(made, field).CopyFrom(value)
    made.type = KIND_OF_FIELD[field]
    return made


def node(type: str, inputs: str, outputs: str, domain: str = "", **attrs: object) -> Any:
    """A node; names are words, ``-`` is one that is left out."""
    names = [["" if each == "-" else each for each in text.split()] for text in (inputs, outputs)]
    return message("NodeProto")(
        op_type=type, input=names[0], output=names[1], domain=domain, attribute=[attribute(*each) for each in attrs.items()]
    )


def info(name: str, dtype: str, shape: Sequence[int | str]) -> Any:
    """A name with a type; an extent may have a name."""
    made = message("ValueInfoProto")(name=name)
    made.type.tensor_type.elem_type = NUMBER_OF_DTYPE[dtype]
    made.type.tensor_type.shape.SetInParent()
    for extent in shape:
        made.type.tensor_type.shape.dim.add(**{"dim_param" if isinstance(extent, str) else "dim_value": extent})
    return made


def sparse(elements: Array, indices: object, shape: Sequence[int], name: str = "") -> Any:
    """A sparse tensor, with a name where it is an initializer."""
    made = message("SparseTensorProto")(dims=shape)
    to_tensor(made.values, name, elements)
    to_tensor(made.indices, "", np.asarray(indices, "int64"))
    return made


Weights = Mapping[str, Array] | Sequence[Any] | None  # by their names, or sparse ones


def graph(nodes: Sequence[Any], inputs: Infos, outputs: Sequence[str], weights: Weights = None) -> Any:
    made = message("GraphProto")(name="g", node=nodes, input=[info(name, *type) for name, type in inputs.items()])
    for name in outputs:
        made.output.add(name=name)
    if isinstance(weights, Mapping):
        for name, array in weights.items():
            to_tensor(made.initializer.add(), name, array)
    else:
        made.sparse_initializer.extend(weights or [])
    return made


def model(nodes: Sequence[Any], inputs: Infos, outputs: Sequence[str], weights: Weights = None, opset: int = 18, **domains: int) -> bytes:
    """The bytes of a model."""
    made = message("ModelProto")(ir_version=9, graph=graph(nodes, inputs, outputs, weights))
    made.opset_import.add(domain="", version=opset)
    for domain, version in domains.items():
        made.opset_import.add(domain=domain.replace("_", "."), version=version)
    data: bytes = made.SerializeToString()
    return data
