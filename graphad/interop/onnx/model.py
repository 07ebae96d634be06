"""ONNX models as programs with the values of their parameters."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphad.backward import gradients as program_gradients
from graphad.errors import InvalidValue, ParseError
from graphad.execution import Executor, Scope
from graphad.interop.files import PathLike, read_bytes
from graphad.interop.onnx.operands import LEAST_ROOM, NotKnown, UnsupportedModel
from graphad.interop.onnx.reader import Reader, extents_of
from graphad.interop.onnx.running import Running, scope_of
from graphad.interop.onnx.schema import message
from graphad.interop.onnx.strings import Ends
from graphad.interop.protobuf import Desc
from graphad.ops.definition import did_you_mean
from graphad.program import TENSOR, Program, Variable, program_guard
from graphad.types import FLOATS, Array, Extent, Shape


@dataclass(frozen=True)
class OnnxModel:
    """A model that was read from ONNX.

    Attributes:
        program: what it computes.
        feed_names, fetch_names: its inputs and outputs, in the model's order.
        parameters: name -> array of the variables that keep their values: initializers and longer constants.
        unknown_operators: operators that cannot be read, with how often each occurs; empty for a model that was loaded.
        gradient_names: the outputs among ``fetch_names`` that are gradients.
        ends: what goes in and out of ``run`` as strings or maps, which the program has numbers for.
    """

    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    parameters: dict[str, Array]
    unknown_operators: dict[str, int] = field(default_factory=dict)
    gradient_names: list[str] = field(default_factory=list)
    ends: Ends | None = None

    def __repr__(self) -> str:
        """The inputs, the outputs and the size, without the arrays."""
        operators = sum(len(block.ops) for block in self.program.blocks)
        size = sum(array.size for array in self.parameters.values())
        return f"<OnnxModel {self._ends()}: operators {operators}, parameters {len(self.parameters)} with {size:,} elements>"

    def _ends(self) -> str:
        return f"{', '.join(self.feed_names)} -> {', '.join(self.fetch_names)}"

    def run(self, feeds: Mapping[str, object], executor: Executor | None = None) -> list[Array]:
        """The outputs for inputs.

        Args:
            feeds: an array for each name in ``feed_names``, of its shape and dtype.
            executor: what runs the program, kept for many runs: ``Executor(numba=True)``, for instance, or one with threads or a profile.
                The model has one of its own, which is taken if None.

        Returns:
            An array for each name in ``fetch_names``; a list of arrays for a sequence, a list of dicts for a sequence of maps.

        Raises:
            ValueError: an input is missing, or is of another shape or dtype.
        """
        check_names(feeds, self.feed_names)
        # Beside the fields, which are frozen.
        runner = self.__dict__.get("_running")
        if runner is None or not runner.snapshot.is_current(watching=True):
            runner = self.__dict__["_running"] = Running(self.program, self.feed_names, self.fetch_names, self.parameters)
        ends = self.ends
        if ends is None:
            results: list[Array] = runner.run(feeds, executor)
            return results
        return ends.fetched(self.fetch_names, runner.run(ends.fed(feeds), executor))

    def decided(self, feeds: Mapping[str, object]) -> OnnxModel:
        """The model that has a program for what is fed: itself, where that depends on nothing."""
        check_names(feeds, self.feed_names)
        return self

    def scope(self) -> Scope:
        """A new scope with the values of the parameters."""
        return scope_of(self.parameters)


class Undecided(OnnxModel):
    """A model whose program depends on what it is fed: on extents, or on the elements of some inputs. It is read again for each of them.

    ``run`` does that by itself, and so do its gradients; for its program, ``load(path, bind={...})`` says what they are.
    """

    def __init__(self, undecided: _Undecided, feeds: list[str], fetches: list[str], gradient_names: Sequence[str] = ()) -> None:
        parameters = {name: array for name, array in undecided.floats.items() if name not in feeds}
        self.__dict__.update(
            feed_names=feeds, fetch_names=fetches, unknown_operators={}, gradient_names=list(gradient_names), parameters=parameters
        )
        self.__dict__.update(_undecided=undecided, _models=OrderedDict(), needed=undecided.needed)

    def __getattribute__(self, name: str) -> Any:
        # A field of the base class, which this has not: whoever asks for it is told why.
        if name == "program":
            undecided = self.__dict__["_undecided"]
            raise UnsupportedModel(f"{undecided.error}\n  {undecided.hint()}")
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        """The inputs, the outputs, and the undecided operands."""
        return f"<OnnxModel {self._ends()}: its operators depend on {', '.join(self.__dict__['_undecided'].deciding())}>"

    def run(self, feeds: Mapping[str, object], executor: Executor | None = None) -> list[Array]:
        """The outputs for inputs, as a model's that has one program."""
        model = self.decided(feeds)
        return model.run({name: array for name, array in feeds.items() if name in model.feed_names}, executor)

    def decided(self, feeds: Mapping[str, object]) -> OnnxModel:
        """The model that has a program: for the extents of what is fed, and for its elements where those decide.

        Inputs whose elements decide are no inputs of it.
        """
        check_names(feeds, self.feed_names)
        undecided: _Undecided = self.__dict__["_undecided"]
        missing_names = [name for name in (*undecided.needed, *undecided.open) if name not in feeds]
        if missing_names:
            raise InvalidValue(f"feed {missing_names[0]!r} is missing")
        bound = {name: np.asarray(feeds[name]) for name in undecided.needed}
        shapes = _shapes_fed({name: np.asarray(feeds[name]).shape for name in undecided.open}, undecided.open)
        # By content: these inputs decide how the program looks, so another content is another model.
        key = (*shapes.items(), *((array.shape, array.dtype.str, array.tobytes()) for array in bound.values()))
        # The least recently run model goes first: each takes the memory of a program.
        models: OrderedDict[object, OnnxModel] = self.__dict__["_models"]
        if key not in models:
            models[key] = undecided.read(bound, shapes)
            if len(models) > _MOST_READ:
                models.popitem(last=False)
        models.move_to_end(key)
        model = models[key]
        # With these known, something else decides: each model knows more than the one before, so this ends.
        if isinstance(model, Undecided):
            return model.decided({name: array for name, array in feeds.items() if name not in bound})
        return model

    def differentiated(self, wrt: Sequence[str] | None, of: Sequence[str] | None) -> Undecided:
        """The model that computes its outputs and their gradients, for whatever decides."""
        undecided: _Undecided = self.__dict__["_undecided"]
        candidates = [name for name in undecided.floats if name not in undecided.needed]
        for name in candidates if wrt is None else wrt:
            if name not in candidates:
                raise InvalidValue(f"{name!r} is no input or parameter with floats of the model{_known(name, candidates)}")
        for name in of or ():
            if name not in self.fetch_names:
                raise InvalidValue(f"{name!r} is no output of the model{did_you_mean(name, self.fetch_names)}")
        sources = candidates if wrt is None else list(wrt)
        targets = None if of is None else [self.fetch_names.index(name) for name in of]

        def read(bound: Mapping[str, Array], shapes: Mapping[str, Shape]) -> OnnxModel:
            model = undecided.read(bound, shapes)
            # Its names may be others, its order is the same.
            return gradients(model, sources, None if targets is None else [model.fetch_names[i] for i in targets])

        names: list[str] = []
        for name in sources:
            names.append(next(candidate for candidate in _names_after(f"{name}@GRAD") if candidate not in (*self.fetch_names, *names)))
        return Undecided(replace(undecided, read=read), list(self.feed_names), [*self.fetch_names, *names], [*self.gradient_names, *names])


