"""What the run of a study as a whole says: where it comes from, what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sentune.records import StudySummary
from sentune.tracking import entries
from sentune.tracking.description import describe, winner_of
from sentune.tracking.entries import RunKey
from sentune.tracking.journal import Entry

STATUS = {
    "complete": "FINISHED",
    "stopped": "FINISHED",  # a budget was used up, or somebody asked: it ended as it was told to
    "interrupted": "KILLED",
    "failed": "FAILED",
}
"""How a study ended -> MLflow's status of its run; the word itself is the tag sentune.state."""

_STUDY = RunKey()


def started(summary: StudySummary, plan: Mapping[str, Any]) -> Iterator[Entry]:
    """Corpora as params and datasets; lineage as tags, since a resume may come from elsewhere."""
    params = {
        "method": summary.method,
        "objective": summary.objective,
        "mode": summary.mode,
        "corpora": {
            role: {name: corpus[name] for name in ("spec", "fingerprint", "rows") if name in corpus}
            for role, corpus in summary.corpora.items()
        },
    }
    if len(summary.objectives) > 1:
        params["objectives"] = [f"{o['metric']} {o['mode']}" for o in summary.objectives]
    tags = {**_lineage_tags(summary.lineage), "sentune.state": "running"}
    if summary.warm_start:
        tags["sentune.warm_start"] = summary.warm_start
    if summary.forked_from:
        tags["sentune.forked_from"] = summary.forked_from
    yield entries.start(_STUDY, params=params, tags=tags)
    yield entries.datasets(_STUDY, summary.corpora)
    yield entries.document(_STUDY, "space.json", summary.space)
    yield entries.document(_STUDY, "plan.json", plan)
    yield entries.document(_STUDY, "lineage.json", summary.lineage)


def ended(summary: StudySummary, name: str) -> Iterator[Entry]:
    """What was spent, the result's figures, its description, the model as champion of ``name``.

    The step of all figures is the examples spent: a study that went on has new ones, one that is
    told again has not.
    """
    description, step = describe(summary, f"models:/{name}@champion"), summary.spent.examples
    spent = {f"spent/{name}": float(value) for name, value in asdict(summary.spent).items()}
    yield entries.metrics(_STUDY, step, spent)
    if winner_of(summary) is not None:
        yield entries.metrics(_STUDY, step, _figures(summary))
        yield from _model(summary, name, description)
    for file, content in _documents(summary):
        yield entries.document(_STUDY, file, content)
    yield entries.end(_STUDY, STATUS.get(summary.state, "KILLED"), _tags(summary, description))


def _documents(summary: StudySummary) -> Iterator[tuple[str, Any]]:
    """The test behind the verdict, and every reading of the test corpora."""
    if summary.comparison:
        yield "comparison.json", summary.comparison
    if summary.test_reads:
        yield "test_reads.json", summary.test_reads


def _tags(summary: StudySummary, description: str) -> dict[str, Any]:
    """How it ended in the summary's own words. An empty one overwrites an earlier start's."""
    tags = {
        "sentune.state": summary.state,
        "sentune.reason": summary.reason,
        "sentune.verdict": summary.verdict,
        "mlflow.note.content": description,
    }
    return {**tags, "sentune.front": summary.front} if len(summary.objectives) > 1 else tags


def model_name(name: str) -> str:
    """A name as MLflow takes it for a model, without ``/`` and ``:``."""
    return entries.legal(name).replace("/", "-").replace(":", "-")


def _model(summary: StudySummary, name: str, description: str) -> Iterator[Entry]:
    winner = winner_of(summary)
    if summary.model is None or winner is None:
        return
    tags = {
        "method": summary.method,
        "sentune.study": summary.study,
        "setting": winner.settings,
        "readout": winner.readouts,
        "metric": {metric: spread.mean for metric, spread in winner.metrics.items()},
    }
    yield entries.model(summary.model, name, description=description, tags=tags)


def _figures(summary: StudySummary) -> dict[str, float]:
    """The winner over its seeds, the test set, and what rules without a model reach."""
    figures = {f"test/{name}": value for name, value in summary.test.items()}
    figures |= {f"baseline/{name}": value for name, value in summary.baselines.items()}
    winner = winner_of(summary)
    if winner is not None:
        for name, spread in winner.metrics.items():
            figures |= {f"winner/{name}": spread.mean, f"winner/{name}/sd": spread.sd}
    return figures


def _lineage_tags(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """The commit where MLflow's pages look for it; the packages as one line."""
    git, packages = lineage.get("git") or {}, lineage.get("packages") or {}
    rest = {name: value for name, value in lineage.items() if name not in ("git", "packages")}
    tags: dict[str, Any] = {f"sentune.{name}": value for name, value in rest.items()}
    tags |= {f"sentune.git.{name}": value for name, value in git.items()}
    tags["sentune.packages"] = ", ".join(f"{name} {packages[name]}" for name in packages)
    tags["mlflow.source.name"] = lineage.get("command", "")
    tags["mlflow.source.git.commit"] = git.get("commit", "")
    return {name: value for name, value in tags.items() if value != ""}
