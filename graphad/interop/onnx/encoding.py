"""Graphs that were written as messages: names, constants, attributes, and the tensors of a model, in the file or beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.interop.onnx.arrays import NUMBER_OF_DTYPE, STRING, to_tensor
from graphad.interop.onnx.emitting import Frame, Node, Nodes
from graphad.interop.onnx.schema import KIND_OF_FIELD, message
from graphad.interop.onnx.terms import Axis, Term
from graphad.interop.protobuf import Desc
from graphad.types import Array

IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 11, 25: 12, 26: 13, 27: 13, 28: 13}
_LARGE = 2**31 - 2**20  # bytes of a message
_BESIDE = 1024  # bytes from which on a tensor goes into the file beside the model
_ALIGNED = 4096
_EXTERNAL = 1


class Names:
    """Names for terms, each of them once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def unique(self, stem: str) -> str:
        """The stem, with a number where it is taken."""
        name = stem
        while name in self.taken or not name:
            count = self.counts[stem] = self.counts.get(stem, 0) + 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name


class Encoder:
    """Makes the messages of a model.

    Args:
        nodes: its nodes.
        names: those that are taken.
    """

    def __init__(self, nodes: Nodes, names: Names) -> None:
        self.nodes, self.names = nodes, names

    def model(self, outputs: Sequence[Term], parameters: Mapping[str, Array]) -> Desc:
        """The model: its inputs are those of the outermost graph."""
        model: Desc = message("ModelProto")(ir_version=IR_VERSIONS[self.nodes.opset], producer_name="graphad")
        model.opset_import.add(domain="", version=self.nodes.opset)
        for domain, version in sorted(self.nodes.domains.items()):
            model.opset_import.add(domain=domain, version=version)
        frame = self.nodes.frames[0]
        graph = model.graph
        graph.name = "main"
        for term in frame.inputs:
            _declare(graph.input.add(), term, self.nodes.named)
        # Names first, for nodes of nested graphs read terms of those around.
        self._name_nodes(frame)
        read_ids = _used(frame, outputs)
        for name, array in parameters.items():
            to_tensor(graph.initializer.add(), name, array)
        for constant in self.nodes.constants.values():
            if id(constant) in read_ids:
                self._constant(graph, constant)
        self._nodes(graph, frame)
        for term in outputs:
            _declare(graph.output.add(), term, self.nodes.named)
        return model

    def _constant(self, graph: Desc, constant: Term) -> None:
        """Whole numbers are initializers; floats are not, which are taken for parameters where they are read."""
        assert constant.array is not None
        constant.name = self.names.unique("constant")
        if constant.array.dtype.kind != "f":
            to_tensor(graph.initializer.add(), constant.name, constant.array)
            return
        node = graph.node.add(op_type="Constant", output=[constant.name])
        _attribute(node.attribute.add(), "value", constant.array)

    def _name_nodes(self, frame: Frame) -> None:
        for term in (*frame.inputs, *(output for node in frame.nodes for output in node.outputs)):
            if not term.name:
                term.name = self.names.unique("t")
        for node in frame.nodes:
            for inner in node.attrs.values():
                if isinstance(inner, Frame):
                    self._name_nodes(inner)

    def _nodes(self, graph: Desc, frame: Frame) -> None:
        for node in frame.nodes:
            names = [term.name for term in node.outputs]
            domain, _, op_type = node.type.rpartition("::")
            proto = graph.node.add(name=names[0], op_type=op_type, domain=domain, output=names)
            proto.input.extend("" if term is None else term.name for term in node.inputs)
            for name, value in node.attrs.items():
                attribute = proto.attribute.add()
                if isinstance(value, Frame):
                    attribute.name, attribute.type = name, KIND_OF_FIELD["g"]
                    self._nested(attribute.g, value, f"{proto.output[0]}.{name}", node.type == "Loop")
                else:
                    _attribute(attribute, name, value)

    def _nested(self, graph: Desc, frame: Frame, name: str, is_loop: bool) -> None:
        """The number of the iteration and the condition of a loop have no axes; what it carries may change its extents, rows do not."""
        graph.name = name
        for i, term in enumerate(frame.inputs):
            _declare(graph.input.add(), term, {} if is_loop and i < 2 else None)
        self._nodes(graph, frame)
        for i, term in enumerate(frame.outputs):
            _declare(graph.output.add(), term, {} if is_loop and i >= len(frame.inputs) - 1 else None)


