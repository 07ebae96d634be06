"""Golden texts: a program, and the graph after each of some pipelines run on it, one case a file.

    # what it shows
    program { ... }                             the program
    ---- find-op-path{...}, create-grad-ops     a pipeline, run on its graph,
    graph (...) { ... }                         and the graph after it
    ---- prune-no-grad                          the next one, run on the same graph
    ...
    (as before)                                 which changed nothing that the text shows
    ---- schedule                               (no pass:) the graph as a program again

``pytest --update-golden`` writes the graphs anew; read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import graphad as ga
from graphad.testing.trial import inner_passes

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.txt"))
MARK, SCHEDULE, SAME = "---- ", "schedule", "(as before)\n"


class Case(NamedTuple):
    """The content of a golden file: its title, the program, and (pipeline, text after it) pairs."""

    title: str
    program: str
    steps: list[tuple[str, str]]


def read(path: Path) -> Case:
    start, *steps = ("\n" + path.read_text(encoding="utf-8")).split("\n" + MARK)
    lines = start.lstrip("\n").splitlines(keepends=True)
    count = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    pairs = [step.partition("\n")[::2] for step in steps]
    return Case("".join(lines[:count]), "".join(lines[count:]).rstrip("\n") + "\n", [(p, text.rstrip("\n") + "\n") for p, text in pairs])


def written(case: Case) -> str:
    return case.title + case.program + "".join(f"{MARK}{pipeline}\n{text}" for pipeline, text in case.steps)


def pipelines(case: Case) -> list[str]:
    return [pipeline for pipeline, _ in case.steps if pipeline != SCHEDULE]


def run(case: Case) -> Case:
    """The case with the texts that its pipelines give now."""
    graph = ga.lower(ga.Program.parse(case.program))
    steps = []
    for pipeline, _ in case.steps:
        if pipeline == SCHEDULE:
            steps.append((pipeline, str(ga.schedule(graph))))
            continue
        before = str(graph)
        ga.Pipeline.parse(pipeline).run(graph)
        steps.append((pipeline, SAME if str(graph) == before else str(graph)))
    return case._replace(steps=steps)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    case = read(path)
    got = run(case)
    if request.config.getoption("--update-golden"):
        path.write_text(written(got), encoding="utf-8")
        return
    for (pipeline, text), (_, expected) in zip(got.steps, case.steps, strict=True):
        assert text == expected, f"after {pipeline} (if this is right now: pytest --update-golden)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_is_in_order(path: Path) -> None:
    case = read(path)
    assert case.title.startswith("# ")
    assert str(ga.Program.parse(case.program)) == case.program
    for pipeline in pipelines(case):
        assert str(ga.Pipeline.parse(pipeline)) == pipeline
    assert written(case) == path.read_text(encoding="utf-8")


def test_every_pass_has_a_case() -> None:
    used = {each.name for path in FILES for p in pipelines(read(path)) for each in inner_passes(ga.Pipeline.parse(p))}
    assert used == {name for name, kind in ga.rewriting.PASSES.items() if kind.__module__.startswith("graphad.passes.")}
