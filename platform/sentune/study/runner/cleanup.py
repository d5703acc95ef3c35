"""Find, measure and drop what a study no longer needs on disk."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import fsspec

from sentune.io.object_store import files_at, names_in
from sentune.records import TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.runner.retention import Retention, Stays, published
from sentune.study.space.objectives import Objective
from sentune.study.store.driver_process import runs
from sentune.study.store.study_view import StudySnapshot, StudyView
from sentune.training.checkpoint_storage import DAMAGED, PARTIAL, storage_of
from sentune.training.checkpoints import CHECKPOINT, CheckpointStore, examples_of, name_of

SCRATCH = "ray-train"
"""Ray Train's own snapshots in a study's folder; nothing ever goes on from them."""

ENDED_BY_RUNGS = ("asha", "hyperband", "median", "none")
"""Schedulers that never go on from another trial's checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Removable:
    """One folder that may go: where, why, and what it holds."""

    folder: str
    name: str
    why: str
    bytes: int

    def drop(self) -> None:
        """Take it away, and its folder where nothing else lies there."""
        place = storage_of(self.folder)
        place.drop(self.name)
        place.leave()


def removable_of(view: StudyView) -> list[Removable]:
    """Return what a study without a driver can do without, by the rule that its driver follows.

    The published model's checkpoint and those of trials that have not ended stay.
    """
    files, root = files_at(view.place.folder)
    found = list(_of_runs(view, files, f"{root}/trials"))
    if files.isdir(f"{root}/{SCRATCH}"):
        size = int(files.du(f"{root}/{SCRATCH}"))
        folder = view.place.folder
        found.append(Removable(folder=folder, name=SCRATCH, why="scratch of Ray Train", bytes=size))
    return found


def _of_runs(view: StudyView, files: fsspec.AbstractFileSystem, root: str) -> Iterator[Removable]:
    rule = _rule(view)
    for run in sorted(names_in(files, root)):
        folder = f"{view.place.folder}/trials/{run}"
        names = sorted(names_in(files, f"{root}/{run}"))
        kept = _kept(folder, names, rule.get(run, Stays.ALL))
        for name in names:
            if why := _why(name, kept):
                size = int(files.du(f"{root}/{run}/{name}"))
                yield Removable(folder=folder, name=name, why=why, bytes=size)


def _why(name: str, kept: set[str]) -> str:
    """Return why an entry of a run's folder may go; empty if it stays."""
    if name.startswith(PARTIAL):
        return "written in part"
    if name.startswith(DAMAGED):
        return "damaged"
    if name.startswith(CHECKPOINT) and name not in kept:
        return "checkpoints that the study does not keep"
    return ""


def _kept(folder: str, names: Sequence[str], stays: Stays) -> set[str]:
    """Return the checkpoints of a run that stay."""
    stored = {name for name in names if name.startswith(CHECKPOINT)}
    if stays is Stays.ALL or not stored:
        return stored
    if stays is Stays.NOTHING:
        return set()
    best = CheckpointStore(folder).best_progress()
    if best is None:
        return {max(stored, key=examples_of)}
    return stored & {name_of(best.examples)}


def _rule(view: StudyView) -> Mapping[str, Stays]:
    options = view.place.description.get("options", {})
    complete = view.place.summary().get("state") == "complete"
    config = StudyConfig(
        name=view.place.name,
        storage=view.place.folder.rpartition("/")[0],
        max_examples=options.get("max_examples", 1),
        keep=options.get("keep", 3),
    )
    seen = view.snapshot()
    search = _Search(seen)

    def needed() -> set[str]:
        if complete or options.get("scheduler", "none") in ENDED_BY_RUNGS:
            return set()
        return {f"{trial.id:04d}" for trial in search.records()}

    retention = Retention(config, search, needed)
    if seen.has_finals:
        retention.finals = _Finals(seen, published(config.folder) if complete else None)
    return retention.rule()


@dataclass(frozen=True)
class _Search:
    """The search as retention sees it."""

    seen: StudySnapshot

    @property
    def objectives(self) -> Sequence[Objective]:
        return self.seen.objectives

    def records(self) -> list[TrialRecord]:
        return self.seen.trials


@dataclass(frozen=True)
class _Finals:
    """The finals as retention sees them; the winner is known once its model is published."""

    seen: StudySnapshot
    winner: str | None

    def runs(self) -> dict[str, TrialRecord]:
        return {run.name: run.record for run in self.seen.finals}

    def winning_run(self) -> str | None:
        return self.winner


def abandoned_scratch() -> list[Path]:
    """Folders of Ray Tune that drivers of this machine have left when they were killed."""
    found = Path(tempfile.gettempdir()).glob("sentune-tune-*")
    owned = ((path, re.match(r"sentune-tune-(\d+)-", path.name)) for path in found)
    return sorted(path for path, owner in owned if owner and not runs(int(owner[1])))
