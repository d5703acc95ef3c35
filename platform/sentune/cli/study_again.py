"""Starting a study again from what its ``study.json`` says, as it was or with changes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentune.errors import InvalidValue
from sentune.job.command import INTERRUPTED, Ended
from sentune.job.options import (
    ClosedFormOptions,
    JobOptions,
    OperationOptions,
    StudyOptions,
    WordOptions,
    parse,
)
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import DESCRIPTION, StudyPlace
from sentune.terminal import Terminal, print_line

KINDS: dict[str, type[StudyOptions]] = {
    kind.__name__: kind for kind in (ClosedFormOptions, JobOptions, OperationOptions, WordOptions)
}


@dataclass(frozen=True, kw_only=True)
class StoredJob:
    """A job as its last start was asked for.

    Attributes:
        options: of that start, with the storage where it was found now.
        space: as the job has it, before ``--set``.
        folder: in which it was started; empty if unknown. Relative paths of corpora count from it.
    """

    options: StudyOptions
    space: SearchSpace
    folder: str


def stored_job(place: StudyPlace) -> StoredJob:
    """The job of a study.

    Raises:
        InvalidValue: its description is missing or of another version.
    """
    told = place.description
    if not told:
        fix = f"{place.trouble or f'it has no {DESCRIPTION}'}; run the command that started it"
        raise InvalidValue("STUDY", place.name, fix)
    if told["job"] not in KINDS:
        fix = f"give one of {', '.join(KINDS)} in {place.folder}/{DESCRIPTION}"
        raise InvalidValue("job", told["job"], fix)
    known = {**told["options"], "study": place.name, "storage": place.folder.rpartition("/")[0]}
    return StoredJob(
        options=parse(known, KINDS[told["job"]]()),
        space=SearchSpace.from_dict(told["space"]),
        folder=told.get("folder", ""),
    )


def changed(job: StoredJob, given: Mapping[str, Any]) -> StoredJob:
    """The job with other options.

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    return StoredJob(options=parse(dict(given), job.options), space=job.space, folder=job.folder)


def with_settings(job: StoredJob, wanted: Sequence[str]) -> tuple[str, ...]:
    """Its ``--set`` options, those that name the same key replaced."""
    by_key = {item.partition("=")[0]: item for item in (*job.options.set, *wanted)}
    return tuple(by_key.values())


def start(job: StoredJob) -> None:
    """Runs the job as its own command would, and ends as that one does."""
    from sentune.job.run import tune

    errors = Terminal(stderr=True)
    there = bool(job.folder) and Path(job.folder).is_dir()
    if job.folder and not there:
        told = f"{job.folder} is not on this machine; relative paths of corpora count from here"
        print_line(errors, f"warning: {told}")
    try:
        with contextlib.chdir(job.folder) if there else contextlib.nullcontext():
            tune(job.options, job.space)
    except Ended as end:
        print_line(errors, end.line, end.style)
        sys.exit(end.code)
    except KeyboardInterrupt:
        print_line(errors, "interrupted; sentune study resume goes on")
        sys.exit(INTERRUPTED)
