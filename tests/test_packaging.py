"""The distribution built from the sources can be installed elsewhere, and has every module and every pass in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad
from tests.source_tree import ROOT, installed_files, modules, packages

ABOUT = ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md")
SOURCES = ("graphad", "passes", "tests", "MANIFEST.in", "pyproject.toml", *ABOUT)
BUILD_SDIST = "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"
IMPORT_ALL = """
import importlib, sys
import graphad
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    print(name, module.__file__)
"""
LIST_PASSES = "import graphad; from graphad.rewriting import PASSES; print(*sorted(PASSES))"


@dataclass(frozen=True)
class Built:
    """The source archive, the wheel, and the Python of an environment that has the wheel and nothing else of graphad."""

    sdist: Path
    wheel: Path
    python: Path


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COVERAGE_PROCESS_START")}
    done = subprocess.run(command, cwd=cwd, env=clean, text=True, capture_output=True, timeout=300, check=False)
    assert not check or done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Sources without the link -> sdist -> wheel -> environment: the way over a package index."""
    assert int(version("setuptools").split(".")[0]) >= 77, "the tests build without the network: install the extra dev, as `make test` does"
    folder = tmp_path_factory.mktemp("packaging")
    sdist = build_sdist(copied_sources(folder / "checkout"), folder)
    wheel = build_wheel(sdist, folder / "wheels")
    return Built(sdist, wheel, installed(wheel, folder / "environment"))


def copied_sources(target: Path) -> Path:
    target.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(source, target / name)
    (target / "graphad" / "passes").unlink()
    return target


def build_sdist(sources: Path, target: Path) -> Path:
    done = run(sys.executable, "-c", BUILD_SDIST, target, cwd=sources)
    return target / done.stdout.splitlines()[-1]


def build_wheel(sdist: Path, target: Path) -> Path:
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", target, sdist, cwd=target.parent)
    (wheel,) = target.iterdir()
    return wheel


def installed(wheel: Path, target: Path) -> Path:
    """The Python of a new environment with the wheel; what graphad depends on is taken from where the tests run."""
    venv.create(target, symlinks=True)
    python = target / "bin" / "python"
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(np.__file__).parents[1]}\n", encoding="utf-8")
    return python


def test_the_packages_list_is_complete() -> None:
    listed = project()["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(packages()), "mend [tool.setuptools] packages in pyproject.toml"


def test_the_link_is_there() -> None:
    link = ROOT / "graphad" / "passes"
    assert link.is_symlink()
    assert link.readlink() == Path("../passes")


@pytest.mark.long
def test_the_sdist_holds_every_file(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = {path.relative_to(ROOT).as_posix() for path in installed_files().values()}
    assert not wanted - held, "not in the source archive: see package-data in pyproject.toml"
    assert {"pyproject.toml", *ABOUT} <= held
    # setuptools takes tests/test_*.py by itself, which cannot run without the rest of tests.
    assert not [name for name in held if name.startswith("tests")]


@pytest.mark.long
def test_the_wheel_holds_every_file_and_no_other(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == set(installed_files()), "see packages and package-data in pyproject.toml"


@pytest.mark.long
def test_every_module_imports_from_the_wheel(built: Built) -> None:
    names = [name for name in modules() if not name.endswith("__main__")]
    lines = run(built.python, "-I", "-W", "error", "-c", IMPORT_ALL, *names, cwd=built.wheel.parent).stdout.splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == names
    strangers = [line for line in lines if not line.split(" ", 1)[1].startswith(str(built.python.parents[1]))]
    assert not strangers, "imported from elsewhere"


@pytest.mark.long
def test_every_pass_is_in_the_wheel(built: Built) -> None:
    here = run(sys.executable, "-c", LIST_PASSES, cwd=ROOT).stdout
    there = run(built.python, "-I", "-c", LIST_PASSES, cwd=built.wheel.parent).stdout
    assert there == here
    assert "create-grad-ops" in here.split()


@pytest.mark.long
def test_the_command_starts(built: Built) -> None:
    assert "usage" in run(built.python.parent / "graphad", "--help", cwd=built.wheel.parent).stdout.lower()


@pytest.mark.long
def test_a_checkout_without_symbolic_links_works(tmp_path: Path) -> None:
    """Windows checks the link out as a file that holds its target."""
    sources = copied_sources(tmp_path / "checkout")
    (sources / "graphad" / "passes").write_text("../passes", encoding="utf-8")
    statement = "import graphad; from graphad.passes import Cse; print(Cse().name, graphad.Pipeline.parse('simplify'))"
    done = run(sys.executable, "-W", "error", "-c", statement, cwd=sources)
    assert done.stdout == "cse simplify\n"


@pytest.mark.long
def test_what_is_built_passes_the_check_of_the_index(built: Built) -> None:
    pytest.importorskip("twine", reason="twine, which checks what is uploaded, is not installed")
    done = run(sys.executable, "-m", "twine", "check", "--strict", built.sdist, built.wheel, cwd=built.wheel.parent)
    assert done.stdout.count("PASSED") == 2, done.stdout


def test_the_readme_lists_every_extra_for_users() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = {name for line in readme.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    extras = set(project()["project"]["optional-dependencies"])
    assert extras - {"dev", "distributed-tests", "models", "onnx-tests"} <= listed


def test_the_citation_names_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {graphad.__version__}\n" in cited


@pytest.mark.parametrize("statement", ["import passes", "import passes.backward", "from passes import CreateGradOps"])
def test_passes_has_one_import_name(statement: str) -> None:
    done = run(sys.executable, "-c", statement, cwd=ROOT, check=False)
    assert done.returncode != 0
    assert "ImportError: import this package as graphad.passes" in done.stderr
