"""Recurrent networks: RNN, GRU, LSTM, forward, backward and both, with lengths, peepholes, clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphad import layers
from graphad.interop.onnx.handlers.handler import MICROSOFT, Handler, Node, handles
from graphad.interop.onnx.handlers.quantizing import less_zero, own_range
from graphad.interop.onnx.handlers.reducing import extent
from graphad.interop.onnx.handlers.selecting import reversed_by_length
from graphad.interop.onnx.operands import Operand, UnsupportedModel, Value
from graphad.program import Variable

Step = Callable[[Value, Sequence[Value]], list[Value]]  # the input's share and the states -> the next states


@dataclass
class _Weights:
    """A matrix that rows are multiplied by, [outputs, inputs]; with a scale it holds whole numbers, and rows become such as they come."""

    node: Node
    matrix: Value
    scale: Value | None = None

    def times(self, x: Value) -> Value:
        """x W'; quantized as onnxruntime does it: the sums of products of whole numbers are exact, then scaled."""
        ops = self.node.ops
        if self.scale is None:
            return ops.matmul_v2(x, self.matrix, trans_y=True)
        numbers, step = _as_numbers(self.node, x)
        sums = ops.matmul_v2(ops.cast(numbers, out_dtype=self.matrix.dtype), self.matrix, trans_y=True)
        return ops.elementwise_mul(ops.cast(sums, out_dtype=x.dtype), ops.elementwise_mul(step, self.scale))

    def part(self, i: int) -> _Weights:
        """The weights of one direction."""
        scale = None if self.scale is None else self.scale if self.scale.rank == 0 else _part(self.node, self.scale, i)
        return _Weights(self.node, _part(self.node, self.matrix, i), scale)


@dataclass
class _Direction:
    """One direction of a network: its weights, without the axis of directions."""

    node: Node
    w: _Weights
    r: _Weights
    b: Value | None
    peephole: Value | None
    activations: list[Callable[[Value], Value]]

    @property
    def hidden(self) -> int:
        return self.r.matrix.shape[-1]

    def gates(self, x: Value, count: int) -> list[Value]:
        ops, size = self.node.ops, self.hidden
        return [ops.slice(x, axes=[x.rank - 1], starts=[i * size], ends=[(i + 1) * size]) for i in range(count)]

    def activated(self, x: Value, function: Callable[[Value], Value], count: int) -> list[Value]:
        """The first gates of x, activated together, and what comes after them."""
        ops, end = self.node.ops, count * self.hidden
        first = function(self.clipped(ops.slice(x, axes=[x.rank - 1], starts=[0], ends=[end])))
        return [*self.gates(first, count), ops.slice(x, axes=[x.rank - 1], starts=[end], ends=[end + self.hidden])]

    def clipped(self, x: Value) -> Value:
        bound = self.node.attr("clip")
        return x if bound is None else self.node.ops.clip(x, min=-float(bound), max=float(bound))


def _activation(node: Node, name: str, alpha: float | None, beta: float | None) -> Callable[[Value], Value]:
    ops = node.ops
    functions: dict[str, Callable[[Value], Value]] = {
        "relu": ops.relu,
        "tanh": ops.tanh,
        "sigmoid": ops.sigmoid,
        "softsign": ops.softsign,
        # Beyond 60 log(1 + exp(x)) is x to the last bit of float64.
        "softplus": lambda x: ops.softplus(x, threshold=60.0),
        "affine": lambda x: ops.scale(x, scale=1.0 if alpha is None else alpha, bias=0.0 if beta is None else beta),
        "leakyrelu": lambda x: ops.leaky_relu(x, alpha=0.01 if alpha is None else alpha),
        "thresholdedrelu": lambda x: ops.thresholded_relu(x, threshold=1.0 if alpha is None else alpha),
        "scaledtanh": lambda x: ops.scale(ops.tanh(ops.scale(x, scale=beta or 1.0)), scale=alpha or 1.0),
        "hardsigmoid": lambda x: ops.hard_sigmoid(x, slope=0.2 if alpha is None else alpha, offset=0.5 if beta is None else beta),
        "elu": lambda x: ops.elu(x, alpha=1.0 if alpha is None else alpha),
    }
    if name.lower() not in functions:
        raise UnsupportedModel(f"the activation {name!r} of a recurrent network")
    return functions[name.lower()]


