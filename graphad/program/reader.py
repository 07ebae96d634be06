"""Tokens of a program's text, one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from graphad.errors import ParseError

_TOKEN = re.compile(r'\s*(?:(->|[{}()\[\]:=,?])|("(?:[^"\\]|\\.)*")|([A-Za-z_][\w.@/-]*(?<!-))|(-?(?:inf|nan|\d[\w.+-]*)))', re.ASCII)


LONGEST = 4300  # characters of a number: what Python reads of an integer


class Reader:
    """Tokens of a text, one at a time; every complaint points at the place."""

    def __init__(self, text: str, file: str | None = None) -> None:
        self.text, self.place, self.start = text, 0, 0
        self.file = file
        self._counted = (0, 1)
        self._peeked: tuple[str, str] | None = None

    def peek(self) -> tuple[str, str]:
        """The kind and text of the next token; ("end", "") after the last."""
        if self._peeked is None:
            self._peeked = self._scan()
        return self._peeked

    def next(self) -> tuple[str, str]:
        token = self.peek()
        self._peeked = None
        return token

    def _scan(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            self.start = self.place = len(self.text) - len(self.text[self.place :].lstrip())
            if self.place < len(self.text):
                self.fail(f"unexpected character {self.text[self.place]!r}")
            return "end", ""
        self.start, self.place = match.start(match.lastindex or 0), match.end()
        return ("mark", "string", "word", "number")[(match.lastindex or 1) - 1], match[match.lastindex or 0]

    def at(self, mark: str) -> bool:
        return self.peek()[1] == mark and self.peek()[0] != "string"

    def take(self, mark: str) -> bool:
        found = self.at(mark)
        if found:
            self.next()
        return found

    def take_word(self, known: Any) -> str | None:
        kind, token = self.peek()
        if kind != "word" or token not in known:
            return None
        return self.next()[1]

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(f"expected {mark!r}, found {self.peek()[1] or 'the end of the text'!r}")

    def word(self) -> str:
        """A name, bare or quoted."""
        kind, token = self.peek()
        if kind not in ("word", "string"):
            self.fail(f"expected a name, found {token or 'the end of the text'!r}")
        self.next()
        return str(json.loads(token)) if kind == "string" else token

    def number(self) -> int | float:
        """A whole number as int, another one as float."""
        token = self.peek()[1]
        if len(token) > LONGEST:
            self.fail(f"a number of {len(token)} characters; the longest has {LONGEST}")
        for kind in (int, float):
            try:
                value = kind(token)
            except ValueError:
                continue
            self.next()
            return value
        self.fail(f"expected a number, found {token or 'the end of the text'!r}")

    def integer(self) -> int:
        """A whole number."""
        value = self.number()
        if not isinstance(value, int):
            self.fail(f"expected a whole number, found {value}")
        return value

    def boolean(self) -> bool:
        """``true`` or ``false``."""
        word = self.take_word(("true", "false"))
        if word is None:
            self.fail(f"expected true or false, found {self.peek()[1] or 'the end of the text'!r}")
        return word == "true"

    def table(self, close: str, value: Callable[[Reader], Any]) -> dict[str, Any]:
        """``name = value`` pairs separated by commas up to ``close``."""
        result: dict[str, Any] = {}

        def pair() -> None:
            name = self.word()
            if name in result:
                self.fail(f"{name!r} is given twice")
            self.expect("=")
            result[name] = value(self)

        self.listed(close, pair)
        return result

    def listed(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """Items separated by commas up to ``close``."""
        items: list[Any] = []
        while not self.take(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def line(self) -> int:
        """The line of the token read last, counted from 1."""
        place, line = self._counted
        line += self.text.count("\n", place, self.start)
        self._counted = (self.start, line)
        return line

    def end(self) -> None:
        if self.peek()[0] != "end":
            self.fail(f"unexpected {self.peek()[1]!r} after the program")

    def fail(self, message: str) -> NoReturn:
        """Raise a ``ParseError`` that points at the token read last."""
        line = self.text.count("\n", 0, self.start) + 1
        begin = self.text.rfind("\n", 0, self.start) + 1
        shown = self.text[begin:].split("\n", 1)[0]
        raise ParseError(f"line {line}, column {self.start - begin + 1}: {message}\n  {shown}\n  {' ' * (self.start - begin)}^")
