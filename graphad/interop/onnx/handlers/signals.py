"""Signals: Fourier transforms, windows, spectrograms. Transforms are products with matrices, so that they have gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad.interop.onnx.handlers.arranging import padded
from graphad.interop.onnx.handlers.convolving import along
from graphad.interop.onnx.handlers.handler import Handler, Node, handles
from graphad.interop.onnx.handlers.pointwise import dtype_of
from graphad.interop.onnx.operands import NotKnown, Value

# -- Fourier transforms --------------------------------------------------------------------------


@handles("DFT")
def _dft(node: Node) -> Value:
    x = node[0]
    lengths = None if node.get(1) is None else node.integers(1, "dft_length")
    if node.version >= 20:
        axes = None if node.get(2) is None else node.integers(2, "axis")
        axis = (axes[0] if axes else -2) % x.rank
    else:
        axis = int(node.attr("axis", 1)) % x.rank
    return transformed(node, x, axis, lengths[0] if lengths else None, bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0)))


def transformed(node: Node, x: Value, axis: int, length: int | None, inverse: bool, onesided: bool) -> Value:
    """The discrete Fourier transform along an axis; the last axis has the real part, and the imaginary one if there is one.

    Raises:
        NotKnown: the extent of the axis is not known before the model runs.
    """
    ops, size = node.ops, x.shape[axis]
    if size == -1:
        raise NotKnown("a Fourier transform along an extent that is not known before the model runs")
    if inverse and onesided:
        return _from_one_side(node, x, axis, 2 * (size - 1) if length is None else length)
    count = size if length is None else length
    ops.room([count, count], "float64")
    if count != size:
        pairs = [(0, 0)] * x.rank
        pairs[axis] = (0, count - size)
        x = padded(node, x, pairs)
    # As a product with the matrix of the transform, real and imaginary part apart: count^2 operations, for which no FFT has to be an
    # operator.
    angles = 2 * np.pi * np.outer(np.arange(count), np.arange(count)) / count
    factor = 1.0 / count if inverse else 1.0
    cosine, sine = np.cos(angles) * factor, np.sin(angles) * factor * (1.0 if inverse else -1.0)
    if onesided and not inverse:
        cosine, sine = cosine[: count // 2 + 1], sine[: count // 2 + 1]
    real = ops.slice(x, axes=[x.rank - 1], starts=[0], ends=[1])
    c, s = (Value(matrix.astype(x.dtype)) for matrix in (cosine, sine))
    out_real, out_imaginary = along(node, real, c, axis), along(node, real, s, axis)
    if x.shape[-1] == 2:
        # (re + i im)(c + i s) = (re c - im s) + i (re s + im c).
        imaginary = ops.slice(x, axes=[x.rank - 1], starts=[1], ends=[2])
        out_real = ops.elementwise_sub(out_real, along(node, imaginary, s, axis))
        out_imaginary = ops.elementwise_add(out_imaginary, along(node, imaginary, c, axis))
    return ops.concat([out_real, out_imaginary], axis=x.rank - 1)


def _from_one_side(node: Node, x: Value, axis: int, count: int) -> Value:
    """The real signal of a number of samples whose spectrum is given up to half of them: the other half is its conjugate."""
    ops, bins = node.ops, count // 2 + 1
    ops.room([count, bins], "float64")
    if x.shape[axis] != bins:
        pairs = [(0, 0)] * x.rank
        pairs[axis] = (0, bins - x.shape[axis])
        x = padded(node, x, pairs)
    angles = 2 * np.pi * np.outer(np.arange(count), np.arange(bins)) / count
    # Every bin stands for itself and its conjugate, except for the first one and, of an even count, the one in the middle.
    weights = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == count), 1.0, 2.0) / count
    parts = [ops.slice(x, axes=[x.rank - 1], starts=[i], ends=[i + 1]) for i in (0, 1)]
    c, s = (Value((matrix * weights).astype(x.dtype)) for matrix in (np.cos(angles), np.sin(angles)))
    return ops.elementwise_sub(along(node, parts[0], c, axis), along(node, parts[1], s, axis))


@handles("STFT")
def _stft(node: Node) -> Value:
    ops = node.ops
    x = node[0] if node[0].rank > 2 else ops.unsqueeze(node[0], axes=[2])  # real numbers may lack the last axis
    steps = node.integers(1, "frame_step") or [1]
    window = node.get(2)
    lengths = None if node.get(3) is None else node.integers(3, "frame_length")
    length = lengths[0] if lengths else window.shape[0] if window is not None else x.shape[1]
    if x.shape[1] == -1:
        raise NotKnown("STFT of a length that is not known before the model runs")
    frames = (x.shape[1] - length) // steps[0] + 1
    # Overlapping frames by one gather: the index of sample j of frame i is i * step + j.
    places = (np.arange(frames)[:, None] * steps[0] + np.arange(length)[None]).ravel().astype("int64")
    samples = ops.reshape(ops.gather(x, Value(places), axis=1), shape=[0, frames, length, x.shape[2]])
    if window is not None:
        samples = ops.elementwise_mul(samples, ops.unsqueeze(window, axes=[1]))
    return transformed(node, samples, 2, None, False, bool(node.attr("onesided", 1)) and x.shape[2] == 1)


# -- windows -------------------------------------------------------------------------------------


def _window(weights: Callable[[np.ndarray[tuple[int, ...], np.dtype[np.float64]]], object]) -> Handler:
    def handler(node: Node) -> Value:
        sizes = node.integers(0, "size") or [0]
        count = sizes[0]
        node.ops.room([count], "float64")
        # A periodic window is one of one element more, without its last.
        last = count if node.attr("periodic", 1) else count - 1
        angles = 2 * np.pi * np.arange(count, dtype="float64") / max(last, 1)
        return Value(np.asarray(weights(angles), dtype_of(int(node.attr("output_datatype", 1)))))

    return handler


handles("HannWindow")(_window(lambda x: 0.5 - 0.5 * np.cos(x)))
handles("HammingWindow")(_window(lambda x: 25 / 46 - (1 - 25 / 46) * np.cos(x)))
handles("BlackmanWindow")(_window(lambda x: 0.42 - 0.5 * np.cos(x) + 0.08 * np.cos(2 * x)))


@handles("MelWeightMatrix")
def _mel(node: Node) -> Value:
    """Triangles over the mel scale (S. Stevens, J. Volkmann, E. Newman, 1937), 2595 log10(1 + f / 700)."""
    bins, length, rate, low, high = (float(node.known(i, "a parameter").ravel()[0]) for i in range(5))  # type: ignore[union-attr]
    count = int(length) // 2 + 1
    step = (_mels(high) - _mels(low)) / (int(bins) + 2)
    mel = _mels(low) + np.arange(int(bins) + 2) * step
    # As in the reference implementation: bins of the spectrum, rounded down.
    edges = ((700 * (10 ** (mel / 2595) - 1)) * (int(length) + 1) // rate).astype(int)
    node.ops.room([count, int(bins)], "float64")
    out = np.zeros((count, int(bins)))
    for i in range(int(bins)):
        first, middle, last = edges[i], edges[i + 1], edges[i + 2]
        # Triangles narrower than a bin still have a peak.
        if middle == first:
            out[middle, i] = 1
        else:
            out[first : middle + 1, i] = (np.arange(first, middle + 1) - first) / (middle - first)
        if last != middle:
            out[middle:last, i] = (last - np.arange(middle, last)) / (last - middle)
    return Value(out.astype(dtype_of(int(node.attr("output_datatype", 1)))))


def _mels(frequency: float) -> float:
    return float(2595 * np.log10(1 + frequency / 700))
