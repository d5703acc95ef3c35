"""Retention of a study's checkpoints on disk.

Checkpoints of stopped trials fill disks (ray#4381, ray#30506) and are of no use: a trial's results
are in the store.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sentune.errors import DamagedFile
from sentune.io.atomic import StorageError, read_document, write_document
from sentune.io.object_store import files_at, names_in
from sentune.readouts.sweep import sweeps_among
from sentune.records import TrialRecord, TrialState, measured_by
from sentune.study import SCHEDULERS
from sentune.study.config import StudyConfig
from sentune.study.space.objectives import Objective, ranked
from sentune.study.store.driver_process import runs
from sentune.study.store.study_view import TABLES, StudyView
from sentune.study.store.trial_codec import run_name
from sentune.training.checkpoint_storage import DAMAGED, FOREIGN, PARTIAL, storage_of
from sentune.training.checkpoints import CHECKPOINT, CheckpointStore, examples_of, name_of

if TYPE_CHECKING:
    from sentune.study.runner.finals import Finals
    from sentune.study.store.trial_store import TrialStore

logger = logging.getLogger(__name__)

PUBLISHED = "published.json"
SCRATCH = "ray-train"
"""Folder of Ray Train's own snapshots in a study's folder; they are never restored."""

MANY = 20
"""Number of runs to tidy at once above which the folders are listed first."""


class Stays(StrEnum):
    """Which checkpoints of a run are kept."""

    ALL = "all"
    BEST = "best"
    NOTHING = "nothing"


def rule_of(
    trials: Sequence[TrialRecord],
    objectives: Sequence[Objective],
    keep: int,
    *,
    finals: Mapping[str, TrialRecord],
    winner: str | None,
    published: str | None,
    needed: Iterable[str],
    dropped: Collection[str] = (),
) -> dict[str, Stays]:
    """Return run -> which of its checkpoints are kept. Runs that are not listed are not touched.

    Args:
        trials: trials of the search, ranked by the objectives.
        keep: number of best trials whose best checkpoint is kept.
        finals: name -> run of the finals; all keep their best until the winner is published.
        winner: run whose model would be shipped now.
        published: run whose model is in the study's folder, even if another one has won since.
        needed: runs from whose checkpoints other runs may still continue.
        dropped: runs without checkpoints; they do not count among the ``keep`` best.
    """
    needed, known = {*needed}, {trial.id: trial for trial in trials}
    measured = {trial.id: measured_by(trial, known).id for trial in trials}

    def stays(run: TrialRecord, kept: bool) -> Stays:
        if run.state is TrialState.RUNNING:
            return Stays.ALL
        return Stays.BEST if kept else Stays.NOTHING

    there = [trial for trial in trials if run_name(measured[trial.id]) not in dropped]
    going = [t for t in trials if t.state is TrialState.RUNNING or run_name(t.id) in needed]
    best = {measured[trial.id] for trial in [*ranked(there, objectives)[:keep], *going]}
    over = winner is not None and published == winner
    return {
        **{run_name(trial.id): stays(trial, trial.id in best) for trial in trials},
        **{
            name: stays(run, run.state is TrialState.COMPLETE and (not over or name == winner))
            for name, run in finals.items()
        },
        **({published: Stays.BEST} if published is not None else {}),
        **dict.fromkeys(needed, Stays.ALL),
    }


class Retention:
    """Drops checkpoints that are not needed; safe at any time, also after a kill.

    Attributes:
        needed: returns names of runs from whose checkpoints other runs may still continue.
        finals: the finals; None, and their runs untouched, until they have begun.
    """

    def __init__(
        self, config: StudyConfig, search: TrialStore, needed: Callable[[], set[str]] = set
    ) -> None:
        self.config, self.search, self.needed = config, search, needed
        self.finals: Finals | None = None
        self._applied: dict[str, Stays] = {}
        self._published = published(config.folder)  # does not change during the search

    def apply(self, *, everything: bool = False) -> None:
        """Drop the checkpoints that ``rule`` does not keep.

        Args:
            everything: whether to check runs again that were tidied before, and which run is
                published.
        """
        if everything:
            self._applied.clear()
            self._published = published(self.config.folder)
        rule = self.rule().items()
        due = {
            run: stays for run, stays in rule if stays not in (Stays.ALL, self._applied.get(run))
        }
        if len(due) > MANY:  # start of a long study: most runs have no folder any more
            there = set(storage_of(self.config.runs_folder).entries())
            self._applied |= {name: stays for name, stays in due.items() if name not in there}
            due = {name: stays for name, stays in due.items() if name in there}
        for name, stays in due.items():
            store = CheckpointStore(self.config.directory(name))
            drop = store.keep_best_only if stays is Stays.BEST else store.drop_all
            try:
                drop()
            except OSError as error:  # such as a busy file system; the next call tries again
                logger.warning("%s: its checkpoints could not be dropped: %s", name, error)
            else:
                self._applied[name] = stays

    def keep_tables(self, view: StudyView, runs: Mapping[str, TrialRecord]) -> None:
        """Write ``readouts.json`` of those ``runs`` that have ended and have swept readouts.

        It must be called before the runs' checkpoints, which contain the sweeps, are dropped.
        """
        kept = view.with_tables()
        ended = {n: run for n, run in runs.items() if run.state is not TrialState.RUNNING}
        due = [name for name, run in ended.items() if run.readouts and name not in kept]
        if len(due) > 1:
            there = set(storage_of(self.config.runs_folder).entries())
            due = [name for name in due if name in there]
        for name in due:
            folder = self.config.directory(name)
            try:
                saved = CheckpointStore(folder).best_progress()
                if saved is not None and (tables := sweeps_among(saved.tables)):
                    write_document(folder, TABLES, json.dumps(tables))
                    kept.add(name)
            except StorageError as error:  # MLflow and the report then lack these figures
                logger.warning("%s: its readout tables could not be kept: %s", name, error)

    def rule(self) -> dict[str, Stays]:
        """Return run -> which of its checkpoints are kept; see ``rule_of``."""
        finals = self.finals
        return rule_of(
            self.search.records(),
            self.search.objectives,
            self.config.keep,
            finals=finals.runs() if finals is not None else {},
            winner=finals.winning_run() if finals is not None else None,
            published=self._published,
            needed=self.needed(),
            dropped={name for name, stays in self._applied.items() if stays is Stays.NOTHING},
        )


def note_published(folder: str, run: str) -> None:
    """Store the name of the run that the model in the study's folder came from."""
    write_document(folder, PUBLISHED, json.dumps({"run": run}) + "\n")


