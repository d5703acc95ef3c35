"""What a job prints at its end."""

import io

from rich.console import Console

from sentune.job.report import report
from sentune.records import FinalistRecord, Spread, StudySummary, TrialRecord, TrialState

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
