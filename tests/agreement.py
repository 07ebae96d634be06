"""Whether both executors agree on random programs of every kind, to the last bit and in their errors.

    python -m tests.agreement --programs 5000 --first 0

Each program runs three times on each, from its first run on by a function; values, the scope, iterations and messages are compared. With
``--threads 2`` the compiled one runs on lanes, made wherever there can be any, with ``--numba`` both take compiled loops, however small
arrays are.
"""

from __future__ import annotations

import argparse
import sys
import time

from graphad.execution import planning
from graphad.execution.compiled import FIRST
from graphad.execution.parallel import MODEL, Model
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.execution.test_compiled import alike, outcomes


def agree(seed: int, threads: int, numba: bool) -> tuple[bool, bool]:
    """Whether both say the same about a program, and whether that was an error."""
    p = any_program(RandomChoices(f"agreement {seed}"))
    p.program.random_seed = p.program.random_seed or 7
    compiled = outcomes(p, [p.loss_name], threads=threads, numba=numba)
    interpreted = outcomes(p, [p.loss_name], mode="interpreted", numba=numba)
    return alike(compiled, interpreted), any(isinstance(found[0], type) for found in interpreted)


def main() -> int:
    """Try programs; 1 if any differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--numba", action="store_true")
    args = parser.parse_args()
    planning.NATIVE = 1
    FIRST.set(1)
    if args.threads > 1:
        MODEL.set(Model(fork=0.0, wait=0.0, gain=-1.0))
    differ, errors, start = [], 0, time.monotonic()
    for done, seed in enumerate(range(args.first, args.first + args.programs), 1):
        same, failed = agree(seed, args.threads, args.numba)
        errors += failed
        if not same:
            differ.append(seed)
            print(f"program {seed} differs", flush=True)
        if not done % 250 or done == args.programs:
            print(f"{done} programs, {errors} with errors, {len(differ)} differ, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
