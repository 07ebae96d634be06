"""A program: nested blocks of operators and variables, as plain data; the default programs, and guards that change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, NoReturn, Protocol

from graphad.contexts import binding
from graphad.errors import InvalidType, InvalidValue
from graphad.ops import REGISTRY, ControlDef
from graphad.program import variable
from graphad.program.block import Block, check_depth
from graphad.program.gc_pause import paused_collector
from graphad.program.operator import FORWARD, Operator, copied
from graphad.program.parsing import parse_program
from graphad.program.source import SourceLine, at_users_line, user_line
from graphad.program.text import print_program
from graphad.program.variable import Parameter, Variable, name_in
from graphad.types import Shape

# -- identity --------------------------------------------------------------------------------------
# The identity of a program: a number and the user's line for messages, and the family of a program and its clones.

_numbers = count(1)


class Source(Protocol):
    """A source of values for runs of a program that are not fed: ``fluid.layers.py_reader``."""

    @property
    def names(self) -> Sequence[str]:
        """The variables that it has values for."""
        ...

    @property
    def started(self) -> bool:
        """Whether runs take their values from it."""
        ...

    def next_feed(self) -> Mapping[str, object]:
        """The next values by name; EndOfData if there are no more."""
        ...


class Family:
    """The family of a program and its clones: variables of one may be used by name in another.

    Compared by identity, so a deep copy of a program stays in its family.

    Attributes:
        readers: what feeds variables of these programs by itself, at each run, once it is started.
    """

    def __init__(self) -> None:
        self.readers: list[Source] = []

    def __getstate__(self) -> dict[str, object]:
        return {"readers": []}  # of this process: what is pickled is fed

    def __deepcopy__(self, memo: object) -> Family:
        return self


@dataclass
class Identity:
    """The number of a program (in the order of creation), where it was created, and what it was copied from.

    ``title`` takes the place of all that for the two default programs.
    """

    source: SourceLine | None = None
    family: Family = field(default_factory=Family)
    original: int | None = None
    title: str | None = None
    number: int = field(default_factory=lambda: next(_numbers))

    def copy(self, source: SourceLine | None) -> Identity:
        """The identity of a copy: another number, the same family."""
        return Identity(source, self.family, self.number)

    def __str__(self) -> str:
        if self.title is not None:
            return self.title
        origin = "" if self.original is None else f", a copy of program {self.original}"
        return f"program {self.number}{origin}" + ("" if self.source is None else f" (created at {self.source})")


# -- naming ----------------------------------------------------------------------------------------
# Unique names as Fluid makes them: ``fc_0``, ``fc_1``, then ``fc_0.w_0``, ``fc_0.tmp_0``.

_NUMBERED = re.compile(r"(.+?)_(\d+)(?:\.|$)")


class UniqueNames:
    """A counter per key; each program has its own, so equal programs get equal names.

    >>> names = UniqueNames()
    >>> names.generate("fc"), names.generate("fc"), names.generate("fc_0.w")
    ('fc_0', 'fc_1', 'fc_0.w_0')
    """

    def __init__(self, prefix: str = "", taken: Callable[[str], bool] = lambda name: False) -> None:
        self.prefix = prefix
        self.taken = taken
        self.counts: dict[str, int] = {}
        self._undoable: list[tuple[str, int]] = []
        self._watchers = 0

    def generate(self, key: str) -> str:
        """``key_<n>``, n counting up from 0 past the names that are taken."""
        # A key may have the prefix already, as that of a parameter which is named after its layer.
        stem = key if key.startswith(self.prefix) else self.prefix + key
        n = self.counts.get(key, 0)
        # Noted only while an error may take it back.
        if self._watchers:
            self._undoable.append((key, n))
        while self.taken(name := f"{stem}_{n}"):
            n += 1
        self.counts[key] = n + 1
        return name

    def next_of(self, key: str) -> str:
        """The name that ``generate`` would return next."""
        stem = key if key.startswith(self.prefix) else self.prefix + key
        n = self.counts.get(key, 0)
        while self.taken(name := f"{stem}_{n}"):
            n += 1
        return name

    def count(self, stem: str, counts: Iterable[tuple[str, int]]) -> None:
        """Count names of keys that begin with a stem and have none yet: of each end of a key so many."""
        for end, n in counts:
            if self._watchers:
                self._undoable.append((stem + end, 0))
            self.counts[stem + end] = n

    def generated(self, start: int) -> list[tuple[str, int]]:
        """The keys of the names that were generated since ``remember`` returned ``start``, each with its count before that."""
        return self._undoable[start:]

    def remember(self) -> int:
        """Remember the names that are generated from now on; ``forget`` ends that."""
        self._watchers += 1
        return len(self._undoable)

    def forget(self, start: int, undo: bool) -> None:
        """End what ``remember`` began and returned ``start`` for; with ``undo``, the names generated since are free again."""
        if undo:
            # Backwards: of a key that was counted several times the oldest count is set last.
            for key, count in reversed(self._undoable[start:]):
                self.counts[key] = count
            del self._undoable[start:]
        self._watchers -= 1
        if not self._watchers:
            self._undoable.clear()

    def skip(self, names: Iterable[str]) -> None:
        """Never generate what these names were generated from."""
        for name in names:
            for match in filter(None, (_NUMBERED.match(name), re.fullmatch(r"(.+)_(\d+)", name))):
                key, n = match[1], int(match[2])
                self.counts[key] = max(self.counts.get(key, 0), n + 1)

    def copy(self, taken: Callable[[str], bool]) -> UniqueNames:
        """The same counters, counting on separately for another program."""
        copy = UniqueNames(self.prefix, taken)
        copy.counts = dict(self.counts)
        return copy


# -- program ---------------------------------------------------------------------------------------
# A program: nested blocks of operators and variables, as plain data.


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

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

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
        return self.global_block().all_parameters()

    def list_vars(self) -> Iterator[Variable]:
        """Every variable of every block."""
        for block in self.blocks:
            yield from block.vars.values()

    def declares(self, name: str) -> bool:
        """Whether the block that is being written, or one around it, declares the name."""
        block = self.blocks[self._current]
        return name in block.vars or (block.parent_idx >= 0 and block.find_var(name) is not None)

    def appending(self) -> AbstractContextManager[None]:
        """Within it, operators, variables and blocks are only appended (to the block being written, those around it and new
        ones), types only become better known, and an error takes that back."""
        return _Appending(self)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Within it, an error leaves the program as it was."""
        contents = [(block, list(block.ops), dict(block.vars)) for block in self.blocks]
        counts, current, startup = dict(self.names.counts), self._current, self.startup
        try:
            yield
        except BaseException:
            self.blocks = [block for block, _, _ in contents]
            for block, ops, variables in contents:
                block.ops, block.vars = ops, variables
            self.names.counts, self._current, self.startup = counts, current, startup
            raise

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return f"<Program {self.identity.number}: {len(self.blocks)} blocks, {sum(len(b.ops) for b in self.blocks)} operators>"

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """``str(program)``, as Fluid calls it; both flags are without effect."""
        return str(self)

    @property
    def desc(self) -> NoReturn:
        """AttributeError: Fluid's message is made by ``graphad.interop.paddle.dump_program``."""
        raise AttributeError("a Program has no desc: graphad.interop.paddle.dump_program(program) gives its bytes, load_program reads them")

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
            ParseError: it is not a program, or it has something unknown; the message points at the character.
            TypeError: ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise InvalidType(f"a program is parsed from text, not from {type(text).__name__}")
        program = Program()
        parse_program(text, program, file, allow_unknown)
        # Names that are generated from now on must not be those of the text.
        program.names.skip(v.name for v in program.list_vars())
        return program

    # -- copies ----------------------------------------------------------------------------------

    def clone(self, for_test: bool = False) -> Program:
        """A deep copy. ``for_test`` leaves out backward and optimization and sets ``is_test`` where an operator has it."""
        copy = self.clone_empty()
        with paused_collector(sum(len(block.ops) for block in self.blocks)):
            for old, new in zip(self.blocks, copy.blocks, strict=True):
                new.ops = [copied(op, new) for op in old.ops if not for_test or op.role == FORWARD]
                new.vars = {name: var.copy_to(new) for name, var in old.vars.items()}
        if for_test:
            for op in (op for block in copy.blocks for op in block.ops):
                if op.type in REGISTRY and "is_test" in REGISTRY[op.type].attrs:
                    op.attrs["is_test"] = True
            # Blocks of gradients, which nothing holds once their operators are gone.
            copy.drop_blocks({sub.idx for b in self.blocks for op in b.ops if op.role != FORWARD for sub in _held(op)})
            copy._drop_unused(keep=_used(self.blocks, FORWARD))
        return copy

    def __deepcopy__(self, memo: dict[int, object]) -> Program:
        """A clone; what else is copied with it and refers to this program's blocks, variables or operators then refers to the clone's."""
        copy = memo[id(self)] = self.clone()
        for old, new in zip(self.blocks, copy.blocks, strict=True):
            memo[id(old)] = new
            memo.update((id(var), new.vars[name]) for name, var in old.vars.items())
            memo.update((id(op), op_copy) for op, op_copy in zip(old.ops, new.ops, strict=True))
        copy.startup, copy._current = deepcopy(self.startup, memo), self._current
        return copy

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        """Blocks are pickled by number, so that nested ones are as deep as those that are not."""
        state = {name: value for name, value in self.__dict__.items() if name != "blocks"}
        return _blank, (type(self), len(self.blocks)), (state, [block.__dict__ for block in self.blocks])

    def __setstate__(self, state: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
        attributes, contents = state
        self.__dict__.update(attributes)
        for block, content in zip(self.blocks, contents, strict=True):
            block.__dict__.update(content)

    def __copy__(self) -> Program:
        return self.clone()

    def clone_empty(self) -> Program:
        """A program of the same nested blocks with nothing in them, counting its names on from here."""
        copy = Program()
        copy.names, copy.random_seed, copy.startup = self.names.copy(copy.declares), self.random_seed, self.startup
        copy.allows_unknown = self.allows_unknown
        copy.stored, copy.identity = self.stored, self.identity.copy(copy.identity.source)
        copy.blocks = [Block(copy, b.idx, b.parent_idx, b.stored) for b in self.blocks]
        return copy

    def prune(self, targets: object) -> Program:
        """A copy with only the operators that the targets need, and the variables those use.

        Args:
            targets: variables, their names or operators, one or a list.

        Raises:
            ValueError: a target is nothing of this program.
        """
        names = {n for t in (targets if isinstance(targets, list | tuple | set) else [targets]) for n in self._target(t)}
        copy = self.clone()
        block = copy.global_block()
        ops, live_names = [], set(names)
        for op in reversed(block.ops):
            if live_names.isdisjoint(op.output_names()):
                continue
            ops.append(op)
            # A plain write replaces the value, so what was written before is not needed for it. Blocks may leave a name as it was, and
            # arrays are added to.
            definition = REGISTRY.get(op.type)
            if not isinstance(definition, ControlDef) and (definition is None or not definition.extends):
                live_names.difference_update(set(op.output_names()) - set(op.input_names()))
            live_names.update(op.input_names())
            live_names.update(*(_block_reads(sub) for sub in _sub_blocks(op)))
        live_ids = set(map(id, ops))
        indices = {sub.idx for op in block.ops if id(op) not in live_ids for sub in _held(op)}
        block.ops = ops[::-1]
        copy.drop_blocks(indices)
        copy._drop_unused(keep=names)
        return copy

    def drop_blocks(self, unused: set[int]) -> None:
        """Forget the blocks of some indices, which no operator holds any more, and renumber the others."""
        blocks = [block for block in self.blocks if block.idx not in unused]
        new = {block.idx: i for i, block in enumerate(blocks)}
        for i, block in enumerate(blocks):
            block.idx, block.parent_idx = i, new.get(block.parent_idx, -1)
        self.blocks = blocks
        self._current = new.get(self._current, 0)

    def _target(self, target: object) -> list[str]:
        if isinstance(target, Operator):
            return target.output_names()
        name = name_in("cannot prune", self.global_block(), target) if isinstance(target, Variable) else target
        if not isinstance(name, str) or not self.global_block().has_var(name):
            raise InvalidValue(f"cannot prune to {target!r}: it is no variable or operator of this program")
        return [name]

    def _drop_unused(self, keep: set[str]) -> None:
        live_names = keep | _used(self.blocks)
        for block in self.blocks:
            block.vars = {name: var for name, var in block.vars.items() if name in live_names}


def _blank(kind: type[Program], count: int) -> Program:
    """A program with empty blocks, to be filled; what refers to one of them finds it by its number."""
    program = kind.__new__(kind)
    program.blocks = [Block.__new__(Block) for _ in range(count)]
    return program


def _sub_blocks(op: Operator) -> list[Block]:
    return [v for v in op.attrs.values() if isinstance(v, Block)]


class _Appending:
    """``Program.appending``: a class and not a generator, since every layer enters two of them."""

    __slots__ = ("block_count", "current", "lengths", "names_start", "outer", "program", "start", "startup", "undo")

    def __init__(self, program: Program) -> None:
        self.program = program

    def __enter__(self) -> None:
        program = self.program
        block = program.blocks[program._current]
        around = (block,) if block.parent_idx < 0 else block.chain()
        # Layers append and declare, so how much there was says what to take back.
        self.lengths = [(block, len(block.ops), len(block.vars)) for block in around]
        self.block_count, self.current, self.startup = len(program.blocks), program._current, program.startup
        # A layer in a layer goes on with the list of the outer one, whose error takes back both.
        self.outer = program.declarations
        self.undo = program.declarations = [] if self.outer is None else self.outer
        self.start = len(self.undo)
        self.names_start = program.names.remember()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.program.names.forget(self.names_start, undo=error is not None)
        if error is not None:
            self._take_back()
        self.program.declarations = self.outer

    def _take_back(self) -> None:
        program = self.program
        del program.blocks[self.block_count :]
        program.declarations = None  # declarations undone here must not be undone again outside
        for var, shape, dtype in reversed(self.undo[self.start :]):
            var.declare(shape, dtype)
        del self.undo[self.start :]
        for block, ops, variables in self.lengths:
            del block.ops[ops:]
            block.vars = dict(list(block.vars.items())[:variables])
        program._current, program.startup = self.current, self.startup


def _held(op: Operator) -> Iterator[Block]:
    """The blocks that an operator, and operators in these, hold."""
    for sub in _sub_blocks(op):
        yield sub
        for inner in sub.ops:
            yield from _held(inner)


def _block_reads(block: Block) -> set[str]:
    reads = {n for op in block.ops for n in op.input_names()}
    return reads.union(*(_block_reads(sub) for op in block.ops for sub in _sub_blocks(op)))


def _used(blocks: list[Block], role: str | None = None) -> set[str]:
    """Names that operators (of a role) read or write; with a role, also names no operator touches."""
    ops = [op for block in blocks for op in block.ops]
    names = {n for op in ops if role in (None, op.role) for n in (*op.input_names(), *op.output_names())}
    if role is None:
        return names
    # A variable that no operator touches may be fed or fetched: it stays.
    all_names = {n for op in ops for n in (*op.input_names(), *op.output_names())}
    return names | {v.name for block in blocks for v in block.vars.values() if v.name not in all_names}


# -- defaults --------------------------------------------------------------------------------------
# The programs that layers write into, and guards that change them for a while.
#
# The two default programs are those of the process, as in Paddle: outside of every guard, all threads write into the same. A guard
# holds in its own thread or asyncio task, and in tasks started within it. A thread started within it begins outside of every guard;
# ``Thread(target=contextvars.copy_context().run, args=(function,))`` takes it along.

_main, _startup = Program(), Program()
_main.identity.title, _startup.identity.title = "the default main program", "the default startup program"


def default_main_program() -> Program:
    """The program that layers append to."""
    return variable.MAIN.get() or _main


def default_startup_program() -> Program:
    """The program that layers append initialization operators to."""
    return variable.STARTUP.get() or _startup


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[Program]:
    """Within it, and in this thread or asyncio task, layers write into these programs (a fresh startup program if None is given).

    ``as`` names the main program: ``with program_guard(Program()) as program:``.

    Raises:
        TypeError: something other than a Program is given.
    """
    for label, program in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(program, Program | None) or (label == "main_program" and program is None):
            raise InvalidType(f"program_guard takes Programs; {label} is {program!r}")
    startup = Program() if startup_program is None else startup_program
    with binding(variable.MAIN, main_program), binding(variable.STARTUP, startup):
        yield main_program


class unique_name:  # a namespace, spelt as Fluid spells it
    """``unique_name.generate(key)`` counts per program; ``unique_name.guard(prefix)`` counts from zero."""

    @staticmethod
    def generate(key: str) -> str:
        """``key_<n>``, unique in the current main program."""
        return default_main_program().names.generate(key)

    @staticmethod
    def switch(new_generator: UniqueNames | None = None) -> UniqueNames:
        """Count with other counters in the current main program, from 0 if None, and return those that counted before."""
        program = default_main_program()
        before, program.names = program.names, UniqueNames("", program.declares) if new_generator is None else new_generator
        return before

    @staticmethod
    @contextmanager
    def guard(prefix: str = "") -> Iterator[None]:
        """Within it, names of the current main program count from 0, after ``prefix``."""
        program = default_main_program()
        outer, program.names = program.names, UniqueNames(prefix, program.declares)
        try:
            yield
        finally:
            program.names = outer
