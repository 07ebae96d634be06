"""Decoders as Fluid 1.8 has them: steps of a cell until all sequences are finished, with a beam or by a helper.

A decoder says what the first step gets and what a step does; ``dynamic_decode`` is the loop. Sequences are padded: where Fluid's
operators ``beam_search`` and ``beam_search_decode`` have levels of detail (LoD), there are as many rows for each sequence as the beam is
wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers import nest
from graphad.layers.arrays import array_write, fresh_array
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.fluid import While
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.layers.sampled import sampling_id
from graphad.layers.tensor import assign, fill_constant
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import FLOATS

Structure = Any  # a Variable, or lists, tuples and dicts of them
LEAST = -1e9  # the logarithm of a probability that is never chosen

# -- the loop --------------------------------------------------------------------------------------


class Decoder:
    """An interface for ``dynamic_decode``: subclasses define ``initialize`` and ``step``, and ``finalize`` if results need it.

    ``tracks_own_finished`` says that ``step`` itself keeps finished sequences finished, as a beam has to, whose rows change places.
    """

    def initialize(self, inits: Structure) -> tuple[Structure, Structure, Structure]:
        """The inputs of the first step, the first states, and which sequences are finished already."""
        raise InvalidType(f"{type(self).__name__} does not define initialize(inits)")

    def step(
        self, time: Variable, inputs: Structure, states: Structure, **kwargs: object
    ) -> tuple[Structure, Structure, Structure, Structure]:
        """The outputs of a step, the next states, the inputs of the next step, and which sequences are finished then."""
        raise InvalidType(f"{type(self).__name__} does not define step(time, inputs, states)")

    def finalize(self, outputs: Structure, final_states: Structure, sequence_lengths: Structure) -> tuple[Structure, Structure]:
        """The outputs of all steps, time first, and the last states as ``dynamic_decode`` returns them."""
        return outputs, final_states

    @property
    def tracks_own_finished(self) -> bool:
        """Whether a step's ``finished`` is final, rather than to be joined with what was finished before."""
        return False


@layer
def dynamic_decode(
    decoder: Decoder,
    inits: object = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: object,
) -> Structure:
    """Run the steps of a decoder until all sequences are finished.

    Args:
        decoder: a ``BeamSearchDecoder``, a ``BasicDecoder`` or another ``Decoder``.
        inits: what its ``initialize`` takes: the cell's first states.
        max_step_num: the number of the last step, counted from 0, which runs even if a sequence is not finished; None for no bound.
        output_time_major: whether outputs stay ``[time, batch, ...]``.
        impute_finished: whether the states of a finished sequence stay as they were.
        is_test: say that no gradient will be requested.
        return_length: whether the lengths of the sequences are returned as well.
        kwargs: passed on to the decoder's ``step``.

    Returns:
        The outputs, ``[batch, time, ...]``, the last states, and with ``return_length`` the lengths, int64 ``[batch]`` (of a beam
        ``[batch, beam]``).

    Raises:
        TypeError: an argument is something else.
        ValueError: a step gives states or inputs of another structure than the first ones.

    >>> import numpy as np
    >>> import graphad as ga
    >>> table = np.log([[0.1, 0.6, 0.3], [0.2, 0.1, 0.7], [0.3, 0.3, 0.4]])  # which token follows which; 2 is the end
    >>> def follows(inputs, states):
    ...     return ga.layers.gather(ga.layers.assign(table), inputs), states
    >>> with ga.program_guard(ga.Program()) as program:
    ...     decoder = ga.layers.BeamSearchDecoder(follows, start_token=0, end_token=2, beam_size=2)
    ...     outputs, _ = ga.layers.dynamic_decode(decoder, ga.layers.zeros([1, 1], "float64"), max_step_num=4)
    >>> ids = ga.Executor().run(program, fetch_list=[outputs])[0]
    >>> ids[0].T.tolist()  # the two best sequences of the one batch
    [[1, 2], [2, 2]]
    """
    with at_users_line("layers.dynamic_decode"):
        if not isinstance(decoder, Decoder):
            raise InvalidType(f"decoder is a Decoder, such as BeamSearchDecoder(cell, ...), not {decoder!r}")
        last = None if max_step_num is None else checked_int("max_step_num", max_step_num, 0)
        is_major, keeps = checked_flag("output_time_major", output_time_major), checked_flag("impute_finished", impute_finished)
        has_lengths = checked_flag("return_length", return_length)
    outputs, states, lengths = _decoded(decoder, decoder.initialize(inits), last, keeps, is_test, kwargs)
    final_outputs, final_states = decoder.finalize(outputs, states, lengths)
    if not is_major:
        final_outputs = nest.pack(final_outputs, map(_batch_first, nest.flatten(final_outputs)))
    return (final_outputs, final_states, lengths) if has_lengths else (final_outputs, final_states)


