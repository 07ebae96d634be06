"""Settings from the environment and from graphad.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from graphad import knobs
from graphad.errors import InvalidValue
from graphad.settings import SETTINGS, Settings, changed_settings, read_settings
from tests.source_tree import ROOT


def test_what_holds_without_any_setting(tmp_path: Path) -> None:
    assert read_settings({}, tmp_path) == Settings()
    assert Settings() == Settings(True, False, str(Path(tempfile.gettempdir()) / "graphad-reproducers"), True)


def test_the_file(tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_text('verify = false\ncheck_claims = true\nreproducers = "left"\nplugins = false\n')
    assert read_settings({}, tmp_path) == Settings(False, True, "left", False)


def test_a_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_text("verify = false\n")
    assert read_settings({}, tmp_path) == Settings(verify=False)


def test_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_text('verify = false\nreproducers = "left"\n')
    environment = {"GRAPHAD_VERIFY": "1", "GRAPHAD_REPRODUCERS": "", "GRAPHAD_PLUGINS": "no", "VERIFY": "0"}
    assert read_settings(environment, tmp_path) == Settings(True, False, "", False)


@pytest.mark.parametrize(
    ("text", "expected"), [*((t, True) for t in ("1", "true", "yes", "ON", " True ")), *((t, False) for t in ("0", "False", "no", "off"))]
)
def test_truth(text: str, expected: bool, tmp_path: Path) -> None:
    assert read_settings({"GRAPHAD_CHECK_CLAIMS": text}, tmp_path).check_claims is expected


@pytest.mark.parametrize("text", ["2", "", "maybe", "None"])
def test_what_is_neither_true_nor_false(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=f"GRAPHAD_VERIFY is one of 1, true, yes, on, 0, false, no, off, not {text!r}"):
        read_settings({"GRAPHAD_VERIFY": text}, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("verfy = true", "graphad.toml: there is no setting 'verfy'; there are verify, check_claims, reproducers, plugins"),
        ("verify = 1", "graphad.toml: verify is bool, not 1"),
        ('verify = "yes"', "graphad.toml: verify is bool, not 'yes'"),
        ("reproducers = true", "graphad.toml: reproducers is str, not True"),
        ("[settings]\nverify = true", "graphad.toml: there is no setting 'settings'"),
        ("verify =", "graphad.toml: "),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_text(text)
    with pytest.raises(InvalidValue) as raised:
        read_settings({}, tmp_path)
    assert str(raised.value).startswith(message)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidValue, match=r"graphad\.toml: "):
        read_settings({}, tmp_path)


def test_settings_are_changed_within_a_block() -> None:
    before = repr(SETTINGS)
    with changed_settings(verify=False), changed_settings(verify=True, reproducers="here"):
        assert (SETTINGS.verify, SETTINGS.reproducers) == (True, "here")
        assert all(
            getattr(SETTINGS, name) == value
            for name, value in vars(Settings(True, SETTINGS.check_claims, "here", SETTINGS.plugins)).items()
        )
    assert repr(SETTINGS) == before
    with pytest.raises(TypeError, match="verfy"), changed_settings(verfy=True):
        pass


def test_every_setting_is_described() -> None:
    module = sys.modules["graphad.settings"]
    assert all(f"GRAPHAD_{name.upper()}" in (module.__doc__ or "") for name in vars(Settings()))


SHOW = "from graphad.settings import SETTINGS; print(SETTINGS)"


def shown(cwd: Path, **environment: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GRAPHAD_")}
    command = [sys.executable, "-c", SHOW]
    done = subprocess.run(
        command, cwd=cwd, env={**env, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_a_process_has_those_of_its_folder_and_its_environment(tmp_path: Path) -> None:
    (tmp_path / "graphad.toml").write_text('check_claims = true\nreproducers = "here"\n')
    assert shown(tmp_path, GRAPHAD_VERIFY="0") == "Settings(verify=False, check_claims=True, reproducers='here', plugins=True)"


def test_the_old_names_are_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match=r"use graphad\.settings\.SETTINGS"):
        assert knobs.KNOBS is SETTINGS
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = knobs.other