def _run(node: Node, kind: str, gates: int, defaults: Sequence[str], states: int, weights: Sequence[_Weights] = ()) -> list[Value | None]:
    """Both directions, one after the other; outputs as ONNX lays them out."""
    ops = node.ops
    w, r = weights or (_Weights(node, node[1]), _Weights(node, node[2]))
    x, lengths = node[0], node.get(4)
    # Weights may be inputs; gates are parts of theirs.
    node.extents("an extent of the weights", *r.matrix.shape[1:], *(node[3].shape[1:] if node.get(3) is not None else ()))
    x = _of_known_batch(node, x, states)
    direction = str(node.attr("direction", "forward"))
    count = 2 if direction == "bidirectional" else 1
    argument = [str(item) for item in node.attr("activations", list(defaults) * count)]
    alphas, betas = (list(node.attr(name, [])) for name in ("activation_alpha", "activation_beta"))
    # Activations, alphas and betas are lists over both directions: those of the forward one first.
    functions = [
        _activation(node, name, float(alphas[i]) if i < len(alphas) else None, float(betas[i]) if i < len(betas) else None)
        for i, name in enumerate(argument)
    ]
    sequences, finals = [], []
    for i in range(count):
        cell = _Direction(
            node,
            w.part(i),
            r.part(i),
            None if node.get(3) is None else _part(node, node[3], i),
            None if kind != "LSTM" or node.get(7) is None else _part(node, node[7], i),
            functions[i * len(defaults) : (i + 1) * len(defaults)],
        )
        back = direction == "reverse" or i == 1
        initial = [_initial(node, node.get(5 + s), i, x, cell.hidden) for s in range(states)]
        ys, last = _direction(node, cell, kind, gates, x, lengths, initial, back)
        sequences.append(ys)
        finals.append(last)
    # [steps, directions, batch, hidden], and [directions, batch, hidden].
    y = ops.stack(sequences, axis=1)
    return [y, *(ops.stack([last[s] for last in finals], axis=0) for s in range(states))]


def batch_first(node: Node, read: Handler) -> list[Value | None]:
    """A network with the layout [batch, steps, ...] as one of the other layout between transpositions: of it onnxruntime has a kernel."""

    def swapped(x: Operand) -> Operand:
        return None if x is None else node.ops.transpose(x, axis=[1, 0, 2])

    # X and the initial states; the weights and the lengths of the sequences have no batch.
    inputs = [swapped(value) if i in (0, 5, 6) else value for i, value in enumerate(node.inputs)]
    result = read(replace(node, inputs=inputs, attrs={name: value for name, value in node.attrs.items() if name != "layout"}))
    y, *ends = [result] if isinstance(result, Value) else result
    assert y is not None
    # [steps, directions, batch, hidden] becomes [batch, steps, directions, hidden].
    return [node.ops.transpose(y, axis=[2, 0, 1, 3]), *map(swapped, ends)]


def _part(node: Node, x: Value, i: int) -> Value:
    """The slice of direction ``i``, without the axis of directions."""
    return node.ops.squeeze(node.ops.slice(x, axes=[0], starts=[i], ends=[i + 1]), axes=[0])


def _of_known_batch(node: Node, x: Value, states: int) -> Value:
    """The inputs with as many sequences as an initial state has: exporters often leave the one open and fix the other."""
    initial_states = [state for state in (node.get(5 + s) for s in range(states)) if state is not None]
    batches = {state.shape[1] for state in initial_states} - {-1}
    return node.ops.reshape(x, shape=[0, *batches, 0]) if x.shape[1] == -1 and len(batches) == 1 else x


def _initial(node: Node, x: Value | None, i: int, inputs: Value, hidden: int) -> Value:
    ops = node.ops
    batch = inputs.shape[1]
    if x is not None:
        state = _part(node, x, i)
        return state if batch == -1 or state.shape[0] != -1 else ops.reshape(state, shape=[batch, hidden])
    if batch != -1:
        return Value(np.zeros((batch, hidden), inputs.dtype))
    size = ops.reshape(extent(node, inputs, 1), shape=[1])
    shape = ops.concat([size, Value(np.asarray([hidden], "int64"))], axis=0)
    return ops.fill_constant(None, shape, shape=[-1, hidden], dtype=inputs.dtype, value=0.0)


