"""A Python program that shows what is wrong with a pass: it runs when saved to a file, wherever the pass was defined."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import itertools
import linecache
import os
import re
import site
import symtable
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property, reduce
from importlib.machinery import ModuleSpec, PathFinder
from keyword import iskeyword
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from graphad.ir import Graph
from graphad.ops.registry import REGISTRY
from graphad.rewriting import Fixpoint, Nested, Pass, Pipeline
from graphad.testing.cases import Case
from graphad.testing.mentions import code_of
from graphad.testing.trial import Subject, as_pass, inner_passes
from graphad.testing.values import array_text
from graphad.types import Array

# -- sources ---------------------------------------------------------------------------------------
# Where things are defined in source text: in files and in the cells of notebooks, at the top or inside functions.

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN: object = object()


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
    """The scopes that a name is looked up in: functions around, the innermost last, then the module's texts.

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
    cells: dict[str, object] = field(default_factory=dict)

    @property
    def globals(self) -> dict[str, Any]:
        module = sys.modules.get(self.module)
        return {} if module is None else vars(module)


@dataclass(frozen=True)
class Binding:
    """The binding of a name: its value, if it is known, and the statements that bind it."""

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
    # The last cell first: a cell that was run again defines the name again.
    sources += reversed([cell for cell in cells if isinstance(cell, str)]) if isinstance(cells, list) else []
    texts = [_parsed(source) for source in dict.fromkeys(sources) if source.strip()]
    return [text for text in texts if text is not None]


def _file(names: dict[str, object]) -> list[str]:
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
        # A name that is defined twice means the last definition, unless the line tells.
        for node, around in reversed(exact or places):
            functions = [item for item in around if isinstance(item, Function)]
            scope = Scope(module, texts, functions, text, cells_of(value))
            return Binding(value, [node], text, scope)
    return None


def lambda_of(value: FunctionType) -> tuple[str, Scope] | None:
    """The source of a lambda and its scope, None if that is not known, or if there are several on one line."""
    code = value.__code__
    texts = texts_of(value.__module__, [code.co_filename])
    for text in texts:
        nodes = [node for node in ast.walk(text.tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
        # Two lambdas on one line cannot be told apart by their code object.
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


def functions_of(value: object) -> Iterator[FunctionType]:
    """The functions that a class or a function is made of, without those that dataclasses generate."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, staticmethod | classmethod):
        yield from functions_of(value.__func__)
    elif isinstance(value, cached_property):
        yield from functions_of(value.func)
    elif isinstance(value, property):
        yield from (f for item in (value.fget, value.fset) if item is not None for f in functions_of(item))
    elif isinstance(value, type):
        functions = [function for item in vars(value).values() if not isinstance(item, type) for function in functions_of(item)]
        # What ``@dataclass`` generates, as ``__init__``, has code of another qualified name.
        yield from (function for function in functions if function.__code__.co_qualname.startswith(f"{value.__qualname__}."))


def codes_of(value: object) -> Iterator[CodeType]:
    """The code objects of a class or a function."""
    return (code_of(function) for function in functions_of(value))


def cells_of(value: object) -> dict[str, object]:
    """The values that the functions of a class, or a function, keep of the functions around them."""
    cells: dict[str, object] = {}
    for function in functions_of(value):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                cells[name] = _content(cell)
    return cells


def _content(cell: CellType) -> object:
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
    definitions = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    tables = [table]
    while tables:
        inner = tables.pop(0)
        for symbol in inner.get_symbols():
            # A class body reads names of the module without declaring them global.
            if symbol.is_referenced() and (inner is table or symbol.is_global() or inner.get_type() == "class"):
                names[symbol.get_name()] = None
        tables += inner.get_children()
    return [name for name in names if name not in definitions and not hasattr(builtins, name)]


def bound(name: str, scope: Scope) -> Binding | None:
    """Resolve a name in a scope; None if nothing is known of it."""
    # Python's own order: from the innermost function outwards, then the module.
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


def _local(function: Function, name: str) -> object:
    """A local of a function that is running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == function.name and frame.f_code.co_firstlineno in _lines(function):
            return frame.f_locals.get(name, UNKNOWN)
        frame = frame.f_back
    return UNKNOWN


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    more = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more)]


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


# -- importable ------------------------------------------------------------------------------------
# Whether another process can import what is defined here, and which folder its ``sys.path`` then needs.
#
# A module in ``sys.modules`` says little: a test runner may have put it there under a name that no import finds, and the current
# folder or a script's own may have been on the path. So the search is repeated with the folder that holds the top-level package.

