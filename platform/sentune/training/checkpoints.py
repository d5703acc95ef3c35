"""Checkpoints of one trial in a local folder or an object store.

Each is a folder ``examples_000012800`` with the state that ``Progress.save`` wrote and, written
last, ``progress.json`` with the checksums of all: a folder without it is not a checkpoint. They are
ordered by number, as names are longer from 10^9 examples on. Kept are the best, the newest and the
newest that was written at a milestone; those between milestones only serve to resume. One that a
disk has damaged, or that is of another run, is set aside, and the one before is taken.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sentune.credentials import without_credentials
from sentune.errors import Overtaken
from sentune.io.checksums import checksums, damage, document_checksum
from sentune.training.checkpoint_storage import (
    DAMAGED,
    FOREIGN,
    PARTIAL,
    PROGRESS_FILE,
    storage_of,
)
from sentune.training.trial import Measured, Progress, TrialSpec, other_run

logger = logging.getLogger(__name__)

CHECKPOINT = "examples_"
"""How the name of a checkpoint's folder begins; its examples follow."""

LOOK_SECONDS = 10.0
"""How old a look at what another process has written may be when one is saved. Ray misses a machine
that is cut off, and starts its trial elsewhere, after some 30 s."""


@dataclass(kw_only=True)
class SavedProgress(Measured):
    """``progress.json``: a progress, its score (higher is better) and the state's checksums.

    One between milestones is never the best. ``generation`` is the number of the study's start
    that asked for it; ``identity`` tells its run from others.
    """

    score: float | None
    generation: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def again(self, save: Callable[[Path], None]) -> Progress:
        """Return the progress as it was reported."""
        return Progress(**self.measured(), save=save)

    @property
    def bytes(self) -> int:
        """Bytes of the state, without ``progress.json``."""
        return sum(file["bytes"] for file in self.files.values())


class _Unusable(NamedTuple):
    """Why a checkpoint is not taken, and the prefix that sets it aside."""

    why: str
    prefix: str = DAMAGED


def name_of(examples: int) -> str:
    """Return the name of the folder of the checkpoint at a number of examples."""
    return f"{CHECKPOINT}{examples:09d}"


def examples_of(name: str) -> int:
    """Return the examples in a checkpoint's name; -1 where there is no number."""
    number = name.removeprefix(CHECKPOINT)
    return int(number) if number.isascii() and number.isdecimal() else -1