def _direction(
    node: Node, direction: _Direction, kind: str, gates: int, x: Value, lengths: Value | None, initial: list[Value], back: bool
) -> tuple[Value, list[Value]]:
    """Outputs by time and the last states of one direction."""
    ops = node.ops
    sequence = x
    if back:
        # Reversed within its length, a sequence still has its padding after it, and both directions share the loop.
        sequence = ops.flip(x, axis=[0]) if lengths is None else reversed_by_length(node, x, lengths, 1, 0)
    # The inputs' products of all steps are one product before the loop; only the states' share has to be computed step by step.
    shares, rb = direction.w.times(sequence), None
    if direction.b is not None:
        # B is [Wb, Rb]: the biases of the inputs' products, then of the states'.
        half = direction.b.shape[0] // 2
        wb, bias = (ops.slice(direction.b, axes=[0], starts=[i * half], ends=[(i + 1) * half]) for i in (0, 1))
        apart = kind == "GRU"  # whose reset gate may come between the product and its bias
        shares = ops.elementwise_add(shares, wb if apart else ops.elementwise_add(wb, bias))
        rb = bias if apart else None
    step = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}[kind](direction, rb, gates)
    ys, last = _scanned(node, shares, step, initial, lengths)
    if back:
        ys = ops.flip(ys, axis=[0]) if lengths is None else reversed_by_length(node, ys, lengths, 1, 0)
    return ys, last


def _scanned(node: Node, shares: Value, step: Step, initial: list[Value], lengths: Value | None) -> tuple[Value, list[Value]]:
    """The loop over time; after the end of a sequence its outputs are 0 and its states stay."""
    ops = node.ops
    count = extent(node, shares, 0)
    ends = None if lengths is None else ops.unsqueeze(ops.cast(lengths, out_dtype="int64"), axes=[1])

    def condition(i: Variable, *rest: Variable) -> Variable:
        return layers.less_than(i, ops.variable(count))

    def iteration(i: Variable, *rest: Variable) -> list[Variable]:
        states, array = [Value(variable=variable) for variable in rest[:-1]], rest[-1]
        place = Value(variable=i)
        share = ops.squeeze(ops.gather(shares, ops.reshape(place, shape=[1]), axis=0), axes=[0])
        results = step(share, states)
        output = results[0]
        if ends is not None:
            # One condition for each sequence of the batch: a shorter one goes on computing, and what it computes is not used.
            runs = ops.less_than(place, ends)
            output = ops.where(runs, results[0], ops.like(0.0, results[0]))
            results = [ops.where(runs, new, old) for new, old in zip(results, states, strict=True)]
        # Written by its index, so that the array has a row for each step also where sequences have ended.
        next_array = layers.array_write(ops.variable(output), i, array)
        return [layers.scale(i, scale=1.0, bias=1.0), *map(ops.variable, results), next_array]

    start = [ops.variable(Value(np.asarray(0, "int64"))), *map(ops.variable, initial), layers.create_array(shares.dtype)]
    outputs = layers.while_loop(condition, iteration, start)
    ys = ops.tensor_array_to_tensor(Value(variable=outputs[-1]), axis=0, use_stack=True)
    if shares.shape[0] != -1:  # an array of tensors does not say how many it has
        ys = ops.reshape(ys, shape=[shares.shape[0], *([0] * (ys.rank - 1))])
    return ys, [Value(variable=item) for item in outputs[1:-1]]


def _recurrent(direction: _Direction, h: Value, rb: Value | None) -> Value:
    result = direction.r.times(h)
    return result if rb is None else direction.node.ops.elementwise_add(result, rb)


def _rnn_step(direction: _Direction, rb: Value | None, gates: int) -> Step:
    ops = direction.node.ops
    # h = f(x W' + h R' + b).
    return lambda share, states: [
        direction.activations[0](direction.clipped(ops.elementwise_add(share, _recurrent(direction, states[0], rb))))
    ]


def _gru_step(direction: _Direction, rb: Value | None, gates: int) -> Step:
    """Gates z, r, h; ``linear_before_reset`` multiplies by the reset gate after the product."""
    ops, f, g = direction.node.ops, direction.activations[0], direction.activations[1]
    after = bool(direction.node.attr("linear_before_reset", 0))
    size = direction.hidden
    parts = ((0, 2 * size), (2 * size, 3 * size))  # the gates, and the new state
    rows = [ops.slice(direction.r.matrix, axes=[0], starts=[start], ends=[end]) for start, end in parts]
    biases = [None, None] if rb is None else [ops.slice(rb, axes=[0], starts=[start], ends=[end]) for start, end in parts]

    def product(h: Value, i: int) -> Value:
        result = ops.matmul_v2(h, rows[i], trans_y=True)
        return result if biases[i] is None else ops.elementwise_add(result, biases[i])

    def step(share: Value, states: Sequence[Value]) -> list[Value]:
        h = states[0]
        gate_sums, xh = (ops.slice(share, axes=[share.rank - 1], starts=[start], ends=[end]) for start, end in parts)
        z, r = direction.gates(f(direction.clipped(ops.elementwise_add(gate_sums, product(h, 0)))), 2)
        # K. Cho et al. (2014) reset the state before the product; cuDNN, and linear_before_reset, reset the product with its bias.
        inner = ops.elementwise_mul(r, product(h, 1)) if after else product(ops.elementwise_mul(r, h), 1)
        new = g(direction.clipped(ops.elementwise_add(xh, inner)))
        # h = (1 - z) new + z h, as K. Cho et al. have it; J. Chung et al. (2014) exchange z and 1 - z.
        kept_values = ops.elementwise_mul(ops.scale(z, scale=-1.0, bias=1.0), new)
        return [ops.elementwise_add(kept_values, ops.elementwise_mul(z, h))]

    return step