def _decoded(
    decoder: Decoder,
    first: tuple[Structure, Structure, Structure],
    last: int | None,
    keeps: bool,
    is_test: bool,
    options: dict[str, object],
) -> tuple[Structure, Structure, Variable]:
    """The outputs of all steps, time first, the last states, and the lengths."""
    # What the loop overwrites are copies: what was passed in keeps its value.
    inputs, states, finished = (nest.pack(item, map(assign, nest.flatten(item))) for item in first)
    finished.stop_gradient = True
    time = fill_constant([1], "int64", 0)
    # In the shape of ``finished``: [batch], of a beam [batch, beam].
    lengths = emitted("cast", [emitted("fill_zeros_like", [finished])], out_dtype="int64")
    goes_on = ~_all(finished)
    around = default_main_program().current_block()
    helper = LayerHelper("dynamic_decode")
    arrays: list[Variable] = []
    with While(goes_on, is_test).block():
        outputs, next_states, next_inputs, next_finished = decoder.step(time, inputs, states, **options)
        next_lengths = lengths
        if not decoder.tracks_own_finished:
            next_finished = next_finished | finished
            # By what was finished before: the step that ends a sequence is part of it.
            next_lengths = lengths + emitted("cast", [~finished], out_dtype="int64")
            if keeps:
                next_states = _mapped(lambda new, old: _kept(old, new, finished), next_states, states)
        # The rows of a beam change places, and their lengths with them: the decoder counts itself.
        elif hasattr(next_states, "lengths"):
            next_lengths = next_states.lengths
        for output in nest.flatten(outputs):
            # How many outputs there are, a step says: their arrays begin outside of the loop.
            arrays.append(fresh_array(around, f"{helper.name}.out", output))
            array_write(output, time, arrays[-1])
        _overwrite("inputs", inputs, next_inputs)
        _overwrite("states", states, next_states)
        _overwrite("finished", finished, next_finished)
        _overwrite("lengths", lengths, next_lengths)
        default_main_program().current_block().append_op("increment", {"X": time}, {"Out": time}, {"step": 1.0})
        more = ~_all(finished)
        # ``time`` is that of the next step.
        assign(more if last is None else more & (time <= last), goes_on)
    stacked = [emitted("tensor_array_to_tensor", [array], axis=0, use_stack=True) for array in arrays]
    return nest.pack(outputs, stacked), states, lengths


def _all(flags: Variable) -> Variable:
    """One boolean, [1]."""
    return emitted("reshape", [emitted("reduce_all", [flags], reduce_all=True)], shape=[1])  # type: ignore[no-any-return]


def _mapped(function: Callable[..., object], structure: Structure, *others: Structure) -> Structure:
    """A structure of what a function makes of its leaves, and of those of others like it."""
    return nest.pack(structure, map(function, *map(nest.flatten, (structure, *others))))


def _batch_first(x: Variable) -> Variable:
    return emitted("transpose", [x], axis=[1, 0, *range(2, x.ndim)])  # type: ignore[no-any-return]


def _kept(old: Variable, new: Variable, flags: Variable) -> Variable:
    """``old`` for the rows that the flags mark, else ``new``."""
    rows = emitted("reshape", [flags], shape=[-1, *[1] * (new.ndim - 1)])
    return emitted("where", [rows, old, new])  # type: ignore[no-any-return]


def _overwrite(what: str, variables: Structure, values: Structure) -> None:
    difference = nest.difference(variables, values)
    if difference is not None:
        path, there, here = difference
        raise InvalidValue(
            f"layers.dynamic_decode: the first {what} have {there} at {nest.subscripts(path) or 'the top'}, those of a step {here}"
        )
    # All are read before one is written: a step may swap its states.
    copies = [assign(value) for value in nest.flatten(values)]
    for variable, value in zip(nest.flatten(variables), copies, strict=True):
        assign(value, variable)


