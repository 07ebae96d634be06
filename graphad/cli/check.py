"""``graphad check PASS``: a pass against random programs."""

from __future__ import annotations

import argparse
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graphad import testing
from graphad.cli.arguments import DIFFERENT, FINE, Commands, add_trial_options, number, program_in, refused
from graphad.errors import GraphadError
from graphad.rewriting import Pipeline
from graphad.testing.check import Vacuous
from graphad.testing.report import Counterexample
from graphad.testing.trial import LOSS

VACUOUS, INTERRUPTED = 3, 130
STATUSES = """\
The exit status is 0 if nothing is wrong, 1 with a counterexample, 2 for a wrong command line, 3 if the pass changed none of the
programs, so that nothing was checked, and 130 if it was interrupted before anything was found."""


def add_parser(commands: Commands) -> None:
    """Add the command to those of graphad."""
    text = "Run a pass, or a pipeline, on random programs, and check everything that has to hold of it: results, gradients, claims."
    parser = commands.add_parser("check", help="try a pass on random programs", description=text, epilog=STATUSES)
    parser.add_argument("pipeline", metavar="PASS", help="a pass or a pipeline, as text; $loss stands for the name of a program's loss")
    parser.add_argument(
        "--examples", type=_count, metavar="N", help="how many programs (default: 100, or as many as --seconds leaves time for)"
    )
    parser.add_argument("--seconds", type=_seconds, metavar="S", help="of processor time, after which no further program is tried")
    parser.add_argument("--reference", metavar="PIPELINE", help="passes that PASS has to be equivalent to (default: the program as it is)")
    parser.add_argument(
        "--program",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="programs to try it on, with random arrays, instead of random programs",
    )
    parser.add_argument("--no-gradients", action="store_true", help="do not compare gradients")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder for a counterexample's snippet and pictures (default: a temporary one)"
    )
    add_trial_options(parser)
    parser.set_defaults(command=run_check)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"at least one example is tried, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    value = number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a time is more than 0 seconds, not {text}")
    return value


def run_check(args: argparse.Namespace) -> int:
    """Print the report or the counterexample; return the exit status, see ``STATUSES``."""
    try:
        for text in (args.pipeline, args.prepare, args.reference):
            # All texts are parsed before the first program is drawn: a mistake in the reference is told at once, not after minutes.
            Pipeline.parse(text.replace(LOSS, "loss")) if text else None
        programs = [program_in(file, allow_unknown=False) for file in args.program] if args.program else None
    except (GraphadError, OSError) as error:
        return refused(error)
    try:
        with _stopped_by_signals():
            report = testing.check_pass(
                args.pipeline,
                examples=args.examples,
                seconds=args.seconds,
                seed=args.seed,
                prepare=args.prepare,
                reference=args.reference,
                programs=programs,
                tolerance=args.tolerance,
                gradients=not args.no_gradients,
                folder=args.output,
            )
    except Counterexample as counterexample:
        print(counterexample)
        return DIFFERENT
    except Vacuous as vacuous:
        print(vacuous)
        return VACUOUS
    except GraphadError as error:
        return refused(error)
    except KeyboardInterrupt as interrupt:
        print(f"{args.pipeline}: {getattr(interrupt, 'checked', 'interrupted')}")
        return INTERRUPTED
    print(f"{args.pipeline}: {report}")
    return FINE


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Within it, a request to terminate interrupts as Ctrl-C does, so that what was found is shown."""
    # Python lets only the main thread set handlers of signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
