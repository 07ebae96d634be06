"""Linear chains: conditional random fields over sequences, and the recurrence of matrices that their derivatives are made of.

The likelihood is a sum over paths through a lattice, ``h[t] = A[t] h[t-1]`` with ``A`` made of exponentials of scores. In the gradients of
the second order on, which are made of operators, ``A[t][j, i]`` is scaled by ``exp(beta[t][j] - beta[t-1][i])``, beta the logarithms of the
backward sums (L. Rabiner, "A tutorial on hidden Markov models", 1989): its elements are probabilities of steps, so nothing overflows, and h
are those of states. The scales are constants to the derivatives: the likelihood does not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import GRAD, Inputs, Outputs, grad_kernel, operator
from graphad.ops.elementwise import exp
from graphad.ops.indices import from_front, require
from graphad.ops.inference import check_index, matched, same_dtypes, same_float
from graphad.ops.joining import concat
from graphad.ops.like import expand_like
from graphad.ops.padding import pad
from graphad.ops.reduction import reduce_sum
from graphad.ops.shapes import transpose, unsqueeze
from graphad.ops.slicing import slice_
from graphad.types import Array, Shape, Tensor, TensorType

NEVER = -np.inf  # the logarithm of what is impossible

# -- sums over paths -----------------------------------------------------------------------------


def log_sum(x: Array, axis: int) -> Array:
    """``log(sum(exp(x)))`` along an axis; -inf where all elements are."""
    top = np.max(x, axis=axis, keepdims=True)
    # The largest term is taken out, so that exp cannot overflow; where all are impossible, -inf less -inf would be nan.
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(shift, axis) + np.log(np.sum(np.exp(x - shift), axis=axis)))


def lengths_of(Length: Array | None, batch: int, extent: int, what: str, least: int = 1) -> Array:
    """One length for each sequence, the whole extent if none is given; InvalidValue for one that is not there."""
    if extent < least:
        raise InvalidValue(f"{what}: sequences have the extent {extent}, and {least} or more is expected")
    if Length is None:
        return np.full(batch, extent, "int64")
    lengths = np.reshape(Length, (batch,)).astype("int64")
    require((lengths >= least) & (lengths <= extent), f"{what} has a length that is not between {least} and the extent {extent}")
    return lengths


def check_lengths(name: str, Length: TensorType | None, batch: int) -> None:
    """ShapeError unless there is one integer for each sequence, ``[N]`` or ``[N, 1]``."""
    if Length is None:
        return
    check_index(name, Length)
    shape = Length.shape
    if len(shape) not in (1, 2) or not matched(shape[0], batch) or not matched(shape[-1] if len(shape) == 2 else 1, 1):
        raise ShapeError(f"{name} is {Length}: one length for each of {batch} sequences is expected, [N] or [N, 1]")


def scaled(after: Array, before: Array) -> Array:
    """The logarithm of the scale of each step, ``[N, to, from]``: ``after - before``, -inf where either is impossible."""
    possible = np.isfinite(after)[:, :, None] & np.isfinite(before)[:, None, :]
    to, start = np.where(np.isfinite(after), after, 0.0), np.where(np.isfinite(before), before, 0.0)
    return np.where(possible, to[:, :, None] - start[:, None, :], NEVER)


def previous(x: Tensor) -> Tensor:
    """``x[:, t - 1]`` at ``[:, t]``, zeros at the first; of three axes."""
    return slice_(pad(x, paddings=[0, 0, 1, 0, 0, 0]), axes=[1], starts=[0], ends=[-1])


# -- a recurrence of matrices --------------------------------------------------------------------


def _recurrence_type(A: TensorType, B: TensorType, *, reverse: bool = False) -> TensorType:
    same_dtypes(A=same_float(A), B=B)
    if len(A.shape) != 4 or len(B.shape) != 3 or not all(map(matched, A.shape, (*B.shape, B.shape[-1]))):
        raise ShapeError(f"A is {A} but B is {B}: [N, T, S, S] and [N, T, S] are expected")
    return B


def _outer(rows: Tensor, columns: Tensor) -> Tensor:
    """``rows[t] columns[t - 1]^T``, zeros at the first."""
    return unsqueeze(rows, axes=[3]) * unsqueeze(previous(columns), axes=[2])


def _matrix_grad(A: Tensor, Out: Tensor, dOut: Tensor, *, reverse: bool) -> Tensor:
    # The recurrence is linear: its adjoint states obey the transposed one, and A[t] gets the outer product of the adjoint with the state
    # that it multiplied.
    adjoint = matrix_recurrence(A, dOut, reverse=not reverse)
    return _outer(Out, adjoint) if reverse else _outer(adjoint, Out)


@operator(
    "A B -> Out",
    infer=_recurrence_type,
    grad={"A": _matrix_grad, "B": lambda A, dOut, *, reverse: matrix_recurrence(A, dOut, reverse=not reverse)},
    rows="A B",
    partly_linear="B",
    costly=True,
)
def matrix_recurrence(A: Array, B: Array, *, reverse: bool = False) -> Array:
    """``Out[t] = A[t] Out[t-1] + B[t]`` along the second axis; ``reverse`` is its transpose, ``Out[t] = A[t+1]^T Out[t+1] + B[t]``."""
    count = B.shape[1]
    if not count:
        return B.copy()
    order = range(count - 2, -1, -1) if reverse else range(1, count)
    state = B[:, count - 1 if reverse else 0]
    states = [state]
    for t in order:
        # [N, D, D] times [N, D, 1]: all sequences at once, one step after the other.
        step = np.swapaxes(A[:, t + 1], 1, 2) if reverse else A[:, t]
        state = np.matmul(step, state[:, :, None])[:, :, 0] + B[:, t]
        states.append(state)
    return np.stack(states[::-1] if reverse else states, axis=1)


# -- conditional random fields -------------------------------------------------------------------


class Chain(NamedTuple):
    """Scores of linear chains in float64: of states ``[N, T, D]``, of the first and last one, and of steps ``[from, to]``."""

    states: Array
    first: Array
    last: Array
    steps: Array
    lengths: Array

    @property
    def live(self) -> Array:
        """Whether a step is within its sequence, ``[N, T]``."""
        return np.asarray(np.arange(self.states.shape[1]) < self.lengths[:, None])

    def forward(self) -> list[Array]:
        """For each step the logarithms of the sums over all paths up to each state; the last ones stay after a sequence's end."""
        # The forward algorithm on logarithms, as the products of many probabilities underflow (L. Rabiner, "A tutorial on hidden Markov
        # models", 1989).
        sums = [self.first + self.states[:, 0]]
        for t in range(1, self.states.shape[1]):
            logs = self.states[:, t] + log_sum(sums[-1][:, :, None] + self.steps, 1)
            sums.append(np.where(self.live[:, t, None], logs, sums[-1]))
        return sums

    def backward(self) -> list[Array]:
        """For each step the logarithms of the sums over all paths from each state on, without its own score."""
        sums = [np.broadcast_to(self.last, self.states[:, 0].shape)]
        for t in range(self.states.shape[1] - 1, 0, -1):
            logs = log_sum(self.steps + (self.states[:, t] + sums[-1])[:, None, :], 2)
            # Beyond a sequence's end the sums stay what they are at the end.
            sums.append(np.where(self.live[:, t, None], logs, sums[-1]))
        return sums[::-1]


