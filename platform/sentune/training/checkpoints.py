"""Checkpoints of one trial in a local folder or an object store.

A checkpoint is a folder such as ``examples_000012800`` with the state that ``Progress.save`` wrote.
``progress.json``, written last, contains the checksums of the other files; a folder without it is
not a checkpoint. Checkpoints are ordered by number, because names get longer from 10^9 examples on.

The best, the newest and the newest milestone's checkpoints are kept. Checkpoints between milestones
serve only to resume. A checkpoint that is damaged or of another run is renamed, and the previous
one is used.
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
from sentune.io.checksums import damage, document_checksum
from sentune.io.folders import write_manifest
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
"""Prefix of the name of a checkpoint's folder, before the number of examples."""

LOOK_SECONDS = 10.0
"""Maximum age of the listing used by ``save`` to notice other processes' checkpoints. Ray restarts
the trial of a disconnected machine elsewhere after about 30 s."""


@dataclass(kw_only=True)
class SavedProgress(Measured):
    """The content of ``progress.json``.

    Attributes:
        score: objective, higher is better; None between milestones, which are never the best.
        generation: number of the study's start that requested the run.
        identity: identity of the run, see ``identity_of``.
        files: file name -> size and checksum.
    """

    score: float | None
    generation: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def again(self, save: Callable[[Path], None]) -> Progress:
        """Return the progress as it was reported, with a function that saves its state."""
        return Progress(**self.measured(), save=save)

    @property
    def bytes(self) -> int:
        """The size of the state in bytes, without ``progress.json``."""
        return sum(file["bytes"] for file in self.files.values())


class _Unusable(NamedTuple):
    """The reason why a checkpoint cannot be used, and the prefix that its folder gets."""

    why: str
    prefix: str = DAMAGED


def name_of(examples: int) -> str:
    """Return the name of the checkpoint's folder at a number of examples."""
    return f"{CHECKPOINT}{examples:09d}"


def examples_of(name: str) -> int:
    """Return the number of examples in a checkpoint's name, or -1 if it has none."""
    number = name.removeprefix(CHECKPOINT)
    return int(number) if number.isascii() and number.isdecimal() else -1


class CheckpointStore:
    """Saves and loads the checkpoints of a trial; one process may write and several may read.

    Reading and writing raise ``Overtaken`` if a later start of the study has written a checkpoint.

    Args:
        directory: local path or fsspec URI; created with the first checkpoint.
        generation: number of the study's start that this process belongs to; 0: no study.
        identity: identity of the run of this process; if empty, checkpoints are not compared.

    Attributes:
        notes: one sentence for each checkpoint that could not be used: the reason, and what was
            used instead.
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
        """Return the store of the checkpoints of a training run."""
        return cls(spec.directory, spec.generation, spec.identity)

    def save(self, progress: Progress, score: float | None) -> None:
        """Write a checkpoint atomically, then delete those that are no longer needed.

        Args:
            score: objective at this milestone, higher is better; None: never the best. It is
                ignored between milestones.

        Raises:
            StorageError: the disk is full, read-only or faulty; older checkpoints are unchanged.
        """
        name, there = name_of(progress.examples), self._names()
        # read once, because a store is slow, and again if another process has written, such as one
        # on a disconnected machine whose trial was restarted here
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
                )
                content = json.loads(json.dumps(vars(saved)))
                saved.files = write_manifest(folder / PROGRESS_FILE, content)["files"]
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
        """Return folder and progress of the newest undamaged checkpoint, or of one at ``examples``.

        A checkpoint that cannot be used is renamed and noted.
        """
        at = name_of(examples)
        pick: _Pick = (lambda stored: at if at in stored else None) if examples else _newest
        return self._take(pick, "went on from {}", "none is left" if examples else "started anew")

    def last_milestone(self) -> SavedProgress | None:
        """Return the progress of the newest milestone's checkpoint, without checking its state."""
        return self._pick(_newest_milestone)

    def best_progress(self) -> SavedProgress | None:
        """Return the progress of the best checkpoint, without checking its state."""
        return self._pick(_best)

    def faults(self) -> dict[str, str]:
        """Return name -> fault of every checkpoint, empty if it is sound, without renaming any."""
        stored, wrong = self._examined()
        found = {name: unusable.why for name, unusable in wrong.items()}
        found |= {name: damage(self._place.fetch(name), was.files) for name, was in stored.items()}
        return {name: found[name] for name in sorted(found, key=examples_of)}

    def drop_all(self) -> None:
        """Delete all checkpoints, including damaged ones, but no other files."""
        self._written = None
        self._place.sweep(_is_checkpoint)
        self._place.leave()

    def keep_best_only(self) -> None:
        """Delete all checkpoints but the best, or but the newest if none has a score."""
        self._written = None
        stored = self._readable()
        kept = _best(stored) or _newest(stored)
        self._place.sweep(lambda name: name != kept and _is_checkpoint(name))

    def _names(self) -> set[str]:
        """Return the names of checkpoints, complete or not, after deleting partial folders."""
        entries = self._place.entries(seconds=LOOK_SECONDS)
        for entry in entries:
            if entry.startswith(PARTIAL):
                self._place.drop(entry)
        return {entry for entry in entries if entry.startswith(CHECKPOINT)}

    def _examined(self) -> tuple[dict[str, SavedProgress], dict[str, _Unusable]]:
        """Return the usable checkpoints by name, oldest first, and the faults of the others."""
        stored: dict[str, SavedProgress] = {}
        wrong: dict[str, _Unusable] = {}
        found = (name for name in self._place.whole() if name.startswith(CHECKPOINT))
        for name in sorted(found, key=examples_of):
            try:
                saved = _from_json(self._place.read(name))
            except FileNotFoundError:
                if self._place.has(name):  # else its writer has deleted it meanwhile
                    wrong[name] = _Unusable(f"was damaged ({PROGRESS_FILE} is missing)")
                continue
            except (ValueError, TypeError):
                wrong[name] = _Unusable(f"was damaged (checksum of {PROGRESS_FILE})")
                continue
            if 0 < self.generation < saved.generation:
                raise Overtaken(
                    f"start {saved.generation} of the study has written {name} into "
                    f"{self.directory}; this process belongs to start {self.generation} and ends"
                )
            if self.identity and (other := other_run(saved.identity, self.identity)):
                wrong[name] = _Unusable(f"is of another run ({other})", FOREIGN)
            else:
                stored[name] = saved
        return stored, wrong

    def _readable(self) -> dict[str, SavedProgress]:
        """Return the usable checkpoints by name, oldest first, after renaming other runs'."""
        stored, wrong = self._examined()
        foreign = {name: found for name, found in wrong.items() if found.prefix == FOREIGN}
        self._set_aside(foreign, "it was set aside")
        return stored

    def _pick(self, pick: _Pick) -> SavedProgress | None:
        stored = self._readable()
        name = pick(stored)
        return stored[name] if name is not None else None

    def _take(self, pick: _Pick, instead: str, nothing: str) -> tuple[Path, SavedProgress] | None:
        """Return the undamaged checkpoint that ``pick`` chooses; note and rename unusable ones.

        Args:
            instead: end of the note if there is one, with ``{}`` for its name.
            nothing: end of the note if there is none.
        """
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
        """Rename unusable checkpoints; only the newest is kept, for inspection."""
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
    """Return whether an entry is a checkpoint, whether complete, partial or set aside."""
    return name.startswith((CHECKPOINT, PARTIAL, *_ASIDE))


_Pick = Callable[[Mapping[str, SavedProgress]], str | None]
"""Function from the checkpoints by name, oldest first, to the name of the chosen one."""


def _newest(stored: Mapping[str, SavedProgress]) -> str | None:
    return max(stored, key=examples_of, default=None)


def _newest_milestone(stored: Mapping[str, SavedProgress]) -> str | None:
    return _newest({name: saved for name, saved in stored.items() if saved.milestone})


def _best(stored: Mapping[str, SavedProgress]) -> str | None:
    scores = {name: saved.score for name, saved in stored.items() if saved.score is not None}
    return max(sorted(scores, key=examples_of), key=scores.__getitem__, default=None)


def _from_json(text: bytes) -> SavedProgress:
    """Parse ``progress.json``; raise ``ValueError`` or ``TypeError`` if it is damaged."""
    content = json.loads(text)
    # earlier versions wrote neither ``files`` nor a checksum
    if "files" in content and content.pop("checksum", None) != document_checksum(content):
        raise ValueError("checksum")
    return SavedProgress(**content)
