"""Independent calls on several threads: the same to the last bit, whatever the threads do meanwhile."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import networkx
import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.execution.compiled import FIRST, CompiledFunction, compiled_program
from graphad.execution.nodes import Compiled, Group, Parallel, Signal, Wait, all_nodes, reads_of, writes_of
from graphad.execution.parallel import MODEL, Model, Threads
from graphad.execution.planning import MemoryPlan
from graphad.execution.prepared import Prepared
from graphad.execution.tracing import Value
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.benchmarks import training_steps
from tests.benchmarks.training_steps import Workload
from tests.execution.test_compiled import alike, outcomes

Bytes = tuple[object, int, int]  # whose, from where, to where
EVERYWHERE = Model(fork=0.0, wait=0.0, gain=-1.0, divides=True)  # lanes wherever there are two calls that do not need each other


@pytest.fixture(autouse=True)
def lanes_everywhere() -> Iterator[None]:
    """Programs are compiled at their first run, with lanes wherever there can be any; threads change often, and signals come late."""
    first, model, interval = FIRST.set(1), MODEL.set(EVERYWHERE), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    MODEL.reset(model)
    FIRST.reset(first)


class Late:
    """A signal that is given a little late, and taken a little late."""

    def __init__(self, seed: int) -> None:
        self.lock, self.random = threading.Lock(), random.Random(seed)
        self.lock.acquire()

    def acquire(self, blocking: bool = True) -> bool:
        time.sleep(self.random.choice([0.0, 0.0, 2e-4]))
        return self.lock.acquire(blocking)

    def release(self) -> None:
        time.sleep(self.random.choice([0.0, 0.0, 2e-4]))
        self.lock.release()

    def locked(self) -> bool:
        return self.lock.locked()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter(range(1 << 30))
    monkeypatch.setattr("graphad.execution.compiled.new_signals", lambda count: [Late(next(seeds)) for _ in range(count)])


def functions(executor: ga.Executor) -> list[CompiledFunction]:
    return [f for idle in executor._idle.values() for run in idle for each in run.functions.values() for f in each.functions]


def towers(width: int = 48, deep: int = 3) -> tuple[ga.Program, list[ga.Variable]]:
    """Two towers over one input, whose results are added up, and the gradients of all."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [width, width], append_batch_size=False)
        x.stop_gradient = False
        ends = []
        for i in range(2):
            t = x * float(i + 1)
            for _ in range(deep):
                t = L.tanh(L.matmul(t, x) * 0.1)
            ends.append(t)
        loss = L.reduce_sum(ends[0] * ends[1])
        gradients = ga.gradients(loss, x)
    return program, [loss, *(each for each in gradients if each is not None)]


