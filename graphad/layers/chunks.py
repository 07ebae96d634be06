"""``chunk_eval``: precision and recall of the chunks that tags mark in sequences, such as names in sentences.

A tag is ``kind * places + place``: the kind of the chunk, and a place in it, such as its begin. Between two steps there is a boundary where
the kind changes, where the place of the first ends a chunk, or that of the second begins one (L. Ramshaw and M. Marcus, 1995, for IOB).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.program import Variable
from graphad.program.source import at_users_line


class _Scheme(NamedTuple):
    """How many places there are, and which of them begin and end a chunk."""

    places: int
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


_SCHEMES = {
    "plain": _Scheme(1),
    "IOB": _Scheme(2, begin=(0,)),
    "IOE": _Scheme(2, end=(1,)),
    "IOBES": _Scheme(4, begin=(0, 3), end=(2, 3)),
}


class _Chunks(NamedTuple):
    """The chunks by step: its kind, whether a chunk that counts begins or ends there, and where the last one began."""

    kind: Variable
    begins: Variable
    ends: Variable
    start: Variable


@layer
def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """Precision, recall and F1 of chunks: one is right if its kind, its first and its last step are.

    Args:
        input, label: tags ``[batch, time]`` or ``[batch, time, 1]``, integers; those of ``num_chunk_types * places`` are outside of chunks.
        chunk_scheme: ``"IOB"`` (a begin is 0, inside 1), ``"IOE"`` (inside 0, end 1), ``"IOBES"`` (begin, inside, end, single: 0 to 3) or
            ``"plain"`` (one place: a chunk lasts while its kind does).
        num_chunk_types: how many kinds there are.
        excluded_chunk_types: kinds that do not count.
        seq_length: how many steps count, one number for each sequence; all of them if None.

    Returns:
        Precision, recall and F1, float32, and how many chunks there are in ``input``, in ``label`` and in both, int64; the shape of each
        is ``[]``. ``ga.metrics.ChunkEvaluator`` adds the numbers up over minibatches.

    Raises:
        ValueError: the scheme is not known, or an excluded kind is none.

    >>> import numpy as np
    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:  # B-0 I-0 O B-1, and B-0 I-0 O B-0
    ...     tags, truth = ga.layers.assign(np.array([[0, 1, 4, 2]])), ga.layers.assign(np.array([[0, 1, 4, 0]]))
    ...     results = ga.layers.chunk_eval(tags, truth, "IOB", num_chunk_types=2)
    >>> [result.item() for result in ga.Executor().run(program, fetch_list=list(results))]
    [0.5, 0.5, 0.5, 2, 2, 1]
    """
    with at_users_line("layers.chunk_eval"):
        scheme, kinds, excluded = _checked(chunk_scheme, num_chunk_types, excluded_chunk_types)
        inferred, true = (_tags(name, tensor) for name, tensor in (("input", input), ("label", label)))
        lengths = None if seq_length is None else emitted("reshape", [checked_input("chunk_eval", seq_length)], shape=[-1, 1])
    predicted, right = (_chunks(tags, scheme, kinds, excluded, lengths) for tags in (inferred, true))
    both = predicted.ends & right.ends & (predicted.kind == right.kind) & (predicted.start == right.start)
    counts = [mask.astype("int64").sum() for mask in (predicted.begins, right.begins, both)]
    in_input, in_label, in_both = (count.astype("float32") for count in counts)
    # F1, the harmonic mean, is twice what is in both over what is in either. Where there are no chunks all are 0.
    pairs = [(in_both, in_input), (in_both, in_label), (in_both * 2.0, in_input + in_label)]
    results = [part / emitted("clip", [whole], min=1.0, max=float("inf")) for part, whole in pairs] + counts
    for result in results:
        result.stop_gradient = True
    return tuple(results)


def _checked(chunk_scheme: object, num_chunk_types: object, excluded: object) -> tuple[_Scheme, int, list[int]]:
    if not isinstance(chunk_scheme, str) or chunk_scheme not in _SCHEMES:
        raise InvalidValue(f"chunk_scheme is one of {', '.join(_SCHEMES)}, not {chunk_scheme!r}")
    kinds = checked_int("num_chunk_types", num_chunk_types, 1)
    if not isinstance(excluded, list | tuple | None):
        raise InvalidType(f"excluded_chunk_types is a list of kinds, not {excluded!r}")
    numbers = [checked_int("excluded_chunk_types", kind, 0) for kind in excluded or ()]
    if wrong := [kind for kind in numbers if kind >= kinds]:
        raise InvalidValue(f"excluded_chunk_types has {wrong}: the kinds are 0 to {kinds - 1}")
    return _SCHEMES[chunk_scheme], kinds, numbers


def _tags(name: str, tensor: object) -> Variable:
    tags = checked_input("chunk_eval", tensor)
    if tags.ndim == 3 and tags.shape[2] == 1:
        tags = tags.squeeze(2)
    if tags.ndim != 2:
        raise ShapeError(f"{name} is [batch, time] or [batch, time, 1], not {tensor!r}: pad sequences and say seq_length")
    return tags.astype("int64")


def _chunks(tags: Variable, scheme: _Scheme, kinds: int, excluded: Sequence[int], lengths: Variable | None) -> _Chunks:
    places = emitted("cumsum", [emitted("fill_any_like", [tags], value=1.0)], axis=1)  # 1, 2, ... along time
    kind, place = tags // scheme.places, tags % scheme.places
    outside = kind >= kinds
    if lengths is not None:
        outside = outside | (places > lengths.astype("int64"))
    kind = emitted("where", [outside, emitted("fill_any_like", [kind], value=float(kinds)), kind])
    # Beside the sequence everything is outside of chunks. Boundary i is before step i, and the last one after the last step.
    padded = emitted("pad", [kind], paddings=[0, 0, 1, 1], pad_value=float(kinds))
    boundary = padded[:, :-1] != padded[:, 1:]
    for edges, paddings in ((scheme.begin, [0, 0, 0, 1]), (scheme.end, [0, 0, 1, 0])):
        for edge in edges:
            boundary = boundary | (emitted("pad", [(place == edge).astype("int64")], paddings=paddings, pad_value=0.0) > 0)
    counts = ~outside
    for number in excluded:
        counts = counts & (kind != number)
    begins, ends = boundary[:, :-1] & ~outside, boundary[:, 1:] & counts
    return _Chunks(kind, begins & counts, ends, _last(begins, places))


def _last(begins: Variable, places: Variable) -> Variable:
    """At each step the place of the last one that begins a chunk: ``last[t] = begins[t] ? places[t] : last[t - 1]``."""
    here = begins.astype("float64")
    # The recurrence gives the state before a step; one step more, the state after the last one.
    keep, set_to = (emitted("pad", [x], paddings=[0, 0, 0, 1], pad_value=0.0) for x in (1.0 - here, here * places.astype("float64")))
    return emitted("linear_recurrence", [keep, set_to], axis=1)[:, 1:]  # type: ignore[no-any-return]