def published(folder: str) -> str | None:
    """Return the run that the model in the study's folder came from; None if there is none.

    Raises:
        DamagedFile: ``published.json`` is damaged.
    """
    text = read_document(folder, PUBLISHED)
    try:
        return str(json.loads(text)["run"]) if text is not None else None
    except (ValueError, KeyError, TypeError) as error:
        fix = "delete it and run the study's own command to rewrite it"
        raise DamagedFile(f"{folder}/{PUBLISHED}", f"it is damaged ({error})", fix) from None


@dataclass(frozen=True, kw_only=True)
class Removable:
    """A folder that may be deleted, with the reason and its size in bytes."""

    folder: str
    name: str
    why: str
    bytes: int

    def drop(self) -> None:
        """Delete it, and its parent folder if that is empty."""
        place = storage_of(self.folder)
        place.drop(self.name)
        place.leave()


SET_ASIDE = {PARTIAL: "written in part", DAMAGED: "damaged", FOREIGN: "of another run"}
"""Prefix of a folder's name -> why it may be deleted."""


def removable_of(view: StudyView) -> list[Removable]:
    """Return the removable folders of a study without a driver, by the rule of its driver.

    The published model's checkpoint and those of unfinished trials are kept.
    """
    (files, root), folder = files_at(view.place.folder), view.place.folder
    found: list[Removable] = []

    def add(run: str, name: str, why: str) -> None:
        size = int(files.du(f"{root}{run}/{name}"))
        found.append(Removable(folder=f"{folder}{run}", name=name, why=why, bytes=size))

    rule = _rule(view)
    for run in sorted(names_in(files, f"{root}/trials")):
        place = f"/trials/{run}"
        names = sorted(names_in(files, f"{root}{place}"))
        stored = {name for name in names if name.startswith(CHECKPOINT)}
        goes = stored - _kept(f"{folder}{place}", stored, rule.get(run, Stays.ALL))
        for name in names:
            why = next((why for prefix, why in SET_ASIDE.items() if name.startswith(prefix)), "")
            if name in goes:
                why = "checkpoints that the study does not keep"
            if why:
                add(place, name, why)
    if files.isdir(f"{root}/{SCRATCH}"):
        add("", SCRATCH, "scratch of Ray Train")
    return found


def _kept(folder: str, stored: set[str], stays: Stays) -> set[str]:
    """Return names of the checkpoints that a rule keeps, out of those stored in a folder."""
    if stays is not Stays.BEST or not stored:
        return stored if stays is Stays.ALL else set()
    best = CheckpointStore(folder).best_progress()
    return {max(stored, key=examples_of)} if best is None else stored & {name_of(best.examples)}


def _rule(view: StudyView) -> dict[str, Stays]:
    """Return run -> which of its checkpoints are kept; the published run counts as the winner."""
    options = view.place.description.get("options", {})
    complete = view.place.summary().get("state") == "complete"
    # with promotion and populations runs continue from other runs' checkpoints
    by_rungs = options.get("scheduler", "none") in {*SCHEDULERS} - {"asha-promotion"}
    by_rungs = by_rungs and not options.get("population")
    seen, run = view.snapshot(), published(view.place.folder)
    return rule_of(
        seen.trials,
        seen.objectives,
        options.get("keep", 3),
        finals={final.name: final.record for final in seen.finals},
        winner=run if complete else None,
        published=run,
        needed=() if complete or by_rungs else [run_name(trial.id) for trial in seen.trials],
    )


def abandoned_scratch(study: str | None = None) -> list[Path]:
    """Return temporary folders of Ray Tune that this user's killed drivers left on this machine.

    Args:
        study: name of the study whose folders are wanted; None for all.
    """
    found = Path(tempfile.gettempdir()).glob("sentune-tune-*")
    own = rf"{re.escape(study)}-[^-]*$" if study else ""
    owned = ((path, re.match(rf"sentune-tune-(\d+)-{own}", path.name)) for path in found)
    gone = (path for path, owner in owned if owner and not runs(int(owner[1])))
    return sorted(path for path in gone if path.exists() and path.stat().st_uid == os.geteuid())