def test_towers_are_on_two_lanes() -> None:
    program, fetch = towers()
    executor, x = ga.Executor(threads=2), np.random.default_rng(0).standard_normal((48, 48)).astype("float32")
    wanted = ga.Executor(mode="interpreted").run(program, {"x": x}, fetch)
    for _ in range(5):
        for one, other in zip(executor.run(program, {"x": x}, fetch), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    (function,) = functions(executor)
    products = [part.split("together(")[0].count("np_dot(") for part in function.source.text.split("def lane_")[1:]]
    assert len(products) == 2
    assert min(products) >= 4, "each lane has products"


STEPS = [
    pytest.param(make, threads, id=f"{make.__name__}-{threads}", marks=[pytest.mark.long] if long else [])
    for make in (training_steps.mlp, training_steps.lenet, training_steps.transformer, training_steps.lstm)
    for threads in (2, 3, 8)
    for long in [threads != 3 and make is training_steps.lstm]  # the longest of all to compile
]


@pytest.mark.parametrize(("make", "threads"), STEPS)
def test_training_steps_are_the_same_to_the_last_bit(late: None, make: Any, threads: int) -> None:
    work: Workload = training_steps.transformer(2, 8, 16, 2) if make is training_steps.transformer else make()
    scopes = []
    for count in (1, threads):
        scope, executor = ga.Scope(), ga.Executor(threads=count)
        executor.run(work.startup, scope=scope)
        for _ in range(3):
            executor.run(work.main, work.feeds, [work.loss], scope)
        scopes.append(scope)
    assert scopes[0].arrays.keys() == scopes[1].arrays.keys()
    for name, array in scopes[0].arrays.items():
        np.testing.assert_array_equal(scopes[1].get(name), array, err_msg=name)


def test_tiles_of_a_group_are_divided() -> None:
    work = training_steps.chain()
    executor = ga.Executor(threads=2)
    wanted = ga.Executor().run(work.main, work.feeds, [work.loss])
    for _ in range(3):
        np.testing.assert_array_equal(executor.run(work.main, work.feeds, [work.loss])[0], wanted[0])
    assert functions(executor)[0].source.text.count("for start in range(") == 2


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_are_the_same_to_the_last_bit(late: None, seed: int) -> None:
    """Values and errors, of programs with loops, branches, and gradients."""
    p = any_program(RandomChoices(f"threads {seed}"))
    p.program.random_seed = p.program.random_seed or 7
    assert alike(outcomes(p, [p.loss_name], threads=3), outcomes(p, [p.loss_name], mode="interpreted"))


def races(compiled: Compiled, plan: MemoryPlan) -> list[str]:
    """Reads and writes on different lanes of one section that nothing orders, and that touch the same bytes or one value."""
    found = []
    for section in (node for node in all_nodes(compiled.body) if isinstance(node, Parallel)):
        order: Any = networkx.DiGraph()
        for lane in section.lanes:
            order.add_nodes_from(lane)
            order.add_edges_from(pairwise(lane))
        order.add_edges_from((node.signal, node) for lane in section.lanes for node in lane if isinstance(node, Wait))
        after = {node: networkx.descendants(order, node) for node in order}
        lanes = [[node for node in lane if not isinstance(node, Signal | Wait)] for lane in section.lanes]
        for one, other in ((a, b) for x, y in combinations(lanes, 2) for a in x for b in y):
            if other not in after[one] and one not in after[other] and not harmless(one, other):
                (read, written), (others_read, others_written) = (touched(node, plan) for node in (one, other))
                pairs = [*product(written, others_read), *product(written, others_written), *product(read, others_written)]
                found += [f"{names(one)} and {names(other)}" for a, b in pairs if meet(a, b)]
    return found


def harmless(one: Any, other: Any) -> bool:
    """Whether these are different parts of one group, each of which touches its own elements."""
    return isinstance(one, Group) and isinstance(other, Group) and one.calls is other.calls and one.span != other.span


def names(node: Any) -> str:
    return f"{type(node).__name__} of {', '.join(value.hint for value in writes_of(node))}"


def touched(node: Any, plan: MemoryPlan) -> tuple[list[Bytes], list[Bytes]]:
    """The memory that a node reads and that it writes; making a view does neither."""
    written = [value for value in writes_of(node) if value.base is None]
    return memory(reads_of(node) if written or not writes_of(node) else (), plan), memory(written, plan)


def memory(values: Sequence[Value], plan: MemoryPlan) -> list[Bytes]:
    """The bytes of values: of the plan's block, of an array that the caller gives, or of their own."""
    places = [(value.root, plan.place_of.get(value.root)) for value in values if not value.constant]
    return [
        (v if p is None else p.owner or "block", 0 if p is None else p.offset, 1 if p is None else p.offset + p.nbytes) for v, p in places
    ]


def meet(one: Bytes, other: Bytes) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def compiled_on(threads: int, program: ga.Program, feeds: Any, stored: Any, fetch: list[str]) -> tuple[Compiled, MemoryPlan]:
    run = Prepared(program, frozenset(fetch), threads=Threads(threads))
    return compiled_program(run, feeds, stored, fetch, given=True)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("make", [training_steps.mlp, training_steps.lenet, training_steps.transformer, training_steps.chain])
def test_training_steps_have_no_races(make: Any, threads: int) -> None:
    work: Workload = training_steps.transformer(2, 8, 16, 2) if make is training_steps.transformer else make()
    scope = ga.Scope()
    ga.Executor().run(work.startup, scope=scope)
    compiled, plan = compiled_on(threads, work.main, work.feeds, scope.arrays, [work.loss.name])
    assert Parallel in set(map(type, compiled.body))
    found = races(compiled, plan)  # pytest would write out all that is in an assertion
    assert not found


def test_a_race_is_found() -> None:
    """The checker itself: without its waits, a program has races."""
    program, fetch = towers()
    feeds = {"x": np.ones((48, 48), "float32")}
    compiled, plan = compiled_on(2, program, feeds, {}, [each.name for each in fetch])
    found = races(compiled, plan)
    assert not found
    (section,) = (node for node in compiled.body if isinstance(node, Parallel))
    for lane in section.lanes:
        lane[:] = [node for node in lane if not isinstance(node, Wait)]
    found = races(compiled, plan)
    assert found


def test_an_error_on_another_lane_is_the_interpreters_and_nothing_waits_for_ever() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, i = L.data("x", [4, 4], append_batch_size=False), L.data("i", [2], append_batch_size=False, dtype="int64")
        fine = L.matmul(L.tanh(L.matmul(x, x)), x)
        y = L.reduce_sum(fine) + L.reduce_sum(L.gather(L.tanh(L.matmul(x, x) + 1.0), i))
    executor, feed = ga.Executor(threads=2), {"x": np.ones((4, 4), "float32"), "i": np.array([0, 1])}
    right = executor.run(program, feed, [y])
    for _ in range(3):
        with pytest.raises(ga.errors.ExecutionError, match="gather"):
            executor.run(program, {**feed, "i": np.array([0, 9])}, [y])
        np.testing.assert_array_equal(executor.run(program, feed, [y]), right)


def test_many_threads_of_a_user_run_on_one_executor() -> None:
    program, fetch = towers(16)
    executor, failed = ga.Executor(threads=3), []
    feeds = [{"x": np.random.default_rng(i).standard_normal((16, 16)).astype("float32")} for i in range(4)]
    wanted = [ga.Executor().run(program, feed, fetch) for feed in feeds]

    def work(i: int) -> None:
        for _ in range(10):
            if not all(map(np.array_equal, executor.run(program, feeds[i], fetch, ga.Scope()), wanted[i])):
                failed.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_small_programs_stay_on_one_thread() -> None:
    MODEL.set(Model())
    program, fetch = towers(8)
    executor = ga.Executor(threads=2)
    executor.run(program, {"x": np.ones((8, 8), "float32")}, fetch)
    assert "together" not in functions(executor)[0].source.text
    assert executor._threads is not None
    assert executor._threads._pool is None


@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)])
def test_threads_is_a_count(threads: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="threads"):
        ga.Executor(threads=threads)
