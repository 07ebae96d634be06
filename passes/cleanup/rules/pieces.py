"""Pieces of tensors: concat and split, stack and unstack, slice and pad."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

from graphad import ops
from graphad.passes.cleanup.rules.arrangement import added, with_attributes
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, several

library = Library()
exact = library.exact


def pieces(shape, *names, **attrs):
    """An example: several tensors of a shape, and attributes."""
    return lambda rng: {**{name: rng.normal(size=shape) for name in names}, **attrs}


@exact
def concat_of_one(x, *, a):
    return ops.concat([x], axis=a), x


def in_a_row(rng):
    """Tensors to concatenate."""
    return {name: [rng.normal(size=(2, 3)) for _ in range(2)] for name in ("xs", "ys", "zs")} | {"a": 1}


@exact(example=in_a_row)
def concat_of_concat(xs=several, ys=several, zs=several, *, a):
    inner = ops.concat([*ys], axis=a)
    return ops.concat([*xs, inner, *zs], axis=a), ops.concat([*xs, *ys, *zs], axis=a), inner.uses == 1


# How many parts there are is no condition: both sides of a rule have one shape, which is that of x only if all parts are there.


@exact(example=with_attributes((4, 3), n=2, s=[], a=0))
def concat_of_split_in_two(x, *, n, s, a):
    return ops.concat(ops.split(x, num=n, sections=s, axis=a)[:2], axis=a), x


@exact(example=with_attributes((6, 3), n=3, s=[], a=0))
def concat_of_split_in_three(x, *, n, s, a):
    return ops.concat(ops.split(x, num=n, sections=s, axis=a)[:3], axis=a), x


@exact(example=with_attributes((8, 3), n=4, s=[], a=0))
def concat_of_split_in_four(x, *, n, s, a):
    return ops.concat(ops.split(x, num=n, sections=s, axis=a)[:4], axis=a), x


@exact(example=with_attributes((2, 3), n=1, s=[], a=0))
def split_in_one(x, *, n, s, a):
    return ops.split(x, num=n, sections=s, axis=a)[0], x


@exact(example=pieces((2, 3), "x", "y", n=2, s=[], a=0))
def split_of_concat_of_two(x, y, *, n, s, a):
    parts = ops.split(ops.concat([x, y], axis=a), num=n, sections=s, axis=a)
    return (parts[0], parts[1]), (x, y)


def in_list(item):
    """A list of one."""
    return [item]


@exact(example=pieces((2, 3), "x", a=0))
def stack_of_one(x, *, a):
    return ops.stack([x], axis=a), ops.unsqueeze(x, axes=compute(in_list, a)), a >= 0


@exact(example=with_attributes((2, 3), n=2, a=0))
def stack_of_unstack_in_two(x, *, n, a):
    return ops.stack(ops.unstack(x, num=n, axis=a)[:2], axis=a), x


@exact(example=with_attributes((3, 3), n=3, a=0))
def stack_of_unstack_in_three(x, *, n, a):
    return ops.stack(ops.unstack(x, num=n, axis=a)[:3], axis=a), x


@exact(example=pieces((2, 3), "x", "y", n=2, a=0))
def unstack_of_stack_of_two(x, y, *, n, a):
    parts = ops.unstack(ops.stack([x, y], axis=a), num=n, axis=a)
    return (parts[0], parts[1]), (x, y)


def is_known(shape):
    """Whether all extents are known."""
    return -1 not in shape


# A slice in the shape of x is all of x; if an extent is not known, equal shapes say nothing.
@exact(example=with_attributes((2, 3), a=[0], s=[0], e=[9], f=[]))
def slice_everything(x, *, a, s, e, f):
    return ops.slice(x, axes=a, starts=s, ends=e, infer_flags=f), x, compute(is_known, x.shape)


@exact(example=with_attributes((2, 3), p=[0, 0, 0, 0], v=0.0))
def pad_by_nothing(x, *, p, v):
    return ops.pad(x, paddings=p, pad_value=v), x, ~compute(any, p)


@exact(example=with_attributes((2, 3), p=[1, 0, 0, 0], q=[0, 2, 0, 1], v=0.5))
def pad_of_pad(x, *, p, q, v):
    return ops.pad(ops.pad(x, paddings=p, pad_value=v), paddings=q, pad_value=v), ops.pad(x, paddings=compute(added, p, q), pad_value=v)