# -- beams -----------------------------------------------------------------------------------------


class BeamSearchDecoder(Decoder):
    """Keeps the ``beam_size`` likeliest sequences of each batch element, and extends them until they end or the loop does.

    Args:
        cell: an ``RNNCell``, or a function of inputs and states that gives logits ``[batch * beam, vocabulary]`` (or what
            ``output_fn`` makes such logits of) and the next states.
        start_token, end_token: what every sequence starts with, and what ends it.
        beam_size: how many sequences there are for each batch element.
        embedding_fn: makes inputs of the cell of tokens ``[batch, beam]``; the tokens themselves are passed in if None.
        output_fn: applied to what the cell gives.

    Raises:
        TypeError: an argument is something else.
        ValueError: ``beam_size`` is below 1.
    """

    class OutputWrapper(NamedTuple):
        """The outputs of a step, ``[batch, beam]`` each."""

        scores: Structure
        predicted_ids: Structure
        parent_ids: Structure

    class StateWrapper(NamedTuple):
        """The carried values: the cell's states, ``[batch, beam, ...]``; the others ``[batch, beam]``."""

        cell_states: Structure
        log_probs: Structure
        finished: Structure
        lengths: Structure

    def __init__(
        self,
        cell: Callable[..., Structure],
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[..., Structure] | None = None,
        output_fn: Callable[..., Structure] | None = None,
    ) -> None:
        with at_users_line("layers.BeamSearchDecoder"):
            for label, function in (("cell", cell), ("embedding_fn", embedding_fn), ("output_fn", output_fn)):
                if not callable(function) and (label == "cell" or function is not None):
                    raise InvalidType(f"{label} is a function, not {function!r}")
            self.start_token, self.end_token = checked_int("start_token", start_token, 0), checked_int("end_token", end_token, 0)
            self.beam_size = checked_int("beam_size", beam_size, 1)
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn

    @staticmethod
    def tile_beam_merge_with_batch(x: Variable, beam_size: int) -> Variable:
        """``[batch, ...]`` as ``[batch * beam, ...]``, each row as often as the beam is wide: for what a cell attends to."""
        with at_users_line("layers.BeamSearchDecoder.tile_beam_merge_with_batch"):
            return _merged(_widened(checked_input("BeamSearchDecoder", x), checked_int("beam_size", beam_size, 1)))

    @property
    def tracks_own_finished(self) -> bool:
        return True

    def initialize(self, initial_cell_states: Structure) -> tuple[Structure, Structure, Structure]:
        """Every sequence is the start token; all but the first of a beam are never chosen, since all of them are the same."""
        leaves = nest.flatten(initial_cell_states)
        if not leaves:
            raise InvalidValue("layers.BeamSearchDecoder: dynamic_decode needs the cell's first states, inits, for the size of the batch")
        like = checked_input("BeamSearchDecoder", leaves[0])
        states = _mapped(lambda x: _widened(x, self.beam_size), initial_cell_states)
        dtype = like.dtype if like.dtype in FLOATS else "float32"
        first = np.array([[0.0] + [LEAST] * (self.beam_size - 1)], dtype)
        log_probs = self._filled(like, 0.0, dtype) + assign(first)
        tokens, lengths = self._filled(like, self.start_token, "int64"), self._filled(like, 0, "int64")
        finished = lengths != 0
        inputs = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return inputs, self.StateWrapper(states, log_probs, finished, lengths), finished

    def _filled(self, like: Variable, value: float, dtype: str) -> Variable:
        return emitted("fill_constant_batch_size_like", [like], shape=[-1, self.beam_size], value=float(value), dtype=dtype)  # type: ignore[no-any-return]

    def step(
        self, time: Variable, inputs: Structure, states: Structure, **kwargs: object
    ) -> tuple[Structure, Structure, Structure, Structure]:
        """One step of the search: the ``beam_size`` likeliest continuations of each batch element."""
        # To the cell, a beam is a larger batch: [batch, beam, ...] goes in as [batch * beam, ...].
        merged_inputs, merged_states = _mapped(_merged, inputs), _mapped(_merged, states.cell_states)
        cell_outputs, next_cell_states = self.cell(merged_inputs, merged_states, **kwargs)
        cell_outputs, next_cell_states = (_mapped(self._split, item) for item in (cell_outputs, next_cell_states))
        logits = self.output_fn(cell_outputs) if self.output_fn is not None else cell_outputs
        outputs, next_states = self._searched(logits, next_cell_states, states)
        outputs.predicted_ids.stop_gradient = True
        next_inputs = self.embedding_fn(outputs.predicted_ids) if self.embedding_fn else outputs.predicted_ids
        return outputs, next_states, next_inputs, next_states.finished

    def _split(self, x: Variable) -> Variable:
        return emitted("reshape", [x], shape=[-1, self.beam_size, *x.shape[1:]])  # type: ignore[no-any-return]

    def _searched(self, logits: Variable, cell_states: Structure, before: StateWrapper) -> tuple[OutputWrapper, StateWrapper]:
        vocabulary = logits.shape[-1]
        if logits.ndim != 3 or vocabulary < 1 or not self.end_token < vocabulary:
            raise ShapeError(
                f"layers.BeamSearchDecoder: logits are [batch * beam, vocabulary] with token {self.end_token} in it, not {logits!r}"
            )
        # A finished sequence goes on with its end token alone, at no cost (as Fluid's decoder has it).
        ends = np.full(vocabulary, LEAST, logits.dtype)
        ends[self.end_token] = 0.0
        steps = emitted("where", [before.finished.unsqueeze(-1), assign(ends), emitted("log_softmax", [logits], axis=-1)])
        # Each beam's sum so far plus each token's logarithm, [batch, beam, vocabulary]: all ways of a batch element compete, along one
        # axis.
        totals = emitted("reshape", [steps + before.log_probs.unsqueeze(-1)], shape=[-1, self.beam_size * vocabulary])
        scores, places = emitted("top_k_v2", [totals], k=self.beam_size, axis=-1)
        beams, tokens = places // vocabulary, places % vocabulary
        rows = _Rows(beams)
        was_finished = rows.of(before.finished)
        lengths = rows.of(before.lengths) + emitted("cast", [~was_finished], out_dtype="int64")
        states = self.StateWrapper(_mapped(rows.of, cell_states), scores, was_finished | (tokens == self.end_token), lengths)
        return self.OutputWrapper(scores, tokens, beams), states

    def finalize(self, outputs: Structure, final_states: Structure, sequence_lengths: Structure) -> tuple[Structure, Structure]:
        """The tokens of the sequences that are left at the end, ``[time, batch, beam]``, and the last states."""
        # From the last step back along the parents: what a beam has now, another row may have begun.
        return emitted("gather_tree", [outputs.predicted_ids, outputs.parent_ids]), final_states


