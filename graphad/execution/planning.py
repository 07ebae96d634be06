"""The memory plan of a compiled program: which of its values, alive at different times, share an array.

    t0 = x @ w        0      1024      4096
    t1 = t0 + b       |--t0--|                 t1 is put where t0 was,
    t2 = t1.sum(0)    |--t1--|-t2-|            t2 beside it, until nothing reads t1

Liveness says from where to where a value is needed. Values whose calls can write into an array that is there share one block of memory:
the largest first, each at the lowest offset that is free as long as it lives. An elementwise call may write where an argument was that
nothing else reads. What the caller gets, what the scope keeps, and what loops pass on are arrays of their own.
"""

from __future__ import annotations

import bisect
import colorsys
import heapq
import html
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

import numpy as np

from graphad.execution.native import expression
from graphad.execution.nodes import Body, Compiled, Group, Node, Parallel, While, Zeros, all_nodes, bodies_of, kept_by, reads_of, writes_of
from graphad.execution.tracing import Call, Value
from graphad.program import OPTIMIZE, Operator

ALIGNED = 64  # bytes
BIG = 1 << 12  # bytes of an array that is worth a line: it is let go after its last use, or written to again
LARGE = 1 << 16  # elements from which on elementwise calls go tile by tile
NATIVE = 1 << 8  # where they are compiled: of fewer, what a loop saves in a run is never as long as it took to compile
TILE_BYTES = 1 << 20  # of all arrays of a tile together
MANY_PLACES = 1 << 10  # from which on places are not compared with each other
_LEAST, _MOST = 1 << 12, 1 << 16  # elements of a tile
LETTER, LINE = 7.0, 13.0  # width and height of the chart's text, in its units

# What tiles cost and save, in seconds: a call more, a part of an array more, and a byte that comes from a cache which is near instead of
# one far away; how many bytes the near one keeps. What pays by less than the margin is lost on other days.
# ``python -m tests.benchmarks.fusion --fit`` measures the first three. Near is what a core has of the cache that several share: where that
# is as quick as its own one (AMD's Zen 4), tiles of arrays that it holds took 1.1 to 1.3 times as long, and with a slow one 0.8 to 1.0.
CALL, PART, BYTE = 0.7e-6, 0.2e-6, 0.02e-9
NEAR = 8 << 20
MARGIN = 2.0


@dataclass(eq=False)
class Place:
    """Bytes of the common block: some values in sequence, the first written at ``start``, the last read at ``end``.

    With an ``owner`` it is instead the array that the caller gives for this value, the last one in it. ``moments`` are those of its
    reads and writes on lanes.
    """

    start: int
    end: int
    nbytes: int
    values: list[Value] = field(default_factory=list)
    offset: int = 0
    owner: Value | None = None
    moments: list[Moment] = field(default_factory=list)
    begin: Moment | None = None


class Moment(NamedTuple):
    """The place of a node on its lanes."""

    parallel: Parallel
    lane: int
    at: int

    def before(self, other: Moment) -> bool:
        """Whether this node has certainly ended when another of these lanes begins."""
        return self.at < other.parallel.clocks[other.lane][other.at][self.lane]


