"""The test corpora are read once; every reading is noted before it happens."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from sentune.corpora.formats import read_pairs
from sentune.corpora.schema import Corpus
from sentune.errors import Overtaken, SentuneError, StudyConflict
from sentune.job.artifacts import artifacts_folder
from sentune.job.families.base import Card
from sentune.job.families.sentences import SentenceFamily
from sentune.job.options import JobOptions
from sentune.job.product import publish
from sentune.job.study_files import last_start, mend_summary, refuse_late
from sentune.job.test_set import TestReads, Winner
from sentune.methods.simcse import Simcse
from sentune.records import FinalistRecord, Spread, StudySummary, TrialRecord, TrialState
from sentune.report.behaviour import BEHAVIOUR_FILE
from sentune.report.paired import HITS_FILE
from sentune.report.sweep_figures import CURVE_FILE, write_tables
from sentune.study.config import StudyConfig
from sentune.study.runner.retention import published
from sentune.study.store.study_index import TEST_READS
from sentune.summary import write_summary
from sentune.tasks import Result
from sentune.training.checkpoints import CheckpointStore
from sentune.training.trial import Progress

METRIC = "sts/spearman"


class KilledError(Exception):
    """The driver is gone."""


class Toy(SentenceFamily):
    """A job whose model is a file, judged by the letters of its run."""

    method = Simcse

    def __init__(self, checkpoint: Path, test: Sequence[str], *, killed: bool, force: bool) -> None:
        storage = str(checkpoint.parents[3])
        self.config = StudyConfig(name="study", storage=storage, max_examples=9)
        self.options = JobOptions(dev=("snli:dev",), test=tuple(test), force_test=force)
        self.checkpoint, self.killed, self.dev = checkpoint, killed, ()
        self.sources = {}
        self.judged: list[str] = []

    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        del best, checkpoint
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "card.json").write_text(json.dumps(card, default=str))

    def publish(self, summary: StudySummary) -> dict[str, Any]:
        return publish(self, self.checkpoint.parent.name, self.checkpoint, summary)


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge a toy in place of measuring its model."""

    def measured(toy: Toy, folder: Path, test: tuple[Corpus, ...]) -> Result:
        if toy.killed:
            raise KilledError
        toy.judged.append(toy.checkpoint.parent.name)
        scored = {"sts": np.array([[0.1, 0.4, 0.4, 0.9], [0.0, 3.0, 1.0, 5.0]])}
        return Result(metrics={METRIC: 0.7}, hits={METRIC: np.ones(1)}, scored=scored)

    monkeypatch.setattr("sentune.job.product.measured", measured)


def corpus(folder: Path, name: str = "test", more: str = "") -> str:
    file = folder / f"{name}.jsonl"
    row = {"gold_label": "entailment", "sentence1": "A cat sits.", "sentence2": f"A cat{more}."}
    file.write_text(json.dumps(row) + "\n")
    return f"snli:{file}"


def summary_of(trial: int, seeds: Sequence[int] = (1, 2)) -> StudySummary:
    values = [0.5 + seed / 100 for seed in seeds]
    spread = Spread(mean=sum(values) / len(values), sd=0.0, values=values)
    finalist = FinalistRecord(trial=trial, settings={}, seeds=list(seeds), metrics={METRIC: spread})
    return StudySummary(
        study="s", method="m", state="complete", objective=METRIC, mode="max", corpora={},
        space={}, finalists=[finalist], winner=0,
    )  # fmt: skip


def product(
    folder: Path, run: str, test: Sequence[str], *, killed: bool = False, force_test: bool = False
) -> Toy:
    store = CheckpointStore(str(folder / "study" / "trials" / run))
    dev = {"rte/sweep.json": {"of": "dev"}, "rte/precision_recall.json": {"of": "dev"}}
    store.save(Progress(examples=9, metrics={}, tables=dev, save=lambda folder: None), 0.5)
    found = store.best()
    assert found is not None
    return Toy(found, test, killed=killed, force=force_test)


