"""What a new study may take from an old one, and what it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from study_folders import OBJECTIVE, SPACE, TRIALS, fingerprint, make_study, trial_of
from toys import Given

from sentune.errors import InvalidValue, StudyConflict
from sentune.study.config import StudyConfig
from sentune.study.fork import (
    fork_from,
    place_of_trials,
    refuse_foreign_trials,
)
from sentune.study.runner.trial_source import SearchSource
from sentune.study.space.objectives import Objective
from sentune.study.space.space import Choice, SearchSpace, Uniform
from sentune.study.store.storage import open_storage, storage_url
from sentune.study.store.study_index import StudyPlace, find_study
from sentune.study.store.trial_codec import TWIN, WARM_FROM, WARM_NUMBER, record_of
from sentune.study.store.trial_store import TrialStore


def new_study() -> optuna.Study:
    return optuna.create_study(storage=optuna.storages.InMemoryStorage(), direction="maximize")


def forked(space: SearchSpace, trials: Any = TRIALS, study: Any = None, **now: Any) -> Any:
    """The study after a fork of ``TRIALS``, and what was said."""
    study = study or new_study()
    plain = json.loads(json.dumps(fingerprint(**{"space": space.identity(), **now})))
    with TemporaryDirectory() as storage:
        make_study(Path(storage), "old", trials=tuple(trials))
        return study, fork_from(find_study(storage, "old"), study, plain, space)


def test_the_same_space_takes_all_that_has_ended_and_is_the_old_ones_own():
    study, said = forked(SPACE, seed=3, sampler={"name": "mine:Mine", "mine.py": "1f"})
    assert said == (3, [])
    taken = study.get_trials()
    numbers = [t.user_attrs[WARM_NUMBER] for t in taken]
    assert numbers == [0, 1, 2], "no copies, no other studies' trials"
    for trial in taken:
        original = TRIALS[trial.user_attrs[WARM_NUMBER]]
        assert trial.user_attrs[WARM_FROM] == "old"
        assert (trial.state, trial.params, trial.values, trial.intermediate_values) == (
            original.state,
            original.params,
            original.values,
            original.intermediate_values,
        )
    assert study.best_trial.user_attrs[WARM_NUMBER] == 2


def test_one_that_was_stopped_and_went_on_is_taken_once():
    stopped = trial_of(0.5, state=TrialState.PRUNED, examples=100)
    study, said = forked(SPACE, trials=(stopped, trial_of(0.5, notes={"parent": 0})))
    assert said[0] == 1
    assert [trial.user_attrs[WARM_NUMBER] for trial in study.get_trials()] == [1]


def test_one_that_went_on_keeps_the_best_milestone_before_it():
    best = {"metrics": {OBJECTIVE: 0.95}, "readouts": {}}
    stopped = trial_of(0.5, state=TrialState.PRUNED, examples=100)
    study, _ = forked(
        SPACE, trials=(stopped, trial_of(0.5, notes={"parent": 0, "inherited": best}))
    )
    (trial,) = study.get_trials()
    assert record_of(trial, Objective(OBJECTIVE)).metrics == best["metrics"]


def test_trials_keep_their_seed_and_segments_of_a_population_stay():
    trials = (trial_of(0.5, notes={"seed": 4}), trial_of(0.4, notes={"member": 1}))
    study, said = forked(SPACE, trials=trials)
    assert [trial.user_attrs["seed"] for trial in study.get_trials()] == [4]
    assert said[1] == [
        "1 trial left out: a segment of a population, whose settings changed during training"
    ]


def test_trials_outside_the_new_space_are_left_and_counted():
    space = replace(SPACE, settings={**SPACE.settings, "rate": Uniform(0.2, 0.4)})
    study, said = forked(space)
    assert [t.user_attrs[WARM_NUMBER] for t in study.get_trials()] == [2]
    assert said[1] == ["2 trials left out: rate outside the new study's 0.2..0.4"]
    assert study.get_trials()[0].distributions["rate"].high == 0.4


def test_a_setting_that_is_fixed_now_keeps_the_trials_that_had_its_value():
    space = replace(
        SPACE, settings={"rate": Uniform(0.0, 1.0)}, fixed={"layers": 2, "pooling": "cls"}
    )
    study, said = forked(space)
    assert [t.params for t in study.get_trials()] == [{"rate": 0.31}]
    assert said[1] == ["2 trials left out: pooling is not cls, as in the new study"]


def test_a_setting_that_was_fixed_may_be_searched_now():
    space = replace(SPACE, settings={**SPACE.settings, "layers": Choice(1, 2)}, fixed={})
    study, said = forked(space)
    assert said[0] == 3
    assert all(t.params["layers"] == 2 for t in study.get_trials())


@pytest.mark.parametrize(
    ("space", "why"),
    [
        (
            replace(SPACE, settings={**SPACE.settings, "heads": Choice(1, 2)}),
            "without a value of heads, which the new study searches",
        ),
        (
            replace(SPACE, fixed={"layers": 2, "heads": 1}),
            "without a value of heads, which the new study fixes",
        ),
        (replace(SPACE, fixed={}), "with a value of layers, which the new study does not have"),
    ],
)
def test_settings_that_only_one_of_the_studies_knows(space: SearchSpace, why: str):
    study, said = forked(space)
    assert said == (0, [f"3 trials left out: {why}"])
    assert study.get_trials() == []


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ({"corpus": {"fingerprint": "99"}}, 'corpus.fingerprint: was "1234", is now "99"'),
        ({"max_examples": 2700}, "max_examples: was 900, is now 2700"),
        ({"code": "2"}, 'code: was null, is now "2"'),
        (
            {"into": {"objective": "toy/loss"}},
            'space.objective: was "toy/score", is now "toy/loss"',
        ),
    ],
)
def test_of_another_world_nothing_is_taken(now: dict[str, Any], line: str):
    study, said = forked(replace(SPACE, **now.pop("into", {})), **now)
    assert said == (0, [f"3 trials left out: {line}"])
    assert study.get_trials() == []


def test_other_rungs_keep_what_was_trained_to_its_end():
    study, said = forked(SPACE, rungs=[50])
    assert said[0] == 2
    assert said[1] == ["1 trial left out: stopped at a rung that the new study does not have"]
    assert all(t.state == TrialState.COMPLETE for t in study.get_trials())
    assert all(t.intermediate_values == {} for t in study.get_trials())


def test_a_fork_that_was_killed_takes_each_trial_once():
    study, _ = forked(SPACE, trials=[trial_of(0.5)])
    study, said = forked(SPACE, study=study)
    assert said[0] == 3
    assert sorted(t.user_attrs[WARM_NUMBER] for t in study.get_trials()) == [0, 1, 2]
    study, said = forked(SPACE, study=study)
    assert (said[0], len(study.get_trials())) == (3, 3)


def test_the_old_study_is_read_where_it_is_kept(tmp_path: Path):
    make_study(tmp_path, "old")
    study = new_study()
    now = json.loads(json.dumps(fingerprint()))
    assert fork_from(find_study(str(tmp_path), "old"), study, now, SPACE)[0] == 3
    assert {t.user_attrs[WARM_FROM] for t in study.get_trials()} == {"old"}
    assert [t.user_attrs[WARM_NUMBER] for t in study.get_trials()] == [0, 1, 2]
    nothing = StudyPlace(name="new", folder=str(tmp_path), url="")
    with pytest.raises(InvalidValue, match=r"--fork or --warm-start.*no trials yet"):
        fork_from(nothing, study, now, SPACE)


def start(storage: Path, optuna_url: str | None = None) -> None:
    """The part of a start that opens the study's database."""
    config = StudyConfig(name="old", storage=str(storage), max_examples=900, optuna_url=optuna_url)
    url = storage_url(config.folder, optuna_url)
    refuse_foreign_trials(config, open_storage(url, driver=True), url)


