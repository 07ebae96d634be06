"""A program: nested blocks of operators and variables, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.ops import REGISTRY, ControlDef
from graphad.program.block import Block, check_depth
from graphad.program.identity import Identity
from graphad.program.naming import UniqueNames
from graphad.program.operator import FORWARD, Operator, copied
from graphad.program.parsing import parse_program
from graphad.program.source import at_users_line, user_line
from graphad.program.text import print_program
from graphad.program.variable import Parameter, Variable, name_in
from graphad.types import Shape


class Program:
    """Blocks of operators; block 0 is the root.

    >>> p = Program()
    >>> x = p.global_block().create_var(name="x", shape=[2, 3], dtype="float32")
    >>> _ = p.global_block().append_op(type="tanh", inputs={"X": x}, outputs={"Out": "y"})
    >>> print(p)
    program {
      block 0 {
        var x: float32[2, 3]
        var y: float32[2, 3]
        tanh(X=x) -> (Out=y)
      }
    }
    <BLANKLINE>

    ``random_seed`` other than 0 makes every run of the random operators repeatable. ``startup`` is the program
    that holds the initialization operators of this one's parameters, None before a layer made any. ``identity`` is what messages
    call the program.
    """

    def __init__(self) -> None:
        self.identity = Identity(user_line())
        self.blocks: list[Block] = [Block(self, 0, -1)]
        self.names = UniqueNames(taken=self.declares)
        self.random_seed = 0
        self.startup: Program | None = None
        self.stored: bytes | None = None
        self.allows_unknown = False
        self.declarations: list[tuple[Variable, Shape | None, str | None]] | None = None
        self._current = 0

    # -- blocks ----------------------------------------------------------------------------------

    def global_block(self) -> Block:
        """Block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block at an index; ValueError if there is none."""
        if not 0 <= index < len(self.blocks):
            raise InvalidValue(f"the program has blocks 0 to {len(self.blocks) - 1}, no block {index}")
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that is being written."""
        return self.blocks[self._current]

    def create_block(self, parent_idx: int | None = None) -> Block:
        """A new block inside ``parent_idx`` (None: the current block); it becomes the current one until ``rollback``."""
        parent = self._current if parent_idx is None else self.block(parent_idx).idx
        with at_users_line():
            block = self.add_block(parent)
        self._current = block.idx
        return block

    def add_block(self, parent_idx: int) -> Block:
        """A new block inside another one, without making it the current one.

        Raises:
            ValueError: it would be nested more than ``MAX_DEPTH`` deep.
        """
        check_depth(sum(1 for _ in self.blocks[parent_idx].chain()))
        self.blocks.append(Block(self, len(self.blocks), parent_idx))
        return self.blocks[-1]

    def rollback(self) -> None:
        """Go back to writing the block around the current one."""
        self._current = max(self.current_block().parent_idx, 0)

    # -- looking ---------------------------------------------------------------------------------

    def all_parameters(self) -> list[Parameter]:
        """The parameters, in the order of their making."""
        return [v for v in self.global_block().vars.values() if isinstance(v, Parameter)]

    def list_vars(self) -> Iterator[Variable]:
        """Every variable of every block."""
        for block in self.blocks:
            yield from block.vars.values()

    def declares(self, name: str) -> bool:
        """Whether the block that is being written, or one around it, declares the name."""
        return self.current_block().has_var_recursive(name)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Within it, operators, variables and blocks are only appended (to the block being written, those around it and new
        ones), types only become better known, and an error takes that back."""
        kept = [(block, len(block.ops), len(block.vars)) for block in self.current_block().chain()]
        count, current, startup, outer = len(self.blocks), self._current, self.startup, self.declarations
        undo = self.declarations = [] if outer is None else outer
        start = len(undo)
        try:
            with self.names.undone_on_error():
                yield
        except BaseException:
            del self.blocks[count:]
            self.declarations = None  # declarations undone here must not be undone again outside
            for var, shape, dtype in reversed(undo[start:]):
                var.declare(shape, dtype)
            del undo[start:]
            for block, ops, variables in kept:
                del block.ops[ops:]
                block.vars = dict(list(block.vars.items())[:variables])
            self._current, self.startup = current, startup
            raise
        finally:
            self.declarations = outer

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Within it, an error leaves the program as it was."""
        kept = [(block, list(block.ops), dict(block.vars)) for block in self.blocks]
        counts, current, startup = dict(self.names.counts), self._current, self.startup
        try:
            yield
        except BaseException:
            self.blocks = [block for block, _, _ in kept]
            for block, ops, variables in kept:
                block.ops, block.vars = ops, variables
            self.names.counts, self._current, self.startup = counts, current, startup
            raise

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return f"<Program {self.identity.number}: {len(self.blocks)} blocks, {sum(len(b.ops) for b in self.blocks)} operators>"

    @staticmethod
    def parse(text: str, file: str | None = None, *, allow_unknown: bool | None = None) -> Program:
        """The program a text describes: ``str(Program.parse(str(p))) == str(p)``.

        Args:
            text: as ``str(program)`` gives it.
            file: where the text comes from, for messages about its operators.
            allow_unknown: what becomes of operators that are not registered, and of slots and attributes that a registered one does
                not have. They are kept and print; they fail when they are run or differentiated, and unless this is True, such
                slots and attributes where the program is lowered. False refuses all of that here, as the commands do.

        Raises:
            ParseError: it is no program, or it has something unknown; the message points at the character.
            TypeError: ``text`` is no string.
        """
        if not isinstance(text, str):
            raise InvalidType(f"a program is parsed from text, not from {type(text).__name__}")
        program = Program()
        parse_program(text, program, file, allow_unknown)
        program.names.skip(v.name for v in program.list_vars())
        return program

    # -- copies ----------------------------------------------------------------------------------

    def clone(self, for_test: bool = False) -> Program:
        """A deep copy. ``for_test`` leaves out backward and optimization and sets ``is_test`` where an operator has it."""
        twin = self.clone_empty()
        for old, new in zip(self.blocks, twin.blocks, strict=True):
            new.ops = [copied(op, new) for op in old.ops if not for_test or op.role == FORWARD]
            new.vars = {name: var.copy_to(new) for name, var in old.vars.items()}
        if for_test:
            for op in (op for block in twin.blocks for op in block.ops):
                if op.type in REGISTRY and "is_test" in REGISTRY[op.type].attrs:
                    op.attrs["is_test"] = True
            twin.drop_blocks({sub.idx for b in self.blocks for op in b.ops if op.role != FORWARD for sub in _held(op)})
            twin._drop_unused(keep=_used(self.blocks, FORWARD))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        """A clone; what else is copied with it and refers to this program's blocks, variables or operators then refers to the clone's."""
        twin = memo[id(self)] = self.clone()
        for old, new in zip(self.blocks, twin.blocks, strict=True):
            memo[id(old)] = new
            memo.update((id(var), new.vars[name]) for name, var in old.vars.items())
            memo.update((id(op), other) for op, other in zip(old.ops, new.ops, strict=True))
        twin.startup, twin._current = deepcopy(self.startup, memo), self._current
        return twin

    def clone_empty(self) -> Program:
        """A program of the same nested blocks with nothing in them, counting its names on from here."""
        twin = Program()
        twin.names, twin.random_seed, twin.startup = self.names.copy(twin.declares), self.random_seed, self.startup
        twin.allows_unknown = self.allows_unknown
        twin.stored, twin.identity = self.stored, self.identity.copy(twin.identity.source)
        twin.blocks = [Block(twin, b.idx, b.parent_idx, b.stored) for b in self.blocks]
        return twin

    def prune(self, targets: Any) -> Program:
        """A copy with only the operators that the targets need, and the variables those use.

        Args:
            targets: variables, their names or operators, one or a list.

        Raises:
            ValueError: a target is nothing of this program.
        """
        wanted = {n for t in (targets if isinstance(targets, list | tuple | set) else [targets]) for n in self._target(t)}
        twin = self.clone()
        block = twin.global_block()
        kept, needed = [], set(wanted)
        for op in reversed(block.ops):
            if needed.isdisjoint(op.output_names()):
                continue
            kept.append(op)
            if not _may_leave_unwritten(op):
                needed.difference_update(set(op.output_names()) - set(op.input_names()))
            needed.update(op.input_names())
            needed.update(*(_block_reads(sub) for sub in _sub_blocks(op)))
        staying = set(map(id, kept))
        dropped = {sub.idx for op in block.ops if id(op) not in staying for sub in _held(op)}
        block.ops = kept[::-1]
        twin.drop_blocks(dropped)
        twin._drop_unused(keep=wanted)
        return twin

    def drop_blocks(self, unused: set[int]) -> None:
        """Forget the blocks of some indices, which no operator holds any more, and count the others anew."""
        left = [block for block in self.blocks if block.idx not in unused]
        new = {block.idx: i for i, block in enumerate(left)}
        for i, block in enumerate(left):
            block.idx, block.parent_idx = i, new.get(block.parent_idx, -1)
        self.blocks = left
        self._current = new.get(self._current, 0)

    def _target(self, target: Any) -> list[str]:
        if isinstance(target, Operator):
            return target.output_names()
        name = name_in("cannot prune", self.global_block(), target) if isinstance(target, Variable) else target
        if not isinstance(name, str) or not self.global_block().has_var(name):
            raise InvalidValue(f"cannot prune to {target!r}: it is no variable or operator of this program")
        return [name]

    def _drop_unused(self, keep: set[str]) -> None:
        used = keep | _used(self.blocks)
        for block in self.blocks:
            block.vars = {name: var for name, var in block.vars.items() if name in used}


