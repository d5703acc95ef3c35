"""What `sentune verify` says of a study, and of ten tampered copies of it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from functools import reduce
from importlib.metadata import EntryPoint
from operator import getitem
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from search_spaces.gumbel import SPACE
from sentune import Embedder, user_code
from sentune.cli import app
from sentune.code import loaded_code
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.formats import FORMATS
from sentune.corpora.prepare import prepare
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.io.checksums import document_checksum
from sentune.job.families import make_job
from sentune.job.families.base import JobFamily
from sentune.job.options import JobOptions
from sentune.job.product import publish
from sentune.job.study_files import describe, start_summary
from sentune.job.test_set import best_run
from sentune.job.verify import Outcome, verify_study
from sentune.launchers.run_trial import guarded
from sentune.records import StudySummary, TrialRecord
from sentune.study.runner.limits import Limits
from sentune.study.runner.trial_runner import Phase, TrialRunner
from sentune.study.runner.trial_source import Candidate, SearchSource
from sentune.study.space.objectives import Objective
from sentune.study.store.storage import open_storage, open_study, storage_url
from sentune.study.store.study_index import StudyPlace, find_study
from sentune.study.store.study_view import StudyView
from sentune.study.store.trial_codec import run_name
from sentune.study.store.trial_store import TrialStore
from sentune.summary import write_summary
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.model import seal_model
from sentune.training.trial import TrialSpec, identity_of
from tests.tampering import TEN, first, flip

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
from study_folders import OBJECTIVE
from study_folders import make_study as make_folder

NAME = "little"


def make_study(storage: Path) -> None:
    """Two trials of GumbelCSE on a prepared corpus, to a model: what a job does, without Ray."""
    prepare("builtin:nli?size=96", str(storage / "corpus"), kind=Kind.TRIPLETS)
    options = JobOptions(
        study=NAME,
        storage=str(storage),
        corpus=f"parquet:{storage / 'corpus'}",
        dev=("direction=builtin:nli?split=dev&size=40",),
        test=("direction=builtin:nli?split=test&size=40",),
        encoder="builtin:tiny?layers=1&width=16",
        set=("batch_size=32", "dimension=8", "references=96", "alpha_1=0.5", "alpha_2=1.0"),
        trials=2,
        max_examples=64,
        finalists=0,
        scheduler="none",
        optuna=None,
    )
    job = make_job(options, SPACE)
    job.prepare(Console(quiet=True))
    config, milestones = job.config, (32, 64)
    handles = [Held(SharedSource(tokens.load())) for tokens in job.inputs.tokens]  # type: ignore[attr-defined]
    make_spec = job.spec_maker(hold=Held, handles=handles)
    summary = start_summary(job)
    describe(config, options, job.space, None)
    stored = open_storage(storage_url(config.folder, None), driver=True)
    shared = {"corpora": JobFamily.fingerprints(job)["corpora"]}  # without shipping by Ray
    world = {**shared, "space": job.space.identity()}
    study = open_study(stored, NAME, modes=["max"], fingerprint=world)
    store = TrialStore(
        study=study, storage=stored, objectives=[Objective(job.space.objective)], budget=64
    )

    def spec_of(candidate: Candidate) -> TrialSpec:
        spec = make_spec(dict(candidate.settings), candidate.name, candidate.seed, milestones)
        identity = identity_of(spec, candidate.settings, shared, job.space.live)
        return replace(spec, directory=config.directory(candidate.name), identity=identity)

    runner = TrialRunner(
        phases=[
            Phase(
                store=store,
                source=SearchSource(
                    store, job.space, trials=2, seed=0, sampler="random", first=True
                ),
                spec_of=spec_of,
                stored=lambda number: None,
            )
        ],
        limits=Limits(store),
        retire_after=9,
    )
    for place in ("0", "1"):
        given = runner.give(place)
        assert given is not None
        for report in guarded(
            train, given["spec"].value, Group.single("cpu"), loaded_code().fingerprint
        ):
            runner.hear(place, report.to_result())
        runner.end(place)
    summary.state, summary.trials = "complete", store.records()
    summary.lineage["generation"] = 4
    best = best_run(summary)
    assert isinstance(best, TrialRecord)
    run = run_name(best.id)
    checkpoint = CheckpointStore(config.directory(run)).best()
    assert checkpoint is not None
    publish(job, run, checkpoint, summary)
    write_summary(summary, config.folder)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with one study; not to be changed."""
    place = tmp_path_factory.mktemp("studies")
    make_study(place)
    return place


@pytest.fixture
def copied(storage: Path, tmp_path: Path) -> Path:
    """A copy of the storage, whose corpus is the copied one."""
    place = tmp_path / "studies"
    shutil.copytree(storage, place)
    for name in ("study.json", "summary.json"):
        file = place / NAME / name
        file.write_text(file.read_text().replace(str(storage), str(place)))
    return place


def verified(subject: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["verify", subject, *options])


