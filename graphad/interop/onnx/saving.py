"""Models and programs written as ONNX files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.execution import global_scope
from graphad.interop.files import STREAM, PathLike, naming, write_bytes, write_together
from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.encoding import IR_VERSIONS, Encoder, Names, encoded, live
from graphad.interop.onnx.ends import check_strings, fetched, numbers_of
from graphad.interop.onnx.model import OnnxModel
from graphad.interop.onnx.peepholes import join
from graphad.interop.onnx.stacks import Stack
from graphad.interop.onnx.strings import Ends
from graphad.interop.onnx.terms import Axis, Term
from graphad.interop.onnx.writers import CannotWrite
from graphad.interop.onnx.writing import Again, GraphWriter, Guesses, refuse
from graphad.interop.protobuf import Desc
from graphad.ir import Graph, Value, lower
from graphad.ops.definition import did_you_mean
from graphad.passes.backward.expand_grad_ops import expand_all
from graphad.program import Parameter, Program, Variable
from graphad.rewriting import Pipeline
from graphad.types import FLOATS, TENSOR, Array, Extent

_TIDY = "fixpoint(simplify, cse, dead-code)"


def save(
    model: OnnxModel | Program,
    path: PathLike,
    opset: int = 18,
    *,
    feed_names: Sequence[str] | None = None,
    fetch_list: Sequence[str | Variable] | None = None,
    scope: object = None,
    external_data: bool = False,
) -> None:
    """Write a model or a program as an ONNX file, which other programs run; gradients are ordinary operators in it.

    Loops and branches become ``Loop`` and ``If``, and what a loop keeps for its gradient sequences of tensors. The same model gives the
    same bytes. The file is written as a whole or not at all.

    Args:
        model: what ``load``, ``gradients`` or ``from_program`` returned, or a program.
        path: of the file; ``-`` is standard output.
        opset: the version of the operator set, from 18 on.
        feed_names, fetch_list, scope: of a program, as ``from_program`` takes them.
        external_data: whether tensors from 1 KB on go into a file beside it, ``<name>.data``; beyond 2 GB they always do.

    Raises:
        CannotWrite: ONNX cannot say some of its operators; the message names them, and the lines that wrote them.
        ValueError: the version is not known, an input or a parameter is missing.
        OSError: the file cannot be written.
    """
    if isinstance(model, Program):
        model = from_program(model, feed_names, fetch_list, scope)
    elif feed_names is not None or fetch_list is not None or scope is not None:
        raise InvalidType("feed_names, fetch_list and scope are for a program; a model says itself what goes in and out")
    name = Path(path).name if path != STREAM else "model.onnx"
    files = encoded(as_message(model, opset), name, external_data)
    if path == STREAM:
        return write_bytes(path, files[name])
    if len(files) == 1:
        return write_bytes(path, files[name])
    with naming(path, instead_of=Path(path).parent):
        write_together(Path(path).parent, files)


def from_program(
    program: Program,
    feed_names: Sequence[str | Variable] | None = None,
    fetch_list: Sequence[str | Variable] | None = None,
    scope: object = None,
) -> OnnxModel:
    """A program as a model, which ``save`` writes and ``gradients`` differentiates.

    Args:
        program: what it computes.
        feed_names: its inputs, by name or themselves; what it reads and does not keep, if None.
        fetch_list: its outputs, by name or themselves; the variables that no operator reads, if None. Inputs that
            these do not need may be left out of ``feed_names``.
        scope: the values of its parameters by name, or something that has them as its ``arrays``, as ``graphad.Scope`` does; the global
            scope if None.

    Raises:
        ValueError: it has no variable of a name, or a parameter has no value.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program, ga.Program()):
    ...     x = ga.layers.data("x", shape=[2], append_batch_size=False)
    ...     y = ga.layers.tanh(x)
    >>> model = from_program(program, fetch_list=[y])
    >>> model.feed_names, model.run({"x": [0.0, 1.0]})[0].round(3)
    (['x'], array([0.   , 0.762], dtype=float32))
    """
    graph = lower(program, fetch_list)
    persistables = {var.name: var for var in program.list_vars() if var.persistable and var.type == TENSOR}
    input_names = [value.name for value in graph.inputs if value.name not in persistables]
    feeds = input_names if feed_names is None else _names(feed_names)
    # What is fed may be computed by the program otherwise: then only what is needed besides is kept.
    if fetch_list is not None and not set(input_names) <= set(feeds):
        program = _needed(program, fetch_list, feeds)
        graph = lower(program, _names(fetch_list))
        input_names = [value.name for value in graph.inputs if value.name not in persistables]
    unfed_names = [name for name in input_names if name not in feeds]
    if unfed_names:
        raise InvalidValue(f"the program reads {unfed_names[0]!r}, which is not among feed_names")
    for name in feeds:
        if not program.global_block().has_var(name):
            raise InvalidValue(f"the program has no variable {name!r}{did_you_mean(name, list(program.global_block().vars))}")
    arrays = global_scope().arrays if scope is None else getattr(scope, "arrays", scope)
    if not isinstance(arrays, Mapping):
        raise InvalidType(f"the values of parameters are a dict from name to array, or a Scope, not {scope!r}")
    parameter_names = [value.name for value in graph.inputs if value.name in persistables]
    unset_names = [name for name in parameter_names if name not in arrays and name not in feeds]
    if unset_names:
        raise InvalidValue(f"{persistables[unset_names[0]]!r} has no value in the scope: run the startup program, or set it")
    parameters = {name: np.asarray(arrays[name]) for name in parameter_names if name not in feeds}
    return OnnxModel(program, feeds, [value.name for value in graph.targets], parameters)


def _names(variables: Sequence[str | Variable]) -> list[str]:
    return [variable if isinstance(variable, str) else variable.name for variable in variables]


def _needed(program: Program, fetches: Sequence[str | Variable], feeds: Sequence[str]) -> Program:
    """A copy with what the outputs need; inputs that are named stay, needed or not."""
    copy, block = program.prune(list(fetches)), program.global_block()
    for name in feeds:
        if block.has_var(name) and not copy.global_block().has_var(name):
            var = block.var(name)
            copy.global_block().create_var(name=name, shape=var.shape, dtype=var.dtype, stop_gradient=var.stop_gradient)
    return copy


def as_message(model: OnnxModel, opset: int) -> Desc:
    """The ModelProto of a model."""
    if opset not in IR_VERSIONS:
        raise InvalidValue(f"opset={opset}: versions {min(IR_VERSIONS)} to {max(IR_VERSIONS)} are written")
    graph, guesses = _prepared(model), Guesses()
    if model.ends is not None:
        check_strings(graph, model.ends)
    # In each round a guess was wrong that is not made again, so that there are no more rounds than guesses.
    while True:
        try:
            return _written(model, graph, opset, guesses)
        except Again:
            continue


def _written(model: OnnxModel, graph: Graph, opset: int, guesses: Guesses) -> Desc:
    nodes, names = Nodes(opset), Names()
    # Names that callers use are taken first; everything in between gets what is left.
    names.taken.update((*model.feed_names, *model.parameters, *model.fetch_names))
    writer = GraphWriter(graph, nodes, guesses)
    inputs = {value.name: value for value in graph.inputs}
    for name in model.feed_names:
        var = model.program.global_block().var(name)
        term = Term(nodes, var.dtype, var.shape)
        term.name = name
        # Of several inputs with an extent of one name, the first one says what it is at run time.
        for i, extent in enumerate(var.shape):
            if isinstance(extent, Extent):
                nodes.named.setdefault(extent.name, Axis(term, i))
        nodes.frames[0].inputs.append(term)
        known = numbers_of(nodes, model.ends, term) if model.ends is not None and name in model.ends.inputs else term
        if name in inputs:
            writer.bound[inputs[name]] = known
    arrays = {name: array for name, array in model.parameters.items() if name in inputs}
    for name, array in arrays.items():
        _bind_parameter(writer, inputs[name], array)
    unknown = [name for name, value in inputs.items() if value not in writer.bound]
    if unknown:
        raise InvalidValue(f"the model reads {unknown[0]!r}, which is neither an input nor a parameter")
    writer.write(graph)
    refuse(writer.failed)
    outputs = [_output(writer, graph, name, inputs, model.ends) for name in model.fetch_names]
    live(nodes.frames[0], outputs)
    variables = model.program.global_block().vars
    computed = {name: array for name, array in arrays.items() if not isinstance(variables[name], Parameter)}
    join(nodes, outputs, computed)
    arrays |= computed
    live(nodes.frames[0], outputs)
    _name_values(writer, names)
    return Encoder(nodes, names).model(outputs, arrays)


def _prepared(model: OnnxModel) -> Graph:
    """The graph that is written: gradients are expanded, and nothing is computed twice or in vain."""
    graph = lower(model.program, model.fetch_names)
    expand_all(graph)
    Pipeline.parse(_TIDY).run(graph)
    return graph


def _bind_parameter(writer: GraphWriter, value: Value, array: Array) -> None:
    """Floats are trained; other numbers are constants, which may say shapes and axes."""
    term = Term(writer.nodes, array.dtype.name, array.shape, None if array.dtype.name in FLOATS else array)
    term.name = value.name
    writer.bound[value] = term


def _output(writer: GraphWriter, graph: Graph, name: str, inputs: Mapping[str, Value], ends: Ends | None) -> Term:
    """The term that holds an output under its name; an output that has the name of an input and another value is called ``name@NEW``."""
    bound = writer.bound[next(value for value in graph.targets if value.name == name)]
    if name in inputs and bound is writer.bound[inputs[name]] and isinstance(bound, Term) and bound.name == name:
        return bound
    term = bound if isinstance(bound, Term) else _as_sequence(writer.nodes, bound, name)
    if ends is not None:
        term = fetched(writer.nodes, ends, name, term)
    if term.name or term.array is not None:
        # One tensor has one name in ONNX.
        copy = writer.nodes.copied(term)
        copy.holds = term.holds
        term = copy
    term.name = name if name not in inputs else f"{name}@NEW"
    return term


def _as_sequence(nodes: Nodes, array: Stack, name: str) -> Term:
    """An array of tensors as a sequence: one that is laid out as rows of one tensor is taken apart."""
    if len(array.parts) != 1 or array.collected is not None:
        raise CannotWrite(f"the output {name!r} is an array of tensors that an operator of ONNX does not make at once")
    (part,) = array.parts
    if not array.layout.is_rows:
        return part
    sequence = nodes.one("SplitToSequence", [part], part.kind, [], axis=0, keepdims=0)
    sequence.is_sequence = True
    return sequence


def _name_values(writer: GraphWriter, names: Names) -> None:
    """Terms are called after the values that they are."""
    for value, bound in writer.bound.items():
        parts = (bound,) if isinstance(bound, Term) else bound.parts
        for part in parts:
            if not part.name and part.array is None:
                part.name = names.unique(value.name)
