"""Arrangement of elements: copies, casts, shapes, orders of axes, pieces."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

import numpy as np

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute

library = Library()
exact = library.exact


def with_attributes(shape, **attrs):
    """An example: x of a shape, and attributes."""
    # Random examples seldom have shapes that fit together; the rule's test on random inputs starts from this one.
    return lambda rng: {"x": rng.normal(size=shape), **attrs}


# -- copies and dtypes ---------------------------------------------------------------------------


@exact
def assign_away(x):
    return ops.assign(x), x


@exact
def cast_to_own_dtype(x, *, d, e):
    return ops.cast(x, out_dtype=d, in_dtype=e), x


def holds(wide, narrow):
    """Whether a dtype has every number of another one; numpy calls int64 to float64 safe, which loses digits."""
    from_whole = np.dtype(wide).kind == "f" and np.dtype(narrow).kind in "iu"
    return np.can_cast(narrow, wide, "safe") and not (from_whole and np.iinfo(narrow).bits > np.finfo(wide).nmant)


@exact
def cast_of_widened(x, *, a, b, c, d):
    wide = ops.cast(x, out_dtype=a, in_dtype=b)
    # One cast instead of two; what the first one widened had no more digits than x.
    return ops.cast(wide, out_dtype=c, in_dtype=d), ops.cast(x, out_dtype=c, in_dtype=b), compute(holds, a, x.dtype)


@exact
def zeros_like_zeros(x):
    inner = ops.fill_zeros_like(x)
    return ops.fill_zeros_like(inner), inner


@exact
def filled_like_zeros(x, *, v, d):
    return ops.fill_any_like(ops.fill_zeros_like(x), value=v, dtype=d), ops.fill_any_like(x, value=v, dtype=d), x.dtype != ""


@exact
def zeros_like_filled(x, *, v):
    return ops.fill_zeros_like(ops.fill_any_like(x, value=v)), ops.fill_zeros_like(x)


@exact
def shape_of_zeros(x):
    return ops.shape(ops.fill_zeros_like(x)), ops.shape(x)


# -- shapes --------------------------------------------------------------------------------------


@exact(example=with_attributes((2, 3), s=[2, 3]))
def reshape_to_own_shape(x, *, s):
    return ops.reshape(x, shape=s), x


@exact(example=with_attributes((2, 3), s=[2, 3]))
def reshape2_to_own_shape(x, *, s):
    # The shape of x has to be known and the same: rules keep types.
    return ops.reshape2(x, shape=s), x


def says_all(shape):
    """Whether a new shape does not depend on where extents stood before."""
    # A 0 copies the extent at its place in what is reshaped, which is another shape then.
    return 0 not in shape


def _straight(reshape, moved, x, shape):
    """``reshape(moved) ⇒ reshape(x)``, where ``moved`` has the elements of ``x`` in the same order."""
    return reshape(moved, shape=shape), reshape(x, shape=shape), compute(says_all, shape)


@exact(example=with_attributes((2, 3), s=[3, 2], t=[6]))
def reshape_of_reshape(x, *, s, t):
    return _straight(ops.reshape, ops.reshape(x, shape=s), x, t)


@exact(example=with_attributes((2, 3), s=[3, 2], t=[6]))
def reshape2_of_reshape2(x, *, s, t):
    return _straight(ops.reshape2, ops.reshape2(x, shape=s), x, t)


@exact(example=with_attributes((2, 3), s=[3, 2]))
def reshape_of_squeeze(x, *, a, s):
    return _straight(ops.reshape, ops.squeeze(x, axes=a), x, s)


@exact(example=with_attributes((2, 3), a=[0], s=[3, 2]))
def reshape_of_unsqueeze(x, *, a, s):
    return _straight(ops.reshape, ops.unsqueeze(x, axes=a), x, s)


@exact(example=with_attributes((2, 3), a=1, s=[3, 2]))
def reshape_of_flatten(x, *, a, s):
    return _straight(ops.reshape, ops.flatten(x, axis=a), x, s)


@exact(example=with_attributes((2, 3), s=[3, 2]))
def reshape2_of_squeeze2(x, *, a, s):
    return _straight(ops.reshape2, ops.squeeze2(x, axes=a), x, s)


@exact(example=with_attributes((2, 3), a=[0], s=[3, 2]))
def reshape2_of_unsqueeze2(x, *, a, s):
    return _straight(ops.reshape2, ops.unsqueeze2(x, axes=a), x, s)


@exact(example=with_attributes((2, 3), a=1, s=[3, 2]))
def reshape2_of_flatten2(x, *, a, s):
    return _straight(ops.reshape2, ops.flatten2(x, axis=a), x, s)


@exact(example=with_attributes((2, 3)))
def squeeze_nothing(x, *, a):
    return ops.squeeze(x, axes=a), x


@exact(example=with_attributes((2, 3)))
def squeeze2_nothing(x, *, a):
    return ops.squeeze2(x, axes=a), x


@exact(example=with_attributes((2, 3), a=[1], b=[1]))
def squeeze_of_unsqueeze(x, *, a, b):
    # Whether axes fit is no condition here: a rule that would change a type does not apply.
    return ops.squeeze(ops.unsqueeze(x, axes=a), axes=b), x


@exact(example=with_attributes((2, 3), a=[1], b=[1]))
def squeeze2_of_unsqueeze2(x, *, a, b):
    return ops.squeeze2(ops.unsqueeze2(x, axes=a), axes=b), x


@exact(example=with_attributes((2, 1, 3), a=[1], b=[1]))
def unsqueeze_of_squeeze(x, *, a, b):
    return ops.unsqueeze(ops.squeeze(x, axes=a), axes=b), x


@exact(example=with_attributes((2, 1, 3), a=[1], b=[1]))
def unsqueeze2_of_squeeze2(x, *, a, b):
    return ops.unsqueeze2(ops.squeeze2(x, axes=a), axes=b), x


@exact(example=with_attributes((2, 3), a=1))
def flatten_matrix(x, *, a):
    return ops.flatten(x, axis=a), x


@exact(example=with_attributes((2, 3), a=1))
def flatten2_matrix(x, *, a):
    return ops.flatten2(x, axis=a), x


@exact(example=with_attributes((2, 3), a=1, b=1))
def flatten_one_axis(x, *, a, b):
    return ops.flatten_contiguous_range(x, start_axis=a, stop_axis=b), x


@exact(example=with_attributes((2, 3), s=[2, 3]))
def expand_to_own_shape(x, *, s):
    return ops.expand_v2(x, shape=s), x


@exact(example=with_attributes((1, 3), s=[2, 3], t=[4, 2, 3]))
# A -1 in the second shape would keep an extent that only the first has.
def expand_of_expand(x, *, s, t):
    return ops.expand_v2(ops.expand_v2(x, shape=s), shape=t), ops.expand_v2(x, shape=t), compute(min, t) >= 0


@exact
def expand_like_itself(x):
    return ops.expand_like(x, x), x


@exact
def sum_like_itself(x):
    return ops.sum_like(x, x), x


@exact
def reshape_like_itself(x):
    return ops.reshape_like(x, x), x


def all_ones(repeats):
    """Whether nothing is repeated."""
    return all(r == 1 for r in repeats)


@exact(example=with_attributes((2, 3), r=[1, 1]))
def tile_once(x, *, r):
    return ops.tile(x, repeat_times=r), x, compute(all_ones, r)


# -- orders of axes ------------------------------------------------------------------------------


def is_in_order(axis):
    """Whether an order of axes changes nothing."""
    # From the end or from the front: axis -1 may be the last one.
    return [a % len(axis) for a in axis] == list(range(len(axis)))


def composed(first, second):
    """The composition of two permutations of axes."""
    return [first[a] % len(first) for a in second]


@exact(example=with_attributes((2, 3), a=[0, 1]))
def transpose_in_order(x, *, a):
    return ops.transpose(x, axis=a), x, compute(is_in_order, a)


@exact(example=with_attributes((2, 3), a=[0, 1]))
def transpose2_in_order(x, *, a):
    return ops.transpose2(x, axis=a), x, compute(is_in_order, a)


@exact(example=with_attributes((2, 3, 4), a=[1, 2, 0], b=[0, 2, 1]))
def transpose_of_transpose(x, *, a, b):
    return ops.transpose(ops.transpose(x, axis=a), axis=b), ops.transpose(x, axis=compute(composed, a, b))


@exact(example=with_attributes((2, 3, 4), a=[1, 2, 0], b=[0, 2, 1]))
def transpose2_of_transpose2(x, *, a, b):
    return ops.transpose2(ops.transpose2(x, axis=a), axis=b), ops.transpose2(x, axis=compute(composed, a, b))


@exact(example=with_attributes((2, 3), a=[1]))
def flip_of_flip(x, *, a):
    # Reversing the same axes twice.
    return ops.flip(ops.flip(x, axis=a), axis=a), x


@exact(example=with_attributes((2, 3), s=[0], a=[1]))
def roll_by_zero(x, *, s, a):
    return ops.roll(x, shifts=s, axis=a), x, ~compute(any, s)


def added(first, second):
    """Two lists added up."""
    return [a + b for a, b in zip(first, second, strict=True)]


@exact(example=with_attributes((2, 3), s=[1], t=[1], a=[1]))
def roll_of_roll(x, *, s, t, a):
    roll = ops.roll(x, shifts=compute(added, s, t), axis=a)
    # Without axes a roll is of the flat tensor, by the sum of its shifts: two lists need not have one length.
    return ops.roll(ops.roll(x, shifts=s, axis=a), shifts=t, axis=a), roll, compute(len, a) > 0
