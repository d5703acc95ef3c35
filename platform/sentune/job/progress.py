"""Live progress of a study: bars and a table on a terminal, lines in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sentune.beats import QUIET_SECONDS, Beat, repeated
from sentune.formatting import (
    MARKS,
    ON_PART,
    clock,
    counted,
    ended_of,
    measured,
    population,
    short,
    unused_gpus,
)
from sentune.job.notebook import NotebookCell
from sentune.job.time_left import TimeLeft
from sentune.job.trial_table import bars_table, called, line_of, trials_table
from sentune.records import PART, StudySummary, TrialRecord, TrialState
from sentune.study.store.study_view import StoredRun, StudySnapshot
from sentune.terminal import number_column, plain_table, print_line

LOOK_SECONDS = 1.0
"""Time between two looks at the beats."""


class Display:
    """Shows trials, rungs, the best score and the time left of a study.

    A terminal shows the table of ended runs, and below it a bar for each active run, redrawn in
    place. A log gets a line for each start, milestone and end, for each run that an earlier start
    has finished, and on all active runs if there was no line for ``QUIET_SECONDS``.

    Args:
        summary: of the study.
        plan: of the study, as ``Plan.to_dict`` returns it.
        take_snapshot: returns a snapshot of the study.
        varied: names of the settings that are shown.
        beats: returns run name -> newest beat of the active runs.
        time_left: estimates the time left; None: it is not shown.
        now: clock, in seconds.
    """

    def __init__(
        self,
        console: Console,
        summary: StudySummary,
        plan: Mapping[str, Any],
        take_snapshot: Callable[[], StudySnapshot],
        *,
        varied: tuple[str, ...],
        beats: Callable[[], Mapping[str, Beat]] = dict,
        time_left: TimeLeft | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.varied = console, varied
        self.objective = summary.objective
        self.plan, self._take_snapshot, self._beats = plan, take_snapshot, beats
        self.time_left, self._now = time_left, now
        self.started = self._written = now()
        self._shown: dict[tuple[int, int | None], StoredRun] = {}
        self._lock = threading.RLock()
        budget, rungs = f"{plan['max_examples']:,} examples", plan["rungs"]
        listed = ", ".join(f"{rung:,}" for rung in rungs)
        each = f"up to {budget}, rungs at {listed}" if rungs else f"{budget} each"
        if members := population(plan):
            each = f"a {members}, {budget} a member"
        self._line(f"Study {summary.study}: {counted(plan['trials'], 'trial')} of {each}")
        if plan.get("note"):
            self._line(f"first: {plan['note']}")
        if idle := unused_gpus(plan):
            self._line(f"GPUs: {idle}")
        self._seen = take_snapshot()
        self._show(earlier=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the display up to date while the context is open."""
        if isinstance(self.console, NotebookCell):
            with self.console.following(self.screen):
                yield
        elif self.console.is_terminal:
            with Live(console=self.console, refresh_per_second=2, get_renderable=self.screen):
                yield
        else:
            with repeated(self.look, LOOK_SECONDS, "sentune-display"):
                yield

    def look(self) -> None:
        """Update the estimate from the beats; write a log line after ``QUIET_SECONDS``."""
        with self._lock:
            self._estimate()
            running = self._running()
            if running and self._now() - self._written >= QUIET_SECONDS:
                words = line_of(running, self._beats(), self.plan["max_examples"])
                self._line(f"{words}{self._outlook()}")

    def refresh(self) -> None:
        """Show what has changed since the last call."""
        with self._lock:
            self._seen = self._take_snapshot()
            self._estimate()
            self._show()

    def _running(self) -> list[StoredRun]:
        return [run for run in (*self._seen.runs, *self._seen.finals) if run.ended is None]

    def _estimate(self) -> None:
        if self.time_left is not None:
            self.time_left.look(self._seen, self._beats())

    def _show(self, *, earlier: bool = False) -> None:
        """Write the lines of all runs that have changed, or that ended ``earlier``."""
        for run in (*self._seen.runs, *self._seen.finals):
            known, source = self._shown.get((run.trial, run.seed)), run.record.source
            if known is run:
                continue
            self._shown[run.trial, run.seed] = run
            if known is None and run.ended is not None and (earlier or source):
                self._ended(run, f" in {source}" if source else " at an earlier start")
                continue
            if known is None:
                own = run.record.settings
                settings = short({name: own[name] for name in self.varied if name in own})
                began = "started" if run.record.parent is None else run.record.notes[0]
                start = f"trial {run.trial} {began}{': ' if settings else ''}{settings}"
                again = f"finalist: trial {run.trial} again from seed {run.seed}"
                self._line(start if run.seed is None else again)
            before = run.record.examples if earlier else known.record.examples if known else 0
            for examples, metrics in sorted(run.record.curve.items()):
                if examples > before:
                    score = f"{self._score(metrics)}{self._outlook()}"
                    self._line(f"{_named(run)} at {examples:,} examples: {score}")
            if run.ended is not None:
                self._ended(run)

    def _ended(self, run: StoredRun, where: str = "") -> None:
        record, score = run.record, self._score(run.record.metrics)
        reason = f" ({record.reason})" if record.reason else ""
        end = f"{MARKS[record.state][0]}{reason}{where}: {score}"
        if run.seed is not None:
            complete = record.state is TrialState.COMPLETE
            end = f"done{where}: {score}" if complete else f"failed{where}{reason}"
        self._line(f"{_named(run)} {end}")

    def _line(self, text: str) -> None:
        if not (self.console.is_terminal or isinstance(self.console, NotebookCell)):
            self._written = self._now()
            print_line(self.console, f"[{self._elapsed():>7}] {text}")

    def _elapsed(self) -> str:
        return clock(self._now() - self.started)

    def _value(self, metrics: Mapping[str, float]) -> str:
        sign = ON_PART if PART in metrics else ""
        return sign + measured(self.objective, metrics.get(self.objective))

    def _score(self, metrics: Mapping[str, float]) -> str:
        return f"{self.objective} {self._value(metrics)}"

    @property
    def best(self) -> TrialRecord | None:
        """The trial with the best objective so far, complete or not."""
        return self._seen.leading

    def _outlook(self) -> str:
        seen = self._seen
        parts = [f"{ended_of(seen.ended, seen.started, self.plan['trials'])} trials done"]
        if (best := self.best) is not None:
            parts.insert(0, f"best {self._value(best.metrics)}, trial {best.id}")
        if self.time_left is not None and self.time_left.seconds is not None:
            parts.append(f"about {clock(self.time_left.seconds)} left")
        return f" ({'; '.join(parts)})"

    def screen(self) -> Group:
        """Return the tables of ended trials and finals, the bars, and the line on the study."""
        with self._lock:
            self._estimate()
            return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        seen, width = self._seen, self.console.width
        best = self.best.id if self.best is not None else None
        running, finals = self._running(), [run for run in seen.finals if run.ended is not None]
        room = max(4, self.console.height - 6)
        bars = running[: max(2, room // 2)]
        lines = max(3, min(20, room - len(bars) - (len(finals) + 1 if finals else 0)))
        if over := [trial for trial in seen.ends if trial.state is not TrialState.RUNNING]:
            older = [trial for trial in over[:-lines] if trial.id == best]  # it stays
            latest = [*older, *over[-lines:][len(older) :]]
            yield trials_table(latest, [self.objective], self.varied, width=width, best=best)
            yield Text()
        if finals:
            columns = map(number_column, ("examples", self.objective))
            table = plain_table("finalist", "seed", *columns)
            for run in finals:
                figures = f"{run.record.examples:,}", self._value(run.record.metrics)
                table.add_row(f"trial {run.trial}", f"{run.seed}", *figures)
            yield table
            yield Text()
        if bars:
            yield bars_table(
                bars,
                self._beats(),
                self.time_left.of_run if self.time_left is not None else {},
                budget=self.plan["max_examples"],
                rungs=self.plan["rungs"],
                best=best,
                width=width,
            )
        if len(running) > len(bars):
            yield Text(f"and {len(running) - len(bars)} more at work", style="dim")
        line = Text(f"{self._elapsed()} elapsed{self._outlook()}", style="dim", no_wrap=True)
        line.truncate(width, overflow="ellipsis")
        yield line


def _named(run: StoredRun) -> str:
    return called(run) if run.seed is None else f"finalist: {called(run)}"
