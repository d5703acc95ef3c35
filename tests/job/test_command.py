"""What the shell is told of a study's end."""

from __future__ import annotations

import pytest

from sentune.errors import Overtaken
from sentune.job.command import Ended, check_ending, exit_codes
from sentune.records import StudySummary


def summary(state: str, reason: str = "") -> StudySummary:
    return StudySummary(
        study="s", method="gumbel", state=state, objective="direction/accuracy", mode="max",
        corpora={}, space={}, reason=reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "code", "goes_on"),
    [("failed", 1, False), ("stopped", 3, True), ("interrupted", 130, True)],
)
def test_every_end_has_its_code_and_says_why(state: str, code: int, goes_on: bool) -> None:
    with pytest.raises(Ended) as caught:
        check_ending(summary(state, "--max-hours 2 is used up"))
    assert caught.value.code == code
    assert "--max-hours 2 is used up" in caught.value.line
    assert ("the same command" in caught.value.line) is goes_on


def test_a_complete_study_ends_well_whatever_ended_its_search() -> None:
    check_ending(summary("complete"))
    check_ending(summary("complete", "--max-trials 20 is used up"))


def test_an_overtaken_driver_ends_as_a_stopped_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, exit_codes("interrupted"):
        raise Overtaken("start 4 of this study drives it")
    assert end.value.code == 3
    assert capsys.readouterr().err == "stopped: start 4 of this study drives it\n"
