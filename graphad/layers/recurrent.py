"""Recurrent networks as Fluid 1.8 has them: cells, ``rnn``, which runs a cell over time, and ``lstm``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.initializer import Initializer
from graphad.layers import nest
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.fluid import StaticRNN
from graphad.layers.helper import AttrLike, LayerHelper, checked_activation, checked_input, emitted, layer
from graphad.layers.nn import dropout
from graphad.layers.tensor import range_
from graphad.program import Variable
from graphad.program.source import at_users_line


class RNNCell:
    """A step of a recurrent network: ``call(inputs, states)`` gives the step's outputs and the next states.

    A class of one's own defines ``call`` and ``state_shape``, the states' shapes without the batch.
    """

    def call(self, inputs: object, states: object, **kwargs: object) -> tuple[Any, Any]:
        """The outputs of a step, and the next states."""
        raise InvalidType(f"{type(self).__name__} does not define call(inputs, states)")

    def __call__(self, inputs: object, states: object, **kwargs: object) -> tuple[object, object]:
        return self.call(inputs, states, **kwargs)

    @property
    def state_shape(self) -> Any:
        """The shapes of the states, without the batch."""
        raise InvalidType(f"{type(self).__name__} does not define state_shape")

    def get_initial_states(
        self, batch_ref: object, shape: object = None, dtype: object = "float32", init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States of one value for the batch of a tensor (or the first tensor of a structure), which is at ``batch_dim_idx`` of it."""
        like = checked_input("RNNCell.get_initial_states", nest.flatten(batch_ref)[0])
        shapes = self.state_shape if shape is None else shape
        return _for_each(
            shapes,
            lambda extents: emitted(
                "fill_constant_batch_size_like",
                [like],
                # The batch is the first extent; a -1 in a state's shape is that again.
                shape=[-1, *(item for item in extents if item != -1)],
                value=float(init_value),
                dtype=dtype,
                input_dim_idx=batch_dim_idx,
            ),
        )


def _for_each(shapes: Any, make: Any) -> Any:
    """A tensor for each shape of a structure; a list of ints is a shape."""
    if isinstance(shapes, list | tuple) and all(isinstance(item, int) for item in shapes):
        return make(shapes)
    return [_for_each(item, make) for item in shapes]


class _Gated(RNNCell):
    """A cell with gates: names, widths and activations."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: AttrLike,
        bias_attr: AttrLike,
        gate_activation: object,
        activation: object,
        dtype: object,
        name: str,
    ) -> None:
        kind = type(self).__name__
        with at_users_line(f"layers.{kind}"):
            self.hidden_size = checked_int("hidden_size", hidden_size, 1)
            self._gate = _activation("gate_activation", gate_activation, "sigmoid")
            self._activation = _activation("activation", activation, "tanh")
        self._attrs = (param_attr, bias_attr)
        self._dtype = dtype
        self._helper = LayerHelper(kind, name if name != kind else None)
        self._made: dict[str, tuple[Variable, Variable | None]] = {}

    def _product(self, key: str, parts: Sequence[Variable], width: int) -> Variable:
        """A fully connected layer of the parts side by side, with the same parameters at each call."""
        x: Variable = emitted("concat", [list(parts)], axis=1)
        # Parameters are made at the first call, when the width is known; the cell is called once for each step.
        if key not in self._made:
            if x.ndim != 2 or x.shape[1] < 1:
                raise ShapeError(f"layers.{type(self).__name__} takes inputs [batch, width] with known width, not {parts[0]!r}")
            weight = self._helper.parameter(_named(self._attrs[0], key), f"{key}w", [x.shape[1], width], x.dtype)
            self._made[key] = weight, self._helper.bias(_named(self._attrs[1], key), [width], x.dtype)
        parameter, bias = self._made[key]
        out: Variable = emitted("matmul_v2", [x, parameter])
        return out if bias is None else out + bias


def _named(attr: Any, key: str) -> Any:
    """Two parameters of one attr that has a name get two names."""
    from_attr = getattr(attr, "name", None)
    # Otherwise the gates and the candidate would share one weight of two shapes.
    return attr if from_attr is None else attr.named(f"{from_attr}_{key}") if key else attr


def _activation(what: str, activation: object, default: str) -> Any:
    """An activation from its name, a layer or None."""
    if activation is None:
        activation = default
    if callable(activation):
        return activation
    if not isinstance(activation, str):
        raise InvalidType(f"{what} is a layer such as layers.tanh, its name, or None, not {activation!r}")
    op = checked_activation(activation)
    return lambda x: emitted(op, [x])


class GRUCell(_Gated):
    """A step of a GRU (K. Cho et al., 2014): ``new = u * state + (1 - u) * candidate``, the candidate of the reset state.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()):
    ...     x = ga.layers.data("x", shape=[5, 3])
    ...     outputs, state = ga.layers.rnn(ga.layers.GRUCell(hidden_size=4), x)
    >>> outputs.shape, state.shape
    ((-1, 5, 4), (-1, 4))
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: AttrLike = None,
        bias_attr: AttrLike = None,
        gate_activation: object = None,
        activation: object = None,
        dtype: object = "float32",
        name: str = "GRUCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, gate_activation, activation, dtype, name)

    def call(self, inputs: Any, states: Any, **kwargs: object) -> tuple[Any, Any]:
        size = self.hidden_size
        gates = self._gate(self._product("gate_", [inputs, states], 2 * size))
        # One product for both gates; the candidate has its own, since it reads the state that the reset gate has weighed.
        reset, update = gates[:, :size], gates[:, size:]
        candidate = self._activation(self._product("candidate_", [inputs, reset * states], size))
        # The update gate weighs the old state, as in Fluid; other libraries weigh the candidate with it.
        new = update * states + (1.0 - update) * candidate
        return new, new

    @property
    def state_shape(self) -> list[int]:
        return [self.hidden_size]


