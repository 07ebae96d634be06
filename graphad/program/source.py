"""The user's line: where an operator was written, for errors and drawings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from re import compile as pattern
from types import FrameType, TracebackType
from typing import NamedTuple, TypeVar

from graphad.contexts import binding
from graphad.errors import GraphadError, InvalidType, InvalidValue

_PACKAGE = Path(__file__).resolve().parent.parent
# In a checkout the passes are a link to a folder outside of the package; contextlib's frames lie between a ``with`` and what it wraps.
_OURS = (_PACKAGE, (_PACKAGE / "passes").resolve(), Path(contextlib.__file__).resolve())


# How files say in which scopes an operator was written: an attribute of Paddle's, op_namescope="/encoder/layer_0/".
NAMESCOPE = "op_namescope"
_WRITTEN_SCOPE = pattern("/([^/]+/)+")
T = TypeVar("T")


class SourceLine(NamedTuple):
    """A file and a line in it, and the names of the scopes that it was run in (``encoder/layer_0``; empty outside of any).

    It is false where only the scopes are known, as of a program that was read from a text.
    """

    file: str
    line: int
    scope: str = ""

    def __bool__(self) -> bool:
        return bool(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def line_of(function: object) -> SourceLine | None:
    """The first line of a function's definition; None for one that is not written in Python."""
    code = getattr(function, "__code__", None)
    return None if code is None else SourceLine(code.co_filename, code.co_firstlineno)


_our_files: dict[str, bool] = {}
_MOST_FILES = 4096


def _is_ours(file: str) -> bool:
    """Whether a file is graphad's own, found out and remembered."""
    if len(_our_files) >= _MOST_FILES:
        _our_files.clear()
    path = Path(file).resolve()
    is_ours = _our_files[file] = any(path.is_relative_to(folder) for folder in _OURS)
    return is_ours


@lru_cache(maxsize=65536)
# One object for a line and a scope: a layer in a loop writes thousands of operators at one line.
def _shared(file: str, line: int, scope: str) -> SourceLine:
    return SourceLine(file, line, scope)


_SCOPE: ContextVar[str] = ContextVar("graphad name scope", default="")


@contextmanager
def name_scope(name: str) -> Iterator[None]:
    """Within it, operators belong to a group of this name, and to those around it; what the backward makes of them does too.

    Nothing is computed differently and no variable is named differently: drawings put a frame around the group, or close it. Two
    scopes of one name in the same scope are one group.

    Raises:
        TypeError: the name is not a string.
        ValueError: it is empty, or has a ``/``, which joins the names of nested scopes.

    >>> import graphad as ga
    >>> main = ga.Program()
    >>> with ga.program_guard(main), ga.name_scope("encoder"), ga.name_scope("layer_0"):
    ...     y = ga.layers.tanh(ga.layers.data("x", [3]))
    >>> main.global_block().ops[0].source.scope
    'encoder/layer_0'
    """
    if not isinstance(name, str):
        raise InvalidType(f"a name scope has a name, not {name!r}")
    if not name or "/" in name:
        raise InvalidValue(f"the name of a scope is not empty and has no /: {name!r}; scopes are nested with `with`")
    around = _SCOPE.get()
    with binding(_SCOPE, f"{around}/{name}" if around else name):
        yield


def user_line() -> SourceLine | None:
    """The nearest line on the stack outside graphad; None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        is_ours = _our_files.get(file)
        if not (_is_ours(file) if is_ours is None else is_ours):
            return _shared(file, frame.f_lineno, _SCOPE.get())
        frame = frame.f_back
    return None


def with_scope(attrs: Mapping[str, T], source: SourceLine | None) -> dict[str, T | str]:
    """The attributes of an operator as files have them: the last one is its name scope, if it has one.

    >>> with_scope({"axis": 1}, SourceLine("net.py", 3, "encoder/layer_0"))
    {'axis': 1, 'op_namescope': '/encoder/layer_0/'}
    """
    scope = f"/{source.scope}/" if source is not None and source.scope else None
    if scope is None and NAMESCOPE not in attrs:
        return dict(attrs)
    rest: dict[str, T | str] = {name: value for name, value in attrs.items() if name != NAMESCOPE}
    return {**rest, NAMESCOPE: attrs.get(NAMESCOPE) or scope or ""}


def without_scope(attrs: dict[str, T], source: SourceLine | None) -> tuple[dict[str, T], SourceLine | None]:
    """The other way round: the name scope goes to the line, so that passes neither compare it nor have to carry it.

    >>> without_scope({"op_namescope": "/encoder/layer_0/"}, None)
    ({}, SourceLine(file='', line=0, scope='encoder/layer_0'))
    """
    scope = attrs.get(NAMESCOPE)
    if not isinstance(scope, str) or _WRITTEN_SCOPE.fullmatch(scope) is None:
        return attrs, source
    rest = {name: value for name, value in attrs.items() if name != NAMESCOPE}
    file, line = ("", 0) if source is None else (source.file, source.line)
    return rest, _shared(file, line, scope.strip("/"))


class at_users_line:
    """Within it, an error that graphad raises on purpose says what it is about, and shows the user's line."""

    # A class and not a generator, since every layer enters several of them.
    __slots__ = ("what",)

    def __init__(self, what: str = "") -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not isinstance(error, GraphadError) or "written at" in str(error):
            return
        message = str(error)
        prefix = "" if not self.what or self.what in message else f"{self.what}: "
        raise type(error)(located(prefix + message, user_line())) from None


def located(message: str, source: SourceLine | None) -> str:
    """The message followed by the user's line."""
    return f"{message}\n  written at {source}" if source else message