def _sub_blocks(op: Operator) -> list[Block]:
    return [v for v in op.attrs.values() if isinstance(v, Block)]


def _held(op: Operator) -> Iterator[Block]:
    """The blocks that an operator, and operators in these, hold."""
    for sub in _sub_blocks(op):
        yield sub
        for inner in sub.ops:
            yield from _held(inner)


def _may_leave_unwritten(op: Operator) -> bool:
    """Whether results of an operator may be partly the earlier values: its block may not run, or it writes to an array in place."""
    return isinstance(REGISTRY.get(op.type), ControlDef) or op.type == "write_to_array"


def _block_reads(block: Block) -> set[str]:
    reads = {n for op in block.ops for n in op.input_names()}
    return reads.union(*(_block_reads(sub) for op in block.ops for sub in _sub_blocks(op)))


def _used(blocks: list[Block], role: str | None = None) -> set[str]:
    """Names that operators (of a role) read or write; with a role, also names no operator touches."""
    ops = [op for block in blocks for op in block.ops]
    chosen = {n for op in ops if role in (None, op.role) for n in (*op.input_names(), *op.output_names())}
    if role is None:
        return chosen
    touched = {n for op in ops for n in (*op.input_names(), *op.output_names())}
    return chosen | {v.name for block in blocks for v in block.vars.values() if v.name not in touched}
