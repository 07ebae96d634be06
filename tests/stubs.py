"""The stubs of graphad.layers and graphad.ops, made from the registry: ``make stubs`` writes them, a test holds them current.

Layers and operators are made when they are first used, so that type checkers and editors see them only here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from inspect import Parameter, signature
from pathlib import Path

from graphad import layers, ops
from graphad.layers.recorded import form_of
from graphad.layers.signatures import EMPTY, LAST, Form, Part
from graphad.layers.variable_methods import METHODS
from tests.source_tree import ROOT

HOMES: dict[str, str] = vars(layers)["_HOMES"]
STUBS = {
    "layers": ROOT / "graphad/layers/__init__.pyi",
    "ops": ROOT / "graphad/ops/__init__.pyi",
    "methods": ROOT / "graphad/program/layer_methods.pyi",
}
_KINDS = {"int": "int", "float": "float", "bool": "bool", "str": "str"}


def _imports(source: Path, exported: Collection[str]) -> list[str]:
    """The imports of a module that it exports, each under its own name; what it imports for itself is not shown."""
    lines = []
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__" and (node.module or "").startswith("graphad"):
            names = [(each.name, each.asname or each.name) for each in node.names]
            lines += [f"from {node.module} import {name} as {shown}" for name, shown in names if shown in exported]
    return lines


def _public_class(definition: object) -> str:
    """The name of the nearest class of a definition that `graphad.ops` exports."""
    return next(cls.__name__ for cls in type(definition).__mro__ if cls.__name__ in ops.__all__)


def _type(form: Form, part: Part) -> str:
    optional = " | None" if part.default is None or part.default is not EMPTY else ""
    if part.slot is not None:
        return ("_Tensors" if part.slot.variadic else "_Tensor") + (" | None" if part.default is None else "")
    if part.attr is None:
        return "str | None" if part.name in LAST else "bool" if isinstance(part.default, bool) else "Any"
    kind = form.definition.attrs[part.attr].kind
    if part.attr in ("dtype", "out_dtype", "in_dtype"):
        return "Any"
    one, several = form.tensor_slots[part.attr]
    # A constant stands for a number: graphad.layers.values.known.
    tensor = " | Variable" if one or several or kind == "int" else ""
    return f"{_KINDS.get(kind, 'Any')}{tensor}{optional}" if _KINDS.get(kind) else "Any"


def _default(part: Part) -> str:
    return "" if part.default is EMPTY else " = ..."


def _function(form: Form) -> str:
    positional = [f"{part.name}: {_type(form, part)}{_default(part)}" for part in form.positional]
    others = [f"{part.name}: {_type(form, part)}{_default(part)}" for part in form.parts.values() if part.keyword_only]
    parameters = [*positional, *(["*", *others] if others else [])]
    returned = form.signature.return_annotation
    return f"def {form.name}({', '.join(parameters)}) -> {returned}: ..."


def _functions(form: Form) -> str:
    """The layer, and where Fluid calls attributes otherwise the one with the operator's own parameters as well."""
    own = Form(form.name, form.definition)
    if form.spec is None or not any(part.attr not in (None, name) for name, part in form.parts.items()):
        return _function(form)
    return f"@overload\n{_function(form)}\n@overload\n{_function(own)}"


def _layer_names() -> list[str]:
    return [name for name in dir(layers) if name not in layers.__all__]


def layers_stub() -> str:
    """The stub of graphad.layers."""
    forms = (form_of(name) for name in _layer_names())
    functions = [_functions(form) for form in forms if form is not None]
    head = [
        '"""Made by `make stubs`: the layers with their parameters."""',
        "",
        "from collections.abc import Sequence",
        "from typing import Any, overload",
        "",
        "from numpy.typing import NDArray",
        "",
        "from graphad.program import Variable as Variable",
        *_imports(ROOT / "graphad/layers/__init__.py", layers.__all__),
        *(f"from graphad.layers.{home} import {name} as {name}" for name, home in HOMES.items()),
        "",
        "_Tensor = Variable | NDArray[Any] | float",
        "_Tensors = Sequence[_Tensor] | Variable",
        "",
        f"__all__ = {[*layers.__all__, *_layer_names()]}",
        "",
    ]
    return "\n".join([*head, *functions, ""])


def ops_stub() -> str:
    """The stub of graphad.ops."""
    imports = _imports(ROOT / "graphad/ops/__init__.py", ops.__all__)
    named = {line.rpartition(" as ")[2] for line in imports}
    definitions = [
        f"{name}: {_public_class(definition)}" for name, definition in sorted(ops.REGISTRY.items()) if name not in named and _is_word(name)
    ]
    head = ['"""Made by `make stubs`: the operators by their types."""', "", "from types import ModuleType", "", *imports, ""]
    return "\n".join([*head, "CHAPTERS: tuple[ModuleType, ...]", f"__all__ = {ops.__all__}", "", *definitions, ""])


def methods_stub() -> str:
    """The stub of the methods of variables that are layers."""
    head = [
        '"""Made by `make stubs`: the methods of variables that are layers."""',
        "",
        "from collections.abc import Callable, Iterable, Sequence",
        "from typing import Any",
        "",
        "from numpy.typing import NDArray",
        "",
        "from graphad.program.variable import Variable",
        "",
        "_Tensor = Variable | NDArray[Any] | float",
        "_Tensors = Sequence[_Tensor] | Variable",
        "",
        "def hint_at(names: Callable[[], Iterable[str]]) -> None: ...",
        "def is_layer(name: str) -> bool: ...",
        "",
        "class LayerMethods:",
    ]
    return "\n".join([*head, *(f"    {_method(name)}" for name in METHODS), ""])


def _method(name: str) -> str:
    form = form_of(name) if name not in layers.__all__ else None
    function = _function(form) if form is not None else _written(name)
    # The first parameter is the variable itself.
    return re.sub(r"\((\w+): [^,()]+", "(self", function, count=1)


_PLAIN = {"Any", "None", "Sequence", "Variable", "bool", "float", "int", "list", "object", "str", "tuple"}


def _written(name: str) -> str:
    """A layer that is written as a function, with its annotations where they are builtin or of tensors."""
    layer = signature(getattr(layers, name))
    parameters, starred = [], False
    for each in layer.parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred = starred or each.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
        star = "*" if each.kind is Parameter.VAR_POSITIONAL else ""
        parameters.append(f"{star}{each.name}: {_plain(each.annotation)}{'' if each.default is Parameter.empty else ' = ...'}")
    return f"def {name}({', '.join(parameters)}) -> {_plain(layer.return_annotation)}: ..."


def _plain(annotation: object) -> str:
    text = str(annotation)
    return text if set(re.findall(r"\w+", text)) <= _PLAIN else "Any"


def _is_word(name: str) -> bool:
    return name.isidentifier() and name not in ("while", "with")


def texts() -> dict[str, str]:
    """The stubs by package."""
    return {"layers": layers_stub(), "ops": ops_stub(), "methods": methods_stub()}


def main() -> None:
    """Write the stubs."""
    for package, text in texts().items():
        STUBS[package].write_text(text, encoding="utf-8")
        print(STUBS[package].relative_to(ROOT))


if __name__ == "__main__":
    main()
