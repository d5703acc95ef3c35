"""The functions of ``sentune`` as a program or a notebook uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sentune
from search_spaces import definitions, find_job
from sentune.api import _corpora, _specs_of
from sentune.corpora.formats import kinds_of, read
from sentune.corpora.schema import Kind
from sentune.corpora.tables import specs_of
from sentune.embedder.embedder import Embedder
from sentune.errors import CorpusError, InvalidValue, SentuneError
from sentune.job.command import FAILED, Ended
from sentune.job.options import StudyOptions, parse
from sentune.records import Spread
from sentune.report.rules import RuleVerdict
from sentune.report.view import View
from sentune.study.space import Choice, SearchSpace
from sentune.tasks import Result

sys.path.insert(0, str(Path(__file__).parent / "study"))
from study_folders import OBJECTIVE, make_study

from tests.interpreter import run_python

ROOT = Path(__file__).resolve().parents[1]
PAIRS = [("A dog runs.", "An animal moves.", "entailment"), ("It rains.", "It is dry.", "neutral")]
TRIPLETS = [("A dog runs.", "An animal moves.", "It sleeps."), ("a", "b", "c")]
NAMES = {
    Kind.TRIPLETS: ("anchor", "positive", "negative"),
    Kind.LABELLED_PAIRS: ("premise", "hypothesis", "label"),
    Kind.SCORED_PAIRS: ("sentence1", "sentence2", "score"),
}


def frame(kind: Kind, rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows under the columns of their kind."""
    return pd.DataFrame(rows, columns=[*NAMES[kind]])


def test_one_configuration_is_trained_without_ray(tmp_path: Path) -> None:
    """Rows in memory, and the same command goes on; its vectors are the folder's."""
    rows = [(f"A dog sees {n} cats.", f"A dog sees {n} animals.", "It rains.") for n in range(32)]
    wanted = {"batch_size": np.int64(16), "dimension": 4, "references": "4", "alpha_1": "0.5"}
    options: dict[str, Any] = {
        "dev": "builtin:nli?split=dev&size=60", "set": wanted, "max_examples": 32,
        "encoder": "builtin:tiny?layers=1&width=16&heads=2&inner=32", "out": tmp_path / "run",
    }  # fmt: skip
    model = sentune.fit("gumbel", rows, **options)
    assert model.encode(["A dog runs."]).shape[1] == 8
    again = sentune.fit("gumbel", rows, **options)
    assert (again.encode(["A dog runs."]) == model.encode(["A dog runs."])).all()
    sick = tmp_path / "SICK.txt"
    head = "pair_ID sentence_A sentence_B entailment_label relatedness_score entailment_AB "
    lines = [f"{head}entailment_BA SemEval_set".replace(" ", "\t")]
    for pair, reverse in (("A dog runs now .\tA dog runs .", "B_neutral_A"),
                          ("A dog .\tIt is a dog .", "B_entails_A")):  # fmt: skip
        lines.append(f"1\t{pair}\tENTAILMENT\t5\tA_entails_B\t{reverse}\tTEST")
    sick.write_text("\n".join(lines))
    for exclude, share in (("both-ways", 1.0), ("none", 0.5)):
        found = sentune.evaluate(model, {"direction": f"sick:{sick}"}, exclude=exclude)
        assert found.loc["direction/length", "value"] == share
    with pytest.raises(InvalidValue, match="gumbel has no component of its own"):
        sentune.evaluate(model, {"rte": f"sick:{sick}"}, component_from="task")
    with pytest.raises(InvalidValue, match=r"^epochs: 3 .*max_examples"):
        sentune.fit("gumbel", epochs=3)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (TRIPLETS, Kind.TRIPLETS),
        (PAIRS, Kind.LABELLED_PAIRS),
        ([("a", "b", 4.5), ("c", "d", 0)], Kind.SCORED_PAIRS),
        ([("a", "b", np.float32(4.5)), ("c", "d", np.int64(0))], Kind.SCORED_PAIRS),
    ],
    ids=["triplets", "labels", "scores", "scores of numpy"],
)
def test_rows_of_every_shape_are_one_corpus(
    tmp_path: Path, rows: list[tuple[Any, ...]], kind: Kind
) -> None:
    table = frame(kind, rows)
    shapes = (
        rows,
        table.to_dict("records"),
        table,
        pa.Table.from_pandas(table, preserve_index=False),
        datasets.Dataset.from_pandas(table),
        datasets.Dataset.from_pandas(table).with_format("pandas"),
        datasets.Dataset.from_pandas(table).with_format(columns=[NAMES[kind][0]]),
        datasets.IterableDataset.from_generator(table.to_dict, gen_kwargs={"orient": "records"}),
        table.to_dict("list"),
        table.assign(extra=[1, "a"]),
        table.assign(extra=[1, "a"]).to_dict("records"),
        [tuple(row) for row in table.itertuples(index=False)],
    )
    found = {read(spec, kind).fingerprint for data in shapes
             for spec in specs_of(data, "corpus", str(tmp_path))}  # fmt: skip
    assert len(found) == 1
    (spec,) = specs_of(rows, "corpus", str(tmp_path))
    assert kinds_of(spec)[0] is kind
    assert [tuple(row.values()) for row in read(spec, kind).table.select(NAMES[kind]).to_pylist()] \
        == rows  # fmt: skip