def reads(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "study" / TEST_READS).read_text()))


def test_a_reading_is_recorded_with_winner_and_corpora(tmp_path: Path) -> None:
    spec, summary = corpus(tmp_path), summary_of(7)
    tables = product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary)
    assert tables[HITS_FILE] == {METRIC: [1.0]}
    assert set(summary.test) == {
        METRIC,
        "sts/spearman_standard_error",
        "sts/pearson_standard_error",
    }
    (entry,) = reads(tmp_path)
    assert summary.test_reads == [entry]
    assert summary.best == 7
    assert (entry["run"], entry["trial"], entry["seeds"]) == ("finalist-0007-seed-2", 7, [1, 2])
    assert entry["test"] == [{"spec": spec, "fingerprint": read_pairs(spec).fingerprint}]
    assert entry["time"].endswith("+00:00")
    assert not entry["forced"]
    assert published(str(tmp_path / "study")) == "finalist-0007-seed-2"
    write_summary(summary, str(tmp_path / "study"))


def test_model_and_summary_have_the_same_test_metrics_if_one_is_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Result(metrics={METRIC: 0.7, "own/ratio": math.nan})
    monkeypatch.setattr("sentune.job.product.measured", lambda *given: found)
    summary = summary_of(7)
    product(tmp_path, "finalist-0007-seed-2", [corpus(tmp_path)]).publish(summary)
    write_summary(summary, str(tmp_path / "study"))
    files = ("model/manifest.json", "summary.json")
    manifest, written = (json.loads((tmp_path / "study" / file).read_text()) for file in files)
    assert manifest["test"] == written["test"] == {METRIC: 0.7}


def test_tables_of_an_end_without_test_do_not_stand_for_test(tmp_path: Path) -> None:
    spec, summary = corpus(tmp_path), summary_of(7)
    artifacts = artifacts_folder(str(tmp_path), "study")
    before = product(tmp_path, "finalist-0007-seed-2", []).publish(summary)
    write_tables({name: of for name, of in before.items() if "recall" in name}, artifacts)
    assert [*artifacts.rglob(CURVE_FILE)]
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary)
    assert not [*artifacts.rglob(CURVE_FILE)]
    write_tables({f"rte/{CURVE_FILE}": {"of": "test"}}, artifacts)
    write_summary(summary, str(tmp_path / "study"))
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary_of(7))
    assert [*artifacts.rglob(CURVE_FILE)], "the study keeps the figures that it had"


def test_without_finals_the_best_trial_is_named_in_the_summary(tmp_path: Path) -> None:
    summary = replace(summary_of(7), finalists=[], winner=None)
    summary.trials = [
        TrialRecord(id=n, state=TrialState.COMPLETE, settings={}, metrics={METRIC: score})
        for n, score in ((0, 0.5), (4, 0.75), (5, 0.25))
    ]
    product(tmp_path, "0004", []).publish(summary)
    assert (summary.winner, summary.best) == (None, 4)
    where = write_summary(summary, str(tmp_path / "study"))
    assert json.loads(Path(where).read_text())["best"] == 4


def test_a_best_trial_that_was_trained_again_is_linked_to_its_new_run(tmp_path: Path) -> None:
    summary = replace(summary_of(7), finalists=[], winner=None)
    summary.trials = [
        TrialRecord(id=4, state=TrialState.COMPLETE, settings={}, metrics={METRIC: 0.75})
    ]
    product(tmp_path, "finalist-0004-seed-0", []).publish(summary)
    assert summary.best == 4
    assert published(str(tmp_path / "study")) == "finalist-0004-seed-0"
    chain = summary.lineage["chain"]["checkpoint"]
    assert chain["folder"].startswith("trials/finalist-0004-seed-0")


