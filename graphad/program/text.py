"""Programs as text, and back.

    program   = "program" ["seed" int] "{" block* "}"
    block     = "block" int ["in" int] "{" (variable | operator)* "}"
    variable  = ("var" | "param") name ":" dtype "[" extents "]" flag*
    operator  = type "(" slots ")" "->" "(" slots ")" ["{" attributes "}"] [role]
    slots     = slot "=" (name | "[" names "]"), ...
    attribute = name "=" value       value: true, false, number, "string", [values], block(int)

A name is written bare where it is made of letters, digits and ``_ . @ / -``, else as a JSON string.
An unknown shape is ``[?]``, an unknown dtype ``?``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from graphad.errors import ParseError
from graphad.program.block import Block
from graphad.program.operator import FORWARD, ROLES, Operator
from graphad.program.variable import KINDS, TENSOR, Parameter, Variable

if TYPE_CHECKING:
    from graphad.program.program import Program

_BARE = re.compile(r"[A-Za-z_][\w.@/-]*(?<!-)")
_TOKEN = re.compile(r'\s*(?:(->|[{}()\[\]:=,?])|("(?:[^"\\]|\\.)*")|([A-Za-z_][\w.@/-]*(?<!-))|(-?(?:inf|nan|\d[\w.+-]*)))', re.ASCII)


# -- printing ------------------------------------------------------------------------------------


def print_program(program: Program) -> str:
    """The text of a program, the same for equal programs."""
    seed = f" seed {program.random_seed}" if program.random_seed else ""
    lines = [line for block in program.blocks for line in _block_lines(block)]
    return "\n".join([f"program{seed} {{", *lines, "}", ""])


def _block_lines(block: Block) -> Iterator[str]:
    around = "" if block.parent_idx < 0 else f" in {block.parent_idx}"
    yield f"  block {block.idx}{around} {{"
    for var in block.vars.values():
        yield "    " + print_variable(var)
    for op in block.ops:
        yield "    " + print_operator(op)
    yield "  }"


def print_name(name: str) -> str:
    """The name, quoted if it is not made of plain characters."""
    return name if _BARE.fullmatch(name) and name.isascii() else json.dumps(name)


def print_variable(var: Variable) -> str:
    """One line for a variable or parameter."""
    shape, dtype = var.declared
    extents = "?" if shape is None else ", ".join(map(str, shape))
    keyword = "param" if isinstance(var, Parameter) else "var"
    return " ".join([f"{keyword} {print_name(var.name)}: {dtype or '?'}[{extents}]", *_flags(var)])


def _flags(var: Variable) -> Iterator[str]:
    if var.type != TENSOR:
        yield var.type
    if isinstance(var, Parameter):
        yield from _parameter_flags(var)
    elif var.persistable:
        yield "persistable"
    if var.stop_gradient != (isinstance(var, Parameter) and not var.trainable):
        yield f"stop_gradient={str(var.stop_gradient).lower()}" if isinstance(var, Parameter) else "stop_gradient"


def _parameter_flags(var: Parameter) -> Iterator[str]:
    if not var.trainable:
        yield "fixed"
    if var.learning_rate != 1.0:
        yield f"learning_rate={print_value(var.learning_rate)}"
    if not var.need_clip:
        yield "no_clip"


def print_operator(op: Operator) -> str:
    """One line for an operator."""
    attrs = f" {{{', '.join(f'{k}={print_value(v)}' for k, v in op.attrs.items())}}}" if op.attrs else ""
    role = "" if op.role == FORWARD else f" {op.role}"
    return f"{op.type}({_print_slots(op.inputs)}) -> ({_print_slots(op.outputs)}){attrs}{role}"


def _print_slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(f"{print_name(slot)}={_print_names(names)}" for slot, names in slots.items())


def _print_names(names: list[str]) -> str:
    return print_name(names[0]) if len(names) == 1 else f"[{', '.join(map(print_name, names))}]"


def print_value(value: Any) -> str:
    """An attribute's value; what it reads back as is equal and of the same type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Block):
        return f"block({value.idx})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(print_value, value))}]"
    raise ParseError(f"an attribute of type {type(value).__name__} has no text form")


# -- parsing -------------------------------------------------------------------------------------


def parse_program(text: str, program: Program) -> None:
    """Fill an empty program from its text."""
    reader = _Reader(text)
    reader.expect("program")
    if reader.take("seed"):
        program.random_seed = int(reader.number())
    pending: list[tuple[Operator, str, int]] = []
    reader.expect("{")
    for idx in iter(lambda: None if reader.take("}") else _block_head(reader, program), None):
        _block_body(reader, program.blocks[idx], pending)
    reader.end()
    for op, attr, idx in pending:
        if not 0 <= idx < len(program.blocks):
            raise ParseError(f"operator {op.type!r}: attribute {attr!r} names block {idx}, which is not in the program")
        op.attrs[attr] = program.blocks[idx]


