"""Tells the audience of a search's trials, those of earlier starts included."""

from __future__ import annotations

from collections.abc import Callable

from sentune.launchers.trial_report import Report
from sentune.records import TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.store.audience import Audience
from sentune.study.store.trial_store import TrialStore
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import sweeps_in


class TrialEvents:
    """The conductor's events of a search.

    Args:
        ledger: of the search.
        audience: told of every trial.
        config: where the trials' folders are.
        tidy: called after each end: drops checkpoints that nobody needs any more.
    """

    def __init__(
        self,
        ledger: TrialStore,
        audience: Audience,
        config: StudyConfig,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        self.ledger, self.audience, self.config, self._tidy = ledger, audience, config, tidy
        self._with_sweeps: set[int] = set()

    def replay(self) -> None:
        """Tells what earlier starts have finished; whoever missed it has it now."""
        there = set(storage_of(self.config.runs_folder).entries())  # most runs have left nothing
        for record in self.ledger.records():
            if record.state == "running":
                continue
            self.audience.trial_started(record)
            for examples, metrics in record.curve.items():
                self.audience.trial_progressed(record, examples, metrics)
            self.audience.trial_ended(record)
            if f"{record.id:04d}" in there:
                self._swept(record)
        self._tidy()

    def started(self, number: int) -> None:
        """A trial starts or goes on."""
        self.audience.trial_started(self.ledger.record(number))

    def progressed(self, number: int, report: Report) -> None:
        """A trial has reached a milestone."""
        record = self.ledger.record(number)
        self.audience.trial_progressed(record, report.examples, report.metrics)
        if report.swept:
            self._with_sweeps.add(number)

    def ended(self, number: int) -> None:
        """A trial is over."""
        record = self.ledger.record(number)
        self.audience.trial_ended(record)
        if number in self._with_sweeps:
            self._swept(record)
        self._tidy()

    def _swept(self, record: TrialRecord) -> None:
        tables = sweeps_in(self.config.directory(f"{record.id:04d}"))
        if tables:
            self.audience.run_tables(record.id, None, tables)
