"""ONNX models as programs with the values of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphad.backward import gradients as program_gradients
from graphad.errors import InvalidValue, ParseError
from graphad.execution import Scope
from graphad.interop.files import PathLike, read_bytes
from graphad.interop.onnx.operands import LEAST_ROOM, NotKnown, UnsupportedModel
from graphad.interop.onnx.reader import Reader
from graphad.interop.onnx.running import Running, scope_of
from graphad.interop.onnx.schema import message
from graphad.interop.protobuf import Desc
from graphad.ops.definition import did_you_mean
from graphad.program import Program, Variable, program_guard
from graphad.types import FLOATS, Array

_DEFAULT = ""


@dataclass(frozen=True)
class OnnxModel:
    """A model that was read from ONNX.

    Attributes:
        program: what it computes.
        feed_names, fetch_names: its inputs and outputs, in the model's order.
        parameters: name -> array of the variables that keep their values: initializers and longer constants.
        unknown_operators: operators that cannot be read, with how often each occurs; empty for a model that was loaded.
        gradient_names: the outputs among ``fetch_names`` that are gradients.
    """

    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    parameters: dict[str, Array]
    unknown_operators: dict[str, int] = field(default_factory=dict)
    gradient_names: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """What goes in and out, and how large it is: not the arrays."""
        operators = sum(len(block.ops) for block in self.program.blocks)
        size = sum(array.size for array in self.parameters.values())
        return f"<OnnxModel {self._ends()}: operators {operators}, parameters {len(self.parameters)} with {size:,} elements>"

    def _ends(self) -> str:
        return f"{', '.join(self.feed_names)} -> {', '.join(self.fetch_names)}"

    def run(self, feeds: Mapping[str, object]) -> list[Array]:
        """The outputs for inputs.

        Args:
            feeds: an array for each name in ``feed_names``, of its shape and dtype.

        Returns:
            An array for each name in ``fetch_names``.

        Raises:
            ValueError: an input is missing, or is of another shape or dtype.
        """
        check_names(feeds, self.feed_names)
        runner = self.__dict__.get("_running")
        if runner is None or not runner.snapshot.is_current(watching=True):
            runner = self.__dict__["_running"] = Running(self.program, self.feed_names, self.fetch_names, self.parameters)
        results: list[Array] = runner.run(feeds)
        return results

    def scope(self) -> Scope:
        """A new scope with the values of the parameters."""
        return scope_of(self.parameters)


class Undecided(OnnxModel):
    """A model whose program depends on the values of some inputs: it is read again for each of them.

    ``run`` does that by itself; for its program and its gradients, ``load(path, bind={...})`` says what these inputs are.
    """

    def __init__(self, names: Sequence[str], feeds: list[str], fetches: list[str], error: NotKnown, read: Callable[..., OnnxModel]) -> None:
        self.__dict__.update(
            needed=list(names), feed_names=feeds, fetch_names=fetches, unknown_operators={}, gradient_names=[], parameters={}
        )
        self.__dict__.update(_error=error, _read=read, _models={})

    def __getattribute__(self, name: str) -> Any:
        if name == "program":
            raise UnsupportedModel(
                f"{self.__dict__['_error']}\n  load(path, bind={{...}}) with {', '.join(self.__dict__['needed'])} decides"
            )
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<OnnxModel {self._ends()}: its operators depend on {', '.join(self.__dict__['needed'])}>"

    def run(self, feeds: Mapping[str, object]) -> list[Array]:
        state = self.__dict__
        check_names(feeds, state["feed_names"])
        missing_names = [name for name in state["needed"] if name not in feeds]
        if missing_names:
            raise InvalidValue(f"feed {missing_names[0]!r} is missing")
        bound = {name: np.asarray(feeds[name]) for name in state["needed"]}
        # By content: these inputs decide how the program looks, so another content is another model.
        key = tuple((array.shape, array.dtype.str, array.tobytes()) for array in bound.values())
        if key not in state["_models"]:
            state["_models"][key] = state["_read"](bound)
        model: OnnxModel = state["_models"][key]
        return model.run({name: array for name, array in feeds.items() if name not in bound})


def check_names(feeds: Mapping[str, object], known: Sequence[str]) -> None:
    """InvalidValue for a feed that the model has not."""
    for name in feeds:
        if name not in known:
            raise InvalidValue(f"the model has no input {name!r}{did_you_mean(name, list(known))}")


def load(path_or_bytes: PathLike | bytes, bind: Mapping[str, object] | None = None) -> OnnxModel:
    """Read an ONNX model.

    Args:
        path_or_bytes: the file, or its content; elements that lie in other files are found beside the file only.
        bind: input name -> array that it has from now on: shapes, axes and the like that the model computes of it are known at load.

    Returns:
        The model. Float initializers are its parameters.

    Raises:
        ParseError: the file is no ONNX model; the message names the node.
        UnsupportedModel: it uses what graphad cannot say; the message names the node.
        InvalidValue: ``bind`` names no input.
        OSError: the file cannot be read.
    """
    data = path_or_bytes if isinstance(path_or_bytes, bytes) else read_bytes(path_or_bytes)
    path = None if isinstance(path_or_bytes, bytes) else Path(path_or_bytes)
    proto = parsed(data, "the model" if path is None else path.name)
    bound = {name: np.asarray(array) for name, array in (bind or {}).items()}
    names = [item.name for item in (*proto.graph.input, *proto.graph.initializer)]
    unknown_names = [name for name in bound if name not in names]
    if unknown_names:
        raise InvalidValue(f"the model has no input {unknown_names[0]!r}{did_you_mean(unknown_names[0], names)}")
    return read_model(proto, None if path is None else path.parent, "model" if path is None else path.name, bound)


def parsed(data: bytes, what: str) -> Any:
    """The ModelProto in bytes; ParseError if they are something else."""
    proto = message("ModelProto")()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the runtime's DecodeError is not exported in one place
        raise ParseError(f"{what} is no ONNX model: {error}") from None
    if not proto.HasField("graph"):
        raise ParseError(f"{what} is no ONNX model: it has no graph")
    return proto


def read_model(proto: Desc, folder: Path | None, file: str, bind: Mapping[str, Array]) -> OnnxModel:
    """The model; one that is read when it runs where inputs that are fed decide how the program looks."""
    reader = Reader(folder, file, proto.functions, bind)
    elements = sum(math.prod(max(extent, 0) for extent in tensor.dims) for tensor in proto.graph.initializer)
    # A constant that is folded may be as large as the model's own weights, several times; more is a model made to fill the memory.
    reader.ops.largest = max(LEAST_ROOM, 8 * elements)
    reader.versions = {("" if opset.domain == "ai.onnx" else opset.domain): opset.version for opset in proto.opset_import}
    try:
        feeds, fetches = reader.main(proto.graph)
    except NotKnown as error:
        names = [name for name in reader.inputs_of(error.value) if name not in bind]
        if not names:
            raise
        return Undecided(
            names,
            list(reader.feeds),
            [item.name for item in proto.graph.output],
            error,
            lambda more: read_model(proto, folder, file, {**bind, **more}),
        )
    return OnnxModel(reader.program, feeds, fetches, reader.parameters, reader.unknown)


def gradients(model: OnnxModel, wrt: Sequence[str] | None = None, of: Sequence[str] | None = None) -> OnnxModel:
    """The model that computes its outputs and their gradients.

    Args:
        model: stays as it is.
        wrt: names of inputs and parameters; all that hold floats, if None.
        of: names of outputs: the gradient is that of the sum of all their elements. All that hold floats, if None.

    Returns:
        A model whose ``fetch_names`` are those of ``model`` and then ``gradient_names``, one for each name in ``wrt``, zeros where an
        output does not depend on it. It can be differentiated again.

    Raises:
        ValueError: a name is no input, parameter or output with floats.
    """
    # The model itself stays as it is.
    program = model.program.clone()
    block = program.global_block()
    floats = [name for name in model.fetch_names if block.var(name).dtype in FLOATS]
    targets = [_named(block.vars, name, floats, "output with floats") for name in (floats if of is None else of)]
    sources = [*model.feed_names, *model.parameters]
    candidates = [name for name in sources if block.var(name).dtype in FLOATS]
    # Without ``wrt``, what was declared with gradients: inputs of floats, and parameters.
    default = [name for name in candidates if not block.var(name).stop_gradient]
    inputs = [_named(block.vars, name, candidates, "input or parameter with floats") for name in (default if wrt is None else wrt)]
    if not targets:
        raise InvalidValue("the model has no output with floats to differentiate")
    for variable in inputs:
        variable.stop_gradient = False
    with program_guard(program, Program()):
        derivatives = program_gradients(targets, inputs)
        names = [_gradient(source, gradient) for source, gradient in zip(inputs, derivatives, strict=True)]
    return OnnxModel(
        program, list(model.feed_names), [*model.fetch_names, *names], dict(model.parameters), {}, [*model.gradient_names, *names]
    )


def _named(variables: Mapping[str, Variable], name: str, known: Sequence[str], what: str) -> Variable:
    if name not in known:
        raise InvalidValue(f"{name!r} is no {what} of the model{did_you_mean(name, list(known))}")
    return variables[name]


def _gradient(source: Variable, gradient: Variable | None) -> str:
    """The name of a gradient; of zeros where there is none."""
    if gradient is not None:
        return gradient.name
    block = source.block
    name = block.program.names.generate(f"{source.name}@GRAD")
    block.append_op("fill_zeros_like", {"X": source}, {"Out": name})
    return name