def test_equal_rows_have_one_file_that_is_kept(tmp_path: Path) -> None:
    first, again = (specs_of(list(TRIPLETS), "corpus", str(tmp_path / "a?b")) for _ in range(2))
    other = specs_of(TRIPLETS[:1], "corpus", str(tmp_path / "a?b"))
    assert first == again != other
    assert len([*(tmp_path / "a?b").iterdir()]) == 2
    assert read(first[0], Kind.TRIPLETS).table.num_rows == 2


def test_classes_of_a_dataset_get_their_names(tmp_path: Path) -> None:
    labels = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "label": labels,
        }
    )
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [2, 0]}
    (spec,) = specs_of(datasets.Dataset.from_dict(rows, features), "dev", str(tmp_path))
    table = read(spec, Kind.LABELLED_PAIRS).table
    assert table["label"].to_pylist() == ["contradiction", "entailment"]
    rows = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [-1, 0, None]}
    (spec,) = specs_of(datasets.Dataset.from_dict(rows, features), "dev", str(tmp_path))
    corpus = read(spec, Kind.LABELLED_PAIRS)
    assert corpus.table["premise"].to_pylist() == ["b"], "-1 and None are no class"
    assert corpus.table["label"].to_pylist() == ["entailment"]
    assert [row.reason for row in corpus.quarantine] == ["label is missing"]
    rows = {name: values[:1] for name, values in rows.items()}
    (spec,) = specs_of(datasets.Dataset.from_dict(rows, features), "dev", str(tmp_path))
    with pytest.raises(CorpusError, match="no labelled-pairs are left"):
        read(spec, Kind.LABELLED_PAIRS)


@pytest.mark.parametrize("label", ["-", "Neutral"])
def test_labels_of_tuples_may_be_missing_or_capitalised(tmp_path: Path, label: str) -> None:
    rows = [("a", "b", "Entailment"), ("c", "d", label)]
    (spec,) = specs_of(rows, "dev", str(tmp_path))
    counts = read(spec, Kind.LABELLED_PAIRS).counts
    assert counts == ({"read": 2, "rows": 2} if label != "-" else
                      {"read": 2, "unlabelled": 1, "rows": 1})  # fmt: skip


