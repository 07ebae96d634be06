"""Functions that note which of their lines run.

``sys.settrace`` makes all Python that runs meanwhile several times slower, also what nobody looks at. Here a function gets other bytecode
for a while: wherever a line begins, and wherever a jump arrives, there is a call in addition that notes the number of the line.

    line 7   LOAD_FAST x          ⇒     line 7   PUSH_NULL; LOAD_CONST get; PRECALL 0; CALL 0         get().append(7)
             ...                                 LOAD_METHOD append; LOAD_CONST 7; PRECALL 1; CALL 1; POP_TOP
                                                 LOAD_FAST x
                                                 ...

Jumps, the table of exception handlers and the table of lines are written anew (CPython 3.11 describes them in ``Objects/locations.md`` and
``Objects/exception_handling_notes.txt``). Other versions of Python have other bytecode: there ``Probes.available`` is False.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from types import CodeType, FunctionType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

Step = tuple[int, int]  # from one line to the next; 0 before the first
ENTERED = 0  # what is noted where a function begins
LONGEST = 8  # code units that one entry of the table of lines covers
STACKED = 3  # values that a call that notes a line has on the stack
# What these do the next instruction finishes, and a generator looks at the instructions around the one where it waits.
UNFINISHED = frozenset(dis.opmap.get(name, -1) for name in ("KW_NAMES", "PRECALL", "SEND", "YIELD_VALUE"))


class Probes:
    """Functions, and what they note while they run in the context that looks at them; in other threads they note nothing.

    Attributes:
        available: whether there can be any.

    >>> def sign(x):
    ...     if x < 0:
    ...         return -1
    ...     return 1
    >>> first, steps = sign.__code__.co_firstlineno, set()
    >>> with Probes([sign] if Probes.available else []).noting(steps):
    ...     sign(3)
    1
    >>> sorted((max(a - first, 0), b - first) for _, a, b in steps) if Probes.available else [(0, 1), (1, 3)]
    [(0, 1), (1, 3)]
    """

    available = sys.version_info[:2] == (3, 11) and sys.implementation.name == "cpython"

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self._functions = {function: _Codes.of(function) for function in _sharing_codes(functions)}
        # By the id of the code: functions that were made by one ``def`` share theirs.
        self._notes = {id(note.code): note for codes in self._functions.values() for note in codes.notes}

    @contextmanager
    def noting(self, steps: set[tuple[int, int, int]]) -> Iterator[None]:
        """Within it, the functions note what they run; the set then gets the steps, each with the id of the code that it was in.

        Inside another one it does nothing.
        """
        if any(type(note.trail.get()) is list for note in self._notes.values()):
            yield
            return
        trails: dict[int, list[int]] = {code: [] for code in self._notes}
        tokens = [note.trail.set(trails[code]) for code, note in self._notes.items()]
        _Codes.begin(self._functions)
        try:
            yield
        finally:
            _Codes.end(self._functions)
            for note, token in zip(self._notes.values(), tokens, strict=True):
                note.trail.reset(token)
            steps.update((code, *step) for code, trail in trails.items() if trail for step in self._notes[code].steps(trail))


# Not a list, so that what runs elsewhere is not kept.
Trail = MutableSequence[int]
NOWHERE: Trail = deque(maxlen=0)


class _Note:
    """A code object, what it notes, and the code that does so."""

    def __init__(self, code: CodeType) -> None:
        listing = _listing(code)
        self.code = code
        self.trail: ContextVar[Trail] = ContextVar(code.co_qualname, default=NOWHERE)
        self.repeated = frozenset(op.target.line for op in listing if op.goes_back)  # lines that jumps go back to
        self.inner: list[_Note] = [_Note(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
        probed_by_id = {id(note.code): note.probed for note in self.inner}
        self.probed: CodeType = _assembled(
            code, *_with_calls(listing, [probed_by_id.get(id(c), c) for c in code.co_consts], self.trail, code.co_names)
        )

    def steps(self, trail: list[int]) -> Iterator[Step]:
        # Frames of one function that run at the same time, as in a recursion, share a trail: there a step may lead from one to another.
        for last, line in set(pairwise(trail)):
            if line != ENTERED and (last != line or line in self.repeated):
                yield last, line

    def tree(self) -> Iterator[_Note]:
        yield self
        for note in self.inner:
            yield from note.tree()


class _Codes:
    """The code of a function, and what notes lines in its place, as long as there is the function."""

    known: ClassVar[WeakKeyDictionary[FunctionType, _Codes]] = WeakKeyDictionary()
    lock: ClassVar[Lock] = Lock()

    def __init__(self, code: CodeType) -> None:
        self.note, self.users = _Note(code), 0
        self.notes = list(self.note.tree())

    @classmethod
    def of(cls, function: FunctionType) -> _Codes:
        """That of a function, the same one in every thread."""
        with cls.lock:
            codes, code = cls.known.get(function), own_code(function)
            if codes is None or codes.note.code is not code:
                codes = cls.known[function] = cls(code)
            return codes

    @classmethod
    def begin(cls, functions: Mapping[FunctionType, _Codes]) -> None:
        with cls.lock:
            for function, codes in functions.items():
                codes.users += 1
                function.__code__ = codes.note.probed

    @classmethod
    def end(cls, functions: Mapping[FunctionType, _Codes]) -> None:
        with cls.lock:
            for function, codes in functions.items():
                codes.users -= 1
                if not codes.users:
                    function.__code__ = codes.note.code


def own_code(function: FunctionType) -> CodeType:
    """The code of a function, its own also while a thread has it note lines."""
    codes, code = _Codes.known.get(function), function.__code__
    return code if codes is None or code is not codes.note.probed else codes.note.code


def _sharing_codes(functions: Iterable[FunctionType]) -> list[FunctionType]:
    """The functions, and others that were made by the same ``def`` or ``lambda`` in a function."""
    found = dict.fromkeys(functions)
    codes = {id(own_code(function)) for function in found if function.__qualname__.rpartition(".")[0].endswith("<locals>")}
    if codes:
        found.update((thing, None) for thing in gc.get_objects() if type(thing) is FunctionType and id(own_code(thing)) in codes)
    return list(found)


# -- instructions ----------------------------------------------------------------------------------


@dataclass(eq=False)
class _Instruction:
    """An instruction, with the code units that caches and prefixes of large arguments take."""

    opcode: int
    arg: int
    line: int | None
    goes_back: bool = False
    jump: list[_Instruction] = field(default_factory=list)  # where to; one, or none
    prefixes: int = 0
    offset: int = 0  # in code units, of its first prefix; once it is laid out

    @property
    def target(self) -> _Instruction:
        return self.jump[0]

    @property
    def caches(self) -> int:
        return int(dis._inline_cache_entries[self.opcode])  # type: ignore[attr-defined]

    @property
    def units(self) -> int:
        return self.prefixes + 1 + self.caches


def _listing(code: CodeType) -> list[_Instruction]:
    """The instructions of a code object, each with its first prefix as its place, and the jumps between them."""
    lines = {start: line for begin, end, line in code.co_lines() for start in range(begin, end, 2)}
    listing, by_offset, jumps, start = list[_Instruction](), dict[int, _Instruction](), list[tuple[_Instruction, int]](), None
    for each in dis.get_instructions(code):
        start = each.offset if start is None else start
        if each.opcode == dis.EXTENDED_ARG:
            continue
        op = _Instruction(each.opcode, each.arg or 0, lines.get(each.offset), offset=start // 2)
        listing.append(op)
        by_offset[start] = op
        if each.opcode in dis.hasjrel:
            jumps.append((op, each.argval))
            op.goes_back = each.argval <= each.offset
        start = None
    for op, offset in jumps:
        op.jump.append(by_offset[offset])
    return listing


def _with_calls(
    listing: list[_Instruction], constants: list[Any], trail: ContextVar[Trail], names: tuple[str, ...]
) -> tuple[list[_Instruction], list[Any]]:
    """The instructions, with calls that note lines where these begin and where jumps arrive; and the constants, with what is called."""
    arrivals = {op.target for op in listing if op.jump}
    constants = [*constants, trail.get]
    callee, numbers = len(constants) - 1, dict[int, int]()

    def call(number: int, line: int | None) -> list[_Instruction]:
        if number not in numbers:
            numbers[number] = len(constants)
            constants.append(number)
        get = (("PUSH_NULL", 0), ("LOAD_CONST", callee), ("PRECALL", 0), ("CALL", 0))
        append = (("LOAD_METHOD", len(names)), ("LOAD_CONST", numbers[number]), ("PRECALL", 1), ("CALL", 1), ("POP_TOP", 0))
        return [_Instruction(dis.opmap[name], arg, line) for name, arg in (*get, *append)]

    result, has_begun, last_line = list[_Instruction](), False, None
    for op in listing:
        begins = (op.line != last_line or op in arrivals) and not (result and result[-1].opcode in UNFINISHED)
        if has_begun and begins and op.line is not None and op.opcode != dis.opmap["SEND"]:
            calls = call(op.line, op.line)
            # Who jumps to the instruction jumps to the calls before it: they take its place, and it comes after them as another one.
            moved = _Instruction(op.opcode, op.arg, op.line, op.goes_back, op.jump, offset=op.offset)
            op.opcode, op.arg, op.goes_back, op.jump = calls[0].opcode, calls[0].arg, False, []
            result += [op, *calls[1:], moved]
        else:
            result.append(op)
        last_line = op.line
        if not has_begun and result[-1].opcode == dis.opmap["RESUME"]:
            has_begun, last_line = True, None
            result += call(ENTERED, op.line)
    return result, constants


# -- code ------------------------------------------------------------------------------------------


def _assembled(code: CodeType, listing: list[_Instruction], constants: list[Any]) -> CodeType:
    old_places = {op.offset: op for op in reversed(listing) if op.offset}  # the first one of those that came from one place
    handlers = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    old_places[0] = listing[0]
    end = _lay_out(listing)
    # A range may end where the code does.
    places = {old: op.offset for old, op in old_places.items()} | {len(code.co_code) // 2: end}
    table = b"".join(_handler(places[h.start // 2], places[h.end // 2], places[h.target // 2], h.depth << 1 | h.lasti) for h in handlers)
    return code.replace(
        co_code=b"".join(map(_bytes, listing)),
        co_consts=tuple(constants),
        co_names=(*code.co_names, "append"),
        co_stacksize=code.co_stacksize + STACKED,
        co_linetable=_line_table(listing, code.co_firstlineno),
        co_exceptiontable=table,
    )


def _lay_out(listing: list[_Instruction]) -> int:
    """Give instructions their offsets and jumps their arguments; return the number of code units."""
    # Longer arguments make code longer, and distances with it: until nothing grows any more.
    while True:
        at, grows = 0, False
        for op in listing:
            op.offset, at = at, at + op.units
        for op in listing:
            if op.jump:
                op.arg = abs(op.target.offset - op.offset - op.units)
            prefixes = max(0, (op.arg.bit_length() - 1) // 8)
            if prefixes > op.prefixes:
                op.prefixes, grows = prefixes, True
        if not grows:
            return at


def _bytes(op: _Instruction) -> bytes:
    prefixes = b"".join(bytes((dis.EXTENDED_ARG, op.arg >> 8 * n & 255)) for n in range(op.prefixes, 0, -1))
    return prefixes + bytes((op.opcode, op.arg & 255)) + bytes(2 * op.caches)


def _line_table(listing: list[_Instruction], first: int) -> bytes:
    table, last = bytearray(), first
    for op in listing:
        for start in range(0, op.units, LONGEST):
            count = min(LONGEST, op.units - start) - 1
            if op.line is None:
                table.append(0x80 | 15 << 3 | count)
            else:
                table.append(0x80 | 13 << 3 | count)
                table += _signed(op.line - last)
                last = op.line
    return bytes(table)


def _signed(number: int) -> bytes:
    """A number in pieces of six bits, the lowest first; its sign is the lowest bit."""
    number, result = -number << 1 | 1 if number < 0 else number << 1, bytearray()
    while number > 63:
        result.append(64 | number & 63)
        number >>= 6
    return bytes([*result, number])


def _handler(start: int, end: int, target: int, depth: int) -> bytes:
    """An entry of the table of exception handlers: numbers in pieces of six bits, the highest first."""
    pieces = [
        [number >> 6 * n & 63 for n in range(max(0, (number.bit_length() - 1) // 6), -1, -1)]
        for number in (start, end - start, target, depth)
    ]
    entry = bytes(piece | (64 if i < len(number) - 1 else 0) for number in pieces for i, piece in enumerate(number))
    return bytes([entry[0] | 128, *entry[1:]])