@dataclass
class MemoryPlan:
    """The places of a program's values.

    Attributes:
        places: with their offsets.
        size: bytes of the common block.
        most_alive: the bytes of the values in it that are needed at once, at most.
        length: how many moments there are.
        place_of: that of a value, if it has one.
        spare: the variables whose new values are written into arrays that the caller gives.
        returned: the fetched values for which it does, by their numbers.
    """

    places: list[Place]
    size: int
    most_alive: int
    length: int
    place_of: dict[Value, Place]
    last: dict[Value, int]
    spare: dict[str, Value] = field(default_factory=dict)
    returned: dict[int, Value] = field(default_factory=dict)

    @property
    def given(self) -> dict[Value, str]:
        """The values for which the caller gives arrays, and what to call these."""
        spare = {value: f"new_{name}" for name, value in self.spare.items()}
        return spare | {value: f"returned_{value.hint}" for value in self.returned.values()}

    def __str__(self) -> str:
        values = sum(len(place.values) for place in self.places)
        lines = [f"{self.size:,} bytes for {values} values in {len(self.places)} places; {self.most_alive:,} are needed at once"]
        for place in sorted(self.places, key=lambda place: (place.start, place.offset)):
            names = ", ".join(f"{value.hint}{list(value.example.shape)}" for value in place.values)
            lines.append(f"{place.start:5}-{place.end:<5} {place.offset:>12,} +{place.nbytes:<12,} {names}")
        return "\n".join(lines)

    def svg(self) -> str:
        """A chart: the calls of a run from left to right, memory from bottom to top, a box for each place with the values in it."""
        width, height = 960.0, 480.0
        across, up = width / (self.length + 1), height / max(self.size, 1)
        box, font = f"-8 -24 {width + 16:g} {height + 48:g}", 'font-family="sans-serif" font-size="11"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>',
            f'<path d="M-8 -24 h{width + 16:g} v{height + 48:g} H-8 z" fill="white"/>',
            f'<text x="0" y="-8">{self.size:,} bytes; {self.most_alive:,} needed at once</text>',
            f'<path d="M0 0 V{height:g} H{width:g}" fill="none" stroke="#555"/>',
            f'<text x="{width:g}" y="{height + 16:g}" text-anchor="end">{self.length} calls, from left to right</text>',
        ]
        for i, place in enumerate(sorted(self.places, key=lambda place: (place.start, place.offset))):
            x, w = place.start * across, max((place.end - place.start + 1) * across, 1.0)
            h = max(place.nbytes * up, 0.5)
            y = height - place.offset * up - h
            names = [html.escape(value.hint, quote=False) for value in place.values]
            geometry = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
            # Not as ``hsl``, which viewers of SVG 1.1 do not know.
            red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(i * 47 % 360 / 360, 0.7, 0.45))
            look = f'fill="#{red:02x}{green:02x}{blue:02x}" stroke="#555" stroke-width="0.4"'
            parts.append(f"<rect {geometry} {look}><title>{', '.join(names)}: {place.nbytes:,} bytes</title></rect>")
            # As many of the names as there is room for.
            room = int((w - 8) / LETTER) if h >= LINE else 0
            shown = [text for text in itertools.accumulate(names, "{}, {}".format) if len(text) <= room]
            if shown:
                parts.append(f'<text x="{x + 4:.1f}" y="{y + h / 2 + 4:.1f}">{shown[-1]}</text>')
        return "\n".join([*parts, "</svg>"]) + "\n"


# -- what is not needed --------------------------------------------------------------------------


def without_unread(compiled: Compiled) -> None:
    """Leave out pure calls whose results nothing reads."""
    # Reference counts instead of marking: one walk from the last call to the first finds chains of dead calls.
    counts: dict[Value, int] = {}
    for node in all_nodes(compiled.body):
        for value in reads_of(node):
            counts[value] = counts.get(value, 0) + 1
    for value in (*compiled.fetched, *compiled.kept.values()):
        counts[value] = counts.get(value, 0) + 1
    _sweep(compiled.body, counts)


def _sweep(body: Body, counts: dict[Value, int]) -> None:
    for i in reversed(range(len(body))):
        node = body[i]
        for inner in bodies_of(node):
            _sweep(inner, counts)
        # From the last call back: those that only a dead call read have no readers left when their turn comes.
        if isinstance(node, Call) and node.pure and not any(counts.get(value) for value in node.results):
            for value in node.args:
                counts[value] -= 1
            del body[i]


# -- updates -------------------------------------------------------------------------------------


