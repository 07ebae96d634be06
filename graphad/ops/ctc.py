"""Labels of sequences without an alignment: CTC, what follows from its best path, and the distance between sequences of labels.

CTC is A. Graves et al., "Connectionist temporal classification", 2006: the labels with a blank before, between and after them are the
states of a lattice, and a path stays, goes one state on, or two over a blank between different labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import log_softmax, softmax
from graphad.ops.crf import NEVER, check_lengths, lengths_of, log_sum, matrix_recurrence, scaled
from graphad.ops.definition import GRAD, Inputs, Outputs, grad_kernel, operator
from graphad.ops.elementwise import exp
from graphad.ops.indexing import added_rows
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched, same_float
from graphad.ops.like import expand_like
from graphad.ops.linalg import matmul_v2
from graphad.ops.reduction import reduce_sum
from graphad.ops.shapes import transpose, unsqueeze
from graphad.types import Array, Tensor, TensorType

# -- the lattice ---------------------------------------------------------------------------------


class _Lattice(NamedTuple):
    """The lattice that CTC sums over, in float64: ``N`` sequences of ``T`` steps over ``S = 2 L + 1`` states.

    Attributes:
        log_probs: of the classes, ``[N, T, C]``.
        classes: the class of each state, ``[N, S]``.
        skips: whether a state is reached from two states before, ``[N, S]``.
        ends: whether a path ends in a state, ``[N, S]``.
        live: whether a step is within its sequence, ``[N, T]``.
    """

    log_probs: Array
    classes: Array
    skips: Array
    ends: Array
    live: Array

    @property
    def emitted(self) -> Array:
        """The logarithms of the probabilities of the states' classes, ``[N, T, S]``."""
        return np.asarray(np.take_along_axis(self.log_probs, self.classes[:, None, :], axis=2))

    @property
    def first(self) -> Array:
        """0 for the states that a path begins in, -inf for others, ``[S]``."""
        return np.where(np.arange(self.classes.shape[1]) < 2, 0.0, NEVER)

    def forward(self, emitted: Array) -> list[Array]:
        """For each step the logarithms of the sums over all paths up to each state; the last ones stay after a sequence's end."""
        sums = [self.first + emitted[:, 0]]
        for t in range(1, emitted.shape[1]):
            # From the same state, the one before, or, past a blank between different labels, the one before that (A. Graves et al., 2006,
            # eq. 6).
            ways = [sums[-1], _moved(sums[-1], 1), np.where(self.skips, _moved(sums[-1], 2), NEVER)]
            sums.append(np.where(self.live[:, t, None], log_sum(np.stack(ways), 0) + emitted[:, t], sums[-1]))
        return sums

    def backward(self, emitted: Array) -> list[Array]:
        """For each step the logarithms of the sums over all paths from each state on, without its own probability."""
        sums = [np.where(self.ends, 0.0, NEVER)]
        for t in range(emitted.shape[1] - 1, 0, -1):
            logs = sums[-1] + emitted[:, t]
            # The steps of ``forward`` from their ends: whether two states are skipped is said at the later one, so it is masked before it
            # is moved.
            ways = [logs, _moved(logs, -1), _moved(np.where(self.skips, logs, NEVER), -2)]
            sums.append(np.where(self.live[:, t, None], log_sum(np.stack(ways), 0), sums[-1]))
        return sums[::-1]

    def total(self, sums: Sequence[Array]) -> Array:
        """The logarithm of the sum over all paths, ``[N]``; -inf where the labels do not fit into the steps."""
        return log_sum(np.where(self.ends, sums[-1], NEVER), 1)


def _moved(x: Array, by: int) -> Array:
    """The states of a step, some places later (or earlier), -inf where there is none."""
    if abs(by) >= x.shape[1]:
        return np.full_like(x, NEVER)
    gap = np.full_like(x[:, : abs(by)], NEVER)
    return np.concatenate([gap, x[:, :-by]] if by > 0 else [x[:, -by:], gap], axis=1)


def _lattice(Logits: Array, Label: Array, LogitsLength: Array | None, LabelLength: Array | None, blank: int) -> _Lattice:
    steps, batch, classes = Logits.shape
    count = Label.size // batch if batch else 0
    labels = np.reshape(Label, (batch, count))
    lengths = lengths_of(LabelLength, batch, count, "LabelLength", 0)
    labels = from_front("Label", np.where(np.arange(count) < lengths[:, None], labels, blank), classes)
    # Blanks around all labels: state 2 i + 1 is label i (A. Graves et al., "Connectionist temporal classification", 2006, section 4.1).
    between = np.full((batch, 1), blank, labels.dtype)
    states = np.concatenate([between, *(part for i in range(count) for part in (labels[:, i : i + 1], between))], axis=1)
    place = np.arange(2 * count + 1)
    before = np.concatenate([states[:, :1], states[:, :1], states[:, :-2]], axis=1)[:, : 2 * count + 1]
    # A path may leave out the blank between two labels that differ; equal ones would be merged without it.
    skips = (states != before) & (states != blank) & (place > 1)
    # A path ends in the last label or in the blank after it.
    ends = (place == 2 * lengths[:, None]) | (place == 2 * lengths[:, None] - 1)
    live = np.arange(steps) < lengths_of(LogitsLength, batch, steps, "LogitsLength")[:, None]
    scores = np.transpose(Logits.astype("float64"), (1, 0, 2))
    return _Lattice(scores - log_sum(scores, 2)[:, :, None], states, skips, ends, np.asarray(live))


