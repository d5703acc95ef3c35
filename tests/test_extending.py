"""docs/extending.md, run as a user has it: as a module, as a program, over two Ray workers."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from importlib import reload
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import sentune
from sentune import user_code
from sentune.cli import app
from sentune.code import result_code, runtime_env
from sentune.corpora.formats import read
from sentune.corpora.formats.registry import FORMATS
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.methods.simcse import Simcse
from tests.reader_files import SMALL_CORPORA

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.S)

(TASK,) = (block for block in BLOCKS if "class Match" in block)
MATCH = f"import sentune\nfrom torch import Tensor\n{TASK.partition('print(')[0]}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with ``caps.py``, importable here; written classes lie below it."""
    (tmp_path / "caps.py").write_text(BLOCKS[0])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(user_code, "_SHIPPED", {})
    sys.modules.pop("caps", None)
    return tmp_path


def program(folder: Path, *code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a user's in a folder; sentune is installed."""
    (folder / "program.py").write_text("\n".join(code))
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "SENTUNE_STORAGE": str(folder / "studies")}
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **own, **environment},
    )  # fmt: skip


def test_a_class_of_a_module_is_found_shipped_and_in_the_identity(folder: Path) -> None:
    from caps import CapCSE  # type: ignore[import-not-found]

    address = user_code.address_of(CapCSE)
    assert address == "caps:CapCSE"
    assert user_code.find(address) is CapCSE
    assert str(folder / "caps.py") in runtime_env()["py_modules"]
    before = result_code(["caps"])
    (folder / "caps.py").write_text(BLOCKS[0] + "\n# changed")
    after = result_code(["caps"])
    assert {name for name in after if before.get(name) != after[name]} == {"caps.py"}
    assert any("contrastive" in name for name in after)


def test_what_is_no_method_is_refused() -> None:
    class Nothing(sentune.SentenceMethod):
        pass

    with pytest.raises(InvalidValue, match=r"Nothing.*define title, settings_type.*head.*loss"):
        sentune.method(Nothing)
    with pytest.raises(InvalidValue, match="SentenceMethod"):
        sentune.method(int)  # type: ignore[type-var]
    with pytest.raises(InvalidValue, match=r"no_such:Class.*cannot be imported here.*PYTHONPATH"):
        user_code.find("no_such:Class")
    there = r"copy user_0a\.py from ~/\.cache/sentune/code .*sentune/code/user_0a\.py"
    for refuse in (user_code.find, user_code.check_named):
        with pytest.raises(InvalidValue, match=there):
            refuse("user_0a:Class")
    with pytest.raises(InvalidValue, match="top of a module"):
        user_code.address_of(Nothing)