def updated_early(compiled: Compiled) -> None:
    """Update each parameter as soon as its gradient is there: that is then in the cache, and not needed until all others are there.

    The calls of operators of the optimizer move to where all is there that they read: the large results of one operator together, the small
    ones and views, which operators share, as soon as possible.
    """
    # List scheduling of the updates: each goes after the last node that it needs.
    node_before: dict[Value, int] = {}  # after which node that stays a value is there
    latest: dict[Operator | None, int] = {}  # and all that an operator reads
    for at, node in enumerate(compiled.body):
        if _is_update(node):
            at = max((node_before.get(value, -1) for value in node.args), default=-1)
            latest[node.op] = max(latest.get(node.op, -1), at)
        node_before.update((value, at) for inner in all_nodes([node]) for value in writes_of(inner))
    after: dict[int, Body] = {}
    for at, node in enumerate(compiled.body):
        if _is_update(node):
            large = any(value.base is None and value.nbytes >= BIG for value in node.results)
            place = max((node_before.get(value, -1) for value in node.args), default=-1)
            place = max(place, min(latest[node.op], at)) if large else place  # never later than it was: readers that stay come after it
            node_before.update(dict.fromkeys(node.results, place))
            after.setdefault(place, []).append(node)
        else:
            after.setdefault(at, []).insert(0, node)
    compiled.body[:] = [node for at in sorted(after) for node in after[at]]


def _is_update(node: Node) -> TypeGuard[Call]:
    return isinstance(node, Call) and node.pure and node.op is not None and node.op.role == OPTIMIZE


# -- tiles ---------------------------------------------------------------------------------------


def grouped(compiled: Compiled, native: bool = False) -> None:
    """Put elementwise calls on large arrays that follow each other into groups.

    With ``native`` loops are compiled for them, also on smaller arrays.
    """
    # A result that only calls of its group read never exists as a whole: it is as large as a tile, in the cache.
    readers: dict[Value, list[Node]] = {}
    for node in all_nodes(compiled.body):
        for value in (*reads_of(node), *kept_by(node)):
            readers.setdefault(value, []).append(node)
    outputs = {*compiled.fetched, *compiled.kept.values()}
    _group(compiled.body, lambda calls: _made_group(calls, readers, outputs, native), native)


def _group(body: Body, made: Callable[[list[Call]], Group], native: bool) -> None:
    nodes: Body = []
    run: list[Call] = []
    least = NATIVE if native else LARGE

    def close() -> None:
        parts = [run] if not run or run[0].results[0].example.size >= LARGE else _native_parts(run)
        for calls in itertools.chain.from_iterable(map(_related, parts)) if native else parts:
            group = made(list(calls)) if len(calls) > 1 else None
            nodes.extend(calls if group is None or not pays(group) else [group])
        run.clear()

    for node in body:
        for inner in bodies_of(node):
            _group(inner, made, native)
        # A run goes on as long as shapes agree; anything else ends it, loops and branches included, whose own calls are grouped by
        # themselves.
        if isinstance(node, Call) and _tiles(node, least) and (not run or run[0].results[0].example.shape == node.results[0].example.shape):
            run.append(node)
            continue
        close()
        if isinstance(node, Call) and _tiles(node, least):
            run.append(node)
        else:
            nodes.append(node)
    close()
    body[:] = nodes


def _native_parts(calls: Sequence[Call]) -> list[list[Call]]:
    """Calls that follow each other and can be compiled together; each other one alone."""
    runs: list[list[Call]] = []
    for able, part in itertools.groupby(calls, key=lambda call: bool(expression(call))):
        together = list(part)
        runs += [together] if able else [[call] for call in together]
    return runs


