"""Watch values for nan and infinities, and for their range.

    x ─▶ log ─▶ y          ⇒          x ─▶ log ─▶ y ─▶ isnan_v2 ─▶ cast ─▶ reduce_sum ─▶ y@PROBE@NAN
                                                  y ─▶ reduce_min ─▶ y@PROBE@MIN                        and so on

The probes are targets of the graph. For what is written in a loop they are totals over its iterations, carried by the loop; for a branch
that is not taken, and a loop that does not run, there are no nans and no infinities, and the range is empty: from inf to -inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ir.edits import insert_carried, insert_results
from graphad.ir.regions import CallLike, definition_of, is_forward_loop
from graphad.ops.definition import did_you_mean
from graphad.program import EMPTY
from graphad.rewriting import Pass
from graphad.types import FLOATS, TENSOR, Shape

# -- probes ----------------------------------------------------------------------------------------
# Probes: facts about a value, computed by operators, as tensors of no axes.

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

    def like(self, graph: Graph, name: str, is_input: bool = False) -> Value:
        """A new value for the fact."""
        name = graph.values.fresh(name)
        return graph.add_input(name, (), self.dtype) if is_input else graph.add_version(name, (), self.dtype)


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
    # Within a loop the name is that of the total which the loop carries out.
    result_name = name if graph.parent is None else f"{name}@NOW"
    if kind in _QUESTIONS:
        flags = add.op(_QUESTIONS[kind], [value], value.shape, "bool", name + "@ELEMENTS")
        # The number of nans fits int64 whatever the dtype of the value is.
        numbers = add.op("cast", [flags], value.shape, "int64", name + "@ELEMENTS", {"out_dtype": "int64"})
        return Probe(name, kind, add.op("reduce_sum", [numbers], (), "int64", result_name, {"reduce_all": True}))
    # There may be no elements, whatever is declared: what an operator gives may follow from the numbers that it reads.
    attrs = {"reduce_all": True, "allow_empty": True}
    return Probe(name, kind, add.op(_REDUCED[kind], [value], (), value.dtype, result_name, attrs))


def nothing_seen(graph: Graph, probe: Probe, before: Op | None) -> Value:
    """The value of a probe where nothing was written."""
    result = probe.like(graph, f"{probe.name}@NOTHING")
    attrs = {"shape": [], "value": _EMPTY[probe.kind], "dtype": probe.dtype}
    graph.add_op("fill_constant", {}, {"Out": [result]}, attrs, before=before, role=before.role if before else None)
    return result


def joined(graph: Graph, probe: Probe, total: Value) -> Value:
    """Combine the earlier result of a probe with the current one."""
    result = probe.like(graph, f"{probe.name}@TOTAL")
    graph.add_op(_JOINED[probe.kind], {"X": [total], "Y": [probe.value]}, {"Out": [result]})
    return result


@dataclass
class _Adding:
    """Adds operators of one output."""

    graph: Graph
    name: str
    before: Op | None
    watched: Op

    def op(
        self,
        type: str,
        inputs: Sequence[Value],
        shape: Shape | None,
        dtype: str | None,
        name: str,
        attrs: Mapping[str, object] | None = None,
    ) -> Value:
        """One operator; return what it writes."""
        result = self.graph.add_version(self.graph.values.fresh(name), shape, dtype)
        new_op = self.graph.add_op(type, {"X": list(inputs)}, {"Out": [result]}, attrs, before=self.before, role=self.watched.role)
        new_op.source = self.watched.source
        return result


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeNumerics(Pass):
    """Count nans and infinities of values, and take their smallest and largest element, as further targets.

    A value ``y`` gets ``y@PROBE@NAN``, ``y@PROBE@INF``, ``y@PROBE@MIN`` and ``y@PROBE@MAX``. A range with a nan in it is nan.

    Args:
        values: the names of the values, also of such as are written in loops and branches; none: all of floating point that are sure
            to have a value where they are written. ``x`` is the final value of its name, ``x#0`` the first.
        nan: whether to count nans.
        inf: whether to count infinities.
        range: whether to take the smallest and the largest element.

    Raises:
        ValueError: no operator writes a value of floating point that has a name in ``values``.
    """

    name = "probe-numerics"
    idempotent = True
    values: tuple[str, ...] = ()
    nan: bool = True
    inf: bool = True
    range: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The requested kinds: NAN, INF, MIN, MAX."""
        options = (("NAN", self.nan), ("INF", self.inf), ("MIN", self.range), ("MAX", self.range))
        return tuple(kind for kind, on in options if on)

    def apply(self, graph: Graph) -> bool:
        watch = _Watch(self.kinds, frozenset(self.values), frozenset(v.name for v in graph.values if MARK in v.name))
        watch.look(graph)
        missing_names = [name for name in self.values if name not in watch.found]
        if missing_names:
            candidates = [repr(value) for subgraph in graph.tree() for value in subgraph.values if value.writers]
            raise InvalidValue(
                f"no operator writes a value {missing_names[0]!r} of floating point{did_you_mean(missing_names[0], candidates)}"
            )
        return any([self._probe(graph, watch, op) for op in watch.roots])

    def _probe(self, graph: Graph, watch: _Watch, op: Op) -> bool:
        if not graph.allows(self.name, op):
            return False
        probes = watch.insert_probes(op)
        graph.targets.update(dict.fromkeys(probe.value for probe in probes))
        return True