def test_a_module_that_is_loaded_anew_gives_its_new_class(folder: Path) -> None:
    import caps  # type: ignore[import-not-found]

    first = user_code.find("caps:CapCSE")
    (folder / "caps.py").write_text(BLOCKS[0].replace('title = "CapCSE"', 'title = "New"'))
    assert user_code.find("caps:CapCSE") is first
    second = reload(caps).CapCSE
    assert user_code.find("caps:CapCSE") is second is not first


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"settings_type": dict}, r"settings_type of Wrong: .*derived from sentune.MethodSettings"),
        ({"settings_type": BaseModel}, "settings_type of Wrong: .*sentune.MethodSettings"),
        ({"kind": "triplet"}, "kind of Wrong: 'triplet'.*choose one of triplets, sentence-pairs"),
        ({"kind": "scored-pairs"}, "kind of Wrong: 'scored-pairs'.*choose one of triplets"),
    ],
)
def test_wrong_attributes_of_a_method_are_refused_where_it_is_defined(
    own: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        sentune.method(type("Wrong", (Simcse,), own))
    named: Any = sentune.method(type("Named", (Simcse,), {"kind": "labelled-pairs"}))
    assert named.kind is Kind.LABELLED_PAIRS


def test_what_a_module_imports_from_beside_it_is_sent_to_workers_too(folder: Path) -> None:
    (folder / "beside.py").write_text("WIDTH = 3\n")
    (folder / "unused.py").write_text("")
    (folder / "with_helper.py").write_text(f"from beside import WIDTH\n{BLOCKS[0]}")
    user_code.find("with_helper:CapCSE")
    sent = [Path(place).name for place in runtime_env()["py_modules"]]
    assert sent == ["sentune", "with_helper.py", "beside.py"]


class Notebook(ModuleType):
    """``__main__`` of a notebook whose cells are files named by their content, as ipykernel's."""

    def run(self, text: str) -> str:
        """Run a cell; return what the class ``Cell`` would be written as."""
        file = f"/tmp/ipykernel_1/{hash(text)}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        self.In = [*vars(self).get("In", []), text]
        exec(compile(text, file, "exec", dont_inherit=True), vars(self))
        address = user_code.address_of(self.Cell)
        return (user_code._folder() / f"{address.partition(':')[0]}.py").read_text()


@pytest.fixture
def notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook("__main__")
    monkeypatch.setitem(sys.modules, "__main__", made)
    monkeypatch.setattr(linecache, "cache", {})
    return made


@pytest.mark.parametrize("body", ["def title(self): return {!r}", "title = {!r}"])
def test_an_edit_of_a_cell_that_is_undone_gives_the_first_class(
    notebook: Notebook, body: str
) -> None:
    first, second = (f"class Cell:\n    {body.format(title)}\n" for title in "AB")
    written = [notebook.run(cell) for cell in (first, second, first)]
    assert written[0] == written[2] != written[1]


def test_a_variable_named_as_one_within_the_class_is_not_written(notebook: Notebook) -> None:
    cell = (
        "class Cell:\n"
        "    width: int = 4\n"
        "    size = size\n"
        "    def loss(self, rows, scale=factor):\n"
        "        total = [row for row in rows]\n"
        "        return total, lambda other: other + OFFSET, self.width\n"
    )
    used = "size, factor, OFFSET = 1, 2, 3\n"
    first = notebook.run(used + cell)
    assert [line for line in first.splitlines() if " = " in line and line[0] != " "] == [
        "size = 1", "factor = 2", "OFFSET = 3"
    ]  # fmt: skip
    assert notebook.run("rows = total = row = other = width = self = object()\n") == first


def test_a_class_imports_the_submodules_that_it_uses(notebook: Notebook) -> None:
    text = notebook.run(
        "import xml as x, xml.etree.ElementTree\n"
        "class Cell:\n"
        "    def parse(self, text):\n"
        "        return x.etree.ElementTree.fromstring(text).tag\n"
    )
    check = "print(Cell().parse('<a/>'))"
    done = subprocess.run(
        [sys.executable, "-c", f"{text}\n{check}"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "a\n", done.stderr


def test_a_class_of_a_folder_without_init_is_sent_with_its_folder(folder: Path) -> None:
    (folder / "bare_space").mkdir()
    (folder / "bare_space" / "own.py").write_text("class Foo:\n    pass\n")
    user_code.find("bare_space.own:Foo")
    assert user_code.shipped() == {"bare_space.own": folder / "bare_space"}


@pytest.mark.parametrize("address", [":Foo", ".foo:Bar", "..:Bar"])
def test_an_address_without_a_module_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue, match=r"--method: .*write MODULE:CLASS"):
        user_code.find(address, "--method")


def test_a_class_that_reads_the_name_of_its_module_has_that_of_its_file(notebook: Notebook) -> None:
    notebook.run("import logging\nclass Cell:\n    log = logging.getLogger(__name__)\n")
    address = user_code.address_of(notebook.Cell)
    assert user_code.find(address).__module__ == address.partition(":")[0]


def test_a_class_beside_the_command_is_tuned_over_its_own_space(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(folder)])
    lines = ["", "", "from sentune import Choice, SearchSpace", "CapCSE.space = SearchSpace("]
    lines += ["    objective='rte/accuracy', settings={'dimension': Choice(4, 8)}", ")", ""]
    (folder / "caps.py").write_text(BLOCKS[0] + "\n".join(lines))
    tiny = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
    small = ["--corpus=builtin:nli?size=192", "--dev=builtin:nli?split=dev&size=60"]
    small += [f"--encoder={tiny}", "--set=batch_size=16", "--storage=new", "--dry-run"]
    done = CliRunner().invoke(app, ["tune", "caps:CapCSE", *small])
    assert done.exit_code == 0, done.output
    assert "2, drawn by tpe" in done.stdout  # of the space that the class has
    wrong = CliRunner().invoke(app, ["tune", "caps:Cap"])
    assert isinstance(wrong.exception, InvalidValue)
    assert "'caps:Cap'" in str(wrong.exception)
    assert "check the name; module caps has no Cap" in str(wrong.exception)


def test_the_command_of_a_class_has_the_options_of_a_job(folder: Path) -> None:
    own = CliRunner().invoke(app, ["tune", "caps:CapCSE", "--help"])
    known = CliRunner().invoke(app, ["tune", "simcse", "--help"])
    options = [set(re.findall(r"--[a-z-]+", shown.output)) for shown in (own, known)]
    assert own.exit_code == 0, own.output
    assert options[0] == options[1] - {"--quick"}
    assert "--max-examples" in options[0]
    assert "default: capcse" in own.output


def test_a_format_reads_rows_and_leaves_bad_ones_out(tmp_path: Path) -> None:
    @sentune.format("little", "labelled-pairs", options={"label": "of all rows"})
    def rows(path: str, label: str = "neutral") -> list[dict[str, str]]:
        texts = Path(path).read_text().split()
        return [{"premise": one, "hypothesis": "b", "label": label} for one in texts] + [{}]

    try:
        file = tmp_path / "rows.txt"
        file.write_text("a c")
        corpus = read(f"little:{file}?label=entailment&rows=0:1", Kind.LABELLED_PAIRS)
        assert corpus.table.to_pylist()[0]["label"] == "entailment"
        whole = read(f"little:{file}", Kind.LABELLED_PAIRS)
        assert (whole.table.num_rows, whole.counts["bad"]) == (2, 1)
    finally:
        del FORMATS["little"]
    with pytest.raises(InvalidValue, match=r"snli.*choose another name"):
        sentune.format("snli", "labelled-pairs")
    with pytest.raises(InvalidValue, match=r"no-kind.*triplets"):
        sentune.format("little", "no-kind")
    with pytest.raises(InvalidValue, match=r"'my:rows'.*letters"):
        sentune.format("my:rows", "labelled-pairs")


@pytest.mark.parametrize("rows", [[("a", "b", "neutral")], pd.DataFrame({"premise": ["a"]}), None])
def test_a_format_that_yields_no_dicts_is_refused(rows: Any) -> None:
    sentune.format("tuples", "labelled-pairs")(lambda _: rows)
    try:
        with pytest.raises(InvalidValue, match=r"format tuples: .*dict of premise, hypothesis"):
            read("tuples:x", Kind.LABELLED_PAIRS)
    finally:
        del FORMATS["tuples"]


def test_zero_is_a_score_and_a_class_of_a_format_of_ones_own() -> None:
    @sentune.format("scores", "scored-pairs")
    def scores(_: str) -> list[dict[str, Any]]:
        return [{"sentence1": "a", "sentence2": "b", "score": n, "subset": ""} for n in (0.0, 5)]

    @sentune.format("classes", "classified-sentences")
    def classes(_: str) -> list[dict[str, Any]]:
        return [{"text": "a", "label": n, "second": ""} for n in (0, 1)]

    try:
        scored, classified = read("scores:x", Kind.SCORED_PAIRS), read("classes:x", Kind.CLASSIFIED)
    finally:
        del FORMATS["scores"], FORMATS["classes"]
    assert scored.table.column("score").to_pylist() == [0, 5]
    assert scored.table.column("subset").null_count == 2
    assert classified.table.column("label").to_pylist() == ["0", "1"]
    assert classified.table.column("second").null_count == 2


@pytest.mark.cluster
def test_the_page_runs_as_one_program(folder: Path) -> None:
    done = program(folder, SMALL_CORPORA, *BLOCKS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "direction/accuracy" in done.stdout
    assert "match/accuracy" in done.stdout
    assert "rte/accuracy" in done.stdout


LOADED = """
import os, sys
import sentune
for named, path in (("", []), ("caps", []), ("caps", ["{folder}"])):
    os.environ["SENTUNE_MODULES"] = named
    sys.path += path
    try:
        print(sentune.Embedder.load("{model}").name)
    except sentune.errors.SentuneError as error:
        print(error)
"""
"""Loads a model where its class is named nowhere, is named, and is found, too."""


@pytest.mark.cluster
def test_a_module_reaches_two_workers_and_its_change_is_named(folder: Path) -> None:
    (folder / "mutation.py").write_text(BLOCKS[-1])
    (folder / "matching.py").write_text(MATCH)
    call = (
        "import matching; dev = {'match': 'builtin:nli?split=dev&size=60'}\n"
        "study = sentune.tune('caps:CapCSE', trials=1, max_examples=320, finalists=0, workers=2,"
        " limit=640, test='builtin:nli?split=test&size=60', dev=dev,"
        " objective='match/accuracy', sampler='mutation:Mutation',"
        " set={'batch_size': 32, 'learning_rate': 1e-3}, study='two')"
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    code = ["import sys, sentune", f"sys.path.insert(0, {str(folder)!r})", call]
    done = program(elsewhere, *code, "print(study.state, study.model.name, *study.best.metrics)",
                   XDG_CACHE_HOME=str(folder / "cache"))  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "complete caps:CapCSE match/accuracy" in done.stdout

    model = elsewhere / "studies" / "two" / "model"
    tried = program(elsewhere, LOADED.format(model=model, folder=folder))
    lost, missing, found = tried.stdout.splitlines()
    assert "caps:CapCSE" in lost
    assert "import caps first, or set SENTUNE_MODULES=caps" in lost
    assert "cannot be imported here" in missing
    assert found == "caps:CapCSE"

    for changed, text in (("caps", BLOCKS[0]), ("matching", MATCH), ("mutation", BLOCKS[-1])):
        (folder / f"{changed}.py").write_text(text + "\n# changed")
    again = [
        "caps:CapCSE",
        "--dev=matching:Match=builtin:nli?split=dev&size=60",
        "--objective=match/accuracy",
        "--sampler=mutation:Mutation",
        "--trials=1",
        "--max-examples=320",
        "--limit=640",
        "--test=builtin:nli?split=test&size=60",
        "--finalists=0",
        "--workers=2",
    ]
    again += ["--set=batch_size=32", "--set=learning_rate=1e-3", "--study=two"]
    line = [str(Path(sys.executable).with_name("sentune")), "tune", *again]
    own = {"PYTHONPATH": str(folder), "SENTUNE_STORAGE": str(elsewhere / "studies")}
    refused = subprocess.run(
        line, cwd=elsewhere, capture_output=True, text=True, check=False, env={**os.environ, **own}
    )
    assert refused.returncode == 2, refused.stderr
    assert "code: another caps.py, matching.py" in refused.stderr
    assert "sampler.mutation.py: was" in refused.stderr


@pytest.mark.extras
def test_a_class_of_a_notebook_is_written_and_trained(folder: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra 'notebook' is not installed")
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    whole = BLOCKS[0]
    split = whole.index("class CapSettings")  # a notebook has them in several cells
    cells = [
        f"import os; os.environ['XDG_CACHE_HOME'] = {str(folder / 'cache')!r}",
        whole[:split],
        whole[split:],
        "model = sentune.fit(CapCSE, set={'learning_rate': 1e-3}, max_examples=64, limit=64)",
        "print(model.name, model.encode('a dog').shape)",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": folder}}
    ).execute()
    nbformat.validate(notebook)
    said = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    (written,) = (folder / "cache" / "sentune" / "code").glob("user_*.py")
    assert said.strip() == f"{written.stem}:CapCSE (33,)"
    assert "class Caps:" in written.read_text()
    assert "from sentune.geometry.contrastive import TermWeights" in written.read_text()
