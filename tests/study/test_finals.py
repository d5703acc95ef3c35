"""Finals: who is in, what they cost, who won by how much, and whose checkpoint is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState as Stored
from optuna.trial import create_trial

from sentune.code import loaded_code
from sentune.errors import DamagedFile
from sentune.launchers.run_trial import guarded
from sentune.launchers.trial_report import Report
from sentune.records import FinalistRecord, Spread, TrialState
from sentune.study.config import StudyConfig
from sentune.study.runner.finals import Finals, compare
from sentune.study.runner.retention import Retention, note_published
from sentune.study.runner.trial_source import Source
from sentune.study.space.objectives import Constraint, Objective, ranked_finalists
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_codec import run_name
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.trial import Progress
from tests.study.toys import OBJECTIVE, make_spec, toy

SCORE, COST = Objective(OBJECTIVE), Objective("toy/cost", "min")


class Scene:
    """A search whose trials are written into the store, and its finals."""

    def __init__(self, folder: Path, objectives: Sequence[Objective] = (SCORE,)) -> None:
        self.folder, self.objectives = folder, objectives
        self.storage = open_storage(f"{folder / 'optuna.journal'}", driver=True)
        self.search = self._open_store("s")
        self.config = StudyConfig(
            name="s", storage=str(folder), max_examples=900, finalists=2, seeds=2
        )

    def _open_store(self, name: str) -> TrialStore:
        modes = [objective.mode for objective in self.objectives]
        study = open_study(self.storage, name, modes=modes, fingerprint={})
        return TrialStore(study=study, storage=self.storage, objectives=self.objectives, budget=900)

    def trial(
        self,
        x: int,
        value: float,
        broken: float = -1.0,
        *,
        seed: int = 0,
        member: int | None = None,
        **more: float,
    ) -> int:
        """A complete trial of the search."""
        of_population = {} if member is None else {"member": member}
        number = self.search.add(
            create_trial(
                state=Stored.RUNNING,
                user_attrs={"settings": {"x": x, "y": 0}, "seed": seed, **of_population},
                constraints={"toy/cost<=1": broken},
            )
        )
        metrics = {OBJECTIVE: value, **more}
        self.search.milestone(number, Report(examples=900, final=True, metrics=metrics))
        self.search.complete(number)
        return number

    def finals(self, **changes: int) -> Finals:
        config = replace(self.config, **changes)
        study = self._open_store("s/finalists").study
        return Finals(study=study, store=self.search, config=config)

    def play(self, finals: Finals, source: Source | None = None, runs: int = 99) -> None:
        source = source or finals.source
        while runs and (candidate := source.next(0)) is not None:
            runs -= 1
            finals.store.charge(candidate.number, "start", seconds=7.0, gpus=2.0)
            spec = make_spec(self.folder / "s", candidate)
            for report in guarded(toy, spec, Group.single("cpu"), loaded_code().fingerprint):
                if report.failure:
                    finals.store.fail(candidate.number, report.failure, repeats=report.repeats)
                    break
                finals.store.milestone(candidate.number, report)
            else:
                finals.store.complete(candidate.number)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_only_feasible_trials_are_finalists(scene: Scene) -> None:
    scene.trial(5, 0.9, broken=0.5)
    scene.trial(3, 0.5)
    scene.trial(4, 0.7)
    assert [t.id for t in scene.finals().best_trials()] == [2, 1]


def test_the_verdict_says_what_the_winner_breaks_from_fresh_seeds(scene: Scene) -> None:
    scene.search = replace(scene.search, constraints=[Constraint.parse(f"{OBJECTIVE}<=0.06")])
    scene.trial(3, 0.06)
    finals = scene.finals()
    assert finals.compared([]) == ("", {})
    scene.play(finals)
    verdict, comparison = finals.compared(finals.records())
    assert verdict == (
        "Trial 0 is the only finalist; a comparison needs two. "
        "In the mean over its seeds it breaks toy/score<=0.06 by 0.0315."
    )
    assert comparison["winner"] == 0


def finalist(trial: int, *values: float, cost: float = 0.0) -> FinalistRecord:
    metrics = {OBJECTIVE: Spread.of([*values]), COST.metric: Spread.of([cost] * len(values))}
    return FinalistRecord(trial=trial, settings={}, seeds=[*range(len(values))], metrics=metrics)


def test_a_finalist_that_holds_the_constraints_goes_before_a_better_one_that_does_not(
    scene: Scene,
) -> None:
    cheap = Constraint.parse("toy/cost<=1")
    scene.search = replace(scene.search, constraints=[cheap])
    better, cheaper = finalist(0, 0.9, 0.9, cost=1.5), finalist(1, 0.8, 0.7, cost=1.0)
    assert ranked_finalists([better, cheaper], SCORE, []) == [better, cheaper]
    order = ranked_finalists([better, cheaper], SCORE, [cheap])
    assert order == [cheaper, better]
    verdict, comparison = scene.finals().compared(order)
    assert verdict.startswith("Trial 1 is behind trial 0 by 15.0 points (95 % interval")
    assert verdict.endswith("Trial 0 has a better mean, but it breaks toy/cost<=1 by 0.5.")
    assert (comparison["winner"], comparison["runner_up"]) == (1, 0)


def test_a_finalist_with_one_complete_seed_goes_after_those_with_more(scene: Scene) -> None:
    lucky, known = finalist(0, 0.9), finalist(1, 0.8, 0.7)
    order = ranked_finalists([lucky, known], SCORE, [])
    assert order == [known, lucky]
    verdict, _ = scene.finals().compared(order)
    assert verdict.endswith("Trial 0 has a better mean, but only one of its seeds is complete.")
    alone = finalist(1, 0.8)
    assert ranked_finalists([alone, lucky], SCORE, []) == [lucky, alone]


def test_with_several_objectives_finalists_are_on_the_front(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (SCORE, COST))
    for value, cost in ((0.9, 5.0), (0.8, 6.0), (0.7, 1.0), (0.6, 2.0)):
        scene.trial(3, value, **{COST.metric: cost})
    assert [t.id for t in scene.finals(finalists=3).best_trials()] == [0, 2]


def test_the_winner_is_compared_and_the_cost_of_all_seeds_is_summed(scene: Scene) -> None:
    scene.trial(5, 0.9)  # x = 3 is the best by the toy's formula, and was unlucky in the search
    scene.trial(3, 0.8)
    finals = scene.finals()
    scene.play(finals)
    first, second = finals.records()
    assert (first.trial, second.trial) == (1, 0)
    assert first.seconds == pytest.approx(18.0)  # two seeds of 900 examples at a hundred a second
    verdict, comparison = compare(finals.records(), SCORE)
    assert comparison["difference"] == pytest.approx(0.04)
    assert verdict == (
        "Trial 1 is ahead of trial 0 by 4.0 points on each of 2 seeds: "
        "no seed changes the difference."
    )
    assert finals.winning_run() == "finalist-0001-seed-2"
    assert str(finals.best_checkpoint()).endswith("finalist-0001-seed-2/examples_000000900")
    assert finals.lost() is None


def test_what_failed_runs_cost_is_counted(scene: Scene) -> None:
    scene.trial(8, 0.9)
    scene.trial(3, 0.8)
    finals = scene.finals()
    scene.play(finals)
    complete = {name: run.state is TrialState.COMPLETE for name, run in finals.runs().items()}
    assert complete == {run_name(trial, seed): trial == 1 for trial in (0, 1) for seed in (1, 2)}
    (only,) = finals.records()
    verdict, _ = compare(finals.records(), SCORE)
    assert "only finalist" in verdict
    assert only.gpu_seconds == pytest.approx(28.0)


def test_a_winner_whose_checkpoint_was_dropped_is_trained_again_to_the_same_model(
    scene: Scene,
) -> None:
    scene.trial(4, 0.9)
    scene.trial(3, 0.8)
    finals = scene.finals()
    scene.play(finals)
    winner = finals.winning_run()
    assert winner is not None
    before = finals.records()
    CheckpointStore(finals.config.directory(winner)).drop_all()
    source = finals.lost()
    assert source is not None
    scene.play(finals, source)
    assert finals.lost() is None
    assert finals.records()[0].metrics == before[0].metrics
    assert finals.records()[0].seeds == before[0].seeds


def test_without_finalists_the_best_milestone_before_a_trial_was_stopped_is_shipped(
    scene: Scene,
) -> None:
    settings = {"settings": {"x": 3, "y": 0}, "seed": 0}
    went_on = {"parent": 0, "begun_at": 100, "inherited": {"metrics": {OBJECTIVE: 0.9}}}
    for notes in ({}, went_on):
        scene.search.add(create_trial(state=Stored.RUNNING, user_attrs={**settings, **notes}))
    scene.search.milestone(0, Report(examples=50, metrics={OBJECTIVE: 0.9}))
    scene.search.prune(0, "0.6 at 100 examples; it waits")
    scene.search.milestone(1, Report(examples=900, final=True, metrics={OBJECTIVE: 0.4}))
    scene.search.complete(1)
    saved = Progress(examples=50, metrics={}, save=lambda folder: None)
    CheckpointStore(scene.config.directory("0000")).save(saved, 0.9)
    finals = scene.finals(finalists=0)
    assert finals.winning_run() == "0000"
    assert str(finals.best_checkpoint()).endswith("0000/examples_000000050")
    assert finals.lost() is None


def test_retention_follows_the_finals(scene: Scene) -> None:
    for x in (4, 3):
        scene.trial(x, 0.9)
    finals = scene.finals()
    retention = Retention(scene.config, scene.search)
    retention.finals = finals
    scene.play(finals)
    retention.apply()
    folder = scene.folder / "s" / "trials"
    assert len(list(folder.glob("finalist-*/examples_*"))) == 4
    winner = finals.winning_run()
    assert winner is not None
    note_published(scene.config.folder, winner)
    retention.apply(everything=True)
    assert [p.parent.name for p in folder.glob("*/examples_*")] == [winner]


def test_a_killed_run_of_a_trial_that_was_pushed_out_does_not_stay_running(scene: Scene) -> None:
    scene.trial(4, 0.5)
    first = scene.finals(finalists=1)
    candidate = first.source.next(0)
    assert candidate is not None
    scene.trial(3, 0.9)
    second = scene.finals(finalists=1)
    (old,) = [r for r in second.store.records() if r.id == candidate.number]
    assert (old.state, old.reason) == (TrialState.FAILED, "no longer among the finalists")
    scene.play(second)
    assert [record.trial for record in second.records()] == [1]
    scene.play(scene.finals(finalists=2))  # it is chosen again, and tried again
    assert len(scene.finals(finalists=2).records()) == 2


def test_a_damaged_best_checkpoint_of_the_winner_is_trained_again(scene: Scene) -> None:
    scene.trial(3, 0.9)
    finals = scene.finals(finalists=1)
    scene.play(finals)
    found = finals.best_checkpoint()
    assert found is not None
    store = CheckpointStore(str(Path(found).parent))
    store.save(Progress(examples=950, metrics={}, save=lambda folder: None), 0.0)
    (Path(found) / "progress.json").write_text("{")
    source = finals.lost()
    assert source is not None
    scene.play(finals, source)
    assert finals.lost() is None
    assert finals.best_checkpoint() == found


def test_no_finalist_has_the_seed_of_a_trial_that_was_taken_over(scene: Scene) -> None:
    scene.trial(3, 0.9, seed=2)
    assert scene.finals().seeds() == [1, 3]
    source = scene.finals(finalists=0).lost()
    assert source is not None
    again = source.next(0)
    assert again is not None
    assert again.seed == 2, "what was measured is trained again"


def test_a_lost_winner_of_a_population_is_not_trained_from_its_last_settings(scene: Scene) -> None:
    scene.trial(3, 0.9, member=0)
    with pytest.raises(DamagedFile, match=r"0000.*another --study"):
        scene.finals(finalists=0).lost()


def test_without_finalists_a_best_trial_of_another_study_is_trained_here(scene: Scene) -> None:
    scene.trial(4, 0.5)
    scene.trial(3, 0.9)  # written into the store alone, as a trial that was taken over is
    finals = scene.finals(finalists=0)
    assert finals.winning_run() == "0001"
    assert finals.best_checkpoint() is None
    source = finals.lost()
    assert source is not None
    scene.play(finals, source)
    assert finals.winning_run() == "finalist-0001-seed-0"
    found = finals.best_checkpoint()
    assert found is not None
    assert finals.lost() is None
    again = scene.finals(finalists=0)
    assert (again.best_checkpoint(), again.lost()) == (found, None)
    assert again.records() == [], "it is no finalist"