# -- connectionist temporal classification -------------------------------------------------------


def _check_ctc(
    Logits: TensorType, Label: TensorType, LogitsLength: TensorType | None, LabelLength: TensorType | None, blank: int
) -> tuple[int, int, int, int]:
    """The extents T, N, C and S."""
    same_float(Logits)
    check_index("Label", Label)
    if len(Logits.shape) != 3 or 0 in (Logits.shape[0], Logits.shape[2]):
        raise ShapeError(f"Logits is {Logits}: [T, N, C] is expected, with LogitsLength where sequences are shorter than T")
    steps, batch, classes = Logits.shape
    if not 0 <= blank < (classes if classes != -1 else blank + 1):
        raise ShapeError(f"Logits is {Logits}, of {classes} classes: blank={blank} is none of them")
    shape = Label.shape[:2] if len(Label.shape) == 3 and matched(Label.shape[2], 1) else Label.shape
    if len(shape) != 2 or not matched(shape[0], batch):
        raise ShapeError(f"Logits is {Logits} but Label is {Label}: [N, L] is expected, with LabelLength where labels are fewer than L")
    check_lengths("LogitsLength", LogitsLength, batch)
    check_lengths("LabelLength", LabelLength, batch)
    return steps, batch, classes, -1 if shape[1] == -1 else 2 * shape[1] + 1


def _ctc_type(
    Logits: TensorType,
    Label: TensorType,
    LogitsLength: TensorType | None = None,
    LabelLength: TensorType | None = None,
    *,
    blank: int = 0,
    norm_by_times: bool = False,
) -> tuple[TensorType, TensorType]:
    _, batch, _, _ = _check_ctc(Logits, Label, LogitsLength, LabelLength, blank)
    return Logits, TensorType((batch, 1), Logits.dtype)


def _lattice_type(
    Logits: TensorType, Label: TensorType, LogitsLength: TensorType | None = None, LabelLength: TensorType | None = None, *, blank: int = 0
) -> tuple[TensorType, ...]:
    steps, batch, classes, states = _check_ctc(Logits, Label, LogitsLength, LabelLength, blank)
    shapes = ((batch, states, classes), (batch, steps, states, states), (batch, steps, states), (batch, steps, 1), (batch, steps, 1))
    return tuple(TensorType(shape, Logits.dtype) for shape in shapes)


@operator("Logits Label LogitsLength? LabelLength? -> Classes Offset First Live Last", infer=_lattice_type, grad={}, costly=True)
def ctc_lattice(
    Logits: Array, Label: Array, LogitsLength: Array | None = None, LabelLength: Array | None = None, *, blank: int = 0
) -> tuple[Array, Array, Array, Array, Array]:
    """The constants in derivatives of ``warpctc``: its lattice and the scales of that (``crf_lattice`` has those of a CRF).

    Classes has a one at the class of each state; Offset scales the matrices ``[N, T, to, from]`` and is -inf where there is no way, First
    the first states; Live marks steps within a sequence, and Last the last step of sequences that the labels fit into.
    """
    lattice = _lattice(Logits, Label, LogitsLength, LabelLength, blank)
    emitted = lattice.emitted
    sums, total = lattice.backward(emitted), lattice.total(lattice.forward(emitted))
    batch, steps, states = emitted.shape
    possible = np.isfinite(total)[:, None]
    to, start = np.arange(states)[:, None], np.arange(states)
    # A state is stayed in, left for the next, or for the one after that where no blank is needed in between (A. Graves et al., 2006).
    ways = (to == start) | (to == start + 1) | ((to == start + 2) & lattice.skips[:, :, None])
    # After a sequence's end states stay as they are.
    stay = np.where(np.eye(states) > 0, 0.0, NEVER)
    scales = [np.where(lattice.live[:, t, None, None], np.where(ways, scaled(sums[t], sums[t - 1]), NEVER), stay) for t in range(1, steps)]
    offset = np.stack([np.full((batch, states, states), NEVER), *scales], axis=1)
    starts = np.where(possible, lattice.first + sums[0] - np.where(possible, total[:, None], 0.0), NEVER)
    first = np.concatenate([starts[:, None], np.full((batch, steps - 1, states), NEVER)], axis=1)
    last = ((np.arange(steps) == steps - 1) & possible)[:, :, None]
    hits = lattice.classes[:, :, None] == np.arange(Logits.shape[2])
    arrays = [np.asarray(part, dtype=Logits.dtype) for part in (hits, offset, first, lattice.live[:, :, None], last)]
    return arrays[0], arrays[1], arrays[2], arrays[3], arrays[4]


