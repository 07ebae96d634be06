"""Analyses: facts about a graph, computed when they are requested, and kept until the graph changes.

    @dataclass(frozen=True)
    class Liveness(Analysis):
        last_use: dict[Value, int]
        @classmethod
        def compute(cls, graph): ...

    Liveness.of(graph)          # computed now, or the one kept

A pass that changes a graph drops its analyses, except for those it ``preserves``. Within ``claims_checked()`` what a pass says it
preserves is computed again after it and compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

from graphad.errors import PassError
from graphad.ir import Graph
from graphad.settings import SETTINGS, changed_settings

T = TypeVar("T")


class _CacheEntry(NamedTuple):
    """An analysis, and the state of the graph it is true of."""

    edits: int
    typings: int
    result: Any


class Analysis(ABC):
    """Facts about one graph. Two analyses are equal if they say the same."""

    @classmethod
    @abstractmethod
    def compute(cls, graph: Graph) -> Self:
        """Look at the graph."""

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """The analysis of the graph as it is now: the one kept if the graph has not changed, else a new one."""
        return cached(graph, cls, cls.compute)

    @classmethod
    def recomputed(cls, graph: Graph, claimed: object) -> Analysis:
        """The analysis ``claimed``, computed now instead of taken from the cache."""
        return cls.compute(graph)


def cached(graph: Graph, kind: type, compute: Callable[[Graph], T]) -> T:
    """The cached result for a graph and a class, if the graph has not changed; else that of ``compute``, which is then cached."""
    # Invalidation by counting: any edit, and any change of a type, makes entries stale; nothing has to be told.
    entry: _CacheEntry | None = graph.analyses.get(kind)
    state = graph.journal.edits, graph.journal.typings
    if entry is not None and entry[:2] == state:
        return entry.result  # type: ignore[no-any-return]
    result = compute(graph)
    graph.analyses[kind] = _CacheEntry(*state, result)
    return result


def drop_stale(graph: Graph) -> None:
    """Forget the analyses that were computed before the graph's last change: no pass can preserve what is not true any more."""
    state = graph.journal.edits, graph.journal.typings
    graph.analyses = {kind: entry for kind, entry in graph.analyses.items() if not isinstance(entry, _CacheEntry) or entry[:2] == state}


def keep_preserved(graph: Graph, preserved: tuple[type, ...], before: dict[type, object], who: str) -> None:
    """Keep, of the analyses there were before a pass, those it preserves; the rest is gone.

    Raises:
        PassError: within ``claims_checked``, an analysis that is said to be preserved is not what it was.
    """
    analyses, checking = graph.analyses, SETTINGS.check_claims
    # The entry from before the pass, where there was one: what the pass computed in between is of a graph halfway.
    graph.analyses = {kind: before.get(kind, analyses[kind]) for kind in preserved if kind in analyses}
    for kind, entry in list(graph.analyses.items()):
        if isinstance(entry, _CacheEntry):
            if checking:
                _check(graph, kind, entry.result, who)
            graph.analyses[kind] = _CacheEntry(graph.journal.edits, graph.journal.typings, entry.result)


def _check(graph: Graph, kind: type, claimed: object, who: str) -> None:
    actual = kind.recomputed(graph, claimed)  # type: ignore[attr-defined]
    if actual != claimed:
        raise PassError(
            f"pass {who} says it preserves {kind.__name__}, but that is not what it was:\n  before {claimed}\n  after  {actual}"
        )


@contextmanager
def claims_checked(on: bool = True) -> Iterator[None]:
    """Within it, what passes claim to preserve is computed again and compared."""
    with changed_settings(check_claims=on):
        yield