def _related(calls: Sequence[Call]) -> list[list[Call]]:
    """Calls in groups that have no array in common: one loop over two of them would save nothing, and go over more arrays at a time.

    Between groups the order does not matter, since none reads what another makes.
    """
    group_of: dict[Value, list[Call]] = {}
    place = {id(call): i for i, call in enumerate(calls)}
    for call in calls:
        arrays = [value.root for value in (*call.args, *call.results) if not _is_number(value)]
        # The calls that this one joins, each group once.
        related = list({id(group): group for array in arrays if (group := group_of.get(array)) is not None}.values())
        group = max(related, key=len, default=[])
        group.append(call)
        for other in related:
            if other is not group:
                group += other
                group_of.update(dict.fromkeys([v.root for c in other for v in (*c.args, *c.results) if not _is_number(v)], group))
        group_of.update(dict.fromkeys(arrays, group))
    groups = {id(group): sorted(group, key=lambda call: place[id(call)]) for group in group_of.values()}
    return sorted(groups.values(), key=lambda group: place[id(group[0])])


def _tiles(call: Call, least: int) -> bool:
    """Whether a call is elementwise on large arrays of one shape, and on numbers."""
    if not call.elementwise or not call.into or len(call.results) != 1:
        return False
    (result,) = call.results
    if result.example.size < least or not result.in_order:
        return False
    return all(_is_number(arg) or (arg.static and arg.in_order and arg.example.shape == result.example.shape) for arg in call.args)


def _is_number(value: Value) -> bool:
    return bool(np.size(value.example) == 1)


def _made_group(calls: list[Call], readers: dict[Value, list[Node]], asked: set[Value], native: bool) -> Group:
    results = [call.results[0] for call in calls]
    call_ids = set(map(id, calls))
    # Values that are read in the group alone need no array: only a tile of them is there at a time.
    inside = [v for v in results if v not in asked and all(id(reader) in call_ids for reader in readers.get(v, ()))]
    hidden = set(inside)
    reads = dict.fromkeys(arg for call in calls for arg in call.args if arg not in results)
    return Group(calls, tuple(reads), tuple(v for v in results if v not in hidden), tuple(inside), native=native)


