"""The page that ``graphad demo`` ends with: what was trained and how well, a picture for each pass, and what to try next.

It needs no script and no network, since the pictures lie beside it. Nothing on it is a time, so the same training gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePosixPath

import numpy as np

from graphad.types import Array

DIGITS = 24  # images shown, the wrong ones first
# Each is run by the tests, in the folder that holds ``demo``.
COMMANDS = (
    (
        "graphad view demo/train.txt -p mixed-precision -o page.html",
        "the training program in a browser, rewrite by rewrite, as a pass changes it",
    ),
    (
        "graphad opt demo/train.txt -p 'clip-gradients, decay-weights' --time -o clipped.txt",
        "two passes on it: what they add, and how long they take",
    ),
    ("graphad why conv2d_0.w_0@GRAD demo/train.txt -p clip-gradients", "which operators and passes made a gradient"),
    ("graphad draw demo/train.txt --overlay flops -o flops.svg", "where the work is: operators colored by their floating-point operations"),
    ("graphad check simplify --examples 100", "a pass of the library, tested on random programs"),
    ("graphad passes", "all passes there are"),
)
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1d2430; --soft: #5c6675; --line: #d8dde4; --pane: #f6f7f9;
  --accent: #2057b5; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171c; --text: #e3e8f0; --soft: #9aa5b5; --line: #323a47; --pane: #1c212a; --accent: #7db0ff; --bad: #ff8a80; }
  img.plot { filter: invert(0.92) hue-rotate(180deg); }
}
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; background: var(--ground); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 0.6rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p, ol, dl { max-width: 46rem; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.9em; }
.soft { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: 0.3rem 1.2rem 0.3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td:first-child { white-space: nowrap; }
img { max-width: 100%; height: auto; }
.digits { display: flex; flex-wrap: wrap; gap: 0.7rem; padding: 0; margin: 1rem 0; list-style: none; max-width: none; }
.digits li { text-align: center; font-size: 0.85rem; width: 3.6rem; }
.digits svg { display: block; width: 100%; background: var(--pane); border: 1px solid var(--line); border-radius: 4px; }
.digits .wrong { color: var(--bad); }
.digits .wrong svg { border-color: var(--bad); color: var(--text); }
dt { margin-top: 0.8rem; overflow-wrap: anywhere; }
dt code { background: var(--pane); border: 1px solid var(--line); border-radius: 4px; padding: 0.15rem 0.4rem; }
dd { margin: 0.2rem 0 0 0; color: var(--soft); }
@media (max-width: 40rem) { th, td { padding-right: 0.7rem; } table .number { display: none; } }
"""


@dataclass(frozen=True)
class Picture:
    """A drawing on the page.

    Attributes:
        name: what it shows: a pass, or a part of the way.
        file: the drawing, beside the page; one for dark screens has the same name in the folder ``dark``.
        text: a sentence about it.
        ops, values: how many of each are in the graph before and after.
    """

    name: str
    file: str
    text: str
    ops: tuple[int, int]
    values: tuple[int, int]


@dataclass(frozen=True)
class Results:
    """The answers of the trained network to images that it was not trained on.

    Attributes:
        images: ``[n, 1, height, width]``, from 0 (paper) to 1 (ink).
        labels, answers: ``[n]``, the digit that each shows, and the one that the network takes it for.
        trained_on: the number of images that it was trained on.
        epochs: how often.
    """

    images: Array
    labels: Array
    answers: Array
    trained_on: int
    epochs: int

    @property
    def share(self) -> float:
        """The share of right answers."""
        return float(np.mean(self.labels == self.answers))


def page(pictures: Sequence[Picture], tested: Results) -> str:
    """The page, as HTML."""
    body = "\n".join([*_learned(tested), *_passes(pictures), *_next()])
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>graphad demo: a network that reads digits</title>\n<style>{STYLE}</style>\n<body>\n{body}\n</body>\n</html>\n"
    )


# -- what was trained ------------------------------------------------------------------------------