def _chain(Emission: Array, Transition: Array, Length: Array | None) -> Chain:
    states, weights = Emission.astype("float64"), Transition.astype("float64")
    return Chain(states, weights[0], weights[1], weights[2:], lengths_of(Length, states.shape[0], states.shape[1], "Length"))


def _scored(Emission: TensorType, Transition: TensorType, Label: TensorType | None, Length: TensorType | None) -> Shape:
    same_dtypes(Emission=same_float(Emission), Transition=Transition)
    if len(Emission.shape) != 3 or 0 in Emission.shape[1:]:
        raise ShapeError(f"Emission is {Emission}: [N, T, D] is expected, with Length where sequences are shorter than T")
    batch, steps, tags = Emission.shape
    # Fluid's layout: row 0 has the weights of starts, row 1 those of ends, and row 2 + i those of steps from tag i.
    is_fitting = len(Transition.shape) == 2 and matched(Transition.shape[1], tags)
    if not is_fitting or not matched(Transition.shape[0], -1 if tags == -1 else tags + 2):
        raise ShapeError(f"Emission is {Emission} but Transition is {Transition}: [D + 2, D] is expected, starts and ends before the steps")
    if Label is not None:
        check_index("Label", Label)
        shape = Label.shape[:2] if len(Label.shape) == 3 and matched(Label.shape[2], 1) else Label.shape
        if len(shape) != 2 or not matched(shape[0], batch) or not matched(shape[1], steps):
            raise ShapeError(f"Emission is {Emission} but Label is {Label}: [N, T] or [N, T, 1] is expected")
    check_lengths("Length", Length, batch)
    return Emission.shape