@pytest.mark.parametrize("task", ["", "direction="])
def test_a_complete_study_keeps_its_figures_and_reads_nothing(tmp_path: Path, task: str) -> None:
    spec, first = task + corpus(tmp_path), summary_of(7)
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(first)
    write_summary(first, str(tmp_path / "study"))
    again, second = summary_of(7), product(tmp_path, "finalist-0007-seed-2", [spec])
    assert second.publish(again) == {"rte/sweep.json": {"of": "dev"}}, "no curve of dev"
    assert second.judged == []
    assert (again.test, again.test_reads) == (first.test, first.test_reads)


def test_further_trials_that_do_not_win_read_nothing(tmp_path: Path) -> None:
    def searched(*scores: float) -> StudySummary:
        trials = [
            TrialRecord(id=n, state=TrialState.COMPLETE, settings={}, metrics={METRIC: score})
            for n, score in enumerate(scores)
        ]
        return replace(summary_of(0), finalists=[], winner=None, trials=trials)

    spec, first, again = corpus(tmp_path), searched(0.75, 0.5), searched(0.75, 0.5, 0.25)
    product(tmp_path, "0000", [spec]).publish(first)
    write_summary(first, str(tmp_path / "study"))
    second = product(tmp_path, "0000", [spec])
    second.publish(again)
    assert second.judged == []
    assert (again.test, again.test_reads) == (first.test, first.test_reads)


def test_credentials_of_a_test_corpus_make_no_other_one(tmp_path: Path) -> None:
    place, first = "memory://ann:hush@reads/test.jsonl", summary_of(7)
    with fsspec.open(place, "w") as file:
        file.write(Path(corpus(tmp_path).removeprefix("snli:")).read_text())
    product(tmp_path, "finalist-0007-seed-2", [f"snli:{place}"]).publish(first)
    assert "hush" not in str(first.corpora)
    write_summary(first, str(tmp_path / "study"))
    second = product(tmp_path, "finalist-0007-seed-2", [f"snli:{place}"])
    second.publish(summary_of(7))
    assert second.judged == []


def test_what_the_model_does_is_shown_on_dev_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def behave(model: Any, dev: Sequence[Corpus]) -> dict[str, Any]:
        asked.append((Path(model.open()).parent, [one.spec for one in dev]))
        return {"version": 1}

    monkeypatch.setattr("sentune.job.product._behave", behave)
    dev, test = corpus(tmp_path, "dev"), corpus(tmp_path, more=" naps")
    toy, summary = product(tmp_path, "finalist-0007-seed-2", [test]), summary_of(7)
    assert BEHAVIOUR_FILE not in publish(toy, toy.checkpoint.parent.name, toy.checkpoint, summary)
    toy.dev = (read_pairs(dev),)
    found = publish(toy, toy.checkpoint.parent.name, toy.checkpoint, summary)
    assert found[BEHAVIOUR_FILE] == {"version": 1}
    assert asked == [(tmp_path / "study", [dev])]


def test_a_damaged_summary_leads_to_a_second_recorded_reading_of_the_same_winner(
    tmp_path: Path,
) -> None:
    spec, first = corpus(tmp_path), summary_of(7)
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(first)
    file = Path(write_summary(first, str(tmp_path / "study")))
    file.write_bytes(file.read_bytes()[:200])
    assert mend_summary(str(tmp_path / "study"))
    with pytest.raises(StudyConflict):
        product(tmp_path, "finalist-0009-seed-2", [spec]).publish(summary_of(9))
    again = summary_of(7)
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(again)
    assert again.test == first.test
    assert [read["run"] for read in again.test_reads] == ["finalist-0007-seed-2"] * 2


def test_another_winner_is_refused_and_leaves_everything_as_it_was(tmp_path: Path) -> None:
    spec, summary = corpus(tmp_path), summary_of(9)
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary_of(7))
    other = product(tmp_path, "finalist-0009-seed-2", [spec])
    with pytest.raises(StudyConflict) as refused:
        other.publish(summary)
    told = str(refused.value)
    assert "for finalist-0007-seed-2, and now finalist-0009-seed-2 has won" in told
    assert reads(tmp_path)[0]["time"][:10] in told
    assert "--force-test" in told
    assert (other.judged, len(reads(tmp_path))) == ([], 1)
    assert published(str(tmp_path / "study")) == "finalist-0007-seed-2"


