"""How long hypothesis looks for a counterexample: as part of the tests, with ``make test-all``, and with ``make fuzz``. Which tests run."""

from __future__ import annotations

import gc
import os
import random
import time

import pytest
from hypothesis import HealthCheck, settings

from graphad.settings import SETTINGS
from tests.fuzz import EXAMPLES, FIRST, SEED, UNTIL

# Some millions of objects stay for the whole session (the tests, and what they import), and each full collection walks them: with
# Python's thresholds that is a quarter of the processor time. Garbage waits longer here, at most a few hundred megabytes of it.
gc.set_threshold(10_000, 10, 20)

SETTINGS.reproducers = ""  # tests make passes fail on purpose; those that look at reproducers name a folder

# The same few programs each time: what looks for new ones, at length, is make fuzz.
# A busy machine is no reason to fail: no time is limited.
settings.register_profile(
    "tests",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    max_examples=15,
    print_blob=True,
)
settings.register_profile("fuzz", deadline=None, max_examples=int(os.environ.get(EXAMPLES, FIRST)), print_blob=True)
# Others, and more of them; make test-all gives the seed.
settings.register_profile("all", settings.get_profile("tests"), max_examples=100, derandomize=False)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--update-golden", action="store_true", help="write what the passes give now into tests/golden/*.txt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if config.getoption("--long") else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    if SEED in os.environ:
        random.Random(int(os.environ[SEED])).shuffle(items)


BEGUN: list[str] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    # A process runs one test at least: collecting them alone may take all of the time, and a round without tests finds nothing.
    if BEGUN and time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("the time given to make fuzz is over")
    BEGUN.append(item.nodeid)
