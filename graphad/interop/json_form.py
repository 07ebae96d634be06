"""Programs as JSON. Reading it back gives an equal program: numbers to the last bit, infinities and nans as strings.

    program   = {"format": "graphad.program", "version": 1, "random_seed": int, "blocks": [block, ...]}
    block     = {"parent": int, "vars": {name: variable, ...}, "ops": [operator, ...]}
    variable  = {"shape": [int or name, ...] or null, "dtype": string or null, ...}     what has its default is left out
    operator  = {"type": string, "inputs": {slot: [names]}, "outputs": {slot: [names]}, "attrs": {name: value}, "role": string}
    value     = true, false, int, float, string, [values], {"float": "nan"}, {"block": int}

A float has a point or an exponent, an int has neither. The other fields of a variable are those of
``graphad.interop.declarations.DEFAULTS``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from graphad.errors import GraphadError, InvalidValue, ParseError
from graphad.interop.declarations import DEFAULTS, add_block, check_blocks, declare, differing, fields_of, names_in
from graphad.program import FORWARD, ROLES, Block, Operator, Program, Variable, check_distinct
from graphad.program.operator import check_known
from graphad.program.source import with_scope, without_scope

FORMAT = "graphad.program"
VERSION = 1
MAX_DEPTH = 64  # of lists in lists

Json = Any


def to_json(program: Program) -> str:
    """The JSON of a program, the same for equal programs.

    Raises:
        ValueError: an attribute is of a type that no program's text has; the message names the operator.
    """
    doc = {"format": FORMAT, "version": VERSION, "random_seed": program.random_seed, "blocks": list(map(_block, program.blocks))}
    return json.dumps(doc, indent=1, allow_nan=False) + "\n"


def _block(block: Block) -> Json:
    return {
        "parent": block.parent_idx,
        "vars": {name: _variable(var) for name, var in block.vars.items()},
        "ops": [_operator(op) for op in block.ops],
    }


def _variable(var: Variable) -> Json:
    fields = fields_of(var)
    differences = differing(fields, dict(DEFAULTS))
    return {"shape": fields["shape"], "dtype": fields["dtype"], **{name: _value(value) for name, value in differences.items()}}


def _operator(op: Operator) -> Json:
    try:
        check_distinct(op)
        attrs = {name: _value(value) for name, value in with_scope(op.attrs, op.source).items()}
    except InvalidValue as error:
        raise InvalidValue(f"block {op.block.idx}, operator {op.type!r}: {error}") from None
    doc: dict[str, Json] = {"type": op.type, "inputs": op.inputs, "outputs": op.outputs}
    return doc | ({"attrs": attrs} if attrs else {}) | ({} if op.role == FORWARD else {"role": op.role})


def _value(value: object) -> Json:
    if isinstance(value, Block):
        return {"block": value.idx}
    # JSON has no nan and no infinity; their words go into an object of their own.
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidValue(f"an attribute of type {type(value).__name__} has no JSON form")


# -- reading -------------------------------------------------------------------------------------


def from_json(text: str, *, allow_unknown: bool | None = None) -> Program:
    """The program that a JSON text holds: ``str(from_json(to_json(p))) == str(p)``.

    Args:
        text: as ``to_json`` gives it.
        allow_unknown: as in ``Program.parse``.

    Raises:
        ParseError: it is not JSON, not a program, or one of a later version; the message says where.
    """
    try:
        doc = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ParseError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ParseError(str(error)) from None
    if not isinstance(doc, dict) or doc.get("format") != FORMAT:
        raise ParseError(f"this JSON is not a program: its format is not {FORMAT!r}")
    if doc.get("version") != VERSION:
        raise ParseError(f"the program is of version {doc.get('version')!r} of the format; version {VERSION} is read here")
    program = Program()
    program.random_seed = _integer("random_seed", doc.get("random_seed", 0))
    _fill(program, _list("blocks", doc.get("blocks")))
    if allow_unknown is False:
        _check_known(program)
    program.allows_unknown = bool(allow_unknown)
    # Names generated from now on must not be those that the file has.
    program.names.skip(var.name for var in program.list_vars())
    return program


def _check_known(program: Program) -> None:
    for block in program.blocks:
        for i, op in enumerate(block.ops):
            _at(f"blocks[{block.idx}].ops[{i}]", check_known, op)


def _without_repetition(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ParseError(f"{next(n for n in table if names.count(n) > 1)!r} is given twice")
    return table


def _no_constant(text: str) -> None:
    raise ParseError(f"{text} is no JSON; it is written {{'float': 'nan'}}, 'inf' or '-inf'")


def _fill(program: Program, docs: list[Json]) -> None:
    if not docs:
        raise ParseError("blocks: a program has at least one")
    depths: list[int] = []
    # All blocks first: an operator may hold a block that comes later.
    for i, doc in enumerate(docs):
        add_block(program, depths, _integer(f"blocks[{i}].parent", _object(f"blocks[{i}]", doc).get("parent")))
    for block, doc in zip(program.blocks, docs, strict=True):
        for name, fields in _object(f"blocks[{block.idx}].vars", doc.get("vars", {})).items():
            _at(f"blocks[{block.idx}].vars[{name!r}]", _read_variable, block, name, fields)
        for i, op in enumerate(_list(f"blocks[{block.idx}].ops", doc.get("ops", []))):
            _at(f"blocks[{block.idx}].ops[{i}]", _read_operator, block, op)
    check_blocks(program)


def _at(place: str, read: Any, *args: Any) -> None:
    """Call a reader; an error of its says where in the JSON it is."""
    try:
        read(*args)
    except (GraphadError, OverflowError) as error:
        raise ParseError(f"{place}: {error}") from None


def _read_variable(block: Block, name: str, doc: Json) -> None:
    fields = _object("a variable", doc)
    declare(block, name, {key: None if value is None else _read_value(value, block.program) for key, value in fields.items()})


def _read_operator(block: Block, doc: Json) -> None:
    fields = _object("an operator", doc)
    for key in fields:
        if key not in ("type", "inputs", "outputs", "attrs", "role"):
            raise ParseError(f"an operator has no field {key!r}")
    op_type, role = fields.get("type"), fields.get("role", FORWARD)
    if not isinstance(op_type, str) or role not in ROLES:
        raise ParseError(f"type is a string and role one of {', '.join(ROLES)}, not {op_type!r} and {role!r}")
    attr_values = {name: _read_value(value, block.program) for name, value in _object("attrs", fields.get("attrs", {})).items()}
    attrs, source = without_scope(attr_values, None)
    inputs, outputs = (names_in(side, fields.get(side, {})) for side in ("inputs", "outputs"))
    op = Operator(block, op_type, inputs, outputs, attrs, role, source)
    check_distinct(op)
    block.ops.append(op)


def _read_value(value: Json, program: Program, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise ParseError(f"lists are nested more than {MAX_DEPTH} deep")
    match value:
        case list():
            return [_read_value(item, program, depth + 1) for item in value]
        # In Python, and in patterns, true is an int.
        case {"block": int(idx), **rest} if not rest and not isinstance(idx, bool):
            return program.block(idx)
        case {"float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case None:
            raise ParseError("a value is no null")
        case dict():
            raise ParseError(f"a value is no object but {{'block': index}} and {{'float': 'nan', 'inf' or '-inf'}}, not {value!r}")
    return value


def _object(what: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ParseError(f"{what}: an object is wanted, not {value!r}")
    return value


def _list(what: str, value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise ParseError(f"{what}: a list is wanted, not {value!r}")
    return value


def _integer(what: str, value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParseError(f"{what}: a whole number is wanted, not {value!r}")
    return value