MAIN = "__main__"
PACKAGE = "graphad"


def import_root(name: str) -> str | None:
    """The folder that has to be on ``sys.path`` for a module to be imported; empty if it always is, None if nothing helps.

    >>> import_root("json"), import_root("__main__")
    ('', None)
    """
    parts = name.split(".")
    if name == MAIN or name not in sys.modules or any(not part.isidentifier() or iskeyword(part) for part in parts):
        return None
    if parts[0] == PACKAGE or parts[0] in sys.stdlib_module_names:
        return ""
    location = _location(sys.modules[name])
    if location is None or _is_being_imported(sys.modules[name]):
        return None
    folder = os.path.abspath(location)
    # One folder up for each part of the name.
    for _ in parts:
        folder = os.path.dirname(folder)
    spec = _spec(parts, [folder, *sys.path])
    if spec is None or not _leads_to(spec, location):
        return None
    return "" if folder in _always_searched() else folder


def _is_being_imported(module: object) -> bool:
    """Whether the module's own statements are still running: an import of it would run them too, a check among them."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _location(module: object) -> str | None:
    """The file of a module, or the folder of a package, None for a module made at run time."""
    file: str | None = getattr(module, "__file__", None)
    if file is None:
        return next(iter(getattr(module, "__path__", ())), None)
    return os.path.dirname(file) if hasattr(module, "__path__") else file


def _spec(parts: Sequence[str], folders: Sequence[str]) -> ModuleSpec | None:
    """The module spec that a fresh search finds, part by part; modules that are already imported are ignored."""
    spec: ModuleSpec | None = None
    for part in parts:
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    return spec


def _leads_to(spec: ModuleSpec, location: str) -> bool:
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    return os.path.abspath(location) in map(os.path.abspath, places)


def _always_searched() -> set[str]:
    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return {os.path.abspath(folder) for folder in (*folders, *site.getsitepackages(), site.getusersitepackages())}


def is_importable(value: object) -> bool:
    """Whether a class or function can be imported from its module by its name, which has to lead to just this object.

    >>> is_importable(ModuleSpec), is_importable(lambda: 0)
    (True, False)
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or import_root(module) is None:
        return False
    return leads_to(module, name, value)


def leads_to(module: str, name: str, value: object) -> bool:
    """Whether a name of a module, with dots, stands for just this object."""
    try:
        return reduce(getattr, name.split("."), sys.modules[module]) is value
    except (AttributeError, KeyError):
        return False


# -- definitions -----------------------------------------------------------------------------------
# What a program of its own needs before it can use some classes and functions: imports, or else their source with all that uses.
#
# @dataclass(frozen=True)                 from dataclasses import dataclass
# class Mine(RulePass):            ⇒      from graphad.rewriting import RulePass, RuleSet, rewrite
#     rules = RuleSet(my_rule)            @rewrite
#                                         def my_rule(x): ...
# (in a notebook)                         @dataclass(frozen=True)
#                                         class Mine(RulePass): ...

FUTURE = "from __future__ import annotations"
LONGEST_LITERAL = 10_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # another one in each process


