"""Programs together with the values of their parameters, in two files beside each other."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, overload
from urllib.parse import quote, unquote

import numpy as np
from numpy.lib import format as npy

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.execution.scope import global_scope
from graphad.interop.files import PathLike, naming, read_together, write_together
from graphad.interop.formats import format_of, program_bytes, program_from
from graphad.interop.paddle.program_desc import message
from graphad.interop.paddle.tensors import read_tensors, write_tensors
from graphad.program import Program, Variable
from graphad.types import DTYPES, FLOATS, TENSOR, Array

_TENSOR_KINDS = (7, 8)  # LOD_TENSOR, SELECTED_ROWS


class Saved(NamedTuple):
    """A program, and the values of its persistable variables by name."""

    program: Program
    arrays: dict[str, Array]


def save(program: Program, path: PathLike, scope: object = None) -> None:
    """Write a program and the values of its persistable variables, both files or none.

    A process that is killed while it saves leaves the old pair or the new one, which ``load`` reads; the next ``save`` into the
    folder removes what it left. (Other programs that read the files may see one of each in the moment between two renames.)

    Args:
        path: of the program; its end says the format. The values go beside it, under the same name with another end: ``.npz``
            for text (``.txt``) and JSON (``.json``), Paddle's ``.pdiparams`` for protobuf (``.pdmodel``). A path without an end is a
            prefix, as in Fluid: ``.pdmodel`` is added.
        scope: the arrays by name, or something that has them as its ``arrays``, as ``graphad.Scope`` does; the global scope if None.

    Raises:
        ValueError: a persistable variable has no value, or one of another shape than declared, or the path has no known end.
        TypeError: a value is not an array of numbers.
        OSError: a file cannot be written.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"save takes a Program, not {program!r}")
    path = _with_end(path)
    values = _values_path(path)
    values_by_name = global_scope().arrays if scope is None else getattr(scope, "arrays", scope)
    if not isinstance(values_by_name, Mapping):
        raise InvalidType(f"the values to save are a dict from name to array, or a Scope, not {scope!r}")
    # Checked before any file is opened.
    variables = kept_variables(program)
    arrays = {name: _checked(var, values_by_name.get(name)) for name, var in variables.items()}
    if values.suffix == ".npz":
        data = _npz(arrays)
    else:
        data = write_tensors({name: _as_declared(variables[name], array) for name, array in arrays.items()})
    contents = {values.name: data, Path(path).name: program_bytes(program, path)}
    with naming(path, instead_of=values.parent):
        write_together(values.parent, contents)


@overload
def load(path: PathLike) -> Saved: ...


@overload
def load(path: Program, model_path: PathLike, executor: object = None, var_list: Sequence[Variable] | None = None) -> None: ...


def load(
    path: PathLike | Program, model_path: PathLike | None = None, executor: object = None, var_list: Sequence[Variable] | None = None
) -> Saved | None:
    """Read what ``save`` wrote: the program, and the values to put into a scope. Nothing in the files is run (no pickles).

    Fluid's ``load(program, model_path)`` puts the values of a program's persistable variables into the global scope instead.

    Args:
        path: what ``save`` was given; or a Program.
        model_path: with a Program: what ``save`` was given.
        executor: Fluid's, without effect.
        var_list: with a Program: the variables whose values are set; all that are persistable if None.

    Raises:
        ParseError: a file is not what its name says, or the values do not fit the program; the message names it.
        ValueError: the path has no known end, or a variable of the program has no value there, or one of another shape.
        OSError: a file cannot be read.
    """
    if isinstance(path, Program):
        if model_path is None:
            raise InvalidType("load(program, model_path) needs the path that save was given")
        _set_values(path, load(model_path).arrays, var_list)
        return None
    if model_path is not None:
        raise InvalidType(f"load takes a path alone, or a Program and a path, not {path!r} and {model_path!r}")
    path = _with_end(path)
    values = _values_path(path)
    text, data = read_together(values.parent, (Path(path).name, values.name))
    program = program_from(text, path)
    variables = kept_variables(program)
    try:
        arrays = _from_npz(data, variables) if values.suffix == ".npz" else read_tensors(data, sorted(variables))
        check_values(variables, arrays)
    except (InvalidValue, InvalidType) as error:
        raise ParseError(f"{os.fspath(values)}: {error}") from None
    return Saved(program, arrays)


def _set_values(program: Program, arrays: Mapping[str, Array], var_list: Sequence[Variable] | None) -> None:
    """Put values into the global scope, all or none of them."""
    variables = kept_variables(program) if var_list is None else {var.name: var for var in var_list}
    values = {name: _checked(var, arrays.get(name)) for name, var in variables.items()}
    for name, array in values.items():
        global_scope().set(name, array)


def _with_end(path: PathLike) -> PathLike:
    """The path; one without an end is a prefix, as Fluid's."""
    is_prefix = isinstance(path, str | os.PathLike) and Path(path).name and not Path(path).suffix and format_of(path) is None
    return f"{os.fspath(path)}.pdmodel" if is_prefix else path


def kept_variables(program: Program) -> dict[str, Variable]:
    """The variables whose values outlive a run, except for those that hold no tensor (what feeds and fetches go through)."""
    return {var.name: var for var in program.list_vars() if var.persistable and _holds_tensor(var)}


def check_values(known: Mapping[str, Variable], arrays: Mapping[str, Array]) -> None:
    """Refuse values that lack a variable, have one too many, or one of another shape or kind than declared."""
    _check_names(known, arrays)
    for name in sorted(known):
        _checked(known[name], arrays[name])


