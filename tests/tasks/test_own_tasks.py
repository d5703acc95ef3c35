"""A task of a user's own, that of docs/extending.md, wherever a task is named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

import sentune
from sentune import api, user_code
from sentune.cli.evaluate import _corpora as named_on_the_command_line
from sentune.code import runtime_env
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue, TrialFailed
from sentune.geometry.points import Points
from sentune.job.families import make_job
from sentune.job.options import JobOptions
from sentune.study.space import SearchSpace, Uniform
from sentune.tasks import Result, evaluate, kind_of, own, read_judged, task_and_corpus
from sentune.tasks.choose import make_tasks

sys.path.insert(0, str(Path(__file__).parent))
from test_tasks import NLI, Cosine

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
(BLOCK,) = (b for b in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "class Match" in b)
MODULE = f"import sentune\nfrom torch import Tensor\n{BLOCK.partition('print(')[0]}"
DEV = "builtin:nli?split=dev&size=60"
TINY = "builtin:tiny?layers=1&width=16&heads=2&inner=32"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with ``match_task.py``, importable here; no task is defined yet."""
    (tmp_path / "match_task.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(user_code, "_SHIPPED", {})
    monkeypatch.setattr(own, "OWN", {})
    yield tmp_path
    sys.modules.pop("match_task", None)


def test_its_metrics_are_those_of_its_class_and_have_its_name(folder: Path) -> None:
    tasks = make_tasks([("match_task:Match", NLI), ("rte", NLI), ("match_task:Match", NLI)])
    assert [task.name for task in tasks] == ["match", "rte", "match-snli"]
    # an animal and a thing that is are at the same angle: the first of the two is found
    places = {"a poodle": 0.1, "a dog": 0.2, "an animal": 1.0, "a thing that is": 1.1, "a cat": 3.0}
    found = evaluate(tasks, lambda texts: torch.tensor([[places[t]] for t in texts]), Cosine())
    # a poodle -> a dog; a dog -> a dog (0.2), not an animal; an animal -> an animal (1.0)
    assert found.metrics["match/accuracy"] == found.metrics["match-snli/accuracy"]
    assert found.metrics["match/accuracy"] == pytest.approx(1 / 3)
    assert "rte/accuracy" in found.metrics


def test_it_is_found_by_address_by_entry_point_and_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidValue, match=r"^--dev: 'match'.*rte, direction.*or MODULE:CLASS"):
        kind_of("match", "--dev")
    point = EntryPoint("pairing", "match_task:Match", "sentune.tasks")
    monkeypatch.setattr(user_code.metadata, "entry_points", lambda group: [point])
    for name in ("pairing", "match", "match_task:Match"):
        assert kind_of(name) is Kind.LABELLED_PAIRS
        ((task, corpus),) = named_on_the_command_line("--task", [f"{name}={DEV}"], None)
        assert (task, corpus.table.num_rows) == (name, 60)
    assert make_tasks([("pairing", NLI)])[0].name == "match"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:Task", "cannot be imported here.*PYTHONPATH"),
        ("sentune:Task", "check the name; module sentune has no Task"),
        ("pathlib:Path", r"put @sentune.task\(NAME, kind=...\) before its class"),
        ("parsing", "choose one of rte"),
    ],
)
def test_what_is_no_task_is_refused_with_its_option(folder: Path, name: str, said: str) -> None:
    space = SearchSpace(method="simcse", objective="match/accuracy", settings={})
    for option in ("--dev", "--test"):
        given = {option[2:]: (f"{name}={DEV}",)}
        with pytest.raises(InvalidValue, match=f"^{option}: '{name}'.*{said}"):
            make_job(JobOptions(storage=str(folder), **given), space)  # type: ignore[arg-type]


def test_what_a_class_lacks_is_said_where_it_is_defined(folder: Path) -> None:
    class Half:
        def sentences(self) -> list[str]:
            return []

    with pytest.raises(InvalidValue, match=r"rte.*choose another name; taken: rte"):
        sentune.task("rte", kind="labelled-pairs")
    with pytest.raises(InvalidValue, match=r"'a/b'.*letters"):
        sentune.task("a/b", kind="labelled-pairs")
    with pytest.raises(InvalidValue, match=r"no-kind.*triplets"):
        sentune.task("half", kind="no-kind")
    with pytest.raises(InvalidValue, match=r"Half.*define evaluate in the class, or run"):
        sentune.task("half", kind="labelled-pairs")(Half)
    assert not own.OWN


def test_a_task_without_a_name_or_a_result_is_refused(folder: Path) -> None:
    class Bare:
        def __init__(self, corpus: object, name: str) -> None:
            pass

        def sentences(self) -> list[str]:
            return ["a"]

        def evaluate(self, *_: object) -> dict[str, float]:
            return {"bare/x": 1.0}

    bare = sentune.task("bare", kind="labelled-pairs")(Bare)
    with pytest.raises(InvalidValue, match=r"task: 'bare'.*set self.name"):
        make_tasks([("bare", NLI)])
    bare.name = "bare"  # type: ignore[attr-defined]
    for found in ({"bare/x": 1.0}, 0.5, None):
        bare.evaluate = lambda *_, found=found: found  # type: ignore[assignment,misc]
        with pytest.raises(InvalidValue, match=r"task bare: .*return sentune.tasks.Result"):
            evaluate(make_tasks([("bare", NLI)]), lambda texts: torch.zeros(1, 1), Cosine())


