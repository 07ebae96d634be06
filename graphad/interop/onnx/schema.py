"""ONNX's messages (onnx.proto, package ``onnx``), by their field numbers; enumerations are int32."""

from __future__ import annotations

from functools import cache
from typing import Any

from graphad.interop.protobuf import Format, message_class

# Fields that are not listed are passed over when a model is read, as protobuf passes over fields that it does not know.
_MESSAGES = {
    "AttributeProto": """
        optional string name = 1
        optional float f = 2
        optional int64 i = 3
        optional bytes s = 4
        optional TensorProto t = 5
        optional GraphProto g = 6
        repeated float floats = 7
        repeated int64 ints = 8
        repeated bytes strings = 9
        repeated TensorProto tensors = 10
        repeated GraphProto graphs = 11
        optional string doc_string = 13
        optional TypeProto tp = 14
        repeated TypeProto type_protos = 15
        optional int32 type = 20
        optional string ref_attr_name = 21
        optional SparseTensorProto sparse_tensor = 22
        repeated SparseTensorProto sparse_tensors = 23""",
    "ValueInfoProto": """
        optional string name = 1
        optional TypeProto type = 2
        optional string doc_string = 3""",
    "NodeProto": """
        repeated string input = 1
        repeated string output = 2
        optional string name = 3
        optional string op_type = 4
        repeated AttributeProto attribute = 5
        optional string doc_string = 6
        optional string domain = 7
        optional string overload = 8""",
    "StringStringEntryProto": """
        optional string key = 1
        optional string value = 2""",
    "ModelProto": """
        optional int64 ir_version = 1
        optional string producer_name = 2
        optional string producer_version = 3
        optional string domain = 4
        optional int64 model_version = 5
        optional string doc_string = 6
        optional GraphProto graph = 7
        repeated OperatorSetIdProto opset_import = 8
        repeated StringStringEntryProto metadata_props = 14
        repeated FunctionProto functions = 25""",
    "GraphProto": """
        repeated NodeProto node = 1
        optional string name = 2
        repeated TensorProto initializer = 5
        optional string doc_string = 10
        repeated ValueInfoProto input = 11
        repeated ValueInfoProto output = 12
        repeated ValueInfoProto value_info = 13
        repeated SparseTensorProto sparse_initializer = 15""",
    "TensorProto": """
        repeated int64 dims = 1
        optional int32 data_type = 2
        repeated float float_data = 4
        repeated int32 int32_data = 5
        repeated bytes string_data = 6
        repeated int64 int64_data = 7
        optional string name = 8
        optional bytes raw_data = 9
        repeated double double_data = 10
        repeated uint64 uint64_data = 11
        optional string doc_string = 12
        repeated StringStringEntryProto external_data = 13
        optional int32 data_location = 14""",
    "SparseTensorProto": """
        optional TensorProto values = 1
        optional TensorProto indices = 2
        repeated int64 dims = 3""",
    "TensorShapeProto": "repeated TensorShapeProto.Dimension dim = 1",
    "TensorShapeProto.Dimension": """
        optional int64 dim_value = 1
        optional string dim_param = 2
        optional string denotation = 3""",
    "TypeProto": """
        optional TypeProto.Tensor tensor_type = 1
        optional TypeProto.Sequence sequence_type = 4
        optional TypeProto.Map map_type = 5
        optional string denotation = 6
        optional TypeProto.Tensor sparse_tensor_type = 8
        optional TypeProto.Sequence optional_type = 9""",
    "TypeProto.Tensor": """
        optional int32 elem_type = 1
        optional TensorShapeProto shape = 2""",
    "TypeProto.Sequence": "optional TypeProto elem_type = 1",
    "TypeProto.Map": """
        optional int32 key_type = 1
        optional TypeProto value_type = 2""",
    "OperatorSetIdProto": """
        optional string domain = 1
        optional int64 version = 2""",
    "FunctionProto": """
        optional string name = 1
        repeated string input = 4
        repeated string output = 5
        repeated string attribute = 6
        repeated NodeProto node = 7
        optional string doc_string = 8
        repeated OperatorSetIdProto opset_import = 9
        optional string domain = 10
        repeated AttributeProto attribute_proto = 11
        repeated ValueInfoProto value_info = 12
        optional string overload = 13""",
}
_FORMAT = Format("onnx", _MESSAGES, "ONNX models are read and written", "onnx", packed=True)

# Kinds of attribute (AttributeProto.AttributeType) and the fields that hold their values.
FIELD_OF_KIND = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    12: "sparse_tensors",
    13: "tp",
    14: "type_protos",
}
KIND_OF_FIELD = {field: kind for kind, field in FIELD_OF_KIND.items()}


@cache
def message(name: str) -> Any:
    """The class of a message: ``message("ModelProto")()``."""
    return message_class(_FORMAT, name)
