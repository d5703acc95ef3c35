"""Rung survival: how many trials reached each rung, of those that could."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sentune.records import TrialRecord, TrialState
from sentune.report.axes import legend
from sentune.report.document import Cell, Picture, Section, Table, Text, columns
from sentune.report.drawing import ACCENT, BEST, INK, LINE, MUTED, figure, to_svg
from sentune.report.view import WITHOUT_RESULT, View


@dataclass(frozen=True, kw_only=True)
class Rung:
    """What became of the trials at one rung, or at the end.

    Attributes:
        examples: where it lies.
        reached: trials that came so far.
        stopped: trials that were stopped on the way to it, at an earlier rung.
        lost: trials that failed or were infeasible before it.
        running: trials on their way to it.
        judged: trials that were stopped here.
    """

    examples: int
    reached: int
    stopped: int
    lost: int
    running: int
    judged: int

    @property
    def could(self) -> int:
        """Trials that had the chance: neither on their way nor lost."""
        return self.reached + self.stopped


def survival(trials: Sequence[TrialRecord], rungs: Sequence[int], end: int) -> list[Rung]:
    """Counts trials at each rung and at the end.

    A trial has come as far as its last milestone; without its curve, as the examples it saw.
    """
    far = {trial.id: max(trial.curve, default=trial.examples) for trial in trials}
    found = []
    for examples in dict.fromkeys((*rungs, end)):
        before = [trial for trial in trials if far[trial.id] < examples]
        at = [trial for trial in trials if far[trial.id] == examples]
        found.append(
            Rung(
                examples=examples,
                reached=len(trials) - len(before),
                stopped=sum(t.state is TrialState.PRUNED for t in before),
                lost=sum(t.state in WITHOUT_RESULT for t in before),
                running=sum(t.state is TrialState.RUNNING for t in before),
                judged=sum(t.state is TrialState.PRUNED for t in at),
            )
        )
    return found


def rungs(view: View) -> Section | None:
    """Survival as a picture and a table; None where trials were not compared on the way."""
    if not view.rungs or not view.summary.trials:
        return None
    plan = view.summary.plan
    found = survival(view.summary.trials, view.rungs, view.max_examples)
    scheduler = plan.get("scheduler") or "asha"
    if isinstance(scheduler, dict):
        scheduler = scheduler.get("name", "asha")
    eta = f", one in {plan['eta']} goes on" if plan.get("eta") else ""
    said = Text(
        text=f"Scheduler {scheduler}{eta}; a full trial sees {view.max_examples:,} examples."
    )
    return Section(name="rungs", title="Rungs", blocks=[said, _picture(found), _table(found)])


def _picture(found: Sequence[Rung]) -> Picture:
    drawn, axes = figure(5.0, 1.0 + 0.42 * len(found))
    axes.grid(visible=False)
    names = [f"{rung.examples:,}" for rung in found]
    left = [0] * len(found)
    for word, colour, hatch, counts in (
        ("reached it", ACCENT, "", [r.reached for r in found]),
        ("stopped before", LINE, "", [r.stopped for r in found]),
        ("lost before", "none", "xxxx", [r.lost for r in found]),
        ("on their way", "none", "||||", [r.running for r in found]),
    ):
        if any(counts):
            edge = BEST if hatch == "xxxx" else MUTED
            style: dict[str, Any] = {
                "facecolor": colour,
                "edgecolor": edge,
                "hatch": hatch,
                "linewidth": 0.6,
            }
            axes.barh(names, counts, 0.62, left=left, label=word, **style)
        left = [a + b for a, b in zip(left, counts, strict=True)]
    for place, rung in enumerate(found):
        text = f"{rung.reached} of {rung.could}"
        axes.annotate(
            text,
            (left[place], place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=INK,
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * max(left))
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.set_xlabel("trials", fontsize=9)
    axes.set_ylabel("examples", fontsize=9)
    legend(axes, columns=2)
    title = "Trials at each rung"
    last = found[-1]
    text = (
        f"How many trials reached each rung, of those that could; {last.reached} of {last.could} "
        f"reached the end at {last.examples:,} examples."
    )
    svg = to_svg(drawn, "survival", f"{title}: {text}")
    return Picture(title=title, description=text, svg=svg)


def _table(found: Sequence[Rung]) -> Table:
    counts = {
        "rung": [rung.examples for rung in found],
        "could reach": [rung.could for rung in found],
        "reached": [rung.reached for rung in found],
        "stopped here": [rung.judged for rung in found],
        "lost before": [rung.lost for rung in found],
        "on the way": [rung.running for rung in found],
    }
    shown = {name: numbers for name, numbers in counts.items() if any(numbers)}
    rows = [[Cell(text=f"{n:,}") for n in line] for line in zip(*shown.values(), strict=True)]
    return Table(columns=columns(*shown, numbers=[*shown]), rows=rows, beside=True)
