"""numpy's random streams in XLA: ``numpy.random.default_rng(numbers)`` without its state, so that all elements are drawn at once.

    numbers -> SeedSequence -> 128 bits of state -> PCG64 (O'Neill 2014), of which the k-th state is a_k * state + c_k * increment
            -> 64 or 32 random bits -> random(), standard_normal(), integers()

The bits are numpy's, and what is made of them by multiplying and comparing: uniform numbers, masks and integers are equal to the last bit.
Normal numbers come from the same ziggurat (Marsaglia and Tsang 2000, 256 layers), as numpy has it; a draw that is rejected shifts all
later ones, which is found by a fixed-point iteration over all places at once. They are equal to the last bit as well, except for a few of
double precision beyond 3.65, whose logarithm XLA rounds in another way: one in a million.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from math import prod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.jax.registry import rounded
from graphad.types import Array, Tensor

U32, U64 = np.uint32, np.uint64
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
ROW = 1024  # states that one table has
MASK = (1 << 128) - 1
PAIRS = 6  # of the tail that are looked at

# -- seeding -------------------------------------------------------------------------------------


def words_of(*numbers: int) -> list[int]:
    """Numbers as ``SeedSequence`` takes them: 32 bits at a time, the low ones first."""
    words: list[int] = []
    for number in numbers:
        words.append(number & 0xFFFFFFFF)
        while number := number >> 32:
            words.append(number & 0xFFFFFFFF)
    return words


class _Hash:
    """A hash whose constant changes with each word."""

    def __init__(self, start: int, factor: int) -> None:
        self.constant, self.factor = start, factor

    def __call__(self, word: Tensor) -> Tensor:
        word = word ^ U32(self.constant)
        self.constant = self.constant * self.factor & 0xFFFFFFFF
        word = word * U32(self.constant)
        return word ^ (word >> U32(16))


def _mixed(x: Tensor, y: Tensor) -> Tensor:
    word = U32(0xCA01F9DD) * x - U32(0x4973F715) * y
    return word ^ (word >> U32(16))


def seeded(words: Tensor) -> tuple[Pair, Pair]:
    """The state and the increment that PCG64 begins with; ``words`` are uint32, known or not."""
    entropy = [jnp.asarray(word, U32) for word in words]
    first, pool = _Hash(0x43B0D7E5, 0x931E8875), []
    # numpy's SeedSequence, after M. O'Neill's seed_seq_fe (2015): four words are hashed, each is mixed with each other, and what words
    # there are beyond four is mixed into all. The hashes' constants change with each call, so the order of these calls is the format.
    for i in range(4):
        pool.append(first(entropy[i] if i < len(entropy) else jnp.zeros((), U32)))
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _mixed(pool[target], first(pool[source]))
    for word in entropy[4:]:
        for target in range(4):
            pool[target] = _mixed(pool[target], first(word))
    last = _Hash(0x8B51F9DD, 0x58F38DED)
    halves = [last(pool[i % 4]).astype(U64) for i in range(8)]
    high, low, inc_high, inc_low = (halves[i] | (halves[i + 1] << U64(32)) for i in range(0, 8, 2))
    # An increment is odd, so that the period is 2**128. The state is stepped once from 0, before and after the seed is added.
    increment = Pair((inc_high << U64(1)) | (inc_low >> U64(63)), (inc_low << U64(1)) | U64(1))
    start = added(increment, Pair(high, low))
    return added(times(start, pair_of(MULTIPLIER)), increment), increment


# -- numbers of 128 bits -------------------------------------------------------------------------


class Pair(NamedTuple):
    """128 bits as two times 64."""

    high: Tensor
    low: Tensor


def pair_of(number: int) -> Pair:
    return Pair(U64(number >> 64), U64(number & 0xFFFFFFFFFFFFFFFF))


def added(a: Pair, b: Pair) -> Pair:
    low = a.low + b.low
    # Unsigned numbers wrap: the sum is less than a summand exactly if there is a carry.
    return Pair(a.high + b.high + (low < b.low).astype(U64), low)


def times(a: Pair, b: Pair) -> Pair:
    return Pair(_high(a.low, b.low) + a.high * b.low + a.low * b.high, a.low * b.low)


def _high(a: Tensor, b: Tensor) -> Tensor:
    """The upper 64 bits of a product of 64 bits."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    half, low = U64(32), U64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    # By halves of 32 bits. Neither sum overflows: (2**32 - 1)**2 + 2**32 - 1 < 2**64.
    middle = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (cross >> half)


