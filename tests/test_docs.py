"""The Python in README.md and docs/ runs, and the pictures there are what graphad draws."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from graphad.ops import REGISTRY
from graphad.ops.traits import Narrow, Reduction, Speculatable, Traits
from tests import operators_page
from tests.pages import PAGES, ROOT, Runner, examples, fits, sessions
from tests.pictures import BLOCKS, DIGITS_RNN, DRAWN, IMAGES, RULES, draw_rules, rules_page, run


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as runner:
        yield runner


def check_pictures(folder: Path) -> list[str]:
    """The pictures that were drawn into a folder are those in docs/images; return their names."""
    drawn = sorted(folder.glob("*.svg"))
    for path in drawn:
        assert path.read_text() == (IMAGES / path.name).read_text(), f"docs/images/{path.name} is not what is drawn: run make pictures"
    return [path.name for path in drawn]


@pytest.mark.parametrize("name", BLOCKS)
def test_block_runs_and_prints_and_draws_what_is_shown(name: str, tmp_path: Path, runner: Runner) -> None:
    code, shown, unchecked = examples()[name]
    if examples()[name].lacks:
        pytest.skip(examples()[name].lacks)
    text = runner.printed(code, tmp_path)
    assert check_pictures(tmp_path) == sorted(re.findall(DRAWN, code))
    assert not (text and unchecked), "what a block prints stands in a fenced block of text, so that it is compared"
    assert shown is None or fits(shown, text), f"the page shows\n{shown}\nthe block prints\n{text}\n(make pictures writes it into the page)"


@pytest.mark.parametrize("name", sessions())
def test_commands_print_what_is_shown(name: str, tmp_path: Path, runner: Runner) -> None:
    session = sessions()[name]
    text = runner.session_as_run(session, tmp_path)
    assert fits(session, text), f"the page shows\n{session}\nit is\n{text}\n(make pictures writes it into the page)"


COMMAND = re.compile(r"^    (graphad (?:verify|opt|view|check|bisect|why|export) .*?) *(?:#.*)?$", re.MULTILINE)
COMMANDS = COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_run_on_its_first_program(command: str, tmp_path: Path, runner: Runner) -> None:
    if " export " in command:
        pytest.importorskip("jax", reason="the extra jax is not installed")
    (tmp_path / "model.txt").write_text(runner.first_program, encoding="utf-8")
    runner.command_output(command.replace("--examples 1000", "--examples 30"), tmp_path, status=0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fenced_blocks_are_closed_as_they_were_opened(page: Path) -> None:
    opened = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if opened:
            opened = "" if line.strip() == opened else opened
        elif fence := re.match(r" *(`{2,})[a-z]*$", line):
            opened = fence[1]
            assert len(opened) >= 3, f"{page.name}, line {number}: a fence has three backticks"
    assert not opened, f"{page.name}: a block is not closed"


def test_what_is_left_out_of_an_output_is_whole_lines() -> None:
    assert fits("a\n...\nd\n", "a\nb\nc\nd\n")
    assert fits("...\nd\n", "d\n")
    assert fits("", "")
    assert not fits("a\n...\nd\n", "a\nbd\n")
    assert not fits("a\n", "a\nb\n")
    assert not fits("a.c\n", "abc\n")


def test_digits_rnn_draws_what_is_shown(tmp_path: Path) -> None:
    run(tmp_path, DIGITS_RNN, "--draw", tmp_path)
    assert check_pictures(tmp_path) == ["digits-rnn-backward.svg", "digits-rnn.svg"]


@pytest.mark.long
def test_digits_rnn_learns_to_read_written_either_way(tmp_path: Path) -> None:
    """The two ways are the same network, so they go the same way."""
    found = re.findall(r"(\w+): cost ([\d.]+), right on ([\d.]+)% of 360", run(tmp_path, DIGITS_RNN, "--epochs", "4"))
    assert [name for name, _, _ in found] == ["while_loop", "StaticRNN"]
    assert all(float(share) > 90.0 for _, _, share in found)
    assert found[0][1:] == found[1][1:]


def test_digits_rnn_is_what_the_page_shows() -> None:
    shown = next(code for code in BLOCKS.values() if "def by_while_loop" in code)
    example = DIGITS_RNN.read_text()
    missing = [line for line in shown.splitlines() if line.startswith("    ") and "def " not in line and f"{line}\n" not in example]
    assert not missing


def test_no_picture_is_left_over() -> None:
    texts = "".join([*BLOCKS.values(), DIGITS_RNN.read_text()])
    assert not [path.name for path in IMAGES.glob("*.svg") if f'"{path.name}"' not in texts]


def test_the_page_of_rules_is_up_to_date(tmp_path: Path) -> None:
    assert RULES.read_text(encoding="utf-8") == rules_page(), "run make pictures"
    draw_rules(tmp_path)
    for path in sorted(tmp_path.glob("*.svg")):
        assert path.read_text() == (IMAGES / "rules" / path.name).read_text(), f"{path.name} is not what is drawn: run make pictures"
    assert {path.name for path in tmp_path.glob("*.svg")} == {path.name for path in (IMAGES / "rules").glob("*.svg")}


def test_the_page_of_operators_is_up_to_date() -> None:
    assert operators_page.PAGE.read_text(encoding="utf-8") == operators_page.text(), "run make pictures"


def test_the_page_of_operators_has_every_trait_and_every_word_of_one() -> None:
    labels = [label.partition("=") for label in operators_page.PROMISES]
    of_definitions = {"random", "side_effect", "partial", "written over"}
    assert {trait for trait, _, _ in labels} - of_definitions == {trait.name for trait in fields(Traits)}
    for trait, words in (("speculatable", Speculatable), ("narrow", Narrow), ("reduction", Reduction)):
        assert {word for name, _, word in labels if name == trait} == {*get_args(words)} - {""}


def test_operators_by_trait() -> None:
    def types(label: str) -> set[str]:
        return {definition.type for definition in REGISTRY.values() if operators_page.promises(definition, label)}

    assert types("reduction=extremum") == {"reduce_max", "reduce_min", "reduce_amax", "reduce_amin"}
    assert {"sgd", "adam"} <= types("state")
    # assign gives its operand, less_than another dtype.
    assert {"exp", "elementwise_add"} <= types("written over") <= types("elementwise") - {"assign", "less_than"}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_trait_is_in_the_glossary() -> None:
    """A word of our own needs an entry there."""
    section = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").split("## Traits of operators")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(trait.name for trait in fields(Traits))