def test_several_corpora_stand_in_a_list(tmp_path: Path) -> None:
    table = frame(Kind.LABELLED_PAIRS, PAIRS)
    found = specs_of(["builtin:nli", table], "dev", str(tmp_path))
    assert found[0] == "builtin:nli"
    assert found[1].startswith(f"parquet:{tmp_path}/")
    for data in ("snli:train.jsonl", Path("snli:train.jsonl"), [Path("snli:train.jsonl")]):
        assert specs_of(data, "corpus", str(tmp_path)) == ("snli:train.jsonl",)
    columns, rows = table.to_dict("list"), table.to_dict("records")
    assert _specs_of(columns, "dev", str(tmp_path)) == specs_of(rows, "dev", str(tmp_path))
    (written,) = specs_of(["query: a dog", "at 10:30 a cat"], "corpus", str(tmp_path))
    assert written.startswith("parquet:")
    names = ["premise", "hypothesis", "label", "x", "x"]
    assert (
        len(
            specs_of(
                pd.DataFrame([["a b", "b", "neutral", 1, 2]], columns=names), "dev", str(tmp_path)
            )
        )
        == 1
    )
    names[-1] = "label"
    with pytest.raises(InvalidValue, match="each column a name"):
        specs_of(pd.DataFrame([["a", "b", "neutral", 1, "neutral"]], columns=names), "dev", "")
    with pytest.raises(InvalidValue, match="without lone surrogates"):
        specs_of([("a \ud800", "b", "neutral")], "dev", str(tmp_path))
    for both in (("snli:a.jsonl", "builtin:nli"), ("rte=snli:a.jsonl", "m:Task=stsb:b.csv")):
        assert specs_of([*both], "corpus", "") == both


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([(1, 2)], r"dev: '\(1, 2\)'.*\(premise, hypothesis, label\)"),
        ([], "dev: 'no row'"),
        ([("a", "b"), ("a",)], "tuples of one kind"),
        ([1, 2], "dev: '1'.*give dicts, or tuples"),
        (5, "dev: '5'.*give dicts, or tuples"),
        ([{"text": "a"}, "b"], "dev: .*give dicts, or tuples"),
        ({"anchor": ["a", "b"], "positive": ["c"]}, "dev: .*columns of equal length"),
        (
            pd.DataFrame({"text_a": ["x"]}),
            "dev: 'text_a'.*scored-pairs: sentence1, sentence2",
        ),
        ({"text_a": ["x"]}, "dev: 'text_a'"),
        (datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": ["a"]})), "splits: train"),
        (pd.DataFrame({"text": ["a", 3]}), "dev: .*values of one type"),
    ],
)
def test_rows_of_no_kind_are_refused_with_the_columns_to_give(
    tmp_path: Path, data: Any, message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        specs_of(data, "dev", str(tmp_path))


def test_wrong_arguments_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"METHOD: 'box'.*gumbel"):
        sentune.tune("box")
    with pytest.raises(InvalidValue, match=r"trails: 3.*trials"):
        sentune.tune("gumbel", trails=3)
    with pytest.raises(InvalidValue, match=r"dry_run: True.*trials"):
        sentune.tune("gumbel", dry_run=True, storage=str(tmp_path))
    with pytest.raises(InvalidValue, match="--trials: 0"):
        sentune.tune("gumbel", trials=0, storage=str(tmp_path))
    with pytest.raises(InvalidValue, match="learning_rate"):
        sentune.tune("gumbel", set={"learning_rate": "fast"}, storage=str(tmp_path))
    for start in (sentune.tune, sentune.fit):
        with pytest.raises(InvalidValue, match="set: 'batch_size=32' cannot be used; give a dict"):
            start("gumbel", set="batch_size=32")
    with pytest.raises(InvalidValue, match=r"--dev: missing; .* --corpus is not a built-in one"):
        sentune.fit("gumbel", TRIPLETS)
    unknown = SearchSpace(objective="rte/auc", settings={"dimenson": Choice(8, 16)})
    with pytest.raises(InvalidValue, match=r"dimenson: .*settings of GumbelCSE are .*dimension"):
        sentune.tune("gumbel", space=unknown, storage=str(tmp_path))
    with pytest.raises(InvalidValue, match=r"tasks: \{\}"):
        sentune.evaluate("model", {})
    with pytest.raises(InvalidValue, match=r"dev: 'snli:x' cannot be used; give task -> data"):
        sentune.evaluate("model", {"rte": "snli:x"}, dev="snli:x")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"prior: 'both=0.3'.*give dev too"):
        sentune.evaluate("model", {"ambiguous-rte": "snli:x"}, prior="both=0.3")
    assert not [*tmp_path.iterdir()]


def test_dev_is_judged_as_the_tasks_are() -> None:
    """By the same component and in as many folds."""
    model = Mock(spec=Embedder, references=None, readouts={})
    model.name, model.evaluate.return_value = "invertible", Result(metrics={"sick-r/pearson": 0.5})
    pairs = [("a", "b", score % 5, split) for split in ("train", "dev") for score in range(9)]
    rows = pd.DataFrame(pairs, columns=["sentence1", "sentence2", "score", "split"])
    sentune.evaluate(model, {"sick-r": rows}, dev={"sick-r": rows}, folds=3, component_from="task")
    judged = [(call.args[0][0].folds, call.kwargs) for call in model.evaluate.call_args_list]
    assert judged == 2 * [(3, {"batch_size": 64, "component_from": "task"})]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[StudyOptions]:
    """Options of the jobs that were to run; each ends with "enough" in its place."""
    found: list[StudyOptions] = []

    def run(options: StudyOptions, space: SearchSpace) -> None:
        found.append(options)
        raise Ended(FAILED, "enough")

    monkeypatch.setattr(import_module("sentune.job.run"), "tune", run)
    return found