def with_runs(folder: Path) -> Path:
    for run in ("0000", "0001", "finalist-0001-seed-1"):
        (folder / "trials" / run).mkdir(parents=True)
    return folder


def test_trials_that_another_database_does_not_know_are_not_met(tmp_path: Path):
    folder = with_runs(make_study(tmp_path, "old", told={}))
    other = f"sqlite:///{tmp_path}/other.db"
    start(tmp_path)
    with pytest.raises(StudyConflict) as refused:
        start(tmp_path, other)
    said = str(refused.value)
    assert f"{folder}/trials has 3 runs of a study 'old', but {other} has no such study" in said
    assert (
        f"They are in {folder}/optuna.journal: continue without --optuna and SENTUNE_OPTUNA" in said
    )
    assert "--fork NAME" in said
    now = json.loads(json.dumps(fingerprint()))
    place = place_of_trials(str(tmp_path), "old", other)
    assert fork_from(place, new_study(), now, SPACE)[0] == 3, "what is offered works"


def test_trials_of_a_database_that_is_not_named_any_more_are_not_met(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/first.db"
    told = {"options": {"optuna": url}}
    folder = with_runs(make_study(tmp_path, "old", url=url, told=told))
    start(tmp_path, url)
    with pytest.raises(StudyConflict) as refused:
        start(tmp_path)
    said = str(refused.value)
    assert f"of a study 'old', but {folder}/optuna.journal has no such study" in said
    assert f"They are in {url}: continue with --optuna {url}" in said
    now = json.loads(json.dumps(fingerprint()))
    assert fork_from(place_of_trials(str(tmp_path), "old", None), new_study(), now, SPACE)[0]


@pytest.mark.parametrize("told", [{}, {"options": {"optuna": "postgresql://127.0.0.1:1/gone"}}])
def test_of_trials_whose_database_is_lost_no_fork_is_offered(tmp_path: Path, told: dict[str, Any]):
    folder = make_study(tmp_path, "old", told=told)
    start(tmp_path)
    (folder / "optuna.journal").unlink()
    start(tmp_path)
    with_runs(folder)
    with pytest.raises(StudyConflict) as refused:
        start(tmp_path)
    assert "another --study NAME" in str(refused.value)
    assert "--fork" not in str(refused.value)


def test_a_point_that_was_taken_over_is_not_run_again():
    """Points tried first, and grids, would draw it; a stopped one need not be stopped again."""
    space = replace(
        SPACE, settings={"rate": Choice(0.1, 0.31, 0.5, 0.7), "pooling": Choice("mean")}
    )
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, direction="maximize")
    _, said = forked(space, study=study)
    assert said[0] == 2
    store = TrialStore(
        study=study, storage=storage, objectives=(Objective(OBJECTIVE, "max"),), budget=900
    )
    given = Given(*({"rate": rate, "pooling": "mean"} for rate in (0.5, 0.1, 0.31)))
    source = SearchSource(store, space, trials=4, seed=0, sampler=given, first=False)
    first = source.next(0)
    assert first is not None
    assert first.settings["rate"] == 0.31, "with another pooling it was taken over, not with this"
    copies = [t for t in study.get_trials() if TWIN in t.user_attrs]
    twins = [study.get_trials()[t.user_attrs[TWIN]] for t in copies]
    assert [(t.state, t.value) for t in copies] == [(t.state, t.value) for t in twins]
    assert [t.state for t in copies] == [TrialState.COMPLETE, TrialState.PRUNED]
    assert copies[1].intermediate_values == twins[1].intermediate_values != {}
