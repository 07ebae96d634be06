"""Layers that are alike: the second one is written as the first was, under other names, and is not checked again.

    fc(x: float32[-1, 4], 4, act="tanh")   ⇒   mul, elementwise_add, tanh; fc_0.w_0 and fc_0.b_0 with what starts them      remembered
    fc(y: float32[-1, 4], 4, act="tanh")   ⇒   the same with y for x, and fc_1 for fc_0 in all names                       copied

A network of a thousand equal layers is checked once. What was written is remembered by the layer's *call*: the types of variables, and
all other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Any, NamedTuple, ParamSpec, TypeVar

from graphad import initializer
from graphad.layers.helper import ParamAttr
from graphad.ops import REGISTRY, OpDef
from graphad.program import Block, Operator, Program, Variable, default_main_program, default_startup_program, user_line
from graphad.program.gc_pause import GROWTH, settle
from graphad.program.variable import L1Decay, L2Decay
from graphad.types import has_names

P = ParamSpec("P")
R = TypeVar("R")
Call = tuple[object, ...]
_MOST = 256  # calls of a layer
_SCALARS = frozenset((bool, int, float, str, type(None)))
# Frozen, and said in full by their fields.
_RECORDS = frozenset(
    {ParamAttr, L1Decay, L2Decay, initializer.Constant, initializer.Uniform, initializer.Normal}
    | {initializer.TruncatedNormal, initializer.Xavier, initializer.MSRA}
)


def alike(layer: Callable[P, R]) -> Callable[P, R]:
    """A layer of which all calls that are alike write the same: what it writes follows from the types of the variables it is given, and
    from its other arguments."""
    remembered: dict[Call, _Written | None] = {}  # None where what was written does not follow the pattern

    @wraps(layer)
    def write(*args: P.args, **kwargs: P.kwargs) -> R:
        main, startup = default_main_program(), default_startup_program()
        variables: list[Variable] = []
        call = _call(main, args, kwargs, variables)
        if call is None:
            return layer(*args, **kwargs)
        if call in remembered:
            record = remembered[call]
            result = None if record is None else record.again(main, startup, variables)
            return layer(*args, **kwargs) if result is None else result  # type: ignore[return-value]
        recording = _Recording(main, startup)
        with recording:
            value = layer(*args, **kwargs)
        if len(remembered) >= _MOST:
            remembered.clear()
        remembered[call] = recording.written(value, variables)
        return value

    return write


# -- calls -----------------------------------------------------------------------------------------


def _call(main: Program, args: tuple[object, ...], kwargs: Mapping[str, object], variables: list[Variable]) -> Call | None:
    """A key for a layer's call: its arguments, with the types of variables in place of these, which are appended to ``variables``; None
    where the result may depend on more than the key, so that the call is not remembered."""
    block = main.blocks[0]
    if main._current or not initializer.are_usual():
        return None
    parts: list[object] = list(kwargs)
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind in _SCALARS:
            parts += (kind, repr(value) if kind is float else value)  # 0.0 is equal to -0.0
        elif isinstance(value, Variable):
            shape = value._shape
            # A variable twice is not like two of one type. Extents with names are equal to -1, and not alike.
            if shape is None or block.vars.get(value.name) is not value or (-1 in shape and has_names(shape)):
                return None
            if variables and any(value is other for other in variables):
                return None
            parts += (Variable, shape, value._dtype, value.type)
            variables.append(value)
        elif kind in (list, tuple) and all(type(item) is int for item in value):  # type: ignore[attr-defined]
            parts += (kind, tuple(value))  # type: ignore[arg-type]
        elif not _add_record(value, parts):
            return None
    return tuple(parts)


def _add_record(value: object, parts: list[object]) -> bool:
    """Say what an initializer, a regularizer or a ParamAttr is; False for anything else, and for a name, which is shared."""
    if type(value) not in _RECORDS or getattr(value, "name", None) is not None:
        return False
    parts.append(type(value))
    for field in vars(value).values():
        if type(field) in _SCALARS:
            parts += (type(field), repr(field))
        elif not _add_record(field, parts):
            return False
    return True


# -- what was written ------------------------------------------------------------------------------
# Names by number: first those that are new, by what follows the name of the layer; then those of the variables that were given.

_Slots = tuple[tuple[str, tuple[int, ...]], ...]


class _Operator(NamedTuple):
    type: str
    inputs: _Slots
    outputs: _Slots
    attrs: dict[str, Any]
    lists: tuple[str, ...]  # attributes that each operator has for itself
    role: str

    def append_to(self, block: Block, names: Sequence[str], source: Any) -> None:
        inputs, outputs, attrs = {}, {}, self.attrs.copy()
        # One name in a slot nearly always: then without a loop of its own.
        for slot, numbers in self.inputs:
            inputs[slot] = [names[numbers[0]]] if len(numbers) == 1 else [names[i] for i in numbers]
        for slot, numbers in self.outputs:
            outputs[slot] = [names[numbers[0]]] if len(numbers) == 1 else [names[i] for i in numbers]
        for name in self.lists:
            attrs[name] = attrs[name].copy()
        block.ops.append(Operator(block, self.type, inputs, outputs, attrs, self.role, source))


class _Part(NamedTuple):
    """The operators and variables that a layer appended to one program; names are numbers, so that the part can be appended again under
    others."""

    variables: tuple[tuple[int, Callable[[Block, str], Variable]], ...]
    ops: tuple[_Operator, ...]
    types: tuple[str, ...]
    definitions: list[OpDef | None]

    def append_to(self, block: Block, names: Sequence[str], source: Any) -> None:
        declared = block.vars
        for number, copy_to in self.variables:
            name = names[number]
            declared[name] = copy_to(block, name)
        for op in self.ops:
            op.append_to(block, names, source)

    def fits(self, block: Block, names: Sequence[str]) -> bool:
        """Whether the names are free, and the operators are still defined as they were."""
        declared = block.vars
        for number, _ in self.variables:
            if names[number] in declared:
                return False
        return list(map(REGISTRY.get, self.types)) == self.definitions


@dataclass(frozen=True)
class _Written:
    """A recorded layer: its kind, how many names it generated for each key, the suffixes of new names, and the appended parts."""

    kind: str
    counts: tuple[tuple[str, int], ...]
    ends: tuple[str, ...]
    main: _Part
    startup: _Part
    result: int

    def again(self, main: Program, startup: Program, variables: Sequence[Variable]) -> Variable | None:
        """Write it for other variables; None, and nothing is written, where a name is taken."""
        # Everything is checked before the first change, so that None means that nothing was written.
        names, block, starts = main.names, main.blocks[0], startup.blocks[0]
        stem = names.next_of(self.kind)
        all_names = [stem + end for end in self.ends]
        all_names += [var.name for var in variables]
        if startup._current or not self.main.fits(block, all_names) or not self.startup.fits(starts, all_names):
            return None
        for key, _ in self.counts:
            if names.counts.get(stem + key):
                return None
        source, lengths, count = user_line(), (len(block.ops), len(starts.ops)), names.counts.get(self.kind, 0)
        try:
            names.generate(self.kind)
            names.count(stem, self.counts)
            self.main.append_to(block, all_names, source)
            if self.startup.ops:
                main.startup = startup
                self.startup.append_to(starts, all_names, source)
        except BaseException:  # Ctrl-C: nothing is left of half a layer
            for sequence, length in zip((block, starts), lengths, strict=True):
                del sequence.ops[length:]
                sequence.vars = {name: var for name, var in sequence.vars.items() if name not in all_names[: len(self.ends)]}
            names.counts.update({self.kind: count}, **{stem + key: 0 for key, _ in self.counts})
            raise
        # As ``Block`` does itself each time that so many operators have come.
        if lengths[0] // GROWTH != len(block.ops) // GROWTH:
            settle(len(block.ops))
        return block.vars[all_names[self.result]]


class _Recording:
    """A look at two programs before and after a layer."""

    def __init__(self, main: Program, startup: Program) -> None:
        self.programs = main, startup
        self.before = [(len(program.blocks), len(program.blocks[0].ops), len(program.blocks[0].vars)) for program in self.programs]
        self.generated: list[tuple[str, int]] = []

    def __enter__(self) -> None:
        self.start = self.programs[0].names.remember()

    def __exit__(self, *_: object) -> None:
        names = self.programs[0].names
        self.generated = names.generated(self.start)
        names.forget(self.start, undo=False)

    def written(self, result: object, variables: Sequence[Variable]) -> _Written | None:
        """The recorded layer; None where its names do not all begin with the one name of the layer."""
        main, startup = self.programs
        if main is startup or startup._current or any(len(p.blocks) != n for p, (n, _, _) in zip(self.programs, self.before, strict=True)):
            return None
        if not self.generated or not isinstance(result, Variable):
            return None
        # The layer's own name comes first, as ``fc_0``; every other one has to begin with that, and be counted from 0, to be counted again
        # alike.
        kind = self.generated[0][0]
        stem = f"{kind if kind.startswith(main.names.prefix) else main.names.prefix + kind}_{main.names.counts[kind] - 1}"
        counts: dict[str, int] = {}
        for key, n in self.generated[1:]:
            if not key.startswith(f"{stem}.") or n != counts.get(key, 0) or main.names.counts[key] < n + 1:
                return None
            counts[key] = n + 1
        new = [_last_variables(p.blocks[0], n) for p, (_, _, n) in zip(self.programs, self.before, strict=True)]
        names = list(dict.fromkeys(name for part in new for name, _ in part))
        if not all(name.startswith(f"{stem}.") for name in names) or any(main.names.counts[key] != n for key, n in counts.items()):
            return None
        numbers = {name: i for i, name in enumerate([*names, *(var.name for var in variables)])}
        first_part, started = (_part(program, before, numbers) for program, before in zip(self.programs, self.before, strict=True))
        if first_part is None or started is None or result.name not in numbers or main.blocks[0].vars.get(result.name) is not result:
            return None
        ends = tuple(name[len(stem) :] for name in names)
        keys = tuple((key[len(stem) :], n) for key, n in counts.items())
        return _Written(kind, keys, ends, first_part, started, numbers[result.name])


def _part(program: Program, before: tuple[int, int, int], numbers: Mapping[str, int]) -> _Part | None:
    """The part appended to a program's first block; None where an operator refers to a name that has no number."""
    block, (_, op_count, var_count) = program.blocks[0], before
    variables = tuple((numbers[name], var.copier()) for name, var in _last_variables(block, var_count))
    ops = []
    for op in block.ops[op_count:]:
        if op.made_by is not None or not numbers.keys() >= {*op.input_names(), *op.output_names()}:
            return None
        inputs, outputs = (tuple((slot, tuple(numbers[n] for n in ns)) for slot, ns in side.items()) for side in (op.inputs, op.outputs))
        lists = tuple(name for name, value in op.attrs.items() if isinstance(value, list))
        ops.append(_Operator(op.type, inputs, outputs, {**op.attrs, **{name: list(op.attrs[name]) for name in lists}}, lists, op.role))
    types = tuple(op.type for op in ops)
    return _Part(variables, tuple(ops), types, [REGISTRY[op_type] for op_type in types])


def _last_variables(block: Block, start: int) -> list[tuple[str, Variable]]:
    """The variables except for the first ones, with their names; it takes no longer where those are many."""
    return list(islice(reversed(block.vars.items()), len(block.vars) - start))[::-1]
