"""The garbage collector is left as it was found: after errors, and by threads that hold it at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

import graphad as ga
from graphad.program.gc_pause import paused_collector, young_only

MANY = 10_000


@pytest.fixture(params=[True, False], ids=["on", "off"])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """The collector, on or off."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


@contextmanager
def holding() -> Iterator[None]:
    """Within it, another thread holds the collector."""
    inside, leave = Event(), Event()

    def hold() -> None:
        with paused_collector(MANY):
            inside.set()
            leave.wait(20)

    thread = Thread(target=hold)
    thread.start()
    inside.wait(20)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_it_is_off_within_and_as_it_was_after(enabled: bool) -> None:
    with paused_collector(MANY), paused_collector(MANY):
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_few_operators_leave_it_alone(enabled: bool) -> None:
    with paused_collector(1):
        assert gc.isenabled() is enabled


def test_an_error_leaves_it_as_it_was(enabled: bool) -> None:
    with suppress(KeyboardInterrupt), paused_collector(MANY):
        raise KeyboardInterrupt
    assert gc.isenabled() is enabled


def test_the_last_thread_wakes_it(enabled: bool) -> None:
    with paused_collector(MANY):
        with holding():
            pass
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_the_first_thread_does_not_wake_it_for_another(enabled: bool) -> None:
    with holding():
        with paused_collector(MANY):
            pass
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_threads_that_overlap(enabled: bool) -> None:
    first = paused_collector(MANY)
    first.__enter__()
    with holding():
        first.__exit__(None, None, None)
        assert not gc.isenabled(), "another one still holds it"
    assert gc.isenabled() is enabled


def test_an_interruption_while_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        switch_off()
        raise KeyboardInterrupt

    switch_off = gc.disable
    monkeypatch.setattr(gc, "disable", interrupted)
    with suppress(KeyboardInterrupt), paused_collector(MANY):
        pass
    assert gc.isenabled()


def test_what_is_frozen_stays_frozen() -> None:
    with young_only():
        count = gc.get_freeze_count()
        assert count > 0
        with suppress(ValueError), young_only():
            raise ValueError
        with paused_collector(MANY):
            pass
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_it_does_not_look_at_a_large_program_while_it_grows() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own; the tests have others
    try:
        with ga.program_guard(ga.Program(), ga.Program()):
            _mlp(700)
            before = gc.get_stats()[0]["collections"]
            _mlp(700)
            # Python's own rule would look at the young objects some forty times.
            assert gc.get_stats()[0]["collections"] - before <= 3
    finally:
        gc.set_threshold(*thresholds)


def _mlp(layers: int) -> None:
    x = ga.layers.data("x", [4])
    for _ in range(layers):
        x = ga.layers.fc(x, 4, act="tanh")
