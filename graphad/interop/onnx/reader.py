"""ONNX graphs as programs: nodes are read in their order, each by its handler; nested graphs and functions in scopes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphad import layers
from graphad.errors import GraphadError, ParseError
from graphad.interop.onnx import composites
from graphad.interop.onnx.arrays import BFLOAT16, DTYPES, STRING, to_array, to_dense
from graphad.interop.onnx.dead import drop_dead
from graphad.interop.onnx.handlers import Handler, Node, attempt, handler_of
from graphad.interop.onnx.handlers.sequences import ElementType, as_array, element_type, is_sequence
from graphad.interop.onnx.operands import NotKnown, Operand, Recorder, TwoRanks, UnsupportedModel, Value, all_known, text_of
from graphad.interop.onnx.schema import FIELD_OF_KIND
from graphad.interop.onnx.strings import Ends
from graphad.interop.protobuf import Desc
from graphad.program import Program, SourceLine, Variable, program_guard
from graphad.types import DTYPES as OURS
from graphad.types import FLOATS, Array, Extent

_DEEPEST = 64  # functions and graphs in one another
_MOST_SPLITS = 64
# What Python raises where an attribute, a type or a number of a file is not what an operator has.
_MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
_DOMAINS = {"ai.onnx": ""}


class Reader:
    """Reads one model into a program.

    Attributes:
        program: what it has read so far.
        parameters: the values of its variables that have any: initializers, and longer constants.
        ends: what goes in and out as strings or maps.
        unknown: operators without a handler, with how often each occurs.
        splits: how many times the rest of a graph was read in both branches of an If.
        rankless: inputs that are declared without a shape.
    """

    def __init__(
        self,
        folder: Path | None,
        file: str,
        functions: Iterable[Desc] = (),
        bind: Mapping[str, Array] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.program, self.parameters = Program(), dict[str, Array]()
        self.folder, self.file, self.bind, self.shapes = folder, file, dict(bind or {}), dict(shapes or {})
        self.functions = {(item.domain, item.name, item.overload): item for item in functions}
        self.ops = Recorder(self.program, self.parameters)
        self.ends = Ends()
        self.scopes: list[dict[str, Operand]] = []
        self.versions: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.feeds: list[str] = []
        self.rankless: list[str] = []
        self.depth = self.splits = 0
        self.place: tuple[Sequence[Desc], int] = ((), 0)  # the nodes of the graph that is being read, and how many are done

    def sources_of(self, value: Value | None) -> tuple[list[str], bool]:
        """The inputs of the model on whose elements a value depends, and whether it depends on extents."""
        block, is_sized = self.program.global_block(), value is None
        writers = {name: op for op in block.ops for name in op.output_names()}
        names, ancestors = [] if value is None or value.variable is None else [value.variable.name], dict[str, None]()
        while names:
            name = names.pop()
            if name in ancestors:
                continue
            ancestors[name] = None
            op = writers.get(name)
            if op is not None and op.type == "shape":  # of whatever is in the tensor
                is_sized = True
            elif op is not None:
                names += op.input_names()
        return [name for name in self.feeds if name in ancestors], is_sized

    # -- graphs ----------------------------------------------------------------------------------

    def main(self, graph: Desc) -> tuple[list[str], list[str]]:
        """Read the outermost graph; return the names that are fed and those that are fetched."""
        with program_guard(self.program, Program()):
            scope: dict[str, Operand] = {}
            self.scopes.append(scope)
            self._initialize(graph, scope)
            self.feeds = [item.name for item in graph.input if item.name not in scope and self._declared(item, scope)]
            if self.rankless:
                names = ", ".join(map(repr, self.rankless))
                raise NotKnown(f"{self.file}: {names}: declared without a shape, so that the rank is not known")
            self._nodes(graph.node, [item.name for item in graph.output])
            fetches = [self._fetched(item.name) for item in graph.output]
            self.scopes.pop()
        # Parameters that can be trained stay although an output does not depend on them: the model's users know them by name.
        parameter_names = [name for name in self.parameters if not self.program.global_block().var(name).stop_gradient]
        drop_dead(self.program, fetches, [*self.feeds, *parameter_names])
        composites.seal(self.program)
        self.parameters = {name: array for name, array in self.parameters.items() if self.program.global_block().has_var(name)}
        return self.feeds, fetches

    def nested(self, graph: Desc, inputs: Sequence[Value]) -> list[Value]:
        """The results of a nested graph on inputs; names of the graphs around are seen in it."""
        if len(inputs) != len(graph.input):
            raise ParseError(f"graph {graph.name!r} takes {len(graph.input)} inputs, {len(inputs)} are given")
        with _Deeper(self):
            scope: dict[str, Operand] = {item.name: value for item, value in zip(graph.input, inputs, strict=True)}
            self.scopes.append(scope)
            try:
                self._initialize(graph, scope)
                target = [item.name for item in graph.output]
                self._nodes(graph.node, target)
                results = [self._result(name) for name in target]
                if any(value.is_text for value in results):
                    raise UnsupportedModel(f"strings that graph {graph.name!r} gives")
                return results
            finally:
                self.scopes.pop()

    def types_of(self, graph: Desc, inputs: Sequence[Value]) -> list[ElementType]:
        """The shapes and dtypes of the results of a nested graph, of a sequence those of its tensors; what reading makes is taken back."""
        return self.types_taken_back(lambda: self.nested(graph, inputs))

    def types_taken_back(self, read: Callable[[], Sequence[Value]]) -> list[ElementType]:
        """The same for any reading: ``read`` reads, and all that it makes is taken back."""
        block, count, parameters = self.program.current_block(), len(self.ops.made), dict(self.parameters)
        roots = {item: (len(item.ops), dict(item.vars)) for item in {block, self.program.global_block()}}
        blocks, unknown = len(self.program.blocks), dict(self.unknown)
        try:
            # Types alone are wanted; there is no inference but reading.
            return [element_type(value) for value in read()]
        # Reading writes operators, parameters and blocks; everything is put back as it was.
        finally:
            self.unknown = unknown
            self.ops.forget(count)
            self.parameters.clear()
            self.parameters.update(parameters)
            for ancestor, (length, variables) in roots.items():
                del ancestor.ops[length:]
                ancestor.vars = variables
            del self.program.blocks[blocks:]

    def _initialize(self, graph: Desc, scope: dict[str, Operand]) -> None:
        arrays: list[tuple[str, Callable[[], Array]]] = [
            *((tensor.name, partial(to_array, tensor, self.folder)) for tensor in graph.initializer),
            *((sparse.values.name, partial(self._dense, sparse)) for sparse in graph.sparse_initializer),
        ]
        for name, read in arrays:
            if name in self.bind:
                scope[name] = self._constant(np.asarray(self.bind[name]))
                continue
            try:
                scope[name] = self._parameter(name, read())
            except GraphadError as error:
                raise type(error)(f"{self.file}: {error}") from None

    def _dense(self, sparse: Desc) -> Array:
        return to_dense(sparse, self.folder, self.ops.room)

    def _parameter(self, name: str, array: Array) -> Value:
        """Floats may be trained; anything else is a constant."""
        if array.dtype.name not in FLOATS:
            return self._constant(array)
        block = self.program.global_block()
        unique_name = name if name and not block.has_var(name) else self.program.names.generate(name or "parameter")
        variable = block.create_parameter(name=unique_name, shape=array.shape, dtype=array.dtype.name)
        self.parameters[unique_name] = array
        return Value(variable=variable, given=array)

    def _constant(self, array: Array) -> Value:
        """An array; strings as their numbers."""
        return Value(array) if array.dtype.kind not in "OU" else text_of(Value(self.ends.text.encode(array)))

    def _declared(self, info: Desc, scope: dict[str, Operand]) -> bool:
        """Declare an input; whether it is fed."""
        name = info.name
        if name in self.bind:
            scope[name] = self._constant(np.asarray(self.bind[name]))
            return False
        # An optional that is fed has a tensor.
        type = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
        tensor = type.tensor_type
        if not type.HasField("tensor_type"):
            raise UnsupportedModel(f"input {name!r} is a sequence or a map; inputs are tensors")
        is_text = tensor.elem_type == STRING
        if not is_text and tensor.elem_type != BFLOAT16 and DTYPES.get(tensor.elem_type) not in OURS:
            raise UnsupportedModel(f"input {name!r} has elements of type {DTYPES.get(tensor.elem_type, tensor.elem_type)}")
        dtype = {BFLOAT16: "float32", STRING: "int64"}.get(tensor.elem_type) or DTYPES[tensor.elem_type]
        if name not in self.shapes and not tensor.HasField("shape"):
            self.rankless.append(name)
        shape = self.shapes.get(name) or extents_of(type)
        variable = self.program.global_block().create_var(name=name, shape=shape, dtype=dtype, stop_gradient=dtype not in FLOATS)
        scope[name] = value = Value(variable=variable)
        if is_text:
            self.ends.inputs.add(name)
            value.is_text = True
        return True

    def _fetched(self, name: str) -> str:
        """A variable that has the output's name and value."""
        value = self._result(name)
        variable = self.ops.variable(value) if not is_sequence(value) else as_array(self.ops, value)
        unique_name = name
        if variable.name != name:
            block = self.program.global_block()
            unique_name = name if not block.has_var(name) else self.program.names.generate(name)
            block.append_op("assign", {"X": variable}, {"Out": unique_name})
        if value.is_text:
            self.ends.outputs.add(unique_name)
        if value.keys is not None:
            self.ends.maps[unique_name] = value.keys
        return unique_name

    def check_operators(self, nodes: Sequence[Desc]) -> None:
        """UnsupportedModel for a node whose operator cannot be read, in nested graphs too: for models that are not read to their end."""
        for i, node in enumerate(nodes):
            domain = _DOMAINS.get(node.domain, node.domain)
            if not self._function(node, domain) and handler_of(domain, node.op_type, self.versions.get(domain, 1)) is None:
                raise _located(_no_operator(domain), label_of(node, i), self.file)
            for graph in _graphs_of(node):
                self.check_operators(graph.node)

    # -- nodes -----------------------------------------------------------------------------------

    def _nodes(self, nodes: Sequence[Desc], target: Sequence[str], first: int = 0) -> None:
        """Read nodes from one on, one after the other; ``target`` are the names that are used of them in the end."""
        for i in range(first, len(nodes)):
            self.place = nodes, i
            try:
                self._node(nodes[i], i)
            except TwoRanks as split:
                if self._continued(split, nodes, i, target):
                    return

    def again(self, name: str, values: Mapping[str, Operand]) -> Operand:
        """The operand of a name, recomputed with other values in place of some names: the nodes on paths from these are read once more."""
        names, nodes, place = {name}, list[tuple[int, Desc]](), self.place
        for i, node in reversed(list(enumerate(place[0][: place[1]]))):
            # Backwards over the nodes before this one: those on a path from the values that are replaced to the tensor, and what they read.
            if any(output in names and output not in values for output in node.output):
                nodes.append((i, node))
                names.update(_names_read(node))
        self.scopes.append(dict(values))
        try:
            for i, node in reversed(nodes):
                self.place = place[0], i
                self._node(node, i)
            return self.found(name)
        finally:
            self.scopes.pop()
            self.place = place

    def _continued(self, split: TwoRanks, nodes: Sequence[Desc], i: int, target: Sequence[str]) -> bool:
        """Read what comes after a result of one of two ranks in a branch for each; whether that is done.

        A branch after which the rest cannot be read, as the ranks do not fit, is one that no run takes: the other is read in its place.
        """
        self.splits += 1
        if self.splits > _MOST_SPLITS:
            raise _located(UnsupportedModel(f"{split}, and there are too many"), label_of(nodes[i], i), self.file) from None

        def read(branch: Callable[[], Sequence[Operand]]) -> list[Value]:
            self.scopes.append({})
            try:
                if not self._chosen(branch, nodes, i, target):
                    self._nodes(nodes, target, i + 1)
                return [self._result(name) for name in target]
            finally:
                self.scopes.pop()

        errors: dict[int, GraphadError] = {}

        def branch(which: int) -> list[Variable]:
            try:
                return [self.ops.variable(value) for value in read(split.branches[which])]
            # A value that has to be bound at load is an error of the whole model, not of one branch.
            except NotKnown:
                raise
            except GraphadError as error:
                errors[which] = error
                raise

        try:
            result = attempt(self.ops, lambda: layers.cond(split.condition, lambda: branch(0), lambda: branch(1)))
        except NotKnown:
            raise
        except GraphadError:
            if not errors:
                text = f"{self.file}: {label_of(nodes[i], i)}: {split}"
                # Extents are known where inputs are: the model can be read when it runs.
                raise (UnsupportedModel(text) if split.value is None else NotKnown(text)) from None
            return self._chosen(split.branches[0 if 1 in errors else 1], nodes, i, target)
        self.scopes[-1].update(zip(target, (Value(variable=item) for item in result), strict=True))
        return True

    def _chosen(self, branch: Callable[[], Sequence[Operand]], nodes: Sequence[Desc], i: int, target: Sequence[str]) -> bool:
        """Give a node the results of one branch; whether what comes after is read as well, since their rank is decided at run time, too."""
        try:
            self.scopes[-1].update(zip(nodes[i].output, branch(), strict=False))
        except TwoRanks as split:
            return self._continued(split, nodes, i, target)
        return False

    def _node(self, node: Desc, i: int) -> None:
        domain = _DOMAINS.get(node.domain, node.domain)
        label = label_of(node, i)
        inputs = [self.found(name) if name else None for name in node.input]
        function = self._function(node, domain)
        try:
            if function is not None:
                result: Any = self._called(function, node, inputs)
            else:
                result = self._handled(domain, node, label, inputs)
        # To be handled by the branch around it, which knows both sides.
        except TwoRanks:
            raise
        except NotKnown as error:
            text = str(error)
            raise NotKnown(text if text.startswith(f"{self.file}: ") else f"{self.file}: {label}: {text}", error.value) from None
        except UnsupportedModel as error:
            raise _located(error, label, self.file) from None
        except GraphadError as error:
            raise _located(ParseError(str(error)), label, self.file) from error
        # Handlers trust the file; what they trip over in a malformed one is told as an error of the file.
        except _MALFORMED as error:
            raise _located(ParseError(f"{type(error).__name__}: {error}"), label, self.file) from error
        results = [result] if isinstance(result, Value) else list(result)
        for name, value in zip(node.output, results, strict=False):
            if name and value is not None:
                self.scopes[-1][name] = value

    def _function(self, node: Desc, domain: str) -> Desc | None:
        """The function of the model that a node calls, if it calls one."""
        return self.functions.get((domain, node.op_type, node.overload)) or self.functions.get((node.domain, node.op_type, ""))

    def _handled(self, domain: str, node: Desc, label: str, inputs: Sequence[Operand]) -> Any:
        version = self.versions.get(domain, 1)
        handler = handler_of(domain, node.op_type, version)
        if handler is None:
            self.unknown[f"{domain}::{node.op_type}" if domain else node.op_type] = 1
            raise _no_operator(domain)
        attrs = {item.name: self._attribute(item) for item in node.attribute}
        outputs = len(self.program.current_block().ops)
        if node.op_type not in _TAKING_TEXT and any(value is not None and value.is_text for value in inputs):
            raise UnsupportedModel("of strings, which are only moved, compared and looked up")
        call = Node(node.op_type, label, inputs, attrs, version, self.ops, self, list(node.output))
        result = composites.handled(call, domain, handler)
        if not domain and node.op_type in _MOVING:
            _move_elements(handler, call, [result] if isinstance(result, Value) else result)
        if isinstance(result, Value) and result.array is not None and result.array.dtype.kind == "O":
            result = self._constant(result.array)
        place = _MOVING_TEXT.get(node.op_type, len(inputs))
        if place < len(inputs) and (operand := inputs[place]) is not None and operand.is_text:
            result = [text_of(value) for value in ([result] if isinstance(result, Value) else result) if value is not None]
        # Larger constants are parameters that do not change: as an attribute each element would be a number of the program's text.
        if (
            node.op_type == "Constant"
            and isinstance(result, Value)
            and result.array is not None
            and result.array.size > 1
            and not result.is_text
        ):
            result = self._parameter(node.output[0], result.array)
        source = SourceLine(f"{self.file}, {node.name or node.op_type}", len(self.scopes))
        for op in self.program.current_block().ops[outputs:]:
            op.source = source
        return result

    def _called(self, function: Desc, node: Desc, inputs: Sequence[Operand]) -> list[Operand]:
        """A function of the model: its nodes, with its attributes put in."""
        argument = {item.name: item for item in node.attribute}
        argument = {**{item.name: item for item in function.attribute_proto if item.name not in argument}, **argument}
        # Trailing inputs may be left out; inside a function's body they are empty names.
        operands = [*inputs, *[None] * (len(function.input) - len(inputs))]
        scope: dict[str, Operand] = dict(zip(function.input, operands, strict=False))
        versions, scopes = self.versions, self.scopes
        with _Deeper(self):
            self.versions = {**versions, **{_DOMAINS.get(item.domain, item.domain): item.version for item in function.opset_import}}
            self.scopes = [scope]
            try:
                self._nodes([_instantiated(item, argument) for item in function.node], list(function.output))
                return [scope.get(name) for name in function.output]
            finally:
                self.versions, self.scopes = versions, scopes

    def _attribute(self, attribute: Desc) -> Any:
        # Old files have no kind: then it is the field that is set. An empty list says nothing of its kind, and is taken for integers.
        field = FIELD_OF_KIND.get(attribute.type) or next((name for name in _ONE if attribute.HasField(name)), None)
        if field is None:
            field = next((name for name in _MANY if getattr(attribute, name)), "ints")
        value = getattr(attribute, field)
        if field == "t":
            return to_array(value, self.folder)
        if field == "tensors":
            return [to_array(item, self.folder) for item in value]
        if field == "sparse_tensor":
            return self._dense(value)
        if field == "s":
            return value.decode("utf-8", "surrogateescape")
        if field == "strings":
            return [item.decode("utf-8", "surrogateescape") for item in value]
        return list(value) if field in _MANY else value

    def found(self, name: str) -> Operand:
        """Look up a name in the innermost graph that defines it; ParseError if none does."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise ParseError(f"{name!r} is read before a node or an input gives it")

    def _result(self, name: str) -> Value:
        value = self.found(name)
        if value is None:
            raise ParseError(f"the result {name!r} has no value")
        return value


_NAMELESS = ("", "?", "-1", "None")  # what writers of files put in place of a name


def extents_of(type: Desc) -> list[int]:
    """The extents of a tensor's type: numbers, names, or -1."""
    return [_extent(dim) for dim in type.tensor_type.shape.dim]


