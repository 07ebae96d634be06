"""The drawings of ``graphad draw`` and ``graphad diff --draw``: differences, and every option."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from graphad.cli import main
from tests.scratch import Swap, passes

NET = """program {
  block 0 {
    var x: float64[3]
    var a: float64[3]
    var b: float64[3]
    exp(X=x) -> (Out=a)
    sin(X=a) -> (Out=b)
  }
}
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    path = tmp_path / "net.txt"
    path.write_text(NET)
    return str(path)


def test_what_a_pipeline_did_is_drawn(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "change.svg"
    with passes(Swap):
        assert main(["draw", net, "-p", "swap{old=exp, new=tanh}", "--diff", "-o", str(target)]) == 0
    assert {"added", "removed"} <= set(re.findall(r'class="node op forward (\w+)"', target.read_text()))
    assert main(["draw", net, "--diff", "-o", str(target)]) == 1
    assert "name them with -p" in capsys.readouterr().err


def test_two_programs_are_drawn_as_one(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.txt"
    other.write_text(Path(net).read_text().replace("exp(", "tanh("))
    assert main(["diff", net, str(other), "--draw", str(tmp_path / "d.pdf")]) == 1
    assert (tmp_path / "d.pdf").read_bytes().startswith(b"%PDF")


def test_every_option_of_a_drawing_is_there(net: str, tmp_path: Path) -> None:
    arrays, target = tmp_path / "arrays.npz", tmp_path / "net.svg"
    np.savez(arrays, allow_pickle=False, a=np.ones(3))
    command = (
        "--focus a:2 --around 1 --overlay range --theme dark --title odd --no-legend --values all --attributes --highlight a --dpi 200"
    )
    assert main(["draw", net, "-o", str(target), *command.split(), "--measured", str(arrays)]) == 0
    svg = target.read_text()
    assert ">odd<" in svg
    assert "greatest magnitude: 1" in svg
    assert "forward operator" not in svg


@pytest.mark.parametrize(
    ("more", "message"), [(["--path", "a"], "two names"), (["--theme", "blue"], "invalid choice"), (["--around", "-1"], "0 or more")]
)
def test_wrong_options_of_a_drawing_are_a_wrong_command(
    more: list[str], message: str, net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["draw", net, "-o", "x.svg", *more])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