def _used(frame: Frame, outputs: Sequence[Term]) -> set[int]:
    """The terms that are read, in nested graphs too."""
    # By identity: a term is a node of the model, and equal terms are different nodes.
    ids = {id(term) for term in outputs}
    graphs = [frame]
    while graphs:
        graph = graphs.pop()
        for node in graph.nodes:
            ids.update(id(term) for term in node.inputs)
            graphs += [inner for inner in node.attrs.values() if isinstance(inner, Frame)]
    return ids


def live(frame: Frame, outputs: Sequence[Term]) -> None:
    """Leave out the nodes whose results nothing reads, from the last one on."""
    ids = {id(term) for term in (*outputs, *frame.outputs)}
    nodes: list[Node] = []
    # From the last to the first, one sweep is enough: a node comes after all that it reads.
    for node in reversed(frame.nodes):
        if not any(id(term) in ids for term in node.outputs):
            continue
        nodes.append(node)
        ids.update(id(term) for term in node.inputs if term is not None)
        for inner in node.attrs.values():
            if isinstance(inner, Frame):
                live(inner, ())
                ids.update(_used(inner, inner.outputs))
    frame.nodes[:] = nodes[::-1]


def _declare(info: Desc, term: Term, named: Mapping[str, Axis] | None) -> None:
    """Say the type of an input or output, with its extents, by number or name, unless they may change (None)."""
    info.name = term.name
    if term.holds.startswith("maps"):
        maps = info.type.sequence_type.elem_type.map_type
        maps.key_type = STRING if term.holds == "maps of strings" else NUMBER_OF_DTYPE["int64"]
        maps.value_type.tensor_type.elem_type = NUMBER_OF_DTYPE[term.kind]
        maps.value_type.tensor_type.shape.SetInParent()
        return
    kind = info.type.sequence_type.elem_type if term.is_sequence else info.type
    kind.tensor_type.elem_type = STRING if term.holds == "strings" else NUMBER_OF_DTYPE[term.kind]
    if named is None:
        return
    # Reversed, so that of several names for one extent the first wins.
    names = {(id(axis.term), axis.place): name for name, axis in reversed(list(named.items()))}
    kind.tensor_type.shape.SetInParent()
    for extent in term.sizes:
        dim = kind.tensor_type.shape.dim.add()
        if isinstance(extent, int):
            dim.dim_value = extent
        elif isinstance(extent, Axis) and (id(extent.term), extent.place) in names:
            dim.dim_param = names[id(extent.term), extent.place]


def _attribute(proto: Desc, name: str, value: Any) -> None:
    """An attribute of the kind that a value has."""
    proto.name = name
    if isinstance(value, np.dtype):
        value = NUMBER_OF_DTYPE[value.name]
    # ONNX has no booleans among attributes.
    if isinstance(value, bool | int):
        proto.i, field = int(value), "i"
    elif isinstance(value, float):
        proto.f, field = value, "f"
    elif isinstance(value, str):
        proto.s, field = value.encode(), "s"
    elif isinstance(value, np.ndarray):
        to_tensor(proto.t, "", value)
        field = "t"
    else:
        # An empty list says nothing of its kind; ONNX's lists of extents and axes are integers.
        field = {float: "floats", str: "strings"}.get(type(value[0]) if value else int, "ints")
        getattr(proto, field).extend(item.encode() if isinstance(item, str) else item for item in value)
    proto.type = KIND_OF_FIELD[field]


# -- bytes ---------------------------------------------------------------------------------------


def encoded(model: Desc, name: str, external: bool) -> dict[str, bytes]:
    """The contents of files by their names: the model, and the file with its large tensors where it is requested, or needed.

    Args:
        name: of the model's file.
        external: whether to write large tensors beside the model in any case.
    """
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    beside = {}
    if external or size > _LARGE:
        beside = {f"{name}.data": _moved_out(model.graph.initializer, f"{name}.data")}
    return {**beside, name: model.SerializeToString(deterministic=True)}


def _moved_out(tensors: Sequence[Desc], location: str) -> bytes:
    data = bytearray()
    for tensor in tensors:
        content = tensor.raw_data
        if len(content) < _BESIDE:
            continue
        # Aligned, so that a runtime can map the file into memory.
        data += bytes(-len(data) % _ALIGNED)
        for key, value in (("location", location), ("offset", str(len(data))), ("length", str(len(content)))):
            tensor.external_data.add(key=key, value=value)
        data += content
        tensor.ClearField("raw_data")
        tensor.data_location = _EXTERNAL
    return bytes(data)
