"""Programs together with the values of their parameters, in two files beside each other."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.interop.commit import read_together, write_together
from graphad.interop.files import PathLike
from graphad.interop.formats import format_of, program_bytes, program_from
from graphad.interop.schema import message
from graphad.interop.tensors import read_tensors, write_tensors
from graphad.program import Program, Variable
from graphad.types import DTYPES, FLOATS, TENSOR

Array = NDArray[Any]

_TENSOR_KINDS = (7, 8)  # LOD_TENSOR, SELECTED_ROWS


class Saved(NamedTuple):
    """A program, and the values of its persistable variables by name."""

    program: Program
    arrays: dict[str, Array]


def save(program: Program, path: PathLike, scope: Any = None) -> None:
    """Write a program and the values of its persistable variables, both files or none.

    A process that is killed while it saves leaves the old pair or the new one, which ``load`` reads; the next ``save`` into the
    folder removes what it left. (Other programs that read the files may see one of each in the moment between two renames.)

    Args:
        path: of the program; its end says the format. The values go beside it, under the same name with another end: ``.npz``
            for text (``.txt``) and JSON (``.json``), Paddle's ``.pdiparams`` for protobuf (``.pdmodel``).
        scope: the arrays by name, or something that has them as its ``arrays``, as ``graphad.Scope`` does.

    Raises:
        ValueError: a persistable variable has no value, or one of another shape than declared, or the path has no known end.
        TypeError: a value is no array of numbers.
        OSError: a file cannot be written.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"save takes a Program, not {program!r}")
    given = getattr(scope, "arrays", scope)
    if not isinstance(given, Mapping | None):
        raise InvalidType(f"the values to save are a dict from name to array, or a Scope, not {scope!r}")
    arrays = {name: _checked(var, (given or {}).get(name)) for name, var in kept_variables(program).items()}
    values = _values_path(path)
    if values.suffix == ".npz":
        data = _npz(arrays)
    else:
        data = write_tensors({name: _as_declared(program, name, array) for name, array in arrays.items()})
    write_together(values.parent, {values.name: data, Path(path).name: program_bytes(program, path)})


def load(path: PathLike) -> Saved:
    """Read what ``save`` wrote: the program, and the values to hand to a scope. Nothing in the files is run (no pickles).

    Raises:
        ParseError: a file is not what its name says, or the values do not fit the program; the message names it.
        ValueError: the path has no known end.
        OSError: a file cannot be read.
    """
    values = _values_path(path)
    text, data = read_together(values.parent, (Path(path).name, values.name))
    program = program_from(text, path)
    known = kept_variables(program)
    try:
        arrays = _from_npz(data) if values.suffix == ".npz" else read_tensors(data, sorted(known))
        check_values(known, arrays)
    except (InvalidValue, InvalidType) as error:
        raise ParseError(f"{os.fspath(values)}: {error}") from None
    return Saved(program, arrays)


def kept_variables(program: Program) -> dict[str, Variable]:
    """The variables whose values outlive a run, but for those that hold no tensor (what feeds and fetches go through)."""
    return {var.name: var for var in program.list_vars() if var.persistable and _holds_tensor(var)}


def check_values(known: Mapping[str, Variable], arrays: Mapping[str, Array]) -> None:
    """Refuse values that lack a variable, have one too many, or one of another shape or kind than declared."""
    missing, unknown = sorted(known.keys() - arrays.keys()), sorted(arrays.keys() - known.keys())
    if missing or unknown:
        raise ParseError(f"the program keeps other variables than there are values for: it lacks {missing}, and has {unknown} too many")
    for name in sorted(known):
        _checked(known[name], arrays[name])


def _holds_tensor(var: Variable) -> bool:
    return var.type == TENSOR and (var.stored is None or message("VarDesc").FromString(var.stored).type.type in _TENSOR_KINDS)


def _values_path(path: PathLike) -> Path:
    known = format_of(path)
    if known is None or not Path(path).suffix:
        raise InvalidValue(f"{os.fspath(path)!r} ends in none of .txt, .json and .pdmodel, so that it does not say the format")
    return Path(path).with_suffix(".pdiparams" if known == "protobuf" else ".npz")


def _checked(var: Variable, value: Any) -> Array:
    if value is None:
        raise InvalidValue(f"{var!r} has no value among those handed in: run the startup program, or set it")
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic | list | int | float) else None
    if array is None or array.dtype.name not in DTYPES:
        raise InvalidType(f"the value of {var.name!r} is no array of numbers but {type(value).__name__}")
    shape, dtype = var.declared
    fits = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
    if not fits or (dtype is not None and dtype != array.dtype and not (dtype in FLOATS and array.dtype.kind == "f")):
        raise InvalidValue(f"the value of {var.name!r} is {array.dtype}{list(array.shape)}, but it is declared {var!r}")
    return array


def _as_declared(program: Program, name: str, array: Array) -> Array:
    dtype = kept_variables(program)[name].declared[1]
    return array if dtype is None else array.astype(dtype, copy=False)


# -- .npz ----------------------------------------------------------------------------------------

# The comment of an archive whose names are quoted as in URLs. Names that any archive holds are written as they are, so that
# numpy.load shows them.
_QUOTED = b"names are percent-encoded"
_LONGEST_NAME = 60_000  # bytes; a field of 16 bits holds it


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """The archive that ``numpy.load`` reads: the same bytes for the same arrays, under any names."""
    buffer = io.BytesIO()
    quoted = not all(map(_is_plain, arrays))
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            npy.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{_quote(name) if quoted else name}.npy"), content.getvalue())
        archive.comment = _QUOTED if quoted else b""
    return buffer.getvalue()


def _is_plain(name: str) -> bool:
    """Whether an archive gives the name back as it is: zip files end names at NUL, and hold them as UTF-8."""
    if len(name.encode(errors="replace")) > _LONGEST_NAME:
        raise InvalidValue(f"the name {name[:40]!r}... has {len(name)} characters; an archive holds at most {_LONGEST_NAME} bytes")
    return "\0" not in name and zipfile.ZipInfo(name).filename == name and not any("\ud800" <= c <= "\udfff" for c in name)


def _quote(name: str) -> str:
    written = quote(name, safe="", errors="surrogatepass")
    if len(written) > _LONGEST_NAME:
        raise InvalidValue(f"the name {name[:40]!r}... has {len(written)} bytes in an archive, which holds at most {_LONGEST_NAME}")
    return written


def _from_npz(data: bytes) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {member.removesuffix(".npy"): _member(archive, member) for member in archive.namelist()}
            quoted = archive.comment == _QUOTED
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, KeyError, OSError) as error:
        raise ParseError(f"it is not an archive of arrays: {error}") from None
    return {unquote(name, errors="surrogatepass"): array for name, array in members.items()} if quoted else members


def _member(archive: zipfile.ZipFile, member: str) -> Array:
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)
