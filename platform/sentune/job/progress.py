"""The study as a person watches it: a live table on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sentune.formatting import MARKS, clock, measured, short
from sentune.job.trial_table import trials_table
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.study.store.study_view import StoredRun, StudySnapshot
from sentune.terminal import number_column, plain_table, print_line


@dataclass
class RemainingTime:
    """Estimates the time left from examples seen and examples to come.

    Counted from the first milestone of this start, so that neither what an earlier start did nor
    the starting of processes goes into the speed.
    """

    first: tuple[float, int] | None = None
    seen: int = 0

    def add(self, examples: int) -> None:
        """Add the examples that were trained on since the last milestone."""
        self.seen += examples
        if self.first is None:
            self.first = (time.monotonic(), self.seen)

    def left(self, to_come: int) -> float | None:
        """Return seconds, or None before the second milestone."""
        if self.first is None or self.seen <= self.first[1]:
            return None
        started, before = self.first
        return to_come * (time.monotonic() - started) / (self.seen - before)


class Display:
    """Shows trials, rungs, the best so far and the time left, from snapshots of the study.

    On a terminal one table is redrawn in place; elsewhere (a job's log) a line is written at
    each start, milestone and end, and one for each run that an earlier start has finished.

    Args:
        console: to print on.
        summary: of the study.
        plan: what it will ask for.
        take_snapshot: of the study.
        varied: names of the settings that are shown.
    """

    def __init__(
        self,
        console: Console,
        summary: StudySummary,
        plan: Mapping[str, Any],
        take_snapshot: Callable[[], StudySnapshot],
        *,
        varied: tuple[str, ...],
    ) -> None:
        self.console, self.varied = console, varied
        self.objective, self.mode = summary.objective, summary.mode
        self.plan, self._take_snapshot = plan, take_snapshot
        self.remaining = RemainingTime()
        self.started = time.monotonic()
        self._shown: dict[tuple[int, int | None], StoredRun] = {}
        trials = f"{plan['trials']} trial" + ("s" if plan["trials"] > 1 else "")
        rungs = ", ".join(f"{rung:,}" for rung in plan["rungs"])
        budget = f"up to {plan['max_examples']:,} examples, rungs at {rungs}"
        if not rungs:
            budget = f"{plan['max_examples']:,} examples each"
        self._line(f"Study {summary.study}: {trials} of {budget}")
        self._seen = take_snapshot()
        self._show(earlier=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While open, the live table stands at the end of the terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=2, get_renderable=self.screen):
            yield

    def refresh(self) -> None:
        """Show what has changed since the last call."""
        self._seen = self._take_snapshot()
        self._show()

    def _show(self, *, earlier: bool = False) -> None:
        for run in (*self._seen.runs, *self._seen.finals):
            key, source = (run.trial, run.seed), run.record.source
            known = self._shown.get(key)
            if known is run:
                continue
            self._shown[key] = run
            if known is None and run.ended is not None and (earlier or source):
                self._ended(run, f" in {source}" if source else " at an earlier start")
            else:
                self._progressed(run, known, earlier=earlier)

    def _progressed(self, run: StoredRun, known: StoredRun | None, *, earlier: bool) -> None:
        """Write lines for what a run has done since it was last shown."""
        record = run.record
        before = record.examples if earlier else known.record.examples if known is not None else 0
        if known is None:
            again = f"finalist: trial {run.trial} again from seed {run.seed}"
            start = f"trial {run.trial} started: {self._settings(record)}"
            self._line(start if run.seed is None else again)
        for examples, metrics in sorted(record.curve.items()):
            if examples > before:
                self.remaining.add(examples - max(before, record.begun_at))
                before = examples
                score = f"{self._score(metrics)}{self._outlook()}"
                self._line(f"{_called(run)} at {examples:,} examples: {score}")
        if run.ended is not None:
            self._ended(run)

    def _ended(self, run: StoredRun, where: str = "") -> None:
        record = run.record
        if run.seed is None:
            reason = f" ({record.reason})" if record.reason else ""
            word = f"{MARKS[record.state][0]}{reason}{where}"
            self._line(f"trial {run.trial} {word}: {self._score(record.metrics)}")
        elif record.state is TrialState.COMPLETE:
            self._line(f"{_called(run)} done: {self._score(record.metrics)}")
        else:
            self._line(f"{_called(run)} failed ({record.reason})")

    def _line(self, text: str) -> None:
        if not self.console.is_terminal:
            print_line(self.console, f"[{self._elapsed():>7}] {text}")

    def _elapsed(self) -> str:
        return clock(time.monotonic() - self.started)

    def _value(self, metrics: Mapping[str, float]) -> str:
        return measured(self.objective, metrics.get(self.objective))

    def _score(self, metrics: Mapping[str, float]) -> str:
        return f"{self.objective} {self._value(metrics)}"

    def _settings(self, trial: TrialRecord) -> str:
        return short({name: trial.settings[name] for name in self.varied if name in trial.settings})

    @property
    def best(self) -> TrialRecord | None:
        """The trial with the best objective so far, the first of equals; NaN is never best."""
        scored = [
            trial
            for trial in self._seen.trials
            if math.isfinite(trial.metrics.get(self.objective, math.nan))
        ]
        pick = min if self.mode == "min" else max
        return pick(scored, key=lambda trial: trial.metrics[self.objective], default=None)

    def to_come(self) -> int:
        """Return the examples still to train on; a coming trial costs what an ended one did."""
        full: int = self.plan["max_examples"]
        own = [trial for trial in self._seen.trials if not trial.source]
        ended = [trial.examples for trial in own if trial.state is not TrialState.RUNNING]
        usual = sum(ended) / len(ended) if ended else full
        waiting = max(0, self.plan["trials"] - len(own))
        running = sum(max(0.0, usual - t.examples) for t in own if t.state is TrialState.RUNNING)
        finals = self.plan.get("finalists", 0) * full
        done = sum(
            full if run.ended is not None else run.record.examples for run in self._seen.finals
        )
        left: int = round(waiting * usual + running + max(0, finals - done))
        return left

    def _outlook(self) -> str:
        best, left = self.best, self.remaining.left(self.to_come())
        parts = [f"{self._seen.ended} of {self.plan['trials']} trials done"]
        if best is not None:
            parts.insert(0, f"best {self._value(best.metrics)}, trial {best.id}")
        if left is not None:
            parts.append(f"about {clock(left)} left")
        return f" ({'; '.join(parts)})"

    def screen(self) -> Group:
        """Return the tables of trials and finals, with the time below them."""
        seen, width = self._seen, self.console.width
        trials = trials_table(seen.shown(20), [self.objective], self.varied, width=width)
        finals = plain_table("finalist", "seed", *map(number_column, ("examples", self.objective)))
        for run in seen.finals:
            score = self._value(run.record.metrics)
            finals.add_row(f"trial {run.trial}", f"{run.seed}", f"{run.record.examples:,}", score)
        footer = Text(f"{self._elapsed()} elapsed{self._outlook()}", style="dim")
        return Group(trials, *([finals] if seen.finals else []), footer)


def _called(run: StoredRun) -> str:
    if run.seed is None:
        return f"trial {run.trial}"
    return f"finalist: trial {run.trial}, seed {run.seed}"
