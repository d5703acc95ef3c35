"""Checkpoints of one trial in a local folder or an object store.

Each is a folder ``examples_000012800`` with the state that ``Progress.save`` wrote and, written
last, ``progress.json``: a folder without it is not a checkpoint. Kept are the best, the newest and
the newest that was written at a milestone; those between milestones only serve to resume.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sentune.readouts.sweep import sweeps_among
from sentune.training.trial import Progress

PROGRESS_FILE = "progress.json"
_PREFIX, _PARTIAL = "examples_", ".partial-"


@dataclass(frozen=True, kw_only=True)
class SavedProgress:
    """``progress.json``: what was said, and its score (higher is better).

    Without ``milestone`` it lies between two: nothing was measured, and it is never the best.
    """

    examples: int
    metrics: dict[str, float]
    readouts: dict[str, Any]
    tables: dict[str, Any]
    final: bool
    score: float | None
    milestone: bool = True

    def again(self, save: Callable[[Path], None]) -> Progress:
        """The progress as it was said."""
        return Progress(
            examples=self.examples,
            metrics=self.metrics,
            readouts=self.readouts,
            tables=self.tables,
            final=self.final,
            save=save,
        )


class CheckpointStore:
    """Best and last checkpoint of a trial; one process writes, any may read.

    Args:
        directory: local path or fsspec URI; made with the first checkpoint.
    """

    def __init__(self, directory: str) -> None:
        self._files, self._root = fsspec.url_to_fs(directory)
        self._local = isinstance(self._files, LocalFileSystem)
        self._downloads: dict[str, tempfile.TemporaryDirectory[str]] = {}

    def save(self, progress: Progress, score: float | None) -> None:
        """Write a checkpoint whole or not at all, then drop those that nothing needs any more.

        Args:
            score: objective at this milestone, higher is better; None: never the best. Between
                milestones it does not count.
        """
        name = f"{_PREFIX}{progress.examples:09d}"
        milestone = _at_milestone(progress)
        score = score if milestone else None
        if not self._has(name, milestone):
            with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self._scratch()) as scratch:
                folder = Path(scratch, name)
                folder.mkdir()
                progress.save(folder)
                (folder / PROGRESS_FILE).write_text(_to_json(progress, score), encoding="utf-8")
                self._publish(folder, name)
        self._drop_all_but({name, self._best_name(), self._milestone_name()})

    def last(self) -> Path | None:
        """Local folder of the newest checkpoint."""
        names = self._names()
        return self._fetch(names[-1]) if names else None

    def best(self) -> Path | None:
        """Local folder of the checkpoint with the highest score, the earliest of equals."""
        name = self._best_name()
        return self._fetch(name) if name else None

    def last_progress(self) -> SavedProgress | None:
        """What was said with the newest checkpoint."""
        names = self._names()
        return self._read(names[-1]) if names else None

    def last_milestone(self) -> SavedProgress | None:
        """What was said with the newest checkpoint of a milestone."""
        name = self._milestone_name()
        return self._read(name) if name else None

    def best_progress(self) -> SavedProgress | None:
        """What was said with the best checkpoint."""
        name = self._best_name()
        return self._read(name) if name else None

    def _names(self) -> list[str]:
        return sorted(name for name in self._entries() if self._is_whole(name))

    def _entries(self) -> list[str]:
        if not self._files.isdir(self._root):
            return []
        self._files.invalidate_cache(self._root)
        paths = self._files.ls(self._root, detail=False)
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]

    def _is_whole(self, name: str) -> bool:
        marker = f"{self._root}/{name}/{PROGRESS_FILE}"
        return name.startswith(_PREFIX) and bool(self._files.exists(marker))

    def _has(self, name: str, milestone: bool) -> bool:
        """Whether it is written; one between milestones gives way to the milestone's."""
        return name in self._names() and (not milestone or self._read(name).milestone)

    def _milestone_name(self) -> str | None:
        return next((n for n in reversed(self._names()) if self._read(n).milestone), None)

    def _best_name(self) -> str | None:
        scores = {name: self._read(name).score for name in self._names()}
        scored = {name: score for name, score in scores.items() if score is not None}
        return max(scored, key=scored.__getitem__) if scored else None

    def _read(self, name: str) -> SavedProgress:
        text = self._files.cat_file(f"{self._root}/{name}/{PROGRESS_FILE}")
        return SavedProgress(**json.loads(text))

    def _scratch(self) -> str | None:
        """Beside the checkpoints, where a rename is atomic; anywhere for an object store."""
        if not self._local:
            return None
        Path(self._root).mkdir(parents=True, exist_ok=True)
        return self._root

    def _publish(self, folder: Path, name: str) -> None:
        if self._local:
            target = Path(self._root, name)
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            return
        files = sorted(f for f in folder.rglob("*") if f.is_file())
        for file in sorted(files, key=lambda f: f.name == PROGRESS_FILE):
            self._files.put_file(str(file), f"{self._root}/{name}/{file.relative_to(folder)}")

    def _drop_all_but(self, kept: set[str | None]) -> None:
        for name in self._entries():
            if name.startswith((_PREFIX, _PARTIAL)) and name not in kept:
                self._drop(name)

    def _drop(self, name: str) -> None:
        if self._local:  # fsspec takes brackets in a path for a pattern
            shutil.rmtree(Path(self._root, name))
        else:
            self._files.rm(f"{self._root}/{name}", recursive=True)

    def _fetch(self, name: str) -> Path:
        if self._local:
            return Path(self._root, name)
        if name not in self._downloads:
            self._downloads[name] = tempfile.TemporaryDirectory(prefix="sentune-checkpoint-")
            for path in self._files.find(f"{self._root}/{name}"):
                target = Path(self._downloads[name].name, path.split(f"/{name}/", 1)[1])
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(path, str(target))
        return Path(self._downloads[name].name)


def sweeps_in(directory: str) -> dict[str, Any]:
    """Tables of the sweeps at a trial's best checkpoint; none where it has no checkpoint."""
    said = CheckpointStore(directory).best_progress()
    return sweeps_among(said.tables) if said is not None else {}


def _at_milestone(progress: Progress) -> bool:
    return bool(getattr(progress, "milestone", True))


def _to_json(progress: Progress, score: float | None) -> str:
    saved = SavedProgress(
        examples=progress.examples,
        metrics=progress.metrics,
        readouts=progress.readouts,
        tables=progress.tables,
        final=progress.final,
        score=score,
        milestone=_at_milestone(progress),
    )
    return json.dumps(vars(saved), indent=1)