class Definitions:
    """Collects imports and source, in an order in which they run.

    Attributes:
        folders: what ``sys.path`` needs, in order; imports: import statements.
        sources: source of what cannot be imported.
        missing: what cannot be written down, by name, with the reason.
    """

    def __init__(self) -> None:
        self.folders: dict[str, None] = {}
        self.imports: dict[str, None] = {}
        self.sources: list[str] = []
        self.missing: dict[str, str] = {}
        self._names: dict[str, object] = {}
        self._is_future = False

    def header(self, *imports: str) -> list[str]:
        """The first statements of a file, with other imports, which need no folder on the path."""
        first = [*([FUTURE, ""] if self._is_future else []), *(["import sys", ""] if self.folders else [])]
        folders = ["", *(f"sys.path.insert(0, {folder!r})" for folder in self.folders), ""] if self.folders else []
        sources = [line for source in self.sources for line in ("", *source.splitlines())]
        return [*first, *imports, *folders, *self.imports, *sources]

    # -- values ----------------------------------------------------------------------------------

    def expression(self, value: object, name: str = "value") -> str:
        """An expression that makes the value again, of what is then imported or defined.

        Args:
            value: a number, text, a container, an array, a class, a function, a pass or another dataclass.
            name: what to call it where that cannot be written.
        """
        if isinstance(value, Enum):
            return f"{self.reference(type(value))}.{value.name}"
        if _is_literal(value):
            return repr(value)
        if isinstance(value, np.generic):
            return self.expression(value.item(), name)
        if isinstance(value, np.ndarray):
            return array_text(value)
        if isinstance(value, tuple | list | set | frozenset | dict):
            return self._container(value, name)
        if isinstance(value, Pass):
            return self._pass(value)
        if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
            return self._lambda(value, name)
        if isinstance(value, type | FunctionType):
            return self.reference(value)
        if is_dataclass(value):
            return self._call(value)
        return self._missing(name, f"it is {type(value).__name__} {_short(value)}")

    def _container(self, value: Any, name: str) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.expression(k, name)}: {self.expression(v, name)}" for k, v in value.items()) + "}"
        parts = [self.expression(item, name) for item in value]
        # The same text whatever the hash seed.
        parts = sorted(parts) if isinstance(value, set | frozenset) else parts
        if isinstance(value, tuple):
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        inner = f"[{', '.join(parts)}]"
        return inner if isinstance(value, list) else f"{type(value).__name__}({inner})"

    def _pass(self, pass_: Pass) -> str:
        if not isinstance(pass_, Pipeline | Fixpoint | Nested):
            return self._call(pass_)
        inner = pass_.passes if isinstance(pass_, Pipeline) else pass_.inner.passes
        parts = [self._pass(part) for part in inner]
        limit = [f"limit={pass_.limit}"] if isinstance(pass_, Fixpoint) else []
        self._import(f"from graphad.rewriting import {type(pass_).__name__}")
        return f"{type(pass_).__name__}({', '.join([*parts, *limit])})"

    def _call(self, value: object) -> str:
        kind = type(value)
        names = [f.name for f in fields(kind) if f.init] if is_dataclass(kind) else list(inspect.signature(kind).parameters)
        if not all(hasattr(value, name) for name in names):
            reference = self.reference(kind)
            return self._missing(f"made_{kind.__name__}", f"{reference}(...); it does not keep its arguments under their names")
        options = [f"{name}={self.expression(getattr(value, name), name)}" for name in names]
        return f"{self.reference(kind)}({', '.join(options)})"

    def _lambda(self, value: FunctionType, name: str) -> str:
        binding = lambda_of(value)
        if binding is None:
            return self._missing(name, "the source of the lambda is not known")
        text, scope = binding
        for free_name in free_names(text):
            self._name(free_name, scope)
        return text

    def _missing(self, name: str, reason: str) -> str:
        self.missing[name] = reason
        return name

    # -- classes and functions -------------------------------------------------------------------

    def reference(self, value: Any) -> str:
        """The name of a class or a function, which is imported where that is possible, and else defined."""
        name: str = value.__qualname__.rpartition("<locals>.")[2]
        first, _, inner = name.partition(".")
        if is_importable(value):
            alias = self._alias(first, getattr(sys.modules[value.__module__], first))
            self._import_from(value.__module__, first, alias)
            return f"{alias}.{inner}" if inner else alias
        if first not in self._names:
            self.define(value)
        elif not inner:
            self._check_same(first, value)
        return name

    def _alias(self, name: str, value: object) -> str:
        """A name for something that is imported: its own, unless that is something else already."""
        aliases = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(alias for alias in aliases if self._names.setdefault(alias, value) is value or self._names[alias] is UNKNOWN)

    def define(self, value: object) -> None:
        """Write down the source of a class or a function, and before it all that it uses."""
        name = getattr(value, "__name__", type(value).__name__)
        binding = defined(value)
        self._names[name] = value if isinstance(value, type) else UNKNOWN
        if binding is None:
            self._missing(name, f"the source of {name} is not known: it was not read from a file or a notebook")
        else:
            self._write(binding)

    def require(self, value: object, module: str) -> bool:
        """Import or write down the global of a module that is this object; whether there is one."""
        scope = Scope(module, texts_of(module))
        name = next((name for name, item in scope.globals.items() if item is value and name != "_"), None)
        if name is not None:
            self._name(name, scope)
        return name is not None

    # -- names -----------------------------------------------------------------------------------

    def _write(self, binding: Binding) -> None:
        """The statements of a binding, after what they use."""
        scope = binding.scope
        assert binding.text is not None
        sources = [binding.text.of(node) for node in binding.statements]
        self._is_future |= any(FUTURE in "".join(text.lines[:50]) for text in scope.texts)
        for source in sources:
            for name in free_names(source):
                self._name(name, scope)
        self.sources += sources

    def _name(self, name: str, scope: Scope) -> None:
        """Import or define what a name stands for in a scope."""
        binding = bound(name, scope)
        if binding is None:
            return
        value = binding.value
        if name in self._names:
            self._check_same(name, value)
            return
        # Noted before it is written, since it may refer to itself.
        self._names[name] = value
        if isinstance(value, ModuleType):
            self._import_module(value.__name__, name)
        elif _is_small(value):
            self.sources.append(f"{name} = {self.expression(value, name)}")
        elif self._imported(name, binding):
            return
        elif not binding.is_local and import_root(scope.module) is not None:
            self._import_from(scope.module, name, name)
        else:
            self._defined(name, binding)

    def _check_same(self, name: str, value: object) -> None:
        """A file has one meaning for each name; the passes of a pipeline may come from several."""
        definition = self._names[name]
        is_known = value is not UNKNOWN and definition is not UNKNOWN and value is not definition
        if is_known and not (_is_small(value) and _is_small(definition) and value == definition):
            self._missing(name, f"it is {_short(definition)} in one place and {_short(value)} in another")

    def _imported(self, name: str, binding: Binding) -> bool:
        """Whether the name comes from elsewhere, and can be imported from there."""
        for node in binding.statements:
            if isinstance(node, ast.ImportFrom):
                return self._as_imported(name, node, binding)
            if isinstance(node, ast.Import):
                self._import_module(next(alias.name for alias in node.names if name in (alias.asname, alias.name.split(".")[0])), name)
                return True
        value = binding.value
        if not binding.statements and is_importable(value):
            self._import_from(value.__module__, value.__qualname__.split(".")[0], name)
            return True
        return False

    def _as_imported(self, name: str, node: ast.ImportFrom, binding: Binding) -> bool:
        module = _absolute(node, binding.scope)
        source = next(alias.name for alias in node.names if name in (alias.asname, alias.name))
        if module == "__future__" or (module in sys.modules and import_root(module) is None):
            return False
        self._import_from(module, source, name)
        return True

    def _defined(self, name: str, binding: Binding) -> None:
        statements = [node for node in binding.statements if not isinstance(node, ast.Import | ast.ImportFrom)]
        value = binding.value
        if statements and binding.text is not None:
            # A definition takes the place of earlier ones; a statement that only changes a value needs them.
            self._write(Binding(value, statements[-1:] if _replaces(statements[-1]) else statements, binding.text, binding.scope))
        elif isinstance(value, type | FunctionType):
            text = self.reference(value)
            self.sources += [f"{name} = {text}"] if text != name else []
        elif value is not UNKNOWN and self._is_written(name, value):
            return
        else:
            self._missing(name, "its value is no longer known" if value is UNKNOWN else f"it is {type(value).__name__} {_short(value)}")

    def _is_written(self, name: str, value: object) -> bool:
        """Write down a value by what makes it again, if all of that is known."""
        before = dict(self.missing)
        text = self.expression(value, name)
        is_known = self.missing == before
        self.missing = before
        self.sources += [f"{name} = {text}"] if is_known else []
        return is_known

    # -- imports ---------------------------------------------------------------------------------

    def _import_module(self, module: str, name: str) -> None:
        root = import_root(module)
        if root is None:
            self._missing(name, f"module {module} cannot be imported by another process")
            return
        self._folder(root)
        top = module.split(".")[0]
        self._import(f"import {module}" if name in (module, top) else f"import {module} as {name}")

    def _import_from(self, module: str, source: str, name: str) -> None:
        self._names.setdefault(name, UNKNOWN)
        self._folder(import_root(module) or "")
        self._import(f"from {module} import {source}" + (f" as {name}" if name != source else ""))

    def _folder(self, root: str) -> None:
        if root:
            self.folders[root] = None

    def _import(self, text: str) -> None:
        self.imports[text] = None


