"""How long hypothesis looks for a counterexample: as part of the tests, and with ``make fuzz``. The option of the golden texts."""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import settings

from graphad.knobs import KNOBS
from tests.fuzz import EXAMPLES, FIRST, SEED, UNTIL

KNOBS.reproducers = ""  # tests make passes fail on purpose; those that look at reproducers name a folder

# The same few programs each time: what looks for new ones, at length, is make fuzz.
settings.register_profile("tests", deadline=None, derandomize=True, database=None, max_examples=40, print_blob=True)
settings.register_profile("fuzz", deadline=None, max_examples=int(os.environ.get(EXAMPLES, FIRST)), print_blob=True)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the passes give now into tests/golden/*.txt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SEED in os.environ:
        random.Random(int(os.environ[SEED])).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("the time given to make fuzz is over")