class _Rows:
    """Rows ``[batch, beam]`` of tensors ``[batch, beam, ...]``, chosen by their places in the beam."""

    def __init__(self, beams: Variable) -> None:
        # Row i of the batch begins at i * beam when batch and beam are one axis.
        ones = emitted("fill_any_like", [beams], value=1.0)
        # 0, 1, 2, ... counted by a running sum, as the batch may be of unknown extent.
        starts = (emitted("cumsum", [ones], axis=0) - ones) * beams.shape[1]
        self.places, self.beam = emitted("reshape", [beams + starts], shape=[-1]), beams.shape[1]

    def of(self, x: Variable) -> Variable:
        rows = emitted("gather", [_merged(x), self.places])
        return emitted("reshape", [rows], shape=[-1, self.beam, *x.shape[2:]])  # type: ignore[no-any-return]


def _widened(x: Variable, beam_size: int) -> Variable:
    """``[batch, ...]`` as ``[batch, beam, ...]``."""
    return emitted("expand", [x.unsqueeze(1)], expand_times=[1, beam_size, *[1] * (x.ndim - 1)])  # type: ignore[no-any-return]


def _merged(x: Variable) -> Variable:
    """``[batch, beam, ...]`` as ``[batch * beam, ...]``."""
    return emitted("reshape", [x], shape=[-1, *x.shape[2:]])  # type: ignore[no-any-return]


# -- by a helper -----------------------------------------------------------------------------------


