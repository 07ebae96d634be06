"""Programs read back from text; the grammar is in ``graphad.program.text``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from graphad.errors import GraphadError, InvalidType, InvalidValue, ParseError, pointed
from graphad.ops import ControlDef, find
from graphad.program.block import Block, check_control
from graphad.program.clipping import error_clip, unlisted
from graphad.program.operator import FORWARD, ROLES, Operator, check_distinct, check_known
from graphad.program.source import SourceLine, without_scope
from graphad.program.variable import L1Decay, L2Decay, Parameter, Variable
from graphad.types import KINDS, NOT_NAMES, TENSOR

if TYPE_CHECKING:
    from graphad.program.program import Program

T = TypeVar("T")


# -- reader ----------------------------------------------------------------------------------------
# Tokens of a program's text, one at a time.

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
            # No token: past white space is the end, or a character that begins none.
            # ``start`` is where an error points.
            self.start = self.place = len(self.text) - len(self.text[self.place :].lstrip())
            if self.place < len(self.text):
                self.fail(f"unexpected character {self.text[self.place]!r}")
            return "end", ""
        self.start, self.place = match.start(match.lastindex or 0), match.end()
        return ("mark", "string", "word", "number")[(match.lastindex or 1) - 1], match[match.lastindex or 0]

    def at(self, mark: str) -> bool:
        return self.peek()[1] == mark and self.peek()[0] != "string"

    def take(self, mark: str) -> bool:
        matches = self.at(mark)
        if matches:
            self.next()
        return matches

    def take_word(self, known: Container[str]) -> str | None:
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
        # As in Python, which refuses to convert longer ones: the work would be quadratic.
        """A whole number as int, another one as float."""
        token = self.peek()[1]
        if len(token) > LONGEST:
            self.fail(f"a number of {len(token)} characters; the longest has {LONGEST}")
        # int first, so that whole numbers stay exact.
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
        # Only words are left that are no booleans.
        return word == "true"

    def table(self, close: str, value: Callable[[Reader], T]) -> dict[str, T]:
        """``name = value`` pairs separated by commas up to ``close``."""
        result: dict[str, T] = {}

        def pair() -> None:
            name = self.word()
            if name in result:
                self.fail(f"{name!r} is given twice")
            self.expect("=")
            result[name] = value(self)

        self.listed(close, pair)
        return result

    def listed(self, close: str, item: Callable[[], T]) -> list[T]:
        """Items separated by commas up to ``close``."""
        items: list[T] = []
        while not self.take(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def line(self) -> int:
        # Counted from the last place that was requested: all lines of a text take one pass.
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
        column = self.start - self.text.rfind("\n", 0, self.start)
        raise ParseError(f"line {line}, column {column}: {message}\n{pointed(self.text, self.start)}")


# -- parsing ---------------------------------------------------------------------------------------
# Programs read back from text; the grammar is in ``graphad.program.text``.

MAX_DEPTH = 64


def parse_program(text: str, program: Program, file: str | None = None, allow_unknown: bool | None = None) -> None:
    """Fill an empty program from its text; ``ParseError`` points at what is wrong. Operators know their lines in a file that is named."""
    reader = Reader(text, file)
    try:
        _program(reader, program, allow_unknown)
    except ParseError:
        raise
    # Whatever a constructor refuses is a mistake at this place in the text.
    except (GraphadError, ValueError, OverflowError) as error:
        reader.fail(str(error))


def _program(reader: Reader, program: Program, allow_unknown: bool | None) -> None:
    reader.expect("program")
    if reader.take("seed"):
        program.random_seed = reader.integer()
    reader.expect("{")
    block_count, places = 0, list[int]()
    while not reader.take("}"):
        places += _block(reader, _block_head(reader, program, block_count))
        block_count += 1
    reader.end()
    # Attributes may name blocks that come later in the text: they are looked up when all are read.
    for op, reader.start in zip((op for block in program.blocks for op in block.ops), places, strict=True):
        op.attrs = {name: _resolved(reader, value, program) for name, value in op.attrs.items()}
        definition = find(op.type)
        if isinstance(definition, ControlDef):
            check_control(op, definition)
        if allow_unknown is False:
            check_known(op)
    program.allows_unknown = bool(allow_unknown)


def _block_head(reader: Reader, program: Program, block_count: int) -> Block:
    reader.expect("block")
    idx = reader.integer()
    parent = reader.integer() if reader.take("in") else -1
    # Blocks in order, parents first: an index is known when it is met.
    if idx != block_count or (parent < 0) != (idx == 0) or parent >= max(idx, 1):
        reader.fail(f"block {idx} in {parent} is out of place: blocks count up from 0, each inside an earlier one")
    if idx:
        program.add_block(parent)
    reader.expect("{")
    return program.blocks[idx]


def _block(reader: Reader, block: Block) -> Iterator[int]:
    """Read a block to its end; the places in the text of its operators."""
    while not reader.take("}"):
        word = reader.word()
        # An operator may be called ``var``: it is followed by its slots.
        if word in ("var", "param") and not reader.at("("):
            _variable(reader, block, word)
        else:
            # The place before the operator is read: checks that come later point there.
            yield reader.start
            _operator(reader, block, word)


# -- variables -----------------------------------------------------------------------------------


def _variable(reader: Reader, block: Block, keyword: str) -> None:
    name = reader.word()
    if name in block.vars:
        reader.fail(f"{name!r} is declared twice in block {block.idx}")
    reader.expect(":")
    dtype = None if reader.take("?") else reader.word()
    shape = _shape(reader)
    var = Variable(block, name, shape, dtype) if keyword == "var" else Parameter(block, name, shape, dtype)  # type: ignore[arg-type]
    block.vars[name] = var
    flags = _PARAMETER_FLAGS if isinstance(var, Parameter) else _VARIABLE_FLAGS
    while (flag := reader.take_word(flags)) is not None:
        flags[flag](reader, var)


def _shape(reader: Reader) -> list[int | str] | None:
    reader.expect("[")
    if reader.take("?"):
        reader.expect("]")
        return None
    return reader.listed("]", lambda: _extent(reader))


def _extent(reader: Reader) -> int | str:
    """A number, or a name, bare or quoted."""
    kind, token = reader.peek()
    # ``inf`` and such are words as well, and no extent.
    return reader.word() if kind == "string" or (kind == "word" and token not in NOT_NAMES) else reader.integer()


Flag = Callable[[Reader, Variable], None]


def _set(**values: object) -> Flag:
    def apply(reader: Reader, var: Variable) -> None:
        for name, value in values.items():
            setattr(var, name, value)

    return apply


def _set_number(attribute: str, kind: Callable[[float], object]) -> Flag:
    def apply(reader: Reader, var: Variable) -> None:
        reader.expect("=")
        setattr(var, attribute, kind(float(reader.number())))

    return apply


def _set_listed(attribute: str, made_of: Callable[[object], object]) -> Flag:
    def apply(reader: Reader, var: Variable) -> None:
        reader.expect("=")
        try:
            setattr(var, attribute, made_of(_value(reader)))
        except (InvalidType, InvalidValue) as error:
            reader.fail(f"{attribute} of {var.name!r}: {error}")

    return apply


def _set_stop_gradient(reader: Reader, var: Variable) -> None:
    reader.expect("=")
    var.stop_gradient = reader.boolean()


_VARIABLE_FLAGS: Mapping[str, Flag] = {
    "persistable": _set(persistable=True),
    "stop_gradient": _set(stop_gradient=True),
    "error_clip": _set_listed("error_clip", error_clip),
    **{kind: _set(type=kind) for kind in KINDS if kind != TENSOR},
}
_PARAMETER_FLAGS: Mapping[str, Flag] = {
    "fixed": _set(trainable=False, stop_gradient=True),
    "learning_rate": _set_number("learning_rate", float),
    "l1_decay": _set_number("regularizer", L1Decay),
    "l2_decay": _set_number("regularizer", L2Decay),
    "no_clip": _set(need_clip=False),
    "gradient_clip": _set_listed("gradient_clip", unlisted),
    "error_clip": _set_listed("error_clip", error_clip),
    "stop_gradient": _set_stop_gradient,
}


# -- operators -----------------------------------------------------------------------------------


class _BlockRef(NamedTuple):
    """A block named by an attribute, perhaps before it is read."""

    idx: int


def _operator(reader: Reader, block: Block, op_type: str) -> None:
    # A text that was typed has no lines that would mean something later.
    source = None if reader.file is None else SourceLine(reader.file, reader.line())
    inputs = _slots(reader)
    reader.expect("->")
    op = Operator(block, op_type, inputs, _slots(reader), {}, source=source)
    check_distinct(op)
    if reader.take("{"):
        # ``op_namescope`` is stored with the source line, not as an attribute.
        op.attrs, op.source = without_scope(reader.table("}", _value), source)
    op.role = reader.take_word(ROLES) or FORWARD
    block.ops.append(op)


def _slots(reader: Reader) -> dict[str, list[str]]:
    reader.expect("(")
    return reader.table(")", _names)


def _names(reader: Reader) -> list[str]:
    return reader.listed("]", reader.word) if reader.take("[") else [reader.word()]


def _value(reader: Reader, depth: int = 0) -> object:
    # A text from elsewhere must not exhaust Python's stack.
    if depth > MAX_DEPTH:
        reader.fail(f"lists are nested more than {MAX_DEPTH} deep")
    if reader.take("["):
        return reader.listed("]", lambda: _value(reader, depth + 1))
    if reader.peek()[0] == "string":
        return reader.word()
    if reader.peek()[1] in ("true", "false"):
        return reader.boolean()
    if not reader.take("block"):
        return reader.number()
    reader.expect("(")
    idx = reader.integer()
    reader.expect(")")
    return _BlockRef(idx)


def _resolved(reader: Reader, value: object, program: Program) -> object:
    if isinstance(value, list):
        return [_resolved(reader, item, program) for item in value]
    # Blocks may be named before they are read, so references are resolved at the end.
    if not isinstance(value, _BlockRef):
        return value
    if not 0 <= value.idx < len(program.blocks):
        reader.fail(f"an attribute names block {value.idx}, which is not in the program")
    return program.blocks[value.idx]
