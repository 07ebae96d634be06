"""Annotate values with their sharding over a mesh of ranks.

    x ─▶ mul ─▶ h            x ─▶ shard_tensor{spec=[data, -]} ─▶ mul ─▶ h
    w ─╯               ⇒     w ─▶ shard_tensor{spec=[-, model]} ─╯

An annotation is an operator that computes nothing, as in GSPMD (Xu et al. 2021, section 3.1): it stays in the program's text, passes keep
it, and the backward has one for the cotangent. What follows from annotations for all other values the analysis ``Sharding`` says, and
``partition`` makes the program of each rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from graphad.errors import InvalidValue, Refused
from graphad.ir import Graph, Value
from graphad.ops.mesh import OPEN, ProcessMesh, parse_spec
from graphad.passes.analyses.batch_dependence import data_of
from graphad.passes.analyses.sharding import ANNOTATION
from graphad.rewriting import OnTrial, Pass
from graphad.types import TENSOR


@dataclass(frozen=True)
class Shard(Pass):
    """Say of values which axes of a mesh cut their dimensions.

    Args:
        mesh: the axes and their sizes: ``data=2,model=4``.
        spec: for each value its name, or a pattern of names, and a word for each dimension: ``w: - model``. A word is an axis, several
            joined by ``+``, ``-`` for a dimension that no axis cuts, ``?`` for one that propagation may cut. Later entries
            take the place of earlier ones. Empty: the first axis cuts axis 0 of the data.

    Raises:
        Refused: no value has such a name, or one has another number of dimensions.
        ValueError: the mesh or a spec is not written so.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[8, 4] var w: float32[4, 6] var h: float32[8, 6] mul(X=x, Y=w) -> (Out=h) } }"
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> Shard(mesh="data=2,model=3", spec=("x: data -", "w: - model")).run(graph)
    True
    >>> from graphad.passes.analyses import Sharding
    >>> Sharding.of(graph)[graph.value("h")]
    (('data',), ('model',))
    """

    name = "shard"
    on_trial = OnTrial(goes_by_names=True)
    mesh: str = "data=2"
    spec: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        mesh = ProcessMesh.parse(self.mesh)
        for _, words in map(_entry, self.spec):
            parse_spec(words, mesh)

    def apply(self, graph: Graph) -> bool:
        mesh, words_by_value = ProcessMesh.parse(self.mesh), dict[Value, str]()
        for entry in self.spec or ():
            for value, words in _matches(graph, *_entry(entry)):
                words_by_value[value] = words
        if not self.spec:
            # One row, or none, is no batch that ranks could share.
            data = [value for value in data_of(graph, ()) if value.shape and value.shape[0] not in (0, 1) and _is_read(value)]
            words_by_value = {value: " ".join([mesh.names[0], *[OPEN] * (len(value.shape or ()) - 1)]) for value in data}
        has_changed = False
        for value, words in words_by_value.items():
            if graph.allows("annotate", *value.readers):
                annotate(graph, value, mesh, words)
                has_changed = True
        return has_changed


def _is_read(value: Value) -> bool:
    """Whether the value has to be there: a loop may leave what it carries alone."""
    return any(not op.graphs for op in value.readers)


def annotate(graph: Graph, value: Value, mesh: ProcessMesh, words: str) -> None:
    """Put an annotation between a value and its readers."""
    if value.kind != TENSOR or value.shape is None or len(words.split()) != len(value.shape):
        shape = "unknown" if value.shape is None else f"of {len(value.shape)} dimensions"
        raise Refused(f"spec '{value.name}: {words}' has a word for each of {len(words.split())} dimensions, but the value is {shape}")
    readers = list(value.readers)
    before = graph.ordered_ops()[:1] if value.writer is None else [value.writer.next] if value.writer.next else []
    copy = graph.add_value(graph.values.numbered(value.name, "{}@LAID@{}"), value.shape, value.dtype)
    attrs = {"mesh": str(mesh), "spec": words.split()}
    graph.add_op(ANNOTATION, {"X": [value]}, {"Out": [copy]}, attrs, before[0] if before else None, forward=value.writer)
    for op in readers:
        op.graph.replace_input(op, value, copy)


def _entry(text: str) -> tuple[str, str]:
    name, colon, words = text.partition(":")
    if not colon or not name.strip():
        raise InvalidValue(f"spec is written as 'name: axis - ...', not as {text!r}")
    return name.strip(), words.replace(",", " ").strip()


def _matches(graph: Graph, name: str, words: str) -> Iterator[tuple[Value, str]]:
    """The values that a name or a pattern means: what is given, else the final value of the name."""
    if not any(sign in name for sign in "*?["):
        versions = graph.versions(name)
        value = versions[0] if versions and versions[0].given else graph.value(name)
        yield value, words
        return
    names = [candidate for candidate in dict.fromkeys(value.name for value in graph.values) if fnmatchcase(candidate, name)]
    # Of a name that is given and then updated the first version is cut: the others follow it.
    values = [versions[0] if versions[0].given else versions[-1] for versions in map(graph.versions, names)]
    fitting = [value for value in values if value.shape is not None and len(value.shape) == len(words.split())]
    if not fitting:
        raise Refused(f"spec '{name}: {words}' means no value of {len(words.split())} dimensions")
    yield from ((value, words) for value in fitting)


__all__ = ["Shard", "annotate"]