@cache
def _jumps(count: int, step: int) -> tuple[Array, Array, Array, Array]:
    """The factors of the state and of the increment after 0, ``step``, 2 ``step``... steps."""
    factor, total = 1, 0
    # A step is s -> a s + c; so are n steps, and their a and c are found by squaring (F. Brown, 1994).
    for bit in bin(step)[2:]:
        factor, total = factor * factor & MASK, total * (factor + 1) & MASK
        if bit == "1":
            factor, total = factor * MULTIPLIER & MASK, (total * MULTIPLIER + 1) & MASK
    a, c, table = 1, 0, []
    for _ in range(count):
        table.append((a >> 64, a & 0xFFFFFFFFFFFFFFFF, c >> 64, c & 0xFFFFFFFFFFFFFFFF))
        a, c = a * factor & MASK, (c * factor + total) & MASK
    columns = np.array(table, U64).reshape(count, 4).T
    return columns[0], columns[1], columns[2], columns[3]


def _after(state: Pair, increment: Pair, table: tuple[Array, ...]) -> Pair:
    """States after so many steps each."""
    return added(times(Pair(table[0], table[1]), state), times(Pair(table[2], table[3]), increment))


def raw(words: Tensor, count: int) -> Tensor:
    """The first ``count`` draws of 64 bits."""
    state, increment = seeded(words)
    state = added(times(state, pair_of(MULTIPLIER)), increment)
    rows = -(-count // ROW)
    starts = _after(state, increment, _jumps(rows, ROW))
    states = _after(Pair(starts.high[:, None], starts.low[:, None]), increment, _jumps(min(ROW, count), 1))
    # The output XSL-RR: the halves exclusive-or'ed, rotated by the upper six bits. A shift by 64 is undefined, hence the mask.
    bits = (states.high ^ states.low).reshape(-1)[:count]
    turn = (states.high >> U64(58)).reshape(-1)[:count]
    return (bits >> turn) | (bits << ((U64(64) - turn) & U64(63)))


def raw32(words: Tensor, count: int) -> Tensor:
    """The first draws of 32 bits: the lower halves before the upper ones."""
    pairs = raw(words, -(-count // 2))
    halves = jnp.stack([pairs & U64(0xFFFFFFFF), pairs >> U64(32)], 1).astype(U32)
    return halves.reshape(-1)[:count]


# -- numbers -------------------------------------------------------------------------------------


def _uniform(bits: Tensor) -> Tensor:
    # The upper 24 or 53 bits as a fraction: every such number is one of the dtype.
    if bits.dtype == U32:
        return (bits >> U32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (bits >> U64(11)).astype(np.float64) * 2.0**-53


class Tables(NamedTuple):
    """The layers of the ziggurat: how wide, how much of it is inside, how high; where the tail begins, and one divided by that."""

    wide: Array
    inside: Array
    high: Array
    edge: float
    per_edge: float


@cache
def _tables(bits: int) -> Tables:
    """Computed to 50 digits and rounded: for 52 bits (float64), whose widths are numpy's own, or 23 (float32)."""
    with localcontext() as context:
        context.prec = 50
        edge, unit = Decimal("3.6541528853610087963519472518"), Decimal(1 << bits)
        height = (-edge * edge / 2).exp()
        area = edge * height + _tail(edge)
        x = [Decimal(0)] * 256
        x[255], thresholds, widths = edge, [0] * 256, [Decimal(0)] * 256
        base = area / height
        thresholds[0], widths[0], widths[255] = int(edge / base * unit), base / unit, edge / unit
        # The ziggurat (G. Marsaglia and W. W. Tsang, 2000): 256 layers of one area, from the outermost inwards, so that the density at x[i]
        # is that at x[i + 1] and the height area / x[i + 1] of the layer in between.
        for i in range(254, 0, -1):
            x[i] = (-2 * (area / x[i + 1] + (-x[i + 1] * x[i + 1] / 2).exp()).ln()).sqrt()
            thresholds[i + 1], widths[i] = int(x[i] / x[i + 1] * unit), x[i] / unit
        high = [1.0, *(float((-v * v / 2).exp()) for v in x[1:])]
    kind, whole = (np.float32, U32) if bits == 23 else (np.float64, U64)
    # numpy's widths of double precision were computed in double precision: their last bits are its own.
    wide = np.array([float(w) for w in widths], kind) if bits == 23 else np.array([_width(layer) for layer in range(256)])
    return Tables(wide, np.array(thresholds, whole), np.array(high, kind), float(edge), float(1 / edge))


def _width(layer: int) -> float:
    """The width of a layer of numpy's ziggurat: the draw if the first 64 bits say this layer, and the smallest number above 0 in it."""
    bits, bit_generator = 1 << 9 | layer, np.random.PCG64()
    increment = 1
    # A state with an upper half of 0 gives its lower half as the output; a step back from it is what the generator has to begin with.
    start = (bits - increment) * pow(MULTIPLIER, -1, MASK + 1) & MASK
    bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": start, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return float(np.random.Generator(bit_generator).standard_normal())


def _tail(x: Decimal) -> Decimal:
    """The integral of exp(-t t / 2) from x on: Laplace's continued fraction."""
    fraction = x
    for k in range(400, 0, -1):
        fraction = x + Decimal(k) / fraction
    return (-x * x / 2).exp() / fraction


def _shifted(values: Tensor, by: int) -> Tensor:
    return jnp.concatenate([values[by:], jnp.zeros(by, values.dtype)])


def normals(words: Tensor, count: int, dtype: Tensor) -> Tensor:
    """The first draws of ``standard_normal``."""
    is_single = np.dtype(dtype) == np.float32
    # Numbers of 64 or 32 bits to draw from: 99.3 % of the draws take one of them, the others two or more, or are rejected.
    places = count + count // 32 + 64 + 2 * PAIRS
    bits = raw32(words, places) if is_single else raw(words, places)
    table = _tables(23 if is_single else 52)
    kind, word = (np.float32, U32) if is_single else (np.float64, U64)
    # From the lowest bit on: 8 for the layer, 1 for the sign, 23 or 52 for the place within the layer.
    layer = (bits & word(0xFF)).astype(np.int32)
    sign = (bits >> word(8)) & word(1)
    size = (bits >> word(9)) & word((1 << (23 if is_single else 52)) - 1)
    x = size.astype(kind) * jnp.asarray(table.wide)[layer]
    x = jnp.where(sign == 1, -x, x)
    fast = size < jnp.asarray(table.inside)[layer]
    uniform = _uniform(bits)
    high = jnp.asarray(table.high)
    # Between the layer's inside and the curve the density itself decides, by the next uniform number.
    wedge = (high[layer - 1] - high[layer]) * _shifted(uniform, 1) + high[layer] < jnp.exp(kind(-0.5) * x * x)
    tail, attempts = _tail_draws(uniform, kind(table.edge), kind(table.per_edge))
    # In the tail numpy takes the sign from another bit than elsewhere.
    tail = jnp.where((size >> word(8)) & word(1) == 1, -tail, tail)
    outside = ~fast & (layer == 0)
    value = jnp.where(outside, tail, x)
    lengths = jnp.where(fast, 1, jnp.where(outside, 1 + 2 * attempts, 2))
    starts = _starts(fast, lengths)
    is_accepted = starts & (fast | outside | wedge)
    order = jnp.where(is_accepted, jnp.cumsum(is_accepted) - 1, count)
    return jnp.zeros(count, kind).at[order].set(value, mode="drop")


def _tail_draws(uniform: Tensor, edge: Tensor, per_edge: Tensor) -> tuple[Tensor, Tensor]:
    """For each place the number beyond the edge that the next pairs give, and how many pairs that takes."""
    # G. Marsaglia (1964): x = -ln(u) / edge is taken if -2 ln(v) > x². From the last pair to the first, so that the first one wins.
    # 1 - u is exact, and XLA's logarithm is nearer to numpy's log1p than its own log1p.
    logs = -jnp.log(1 - uniform)
    beyond, attempts = jnp.zeros_like(uniform), jnp.zeros(uniform.shape, np.int32)
    for pair in range(PAIRS, 0, -1):
        x, y = _shifted(logs, 2 * pair - 1) * per_edge, _shifted(logs, 2 * pair)
        is_accepted = (y + y > x * x) | (pair == PAIRS)
        beyond, attempts = jnp.where(is_accepted, x, beyond), jnp.where(is_accepted, pair, attempts)
    return edge + rounded(beyond), attempts


def _starts(fast: Tensor, taken: Tensor) -> Tensor:
    """A mask of the places at which draws begin, given how many places a draw from each would take: none begins inside of another one."""

    places = jnp.arange(fast.shape[0])

    def inside(starts: Tensor) -> Tensor:
        ends = lax.cummax(places + jnp.where(starts & ~fast, taken, 1))
        return jnp.concatenate([jnp.ones(1, bool), ends[:-1] <= places[1:]])

    def step(state: Tensor) -> Tensor:
        starts, _ = state
        new = inside(starts)
        return new, (new != starts).any()

    # Each draw begins where the one before it ends, which is a chain through all places. From "all are beginnings", a round corrects
    # at least one more draw at the front: the only fixed point is the chain itself.
    beginnings: Tensor = lax.while_loop(lambda state: state[1], step, (jnp.ones(fast.shape, bool), jnp.asarray(True)))[0]
    return beginnings


class Generator:
    """A replacement of ``numpy.random.Generator`` for kernels, which draws once.

    Args:
        words: the uint32 that its stream is made of.
    """

    def __init__(self, words: Tensor) -> None:
        self.words = words

    def random(self, shape: Tensor = (), dtype: Tensor = np.float64) -> Tensor:
        """Uniform numbers of [0, 1)."""
        count, single = prod(shape), np.dtype(dtype) == np.float32
        if not count:
            return jnp.zeros(shape, dtype)
        return _uniform(raw32(self.words, count) if single else raw(self.words, count)).reshape(shape)

    def standard_normal(self, shape: Tensor = (), dtype: Tensor = np.float64) -> Tensor:
        """Normally distributed numbers."""
        return normals(self.words, prod(shape), dtype).reshape(shape) if prod(shape) else jnp.zeros(shape, dtype)

    def integers(self, low: int, high: int, shape: Tensor) -> Tensor:
        """Integers of [low, high), by Lemire's multiplication; draws that would favor some are left out."""
        count, extent = prod(shape), high - low
        if extent == 1 or not count:
            return jnp.full(shape, low, np.int64)
        if extent >= 1 << 32:
            return self._wide(low, extent, shape)
        places = count + 64 + count * 2 * extent // (1 << 32)
        # D. Lemire, Fast random integer generation in an interval (2019): the upper half of bits · extent, unless the lower half is below
        # 2**32 mod extent, which is as often as there are numbers too many.
        product = raw32(self.words, places).astype(U64) * U64(extent)
        is_fair = (product & U64(0xFFFFFFFF)) >= U64(((1 << 32) - extent) % extent)
        order = jnp.where(is_fair, jnp.cumsum(is_fair) - 1, count)
        numbers = jnp.zeros(count, np.int64).at[order].set((product >> U64(32)).astype(np.int64), mode="drop")
        return (numbers + low).reshape(shape)

    def _wide(self, low: int, extent: int, shape: Tensor) -> Tensor:
        count = prod(shape)
        if extent == 1 << 32:
            return (raw32(self.words, count).astype(np.int64) + low).reshape(shape)
        places = 2 * count + 64
        bits, factor = raw(self.words, places), U64(extent & 0xFFFFFFFFFFFFFFFF)
        if extent >= 1 << 64:
            return (bits[:count].astype(np.int64) + np.int64(low)).reshape(shape)
        # D. Lemire, "Fast random integer generation in an interval" (2019): the high word of a product is uniform except for a few low
        # words, which are rejected. The generator would draw again; here there are 64 places to spare, and the first that are accepted
        # are taken, in their order.
        is_fair = bits * factor >= U64(((1 << 64) - extent) % extent)
        order = jnp.where(is_fair, jnp.cumsum(is_fair) - 1, count)
        numbers = jnp.zeros(count, U64).at[order].set(_high(bits, factor), mode="drop")
        return (numbers.astype(np.int64) + np.int64(low)).reshape(shape)
