"""Exit codes and last lines of a job."""

from __future__ import annotations

from dataclasses import dataclass

from sentune.records import StudySummary

FAILED, WRONG, STOPPED, INTERRUPTED = 1, 2, 3, 130


@dataclass
class Ended(Exception):
    """A study that did not come to its end; ``code`` is the job's exit code."""

    code: int
    line: str
    style: str = ""


def check_ending(summary: StudySummary) -> None:
    """Returns for a complete study.

    Raises:
        Ended: for any other one, with what to do about it.
    """
    why = summary.reason
    if summary.state == "failed":
        raise Ended(FAILED, f"failed: {why}", "red")
    if summary.state == "stopped":
        raise Ended(STOPPED, f"stopped: {why}; the same command goes on where it may")
    if summary.state == "interrupted":
        raise Ended(INTERRUPTED, f"{why or 'interrupted'}; the same command resumes the study")