def _ctc_grad(
    Logits: Tensor,
    Label: Tensor,
    LogitsLength: Tensor,
    LabelLength: Tensor,
    dLoss: Tensor,
    WarpCTCGrad: Tensor | None = None,
    *,
    blank: int,
    norm_by_times: bool,
) -> Tensor:
    """The probabilities of classes, less those of the states that have them. WarpCTCGrad is for the kernel by hand."""
    classes, offset, first, live_mask, last = ctc_lattice(Logits, Label, LogitsLength, LabelLength, blank=blank)
    scores = transpose(Logits, axis=[1, 0, 2])
    emitted = matmul_v2(log_softmax(scores, axis=-1), classes, trans_y=True) * live_mask
    # The lattice as a linear recurrence over matrices, forward and backward; probabilities of states are products of the two.
    A, B = exp(unsqueeze(emitted, axes=[3]) + offset), exp(emitted + first)
    h = matrix_recurrence(A, B)
    # Of sequences without a path, such as empty ones, the divisor is 1 and everything else 0.
    total = reduce_sum(h * last, dim=[1, 2], keep_dim=True) + (1.0 - reduce_sum(last, dim=[1], keep_dim=True))
    back = matrix_recurrence(A, expand_like(last, h) * unsqueeze(dLoss, axes=[2]) / total, reverse=True)
    states = matmul_v2(back * h * live_mask, classes)
    grad = softmax(scores, axis=-1) * reduce_sum(states, dim=[2], keep_dim=True) - states
    if norm_by_times:
        grad = grad / reduce_sum(live_mask, dim=[1], keep_dim=True)
    return transpose(grad, axis=[1, 0, 2])


@operator(
    "Logits Label LogitsLength? LabelLength? -> WarpCTCGrad? Loss",
    infer=_ctc_type,
    grad={"Logits": _ctc_grad},
    costly=True,
)
def warpctc(
    Logits: Array,
    Label: Array,
    LogitsLength: Array | None = None,
    LabelLength: Array | None = None,
    *,
    blank: int = 0,
    norm_by_times: bool = False,
) -> tuple[Array, Array]:
    """The losses ``[N, 1]`` of CTC for Logits ``[T, N, C]``: negative logarithms of the probabilities that the steps spell the labels.

    Where labels do not fit into the steps the loss is 0, and so is its gradient, as in warp-ctc. WarpCTCGrad is the derivative of the sum
    of the losses. With ``norm_by_times`` gradients, but not losses, are divided by the number of steps, as Paddle has it.
    """
    lattice = _lattice(Logits, Label, LogitsLength, LabelLength, blank)
    emitted = lattice.emitted
    before, after = lattice.forward(emitted), lattice.backward(emitted)
    total = lattice.total(before)
    possible = np.isfinite(total)
    shift = np.where(possible, total, 0.0)[:, None, None]
    # The probability of being in each state, alpha beta / p (A. Graves et al., 2006, section 4.2), [N, T, S].
    states = np.exp(np.stack(before, 1) + np.stack(after, 1) - shift)
    batch, steps, classes = lattice.log_probs.shape
    ids = (np.arange(batch)[:, None] * classes + lattice.classes).reshape(-1)
    # A class has several states: blanks, and labels that occur again. Of them all: softmax - sum of probabilities is the gradient of the
    # loss.
    rows = added_rows(np.swapaxes(states, 1, 2).reshape(-1, steps), ids, batch * classes).reshape(batch, classes, steps)
    grad = np.where((lattice.live & possible[:, None])[:, :, None], np.exp(lattice.log_probs) - np.swapaxes(rows, 1, 2), 0.0)
    loss = np.where(possible, -np.where(possible, total, 0.0), 0.0)
    return np.transpose(grad, (1, 0, 2)).astype(Logits.dtype), loss[:, None].astype(Logits.dtype)


