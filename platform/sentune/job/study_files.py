"""Reads and writes ``study.json`` and ``summary.json``, the files in a study's folder."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentune.credentials import without_credentials
from sentune.errors import DamagedFile, Overtaken
from sentune.io.atomic import read_document, set_aside, write_document
from sentune.io.object_store import files_at
from sentune.job.families.base import JobFamily
from sentune.job.options import StudyOptions
from sentune.records import StudySummary
from sentune.study.config import StudyConfig, objectives_of
from sentune.study.space.objectives import pareto_front
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import DESCRIPTION, SUMMARY, TEST_READS, StudyPlace, read_json
from sentune.study.store.study_view import StudySnapshot
from sentune.summary import NAME, read_summary
from sentune.tracking import lineage
from sentune.training.model import MANIFEST

MODEL = "model"
"""Name of the model's folder in a study's folder."""

ENDED = ("complete", "failed")


def origin(config: StudyConfig) -> str | None:
    """Return the study that this one was forked from, if any.

    It is read from ``study.json``, or from ``summary.json`` if the former is damaged.
    """
    try:
        known = read_json(f"{config.folder}/{DESCRIPTION}")
    except ValueError:
        known = StudyPlace(name=config.name, folder=config.folder, url="").summary()
    found: str | None = known.get("forked_from")
    return found


def warm_started(config: StudyConfig) -> set[str]:
    """Return the studies whose trials an earlier start took over; these may be gone by now."""
    try:
        known = read_json(f"{config.folder}/{DESCRIPTION}")
    except ValueError:
        return set()
    return set(known.get("options", {}).get("warm_start") or ())


def describe(
    config: StudyConfig,
    options: StudyOptions,
    space: SearchSpace,
    forked_from: str | None,
    generation: int = 0,
    history: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write ``study.json``, from which ``sentune study resume`` starts the study again.

    Credentials are left out; the next start takes them from its environment.

    Args:
        forked_from: the study that this one was forked from.
        generation: number of this start, which its checkpoints have too. It is kept here in case
            the file of the driver lock is lost.
        history: as returned by ``take_history``.
    """
    content: dict[str, Any] = {
        "job": type(options).__name__,
        # ``--force-test`` applies to one start only
        "options": without_credentials(options.model_dump(mode="json", exclude={"force_test"})),
        "space": space.to_dict(),
        "forked_from": forked_from,
        "history": without_credentials(dict(history or {})),
        "folder": str(Path.cwd()),
        "command": without_credentials(sys.argv),
        "generation": generation,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_document(config.folder, DESCRIPTION, json.dumps(content, indent=1) + "\n")


def mend_summary(folder: str) -> str:
    """Rename a damaged ``summary.json``, which this start writes again at its end.

    If only this file recorded the readings of the test corpora, they are written to
    ``test_reads.json``.

    Returns:
        A warning; empty if the file is intact or missing.
    """
    try:
        read_summary(folder)
    except FileNotFoundError:
        return ""
    except DamagedFile as error:
        aside = set_aside(folder, NAME)
        files, root = files_at(aside)
        text = bytes(files.cat_file(root)).decode(errors="replace")
        place = text.find('"test_reads":')
        with contextlib.suppress(ValueError):  # the damage is in the readings
            if place >= 0 and read_document(folder, TEST_READS) is None:
                found, _ = json.JSONDecoder().raw_decode(text[place:].partition(":")[2].lstrip())
                write_document(folder, TEST_READS, json.dumps(found, indent=1) + "\n")
        return f"{error.path}: {error.why}; it was moved to {aside}, and this start writes it again"
    return ""


def start_summary(job: JobFamily, forked_from: str | None = None) -> StudySummary:
    """Return the summary of a prepared job before its first trial."""
    decoder = getattr(job.options, "decoder", "")
    return StudySummary(
        study=job.config.name,
        method=job.space.method,
        state="running",
        objective=job.space.objective,
        mode=job.space.mode,
        corpora={role: dict(corpus) for role, corpus in job.corpora().items()},
        space=job.space.to_dict(),
        lineage={
            **lineage(),
            "encoder": str(without_credentials(job.options.pretrained)),
            **({"decoder": str(without_credentials(decoder))} if decoder else {}),
            "chain": {"derived": job.derived()},
        },
        objectives=[objective.to_dict() for objective in objectives_of(job.config, job.space)],
        warm_start=list(job.config.warm_start),
        forked_from=forked_from,
    )


def last_start(folder: str) -> int:
    """Return the largest generation recorded in a study's files; 0 if there is none."""
    found = 0
    for file in (DESCRIPTION, SUMMARY, f"{MODEL}/{MANIFEST}"):
        try:
            content = read_json(f"{folder}/{file}")
        except ValueError:  # damaged; the study writes it again
            continue
        found = max(found, content.get("lineage", content).get("generation", 0))
    return found


def refuse_late(folder: str, generation: int) -> None:
    """Raise ``Overtaken`` if a later start than ``generation`` has written into the folder."""
    if (newest := last_start(folder)) > generation:
        raise Overtaken(
            f"{folder}: start {newest} of this study has written there, so this start, number "
            f"{generation}, has lost the study and stops"
        )


def summary_of(study: StudySnapshot) -> dict[str, Any]:
    """Return the content of a study's ``summary.json``, updated from its store.

    If the first start has not ended, there is no such file, and the content is made from the store
    and ``study.json``.
    """
    options: dict[str, Any] = study.place.description.get("options", {})
    content = dict(study.written)
    if not content:
        space: dict[str, Any] = study.place.description.get("space", {})
        planned = ("trials", "max_examples", "eta", "scheduler", "sampler")
        content = {
            "study": study.place.name,
            "method": space.get("method", ""),
            "state": "running",
            "objective": study.objective.metric,
            "mode": study.objective.mode,
            "objectives": [objective.to_dict() for objective in study.objectives],
            "corpora": {},
            "space": space,
            "warm_start": list(options.get("warm_start") or ()),
            "plan": {name: options[name] for name in planned if options.get(name) is not None},
        }
    if content.get("model") and study.place.folder:  # the storage may have been moved
        content["model"] = f"{study.place.folder}/{MODEL}"
    found = content.setdefault("lineage", {})
    found.setdefault("encoder", options.get("encoder") or options.get("vectors") or "")
    if options.get("decoder"):
        found.setdefault("decoder", options["decoder"])
    if content["state"] not in ENDED or study.state not in ENDED:
        content |= {"state": study.state, "reason": study.reason, "spent": asdict(study.spent)}
        if not content.get("finalists"):
            content["finalists"] = [asdict(finalist) for finalist in study.finalists]
        if len(study.objectives) > 1:
            front = pareto_front(study.trials, study.objectives)
            content["front"] = [trial.id for trial in front]
    return content
