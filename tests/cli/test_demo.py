"""``graphad demo``: what it draws and writes, its page, and the commands that the page names."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from graphad.cli.demo_page import COMMANDS, DIGITS, Picture, Results, page
from graphad.cli.main import main

PASSES = ["find-op-path", "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars"]


def trained(folder: Path) -> Path:
    """The folder, with ``demo`` after a training of one epoch. Called by all: drawings say where an operator was written."""
    assert main(["demo", "-o", str(folder / "demo"), "--epochs", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("first"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_demo_draws_every_pass_and_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo"), "--epochs", "4"]) == 0
    pictures = {"00-forward.svg", "train.svg", *(f"{i:02d}-{name}.svg" for i, name in enumerate(PASSES, 1))}
    expected = {*pictures, *(f"dark/{name}" for name in pictures), "cost.svg", "train.txt", "index.html"}
    assert set(contents(tmp_path / "demo")) == expected
    output = capsys.readouterr().out
    assert all(name in output for name in PASSES)
    (share,) = re.findall(r"right on ([\d.]+)%", output)
    assert float(share) >= 95.0
    assert f"<strong>{share}%</strong>" in (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")


def test_demo_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 1
    assert "pip install 'graphad[demo]'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("epochs", ["0", "-2", "x"])
def test_a_wrong_number_of_epochs_is_said_before_anything_is_drawn(epochs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "-o", str(tmp_path / "demo"), "--epochs", epochs])
    said = capsys.readouterr().err
    assert said.startswith("graphad demo: argument --epochs: ")
    assert epochs in said
    assert not (tmp_path / "demo").exists()


def test_the_same_training_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert contents(trained(tmp_path) / "demo") == contents(folder / "demo")


def test_the_page_needs_nothing_but_its_folder(folder: Path) -> None:
    text = (folder / "demo" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src|srcset)="([^"]*)"', text)
    assert len(links) > 20
    for link in links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in text
        else:
            assert (folder / "demo" / link).is_file(), link
    assert "<script" not in text
    assert "url(" not in text


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS])
def test_what_the_page_says_to_try_works(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    program, *argv = shlex.split(command)
    assert program == "graphad"
    assert main(argv) == 0


def test_the_wrong_answers_come_first_and_pictures_show_the_ink() -> None:
    images = np.zeros((3, 1, 2, 2))
    images[2, 0, 1, 0] = 0.25  # row 1, column 0
    tested = Results(images, np.array([4, 5, 6]), np.array([4, 5, 9]), trained_on=1000, epochs=2)
    text = page([Picture("cse", "cse.svg", "Merge <equal> operators.", (3, 2), (4, 4))], tested)
    digits = re.findall(r"<li.*?</li>", text)
    assert [re.sub(r"<.*?>", "", each) for each in digits] == ["9, is 6", "4", "5"]
    assert "class=wrong" in digits[0]
    assert '<path d="M0 1h1v1h-1z" opacity="0.25"/>' in digits[0]
    assert "<path" not in digits[1]
    assert "<strong>66.7%</strong>" in text
    assert "1,000 images" in text
    assert "Merge &lt;equal&gt; operators." in text
    assert "2 (-1)" in text


def test_a_net_that_reads_nothing_right_shows_a_few() -> None:
    many = DIGITS + 5
    tested = Results(np.zeros((many, 1, 8, 8)), np.zeros(many, int), np.ones(many, int), trained_on=1, epochs=1)
    text = page([], tested)
    assert text.count("<li") == DIGITS
    assert f"{DIGITS} of the {many} that it takes" in text