def test_an_untouched_study_and_its_model_hold(storage: Path) -> None:
    done = verified(NAME, "--storage", str(storage))
    assert done.exit_code == 0, done.output
    assert "✗" not in done.stdout
    parts = "corpus dev test prepared tokens trials checkpoints checkpoint model summary"
    for part in parts.split():
        assert f"✓  {part} " in done.stdout
    assert re.search(r"(\d+) of \1 hold$", done.stdout.strip())
    model = verified(str(storage / NAME / "model"))
    assert model.exit_code == 0, model.output
    assert "4 of 4 hold" in model.stdout


@pytest.mark.parametrize("name", TEN)
def test_a_tampered_copy_is_found_and_the_file_named(copied: Path, name: str) -> None:
    TEN[name].change(copied / NAME)
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1, done.output
    assert TEN[name].names in done.stderr
    assert done.stderr.startswith("broken: ")
    if TEN[name].refused:
        with pytest.raises(InvalidValue, match=rf"^model: .*{TEN[name].names}.* instead of "):
            Embedder.load(copied / NAME / "model")
    else:
        Embedder.load(copied / NAME / "model")


def test_what_is_gone_is_no_failure(copied: Path) -> None:
    shutil.rmtree(copied / ".cache")
    shutil.rmtree(copied / "corpus")
    shutil.rmtree(copied / NAME / "trials")
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 0, done.output
    assert "5 of 9 hold, 4 are not here" in done.stdout
    for part in ("corpus", "prepared", "tokens", "checkpoint"):
        assert f"-  {part} " in done.stdout
    moved = copied.parent / "elsewhere"
    shutil.move(copied / NAME / "model", moved)
    assert "1 of 4 holds, 3 are not here" in verified(str(moved)).stdout
    (moved / "manifest.json").unlink()
    Embedder.load(moved)
    done = verified(str(moved))
    assert done.exit_code == 1
    assert "manifest.json is missing" in done.stderr


def test_a_model_folder_that_was_exchanged_is_found(copied: Path, storage: Path) -> None:
    """A folder that is whole in itself, and not the one of the study."""
    model = copied / NAME / "model"
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "README.md").write_text("Another card.")
    (model / "manifest.json").unlink()
    seal_model(model, {k: manifest[k] for k in ("generation", "test", "chain")})
    Embedder.load(model)
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1
    assert "summary.json: checksum of model/manifest.json is" in done.stderr


@pytest.mark.parametrize("name", ["head.safetensors", "references.parquet", "x/config.json"])
def test_a_file_that_the_manifest_does_not_name_is_not_read(copied: Path, name: str) -> None:
    model = copied / NAME / "model"
    manifest = json.loads((model / "manifest.json").read_text())
    del manifest["files"]
    files = json.loads((model / "manifest.json").read_text())["files"]
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).touch()
    files.pop(name, None)
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    forged = {**rest, "files": files}
    forged["checksum"] = document_checksum(forged)
    (model / "manifest.json").write_text(json.dumps(forged))
    with pytest.raises(InvalidValue, match=f"{name} is not in manifest.json"):
        Embedder.load(model)


@pytest.mark.parametrize(
    ("part", "told"),
    [("settings", "settings.dimension: was 8, is now 9"), ("corpora", "corpora: was ")],
)
def test_a_checkpoint_of_another_run_is_found(copied: Path, part: str, told: str) -> None:
    """One that is whole in itself."""
    file = first(copied / NAME, "trials/0000/examples_*/progress.json")
    content = json.loads(file.read_text())
    identity = content["identity"]
    identity[part] = {**identity["settings"], "dimension": 9} if part == "settings" else "other"
    del content["checksum"]
    file.write_text(json.dumps({**content, "checksum": document_checksum(content)}))
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1
    assert f"{file.parent.name}: it is of another run ({told}" in done.stderr


def test_a_damaged_journal_is_named(copied: Path) -> None:
    journal = copied / NAME / "optuna.journal"
    flip(journal, journal.read_bytes().index(b"{", 200))
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"broken: trials {journal}: {journal}:")
    assert "damaged" in done.stderr


def test_a_corpus_that_has_changed_is_named(copied: Path) -> None:
    summary = copied / NAME / "summary.json"
    summary.write_text(summary.read_text().replace("split=dev&size=40", "split=dev&size=39"))
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1
    assert "broken: dev direction=builtin:nli?split=dev&size=39: its fingerprint is" in done.stderr


BROUGHT = """
import sentune
from sentune.corpora import Kind, read

@sentune.format("brought", kind="labelled-pairs")
def brought(path):
    return read("builtin:nli?split=dev&size=40", Kind.LABELLED_PAIRS).table.to_pylist()
"""