def _check_names(known: Mapping[str, Variable], names: Collection[str]) -> None:
    absentees, unknown = sorted(known.keys() - set(names)), sorted(set(names) - known.keys())
    if absentees or unknown:
        raise ParseError(f"the program keeps other variables than there are values for: it lacks {absentees}, and has {unknown} too many")


def _holds_tensor(var: Variable) -> bool:
    return var.type == TENSOR and (var.stored is None or message("VarDesc").FromString(var.stored).type.type in _TENSOR_KINDS)


def _values_path(path: PathLike) -> Path:
    format_name = format_of(path)
    if format_name is None or not Path(path).suffix:
        raise InvalidValue(f"{os.fspath(path)!r} ends in none of .txt, .json and .pdmodel, so that it does not say the format")
    return Path(path).with_suffix(".pdiparams" if format_name == "protobuf" else ".npz")


def _checked(var: Variable, value: object) -> Array:
    if value is None:
        raise InvalidValue(f"{var!r} has no value among those passed in: run the startup program, or set it")
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic | list | int | float) else None
    if array is None or array.dtype.name not in DTYPES:
        raise InvalidType(f"the value of {var.name!r} is no array of numbers but {type(value).__name__}")
    _check_type(var, array.shape, array.dtype)
    return array


def _check_type(var: Variable, extents: Sequence[int], kind: np.dtype[np.generic]) -> None:
    shape, dtype = var.declared
    has_shape = shape is None or (len(shape) == len(extents) and all(e in (-1, a) for e, a in zip(shape, extents, strict=True)))
    if not has_shape or (dtype is not None and dtype != kind and not (dtype in FLOATS and kind.kind == "f")):
        raise InvalidValue(f"the value of {var.name!r} is {kind}{list(extents)}, but it is declared {var!r}")


def _as_declared(var: Variable, array: Array) -> Array:
    dtype = var.declared[1]
    return array if dtype is None else array.astype(dtype, copy=False)


# -- .npz ----------------------------------------------------------------------------------------

# The comment of an archive whose names are quoted as in URLs. Names that any archive holds are written as they are, so that
# numpy.load shows them.
_QUOTED = b"names are percent-encoded"
_LONGEST_NAME = 60_000  # bytes; a field of 16 bits holds it


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """The archive that ``numpy.load`` reads: the same bytes for the same arrays, under any names."""
    buffer = io.BytesIO()
    has_quotes = not all(map(_is_plain, arrays))
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            npy.write_array(content, array, allow_pickle=False)
            # A ZipInfo without a time has the year 1980: the same bytes whenever it is written.
            archive.writestr(zipfile.ZipInfo(f"{_quote(name) if has_quotes else name}.npy"), content.getvalue())
        archive.comment = _QUOTED if has_quotes else b""
    return buffer.getvalue()


def _is_plain(name: str) -> bool:
    """Whether an archive gives the name back as it is: zip files end names at NUL, and hold them as UTF-8."""
    if len(name.encode(errors="replace")) > _LONGEST_NAME:
        raise InvalidValue(f"the name {name[:40]!r}... has {len(name)} characters; an archive holds at most {_LONGEST_NAME} bytes")
    return "\0" not in name and zipfile.ZipInfo(name).filename == name and not any("\ud800" <= c <= "\udfff" for c in name)


def _quote(name: str) -> str:
    entry_name = quote(name, safe="", errors="surrogatepass")
    if len(entry_name) > _LONGEST_NAME:
        raise InvalidValue(f"the name {name[:40]!r}... has {len(entry_name)} bytes in an archive, which holds at most {_LONGEST_NAME}")
    return entry_name


def _name_of(archive: zipfile.ZipFile, member: str) -> str:
    """The name of the variable that a member of an archive holds."""
    return unquote(member, errors="surrogatepass") if archive.comment == _QUOTED else member


def _from_npz(data: bytes, known: Mapping[str, Variable]) -> dict[str, Array]:
    """The arrays of an archive. What does not fit the variables is refused before it is unpacked: it may unpack to any size."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {_name_of(archive, info.filename.removesuffix(".npy")): info for info in archive.infolist()}
            _check_names(known, members)
            return {name: _member(archive, info, known[name]) for name, info in members.items()}
    except (InvalidValue, InvalidType):
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, KeyError, OSError, zlib.error) as error:
        raise ParseError(f"it is not an archive of arrays: {error}") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, var: Variable) -> Array:
    with archive.open(info) as file:
        version = npy.read_magic(file)
        # 2.0 has room for a longer header than 1.0; 3.0 is 2.0 in UTF-8, for names of fields, which arrays of numbers have none of.
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if not dtype.hasobject:  # numpy refuses objects below
            _check_member(var, shape, dtype, info.file_size - file.tell())
    with archive.open(info) as file:
        return npy.read_array(file, allow_pickle=False)


def _check_member(var: Variable, shape: Sequence[int], dtype: np.dtype[np.generic], stored: int) -> None:
    size = math.prod(shape) * dtype.itemsize
    if stored != size:
        raise ValueError(f"the value of {var.name!r} takes {size} bytes as {dtype}{list(shape)}, not {stored}")
    if dtype.name not in DTYPES:
        raise InvalidType(f"the value of {var.name!r} is no array of numbers but of {dtype}")
    _check_type(var, shape, dtype)