class DecodeHelper:
    """Says what the steps of a ``BasicDecoder`` get; a class of one's own defines all three."""

    def initialize(self) -> tuple[Structure, Structure]:
        """The inputs of the first step, and which sequences are finished already."""
        raise InvalidType(f"{type(self).__name__} does not define initialize()")

    def sample(self, time: Variable, outputs: Structure, states: Structure) -> Variable:
        """A token for each sequence, of what the cell gives."""
        raise InvalidType(f"{type(self).__name__} does not define sample(time, outputs, states)")

    def next_inputs(
        self, time: Variable, outputs: Structure, states: Structure, sample_ids: Variable
    ) -> tuple[Structure, Structure, Structure]:
        """The finished sequences, the inputs of the next step, and its states."""
        raise InvalidType(f"{type(self).__name__} does not define next_inputs(time, outputs, states, sample_ids)")


class TrainingHelper(DecodeHelper):
    """Each step gets the right token's input, of a sequence that is known (teacher forcing).

    Args:
        inputs: ``[batch, time, ...]``, or ``[time, batch, ...]`` if ``time_major``, or a structure of those.
        sequence_length: how many steps each sequence has, ``[batch]``, integers.
    """

    def __init__(self, inputs: Structure, sequence_length: Variable, time_major: bool = False) -> None:
        with at_users_line("layers.TrainingHelper"):
            is_major = checked_flag("time_major", time_major)
            leaves = [checked_input("TrainingHelper", item) for item in nest.flatten(inputs)]
            self.sequence_length = emitted("cast", [checked_input("TrainingHelper", sequence_length)], out_dtype="int64")
        self.inputs = nest.pack(inputs, leaves if is_major else map(_batch_first, leaves))
        # After the end come zeros: the step that finishes the longest sequence still asks for the next one.
        self._padded = _mapped(lambda x: emitted("pad", [x], paddings=[0, 1, *[0, 0] * (x.ndim - 1)], pad_value=0.0), self.inputs)

    def initialize(self) -> tuple[Structure, Structure]:
        return _mapped(lambda x: x[0], self.inputs), self.sequence_length == 0

    def sample(self, time: Variable, outputs: Structure, states: Structure) -> Variable:
        return emitted("arg_max", [outputs], axis=-1)  # type: ignore[no-any-return]

    def next_inputs(
        self, time: Variable, outputs: Structure, states: Structure, sample_ids: Variable
    ) -> tuple[Structure, Structure, Structure]:
        following = time + 1
        return self.sequence_length <= following, _mapped(lambda x: emitted("gather", [x, following])[0], self._padded), states


