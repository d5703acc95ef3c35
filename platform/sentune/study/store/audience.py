"""Everybody who watches a study, told in order, none of whom can end it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sentune.records import StudyListener, StudySummary, TrialRecord

logger = logging.getLogger(__name__)


class Audience:
    """A listener that passes every call on to many.

    A listener that raises is a defect of that listener: it is logged with its traceback, and
    training goes on.
    """

    def __init__(self, listeners: Sequence[StudyListener]) -> None:
        self._listeners = tuple(listeners)

    def _tell(self, call: Callable[[StudyListener], None], what: str) -> None:
        for listener in self._listeners:
            try:
                call(listener)
            except Exception:
                logger.exception("%s could not take %s", type(listener).__name__, what)

    def study_started(self, summary: StudySummary, plan: dict[str, Any]) -> None:
        """The study is about to run its plan."""
        self._tell(lambda one: one.study_started(summary, plan), "study_started")

    def trial_started(self, trial: TrialRecord) -> None:
        """A trial starts, or goes on after a restart."""
        self._tell(lambda one: one.trial_started(trial), "trial_started")

    def trial_progressed(
        self, trial: TrialRecord, examples: int, metrics: dict[str, float]
    ) -> None:
        """A trial has reached a milestone."""
        self._tell(lambda one: one.trial_progressed(trial, examples, metrics), "trial_progressed")

    def trial_ended(self, trial: TrialRecord) -> None:
        """A trial is over; its state says how."""
        self._tell(lambda one: one.trial_ended(trial), "trial_ended")

    def finalist_started(self, trial: int, seed: int) -> None:
        """A finalist starts from a fresh seed."""
        self._tell(lambda one: one.finalist_started(trial, seed), "finalist_started")

    def finalist_progressed(
        self, trial: int, seed: int, examples: int, metrics: dict[str, float]
    ) -> None:
        """A finalist has reached a milestone."""
        self._tell(
            lambda one: one.finalist_progressed(trial, seed, examples, metrics),
            "finalist_progressed",
        )

    def finalist_ended(
        self,
        trial: int,
        seed: int,
        metrics: dict[str, float],
        readouts: dict[str, Any],
        reason: str = "",
    ) -> None:
        """A finalist is over; no metrics if it failed."""
        self._tell(
            lambda one: one.finalist_ended(trial, seed, metrics, readouts, reason), "finalist_ended"
        )

    def run_tables(self, trial: int, seed: int | None, tables: dict[str, Any]) -> None:
        """What the best milestone of a run swept."""
        self._tell(lambda one: one.run_tables(trial, seed, tables), "run_tables")

    def artifact(self, path: Path, folder: str) -> None:
        """A file that belongs to the study."""
        self._tell(lambda one: one.artifact(path, folder), "artifact")

    def study_ended(self, summary: StudySummary) -> None:
        """The study is over."""
        self._tell(lambda one: one.study_ended(summary), "study_ended")
