"""Passes and pipelines as text: what prints reads back, and an error points at the character."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import graphad as ga
from graphad.errors import InvalidType, ParseError
from graphad.rewriting import PASSES, Pass
from tests.graphs import diamond
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the passes that a test defines after it."""
    with passes(Swap):
        yield


OPTIONS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    float | None: st.none() | st.floats(allow_nan=False),
    bool: st.booleans(),
    tuple[str, ...]: st.lists(st.text()).map(tuple),
    tuple[float, ...]: st.lists(st.floats(allow_nan=False)).map(tuple),
    tuple[tuple[str, str, Any], ...]: st.lists(st.tuples(st.text(), st.text(), st.none() | st.booleans() | st.floats(allow_nan=False))).map(
        tuple
    ),
    tuple[tuple[str, Any], ...]: st.lists(st.tuples(st.text(), st.none() | st.booleans() | st.integers() | st.text())).map(tuple),
}
SHIPPED = sorted(name for name, kind in PASSES.items() if is_dataclass(kind) and kind.__module__.startswith("graphad."))


def any_options(kind: type[Any]) -> st.SearchStrategy[Any]:
    """The pass with options of their types that it does not refuse."""
    hints = get_type_hints(kind)

    def made(**options: Any) -> Any:
        try:
            return kind(**options)
        except ValueError:
            return reject()

    return st.builds(made, **{f.name: options_of(hints[f.name]) for f in fields(kind)})


def options_of(hint: Any) -> st.SearchStrategy[Any]:
    """Options of a type; of a ``Literal`` its words."""
    return st.sampled_from(get_args(hint)) if get_origin(hint) is Literal else OPTIONS[hint]


def test_the_passes_that_ship() -> None:
    assert {"find-op-path", "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars", "expand-grad-ops"} < set(SHIPPED)
    assert {"optimize-parameters", "clip-gradients", "decay-weights"} < set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_pass_without_options_is_its_name(name: str) -> None:
    made = PASSES[name]()
    assert str(made) == name == made.name
    assert ga.Pipeline.parse(name).passes == (made,)
    assert made.summary().endswith(".") or "(" in made.summary()
    assert all(f.default is not MISSING for f in fields(made))  # type: ignore[arg-type]


@given(st.data(), st.lists(st.sampled_from(SHIPPED), min_size=1, max_size=4))
def test_text_of_passes_reads_back(data: st.DataObject, names: list[str]) -> None:
    pipeline = ga.Pipeline(*(data.draw(any_options(PASSES[name])) for name in names))
    again = ga.Pipeline.parse(str(pipeline))
    assert again == pipeline
    assert str(again) == str(pipeline)
    assert hash(again) == hash(pipeline)


def test_options_of_every_kind() -> None:
    @dataclass(frozen=True)
    class Every(ga.Pass):
        """Take options."""

        name = "every"
        a: int = 0
        b: float = 0.0
        c: bool = False
        d: str = ""
        e: str | None = "x"
        f: tuple[Any, ...] = ()

        def apply(self, graph: ga.Graph) -> bool:
            return False

    assert str(Every()) == "every"
    made = Every(-3, 1e-5, True, "two words", None, (1, 2.5, ("true", "1", "none", ""), "fc_0.w_0@GRAD"))
    text = 'every{a=-3, b=1e-05, c=true, d="two words", e=none, f=[1, 2.5, ["true", "1", "none", ""], fc_0.w_0@GRAD]}'
    assert str(made) == text
    assert ga.Pipeline.parse(text) == ga.Pipeline(made)
    assert ga.Pipeline.parse("every{f=[] ,d='q' , a=3}").passes == (Every(3, d="'q'"),)


def test_spaces_and_lines_do_not_matter() -> None:
    text = "\n  find-op-path { targets = [ loss ] } ,\n\tcreate-grad-ops\n"
    assert str(ga.Pipeline.parse(text)) == "find-op-path{targets=[loss]}, create-grad-ops"


