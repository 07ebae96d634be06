"""``graphad view``: files, errors, the feed, watching, opening."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from graphad.cli import main, view
from tests.source_tree import ROOT
from tests.viewing.programs import training


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The training program in a file; the file's folder is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("net.txt").write_text(str(training()[0]), encoding="utf-8")
    return tmp_path


def test_the_page_is_written(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "net.txt", "-p", training()[1], "-o", "page.html"]) == 0
    assert capsys.readouterr().out == "written: page.html\n"
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>net.txt</title>" in page
    assert '["net.txt",' in page, "operators know their lines in the program's text"
    assert str(net) not in page


def test_without_a_pipeline_it_is_the_program(net: Path) -> None:
    assert main(["view", "net.txt", "-o", "page.html"]) == 0
    assert Path("page.html").read_text(encoding="utf-8").count('"name":"before"') == 1


def test_a_feed_is_run(net: Path) -> None:
    np.savez("data.npz", x=np.ones((2, 6), "float32"), label=np.zeros((2, 1), "int64"))
    assert main(["view", "net.txt", "--feed", "data.npz", "-o", "page.html"]) == 0
    assert "Drawn at random" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.txt", "-o", "page.html"], "gone.txt: No such file"),
        (["bad.txt", "-o", "page.html"], "bad.txt: line 1, column 10: expected 'block'"),
        (["net.txt", "-o", "nowhere/page.html"], "there is no folder 'nowhere'"),
        (["net.txt", "-o", "page.html", "--feed", "gone.npz"], "gone.npz: No such file"),
        (["net.txt", "-o", "page.html", "--feed", "bad.txt"], "bad.txt holds no arrays"),
        (["-", "-o", "page.html", "--watch"], "--watch needs the name of a file"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], message: str, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.txt").write_text("program {", encoding="utf-8")
    assert main(["view", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not Path("page.html").exists()


def test_an_unknown_pass_is_a_wrong_command_line(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["view", "net.txt", "-p", "cze", "-o", "page.html"])
    assert stop.value.code == 2
    assert "no pass is named 'cze'; did you mean 'cse'?" in capsys.readouterr().err


def test_a_failing_pass_leaves_its_page(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "net.txt", "-p", "dead-code, accumulate-grads", "-o", "page.html"]) == 1
    assert "the page up to the failure: page.html" in capsys.readouterr().err
    assert Path("page.html").exists()


def test_open_shows_the_page(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["view", "net.txt", "-o", "page.html", "--open"]) == 0
    assert opened == [(net / "page.html").as_uri()]


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the browser of the test is a shell script, and Ctrl-C is sent as a signal")
def test_a_user_watches_a_file(net: Path) -> None:
    """The command itself: it opens the page, writes it again after each change, says what is wrong, and ends with Ctrl-C."""
    browser = net / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{net}/opened"\n')
    browser.chmod(0o755)
    command = [sys.executable, "-u", "-m", "graphad", "view", "net.txt", "-p", "cse", "-o", "my page.html", "--watch", "--open"]
    environment = {**os.environ, "BROWSER": str(browser), "PYTHONPATH": str(ROOT)}
    # What is changed while the page is still being opened counts, too.
    # A command that a script starts in the background ignores Ctrl-C, and so does all that it starts: here it is heard.
    started = partial(subprocess.Popen, preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as watching:
        assert watching.stdout is not None
        patience = threading.Timer(300, watching.kill)  # rather than to wait for a line that does not come
        patience.start()
        program = Path("net.txt").read_text(encoding="utf-8")
        assert watching.stdout.readline() == "written: my page.html\n"
        Path("net.txt").write_text(program.replace("tanh(", "sigmoid("), encoding="utf-8")
        assert watching.stdout.readline() == "written: my page.html\n"
        assert '"sigmoid"' in Path("my page.html").read_text(encoding="utf-8")
        Path("net.txt").write_text("program {", encoding="utf-8")
        assert "expected 'block'" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        rest = watching.stdout.read()
        patience.cancel()
    assert watching.returncode == 0, rest
    assert Path("opened").read_text(encoding="utf-8").strip() == (net / "my page.html").as_uri()


def test_watching_writes_again_when_a_file_changes(net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("passes.txt").write_text("cse", encoding="utf-8")
    program = Path("net.txt").read_text(encoding="utf-8")

    def ticks() -> Iterator[None]:
        yield
        Path("net.txt").write_text("program {", encoding="utf-8")
        yield
        Path("net.txt").unlink()
        yield
        Path("net.txt").write_text(program + "\n", encoding="utf-8")
        yield
        Path("passes.txt").write_text("cse, dead-code", encoding="utf-8")
        yield

    monkeypatch.setattr(view, "_ticks", ticks)
    assert main(["view", "net.txt", "-p", "@passes.txt", "-o", "page.html", "--watch"]) == 0
    out, err = capsys.readouterr()
    assert out == "written: page.html\n" * 3, "at first, after the program was mended, after the passes changed"
    assert len(re.findall("expected 'block'", err)) == 1
    assert "No such file" in err
    page = Path("page.html").read_text(encoding="utf-8")
    assert '"name":"dead-code"' in page
    assert '"watched":true' in page