def _crf_type(
    Emission: TensorType, Transition: TensorType, Label: TensorType, Length: TensorType | None = None
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    batch = _scored(Emission, Transition, Label, Length)[0]
    return Emission, Emission, Transition, TensorType((batch, 1), Emission.dtype)


def _labels(Label: Array, live: Array, tags: int) -> Array:
    """``[N, T]``, 0 after a sequence's end; InvalidValue for a label that is none."""
    return from_front("Label", np.where(live, np.reshape(Label, live.shape), 0), tags)


def _hits(labels: Array, live: Array, tags: int) -> Array:
    """Ones at the labels, ``[N, T, D]``."""
    return np.asarray((labels[:, :, None] == np.arange(tags)) & live[:, :, None]).astype("float64")


def _counts(hits: Array) -> Array:
    """How often each sequence starts, ends, and steps from tag to tag, ``[N, D + 2, D]``."""
    # A sequence ends with the tag that none follows.
    ends = hits - np.where(np.sum(_next(hits), 2, keepdims=True) > 0, hits, 0.0)
    # [D, T] times [T, D]: from tag i to tag j.
    steps = np.matmul(np.swapaxes(hits, 1, 2), _next(hits))
    return np.concatenate([hits[:, :1], np.sum(ends, 1, keepdims=True), steps], axis=1)


def _next(x: Array) -> Array:
    return np.concatenate([x[:, 1:], np.zeros_like(x[:, :1])], axis=1)


def _lattice_type(
    Emission: TensorType, Transition: TensorType, Label: TensorType, Length: TensorType | None = None
) -> tuple[TensorType, ...]:
    batch, steps, tags = _scored(Emission, Transition, Label, Length)
    shapes = ((batch, steps, tags, tags), (batch, steps, tags), (batch, steps, 1), (batch, steps, 1), (tags,))
    moves = TensorType((batch, Transition.shape[0], tags), Emission.dtype)
    return (*(TensorType(shape, Emission.dtype) for shape in shapes), TensorType((batch, steps, tags), Emission.dtype), moves)


@operator("Emission Transition Label Length? -> Offset First Live Last Ends Hits Moves", infer=_lattice_type, grad={}, costly=True)
def crf_lattice(
    Emission: Array, Transition: Array, Label: Array, Length: Array | None = None
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """The constants in derivatives of ``linear_chain_crf``: the scales of its lattice, masks, and counts of the labels.

    Offset scales the matrices ``[N, T, to, from]``, First the first states; Live and Last mark steps within a sequence and those of the
    last step; Ends are the scores of ends, Hits ones at the labels and Moves their steps.
    """
    chain = _chain(Emission, Transition, Length)
    batch, steps, tags = chain.states.shape
    sums = chain.backward()
    total = log_sum(chain.first + chain.states[:, 0] + sums[0], 1)
    # After the end of a sequence its paths stay in their tag: all sequences have the same number of steps.
    same_tag = np.where(np.eye(tags) > 0, 0.0, NEVER)
    never = np.full((batch, tags, tags), NEVER)
    scales = [np.where(chain.live[:, t, None, None], scaled(b, a), same_tag) for t, a, b in _pairs(sums)]
    offset = np.stack([never, *scales], axis=1)
    first = np.concatenate([(sums[0] - total[:, None])[:, None], np.full((batch, steps - 1, tags), NEVER)], axis=1)
    last = np.broadcast_to((np.arange(steps) == steps - 1)[:, None], (batch, steps, 1))
    hits = _hits(_labels(Label, chain.live, tags), chain.live, tags)
    parts = (offset, first, chain.live[:, :, None], last, chain.last, hits, _counts(hits))
    arrays = [np.asarray(part, dtype=Emission.dtype) for part in parts]
    return arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5], arrays[6]


def _pairs(rows: Sequence[Array]) -> list[tuple[int, Array, Array]]:
    return [(t, rows[t - 1], rows[t]) for t in range(1, len(rows))]


class _Marginals(NamedTuple):
    """The derivatives of the cost, in terms of operators."""

    emission: Tensor
    transition: Tensor


def _marginals(Emission: Tensor, Transition: Tensor, Label: Tensor, Length: Tensor, d: Tensor) -> _Marginals:
    lengths = () if Length is None else (Length,)
    offset, first, live_mask, last, ends, hits, moves = crf_lattice(Emission, Transition, Label, *lengths)
    start, end = slice_(Transition, axes=[0], starts=[0], ends=[1]), slice_(Transition, axes=[0], starts=[1], ends=[2])
    steps = unsqueeze(transpose(slice_(Transition, axes=[0], starts=[2], ends=[_FAR]), axis=[1, 0]), axes=[0, 1])
    scores = unsqueeze(Emission, axes=[3]) + steps
    # A[t][j, i] = exp(emission[t][j] + transition[i, j] + beta[t][j] - beta[t-1][i]), [N, T, to, from].
    A = exp(scores * unsqueeze(live_mask, axes=[3]) + offset)
    B = exp(Emission + unsqueeze(start, axes=[1]) + first)
    h = matrix_recurrence(A, B)
    leaving = exp(end - unsqueeze(ends, axes=[0]))  # ones, except for the derivative
    total = reduce_sum(h * last * leaving, dim=[1, 2], keep_dim=True)
    cotangent = unsqueeze(d, axes=[2])
    out = expand_like(last, h) * leaving * cotangent / total
    back = matrix_recurrence(A, out, reverse=True)
    # Probabilities times the cotangent: of tags [N, T, D], and below of steps from tag to tag.
    states = back * h * live_mask
    pairs = unsqueeze(back * live_mask, axes=[3]) * A * unsqueeze(previous(h), axes=[2])
    rows = [reduce_sum(back * B, dim=[0, 1]), reduce_sum(out * h, dim=[0, 1])]
    between = transpose(reduce_sum(pairs, dim=[0, 1]), axis=[1, 0])
    expected = concat([unsqueeze(rows[0], axes=[0]), unsqueeze(rows[1], axes=[0]), between], axis=0)
    return _Marginals(states - hits * cotangent, expected - reduce_sum(moves * cotangent, dim=[0]))


_FAR = (1 << 31) - 1


@operator(
    "Emission Transition Label Length? -> Alpha? EmissionExps? TransitionExps? LogLikelihood",
    infer=_crf_type,
    grad={
        "Emission": lambda Emission, Transition, Label, Length, dLogLikelihood: (
            _marginals(Emission, Transition, Label, Length, dLogLikelihood).emission
        ),
        "Transition": lambda Emission, Transition, Label, Length, dLogLikelihood: (
            _marginals(Emission, Transition, Label, Length, dLogLikelihood).transition
        ),
    },
    costly=True,
)
def linear_chain_crf(Emission: Array, Transition: Array, Label: Array, Length: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """The negative logarithms ``[N, 1]`` of the likelihoods of labels under linear-chain CRFs (J. Lafferty et al., 2001).

    Emission ``[N, T, D]`` are the scores of tags; of Transition the first row are those to start with a tag, the second to end with it, the
    others to go from a tag to another. Alpha are the forward sums, those of each step over their sum; as Paddle has them, EmissionExps and
    TransitionExps are the exponentials of scores. What is after Length is left out.
    """
    # In float64: sums of exponentials over long sequences lose digits in float32.
    chain = _chain(Emission, Transition, Length)
    sums = chain.forward()
    labels = _labels(Label, chain.live, chain.states.shape[2])
    hits = _hits(labels, chain.live, chain.states.shape[2])
    score = np.sum(hits * chain.states, axis=(1, 2)) + np.sum(_counts(hits) * Transition.astype("float64"), axis=(1, 2))
    # The normalizer over all label sequences, by the forward recursion, less the score of the given one.
    cost = log_sum(sums[-1] + chain.last, 1) - score
    alpha = np.stack([np.exp(row - log_sum(row, 1)[:, None]) for row in sums], axis=1)
    emissions = np.exp(chain.states - np.max(chain.states, axis=2, keepdims=True))
    dtype = Emission.dtype
    return alpha.astype(dtype), emissions.astype(dtype), np.exp(Transition), cost[:, None].astype(dtype)


@grad_kernel("linear_chain_crf")
def _fast_crf_grad(inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
    """The cotangents from the forward and backward sums, step by step."""
    Emission, Transition = inputs["Emission"][0], inputs["Transition"][0]
    chain = _chain(Emission, Transition, inputs["Length"][0] if inputs.get("Length") else None)
    d = inputs["LogLikelihood" + GRAD][0].astype("float64").reshape(-1, 1, 1)
    before, after = chain.forward(), chain.backward()
    total = log_sum(before[-1] + chain.last, 1)[:, None]
    hits = _hits(_labels(inputs["Label"][0], chain.live, chain.states.shape[2]), chain.live, chain.states.shape[2])
    # Marginals by the forward-backward algorithm (L. Rabiner, 1989): the derivative of the log-likelihood is counts of the labels less
    # expected counts.
    states = np.exp(np.stack(before, 1) + np.stack(after, 1) - total[:, None]) * chain.live[:, :, None]
    steps = np.zeros_like(chain.steps)
    for t, a, b in _pairs(before):
        del b
        # The probability of each transition: everything before, the step, everything after, over all paths.
        pairs = np.exp(a[:, :, None] + chain.steps + (chain.states[:, t] + after[t] - total)[:, None, :])
        steps = steps + np.sum(pairs * d * chain.live[:, t, None, None], axis=0)
    rows = [np.sum(states[:, :1] * d, axis=(0, 1)), np.sum(np.exp(before[-1] + chain.last - total) * d[:, 0], axis=0)]
    moves = np.concatenate([rows[0][None], rows[1][None], steps]) - np.sum(_counts(hits) * d, axis=0)
    cotangents = {"Emission" + GRAD: ((states - hits) * d).astype(Emission.dtype), "Transition" + GRAD: moves.astype(Emission.dtype)}
    return {slot: [cotangents[slot]] for slot in slots}


# -- the best path -------------------------------------------------------------------------------


def _path_type(
    Emission: TensorType, Transition: TensorType, Label: TensorType | None = None, Length: TensorType | None = None
) -> TensorType:
    return TensorType(_scored(Emission, Transition, Label, Length)[:2], "int64")


@operator("Emission Transition Label? Length? -> ViterbiPath", infer=_path_type, grad={}, costly=True)
def crf_decoding(Emission: Array, Transition: Array, Label: Array | None = None, Length: Array | None = None) -> Array:
    """The tags ``[N, T]`` of the likeliest paths (A. Viterbi, 1967), 0 after a sequence's end; with Label ones where a path has it."""
    chain = _chain(Emission, Transition, Length)
    live_mask, tags = chain.live, chain.states.shape[2]
    best, came = chain.first + chain.states[:, 0], list[Array]()
    # After a sequence's end every tag came from itself, so that going back passes through to its last step.
    stay = np.broadcast_to(np.arange(tags), best.shape)
    for t in range(1, live_mask.shape[1]):
        ways = best[:, :, None] + chain.steps
        came.append(np.where(live_mask[:, t, None], np.argmax(ways, axis=1), stay))
        best = np.where(live_mask[:, t, None], chain.states[:, t] + np.max(ways, axis=1), best)
    tag = np.argmax(best + chain.last, axis=1)[:, None]
    path = [tag]
    for places in reversed(came):
        tag = np.take_along_axis(places, tag, axis=1)
        path.append(tag)
    tags_found = np.where(live_mask, np.concatenate(path[::-1], axis=1), 0).astype("int64")
    return tags_found if Label is None else np.where(live_mask, tags_found == np.reshape(Label, live_mask.shape), False).astype("int64")
