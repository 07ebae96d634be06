"""Change detection: whether a program has changed since its last run, without comparing all of it.

A program is plain data that anyone may change: ``op.attrs["axis"] = 1``, ``block.ops.append(op)``. Comparing all of it takes longer than
a run of a small program. So a program that runs again and again is watched: its lists and dicts are replaced by ones that do the same and
leave a mark when they are changed (``latest``), and its operators and variables leave one when an attribute is set. As long as the mark
is the same, no watched program has changed, and there is nothing to compare.

A list or dict that other code holds, which could change it unseen, is left as it is and compared. Python's count of references tells.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from graphad.program.block import Block
from graphad.program.gc_pause import paused_collector
from graphad.program.operator import Operator
from graphad.program.program import Program
from graphad.program.variable import Parameter, Variable
from graphad.references import COUNTING
from graphad.types import Extent

latest: list[object] = [object()]  # the mark of the last change of any watched program: a new object each time
_PLAIN = frozenset({bool, int, Extent, float, str, bytes, type(None)})
_Place = tuple[Any, Callable[[Any], None]]  # a list or a dict, and what puts another one in its place


def _marking(change: Callable[..., Any]) -> Callable[..., Any]:
    def changed(self: object, *args: object, **options: Any) -> Any:
        try:
            return change(self, *args, **options)
        finally:
            # An object that no snapshot has seen; after a change that failed as well, which may have been half done.
            latest[0] = object()

    changed.__name__, changed.__doc__ = change.__name__, change.__doc__
    return changed


def _reduced(self: Any, protocol: Any) -> Any:
    """Copies and pickles are of what the watched object is to everyone else."""
    kind = type(self)
    plain: Any = kind.__base__
    parts: Any = plain.__reduce_ex__(self, max(int(protocol), 2))
    make, args, *rest = parts
    # ``copyreg.__newobj__`` is exchanged for a function of our own: pickle refuses it for another class than the object's own.
    return _new if make is _NEW_OBJECT else make, tuple(plain if arg is kind else arg for arg in args), *rest


_NEW_OBJECT = object().__reduce_ex__(2)[0]


def _new(kind: type, *args: object) -> Any:
    return kind.__new__(kind, *args)


class WatchedList(list[Any]):
    """A list whose changes are seen."""

    __slots__ = ()


class WatchedDict(dict[Any, Any]):
    """A dict whose changes are seen."""

    __slots__ = ()


class WatchedOperator(Operator):
    """An operator of which it is seen when it is set to have another type, other slots or attributes."""

    __slots__ = ()


class WatchedVariable(Variable):
    """A variable whose declaration is seen to change."""

    __slots__ = ()


class WatchedParameter(Parameter):
    """A parameter whose declaration is seen to change."""

    __slots__ = ()


class WatchedBlock(Block):
    """A block of which it is seen when its lists are replaced."""

    __slots__ = ()


class WatchedProgram(Program):
    """A program of which it is seen when its list of blocks is replaced."""

    __slots__ = ()


_ON_LISTS = "append extend insert pop remove clear sort reverse __init__ __setitem__ __delitem__ __iadd__ __imul__"
_ON_DICTS = "pop popitem clear update setdefault __init__ __setitem__ __delitem__ __ior__"
_WATCHED: dict[type, type] = {
    Operator: WatchedOperator,
    Variable: WatchedVariable,
    Parameter: WatchedParameter,
    Block: WatchedBlock,
    Program: WatchedProgram,
}
_METHODS = {WatchedList: _ON_LISTS, WatchedDict: _ON_DICTS, **dict.fromkeys(_WATCHED.values(), "__setattr__ __delattr__")}
for _kind, _names in _METHODS.items():
    setattr(_kind, "__reduce_ex__", _reduced)  # noqa: B010
    for _name in _names.split():
        setattr(_kind, _name, _marking(getattr(_kind, _name)))


Unseen = list[tuple[Any, Any]]  # lists and dicts of a program that others hold, each with a copy


def watch(program: Program) -> Unseen | None:
    """Watch a program from now on.

    Returns:
        What of it cannot be watched, and has to be compared; None if all of it must be: an attribute is of a kind that has parts of
        its own, a class is not graphad's, or other code holds a block's table of variables.

    >>> program = Program()
    >>> _ = program.global_block().create_var("x", [2], "float32")
    >>> op = program.global_block().append_op(type="scale", inputs={"X": "x"}, outputs={"Out": "y"}, attrs={"scale": 2.0})
    >>> watch(program)
    []
    >>> mark = latest[0]
    >>> op.attrs["scale"] = 3.0
    >>> latest[0] is mark
    False
    """
    if not _known(program):
        return None
    leftovers: Unseen = []
    # Lists before the dicts that hold them: the copy of a dict refers to its lists as well, which would look like another holder.
    with paused_collector(sum(len(block.ops) for block in program.blocks)):
        for places in (_inner_places, _outer_places):
            _replace(places(program), leftovers)
    if any(type(block.vars) is not WatchedDict for block in program.blocks):
        return None  # variables are not compared with ``==``, which makes operators
    for item in _objects(program):
        if type(item) in _WATCHED:  # setting the class of what is watched already would leave a mark, and others look again
            item.__class__ = _WATCHED[type(item)]
    return leftovers


def _known(program: Program) -> bool:
    """Whether every class is graphad's own, and no attribute has parts of its own but lists."""
    # A subclass could change itself in ways that leave no mark.
    kinds = {*_WATCHED, *_WATCHED.values()}
    if any(type(item) not in kinds for item in _objects(program)):
        return False
    return all(_is_plain(value) for block in program.blocks for op in block.ops for value in op.attrs.values())