class GreedyEmbeddingHelper(DecodeHelper):
    """Each step gets the likeliest token of the step before.

    Args:
        embedding_fn: makes the inputs of the cell of tokens ``[batch]``.
        start_tokens: the first token of each sequence, ``[batch]``, integers.
        end_token: the token that ends a sequence.
    """

    def __init__(self, embedding_fn: Callable[..., Structure], start_tokens: Variable, end_token: int) -> None:
        with at_users_line(f"layers.{type(self).__name__}"):
            if not callable(embedding_fn):
                raise InvalidType(f"embedding_fn is a function, not {embedding_fn!r}")
            self.embedding_fn, self.end_token = embedding_fn, checked_int("end_token", end_token, 0)
            self.start_tokens = checked_input(type(self).__name__, start_tokens)

    def initialize(self) -> tuple[Structure, Structure]:
        tokens = emitted("cast", [self.start_tokens], out_dtype="int64")
        # False everywhere.
        return self.embedding_fn(tokens), tokens != tokens

    def sample(self, time: Variable, outputs: Structure, states: Structure) -> Variable:
        return emitted("arg_max", [outputs], axis=-1)  # type: ignore[no-any-return]

    def next_inputs(
        self, time: Variable, outputs: Structure, states: Structure, sample_ids: Variable
    ) -> tuple[Structure, Structure, Structure]:
        return sample_ids == self.end_token, self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Each step gets a token that is drawn by the probabilities of the step before.

    Args:
        softmax_temperature: what logits are divided by: above 1 unlikely tokens come more often.
        seed: of the draws.
    """

    def __init__(
        self,
        embedding_fn: Callable[..., Structure],
        start_tokens: Variable,
        end_token: int,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding_fn, start_tokens, end_token)
        with at_users_line("layers.SampleEmbeddingHelper"):
            self.softmax_temperature = None if softmax_temperature is None else checked_float("softmax_temperature", softmax_temperature)
            self.seed = 0 if seed is None else checked_int("seed", seed, 0)

    def sample(self, time: Variable, outputs: Structure, states: Structure) -> Variable:
        logits = outputs if self.softmax_temperature is None else outputs / self.softmax_temperature
        return sampling_id(emitted("softmax", [logits], axis=-1), seed=self.seed)


class BasicDecoder(Decoder):
    """One sequence for each batch element; a helper says what the steps get.

    Args:
        cell: an ``RNNCell``, or a function of inputs and states.
        helper: a ``TrainingHelper``, ``GreedyEmbeddingHelper``, ``SampleEmbeddingHelper`` or another ``DecodeHelper``.
        output_fn: applied to what the cell gives, such as the layer that makes logits.
    """

    class OutputWrapper(NamedTuple):
        """The outputs of a step: the cell's, and the tokens ``[batch]``."""

        cell_outputs: Structure
        sample_ids: Structure

    def __init__(self, cell: Callable[..., Structure], helper: DecodeHelper, output_fn: Callable[..., Structure] | None = None) -> None:
        with at_users_line("layers.BasicDecoder"):
            if not callable(cell) or not isinstance(helper, DecodeHelper):
                raise InvalidType(
                    f"it takes a cell and a DecodeHelper, such as TrainingHelper(inputs, lengths), not {cell!r} and {helper!r}"
                )
        self.cell, self.helper, self.output_fn = cell, helper, output_fn

    def initialize(self, initial_cell_states: Structure) -> tuple[Structure, Structure, Structure]:
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(
        self, time: Variable, inputs: Structure, states: Structure, **kwargs: object
    ) -> tuple[Structure, Structure, Structure, Structure]:
        outputs, next_states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        sample_ids = self.helper.sample(time, outputs, next_states)
        sample_ids.stop_gradient = True
        finished, next_inputs, next_states = self.helper.next_inputs(time, outputs, next_states, sample_ids)
        return self.OutputWrapper(outputs, sample_ids), next_states, next_inputs, finished


# -- beam_search -----------------------------------------------------------------------------------


