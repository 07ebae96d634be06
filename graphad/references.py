"""The references that counting an object's references adds to their number, measured in the running Python.

Up to Python 3.13 an argument is a reference of its own: ``getrefcount(x)`` counts one that is not there otherwise. Since 3.14 an argument
may be borrowed from the variable that holds it (LOAD_FAST_BORROW), and adds nothing. To take a count of 3.13 for that of 3.14 would be to
write to an array that its user still holds; so both are measured once. Where more is counted than here, an object looks held: that is
safe.
"""

from __future__ import annotations

from sys import getrefcount


def _of_a_variable() -> int:
    thing = object()
    return getrefcount(thing)


def _of_a_parameter(thing: object) -> int:
    return getrefcount(thing)


def _of_an_argument() -> int:
    thing = object()
    return _of_a_parameter(thing)


COUNTING = _of_a_variable() - 1  # the argument of getrefcount
PASSED = _of_an_argument() - 1 - COUNTING  # the parameter of a function that a variable is passed to

__all__ = ["COUNTING", "PASSED"]