def _lstm_step(direction: _Direction, rb: Value | None, gates: int) -> Step:
    """Gates i, o, f, c."""
    ops = direction.node.ops
    f, g, h_of = direction.activations
    peeps = None if direction.peephole is None else direction.gates(direction.peephole, 3)
    is_coupled = bool(direction.node.attr("input_forget", 0))

    def peeked(x: Value, c: Value, i: int) -> Value:
        return x if peeps is None else ops.elementwise_add(x, ops.elementwise_mul(peeps[i], c))

    def step(share: Value, states: Sequence[Value]) -> list[Value]:
        h, c = states
        gates = ops.elementwise_add(share, _recurrent(direction, h, rb))
        if peeps is None and not is_coupled:
            # c = f c + i g(x_c), h = o tanh(c) (S. Hochreiter and J. Schmidhuber, 1997; F. Gers et al., 2000, for f).
            i, o, forget, xc = direction.activated(gates, f, 3)
            new = ops.elementwise_add(ops.elementwise_mul(forget, c), ops.elementwise_mul(i, g(direction.clipped(xc))))
            return [ops.elementwise_mul(o, h_of(new)), new]
        xi, xo, xf, xc = direction.gates(gates, 4)
        i = f(direction.clipped(peeked(xi, c, 0)))
        forget = ops.scale(i, scale=-1.0, bias=1.0) if is_coupled else f(direction.clipped(peeked(xf, c, 2)))
        new = ops.elementwise_add(ops.elementwise_mul(forget, c), ops.elementwise_mul(i, g(direction.clipped(xc))))
        # The gates i and f look at the old cell, o at the new one (F. Gers, J. Schmidhuber, 2000).
        o = f(direction.clipped(peeked(xo, new, 1)))
        return [ops.elementwise_mul(o, h_of(new)), new]

    return step


@handles("RNN")
def _rnn(node: Node) -> list[Value | None]:
    return _run(node, "RNN", 1, ["Tanh"], 1)


@handles("GRU")
def _gru(node: Node) -> list[Value | None]:
    return _run(node, "GRU", 3, ["Sigmoid", "Tanh"], 1)


@handles("LSTM")
def _lstm(node: Node) -> list[Value | None]:
    return _run(node, "LSTM", 4, ["Sigmoid", "Tanh", "Tanh"], 2)


# -- quantized weights ---------------------------------------------------------------------------


@handles("DynamicQuantizeLSTM", domain=MICROSOFT)
def _quantized_lstm(node: Node) -> list[Value | None]:
    """An LSTM whose weights are integers; what they are multiplied by is quantized as it comes."""
    weights = [_whole_numbers(node, node[i], node[8 + 2 * k], node.get(9 + 2 * k)) for k, i in enumerate((1, 2))]
    return _run(node, "LSTM", 4, ["Sigmoid", "Tanh", "Tanh"], 2, weights)


def _whole_numbers(node: Node, w: Value, scale: Value, zero: Value | None) -> _Weights:
    """Integers [directions, inputs, outputs] with a scale for all, for each direction, or for each column of each."""
    ops = node.ops
    matrix = less_zero(node, w, None if zero is None else _spread(node, zero), (1,))
    return _Weights(node, ops.transpose(matrix, axis=[0, 2, 1]), ops.squeeze(_spread(node, scale), axes=[1]))


def _spread(node: Node, part: Value) -> Value:
    """A scale or a zero point as [directions or 1, 1, outputs or 1]."""
    return node.ops.unsqueeze(part, axes=[1]) if part.rank == 2 else node.ops.reshape(part, shape=[-1, 1, 1])


def _as_numbers(node: Node, x: Value) -> tuple[Value, Value]:
    """x as whole numbers of 8 bits less their zero point, by its own range, and what 1 of them is worth."""
    ops = node.ops
    scale, zero = own_range(node, x)
    number = ops.clip(ops.elementwise_add(ops.rint(ops.elementwise_div(x, scale), straight_through=True), zero), min=0.0, max=255.0)
    return ops.elementwise_sub(number, zero), scale
