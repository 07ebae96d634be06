"""Layers that are alike are written as the first one was: what that must not change."""

from collections.abc import Callable, Iterator

import pytest

import graphad as ga
from graphad import initializer as I
from graphad import layers as L
from graphad.layers import alike
from graphad.program import unique_name

LAYERS = ("fc", "conv2d", "conv2d_transpose", "batch_norm", "layer_norm", "embedding")
Make = Callable[..., ga.Variable]


def calls(layers: dict[str, Make]) -> Iterator[object]:
    """Calls in pairs and more, with all that such a call may be given."""
    x, image, ids = L.data("x", [4]), L.data("image", [3, 8, 8]), L.data("ids", [1], dtype="int64")
    extents: tuple[int | str, ...] = ("batch", "length", -1, -1)
    rows = [L.data(f"rows_{i}", [extent, 4], append_batch_size=False) for i, extent in enumerate(extents)]
    t = x
    for size in (4, 4, 4, 3, 3):
        t = layers["fc"](t, size, act="tanh")
    for bound in (0.5, 0.5, 1.0):
        yield layers["fc"](x, 3, param_attr=L.ParamAttr(initializer=I.Uniform(-bound, bound), learning_rate=2.0))
    for value in (0.0, -0.0, 0.0):
        yield layers["fc"](x, 3, bias_attr=L.ParamAttr(initializer=I.Constant(value)), param_attr=I.Constant(value))
    for flag in (False, None, False, None):
        yield layers["fc"](x, 3, bias_attr=flag)
    for attr in (L.ParamAttr(name="shared"), L.ParamAttr(name="shared"), I.NumpyArray([[1.0]] * 4), I.NumpyArray([[2.0]] * 4)):
        yield layers["fc"](x, 1, param_attr=attr)
    for _ in range(2):
        yield layers["fc"]([x, x], 3)
        yield layers["fc"](x, 3, name="own" + str(len(x.block.ops)))
        yield layers["embedding"](ids, [5, 2], padding_idx=1)
        yield layers["layer_norm"](x)
        yield layers["batch_norm"](layers["conv2d"](image, 2, [3, 3], padding="SAME"), act="relu")
        yield layers["conv2d_transpose"](image, 2, filter_size=2, stride=2)
        yield L.cond(L.less_than(L.mean(x), L.fill_constant([1], "float32", 0.0)), lambda: layers["fc"](x, 2), lambda: layers["fc"](x, 2))
    for each in rows:
        yield layers["fc"](each, 2)


def written(layers: dict[str, Make], prefix: str = "") -> tuple[object, ...]:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup), unique_name.guard(prefix):
        results = [str(result) for result in calls(layers)]
        counts = dict(main.names.counts)
    facts = [(op.role, op.made_by, op.stored, [type(v) for v in op.attrs.values()]) for p in (main, startup) for op in p.global_block().ops]
    declared = [(v.name, v.stop_gradient, v.persistable, type(v)) for p in (main, startup) for v in p.list_vars()]
    return str(main), str(startup), results, counts, facts, declared, [p.learning_rate for p in main.all_parameters()]


@pytest.mark.parametrize("prefix", ["", "net_"])
def test_programs_are_those_of_layers_that_are_checked_each_time(prefix: str) -> None:
    whole = {name: getattr(L, name).__wrapped__ for name in LAYERS}
    assert written({name: getattr(L, name) for name in LAYERS}, prefix) == written(whole, prefix)


def test_the_second_one_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with ga.program_guard(ga.Program(), ga.Program()) as main:
        x = L.fc(L.fc(L.data("x", [7]), 7), 7)
        monkeypatch.setattr(ga.layers.helper.LayerHelper, "parameter", None)  # a call of it would fail
        L.fc(x, 7)
    assert [op.input("Y") for op in main.global_block().ops if op.type == "mul"] == [["fc_0.w_0"], ["fc_1.w_0"], ["fc_2.w_0"]]


def test_each_operator_has_the_line_and_the_scope_of_its_layer() -> None:
    with ga.program_guard(ga.Program(), ga.Program()) as main:
        x = L.data("x", [4])
        x = L.fc(x, 4)
        with ga.name_scope("inner"):
            x = L.fc(x, 4)
    sources = [op.source for op in main.global_block().ops]
    assert [source.line - sources[0].line for source in sources if source and sources[0]] == [0, 0, 2, 2]
    assert [source.scope for source in sources if source] == ["", "", "inner", "inner"]


def test_lists_are_each_operators_own() -> None:
    startup = ga.Program()
    with ga.program_guard(ga.Program(), startup):
        x = L.data("x", [4])
        for _ in range(3):
            x = L.fc(x, 4)
    first, _, second, *_ = startup.global_block().ops
    first.attrs["shape"].append(9)
    first.outputs["Out"].append("other")
    assert (second.attrs["shape"], second.outputs["Out"]) == ([4, 4], ["fc_1.w_0"])


@pytest.mark.parametrize("taken", ["fc_1.w_0", "fc_1.tmp_0", "fc_1"])
def test_names_that_are_taken_are_passed_over(taken: str) -> None:
    texts = []
    for fc in (L.fc, L.fc.__wrapped__):  # type: ignore[attr-defined]
        with ga.program_guard(ga.Program(), ga.Program()) as main:
            main.global_block().create_var(taken, [4, 4], "float32")
            x = L.data("x", [4])
            for _ in range(3):
                try:
                    x = fc(x, 4)
                except ValueError as error:
                    texts.append(str(error).splitlines()[0])
        texts.append(str(main))
    assert texts[: len(texts) // 2] == texts[len(texts) // 2 :]


def test_an_error_of_a_layer_around_takes_the_names_back() -> None:
    @ga.layers.helper.layer
    def broken(x: ga.Variable) -> ga.Variable:
        L.fc(L.fc(x, 4), 4)
        raise ga.errors.InvalidValue("broken")

    startup = ga.Program()
    with ga.program_guard(ga.Program(), startup) as main:
        x = L.fc(L.fc(L.data("x", [4]), 4), 4)
        before = str(main), str(startup)
        with pytest.raises(ValueError, match="broken"):
            broken(x)
        assert (str(main), str(startup)) == before
        assert L.fc(x, 4).name == "fc_2.tmp_1"


def test_an_interruption_leaves_nothing_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    startup = ga.Program()
    with ga.program_guard(ga.Program(), startup) as main:
        x = L.fc(L.fc(L.data("x", [4]), 4), 4)
        before = str(main), str(startup)
        with monkeypatch.context() as patch:
            patch.setattr(alike, "Operator", _Interrupting(4))
            with pytest.raises(KeyboardInterrupt):
                L.fc(x, 4)
        assert (str(main), str(startup)) == before
        assert L.fc(x, 4).name == "fc_2.tmp_1"


class _Interrupting:
    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *args: object) -> ga.Operator:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return ga.Operator(*args)  # type: ignore[arg-type]
