"""``graphad opt``: run passes on a program."""

from __future__ import annotations

import argparse
import difflib
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path

from graphad.cli.arguments import ONNX, add_fetch, add_format, add_pipeline, add_program, count, source
from graphad.drawing import draw_steps
from graphad.interop import onnx
from graphad.interop.formats import FORMATS, write_program
from graphad.ir import Graph, lower, schedule
from graphad.rewriting import Pass, Step, Timings, observing, timing_rules, verification


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("opt", help="run passes on a program", description="Run passes on a program, and write what comes out.")
    add_program(parser)
    add_pipeline(parser, required=True)
    parser.add_argument("-o", "--output", default="-", metavar="OUT", help=".txt, .json, .pdmodel or .onnx; - is standard output (default)")
    add_format(parser)
    parser.add_argument("--to", choices=sorted(FORMATS), metavar="FORMAT", help="write text, json or protobuf")
    add_fetch(parser)
    parser.add_argument("--print-after", action="store_true", help="show the graph after every pass")
    parser.add_argument("--print-changed", action="store_true", help="show what each pass changed, as a diff of the graph's text")
    parser.add_argument("--draw", type=Path, metavar="DIR", help="draw the graph before, and after every pass that changed it")
    parser.add_argument("--time", action="store_true", help="show time and node counts by pass, and times by rule")
    parser.add_argument("--verify-each", action=argparse.BooleanOptionalAction, help="verify the graph after every pass (default: as set)")
    parser.add_argument("--stop-after", type=count, metavar="N", help="stop after the n-th rewrite, and say what it was")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program, parameters, fetch, _ = source(args)
    graph = lower(program, fetch)
    graph.journal.limit = args.stop_after
    timings = Timings()
    with ExitStack() as observers:
        # Timing costs time itself, so the rules' clocks run only if they are shown.
        rules = observers.enter_context(timing_rules() if args.time else nullcontext())
        drawer = _Drawer(graph, args.draw) if args.draw else None
        for observer in (_Printer(graph, args), drawer, timings if args.time else None):
            if observer is not None:
                observers.enter_context(observing(observer))
        if args.verify_each is not None:
            observers.enter_context(verification(args.verify_each))
        args.pipeline.run(graph)
    # Drawn when all passes have run: a node has one place in all drawings, so the layout needs all steps.
    if drawer is not None:
        drawer.draw()
    if args.time:
        _say(f"{timings}\n\n{rules}" if rules else str(timings))
    if args.stop_after is not None:
        _say(last_rewrite(graph))
    if args.output.endswith(ONNX):
        names = [value.name for value in graph.targets]
        onnx.save(schedule(graph), args.output, fetch_list=names, scope=parameters)
    else:
        write_program(schedule(graph), args.output, args.to)
    return 0


def last_rewrite(graph: Graph) -> str:
    """The number of rewrites, and the last one."""
    origin = graph.journal.origin
    suffix = "" if origin is None else f"; the last: rule {origin.rule} on " + (", ".join(a.text for a in origin.ancestors) or "the graph")
    return f"{graph.journal.rewrites} rewrites{suffix}"


def _say(text: str) -> None:
    print(text, file=sys.stderr)


class _Printer:
    """Shows graphs, or the changes by passes, on standard error."""

    def __init__(self, graph: Graph, args: argparse.Namespace) -> None:
        self.after = args.print_after
        self.changed = args.print_changed
        self.text = str(graph) if self.changed else ""

    def __call__(self, pass_: Pass, graph: Graph, step: Step) -> None:
        # What passes combine, and what is nested, would be printed twice.
        if pass_.combines or graph.parent is not None:
            return
        if self.after:
            _say(f"# after {step.text}\n{graph}")
        if self.changed and step.changed:
            before, self.text = self.text, str(graph)
            _say("".join(difflib.unified_diff(before.splitlines(True), self.text.splitlines(True), "before", f"after {step.text}")))


class _Drawer:
    """Draws the graph before, and after each pass that changed it, into a folder: 00-before.svg, 01-cse.svg...

    What a pass added is outlined, what it changed is marked, and a node has one place in all drawings.
    """

    def __init__(self, graph: Graph, folder: Path) -> None:
        self.folder = folder
        self.names = ["before"]
        self.steps = [graph.clone()]
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, pass_: Pass, graph: Graph, step: Step) -> None:
        if step.changed and not pass_.combines and graph.parent is None:
            self.names.append(step.name)
            self.steps.append(graph.clone())

    def draw(self) -> None:
        """Write the files."""
        paths = [self.folder / f"{i:02}-{name}.svg" for i, name in enumerate(self.names)]
        draw_steps(self.steps, paths, titles=self.names)
