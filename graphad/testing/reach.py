"""Which lines of a pass's own code run: while it is tried, its functions run with a probe before each statement.

    if not graph.ops:                at = hit(at, 1)
        return False        ⇒        if not graph.ops:
    work(graph)                          at = hit(at, 2)
                                         return False
                                     at = hit(at, 3)
                                     work(graph)

``sys.settrace`` would say the same, but all Python that runs under it takes some three times as long, the library's included. A
function is given the code of its own source, compiled with the probes in it, as coverage tools do that write probes (SlipCover: J.
Altmayer Pizzorno and E. Berger, ISSTA 2023); where that source is not at hand, or is another one by now, nothing is known of it.
"""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock, get_ident
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar

from graphad.rewriting import Pass
from graphad.testing.mentions import code_of, own_functions, stand_in

# Names that no source can hold.
HIT, AT = ".hit", ".at"
FILES = 64  # whose functions were compiled with probes and are kept
Arc = tuple[int, int]  # from one probe to the next one in the same call; 0 before the first


@dataclass(frozen=True)
class Unreached:
    """A line of a pass that never ran: its function, number and text."""

    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.line}: {self.text}"


class _Probed(NamedTuple):
    """The code of a function as its file has it, the same with probes, and the lines of these by their numbers."""

    plain: CodeType
    code: CodeType
    lines: dict[int, int]


@dataclass
class Reach:
    """The arcs of some passes' own code that ran.

    >>> from graphad.passes import InlineNet
    >>> reach = Reach.of([InlineNet()])
    >>> reach.unreached()[0].function
    'InlineNet.apply'
    """

    probed: dict[FunctionType, _Probed] = field(default_factory=dict)
    arcs: set[Arc] = field(default_factory=set)

    @classmethod
    def of(cls, passes: Iterable[Pass]) -> Reach:
        functions = (function for kind in dict.fromkeys(type(pass_) for pass_ in passes) for function in own_functions(kind))
        return cls({function: probed for function in functions if (probed := _probed(function)) is not None})

    @contextmanager
    def probing(self) -> Iterator[set[Arc]]:
        """Within it, arcs are noted; those that are new are in the set afterwards."""
        new, thread = set[Arc](), get_ident()
        note = new.add

        def hit(before: int, probe: int) -> int:
            if get_ident() == thread:
                note((before, probe))
            return probe

        with _one_at_a_time:
            try:
                for function, probed in self.probed.items():
                    # It stays there: another thread may be in the middle of such a function afterwards.
                    function.__globals__[HIT] = hit
                    function.__code__ = probed.code
                yield new
            finally:
                for function, probed in self.probed.items():
                    function.__code__ = probed.plain
                new -= self.arcs
                self.arcs |= new

    def unreached(self) -> list[Unreached]:
        """The lines that never ran, in order."""
        hit = {probe for _, probe in self.arcs}
        run, unrun = set[tuple[str, int]](), dict[tuple[str, int], str]()
        for function, probed in self.probed.items():
            for probe, line in probed.lines.items():
                place = probed.code.co_filename, line
                if probe in hit:
                    run.add(place)
                else:
                    unrun.setdefault(place, function.__qualname__)
        return [Unreached(unrun[place], place[1], linecache.getline(*place).strip()) for place in sorted(unrun.keys() - run)]


# -- probes --------------------------------------------------------------------------------------

_numbers = itertools.count(1)
_one_at_a_time = RLock()  # a function has one code, in all threads
_Node = TypeVar("_Node", bound=ast.AST)


def _probed(function: FunctionType) -> _Probed | None:
    """A function with probes; None where its source is not known."""
    code = code_of(function)
    probed = _probed_functions(code.co_filename, "".join(linecache.getlines(code.co_filename, function.__globals__)))
    found = probed.get((code.co_qualname, code.co_firstlineno))
    # What was imported may be another version of the file, or be compiled in another way.
    if found is None or found.plain != code or found.code.co_freevars != code.co_freevars:
        return None
    stand_in(found.code, code)
    return found._replace(plain=code)


@lru_cache(maxsize=FILES)
def _probed_functions(filename: str, source: str) -> dict[tuple[str, int], _Probed]:
    """The functions of a file by their names and first lines; empty if it is no Python."""
    try:
        tree = ast.parse(source)
        plain = compile(tree, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    writer = _Writer()
    code = compile(ast.fix_missing_locations(writer.visit(tree)), filename, "exec", dont_inherit=True)
    plain_functions, functions = _functions(plain), _functions(code)
    return {key: _Probed(plain_functions[key], functions[key], writer.lines[key[1]]) for key in plain_functions if key[1] in writer.lines}


def _functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """The functions in a code object, in those too, by their names and first lines."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    functions = {(each.co_qualname, each.co_firstlineno): each for each in inner}
    for each in inner:
        functions.update(_functions(each))
    return functions


class _Writer(ast.NodeTransformer):
    """Writes probes before the statements of functions, and into the parts of expressions that need not run.

    Attributes:
        lines: the lines of the probes in each function, those in it included, by the first line of the function and their numbers.
    """

    def __init__(self) -> None:
        self.lines: dict[int, dict[int, int]] = {}
        self._open: list[int] = []  # the first lines of the functions around
        self._is_in_class = False

    def visit(self, node: ast.AST) -> Any:
        new_node = super().visit(node)
        if not isinstance(node, ast.stmt) or not self._open or self._is_in_class or _is_docstring(node):
            return new_node
        store, load = ast.Name(AT, ast.Store()), ast.Name(AT, ast.Load())
        return [_at(node, ast.Assign([store], self._hit(node, load))), new_node]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        with self._scope(is_in_class=True):
            return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        self.lines.setdefault(first, {})
        self._open.append(first)
        with self._scope(is_in_class=False):
            self.generic_visit(node)
        self._open.pop()
        start = _at(node.body[0], ast.Assign([ast.Name(AT, ast.Store())], ast.Constant(0)))
        node.body.insert(_is_docstring(node.body[0]), start)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._noting(node, "body")

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._noting(node, "body", "orelse")

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._noting(node, "elt")

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._noting(node, "elt")

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._noting(node, "elt")

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._noting(node, "value")

    @contextmanager
    def _scope(self, is_in_class: bool) -> Iterator[None]:
        around, self._is_in_class = self._is_in_class, is_in_class
        yield
        self._is_in_class = around

    def _noting(self, node: ast.AST, *fields: str) -> ast.AST:
        """The expression, of which these parts say that they run."""
        self.generic_visit(node)
        for name in fields if self._open else ():
            part = getattr(node, name)
            both = ast.Tuple([self._hit(part, ast.Constant(0)), part], ast.Load())
            setattr(node, name, _at(part, ast.Subscript(both, ast.Constant(1), ast.Load())))
        return node

    def _hit(self, node: Any, before: ast.expr) -> ast.expr:
        """A call that notes that a node runs after another probe."""
        number = next(_numbers)
        for function in self._open:
            self.lines[function][number] = node.lineno
        return _at(node, ast.Call(ast.Name(HIT, ast.Load()), [before, ast.Constant(number)], []))


def _at(place: ast.AST, node: _Node) -> _Node:
    return ast.copy_location(node, place)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
