"""The own code of a pass, and the names of operators, attributes and slots that this code mentions.

The own code of a pass are the methods of its class and the functions of the same file that those call, found through the names
they use.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from graphad.ir.regions import BranchLike, CallLike, LoopLike, RegionOp, types_of
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.plugins import ensure_plugins
from graphad.rewriting import Pass, Rule
from graphad.testing.calls import Constants, Interest, attribute_words

TOLD_APART = 16  # so many operators at most that have the same text in a field of their definitions
COMMON_WORDS = {"partial", "random"}  # fields of definitions that are names of modules and functions as well
# Names by which code speaks of operators with blocks, or of edges around them; of one kind: ``INTERFACES``.
OF_BLOCKS = {"is_loop", "carried_count", "controls", "BACK", "BYPASS"}
OF_MARKS = {"stop_gradient", "error_clip", "gradient_marks"}  # by which it speaks of what stops or clips gradients
SPEAKS_OF_GRADIENTS = {"backward", "@GRAD", "grad_of"}  # words and names by which code does so without naming an operator
INTERFACES: dict[str, type[RegionOp]] = {
    **dict.fromkeys(("LoopLike", "is_forward_loop", "loops", "peel", "unroll", "split_loop", "run_once"), LoopLike),
    **dict.fromkeys(("BranchLike", "add_branch"), BranchLike),
    **dict.fromkeys(("CallLike", "split_call"), CallLike),
}
USUAL = (0, 1, -1, 2)  # integers that code has for other reasons than to compare something with them; of floats only 1.0
MOST = 2  # a pass that mentions more than one in so many operators is about none in particular
LARGEST_CONSTANT, MOST_CONSTANTS = 64.0, 8  # of the numbers in a pass's code, those up to this size, and so many


# The code of functions as it was written, by the id of what stands in for it while ``check_pass`` looks on; both, so that ids stay theirs.
_as_written: dict[int, tuple[CodeType, CodeType]] = {}


def stand_in(code: CodeType, written: CodeType) -> None:
    """Let a code stand in for another one, at times: ``code_of`` a function that has it is the other one."""
    _as_written[id(code)] = code, written


def code_of(function: FunctionType) -> CodeType:
    """The code of a function as it was written, although another thread may be trying a pass with it."""
    code = function.__code__
    return _as_written.get(id(code), (code, code))[1]


def own_functions(kind: type) -> list[FunctionType]:
    """The methods that a class and its bases outside graphad's framework define, and the functions of their files they use."""
    # The framework's own lines run for every pass: only the author's say what is not reached.
    bases = [base for base in kind.__mro__ if base not in (*Pass.__mro__, *Rule.__mro__)]
    stack = [f for base in bases for value in vars(base).values() if (f := _function(value)) is not None and _is_in_file_of(f, base)]
    functions: dict[FunctionType, None] = {}
    while stack:
        function = stack.pop()
        if function not in functions and not function.__name__.startswith("__"):
            functions[function] = None
            stack += _mentioned(function)
    return sorted(functions, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))


def _function(value: object) -> FunctionType | None:
    # The function in a property, in a cached property or partial, in a class method or static method.
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _is_in_file_of(function: FunctionType, kind: type) -> bool:
    """Whether a method was written by hand; what dataclasses make has another file name."""
    return not function.__code__.co_filename.startswith("<string>") and function.__module__ == kind.__module__


def _mentioned(function: FunctionType) -> Iterator[FunctionType]:
    """The functions, and methods of classes, of the same file that a function's code mentions."""
    names = {name for code in _codes(code_of(function)) for name in code.co_names}
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    values += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    for value in values:
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            inner = _function(member)
            if inner is not None and inner.__code__.co_filename == function.__code__.co_filename:
                yield inner


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def interest_of(passes: Iterable[Pass], rules: Iterable[Rule] = ()) -> Interest:
    """The operators, attributes, slots and numbers that the code of some passes and rules mentions, in its constants and its module's.

    Code also speaks of operators by a field of their definitions: ``row.narrow == "gains"`` mentions all that gain by narrow types,
    ``definition.of_shape`` the few that have this trait. A pass that names no operator, or has a table of nearly all, is about all of them,
    whichever traits it asks for.
    And whether it looks at loops and branches: at operators' graphs, or the blocks that they are written in. Code that mentions a gradient
    operator is about the operator that this is the gradient of, in programs that have been differentiated.
    """
    ensure_plugins()
    rules = list(rules)
    words: dict[str, None] = dict.fromkeys(op_type for rule in rules for op_type in sorted(rule.types or ()))
    names, fields, traits = set[str](), _types_by_field(len(REGISTRY)), _types_by_trait(len(REGISTRY))
    numbers = dict.fromkeys(number for pass_ in passes for number in _numbers(_options(pass_)))
    for owner in (*passes, *rules):
        for function in own_functions(type(owner)):
            # What a pass looks at is read off its code: names of operators and attributes, numbers it compares with.
            for code in _codes(code_of(function)):
                mentions = [*code.co_consts, *_named_by(owner, function, code)]
                names.update(code.co_names)
                words.update(dict.fromkeys([*_words(mentions), *_told_apart(code, fields)]))
                numbers.update(dict.fromkeys(_numbers(mentions)))
    interfaces = dict.fromkeys(interface for name, interface in INTERFACES.items() if name in names)
    words.update(dict.fromkeys(op_type for interface in interfaces for op_type in sorted(types_of(interface))))
    op_types = [word for word in words if word in REGISTRY]
    if op_types:
        op_types = [*op_types, *(op_type for name in sorted(names & traits.keys()) for op_type in traits[name])]
    types = tuple(sorted({_forward_type(word) for word in op_types}))
    attributes = {name for definition in REGISTRY.values() for name in definition.attrs}
    of_gradients = any(isinstance(REGISTRY[word], GradOpDef) for word in op_types)
    is_of_all = MOST * len(types) > sum(not isinstance(definition, GradOpDef) for definition in REGISTRY.values())
    return Interest(
        () if is_of_all else types,
        tuple(sorted(word for word in words if word in attributes)),
        blocks=bool(names & OF_BLOCKS) or any(isinstance(REGISTRY[op_type], ControlDef) for op_type in types),
        gradients=of_gradients and not is_of_all,
        backward=of_gradients or bool(SPEAKS_OF_GRADIENTS & (words.keys() | names)),
        marks=bool(names & OF_MARKS),
        constants=Constants(tuple(numbers)[:MOST_CONSTANTS], tuple(sorted(set(words) & attribute_words()))),
    )


