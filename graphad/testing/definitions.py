"""What a program of its own needs before it can use some classes and functions: imports, or else their source with all that uses.

@dataclass(frozen=True)                 from dataclasses import dataclass
class Mine(RulePass):            ⇒      from graphad.rewriting import RulePass, RuleSet, rewrite
    rules = RuleSet(my_rule)            @rewrite
                                        def my_rule(x): ...
(in a notebook)                         @dataclass(frozen=True)
                                        class Mine(RulePass): ...
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import re
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from graphad.rewriting import Fixpoint, Nested, Pass, Pipeline
from graphad.testing.array_text import array_text
from graphad.testing.importable import import_root, is_importable
from graphad.testing.sources import UNKNOWN, Binding, Scope, bound, defined, free_names, lambda_of, texts_of

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
        self._names: dict[str, Any] = {}
        self._is_future = False

    def header(self, *imports: str) -> list[str]:
        """The first statements of a file, with other imports, which need no folder on the path."""
        first = [*([FUTURE, ""] if self._is_future else []), *(["import sys", ""] if self.folders else [])]
        folders = ["", *(f"sys.path.insert(0, {folder!r})" for folder in self.folders), ""] if self.folders else []
        sources = [line for source in self.sources for line in ("", *source.splitlines())]
        return [*first, *imports, *folders, *self.imports, *sources]

    # -- values ----------------------------------------------------------------------------------

    def expression(self, value: Any, name: str = "value") -> str:
        """An expression that makes the value anew, of what is then imported or defined.

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
        parts = [self.expression(each, name) for each in value]
        parts = sorted(parts) if isinstance(value, set | frozenset) else parts
        if isinstance(value, tuple):
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        inner = f"[{', '.join(parts)}]"
        return inner if isinstance(value, list) else f"{type(value).__name__}({inner})"

    def _pass(self, each: Pass) -> str:
        if not isinstance(each, Pipeline | Fixpoint | Nested):
            return self._call(each)
        inner = each.passes if isinstance(each, Pipeline) else each.inner.passes
        parts = [self._pass(part) for part in inner]
        limit = [f"limit={each.limit}"] if isinstance(each, Fixpoint) else []
        self._import(f"from graphad.rewriting import {type(each).__name__}")
        return f"{type(each).__name__}({', '.join([*parts, *limit])})"

    def _call(self, value: Any) -> str:
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
        for used in free_names(text):
            self._name(used, scope)
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

    def _alias(self, name: str, value: Any) -> str:
        """A name for something that is imported: its own, unless that is something else already."""
        aliases = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(alias for alias in aliases if self._names.setdefault(alias, value) is value or self._names[alias] is UNKNOWN)

    def define(self, value: Any) -> None:
        """Write down the source of a class or a function, and before it all that it uses."""
        name = getattr(value, "__name__", type(value).__name__)
        binding = defined(value)
        self._names[name] = value if isinstance(value, type) else UNKNOWN
        if binding is None:
            self._missing(name, f"the source of {name} is not known: it was not read from a file or a notebook")
        else:
            self._write(binding)

    def require(self, value: Any, module: str) -> bool:
        """Import or write down the global of a module that is this object; whether there is one."""
        scope = Scope(module, texts_of(module))
        name = next((name for name, other in scope.globals.items() if other is value and name != "_"), None)
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

    def _check_same(self, name: str, value: Any) -> None:
        """A file has one meaning for each name; the passes of a pipeline may come from several."""
        known = self._names[name]
        is_known = value is not UNKNOWN and known is not UNKNOWN and value is not known
        if is_known and not (_is_small(value) and _is_small(known) and value == known):
            self._missing(name, f"it is {_short(known)} in one place and {_short(value)} in another")

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
            self._write(Binding(value, statements[-1:] if _replaces(statements[-1]) else statements, binding.text, binding.scope))
        elif isinstance(value, type | FunctionType):
            text = self.reference(value)
            self.sources += [f"{name} = {text}"] if text != name else []
        elif value is not UNKNOWN and self._is_written(name, value):
            return
        else:
            self._missing(name, "its value is no longer known" if value is UNKNOWN else f"it is {type(value).__name__} {_short(value)}")

    def _is_written(self, name: str, value: Any) -> bool:
        """Write down a value by what makes it anew, if all of that is known."""
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


def _is_literal(value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | float | complex | str | bytes) and type(value).__module__ == "builtins")


def _is_small(value: Any) -> bool:
    """Whether a value is a plain one that ``repr`` writes as Python; nan and infinities are names that are imported."""
    if isinstance(value, tuple | list | set | frozenset):
        return len(value) < LONGEST_LITERAL and type(value).__module__ == "builtins" and all(map(_is_small, value))
    if isinstance(value, dict):
        return type(value) is dict and len(value) < LONGEST_LITERAL and all(_is_small(k) and _is_small(v) for k, v in value.items())
    return _is_literal(value)


def _short(value: Any) -> str:
    text = _ADDRESS.sub("", repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
