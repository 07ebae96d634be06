"""Nested graphs prepared to become blocks: under the names around them, with ``assign`` operators for copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value


def settle_body(graph: Graph, inputs: Sequence[str], results: Sequence[str], role: str) -> set[str]:
    """Make a graph work on names: its inputs are the variables ``inputs`` around it, and at its end ``results`` hold its results.

    Return the names around that it reads or writes; any other it may use for a variable of its own.
    """
    _merge_repeated(graph, inputs)
    untouched = {*_untouched(graph, inputs, results), *_undefined(graph, results)}
    for value, name in zip(graph.inputs, inputs, strict=True):
        if name in untouched:
            _rename(graph, value)
        else:
            _name_first(graph, value, name)
    _keep_off(graph, set(inputs) - set(results) - untouched)
    _keep_own_apart(graph, set(results) - untouched)
    for i, (value, name) in enumerate(zip(list(graph.results), results, strict=True)):
        if name in untouched:
            continue
        if value.name != name or graph.values.last(name) is not value or graph.results.count(value) > 1:
            graph.results[i] = _copied_to(graph, value, name, role)
    return {*inputs, *results} - untouched


def _untouched(graph: Graph, inputs: Sequence[str], results: Sequence[str]) -> Iterator[str]:
    """The names around whose values nothing in the graph reads; what goes in under them comes out again, if anything does."""
    kept = set(graph.residuals)
    out = dict(zip(results, graph.results, strict=True))
    touched = set()
    for name, value in zip(inputs, graph.inputs, strict=True):
        if value.readers or value in kept or out.get(name, value) is not value or graph.results.count(value) > (name in out):
            touched.add(name)
    yield from (name for name in inputs if name not in touched)


def _undefined(graph: Graph, results: Sequence[str]) -> Iterator[str]:
    """The names around that are left without a value."""
    for name, value in zip(results, graph.results, strict=True):
        if value.writer is not None and is_silent(value.writer):
            yield name


def is_silent(op: Op) -> bool:
    """Whether an operator only says that there is no value, which in a program goes without saying."""
    return op.type == "undefined" and op.made_by is None


def settle_gradient(graph: Graph, kept: Mapping[Value, str]) -> None:
    """Make a gradient's graph read residuals by the names that they have in the forward block; the rest keeps off those.

    Args:
        graph: the gradient's graph.
        kept: those of its inputs for residuals that are read, and their names.
    """
    for value, name in kept.items():
        _name_first(graph, value, name)
    _keep_off(graph, set(kept.values()))
    taken = set(kept.values())
    for value in graph.inputs:
        if value in kept:
            continue
        if value.name in taken:
            _rename(graph, value)
        taken.add(value.name)


def _merge_repeated(graph: Graph, inputs: Sequence[str]) -> None:
    """Two inputs of one name are one value: read the first."""
    first: dict[str, Value] = {}
    for value, name in zip(graph.inputs, inputs, strict=True):
        if first.setdefault(name, value) is not value:
            graph.replace(value, first[name])


def _name_first(graph: Graph, value: Value, name: str) -> None:
    """Make a value the first one of a name."""
    if graph.values.first(name) is not value:
        graph.values.discard(value)
        value.name = name
        graph.values.add_first(value)


def _keep_off(graph: Graph, names: Collection[str]) -> None:
    """Rename what would overwrite a variable that is only read."""
    for name in sorted(names):
        for value in graph.versions(name):
            if value.writers:
                _rename(graph, value)


def _keep_own_apart(graph: Graph, names: Collection[str]) -> None:
    """Rename what was a variable of the block's own, now that a variable around it is written under that name."""
    for name in sorted(names):
        for value in graph.versions(name):
            if value.var is not None and value.var.block is graph.block:
                _rename(graph, value)


def _rename(graph: Graph, value: Value) -> None:
    graph.values.discard(value)
    value.name = graph.values.numbered(value.name, "{}@INNER@{}")
    graph.values.add(value)


def _copied_to(graph: Graph, value: Value, name: str, role: str) -> Value:
    copy = graph.add_version(name, value.shape, value.dtype)
    copy.kind = value.kind
    graph.add_op("assign", {"X": [value]}, {"Out": [copy]}, role=role).made_by = "schedule"
    return copy