_MOST_READ = 16  # programs of one model that are kept, those that ran last
_FEW = 5  # names in a message


@dataclass(frozen=True)
class _Undecided:
    """The operands on which the operators of a model depend, and how to read it once they are known.

    Attributes:
        error: why it has no program yet.
        needed: inputs whose elements decide.
        open: inputs whose extents decide, and what they are declared with; None for those declared without a shape.
        floats: inputs and initializers that hold floats; of initializers their values.
        read: the model of elements and of shapes of inputs.
    """

    error: NotKnown
    needed: Sequence[str]
    open: Mapping[str, Sequence[int] | None]
    floats: Mapping[str, Array]
    read: Callable[[Mapping[str, Array], Mapping[str, Shape]], OnnxModel]

    def deciding(self) -> list[str]:
        """The undecided extents, by their names, and inputs, by theirs."""
        return [*self._named_extents(), *(f"the shape of {name}" for name in self._nameless()), *self.needed]

    def hint(self) -> str:
        """The advice for deciding: ``bind`` takes names of extents and of inputs; extents without names are decided by feeds."""
        nameless = self._nameless()
        if nameless:
            fed = ", ".join(f"{name!r}: array" for name in [*nameless, *self.needed])
            return f"decided({{{fed}, ...}}) gives the model for what is fed"
        return f"load(path, bind={{...}}) with {', '.join(self.deciding())} decides"

    def _named_extents(self) -> list[str]:
        return list(dict.fromkeys(extent.name for shape in self.open.values() for extent in shape or () if isinstance(extent, Extent)))

    def _nameless(self) -> list[str]:
        """Inputs with extents that have no names, or without a shape."""
        return [
            name
            for name, shape in self.open.items()
            if shape is None or any(extent == -1 and not isinstance(extent, Extent) for extent in shape)
        ]


