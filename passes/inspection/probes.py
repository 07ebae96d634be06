"""Probes: facts about a value, computed by operators, as tensors of no axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from graphad.graph import Graph, Op, Value
from graphad.types import Shape

MARK = "@PROBE@"
_QUESTIONS = {"NAN": "isnan_v2", "INF": "isinf_v2"}
_EMPTY = {"NAN": 0.0, "INF": 0.0, "MIN": inf, "MAX": -inf}
_REDUCED = {"MIN": "reduce_min", "MAX": "reduce_max"}
_JOINED = {"NAN": "elementwise_add", "INF": "elementwise_add", "MIN": "elementwise_min", "MAX": "elementwise_max"}


@dataclass(frozen=True)
class Probe:
    """One fact about a watched value: its name, which fact it is, and the value that holds it."""

    name: str
    kind: str
    value: Value

    @property
    def dtype(self) -> str:
        """The dtype of the probe."""
        assert self.value.dtype is not None
        return self.value.dtype

    def at(self, value: Value) -> Probe:
        """The same fact, held by a value further out."""
        return replace(self, value=value)

    def like(self, graph: Graph, name: str, given: bool = False) -> Value:
        """A new value for the fact."""
        name = graph.values.fresh(name)
        return graph.add_input(name, (), self.dtype) if given else graph.add_version(name, (), self.dtype)


def stem(value: Value) -> str:
    """The stem of the names of a value's probes: its name, and its number if there are later values of that name."""
    return value.name if value.graph.values.last(value.name) is value else repr(value)


def probe_name(value: Value, kind: str) -> str:
    """The name of a probe of a value."""
    return f"{stem(value)}{MARK}{kind}"


def probe(value: Value, kind: str, before: Op | None) -> Probe:
    """Add the operators that find out a fact about a value, before an operator."""
    graph, name = value.graph, probe_name(value, kind)
    add = _Adding(graph, name, before, value.writers[0])
    held = name if graph.parent is None else f"{name}@NOW"
    if kind in _QUESTIONS:
        asked = add.op(_QUESTIONS[kind], [value], value.shape, "bool", name + "@ELEMENTS")
        numbers = add.op("cast", [asked], value.shape, "int64", name + "@ELEMENTS", {"out_dtype": "int64"})
        return Probe(name, kind, add.op("reduce_sum", [numbers], (), "int64", held, {"reduce_all": True}))
    elements = value if -1 not in (value.shape or ()) else add.with_one_more(value, _EMPTY[kind])
    return Probe(name, kind, add.op(_REDUCED[kind], [elements], (), value.dtype, held, {"reduce_all": True}))


def nothing_seen(graph: Graph, each: Probe, before: Op | None) -> Value:
    """The value of a probe where nothing was written."""
    made = each.like(graph, f"{each.name}@NOTHING")
    attrs = {"shape": [], "value": _EMPTY[each.kind], "dtype": each.dtype}
    graph.add_op("fill_constant", {}, {"Out": [made]}, attrs, before=before, role=before.role if before else None)
    return made


def joined(graph: Graph, each: Probe, seen: Value) -> Value:
    """Combine the earlier result of a probe with the current one."""
    made = each.like(graph, f"{each.name}@TOTAL")
    graph.add_op(_JOINED[each.kind], {"X": [seen], "Y": [each.value]}, {"Out": [made]})
    return made


@dataclass
class _Adding:
    """Adds operators of one output."""

    graph: Graph
    name: str
    before: Op | None
    watched: Op

    def op(
        self, type: str, inputs: Sequence[Value], shape: Shape | None, dtype: str | None, name: str, attrs: Mapping[str, Any] | None = None
    ) -> Value:
        """One operator; return what it writes."""
        made = self.graph.add_version(self.graph.values.fresh(name), shape, dtype)
        slots = {"X": list(inputs)} if inputs else {}
        added = self.graph.add_op(type, slots, {"Out": [made]}, attrs, before=self.before, role=self.watched.role)
        added.source = self.watched.source
        return made

    def with_one_more(self, value: Value, number: float) -> Value:
        """The elements of a value that may have none, and a number that does not change their extremum."""
        flat = self.op("reshape", [value], (-1,), value.dtype, self.name + "@ELEMENTS", {"shape": [-1]})
        filled = {"shape": [1], "value": number, "dtype": value.dtype}
        other = self.op("fill_constant", [], (1,), value.dtype, self.name + "@ELEMENTS", filled)
        return self.op("concat", [flat, other], (-1,), value.dtype, self.name + "@ELEMENTS", {"axis": 0})
