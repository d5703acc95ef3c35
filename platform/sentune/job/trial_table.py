"""Tables of trials and finalists, and progress bars and log lines of active runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from sentune.beats import Beat
from sentune.credentials import without_credentials
from sentune.formatting import MARKS, ON_PART, clock, measured, short, spread
from sentune.records import FinalistRecord, TrialRecord, TrialState
from sentune.study.store.study_view import StoredRun
from sentune.terminal import number_column, plain_table

WIDE = 110
"""Terminal width from which the reason of a trial's end is shown beside its settings."""

WIDE_BARS = 100
"""Terminal width from which bars show full numbers of examples, and losses."""

NAMED = 8
"""Largest number of runs named in a log line."""


def trials_table(
    trials: Sequence[TrialRecord],
    metrics: Sequence[str],
    varied: Collection[str],
    *,
    width: int | None = None,
    alive: bool = True,
    best: int | None = None,
    **style: Any,
) -> Table:
    """Return a table with one row per trial: state, metrics, cost, settings, and maybe the reason.

    Args:
        trials: in the order of the rows.
        metrics, varied: names of the metrics and settings that are shown.
        width: width of the terminal, to which settings are cut; None: they are shown in full. From
            ``WIDE`` on, the reason of a trial's end is shown.
        alive: whether a driver is running, so that trials can be in progress.
        best: number of the trial that is highlighted.
    """
    gpus = any(trial.gpu_seconds for trial in trials)
    wide = (width or 0) >= WIDE and any(trial.reason or trial.source for trial in trials)
    numbers = [*metrics, "examples", "time", *(["GPU h"] if gpus else [])]
    words = [Column(title, no_wrap=True) for title in ("trial", "state")]
    table = plain_table(*words, *map(number_column, numbers), Column("settings"), **style)
    if wide:
        table.add_column("reason", overflow="fold")
    for trial in trials:
        sign = ON_PART if trial.on_part else ""
        scores = [sign + measured(metric, trial.metrics.get(metric)) for metric in metrics]
        spent = [f"{trial.examples:,}", clock(trial.seconds)]
        spent += [f"{trial.gpu_seconds / 3600:.2f}"] if gpus else []
        shown = {name: trial.settings[name] for name in varied if name in trial.settings}
        cut: dict[str, Any] = {} if width is None else {"no_wrap": True, "overflow": "ellipsis"}
        settings = Text(str(without_credentials(short(shown))), **cut)
        source = f"from {trial.source}" if trial.source else ""
        reasons = []
        if wide:
            reason = without_credentials("; ".join(filter(None, (source, trial.reason))))
            reasons = [Text(reason, "default" if trial.state is TrialState.FAILED else "dim")]
        elif source:
            settings.append(f"\n{source}", "dim")
        state = Text(*marked(trial.state, alive=alive))
        bold = "bold" if trial.id == best else ""
        table.add_row(str(trial.id), state, *scores, *spent, settings, *reasons, style=bold)
    return table


def finalists_table(
    finalists: Sequence[FinalistRecord], metric: str, winner: int | None = None, **style: Any
) -> Table:
    """Return a table with one row per finalist: mean of a metric, and its value of each seed.

    The finalist with the index ``winner`` is marked.
    """
    table = plain_table("finalist", metric, "seeds", Column("values", overflow="fold"), **style)
    for place, finalist in enumerate(finalists):
        name = Text(f"trial {finalist.trial}")
        if place == winner:
            name.append(", winner", "green")
        over = finalist.metrics.get(metric)
        values = over.values if over is not None else []
        each = ", ".join(measured(metric, value) for value in values)
        mean = spread(metric, over) if over is not None else "-"
        table.add_row(name, mean, str(len(values)), each)
    return table


def marked(state: TrialState, *, alive: bool) -> tuple[str, str]:
    """Return the word and colour of a state; without a driver, running trials are unfinished."""
    left = state is TrialState.RUNNING and not alive
    return ("unfinished", "yellow") if left else MARKS[state]