class CheckpointStore:
    """Best and last checkpoints of a trial; one process writes, any may read.

    Reading and writing raise ``Overtaken`` where a later start of the study has written.

    Args:
        directory: local path or fsspec URI; made with the first checkpoint.
        generation: number of the study's start that this process works for; 0: of none.
        identity: of the run that this process works for; empty: all checkpoints are of one run.

    Attributes:
        notes: for each checkpoint that was not taken, why, and what was taken instead.
    """

    def __init__(
        self, directory: str, generation: int = 0, identity: Mapping[str, Any] | None = None
    ) -> None:
        self.directory, self.generation, self.identity = directory, generation, identity or {}
        self.notes: list[str] = []
        self._place = storage_of(directory)
        self._sound: set[str] = set()
        self._written: dict[str, SavedProgress] | None = None

    @classmethod
    def of(cls, spec: TrialSpec) -> CheckpointStore:
        """Return the store of a training run's own checkpoints."""
        return cls(spec.directory, spec.generation, spec.identity)

    def save(self, progress: Progress, score: float | None) -> None:
        """Write a checkpoint whole or not at all, then drop those that nothing needs any more.

        Args:
            score: objective at this milestone, higher is better; None: never the best. Between
                milestones it does not count.

        Raises:
            StorageError: the disk is full, read-only or at fault; the older ones are untouched.
        """
        name, there = name_of(progress.examples), self._names()
        # read once, as a store takes its time; and again where another process has written, such
        # as the one on a machine that was cut off and whose trial went on elsewhere
        if self._written is None or there != set(self._written):
            self._written = self._readable() if there else {}
            there = self._names()
        stored = self._written
        milestone = progress.milestone
        if name not in stored or (milestone and not stored[name].milestone):
            needed = max((saved.bytes for saved in stored.values()), default=0)
            with self._place.writing(name, needed, anew=name not in there) as folder:
                progress.save(folder)
                saved = SavedProgress(
                    **progress.measured(),
                    score=score if milestone else None,
                    generation=self.generation,
                    identity=self.identity,
                    files=checksums(folder),
                )
                content = json.loads(json.dumps(vars(saved)))
                content["checksum"] = document_checksum(content)
                text = json.dumps(content, indent=1)
                (folder / PROGRESS_FILE).write_text(text, encoding="utf-8")
            stored[name] = saved
            self._sound.add(name)
        kept = {_newest(stored), _best(stored), _newest_milestone(stored)}
        for dropped in sorted((there | set(stored)) - kept):
            known = stored.pop(dropped, None)
            self._place.drop(dropped, (known.files or None) if known is not None else None)

    def last(self) -> Path | None:
        """Return the local folder of the newest undamaged checkpoint."""
        found = self.found()
        return found[0] if found is not None else None

    def best(self) -> Path | None:
        """Return the local folder of the checkpoint with the highest score, the first of equals."""
        found = self._take(_best, "took {} for the best", "none is left to take")
        return found[0] if found is not None else None

    def last_progress(self) -> SavedProgress | None:
        """Return the progress in the newest undamaged checkpoint."""
        found = self.found()
        return found[1] if found is not None else None

    def found(self, examples: int = 0) -> tuple[Path, SavedProgress] | None:
        """Return local folder and progress of the undamaged checkpoint at so many examples, or at
        0 of the newest one."""
        at = name_of(examples)
        pick: _Pick = (lambda stored: at if at in stored else None) if examples else _newest
        return self._take(pick, "went on from {}", "none is left" if examples else "started anew")

    def last_milestone(self) -> SavedProgress | None:
        """Return the progress in the newest checkpoint of a milestone; its state is not checked."""
        return self._pick(_newest_milestone)

    def best_progress(self) -> SavedProgress | None:
        """Return the progress in the best checkpoint; its state is not checked."""
        return self._pick(_best)

    def faults(self) -> dict[str, str]:
        """Return name -> what is wrong, empty if nothing is, of each one; none is set aside."""
        stored, wrong = self._examined()
        found = {name: unusable.why for name, unusable in wrong.items()}
        for name, saved in stored.items():
            found[name] = damage(self._place.fetch(name), saved.files)
        return {name: found[name] for name in sorted(found, key=examples_of)}

    def drop_all(self) -> None:
        """Drop every checkpoint, damaged ones too. Other files stay."""
        self._written = None
        self._place.sweep(_is_checkpoint)
        self._place.leave()

    def keep_best_only(self) -> None:
        """Drop all but the best; where none was ever scored, all but the newest."""
        self._written = None
        stored = self._readable()
        kept = _best(stored) or _newest(stored)
        self._place.sweep(lambda name: name != kept and _is_checkpoint(name))

    def _names(self) -> set[str]:
        """Return the names of checkpoints, some of them written in part; drop what a kill left."""
        entries = self._place.entries(seconds=LOOK_SECONDS)
        for entry in entries:
            if entry.startswith(PARTIAL):
                self._place.drop(entry)
        return {entry for entry in entries if entry.startswith(CHECKPOINT)}

    def _examined(self) -> tuple[dict[str, SavedProgress], dict[str, _Unusable]]:
        """Return progress by name, oldest first, and of those that cannot be taken why not."""
        stored: dict[str, SavedProgress] = {}
        wrong: dict[str, _Unusable] = {}
        found = (name for name in self._place.whole() if name.startswith(CHECKPOINT))
        for name in sorted(found, key=examples_of):
            try:
                saved = _from_json(self._place.read(name))
            except FileNotFoundError:
                if self._place.has(name):  # else its writer has dropped it meanwhile
                    wrong[name] = _Unusable(f"was damaged ({PROGRESS_FILE} is missing)")
                continue
            except (ValueError, TypeError):
                wrong[name] = _Unusable(f"was damaged (checksum of {PROGRESS_FILE})")
                continue
            if 0 < self.generation < saved.generation:
                raise Overtaken(
                    f"start {saved.generation} of the study has written {name} into "
                    f"{self.directory}; this is start {self.generation}, which ends"
                )
            if self.identity and (other := other_run(saved.identity, self.identity)):
                wrong[name] = _Unusable(f"is of another run ({other})", FOREIGN)
            else:
                stored[name] = saved
        return stored, wrong

    def _readable(self) -> dict[str, SavedProgress]:
        """Return name -> progress, oldest first; those of other runs are set aside."""
        stored, wrong = self._examined()
        foreign = {name: found for name, found in wrong.items() if found.prefix == FOREIGN}
        self._set_aside(foreign, "it was set aside")
        return stored

    def _pick(self, pick: _Pick) -> SavedProgress | None:
        stored = self._readable()
        name = pick(stored)
        return stored[name] if name is not None else None

    def _take(self, pick: _Pick, instead: str, nothing: str) -> tuple[Path, SavedProgress] | None:
        """Return the one that ``pick`` chooses among those that are as they were written."""
        stored, wrong = self._examined()
        while (name := pick(stored)) is not None:
            folder = self._place.fetch(name)
            what = "" if name in self._sound else damage(folder, stored[name].files)
            if not what:
                break
            wrong[name] = _Unusable(f"was damaged ({what})")
            del stored[name]
        self._set_aside(wrong, nothing if name is None else instead.format(name))
        if name is None:
            return None
        self._sound.add(name)
        return folder, stored[name]

    def _set_aside(self, wrong: Mapping[str, _Unusable], then: str) -> None:
        """Rename what cannot be taken; the newest of them is kept, for a look at it."""
        for name, found in sorted(wrong.items(), key=lambda item: examples_of(item[0])):
            for earlier in self._place.entries():
                if earlier.startswith(_ASIDE):
                    self._place.drop(earlier)
            self._written = None
            if self._place.set_aside(name, found.prefix):
                self._sound.discard(name)
                self.notes.append(f"checkpoint {name} {found.why}; {then}")
                logger.warning("%s: %s", without_credentials(self.directory), self.notes[-1])