@layer
def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> Structure:
    """A step of a beam search: of all candidates of the rows of a batch element, the ``beam_size`` best.

    Fluid has as many rows for a batch element as its sequences that go on (LoD). Here there are always ``beam_size``: a row that has ended
    goes on with ``end_id`` and its score. At the first step, where all rows of an element are the same, let ``pre_scores`` be 0 for the
    first of them and -1e9 for the others.

    Args:
        pre_ids, pre_scores: the rows so far, their last tokens and their scores, ``[batch * beam_size, 1]``.
        ids: the tokens of the candidates, ``[batch * beam_size, candidates]``; their places 0, 1, ... if None.
        scores: the scores of the candidates, sums of logarithms of probabilities with those of the row; probabilities of the step alone
            if not ``is_accumulated``.
        level: without effect, since there are no levels of detail.
        return_parent_idx: whether the rows are returned that the chosen candidates belong to.

    Returns:
        The chosen tokens and their scores, ``[batch * beam_size, 1]``; with ``return_parent_idx`` the rows, int64 ``[batch * beam_size]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     tokens, scores = ga.layers.assign([[1], [2]]), ga.layers.assign([[-0.5], [-0.7]])
    ...     candidates = ga.layers.assign([[3, 4], [5, 6]]), ga.layers.assign([[-1.0, -3.0], [-0.75, -2.0]])
    ...     best = ga.layers.beam_search(tokens, scores, *candidates, beam_size=2, end_id=0, return_parent_idx=True)
    >>> [array.reshape(-1).tolist() for array in ga.Executor().run(program, fetch_list=list(best))]
    [[5, 3], [-0.75, -1.0], [1, 0]]
    """
    with at_users_line("layers.beam_search"):
        tokens, before, candidates = (checked_input("beam_search", item) for item in (pre_ids, pre_scores, scores))
        beam, end, _ = checked_int("beam_size", beam_size, 1), checked_int("end_id", end_id), checked_int("level", level)
        is_sum, has_parents = checked_flag("is_accumulated", is_accumulated), checked_flag("return_parent_idx", return_parent_idx)
        count = candidates.shape[-1]
        if candidates.ndim != 2 or count < 1:
            raise ShapeError(f"scores are [batch * beam_size, candidates], not {scores!r}")
        if (tokens.shape[1:], before.shape[1:]) != ((1,), (1,)):
            raise ShapeError(f"pre_ids and pre_scores are [batch * beam_size, 1], not {pre_ids!r} and {pre_scores!r}")
        if ids is None:
            chosen_from = emitted("expand_as_v2", [assign(np.arange(count)[None]), candidates])
        else:
            chosen_from = emitted("cast", [checked_input("beam_search", ids)], out_dtype="int64")
    totals = candidates if is_sum else emitted("log", [candidates]) + before
    totals, chosen_from = _with_ended(tokens == end, end, before, totals, chosen_from)
    best, places = emitted("top_k_v2", [emitted("reshape", [totals], shape=[-1, beam * count])], k=beam, axis=-1)
    rows = _Rows(places // count)
    selected = emitted("index_sample", [emitted("gather", [chosen_from, rows.places]), emitted("reshape", [places % count], shape=[-1, 1])])
    selected_scores = emitted("reshape", [best], name, shape=[-1, 1])
    return (selected, selected_scores, rows.places) if has_parents else (selected, selected_scores)


def _with_ended(ended: Variable, end: int, before: Variable, totals: Variable, tokens: Variable) -> tuple[Variable, Variable]:
    """The candidates' scores and tokens, where a row that has ended has one: its end."""
    first = np.where(np.arange(totals.shape[1]) == 0, 0.0, LEAST).astype(totals.dtype)[None]
    ends = emitted("fill_any_like", [tokens], value=float(end))
    return emitted("where", [ended, before + assign(first), totals]), emitted("where", [ended, ends, tokens])


@layer
def beam_search_decode(
    ids: Variable,
    scores: Variable,
    beam_size: int,
    end_id: int,
    name: str | None = None,
    *,
    parent_idx: Variable | None = None,
) -> tuple[Variable, Variable]:
    """The sequences that a beam search leaves at its end, from what its steps chose.

    Args:
        ids, scores: arrays of tensors with what ``beam_search`` gave at each step, ``[batch * beam_size, 1]``.
        parent_idx: the array of the rows that ``beam_search(..., return_parent_idx=True)`` gave; in Fluid levels of detail (LoD) say that.
        end_id: the token after which a sequence has ended: what follows it in its row is ``end_id`` again.

    Returns:
        The tokens, int64 ``[batch, beam_size, time]``, and the scores of the sequences up to each of them, in the same shape.

    Raises:
        TypeError: ``parent_idx`` is missing, or one of them is no array of tensors.
    """
    with at_users_line("layers.beam_search_decode"):
        beam = checked_int("beam_size", beam_size, 1)
        checked_int("end_id", end_id)
        if parent_idx is None:
            raise InvalidType(
                "parent_idx is needed: the array of the rows that beam_search(..., return_parent_idx=True) gives at each step"
            )
        arrays = [checked_input("beam_search_decode", item) for item in (ids, scores, parent_idx)]
    steps = [emitted("tensor_array_to_tensor", [array], axis=0, use_stack=True) for array in arrays]
    tokens, totals, rows = (emitted("reshape", [x], shape=[0, -1, beam]) for x in steps)
    parents = rows % beam
    # Which row of a step the sequences of the end come from: the tree of the places themselves.
    places = emitted("cumsum", [emitted("fill_any_like", [parents], value=1.0)], axis=2) - 1
    lines = emitted("gather_tree", [places, parents])
    sequences = [emitted("take_along_axis", [x, lines], Axis=2) for x in (tokens, totals)]
    sentences, sentence_scores = (emitted("transpose", [x], name if not at else None, axis=[1, 2, 0]) for at, x in enumerate(sequences))
    return sentences, sentence_scores


__all__: Sequence[str] = [
    "BasicDecoder",
    "BeamSearchDecoder",
    "DecodeHelper",
    "Decoder",
    "GreedyEmbeddingHelper",
    "SampleEmbeddingHelper",
    "TrainingHelper",
    "beam_search",
    "beam_search_decode",
    "dynamic_decode",
]
