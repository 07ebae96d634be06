"""docs/passes.md: every pass with its options, what it claims, an example, and a picture of it, before ⇒ after.

The example is the smallest of the golden texts (``tests/golden``) that the pass changes; the picture is drawn by graphad. ``make pictures``
draws the pictures anew; the test compares what Graphviz would be given (``docs/images/passes/drawn.json``), which takes no time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import graphad as ga
from graphad.drawing import draw_pair, to_dot
from graphad.rewriting import PASSES, Pass
from graphad.rewriting.passes import print_option
from tests import test_golden
from tests.source_tree import ROOT

PAGE = ROOT / "docs/passes.md"
PICTURES = ROOT / "docs/images/passes"
DRAWN = PICTURES / "drawn.json"
MOST_OPERATORS = 26  # of a graph that is still looked at

HEAD = """\
# The passes

Every pass with its options, what it requires and claims, an example and a picture: the smallest of the golden texts in
`tests/golden` that it changes, drawn by graphad. `graphad passes NAME` shows the same in a terminal. This page is made by `make pictures`.

"""


class Example(NamedTuple):
    """A golden case that a pass changes: the program's file, the passes before, and the pass as it is called."""

    file: Path
    before: tuple[str, ...]
    call: str
    size: int


def kinds() -> dict[str, type[Pass]]:
    """graphad's own passes by name."""
    import_module("graphad.passes")
    return {name: kind for name, kind in sorted(PASSES.items()) if kind.__module__.startswith("graphad.passes")}


@cache
def examples() -> dict[str, Example]:
    """For each pass the smallest case that it changes."""
    found: dict[str, Example] = {}
    for path in test_golden.FILES:
        case = test_golden.read(path)
        graph, done = ga.lower(ga.Program.parse(case.program)), list[str]()
        for pipeline in test_golden.pipelines(case):
            for each in ga.Pipeline.parse(pipeline).passes:
                if each.combines:
                    each.run(graph)
                    done.append(str(each))
                    continue
                before = len(graph.ops) + len(graph.values)
                text = str(graph)
                each.run(graph)
                size = before + len(graph.ops) + len(graph.values)
                if str(graph) != text and size < found.get(each.name, Example(path, (), "", 10**9)).size:
                    found[each.name] = Example(path, tuple(done), str(each), size)
                done.append(str(each))
    return found


def sides(example: Example) -> tuple[ga.Graph, ga.Graph]:
    """The graphs before and after the pass."""
    program = test_golden.read(example.file).program
    graphs = [ga.lower(ga.Program.parse(program)) for _ in range(2)]
    for graph in graphs:
        for each in example.before:
            ga.Pipeline.parse(each).run(graph)
    ga.Pipeline.parse(example.call).run(graphs[1])
    return graphs[0], graphs[1]


def drawn() -> dict[str, str]:
    """For each picture a digest of what Graphviz is given."""
    digests = {}
    for name, example in examples().items():
        if len(sides(example)[1].ops) <= MOST_OPERATORS:
            text = "".join(
                to_dot(side, legend=False, prefix=prefix) for side, prefix in zip(sides(example), ("before-", "after-"), strict=True)
            )
            digests[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return digests


def draw_all() -> None:
    """Draw the pictures, and write down what was drawn."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    digests = drawn()
    for path in PICTURES.glob("*.svg"):
        path.unlink()
    for name in digests:
        before, after = sides(examples()[name])
        draw_pair(before, after, PICTURES / f"{name}.svg", titles=("before", name), legend=False)
    DRAWN.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def text() -> str:
    """The text of docs/passes.md."""
    digests = json.loads(DRAWN.read_text(encoding="utf-8"))
    parts = [HEAD, *(f"- [`{name}`](#{name}): {kind.summary()}\n" for name, kind in kinds().items())]
    return "".join([*parts, *(line for name, kind in kinds().items() for line in _section(name, kind, name in digests))])


def _section(name: str, kind: type[Pass], pictured: bool) -> Iterator[str]:
    yield f"\n## {name}\n\n{kind.summary()}\n\n"
    about = (import_module(kind.__module__).__doc__ or "").strip("\n")
    _, _, picture = about.partition("\n\n")
    if "⇒" in picture:
        yield "".join(f"    {line}\n".rstrip() + "\n" if line.strip() else "\n" for line in _first_sketch(picture)) + "\n"
    options = fields(kind) if is_dataclass(kind) else ()
    if options:
        yield "| option | default | type |\n| --- | --- | --- |\n"
        for each in options:
            default = "required" if each.default is MISSING else f"`{print_option(each.default)}`"
            yield f"| `{each.name}` | {default} | `{str(each.type).replace('|', '&#124;')}` |\n"
        yield "\n"
    claims = {"requires": kind.requires, "clears": kind.clears, "establishes": kind.establishes, "preserves": kind.preserves}
    said = [f"{word} {', '.join(f'`{c if isinstance(c, str) else c.__name__}`' for c in given)}" for word, given in claims.items() if given]
    said += ["idempotent"] * kind.idempotent + [f"may change values by a relative {kind.tolerance:g}"] * bool(kind.tolerance)
    if said:
        yield f"Claims: {'; '.join(said)}.\n\n"
    example = examples().get(name)
    if example is not None:
        before = f", after `{', '.join(example.before)}`" if example.before else ""
        yield f"Example: `{example.call}`{before}, on the program of `tests/golden/{example.file.name}`.\n"
    if pictured:
        yield f"\n![The graph before and after {name}](images/passes/{name}.svg)\n"


def _first_sketch(text: str) -> list[str]:
    """The indented lines of a docstring that show before ⇒ after."""
    blocks, block = [], list[str]()
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    ") or (not line.strip() and block):
            block.append(line[4:])
        else:
            blocks.append(block)
            block = []
    found = next((each for each in blocks if any("⇒" in line for line in each)), [])
    while found and not found[-1].strip():
        found.pop()
    return found


def main() -> None:
    """Draw the pictures, and write the page."""
    draw_all()
    PAGE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
