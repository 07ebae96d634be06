"""Where things are defined in source text: in files and in the cells of notebooks, at the top or inside functions."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType, FrameType, FunctionType
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN: Any = object()


@dataclass(frozen=True, eq=False)
class Text:
    """A file or a cell: its lines and its syntax tree."""

    lines: Sequence[str]
    tree: ast.Module

    def of(self, node: ast.stmt) -> str:
        """The source of a statement with its decorators, as it would be written at the top of a file."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        source = textwrap.dedent("".join(self.lines[first - 1 : node.end_lineno])).rstrip()
        return source if _says(source) == _normal(node) else ast.unparse(node)


@dataclass(frozen=True, eq=False)
class Scope:
    """Where a name is looked up: functions around, the innermost last, then the module's texts.

    Attributes:
        module: the name of the module.
        texts: its file, or the cells of its notebook, the latest first.
        functions: the definitions of the functions around, with the text that they are in.
        cells: values of the names of those functions, as far as they are known.
    """

    module: str
    texts: Sequence[Text]
    functions: Sequence[Function] = ()
    text: Text | None = None
    cells: dict[str, Any] = field(default_factory=dict)

    @property
    def globals(self) -> dict[str, Any]:
        module = sys.modules.get(self.module)
        return {} if module is None else vars(module)


@dataclass(frozen=True)
class Binding:
    """What a name is bound to: its value, if it is known, and the statements that bind it."""

    value: Any
    statements: Sequence[ast.stmt]
    text: Text | None
    scope: Scope

    @property
    def is_local(self) -> bool:
        return bool(self.scope.functions)


# -- texts ---------------------------------------------------------------------------------------


def texts_of(module: str, files: Sequence[str] = ()) -> list[Text]:
    """The texts that define a module, as far as there are any: its file, some other files, and the cells of a notebook."""
    names = vars(sys.modules[module]) if module in sys.modules else {}
    cells = names.get("In")
    sources = ["".join(linecache.getlines(file, names)) for file in dict.fromkeys([*_file(names), *files])]
    sources += reversed([cell for cell in cells if isinstance(cell, str)]) if isinstance(cells, list) else []
    texts = [_parsed(source) for source in dict.fromkeys(sources) if source.strip()]
    return [text for text in texts if text is not None]


def _file(names: dict[str, Any]) -> list[str]:
    file = names.get("__file__")
    return [file] if isinstance(file, str) else []


