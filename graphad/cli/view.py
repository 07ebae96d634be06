"""``graphad view``: a page that shows a program pass by pass and rewrite by rewrite."""

from __future__ import annotations

import argparse
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from graphad.cli.arguments import SIZES, add_fetch, add_format, add_program, arrays, lowered, pipeline, sizes
from graphad.errors import GraphadError, InvalidValue
from graphad.viewing import view

SECONDS = 0.5  # between two looks at the files
Stamp = tuple[int, int]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Write a page that shows the graph before and after every pass and every rewrite, to be searched, zoomed and clicked."
    parser = commands.add_parser("view", help="write a page that shows a program pass by pass", description=text)
    add_program(parser)
    parser.add_argument("-p", "--pipeline", type=_checked, metavar="PASSES", help="for instance 'fixpoint(cse, dead-code)'")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="HTML", help="where to write the page")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--feed", type=Path, metavar="NPZ", help="run the program on these arrays, and show what values are")
    parser.add_argument("--batch", type=sizes, default=1, metavar=SIZES, help="what unknown extents are taken to be in costs (default: 1)")
    parser.add_argument("--watch", action="store_true", help="write the page again whenever a file changes; Ctrl-C ends it")
    add_format(parser)
    add_fetch(parser)
    parser.set_defaults(command=run)


def _checked(text: str) -> str:
    """The text of a pipeline that can be read; it is read again when the page is written again."""
    pipeline(text)
    return text


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.watch and args.program == "-":
        raise InvalidValue("--watch needs the name of a file: standard input is read once")
    paths = _files(args)
    stamps = _stamps(paths)  # before the files are read: what is changed while the page is written is not missed
    if args.watch:
        is_written = _attempt(args)
    else:
        _write(args)
        is_written = True
    if args.open and is_written:
        webbrowser.open(args.output.resolve().as_uri())
    if args.watch:
        with suppress(KeyboardInterrupt):  # the user ends it
            watch(paths, stamps, lambda: _attempt(args), _ticks())
    return 0


def _write(args: argparse.Namespace) -> None:
    feed = None if args.feed is None else arrays(args.feed)
    passes = None if args.pipeline is None else pipeline(args.pipeline)
    view(
        lowered(args),
        passes,
        args.output,
        title="standard input" if args.program == "-" else Path(args.program).name,
        feed=feed,
        batch=args.batch,
        watched=args.watch,
    )
    print(f"written: {args.output}")


def _attempt(args: argparse.Namespace) -> bool:
    """Write the page; say what is wrong, and go on, if that fails."""
    try:
        _write(args)
    except (GraphadError, OSError, argparse.ArgumentTypeError) as error:
        print(f"graphad: {error}", file=sys.stderr)
        return False
    return True


def _files(args: argparse.Namespace) -> list[Path]:
    passes = Path(args.pipeline[1:]) if args.pipeline and args.pipeline.startswith("@") else None
    return [path for path in (Path(args.program), args.feed, passes) if path is not None]


# -- watching --------------------------------------------------------------------------------------


def _ticks() -> Iterator[None]:
    """Now and then."""
    while True:
        time.sleep(SECONDS)
        yield


def watch(paths: Sequence[Path], stamps: list[Stamp], build: Callable[[], object], ticks: Iterator[None]) -> None:
    """Build again at each tick at which one of the files is not as it was when it was last built, at first with these stamps."""
    for _ in ticks:
        new_stamps = _stamps(paths)
        if new_stamps != stamps:
            # Before building: a file that changes meanwhile is seen at the next tick.
            stamps = new_stamps
            build()


def _stamps(paths: Sequence[Path]) -> list[Stamp]:
    return [_stamp(path) for path in paths]


def _stamp(path: Path) -> Stamp:
    """When a file was changed, and its size; zeros while there is none, as between the steps of an editor that replaces it."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
