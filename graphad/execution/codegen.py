"""A compiled program as Python: a module over numpy whose ``make`` allocates the memory of the plan and returns the function of a run."""

from __future__ import annotations

import itertools
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from graphad.execution.extremes import bound_of, full_of
from graphad.execution.native import expression, function_of, loop_of
from graphad.execution.nodes import (
    Again,
    Append,
    Assign,
    Body,
    Compiled,
    Group,
    If,
    Keep,
    Node,
    Parallel,
    Return,
    Signal,
    Sum,
    Wait,
    While,
    Zeros,
    all_nodes,
    kept_by,
    reads_of,
    writes_of,
)
from graphad.execution.planning import BIG, MemoryPlan, Place, made_directly, tile_of
from graphad.execution.runtime import HELPERS
from graphad.execution.tracing import Call, Value
from graphad.program import Operator

HEAD = '''\
def block(nbytes):
    """Memory that begins at a multiple of 64."""
    memory = np.empty(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + nbytes]


def part(memory, offset, shape, dtype):
    """An array in the memory."""
    return np.ndarray(shape, dtype, buffer=memory, offset=offset)
'''

MANY_BOUND = 1000  # names that ``make`` binds


@dataclass
class Source:
    """The text, and what it needs.

    Attributes:
        text: of the module: ``make()`` returns ``run(feeds..., variables..., new variables...)``, which returns the fetched values
            and the variables.
        objects: what the text names and does not define, by name.
        spare: the variables whose new values are written into arrays that the caller gives.
        returned: which of the fetched values are, too.
        calls: what each line of the text does, by its number.
        marks: the call after which ``mark`` is called with a number, for each number, and whether it is the first of its operator.
    """

    text: str
    objects: dict[str, object]
    spare: list[str]
    returned: list[int]
    calls: dict[int, Node]
    marks: list[tuple[Call, bool]]


@dataclass
class Options:
    """The counters of a run."""

    counts_trips: bool = True
    limit: int | None = None
    marks: bool = False  # whether the time is noted after each call
    native: bool = False  # whether loops are compiled
    quick: bool = True  # whether numpy's functions are looked up once, and ``out`` is given by its place: 150 ns a call


