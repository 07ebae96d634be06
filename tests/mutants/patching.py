"""One change to the source text of a function of graphad, made in the running process and undone.

The whole module is compiled with the change, and the functions whose code differs get the new code, wherever references to them are: in
tables, as methods, as closures. What ran at import, such as a module's constants, stays as it is; those are changed by ``value``.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

_Setter = Callable[[], None]


class PatchError(AssertionError):
    """A change cannot be made: the text it replaces is not there exactly once, or is not in a function."""


@dataclass(frozen=True)
class Patch:
    """One change.

    Args:
        where: ``module:function``, ``module:Class.method`` or, for a table of functions, ``module`` alone; with ``value``, ``module:NAME``.
        old: text that is in there exactly once.
        new: what replaces it.
        value: instead of the two an expression for a constant, in which ``it`` is the constant as it was; ``module:operator.trait`` is one.
    """

    where: str
    old: str = ""
    new: str = ""
    value: str = ""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the change is made.

        Raises:
            PatchError: it cannot be made.
        """
        undo = list(self._of_constant() if self.value else self._of_code())
        try:
            yield
        finally:
            for each in undo:
                each()

    def _module(self) -> ModuleType:
        return importlib.import_module(self.where.partition(":")[0])

    # -- constants -------------------------------------------------------------------------------

    def _of_constant(self) -> Iterator[_Setter]:
        module, path = self._module(), self.where.partition(":")[2].split(".")
        owner: Any = module
        for name in path[:-1]:
            owner = getattr(owner, name)
        before = getattr(owner, path[-1])
        after = eval(self.value, {**vars(module), "it": before})
        if after == before:
            raise PatchError(f"{self.where} is {before!r} already")
        owners = [owner] if owner is not module else [each for each in _modules() if vars(each).get(path[-1]) is before]
        put = setattr if isinstance(owner, ModuleType | type) else object.__setattr__  # the row of an operator is frozen
        for each in owners:
            put(each, path[-1], after)
            yield lambda each=each: put(each, path[-1], before)  # type: ignore[misc]

    # -- functions -------------------------------------------------------------------------------

    def changed_source(self) -> tuple[str, str]:
        """The module's text, and the text with the change.

        Raises:
            PatchError: the text to be replaced is not there exactly once.
        """
        module = self._module()
        source = inspect.getsource(module)
        name = self.where.partition(":")[2]
        start, end = _span(source, name) if name else (0, len(source))
        count = source.count(self.old, start, end)
        if count != 1:
            raise PatchError(f"{self.where} has {count} times {self.old!r}, not once")
        at = source.index(self.old, start, end)
        return source, source[:at] + self.new + source[at + len(self.old) :]

    def _of_code(self) -> Iterator[_Setter]:
        module = self._module()
        source, changed = self.changed_source()
        path = module.__file__ or ""
        pairs = list(_different(compile(source, path, "exec", dont_inherit=True), compile(changed, path, "exec", dont_inherit=True)))
        if not pairs:
            raise PatchError(f"{self.where}: {self.new!r} in the place of {self.old!r} changes nothing")
        codes = dict(pairs)
        count = 0
        for function in functions_by_module().get(module.__name__, ()):
            code = codes.get(function.__code__)
            if code is not None:
                before, function.__code__ = function.__code__, code
                count += 1
                yield lambda function=function, before=before: setattr(function, "__code__", before)  # type: ignore[misc]
        if not count:
            raise PatchError(f"{self.where}: no function has the code that is to change")


@cache
def functions_by_module() -> dict[str, list[FunctionType]]:
    """The functions of graphad that there are when this is called first, by their module."""
    functions: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and str(each.__module__).startswith("graphad."):
            functions.setdefault(each.__module__, []).append(each)
    return functions


def _modules() -> list[ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "graphad" and module is not None]


def _span(source: str, name: str) -> tuple[int, int]:
    """Where a function or class stands in a source text, by its qualified name."""
    lines = source.splitlines(keepends=True)
    body: list[ast.stmt] = ast.parse(source).body
    node: ast.stmt | None = None
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        node = next((each for each in body if isinstance(each, kinds) and each.name == part), None)
        if not isinstance(node, kinds):
            raise PatchError(f"there is no function {name!r}")
        body = node.body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    assert node.end_lineno is not None
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return len("".join(lines[: first - 1])), len("".join(lines[: node.end_lineno]))


def _different(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions in one code object whose code differs in the other, from the outside in.

    Raises:
        PatchError: code differs that runs at import.
    """
    inner = list(zip(_nested(old), _nested(new), strict=False))
    if len(_nested(old)) != len(_nested(new)) or _own(old) != _own(new):
        if not old.co_flags & inspect.CO_OPTIMIZED:
            raise PatchError(f"the change is in {old.co_qualname}, which runs at import: only functions can be changed")
        yield old, new
        return
    below = [pair for each in inner for pair in _different(*each)]
    if below and old.co_flags & inspect.CO_OPTIMIZED:
        yield old, new
    yield from below


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _own(code: CodeType) -> tuple[Any, ...]:
    constants = tuple((type(each), repr(each)) for each in code.co_consts if not isinstance(each, CodeType))
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants
