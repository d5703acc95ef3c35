"""Computes the content of a study's MLflow runs from a snapshot, without a server."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.formatting import counted, setting
from sentune.records import PART, FinalistRecord, StudySummary, TrialRecord, TrialState
from sentune.report.blocks import Block, Section, StudyReport, Table, Text
from sentune.report.render import to_markdown
from sentune.report.study_page import finding, overview
from sentune.report.view import View
from sentune.tracking.client import MOST_PARAM, MOST_TAG, Point, RunKey, digest_of, legal, texts

if TYPE_CHECKING:
    from sentune.study.store.study_view import StoredRun, StudySnapshot

RUNNING = "RUNNING"
LOSS, SPEED = "train/loss", "train/examples_per_second"
"""Training metrics with a trace between milestones; if there is one, it replaces the means up to
each milestone."""

TRIAL_STATUS = {
    TrialState.RUNNING: RUNNING,
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAILED: "FAILED",
    TrialState.INFEASIBLE: "FAILED",
}
"""State of a trial -> MLflow's status of its run; the tag ``sentune.state`` has the state."""

STUDY_STATUS = {
    "running": RUNNING,
    "complete": "FINISHED",
    "stopped": "FINISHED",  # by a budget or by request
    "interrupted": "KILLED",
    "failed": "FAILED",
}
"""State of a study -> MLflow's status of its run."""


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """The content of one MLflow run.

    Attributes:
        key: of the run.
        status: MLflow's status.
        params, tags: name -> text.
        points: values of metrics.
        began, ended: UTC milliseconds; 0: the time of sending.
        tables: name of the run that has its ``readouts.json``; empty if there is none.
    """

    key: RunKey
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point] = field(default_factory=list)
    began: int = 0
    ended: int = 0
    tables: str = ""

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal content."""
        return digest_of([value for name, value in vars(self).items() if name != "key"])


def run_content(
    run: StoredRun, *, tables: bool, varied: Collection[str], driven: bool
) -> RunContent:
    """Return the content of a run of the search or of the finals.

    Settings that differ between trials (``varied``) are params, so that MLflow's tables and plots
    show these. The others are tags, ``setting.NAME``. ``tables`` is whether the run has a
    ``readouts.json``, ``driven`` whether its study runs: an interrupted one leaves runs unended.
    """
    record, over = run.record, run.ended is not None
    traced = (LOSS, SPEED) if run.trace else ()
    points = [
        Point(name, round(examples), value, round(1000 * time))
        for examples, *values, time in run.trace
        for name, value in zip(traced, values, strict=True)
    ]
    points += [
        Point(
            legal(f"part/{name}" if PART in metrics and not name.startswith("train/") else name),
            examples,
            float(value),
            run.times.get(examples, run.began),
        )
        for examples, metrics in sorted(record.curve.items())
        for name, value in metrics.items()
        if name not in traced
    ]
    if over:
        step = record.examples if run.seed is None else 0
        figures = _figures_of(record, final=run.seed is not None)
        points += [
            Point(legal(name), step, float(value), run.ended or run.began)
            for name, value in figures.items()
        ]
    params = {name: value for name, value in record.settings.items() if name in varied}
    if run.seed is not None:
        params["seed"] = run.seed
    tags: dict[str, Any] = {"readout": record.readouts} if over else {}
    tags["setting"] = {n: value for n, value in record.settings.items() if n not in varied}
    tags["sentune.state"] = record.state if over or driven else "unfinished"
    if over:
        tags |= {"sentune.reason": record.reason} if record.reason else {}
        tags |= {"sentune.notes": "\n".join(record.notes)} if record.notes else {}
        tags |= {"sentune.feasible": record.feasible} if record.violations else {}
    return RunContent(
        key=RunKey(run.trial, run.seed),
        status=TRIAL_STATUS[record.state] if over or driven else "KILLED",
        params=texts(params, MOST_PARAM),
        tags=texts(tags, MOST_TAG),
        points=_first_of_each(points),
        began=run.began,
        ended=run.ended or 0,
        tables=run.name if tables and over else "",
    )


def _figures_of(trial: TrialRecord, *, final: bool) -> dict[str, float]:
    """Return the metrics of a run at its end.

    ``selected/...`` are those at the best milestone, unless it was judged on a part of dev or the
    run is an incomplete one of the finals. A trial of the search also has its cost and
    ``violation/...`` for each constraint (0 or less if it is satisfied).
    """
    over = not final or trial.state is TrialState.COMPLETE
    shown = trial.metrics if over and not trial.on_part else {}
    selected = {f"selected/{name}": value for name, value in shown.items()}
    if final:
        return selected
    return {
        **selected,
        **{f"violation/{name}": by for name, by in trial.violations.items()},
        "examples": trial.examples,
        "seconds": trial.seconds,
        "gpu_seconds": trial.gpu_seconds,
        "restarts": trial.restarts,
    }


def _first_of_each(points: list[Point]) -> list[Point]:
    """Drop points whose name and step occurred before; two names may become one legal name."""
    return list({(point.name, point.step): point for point in reversed(points)}.values())[::-1]


def study_content(study: StudySnapshot, summary: StudySummary, registered: str) -> RunContent:
    """Return the content of the study's own run.

    Its metrics ``trials/OBJECTIVE`` have the value of each trial, with the trial's number as step.
    Test corpora are tags. ``registered`` is the name of the registered model.
    """
    corpora = {
        role: {name: corpus[name] for name in ("spec", "fingerprint", "rows") if name in corpus}
        for role, corpus in summary.corpora.items()
    }
    test = {role: corpora.pop(role) for role in [*corpora] if role.startswith("test")}
    params: dict[str, Any] = {
        "method": summary.method,
        "objective": summary.objective,
        "mode": summary.mode,
        "corpora": corpora,
    }
    if len(summary.objectives) > 1:
        params["objectives"] = [f"{o['metric']} {o['mode']}" for o in summary.objectives]
    tags = {**_lineage_tags(summary.lineage), "sentune.state": summary.state}
    tags |= {"corpora": test} if test else {}  # params cannot change, as with --force-test
    tags |= {"sentune.warm_start": summary.warm_start} if summary.warm_start else {}
    tags |= {"sentune.forked_from": summary.forked_from} if summary.forked_from else {}
    points = [
        Point(legal(f"trials/{name}"), run.trial, float(run.record.metrics[name]), run.ended)
        for run in study.runs
        if run.ended is not None and not run.record.on_part
        for name in [o["metric"] for o in summary.objectives] or [summary.objective]
        if name in run.record.metrics
    ]
    if summary.state != "running":
        tags |= {  # an empty tag overwrites that of an earlier start
            "sentune.reason": summary.reason,
            "sentune.verdict": summary.verdict,
            "mlflow.note.content": describe(summary, f"models:/{registered}@champion"),
        }
        tags |= {"sentune.front": summary.front} if len(summary.objectives) > 1 else {}
        points += [
            Point(legal(name), summary.spent.examples, float(value), 0)
            for name, value in _end_figures(summary).items()
        ]
    return RunContent(
        key=RunKey(),
        status=STUDY_STATUS.get(summary.state, "KILLED"),
        params=texts(params, MOST_PARAM),
        tags=texts(tags, MOST_TAG),
        points=_first_of_each(points),
        began=min((run.began for run in study.runs if run.began), default=0),
    )


def _end_figures(summary: StudySummary) -> dict[str, float]:
    """Return the metrics of a study that has ended: cost, winner over seeds, test and baselines."""
    figures = {f"spent/{name}": value for name, value in asdict(summary.spent).items()}
    if (winner := winner_of(summary)) is not None:
        figures |= {f"test/{name}": value for name, value in summary.test.items()}
        figures |= {f"baseline/{name}": value for name, value in summary.baselines.items()}
        for name, over in winner.metrics.items():
            figures[f"winner/{name}"] = over.mean
            if len(over.values) > 1:
                figures[f"winner/{name}/sd"] = over.sd
    return figures


def documents(study: StudySnapshot, summary: StudySummary) -> dict[str, str]:
    """Return file name -> JSON text of the small documents of the study's run."""
    found = {
        "space.json": summary.space,
        "plan.json": summary.plan,
        "lineage.json": summary.lineage,
        "comparison.json": summary.comparison,
        "test_reads.json": summary.test_reads or study.test_reads,
    }
    return {
        file: json.dumps(without_credentials(said), indent=1, ensure_ascii=False, default=str)
        for file, said in found.items()
        if said or file in ("space.json", "plan.json", "lineage.json")
    }


