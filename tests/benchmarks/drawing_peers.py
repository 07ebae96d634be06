"""Drawings of one network by graphad, torchviz, torch.fx's drawer, PyTensor's d3viz, tinygrad's VIZ and Netron: time, size, legibility.

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/python -m pip install -r tests/benchmarks/peers/requirements.txt
    python -m tests.benchmarks.drawing_peers --python ENVIRONMENT/bin/python

The network is fully connected, with its backward (``tests/benchmarks/peers/drawn.py``); each library draws its own graph of it, as it
does by default. All drawings are measured by Chromium, as they look in it: the names of operators where the whole is 1,600 pixels wide;
how many screens of 1,600 x 1,000 pixels it takes with names of 9 pixels; the labels (of more than one letter) that overlap another one
or are crossed by a line. Seconds are from the library's own graph to what is seen: processor time of drawings by Graphviz, with wall
time of pages. ``--pictures FOLDER`` takes the pictures of docs/drawing.md. A library that is not there is left out, and the last lines
say why.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphad as ga
from tests.benchmarks.drawing import spent
from tests.source_tree import ROOT
from tests.viewing.browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = (3, 33, 333, 1666)  # layers: 20, 200, 2,000 and 10,000 operators with the backward
WIDE, HIGH, READABLE = 1600, 1000, 9.0
LIMIT = 60.0  # seconds of processor time that a drawing may take
WALL = 180.0  # and that a page may take until it is drawn
PORT = 18734


def script(name: str) -> str:
    """A function to run in the browser."""
    text = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    return f"(...given) => {text[text.index('({') :].strip()}.{name}(...given)"


@dataclass(frozen=True)
class Drawing:
    """The measurements of a drawing: seconds, labels, those not free, the size of the middle one, width and height, in its own pixels."""

    seconds: float
    labels: int
    bad: int
    size: float
    width: float
    height: float
    picture: bytes = b""

    @property
    def on_screen(self) -> float:
        """Pixels of a name where the whole is as wide as the screen."""
        return self.size * WIDE / self.width

    @property
    def screens(self) -> float:
        """How many screens it takes with names that can be read."""
        return self.width * self.height * (READABLE / self.size) ** 2 / WIDE / HIGH


class Unavailable(Exception):
    """A library is not there, or does not draw this."""


def network(layers: int) -> ga.Graph:
    """graphad's own graph."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        h = ga.layers.data("x", [8])
        for _ in range(layers):
            h = ga.layers.fc(h, 8, act="tanh")
        ga.append_backward(ga.layers.mean(h))
    return ga.lower(main)


# -- what draws ------------------------------------------------------------------------------------
# Each takes a page of the browser, the number of layers, and the interpreter and folder of the peers; it leaves the drawing on the page,
# and returns the element that it is in, and seconds.

Shown = tuple[str, float]
Drawer = Callable[["Page", int, "Setup"], Shown]


@dataclass(frozen=True)
class Setup:
    """Where the peers are, and where files go."""

    python: str
    folder: Path

    def drawn(self, kind: str, layers: int, path: Path) -> float:
        """Let a peer draw to a file; return what it says about seconds."""
        command = [self.python, str(ROOT / "tests/benchmarks/peers/drawn.py"), kind, str(layers), str(path)]
        environment = {**os.environ, "PYTHONPATH": "", "TMPDIR": str(self.folder)}
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=WALL, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"not drawn within {WALL:.0f} s") from None
        if "SIGXCPU" in done.stderr or done.returncode == -signal.SIGXCPU or done.returncode == -signal.SIGKILL:
            raise Unavailable(f"more than {LIMIT:.0f} s of processor time")
        line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
        if line is None:
            last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise Unavailable(last[:160])
        seconds: float = json.loads(line)["seconds"]
        return seconds


def with_graphad(page: Page, layers: int, setup: Setup) -> Shown:
    graph, path = network(layers), setup.folder / "graphad.svg"
    start = spent()
    ga.draw(graph, path)
    seconds = spent() - start
    page.goto(path.as_uri())
    return "svg", seconds