def test_quick_sets_what_the_flag_of_the_command_does(
    tmp_path: Path, asked: list[StudyOptions]
) -> None:
    for given in ({"quick": True}, {"quick": True, "trials": 5}, {"quick": False}):
        with pytest.raises(SentuneError, match="enough"):
            sentune.tune("intersent", storage=str(tmp_path), **given)
    quick, five, plain = asked
    assert (quick.study, quick.trials, quick.finalists) == ("intersent-quick", 2, 0)
    assert (five.study, five.trials) == ("intersent-quick", 5)
    assert plain == parse({"storage": str(tmp_path)}, find_job("intersent").defaults)
    with pytest.raises(InvalidValue, match="quick: True"):
        sentune.tune("gumbel", quick=True)


INTERRUPTED = """
import sys, sentune
study = sentune.tune(
    "simcse", "builtin:nli?size=600", dev="builtin:nli?split=dev&size=60", study="s", trials=2,
    encoder="builtin:tiny?layers=1&width=16", set={"batch_size": 32}, max_examples=6000,
    validate_every=600, finalists=0, concurrent=1, scheduler="none", storage=sys.argv[1],
)
print("the study is", study.state, study.trials["examples"].tolist())
"""


@pytest.mark.cluster
def test_an_interrupted_tune_returns_and_the_same_call_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as first:
        assert first.stdout is not None
        said = ""
        for line in first.stdout:
            if "trial 0 at 600 examples" in line:
                first.send_signal(signal.SIGINT)
            said += line
    assert "the study is interrupted" in said
    assert first.returncode == 0
    again = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "the study is complete [6000, 6000]" in again.stdout, again.stdout + again.stderr
    assert "trial 0 at 600 examples" not in again.stdout


def test_paths_numbers_of_numpy_and_none_are_options_of_a_job(
    tmp_path: Path, asked: list[StudyOptions]
) -> None:
    text = {"storage": str(tmp_path), "encoder": str(tmp_path / "bert"), "trials": 3}
    other = {"storage": tmp_path, "encoder": tmp_path / "bert", "trials": np.int64(3)}
    plain = {"batch_size": 16, "learning_rate": 2e-5, "micro_batch": "none"}
    numpys = {"batch_size": np.int64(16), "learning_rate": np.float32(2e-5), "micro_batch": None}
    for options, settings in ((text, plain), (other, numpys)):
        with pytest.raises(SentuneError, match="enough"):
            sentune.tune("gumbel", **options, set=settings)
    assert asked[0] == asked[1]


def test_every_method_has_a_job_of_its_name() -> None:
    found = definitions()
    assert {*found} == {
        "-".join(path.stem.split("_")[1:]) for path in (ROOT / "jobs").glob("tune_*")
    }
    assert all(job.space.method == job.defaults.study == name for name, job in found.items())


def test_a_space_is_of_the_method_that_is_tuned() -> None:
    own = find_job("gauss").space
    for space in (own, replace(own, method="")):
        assert find_job("gauss", space).space == own
    with pytest.raises(InvalidValue, match=r"space.method: 'gauss'.*gumbel"):
        find_job("gumbel", own)


def test_a_study_is_loaded_as_tables_and_figures(tmp_path: Path) -> None:
    make_study(tmp_path, finals=((2, 1, 0.31), (2, 2, 0.35)))
    study = sentune.load_study("toy", storage=tmp_path)
    assert study.state == "interrupted"
    assert study.best is not None
    assert (study.best.id, study.trials.loc[study.best.id, "settings.rate"]) == (5, 0.3)
    assert study.trials.loc[1, "state"] == "pruned"
    assert study.trials.loc[2, f"metrics.{OBJECTIVE}"] == pytest.approx(0.99)
    assert study.finalists[OBJECTIVE].tolist() == pytest.approx([0.99, 0.95])
    assert study.finalists["seed"].tolist() == [1, 2]
    study.view.summary.finalists[0].metrics["toy/of_one_seed"] = Spread.of([0.5])
    assert "toy/of_one_seed" not in study.finalists
    assert study.metrics.loc[OBJECTIVE, "dev"] == pytest.approx(1.0)
    study.view.summary.test.update({OBJECTIVE: 0.9, f"{OBJECTIVE}_standard_error": 0.01})
    assert study.metrics.loc[OBJECTIVE, ["test", "test_error"]].tolist() == [0.9, 0.01]
    assert not [name for name in study.metrics.index if name.endswith("error")]
    assert pd.isna(study.metrics.loc[OBJECTIVE, "sd"])
    assert "toy/score" in study.verdict
    assert "toy/score" in study._repr_html_()
    assert {len(study.optuna.get_trials()), len(study.trials) + 1} == {7}  # one trial is a copy
    for figure in (study.figures.history(), study.figures.curves(), study.figures.seeds()):
        assert figure.data
    assert study.figures.readouts() == {}
    with pytest.raises(InvalidValue, match=r"model: 'toy'.*interrupted"):
        _ = study.model
    page = study.report(tmp_path / "new/out.html")
    assert "toy/score" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("beaten", [True, None, False])