def _named_by(owner: object, function: FunctionType, code: CodeType) -> Iterator[object]:
    """What names in a function's code stand for: of its module, of the functions around it, options and attributes of the pass or rule."""
    yield from (function.__globals__.get(name) for name in code.co_names)
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
    # What it is called says nothing of what it looks at.
    yield from (inspect.getattr_static(owner, name, None) for name in code.co_names if name != "name")


def _forward_type(op_type: str) -> str:
    """The operator whose gradient this is, of whichever order; itself if it is no gradient."""
    definition = REGISTRY[op_type]
    # Of any order: ``tanh_grad_grad`` is about tanh.
    while isinstance(definition, GradOpDef) and definition.forward is not None:
        definition = definition.forward
    return definition.type


@lru_cache(maxsize=1)
def _types_by_field(known: int) -> dict[str, dict[str, list[str]]]:
    """The types of operators by the fields of their definitions that are texts, and by these texts; only where few have the same.

    There are so many operators, to which others may be added.
    """
    types_by_field = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for definition in REGISTRY.values():
        for field_name, value in vars(definition).items():
            if isinstance(value, str) and value:
                types_by_field[field_name][value].append(definition.type)
    few = {name: {text: types for text, types in by_text.items() if len(types) <= TOLD_APART} for name, by_text in types_by_field.items()}
    return {name: by_text for name, by_text in few.items() if by_text}


@lru_cache(maxsize=1)
def _types_by_trait(known: int) -> dict[str, list[str]]:
    """The forward operators that have a trait, a field of their definitions that is true or false, where few do.

    There are so many operators, to which others may be added.
    """
    types_by_trait = defaultdict[str, list[str]](list)
    for definition in REGISTRY.values():
        for field_name, value in vars(definition).items():
            if value is True and field_name not in COMMON_WORDS and not isinstance(definition, ControlDef | GradOpDef):
                types_by_trait[field_name].append(definition.type)
    return {name: types for name, types in types_by_trait.items() if len(types) <= TOLD_APART}


def _told_apart(code: CodeType, types: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    """The operators that code tells from others by a field of their definitions."""
    for name in code.co_names:
        for text, op_types in types[name].items() if name in types else ():
            if text in code.co_consts:
                yield from op_types


def _words(values: Iterable[object], depth: int = 3) -> Iterator[str]:
    """The words in texts, and in collections of texts."""
    for value in values:
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, dict) and depth:
            yield from _words([*value.keys(), *value.values()], depth - 1)
        elif isinstance(value, tuple | list | set | frozenset) and depth:
            yield from _words(sorted(value, key=repr) if isinstance(value, set | frozenset) else value, depth - 1)


def _numbers(values: Iterable[object], depth: int = 2) -> Iterator[float]:
    """The numbers of moderate size in numbers, and in collections of them, except for those that are everywhere."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # 0 and 1 are indices and counts nearly everywhere, and say nothing of the pass; 0.0 is what an element is compared with.
            usual_numbers = USUAL if isinstance(value, int) else (1.0,)
            yield from [float(value)] if abs(value) <= LARGEST_CONSTANT and value not in usual_numbers else []
        elif isinstance(value, tuple | list) and depth:
            yield from _numbers(value, depth - 1)


def _options(pass_: Pass) -> list[object]:
    """The values of a pass's own options."""
    return [getattr(pass_, name, None) for name in getattr(pass_, "__dataclass_fields__", ())]