def _absolute(node: ast.ImportFrom, scope: Scope) -> str:
    module = f"{'.' * node.level}{node.module or ''}"
    return importlib.util.resolve_name(module, scope.globals.get("__package__") or "") if node.level else module


def _replaces(node: ast.stmt) -> bool:
    """Whether nothing that was bound before matters."""
    return not isinstance(node, ast.AugAssign)


def _is_literal(value: object) -> bool:
    return value is None or (isinstance(value, bool | int | float | complex | str | bytes) and type(value).__module__ == "builtins")


def _is_small(value: object) -> bool:
    """Whether a value is a plain one that ``repr`` writes as Python; nan and infinities are names that are imported."""
    if isinstance(value, tuple | list | set | frozenset):
        return len(value) < LONGEST_LITERAL and type(value).__module__ == "builtins" and all(map(_is_small, value))
    if isinstance(value, dict):
        return type(value) is dict and len(value) < LONGEST_LITERAL and all(_is_small(k) and _is_small(v) for k, v in value.items())
    return _is_literal(value)


def _short(value: object) -> str:
    text = _ADDRESS.sub("", repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- snippet ---------------------------------------------------------------------------------------
# A Python program that shows what is wrong with a pass: it runs when saved to a file, wherever the pass was defined.

OWN = "graphad."
IMPORTS = (
    "from numpy import array, full, inf, nan  # noqa: F401",
    "",
    "import graphad.passes",
    "from graphad.program import Program",
    "from graphad.testing import Case, check_case, check_pass  # noqa: F401",
)


def snippet(subject: Subject, case: Case, after: Graph | None = None) -> str:
    """A Python program that tries the pass on the case: silent if nothing is wrong, else an AssertionError.

    What can be imported by another process is imported, with the folder that needs to be on its path; what was defined in a
    script, a notebook or a function is written down, with all that it uses. Where there is no source, a comment and an error
    say what has to be added.

    Args:
        subject: the pass, and what runs before it.
        case: the program and its arrays.
        after: the graph after the pass, whose operators are needed as well.
    """
    definitions = Definitions()
    _operators(definitions, case, after)
    call = _call(definitions, subject, case)
    lines = [
        *definitions.header(*IMPORTS),
        *_missing(definitions.missing),
        "",
        "case = Case(",
        f'    Program.parse("""\\\n{_escaped(str(case.program))}"""),',
        f"    loss_name={case.loss_name!r},",
        *([f"    requested={case.requested!r},"] if case.requested else []),
        *_arrays("feeds", case.feeds),
        *_arrays("params", case.params),
        ")",
        f"{call}  # lowers, runs the pass, schedules, runs both, compares",
    ]
    return "\n".join(lines) + "\n"


def _call(definitions: Definitions, subject: Subject, case: Case) -> str:
    """The call that tries the pass; a user's own condition is what check_pass takes."""
    pass_text = _pass(definitions, subject.what, case)
    passes = (("prepare", subject.prepare or None), ("reference", subject.reference))
    options = [f"{name}={_pass(definitions, item, case)}" for name, item in passes if item is not None]
    options += [] if subject.tolerance is None else [f"tolerance={subject.tolerance!r}"]
    if subject.expect is None:
        return f"check_case({', '.join([pass_text, 'case', *options])})"
    expect = definitions.expression(subject.expect, "expect")
    return f"check_pass({', '.join([pass_text, 'examples=1', 'programs=[case]', *options, f'expect={expect}'])})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _arrays(name: str, arrays: Mapping[str, Array]) -> list[str]:
    return [f"    {name}={{", *(f"        {key!r}: {array_text(array)}," for key, array in arrays.items()), "    },"] if arrays else []


def _missing(missing: Mapping[str, str]) -> Sequence[str]:
    if not missing:
        return []
    names = ", ".join(missing)
    reasons = [f"#   {name}: {reason}" for name, reason in missing.items()]
    message = f"define or import {names} here, and remove this line"
    return ["", "# Not known to graphad:", *reasons, f"raise SystemExit({message!r})"]


def _pass(definitions: Definitions, what: Pass | str, case: Case) -> str:
    """How to write a pass: as text if it was text or comes with graphad, else as what makes it."""
    if not what:  # of a reference: the program as it is
        return repr(what)
    inner = inner_passes(as_pass(what, case.loss_name))
    own_passes = [step_ for step_ in inner if not type(step_).__module__.startswith(OWN)]
    if isinstance(what, Pass):
        return definitions.expression(what) if own_passes else repr(str(what))
    for pass_ in own_passes:
        definitions.reference(type(pass_))
    return repr(what)


def _operators(definitions: Definitions, case: Case, after: Graph | None) -> None:
    """Import or define the operators that do not come with graphad."""
    types = [op.type for block in case.program.blocks for op in block.ops]
    types += [op.type for graph in after.tree() for op in graph.ops] if after is not None else []
    for name in dict.fromkeys(types):
        definition = REGISTRY.get(name)
        kernel = getattr(definition, "kernel", None)
        module = getattr(kernel, "__module__", None)
        if (
            isinstance(module, str)
            and module.split(".")[0] not in ("graphad", "numpy", "scipy")
            and not definitions.require(definition, module)
        ):
            definitions.define(kernel)
