"""Checks in several threads do not meet: each reports what it reports alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import graphad as ga
from graphad import layers as L
from graphad.testing import Case, check_pass
from graphad.testing.cases import random_case

THREADS = 2


@pytest.fixture
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def drawing() -> Case:
    """A program without a seed that draws, and something to simplify."""
    program = ga.Program()
    with ga.program_guard(program):
        x = L.data("x", [4], "float32", append_batch_size=False)
        L.mean(L.exp(L.log(L.dropout(x, dropout_prob=0.5) * 1.0)) + L.uniform_random([4]))
    return random_case(program)


def report(case: Case) -> str:
    return re.sub(r"[\d.]+ s of processor time", "", str(check_pass("simplify, dead-code", programs=[case], examples=40)))


@pytest.mark.usefixtures("_switching_often")
def test_checks_of_one_program_in_two_threads_are_independent() -> None:
    case = drawing()
    report(case)  # what is computed once in a process is then there
    alone = report(case)
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(report, [case] * THREADS))
    assert together == [alone] * THREADS
    assert case.program.random_seed == 0
