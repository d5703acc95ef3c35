"""The jobs as a user runs them: commands, what they print, what they leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentune import Embedder
from sentune.cli import app
from sentune.summary import read_summary
from tests.end_to_end.jobs import command, start
from tests.tampering import TEN

SMALL = [
    "--corpus=builtin:nli?size=1000",
    "--dev=builtin:nli?split=dev&size=120",
    "--test=builtin:nli?split=test&size=120",
    "--max-examples=576",
    "--concurrent=1",
    "--set=batch_size=32,64",
]


def job(
    name: str, *options: str, storage: Path, own_ray: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a small job to its end."""
    return start(name, small(*options), storage, own_ray=own_ray)


def small(*options: str) -> list[str]:
    """These options and, where they say nothing else, those of a small study."""
    given = {option.partition("=")[0] for option in options}
    kept = [o for o in SMALL if o.partition("=")[0] not in given or o.startswith("--set")]
    return [*kept, *options]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess]:
    """A small GumbelCSE study that has run to its end."""
    storage = tmp_path_factory.mktemp("studies")
    done = job("tune_gumbel", "--trials=3", "--seeds=2", storage=storage, own_ray=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return storage, done


def test_a_study_leaves_what_the_readme_promises(tuned) -> None:
    storage, done = tuned
    summary = read_summary(str(storage / "gumbel"))
    assert summary["state"] == "complete"
    assert len([trial for trial in summary["trials"] if trial["parent"] is None]) == 3
    finalist = summary["finalists"][summary["winner"]]
    spread = finalist["metrics"]["direction/accuracy"]
    assert len(spread["values"]) == 2
    assert spread["mean"] == pytest.approx(sum(spread["values"]) / 2)
    assert {"corpus", "dev", "test"} == set(summary["corpora"])
    assert {"direction/accuracy", "rte/auc", "rte/accuracy"} <= set(summary["test"])
    assert {"direction/length", "direction/bag_of_words"} <= set(summary["baselines"])
    for rule, paired in summary["against_rules"]["direction/accuracy"].items():
        lead = summary["test"]["direction/accuracy"] - summary["baselines"][rule]
        assert paired["difference"] == pytest.approx(lead), rule
    assert summary["model"] == str(storage / "gumbel" / "model")
    for shown in ("Finalists", "Best configuration", "±", "dashboard --storage", "about"):
        assert shown in done.stdout
    assert done.stderr == ""


def test_the_start_of_the_encoder_and_the_published_point_are_the_first_trials(tuned) -> None:
    summary = read_summary(str(tuned[0] / "gumbel"))
    first, second = (trial["settings"] for trial in summary["trials"][:2])
    assert (first["batch_size"], first["learning_rate"], first["pooling"]) == (32, 3e-3, "mean")
    # 512 in the paper, the smallest that is allowed, and a rate that goes by the root of it
    assert (second["batch_size"], second["pooling"]) == (32, "cls")
    assert second["learning_rate"] == pytest.approx(5e-5 / 4)
    assert "the start for an encoder from scratch; then the published" in summary["plan"]["note"]


def test_the_model_loads_from_its_folder_and_from_the_registry(tuned, monkeypatch) -> None:
    storage, _ = tuned
    sentences = ["a poodle runs", "a dog runs"]
    folder = Embedder.load(storage / "gumbel" / "model")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{storage / 'mlflow.db'}")
    registered = Embedder.load("models:/gumbel@champion")
    assert (folder.encode(sentences) == registered.encode(sentences)).all()
    assert folder.direction(*sentences).entailing in ("first", "second")


def test_the_study_is_verified_from_its_corpora_to_its_model(tuned) -> None:
    storage, _ = tuned
    done = CliRunner().invoke(app, ["verify", "gumbel", "--storage", str(storage)])
    assert done.exit_code == 0, done.output
    assert not {"✗", "not here"} & set(done.stdout.split())
    model = CliRunner().invoke(app, ["verify", str(storage / "gumbel" / "model")])
    assert model.exit_code == 0, model.output


@pytest.mark.parametrize("name", [name for name in TEN if name != "prepared corpus"])
def test_a_tampered_copy_of_the_study_is_found(tuned, name: str, tmp_path: Path) -> None:
    for part in (".cache", "gumbel"):
        shutil.copytree(tuned[0] / part, tmp_path / part)
    TEN[name].change(tmp_path / "gumbel")
    done = CliRunner().invoke(app, ["verify", "gumbel", "--storage", str(tmp_path)])
    assert done.exit_code == 1, done.output
    assert TEN[name].names in done.stderr


def test_evaluating_the_model_gives_the_study_s_own_test_figures(tuned, tmp_path: Path) -> None:
    storage, _ = tuned
    out = tmp_path / "figures.json"
    tasks = [f"--task={task}=builtin:nli?split=test&size=120" for task in ("rte", "direction")]
    done = command("evaluate", str(storage / "gumbel" / "model"), *tasks, f"--json={out}")
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    of_test = read_summary(str(storage / "gumbel"))["test"]
    assert of_test["direction/accuracy_standard_error"] > 0
    for name, value in of_test.items():
        task, metric = name.split("/")
        if name.endswith("_standard_error"):  # of a study's end alone
            continue
        assert figures[task][metric] == pytest.approx(value, abs=1e-9), name


def test_the_same_command_again_trains_nothing_and_says_the_same(tuned) -> None:
    storage, done = tuned
    before = read_summary(str(storage / "gumbel"))
    again = job("tune_gumbel", "--trials=3", "--seeds=2", storage=storage)
    assert again.returncode == 0, again.stdout + again.stderr
    after = read_summary(str(storage / "gumbel"))
    for name in ("trials", "finalists", "winner", "test", "baselines", "corpora"):
        assert after[name] == before[name]
    assert _tables(again) == _tables(done)
    assert after["spent"]["examples"] == before["spent"]["examples"]
    assert after["spent"]["hours"] > before["spent"]["hours"], "hours count over all starts"


def _tables(done: subprocess.CompletedProcess) -> list[str]:
    """What a job prints at its end, without the time that it took."""
    lines = done.stdout[done.stdout.index("Trials") :].splitlines()
    return [line for line in lines if not line.startswith("spent:")]


def test_another_corpus_under_the_same_name_is_refused(tuned) -> None:
    storage, _ = tuned
    other = job("tune_gumbel", "--trials=3", "--corpus=builtin:nli?size=900", storage=storage)
    assert other.returncode == 2
    assert "corpora.corpus" in other.stderr
    assert "--study" in other.stderr


def test_another_database_and_learning_rate_under_the_same_name_are_refused_or_forked(
    tuned,
) -> None:
    """Its trials took up the checkpoints of the first study, and shipped their weights."""
    storage, _ = tuned
    before = (storage / "gumbel/model/model.safetensors").read_bytes()
    database = f"sqlite:///{storage}/other.db"
    command = [f"--optuna={database}", "--set=learning_rate=1e-5", "--trials=1", "--seeds=1"]
    other = job("tune_gumbel", *command, storage=storage)
    assert other.returncode == 2
    told = " ".join(other.stderr.split())
    assert f"{storage}/gumbel/trials has " in told
    assert f"of a study 'gumbel', but {database} has no such study" in told
    assert f"They are in {storage}/gumbel/optuna.journal" in told
    assert (storage / "gumbel/model/model.safetensors").read_bytes() == before
    assert "--fork NAME" in told
    forked = job("tune_gumbel", *command, "--fork=slow", storage=storage)
    assert forked.returncode == 0, forked.stdout + forked.stderr
    summary = read_summary(str(storage / "slow"))
    assert summary["finalists"][0]["settings"]["learning_rate"] == 1e-5
    assert (storage / "slow/model/model.safetensors").read_bytes() != before


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("tune_gauss", "direction/accuracy", ("--set=dimension=32",)),
        ("tune_simcse", "rte/auc", ()),
        ("tune_simcse_unsupervised", "rte/auc", ()),
        ("tune_sbert_softmax", "rte/auc", ()),
        ("tune_infersent", "rte/auc", ("--set=hidden_size=16",)),
    ],
)
def test_the_other_methods_run_to_a_model(name, metric, options, tmp_path: Path) -> None:
    done = job(name, "--trials=2", "--seeds=1", *options, storage=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (study,) = (p.parent.name for p in tmp_path.glob("*/summary.json"))
    summary = read_summary(str(tmp_path / study))
    assert metric in summary["test"]
    assert Embedder.load(tmp_path / study / "model").encode(["a dog runs"]).shape[0] == 1


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The metrics of a trial over a shared corpus, by the inline launcher."""
    return trial_of("--launcher=inline", storage=tmp_path_factory.mktemp("inline"))


def trial_of(option: str, storage: Path) -> dict[str, float]:
    """The metrics of the one trial of a study, without those of time."""
    fixed = ("--trials=1", "--finalists=0", "--set=learning_rate=1e-3", "--set=dimension=8")
    done = job("tune_gumbel", option, "--validate-every=192", *fixed, storage=storage)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "at 384 examples" in done.stdout
    (trial,) = read_summary(str(storage / "gumbel"))["trials"]
    return {name: value for name, value in trial["metrics"].items() if "second" not in name}


def test_both_launchers_give_the_same_metrics_for_the_same_seed(
    inline: dict[str, float], tmp_path: Path
) -> None:
    """A Ray Train group of one; of groups of two: tests/training/test_loop.py."""
    assert trial_of("--launcher=train", storage=tmp_path) == inline


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--set=learning_rate=fast", "learning_rate"),
        ("--set=max_length=16,32", "max_length"),
        ("--corpus=nli:somewhere", "snli"),
        ("--dev=snli:/nowhere.jsonl", "/nowhere.jsonl"),
        ("--encoder=/nowhere", "no such folder"),
        ("--objective=rte/auc:up", "end it in :max or :min"),
        ("--constraint=rte/auc", "METRIC<=NUMBER"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(option: str, hint: str, tmp_path: Path) -> None:
    done = job("tune_gumbel", option, storage=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert hint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stdout + done.stderr


def test_a_refusal_is_what_a_shell_sees(tmp_path: Path) -> None:
    done = job("tune_gumbel", "--set=batchsize=3", storage=tmp_path, own_ray=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "batch_size" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_an_objective_of_a_task_that_dev_does_not_pose_is_refused(tmp_path: Path) -> None:
    done = job("tune_gumbel", "--objective=sts/pearson", storage=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--dev poses rte, direction; name a metric of one of them" in done.stderr
    assert not (tmp_path / "gumbel" / "optuna.journal").exists()


def test_an_objective_that_nothing_measures_fails_the_study_and_is_named(tmp_path: Path) -> None:
    done = job("tune_gumbel", "--objective=rte/glory", "--trials=1", storage=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rte/glory was not measured" in done.stderr
    assert read_summary(str(tmp_path / "gumbel"))["state"] == "failed"


def test_a_dry_run_prints_the_plan_and_leaves_nothing(tmp_path: Path) -> None:
    done = job("tune_gumbel", "--dry-run", "--trials=20", storage=tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in ("trials", "rungs", "at a time", "examples", "hours", "disk", "basis"):
        assert shown in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == [".cache"], "no study, no run"


def test_a_job_on_real_sentences(tmp_path: Path) -> None:
    """SNLI's own files and a real encoder, a few steps of each."""
    data = os.environ.get("SENTUNE_DATA")
    if data is None:
        pytest.skip("SENTUNE_DATA names no folder of data sets")
    encoder = Path(os.environ.get("SENTUNE_MODELS", Path(data).parent / "models"))
    encoder = encoder / "all-MiniLM-L6-v2"
    if not encoder.is_dir():
        pytest.skip(f"no encoder at {encoder}")
    train = f"snli:{data}/snli/snli_1.0_train_first100k.jsonl.gz"
    done = job(
        "tune_gumbel",
        f"--corpus={train}?premises=0:200",
        f"--dev={train}?premises=-20:",
        f"--test=sick:{data}/sick/SICK.txt?rows=0:60",
        f"--encoder={encoder}",
        "--trials=1",
        "--max-examples=128",
        "--finalists=0",
        storage=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = read_summary(str(tmp_path / "gumbel"))
    assert summary["corpora"]["corpus"]["counts"]["premises"] == 200
    assert 0 < summary["test"]["rte/auc"] < 1


def test_a_streamed_corpus_gives_the_same_trial_as_a_shared_one(
    inline: dict[str, float], tmp_path: Path
) -> None:
    """Ray Data reads beside the trial: one CPU stays free for it."""
    assert trial_of("--share-mb=0", storage=tmp_path) == inline