def test_rows_under_its_name_are_judged_by_it(folder: Path) -> None:
    import match_task  # type: ignore[import-not-found]

    rows = [("A dog runs.", "An animal moves.", "entailment"), ("a", "b", "entailment")]
    (spec,) = api._specs_of({"match": rows}, "dev", str(folder))
    assert spec.startswith(f"match_task:Match=parquet:{folder}/"), "workers find it"
    assert api._specs_of(f"match={DEV}", "dev", "") == (f"match_task:Match={DEV}",)
    assert api._specs_of(DEV, "dev", "") == (DEV,)
    corpus = read_judged(spec)
    assert (corpus.task, corpus.table.num_rows) == ("match_task:Match", 2)
    assert task_and_corpus("csv:a.csv?columns=premise=a") == ("", "csv:a.csv?columns=premise=a")
    assert match_task.Match(corpus, "match").sentences()[1] == "a"


def test_one_configuration_is_selected_by_it(folder: Path) -> None:
    wanted: dict[str, Any] = {"batch_size": 16, "learning_rate": 1e-3}
    model = sentune.fit(
        "simcse", "builtin:nli?size=64", dev=f"match_task:Match={DEV}", set=wanted,
        objective="match/accuracy", max_examples=32, encoder=TINY, out=folder / "run",
    )  # fmt: skip
    found = sentune.evaluate(model, {"match": DEV})
    assert list(found.index) == ["match/accuracy"]
    assert found.loc["match/accuracy", "value"] > 1 / 60
    assert "match/accuracy" in model.card


NUMBER = """
import numpy, torch, sentune
from sentune.tasks import Result

@sentune.task("own", kind="labelled-pairs")
class Own:
    def __init__(self, corpus, name):
        self.name = name

    def sentences(self):
        return []

    def evaluate(self, embeddings, geometry, readouts=None):
        return Result(metrics={{"own/x": {number}}}, readouts={{"own/limit": {number}}})
"""


def fitted(folder: Path, number: str) -> sentune.Embedder:
    """Fit a model that is selected by a task whose metric is a number."""
    sys.modules.pop("own_number", None)
    (folder / "own_number.py").write_text(NUMBER.format(number=number))
    return sentune.fit(
        "simcse", "builtin:nli?size=64", dev=f"own_number:Own={DEV}", set={"batch_size": 16},
        objective="own/x", max_examples=16, encoder=TINY, out=folder / "run",
    )  # fmt: skip


@pytest.mark.parametrize("number", ["torch.tensor(0.5)", "numpy.float32(0.5)"])
def test_numbers_of_torch_and_numpy_are_metrics_and_readouts(folder: Path, number: str) -> None:
    assert fitted(folder, number).readouts == {"own/limit": 0.5}


def test_one_configuration_is_not_selected_by_what_is_no_number(folder: Path) -> None:
    with pytest.raises(TrialFailed, match="own/x is nan at 16 examples"):
        fitted(folder, "float('nan')")


def test_a_study_has_its_code_in_its_identity_and_sends_it_to_workers(folder: Path) -> None:
    space = SearchSpace(
        method="simcse",
        objective="match/accuracy",
        settings={"learning_rate": Uniform(1e-4, 1e-2, log=True)},
        fixed={"batch_size": 16},
    )
    small = {"corpus": "builtin:nli?size=64", "encoder": TINY, "storage": str(folder / "new")}

    def fingerprints(*dev: str) -> dict[str, Any]:
        job = make_job(JobOptions(dev=dev, **small), space)  # type: ignore[arg-type]
        job.prepare(Console(quiet=True))
        assert [corpus["spec"] for corpus in job.corpora().values()][1:] == [*dev]
        shipped = {"ship": lambda folder: type("Shipped", (), {"digest": "d"})}
        vars(job).update(shipped)  # without an object store
        return job.fingerprints()

    plain, posed = fingerprints(DEV), fingerprints(f"match_task:Match={DEV}", f"rte={DEV}")
    assert str(folder / "match_task.py") in runtime_env()["py_modules"]
    assert "match_task.py" in posed["code"].keys() - plain["code"].keys()
    of_dev = plain["corpora"]["dev"]
    assert posed["corpora"]["dev"] == f"match_task:Match={of_dev}"
    assert posed["corpora"]["dev-2"] == f"rte={of_dev}"
    (folder / "match_task.py").write_text(MODULE + "# changed\n")
    changed = fingerprints(f"match_task:Match={DEV}")["code"]
    assert {file for file in changed if changed[file] != posed["code"].get(file)} == {
        "match_task.py"
    }


@pytest.mark.parametrize(("found", "said"), [("abc", "list of strings"), (None, "list of strings")])
def test_sentences_of_another_type_are_named(found: Any, said: str) -> None:
    task: Any = SimpleNamespace(name="mine", sentences=lambda: found, evaluate=None)
    with pytest.raises(InvalidValue, match=f"sentences of task mine: .*{said}"):
        evaluate([task], lambda sentences: torch.zeros(len(sentences), 2), Points())


def test_sentences_may_be_a_generator() -> None:
    seen: list[int] = []

    def judge(embeddings: torch.Tensor, geometry: Any, readouts: Any) -> Result:
        seen.append(len(embeddings))
        return Result()

    task: Any = SimpleNamespace(name="mine", sentences=lambda: iter("ab"), evaluate=judge)
    evaluate([task], lambda sentences: torch.zeros(len(sentences), 2), Points())
    assert seen == [2]