WRONG = {
    "": (0, "the pipeline is empty"),
    "nothing": (0, "no pass is named 'nothing'"),
    "find-op-path, nothing": (14, "no pass is named 'nothing'"),
    "find-op-path,": (13, "expected the name of a pass, found 'the end'"),
    "find-op-path create-grad-ops": (13, "expected ',', found 'create-grad-ops'"),
    "find-op-path{targets}": (20, "expected '=', found '}'"),
    "find-op-path{3=4}": (13, "expected the name of an option, found '3'"),
    "find-op-path{targets=}": (21, "expected a value, found '}'"),
    "find-op-path{targets=[a": (23, "expected ',', found 'the end'"),
    "find-op-path{targets=a": (22, "expected ',', found 'the end'"),
    'find-op-path{targets="a}': (21, "unexpected character"),
    "find-op-path{goals=[a]}": (0, "pass find-op-path has no option 'goals'; it has targets, inputs, no_grad"),
    "find-op-path{targets=[a], targets=[b]}": (26, "option targets is given twice"),
    "find-op-path(create-grad-ops)": (0, "pass find-op-path takes no passes in parentheses"),
    "fixpoint(find-op-path": (21, "expected ',', found 'the end'"),
    "fixpoint{bound=3}(find-op-path)": (0, "fixpoint takes passes in parentheses"),
    "fixpoint": (0, "fixpoint takes passes in parentheses"),
    "find-op-path)": (12, "expected ',', found ')'"),
    "accumulate-grads{of=1}": (0, "pass accumulate-grads has no option 'of'; it has none"),
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text or "empty")
def test_an_error_in_the_text_points_at_the_character(text: str) -> None:
    place, message = WRONG[text]
    with pytest.raises(ParseError) as raised:
        ga.Pipeline.parse(text)
    first, shown, mark = str(raised.value).split("\n")
    assert first.startswith(message)
    assert (shown, mark) == (f"  {text}", f"  {' ' * place}^")


@given(st.text(alphabet='ab-,{}()[]="\\ 1\n', max_size=20))
def test_any_text_is_a_pipeline_or_a_parse_error(text: str) -> None:
    with suppress(ParseError):
        ga.Pipeline.parse(text)


def test_a_bad_escape_is_a_parse_error() -> None:
    with pytest.raises(ParseError):
        ga.Pipeline.parse(r'find-op-path{targets=["\q"]}')


def test_the_mark_stands_in_the_line_of_the_error() -> None:
    with pytest.raises(ParseError) as raised:
        ga.Pipeline.parse("find-op-path,\nnothing")
    assert str(raised.value).endswith("\n  nothing\n  ^")


@pytest.mark.parametrize(
    "text",
    [
        "clip-gradients{bound=big}",
        "clip-gradients{bound=true}",
        "find-op-path{targets=[3]}",
        "find-op-path{targets=loss}",
        "find-op-path{targets=3}",
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        ga.Pipeline.parse(text)


def test_parse_takes_text() -> None:
    with pytest.raises(InvalidType, match="not from 3"):
        ga.Pipeline.parse(3)  # type: ignore[arg-type]


def test_fixpoint_in_text() -> None:
    text = "swap, fixpoint(swap{old=b}, fixpoint(swap{old=c}))"
    assert str(ga.Pipeline.parse(text)) == text
    assert ga.Pipeline.parse("fixpoint(swap)").run(diamond())


def test_equal_fixpoints_are_equal() -> None:
    assert ga.fixpoint(Swap()) == ga.fixpoint(Swap())


def test_the_limit_of_a_fixpoint_reads_back() -> None:
    (again,) = ga.Pipeline.parse(str(ga.fixpoint(Swap(), limit=3))).passes
    assert again.limit == 3  # type: ignore[attr-defined]


def test_a_pass_that_is_no_dataclass_has_no_options() -> None:
    with passes():

        class Plain(Pass):
            """Nothing is changed."""

            name = "plain-of-a-test"

            def apply(self, graph: ga.Graph) -> bool:
                return False

        assert str(Plain()) == "plain-of-a-test"
        assert not ga.Pipeline.parse("fixpoint(plain-of-a-test)").run(ga.lower(ga.Program()))
        with pytest.raises(ValueError, match="has no option 'speed'; it has none"):
            ga.Pipeline.parse("plain-of-a-test{speed=1}")