def _extent(dim: Desc) -> int:
    """An extent of an input: a number, or a name, or -1."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return -1 if dim.dim_param in _NAMELESS else Extent(dim.dim_param)


def _names_read(node: Desc) -> set[str]:
    """The names that a node reads, in graphs of its own too."""
    return set(node.input).union(*(_names_read(inner) for graph in _graphs_of(node) for inner in graph.node))


def _graphs_of(node: Desc) -> list[Desc]:
    return [graph for attribute in node.attribute for graph in (*attribute.graphs, attribute.g)]


def _no_operator(domain: str) -> UnsupportedModel:
    return UnsupportedModel("there is no such operator" if not domain else f"operators of {domain!r} are not known")


def label_of(node: Desc, i: int) -> str:
    """The label of a node in error messages."""
    return f"node {i}, {node.op_type}" + (f" {node.name!r}" if node.name else "")


# Operators that only move elements, and the first of their inputs does not; None: of all inputs.
_MOVING: dict[str, int | None] = {
    **dict.fromkeys(("Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"), 1),
    "Concat": None,
}


def _move_elements(handler: Handler, node: Node, results: Sequence[Operand]) -> None:
    """Say which elements of the results are known: the operator is applied to the places of the elements instead."""
    count = _MOVING[node.type]
    sources, arguments = node.inputs[:count], node.inputs[len(node.inputs) if count is None else count :]
    parts = [part for value in sources if value is not None and (part := value.partly()) is not None]
    if len(parts) < len(sources) or any(value is not None and value.array is None for value in arguments):
        return
    # The handler runs once more on numbers of places instead of elements: where a place ends up, its element does. Elements of which
    # some are unknown (extents, mostly) need no second implementation of Gather, Slice, Concat and so on.
    pool = np.concatenate([np.ravel(np.asarray(part, object)) for part in parts])
    ends = np.cumsum([np.size(part) for part in parts])
    places = [Value(np.arange(end - np.size(part), end).reshape(np.shape(part))) for part, end in zip(parts, ends, strict=True)]
    place_results = handler(replace(node, inputs=[*places, *arguments]))
    for result, place in zip(results, [place_results] if isinstance(place_results, Value) else place_results, strict=False):
        if result is not None and result.array is None and place is not None and place.array is not None:
            result.elements = np.asarray(pool[place.array], object)
            if all_known(result.elements):
                result.array = result.elements.astype(result.dtype)


# Operators that move strings, and the input that holds them; and those that compare them, or look them up.
_MOVING_TEXT: dict[str, int] = {
    **dict.fromkeys(("Compress", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice"), 0),
    **dict.fromkeys(("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "ArrayFeatureExtractor"), 0),
    "Where": 1,
}
_TAKING_TEXT = {*_MOVING_TEXT, "CategoryMapper", "Equal", "LabelEncoder", "OneHotEncoder", "Shape", "Size", "TfIdfVectorizer"}

_ONE = ("f", "i", "s", "t", "g")
_MANY = ("floats", "ints", "strings", "tensors", "graphs")


class _Deeper:
    """Counts graphs in one another; ParseError where there are too many."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __enter__(self) -> None:
        self.reader.depth += 1
        if self.reader.depth > _DEEPEST:
            raise ParseError(f"graphs and functions are more than {_DEEPEST} deep in one another")

    def __exit__(self, *_: object) -> None:
        self.reader.depth -= 1


def _located(error: GraphadError, label: str, file: str) -> GraphadError:
    text = str(error)
    return error if text.startswith(f"{file}: ") else type(error)(f"{file}: {label}: {text}")


def _instantiated(node: Desc, argument: Mapping[str, Any]) -> Any:
    """A node of a function: attributes that refer to the function's are those of the call, and left out where it has none."""
    own_node = type(node)()
    own_node.CopyFrom(node)
    del own_node.attribute[:]
    for item in node.attribute:
        if not item.ref_attr_name:
            own_node.attribute.add().CopyFrom(item)
            _instantiate_graphs(own_node.attribute[-1], argument)
        elif item.ref_attr_name in argument:
            copy = own_node.attribute.add()
            copy.CopyFrom(argument[item.ref_attr_name])
            copy.name = item.name
    return own_node


def _instantiate_graphs(attribute: Desc, argument: Mapping[str, object]) -> None:
    for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
        nodes = [_instantiated(item, argument) for item in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
