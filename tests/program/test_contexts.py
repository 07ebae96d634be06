"""Threads and asyncio tasks do not see each other's guards, observers and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier, Thread
from typing import Any

import pytest

import graphad as ga
from graphad.execution import global_scope
from graphad.ir import Graph
from graphad.passes import DeadCode
from graphad.rewriting import Step, observing, timing_rules, verification
from graphad.settings import SETTINGS, changed_settings

layers: Any = ga.layers
Work = Iterator[None]


def guarded(name: str, seen: list[str]) -> Work:
    """Build a program of one layer and run a pass on it, under guards of its own; at each yield the others go on."""
    main, scope = ga.Program(), ga.Scope()
    heard: list[Graph] = []

    def observer(each: ga.Pass, graph: Graph, step: Step) -> None:
        heard.append(graph)

    with ga.program_guard(main), ga.scope_guard(scope), changed_settings(reproducers=name), verification(name == "a"), observing(observer):
        yield
        x = layers.data(name, shape=[2])
        yield
        y = layers.relu(x)
        yield
        assert ga.default_main_program() is main
        with timing_rules() as times:
            yield
            graph = ga.lower(main, [y.name])
            DeadCode().run(graph)
            yield
        ga.Executor().run(main, feed={name: [[1.0, -1.0]]}, fetch_list=[y])
        yield
        assert heard == [graph]
        assert not times
        assert global_scope() is scope
        assert scope.runs == 1
        assert (SETTINGS.reproducers, SETTINGS.verify) == (name, name == "a")
        assert [*main.global_block().vars] == [name, y.name]
        assert y.name == "relu_0.tmp_0"
        yield
    seen.append(name)


def in_threads(*works: Work) -> None:
    barrier = Barrier(len(works), timeout=20)

    def run(work: Work) -> None:
        for _ in work:
            barrier.wait()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(run, work) for work in works]:
            future.result()


def in_tasks(*works: Work) -> None:
    async def run(work: Work) -> None:
        for _ in work:
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*map(run, works))

    asyncio.run(main())


@pytest.mark.parametrize("together", [in_threads, in_tasks])
def test_they_do_not_mix(together: Callable[..., None]) -> None:
    main, scope, seen = ga.default_main_program(), global_scope(), list[str]()
    count = len(main.global_block().ops)
    together(guarded("a", seen), guarded("b", seen))
    assert sorted(seen) == ["a", "b"]
    assert ga.default_main_program() is main
    assert global_scope() is scope
    assert len(main.global_block().ops) == count


def named(name: str, seen: list[str]) -> Work:
    """Layers in a name scope, with initial values of their own."""
    startup = ga.Program()
    with ga.program_guard(ga.Program(), startup), ga.name_scope(name):
        yield
        ga.set_global_initializer(ga.initializer.Constant(float(len(name))))
        yield
        y = layers.fc(layers.data("x", shape=[2]), 1, bias_attr=False)
        yield
        scopes = {op.source.scope for op in y.block.ops}
        values = {op.attrs["value"] for op in startup.global_block().ops if op.type == "fill_constant"}
        assert (scopes, values) == ({name}, {float(len(name))})
        ga.set_global_initializer(None)
        yield
    seen.append(name)


@pytest.mark.parametrize("together", [in_threads, in_tasks])
def test_name_scopes_and_usual_initializers_do_not_mix(together: Callable[..., None]) -> None:
    seen = list[str]()
    together(named("a", seen), named("bbb", seen))
    assert sorted(seen) == ["a", "bbb"]


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    found = []
    thread = Thread(target=lambda: found.append(function(*args)))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_begins_outside_of_guards_and_may_take_them_along() -> None:
    outside, main = ga.default_main_program(), ga.Program()
    with ga.program_guard(main):
        assert in_thread(ga.default_main_program) is outside
        assert in_thread(copy_context().run, ga.default_main_program) is main


def test_a_task_takes_the_guards_around_it_along() -> None:
    main = ga.Program()

    async def current() -> ga.Program:
        return ga.default_main_program()

    async def start() -> ga.Program:
        with ga.program_guard(main):
            task = asyncio.create_task(current())
        return await task

    assert asyncio.run(start()) is main


def test_what_is_assigned_holds_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "reproducers", "everywhere")
    with changed_settings(reproducers="here"):
        assert in_thread(lambda: SETTINGS.reproducers) == "everywhere"
