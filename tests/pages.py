"""What the pages say that their blocks print: a block of Python or of commands, and the text after it.

A fenced block of ``python`` runs in a folder of its own, with ``python -c``. A fenced block of ``text`` directly after it is what it
prints. A fenced block of ``console`` runs in a folder with ``model.txt``, the first program of the README: each line that begins with
``$`` is a command, what follows is its output, errors included. A line ``...`` stands for any lines.

python -m tests.pages        (or ``make pictures``) writes what is printed into the pages, where it is something else
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?(?P<indented>\n {4}\S)?", re.DOTALL)
CONSOLE = re.compile(r"```console\n(?P<session>.*?)```\n", re.DOTALL)


class Example(NamedTuple):
    """A block of Python, what the page says that it prints (None: nothing is said), and whether unchecked text follows it."""

    code: str
    shown: str | None
    unchecked: bool


def examples() -> dict[str, Example]:
    """Every block of Python, by the name of its page and its number there."""
    return {
        f"{page.name}-{i}": Example(match["code"], match["shown"], match["indented"] is not None)
        for page in PAGES
        for i, match in enumerate(PYTHON.finditer(page.read_text(encoding="utf-8")))
    }


def sessions() -> dict[str, str]:
    """Every block of commands, by the name of its page and its number there."""
    found = ((page, CONSOLE.finditer(page.read_text(encoding="utf-8"))) for page in PAGES)
    return {f"{page.name}-{i}": match["session"] for page, matches in found for i, match in enumerate(matches)}


def printed(code: str, folder: Path) -> str:
    """What a block of Python prints, run in a folder; a warning is an error."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return without_folder(done.stdout, folder)


def without_folder(text: str, folder: Path) -> str:
    """The text without the path of the temporary folder, and without space at the ends of lines."""
    return re.sub(r"[ \t]+$", "", text.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", ""), flags=re.MULTILINE)


def session_as_run(session: str, folder: Path) -> str:
    """The session with what its commands print today."""
    (folder / "model.txt").write_text(first_program(), encoding="utf-8")
    lines = [line for line in session.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{command_output(line.removeprefix('$ '), folder)}" for line in lines)


@cache
def first_program() -> str:
    """The program that the first block of the README writes."""
    with tempfile.TemporaryDirectory() as name:
        printed(examples()["README.md-0"].code, Path(name))
        return (Path(name) / "model.txt").read_text(encoding="utf-8")


def command_output(command: str, folder: Path, status: int | None = None) -> str:
    """What a command prints on both streams; the exit status is compared where one is given."""
    _, *arguments = shlex.split(command, comments=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    call = [sys.executable, "-m", "graphad.cli", *arguments]
    done = subprocess.run(call, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stdout, done.stdout
    assert status in (None, done.returncode), done.stdout
    return without_folder(done.stdout, folder)


def fits(shown: str, text: str) -> bool:
    """Whether a text is what is shown, where a line ``...`` stands for any lines."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    return re.fullmatch(r"(?:.*\n)*".join(map(re.escape, parts)), text) is not None


# -- writing -------------------------------------------------------------------------------------


def update() -> Iterator[str]:
    """Write what blocks print into the pages; yield the names of those that were something else."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = CONSOLE.sub(_session, PYTHON.sub(_example, text))
        if new != text:
            page.write_text(new, encoding="utf-8")
            yield page.name


def _example(match: re.Match[str]) -> str:
    if match["shown"] is None:
        return match[0]
    with tempfile.TemporaryDirectory() as name:
        text = printed(match["code"], Path(name))
    return match[0] if fits(match["shown"], text) else match[0].replace(f"```text\n{match['shown']}", f"```text\n{text}")


def _session(match: re.Match[str]) -> str:
    with tempfile.TemporaryDirectory() as name:
        text = session_as_run(match["session"], Path(name))
    return match[0] if fits(match["session"], text) else f"```console\n{text}```\n"


if __name__ == "__main__":
    for changed in update():
        print(changed)
