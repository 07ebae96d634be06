"""Decoders: beams against all sequences there are, teacher forcing against ``rnn``, and what Paddle 2.6 gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import InvalidType, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]
TOKENS, START, END = 4, 0, 1


def log_softmax(x: Array) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def follows(table: Array) -> Callable[..., Any]:
    """A cell whose logits are those of the last token, and a state that is moved by it."""
    return lambda tokens, state: (L.gather(L.assign(table), tokens) + state, state * 0.5)


def best(table: Array, state: Array, steps: int) -> tuple[list[int], float]:
    """The likeliest of all sequences of a number of tokens; after the end come ends."""
    found = []
    for tokens in itertools.product(range(TOKENS), repeat=steps):
        ended = [t for t, token in enumerate(tokens) if token == END]
        if ended and any(token != END for token in tokens[ended[0] :]):
            continue
        total, last, now = 0.0, START, state
        for token in tokens[: ended[0] + 1] if ended else tokens:
            total += log_softmax(table[last] + now)[token]
            last, now = token, now * 0.5
        found.append((total, list(tokens)))
    total, sequence = max(found)
    return sequence, total


def test_a_beam_that_is_wide_enough_finds_the_likeliest_sequence() -> None:
    rng = np.random.default_rng(3)
    table, states, steps = rng.normal(size=(TOKENS, TOKENS)) * 2, rng.normal(size=(3, TOKENS)), 3
    with ga.program_guard(ga.Program()) as program:
        decoder = L.BeamSearchDecoder(follows(table), START, END, beam_size=TOKENS ** (steps - 1))
        outputs, last, lengths = L.dynamic_decode(decoder, L.assign(states), max_step_num=steps - 1, return_length=True)
    ids, scores, counts = ga.Executor().run(program, fetch_list=[outputs, last.log_probs, lengths])
    for row, state in enumerate(states):
        sequence, total = best(table, state, ids.shape[1])
        assert ids[row, :, 0].tolist() == sequence
        np.testing.assert_allclose(scores[row, 0], total)
        assert counts[row, 0] == (sequence.index(END) + 1 if END in sequence else steps)
        assert (np.diff(scores[row]) <= 0).all()


def test_what_paddle_gives() -> None:
    """The numbers are those of paddle 2.6.2 for ``nn.dynamic_decode`` of the same cell, table and states."""
    rng = np.random.default_rng(0)
    table, states = rng.normal(size=(5, 5)).astype("float32"), rng.normal(size=(3, 5)).astype("float32")

    def cell(tokens: Any, state: Any) -> tuple[Any, Any]:
        rows = L.gather(L.assign(table), tokens)
        return rows + state, state * 0.5 + rows * 0.1

    with ga.program_guard(ga.Program()) as program:
        decoder = L.BeamSearchDecoder(cell, start_token=0, end_token=1, beam_size=3)
        outputs, last, lengths = L.dynamic_decode(decoder, L.assign(states), max_step_num=5, return_length=True)
    ids, counts, scores = ga.Executor().run(program, fetch_list=[outputs, lengths, last.log_probs])
    assert ids.tolist() == [
        [[4, 0, 0], [1, 2, 0], [1, 1, 2], [1, 1, 1]],
        [[3, 2, 3], [4, 3, 3], [1, 4, 4], [1, 1, 1]],
        [[4, 3, 3], [1, 4, 4], [1, 1, 4], [1, 1, 1]],
    ]
    assert counts.tolist() == [[2, 3, 4], [3, 4, 4], [2, 3, 4]]
    expected = [[-2.7233052, -3.4893012, -4.6344032], [-2.7753696, -3.8476710, -3.9016532], [-2.6244444, -2.9968662, -3.7370035]]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_steps_of_beam_search_are_those_of_the_decoder() -> None:
    rng = np.random.default_rng(5)
    table, beam, steps = rng.normal(size=(TOKENS, TOKENS)), 2, 4
    with ga.program_guard(ga.Program()) as program:
        decoder = L.BeamSearchDecoder(lambda tokens, state: (L.gather(L.assign(table), tokens), state), START, END, beam)
        expected, last = L.dynamic_decode(decoder, L.assign(np.zeros((1, 1))), max_step_num=steps - 1)
        tokens, scores = L.fill_constant([beam, 1], "int64", START), L.assign(np.array([[0.0], [-1e9]]))
        ids, totals, parents = (L.create_array(dtype) for dtype in ("int64", "float64", "int64"))
        for step in range(steps):
            steps_scores = L.softmax(L.gather(L.assign(table), L.reshape(tokens, [-1])))
            top, candidates = L.topk(steps_scores, TOKENS)
            tokens, scores, rows = L.beam_search(tokens, scores, candidates, top, beam, END, is_accumulated=False, return_parent_idx=True)
            for item, array in ((tokens, ids), (scores, totals), (rows, parents)):
                L.array_write(item, step, array)
        found, sums = L.beam_search_decode(ids, totals, beam, END, parent_idx=parents)
    got, sums_got, want, want_sums = ga.Executor().run(program, fetch_list=[found, sums, expected, last.log_probs])
    count = want.shape[1]  # the decoder stops when both sequences have ended
    assert got[0, :, :count].T.tolist() == want[0].tolist()
    assert (got[0, :, count:] == END).all()
    np.testing.assert_allclose(sums_got[0, :, -1], want_sums[0])


def test_a_cell_with_parameters_and_an_embedding_is_made_once() -> None:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        start = L.data("start", [6])
        cell = L.GRUCell(6)
        decoder = L.BeamSearchDecoder(
            cell, 0, 1, 3, embedding_fn=lambda ids: L.embedding(ids, [5, 6]), output_fn=lambda x: L.fc(x, 5, num_flatten_dims=2)
        )
        (outputs, states) = L.dynamic_decode(decoder, start, max_step_num=3, output_time_major=True)
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    ids, last = executor.run(main, {"start": np.ones((2, 6), "float32")}, [outputs, states.cell_states], scope=scope)
    assert ids.shape[1:] == (2, 3)
    assert last.shape == (2, 3, 6)


def decoded(sequences: Array, lengths: Array, **options: Any) -> tuple[ga.Program, list[Any], dict[str, Array]]:
    with ga.program_guard(ga.Program()) as program:
        x = L.data("x", [-1, 4, 3], append_batch_size=False, dtype="float64", stop_gradient=False)
        count = L.data("count", [-1], append_batch_size=False, dtype="int64")
        state = L.data("h", [-1, 3], append_batch_size=False, dtype="float64", stop_gradient=False)

        def cell(inputs: Any, states: Any) -> tuple[Any, Any]:
            out = L.tanh(inputs + states * 0.5)
            return out, out

        decoder = L.BasicDecoder(cell, L.TrainingHelper(x, count))
        outputs, last, lengths_out = L.dynamic_decode(decoder, state, return_length=True, **options)
        loss = L.reduce_sum(outputs.cell_outputs * outputs.cell_outputs) + L.reduce_sum(last)
        gradients = ga.gradients(loss, [x, state])
    feed = {"x": sequences, "count": lengths, "h": np.zeros((len(sequences), 3)) + 0.3}
    return program, [outputs.cell_outputs, last, lengths_out, loss, *gradients], feed


def test_teacher_forcing_with_its_gradient() -> None:
    rng = np.random.default_rng(1)
    program, fetched, feed = decoded(rng.normal(size=(2, 4, 3)), np.array([2, 4]), impute_finished=True)
    outputs, last, lengths, _, dx, dh = ga.Executor().run(program, feed, fetched)
    state = feed["h"]
    states = [state := np.tanh(feed["x"][:, t] + 0.5 * state) for t in range(4)]
    np.testing.assert_allclose(outputs[1], np.stack(states, 1)[1])
    np.testing.assert_allclose(outputs[0, :2], np.stack(states, 1)[0, :2])
    np.testing.assert_allclose(last, [states[1][0], states[3][1]])  # a finished sequence keeps its state
    assert lengths.tolist() == [2, 4]
    for name, gradient in (("x", dx), ("h", dh)):
        for place in ((0, 1, 2), (1, 3, 0)) if name == "x" else ((0, 1), (1, 2)):
            losses = []
            for step in (1e-5, -1e-5):
                moved = feed[name].copy()
                moved[place] += step
                losses.append(ga.Executor().run(program, {**feed, name: moved}, [fetched[3]])[0])
            np.testing.assert_allclose(gradient[place], (losses[0] - losses[1]) / 2e-5, rtol=1e-6, atol=1e-9)


def test_greedy_decoding_takes_the_likeliest_token_until_the_end() -> None:
    table = np.array([[0.0, 1, 5, 2], [0, 0, 0, 0], [0, 1, 2, 9], [0, 7, 1, 3]])  # 0 2 3 1
    with ga.program_guard(ga.Program()) as program:
        helper = L.GreedyEmbeddingHelper(lambda ids: L.one_hot(ids, 4), L.assign(np.array([0, 3])), 1)
        decoder = L.BasicDecoder(lambda x, h: (L.matmul(x, L.assign(table.astype("float32"))), h), helper)
        outputs, _, lengths = L.dynamic_decode(decoder, L.zeros([2, 1], "float32"), max_step_num=9, return_length=True)
    ids, counts = ga.Executor().run(program, fetch_list=[outputs.sample_ids, lengths])
    assert ids[0].tolist() == [2, 3, 1]
    assert ids[1, 0] == 1
    assert counts.tolist() == [3, 1]


def test_sampled_tokens_are_those_that_can_be() -> None:
    table = np.full((4, 4), -1e9)
    table[[0, 2, 3], [2, 3, 1]] = 0.0
    with ga.program_guard(ga.Program()) as program:
        helper = L.SampleEmbeddingHelper(lambda ids: L.one_hot(ids, 4), L.assign(np.array([0])), 1, softmax_temperature=2.0, seed=3)
        decoder = L.BasicDecoder(lambda x, h: (L.matmul(x, L.assign(table.astype("float32"))), h), helper)
        outputs, _ = L.dynamic_decode(decoder, L.zeros([1, 1], "float32"), max_step_num=9)
    assert ga.Executor().run(program, fetch_list=[outputs.sample_ids])[0].tolist() == [[2, 3, 1]]


class Endless(layers.Decoder):
    """One that is a function."""

    def __init__(self, states: Any) -> None:
        self.states = states

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        return inits, [inits], L.assign(np.array([False]))

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Any]:
        return inputs, self.states(states), inputs, L.assign(np.array([False]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: L.dynamic_decode(x), InvalidType, "decoder is a Decoder, such as BeamSearchDecoder"),
        (lambda x: L.dynamic_decode(Endless(lambda s: s), x, "3"), InvalidType, "max_step_num is an int, not '3'"),
        (lambda x: L.dynamic_decode(Endless(lambda s: [*s, s[0]]), x, 3), InvalidValue, "the first states have .* those of a step"),
        (lambda x: L.dynamic_decode(L.Decoder(), x), InvalidType, "Decoder does not define initialize"),
        (lambda x: L.dynamic_decode(L.BeamSearchDecoder(lambda i, s: (s, s), 0, 1, 2)), InvalidValue, "needs the cell's first states"),
        (lambda x: L.dynamic_decode(L.BeamSearchDecoder(lambda i, s: (s, s), 0, 7, 2), x), ShapeError, "with token 7 in it"),
        (lambda x: L.BeamSearchDecoder(3, 0, 1, 2), InvalidType, "cell is a function, not 3"),
        (lambda x: L.BeamSearchDecoder(lambda i, s: (s, s), 0, 1, 0), InvalidValue, "beam_size"),
        (lambda x: L.BasicDecoder(lambda i, s: (s, s), x), InvalidType, "a cell and a DecodeHelper"),
        (lambda x: L.beam_search_decode(x, x, 2, 1), InvalidType, "parent_idx is needed"),
        (lambda x: L.beam_search(x, x, None, x, 2, 1), ShapeError, r"pre_ids and pre_scores are \[batch \* beam_size, 1\]"),
    ],
)
def test_refused(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [3])
        with pytest.raises(error, match=message):
            call(x)
