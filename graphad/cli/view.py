"""``graphad view``: a page that shows a program pass by pass."""

from __future__ import annotations

import argparse
import difflib
import html
from dataclasses import dataclass, field
from pathlib import Path

from graphad.cli.arguments import add_fetch, add_format, add_pipeline, add_program, lowered
from graphad.drawing import to_svg
from graphad.interop.files import write_bytes
from graphad.ir import Graph, Node
from graphad.rewriting import Pass, Step, observing


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Write a page that shows the graph before and after every pass; the arrow keys go from one to the next."
    parser = commands.add_parser("view", help="write a page that shows a program pass by pass", description=text)
    add_program(parser)
    add_pipeline(parser, required=False)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="HTML", help="where to write the page")
    add_format(parser)
    add_fetch(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    graph = lowered(args)
    recorder = Recorder(graph)
    if args.pipeline is not None:
        with observing(recorder):
            args.pipeline.run(graph)
    write_bytes(args.output, page(str(args.program), recorder.frames).encode())
    print(f"written: {args.output}")
    return 0


@dataclass
class Frame:
    """The graph after one pass: a heading, the pass and its time, a drawing, and the changes to the text."""

    title: str
    note: str
    svg: str
    diff: str


@dataclass
class Recorder:
    """An observer that draws the graph after every pass that changed it, with the new nodes outlined."""

    graph: Graph
    frames: list[Frame] = field(default_factory=list)
    known: set[Node] = field(default_factory=set)
    text: str = ""

    def __post_init__(self) -> None:
        self._add("before", f"{len(self.graph.ops)} operators, {len(self.graph.values)} values", self.graph)

    def __call__(self, each: Pass, graph: Graph, step: Step) -> None:
        if each.combines or graph.parent is not None:
            return
        counts = f"{step.ops[0]} → {step.ops[1]} operators" if step.ops[0] != step.ops[1] else f"{step.ops[1]} operators"
        if step.changed:
            self._add(step.text, f"{counts}, {step.seconds * 1e3:.1f} ms", graph)

    def _add(self, title: str, note: str, graph: Graph) -> None:
        nodes: set[Node] = {node for each in graph.tree() for node in (*each.ops, *each.values)}
        before, self.text = self.text, str(graph)
        svg = to_svg(graph, highlight=list(nodes - self.known) if self.known else (), prefix=f"f{len(self.frames)}-")
        diff = "".join(difflib.unified_diff(before.splitlines(True), self.text.splitlines(True), n=2)) if self.frames else self.text
        self.frames.append(Frame(title, note, svg, diff))
        self.known = nodes


def page(name: str, frames: list[Frame]) -> str:
    """The page of some frames: all in one file, without anything from elsewhere."""
    steps = "".join(
        f'<li><button data-frame="{i}"><b>{html.escape(frame.title)}</b><span>{html.escape(frame.note)}</span></button></li>'
        for i, frame in enumerate(frames)
    )
    shown = "".join(
        f'<section id="frame-{i}" hidden><div class="drawing">{frame.svg}</div><pre>{_colored(frame.diff)}</pre></section>'
        for i, frame in enumerate(frames)
    )
    return _PAGE.replace("{name}", html.escape(name)).replace("{steps}", steps).replace("{frames}", shown)


def _colored(diff: str) -> str:
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = (line for line in diff.splitlines() if not line.startswith(("---", "+++")))
    return "".join(f'<span class="{kinds.get(line[:1], "")}">{html.escape(line)}</span>' for line in lines)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
  * { box-sizing: border-box; }
  body { margin: 0; display: grid; grid-template-columns: 17rem 1fr; height: 100vh; font: 14px/1.4 system-ui, sans-serif; color: #2b2f36; }
  nav { border-right: 1px solid #d9dce1; overflow: auto; padding: 1rem 0.75rem; background: #f7f8fa; }
  h1 { font-size: 1rem; margin: 0 0 0.75rem; overflow-wrap: anywhere; }
  ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.25rem; }
  button { width: 100%; text-align: left; border: 1px solid transparent; border-radius: 6px; background: none; padding: 0.4rem 0.6rem;
    font: inherit; color: inherit; cursor: pointer; }
  button b { display: block; font-weight: 600; overflow-wrap: anywhere; }
  button span { color: #676e79; font-size: 0.85em; }
  button:hover { background: #eceff4; }
  button:focus-visible { outline: 2px solid #2f6ea8; }
  button[aria-current="true"] { background: #cfe3f7; border-color: #2f6ea8; }
  main { overflow: hidden; }
  section { display: grid; grid-template-rows: minmax(0, 3fr) minmax(0, 1fr); height: 100vh; }
  section[hidden] { display: none; }
  .drawing { overflow: auto; padding: 1rem; display: grid; place-items: start center; }
  .drawing svg { max-width: 100%; height: auto; }
  pre { margin: 0; overflow: auto; padding: 0.75rem 1rem; border-top: 1px solid #d9dce1; background: #fbfbfc; }
  pre { font: 12px/1.45 ui-monospace, monospace; }
  pre span { display: block; min-height: 1.45em; }
  .add { background: #e3f4e1; } .del { background: #fbe4e1; } .at { color: #676e79; }
</style>
</head>
<body>
<nav><h1>{name}</h1><ol>{steps}</ol></nav>
<main>{frames}</main>
<script>
  const buttons = [...document.querySelectorAll("button")], frames = [...document.querySelectorAll("section")];
  let at = 0;
  function show(i) {
    at = Math.max(0, Math.min(i, frames.length - 1));
    frames.forEach((frame, j) => { frame.hidden = j !== at; });
    buttons.forEach((button, j) => { button.setAttribute("aria-current", j === at); });
    buttons[at].scrollIntoView({ block: "nearest" });
  }
  buttons.forEach((button, i) => button.addEventListener("click", () => show(i)));
  addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); show(at + step); }
  });
  show(Number(location.hash.slice(1)) || 0);
</script>
</body>
</html>
"""