def _is_plain(value: object) -> bool:
    items = value if isinstance(value, list | tuple) else (value,)
    return all(type(item) in _PLAIN or isinstance(item, Block) for item in items)


def _objects(program: Program) -> Iterator[object]:
    yield program
    for block in program.blocks:
        yield block
        yield from block.ops
        yield from block.vars.values()


def _inner_places(program: Program) -> list[_Place]:
    """The lists in the dicts of operators."""
    dicts = (item for block in program.blocks for op in block.ops for item in (op.inputs, op.outputs, op.attrs))
    return [(value, partial(item.__setitem__, key)) for item in dicts for key, value in item.items() if isinstance(value, list)]


def _outer_places(program: Program) -> list[_Place]:
    """The lists and dicts of operators, blocks and the program."""
    entries: list[tuple[object, str]] = [
        (op, name) for block in program.blocks for op in block.ops for name in ("inputs", "outputs", "attrs")
    ]
    entries += [(block, name) for block in program.blocks for name in ("ops", "vars")]
    entries.append((program, "blocks"))
    return [(getattr(owner, name), partial(setattr, owner, name)) for owner, name in entries]


def _replace(places: list[_Place], unseen: Unseen) -> None:
    """Put watched containers where nothing else refers to the container: its places do, as often ``places``, and twice the loop."""
    counts = Counter(id(container) for container, _ in places)
    replacements: dict[int, Any] = {}
    for container, assign in places:
        if type(container) in (WatchedList, WatchedDict):
            continue
        times = counts[id(container)]
        # A container that something else refers to would be changed there without being watched: it is copied, and compared in each run.
        # Who may refer to it: each of its places, the entry of ``places`` for each, the loop's variable, and the argument of getrefcount.
        if id(container) not in replacements and sys.getrefcount(container) == 2 * times + 1 + COUNTING:
            replacements[id(container)] = (WatchedList if isinstance(container, list) else WatchedDict)(container)
        if id(container) in replacements:
            assign(replacements[id(container)])
        else:
            unseen.append((container, container.copy()))
