"""The property tests on new random programs, for a given time: ``make fuzz``.

python -m tests.fuzz [--minutes 30] [--workers 2] [--seed N] [PYTEST ARGUMENTS]

Rounds of all property tests follow each other until the time is over, each with a seed of its own, twice as many examples a test
as the round before, and in another order, so that a round that is cut short does not always leave out the same tests. A test that has
begun is finished, so that the whole takes a little longer than was given. It ends with the first round that fails; the seed that is
printed repeats that round.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST, MOST = 50, 5000  # examples a test, in the first round and at most
SEED, EXAMPLES, UNTIL = "GRAPHAD_FUZZ_SEED", "GRAPHAD_FUZZ_EXAMPLES", "GRAPHAD_FUZZ_UNTIL"  # how a round is told; read in conftest


def main(argv: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over; return the exit status of the first one that fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run the property tests on new random programs.")
    parser.add_argument("--minutes", type=float, default=30.0, help="for how long new tests begin (default: 30)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--seed", type=int, default=None, help="of the first round (default: a new one)")
    args, more = parser.parse_known_args(argv)
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    start, rounds, examples = time.time(), 0, FIRST
    until = start + 60 * args.minutes
    while time.time() < until:
        rounds += 1
        print(f"round {rounds}: up to {examples} examples a test, seed {seed}", flush=True)
        status = _round(args.workers, seed, examples, until, more)
        if status:
            print(f"round {rounds} failed; to repeat it: python -m tests.fuzz --seed {seed} (its first round has {FIRST} examples a test)")
            return status
        seed, examples = seed + 1, min(2 * examples, MOST)
    print(f"{rounds} rounds in {(time.time() - start) / 60:.1f} minutes, nothing found")
    return 0


def _round(workers: int, seed: int, examples: int, until: float, more: Sequence[str]) -> int:
    env = {**os.environ, SEED: str(seed), EXAMPLES: str(examples), UNTIL: str(until)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-m", "hypothesis", "--hypothesis-profile=fuzz"]
    return subprocess.run([*command, f"--hypothesis-seed={seed}", *more], cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