def with_graphviz(kind: str) -> Drawer:
    def draw(page: Page, layers: int, setup: Setup) -> Shown:
        path = setup.folder / f"{kind}.svg"
        seconds = setup.drawn(kind, layers, path)
        page.goto(path.as_uri())
        return "svg", seconds

    return draw


def with_d3viz(page: Page, layers: int, setup: Setup) -> Shown:
    path = setup.folder / "d3viz.html"
    seconds = setup.drawn("d3viz", layers, path)
    start = time.perf_counter()
    page.goto(path.as_uri())
    return "svg", seconds + _settled(page, "svg text", start)


def with_netron(page: Page, layers: int, setup: Setup) -> Shown:
    path = setup.folder / "network.onnx"
    setup.drawn("Netron", layers, path)
    with served([str(Path(setup.python).with_name("netron")), "--port", str(PORT), "--host", "127.0.0.1", str(path)], {"BROWSER": "true"}):
        start = time.perf_counter()
        page.goto(f"http://127.0.0.1:{PORT}/")
        with suppress(Exception):  # it asks for consent where it is opened first
            page.get_by_text("Accept", exact=True).click(timeout=2000)
        return "svg", _settled(page, "svg .node text", start)


def with_tinygrad(page: Page, layers: int, setup: Setup) -> Shown:
    setup.drawn("tinygrad", layers, setup.folder / "unused")
    rewrites = next(setup.folder.glob("rewrites.pkl*"))
    server = Path(setup.python).parent.parent.glob("lib/python3*/site-packages/tinygrad/viz/serve.py")
    with served([setup.python, str(next(server)), "--rewrites-path", str(rewrites)], {"PORT": str(PORT), "VIZ": "0", "DEV": "NULL"}):
        page.goto(f"http://127.0.0.1:{PORT}/")
        page.wait_for_function("typeof ctxs !== 'undefined' && ctxs !== null && ctxs.length > 1", timeout=WALL * 1e3)
        start = time.perf_counter()
        page.evaluate("setState({ currentCtx: 1, currentStep: 0, currentRewrite: 0, expandSteps: true })")
        return "#graph-svg", _settled(page, "#graph-svg .node text", start)


def _settled(page: Page, selector: str, start: float) -> float:
    """Seconds until there are labels, and as many as half a second before."""
    before, now = "", ""
    while before != now or not now:
        if time.perf_counter() - start > WALL:
            raise Unavailable(f"not drawn within {WALL:.0f} s")
        changed = time.perf_counter()
        page.wait_for_timeout(500)
        before, now = now, page.evaluate(script("progress"), selector)
    page.wait_for_timeout(1000)  # transitions
    return changed - start


