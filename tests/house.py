"""The code in figures: ``python -m tests.house [FOLDER ...]`` prints them for checkouts side by side, this one if none is named.

What each figure counts is said at its function. They describe; ``tests/test_architecture.py`` has the limits that hold.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.table import Table

from graphad.ops import REGISTRY
from tests.source_tree import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MARK = re.compile(r"# ?(-- .* -+|-+|type: ignore.*|noqa.*|pragma.*|fmt: .*|mypy: .*)$")  # a rule between sections, or a word for a tool
_NAME = re.compile(r"\w+")
_PARTICIPLES = re.compile(
    "found|given|made|kept|taken|done|seen|said|read|written|known|asked|left|moved|changed|added|removed|held|put|used|chosen|shared|wanted|"
    "needed|passed|told|drawn|built|named|called|listed|merged|joined|paired|matched|tried|settled|dropped|saved|stored|gone|each"
)


@dataclass(frozen=True)
class Source:
    """A module of graphad."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    def comments(self) -> int:
        """Lines with a comment in words, alone or after code."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT and not _MARK.match(token.string) for token in tokens)

    def single_clients(self) -> int:
        """Private functions of the module, not of its classes, that are named in it once besides where they are defined."""
        words = Counter(_NAME.findall(self.text))
        private = [node for node in self.tree.body if isinstance(node, Function) and is_private(node)]
        return sum(words[node.name] == 2 and not node.decorator_list for node in private)

    def imports(self) -> int:
        """Lines of import statements."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)

    def operators(self) -> int:
        """Texts besides docstrings that are the name of an operator, or several such names."""
        texts = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        return sum(len(words) for words in map(str.split, texts) if words and all(word in REGISTRY for word in words))

    def locals(self) -> list[str]:
        """The names that functions bind."""
        nodes = (node for function in self.functions() for node in ast.walk(function))
        return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def is_private(function: Function) -> bool:
    """Whether a name says that nothing outside calls it; special methods are called by Python."""
    return function.name.startswith("_") and not function.name.endswith("__")


def sources(root: Path) -> list[Source]:
    """The modules below ``graphad`` and ``passes`` of a checkout; the link between the two is not followed."""
    paths = [*(root / "graphad").rglob("*.py"), *(root / "passes").rglob("*.py")]
    unique = sorted({path.resolve() for path in paths})
    return [Source(path, path.read_text(encoding="utf-8")) for path in unique]


def size(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def figures(files: Sequence[Source]) -> dict[str, float]:
    """The figures by their labels in the table."""
    lines, functions = sum(file.lines for file in files), [function for file in files for function in file.functions()]
    private, sizes = [function for function in functions if is_private(function)], sorted(map(size, functions))
    top_level = [node for file in files for node in file.tree.body if isinstance(node, Function) and is_private(node)]
    names = [name for file in files for name in file.locals()]
    in_passes = [file for file in files if "passes" in file.path.parts]

    def total(count: Callable[[Source], int], among: Iterable[Source] = files) -> int:
        return sum(map(count, among))

    return {
        "files": len(files),
        "lines": lines,
        "functions": len(functions),
        "lines of a function, median": statistics.median(sizes),
        "lines of a function, 95th percentile": sizes[int(0.95 * len(sizes))],
        "private functions, %": 100 * len(private) / len(functions),
        "private functions with one client, % of those of modules": 100 * total(Source.single_clients) / len(top_level),
        "lines with comments, for 100": 100 * total(Source.comments) / lines,
        "lines of imports, %": 100 * total(Source.imports) / lines,
        "Any, for 1000 lines": 1000 * sum(len(re.findall(r"\bAny\b", file.text)) for file in files) / lines,
        "locals that are bare participles, %": 100 * sum(_PARTICIPLES.fullmatch(name) is not None for name in names) / len(names),
        "names of operators in passes": total(Source.operators, in_passes),
    }


def main(roots: Sequence[str]) -> None:
    """Print the figures of checkouts, a column each."""
    columns = [figures(sources(Path(root).resolve())) for root in roots]
    table = Table("", *(Path(root).name for root in roots), box=None)
    for name in columns[0]:
        table.add_row(name, *(f"{column[name]:,.2f}".rstrip("0").rstrip(".") for column in columns))
    Console(width=120).print(table)


def by_package(root: Path) -> None:
    """Print lines, comments, and private functions with one client, by package."""
    table = Table("package", "lines", "comments for 100", "single clients", box=None)
    groups: dict[str, list[Source]] = {}
    for file in sources(root):
        parts = file.path.relative_to(root).parts
        groups.setdefault("/".join(parts[:-1]), []).append(file)
    for package, files in sorted(groups.items()):
        lines = sum(file.lines for file in files)
        comments = 100 * sum(file.comments() for file in files) / lines
        table.add_row(package, str(lines), f"{comments:.2f}", str(sum(file.single_clients() for file in files)))
    Console(width=120).print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["--packages"]:
        by_package(ROOT)
    else:
        main(sys.argv[1:] or [str(ROOT)])