def _block_head(reader: _Reader, program: Program) -> int:
    reader.expect("block")
    idx = int(reader.number())
    parent = int(reader.number()) if reader.take("in") else -1
    expected = 0 if idx == 0 else len(program.blocks)
    if idx != expected or (parent < 0) != (idx == 0) or parent >= max(idx, 1):
        reader.fail(f"block {idx} in {parent} is out of place: blocks count up from 0, each inside an earlier one")
    if idx:
        program.blocks.append(Block(program, idx, parent))
    reader.expect("{")
    return idx


def _block_body(reader: _Reader, block: Block, pending: list[tuple[Operator, str, int]]) -> None:
    while not reader.take("}"):
        word = reader.word()
        if word in ("var", "param") and not reader.at("("):
            _variable(reader, block, word)
        else:
            _operator(reader, block, word, pending)


def _variable(reader: _Reader, block: Block, keyword: str) -> None:
    name = reader.word()
    if name in block.vars:
        reader.fail(f"{name!r} is declared twice in block {block.idx}")
    reader.expect(":")
    dtype = None if reader.take("?") else reader.word()
    shape = _shape(reader)
    var = Variable(block, name, shape, dtype) if keyword == "var" else Parameter(block, name, shape or (), dtype)
    block.vars[name] = var
    while (flag := reader.take_word(_FLAGS)) is not None:
        _FLAGS[flag](reader, var)


def _shape(reader: _Reader) -> list[int] | None:
    reader.expect("[")
    if reader.take("?"):
        reader.expect("]")
        return None
    return [int(e) for e in reader.listed("]", reader.number)]


def _set(**values: Any) -> Callable[[_Reader, Any], None]:
    def apply(reader: _Reader, var: Any) -> None:
        for name, value in values.items():
            setattr(var, name, value)

    return apply


def _set_learning_rate(reader: _Reader, var: Any) -> None:
    reader.expect("=")
    var.learning_rate = float(reader.number())


def _set_stop_gradient(reader: _Reader, var: Any) -> None:
    var.stop_gradient = reader.word() == "true" if reader.take("=") else True


_FLAGS: dict[str, Callable[[_Reader, Any], None]] = {
    "persistable": _set(persistable=True),
    "stop_gradient": _set_stop_gradient,
    "fixed": _set(trainable=False, stop_gradient=True),
    "learning_rate": _set_learning_rate,
    "no_clip": _set(need_clip=False),
    **{kind: _set(type=kind) for kind in KINDS if kind != TENSOR},
}


def _operator(reader: _Reader, block: Block, op_type: str, pending: list[tuple[Operator, str, int]]) -> None:
    inputs = _slots(reader)
    reader.expect("->")
    op = Operator(block, op_type, inputs, _slots(reader), {})
    if reader.take("{"):
        for name, value in reader.listed("}", lambda: reader.pair(_value)):
            op.attrs[name] = value
            if isinstance(value, _BlockRef):
                pending.append((op, name, value.idx))
    op.role = reader.take_word(ROLES) or FORWARD
    block.ops.append(op)


def _slots(reader: _Reader) -> dict[str, list[str]]:
    reader.expect("(")
    return dict(reader.listed(")", lambda: reader.pair(_names)))


def _names(reader: _Reader) -> list[str]:
    return reader.listed("]", reader.word) if reader.take("[") else [reader.word()]


class _BlockRef:
    def __init__(self, idx: int) -> None:
        self.idx = idx


def _value(reader: _Reader) -> Any:
    if reader.take("["):
        return reader.listed("]", lambda: _value(reader))
    kind, token = reader.next()
    if kind == "string":
        return json.loads(token)
    if token in ("true", "false"):
        return token == "true"
    if token == "block":
        reader.expect("(")
        idx = int(reader.number())
        reader.expect(")")
        return _BlockRef(idx)
    return reader.as_number(token)


class _Reader:
    """Tokens of a text, one at a time; every complaint points at the place."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.start = text, 0, 0
        self._peeked: tuple[str, str] | None = None

    def peek(self) -> tuple[str, str]:
        """The kind and text of the next token; ("end", "") behind the last."""
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
        kind, token = self.peek()
        if kind not in ("word", "string"):
            self.fail(f"expected a name, found {token or 'the end of the text'!r}")
        self.next()
        return str(json.loads(token)) if kind == "string" else token

    def number(self) -> int | float:
        return self.as_number(self.next()[1])

    def as_number(self, token: str) -> int | float:
        for kind in (int, float):
            try:
                return kind(token)
            except ValueError:
                continue
        self.fail(f"expected a number, found {token!r}")
        raise AssertionError

    def pair(self, value: Callable[[_Reader], Any]) -> tuple[str, Any]:
        """A name, ``=``, and what ``value`` reads."""
        name = self.word()
        self.expect("=")
        return name, value(self)

    def listed(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """Items separated by commas up to ``close``."""
        items: list[Any] = []
        while not self.take(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def end(self) -> None:
        if self.peek()[0] != "end":
            self.fail(f"unexpected {self.peek()[1]!r} behind the program")

    def fail(self, message: str) -> None:
        line = self.text.count("\n", 0, self.start) + 1
        begin = self.text.rfind("\n", 0, self.start) + 1
        shown = self.text[begin:].split("\n", 1)[0]
        raise ParseError(f"line {line}, column {self.start - begin + 1}: {message}\n  {shown}\n  {' ' * (self.start - begin)}^")