def test_a_notebook_shows_in_red_that_no_rule_is_beaten(
    beaten: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(tmp_path)
    monkeypatch.setattr(View, "against_rules", RuleVerdict("beside <length>", beaten))
    shown = sentune.load_study("toy", storage=str(tmp_path))._repr_html_()
    assert "beside &lt;length&gt;" in shown
    assert ("color:#c62828" in shown) == (not beaten)


def test_a_study_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    make_study(tmp_path)
    with pytest.raises(InvalidValue, match=r"STUDY: 'toys'.*toy"):
        sentune.load_study("toys", storage=str(tmp_path))


def test_every_public_name_is_there() -> None:
    assert all(getattr(sentune, name) is not None for name in sentune.__all__)
    assert dir(sentune) == sentune.__all__
    assert sentune.__version__ == metadata.version("sentune")
    late = ("torch", "ray", "mlflow", "pandas", "importlib.metadata")
    code = f"import sentune, sys; print([m for m in {late} if m in sys.modules])"
    assert run_python(code) == "[]"


@pytest.mark.cluster
def test_an_installed_wheel_tunes_on_the_command_line_and_from_python(
    wheel: Path, tmp_path: Path
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"SENTUNE_STORAGE": str(tmp_path / "studies"), "HOME": str(tmp_path)}
    small = ("trials", 1), ("max_examples", 256), ("limit", 256), ("finalists", 0)
    words = [w for name, value in small for w in ("--" + name.replace("_", "-"), str(value))]
    words += ["--set", "batch_size=32", "--set", "dimension=8"]
    command = [str(wheel.with_name("sentune")), "tune", "gumbel", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "use.py").write_text(
        "import json, search_spaces, sentune\n"
        "rows = [('A poodle runs.', 'A dog runs.', 'entailment')] * 3\n"
        "rows += [('A poodle runs.', 'A cat sleeps.', 'contradiction')] * 3\n"
        f"study = sentune.tune('gumbel', dev=rows, study='rows', set={{'batch_size': 32}},"
        f" **{dict(small)!r})\n"
        "measured = sentune.evaluate(study.model, {'rte': rows})\n"
        "print(json.dumps([sentune.__file__, search_spaces.__file__, study.state,"
        " sentune.load_study('gumbel').state, len(study.model.encode(['a'])),"
        " measured.loc['rte/accuracy', 'value'], study.metrics.loc['rte/accuracy', 'dev']]))\n"
    )
    command = [str(wheel), "use.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    package, spaces, *states, number, accuracy, on_dev = json.loads(done.stdout.splitlines()[-1])
    assert str(wheel.parents[1]) in package
    assert str(wheel.parents[1]) in spaces
    assert states == ["complete", "complete"]
    assert number == 1
    assert accuracy == pytest.approx(on_dev)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sentune.compare([]), "studies"),  # type: ignore[arg-type]
        (lambda: sentune.compare(None), "studies"),  # type: ignore[arg-type]
        (lambda: sentune.tune("gumbel", space={"batch_size": [8]}), "space: .*SearchSpace"),  # type: ignore[arg-type]
        (lambda: sentune.fit("gumbel", out=""), "out: "),
        (lambda: sentune.fit("gumbel", out="s3://bucket/run"), "out: .*folder of this machine"),
        (lambda: sentune.Embedder.load(None), "model: None .*study.model"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named(call: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        call()


def test_rows_that_are_left_out_are_told_and_labels_may_be_capitalised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"premise": ["a b", "c d", "e f"], "hypothesis": ["a", "d", "g"]}
    rows["label"] = ["Entailment", "NEUTRAL", "perhaps"]
    ((task, corpus),) = _corpora({"rte": pd.DataFrame(rows)})
    assert (task, corpus.table["label"].to_pylist()) == ("rte", ["entailment", "neutral"])
    assert "warning: rte: 1 bad row left out, the first: " in capsys.readouterr().err
