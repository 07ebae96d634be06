"""The README followed to the letter: every block and command runs in an environment that has what was installed by then, and nothing else.

The environment is this one's packages, linked into a folder of their own: graphad's dependencies, and those of the extras that the
README names before the block.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.pages import PYTHON
from tests.source_tree import ROOT

pytestmark = pytest.mark.long
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTRA = re.compile(r"pip install '(?:graphad|\.)\[([\w,]+)\]'")
COMMAND = re.compile(r"^    (graphad [\w-]+ .*?) *(?:#.*)?$", re.MULTILINE)


def extras_before(place: int) -> tuple[str, ...]:
    """The extras that the README has installed up to a place."""
    return tuple(sorted({extra for match in EXTRA.finditer(README, 0, place) for extra in match[1].split(",")}))


def blocks() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Each block of Python: its number, the extras that are installed by then, and the code."""
    for i, match in enumerate(PYTHON.finditer(README)):
        yield f"block-{i}", extras_before(match.end()), match["code"]


@cache
def closure(extras: tuple[str, ...]) -> frozenset[str]:
    """The distributions that graphad with these extras needs, and what they need."""
    pending = [*_required("graphad", extras)]
    found: set[str] = set()
    while pending:
        name, more = pending.pop()
        if name not in found:
            found.add(name)
            pending += _required(name, more)
    return frozenset(found)


def _required(name: str, extras: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        lines = _declared(extras) if name == "graphad" else distribution(name).requires or []
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed here: pip install -e '.[dev]'")
    for line in lines:
        need = Requirement(line)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            if re.sub(r"[-_.]+", "-", need.name).lower() == "graphad":
                yield from _required("graphad", need.extras)
            else:
                yield re.sub(r"[-_.]+", "-", need.name).lower(), tuple(need.extras)


def _declared(extras: Iterable[str]) -> list[str]:
    """The requirements of graphad in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Path]:
    """For each set of extras a folder with links to the packages."""
    made = {}
    for extras in {extras for _, extras, _ in blocks()}:
        folder = tmp_path_factory.mktemp("site")
        for name in closure(extras):
            for file in distribution(name).files or []:
                top = Path(file.parts[0])
                source = Path(str(distribution(name).locate_file(top)))
                if ".." not in file.parts and source.exists() and not (folder / top).exists():
                    (folder / top).symlink_to(source)
        (folder / "graphad").symlink_to(ROOT / "graphad")
        made[extras] = folder
    return made


def run(folder: Path, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python without site-packages: only the folder of links."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PYTHONPATH": str(site),
        "GRAPHAD_DOT": str(Path(sys.executable).with_name("graphviz-pure")),
    }
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("number", "extras", "code"), [*blocks()], ids=lambda each: each if isinstance(each, str) and len(each) < 12 else ""
)
def test_a_block_needs_nothing_else(
    number: str, extras: tuple[str, ...], code: str, environments: dict[tuple[str, ...], Path], tmp_path: Path
) -> None:
    done = run(tmp_path, environments[extras], "-c", code)
    assert done.returncode == 0, f"{number} with {', '.join(extras) or 'no extra'}:\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("command", COMMAND.findall(README))
def test_a_command_needs_nothing_else(command: str, environments: dict[tuple[str, ...], Path], tmp_path: Path) -> None:
    """On the file that the first block writes."""
    first = next(code for _, _, code in blocks())
    site = environments[extras_before(README.index(command))]
    assert run(tmp_path, site, "-c", first).returncode == 0
    words = re.findall(r"'[^']*'|\S+", command.replace("--examples 1000", "--examples 10"))
    done = run(tmp_path, site, "-m", "graphad", *(word.strip("'") for word in words[1:]))
    assert done.returncode == 0, f"{command}:\n{done.stderr[-3000:]}"
