"""The snippet of a counterexample runs when saved to a file, wherever the pass was defined."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import ops
from graphad.ir import Graph
from graphad.rewriting import PASSES, Fixpoint, Pass, RulePass, RuleSet, nested
from graphad.testing import Case
from graphad.testing.snippet import snippet
from graphad.testing.trial import Subject
from tests.forked import Done, Forks
from tests.scratch import Swap, passes
from tests.source_tree import ROOT
from tests.testing.wrong_passes import SwapsSubtraction

Run = Callable[..., Done]
TEXT = "program { block 0 { var x: float64[2] var y: float64[2] tanh(X=x) -> (Out=y) } }"
LIMITED = """\
from __future__ import annotations

from dataclasses import dataclass
from {helpers} import renamed as rename

import graphad as ga
from graphad.rewriting import Pass

TABLE = {{"tanh": "sin"}}
WORDS = [word for word in TABLE]

def wanted(op):
    return op.type in WORDS and op.type in TABLE

@dataclass(frozen=True)
class Wrong(Pass):
    '''Puts sin in the place of tanh.'''

    name = "snippet-wrong"
    most: int = 3

    def apply(self, graph: ga.Graph) -> bool:
        ops = [op for op in graph.ops if wanted(op)]
        for op in ops[: self.most]:
            graph.add_op(rename(TABLE[op.type]), op.inputs, op.outputs, before=op)
            graph.remove_op(op)
        return bool(ops)
"""
HELPERS = "def renamed(text):\n    return text\n"
MAKE = """
from graphad.program import Program
from graphad.testing import Case
from graphad.testing.snippet import snippet
from graphad.testing.trial import Subject
from numpy import array

case = Case(Program.parse("{text}"), feeds={{"x": array([0.5, 2.0])}})
with open("{path}", "w", encoding="utf-8") as file:
    file.write(snippet(Subject({made}), case))
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    before, path = dict(PASSES), list(sys.path)
    yield
    PASSES.clear()
    PASSES.update(before)
    sys.path[:] = path


def case(text: str = TEXT) -> Case:
    return Case(ga.Program.parse(text), feeds={"x": np.array([0.5, 2.0])})


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("graphad.passes", "graphad.testing.check") as server:
        yield server


@pytest.fixture
def run(forks: Forks, tmp_path: Path) -> Run:
    """``python FILE`` or ``python -c TEXT``."""
    return lambda *words, cwd: forks.run(*words, cwd=cwd, said=tmp_path / "said.txt")


def shown(text: str, tmp_path: Path, run: Run, said: str = "the results differ") -> None:
    """Saved to a file of another folder, the snippet fails with the finding."""
    folder = tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "snippet.py").write_text(text, encoding="utf-8")
    done = run("snippet.py", cwd=folder)
    assert done.returncode == 1, text
    assert f"AssertionError: {said}" in done.said, f"{text}\n{done.said}"


def written(folder: Path, name: str, helpers: str = "snippet_helpers") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{helpers}.py").write_text(HELPERS, encoding="utf-8")
    path = folder / f"{name}.py"
    path.write_text(LIMITED.format(helpers=helpers), encoding="utf-8")
    return path


# -- where a pass can be defined -----------------------------------------------------------------


def test_in_a_module_of_the_current_folder(run: Run, tmp_path: Path) -> None:
    written(tmp_path, "snippet_wrong")
    make = MAKE.format(text=TEXT, path=tmp_path / "made.py", made="snippet_wrong.Wrong(most=2)")
    assert run("-c", f"import snippet_wrong\n{make}", cwd=tmp_path).returncode == 0
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert f"sys.path.insert(0, {str(tmp_path)!r})" in text
    assert "from snippet_wrong import Wrong\n" in text
    assert "check_case(Wrong(most=2), case)" in text
    assert "class Wrong" not in text
    shown(text, tmp_path, run)


