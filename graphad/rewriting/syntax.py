"""The text of pipelines.

pipeline = call ("," call)*
call     = name ["{" option "=" value, ... "}"] ["(" pipeline ")"]
value    = true | false | none | number | word | "string" | "[" value, ... "]"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from graphad.errors import InvalidType, ParseError

_TOKEN = re.compile(r'\s*([{}()\[\]=,]|"(?:[^"\\]|\\.)*"|[^\s{}()\[\]=,"]+)')
_WORD = re.compile(r'[^\s{}()\[\]=,"]+')
MAX_DEPTH = 64  # of brackets in brackets, and of passes in passes
_CONSTANTS = {"true": True, "false": False, "none": None}


@dataclass
class Call:
    """A pass by name, with its options and, for a combinator, the passes inside."""

    name: str
    text: str
    place: int
    options: dict[str, Any] = field(default_factory=dict)
    inner: list[Call] = field(default_factory=list)

    def fail(self, message: str) -> NoReturn:
        """Raise a ``ParseError`` that points at this call."""
        _fail(self.text, self.place, message)


def _fail(text: str, place: int, message: str) -> NoReturn:
    begin = text.rfind("\n", 0, place) + 1
    line = text[begin:].split("\n", 1)[0]
    raise ParseError(f"{message}\n  {line}\n  {' ' * (place - begin)}^")


def parse_calls(text: str) -> list[Call]:
    """The calls of a pipeline's text; ``ParseError`` points at the character."""
    if not isinstance(text, str):
        raise InvalidType(f"a pipeline is parsed from text, not from {text!r}")
    reader = _Reader(text)
    calls = reader.calls(end="")
    if not calls:
        _fail(text, 0, "the pipeline is empty")
    return calls


def print_option(value: Any) -> str:
    """An option's value as text that reads back."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list | frozenset):
        return f"[{', '.join(map(print_option, sorted(value) if isinstance(value, frozenset) else value))}]"
    text = str(value)
    return text if _WORD.fullmatch(text) and isinstance(_constant(text), str) else json.dumps(text)


def _constant(word: str) -> Any:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0

    @contextmanager
    def nested(self, start: int) -> Iterator[None]:
        """Within it, brackets inside brackets; ParseError if there are too many."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _fail(self.text, start, f"brackets are nested more than {MAX_DEPTH} deep")
        yield
        self.depth -= 1

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.place)
        if match is None and self.text[self.place :].strip():
            _fail(self.text, self._start(), "unexpected character")
        return match[1] if match else ""

    def take(self) -> str:
        token = self.peek()
        self.place = self._start() + len(token)
        return token

    def _start(self) -> int:
        return len(self.text) - len(self.text[self.place :].lstrip())

    def expect(self, mark: str) -> None:
        if self.peek() != mark:
            _fail(self.text, self._start(), f"expected {mark!r}, found {self.peek() or 'the end'!r}")
        self.take()

    def calls(self, end: str) -> list[Call]:
        result: list[Call] = []
        while self.peek() != end:
            if result:
                self.expect(",")
            result.append(self.call())
        return result

    def call(self) -> Call:
        start = self._start()
        if not _WORD.fullmatch(self.peek()):
            _fail(self.text, start, f"expected the name of a pass, found {self.peek() or 'the end'!r}")
        call = Call(self.take(), self.text, start)
        if self.peek() == "{":
            self.take()
            call.options = self.options()
        if self.peek() == "(":
            with self.nested(self._start()):
                self.take()
                call.inner = self.calls(")")
                self.expect(")")
        return call

    def options(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while self.peek() != "}":
            if result:
                self.expect(",")
            start, name = self._start(), self.take()
            if not name.isidentifier():
                _fail(self.text, start, f"expected the name of an option, found {name or 'the end'!r}")
            if name in result:
                _fail(self.text, start, f"option {name} is given twice")
            self.expect("=")
            result[name] = self.value()
        self.expect("}")
        return result

    def value(self) -> Any:
        start, token = self._start(), self.take()
        if token == "[":
            with self.nested(start):
                return self.items()
        if token.startswith('"'):
            try:
                return json.loads(token)
            except ValueError as error:
                _fail(self.text, start, f"not a string: {error}")
        if not _WORD.fullmatch(token):
            _fail(self.text, start, f"expected a value, found {token or 'the end'!r}")
        return _constant(token)

    def items(self) -> list[Any]:
        items: list[Any] = []
        while self.peek() != "]":
            if items:
                self.expect(",")
            items.append(self.value())
        self.expect("]")
        return items
