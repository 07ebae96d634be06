"""Watched programs: every way to change one leaves a mark, and what others hold is compared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.program.watching import WatchedDict, WatchedList, latest, watch


def program() -> ga.Program:
    """y = transpose(scale(x, 2)), with a list among its attributes."""
    main = ga.Program()
    with ga.program_guard(main):
        x = layers.data("x", [2, 3], append_batch_size=False)
        layers.transpose(layers.scale(x, scale=2.0), [1, 0])
    return main


def marked(change: Callable[[], object]) -> bool:
    mark = latest[0]
    change()
    return latest[0] is not mark


LISTS: dict[str, Callable[[list[Any]], object]] = {
    "append": lambda x: x.append(1),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove(x[0]),
    "clear": lambda x: x.clear(),
    "sort": lambda x: x.sort(),
    "reverse": lambda x: x.reverse(),
    "[0] =": lambda x: x.__setitem__(0, 5),
    "[:] =": lambda x: x.__setitem__(slice(None), [5]),
    "del": lambda x: x.__delitem__(0),
    "+=": lambda x: x.__iadd__([1]),
    "*=": lambda x: x.__imul__(2),
    "__init__": lambda x: x.__init__([1]),  # type: ignore[misc]
}
DICTS: dict[str, Callable[[dict[Any, Any]], object]] = {
    "[] =": lambda x: x.__setitem__("a", 1),
    "del": lambda x: x.__delitem__("axis"),
    "pop": lambda x: x.pop("axis"),
    "popitem": lambda x: x.popitem(),
    "clear": lambda x: x.clear(),
    "update": lambda x: x.update(a=1),
    "setdefault": lambda x: x.setdefault("a", 1),
    "|=": lambda x: x.__ior__({"a": 1}),
    "__init__": lambda x: x.__init__(a=1),  # type: ignore[misc]
}


@pytest.mark.parametrize("how", LISTS)
def test_changes_of_lists_are_seen(how: str) -> None:
    main = program()
    assert watch(main) == []
    assert marked(lambda: LISTS[how](main.global_block().ops[1].attrs["axis"]))


@pytest.mark.parametrize("how", DICTS)
def test_changes_of_dicts_are_seen(how: str) -> None:
    main = program()
    assert watch(main) == []
    assert marked(lambda: DICTS[how](main.global_block().ops[1].attrs))


def test_every_method_that_changes_is_known() -> None:
    """Whatever list and dict have beyond reading; a new one in a new Python fails here."""
    reading = "copy count index get items keys values fromkeys"
    for kind, known in ((WatchedList, LISTS), (WatchedDict, DICTS)):
        public = {name for name in dir(kind.__base__) if not name.startswith("_")} - set(reading.split())
        assert public == {name for name in known if name.isalpha()} - {"del"}


def test_what_is_set_is_seen() -> None:
    main = program()
    watch(main)
    block = main.global_block()
    op, var = block.ops[0], block.vars["x"]
    for thing, name in ((op, "type"), (op, "inputs"), (op, "outputs"), (op, "attrs"), (var, "persistable"), (var, "type")):
        value = getattr(thing, name)
        assert marked(partial(setattr, thing, name, value))
    assert marked(lambda: var.declare((2, 3), "float32"))
    assert marked(lambda: setattr(block, "ops", list(block.ops)))
    assert marked(lambda: setattr(main, "blocks", list(main.blocks)))
    assert watch(main) == []  # what was set is watched in its turn
    assert marked(lambda: block.ops.append(op))


def test_what_others_hold_is_compared() -> None:
    main = program()
    scale, transpose = main.global_block().ops
    held, axis = scale.attrs, transpose.attrs["axis"]
    del scale, transpose
    unseen = watch(main)
    assert unseen is not None
    assert sorted(map(id, (thing for thing, _ in unseen))) == sorted(map(id, (held, axis)))
    assert all(thing == then for thing, then in unseen)
    axis.reverse()
    assert not all(thing == then for thing, then in unseen)


def test_tables_of_variables_that_others_hold_are_not_watched() -> None:
    main = program()
    held = main.global_block().vars
    assert watch(main) is None
    assert held is main.global_block().vars


def test_copies_and_pickles_are_plain() -> None:
    main = program()
    text = str(main)
    watch(main)
    assert str(main) == text
    for other in (copy.deepcopy(main), pickle.loads(pickle.dumps(main)), main.clone()):
        op = other.global_block().ops[1]
        assert str(other) == text
        assert [type(each) for each in (other, op, op.attrs, op.attrs["axis"])] == [ga.Program, ga.Operator, dict, list]
    assert type(copy.copy(main.global_block().ops[1].attrs["axis"])) is list


def test_runs_see_what_has_changed() -> None:
    main, executor, scope = program(), ga.Executor(), ga.Scope()
    block = main.global_block()
    scale, out = block.ops[0], block.var(block.ops[1].output("Out")[0])
    x = np.arange(6, dtype="float32").reshape(2, 3)

    def run() -> Any:
        return [executor.run(main, {"x": x}, [out], scope)[0] for _ in range(4)][-1]

    np.testing.assert_array_equal(run(), 2 * x.T)
    mark = latest[0]
    run()
    assert latest[0] is mark  # a run changes nothing
    scale.attrs["scale"] = 3.0
    np.testing.assert_array_equal(run(), 3 * x.T)
    attrs = scale.attrs
    np.testing.assert_array_equal(run(), 3 * x.T)
    attrs["scale"] = 4.0
    np.testing.assert_array_equal(run(), 4 * x.T)
    axis = block.ops[1].attrs["axis"]
    run()
    axis[:] = [0, 1]
    block.var(out.name).declare((2, 3), "float32")
    np.testing.assert_array_equal(run(), 4 * x)
    scale.type = "relu"
    scale.attrs = {}
    np.testing.assert_array_equal(run(), x)


def test_looking_again_leaves_no_mark() -> None:
    """Else two programs that run in turn would look again each time."""
    programs = [ga.Program(), ga.Program()]
    for program in programs:
        program.global_block().create_var("x", [2], "float32")
        program.global_block().append_op(type="scale", inputs={"X": "x"}, outputs={"Out": "y"}, attrs={"scale": 2.0})
        assert watch(program) == []
    mark = latest[0]
    assert watch(programs[0]) == [] == watch(programs[1])
    assert latest[0] is mark
