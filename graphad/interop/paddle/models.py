"""Models as Paddle stores them for inference: a folder with a program, and its parameters in one file or one file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.interop.files import PathLike, read_bytes, read_committed, write_together
from graphad.interop.formats import read_program
from graphad.interop.paddle.program_desc import dump_program, message
from graphad.interop.paddle.tensors import read_tensor, read_tensors, write_tensors
from graphad.interop.report import unknown_operators
from graphad.interop.saving import check_values, kept_variables
from graphad.program import Program, Variable
from graphad.types import Array


@dataclass(frozen=True)
class InferenceModel:
    """A program that is fed and fetched by name, and the values of its parameters."""

    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    parameters: dict[str, Array] = field(repr=False)

    @property
    def unknown_operators(self) -> dict[str, int]:
        """The operators that graphad cannot run, with how often each occurs."""
        return unknown_operators(self.program)


def load_inference_model(folder: PathLike, program_file: str | None = None, parameters_file: str | None = None) -> InferenceModel:
    """Read a model that Paddle saved for inference.

    Args:
        folder: where the model is, or the path that its files have in common (``folder/inference``).
        program_file: ``__model__`` or the one ``.pdmodel`` there is, if None.
        parameters_file: the ``.pdiparams`` of the program's name, ``__params__`` or ``params``, if None; where there is none,
            each parameter is a file of its name.

    Returns:
        The model. Its program is without the ``feed`` and ``fetch`` operators, whose names it has instead.

    Raises:
        ParseError: a file is not what it should be; the message names it.
        ValueError: there is no program, or more than one.
        OSError: a file cannot be read.
    """
    path = _program_path(Path(folder), program_file)
    program = read_program(path, "protobuf")
    parameters = _parameters(path, parameters_file, kept_variables(program))
    feeds, fetches = _columns(program, "feed"), _columns(program, "fetch")
    _drop(program, {"feed", "fetch"})
    return InferenceModel(program, feeds, fetches, parameters)


def save_inference_model(
    model: InferenceModel, folder: PathLike, program_file: str = "__model__", parameters_file: str | None = None
) -> None:
    """Write a model as Paddle does: a program with ``feed`` and ``fetch`` operators, and its parameters.

    Args:
        model: what ``load_inference_model`` returns, or one made of a program and its values.
        folder: where the files go; it is made if it is not there.
        program_file: the name of the program.
        parameters_file: the one file of all parameters; each is a file of its name if it is None.

    Raises:
        ValueError: a parameter has no value, or what is fed or fetched is no variable of the program.
    """
    variables = kept_variables(model.program)
    check_values(variables, model.parameters)
    for name in (*model.feed_names, *model.fetch_names):
        if not model.program.global_block().has_var(name):
            raise InvalidValue(f"the model feeds or fetches {name!r}, which is no variable of its program")
    contents = {program_file: _with_columns(dump_program(model.program), model)}
    if parameters_file is not None:
        contents[parameters_file] = write_tensors(model.parameters)
    else:
        contents |= {name: write_tensors({name: array}) for name, array in model.parameters.items()}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name in contents:
        # Names of parameters come from programs, which may be anyone's.
        if not (target / name).resolve().is_relative_to(target.resolve()):
            raise InvalidValue(f"parameter {name!r} would be outside of the folder")
    write_together(target, contents)


_FEED, _FETCH, _INT = 9, 10, 0  # FEED_MINIBATCH and FETCH_LIST among the types of variables, INT among those of attributes


def _with_columns(data: bytes, model: InferenceModel) -> bytes:
    """A serialized program with the operators that feed and fetch."""
    desc = message("ProgramDesc").FromString(data)
    block = desc.blocks[0]
    body = list(block.ops)
    block.ClearField("ops")
    # Paddle feeds and fetches by operators at both ends of the block, which number the columns.
    for holder, kind in (("feed", _FEED), ("fetch", _FETCH)):
        var = block.vars.add(name=holder, persistable=True)
        var.type.type = kind
    for column, name in enumerate(model.feed_names):
        _add_column(block, "feed", ("X", "feed"), ("Out", name), column)
    block.ops.extend(body)
    for column, name in enumerate(model.fetch_names):
        _add_column(block, "fetch", ("X", name), ("Out", "fetch"), column)
    return bytes(desc.SerializeToString(deterministic=True))


def _add_column(block: Any, type: str, source: tuple[str, str], target: tuple[str, str], column: int) -> None:
    op = block.ops.add(type=type)
    op.inputs.add(parameter=source[0], arguments=[source[1]])
    op.outputs.add(parameter=target[0], arguments=[target[1]])
    op.attrs.add(name="col", type=_INT, i=column)


def _program_path(folder: Path, name: str | None) -> Path:
    if name is not None:
        return folder / name
    # What is no folder is the stem of Paddle 2's two files; a folder may be Paddle 1's.
    if not folder.is_dir():
        return folder.with_name(f"{folder.name}.pdmodel")
    candidates = [folder / "__model__"] if (folder / "__model__").is_file() else sorted(folder.glob("*.pdmodel"))
    if len(candidates) != 1:
        raise InvalidValue(
            f"{str(folder)!r} has {len(candidates)} programs ({', '.join(p.name for p in candidates) or '__model__, *.pdmodel'}); name one"
        )
    return candidates[0]


def _parameters(program: Path, name: str | None, known: Mapping[str, Variable]) -> dict[str, Array]:
    folder = program.parent
    usual = [program.with_suffix(".pdiparams"), folder / "__params__", folder / "params"]
    file = folder / name if name is not None else next((path for path in usual if path.is_file()), None)
    try:
        # One file holds all, in the order of the names; without one, each has its own.
        arrays = {name: _own_file(folder, name) for name in known} if file is None else read_tensors(read_bytes(file), sorted(known))
        check_values(known, arrays)
    except (InvalidValue, InvalidType) as error:
        raise ParseError(f"{file or folder}: {error}") from None
    return arrays


def _own_file(folder: Path, name: str) -> Array:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ParseError(f"parameter {name!r} would be outside of the folder")
    try:
        return read_tensor(read_committed(folder, name))
    except ParseError as error:
        raise ParseError(f"{name}: {error}") from None


def _columns(program: Program, op_type: str) -> list[str]:
    """The variables of operators that feed or fetch, in the order of their columns."""
    ops = [op for op in program.global_block().ops if op.type == op_type]
    names = [(op.attrs.get("col", 0), op.output("Out") if op_type == "feed" else op.input("X")) for op in ops]
    return [name for _, columns in sorted(names, key=lambda pair: pair[0]) for name in columns]


def _drop(program: Program, types: set[str]) -> None:
    """Take operators away, and the variables that only they touch."""
    block = program.global_block()
    names = {n for op in block.ops if op.type in types for n in (*op.input_names(), *op.output_names())}
    block.ops = [op for op in block.ops if op.type not in types]
    touched_names = {n for ancestor in program.blocks for op in ancestor.ops for n in (*op.input_names(), *op.output_names())}
    block.vars = {name: var for name, var in block.vars.items() if name in touched_names or name not in names}
