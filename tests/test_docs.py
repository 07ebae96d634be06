"""The Python in README.md and docs/ runs, and the pictures there are what graphad draws."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


def run(code: str, folder: Path) -> str:
    """What the code prints, run as a program of its own in a folder."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, tmp_path: Path) -> None:
    run(block, tmp_path)


def test_first_picture_is_what_the_readme_draws(tmp_path: Path) -> None:
    first = next(b.values[0] for b in BLOCKS if "first.svg" in str(b.values[0]))
    output = run(str(first), tmp_path)
    assert "fc_0.w_0 fc_0.w_0@GRAD (13, 8)" in output
    assert (tmp_path / "first.svg").read_text() == (ROOT / "docs/images/first.svg").read_text()


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
