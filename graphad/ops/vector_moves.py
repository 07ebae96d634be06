"""Rows of images into their phases, many elements at a time, for compiled loops.

    a b c d e f g h   split, stride 2   a c e g   and   b d f h
    i j k . . . . .         ⇒           i k . .         j . . .

A loop over the elements of a short row takes most of its time to begin and to end, and one that reads with gaps is not vectorized well.
Here vectors are loaded, shuffled and stored whole, also where a row ends before: what is written beyond its end is padding, and
the next row is written later.
"""

from __future__ import annotations

LANES = 8  # elements of a phase at a time: as many may be written beyond the last one
MOST = 4  # the greatest stride for which vectors are shuffled

_HEAD = '''\
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

def vector(context, builder, type, array, index, count):
    """The address of so many elements, and what it is a multiple of."""
    data = context.make_array(type)(context, builder, array).data
    at = builder.gep(data, [index], inbounds=True)
    number = context.get_data_type(type.dtype)
    return builder.bitcast(at, ir.VectorType(number, count).as_pointer()), type.dtype.bitwidth // 8

def numbered(numbers):
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)

def repeated(builder, number, count):
    one = builder.insert_element(ir.Constant(ir.VectorType(number.type, 1), ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, numbered([0] * count))

@intrinsic
def outlined(typing):
    """Keep the function that calls this out of those that call it, whose registers it would take."""
    def generate(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()
    return types.none(), generate

'''

_SPLIT = '''\
@intrinsic
def split_{sh}x{sw}(typing, target, t, size, source, s, count, around):
    """Move elements from the s-th on into phases, from the t-th of each on; beyond so many of them ``around``."""
    def generate(context, builder, signature, args):
        target, t, size, source, s, count, around = args
        into, _, _, out_of, *_ = signature.args
        address, align = vector(context, builder, out_of, source, s, {lanes} * {sw})
        index = ir.Constant(ir.VectorType(count.type, {lanes} * {sw}), list(range({lanes} * {sw})))
        is_in = builder.icmp_signed("<", index, repeated(builder, count, {lanes} * {sw}))
        row = builder.select(is_in, builder.load(address, align=align), repeated(builder, around, {lanes} * {sw}))
        for phase in range({sw}):
            part = builder.shuffle_vector(row, row, numbered([phase + {sw} * k for k in range({lanes})]))
            at = builder.add(t, builder.mul(size, ir.Constant(size.type, phase)))
            address, align = vector(context, builder, into, target, at, {lanes})
            builder.store(part, address, align=align)
        return context.get_dummy_value()
    return types.none(target, types.intp, types.intp, source, types.intp, types.intp, source.dtype), generate

'''

_ONE_BY_ONE = '''\
@njit(forceinline=True, **options)
def place_{sh}x{sw}(r, pitch, size, top, left):
    """Where a row begins in its first phase."""
    down = r + top
    return (down % {sh}) * {sw} * size + (down // {sh}) * pitch + left // {sw}

@njit(forceinline=False, **options)
def fill_rest_{sh}x{sw}(image, x, first, pitch, size, top, left):
    outlined()
    for r in range(first, x.shape[0]):
        start = place_{sh}x{sw}(r, pitch, size, top, left)
        for column in range(min({sw}, x.shape[1])):
            target = np.uint64(start + column * size)
            for k in range(np.uint64((x.shape[1] - column + {sw} - 1) // {sw})):
                image[target + k] = x[r, k * np.uint64({sw}) + np.uint64(column)]

'''

# Beyond so many elements from the first of an image on, ``room``, nothing is read: the last rows of the last image are moved one by one.
_FILL = '''\
@njit(forceinline=True, **options)
def whole_{sh}x{sw}(height, width, room):
    """How many rows can be read in vectors."""
    if room >= height * width + {lanes} * {sw}:
        return height
    reached = -(-width // ({lanes} * {sw})) * ({lanes} * {sw})
    return min(height, (room - reached) // width + 1) if room >= reached else 0

@njit(forceinline=True, **options)
def fill_{sh}x{sw}(image, x, room, pitch, size, top, left, around):
    """An image in its phases, each of so many elements, and ``around`` after its rows; the other padding is there."""
    height, width = x.shape
    whole = whole_{sh}x{sw}(height, width, room)
    for r in range(whole):
        start = place_{sh}x{sw}(r, pitch, size, top, left)
        for c in range(0, width, {lanes} * {sw}):
            split_{sh}x{sw}(image, start + c // {sw}, size, x, r * width + c, width - c, around)
    if whole < height:
        fill_rest_{sh}x{sw}(image, x, whole, pitch, size, top, left)

'''

_FILL_ONE_BY_ONE = """\
@njit(forceinline=True, **options)
def fill_{sh}x{sw}(image, x, room, pitch, size, top, left, around):
    fill_rest_{sh}x{sw}(image, x, 0, pitch, size, top, left)

"""


def fills(*strides: tuple[int, int]) -> str:
    """Text of functions that fill the phases of images, for strides of rows and columns: ``fill_1x2``; ``options`` come before it."""
    is_short = {across: across <= MOST for _, across in strides}
    texts = [_HEAD if any(is_short.values()) else "def outlined():\n    pass\n\n"]
    for down, across in dict.fromkeys(strides):
        text = _ONE_BY_ONE + (_SPLIT + _FILL if is_short[across] else _FILL_ONE_BY_ONE)
        texts.append(text.replace("{sh}", str(down)).replace("{sw}", str(across)).replace("{lanes}", str(LANES)))
    return "".join(texts)
