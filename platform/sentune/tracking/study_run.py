"""What the run of a study as a whole says: where it comes from, what came out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentune.records import StudySummary
from sentune.tracking import entries
from sentune.tracking.description import describe, winner_of
from sentune.tracking.entries import RunKey
from sentune.tracking.journal import Entry

log = logging.getLogger(__name__)

STATUS = {"complete": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
"""How a study ended -> MLflow's status of its run."""

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
    tags = {**_lineage_tags(summary.lineage), "sentune.state": "running"}
    yield entries.start(_STUDY, params=params, tags=tags)
    yield entries.datasets(_STUDY, summary.corpora)
    yield entries.document(_STUDY, "space.json", summary.space)
    yield entries.document(_STUDY, "plan.json", plan)
    yield entries.document(_STUDY, "lineage.json", summary.lineage)


def ended(summary: StudySummary, name: str) -> Iterator[Entry]:
    """The result's figures, its description, and the model as champion of ``name``."""
    description = describe(summary, f"models:/{name}@champion")
    if summary.state == "complete":
        yield entries.metrics(_STUDY, len(summary.trials), _figures(summary))
        yield from _model(summary, name, description)
    tags = {"sentune.state": summary.state, "mlflow.note.content": description}
    yield entries.end(_STUDY, STATUS.get(summary.state, "KILLED"), tags)


def model_name(name: str) -> str:
    """A name as MLflow takes it for a model, without ``/`` and ``:``."""
    return entries.legal(name).replace("/", "-").replace(":", "-")


def _model(summary: StudySummary, name: str, description: str) -> Iterator[Entry]:
    winner = winner_of(summary)
    if summary.model is None or winner is None:
        return
    folder = Path(summary.model.removeprefix("file://"))
    if not folder.is_dir():
        log.warning("%s is no folder on this machine: MLflow registers no model", summary.model)
        return
    tags = {
        "method": summary.method,
        "sentune.study": summary.study,
        "setting": winner.settings,
        "readout": winner.readouts,
        "metric": {metric: spread.mean for metric, spread in winner.metrics.items()},
    }
    yield entries.model(folder, name, description=description, tags=tags)


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