def test_in_a_package_beside_the_script(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "pack", "inner", "pack.helpers")
    (tmp_path / "pack" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pack" / "helpers.py").write_text(HELPERS, encoding="utf-8")
    script = tmp_path / "script.py"
    made = MAKE.format(text=TEXT, path=tmp_path / "made.py", made="Wrong()")
    script.write_text(f"from pack.inner import Wrong\n{made}", encoding="utf-8")
    assert run(script, cwd=ROOT).returncode == 0
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert "from pack.inner import Wrong\n" in text
    shown(text, tmp_path, run)


def test_in_a_script(run: Run, tmp_path: Path) -> None:
    script = written(tmp_path, "script")
    with script.open("a", encoding="utf-8") as file:
        file.write(MAKE.format(text=TEXT, path=tmp_path / "made.py", made="Wrong()"))
    done = run(script, cwd=ROOT)
    assert done.returncode == 0, done.said
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    for part in ("from snippet_helpers import renamed as rename", "def wanted(op):", "TABLE = {'tanh': 'sin'}", "class Wrong(Pass):"):
        assert text.count(part) == 1, text
    assert "__main__" not in text
    shown(text, tmp_path, run)


NOTEBOOK = """
import linecache, sys
cells = [
    "from dataclasses import dataclass\\nimport graphad as ga\\nfrom graphad import ops",
    "@ga.rewrite(verify=False)\\ndef wrong_tanh(x):\\n    return ops.tanh(x), ops.sin(x)",
    "@dataclass(frozen=True)\\nclass Wrong(ga.RulePass):\\n    name = 'snippet-wrong'\\n    rules = ga.RuleSet(wrong_tanh)",
    {make!r},
]
In = []
for number, cell in enumerate(cells):
    name = f"<ipython-input-{{number}}>"
    linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
    In.append(cell)
    exec(compile(cell, name, "exec"), globals())
"""


def test_in_a_notebook(run: Run, tmp_path: Path) -> None:
    make = MAKE.format(text=TEXT, path=tmp_path / "made.py", made="Wrong()")
    done = run("-c", NOTEBOOK.format(make=make), cwd=tmp_path)
    assert done.returncode == 0, done.said
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert text.index("def wrong_tanh") < text.index("class Wrong")
    shown(text, tmp_path, run)


def test_where_there_is_no_source(run: Run, tmp_path: Path) -> None:
    code = LIMITED.format(helpers="os.path").replace("renamed", "normpath")
    made = MAKE.format(text=TEXT, path=tmp_path / "made.py", made="Wrong()")
    done = run("-c", code + made, cwd=tmp_path)
    assert done.returncode == 0, done.said
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert "#   Wrong: the source of Wrong is not known" in text
    done = run(tmp_path / "made.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.said.strip() == "define or import Wrong here, and remove this line"


def test_in_a_test_module_that_only_pytest_imports(run: Run, tmp_path: Path) -> None:
    """As with ``--import-mode=importlib``: the module's name cannot be imported."""
    path = written(tmp_path / "my tests", "test_passes")
    sys.path.insert(0, str(path.parent))
    module = imported("my tests.test_passes", path)
    text = snippet(Subject(module.Wrong()), case())
    assert "class Wrong(Pass):" in text
    shown(text, tmp_path, run)


def test_in_a_test_module_below_the_root(run: Run, tmp_path: Path) -> None:
    """As with ``--import-mode=importlib``: the module's name can be imported, if the root is on the path."""
    path = written(tmp_path / "checks", "test_passes", "checks.helpers")
    (tmp_path / "checks" / "helpers.py").write_text(HELPERS, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    module = imported("checks.test_passes", path)
    sys.path.remove(str(tmp_path))
    text = snippet(Subject(module.Wrong()), case())
    assert "from checks.test_passes import Wrong\n" in text
    shown(text, tmp_path, run)


def imported(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# -- inside functions ----------------------------------------------------------------------------


def made_in_a_function(old: str, new: str) -> Pass:
    words = [old]

    @dataclass(frozen=True)
    class Local(Pass):
        """Puts one operator in the place of another."""

        name = "snippet-local"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in graph.ops if op.type in words]
            for op in found:
                graph.add_op(new, op.inputs, op.outputs, before=op)
                graph.remove_op(op)
            return bool(found)

    return Local()


def test_in_a_function_that_returned(run: Run, tmp_path: Path) -> None:
    text = snippet(Subject(made_in_a_function("tanh", "sin")), case())
    assert "\nnew = 'sin'\n" in text
    assert "\nwords = ['tanh']\n" in text
    assert "\n@dataclass(frozen=True)\nclass Local(Pass):\n" in text
    shown(text, tmp_path, run)


def test_in_a_function_that_runs(run: Run, tmp_path: Path) -> None:
    title = "snippet-" + "rules"

    @ga.rewrite(verify=False)
    def wrong_tanh(x: Any) -> Any:
        return ops.tanh(x), ops.sin(x)

    @dataclass(frozen=True)
    class Rules(RulePass):
        """One wrong rule."""

        name = title
        rules = RuleSet(wrong_tanh)

    text = snippet(Subject(Rules()), case())
    assert "\n@ga.rewrite(verify=False)\ndef wrong_tanh(" in text
    assert "\ntitle = 'snippet-rules'\n" in text
    shown(text, tmp_path, run)


def test_what_is_no_longer_known_is_said() -> None:
    def make(title: str) -> Pass:
        @dataclass(frozen=True)
        class Forgetful(Pass):
            """The name it was made with is kept nowhere."""

            name = f"snippet-{title}"

            def apply(self, graph: Graph) -> bool:
                return False

        return Forgetful()

    text = snippet(Subject(make("x")), case())
    assert "#   title: its value is no longer known" in text
    assert "raise SystemExit('define or import title here, and remove this line')" in text


# -- what else it needs --------------------------------------------------------------------------


def test_pipelines_mix_passes_of_all_kinds() -> None:
    with passes(SwapsSubtraction, Swap):
        what = Swap("sin", "cos") | Fixpoint(SwapsSubtraction(), limit=3) | nested(SwapsSubtraction())
        text = snippet(Subject(what), case())
        assert "Pipeline(Swap(old='sin', new='cos'), Fixpoint(SwapsSubtraction(), limit=3), Nested(SwapsSubtraction()))" in text
        assert text.count("import SwapsSubtraction") == 1
        text = snippet(Subject("swap{old=tanh}, cse", prepare="wrong-swaps-subtraction"), case())
    assert "check_case('swap{old=tanh}, cse', case, prepare='wrong-swaps-subtraction')" in text
    assert "from tests.scratch import Swap\n" in text
    assert "from tests.testing.wrong_passes import SwapsSubtraction\n" in text


def test_operators_of_its_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_operators.py").write_text(
        "import numpy as np\nfrom graphad import ops\nfrom graphad.ops.inference import same_float\n\n"
        "cubed = ops.operator('X -> Out', name='snippet_cubed', infer=same_float, grad={})(lambda X: X * X * X)\n",
        encoding="utf-8",
    )
    script = written(tmp_path, "script")
    made = MAKE.format(text=TEXT.replace("tanh", "snippet_cubed"), path=tmp_path / "made.py", made="Wrong()")
    text = script.read_text(encoding="utf-8").replace('TABLE = {"tanh": ', 'TABLE = {"snippet_cubed": ')
    script.write_text(f"{text}import my_operators\n{made}", encoding="utf-8")
    done = run(script, cwd=ROOT)
    assert done.returncode == 0, done.said
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert "from my_operators import cubed\n" in text
    shown(text, tmp_path, run)


def test_in_a_module_that_is_being_imported(run: Run, tmp_path: Path) -> None:
    """Importing it again would run the check at its end again."""
    path = written(tmp_path, "checks_itself")
    with path.open("a", encoding="utf-8") as file:
        file.write(MAKE.format(text=TEXT, path=tmp_path / "made.py", made="Wrong()"))
    done = run("-c", "import checks_itself", cwd=tmp_path)
    assert done.returncode == 0, done.said
    text = (tmp_path / "made.py").read_text(encoding="utf-8")
    assert "class Wrong(Pass):" in text
    assert "import checks_itself" not in text


def test_two_things_of_one_name() -> None:
    """An import gets another name; a definition in the snippet cannot."""
    Swap_2 = type("Swap", (Pass,), {"__module__": __name__, "apply": lambda self, graph: False})
    globals()["Swap"], before = Swap_2, Swap
    try:
        text = snippet(Subject(before("sin", "cos") | Swap_2()), case())
    finally:
        globals()["Swap"] = before
    assert "from tests.scratch import Swap\n" in text
    assert f"from {__name__} import Swap as Swap_2\n" in text
    assert "Pipeline(Swap(old='sin', new='cos'), Swap_2())" in text
    text = snippet(Subject(made_in_a_function("tanh", "sin") | made_in_a_function("tanh", "cos")), case())
    assert "#   Local: it is <class" in text


class Plain(Pass):
    """No dataclass: it keeps what it was made with under other names, or under the same ones."""

    def __init__(self, first: int, second: int = 2) -> None:
        self.first, self.other = first, second

    def apply(self, graph: Graph) -> bool:
        return False


class Keeping(Plain):
    """It keeps what it was made with."""

    def __init__(self, first: int, second: int = 2) -> None:
        super().__init__(first, second)
        self.second = second


def test_passes_that_are_no_dataclasses() -> None:
    assert "check_case(Keeping(first=1, second=3), case)" in snippet(Subject(Keeping(1, 3)), case())
    text = snippet(Subject(Plain(1)), case())
    assert "#   made_Plain: Plain(...); it does not keep its arguments under their names" in text
    assert "define or import made_Plain here" in text