@contextmanager
def served(command: Sequence[str], environment: dict[str, str]) -> Iterator[None]:
    """A server within which a page can be opened."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "", **environment}
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                    break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


DRAWERS: dict[str, Drawer] = {
    "graphad": with_graphad,
    "torchviz": with_graphviz("torchviz"),
    "torch.fx": with_graphviz("torch.fx"),
    "PyTensor d3viz": with_d3viz,
    "tinygrad VIZ": with_tinygrad,
    "Netron": with_netron,
}


# -- measuring -------------------------------------------------------------------------------------


def measured(browser: Browser, drawer: Drawer, layers: int, setup: Setup, with_picture: bool) -> Drawing:
    """Draw once and measure the drawing."""
    context = browser.new_context(viewport={"width": WIDE, "height": HIGH})
    # Netron takes away eval, which playwright needs.
    context.add_init_script("const kept = window.eval; Object.defineProperty(window, 'eval', { get: () => kept, set: () => undefined });")
    page = context.new_page()
    page.set_default_timeout(WALL * 1e3)
    try:
        selector, seconds = drawer(page, layers, setup)
        svg = page.locator(selector).first
        found: dict[str, Any] = svg.evaluate(script("measure"))
        if not found["labels"]:
            raise Unavailable("no labels")
        picture = svg.evaluate(script("standalone"), found).encode() if with_picture else b""
    finally:
        context.close()
    return Drawing(seconds, found["labels"], found["bad"], found["size"], found["width"], found["height"], picture)


def rows(browser: Browser, sizes: Sequence[int], setup: Setup, absent: dict[str, str]) -> Iterator[tuple[int, str, Drawing | str]]:
    """The drawing, or the reason why there is none, by operators and library."""
    failed: set[str] = set()
    for layers in sizes:
        for name, drawer in DRAWERS.items():
            if name in absent or name in failed:
                continue
            try:
                yield 6 * layers + 2, name, measured(browser, drawer, layers, setup, layers <= SIZES[2])
            except Exception as error:  # of whatever kind: a peer's page may fail in any way
                failed.add(name)  # and is not tried with more
                yield 6 * layers + 2, name, str(error).splitlines()[0] or type(error).__name__


def missing(python: str) -> dict[str, str]:
    """The peers that cannot be imported, with the reason."""
    modules = {"torchviz": "torchviz", "torch.fx": "torch.fx", "PyTensor d3viz": "pytensor", "tinygrad VIZ": "tinygrad", "Netron": "netron"}
    found = {}
    for name, module in modules.items():
        done = subprocess.run(
            [python, "-c", f"import {module}"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, check=False
        )
        if done.returncode:
            found[name] = (done.stderr.strip().splitlines() or [f"{module} cannot be imported"])[-1]
    return found


def line(count: int, name: str, found: Drawing | str) -> str:
    """A row of the table."""
    if isinstance(found, str):
        return f"| {count:,} | {name} | {found} | | | | |"
    seconds = f"{found.seconds:.1f} s"
    return f"| {count:,} | {name} | {seconds} | {found.labels:,} | {found.on_screen:.1f} px | {found.screens:.1f} | {found.bad:,} |"


# -- pictures --------------------------------------------------------------------------------------

PAGE = """<style>body {{ margin: 0; font: 13px Helvetica, Arial, sans-serif; display: flex; gap: 8px; background: white; width: {width}px }}
figure {{ margin: 0; width: 196px }} figcaption {{ margin: 0 0 4px; color: #333 }}
div {{ height: {height}px; border: 1px solid #ccc; display: flex; align-items: center; justify-content: center; overflow: hidden }}
img {{ max-width: 100%; max-height: 100%; }}</style>{figures}"""


def pictured(browser: Browser, drawings: dict[str, Drawing], path: Path, height: int) -> None:
    """Drawings side by side, each as large as fits."""
    figures = []
    for i, (name, drawing) in enumerate(drawings.items()):
        file = path.parent / f".{i}.svg"
        file.write_bytes(drawing.picture)
        figures.append(f'<figure><figcaption>{name}</figcaption><div><img src="{file.name}"></div></figure>')
    page_path = path.with_suffix(".html")
    width = 204 * len(figures) - 8
    page_path.write_text(PAGE.format(width=width, height=height, figures="".join(figures)), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": height + 24}, device_scale_factor=1)
    page = context.new_page()
    page.goto(page_path.resolve().as_uri())
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    context.close()
    for file in (page_path, *path.parent.glob(".[0-9].svg")):
        file.unlink()


def main() -> None:
    """Print the table; take pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--layers", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", help="some of the libraries")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures of docs/drawing.md")
    args = parser.parse_args()
    absent = missing(args.python) | {name: "not requested" for name in DRAWERS if args.only and name not in args.only}
    drawings: dict[int, dict[str, Drawing]] = {}
    print("| operators | | time | labels | names, 1,600 px wide | screens, names 9 px | labels not free |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        for count, name, found in rows(browser, args.layers, Setup(args.python, Path(folder)), absent):
            print(line(count, name, found), flush=True)
            if isinstance(found, Drawing) and found.picture:
                drawings.setdefault(count, {})[name] = found
        for count, by_name in drawings.items() if args.pictures else ():
            pictured(browser, by_name, args.pictures / f"peers-{count}.png", 420)
    for name, reason in absent.items():
        print(f"{name} was left out: {reason}")


if __name__ == "__main__":
    main()