def test_force_reads_again_and_is_recorded_in_summary_and_card(tmp_path: Path) -> None:
    spec, summary = corpus(tmp_path), summary_of(9)
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary_of(7))
    product(tmp_path, "finalist-0009-seed-2", [spec], force_test=True).publish(summary)
    assert [(r["trial"], r["forced"]) for r in summary.test_reads] == [(7, False), (9, True)]
    card = json.loads((tmp_path / "study" / "model" / "card.json").read_text())
    assert list(card["Readings of the test set"].values())[-1] == "finalist-0009-seed-2 (forced)"
    product(tmp_path, "finalist-0009-seed-2", [spec]).publish(summary_of(9))  # agrees with it
    with pytest.raises(StudyConflict):
        product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary_of(7))


def test_other_corpora_by_force_are_in_the_card(tmp_path: Path) -> None:
    first, other, summary = corpus(tmp_path), corpus(tmp_path, "other", " too"), summary_of(7)
    product(tmp_path, "finalist-0007-seed-2", [first]).publish(summary_of(7))
    product(tmp_path, "finalist-0007-seed-2", [other], force_test=True).publish(summary)
    card = json.loads((tmp_path / "study" / "model" / "card.json").read_text())
    assert list(card["Readings of the test set"].values())[-1] == "finalist-0007-seed-2 (forced)"


def test_force_where_nothing_forbids_it_is_an_ordinary_reading(tmp_path: Path) -> None:
    summary = summary_of(7)
    toy = product(tmp_path, "finalist-0007-seed-2", [corpus(tmp_path)], force_test=True)
    toy.publish(summary)
    toy.publish(summary)
    assert [entry["forced"] for entry in reads(tmp_path)] == [False, False]


def test_other_corpora_are_refused(tmp_path: Path) -> None:
    spec, other = corpus(tmp_path), corpus(tmp_path, "other")
    product(tmp_path, "finalist-0007-seed-2", [spec]).publish(summary_of(7))
    for specs in ([other], [spec, other]):
        with pytest.raises(StudyConflict, match="now it is"):
            product(tmp_path, "finalist-0007-seed-2", specs).publish(summary_of(7))


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("complete", [True, False])
def test_a_file_that_holds_something_else_now_is_another_corpus(
    tmp_path: Path, force: bool, complete: bool
) -> None:
    toy = product(tmp_path, "finalist-0007-seed-2", [corpus(tmp_path)], force_test=force)
    first = summary_of(7)
    toy.publish(first)
    if complete:
        write_summary(first, str(tmp_path / "study"))
        toy.publish(summary_of(7))
        assert len(toy.judged) == 1
    corpus(tmp_path, more=" and a dog")
    if force:
        toy.publish(summary_of(7))
        assert [entry["forced"] for entry in reads(tmp_path)] == [False, True]
        return
    for _ in range(2):
        with pytest.raises(StudyConflict, match="the files have changed since"):
            toy.publish(summary_of(7))
    assert (len(toy.judged), len(reads(tmp_path))) == (1, 1)


def test_test_files_that_are_gone_are_not_needed_again(tmp_path: Path) -> None:
    toy, first, again = product(tmp_path, "0007", [corpus(tmp_path)]), summary_of(7), summary_of(7)
    toy.publish(first)
    write_summary(first, str(tmp_path / "study"))
    (tmp_path / "test.jsonl").unlink()
    toy.publish(again)
    assert again.test == first.test


def test_a_metric_that_is_not_finite_does_not_read_the_test_corpora_again(tmp_path: Path) -> None:
    trial = TrialRecord(
        id=3, state=TrialState.COMPLETE, settings={}, metrics={METRIC: 0.5, "own/y": math.inf}
    )
    toy = product(tmp_path, "0003", [corpus(tmp_path)])
    for _ in range(2):
        summary = replace(summary_of(7), finalists=[], winner=None, trials=[trial])
        toy.publish(summary)
        write_summary(summary, str(tmp_path / "study"))
    assert (len(toy.judged), len(reads(tmp_path))) == (1, 1)


