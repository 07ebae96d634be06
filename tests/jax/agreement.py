"""Whether XLA and numpy agree on random nested programs: loops, branches and arrays in each other, with their gradients.

    python -m tests.jax.agreement --programs 2000 --first 0 [--dtype float32]

Each program has the gradients of its loss (every eighth one the second ones too), runs under jit and on the interpreter, and all tensors
of block 0 that are the loss or a gradient are compared: within 1e-6 of the largest entry, float64. Compiling is nearly all the time it
takes, so XLA leaves optimizations out (``QUICK``). Of programs that do not run on XLA the reasons are counted; a reason that is not in
``docs/jax.md`` counts as a difference.

In float32 the tolerance is 1e-4. Where the two differ by more, and numpy's float32 differs as much from its own float64, the program
magnifies rounding (a loop that doubles it, a branch that turns on it): these programs are counted by themselves.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import ExecutionError, GraphadError, NotLowered
from graphad.testing.cases import NARROW, WIDE, Case, RandomChoices, retyped
from graphad.testing.nested import nested_program
from graphad.testing.programs import case_with_gradients
from tests.jax.programs import assert_close, on_numpy, on_xla, traced

FLOAT32 = 1e-4  # of the largest entry
MAX_TRIPS = 16  # for loops whose trip count depends on what is fed
# What is not lowered: what the message says, and the words of docs/jax.md that say so.
REFUSED = {
    "known only when the program runs": "an extent that only the run knows",
    "XLA compiles for shapes that are known": "XLA compiles for shapes",
    "grows in every iteration": "grows in every iteration",
}


def nested(seed: int, order: int = 1) -> tuple[Case, list[str]]:
    """A random nested program with its gradients, and what to fetch."""
    case = nested_program(RandomChoices(str(seed)), 3, 3, 5, True, True)
    case = case_with_gradients(case, order) or case
    block = case.program.global_block()
    written = {name for op in block.ops for name in op.output_names()}
    wanted = [name for name, var in block.vars.items() if var.type == "LOD_TENSOR" and (name == case.loss_name or "@GRAD" in name)]
    return case, [name for name in wanted if name in written]


@dataclass
class Outcome:
    """The outcome of running a program on XLA.

    Attributes:
        kind: ``agrees``, ``differs``; ``lowered`` where it was only traced; ``refused by numpy`` where the interpreter refuses it;
            ``not lowered``; ``magnifies rounding``, in float32.
        why: of those that say neither that it agrees nor that it is lowered.
    """

    kind: str
    why: str = ""


def computed(case: Case, fetch: list[str]) -> tuple[list[str], list[Any]]:
    """Of the names those that have values when the program has run (a branch may not write one), and what they are on numpy."""
    while True:
        try:
            return fetch, on_numpy(case.program, case.feeds, case.params, fetch)
        except GraphadError as error:
            absent = re.match("the fetch list has '(.*)' before any operator wrote it", str(error))
            if absent is None:
                raise
            fetch = [name for name in fetch if name != absent[1]]


def is_rounded(narrow: Any, wide: Any) -> bool:
    """Whether numpy's own float32 is further from float64 than XLA may be from it."""
    try:
        assert_close(np.asarray(narrow).astype(np.asarray(wide).dtype), wide, "", FLOAT32)
    except AssertionError:
        return True
    return False


def outcome(seed: int, order: int = 1, compiled: bool = True, dtype: str = WIDE) -> Outcome:
    """Run a program on both; or only trace it, which says whether it is lowered in a tenth of the time.

    Args:
        dtype: what the floats of the program are: float64, or float32.

    Raises:
        AssertionError: the numbers differ; the message has the name.
        ExecutionError, NotLowered: it is not lowered for a reason that docs/jax.md does not give.
    """
    case, fetch = nested(seed, order)
    try:
        fetch, wide = computed(case, fetch)
        case = case if dtype == WIDE else retyped(case, WIDE, dtype)
        expected = wide if dtype == WIDE else on_numpy(case.program, case.feeds, case.params, fetch)
    except GraphadError as error:
        return Outcome("refused by numpy", str(error).splitlines()[0])
    try:
        if not compiled:
            traced(case.program, case.feeds, case.params, fetch, max_trips=MAX_TRIPS)
            return Outcome("lowered")
        got, _ = on_xla(case.program, case.feeds, case.params, fetch, max_trips=MAX_TRIPS)
    except (ExecutionError, NotLowered) as error:
        if any(reason in str(error) for reason in REFUSED):
            return Outcome("not lowered", re.sub(r"'[^']*'", "'...'", str(error).splitlines()[0]))
        raise
    try:
        for name, one, other in zip(fetch, got, expected, strict=True):
            assert_close(one, other, f"seed {seed}: {name}")
    except AssertionError:
        if dtype == NARROW and any(map(is_rounded, expected, wide)):
            return Outcome("magnifies rounding")
        raise
    return Outcome("agrees")


def tried(seed: int, dtype: str) -> Outcome:
    """The outcome, whatever it is."""
    try:
        return outcome(seed, 2 if seed % 8 == 7 else 1, dtype=dtype)
    except AssertionError as error:
        return Outcome("differs", " ".join(str(error).split())[:300])
    except Exception as error:  # whatever tracing makes of a program is a finding
        return Outcome("differs", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


def main() -> int:
    """Try programs; 1 if any differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--dtype", choices=(WIDE, NARROW), default=WIDE)
    args = parser.parse_args()
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    start = time.process_time()
    for done, seed in enumerate(range(args.first, args.first + args.programs), 1):
        found = tried(seed, args.dtype)
        kinds[found.kind] += 1
        if found.kind == "differs":
            print(f"program {seed}: {found.why}", flush=True)
        elif found.why:
            reasons[f"{found.kind}: {found.why}"] += 1
        if not done % 100 or done == args.programs:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            print(f"{done} programs: {counts}; {time.process_time() - start:.0f} s of processor time", flush=True)
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")
    return 1 if kinds["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
