"""Layers that label sequences: CTC, linear-chain CRFs, what follows from their best paths, and the distance to the right labels.

Sequences are padded, with a length for each where they are shorter; Fluid's forms of the same layers without lengths take levels of
detail (LoD), which are not here. The operators are in ``graphad.ops.ctc`` and ``graphad.ops.crf``.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_int
from graphad.layers.helper import AttrLike, LayerHelper, as_param_attr, checked_input, emitted, layer
from graphad.program import Parameter, Variable
from graphad.program.source import at_users_line


def _given(**tensors: object) -> dict[str, object]:
    """The slots that have a tensor."""
    return {slot: checked_input(slot, tensor) for slot, tensor in tensors.items() if tensor is not None}


# -- connectionist temporal classification -------------------------------------------------------


@layer
def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """The losses of connectionist temporal classification (A. Graves et al., 2006): of all ways to spell labels in steps.

    Args:
        input: scores ``[time, batch, classes]``, of which the softmax is taken.
        label: ``[batch, labels]``, integers.
        blank: the class that spells nothing.
        norm_by_times: whether gradients, but not losses, are divided by the number of steps, as Paddle has it.
        input_length: how many steps count, one number for each sequence; all of them if None.
        label_length: how many labels count; all of them if None.

    Returns:
        ``[batch, 1]``: negative logarithms of probabilities; 0 where the labels do not fit into the steps.

    Raises:
        ShapeError: the shapes do not fit, or the blank is no class.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     scores = ga.layers.assign([[[0.0, 0.0]], [[0.0, 0.0]]])  # two steps, one sequence, two classes
    ...     loss = ga.layers.warpctc(scores, ga.layers.assign([[1]]))
    >>> f"{ga.Executor().run(program, fetch_list=[loss])[0].item():.4f}"  # 3 of 4 paths spell it
    '0.2877'
    """
    with at_users_line("layers.warpctc"):
        attrs = {"blank": checked_int("blank", blank, 0), "norm_by_times": checked_flag("norm_by_times", norm_by_times)}
        inputs = _given(Logits=input, Label=label, LogitsLength=input_length, LabelLength=label_length)
    _, loss = LayerHelper("warpctc").append_all("warpctc", inputs, ("WarpCTCGrad", "Loss"), attrs, stopped=("WarpCTCGrad",))
    return loss


@layer
def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable | None = None,
    label_lengths: Variable | None = None,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Variable:
    """``warpctc`` under Paddle 2's name: with "mean" losses are divided by the numbers of labels first.

    Args:
        log_probs: scores ``[time, batch, classes]``; the softmax is taken, which leaves logarithms of probabilities as they are.
        labels, input_lengths, label_lengths, blank, norm_by_times: those of ``warpctc``.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: there is no such reduction.
    """
    with at_users_line("layers.ctc_loss"):
        if reduction not in ("mean", "sum", "none"):
            raise InvalidValue(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    loss = warpctc(log_probs, labels, blank, norm_by_times, input_lengths, label_lengths).squeeze(-1)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    # Paddle 2's mean divides each loss by its labels before the mean over the batch.
    if label_lengths is None:
        return (loss / max(labels.shape[1], 1)).mean()
    return (loss / label_lengths.reshape(-1).astype(loss.dtype).maximum(1.0)).mean()


@layer
def ctc_greedy_decoder(
    input: Variable, blank: int, input_length: Variable | None = None, padding_value: int = 0, name: str | None = None
) -> Variable | tuple[Variable, Variable]:
    """The labels that the likeliest class of each step spells: repeated ones once, without blanks.

    Args:
        input: probabilities or scores ``[batch, time, classes]``.
        blank: the class that spells nothing.
        input_length: how many steps count, one number for each sequence.
        padding_value: what is after the labels of a sequence.

    Returns:
        The labels ``[batch, time]``; with ``input_length`` also how many there are, ``[batch, 1]``, both int64.
    """
    scores = checked_input("ctc_greedy_decoder", input)
    with at_users_line("layers.ctc_greedy_decoder"):
        if scores.ndim != 3:
            raise ShapeError(f"input is [batch, time, classes], not {scores!r}: pad sequences and say input_length")
        attrs = {"blank": checked_int("blank", blank, 0), "padding_value": checked_int("padding_value", padding_value)}
        lengths = _given(InputLength=input_length)
    # The likeliest class of each step, which need not be the likeliest labeling (best path decoding: A. Graves et al., 2006).
    best = scores.argmax(-1)
    helper = LayerHelper("ctc_greedy_decoder", name)
    labels, count = helper.append_all("ctc_align", {"Input": best, **lengths}, ("Output", "OutputLength"), attrs)
    return labels if input_length is None else (labels, count)


@layer
def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """The edit distance between two sequences, in insertions, deletions and replacements (V. Levenshtein, 1966).

    Args:
        input: ``[batch, time]``, integers.
        label: ``[batch, labels]``, what is right.
        normalized: whether the number is divided by that of the right labels.
        ignored_tokens: None: labels are left out before, as ``ctc_greedy_decoder`` does with a blank.
        input_length, label_length: how many labels count, one number for each sequence; all of them if None.

    Returns:
        The distances ``[batch, 1]``, float32, and the number of sequences, ``[1]``.

    Raises:
        TypeError: ``ignored_tokens`` is given.
    """
    with at_users_line("layers.edit_distance"):
        if ignored_tokens:
            raise InvalidType(f"ignored_tokens={ignored_tokens!r} would shorten padded sequences: leave them out in numpy before")
        checked_flag("normalized", normalized)
        inputs = _given(Hyps=input, Refs=label, HypsLength=input_length, RefsLength=label_length)
    helper = LayerHelper("edit_distance")
    count, distance = helper.append_all("edit_distance", inputs, ("SequenceNum", "Out"), {"normalized": normalized})
    return distance, count


# -- linear chains -------------------------------------------------------------------------------


@layer
def linear_chain_crf(input: Variable, label: Variable, param_attr: AttrLike = None, length: Variable | None = None) -> Variable:
    """The costs of labels under a linear-chain CRF (J. Lafferty et al., 2001): negative logarithms of their likelihoods.

    Args:
        input: scores of tags, ``[batch, time, tags]``.
        label: ``[batch, time]`` or ``[batch, time, 1]``, integers.
        param_attr: how the transitions are made, of shape ``[tags + 2, tags]``: to start with a tag, to end with it, and from each to each.
        length: how many steps count, one number for each sequence; all of them if None.

    Returns:
        ``[batch, 1]``.

    Raises:
        ShapeError: the input has not three axes, or the number of tags is unknown.
    """
    scores = checked_input("linear_chain_crf", input)
    with at_users_line("layers.linear_chain_crf"):
        if scores.ndim != 3 or scores.shape[2] < 1:
            raise ShapeError(f"input is [batch, time, tags] with a known number of tags, not {scores!r}: pad sequences and say length")
        inputs = _given(Label=label, Length=length)
    helper = LayerHelper("linear_chain_crf")
    tags = scores.shape[2]
    # Two rows more than tags: the scores to begin with each tag, and to end with it.
    weights = helper.parameter(param_attr, "w", [tags + 2, tags], scores.dtype)
    sides = ("Alpha", "EmissionExps", "TransitionExps")
    operands = {"Emission": scores, "Transition": weights, **inputs}
    return helper.append_all("linear_chain_crf", operands, (*sides, "LogLikelihood"), stopped=sides)[-1]


@layer
def crf_decoding(input: Variable, param_attr: AttrLike, label: Variable | None = None, length: Variable | None = None) -> Variable:
    """The likeliest tags under a linear-chain CRF (A. Viterbi, 1967).

    Args:
        input: scores of tags, ``[batch, time, tags]``.
        param_attr: the name of the transitions that ``linear_chain_crf`` has made, as a ParamAttr or a text, or the parameter itself.
        label: ``[batch, time]``; if given, the result says where the path agrees with it.
        length: how many steps count, one number for each sequence.

    Returns:
        ``[batch, time]``, int64: the tags, 0 after a sequence's end; or 1 where they are those of ``label``, else 0.

    Raises:
        ValueError: there is no such parameter.
    """
    scores = checked_input("crf_decoding", input)
    with at_users_line("layers.crf_decoding"):
        weights = param_attr if isinstance(param_attr, Variable) else _existing(scores, param_attr)
        inputs = _given(Label=label, Length=length)
    slots = {"Label": inputs.get("Label"), "Length": inputs.get("Length")}
    return emitted("crf_decoding", [scores, weights, *slots.values()])  # type: ignore[no-any-return]


def _existing(beside: Variable, attr: AttrLike) -> Variable:
    """The parameter that an attr names."""
    name = as_param_attr(attr).name
    block = beside.block.program.global_block()
    if name is None or not isinstance(block.vars.get(name), Parameter):
        names = [parameter.name for parameter in beside.block.program.all_parameters()]
        listing = ", ".join(names) or "none"
        raise InvalidValue(f"param_attr names the transitions of linear_chain_crf, not {name!r}; parameters are {listing}")
    return block.vars[name]