def test_a_corpus_in_a_format_of_a_package_is_read(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "verify_brings.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("brought", "verify_brings", "sentune.formats")
    monkeypatch.setattr(
        user_code.metadata, "entry_points", lambda group: [point] * (group == "sentune.formats")
    )
    summary = copied / NAME / "summary.json"
    named = f"brought:{summary}"
    summary.write_text(summary.read_text().replace("builtin:nli?split=dev&size=40", named))
    try:
        checks = {check.part: check for check in verify_study(find_study(str(copied), NAME))}
    finally:
        FORMATS.pop("brought", None)
        sys.modules.pop("verify_brings", None)
    dev = checks["dev"]
    assert (dev.place, dev.outcome) == (f"direction={named}", Outcome.HOLDS)


def test_the_test_s_figures_are_those_of_the_model(copied: Path) -> None:
    file = copied / NAME / "summary.json"
    summary = json.loads(file.read_text())
    summary["test"]["direction/accuracy"] += 0.1
    file.write_text(json.dumps(summary))
    done = verified(NAME, "--storage", str(copied))
    assert done.exit_code == 1
    assert "summary.json: test.direction/accuracy: was " in done.stderr


def test_a_study_in_an_object_store_is_checked_there(copied: Path) -> None:
    """Its trials are in a database, its folder in the store."""
    store, url = fsspec.filesystem("memory"), f"sqlite:///{copied.parent / 'all.db'}"
    CliRunner().invoke(
        app, ["study", "export", NAME, "--storage", str(copied), "--out", f"sqlite:///{url[10:]}"]
    )
    try:
        store.put(str(copied), "/verified", recursive=True)
        options = ("--storage", "memory://verified", "--optuna", url)
        done = verified(NAME, *options)
        assert done.exit_code == 0, done.output
        model = "memory://verified/little/model"
        assert verified(model).exit_code == 0
        assert np.isfinite(Embedder.load(model).encode("a dog runs")).all()
        content = store.cat_file("/verified/little/model/settings.json")
        store.pipe_file("/verified/little/model/settings.json", content.replace(b"32", b"33", 1))
        done = verified(NAME, *options)
        assert done.exit_code == 1
        assert "settings.json has the checksum" in done.stderr
    finally:
        store.rm("/verified", recursive=True)


@pytest.mark.parametrize("subject", ["nowhere", "./nowhere", "no/such", "a b"])
def test_what_is_no_study_and_no_model_is_refused(storage: Path, subject: str) -> None:
    with pytest.raises(InvalidValue):
        CliRunner().invoke(
            app, ["verify", subject, "--storage", str(storage)], catch_exceptions=False
        )
    with pytest.raises(InvalidValue, match="there is no model here"):
        CliRunner().invoke(app, ["verify", str(storage / NAME)], catch_exceptions=False)


def test_a_folder_with_the_name_of_a_study_does_not_hide_it(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(storage)
    assert verified(NAME, "--storage", ".").exit_code == 0


@pytest.fixture
def with_finals(tmp_path: Path) -> StudyPlace:
    """A study with two finalists in its store, and its summary."""
    make_folder(tmp_path, "toy", finals=((0, 1, 0.3), (0, 2, 0.35), (2, 1, 0.5), (2, 2, 0.45)))
    place = find_study(str(tmp_path), "toy")
    study = StudyView(place).snapshot()
    summary = StudySummary(
        study="toy", method="toy", state="complete", objective=OBJECTIVE, mode="max", corpora={},
        space={}, trials=study.trials, finalists=study.finalists, winner=0, best=0,
    )  # fmt: skip
    write_summary(summary, place.folder)
    return place


def test_finalists_are_as_the_store_has_them(with_finals: StudyPlace) -> None:
    checks = {check.part: check for check in verify_study(with_finals)}
    assert {part: check.outcome for part, check in checks.items()} == {
        "trials": Outcome.HOLDS,
        "summary": Outcome.HOLDS,
    }
    assert checks["summary"].found == "6 trials, 2 finalists, test figures"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("winner", 1, "winner: finalist 1 does not have the best"),
        ("best", 2, "best: trial 2 in the summary, trial 0 by the store"),
        (("finalists", 0, "metrics", OBJECTIVE, "values", 1), 0.9, "finalist 0 differs"),
        (("finalists", 1, "metrics", OBJECTIVE, "mean"), 0.9, "finalist 2 differs"),
        (("trials", 1, "reason"), "other", "trial 1 differs from the store: reason: was "),
        (("trials", 1, "id"), 99, "trial 99 differs from the store"),
    ],
)
def test_a_summary_that_tells_something_else_is_found(
    with_finals: StudyPlace, field: Any, value: Any, told: str
) -> None:
    file = Path(with_finals.folder, "summary.json")
    content = json.loads(file.read_text())
    *path, name = field if isinstance(field, tuple) else (field,)
    reduce(getitem, path, content)[name] = value
    file.write_text(json.dumps(content))
    *_, last = verify_study(with_finals)
    assert (last.part, last.outcome) == ("summary", Outcome.BROKEN)
    assert told in last.found