def _learned(tested: Results) -> Iterator[str]:
    wrong = int(np.sum(tested.labels != tested.answers))
    yield "<h1>A network that reads digits, and its backward, pass by pass</h1>"
    yield (
        f"<p>A convolutional net was trained on {tested.trained_on:,} images of handwritten digits, {tested.epochs} times each. Of "
        f"{len(tested.labels)} others it reads <strong>{tested.share:.1%}</strong> right. Only its forward was written: "
        '<a href="#passes">five passes built the backward</a>, and a sixth the updates of its parameters. At the end of the page is '
        '<a href="#next">what to try next</a>.</p>'
    )
    shown = f"All {wrong} that it takes" if wrong <= DIGITS else f"{DIGITS} of the {wrong} that it takes"
    yield f'<p class="soft">{shown} for another digit, in red with its answer first, and some that it reads right:</p>'
    # A stable order: the wrong ones first, each kind as the images are.
    order = np.argsort(tested.labels == tested.answers, kind="stable")[:DIGITS]
    yield f'<ol class="digits">{"".join(_digit(tested.images[i, 0], int(tested.labels[i]), int(tested.answers[i])) for i in order)}</ol>'
    yield '<p><img class="plot" src="cost.svg" alt="The cost and the share of right answers at each step of the training"></p>'
    yield '<p class="soft">The cost and the share of right answers in each minibatch, step by step.</p>'


def _digit(image: Array, label: int, answer: int) -> str:
    """One image as SVG, with what the network takes it for."""
    height, width = image.shape
    pixels = "".join(
        f'<path d="M{x} {y}h1v1h-1z" opacity="{image[y, x]:.2f}"/>' for y in range(height) for x in range(width) if image[y, x] >= 0.005
    )
    text = f"{answer}" if label == answer else f"{answer}, is {label}"
    return (
        f'<li{"" if label == answer else " class=wrong"}><svg viewBox="0 0 {width} {height}" fill="currentColor" role="img" '
        f'aria-label="a handwritten {label}">{pixels}</svg>{text}</li>'
    )


# -- the passes ------------------------------------------------------------------------------------


def _passes(pictures: Sequence[Picture]) -> Iterator[str]:
    yield '<h2 id="passes">From the forward to the training program</h2>'
    yield (
        "<p>In the pictures boxes are operators, and ellipses values; parameters are green, with two rings or inside the operators that "
        "read them. The forward is blue, the backward orange, the updates violet. What a pass made is outlined.</p>"
    )
    rows = "".join(
        f'<tr><td><a href="#{picture.name}">{escape(picture.name)}</a></td><td>{escape(picture.text)}</td>'
        f'<td class="number">{change(*picture.ops)}</td><td class="number">{change(*picture.values)}</td></tr>\n'
        for picture in pictures
    )
    head = '<tr><th>picture</th><th>what it shows</th><th class="number">operators</th><th class="number">values</th></tr>'
    yield f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>'
    for picture in pictures:
        yield from _section(picture)


def _section(picture: Picture) -> Iterator[str]:
    dark = PurePosixPath("dark", picture.file)
    yield f'<h2 id="{picture.name}">{escape(picture.name)}</h2>'
    yield (
        f'<p>{escape(picture.text)} <span class="soft">{picture.ops[1]} operators, {picture.values[1]} values.</span> '
        f'<a href="{picture.file}">Open it alone</a> (<a href="{dark}">dark</a>): there each box says more under the mouse.</p>'
    )
    yield (
        f'<picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{picture.file}" alt="{escape(picture.name)}: a graph of {picture.ops[1]} operators"></picture>'
    )


def change(before: int, after: int) -> str:
    """A number after a pass, and by how much it differs from the one before."""
    return f"{after}" if before == after else f"{after} ({after - before:+d})"


# -- what to try next ------------------------------------------------------------------------------


def _next() -> Iterator[str]:
    yield '<h2 id="next">What to try next</h2>'
    yield (
        "<p><code>demo/train.txt</code> is the training program as text. In the folder that holds <code>demo</code>, these commands look "
        "at it and change it:</p>"
    )
    yield f"<dl>{''.join(f'<dt><code>{escape(command)}</code></dt><dd>{escape(text)}</dd>' for command, text in COMMANDS)}</dl>"
    page = "<code>docs/write-a-pass.md</code> of the sources"
    yield f"<p>The documentation's page on writing a pass, {page}, goes from the idea of a pass to a tested one in 15 lines.</p>"
