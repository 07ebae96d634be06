"""Programs from and to files, in any of three formats: text, JSON and Paddle's protobuf."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import NamedTuple

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.interop.files import STREAM, PathLike, read_bytes, write_bytes
from graphad.interop.json_form import from_json, to_json
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.program import Program


class Format(NamedTuple):
    """How programs are read and written, and the ends of file names that say so."""

    read: Callable[[bytes, str, bool | None], Program]
    write: Callable[[Program], bytes]
    suffixes: tuple[str, ...]


def _text(data: bytes) -> str:
    try:
        # With or without a byte order mark, which editors on Windows write.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(f"byte {error.start} is not UTF-8") from None


def _read_text(data: bytes, file: str, allow_unknown: bool | None) -> Program:
    return Program.parse(_text(data), file, allow_unknown=allow_unknown)


def _read_json(data: bytes, _: str, allow_unknown: bool | None) -> Program:
    return from_json(_text(data), allow_unknown=allow_unknown)


FORMATS: Mapping[str, Format] = {
    "text": Format(_read_text, lambda program: str(program).encode(), (".txt",)),
    "json": Format(_read_json, lambda program: to_json(program).encode(), (".json",)),
    "protobuf": Format(lambda data, _file, _unknown: load_program(data), dump_program, (".pdmodel", ".pb", "__model__")),
}
_FIRST_BYTES = {  # of a protobuf: the tag of block 0
    "text": re.compile(rb"(\xef\xbb\xbf)?\s*program[\s{]"),
    "json": re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*["}]'),
    "protobuf": re.compile(rb"\n"),
}


def read_program(source: PathLike, format: str | None = None, *, allow_unknown: bool | None = None) -> Program:
    """The program in a file.

    Args:
        source: a path, or ``-`` for standard input.
        format: "text", "json" or "protobuf"; None tells it by the end of the name, else by the first bytes.
        allow_unknown: of text and JSON, as in ``Program.parse``; Paddle's operators that graphad does not have always stay.

    Raises:
        ParseError: the file is none of a program; the message names it and the place in it.
        ValueError: an unknown format.
        OSError: the file cannot be read.
    """
    _check_format(format)
    return program_from(read_bytes(source), source, format, allow_unknown=allow_unknown)


def program_from(data: bytes, source: PathLike, format: str | None = None, *, allow_unknown: bool | None = None) -> Program:
    """The program in the bytes of a file; raises as ``read_program`` does."""
    format_name = _named(source, format)
    name = "standard input" if source == STREAM else os.fspath(source)
    try:
        return FORMATS[format_name or recognized(data)].read(data, name, allow_unknown)
    except ParseError as error:
        raise ParseError(f"{name}: {error}") from None


def write_program(program: Program, target: PathLike, format: str | None = None) -> None:
    """Write a program to a file, as a whole or not at all.

    Args:
        target: a path, or ``-`` for standard output.
        format: "text", "json" or "protobuf"; None tells it by the end of the name; on standard output it is text.

    Raises:
        TypeError: ``program`` is not a Program.
        ValueError: the format is unknown, or the name does not say it; the program has no form in it.
        OSError: the file cannot be written.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"write_program takes a Program, not {program!r}")
    write_bytes(target, program_bytes(program, target, format))


def program_bytes(program: Program, target: PathLike, format: str | None = None) -> bytes:
    """The bytes that a program's file is to hold; ValueError as ``write_program`` raises it."""
    format_name = _named(target, format) or ("text" if target == STREAM else None)
    if format_name is None:
        suffixes = ", ".join(suffix for item in FORMATS.values() for suffix in item.suffixes)
        raise InvalidValue(f"the name {os.fspath(target)!r} does not say in which format to write: give it one of {suffixes}, or a format")
    return FORMATS[format_name].write(program)


def format_of(path: PathLike) -> str | None:
    """The format that the end of a file's name says, None if it says none."""
    name = PurePath(path).name.lower()
    return next((format_name for format_name, item in FORMATS.items() if name.endswith(item.suffixes)), None)


def _named(path: PathLike, format: str | None) -> str | None:
    _check_format(format)
    return format or format_of(path)


def _check_format(format: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise InvalidValue(f"format is one of {', '.join(FORMATS)}, not {format!r}")


def recognized(data: bytes) -> str:
    """The format that the first bytes of a file say; ParseError if they say none."""
    for format_name, pattern in _FIRST_BYTES.items():
        if pattern.match(data):
            return format_name
    raise ParseError("it is empty" if not data else f"{data[:12]!r} begins neither a program's text, nor its JSON, nor its protobuf")
