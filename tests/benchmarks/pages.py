"""Pages of ``graphad view``: the time to write one, its size, the time to open it, and the time of a zoom step, in Chromium.

``python -m tests.benchmarks.pages`` prints a table. Times in the browser are from an event to the end of the next frame, each the least of
five rounds; beside them the processor time that a zoom step takes in the page's thread, the least of two rounds, which depends less on what
else the machine does.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import graphad as ga
from graphad import layers
from tests.viewing.browser import Window, launched
from tests.viewing.programs import repeated

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROUNDS = 5
ZOOM = """async () => {
    const canvas = document.querySelector("svg.canvas"), steps = [120, 120, 120, 120, 120, 120, -120, -120, -120, -120, -120, -120];
    const best = steps.map(() => Infinity);
    for (let round = 0; round < 5; round++)
        for (const [i, deltaY] of steps.entries()) {
            const start = performance.now();
            canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: 600, clientY: 400, bubbles: true, cancelable: true }));
            await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
            best[i] = Math.min(best[i], performance.now() - start);
        }
    return best.sort((a, b) => a - b);
}"""
STEP = """async (deltaY) => {
    const event = new WheelEvent("wheel", { deltaY, clientX: 600, clientY: 400, bubbles: true, cancelable: true });
    document.querySelector("svg.canvas").dispatchEvent(event);
    await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
}"""
STEPS = [120] * 8 + [-120] * 12 + [120] * 4  # out, far in, and back
NEXT = """async () => {
    let best = Infinity;
    for (let round = 0; round < 5; round++) {
        const start = performance.now();
        dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
        best = Math.min(best, performance.now() - start);
        dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
    }
    return best;
}"""


def irregular(count: int) -> tuple[ga.Program, str]:
    """A network in which nothing repeats, and its backward."""
    rng, program = random.Random(1), ga.Program()
    one = (layers.relu, layers.tanh, layers.sigmoid, layers.exp, layers.square, layers.softplus)
    two = (layers.elementwise_add, layers.elementwise_mul, layers.elementwise_max)
    with ga.program_guard(program, ga.Program()):
        values = [layers.data("x", [64], stop_gradient=False)]
        recent: Callable[[float], ga.Variable] = lambda rate: values[-1 - min(len(values) - 1, int(rng.expovariate(rate)))]  # noqa: E731
        while len(program.global_block().ops) < count:
            values.append(rng.choice(one)(recent(0.3)) if rng.random() < 0.6 else rng.choice(two)(recent(0.3), recent(0.1)))
        cost = layers.mean(values[-1])
    return program, str(ga.backward_pipeline((cost.name,)))


def subjects() -> Iterator[tuple[str, ga.Program, str]]:
    """Names, programs and pipelines of five passes."""
    for blocks in (28, 286, 1429):
        program, pipeline = repeated(blocks)
        yield f"{len(program.global_block().ops)} operators, layers repeated", program, pipeline
    program, pipeline = irregular(2000)
    yield "2000 operators, nothing repeated", program, pipeline


def in_browser(browser: Browser, path: Path) -> tuple[float, list[float], float, list[float]]:
    """Milliseconds until the page is drawn, of zoom steps in order, to the third pass, and the processor time of zoom steps."""
    opened = []
    for _ in range(ROUNDS):
        window = Window(browser)
        start = time.perf_counter()
        page = window.open(path)
        page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)))")
        opened.append((time.perf_counter() - start) * 1e3)
        window.close()
    window = Window(browser)
    page = window.open(path)
    page.keyboard.press("ArrowRight")
    passing, zooming = page.evaluate(NEXT), page.evaluate(ZOOM)
    work = zoom_work(window)
    window.close()
    return min(opened), zooming, passing, work


def zoom_work(window: Window) -> list[float]:
    """Milliseconds of processor time of zoom steps in order, in the thread of the page, which draws it too."""
    page = window.page
    session = window.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        return next(float(m["value"]) * 1e3 for m in session.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

    rounds = []
    for _ in range(2):
        marks = [spent()]
        for step in STEPS:
            page.evaluate(STEP, step)
            marks.append(spent())
        rounds.append([b - a for a, b in pairwise(marks)])
    return sorted(map(min, zip(*rounds, strict=True)))


def run() -> None:
    """Print the table."""
    head = f"{'program':40} {'write s':>8} {'MB':>6} {'open ms':>8} {'zoom ms, median':>16} {'worst':>6} {'next pass ms':>13}"
    print(f"{head} {'zoom cpu ms, median':>20} {'worst':>6}")
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        for name, program, pipeline in subjects():
            start = time.process_time()
            path = ga.view(program, pipeline, Path(folder) / "page.html").path
            seconds = time.process_time() - start
            assert path is not None
            opened, zooming, passing, work = in_browser(browser, path)
            size = path.stat().st_size / 1e6
            print(
                f"{name:40} {seconds:8.2f} {size:6.2f} {opened:8.0f} {zooming[len(zooming) // 2]:16.0f} {zooming[-1]:6.0f} {passing:13.0f}"
                f" {work[len(work) // 2]:20.0f} {work[-1]:6.0f}"
            )


if __name__ == "__main__":
    run()