@grad_kernel("warpctc")
def _fast_ctc_grad(inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
    """The cotangent from the derivative that the forward operator has computed."""
    if inputs.get("WarpCTCGrad"):
        grad = inputs["WarpCTCGrad"][0]
    else:
        # Only a program that dropped the forward's second output is without it.
        operands = (inputs[slot][0] if inputs.get(slot) else None for slot in ("Logits", "Label", "LogitsLength", "LabelLength"))
        grad = warpctc.kernel(*operands, blank=attrs.get("blank", 0))[0]
    steps, batch = grad.shape[:2]
    d = inputs["Loss" + GRAD][0].reshape(1, -1, 1)
    if attrs.get("norm_by_times", False):
        length = inputs["LogitsLength"][0] if inputs.get("LogitsLength") else None
        d = d / lengths_of(length, batch, steps, "LogitsLength").reshape(1, -1, 1).astype(grad.dtype)
    return {slot: [grad * d] for slot in slots}


# -- labels of the best path ---------------------------------------------------------------------


def _align_type(
    Input: TensorType,
    InputLength: TensorType | None = None,
    *,
    blank: int = 0,
    merge_repeated: bool = True,
    padding_value: int = 0,
) -> tuple[TensorType, TensorType]:
    check_index("Input", Input)
    if len(Input.shape) != 2:
        raise ShapeError(f"Input is {Input}: [N, T] is expected, with InputLength where sequences are shorter than T")
    check_lengths("InputLength", InputLength, Input.shape[0])
    return Input, TensorType((Input.shape[0], 1), Input.dtype)


@operator("Input InputLength? -> Output OutputLength", infer=_align_type, grad={}, costly=True)
def ctc_align(
    Input: Array, InputLength: Array | None = None, *, blank: int = 0, merge_repeated: bool = True, padding_value: int = 0
) -> tuple[Array, Array]:
    """The labels ``[N, T]`` that paths spell: repeated ones once, without blanks, ``padding_value`` after them; and how many there are."""
    batch, steps = Input.shape
    live = np.arange(steps) < lengths_of(InputLength, batch, steps, "InputLength", 0)[:, None]
    earlier = np.concatenate([np.full((batch, min(steps, 1)), blank, Input.dtype), Input[:, :-1]], axis=1)
    mask = live & (Input != blank)
    mask = mask & (Input != earlier) if merge_repeated else mask
    # A stable sort brings the labels that stay to the front, in their order.
    order = np.argsort(~mask, axis=1, kind="stable")
    count = np.sum(mask, axis=1, keepdims=True)
    labels = np.where(np.arange(steps) < count, np.take_along_axis(Input, order, axis=1), padding_value)
    return labels.astype(Input.dtype), count.astype(Input.dtype)


# -- distances -----------------------------------------------------------------------------------


def _distance_type(
    Hyps: TensorType,
    Refs: TensorType,
    HypsLength: TensorType | None = None,
    RefsLength: TensorType | None = None,
    *,
    normalized: bool = False,
) -> tuple[TensorType, TensorType]:
    check_index("Hyps", Hyps)
    check_index("Refs", Refs)
    if len(Hyps.shape) != 2 or len(Refs.shape) != 2 or not matched(Hyps.shape[0], Refs.shape[0]):
        raise ShapeError(f"Hyps is {Hyps} but Refs is {Refs}: [N, T] and [N, L] are expected")
    batch = max(Hyps.shape[0], Refs.shape[0])
    check_lengths("HypsLength", HypsLength, batch)
    check_lengths("RefsLength", RefsLength, batch)
    return TensorType((1,), "int64"), TensorType((batch, 1), "float32")


@operator("Hyps Refs HypsLength? RefsLength? -> SequenceNum Out", infer=_distance_type, grad={}, costly=True)
def edit_distance(
    Hyps: Array, Refs: Array, HypsLength: Array | None = None, RefsLength: Array | None = None, *, normalized: bool = False
) -> tuple[Array, Array]:
    """The edit distance, in insertions, deletions and replacements, between Hyps and Refs (V. Levenshtein, 1966), ``[N, 1]``; and N.

    With ``normalized`` the number is divided by that of the labels of Refs, or by 1 where there are none.
    """
    batch, steps = Hyps.shape
    hyps, refs = lengths_of(HypsLength, batch, steps, "HypsLength", 0), lengths_of(RefsLength, batch, Refs.shape[1], "RefsLength", 0)
    place = np.arange(Refs.shape[1] + 1)
    row = np.broadcast_to(place, (batch, len(place)))
    ends = np.minimum(refs, Refs.shape[1])[:, None]
    distances = np.take_along_axis(row, ends, axis=1)
    for t in range(steps):
        substitutions = row[:, :-1] + (Refs != Hyps[:, t : t + 1])
        way = np.concatenate([row[:, :1] + 1, np.minimum(row[:, 1:] + 1, substitutions)], axis=1)
        # Each label put in costs 1: less its place, a chain of them is a running minimum.
        row = np.minimum.accumulate(way - place, axis=1) + place  # labels of Refs that are put in
        distances = np.where((hyps == t + 1)[:, None], np.take_along_axis(row, ends, axis=1), distances)
    distance = distances.astype("float32")
    if normalized:
        distance = distance / np.maximum(refs, 1)[:, None].astype("float32")
    return np.full(1, batch, "int64"), distance
