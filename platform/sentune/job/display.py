"""The study as a person watches it: a live table on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sentune.formatting import MARKS, clock, measured, short
from sentune.job.tally import Tally
from sentune.records import StudySummary, TrialRecord, TrialState


@dataclass
class Pace:
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
    """A ``StudyListener`` that shows trials, rungs, the best so far and the time left.

    On a terminal one table is redrawn in place; elsewhere (a job's log) a line is written at
    each start, milestone and end.
    """

    def __init__(self, console: Console, *, varied: tuple[str, ...]) -> None:
        self.console, self.varied = console, varied
        self.tally = Tally()
        self.finalists: dict[tuple[int, int], tuple[int, float | None]] = {}
        self.pace = Pace()
        self.started = time.monotonic()
        self.summary: StudySummary | None = None
        self.plan: dict[str, Any] = {}
        self._reached: dict[Any, int] = {}
        self._earlier: set[int] = set()
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While open, the live table stands at the end of the terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=2, get_renderable=self._screen) as live:
            self._live = live
            yield
        self._live = None

    def study_started(self, summary: StudySummary, plan: dict[str, Any]) -> None:
        self.summary, self.plan, self.tally = summary, plan, Tally()
        trials = f"{plan['trials']} trial" + ("s" if plan["trials"] > 1 else "")
        rungs = ", ".join(f"{rung:,}" for rung in plan["rungs"])
        budget = f"up to {plan['max_examples']:,} examples, rungs at {rungs}"
        if not rungs:
            budget = f"{plan['max_examples']:,} examples each"
        self._line(f"Study {summary.study}: {trials} of {budget}")

    def trial_started(self, trial: TrialRecord) -> None:
        self._told(trial)
        self._reached.setdefault(trial.id, trial.examples)
        if trial.state is not TrialState.RUNNING:  # an earlier start ran it; it is told again
            self._earlier.add(trial.id)
            return
        self._line(f"trial {trial.id} started: {short(self._varied(trial))}")

    def trial_progressed(
        self, trial: TrialRecord, examples: int, metrics: dict[str, float]
    ) -> None:
        self._told(trial)
        if trial.id in self._earlier:
            return
        self._advance(trial.id, examples)
        self._line(
            f"trial {trial.id} at {examples:,} examples: {self._score(metrics)}{self._outlook()}"
        )

    def trial_ended(self, trial: TrialRecord) -> None:
        self._told(trial)
        reason = f" ({trial.reason})" if trial.reason else ""
        if trial.id in self._earlier:
            reason += f" in {trial.source}" if trial.source else " at an earlier start"
        self._line(
            f"trial {trial.id} {MARKS[trial.state][0]}{reason}: {self._score(trial.metrics)}"
        )

    def finalist_started(self, trial: int, seed: int) -> None:
        self.finalists.setdefault((trial, seed), (0, None))
        self._reached.setdefault((trial, seed), 0)
        self._line(f"finalist: trial {trial} again from seed {seed}")

    def finalist_progressed(
        self, trial: int, seed: int, examples: int, metrics: dict[str, float]
    ) -> None:
        self.finalists[trial, seed] = (examples, self._objective(metrics))
        self._advance((trial, seed), examples)
        self._line(
            f"finalist: trial {trial}, seed {seed} at {examples:,} examples: "
            f"{self._score(metrics)}{self._outlook()}"
        )

    def finalist_ended(
        self,
        trial: int,
        seed: int,
        metrics: dict[str, float],
        readouts: dict[str, Any],
        reason: str = "",
    ) -> None:
        self.finalists[trial, seed] = (self.plan["max_examples"], self._objective(metrics))
        told = f"done: {self._score(metrics)}" if metrics else f"failed ({reason})"
        self._line(f"finalist: trial {trial}, seed {seed} {told}")

    def run_tables(self, trial: int, seed: int | None, tables: dict[str, Any]) -> None:
        """Tables are for the tracking server; nothing to show."""

    def artifact(self, path: Path, folder: str) -> None:
        """Artifacts are for the tracking server; nothing to show."""

    def study_ended(self, summary: StudySummary) -> None:
        self.summary = summary

    def _line(self, text: str) -> None:
        if not self.console.is_terminal:
            elapsed = clock(time.monotonic() - self.started)
            line = f"[{elapsed:>7}] {text}"
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

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

    def _advance(self, key: Any, examples: int) -> None:
        self.pace.add(max(0, examples - self._reached.get(key, 0)))
        self._reached[key] = examples

    def _told(self, trial: TrialRecord) -> None:
        score = self._objective(trial.metrics)
        lower = self.summary is not None and self.summary.mode == "min"
        self.tally.take(trial, -score if lower and score is not None else score)

    def to_come(self) -> int:
        """Examples that are still to be trained on; a coming trial costs what an ended one did."""
        plan, full = self.plan, self.plan["max_examples"]
        usual = self.tally.usual(full)
        waiting = max(0, plan["trials"] - self.tally.own)
        running = sum(max(0.0, usual - self._reached.get(n, 0)) for n in self.tally.running)
        finals = plan.get("finalists", 0) * full
        done = sum(examples for examples, _ in self.finalists.values())
        return round(waiting * usual + running + max(0, finals - done))

    def _outlook(self) -> str:
        best, left = self.tally.best, self.pace.left(self.to_come())
        parts = [f"{self.tally.ended} of {self.plan['trials']} trials done"]
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
        for trial in list(self.tally.trials.values())[-20:]:
            word, colour = MARKS[trial.state]
            seen = self._reached.get(trial.id, trial.examples)
            score = self._value(trial.metrics)
            shown = Text(short(self._varied(trial)))
            shown.truncate(room, overflow="ellipsis")
            table.add_row(str(trial.id), Text(word, colour), f"{seen:,}", score, shown)
        for (number, seed), (seen, value) in self.finalists.items():
            table.add_row(
                f"{number}",
                Text("finalist", "magenta"),
                f"{seen:,}",
                measured(objective, value),
                f"seed={seed}",
            )
        return table

    def _footer(self) -> Text:
        elapsed = clock(time.monotonic() - self.started)
        return Text(f"{elapsed} elapsed{self._outlook()}", style="dim")
