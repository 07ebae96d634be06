"""The program of the page is what its sources make: the bytes are compared where Node is there, and its own tests run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT

VIEWER, BUILT = ROOT / "viewer", ROOT / "graphad" / "viewing"
NAMES = ("viewer.js", "viewer.css", "viewer.html")


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed, so the program of the page is not built anew")
    if not (VIEWER / "node_modules").is_dir():
        pytest.skip("viewer/node_modules is missing (make viewer installs it), so the program of the page is not built anew")
    return found


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=VIEWER, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_bundle_is_what_the_sources_make(node: str, tmp_path: Path) -> None:
    run(node, "build.mjs", str(tmp_path))
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (BUILT / name).read_bytes(), (
            f"graphad/viewing/{name} is not what is built: run make viewer"
        )


def test_the_tests_of_the_viewer_pass(node: str) -> None:
    run(node, "build.mjs", "--tests")
    said = run(node, "--test", "--test-reporter=tap", "build/")
    assert int(re.findall(r"^# pass (\d+)", said, re.MULTILINE)[0]) >= 11


def test_the_sources_have_types(node: str) -> None:
    compiler = VIEWER / "node_modules" / "typescript" / "bin" / "tsc"
    run(node, str(compiler), "--noEmit")


def test_nothing_of_others_is_bundled_and_versions_are_exact() -> None:
    package = json.loads((VIEWER / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in package
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["devDependencies"].values())
    lock = (VIEWER / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
    assert "http" not in lock
    for file in (VIEWER / "src").glob("*.ts"):
        assert not re.search(r'^(import\b.*|\}) from "[^.]', file.read_text(encoding="utf-8")), (
            f"{file.name} imports a package: its license has to be listed"
        )
