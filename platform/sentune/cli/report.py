"""``sentune report``: a study as one HTML page and as Markdown, whatever state it is in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from sentune.cli.options import Optuna, Storage, StudyName
from sentune.cli.study import storage_of, view_of
from sentune.errors import InvalidValue
from sentune.study.store.study_index import is_database
from sentune.study.store.study_view import StudySnapshot
from sentune.terminal import say

ENDED = ("complete", "failed")


def report(
    name: StudyName,
    storage: Storage = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Folder to write into (default: the study's own).")
    ] = None,
    optuna: Optuna = None,
) -> None:
    """Write report.html and report.md: what a study found, how, from what, and at what cost."""
    from sentune.job.artifacts import artifacts_folder
    from sentune.report import build, write

    study, where = view_of(name, storage, optuna).snapshot(), storage_of(storage)
    artifacts = None if is_database(where) else artifacts_folder(where, name)
    pages = build(summary_of(study), study.trials, artifacts)
    own = study.place.folder
    if out is None and (not own or "://" in own):
        fix = "the study has no folder on this machine; add --out DIR"
        raise InvalidValue("--out", "", fix)
    for path in write(pages, out or Path(own)):
        say(path)


def summary_of(study: StudySnapshot) -> dict[str, Any]:
    """Return the study's last ``summary.json``, brought up to date from its store.

    A study whose first start has not ended has no such file: then the store and ``study.json``
    are all there is.
    """
    options: dict[str, Any] = study.place.description.get("options", {})
    content = dict(study.written) or _before_first_summary(study, options)
    found = content.setdefault("lineage", {})
    found.setdefault("encoder", options.get("encoder") or options.get("vectors") or "")
    if content["state"] not in ENDED or study.state not in ENDED:
        content |= {"state": study.state, "reason": study.reason, "spent": asdict(study.spent)}
        if not content.get("finalists"):
            content["finalists"] = [asdict(finalist) for finalist in study.finalists]
    return content


def _before_first_summary(study: StudySnapshot, options: dict[str, Any]) -> dict[str, Any]:
    planned = ("trials", "max_examples", "eta", "scheduler", "sampler")
    space: dict[str, Any] = study.place.description.get("space", {})
    return {
        "study": study.place.name,
        "method": space.get("method", ""),
        "state": "running",
        "objective": study.objective.metric,
        "mode": study.objective.mode,
        "objectives": [objective.to_dict() for objective in study.objectives],
        "corpora": {},
        "space": space,
        "warm_start": list(options.get("warm_start") or ()),
        "plan": {option: options[option] for option in planned if options.get(option) is not None},
    }
