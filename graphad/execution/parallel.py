"""Calls on several threads: which of a program's calls run beside each other, found before it runs.

    a = x @ u                      lane 0         lane 1
    b = x @ v                      a = x @ u      b = x @ v
    c = a + b              ⇒       wait           signal
                                   c = a + b

Calls are given to lanes by a list schedule: the one with the longest way to the end first, each to the lane where it ends earliest, which a
model of costs says (H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous
Computing", 2002). A lane waits for another where it reads what that has made. Whatever the threads do meanwhile, each call reads the same
values as on one thread, so that results are the same to the last bit. Where it would not pay, calls stay as they are.

numpy lets other threads run while it computes, not while Python looks for the next call: small calls gain nothing. Loops and branches
themselves, random numbers, operators with effects, and kernels of other packages stay on the caller's thread, in order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

import numpy as np

from graphad.execution.native import expression
from graphad.execution.nodes import Body, Compiled, Group, Node, Parallel, Signal, Wait, bodies_of, reads_of, writes_of
from graphad.execution.planning import tile_of
from graphad.execution.profiling import Costs
from graphad.execution.tracing import Call, Value
from graphad.ops import REGISTRY, OpDef


@dataclass(frozen=True)
class Model:
    """A model of costs, in microseconds, as ``python -m tests.benchmarks.threads`` measures them, rounded upwards.

    Attributes:
        call: a call of numpy, besides its work.
        byte: of arrays that are read or written.
        flop: of a product of matrices, or of a kernel.
        steep: one element of an exponential, a hyperbolic tangent, a power...
        fork: until a lane on another thread begins.
        wait: from a signal until a lane that waits goes on.
        gain: what must at least be saved for lanes to be made, as a part of the time on one thread.
        divides: whether the tiles of a group are divided among lanes; a compiled loop is. Their calls are so short that threads mostly
            wait for each other between them: fifty operations on 10^6 floats took 1.0 to 1.6 times as long.
    """

    call: float = 0.4
    byte: float = 6e-5
    flop: float = 1e-5
    steep: float = 1e-3
    fork: float = 40.0
    wait: float = 10.0
    gain: float = 0.2
    divides: bool = False


MODEL: ContextVar[Model] = ContextVar("model", default=Model())  # noqa: B039 - it is never changed
_STEEP = ("exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "tan", "power", "erf", "cbrt")
_PRODUCTS = ("np.dot(", "np.matmul(")


def made_parallel(compiled: Compiled, lanes: int, costs: Costs) -> None:
    """Put calls that do not need each other on lanes, in every body of a program, where that pays.

    Args:
        compiled: what is changed.
        lanes: how many threads there are.
        costs: operations and bytes of operators whose kernels are called as a whole.
    """
    compiled.body[:] = _divided(compiled.body, lanes, costs, MODEL.get())


def _divided(body: Body, lanes: int, costs: Costs, model: Model) -> Body:
    new_body: Body = []
    stretch: list[Call | Group] = []

    def close() -> None:
        new_body.extend(_laned(stretch, lanes, lambda node: cost_of(node, costs, model), model) if stretch else ())
        stretch.clear()

    for node in body:
        for inner in bodies_of(node):
            inner[:] = _divided(inner, lanes, costs, model)
        # Stretches between nodes that stay in order are divided by themselves: nothing moves past those.
        if _is_free(node):
            stretch.append(node)
            continue
        close()
        new_body.append(node)
    close()
    return new_body


def _is_free(node: Node) -> TypeGuard[Call | Group]:
    """Whether a node may run on any thread: it does nothing but make arrays of known types from its arguments."""
    if isinstance(node, Group):
        return True
    if not isinstance(node, Call) or node.op is None or not all(value.static for value in node.results):
        return False
    definition = REGISTRY.get(node.op.type)
    if not isinstance(definition, OpDef) or definition.random or definition.ordered or definition.partial:
        return False
    kernel = (getattr(definition, "forward", None) or definition).kernel
    return node.pure or str(getattr(kernel, "__module__", "")).startswith("graphad.ops.")


# -- costs ---------------------------------------------------------------------------------------


def cost_of(node: Call | Group, costs: Costs, model: Model) -> float:
    """About how many microseconds a node takes."""
    if isinstance(node, Group):
        first, last = node.span or (0, 1)
        part = (last - first) / int(node.calls[0].results[0].example.size) if node.span else 1.0
        if _is_one_loop(node):
            return part * sum(map(_nbytes, (*node.reads, *node.made))) * model.byte + model.call
        return part * sum(cost_of(call, costs, model) for call in node.calls)
    # A view: it makes an object, and moves nothing.
    if any(value.base is not None for value in node.results):
        return 0.1
    size = max((np.size(value.example) for value in node.results), default=0)
    bytes_moved = sum(_nbytes(value) for value in (*node.args, *node.results))
    if node.form.startswith(_PRODUCTS):
        work = 2 * size * (np.shape(node.args[0].example) or (1,))[-1] * model.flop
    elif node.form.startswith("np."):
        work = size * model.steep if node.form[3:].startswith(_STEEP) else 0.0
    else:
        flops = costs[node.op][0] if node.op in costs else 0
        work = flops * model.flop
    return float(model.call + bytes_moved * model.byte + work)


def _is_one_loop(group: Group) -> bool:
    """Whether a group is one call of a compiled loop, during which other threads run."""
    return group.native and all(map(expression, group.calls))


def _nbytes(value: Value) -> int:
    return int(getattr(value.example, "nbytes", 0))


# -- lanes ---------------------------------------------------------------------------------------


def _laned(nodes: Sequence[Call | Group], count: int, cost: Callable[[Call | Group], float], model: Model) -> Body:
    """The nodes on lanes; as they are if that would not pay. Groups are divided if that ends earlier by a tenth."""
    alone = sum(map(cost, nodes))
    # The model has to expect a gain by a margin, as it may err; dividing groups has to gain a tenth more than not dividing.
    best_cost, body = alone * (1 - model.gain), Body(nodes)
    for spans in (False, True):
        parts = [
            part for node in nodes for part in (_parts(node, count if spans else 1, model.divides) if isinstance(node, Group) else (node,))
        ]
        causes = _needed(parts)
        lane_of, order, end = _scheduled(causes, list(map(cost, parts)), count, model)
        numbers = sorted(set(lane_of))
        if len(numbers) > 1 and end < best_cost:
            # Another lane has to save a tenth: estimates are rough, and threads have other work too.
            best_cost, body = 0.9 * end, [_parallel(parts, causes, [numbers.index(lane) for lane in lane_of], order, len(numbers))]
    return body


def _parts(group: Group, count: int, divides: bool) -> list[Call | Group]:
    """The calls of a group that do not need each other as groups of their own, and each of these in parts for as many lanes."""
    # Connected components: a call joins all that make its arguments.
    of: dict[Value, list[Call]] = {}
    for call in group.calls:
        together = list({id(calls): calls for arg in call.args if (calls := of.get(arg)) is not None}.values())
        component = [*(member for calls in together for member in calls), call]
        of.update((member.results[0], component) for member in component)
    pieces: list[Call | Group] = []
    for calls in {id(calls): calls for calls in of.values()}.values():
        results = {call.results[0] for call in calls}
        outputs, inside = (tuple(value for value in values if value in results) for values in (group.made, group.inside))
        reads = dict.fromkeys(arg for call in calls for arg in call.args if arg not in results)
        calls.sort(key=group.calls.index)
        pieces += (
            _spans(Group(calls, tuple(reads), outputs, inside, native=group.native), count if divides or _is_one_loop(group) else 1)
            if len(calls) > 1
            else calls
        )
    return pieces


def _spans(group: Group, count: int) -> list[Group]:
    """A group in parts of about the same size."""
    if count == 1:
        return [group]
    total, tile = int(group.calls[0].results[0].example.size), tile_of(group)
    tiles = -(-total // tile)
    # Cut between tiles, so that no tile is smaller than another but the last.
    ends = [min(tiles * i // count * tile, total) for i in range(count)] + [total]
    parts = [(first, last) for first, last in pairwise(ends) if first < last]
    return [Group(group.calls, group.reads, group.made, group.inside, span, group.native) for span in parts]


def _needed(nodes: Sequence[Call | Group]) -> list[list[int]]:
    """The nodes that write the operands of each node."""
    makers: dict[Value, list[int]] = {}
    causes = []
    for i, node in enumerate(nodes):
        # A view is ready when it is made, and its elements when its root is.
        values = dict.fromkeys(item for value in reads_of(node) for item in (value, value.root))
        causes.append(list(dict.fromkeys(j for value in values for j in makers.get(value, ()))))
        for value in writes_of(node):
            makers.setdefault(value, []).append(i)
    return causes


def _scheduled(needed: Sequence[Sequence[int]], costs: Sequence[float], count: int, model: Model) -> tuple[list[int], list[int], float]:
    """The lane of each node, the order in which they begin, and when the last one has ended."""
    # The upward rank: the time from the beginning of a node to the end of all that needs it, waits left out.
    way = list(costs)
    for i in reversed(range(len(needed))):
        for before in needed[i]:
            way[before] = max(way[before], costs[before] + way[i])
    free = [0.0] + [model.fork] * (count - 1)
    ends, lane_of, starts = [0.0] * len(costs), [0] * len(costs), [0.0] * len(costs)
    order = sorted(range(len(costs)), key=lambda i: (-way[i], i))  # a node's way is longer than that of each that needs it
    for i in order:
        # On the lane where it begins first, in the order of upward ranks (HEFT: H. Topcuoglu, S. Hariri and M. Wu, 2002).
        begin = [max([free[lane], *(ends[j] + (model.wait if lane_of[j] != lane else 0.0) for j in needed[i])]) for lane in range(count)]
        lane = min(range(count), key=begin.__getitem__)
        lane_of[i], starts[i], ends[i] = lane, begin[lane], begin[lane] + costs[i]
        free[lane] = ends[i]
    return lane_of, order, max(ends) + model.wait


def _waits(needed: Sequence[Sequence[int]], lane_of: Sequence[int], order: Sequence[int], count: int) -> list[list[int]]:
    """For each node, those of other lanes that its lane waits for: not where it has waited for one that ended later."""
    # Vector clocks (C. Fidge 1988, F. Mattern 1989): how much of each lane a lane knows to have ended. Waiting for a node tells it all that
    # the node's lane knew.
    knowledge = [[0] * count for _ in range(count)]
    place, clock, length = [0] * len(order), [[0]] * len(order), [0] * count
    rank = {i: at for at, i in enumerate(order)}
    waits: list[list[int]] = [[] for _ in order]
    for i in order:
        own_clock = knowledge[lane_of[i]]
        for j in sorted(needed[i], key=rank.__getitem__, reverse=True):
            sender = lane_of[j]
            if sender == lane_of[i] or own_clock[sender] > place[j]:
                continue
            waits[i].append(j)
            own_clock[:] = map(max, own_clock, clock[j])
            own_clock[sender] = max(own_clock[sender], place[j] + 1)
        place[i] = length[lane_of[i]]
        length[lane_of[i]] += 1
        clock[i] = list(own_clock)
    return waits


def _parallel(
    nodes: Sequence[Call | Group], needed: Sequence[Sequence[int]], lane_of: Sequence[int], order: Sequence[int], count: int
) -> Parallel:
    """Lanes, with a signal after each node that others wait for."""
    waits = _waits(needed, lane_of, order, count)
    readers: dict[int, list[int]] = {}
    for i in order:
        for j in waits[i]:
            readers.setdefault(j, []).append(i)
    lanes: tuple[Body, ...] = tuple([] for _ in range(count))
    clocks: tuple[list[tuple[int, ...]], ...] = tuple([] for _ in range(count))
    knowledge = [[0] * count for _ in range(count)]
    starts: list[tuple[int, int]] = []
    signals: dict[tuple[int, int], Signal] = {}
    senders: dict[Signal, tuple[int, int]] = {}

    def put(lane: int, node: Node) -> None:
        knowledge[lane][lane] = len(lanes[lane])
        clocks[lane].append(tuple(knowledge[lane]))
        starts.append((lane, len(lanes[lane])))
        lanes[lane].append(node)

    for i in order:
        lane = lane_of[i]
        for j in waits[i]:
            signal = signals[j, i]
            put(lane, Wait(signal))
            sender, at = senders[signal]
            # Vector clocks (C. Fidge, 1988; F. Mattern, 1989): of every lane, up to which node this one knows that it has run. Who waits
            # learns what the sender knew.
            knowledge[lane] = list(map(max, knowledge[lane], clocks[sender][at]))
        put(lane, nodes[i])
        for reader in readers.get(i, ()):
            signal = signals[i, reader] = Signal()
            senders[signal] = lane, len(lanes[lane])
            put(lane, signal)
    return Parallel(lanes, starts, clocks)


# -- threads -------------------------------------------------------------------------------------


class Threads:
    """The threads of an executor. One run at a time has them: lanes wait for each other, so that all of a run must have a thread.

    Args:
        count: how many lanes run at a time, that of the caller included.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._one = threading.Lock()

    def pool(self) -> ThreadPoolExecutor:
        """The thread pool, started on first use; a forked process starts its own."""
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(self.count - 1, "graphad", lambda: np.seterr(all="ignore"))
        return self._pool[1]

    def together(self, lanes: Sequence[Callable[[], None]], signals: Sequence[Sequence[threading.Lock]]) -> None:
        """Run lanes, the first one here; the first lane's error if any fails.

        A signal is a lock: who waits acquires it, who signals releases it. A lane that fails gives all its signals, so that
        no other waits for ever; afterwards all are as before.
        """

        def run(number: int) -> None:
            try:
                lanes[number]()
            except BaseException:
                for signal in signals[number]:
                    _given(signal)
                raise

        with self._one:
            # All lanes have to end before the run does, also where one fails: the arrays they write to are the program's.
            # Each in a context like the caller's, which says what kernels may be.
            futures = [self.pool().submit(copy_context().run, run, number) for number in range(1, len(lanes))]
            errors: list[BaseException | None] = []
            try:
                run(0)
            except BaseException as error:
                errors.append(error)
            errors += [future.exception() for future in futures]
            failure = next((error for error in errors if error is not None), None)
            if failure is not None:
                for signal in (signal for lane_signals in signals for signal in lane_signals):
                    signal.acquire(blocking=False)
                raise failure


def new_signals(count: int) -> list[threading.Lock]:
    """Signals that have not been given."""
    signals = [threading.Lock() for _ in range(count)]
    for signal in signals:
        signal.acquire()
    return signals


def _given(signal: threading.Lock) -> None:
    if signal.locked():
        try:
            signal.release()
        except RuntimeError:  # given in between
            return


__all__ = ["MODEL", "Model", "Threads", "cost_of", "made_parallel", "new_signals"]