_ASIDE = (DAMAGED + CHECKPOINT, FOREIGN + CHECKPOINT)


def _is_checkpoint(name: str) -> bool:
    """Whole, half or set aside; other files in a trial's folder are not ours to drop."""
    return name.startswith((CHECKPOINT, PARTIAL, *_ASIDE))


_Pick = Callable[[Mapping[str, SavedProgress]], str | None]
"""Of the checkpoints by name, oldest first, the one that is wanted."""


def _newest(stored: Mapping[str, SavedProgress]) -> str | None:
    return max(stored, key=examples_of, default=None)


def _newest_milestone(stored: Mapping[str, SavedProgress]) -> str | None:
    return _newest({name: saved for name, saved in stored.items() if saved.milestone})


def _best(stored: Mapping[str, SavedProgress]) -> str | None:
    scores = {name: saved.score for name, saved in stored.items() if saved.score is not None}
    return max(sorted(scores, key=examples_of), key=scores.__getitem__, default=None)


def _from_json(text: bytes) -> SavedProgress:
    """Return a saved progress; ``ValueError`` or ``TypeError`` if it was not written so."""
    content = json.loads(text)
    if "files" in content and content.pop("checksum", None) != document_checksum(content):
        raise ValueError("checksum")  # without ``files`` it was written before there were any
    return SavedProgress(**content)
