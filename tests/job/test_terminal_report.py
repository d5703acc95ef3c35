"""What a job prints at its end."""

import io
import math

from rich.console import Console

from sentune.job.options import StudyOptions
from sentune.job.terminal_report import next_commands, report
from sentune.records import FinalistRecord, Spent, Spread, StudySummary, TrialRecord, TrialState
from sentune.study.config import StudyConfig

METRIC = "direction/accuracy"


def summary(state: str, *trials: TrialRecord) -> StudySummary:
    return StudySummary(
        study="s", method="gumbel", state=state, objective=METRIC, mode="max", corpora={},
        space={"fixed": {"max_length": 64}}, trials=list(trials),
    )  # fmt: skip


def trial(number: int, state: TrialState, value: float | None, reason: str = "") -> TrialRecord:
    metrics = {} if value is None else {METRIC: value}
    return TrialRecord(
        id=number, state=state, settings={"batch_size": 32}, metrics=metrics, reason=reason
    )


def printed(found: StudySummary) -> str:
    text = io.StringIO()
    report(found, Console(file=text, width=120), varied=("batch_size",))
    return text.getvalue()


def test_trials_come_best_first_and_a_failed_one_says_why() -> None:
    found = summary(
        "interrupted",
        trial(0, TrialState.FAILED, None, "loss nan at 64"),
        trial(1, TrialState.PRUNED, 0.5),
        trial(2, TrialState.COMPLETE, 0.9),
    )
    lines = [line for line in printed(found).splitlines() if line[:1].isdigit()]
    assert [line[0] for line in lines] == ["2", "1", "0"]
    assert "loss nan at 64" in printed(found)
    assert "Best configuration" not in printed(found)


def test_the_winner_its_spread_and_the_baselines_stand_side_by_side() -> None:
    found = summary("complete", trial(0, TrialState.COMPLETE, 0.9))
    spread = Spread(mean=0.91, sd=0.01, values=[0.9, 0.92])
    found.finalists = [
        FinalistRecord(trial=0, settings={"batch_size": 32}, seeds=[1, 2], metrics={METRIC: spread})
    ]
    found.winner, found.model = 0, "model"
    found.test, found.baselines = {METRIC: 0.88}, {"direction/length": 0.513}
    text = printed(found)
    for shown in ("91.0 ± 1.0 %", "90.0 %, 92.0 %", "88.0 %", "51.3 %", "max_length"):
        assert shown in text


def test_what_happened_to_trials_and_what_was_spent() -> None:
    found = summary(
        "stopped",
        trial(0, TrialState.INFEASIBLE, None, "out of memory at micro-batch 1 [of 512]"),
        trial(1, TrialState.COMPLETE, 0.9),
        trial(2, TrialState.RUNNING, None),
    )
    found.trials[1].notes = ["micro-batch 64 -> 32 after out of memory on the device"]
    found.trials[1].restarts = 2
    found.trials[1].violations = {"train/seconds<=600": 30.0, "train/loss<=2": -0.5}
    found.spent = Spent(trials=3, examples=12_345, hours=1.5, gpu_hours=4.25)
    found.reason = "--max-hours: 1.5 of 1.5 hours are used up"
    text = printed(found)
    for shown in (
        "no memory",
        "unfinished",
        "out of memory at micro-batch 1 [of 512]",
        "trial 1: its processes died twice",
        "trial 1: micro-batch 64 -> 32",
        "trial 1: violates train/seconds<=600 by 30",
        "3 trials, 12,345 examples, 1:30:00 of wall time, 4.25 GPU hours",
    ):
        assert shown in text
    assert found.reason not in text  # it is in the job's last line
    found.state = "complete"
    assert f"the study is complete: {found.reason}" in printed(found)
    assert "train/loss<=2" not in text


def test_the_verdict_stands_below_the_finalists() -> None:
    found = summary("complete", trial(0, TrialState.COMPLETE, 0.9))
    spread = Spread(mean=0.91, sd=0.01, values=[0.9, 0.92])
    found.finalists = [FinalistRecord(trial=0, settings={}, seeds=[1], metrics={METRIC: spread})]
    found.winner, found.model = 0, "model"
    found.verdict = "trial 0 is ahead of trial 3; the difference is within noise"
    text = printed(found)
    assert "gumbel reaches direction/accuracy 91.0 ± 1.0 % on dev" in text  # without a rule, too
    assert text.index("Finalists") < text.index(found.verdict) < text.index("max_length")


def test_without_finals_the_configuration_is_that_of_the_model() -> None:
    """A trial that was stopped, or breaks a constraint, may have a better value; it cannot win."""
    trials = [
        trial(0, TrialState.PRUNED, 0.95),
        trial(1, TrialState.COMPLETE, 0.93),
        trial(2, TrialState.COMPLETE, 0.9),
        trial(3, TrialState.COMPLETE, math.nan),
    ]
    for one, size in zip(trials, (111, 222, 333, 444), strict=True):
        one.settings = {"batch_size": size}
    trials[1].violations = {"train/seconds<=600": 30.0}
    found = summary("complete", *trials)
    found.model = "model"
    _, _, configuration = printed(found).partition("configuration")  # its title may be broken
    assert "333" in configuration
    assert "90.0 %" in configuration
    lines = [line for line in printed(found).splitlines() if line[:1].isdigit()]
    assert [line[0] for line in lines] == ["0", "1", "2", "3"]


def test_the_command_of_the_dashboard_holds_for_a_folder_with_a_blank() -> None:
    config = StudyConfig(name="s", storage="/all studies", max_examples=1)
    commands = next_commands(summary("complete"), config, StudyOptions(storage="/all studies"))
    assert commands["dashboard"].endswith("dashboard --storage '/all studies'")