def _parsed(source: str) -> Text | None:
    try:
        return Text(source.splitlines(keepends=True), ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def _says(source: str) -> str:
    try:
        return _normal(ast.parse(source).body[0])
    except (SyntaxError, IndexError):
        return ""


def _normal(node: ast.stmt) -> str:
    """A statement without its docstrings, whose indentation does not matter."""
    copy = ast.parse(ast.unparse(node))
    for inner in ast.walk(copy):
        if isinstance(inner, Definition) and ast.get_docstring(inner, clean=False) is not None:
            inner.body[0] = ast.Expr(ast.Constant(""))
    return ast.dump(copy)


# -- definitions ---------------------------------------------------------------------------------


def defined(value: Any) -> Binding | None:
    """The definition of a class or a function, None if its source is not known."""
    value = inspect.unwrap(value) if isinstance(value, FunctionType) else value
    codes = list(codes_of(value))
    module = value.__module__
    path = [part for part in value.__qualname__.split(".") if part != "<locals>"]
    texts = texts_of(module, [code.co_filename for code in codes])
    for text in texts:
        places = [(node, around) for node, around in _definitions(text.tree, ()) if [*(a.name for a in around), node.name] == path]
        lines = {code.co_firstlineno for code in codes}
        exact = [(node, around) for node, around in places if lines & set(_lines(node))]
        for node, around in reversed(exact or places):
            functions = [each for each in around if isinstance(each, Function)]
            scope = Scope(module, texts, functions, text, cells_of(value))
            return Binding(value, [node], text, scope)
    return None


def lambda_of(value: FunctionType) -> tuple[str, Scope] | None:
    """The source of a lambda and its scope, None if that is not known, or if there are several on one line."""
    code = value.__code__
    texts = texts_of(value.__module__, [code.co_filename])
    for text in texts:
        nodes = [node for node in ast.walk(text.tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
        if len(nodes) == 1:
            around = [node for node, _ in _definitions(text.tree, ()) if isinstance(node, Function) and nodes[0].lineno in _lines(node)]
            return ast.unparse(nodes[0]), Scope(value.__module__, texts, around, text, cells_of(value))
    return None


def _lines(node: Definition) -> range:
    return range(min([node.lineno, *(d.lineno for d in node.decorator_list)]), (node.end_lineno or node.lineno) + 1)


def _definitions(node: ast.AST, around: tuple[Definition, ...]) -> Iterator[tuple[Definition, tuple[Definition, ...]]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Definition):
            yield inner, around
            yield from _definitions(inner, (*around, inner))
        else:
            yield from _definitions(inner, around)


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The functions that a class or a function is made of, without those that dataclasses generate."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, staticmethod | classmethod):
        yield from functions_of(value.__func__)
    elif isinstance(value, cached_property):
        yield from functions_of(value.func)
    elif isinstance(value, property):
        yield from (f for each in (value.fget, value.fset) if each is not None for f in functions_of(each))
    elif isinstance(value, type):
        own = [function for each in vars(value).values() if not isinstance(each, type) for function in functions_of(each)]
        yield from (function for function in own if function.__code__.co_qualname.startswith(f"{value.__qualname__}."))


def codes_of(value: Any) -> Iterator[CodeType]:
    """The code objects of a class or a function."""
    return (function.__code__ for function in functions_of(value))


def cells_of(value: Any) -> dict[str, Any]:
    """The values that the functions of a class, or a function, keep of the functions around them."""
    cells: dict[str, Any] = {}
    for function in functions_of(value):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                cells[name] = _content(cell)
    return cells


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNKNOWN


# -- names ---------------------------------------------------------------------------------------


def free_names(source: str) -> list[str]:
    """The names that a piece of source takes from around it, in order, without those of Python itself.

    >>> free_names("def f(x, n=limit): return [g(y, n) for y in x]")
    ['limit', 'g']
    """
    names: dict[str, None] = {}
    table = symtable.symtable(source, "<source>", "exec")
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()}
    pending = [table]
    while pending:
        inner = pending.pop(0)
        for symbol in inner.get_symbols():
            if symbol.is_referenced() and (inner is table or symbol.is_global() or inner.get_type() == "class"):
                names[symbol.get_name()] = None
        pending += inner.get_children()
    return [name for name in names if name not in own and not hasattr(builtins, name)]


def bound(name: str, scope: Scope) -> Binding | None:
    """What a name stands for in a scope, None if nothing is known of it."""
    for depth in range(len(scope.functions), 0, -1):
        function = scope.functions[depth - 1]
        statements = [node for node in _statements(function.body) if name in _binds(node)]
        if statements or name in _parameters(function):
            value = scope.cells.get(name, UNKNOWN)
            value = _local(function, name) if value is UNKNOWN else value
            return Binding(value, statements, scope.text, replace(scope, functions=scope.functions[:depth]))
    outermost = Scope(scope.module, scope.texts)
    value = scope.globals.get(name, UNKNOWN)
    for text in scope.texts:
        statements = [node for node in _statements(text.tree.body) if name in _binds(node)]
        if statements:
            return Binding(value, statements, text, outermost)
    return None if value is UNKNOWN else Binding(value, [], None, outermost)


def _local(function: Function, name: str) -> Any:
    """A local of a function that is running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == function.name and frame.f_code.co_firstlineno in _lines(function):
            return frame.f_locals.get(name, UNKNOWN)
        frame = frame.f_back
    return UNKNOWN


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    more = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more)]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind names of their scope; those inside ``if``, ``with`` and the like are looked through."""
    for node in body:
        if isinstance(node, Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield node
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)


def _binds(node: ast.stmt) -> set[str]:
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [node for target in targets if target is not None for node in ast.walk(target) if isinstance(node, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}
