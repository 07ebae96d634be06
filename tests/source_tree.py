"""Where the modules of graphad lie: ``graphad/`` as it is, and ``passes/`` as ``graphad.passes``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = {"graphad": ROOT / "graphad", "graphad.passes": ROOT / "passes"}


def installed_files() -> dict[str, Path]:
    """The files of the packages, by their path in an installation; the link ``graphad/passes`` is not followed."""
    found: dict[str, Path] = {}
    for package, tree in TREES.items():
        base = package.replace(".", "/")
        found.update({f"{base}/{path.relative_to(tree).as_posix()}": path for path in _files(tree)})
    return dict(sorted(found.items()))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name != "__pycache__":
            yield from _files(path)
        elif path.is_file():
            yield path


def modules() -> dict[str, Path]:
    """The modules by dotted name; a package stands for its ``__init__``."""
    found = {tuple(name.removesuffix(".py").split("/")): path for name, path in installed_files().items() if name.endswith(".py")}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path for p, path in found.items()}


def packages() -> set[str]:
    """The dotted names of the folders that hold modules."""
    return {".".join(name.split("/")[:-1]) for name in installed_files() if name.endswith(".py")}