@dataclass
class _Watch:
    """The watched values: the results of each operator, and the operators of each graph with watched values in their graphs."""

    kinds: tuple[str, ...]
    names: frozenset[str]
    there: frozenset[str]
    found: set[str] = field(default_factory=set)
    values: dict[Op, list[Value]] = field(default_factory=dict)
    inside: dict[Graph, list[Op]] = field(default_factory=dict)
    roots: list[Op] = field(default_factory=list)

    # -- which -----------------------------------------------------------------------------------

    def look(self, graph: Graph) -> None:
        """Find the values, in a whole graph and what is nested in it."""
        self.roots = self._of_graph(graph)

    def _of_graph(self, graph: Graph) -> list[Op]:
        # In nested graphs arguments may be missing, so only what an operator there writes is sure.
        sure: set[Value] = set(graph.inputs) if graph.parent is None else set()
        return [op for op in graph.ordered_ops() if self._is_watched(op, sure)]

    def _is_watched(self, op: Op, sure: set[Value]) -> bool:
        """Whether an operator, or a graph of it, has watched results; ``sure`` are the values that are definitely assigned."""
        if _writes_for_sure(op, sure):
            sure.update(op.writes())
        candidates = [value for value in op.writes() if self._is_chosen(value, value in sure)]
        if candidates:
            self.values[op] = candidates
        # A gradient's graph is run as its forward graph was: it has no results of its own to add.
        if not op.graphs or definition_of(op).is_grad or _stays_whole(op):
            return bool(candidates)
        for graph in op.graphs.values():
            self.inside[graph] = self._of_graph(graph)
        return bool(candidates) or any(self.inside[graph] for graph in op.graphs.values())

    def _is_chosen(self, value: Value, sure: bool) -> bool:
        if value.dtype not in FLOATS or value.shape is None or value.kind != TENSOR or MARK in value.name or value.name == EMPTY:
            return False
        names = self.names.intersection((stem(value), repr(value)))
        self.found.update(names)
        return bool(names or (sure and not self.names)) and bool(self.left(value))

    def left(self, value: Value) -> list[str]:
        """The kinds of probes that a value does not have yet."""
        return [kind for kind in self.kinds if probe_name(value, kind) not in self.there]

    # -- how -------------------------------------------------------------------------------------

    def insert_probes(self, op: Op) -> list[Probe]:
        """Insert the probes after an operator, those of its nested graphs included."""
        # Right after the operator: a later write to the same name is another value.
        before = op.next
        probes = [probe(value, kind, before) for value in self.values.get(op, ()) for kind in self.left(value)]
        inner = {graph: list(self._inner(graph)) for graph in op.graphs.values() if graph in self.inside}
        if not any(inner.values()):
            return probes
        return [*probes, *(_loop(op, *inner.values()) if is_forward_loop(op) else _branches(op, inner))]

    def _inner(self, graph: Graph) -> Iterator[Probe]:
        for op in self.inside[graph]:
            yield from self.insert_probes(op)


def _stays_whole(op: Op) -> bool:
    call = CallLike.of(op)
    return call is not None and call.stays_whole


def _writes_for_sure(op: Op, sure: set[Value]) -> bool:
    """Whether what an operator writes has a value whenever it has run."""
    definition = op.definition
    if definition is None or op.graphs:
        return False
    # A partial operator may go without a value only where it reads one that is missing; one that reads nothing has none to write.
    return not definition.partial or (bool(op.inputs) and sure.issuperset(op.reads()))


# -- out of nested graphs ------------------------------------------------------------------------


def _loop(op: Op, probes: Sequence[Probe]) -> list[Probe]:
    """Let a loop carry the totals of probes in its body."""
    around, (body,) = op.graph, op.graphs.values()
    starts, ends, inputs, totals = [], [], [], []
    for probe in probes:
        starts.append(nothing_seen(around, probe, op))
        ends.append(probe.like(around, probe.name))
        total = probe.like(body, f"{probe.name}@SEEN", is_input=True)
        inputs.append(total)
        totals.append(joined(body, probe, total))
    insert_carried(op, starts, inputs, totals, ends)
    return [item.at(end) for item, end in zip(probes, ends, strict=True)]


def _branches(op: Op, inner: dict[Graph, list[Probe]]) -> list[Probe]:
    """Hand the probes of each branch out; in the others nothing is seen."""
    all_probes = [(home, probe) for home, probes in inner.items() for probe in probes]
    # Every branch has to yield something for each probe.
    yielded = [
        [probe.value if graph is home else nothing_seen(graph, probe, None) for home, probe in all_probes] for graph in op.graphs.values()
    ]
    results = [probe.at(probe.like(op.graph, probe.name)) for _, probe in all_probes]
    insert_results(op, [probe.value for probe in results], yielded)
    return results
