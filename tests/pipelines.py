"""Random pipelines of the library's passes on random programs: ``python -m tests.pipelines``.

A pipeline has 3 to 8 passes with random options; in half of them the standard backward stands somewhere among them, and in some
of those updates of the parameters after it. Each runs on a few programs under ``check_pass``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from graphad.errors import InvalidValue, PassError
from graphad.ir import Graph
from graphad.rewriting import PASSES, Pipeline
from graphad.rewriting.passes import check_order
from graphad.testing import Case, Counterexample, Vacuous, check_pass
from graphad.testing.cases import Choices
from graphad.testing.training import trainable_program
from graphad.testing.trial import BACKWARD

Random = random.Random
LONGEST = 60.0  # seconds of processor time for a pipeline: passes that make many operators of each, after each other, make thousands
ANYWHERE: dict[str, tuple[str, ...]] = {  # a pass: the options that it may have
    "annotate-cost": ("", "batch=8"),
    "canonical-order": ("",),
    "checkpoint-while": ("", "every=1", "every=2", "recursive=true"),
    "constant-folding": ("", "limit=4"),
    "cse": ("",),
    "dead-code": ("",),
    "fold-batch-norm": ("",),
    "fold-branches": ("",),
    "fuse-elementwise": ("", "least=3", "smallest=4"),
    "hoist-invariants": ("",),
    "in-place": ("",),
    "inline-net": ("",),
    "jvp": ("targets=[$loss]",),
    "mixed-precision": ("", "dtype=float32", "loss_scale=8.0"),
    "outline-repeated": ("", "min_ops=2"),
    "probe-numerics": ("", "range=false", "nan=false"),
    "recompute": ("", "budget=100"),
    "reorder": ("", "batch=3"),
    "simplify": ("", "fast=true"),
    "unroll-while": ("", "limit=3", "factor=2"),
}
UPDATES: dict[str, tuple[str, ...]] = {
    "clip-gradients": ("bound=0.1", "kind=norm, bound=0.5", "kind=value, bound=0.05"),
    "decay-weights": ("coefficient=0.1", "kind=l1, coefficient=0.01"),
}
PARTS = {text.partition("{")[0] for text in BACKWARD}
AT_THE_END = ("optimize-parameters", "gradient-accumulation")
NOT_TRIED = {"fixpoint", "nested"}  # they only run others; a pipeline has them around some of its passes


class Trial(NamedTuple):
    """A pipeline, what runs before it, and where its programs come from; None: everywhere."""

    text: str
    prepare: str = ""
    programs: Callable[[Choices], Case] | None = None


def random_trial(rng: Random) -> Trial:
    """A pipeline. One that updates parameters is tried after the backward: what it is held to are formulas over gradients."""
    passes = [_with_options(rng, name, ANYWHERE) for name in rng.choices(sorted(ANYWHERE), k=rng.randint(3, 8))]
    if rng.randrange(4) == 0:
        passes[0] = f"fixpoint({passes[0]})" if "jvp" not in passes[0] and "unroll" not in passes[0] else passes[0]
    if rng.randrange(2):
        return Trial(", ".join(passes))
    place = rng.randint(0, len(passes))
    before, after = passes[:place], passes[place:]
    if rng.randrange(3):
        return Trial(", ".join([*before, *BACKWARD, *after]))
    updates = [_with_options(rng, name, UPDATES) for name in rng.sample(sorted(UPDATES), rng.randint(0, 2))]
    last = [*updates, "optimize-parameters"] if updates or rng.randrange(2) else ["gradient-accumulation"]
    return Trial(", ".join([*last, *after]), ", ".join([*before, *BACKWARD]), _trainable)


def _with_options(rng: Random, name: str, known: dict[str, tuple[str, ...]]) -> str:
    options = rng.choice(known[name])
    return f"{name}{{{options}}}" if options else name


def is_possible(trial: Trial) -> bool:
    """Whether each pass finds what it requires where it stands."""
    text = f"{trial.prepare}, {trial.text}" if trial.prepare else trial.text
    try:
        check_order(Pipeline.parse(text.replace("$loss", "loss")).parts(), Graph())
    except PassError:
        return False
    return True


def _trainable(choices: Choices) -> Case:
    return trainable_program(choices)


def main() -> int:
    """Try pipelines until there were enough programs; print each that is wrong, and return 1 if one is."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipelines", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=10_000, help="how many in all (10000)")
    parser.add_argument("--each", type=int, default=20, help="how many for a pipeline (20)")
    parser.add_argument("--seed", type=int, default=0, help="which pipelines (0)")
    parser.add_argument("--only", type=int, default=0, help="the number of one pipeline to try alone")
    parser.add_argument("--whole", action="store_true", help="print counterexamples whole, not in a line")
    options = parser.parse_args()
    start, tried, changed, pipelines, unfit, wrong = time.process_time(), 0, 0, 0, 0, 0
    while tried < options.programs and not (options.only and pipelines >= options.only):
        rng = Random(f"{options.seed} {pipelines}")
        pipelines += 1
        if options.only and pipelines != options.only:
            continue
        trial = random_trial(rng)
        if not is_possible(trial):
            continue
        try:
            checked = check_pass(trial.text, options.each, seconds=LONGEST, seed=pipelines, prepare=trial.prepare, programs=trial.programs)
        except Vacuous as vacuous:
            checked = vacuous.checked
        except InvalidValue:
            unfit += 1
            continue
        except Counterexample as counterexample:
            wrong += 1
            shown = counterexample if options.whole else counterexample.finding
            print(f"pipeline {pipelines} of seed {options.seed}: {trial.text}\n{shown}\n", flush=True)
            tried += counterexample.examples
            continue
        tried, changed = tried + checked.examples, changed + checked.changed
    print(
        f"{pipelines} pipelines, {unfit} that fit no program, on {tried} programs, {changed} of them changed: {wrong} wrong, "
        f"{time.process_time() - start:.0f} s of processor time"
    )
    return 1 if wrong else 0


def untried() -> set[str]:
    """The passes of the library that no random pipeline has."""
    library = {name for name, kind in PASSES.items() if kind.__module__.startswith("graphad.")}
    return library - ANYWHERE.keys() - UPDATES.keys() - PARTS - set(AT_THE_END) - NOT_TRIED


if __name__ == "__main__":
    sys.exit(main())
