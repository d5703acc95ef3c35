"""A trial that was killed goes on bit for bit: weights, optimiser, metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
import torch
from safetensors.torch import load_file

from sentune.code import loaded_code
from sentune.errors import CheckpointGone, InvalidValue
from sentune.launchers.control_actor import ControlSignal, no_signal
from sentune.launchers.run_trial import guarded, run_trial
from sentune.launchers.trial_report import Report
from sentune.training import loop
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import TrialSpec, identity_of
from tests.training.runs import TIMES, run, untimed


def last_state(spec: TrialSpec) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    folder = CheckpointStore(spec.directory).last()
    assert folder is not None
    return (
        load_file(folder / "weights.safetensors"),
        torch.load(folder / "optimizer.pt", weights_only=True),
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"micro_batch": 5}, {"precision": "bfloat16"}, {"precision": "float64"}],
    ids=["plain", "gradcache", "bfloat16", "float64"],
)
def test_killed_and_started_again_equals_uninterrupted(
    make_trial: Callable[..., TrialSpec], settings: dict[str, object], tmp_path: Path
) -> None:
    whole = make_trial(settings={**settings, "warmup": 0.2}, directory=str(tmp_path / "whole"))
    killed = replace(whole, directory=str(tmp_path / "killed"))
    expected = run(whole)
    run(killed, stop_after=2)
    torch.manual_seed(999)  # the second process starts from another global state
    found = run(killed)

    assert [p.examples for p in found] == [128, 192], "the last progress is said again"
    assert [untimed(p) for p in found] == [untimed(p) for p in expected[1:]]
    assert found[-1].readouts == expected[-1].readouts
    assert [p.final for p in found] == [False, True]
    (weights, state), (other_weights, other_state) = last_state(whole), last_state(killed)
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)
    pairs = zip(_tensors(state), _tensors(other_state), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def _tensors(state: dict[str, object]) -> list[torch.Tensor]:
    moments = state["optimizer"]["state"]  # type: ignore[index]
    return [value for entry in moments.values() for value in entry.values()]


def test_finished_trial_says_its_last_progress_and_ends(
    make_trial: Callable[..., TrialSpec],
) -> None:
    spec = make_trial()
    last = run(spec)[-1]
    again = run(spec)
    assert len(again) == 1
    assert again[0].final
    assert again[0].metrics == last.metrics


def test_resume_within_an_epoch_that_ends_with_dropped_rows(
    make_trial: Callable[..., TrialSpec], tmp_path: Path
) -> None:
    """Batches of 40 leave 32 of 192 rows out of an epoch; milestones fall inside the second."""
    spec = make_trial(
        settings={"batch_size": 40},
        max_examples=360,
        milestones=(200, 360),
        directory=str(tmp_path / "whole"),
    )
    killed = replace(spec, directory=str(tmp_path / "killed"))
    expected = run(spec)
    run(killed, stop_after=1)
    assert untimed(run(killed)[-1]) == untimed(expected[-1])


def test_seconds_add_up_over_starts(make_trial: Callable[..., TrialSpec]) -> None:
    spec = make_trial()
    first = run(spec, stop_after=1)[-1].metrics["train/seconds"]
    assert run(spec)[-1].metrics["train/seconds"] > first


def leaves_at(*examples: int) -> Callable[[], ControlSignal]:
    """Asks to leave at the steps with these numbers of examples, counted from the first step."""
    steps = iter(range(16, 10_000, 16))
    return lambda: ControlSignal.LEAVE if next(steps) in examples else ControlSignal.NONE


def followed(spec: TrialSpec, ask: Callable[[], ControlSignal] = no_signal) -> list[Report]:
    return list(run_trial(train, spec, Group.single("cpu"), ask))


def exact(reports: list[Report]) -> list[dict[str, float]]:
    return [
        {name: value for name, value in report.metrics.items() if name not in TIMES}
        for report in reports
    ]


@pytest.mark.parametrize("milestones", [(64, 128, 192), (50, 60, 192)])
def test_asked_to_leave_and_started_again_equals_uninterrupted(
    make_trial: Callable[..., TrialSpec], tmp_path: Path, milestones: tuple[int, ...]
) -> None:
    """It leaves in its third step, before any milestone, and then between two of them."""
    whole = make_trial(
        settings={"precision": "float64"}, milestones=milestones, directory=str(tmp_path / "whole")
    )
    left = replace(whole, directory=str(tmp_path / "left"))
    expected = followed(whole)
    first = followed(left, leaves_at(48))
    second = followed(left, leaves_at(64))
    last = followed(left)

    assert [(r.examples, r.left) for r in first if r.left] == [(48, True)]
    assert (second[-1].left, second[-1].preempted) == (True, False)
    told = {r.examples: r for r in [*first, *second, *last] if not r.left}
    assert exact([told[r.examples] for r in expected]) == exact(expected)
    assert last[-1].final
    (weights, state), (other_weights, other_state) = last_state(whole), last_state(left)
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)
    pairs = zip(_tensors(state), _tensors(other_state), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_checkpoint_between_milestones_keeps_what_was_said_at_the_last_one(
    make_trial: Callable[..., TrialSpec],
) -> None:
    """Killed at 112 examples with a checkpoint every 32: it goes on at 96 and says 64 again."""
    spec = make_trial(checkpoint_every=32)
    reports, steps = run_trial(train, spec, Group.single("cpu"), leaves_at()), 0
    first = next(reports)

    class Killed(Exception):
        pass

    def kill() -> ControlSignal:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise Killed
        return ControlSignal.NONE

    with pytest.raises(Killed):
        followed(spec, kill)  # says 64 again, and dies at its third word, the step to 96
    reports.close()
    store = CheckpointStore(spec.directory)
    before = store.last_progress()
    assert before is not None
    assert (before.examples, before.milestone) == (64, True)

    steps = -2
    with pytest.raises(Killed):
        followed(spec, kill)  # 64, 80, 96, 112: the checkpoint at 96 has been written
    newest = CheckpointStore(spec.directory).last_progress()
    assert newest is not None
    assert (newest.examples, newest.milestone) == (96, False)
    again = followed(spec)
    assert [r.examples for r in again] == [64, 128, 192]
    assert exact(again[:1]) == exact([first])


def test_a_milestone_reached_when_asked_to_leave_is_said_at_the_next_start(
    make_trial: Callable[..., TrialSpec],
) -> None:
    spec = make_trial()
    (left,) = followed(spec, leaves_at(64))
    assert (left.examples, left.left, left.final) == (64, True, False)
    again = followed(spec)
    assert [r.examples for r in again] == [64, 128, 192]
    assert exact(again)[0] == {k: v for k, v in left.metrics.items() if k not in TIMES}


def test_the_last_milestone_is_said_though_the_trial_was_to_leave(
    make_trial: Callable[..., TrialSpec],
) -> None:
    assert followed(make_trial(), leaves_at(192))[-1].final


def of_a_job(spec: TrialSpec, **parts: str) -> TrialSpec:
    """The spec with the identity that a study gives it."""
    given = {"corpora": {"corpus": "1"}, "encoder": "2", "code": {"boxes.py": "3"}, **parts}
    return replace(spec, identity=identity_of(spec, spec.settings, given, {"learning_rate"}))


def test_a_checkpoint_of_other_settings_is_not_taken_for_its_own(
    make_trial: Callable[..., TrialSpec], tmp_path: Path
) -> None:
    """The model of a learning rate of 1e-3 was shipped as one of 1e-5, and nothing was said."""
    short = {"max_examples": 64, "milestones": (32, 64)}
    followed(of_a_job(make_trial(**short)))
    spec = of_a_job(make_trial(**short, settings={"learning_rate": 1e-5}))
    reports = followed(spec)
    assert [r.examples for r in reports] == [32, 64], "it was trained from the start"
    for note in reports[-1].notes:
        assert "of another run (settings.learning_rate: was 0.001, is now 1e-05)" in note
        assert note.endswith("; started anew")
    assert reports[-1].notes
    undisturbed = replace(spec, directory=str(tmp_path / "undisturbed"))
    assert exact(followed(undisturbed)) == exact(reports)
    (weights, _), (expected, _) = last_state(spec), last_state(undisturbed)
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    (again,) = followed(spec)
    assert (again.final, again.notes) == (True, []), "its own is taken up"


def test_a_later_start_of_the_study_ends_a_trial(make_trial: Callable[..., TrialSpec]) -> None:
    spec = of_a_job(make_trial())
    reports = guarded(
        train, replace(spec, generation=4), Group.single("cpu"), loaded_code().fingerprint
    )
    assert next(reports).examples == 64
    followed(replace(spec, generation=5))
    *_, last = reports
    assert last.overtaken
    assert "start 5 of the study has written" in last.failure


class TestStartingFromAnotherRun:
    def other(self, make_trial: Callable[..., TrialSpec], tmp_path: Path) -> TrialSpec:
        spec = make_trial(
            settings={"schedule": "constant", "precision": "float64"},
            directory=str(tmp_path / "other"),
        )
        followed(spec)
        return spec

    def test_the_same_settings_go_on_as_the_other_run_did(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        """The newest there is at 128 examples; with the same seed it is the same run."""
        other = self.other(make_trial, tmp_path)
        half = replace(other, directory=str(tmp_path / "half"))
        run(half, stop_after=2)
        taken = replace(other, directory=str(tmp_path / "mine"), start_from=half.directory)
        (report,) = followed(taken)
        (expected,) = [r for r in followed(other) if r.final]
        assert report.examples == 192
        assert exact([report]) == exact([expected])
        again = followed(taken)
        assert exact(again) == exact([report]), "its own checkpoint comes first"

    def test_rates_and_decay_are_those_of_its_own_settings(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        other = self.other(make_trial, tmp_path)
        at = CheckpointStore(other.directory).best_progress()
        assert at is not None
        settings = {**other.settings, "learning_rate": 7e-4, "weight_decay": 0.25}
        spec = replace(
            other, settings=settings, start_from=other.directory, start_at=at.examples,
            directory="", max_examples=256, milestones=(256,),
        )  # fmt: skip
        trial = loop._Trial(spec, Group.single("cpu"))
        reached, said = trial.resume()
        assert (reached, said) == (at.examples, None)
        options = trial.steps.optimizer.param_groups
        assert {group["highest_lr"] for group in options} == {7e-4}
        assert {group["weight_decay"] for group in options} == {0.25, 0.0}
        moments = trial.steps.optimizer.state.values()
        assert {int(state["step"]) for state in moments} == {at.examples // 16}

    @pytest.mark.parametrize("at", [0, 100])
    def test_a_checkpoint_that_is_not_there_is_named(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path, at: int
    ) -> None:
        spec = make_trial(start_from=str(tmp_path / "no_signal"), start_at=at)
        with pytest.raises(InvalidValue, match=r"start_from.*no checkpoint"):
            followed(spec)

    def test_a_run_of_another_kind_is_refused_and_live_settings_may_differ(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        short = {"max_examples": 64, "milestones": (32, 64)}
        settings = {"temperature": 0.05, "learning_rate": 1e-3}
        plain = make_trial(**short, directory=str(tmp_path / "donor"), settings=settings)
        run(of_a_job(plain), stop_after=1)
        for place, (why, changes, parts) in enumerate((
            ("corpora: was", {}, {"corpora": {"corpus": "9"}}),
            ("encoder: was", {}, {"encoder": "9"}),
            ("code: was", {}, {"code": {"boxes.py": "9"}}),
            ("seed: was 0, is now 5", {"seed": 5}, {}),
            ("settings.temperature: was 0.05, is now 0.1", {"temperature": 0.1}, {}),
            ("", {"learning_rate": 1e-5}, {}),
        )):  # fmt: skip
            others = {name: value for name, value in changes.items() if name in settings}
            spec = replace(
                plain,
                seed=changes.get("seed", 0),
                settings={**plain.settings, **others},
                directory=str(tmp_path / str(place)),
                start_from=plain.directory,
                start_at=32 * (place % 2),
            )
            spec = of_a_job(spec, **parts)
            if why:
                with pytest.raises(InvalidValue, match=f"start_from.*{re.escape(why)}"):
                    followed(spec)
            else:
                assert [r.examples for r in followed(spec)] == [64], "it goes on from 32"
        unnamed = replace(plain, directory=str(tmp_path / "unnamed"))
        run(unnamed, stop_after=1)
        spec = of_a_job(replace(plain, directory="", start_from=unnamed.directory))
        with pytest.raises(InvalidValue, match="the checkpoint does not name its run"):
            followed(spec)

    def test_a_checkpoint_in_an_object_store_is_taken(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        """Its download has to be there until it is loaded."""
        short = {"max_examples": 64, "milestones": (32, 64)}
        donor = make_trial(**short, directory="memory://donors/0000")
        run(donor, stop_after=1)
        taken = replace(donor, directory="", start_from=donor.directory, start_at=32)
        assert [r.examples for r in followed(taken)] == [64]
        fsspec.filesystem("memory").store.clear()

    def test_a_damaged_checkpoint_of_another_run_is_not_taken(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        donor = self.other(make_trial, tmp_path)
        (tmp_path / "other/examples_000000192/weights.safetensors").write_bytes(b"half")
        spec = make_trial(start_from=donor.directory, start_at=192)
        with pytest.raises(
            CheckpointGone, match=r"start_from.*at 192.*was damaged \(weights.*none is left"
        ):
            followed(spec)

    def test_another_architecture_is_refused(
        self, make_trial: Callable[..., TrialSpec], tmp_path: Path
    ) -> None:
        other = self.other(make_trial, tmp_path)
        spec = replace(
            other, settings={**other.settings, "dimension": 8}, start_from=other.directory,
            directory="",
        )  # fmt: skip
        with pytest.raises(InvalidValue, match=r"start_from.*another architecture"):
            followed(spec)