class LSTMCell(_Gated):
    """A step of an LSTM (S. Hochreiter and J. Schmidhuber, 1997); the states are the hidden state and the cell."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: AttrLike = None,
        bias_attr: AttrLike = None,
        gate_activation: object = None,
        activation: object = None,
        forget_bias: float = 1.0,
        dtype: object = "float32",
        name: str = "LSTMCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, gate_activation, activation, dtype, name)
        self.forget_bias = checked_float("layers.LSTMCell: forget_bias", forget_bias)

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        hidden, cell = states
        sums = self._product("", [inputs, hidden], 4 * self.hidden_size)
        # In Fluid's order: input gate, candidate, forget gate, output gate. A bias of 1 keeps the cell at the beginning of a training
        # (R. Jozefowicz, W. Zaremba and I. Sutskever, "An empirical exploration of recurrent network architectures", 2015).
        i, j, f, o = emitted("split", [sums], num=4, axis=1)
        new = cell * self._gate(f + self.forget_bias) + self._gate(i) * self._activation(j)
        # No gate reads the cell (no peepholes): only what it shows through the output gate is the hidden state.
        out = self._activation(new) * self._gate(o)
        return out, [out, new]

    @property
    def state_shape(self) -> list[list[int]]:
        return [[self.hidden_size], [self.hidden_size]]


# -- over time -------------------------------------------------------------------------------------


@layer
def rnn(
    cell: RNNCell,
    inputs: object,
    initial_states: object = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: object,
) -> tuple[Any, Any]:
    """Run a cell over time.

    Args:
        cell: an ``RNNCell``.
        inputs: ``[batch, time, ...]``, or ``[time, batch, ...]`` with ``time_major``. Also a structure of them.
        initial_states: zeros if None.
        sequence_length: how many steps count for each sample, int64 ``[batch]``; after them the states stay as they are.
        is_reverse: from the last step to the first.
        kwargs: what else the cell takes.

    Returns:
        The outputs of all steps in the layout of ``inputs``, and the last states.
    """
    with at_users_line("layers.rnn"):
        major, backwards = checked_flag("time_major", time_major), checked_flag("is_reverse", is_reverse)
        sequences = [checked_input("rnn", item) for item in nest.flatten(inputs)]
        steps = [x if major else _swapped(x) for x in sequences]
        time = steps[0].shape[0]
        if not time:
            raise InvalidValue(f"{sequences[0]!r} has no steps")
    if initial_states is None:
        initial_states = cell.get_initial_states(inputs, dtype=sequences[0].dtype, batch_dim_idx=1 if major else 0)
    counts = None if sequence_length is None else _counting(sequence_length, steps[0])
    if backwards:
        steps = [emitted("flip", [x], axis=[0]) for x in steps]
        # Backwards, padding comes first: where the flipped counts are 0, states stay as they start.
        counts = None if counts is None else emitted("flip", [counts], axis=[0])
    outputs, states = _run(cell, nest.pack(inputs, steps), initial_states, counts, kwargs)
    sequences_out = [emitted("flip", [item], axis=[0]) if backwards else item for item in nest.flatten(outputs)]
    return nest.pack(outputs, [item if major else _swapped(item) for item in sequences_out]), states


def _swapped(x: Variable) -> Variable:
    """Time before the batch, or the batch before time."""
    return emitted("transpose", [x], axis=[1, 0, *range(2, len(x.shape))])  # type: ignore[no-any-return]


def _counting(lengths: Variable, sequences: Variable) -> Variable:
    """Ones ``[time, batch]`` for the steps that count of sequences ``[time, batch, ...]``."""
    time: Any = sequences.shape[0] if sequences.shape[0] >= 0 else emitted("shape", [sequences])[0]
    places = range_(0, time, 1, lengths.dtype).unsqueeze(1)
    return (places < emitted("reshape", [lengths], shape=[1, -1])).astype(sequences.dtype)  # type: ignore[no-any-return]


def _run(cell: RNNCell, inputs: object, initial: object, counts: Variable | None, kwargs: dict[str, object]) -> tuple[Any, Any]:
    """The outputs of all steps, time first, and the last states."""
    network = StaticRNN()
    with network.step():
        step_inputs = nest.pack(inputs, [network.step_input(x) for x in nest.flatten(inputs)])
        before = [network.memory(init=item) for item in nest.flatten(initial)]
        outputs, states = cell.call(step_inputs, nest.pack(initial, before), **kwargs)
        after = nest.flatten(states)
        if counts is not None:
            # Beyond its end a sequence passes its state on: ``keep`` is 1 within it and 0 after.
            keep = network.step_input(counts).unsqueeze(1)
            after = [new * keep + old * (1.0 - keep) for new, old in zip(after, before, strict=True)]
        for old, new in zip(before, after, strict=True):
            network.update_memory(old, new)
        flat = nest.flatten(outputs)
        # States are outputs as well, of which those of the last step are the last states.
        network.output(*flat, *after)
    results = network()
    last = [item[-1] for item in results[len(flat) :]]
    return nest.pack(outputs, results[: len(flat)]), nest.pack(initial, last)


@layer
def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Initializer | None = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """Layers of LSTMs over time.

    Args:
        input: ``[time, batch, width]``.
        init_h, init_c: the states before, ``[layers, batch, hidden_size]``, twice as many layers if ``is_bidirec``.
        max_len: a hint without effect.
        dropout_prob: how much of each layer's outputs is dropped before the next one.

    Returns:
        The outputs ``[time, batch, hidden_size]`` (twice as wide if ``is_bidirec``), and the last states. The weights are those of
        ``LSTMCell``, one matrix for each layer and direction; Fluid's are one vector in cuDNN's order.
    """
    with at_users_line("layers.lstm"):
        x, hidden, cell = (checked_input("lstm", variable) for variable in (input, init_h, init_c))
        size, count = checked_int("hidden_size", hidden_size, 1), checked_int("num_layers", num_layers, 1)
        directions = 2 if checked_flag("is_bidirec", is_bidirec) else 1
        checked_flag("is_test", is_test)
        checked_int("max_len", max_len)
        share = checked_float("dropout_prob", dropout_prob)
    last: list[tuple[Variable, Variable]] = []
    for depth in range(count):
        if depth and share:
            x = dropout(x, share, is_test=is_test, seed=None if seed < 0 else seed, dropout_implementation="upscale_in_train")
        outs = []
        for backwards in range(directions):
            # As in cuDNN, the two directions of a layer follow each other.
            at = depth * directions + backwards
            step = LSTMCell(size, default_initializer, forget_bias=0.0, name=(name and f"{name}_{at}") or "LSTMCell")
            out, (h, c) = rnn(step, x, [hidden[at], cell[at]], time_major=True, is_reverse=bool(backwards))
            outs.append(out)
            last.append((h, c))
        x = outs[0] if len(outs) == 1 else emitted("concat", [outs], axis=2)
    return x, emitted("stack", [[h for h, _ in last]], axis=0), emitted("stack", [[c for _, c in last]], axis=0)
