"""Imports go one way, and files and functions stay short."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from graphad.ops import REGISTRY
from tests.source_tree import ROOT, modules

# From the lowest up: a module imports from rows above its own, and from its own package.
LAYERS = (
    "contexts errors references",
    "settings showing",
    "plugins knobs places",
    "types",
    "ops",
    "program",
    "ir",
    "edit",
    "rewriting",
    "passes",
    "difference",
    "initializer",
    "readers",
    "backward drawing execution layers",
    "distribution freezing",
    "interop jax",
    "optimizer viewing",
    "training",
    "experiments",
    "nets",
    "metrics",
    "fluid",
    "testing",
    "cli",
    "__main__",
    "graph graphad",
)
ROW = {part: row for row, parts in enumerate(LAYERS) for part in parts.split()}
MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 60

MODULES = modules()
SOURCES = {*MODULES.values()}
FILES = sorted({*SOURCES, *(ROOT / "tests").rglob("*.py")})
Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, node: ast.stmt) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"


def imports(tree: ast.AST) -> Iterator[Import]:
    """The import statements of a module, wherever they stand, without those for the type checker only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.expr) and not _is_for_type_checker(node):
            yield from imports(node)


def _is_for_type_checker(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements in a tree, wherever they stand; in expressions there are none."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


def imported(node: Import) -> Iterator[str]:
    """The modules of graphad a statement imports: ``from graphad.ops import basic`` is ``graphad.ops.basic``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in MODULES)
    elif node.module in MODULES:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in MODULES else node.module


@dataclass(frozen=True)
class Facts:
    """The facts about a file that the tests ask for; its tree, of some ten thousand nodes, is not kept.

    Attributes:
        imports: (module of graphad that is imported, where).
        inner: where functions import something.
        relative: where something is imported relatively.
        functions: (where, name, lines).
    """

    imports: tuple[tuple[str, str], ...]
    inner: tuple[str, ...]
    relative: tuple[str, ...]
    functions: tuple[tuple[str, str, int], ...]


@cache
def facts(path: Path) -> Facts:
    tree = parsed(path)
    every = [*statements(tree)]
    found = [node for node in every if isinstance(node, Function)]
    return Facts(
        imports=tuple((target, place(path, node)) for node in imports(tree) for target in imported(node)),
        inner=tuple(place(path, node) for function in found for node in imports(function)),
        relative=tuple(place(path, node) for node in every if isinstance(node, ast.ImportFrom) and node.level),
        functions=tuple((place(path, f), f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for f in found),
    )


def edges() -> Iterator[tuple[str, str, str]]:
    """(module, module it imports, where)."""
    return ((name, target, where) for name, path in MODULES.items() for target, where in facts(path).imports)


def part_of(module: str) -> str:
    """The part of graphad a module belongs to: ``ops`` for ``graphad.ops.basic``, ``graphad`` for the top itself."""
    return module.split(".")[1] if "." in module else module


def may_import(module: str, target: str) -> bool:
    own, other = part_of(module), part_of(target)
    return own == other or ROW[other] < ROW[own]


def test_every_part_has_a_row() -> None:
    unknown = sorted({part_of(name) for name in MODULES} - set(ROW))
    assert not unknown, "add them to LAYERS"


def test_imports_go_one_way() -> None:
    known = [(name, target, where) for name, target, where in edges() if {part_of(name), part_of(target)} <= ROW.keys()]
    offenders = [f"{where}: {name} imports {target}" for name, target, where in known if not may_import(name, target)]
    assert not offenders, "\n".join(["imports from a later row of LAYERS:", *offenders])


def test_no_modules_import_each_other() -> None:
    graph = nx.DiGraph((name, target) for name, target, _ in edges())
    knots = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert not knots, f"import cycles: {knots}"


def test_no_import_inside_a_function() -> None:
    found = {where for path in FILES for where in facts(path).inner}
    assert not found, "\n".join(["imports inside functions:", *sorted(found)])


def test_no_relative_imports() -> None:
    """``imported`` above does not see them."""
    found = [where for path in FILES for where in facts(path).relative]
    assert not found, "\n".join(found)


def test_files_are_short() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    offenders = [f"{path.relative_to(ROOT).as_posix()}: {count} lines" for path, count in lines.items() if count > MAX_FILE_LINES]
    assert not offenders, "\n".join([f"files of more than {MAX_FILE_LINES} lines:", *offenders])


def test_a_name_of_a_file_says_where_it_is() -> None:
    names = Counter(path.name for path in MODULES.values() if path.name not in ("__init__.py", "__main__.py"))
    assert not {name: count for name, count in names.items() if count > 2}, "no basename three times"
    chapters = {path.stem for name, path in MODULES.items() if name.startswith("graphad.ops.")}
    assert not chapters & REGISTRY.keys(), "the module would be found in the place of the operator: ops.feed"


def test_functions_are_short() -> None:
    sizes = [size for path in FILES for size in facts(path).functions]
    offenders = [f"{where}: {name} has {count} lines" for where, name, count in sizes if count > MAX_FUNCTION_LINES]
    assert not offenders, "\n".join([f"functions of more than {MAX_FUNCTION_LINES} lines:", *offenders])


MOST_ANY = 8.0  # for 1,000 lines; the number only goes down


def test_types_say_something() -> None:
    """Where anything may come, ``object`` says that it is only passed on; ``Any`` turns the type checker off."""
    texts = [path.read_text(encoding="utf-8") for path in MODULES.values()]
    words, lines = sum(len(re.findall(r"\bAny\b", text)) for text in texts), sum(text.count("\n") for text in texts)
    assert 1000 * words / lines < MOST_ANY


@pytest.mark.parametrize(
    ("module", "target", "allowed"),
    [
        ("graphad.passes.backward.find_op_path", "graphad.ir.nodes", True),
        ("graphad.ir.nodes", "graphad.passes", False),
        ("graphad.ops.basic", "graphad.ops.indexing", True),
        ("graphad.layers.nn", "graphad.execution", False),
        ("graphad.cli.main", "graphad", False),
        ("graphad", "graphad.cli", True),
    ],
)
def test_the_rule_itself(module: str, target: str, allowed: bool) -> None:
    assert may_import(module, target) is allowed


def test_the_finder_itself() -> None:
    text = """
if TYPE_CHECKING:
    import graphad.cli
try:
    from graphad.ops import linalg, lookup
finally:
    import graphad.ir
"""
    found = [target for node in imports(ast.parse(text)) for target in imported(node)]
    assert found == ["graphad.ops.linalg", "graphad.ops", "graphad.ir"]