def test_a_killed_reading_counts_and_may_be_done_again_for_the_same_winner(
    tmp_path: Path,
) -> None:
    spec = corpus(tmp_path)
    with pytest.raises(KilledError):
        product(tmp_path, "finalist-0007-seed-2", [spec], killed=True).publish(summary_of(7))
    with pytest.raises(StudyConflict):
        product(tmp_path, "finalist-0009-seed-2", [spec]).publish(summary_of(9))
    again = product(tmp_path, "finalist-0007-seed-2", [spec])
    again.publish(summary_of(7))
    assert again.judged == ["finalist-0007-seed-2"]
    assert [entry["forced"] for entry in reads(tmp_path)] == [False, False]


def test_a_reading_is_on_the_disk_before_the_corpora_are_opened(tmp_path: Path) -> None:
    missing = f"snli:{tmp_path}/missing.jsonl"
    with pytest.raises((SentuneError, OSError)):
        product(tmp_path, "finalist-0007-seed-2", [missing]).publish(summary_of(7))
    (entry,) = reads(tmp_path)
    assert entry["test"] == [{"spec": missing}]


def test_without_finals_the_best_feasible_trial_is_the_winner() -> None:
    def trial(number: int, value: float, broken: float) -> TrialRecord:
        return TrialRecord(
            id=number, state=TrialState.COMPLETE, settings={}, metrics={METRIC: value},
            violations={"train/seconds<=600": broken},
        )  # fmt: skip

    summary = summary_of(0)
    summary.finalists, summary.winner = [], None
    summary.trials = [trial(0, 0.5, -1), trial(1, 0.9, 30), trial(2, 0.7, 0)]
    again = "finalist-0002-seed-0"
    assert Winner.of(summary, again) == Winner(run="0002", trial=2)
    summary.mode = "min"
    assert Winner.of(summary, "0000").run == "0000"


def test_readings_in_an_object_store() -> None:
    storage = "memory://readings/study"
    TestReads(storage).begin(Winner(run="0001", trial=1), ["snli:a"], force=False)
    with pytest.raises(StudyConflict):
        TestReads(storage).begin(Winner(run="0002", trial=2), ["snli:a"], force=False)
    fsspec.filesystem("memory").store.clear()


def test_without_the_checkpoint_nothing_is_read_and_the_reason_is_plain(tmp_path: Path) -> None:
    toy = product(tmp_path, "finalist-0007-seed-2", [corpus(tmp_path)])
    CheckpointStore(str(tmp_path / "study" / "trials" / "finalist-0007-seed-2")).drop_all()
    with pytest.raises(SentuneError, match="the winner's checkpoint is missing"):
        toy.publish(summary_of(7))
    assert not (tmp_path / "study" / TEST_READS).exists()


def test_a_late_driver_leaves_model_and_summary_of_a_later_start(tmp_path: Path) -> None:
    """Its lock may look held to it, as where a file system does not lock across machines."""
    spec, run = corpus(tmp_path), "finalist-0007-seed-2"
    third, fourth = summary_of(7), summary_of(7)
    third.lineage["generation"], fourth.lineage["generation"] = 3, 4
    third.reason = "of the late one"
    folder = tmp_path / "study"
    assert last_start(str(folder)) == 0
    product(tmp_path, run, [spec]).publish(fourth)
    assert last_start(str(folder)) == 4, "by its model, before its summary is there"
    written = contents(folder / "model")
    with pytest.raises(Overtaken, match=r"start 4 of this study .* this start, number 3"):
        product(tmp_path, run, [spec]).publish(third)
    assert contents(folder / "model") == written
    assert not list(folder.glob(".model*"))
    write_summary(fourth, str(folder))
    (folder / "model" / "manifest.json").write_text("damaged")
    with pytest.raises(Overtaken):
        refuse_late(str(folder), 3)
    refuse_late(str(folder), 4)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}
