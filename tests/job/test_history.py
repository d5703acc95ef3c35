"""What a new study takes from earlier ones of its storage, and that it is settings alone."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.simulate import open_simulated
from sentune.job.families import JobFamily, make_job
from sentune.job.history import take_history
from sentune.job.options import JobOptions
from sentune.job.plan import show_plan
from sentune.job.study_files import describe, start_summary
from sentune.records import TrialRecord, TrialState
from sentune.study.runner.trial_source import SearchSource
from sentune.study.schedulers import Scheduler
from sentune.summary import write_summary
from tests.job.test_probing import SPACE as PROBED

SPACE = replace(PROBED, starts={})
BEST = {"learning_rate": 5e-3, "dimension": 8, "batch_size": 16, "max_length": 32}


def options_of(storage: Path, study: str, **others: Any) -> JobOptions:
    return JobOptions(
        study=study,
        corpus="builtin:nli?size=192",
        dev=("builtin:nli?split=dev&size=60",),
        encoder="builtin:tiny?layers=1&width=16&heads=2&inner=32",
        storage=str(storage),
        **others,
    )


def job_of(storage: Path, study: str, **others: Any) -> tuple[JobFamily, JobOptions]:
    """A prepared job and its options."""
    options = options_of(storage, study, **others)
    job = make_job(options, SPACE)
    job.prepare(Console(file=io.StringIO()))
    return job, options


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    earlier(tmp_path, "old")
    return tmp_path


def earlier(storage: Path, study: str, **changes: Any) -> None:
    """Leaves the files of a study that has ended, with changes of its summary."""
    job, options = job_of(storage, study, no_history=True)
    describe(job.config, options, SPACE, None)
    best = TrialRecord(id=3, state=TrialState.COMPLETE, settings=dict(BEST))
    whole = replace(start_summary(job), state="complete", trials=[best], best=3)
    changed = replace(whole, **changes)
    write_summary(changed, job.config.folder)


def test_the_best_of_an_earlier_study_comes_first_and_the_plan_says_so(storage: Path) -> None:
    options, text = options_of(storage, "new", dry_run=True), io.StringIO()
    job = make_job(options, SPACE)
    show_plan(job, Console(file=text, width=200), seconds=600)
    assert "the best of study old; then the published point" in text.getvalue()
    assert job.space.first_points() == [{"learning_rate": 5e-3, "dimension": 8}, SPACE.published]
    assert not (storage / "new").exists(), "a dry run fixes nothing"


def test_what_the_narrowed_space_changes_about_it_is_said(storage: Path) -> None:
    job, _ = job_of(storage, "new", set=("dimension=2,4",))
    take_history(job)
    assert "the best of study old, changed: dimension 8 -> 4" in job.space.first_note()


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "stopped"},
        {"best": None},
        {"space": {**SPACE.to_dict(), "suited": ["small", 27_000]}},
        {"space": {**SPACE.to_dict(), "suited": ["scratch", 27_000], "method": "gauss"}},
        {"space": {**SPACE.to_dict(), "suited": ["scratch", 27_000], "objective": "rte/auc"}},
        {
            "corpora": {
                "corpus": {"spec": "snli:a", "kind": "triplets", "fingerprint": "", "rows": 9}
            }
        },
    ],
    ids=["unfinished", "nothing found", "encoder", "method", "objective", "corpus"],
)
def test_other_studies_have_nothing_to_say(tmp_path: Path, changes: dict[str, Any]) -> None:
    earlier(tmp_path, "old", **changes)
    job, _ = job_of(tmp_path, "new")
    assert take_history(job) == {}
    assert job.space.history == {}


def test_every_later_start_takes_what_the_first_one_took(storage: Path) -> None:
    for _ in range(2):
        job, options = job_of(storage, "new")
        taken = take_history(job)
        assert taken == {"old": BEST}
        describe(job.config, options, SPACE, None, history=taken)
        earlier(storage, "newer")
    job, options = job_of(storage, "new", no_history=True)
    assert take_history(job) == {"old": BEST}, "it stays in the study's file"
    assert job.space.first_points() == [SPACE.published]
    job, options = job_of(storage, "newest")
    assert take_history(job).keys() == {"old", "newer"}
    assert job.space.first_note().count("the best of study") == 1, "both found the same"


def test_a_start_of_another_method_that_this_one_replaces_leaves_it_no_points(
    storage: Path,
) -> None:
    job, options = job_of(storage, "new")
    other = replace(SPACE, method="gauss")
    describe(job.config, options, other, None, history={"older": {"dimension": 2}})
    assert take_history(job) == {"old": BEST}


def test_a_study_that_began_without_history_stays_without(storage: Path) -> None:
    job, options = job_of(storage, "new", no_history=True)
    assert take_history(job) == {}
    describe(job.config, options, SPACE, None, history={})
    job, _ = job_of(storage, "new")
    assert take_history(job) == {}
    assert job.space.first_points() == [SPACE.published]


def test_results_do_not_mix(storage: Path) -> None:
    """The point is trained anew, under a number and with a seed of the new study's own."""
    files = {path: path.read_bytes() for path in (storage / "old").iterdir()}
    job, options = job_of(storage, "new", seed=7)
    alone = job.space
    describe(job.config, options, SPACE, None, history=take_history(job))
    store = open_simulated(job.space, Scheduler(max_examples=900))
    candidate = SearchSource(store, job.space, trials=1, seed=7).next(0)
    assert candidate is not None
    assert (candidate.number, candidate.seed, candidate.start_from) == (0, 7, "")
    assert candidate.settings == BEST
    (trial,) = store.records()
    assert (trial.state, trial.metrics, trial.curve, trial.source) == ("running", {}, {}, "")
    assert job.space.identity() == alone.identity(), "it resumes whatever it was told"
    assert json.loads((storage / "new" / "study.json").read_text())["history"] == {"old": BEST}
    assert {path: path.read_bytes() for path in (storage / "old").iterdir()} == files
