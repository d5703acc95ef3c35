"""Read model of a study: a snapshot of its storage, lock and folder.

The live display, ``sentune study``, the report and MLflow all show a ``StudySnapshot``.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from sentune.errors import DamagedFile
from sentune.io.object_store import files_at, is_local
from sentune.records import FinalistRecord, Spent, TrialRecord, TrialState, with_ends
from sentune.study.space.objectives import Constraint, Objective, ranked, ranked_finalists
from sentune.study.store import trial_codec as codec
from sentune.study.store.driver_lock import Holder, standing
from sentune.study.store.driver_process import ProcessState
from sentune.study.store.storage import open_storage, stored_fingerprint, study_id
from sentune.study.store.study_index import FINALS, StudyPlace

GOES_ON = "its own command or `sentune study resume` continues it"
TABLES = "readouts.json"
"""File in a run's folder with the tables of its readout sweeps, at its best milestone."""

IDENTITY = "mlflow_identity"
"""Attribute of an Optuna study that distinguishes studies of one name on an MLflow server."""


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A stored training run, of the search or of the finals.

    Attributes:
        trial: number of the trial of the search, also in the finals.
        seed: seed of a run of the finals; None in the search.
        began, ended: Unix time in milliseconds; ``ended`` is None while it runs.
        times: milestone in examples -> Unix time in milliseconds.
        trace: as in ``sentune.training.trial.Progress``, up to the last milestone.
    """

    trial: int
    seed: int | None = None
    record: TrialRecord
    began: int = 0
    ended: int | None = None
    times: dict[int, int] = field(default_factory=dict)
    trace: tuple[tuple[float, float, float, float], ...] = ()

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return codec.run_name(self.trial, self.seed)


@dataclass(frozen=True, kw_only=True)
class StudySnapshot:
    """A study at one moment; immutable.

    Attributes:
        state: ``running``; ``suspended`` if its driver is stopped by a signal; ``silent`` if a
            driver on another machine has sent no beat for too long; ``complete``, ``stopped``,
            ``interrupted`` or ``failed`` after its last start ended; ``new`` before its first
            trial; ``unknown`` if only its database is known and no driver runs.
        reason: explanation of the state, or of a damaged file; may be empty.
        hours: wall time in which a driver ran it.
        varied: names of the searched settings.
        runs: runs of the search by number, including those taken over from other studies.
        finals: runs of the finals; the last one of each trial and seed.
        written: content of the last ``summary.json``; empty before the first end.
        test_reads: content of ``test_reads.json``.
        tables: names of the runs with a ``readouts.json`` in their folder.
        identity: identity of the study on MLflow servers; empty if it has none yet.
        fingerprint: inputs that all trials share, such as corpora and code; empty before the
            first trial.
    """

    place: StudyPlace
    state: str = "running"
    reason: str = ""
    holder: Holder | None = None
    hours: float = 0.0
    objectives: tuple[Objective, ...]
    varied: tuple[str, ...] = ()
    runs: tuple[StoredRun, ...] = ()
    finals: tuple[StoredRun, ...] = ()
    written: dict[str, Any] = field(default_factory=dict)
    test_reads: list[dict[str, Any]] = field(default_factory=list)
    tables: frozenset[str] = frozenset()
    identity: str = ""
    fingerprint: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def alive(self) -> bool:
        """Return whether a process drives the study."""
        return self.state == "running"

    @property
    def objective(self) -> Objective:
        """First objective, which ranks the trials."""
        return self.objectives[0]

    @property
    def planned(self) -> int | None:
        """Number of trials that the user asked for; None if only the database is known."""
        options = self.place.description.get("options", {})
        if options.get("population"):
            return int(options["population"] * options["generations"])
        found: int | None = options.get("trials")
        return found

    @cached_property
    def trials(self) -> list[TrialRecord]:
        """Records of all trials, including those of other studies."""
        return [run.record for run in self.runs]

    @cached_property
    def ends(self) -> list[TrialRecord]:
        """Trials by number; a trial that was stopped and continued appears once."""
        return with_ends(self.trials)

    @cached_property
    def counts(self) -> dict[TrialState, int]:
        """State -> number of the study's own trials, continued ones counted once."""
        return Counter(trial.state for trial in self.ends if not trial.source)

    @property
    def started(self) -> int:
        """Number of the study's own trials."""
        return sum(self.counts.values())

    @property
    def taken_over(self) -> int:
        """Number of trials that were taken over from other studies."""
        return sum(bool(trial.source) for trial in self.trials)

    @property
    def ended(self) -> int:
        """Number of the study's own trials that have ended."""
        return self.started - self.counts.get(TrialState.RUNNING, 0)

    @cached_property
    def ranked(self) -> list[TrialRecord]:
        """Complete trials that meet every constraint, best first, the earlier among equals."""
        measured = [trial for trial in self.trials if self.objective.metric in trial.metrics]
        return ranked(measured, [self.objective])

    @property
    def best(self) -> TrialRecord | None:
        """First of ``ranked``; None if it is empty."""
        return self.ranked[0] if self.ranked else None

    @property
    def leading(self) -> TrialRecord | None:
        """Feasible trial with the best finite objective so far, complete or not."""
        metric = self.objective.metric
        every = (*self.ends, *self.trials)  # a continued one has its parents' best, too
        scored = [t for t in every if math.isfinite(t.metrics.get(metric, math.nan))]
        able = (t for t in scored if t.feasible and not t.on_part)
        return max(able, key=lambda trial: self.objective.of(trial.metrics), default=None)

    @cached_property
    def spent(self) -> Spent:
        """Resources that the study has used, without those of trials from other studies."""
        return Spent.of(self.trials, (run.record for run in self.finals), self.hours)

    @cached_property
    def finalists(self) -> list[FinalistRecord]:
        """Finalists with the runs that are complete so far, the leading one first."""
        found: dict[int, dict[int, TrialRecord]] = defaultdict(dict)
        for run in self.finals:
            if run.seed is not None and run.record.state is TrialState.COMPLETE:
                found[run.trial][run.seed] = run.record
        finalists = []
        for trial, of in found.items():
            runs = dict(sorted(of.items()))
            best = max(runs.values(), key=lambda run: self.objective.of(run.metrics))
            known: dict[str, Any] = {"settings": best.settings, "readouts": best.readouts}
            finalists.append(FinalistRecord.of(runs, trial=trial, **known))
        return ranked_finalists(finalists, self.objective, self.constraints)

    @property
    def constraints(self) -> list[Constraint]:
        """Constraints on metrics of the complete trials."""
        return [*map(Constraint.parse, self.fingerprint.get("constraints", []))]

    def shown(self, at_most: int) -> list[TrialRecord]:
        """Return at most so many trials by number, chosen from the running, best and latest."""
        if len(self.ends) <= at_most:
            return self.ends
        running = [t.id for t in self.ends if t.state is TrialState.RUNNING]
        best = [t.id for t in self.ranked[: at_most // 3]]
        latest = [t.id for t in reversed(self.ends) if not t.source][:at_most]
        chosen = set(list(dict.fromkeys([*running, *best, *latest]))[:at_most])
        return [trial for trial in self.ends if trial.id in chosen]


class StudyView:
    """Takes snapshots of one study, without writing. A run is read again only when it changes.

    Threads may share a view.

    Args:
        storage: the study's storage if it is open already.
    """

    def __init__(self, place: StudyPlace, storage: BaseStorage | None = None) -> None:
        self.place = place
        self.storage = storage or (open_storage(place.url) if place.url else None)
        self._tables: set[str] | None = None
        self._read: dict[int, dict[int, tuple[FrozenTrial, StoredRun | None]]] = defaultdict(dict)
        self._lock = threading.RLock()

    def snapshot(self, *, driven: bool = False) -> StudySnapshot:
        """Return a snapshot of the study.

        Args:
            driven: whether this process drives it; then the lock, the hours and the documents in
                the folder are not read.
        """
        with self._lock:
            name = self.place.name
            search, finals = study_id(self.storage, name), study_id(self.storage, name + FINALS)
            attributes: dict[str, Any] = {}
            if self.storage and search is not None:
                attributes = self.storage.get_study_user_attrs(search)
            fingerprint = stored_fingerprint(attributes) or {}
            space = fingerprint.get("space") or self.place.description.get("space") or {}
            first = Objective(space.get("objective", ""), space.get("mode", "max"))
            others = (Objective(**other) for other in fingerprint.get("objectives", []))
            runs, again = self._runs(search, first), self._runs(finals, first)
            return StudySnapshot(
                place=self.place,
                objectives=(first, *others),
                varied=tuple(space.get("settings", {})),
                runs=runs,
                finals=tuple({(run.trial, run.seed): run for run in again}.values()),
                tables=frozenset(self.with_tables()),
                identity=attributes.get(IDENTITY, ""),
                fingerprint=fingerprint,
                **({} if driven else self._of_folder(len(runs))),
            )

    def with_tables(self) -> set[str]:
        """Return names of the runs with a ``readouts.json``; their writer adds to this set."""
        with self._lock:
            if self._tables is None:
                found: Iterable[object] = ()
                if self.place.folder:
                    files, root = files_at(self.place.folder)
                    pattern = f"trials/*/{TABLES}"
                    local = is_local(files)
                    found = Path(root).glob(pattern) if local else files.glob(f"{root}/{pattern}")
                self._tables = {str(path).split("/")[-2] for path in found}
            return self._tables

    def _of_folder(self, trials: int) -> dict[str, Any]:
        """Return the snapshot's fields that come from the lock and the documents in the folder.

        The lock's holder determines the state; without one, the last ``summary.json`` does.
        """
        written, trouble = self.place.read_summary()
        held = standing(self.place.url, self.place.name)
        state, reason = written.get("state", ""), written.get("reason", "")
        if held.holder is not None:
            state, reason = _driven(held.holder)
        elif not self.place.folder and trials:
            state, reason = "unknown", "its folder has its end; give its --storage, too"
        elif state in ("", "running") or self._started_since(written):
            state, reason = ("interrupted", GOES_ON) if trials else ("new", "")
        try:
            reads = self.place.test_reads()
        except DamagedFile as error:
            reads, trouble = [], trouble or str(error)
        return {
            "state": state,
            "reason": self.place.trouble or trouble or reason,
            "holder": held.holder,
            "hours": held.hours,
            "written": written,
            "test_reads": reads,
        }

    def _started_since(self, written: Mapping[str, Any]) -> bool:
        """Return whether a start later than the one of this summary has ended without its own."""
        known = written.get("lineage", {}).get("generation")
        return known is not None and self.place.description.get("generation", 0) > known

    def _runs(self, study: int | None, objective: Objective) -> tuple[StoredRun, ...]:
        if self.storage is None or study is None:
            return ()
        known, found = self._read[study], []
        for trial in self.storage.get_all_trials(study, deepcopy=False):
            before, run = known.get(trial.number, (None, None))
            # a changed trial is another object; a database may give another one every time
            if before is not trial and not (before and before.state.is_finished()):
                try:
                    run = _stored(trial, objective)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    why = f"trial {trial.number} cannot be read ({error!r})"
                    raise DamagedFile(self.place.url, why, "restore it from a copy") from error
                known[trial.number] = trial, run
            if run is not None:
                found.append(run)
        return tuple(found)


def _driven(holder: Holder) -> tuple[str, str]:
    """Return state and reason of a study whose lock has a holder."""
    if holder.gone:
        return "interrupted", f"its driver died ({holder.driver}); {GOES_ON}"
    if holder.state is ProcessState.UNKNOWN:
        return "silent", f"no beat of its driver for {holder.quiet:.0f} s ({holder.driver})"
    if holder.state is ProcessState.SUSPENDED:
        return "suspended", f"continue or kill its driver ({holder.driver})"
    return "running", {"": "", "stop": "asked to stop"}.get(holder.signal, "asked to stop now")


def _stored(trial: FrozenTrial, objective: Objective) -> StoredRun | None:
    """Return the run of a trial; None if it waits or is a copy of another trial of its study."""
    if not codec.known(trial):
        return None
    attributes = trial.user_attrs
    # Optuna's times are naive local times
    moments = (trial.datetime_start, trial.datetime_complete)
    began, ended = (round(1000 * at.timestamp()) if at is not None else 0 for at in moments)
    first, curve = began or ended, codec.milestones(trial)
    return StoredRun(
        trial=attributes.get(codec.TRIAL, trial.number),
        seed=attributes[codec.SEED] if codec.TRIAL in attributes else None,
        record=codec.record_of(trial, objective),
        began=first,
        ended=(ended or first) if trial.state.is_finished() else None,
        times={
            at: round(1000 * point[codec.TIME]) if codec.TIME in point else ended or first
            for at, point in curve.items()
        },
        trace=tuple(tuple(at) for point in curve.values() for at in point.get(codec.TRACE, ())),
    )
