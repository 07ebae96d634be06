"""One value in the place of another one that is asked for by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphad.graph.nodes import Value

if TYPE_CHECKING:
    from graphad.graph.graph import Graph


def hand_over(graph: Graph, old: Value, new: Value) -> None:
    """Give ``new`` the name of ``old``, or copy it there if it is given from outside or asked for itself."""
    if new.given or new.persistable or graph.is_observed(new):
        _copy(graph, old, new)
    else:
        _hand_name(graph, old, new)


def _copy(graph: Graph, old: Value, new: Value) -> None:
    writer = old.writers[0]
    spare = graph.add_version(graph.values.numbered(old.name, "{}@OLD@{}"), old.shape, old.dtype)
    spare.kind = old.kind
    graph.add_op("assign", {"X": [new]}, {"Out": [old]}, before=writer.next, role=writer.role)  # a value nobody writes would be gone
    for slot, values in list(writer.outputs.items()):
        if old in values:
            graph.set_outputs(writer, slot, [spare if v is old else v for v in values])


def _hand_name(graph: Graph, old: Value, new: Value) -> None:
    graph.values.discard(new)
    graph.values.exchange(old, new)
    new.name, old.name = old.name, graph.values.numbered(old.name, "{}@OLD@{}")
    graph.values.add(old)
    new.var, old.var = old.var, None
    graph.targets = {new if v is old else v: None for v in graph.targets}