def model_tags(summary: StudySummary, winner: FinalistRecord) -> dict[str, str]:
    """Return the tags of the registered model's version; the description has its settings."""
    chosen_by = [metric for metric, _ in View(summary=summary).objectives]
    tags = {
        "method": summary.method,
        "sentune.study": summary.study,
        "metric": {n: winner.metrics[n].mean for n in chosen_by if n in winner.metrics},
    }
    return texts(tags, MOST_TAG)


def _lineage_tags(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lineage as tags: the commit where MLflow shows it, and packages as one line."""
    git, packages = lineage.get("git") or {}, lineage.get("packages") or {}
    apart = ("git", "packages", "chain")  # ``lineage.json`` has the chain
    rest = {name: value for name, value in lineage.items() if name not in apart}
    tags: dict[str, Any] = {f"sentune.{name}": value for name, value in rest.items()}
    tags |= {f"sentune.git.{name}": value for name, value in git.items()}
    tags["sentune.packages"] = ", ".join(f"{name} {packages[name]}" for name in packages)
    tags["mlflow.source.name"] = lineage.get("command", "")
    tags["mlflow.source.git.commit"] = git.get("commit", "")
    return {name: value for name, value in tags.items() if value != ""}


def describe(summary: StudySummary, address: str) -> str:
    """Describe a study in Markdown: its finding in the first line, then the report's summary.

    ``address`` is that of the registered model.
    """
    seen, winner = View(summary=summary), winner_of(summary)
    against = f" {seen.against_rules.text}" if seen.against_rules is not None else ""
    sections = [Section("summary", "Summary", [block for block in overview(seen)[1:] if block])]
    if winner is not None:
        values = winner.settings | {f"{n} (read out)": v for n, v in winner.readouts.items()}
        rows = [(name, setting(value)) for name, value in sorted(values.items())]
        blocks: list[Block] = [Table(heads=("setting or readout", "value"), rows=rows)]
        if summary.model is not None:
            blocks.append(Text(f'Embedder.load("{address}")', "code"))
        seeds = counted(len(winner.seeds), "seed")
        again = f"trained again from {seeds}" if winner.seeds else "one training run"
        sections.append(Section("winner", f"Winner: trial {winner.trial}, {again}", blocks))
    subtitle = f"{summary.method}, selected by {summary.objective}"
    page = StudyReport(summary.study, summary.state, subtitle, sections)
    return f"{finding(seen)}{against}\n\n{to_markdown(page)}"


def winner_of(summary: StudySummary) -> FinalistRecord | None:
    """Return the winning finalist, or without finals the best complete trial."""
    seen = View(summary=summary)
    if seen.winner is not None or summary.model is None or seen.best is None:
        return seen.winner
    return FinalistRecord(
        trial=seen.best.id,
        settings=seen.best.settings,
        seeds=[],
        readouts=seen.best.readouts,
        metrics=seen.measured,
    )