def tile_of(group: Group) -> int:
    """The number of elements in a tile of a group's arrays."""
    arrays = [v for v in (*group.reads, *group.made) if not _is_number(v)]
    element_bytes = int(sum(v.example.itemsize for v in arrays)) + 2 * 8
    return max(_LEAST, min(_MOST, 1 << ((TILE_BYTES // element_bytes).bit_length() - 1)))


def pays(group: Group) -> bool:
    """Whether tiles save more than their calls cost; a compiled loop, which has none, does if it reads or writes any array less often."""
    arrays = [value for value in (*group.reads, *group.made) if not _is_number(value)]
    own_bytes = sum(value.nbytes for value in arrays)
    # Two calls that follow each other make a loop: around each other one numpy's tiles have to pay by themselves.
    if group.native and any(expression(one) and expression(other) for one, other in itertools.pairwise(group.calls)):
        touched = sum(value.nbytes for call in group.calls for value in (*call.args, *call.results) if not _is_number(value))
        return touched > own_bytes
    gain = _far_bytes(group) - own_bytes
    tiles = -(-int(group.calls[0].results[0].example.size) // tile_of(group))
    cost = (tiles - 1) * (len(group.calls) * CALL + len(arrays) * PART)
    # Where less than half is saved, tiles gain nothing that can be measured: a processor fetches what a long call will read in time.
    return gain > own_bytes and gain * BYTE > MARGIN * cost


def _far_bytes(group: Group) -> int:
    """The bytes that calls one after the other would fetch from far memory: of arrays that the near cache has lost since their last use."""
    # The distance between two uses is what is touched between them (R. L. Mattson et al., "Evaluation techniques for storage
    # hierarchies", 1970), of whole arrays at a time. A result is put where an argument was that nothing reads any more.
    last = {arg: i for i, call in enumerate(group.calls) for arg in call.args}
    array_of: dict[Value, Value] = {}
    recent: list[Value] = []  # arrays, the last one touched at the end
    total = 0
    inside = set(group.inside)
    for i, call in enumerate(group.calls):
        (result,) = call.results
        args = [array_of.get(arg, arg) for arg in call.args if not _is_number(arg)]
        free = [arg for arg in call.args if arg in inside and last[arg] == i and call.in_place and arg.nbytes == result.nbytes]
        array_of[result] = array_of.get(free[0], free[0]) if free else result
        for array in dict.fromkeys((*args, array_of[result])):
            since = recent[recent.index(array) :] if array in recent else None
            if since is None or sum(other.nbytes for other in since) > NEAR:
                total += array.nbytes
            if since is not None:
                recent.remove(array)
            recent.append(array)
    return total


# -- liveness ------------------------------------------------------------------------------------


@dataclass
class _Lives:
    """When values are made and read; a value of before a loop that is read in it is needed until its end."""

    made: dict[Value, int] = field(default_factory=dict)
    last: dict[Value, int] = field(default_factory=dict)
    around: dict[Value, tuple[While, ...]] = field(default_factory=dict)
    reading: list[tuple[Value, int, tuple[While, ...]]] = field(default_factory=list)
    ends: dict[While, int] = field(default_factory=dict)
    order: list[tuple[int, Node]] = field(default_factory=list)
    kept: set[Value] = field(default_factory=set)
    on_lanes: dict[int, Moment] = field(default_factory=dict)
    touched: dict[Value, list[Moment]] = field(default_factory=dict)
    at: int = 0

    def go(self, body: Body, loops: tuple[While, ...]) -> None:
        for node in body:
            self.node(node, loops)
            if isinstance(node, Parallel):
                self.lanes(node, loops)
                continue
            inner = (*loops, node) if isinstance(node, While) else loops
            for inner_body in bodies_of(node):
                self.go(inner_body, inner)
            # The end of a loop is a moment of its own: what the next iteration reads lives up to there.
            if isinstance(node, While):
                self.at += 1
                self.ends[node] = self.at

    def node(self, node: Node, loops: tuple[While, ...]) -> None:
        """One node without what is in it."""
        self.at += 1
        inner = (*loops, node) if isinstance(node, While) else loops
        self.order.append((self.at, node))
        for value in reads_of(node):
            self.reading.append((value.root, self.at, inner if isinstance(node, While) and value is node.test else loops))
        for value in writes_of(node):
            if value in self.made:  # a part of it on another lane
                self.reading.append((value, self.at, loops))
            elif value.base is None:
                self.made[value] = self.at
                self.around[value] = inner if isinstance(node, While) else loops
        self.kept.update(value.root for value in kept_by(node))

    def lanes(self, parallel: Parallel, loops: tuple[While, ...]) -> None:
        """Nodes on lanes, in an order in which one thread could do them all."""
        for lane, index in parallel.order:
            node, moment = parallel.lanes[lane][index], Moment(parallel, lane, index)
            self.node(node, loops)
            self.on_lanes[self.at] = moment
            for value in dict.fromkeys(value.root for value in (*reads_of(node), *writes_of(node))):
                self.touched.setdefault(value, []).append(moment)

    def finish(self) -> None:
        # The loops around the reading that are not around the definition: the value has to outlive the outermost of them, whose next
        # iteration reads it again.
        for value, at, loops in self.reading:
            outer = [loop for loop in loops if loop not in self.around.get(value, ())]
            self.last[value] = max(self.last.get(value, 0), self.ends[outer[0]] if outer else at)


def planned(compiled: Compiled, reuse: bool = True, given: bool = False) -> MemoryPlan:
    """The memory plan of a program.

    Args:
        reuse: False gives every value a place of its own.
        given: whether the caller gives arrays for the large results that no two names have: new values of variables, and what is fetched.
    """
    lives = _Lives()
    lives.go(compiled.body, ())
    lives.finish()
    outputs = Counter(value.root for value in (*compiled.fetched, *compiled.kept.values()))
    lives.kept.update(outputs)
    # Small arrays are not worth a parameter of the function.
    run_arrays = {v for v in made_directly(compiled) if given and outputs[v] == 1 and v.in_order and v.nbytes >= BIG}
    spare = {name: v for name, v in compiled.kept.items() if v in run_arrays and name in compiled.states and v.alike(compiled.states[name])}
    result_arrays = {i: v for i, v in enumerate(compiled.fetched) if v in run_arrays}
    owners = {*spare.values(), *result_arrays.values()}
    kept_values = lives.kept - owners
    place_of: dict[Value, Place] = {}
    places: list[Place] = []
    for at, node in lives.order:
        for value in _placed(node, kept_values):
            if value in place_of:
                continue
            end = max(lives.last.get(value, at), at)
            # In place first: it saves memory traffic as well as memory.
            place = _taken_over(node, value, at, lives, place_of) if reuse else None
            if place is None:
                place = Place(at, end, -(-value.nbytes // ALIGNED) * ALIGNED, begin=lives.on_lanes.get(at))
                places.append(place)
            place.moments += lives.touched.get(value, ())
            place.end = max(place.end, end)
            place.values.append(value)
            place_of[value] = place
            if value in owners:
                place.owner = value
    places = [place for place in places if place.owner is None]
    if len(places) > MANY_PLACES:
        _widened(places, lives)
    size = _offsets(places) if reuse else _one_after_the_other(places)
    return MemoryPlan(places, size, _most_alive(places), lives.at, place_of, lives.last, spare, result_arrays)


def made_directly(compiled: Compiled) -> Iterator[Value]:
    """The values that are made outside of loops and branches by calls that can write into an array."""
    for node in (
        inner for outer in compiled.body for inner in (itertools.chain(*outer.lanes) if isinstance(outer, Parallel) else (outer,))
    ):
        if isinstance(node, Group):
            yield from node.made
        elif isinstance(node, Call) and node.into and node.results[0].base is None:
            yield from node.results


def _placed(node: Node, kept: set[Value]) -> Iterable[Value]:
    """The values that a node can write into memory that is there."""
    if isinstance(node, Call):
        values: Sequence[Value] = node.results if node.into else ()
    elif isinstance(node, Group):
        values = node.made
    elif isinstance(node, Zeros):
        values = () if node.first is not None else (node.total,)
    else:
        values = ()
    return [v for v in values if v.base is None and v.static and v.in_order and v not in kept and v.nbytes]


def _taken_over(node: Node, value: Value, at: int, lives: _Lives, place_of: dict[Value, Place]) -> Place | None:
    """The place of an argument that nothing reads later, if an elementwise call may write there."""
    for arg in _free_for(node, value):
        place = place_of.get(arg)
        if (
            place is not None
            and place.owner is None
            and arg.base is None
            and place.values[-1] is arg
            and lives.last.get(arg) == at
            and arg.alike(value)
            and _is_over(place, lives.on_lanes.get(at), but=True)
        ):
            return place
    return None


def _is_over(place: Place, moment: Moment | None, but: bool = False) -> bool:
    """Whether all reads and writes of a place have ended when a node begins; ``but``: besides its own."""
    if moment is None:
        return True
    accesses = (access for access in place.moments if access.parallel is moment.parallel and not (but and access == moment))
    return all(access.before(moment) for access in accesses)


def _meet(one: Place, other: Place) -> bool:
    """Whether two places are needed at once."""
    if one.start <= other.end and other.start <= one.end:
        return True
    first, second = (one, other) if one.end < other.start else (other, one)
    return not _is_over(first, second.begin)


def _free_for(node: Node, value: Value) -> list[Value]:
    if isinstance(node, Call):
        return list(dict.fromkeys(node.args)) if node.in_place else []
    if isinstance(node, Group):
        # In a group all calls go tile by tile, so an operand is free for a result if no later call of the group reads it.
        writer = next(i for i, call in enumerate(node.calls) if call.results[0] is value)
        first = writer + 1 if node.calls[writer].in_place else writer
        later = {arg for call in node.calls[first:] for arg in call.args}
        return [arg for arg in node.reads if arg not in later]
    return []


def _offsets(places: list[Place]) -> int:
    """Give places offsets: the largest first, each at the lowest one where no place is that lives at the same time.

    That takes quadratic time. Of very many places each gets an offset in the order in which they begin to live.
    """
    if len(places) > MANY_PLACES:
        return _offsets_in_order(places)
    # Greedy by size, as in Y. Pisarchyk and J. Lee, "Efficient memory management for deep neural net inference", 2020: near the lower bound
    # in practice, while the optimum is NP-hard.
    placed_before: list[Place] = []
    size = 0
    for place in sorted(places, key=lambda place: (-place.nbytes, place.start)):
        offset = 0
        for neighbor in sorted((candidate for candidate in placed_before if _meet(candidate, place)), key=lambda each: each.offset):
            if neighbor.offset - offset >= place.nbytes:
                break
            offset = max(offset, neighbor.offset + neighbor.nbytes)
        place.offset = offset
        placed_before.append(place)
        size = max(size, offset + place.nbytes)
    return size


def _widened(places: Iterable[Place], lives: _Lives) -> None:
    """Let the places that several lanes touch live as long as these run: then the order of one thread says which meet."""
    spans: dict[Parallel, tuple[int, int]] = {}
    for at, moment in lives.on_lanes.items():
        first, last = spans.get(moment.parallel, (at, at))
        spans[moment.parallel] = min(first, at), max(last, at)
    for place in places:
        for parallel in {moment.parallel for moment in place.moments}:
            first, last = spans[parallel]
            place.start, place.end = min(place.start, first), max(place.end, last)


def _offsets_in_order(places: list[Place]) -> int:
    """Linear scan (M. Poletto and V. Sarkar, "Linear Scan Register Allocation", 1999): the first free stretch that is large enough."""
    active: list[tuple[int, int, int]] = []  # a heap: when a place ends, its offset, its size
    gaps: list[tuple[int, int]] = []  # stretches up to ``size``: offset and size, in order, none next to another
    size = 0
    for place in sorted(places, key=lambda place: (place.start, -place.nbytes)):
        while active and active[0][0] < place.start:
            _, offset, nbytes = heapq.heappop(active)
            _release(gaps, offset, nbytes)
        at = next((i for i, (_, nbytes) in enumerate(gaps) if nbytes >= place.nbytes), None)
        if at is not None:
            place.offset, nbytes = gaps[at]
            gaps[at : at + 1] = [(place.offset + place.nbytes, nbytes - place.nbytes)] if nbytes > place.nbytes else []
        else:
            place.offset = gaps.pop()[0] if gaps and sum(gaps[-1]) == size else size
            size = place.offset + place.nbytes
        heapq.heappush(active, (place.end, place.offset, place.nbytes))
    return size


def _release(free: list[tuple[int, int]], offset: int, nbytes: int) -> None:
    """Add a free interval, merged with its neighbors."""
    # The list is sorted by offset, and no two stretches touch: so at most the neighbors on either side join.
    at = bisect.bisect(free, (offset, nbytes))
    first = last = at
    if at and sum(free[at - 1]) == offset:
        first, offset, nbytes = at - 1, free[at - 1][0], nbytes + free[at - 1][1]
    if at < len(free) and free[at][0] == offset + nbytes:
        last, nbytes = at + 1, nbytes + free[at][1]
    free[first:last] = [(offset, nbytes)]


def _one_after_the_other(places: list[Place]) -> int:
    size = 0
    for place in places:
        place.offset = size
        size += place.nbytes
    return size


def _most_alive(places: Sequence[Place]) -> int:
    # At one moment places begin before others end: what a call reads and writes is there together.
    changes = sorted([(p.start, 1, p.nbytes) for p in places] + [(p.end, 2, -p.nbytes) for p in places])
    size = most = 0
    for _, _, change in changes:
        size += change
        most = max(most, size)
    return most


__all__ = ["BIG", "MemoryPlan", "Place", "grouped", "made_directly", "planned", "tile_of", "updated_early", "without_unread"]
