"""Programs that go through the places where an operator can be, around and inside loops and branches, and what happens to its input.

The same operator reads the same name before a block, in it and after it; the block leaves the name alone, or overwrites it before
or after that. What is merged, moved or folded across the border of a block without looking at this gives other results.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache

import numpy as np

from graphad.ops import lookup
from graphad.program import Variable
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Interest, other_attr
from graphad.testing.cases import Case, Choices, outside_reads
from graphad.testing.operator_programs import (
    NEVER,
    PRINTED,
    CallProgram,
    drawn_condition,
    operators,
    write_branch,
    write_conditional,
    write_loop,
    write_net,
)
from graphad.testing.samples import samples_of
from graphad.testing.swept_calls import FLOATS_DRAWN, append_over, converted, loss_of, types_of, varied
from graphad.testing.values import name_of

Body = Callable[[], object]  # writes the body of a block

# Blocks, and how often the body runs: never, once, again. What is listed twice is drawn twice as often.
KINDS = (
    *(("while", trips) for trips in (0, 1, 2, 2, 3, 3)),
    *((kind, runs) for kind in ("conditional_block", "if_else", "if_else", "if_else") for runs in (0, 1)),
    ("net", 1),
    *((kind, trips) for kind in ("while in while", "while in if_else", "if_else in while", "if_else in while") for trips in (0, 2, 3)),
    *(("never", trips) for trips in (0, 0, 0)),
    *(("twice", runs) for runs in (0, 1)),
)
ALIKE = ("if_else", "if_else", "conditional_block", "net")  # of blocks that come twice
CHANGES = ("none", "operands", "operands", "all operands", "all operands", "branches", "attribute")  # what differs between two blocks
TRIES = 4  # other attributes
DRAWN = 3  # of so many operands that are computed one is drawn at random
STEEP = 6  # of so many blocks one has an operator of which the slope may be infinite, so that 0 times it is nan
LOOKUPS = ("gather", "lookup_table_v2", "index_select", "gather_nd", "one_hot_v2")
FAR, FAR_READS = 1000, 2
BESIDE = ("sin", "sin", "exp", "abs", "sqrt")  # what a branch computes besides, of the type of what it reads
ONE_WAY = ("elementwise_sub", "elementwise_sub", "elementwise_div")  # the order of operands matters
OVER_MISSING = ("exp", "tanh", "sin", "square", "scale")
ROLES = ("captured", "early", "late", "both")
WITH_ATTRIBUTES = ("scale", "scale", "increment", "softmax", "reduce_sum", "cumsum", "clip", "leaky_relu", "transpose2", "concat", "roll")
PLAIN = (
    *("dropout",) * 3,  # what draws numbers has to stay where it is, and little else does
    "tanh",
    "scale",
    "assign",
    "square",
    "elementwise_mul",
    "elementwise_add",
    "elementwise_sub",
    "elementwise_max",
    "sin",
    "increment",
    "cast",
    "relu",
    "softmax",
    "reduce_mean",
    "concat",
    "transpose2",
    "dropout",
)
_places = [(kind, role) for kind, role in itertools.product(KINDS, ROLES)]
# Always shuffled alike: programs that follow each other have different blocks, and a seed gives the same programs.
random.Random("places").shuffle(_places)
PLACES = tuple(_places)


def block_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """A block, with an operator in it and around it; ``start`` says which block, and when it overwrites what the operator reads."""
    w = CallProgram(choices, interest)
    places = _places_of(interest.types) if choices.boolean() else PLACES
    (kind, runs), role = places[start % len(places)]
    common = WITH_ATTRIBUTES if kind.startswith("if_else") and choices.boolean() else PLAIN
    types = types_of(interest) if interest.types and choices.chance(3) else common
    types = steep_types() if choices.chance(STEEP) else types
    call = varied(choices, choices.one_of(types), interest)
    repeated = _Repeated.drawn(w, None if call is None else converted(call, choices.one_of(FLOATS_DRAWN)))
    if repeated is None:
        return Case(w.program, "", w.feeds, w.params)
    # What is drawn at random for a block alone has to be drawn before it nevertheless.
    is_inside_alone = repeated.is_drawn and choices.boolean()
    role = "captured" if is_inside_alone else role
    before = [] if is_inside_alone or choices.chance(4) else repeated.read()
    repeated.keep()
    if not is_inside_alone:
        repeated.prepare()
    _write(w, kind, runs, repeated, role)
    after = repeated.read() if choices.boolean() and not is_inside_alone else []
    # What is read after the blocks as well cannot be lost in them.
    kept_alive = {*w.reserved, repeated.copy, *((repeated.name,) if is_inside_alone else ())}
    written_names = [name for op in w.block.ops for name in op.output_names() if name in w.values and name not in kept_alive]
    return Case(w.program, loss_of(w, [*written_names[::-1], *before, *after]), w.feeds, w.params)


@cache
def _places_of(types: tuple[str, ...]) -> tuple[tuple[tuple[str, int], str], ...]:
    """The places in blocks of some types, or if there are none, all."""
    kinds = (*types, "never") if {"while", "conditional_block"} & {*types} else types
    places = tuple(place for place in PLACES if any(kind in place[0][0] for kind in kinds))
    alike = tuple(place for place in PLACES if place[0][0] == "twice" and any(op_type in ALIKE for op_type in types))
    # However few places there are, no more than about an eighth of the blocks come twice.
    return places * max(1, 7 * len(alike) // max(1, len(places))) + alike or PLACES


@cache
def steep_types() -> tuple[str, ...]:
    """The operators of which the slope may be infinite, or none: they may not run where the program would not run them."""
    return tuple(op_type for op_type in operators() if lookup(op_type).steep)


def _write(w: CallProgram, kind: str, runs: int, repeated: _Repeated, role: str) -> None:
    # A block within a block, as "if_else in while".
    kind, _, around = kind.partition(" in ")
    if around == "while":
        write_loop(w, runs, lambda counter: _inner(w, lambda: _write(w, kind, 1, repeated, role), repeated))
    elif around:
        write_branch(
            w, bool(runs), lambda: _inner(w, lambda: _write(w, kind, runs, repeated, role), repeated), lambda: repeated.body("captured")
        )
    elif kind == "while":
        write_loop(w, runs, lambda counter: repeated.body(role, counter), early=w.choices.chance(4))
    elif kind == "twice":
        _write_twice(w, bool(runs), repeated)
    elif kind == "never":
        _write_never(w, repeated)
    elif kind == "conditional_block":
        write_conditional(w, bool(runs), lambda: repeated.body(role))
    elif kind == "if_else" and repeated.kept and not w.choices.chance(3):
        write_branch(w, bool(runs), *repeated.alternatives())
    elif kind == "if_else":
        write_branch(w, bool(runs), lambda: repeated.body(role), lambda: repeated.body(w.choices.one_of(ROLES)))
    else:
        write_net(w, lambda: repeated.body(role))


def _write_twice(w: CallProgram, holds: bool, repeated: _Repeated) -> None:
    """Two blocks under one condition, over the same values, that are equal or differ in one thing: what merges equal ones must see it."""
    kinds = [kind for kind in ALIKE if kind in w.interest.types] or ALIKE
    kind, change, condition = w.choices.one_of(kinds), w.choices.one_of(CHANGES), drawn_condition(w, holds)
    value = w.values[repeated.name]
    assert isinstance(value, np.ndarray)
    others = [name for name in w.like(value) if name not in (repeated.name, *w.reserved)]
    x, y = repeated.name, w.choices.one_of(others) if others else w.data(value[::-1] * value.dtype.type(0.75) if value.ndim else value)
    op_type, last = w.choices.one_of(ONE_WAY), w.choices.one_of(("", "assign", "tanh"))
    variant = other_attr(w.choices, repeated.call, Interest()) if change == "attribute" else None
    for is_second in (False, True):
        operands = (y, x) if is_second and change == "all operands" else (x, y)
        target = repeated.target() if variant is not None else w.constant(np.zeros_like(value), w.unique("o"))
        if variant is not None:
            body = _Repeated(w, variant if is_second else repeated.call, repeated.names, repeated.name).writing(target)
        else:
            body = _taking(w, op_type, (y, x) if is_second and change == "operands" else operands, last, target)
        # It reads both operands first, so that they are operands of both blocks in the same order, whatever the body does.
        first = _taking(w, "elementwise_add", operands, last, target)
        first, body = (body, first) if is_second and change == "branches" else (first, body)
        if kind == "if_else":
            write_branch(w, holds, first, body, condition)
        elif kind == "conditional_block":
            write_conditional(w, holds, _in_turn(first, body), condition)
        else:
            write_net(w, _in_turn(first, body))


def _in_turn(first: Body, second: Body) -> Body:
    return lambda: (first(), second())


def _taking(w: CallProgram, op_type: str, operands: tuple[str, str], last: str, target: str) -> Body:
    """A body with an operator over two operands, perhaps another one over its result, and that under a name."""

    def write() -> None:
        x, y = operands
        result = w.apply(op_type, {"X": [x], "Y": [y]}, {}, None if last else target)
        if result and last:
            w.apply(last, {"X": [result]}, {}, target)

    return write


def _write_never(w: CallProgram, repeated: _Repeated) -> None:
    """Blocks that do not run, and could not: one reads what has no value, others an index that is none."""
    _read_missing(w, repeated)
    for _ in range(FAR_READS):
        _read_far(w)


def _never(w: CallProgram, body: Callable[[], None]) -> None:
    if not w.choices.chance(3):
        write_loop(w, 0, lambda counter: body())
    else:
        write_conditional(w, False, body)


def _read_missing(w: CallProgram, repeated: _Repeated) -> None:
    """Append a block that does not run, and in another block that does not run either an operator that reads its result."""
    value, name = w.values[repeated.name], w.unique("u")
    assert isinstance(value, np.ndarray)
    # Declared around the block that would write it, so that another block can name it.
    w.root.vars[name] = Variable.trusted(w.root, name, value.shape, name_of(value.dtype))
    write_conditional(w, False, lambda: w.apply("tanh", {"X": [repeated.name]}, {}, name))
    result = w.constant(np.zeros_like(value), w.unique("o"))

    def read() -> None:
        # As if it had a value: the operator is drawn for it, and never runs.
        w.values[name] = value
        # Of infinite slopes or not, of interest or not: what may run early differs.
        op_type = w.choices.one_of(types_of(w.interest)) if w.interest.types and w.choices.chance(3) else w.choices.one_of(OVER_MISSING)
        written_names = append_over(w, op_type, name, NEVER)
        read_name = next((candidate for candidate in written_names if _alike(w.values[candidate], value)), result)
        w.apply("elementwise_add", {"X": [result], "Y": [read_name]}, {}, result)

    _never(w, read)


def _read_far(w: CallProgram) -> None:
    """An operator that gets indices far out of range."""
    types = LOOKUPS if w.choices.boolean() else _indexed()
    call = varied(w.choices, w.choices.one_of(types), w.interest)
    if call is None:
        return
    names = {s: [w.data(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
    value = next(iter(call.outputs.values()))[0]
    result = w.constant(np.zeros_like(value), w.unique("o")) if isinstance(value, np.ndarray) else ""

    def read() -> None:
        results = w.append(call, names, overwrite=NEVER)
        if results and result:
            w.apply("assign", {"X": results[:1]}, {}, result)

    # In a block that does not run: moved out of it, the operator would fail.
    _never(w, read)
    # Only now: while the call is drawn its kernel runs, and needs valid indices.
    feed_names = {name for slot_names in names.values() for name in slot_names if name in w.feeds}
    for name in [name for name in feed_names if w.feeds[name].dtype.kind == "i"]:
        w.feeds[name] = w.feeds[name] + FAR
        w.reserved.add(name)


@cache
def _indexed() -> tuple[str, ...]:
    """The operators that take integers beside floating-point numbers."""
    kinds = {
        t: {v.dtype.kind for s in samples_of(t)[:1] for vs in s.slots().values() for v in vs if isinstance(v, np.ndarray)}
        for t in operators()
    }
    return tuple(op_type for op_type, dtypes in kinds.items() if {"i", "f"} <= dtypes)


def _inner(w: CallProgram, write: Callable[[], None], repeated: _Repeated) -> None:
    """A block inside a block, and perhaps the operator beside it."""
    if w.choices.chance(3):
        repeated.body("captured")
    write()
    if w.choices.chance(4):
        repeated.overwrite()


class _Repeated:
    """An operator that is written again and again over one name.

    Args:
        w: the program.
        call: the operator on the values at first.
        names: its inputs.
        name: that of the input which is overwritten.
        is_drawn: whether that is drawn at random.

    Attributes:
        kept: names around all blocks, of the type of the operator's first result, through which its results leave blocks.
        copy: a name around all blocks for what the name holds at first, or empty.
        line: names that change places.
    """

    def __init__(self, w: CallProgram, call: Call, names: Names, name: str, is_drawn: bool = False) -> None:
        self.w, self.call, self.names, self.name, self.is_drawn = w, call, names, name, is_drawn
        self.kept: list[str] = []
        self.copy = ""
        self.line: list[str] = []

    @classmethod
    def drawn(cls, w: CallProgram, call: Call | None) -> _Repeated | None:
        """The operator over data, state or what another one computed; None if it has no floating-point input."""
        inputs = {} if call is None else call.inputs
        floats = [(s, i) for s, values in inputs.items() for i, v in enumerate(values) if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        if call is None or not floats:
            return None
        names = w.named(call, {})
        slot, i = w.choices.one_of(floats)
        name, is_drawn = names[slot][i], False
        if w.choices.boolean():
            is_drawn = w.choices.chance(DRAWN)
            name = (_drawn_like(w, name) if is_drawn else w.apply("tanh", {"X": [name]}, {})) or name
            names[slot][i] = name
        return cls(w, call, names, name, is_drawn)

    def keep(self) -> None:
        """Make names for results: constants, data, state, or what is known."""
        w = self.w
        value = next((v for values in self.call.outputs.values() for v in values if isinstance(v, np.ndarray)), None)
        for _ in range(2 if value is not None else 0):
            names = [name for name in w.like(value) if name not in (self.name, *self.kept)]
            kind = w.choices.below(6)
            if kind > 3 and names:
                self.kept.append(names[0])
            elif kind == 3 and w.choices.boolean():  # state, which a block writes although nothing may read it
                self.kept.append(w.state(np.zeros_like(value)))
            else:
                self.kept.append(w.data(np.zeros_like(value)) if kind == 0 else w.constant(np.zeros_like(value), w.unique("o")))

    def writing(self, target: str) -> Body:
        """A body with the operator on what the names hold then, and its first result under a name."""
        return lambda: self.read(target)

    def target(self) -> str:
        """A new name around all blocks, of the type of the operator's first result."""
        value = next(v for values in self.call.outputs.values() for v in values if isinstance(v, np.ndarray))
        return self.w.constant(np.zeros_like(value), self.w.unique("o"))

    def prepare(self) -> None:
        """Perhaps copy what blocks may overwrite, or let names change places."""
        if self.w.choices.boolean():
            self.copy = self.w.apply("assign", {"X": [self.name]}, {}) or ""
        if self.w.choices.chance(4):
            value = self.w.values[self.name]
            assert isinstance(value, np.ndarray)
            new = self.w.constant if self.w.choices.boolean() else self.w.data
            self.line = [new(value * factor) for factor in (0.5, 0.25)] if self.w.choices.boolean() else []
            self._exchange()

    def read(self, target: str = "") -> list[str]:
        """The operator on what the names hold now; the names of its results, none if it does not take that.

        The first result may get a name that there is already, if it has the type of what that holds.
        """
        w = self.w
        call = self.call.with_inputs({slot: [w.values[n] for n in names] for slot, names in self.names.items()})
        outputs = None if call is None or not w.accepts(call) else w.results(call, self.names, NEVER)
        if call is None or not outputs:
            return []
        slot = next(iter(outputs))
        is_free = all(target != name for names in outputs.values() for name in names)
        if target and is_free and _alike(call.outputs[slot][0], w.values[target]):
            outputs[slot][0] = target
        return w.write(call, self.names, outputs)

    def overwrite(self, result: str = "") -> None:
        """Give the name another value: a function of its own, or what the operator gave."""
        w, value = self.w, self.w.values[self.name]
        has_type = bool(result) and _alike(w.values[result], value)
        kind = w.choices.below(6 if has_type else 4)
        if kind == 0:
            w.apply("scale", {"X": [self.name]}, {"scale": 0.5, "bias": 0.25}, self.name)
        elif kind == 1:
            w.apply("tanh", {"X": [self.name]}, {}, self.name)
        elif kind == 2:
            operand = w.choices.one_of([name for name in w.like(value) if name not in w.reserved] or [self.name])
            w.apply("elementwise_sub", {"X": [self.name], "Y": [operand]}, {}, self.name)
        elif kind == 3 and isinstance(value, np.ndarray):
            w.constant(np.full_like(value, 0.75), self.name)
        elif kind == 4:
            w.apply("assign", {"X": [result]}, {}, self.name)
        else:
            w.apply("elementwise_add", {"X": [self.name], "Y": [result]}, {}, self.name)

    def body(self, role: str, counter: str = "") -> None:
        """The body of a block: the operator, and before or after it the name is overwritten; or now and then an effect alone."""
        if not self._prints_alone():
            self._usual_body(role, counter)

    def _usual_body(self, role: str, counter: str) -> None:
        w = self.w
        self._begin()
        copy_kind = w.choices.below(4)
        if copy_kind == 0:
            self._read_copy()
        # Read before or after it is overwritten: passes that go by names mix the two up.
        if role in ("early", "both"):
            self.overwrite()
        into = w.choices.one_of(self.kept) if self.kept and w.choices.chance(4) else ""
        results = self.read(into)
        repeats = self.read() if w.choices.chance(4) else []
        tensors = [name for name in (*results[:1], *repeats[:1]) if isinstance(w.values[name], np.ndarray)]
        if counter and tensors and w.choices.chance(3):
            tensors = [self._counted(tensors[0], counter), *tensors[1:]]
        if role in ("late", "both"):
            self.overwrite(tensors[0] if tensors else "")
        if role == "late" and w.choices.chance(3):
            tensors += self.read()[:1]
        if copy_kind > 1:
            self._read_copy()
        if w.conditions and self.kept and w.choices.chance(3):
            self._read_condition()
        for name, target in zip(dict.fromkeys(tensors), self.kept, strict=False):
            if name != target and _alike(w.values[name], w.values[target]):
                self._pass_out(name, target)

    def _prints_alone(self) -> bool:
        """Perhaps print the name; return whether that is all the block is there for."""
        if not self.w.choices.chance(PRINTED):
            return False
        self.w.print(self.name)
        return self.w.choices.boolean()

    def _begin(self) -> None:
        """Perhaps hide a name by another variable, or let names change places."""
        if self.w.choices.chance(6):
            self._hide()
        if self.w.choices.chance(2 if self.line else 6):
            self._exchange()

    def _read_copy(self) -> None:
        """Let what the name held at first reach a name around the blocks, from the copy that was made of it."""
        w = self.w
        if not self.copy or not self.kept:
            return
        op_type = w.choices.one_of(("assign", "tanh", "sin", "abs"))
        name = self.copy if op_type == "assign" else w.apply(op_type, {"X": [self.copy]}, {})
        if name and _alike(w.values[name], w.values[self.kept[-1]]):
            self._pass_out(name, self.kept[-1])

    def _read_condition(self) -> None:
        """Let a condition of the block, or a part of it, reach a name around the blocks as a number: in here more is known of it."""
        w, target = self.w, self.kept[-1]
        value = w.values[target]
        name = w.choices.one_of(w.choices.one_of(w.conditions))
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim:
            number = w.apply("cast", {"X": [name]}, {"out_dtype": name_of(value.dtype)})
            if number:
                w.apply("elementwise_add", {"X": [target], "Y": [number]}, {}, target)

    def _exchange(self) -> None:
        """Two or three names around the blocks change places; mostly those that did before."""
        w, line = self.w, self.line
        if not line or (w.block is not w.root and w.choices.chance(3)):
            names_alike = [name for name in w.like(w.values[self.name]) if name not in w.reserved]
            names = [name for name in names_alike if w.block is w.root or name not in w.block.vars]
            line = w.choices.permutation(names)[: w.choices.integer(2, 3)]
        if w.block is w.root:
            self.line = line
        # A rotation needs one name more.
        aside = w.apply("assign", {"X": line[:1]}, {}) if len(line) > 1 else None
        if aside:
            for name, next_name in itertools.pairwise(line):
                w.apply("assign", {"X": [next_name]}, {}, name)
            w.apply("assign", {"X": [aside]}, {}, line[-1])

    def _hide(self) -> None:
        """Another variable under a name that there is around the block; every second one stops gradients."""
        w = self.w
        taken_names = {self.name, *self.kept, *w.reserved, *w.block.vars, *outside_reads(w.block)}
        names = [name for name in w.like(w.values[self.name]) if name not in taken_names]
        if names and w.blocks[-1] is not w.root:
            name = w.choices.one_of(names)
            # A variable of the block under a name from around it: what writes one must not be taken for the other.
            w.hide(name, stop_gradient=w.choices.boolean())
            w.apply("sin", {"X": [self.name]}, {}, name)
            self._pass_out(name, next((word for word in self.kept if _alike(w.values[word], w.values[name])), name))

    def alternatives(self) -> tuple[Body, Body]:
        """Two bodies that look alike: one attribute of an operator differs, its operands change places, or two results do."""
        tries = (other_attr(self.w.choices, self.call, Interest()) for _ in range(TRIES))
        variant = next((call for call in tries if call is not None and _differ(call, self.call)), None)
        first, second = self.kept[0], self.kept[-1]
        if variant is not None and self.w.choices.boolean():
            repeated = _Repeated(self.w, variant, self.names, self.name)
            return lambda: self.read(first), lambda: repeated.read(first)
        if self.w.choices.chance(3):
            return self._in_both_orders(first)
        # The same in both branches, so that only the places of the two results differ.
        beside, direct = self.w.choices.one_of(BESIDE), self.w.choices.boolean()
        return lambda: self._both(first, second, beside, direct), lambda: self._both(second, first, beside, direct)

    def _in_both_orders(self, target: str) -> tuple[Body, Body]:
        """Two bodies that take operands from each other, in both orders; perhaps an operator is between that and the result."""
        w, value = self.w, self.w.values[target]
        x, *others = w.choices.permutation([name for name in w.like(value) if name not in w.reserved] or [target])
        y, op_type = [*others, w.constant(np.full_like(value, 0.75))][0], w.choices.one_of(ONE_WAY)
        last = w.choices.one_of(("", "", "assign", "tanh"))
        return _taking(w, op_type, (x, y), last, target), _taking(w, op_type, (y, x), last, target)

    def _both(self, first: str, other: str, beside: str, direct: bool) -> None:
        """The operator's result under one name, and what another operator makes of the same input under the other, itself or as a copy."""
        self.read(first)
        if not _alike(self.w.values[self.name], self.w.values[other]):
            return
        # Into the name itself or through a copy: passes look for an operator that a branch ends with.
        result = self.w.apply(beside, {"X": [self.name]}, {}, other if direct else None)
        if result is not None and not direct:
            self.w.apply("assign", {"X": [result]}, {}, other)

    def _pass_out(self, name: str, target: str) -> None:
        """Let a result reach a name around the blocks: in the place of what that has, or added to it."""
        w, value = self.w, self.w.values[name]
        adds = isinstance(value, np.ndarray) and value.dtype.kind == "f" and w.choices.boolean()
        if not adds or w.apply("elementwise_add", {"X": [target], "Y": [name]}, {}, target) is None:
            w.apply("assign", {"X": [name]}, {}, target)

    def _counted(self, name: str, counter: str) -> str:
        """A result times the counter of the loop."""
        w, value = self.w, self.w.values[name]
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.ndim:
            return name
        number = w.apply("cast", {"X": [counter]}, {"out_dtype": name_of(value.dtype)})
        return (w.apply("elementwise_mul", {"X": [name], "Y": [number]}, {}) if number else None) or name


def _drawn_like(w: CallProgram, name: str) -> str | None:
    """Random numbers of a name's type, drawn once around the blocks that read them."""
    value = w.values[name]
    assert isinstance(value, np.ndarray)
    return w.apply("uniform_random", {}, {"shape": list(value.shape), "min": 0.25, "max": 0.75, "dtype": name_of(value.dtype)})


def _differ(first: Call, other: Call) -> bool:
    """Whether the first results of two calls are of one type, and differ."""
    a, b = (next(iter(call.outputs.values()))[0] for call in (first, other))
    return _alike(a, b) and not np.array_equal(a, b)


def _alike(first: object, other: object) -> bool:
    return isinstance(first, np.ndarray) and isinstance(other, np.ndarray) and first.shape == other.shape and first.dtype == other.dtype