def called(run: StoredRun) -> str:
    """Return the displayed name of a run."""
    return f"trial {run.trial}" if run.seed is None else f"trial {run.trial}, seed {run.seed}"


def line_of(runs: Sequence[StoredRun], beats: Mapping[str, Beat], budget: int) -> str:
    """Return a log line on all active runs: phase, examples of its budget, loss and speed."""
    words = []
    for run in runs[:NAMED]:
        beat, what = beats.get(run.name), "starting"
        if beat is not None:
            seen = _seen(run, beat, budget)
            what = f"waiting for {beat.waits}" if beat.waits else beat.in_words(seen, budget)
        words.append(f"{called(run)} {what}")
    if len(runs) > NAMED:
        words.append(f"{len(runs) - NAMED} more at work")
    return "; ".join(words)


class RungBar:
    """A progress bar with a mark at each rung, as wide as its column.

    Args:
        share: of the budget that is used, 0 to 1.
        rungs: shares of the budget at which trials are compared, below 1.
        style: of the used part.
    """

    def __init__(self, share: float, rungs: Sequence[float], style: str) -> None:
        self.share, self.rungs, self.style = share, rungs, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        full, mark, empty = "#|-" if options.ascii_only else "━┿─"
        width = options.max_width
        done = int(self.share * width + 1e-9)
        signs = [*full * done, *empty * (width - done)]
        for place in {int(rung * width) for rung in self.rungs} - {0}:
            signs[place] = mark
        yield Segment("".join(signs[:done]), Style.parse(self.style))
        yield Segment("".join(signs[done:]), Style.parse("dim"))


def bars_table(
    runs: Sequence[StoredRun],
    beats: Mapping[str, Beat],
    left: Mapping[str, float],
    *,
    budget: int,
    rungs: Sequence[int],
    best: int | None,
    width: int,
) -> Table:
    """Return a table with one bar per active run: phase, examples, loss, speed and time left.

    Args:
        beats: run name -> newest beat.
        left: run name -> estimated seconds left; runs without an estimate are missing.
        budget: examples of a run.
        rungs: examples at which trials are compared.
        best: number of the trial that is highlighted.
        width: width of the terminal.
    """
    wide = width >= WIDE_BARS
    texts = [Column(no_wrap=True) for _ in range(2)]
    numbers = [Column(no_wrap=True, justify="right") for _ in range(4 if wide else 3)]
    bar = Column(ratio=1, min_width=4)
    table = Table.grid(*texts, bar, *numbers, padding=(0, 1), expand=True)
    for run in runs:
        beat, seconds = beats.get(run.name), left.get(run.name)
        seen = _seen(run, beat, budget)
        style = "bold green" if best == run.trial and run.seed is None else "cyan"
        figures = [f"{_number(seen, wide=wide)}/{_number(budget, wide=wide)}"]
        if wide:
            figures.append(f"loss {beat.loss:.4g}" if beat and beat.loss is not None else "")
        training = beat is not None and beat.phase == "training"
        figures.append(f"{beat.speed}/s" if beat and training and beat.rate else "")
        figures.append(clock(seconds) if seconds is not None else "")
        phase = "starting" if beat is None else "waiting" if beat.waits else beat.activity
        shown = RungBar(seen / budget, [rung / budget for rung in rungs], style)
        table.add_row(Text(called(run), style), Text(phase), shown, *map(Text, figures))
    return table


def _seen(run: StoredRun, beat: Beat | None, budget: int) -> int:
    return min(budget, max(beat.examples if beat else 0, run.record.examples))


def _number(value: int, *, wide: bool) -> str:
    """Return 1234567 as ``1,234,567``, or as ``1.23M`` on a narrow terminal."""
    if wide or value < 10_000:
        return f"{value:,}"
    scaled, unit = (value / 1e6, "M") if value >= 999_500 else (value / 1e3, "k")
    return f"{scaled:.3g}{unit}"
