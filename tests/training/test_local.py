"""``python -m sentune train``: from corpus to model folder on one machine, without Ray."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from torch.multiprocessing.spawn import ProcessContext
from typer.testing import CliRunner

import sentune
from sentune.cli import app
from sentune.errors import InvalidValue
from sentune.training import local
from sentune.training.checkpoints import CheckpointStore, SavedProgress
from sentune.training.local import LocalRun, _card, run_locally
from sentune.training.model import load_method
from sentune.training.model_card import model_card

RUN = LocalRun(
    method="gumbel",
    settings={"batch_size": "16", "dimension": "4"},
    corpus=("builtin:nli?size=96",),
    dev=("builtin:nli?split=dev&size=60",),
    encoder="builtin:tiny?layers=1&width=16&heads=2&inner=32",
    max_examples=96,
    validate_every=3,
)

WITHOUT_RAY = """
import sys
sys.modules.update({name: None for name in ("ray", "mlflow", "optuna")})
sys.argv = ["sentune", *sys.argv[1:]]
from sentune.__main__ import main
main()
"""


@pytest.fixture(autouse=True)
def no_lines_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a run takes, its only lines are those of its milestones."""
    monkeypatch.setattr(local, "QUIET_SECONDS", 3600.0)


def sentune_train(*options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process in which Ray, MLflow and Optuna cannot be imported."""
    source = str(Path(sentune.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITHOUT_RAY, "train", *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_command_line(tmp_path: Path) -> None:
    options = ["--method", "gumbel", "--corpus", RUN.corpus[0], "--dev", RUN.dev[0]]
    options += ["--encoder", RUN.encoder, "--max-examples", "96", "--out", str(tmp_path / "run")]
    options += ["--set", "batch_size=16", "--set", "dimension=4"]
    done = sentune_train(*options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("direction/accuracy") == 6, "a step apart, at most ten"
    assert done.stdout.splitlines()[-1] == f"model: {tmp_path / 'run' / 'model'}"
    assert load_method(tmp_path / "run" / "model").settings["dimension"] == 4


def test_a_run_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    @contextmanager
    def at_the_end(action: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
        yield
        action()

    monkeypatch.setattr(local, "repeated", at_the_end)
    run_locally(RUN, tmp_path / "run", say=lines.append)
    *milestones, progress = lines
    assert len(milestones) == 2
    assert re.fullmatch(
        r"\w+( \d+/\d+)?, 96 of 96 examples, loss [\d.]+(, .* examples/s)?", progress
    )


@pytest.mark.parametrize(("method", "posed"), [("invertible", "sts/"), ("simcse", "rte/")])
def test_pairs_of_two_kinds_are_read_as_a_job_of_the_method_reads_them(
    tmp_path: Path, method: str, posed: str
) -> None:
    sick = tmp_path / "SICK.txt"
    names = ["sentence_A", "sentence_B", "entailment_label", "entailment_BA", "relatedness_score"]
    rows = [
        (f"a dog runs {n} times", f"a dog runs {n % 3} times", label, "B_neutral_A", str(1 + n % 5))
        for n in range(8)
        for label in ("ENTAILMENT", "NEUTRAL")
    ]
    sick.write_text("\n".join("\t".join(row) for row in (names, *rows)))
    said: list[str] = []
    run = LocalRun(
        method=method, dev=(f"sick:{sick}",), settings={"batch_size": "16"}, limit=32,
        max_examples=32, **({"vectors": "builtin:ppmi?width=16"} if method == "invertible" else {}),
    )  # fmt: skip
    run_locally(run, tmp_path / "run", say=said.append)
    assert said
    assert all(posed in line for line in said)


def test_a_method_on_word_vectors_is_fitted_and_verified(tmp_path: Path) -> None:
    options = ["--method", "sif", "--limit", "500", "--set", "components=0,1"]
    done = sentune_train(*options, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "500 examples  sts/pearson" in done.stdout
    model = tmp_path / "run" / "model"
    assert sentune.Embedder.load(model).readouts["components"] in (0, 1)
    verified = CliRunner().invoke(app, ["verify", str(model)])
    assert "3 of 3 hold" in verified.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "word2vec"], "--method: 'word2vec'"),
        (["--method", "gumbel", "--set", "dimension"], "--set: 'dimension'"),
        (["--method", "gumbel", "--set", "dimension=none"], "dimension: None"),
        (["--method", "gumbel", "--corpus", "snli:/no/such/file"], "--dev"),
    ],
)
def test_wrong_values_are_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    done = sentune_train(*options, "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_validates_every_so_many_steps_and_keeps_the_best(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = run_locally(RUN, tmp_path / "run", say=lines.append)
    assert [line.split()[0] for line in lines] == ["48", "96"]
    best = CheckpointStore(str(tmp_path / "run" / "checkpoints")).best_progress()
    assert best is not None
    assert load_method(folder).readouts == best.readouts
    assert (
        f"| direction/accuracy | {best.metrics['direction/accuracy']:.4g} |"
        in (folder / "README.md").read_text()
    )


def test_the_same_run_goes_on_and_another_is_refused(tmp_path: Path) -> None:
    run_locally(RUN, tmp_path / "run", say=lambda _: None)
    again: list[str] = []
    run_locally(RUN, tmp_path / "run", say=again.append)
    assert len(again) == 1, "only what was said last"
    other = LocalRun(**{**vars(RUN), "seed": 5})
    with pytest.raises(InvalidValue, match="differs in seed; name another folder"):
        run_locally(other, tmp_path / "run", say=again.append)


def test_two_processes(tmp_path: Path) -> None:
    folder = run_locally(RUN, tmp_path / "run", workers=2, say=_silent)
    assert load_method(folder).method.name == "gumbel"


def _silent(line: str) -> None:
    """A spawned process needs something that it can import."""


@pytest.mark.parametrize(
    ("objective", "there"), [("sts/spearman", "direction"), ("direction/f1", "direction/accuracy")]
)
def test_unknown_objective_names_those_there_are_and_leaves_the_folder(
    tmp_path: Path, objective: str, there: str
) -> None:
    run = LocalRun(**{**vars(RUN), "objective": objective})
    with pytest.raises(InvalidValue, match=rf"--objective: '{objective}'.*{there}"):
        run_locally(run, tmp_path / "run", say=lambda _: None)
    run_locally(RUN, tmp_path / "run", say=_silent)


def test_a_run_that_failed_before_its_first_checkpoint_may_be_corrected(tmp_path: Path) -> None:
    wrong = {**RUN.settings, "max_length": "4096"}
    with pytest.raises(InvalidValue, match="max_length: 4096"):
        run_locally(LocalRun(**{**vars(RUN), "settings": wrong}), tmp_path / "run", say=_silent)
    run_locally(RUN, tmp_path / "run", say=_silent)


def test_a_dev_corpus_that_has_changed_is_another_run(tmp_path: Path) -> None:
    dev = tmp_path / "dev.csv"
    rows = [f"a dog runs {n} times,a dog runs,{1 + n % 5}" for n in range(20)]
    dev.write_text("\n".join(["sentence1,sentence2,score", *rows]))
    run = LocalRun(**{**vars(RUN), "dev": (f"csv:{dev}",), "objective": "sts/spearman"})
    run_locally(run, tmp_path / "run", say=_silent)
    dev.write_text("\n".join(["sentence1,sentence2,score", *rows[::2]]))
    with pytest.raises(InvalidValue, match="differs in dev_fingerprints; name another folder"):
        run_locally(run, tmp_path / "run", say=_silent)


WORDS: dict[str, Any] = {"method": "sif", "encoder": "builtin:tiny", "max_examples": 30_000}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_examples": 0}, "--max-examples: 0 .*greater than or equal to 1"),
        ({"max_examples": 1.5}, "--max-examples: 1.5"),
        ({"limit": 0}, "--limit: 0"),
        ({"validate_every": 0}, "--validate-every: 0"),
        ({"seed": -1}, "--seed: -1"),
        ({"corpus": ("csv:a.csv",), "dev": ()}, "--dev: missing"),
        ({"method": "simcse", "references": "csv:a.csv"}, "--references: .*no interpretations"),
        ({"method": "sif", "references": "csv:a.csv"}, "--references: .*no interpretations"),
        ({"vectors": "glove:a.txt"}, "--vectors: 'glove:a.txt' .*is built from --encoder; leave"),
        ({"frequencies": "a.txt"}, "--frequencies: 'a.txt' cannot be used; GumbelCSE is built"),
        ({"decoder": "gpt2"}, "--decoder: 'gpt2' cannot be used"),
        ({"method": "intersent", "vectors": "glove:a.txt"}, "built from --encoder and --decoder"),
        ({"method": "sif"}, "--encoder: .*SIF is built from --vectors and --frequencies; leave"),
        ({"method": "infersent"}, "--encoder: .*InferSent is built from --vectors"),
        (WORDS | {"max_examples": 96}, "--max-examples: 96 .*SIF is fitted on .* --limit rows"),
        (WORDS | {"validate_every": 5}, "--validate-every: 5 .*SIF is validated once"),
        (WORDS | {"frequencies": "a.txt"}, "--frequencies: 'a.txt' .*SIF counts .* builtin:ppmi;"),
    ],
)
def test_an_option_out_of_its_bounds_is_refused_by_its_name(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        LocalRun.of(**{**vars(RUN), **wrong})


@pytest.mark.parametrize("method", ["gumbel", "intersent", "invertible", "sif"])
def test_the_defaults_of_all_options_are_accepted_for_any_method(method: str) -> None:
    assert LocalRun.of(method=method).method == method


@pytest.mark.parametrize(("objective", "best"), [("train/loss:min", -1), ("train/loss", 0)])
def test_an_objective_says_its_direction(objective: str, best: int, tmp_path: Path) -> None:
    run = LocalRun(**{**vars(RUN), "objective": objective})
    run_locally(run, tmp_path / "run", say=_silent)
    store = CheckpointStore(str(tmp_path / "run" / "checkpoints"))
    found, latest = store.best_progress(), store.last_progress()
    assert found is not None
    assert latest is not None
    assert (found.examples == latest.examples == 96) is bool(best), "the loss falls"


def test_words_without_frequencies_and_pairs_that_are_not_scored_are_refused(
    tmp_path: Path,
) -> None:
    glove = tmp_path / "glove.txt"
    glove.write_text("a 0.5 1\nthe 1.5 2\ndog 2.5 0\ncat 3.5 1\nruns 4.5 2\n")
    words = {"method": "sif", "vectors": f"glove:{glove}", "corpus": ("builtin:stories?size=40",)}
    dev = ("builtin:similarity?split=dev&size=40",)
    with pytest.raises(InvalidValue, match="--frequencies: missing; sif and usif need it"):
        run_locally(LocalRun.of(**words, dev=dev), tmp_path / "run", say=_silent)
    plain = LocalRun.of(
        **words, dev=dev, settings={"variant": "average"}, objective="train/seconds:min"
    )
    assert run_locally(plain, tmp_path / "average", say=_silent).is_dir()
    with pytest.raises(InvalidValue, match=r"--dev: .*selects on scored pairs"):
        run_locally(
            LocalRun.of(**words, dev=("builtin:nli?split=dev",)), tmp_path / "x", say=_silent
        )


def test_fewer_examples_than_a_batch_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    run = LocalRun(**{**vars(RUN), "max_examples": 15})
    with pytest.raises(InvalidValue, match=r"--max-examples: 15 .*give at least 16.*batch_size"):
        run_locally(run, tmp_path / "run", say=_silent)
    assert not (tmp_path / "run").exists()


def test_numbers_of_other_types_are_those_of_python() -> None:
    given = {"max_examples": "96", "validate_every": np.int64(3), "seed": 0.0, "limit": None}
    assert LocalRun.of(**{**vars(RUN), **given}) == RUN


def test_a_run_without_a_worker_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="--workers: 0"):
        run_locally(RUN, tmp_path / "run", workers=0, say=_silent)
    assert not (tmp_path / "run").exists()


def test_an_error_of_a_worker_is_that_of_the_run(tmp_path: Path) -> None:
    run = LocalRun(**{**vars(RUN), "limit": 12})
    with pytest.raises(InvalidValue, match="batch_size: 16 cannot be used; use 1 to 12"):
        run_locally(run, tmp_path / "run", workers=2, say=_silent)


def test_an_interrupted_run_ends_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(context: ProcessContext) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProcessContext, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_locally(RUN, tmp_path / "run", workers=2, say=_silent)
    for process in multiprocessing.active_children():
        process.join(60)
    assert not multiprocessing.active_children()


def test_each_corpus_is_a_data_set_of_the_card(tmp_path: Path) -> None:
    corpora = ("hf:ann/first?split=train", "hf:bob/second")
    run = LocalRun.of(method="intersent", corpus=corpora, dev=("builtin:scenes?split=dev",))
    best = SavedProgress(examples=1, metrics={}, score=0.5)
    card = model_card("intersent", "InterSent", tmp_path, None, _card(run, best, []))
    assert ModelCard(card).data.datasets == ["ann/first", "bob/second"]