def _names_after(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{i}" for i in itertools.count())


def _shapes_fed(fed: Mapping[str, Shape], declared: Mapping[str, Sequence[int] | None]) -> dict[str, Shape]:
    """The shapes of what is fed; InvalidValue where one is not as it is declared, or two extents of one name differ."""
    extents: dict[str, tuple[int, str]] = {}
    for name, shape in fed.items():
        expected = declared[name]
        if expected is None:
            continue
        if len(shape) != len(expected) or any(b != -1 and a != b for a, b in zip(shape, expected, strict=True)):
            extents_text = ", ".join(map(str, expected))
            raise InvalidValue(f"feed {name!r} has the shape {list(shape)}, the model declares [{extents_text}]")
        for size, extent in zip(shape, expected, strict=True):
            if isinstance(extent, Extent):
                first_size, first = extents.setdefault(extent.name, (size, name))
                if first_size != size:
                    raise InvalidValue(f"extent {extent.name!r} is {first_size} in feed {first!r} and {size} in feed {name!r}")
    return dict(fed)


def check_names(feeds: Mapping[str, object], known: Sequence[str]) -> None:
    """InvalidValue for a feed that the model has not."""
    for name in feeds:
        if name not in known:
            raise InvalidValue(f"the model has no input {name!r}{_known(name, known)}")


def _known(name: str, names: Sequence[str]) -> str:
    """A hint with the names that there are: the nearest ones, else some of them."""
    some = ", ".join(map(repr, names[:_FEW])) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
    return did_you_mean(name, list(names)) or (f"; there is {some}" if names else "")


def load(path_or_bytes: PathLike | bytes, bind: Mapping[str, object] | None = None) -> OnnxModel:
    """Read an ONNX model.

    Args:
        path_or_bytes: the file, or its content; elements that lie in other files are found beside the file only.
        bind: input name -> array that it has from now on: shapes, axes and the like that the model computes of it are known at load;
            name of an extent -> its size.

    Returns:
        The model. Float initializers are its parameters.

    Raises:
        ParseError: the file is no ONNX model; the message names the node.
        UnsupportedModel: it uses what graphad cannot say; the message names the node.
        InvalidValue: ``bind`` names no input and no extent of one.
        OSError: the file cannot be read.
    """
    data = path_or_bytes if isinstance(path_or_bytes, bytes) else read_bytes(path_or_bytes)
    path = None if isinstance(path_or_bytes, bytes) else Path(path_or_bytes)
    proto = parsed(data, "the model" if path is None else path.name)
    declared = {item.name: extents_of(item.type) for item in proto.graph.input}
    extents = {extent.name for shape in declared.values() for extent in shape if isinstance(extent, Extent)}
    names = [*(item.name for item in proto.graph.input), *_initialized(proto.graph)]
    bound, sizes = dict[str, Array](), dict[str, int]()
    for name, value in (bind or {}).items():
        if name in names:
            bound[name] = np.asarray(value)
        elif name in extents:
            sizes[name] = _size(name, value)
        else:
            raise InvalidValue(f"the model has no input {name!r}{did_you_mean(name, [*names, *sorted(extents)])}")
    shapes = {
        name: tuple(sizes.get(extent.name, extent) if isinstance(extent, Extent) else extent for extent in shape)
        for name, shape in declared.items()
    }
    return read_model(proto, None if path is None else path.parent, "model" if path is None else path.name, bound, shapes if sizes else {})


def _initialized(graph: Desc) -> list[str]:
    """The names of its initializers, sparse ones included."""
    return [*(item.name for item in graph.initializer), *(item.values.name for item in graph.sparse_initializer)]


def _size(name: str, value: object) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iu" or array.item() < 0:
        raise InvalidValue(f"extent {name!r} is a whole number from 0 on, not {value!r}")
    return int(array.item())


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


def read_model(
    proto: Desc, folder: Path | None, file: str, bind: Mapping[str, Array], shapes: Mapping[str, Sequence[int]] | None = None
) -> OnnxModel:
    """The model; one that is read when it runs where extents, or inputs that are fed, decide how the program looks.

    Args:
        proto, folder, file: the model, where it lies, and what errors call it.
        bind: inputs that are known.
        shapes: those of inputs, in place of what is declared.
    """
    reader = Reader(folder, file, proto.functions, bind, shapes)
    elements = sum(math.prod(max(extent, 0) for extent in tensor.dims) for tensor in proto.graph.initializer)
    # A constant that is folded may be as large as the model's own weights, several times; more is a model made to fill the memory.
    reader.ops.largest = max(LEAST_ROOM, 8 * elements)
    reader.versions = {("" if opset.domain == "ai.onnx" else opset.domain): opset.version for opset in proto.opset_import}
    try:
        feeds, fetches = reader.main(proto.graph)
        reader.ends.text.count = len(reader.ends.text.words)
    except NotKnown as error:
        sources, is_sized = reader.sources_of(error.value)
        inputs_left = [name for name in sources if name not in bind]
        declared = {name: reader.program.global_block().var(name).shape for name in reader.feeds}
        # Extents come first: what is computed of them may be all that was missing. A value in a nested graph is not traced.
        is_open: dict[str, list[int] | None] = dict.fromkeys(reader.rankless)
        if is_sized or not inputs_left:
            is_open = {**{name: list(shape) for name, shape in declared.items() if -1 in shape}, **is_open}
        if not inputs_left and not is_open:
            raise
        reader.check_operators(proto.graph.node)
        return _undecided(proto, folder, file, bind, reader, error, [] if is_open else inputs_left, is_open)
    return OnnxModel(reader.program, feeds, fetches, reader.parameters, reader.unknown, ends=reader.ends if reader.ends.names() else None)


def _undecided(
    proto: Desc,
    folder: Path | None,
    file: str,
    bind: Mapping[str, Array],
    reader: Reader,
    error: NotKnown,
    needed: Sequence[str],
    is_open: Mapping[str, Sequence[int] | None],
) -> Undecided:
    """The model, to be read when it is known what decides."""
    block = reader.program.global_block()
    inputs = {name: np.zeros(0, block.var(name).dtype) for name in reader.feeds if block.var(name).dtype in FLOATS}
    names = _initialized(proto.graph)
    weights = {name: array for name, array in reader.parameters.items() if name in names and not block.var(name).stop_gradient}

    def read(bound: Mapping[str, Array], shapes: Mapping[str, Shape]) -> OnnxModel:
        return read_model(proto, folder, file, {**bind, **bound}, {**reader.shapes, **shapes})

    state = _Undecided(error, needed, is_open, {**inputs, **weights}, read)
    return Undecided(state, list(reader.feeds), [item.name for item in proto.graph.output])


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
    if isinstance(model, Undecided):
        return model.differentiated(wrt, of)
    # The model itself stays as it is.
    program = model.program.clone()
    block = program.global_block()
    floats = [name for name in model.fetch_names if block.var(name).dtype in FLOATS and block.var(name).type == TENSOR]
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
    fetches = [*model.fetch_names, *names]
    return OnnxModel(program, list(model.feed_names), fetches, dict(model.parameters), {}, [*model.gradient_names, *names], model.ends)


def _named(variables: Mapping[str, Variable], name: str, known: Sequence[str], what: str) -> Variable:
    if name not in known:
        raise InvalidValue(f"{name!r} is no {what} of the model{_known(name, known)}")
    return variables[name]


def _gradient(source: Variable, gradient: Variable | None) -> str:
    """The name of a gradient; of zeros where there is none."""
    if gradient is not None:
        return gradient.name
    block = source.block
    name = block.program.names.generate(f"{source.name}@GRAD")
    block.append_op("fill_zeros_like", {"X": source}, {"Out": name})
    return name