@dataclass
class _Writer:
    compiled: Compiled
    plan: MemoryPlan
    options: Options
    lines: list[str] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    names: dict[Value, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)  # the largest that follows a name
    objects: dict[str, object] = field(default_factory=dict)
    called: dict[int, str] = field(default_factory=dict)  # the name of an object, by its id
    at_bind: set[Value] = field(default_factory=set)
    calls: dict[int, Node] = field(default_factory=dict)
    dead: dict[int, list[Value]] = field(default_factory=dict)
    marks: list[tuple[Call, bool]] = field(default_factory=list)
    seen: set[Operator | None] = field(default_factory=set)
    there: set[Value] = field(default_factory=set)  # the results of groups that have arrays
    signals: dict[Signal, str] = field(default_factory=dict)
    full: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    # -- names --

    def fresh(self, hint: str) -> str:
        name = _identifier(hint)
        unused_name, i = name, self.numbers.get(name, 1)
        while unused_name in self.taken:
            i += 1
            unused_name = f"{name}_{i}"
        self.numbers[name] = i
        self.taken.add(unused_name)
        return unused_name

    def name(self, value: Value) -> str:
        """How the source calls a value; a constant is an object, or written out."""
        known_name = self.names.get(value)
        if known_name is not None:
            return known_name
        if value.constant:
            example = value.example
            if isinstance(example, bool | int | float) and example == example and abs(example) != float("inf"):
                known_name = repr(example)
            elif example is None:
                known_name = "None"
            else:
                known_name = self.object(example, "constant")
        else:
            known_name = self.fresh(value.hint)
        self.names[value] = known_name
        return known_name

    def object(self, thing: object, hint: str) -> str:
        name = self.called.get(id(thing))
        if name is None:
            name = self.called[id(thing)] = self.fresh(hint)
            self.objects[name] = thing
        return name

    # -- lines --

    def say(self, depth: int, text: str, node: Node | None = None) -> None:
        self.lines.append("    " * depth + text)
        if node is not None:
            self.calls[len(self.lines)] = node
        if self.options.marks and isinstance(node, Call) and node.op is not None:
            self.lines.append("    " * depth + f"mark({len(self.marks)})")
            self.marks.append((node, node.op not in self.seen))
            self.seen.add(node.op)

    def given(self) -> None:
        """The arrays that the caller gives, and what else they hold before."""
        for value, hint in self.plan.given.items():
            self.names[value] = self.fresh(hint)
        for value, place in self.plan.place_of.items():
            if place.owner is not None:
                self.names[value] = self.names[place.owner]

    def placed(self) -> None:
        """The arrays of the plan."""
        if self.plan.size:
            self.bound.append(f"memory = block({self.plan.size})")
        for value, place in self.plan.place_of.items():
            if place.owner is not None:
                continue
            shape = tuple(map(int, value.example.shape))
            self.bound.append(f"{self.name(value)} = part(memory, {place.offset}, {shape}, {value.example.dtype.name!r})")
            self.at_bind.add(value)

    def body(self, body: Body, depth: int) -> None:
        if not body:
            self.say(depth, "pass")
        count_before = len(self.lines)
        for node in body:
            _WRITERS[type(node)](self, node, depth)
            names = [self.name(value) for value in self.dead.get(id(node), ()) if value not in self.at_bind]
            if names:
                self.say(depth, f"{' = '.join(names)} = None")
        # Views of the plan's memory are made in ``make``: a body of nothing else is empty, which Python does not allow.
        if len(self.lines) == count_before and body:
            self.say(depth, "pass")

    def call(self, node: Call, depth: int) -> None:
        args = [self.name(arg) for arg in node.args]
        if self.options.quick and (bound := bound_of(node, np.size(node.results[0].example) if node.results else 0)) is not None:
            args[bound] = self.repeated(node.args[bound], node.results[0].example.shape)
        if not node.results:
            return self.say(depth, node.form.format(*args), node)
        (*_, last) = node.results
        if len(node.results) > 1 or node.unpacks:
            targets = "".join(f"{'_' if value.constant else self.name(value)}, " for value in node.results)
            return self.say(depth, f"{targets}= {node.form.format(*args)}", node)
        if last in self.plan.place_of:
            return self.say(depth, self.into(node, args, self.name(last)), node)
        if (
            # A view of the plan's memory is the same in every run, so it is made once, in ``make``. Not what a kernel that is called as a
            # whole gave back in one run: that may depend on values.
            last.base is not None
            and node.pure
            and last.static
            and all(arg.constant or (arg in self.at_bind and arg.root is last.root) for arg in node.args)
        ):
            self.at_bind.add(last)
            self.bound.append(f"{self.name(last)} = {node.form.format(*args)}")
            return None
        form = node.form.format(*args)
        # Where a result has no axes, ufuncs return a scalar, not an array.
        if last.static and last.base is None and not last.example.ndim and node.into:
            form = f"np.asarray({form})"
        return self.say(depth, f"{self.name(last)} = {form}", node)

    def repeated(self, number: Value, shape: tuple[int, ...]) -> str:
        """An array full of a constant."""
        key = (self.name(number), shape)
        if key not in self.full:
            self.full[key] = self.object(full_of(number.example, shape), "full")
        return self.full[key]

    def into(self, node: Call, args: Sequence[str], out: str) -> str:
        """The call of a node that writes into an array."""
        return (_quick(node.into) if self.options.quick else node.into).format(*args, out=out)

    def assign(self, node: Assign, depth: int) -> None:
        pairs = [(self.name(t), self.name(s)) for t, s in zip(node.targets, node.sources, strict=True)]
        self.say(depth, ", ".join(t for t, _ in pairs) + " = " + ", ".join(s for _, s in pairs))

    def loop(self, node: While, depth: int) -> None:
        if node.again is not None:
            return self.loop_again(node, node.again, depth)
        test = node.test
        forward = test is not None
        trips = self.fresh("trips") if forward and self.options.counts_trips else ""
        if trips:
            self.say(depth, f"{trips} = 0")
        if forward and self.compiled.random:
            self.say(depth, "iterations.append(0)")
        if test is not None:
            self.say(depth, f"while {self.truth(test)}:", node)
        else:
            assert node.residuals is not None
            targets = "".join(f"{self.name(value) if not value.constant else '_'}, " for value in node.unpacked)
            stack = self.name(node.residuals)
            # Residuals are read from the last to the first; popped where nothing else reads them, so that their memory is free at once.
            self.say(depth, f"while {stack}:" if node.consumes else f"for {targets or '_'} in reversed({stack}):")
            if node.consumes:
                self.say(depth + 1, f"{targets}{'= ' if targets else ''}{stack}.pop()")
        if forward and self.options.limit is not None:
            self.say(depth + 1, "count_iteration()")
        self.body(node.body, depth + 1)
        if trips:
            self.say(depth + 1, f"{trips} += 1")
        if forward and self.compiled.random:
            self.say(depth + 1, "iterations[-1] += 1")
            self.say(depth, "iterations.pop()")
        if trips:
            self.say(depth, f"all_trips.add({trips})")
        return None

    def loop_again(self, node: While, again: Again, depth: int) -> None:
        """A loop over residuals, for which iterations are run again."""
        assert node.residuals is not None
        name, starts = self.fresh("again"), self.name(node.residuals)
        self.say(depth, f"def {name}({', '.join('_' if value.constant else self.name(value) for value in again.carried)}):")
        self.body(again.body, depth + 1)
        targets = "".join(f"{'_' if value.constant else self.name(value)}, " for value in node.unpacked)
        iterations = "iterations" if self.compiled.random else "[]"
        self.say(depth, f"for {targets or '_'} in replayed({starts}, {self.name(again.count)}, {again.every}, {name}, {iterations}):")
        self.body(node.body, depth + 1)

    def leave(self, node: Return, depth: int) -> None:
        self.say(depth, f"return ({_items(map(self.name, node.ends))}), ({_items(map(self.name, node.residuals))})")

    def truth(self, test: Value) -> str:
        # An array of one boolean is a condition of Python as it is; ``truth`` makes sure of any other value in every run.
        plain = test.static and test.example.dtype == bool and test.example.size == 1
        return self.name(test) if plain else f"truth({self.name(test)})"

    def branch(self, node: If, depth: int) -> None:
        self.say(depth, f"if {self.truth(node.test)}:", node)
        self.body(node.bodies[0], depth + 1)
        if node.bodies[1]:
            self.say(depth, "else:")
            self.body(node.bodies[1], depth + 1)

    def lanes(self, node: Parallel, depth: int) -> None:
        """A function for each lane; what it makes is the run's, as far as it is not in the plan."""
        results = [[value for step in lane for value in writes_of(step)] for lane in node.lanes]
        signals = [[self.signal(step) for step in lane if isinstance(step, Signal)] for lane in node.lanes]
        for group in (step for lane in node.lanes for step in lane if isinstance(step, Group)):
            self.allocated(group, depth)
        # Lanes are closures of the run: what one makes and another reads is a variable of the run, declared before them and ``nonlocal`` in
        # them.
        names, at = [self.fresh(f"lane_{i}") for i in range(len(results))], len(self.lines)
        shared_names: list[str] = []
        for name, lane, values in zip(names, node.lanes, results, strict=True):
            self.say(depth, f"def {name}():")
            begin = len(self.lines)
            self.body(lane, depth + 1)
            bound_values = {*self.at_bind, *self.plan.place_of, *self.there}
            new_values = [value for value in values if not value.constant and value not in bound_values]
            own_names = list(dict.fromkeys(map(self.name, new_values)))
            if own_names:
                self.insert(begin, depth + 1, f"nonlocal {', '.join(own_names)}")
                shared_names += own_names
        if shared_names:
            self.insert(at, depth, f"{' = '.join(shared_names)} = None")
        groups = "".join(f"({_items(lane_signals)}), " for lane_signals in signals)
        self.say(depth, f"together(({_items(names)}), ({groups}))")

    def insert(self, at: int, depth: int, text: str) -> None:
        """Insert a line among the existing ones."""
        self.lines.insert(at, "    " * depth + text)
        # Their numbers begin with 1, so the line at index ``at`` was number ``at + 1``.
        self.calls = {line + (line > at): node for line, node in self.calls.items()}

    def signal(self, signal: Signal) -> str:
        """The name of a signal."""
        name = self.signals.get(signal)
        if name is None:
            name = self.signals[signal] = self.fresh("signal")
            self.bound.append(f"({name},) = new_signals(1)")
        return name

    def give(self, node: Signal, depth: int) -> None:
        self.say(depth, f"{self.signal(node)}.release()")

    def wait(self, node: Wait, depth: int) -> None:
        self.say(depth, f"{self.signal(node.signal)}.acquire()")

    def sum(self, node: Sum, depth: int) -> None:
        total, term, first = self.name(node.total), self.name(node.term), self.name(node.first)
        self.say(depth, f"np.copyto({total}, {term}) if {first} else np.add({total}, {term}, out={total})")

    def append(self, node: Append, depth: int) -> None:
        # ``if not i: `` keeps the first iteration alone, ``if not i % every: `` each every-th.
        when = "" if node.number is None else f"if not {self.name(node.number)}{f' % {node.every}' if node.every else ''}: "
        self.say(depth, f"{when}{self.name(node.stack)}.append(({_items(map(self.name, node.values))}))")

    def keep(self, node: Keep, depth: int) -> None:
        """Nothing happens: the plan has left these values alone."""

    def zeros(self, node: Zeros, depth: int) -> None:
        total = self.name(node.total)
        if node.first is not None:
            self.say(depth, f"if {self.name(node.first)}: {total}.fill(0)")
        elif node.total not in self.plan.place_of:
            self.say(depth, f"{total} = np.empty({tuple(map(int, node.total.example.shape))}, {node.total.example.dtype.name!r})")

    def group(self, node: Group, depth: int) -> None:
        """A loop over tiles, or one call of a compiled loop."""
        total = int(node.calls[0].results[0].example.size)
        parts = self.parts(node)
        if isinstance(parts[0], list) and len(parts) == 1:
            return self.one_loop(node, depth)
        tile = tile_of(node)
        first, last = node.span or (0, total)
        self.say(depth, f"# {len(node.calls)} elementwise operations on {tile} of {last - first} elements at a time")
        self.allocated(node, depth)
        large = [value for value in (*node.reads, *node.made) if not value.constant and value.example.size > 1]
        flats = {value: self.flat(value, depth) for value in large}
        pieces = {value: self.fresh(f"{self.name(value)}_tile") for value in flats}
        buffers = self.buffers(node, tile, _across(node, parts))
        self.say(depth, f"for start in range({first}, {last}, {tile}):")
        self.say(depth + 1, f"tile = slice(start, start + {tile})")
        for value, flat in flats.items():
            self.say(depth + 1, f"{pieces[value]} = {flat}[tile]")
        # The last tile is shorter, and its buffers are as long as what is read.
        if last % tile:
            short = {buffer: self.fresh(f"{buffer}_part") for buffer in dict.fromkeys(buffers.values())}
            for buffer, view in short.items():
                self.say(depth + 1, f"{view} = {buffer} if start + {tile} <= {total} else {buffer}[: {total % tile}]")
            buffers = {value: short[buffer] for value, buffer in buffers.items()}
        pieces.update(buffers)
        for part in parts:
            if isinstance(part, list):
                self.loop_call(part, [call.results[0] for call in part if call.results[0] in pieces], self.array(pieces), depth + 1)
                continue
            part.tiles = -(-total // tile)
            args = [pieces.get(arg) or (f"{self.name(arg)}.reshape(-1)" if _wide(arg) else self.name(arg)) for arg in part.args]
            if self.options.quick and (bound := bound_of(part, tile)) is not None:
                end = f"[: {last} - start]" if last % tile else ""
                args[bound] = self.repeated(part.args[bound], (tile,)) + end
            self.say(depth + 1, self.into(part, args, pieces[part.results[0]]), part)
        return None

    def parts(self, node: Group) -> list[Call | list[Call]]:
        """Split the calls of a group into runs of consecutive calls that can be compiled together."""
        if not (node.native and self.options.native):
            return list(node.calls)
        parts: list[Call | list[Call]] = []
        # The longest runs of calls that the loop compiler can express; single ones gain nothing by a loop of their own.
        for able, part in itertools.groupby(node.calls, key=lambda call: bool(expression(call))):
            calls = list(part)
            parts += [calls] if able and len(calls) > 1 else calls
        return parts

    def one_loop(self, node: Group, depth: int) -> None:
        """One call of a compiled loop, on whole arrays."""
        self.allocated(node, depth)
        flats: dict[Value | Place, str] = {}
        for value in (*node.reads, *node.made):
            if not value.constant and value.example.size > 1:
                # Values that lie in one place are one argument: numba must not be told that they do not overlap.
                place = self.plan.place_of.get(value, value) if value.base is None else value
                flats[value] = flats[place] = flats.get(place) or self.flat(value, depth)
        if node.span:
            first, last = node.span
            flats = {value: f"{flat}[{first}:{last}]" for value, flat in flats.items()}
        self.loop_call(node.calls, node.made, self.array(flats), depth)

    def array(self, arrays: Mapping[Any, str]) -> Callable[[Value], str]:
        """How the source calls the array of a value with one axis."""
        return lambda value: arrays.get(value) or f"{self.name(value)}.reshape(-1)"

    def loop_call(self, calls: list[Call], outside: Sequence[Value], array_of: Callable[[Value], str], depth: int) -> None:
        text, arrays = loop_of(calls, outside, array_of)
        self.say(depth, f"{self.object(function_of(text), 'loop')}({', '.join(arrays)})", calls[-1])

    def allocated(self, group: Group, depth: int) -> None:
        """Allocate arrays for the results of a group that the plan has no place for."""
        for value in group.made:
            if value not in self.plan.place_of and value not in self.there:
                self.there.add(value)
                self.say(depth, f"{self.name(value)} = np.empty({tuple(map(int, value.example.shape))}, {value.example.dtype.name!r})")

    def flat(self, value: Value, depth: int) -> str:
        """The name of an array with one axis."""
        name = self.name(value)
        if value.example.ndim == 1:
            return name
        flat = self.fresh(f"flat_{name}")
        if value in self.at_bind:
            self.bound.append(f"{flat} = {name}.reshape(-1)")
        else:
            self.say(depth, f"{flat} = {name}.reshape(-1)")
        return flat

    def buffers(self, node: Group, tile: int, inside: set[Value]) -> dict[Value, str]:
        """The names of the buffers of a tile, for the results that stay inside."""
        buffers: dict[tuple[str, int], str] = {}
        registers = _registers(node, inside)
        for dtype, number in registers.values():
            if (dtype, number) not in buffers:
                buffers[dtype, number] = self.fresh(f"tile_{dtype}_{number}")
                # From a cache line on: numpy's own memory begins 16 bytes later, where sums and products take 1.8 times as long to write.
                memory = f"block({tile * np.dtype(dtype).itemsize})"
                self.bound.append(f"{buffers[dtype, number]} = part({memory}, 0, ({tile},), {dtype!r})")
        return {value: buffers[register] for value, register in registers.items()}


def _across(group: Group, parts: Sequence[Call | list[Call]]) -> set[Value]:
    """The results that stay inside a group and not inside one of its compiled loops."""
    values = set(group.inside)
    for part in parts:
        if isinstance(part, list):
            call_ids = set(map(id, part))
            later_reads = {arg for call in group.calls if id(call) not in call_ids for arg in call.args}
            values -= {call.results[0] for call in part if call.results[0] not in later_reads}
    return values


def _wide(value: Value) -> bool:
    return isinstance(value.example, np.ndarray) and value.example.ndim > 1


def _registers(group: Group, inside: set[Value]) -> dict[Value, tuple[str, int]]:
    """Buffers of a tile for the results that stay inside: one is free again after its last use."""
    # Linear scan: in place, an argument's buffer is free for the result of the call that reads it last; otherwise only after it.
    last = {arg: i for i, call in enumerate(group.calls) for arg in call.args}
    free_registers: dict[str, list[int]] = {}
    count: dict[str, int] = {}
    registers: dict[Value, tuple[str, int]] = {}
    for i, call in enumerate(group.calls):
        ended_registers = [registers[arg] for arg in dict.fromkeys(call.args) if arg in registers and last[arg] == i]
        for dtype, number in ended_registers if call.in_place else ():
            free_registers.setdefault(dtype, []).append(number)
        (result,) = call.results
        if result in inside:
            dtype = result.example.dtype.name
            if not free_registers.get(dtype):
                free_registers.setdefault(dtype, []).append(count.get(dtype, 0))
                count[dtype] = count.get(dtype, 0) + 1
            registers[result] = (dtype, free_registers[dtype].pop())
        for dtype, number in () if call.in_place else ended_registers:
            free_registers.setdefault(dtype, []).append(number)
    return registers


_FUNCTION = re.compile(r"\b(np\.\w+(?:\.reduce)?)(?=\()")
# Calls of ufuncs and np.dot, whose last argument may be the array to write to; numpy wants it by name of two ufuncs.
_PLAIN = re.compile(r"(?!np\.m(?:ax|in)imum\()[\w.]+\((\{\d+\}, )+out=\{out\}\)")
_WORDS = "mark np block part make run memory generator iterations count_iteration all_trips start tile together new_signals"
_OURS = frozenset([*_WORDS.split(), *HELPERS])


@lru_cache(maxsize=1024)
def _identifier(hint: str) -> str:
    """A valid Python identifier made of a hint, unused in the source."""
    name = re.sub(r"\W", "_", hint).strip("_") or "t"
    return f"v{name}" if name[0].isdigit() or keyword.iskeyword(name) or name in _OURS else name


@lru_cache(maxsize=1024)
def _quick(into: str) -> str:
    """How a call is written whose last argument is the array to write to."""
    return into.replace("out=", "") if _PLAIN.fullmatch(into) else into


_WRITERS: dict[type, Callable[..., None]] = {
    Call: _Writer.call,
    Assign: _Writer.assign,
    While: _Writer.loop,
    Return: _Writer.leave,
    If: _Writer.branch,
    Sum: _Writer.sum,
    Append: _Writer.append,
    Keep: _Writer.keep,
    Zeros: _Writer.zeros,
    Group: _Writer.group,
    Parallel: _Writer.lanes,
    Signal: _Writer.give,
    Wait: _Writer.wait,
}


def written(compiled: Compiled, plan: MemoryPlan, options: Options) -> Source:
    """The source of a compiled program."""
    writer = _Writer(compiled, plan, options)
    writer.taken |= {*_OURS, *compiled.objects}
    writer.objects.update(compiled.objects)
    params = [writer.name(value) for value in (*compiled.feeds.values(), *compiled.states.values())]
    writer.given()
    writer.placed()
    writer.dead = _last_reads(compiled, plan)
    writer.body(compiled.body, 2)
    result = _results(writer, compiled)
    if options.quick:
        _quicken(writer)
    params += [writer.name(value) for value in plan.given]
    # What ``run`` takes from ``make`` are cells, each of which CPython creates at the beginning of the first basic block, moving all of
    # that block each time, which is quadratic. A loop over nothing ends the block.
    bound = ["for _ in (): pass", *writer.bound] if len(writer.bound) > MANY_BOUND else writer.bound
    before = [HEAD, "", "def make():", *(f"    {line}" for line in bound), "", f"    def run({', '.join(params)}):"]
    # Lines are counted from the start of the module, as tracebacks count them.
    head = "\n".join(before).count("\n") + 1
    text = "\n".join([*before, *writer.lines, f"        return {result}", "", "    return run"]) + "\n"
    return Source(
        text,
        writer.objects,
        list(plan.spare),
        list(plan.returned),
        {line + head: node for line, node in writer.calls.items()},
        writer.marks,
    )


def _quicken(writer: _Writer) -> None:
    """Look numpy's functions up before the first run."""
    # An attribute of a module costs two dictionary look-ups in each call, a variable of the closure none.
    text = "\n".join(writer.lines)
    names = dict.fromkeys(_FUNCTION.findall(text))
    if not names:
        return
    local = {name: writer.fresh(name.replace(".", "_")) for name in names}
    writer.bound.extend(f"{short} = {name}" for name, short in local.items())
    writer.lines[:] = _FUNCTION.sub(lambda match: local[match[1]], text).split("\n")


def _last_reads(compiled: Compiled, plan: MemoryPlan) -> dict[int, list[Value]]:
    """After which node of the outermost body large values are dead that have memory of their own."""
    last: dict[Value, int] = {}
    results: set[Value] = set()
    own_variables: set[Value] = set()
    for node in compiled.body:
        for inner in all_nodes([node]):
            values = (*reads_of(inner), *kept_by(inner), *writes_of(inner))
            last.update(dict.fromkeys(values, id(node)))
            results.update(writes_of(inner))
            if isinstance(inner, While) and inner.again is not None:  # whose variables are gone with each call
                own_variables.update(inner.again.carried, *map(writes_of, all_nodes(inner.again.body)))
    # What is in the plan is written to again in the next run, so letting go of its name frees nothing.
    stays = {*compiled.fetched, *compiled.kept.values(), *plan.place_of, *own_variables}
    values_by_node: dict[int, list[Value]] = {}
    for value, at in last.items():
        if value in results and value not in stays and not value.constant and (not value.static or value.nbytes >= BIG):
            values_by_node.setdefault(at, []).append(value)
    return values_by_node


def _results(writer: _Writer, compiled: Compiled) -> str:
    """The tuple that a run returns: arrays that the run has allocated, copies of all others."""
    run_arrays = set(made_directly(compiled))
    uses = Counter(value.root for value in (*compiled.fetched, *compiled.kept.values()))
    texts, feeds = [], {*compiled.feeds.values()}

    def placed(value: Value) -> bool:
        """Whether it is an array whose memory belongs to the plan, a constant or a feed."""
        return value.static and (value.root in writer.plan.place_of or value.root.constant or value.root in feeds)

    for value in compiled.fetched:
        # The caller may change what it gets: only an array that nothing else has is passed on without a copy.
        is_own = value in run_arrays and uses[value.root] == 1
        is_alone = uses[value.root] == 1 and not value.constant
        helper = "own_or_taken" if is_alone else "own"
        texts.append(
            writer.name(value) if is_own else f"{writer.name(value)}.copy()" if placed(value) else f"{helper}({writer.name(value)})"
        )
    state_texts = []
    for value in compiled.kept.values():
        name = writer.name(value)
        is_alone = uses[value.root] == 1 and not value.constant and value.root not in feeds
        state_texts.append(name if is_alone or value.absent else f"{name}.copy()" if value.static else f"copied({name})")
    return f"({_items(texts)}), ({_items(state_texts)})"


def _items(texts: Iterable[str]) -> str:
    return "".join(f"{text}, " for text in texts)
