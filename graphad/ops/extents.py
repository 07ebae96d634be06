"""Attributes that may come as tensors instead: lists of integers that are known at run time only."""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import Array
from graphad.ops.inference import check_index, matched
from graphad.types import TensorType, element_count

Types = Sequence[TensorType]


def numbers(attr: list[int], whole: Array | None, each: Sequence[Array] | None) -> list[int]:
    """The integers: of a list of tensors of one element each if there is one, else of one tensor, else the attribute's."""
    if each:
        return [one_number(t) for t in each]
    return attr if whole is None else [int(i) for i in whole.reshape(-1)]


def one_number(t: Array) -> int:
    """The integer in a tensor; InvalidValue if there is not exactly one."""
    if t.size != 1:
        raise InvalidValue(f"a tensor of one integer is expected, not of the shape {list(t.shape)}")
    return int(t.reshape(())[()])


def how_many(slot: str, attr: list[int], whole: TensorType | None, each: Types | None) -> int:
    """How many integers there will be; ShapeError if the tensors hold none, or their number is not known beforehand."""
    if each:
        for i, t in enumerate(each):
            check_index(f"{slot}[{i}]", t)
            if not matched(element_count(t.shape), 1):
                raise ShapeError(f"{slot}[{i}] is {t}; a tensor of one integer is expected")
        return len(each)
    if whole is None:
        return len(attr)
    check_index(slot, whole)
    if len(whole.shape) > 1 or element_count(whole.shape) == -1:
        raise ShapeError(f"{slot} is {whole}; a vector is expected, and how long it is has to be known before the program runs")
    return element_count(whole.shape)


def given(name: str, attr: list[int] | None, whole: object, each: Sequence[object] | None) -> list[int]:
    """The attribute, empty where tensors take its place; ShapeError if there is neither."""
    if attr is None and not is_given(whole, each):
        raise ShapeError(f"attribute {name!r} (list[int]) is missing, and no tensor takes its place")
    return attr or []


def hinted(slot: str, attr: list[int], whole: TensorType | None, each: Types | None) -> list[int]:
    """What is known of the integers beforehand: the attribute, -1 for each where it does not have as many."""
    count = how_many(slot, attr, whole, each)
    return list(attr) if len(attr) == count else [-1] * count


def is_given(whole: object, each: Sequence[object] | None) -> bool:
    """Whether tensors take the place of the attribute."""
    return whole is not None or bool(each)
