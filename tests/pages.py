"""The output of the blocks in the pages: a block of Python or of commands, and the text after it.

A fenced block of ``python`` runs in a folder of its own, as with ``python -c``. A fenced block of ``text`` directly after it is what it
prints. A fenced block of ``console`` runs in a folder with ``model.txt``, the first program of the README: each line that begins with
``$`` is a command, what follows is its output, errors included. A line ``...`` stands for any lines.

python -m tests.pages        (or ``make pictures``) writes what is printed into the pages, where it is something else
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.forked import Done, Forks

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?(?P<indented>\n {4}\S)?", re.DOTALL)
# What ``import graphad`` leaves to the first use of a name: imported once for all blocks, not anew in each.
PARTS = "backward distribution drawing edit experiments fluid interop optimizer passes rewriting training viewing"
ON_FIRST_USE = tuple(f"graphad.{part}" for part in PARTS.split())
MODELS = re.compile(r'os\.environ\["(GRAPHAD\w*MODELS)"\]')  # a block that reads models which packages ship
CONSOLE = re.compile(r"```console\n(?P<session>.*?)```\n", re.DOTALL)


class Example(NamedTuple):
    """A block of Python, what the page says that it prints (None: nothing is said), and whether unchecked text follows it."""

    code: str
    shown: str | None
    unchecked: bool

    @property
    def lacks(self) -> str:
        """Why it cannot run here: models that it reads are not there; empty if it can."""
        missing = [name for name in MODELS.findall(self.code) if not os.environ.get(name)]
        return f"{missing[0]} is not set: python -m tests.interop.fetching FOLDER fetches the models, and prints it" if missing else ""


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


class Runner:
    """Runs blocks and commands, each in a process of its own; a ``with`` block ends what it needs for that."""

    def __enter__(self) -> Runner:
        with ExitStack() as stack:
            self._python = stack.enter_context(Forks("graphad", *ON_FIRST_USE, PYTHONWARNINGS="error"))
            self._commands = stack.enter_context(Forks("graphad.cli", *ON_FIRST_USE, COLUMNS="120"))
            self._said = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "said.txt"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def printed(self, code: str, folder: Path) -> str:
        """Run a block of Python in a folder, and return its output; a warning is an error."""
        done = self._python.run("-c", code, cwd=folder, said=self._said)
        assert done.returncode == 0, done.said
        return without_folder(done.said, folder)

    def command_output(self, command: str, folder: Path, status: int | None = None) -> str:
        """The output of a command on both streams; the exit status is compared where one is given."""
        _, *arguments = shlex.split(command, comments=True)
        done: Done = self._commands.run("-m", "graphad.cli", *arguments, cwd=folder, said=self._said)
        assert "Traceback" not in done.said, done.said
        assert status in (None, done.returncode), done.said
        return without_folder(done.said, folder)

    def session_as_run(self, session: str, folder: Path) -> str:
        """The session with what its commands print today."""
        (folder / "model.txt").write_text(self.first_program, encoding="utf-8")
        lines = [line for line in session.splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{self.command_output(line.removeprefix('$ '), folder)}" for line in lines)

    @cached_property
    def first_program(self) -> str:
        """The program that the first block of the README writes."""
        with tempfile.TemporaryDirectory() as name:
            self.printed(examples()["README.md-0"].code, Path(name))
            return (Path(name) / "model.txt").read_text(encoding="utf-8")


def without_folder(text: str, folder: Path) -> str:
    """The text without the path of the temporary folder, and without space at the ends of lines."""
    return re.sub(r"[ \t]+$", "", text.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", ""), flags=re.MULTILINE)


def fits(shown: str, text: str) -> bool:
    """Whether a text is what is shown, where a line ``...`` stands for any lines."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    return re.fullmatch(r"(?:.*\n)*".join(map(re.escape, parts)), text) is not None


# -- writing -------------------------------------------------------------------------------------


def update() -> Iterator[str]:
    """Write what blocks print into the pages; yield the names of those that were something else."""
    with Runner() as runner:
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            new = CONSOLE.sub(partial(_session, runner), PYTHON.sub(partial(_example, runner), text))
            if new != text:
                page.write_text(new, encoding="utf-8")
                yield page.name


def _example(runner: Runner, match: re.Match[str]) -> str:
    if match["shown"] is None or Example(match["code"], match["shown"], False).lacks:
        return match[0]
    with tempfile.TemporaryDirectory() as name:
        text = runner.printed(match["code"], Path(name))
    return match[0] if fits(match["shown"], text) else match[0].replace(f"```text\n{match['shown']}", f"```text\n{text}")


def _session(runner: Runner, match: re.Match[str]) -> str:
    with tempfile.TemporaryDirectory() as name:
        text = runner.session_as_run(match["session"], Path(name))
    return match[0] if fits(match["session"], text) else f"```console\n{text}```\n"


if __name__ == "__main__":
    for changed in update():
        print(changed)
