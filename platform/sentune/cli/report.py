"""``sentune report``: a study as one HTML page and as Markdown, whatever state it is in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentune.cli.study import NameArgument, OptunaOption, StorageOption, storage_of, view_of
from sentune.errors import InvalidValue
from sentune.terminal import say

if TYPE_CHECKING:
    from sentune.study.store.study_view import StudySnapshot

ENDED = ("complete", "failed")


def report(
    name: NameArgument,
    storage: StorageOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write into (default: the study's own)."),
    ] = None,
    optuna: OptunaOption = None,
) -> None:
    """Write report.html and report.md: what a study found, how, from what, and at what cost."""
    from sentune.job.artifacts import artifacts_folder
    from sentune.report import build, write
    from sentune.study.store.study_index import is_database

    seen, where = view_of(name, storage, optuna).snapshot(), storage_of(storage)
    artifacts = None if is_database(where) else artifacts_folder(where, name)
    made = build(summary_of(seen), seen.trials, artifacts)
    for path in write(made, out if out is not None else _own_folder(seen)):
        say(path)


def summary_of(seen: StudySnapshot) -> dict[str, Any]:
    """The study's last ``summary.json``, brought up to what its store says now.

    A study whose first start has not ended has no such file: then the store and ``study.json``
    are all there is.
    """
    options: dict[str, Any] = seen.place.description.get("options", {})
    content = dict(seen.written) or _first(seen, options)
    found = content.setdefault("lineage", {})
    found.setdefault("encoder", options.get("encoder") or options.get("vectors") or "")
    if content["state"] not in ENDED or seen.state not in ENDED:
        content |= {"state": seen.state, "reason": seen.reason, "spent": asdict(seen.spent)}
        if not content.get("finalists"):
            content["finalists"] = [asdict(finalist) for finalist in seen.finalists]
    return content


def _first(seen: StudySnapshot, options: dict[str, Any]) -> dict[str, Any]:
    """What is known of a study before its first summary."""
    planned = ("trials", "max_examples", "eta", "scheduler", "sampler")
    space: dict[str, Any] = seen.place.description.get("space", {})
    return {
        "study": seen.place.name,
        "method": space.get("method", ""),
        "state": "running",
        "objective": seen.objective.metric,
        "mode": seen.objective.mode,
        "objectives": [objective.to_dict() for objective in seen.objectives],
        "corpora": {},
        "space": space,
        "warm_start": list(options.get("warm_start") or ()),
        "plan": {option: options[option] for option in planned if options.get(option) is not None},
    }


def _own_folder(seen: StudySnapshot) -> Path:
    folder = seen.place.folder
    if not folder or "://" in folder:
        fix = "the study has no folder on this machine; add --out DIR"
        raise InvalidValue("--out", "", fix)
    return Path(folder)
