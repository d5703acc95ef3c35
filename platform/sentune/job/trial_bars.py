"""The runs at work as bars on a terminal, and in words in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import Progress, ProgressColumn, Task, TextColumn
from rich.segment import Segment
from rich.style import Style
from rich.table import Column

from sentune.beats import Beat
from sentune.formatting import clock
from sentune.study.store.study_view import StoredRun

WIDE = 100
"""Columns of a terminal from which numbers of examples are written out, and losses shown."""

NAMED = 8
"""Runs that a line of a log names at most."""


def in_words(run: StoredRun, beat: Beat | None, budget: int) -> str:
    """Return what a run does: phase, examples of its budget, loss and speed."""
    name = called(run)
    if beat is None:
        return f"{name} starting"
    if beat.waits:
        return f"{name} waiting for {beat.waits}"
    seen = min(budget, max(beat.examples, run.record.examples))
    parts = [f"{name} {phase_of(beat)}", f"{seen:,} of {budget:,} examples"]
    if beat.loss is not None:
        parts.append(f"loss {beat.loss:.4g}")
    if beat.rate and beat.phase == "training":
        parts.append(f"{_rate(beat.rate)} examples/s")
    return ", ".join(parts)


def called(run: StoredRun) -> str:
    """Return the name of a run for people."""
    return f"trial {run.trial}" if run.seed is None else f"trial {run.trial}, seed {run.seed}"


def phase_of(beat: Beat | None) -> str:
    """Return what a run does, with its position where that is no training."""
    if beat is None:
        return "starting"
    if beat.waits:
        return "waiting"
    if beat.phase == "training" or not beat.total or not beat.done:
        return beat.phase
    return f"{beat.phase} {beat.done:,}/{beat.total:,}"


class RungBar:
    """A bar as wide as there is room, with a mark at each rung.

    Args:
        share: of the budget that is used up, 0 to 1.
        rungs: shares at which trials are compared.
        style: of what is done.
    """

    def __init__(self, share: float, rungs: Sequence[float], style: str) -> None:
        self.share, self.rungs, self.style = min(1.0, max(0.0, share)), rungs, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        full, mark, empty = "#|-" if options.ascii_only else "━┿─"
        done = int(self.share * width + 1e-9)
        marks = {int(rung * width) for rung in self.rungs} - {0}
        signs = [
            (mark if place in marks else full if place < done else empty, place < done)
            for place in range(width)
        ]
        for (sign, over), alike in groupby(signs):
            yield Segment(sign * len([*alike]), Style.parse(self.style if over else "dim"))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(4, options.max_width)


class _BarColumn(ProgressColumn):
    """The column of ``RungBar``; it takes the room that the others leave."""

    def __init__(self, rungs: Sequence[float]) -> None:
        super().__init__(table_column=Column(ratio=1, min_width=4))
        self._rungs = rungs

    def render(self, task: Task) -> RenderableType:
        done = task.completed / task.total if task.total else 0.0
        return RungBar(done, self._rungs, task.fields["style"])


class RunBars:
    """A bar for each run at work: phase, examples, loss, speed and time left.

    Args:
        budget: examples of a run.
        rungs: examples at which trials are compared.
    """

    def __init__(self, budget: int, rungs: Sequence[int]) -> None:
        self._budget, self._rungs = budget, [rung / budget for rung in rungs]

    def table(
        self,
        runs: Sequence[StoredRun],
        beats: Mapping[str, Beat],
        left: Mapping[str, float | None],
        *,
        best: int | None,
        width: int,
    ) -> RenderableType:
        """Return the bars.

        Args:
            runs: at work.
            beats: name of a run -> its newest.
            left: name of a run -> seconds that it still needs, None where they are not known.
            best: the trial that is highlighted.
            width: columns of the terminal.
        """
        wide = width >= WIDE
        bars = Progress(*self._columns(wide=wide), auto_refresh=False, expand=True)
        for run in runs:
            beat, seconds = beats.get(run.name), left.get(run.name)
            seen = min(self._budget, max(beat.examples if beat else 0, run.record.examples))
            training = beat is not None and beat.phase == "training"
            bars.add_task(
                called(run),
                total=self._budget,
                completed=seen,
                style="bold green" if best == run.trial and run.seed is None else "cyan",
                phase=phase_of(beat),
                seen=_number(seen, wide=wide),
                budget=_number(self._budget, wide=wide),
                loss=f"loss {beat.loss:.4g}" if beat and beat.loss is not None else "",
                rate=f"{_rate(beat.rate)}/s" if beat and training and beat.rate else "",
                left=clock(seconds) if seconds is not None else "",
            )
        return bars.make_tasks_table(bars.tasks)

    def _columns(self, *, wide: bool) -> Iterator[ProgressColumn]:
        styled = Column(no_wrap=True)
        right: dict[str, Any] = {"justify": "right", "table_column": Column(no_wrap=True)}
        yield TextColumn("[{task.fields[style]}]{task.description}", table_column=styled)
        yield TextColumn("{task.fields[phase]}", table_column=Column(no_wrap=True))
        yield _BarColumn(self._rungs)
        yield TextColumn("{task.fields[seen]}/{task.fields[budget]}", **right)
        if wide:
            yield TextColumn("{task.fields[loss]}", **right)
        yield TextColumn("{task.fields[rate]}", **right)
        yield TextColumn("{task.fields[left]}", **right)


def line_of(runs: Sequence[StoredRun], beats: Mapping[str, Beat], budget: int, outlook: str) -> str:
    """Return a line of a log on all runs at work."""
    words = [in_words(run, beats.get(run.name), budget) for run in runs[:NAMED]]
    if len(runs) > NAMED:
        words.append(f"{len(runs) - NAMED} more at work")
    return f"{'; '.join(words)}{outlook}"


def _number(value: int, *, wide: bool) -> str:
    """Return 1234567 as ``1,234,567``, and where there is little room as ``1.23M``."""
    if wide or value < 10_000:
        return f"{value:,}"
    scaled, unit = (value / 1e6, "M") if value >= 999_500 else (value / 1e3, "k")
    return f"{scaled:.3g}{unit}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
