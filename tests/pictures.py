"""The Python in README.md, docs/ and docs/examples as programs of their own, and the pictures in docs/images that they draw.

python -m tests.pictures        (or ``make pictures``) draws them anew, writes docs/rules.md,
docs/operators.md and docs/parity.md, and what blocks print into the pages
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from graphad import draw_rule
from graphad.passes.cleanup.rules import TOPICS
from graphad.rewriting import PatternRule
from graphad.rewriting.proofs import recorded
from tests import operators_page, pages, passes_page
from tests.conformance import fluid_layers, parity_page

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
BLOCKS = {name: example.code for name, example in pages.examples().items()}
DRAWN = r'"([\w-]+\.svg)"'  # the pictures that a block draws
DIGITS_RNN = ROOT / "docs/examples/digits_rnn.py"


def run(folder: Path, *arguments: str | Path) -> str:
    """Run Python in a folder, and return its output; a warning is an error."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The rules of simplify that are drawn, one a topic, in the order of TOPICS.
DRAWN_RULES = (
    "transpose2-of-transpose2",
    "concat-of-split-in-two",
    "add-zero",
    "common-factor",
    "relu-of-relu",
    "silu-written-out",
    "choose-by-not",
    "matmul-of-transposed",
)
RULES = ROOT / "docs/rules.md"
HEAD = """\
# The rules of simplify

`simplify` applies the rules marked *exact*: they keep every bit, nan and infinities included (zeros of both signs are equal), and
gradients. With `simplify{fast=true}` it applies the others as well, after which results may differ by rounding, or where something is not
finite or out of range.

Each rule, with its gradients, is *tested* on a fixed set of hard inputs; `rule.evidence` says on which a rule of yours was, `rule.tested`
for which dtypes. *Proved* are the values, for all elements of these dtypes, or for all dtypes and extents where elements are only moved: by
the solver z3, with integers as bit-vectors and floating-point numbers as IEEE 754 has them. What operators mean there,
`graphad/rewriting/smt_operators.py` and `moving.py` say, and the tests compare that with the kernels. A number refers to what is assumed
besides, listed at the end.
`rule.proved` says so too, and `graphad.rewriting.prove(rule)` proves other rules (`pip install 'graphad[proof]'`).

This page is made by `make pictures`, what it says of proofs by `make proofs`; `graphad passes simplify` lists the rules, too.
"""


def rules_page() -> str:
    """The text of docs/rules.md."""
    results = recorded()
    assumed = list(dict.fromkeys(text for result in results.values() for text in result["assumptions"]))
    parts = [part for topic, drawn in zip(TOPICS, DRAWN_RULES, strict=True) for part in _section(topic, drawn, results, assumed)]
    ends = ["## What the proofs assume\n", *(f"{i}. {text}" for i, text in enumerate(assumed, 1)), ""]
    return "\n".join([HEAD, *parts, *_open_ends(results), *ends])


def _section(topic: ModuleType, drawn: str, results: Mapping[str, Any], assumed: Sequence[str]) -> Iterator[str]:
    yield f"## {(topic.__doc__ or '').strip().splitlines()[0].rstrip('.').split(':')[0]}\n"
    rules = {claim.rule.name: claim for claim in topic.library.claims}
    yield f"![{rules[drawn].rule.name}](images/rules/{drawn}.svg)\n"
    yield "| rule | | | |\n| --- | --- | --- | --- |"
    for name, claim in rules.items():
        yield f"| {name} | `{claim.rule.text}` | {'exact' if claim.exact else 'fast'} | {_shown(results.get(name), assumed)} |"
    yield ""


def _shown(result: Any, assumed: Sequence[str]) -> str:
    """Whether a rule is proved, for which dtypes and under which assumptions, or tested alone."""
    if result is None or result["status"] != "proved":
        return "tested"
    numbers = [str(assumed.index(text) + 1) for text in result["assumptions"]]
    rest = f", others tested: {', '.join(result['open'])}" if result["open"] else ""
    return f"proved: {', '.join(result['dtypes'])}{' (' + ', '.join(numbers) + ')' if numbers else ''}{rest}"


def _open_ends(results: Mapping[str, Any]) -> Iterator[str]:
    """Why exact rules are not proved."""
    proved = sum(result["status"] == "proved" for result in results.values())
    whole = sum(result["status"] == "proved" and not result["open"] for result in results.values())
    yield "## What is not proved\n"
    yield f"Of {len(results)} exact rules {proved} are proved, {whole} of them for every dtype that they apply to:"
    yield f"{' and '.join(map(partial(_share, results), ('float32', 'int64')))}. What is open:\n"
    yield "| rule | |\n| --- | --- |"
    for name, result in results.items():
        if result["open"]:
            yield f"| {name} | {'; '.join(f'{dtype}: {reason}' for dtype, reason in result['open'].items())} |"
    yield ""


def _share(results: Mapping[str, Any], dtype: str) -> str:
    """For how many of the exact rules that apply to a dtype it is proved; a rule that only moves elements applies to all."""
    here = {"all", dtype}
    proved = sum(not here.isdisjoint(result["dtypes"]) for result in results.values())
    applying = sum(not here.isdisjoint([*result["dtypes"], *result["open"]]) for result in results.values())
    return f"for {dtype} {proved} of {applying}"


def draw_rules(folder: Path) -> None:
    """Draw one rule of each topic into a folder."""
    rules: dict[str, PatternRule] = {claim.rule.name: claim.rule for topic in TOPICS for claim in topic.library.claims}
    folder.mkdir(exist_ok=True)
    for name in DRAWN_RULES:
        draw_rule(rules[name], folder / f"{name}.svg")


def main() -> None:
    """Draw all pictures into docs/images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for code in BLOCKS.values():
            if re.search(DRAWN, code):
                run(folder, "-c", code)
        run(folder, DIGITS_RNN, "--draw", folder)
        for path in sorted(folder.glob("*.svg")):
            print(shutil.copyfile(path, IMAGES / path.name).relative_to(ROOT))
    draw_rules(IMAGES / "rules")
    RULES.write_text(rules_page(), encoding="utf-8")
    passes_page.draw_all()
    for page in (operators_page, parity_page, fluid_layers, passes_page):
        page.PAGE.write_text(page.text(), encoding="utf-8")
    print(*pages.update(), sep="\n")


if __name__ == "__main__":
    main()
