"""The study as a person watches it: a live table on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sentune.formatting import MARKS, clock, measured, short
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.study.store.study_view import StoredRun, StudySnapshot
from sentune.terminal import print_line

EARLIER = "an earlier start"


@dataclass
class RemainingTime:
    """Guesses the time left from examples seen and examples to come.

    Counted from the first milestone of this start, so that neither what an earlier start did nor
    the starting of processes goes into the speed.
    """

    first: tuple[float, int] | None = None
    seen: int = 0

    def add(self, examples: int) -> None:
        """Examples that were trained on since the last milestone."""
        self.seen += examples
        if self.first is None:
            self.first = (time.monotonic(), self.seen)

    def left(self, to_come: int) -> float | None:
        """Seconds, or None before the second milestone."""
        if self.first is None or self.seen <= self.first[1]:
            return None
        started, before = self.first
        return to_come * (time.monotonic() - started) / (self.seen - before)


class Display:
    """Shows trials, rungs, the best so far and the time left, from snapshots of the study.

    On a terminal one table is redrawn in place; elsewhere (a job's log) a line is written at
    each start, milestone and end.
    """

    def __init__(self, console: Console, *, varied: tuple[str, ...]) -> None:
        self.console, self.varied = console, varied
        self.remaining = RemainingTime()
        self.started = time.monotonic()
        self.summary: StudySummary | None = None
        self.plan: dict[str, Any] = {}
        self._take_snapshot: Callable[[], StudySnapshot] | None = None
        self._seen: StudySnapshot | None = None
        self._shown: dict[tuple[int, int | None], StoredRun] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While open, the live table stands at the end of the terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=2, get_renderable=self._screen):
            yield

    def begin(
        self,
        summary: StudySummary,
        plan: dict[str, Any],
        take_snapshot: Callable[[], StudySnapshot],
    ) -> None:
        """Shows what is planned, and what earlier starts of the study have finished.

        Args:
            summary: of the study.
            plan: what it will ask for.
            take_snapshot: of the study.
        """
        self.summary, self.plan, self._take_snapshot = summary, plan, take_snapshot
        trials = f"{plan['trials']} trial" + ("s" if plan["trials"] > 1 else "")
        rungs = ", ".join(f"{rung:,}" for rung in plan["rungs"])
        budget = f"up to {plan['max_examples']:,} examples, rungs at {rungs}"
        if not rungs:
            budget = f"{plan['max_examples']:,} examples each"
        self._line(f"Study {summary.study}: {trials} of {budget}")
        self._show(take_snapshot(), earlier=True)

    def refresh(self) -> None:
        """Shows what has changed since it was last called."""
        if self._take_snapshot is not None:
            self._show(self._take_snapshot())

    def _show(self, seen: StudySnapshot, *, earlier: bool = False) -> None:
        self._seen = seen
        for run in (*seen.runs, *seen.finals):
            key, known = (run.trial, run.seed), self._shown.get((run.trial, run.seed))
            if known is run:
                continue
            self._shown[key] = run
            if known is None and run.ended is not None and (earlier or run.record.source):
                self._ended(
                    run, f" in {run.record.source}" if run.record.source else f" at {EARLIER}"
                )
            else:
                self._progressed(run, known, earlier=earlier)

    def _progressed(self, run: StoredRun, known: StoredRun | None, *, earlier: bool) -> None:
        """Lines for what a run has done since it was last shown."""
        record = run.record
        before = record.examples if earlier else known.record.examples if known is not None else 0
        if known is None:
            again = f"finalist: trial {run.trial} again from seed {run.seed}"
            start = f"trial {run.trial} started: {short(self._varied(record))}"
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
            elapsed = clock(time.monotonic() - self.started)
            line = f"[{elapsed:>7}] {text}"
            print_line(self.console, line)

    def _objective(self, metrics: dict[str, float]) -> float | None:
        """None too where it is no number: nothing is best then."""
        found = metrics.get(self.summary.objective) if self.summary else None
        return found if found is not None and math.isfinite(found) else None

    def _value(self, metrics: dict[str, float]) -> str:
        name = self.summary.objective if self.summary else ""
        return measured(name, self._objective(metrics))

    def _score(self, metrics: dict[str, float]) -> str:
        name = self.summary.objective if self.summary else ""
        return f"{name} {self._value(metrics)}"

    def _varied(self, trial: TrialRecord) -> dict[str, Any]:
        return {name: trial.settings[name] for name in self.varied if name in trial.settings}

    @property
    def best(self) -> TrialRecord | None:
        """The trial with the best objective so far, the first of equals."""
        scores = {t.id: self._objective(t.metrics) for t in self._trials}
        known = {number: score for number, score in scores.items() if score is not None}
        if not known:
            return None
        pick = min if self.summary is not None and self.summary.mode == "min" else max
        number = pick(known, key=known.__getitem__)
        return next(trial for trial in self._trials if trial.id == number)

    @property
    def _trials(self) -> list[TrialRecord]:
        return self._seen.trials if self._seen is not None else []

    def to_come(self) -> int:
        """Examples that are still to be trained on; a coming trial costs what an ended one did."""
        plan, full = self.plan, self.plan["max_examples"]
        own = [trial for trial in self._trials if not trial.source]
        ended = [trial.examples for trial in own if trial.state is not TrialState.RUNNING]
        usual = sum(ended) / len(ended) if ended else full
        waiting = max(0, plan["trials"] - len(own))
        running = sum(max(0.0, usual - t.examples) for t in own if t.state is TrialState.RUNNING)
        finals = plan.get("finalists", 0) * full
        runs = self._seen.finals if self._seen is not None else ()
        done = sum(full if run.ended is not None else run.record.examples for run in runs)
        return round(waiting * usual + running + max(0, finals - done))

    def _outlook(self) -> str:
        best, left = self.best, self.remaining.left(self.to_come())
        ended = self._seen.ended if self._seen is not None else 0
        parts = [f"{ended} of {self.plan['trials']} trials done"]
        if best is not None:
            parts.insert(0, f"best {self._value(best.metrics)}, trial {best.id}")
        if left is not None:
            parts.append(f"about {clock(left)} left")
        return f" ({'; '.join(parts)})"

    def _screen(self) -> Group | Text:
        if self.summary is None:
            return Text("starting ...")
        return Group(self._table(), self._footer())

    def _table(self) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("trial", "state", "examples"):
            justify: Any = "right" if name == "examples" else "left"
            table.add_column(name, justify=justify, no_wrap=True)
        objective = self.summary.objective if self.summary else ""
        table.add_column(objective, justify="right", no_wrap=True)
        # cut here: a column that must not wrap would squeeze the others to nothing
        room = max(10, self.console.width - len(objective) - 38)
        table.add_column("settings")
        for trial in self._trials[-20:]:
            word, colour = MARKS[trial.state]
            shown = Text(short(self._varied(trial)))
            shown.truncate(room, overflow="ellipsis")
            score = self._value(trial.metrics)
            table.add_row(str(trial.id), Text(word, colour), f"{trial.examples:,}", score, shown)
        for run in self._seen.finals if self._seen is not None else ():
            table.add_row(
                f"{run.trial}",
                Text("finalist", "magenta"),
                f"{run.record.examples:,}",
                self._value(run.record.metrics),
                f"seed={run.seed}",
            )
        return table

    def _footer(self) -> Text:
        elapsed = clock(time.monotonic() - self.started)
        return Text(f"{elapsed} elapsed{self._outlook()}", style="dim")


def _called(run: StoredRun) -> str:
    return (
        f"trial {run.trial}"
        if run.seed is None
        else f"finalist: trial {run.trial}, seed {run.seed}"
    )
