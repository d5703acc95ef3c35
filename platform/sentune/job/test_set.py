"""Records each reading of the test corpora before it happens, and refuses a second one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from sentune.credentials import without_credentials
from sentune.errors import StudyConflict
from sentune.io.atomic import write_document
from sentune.records import FinalistRecord, StudySummary, TrialRecord
from sentune.study.space.objectives import Objective, ranked
from sentune.study.store.study_index import TEST_READS, StudyPlace
from sentune.study.store.trial_codec import run_name


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The run whose model is exported.

    Attributes:
        run: name of the run, which identifies the winner.
        trial: number of its trial.
        seeds: of the finals that it won; empty without finals.
    """

    run: str
    trial: int
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, summary: StudySummary, run: str) -> Winner:
        """Return the winning finalist with its exported run; without finals the best trial."""
        best = best_run(summary)
        if isinstance(best, TrialRecord):  # ``run`` differs if the trial was trained again
            return cls(run=run_name(best.id), trial=best.id)
        return cls(run=run, trial=best.trial, seeds=list(best.seeds))


def best_run(summary: StudySummary) -> FinalistRecord | TrialRecord:
    """Return the winning finalist, or the best trial without finals."""
    if summary.winner is not None:
        return summary.finalists[summary.winner]
    several = [Objective(**objective) for objective in summary.objectives]
    return ranked(summary.trials, several or [Objective(summary.objective, summary.mode)])[0]


class TestReads:
    """The readings of a study's test corpora, recorded in its folder, a path or URI."""

    __test__ = False  # the name looks like a test to pytest

    def __init__(self, storage: str) -> None:
        self._storage, self._force = storage, False
        self.known = StudyPlace(name="", folder=storage, url="").test_reads()

    def begin(self, winner: Winner, specs: Sequence[str], *, force: bool) -> None:
        """Record that the test corpora are about to be read to measure a winner's model.

        A reading that was killed may be repeated for the same winner and the same corpora. With
        ``force`` any other second reading is allowed, too. ``specs`` are ``FORMAT:PATH`` of each
        corpus.

        Raises:
            StudyConflict: corpora were read before for another winner, or other corpora were read.
        """
        self._force, now = force, ""
        specs = without_credentials(list(specs))
        if counted := self._counted():
            if counted[0]["run"] != winner.run:
                now = f"now {winner.run} has won"
            elif [corpus["spec"] for corpus in counted[0]["test"]] != specs:
                now = f"now it is {', '.join(specs)}"
        if now and not force:
            raise StudyConflict(_refusal(self._storage, counted[0], now))
        time = datetime.now(UTC).isoformat(timespec="seconds")
        test = [{"spec": spec} for spec in specs]
        self.known.append({"time": time, **asdict(winner), "test": test, "forced": bool(now)})
        self._write()

    def identify(self, fingerprints: Sequence[str]) -> None:
        """Record the corpora's fingerprints, in the order of ``begin``, before measuring.

        Raises:
            StudyConflict: the content of the files has changed since the first reading.
        """
        entry = self.known.pop()
        test = [{**c, "fingerprint": f} for c, f in zip(entry["test"], fingerprints, strict=True)]
        earlier = [] if entry["forced"] else self._counted()
        known = [e for e in earlier if all("fingerprint" in corpus for corpus in e["test"])]
        changed = bool(known) and known[0]["test"] != test
        if not changed or self._force:
            self.known.append({**entry, "test": test, "forced": entry["forced"] or changed})
        self._write()
        if changed and not self._force:
            now = "the files have changed since"
            raise StudyConflict(_refusal(self._storage, known[0], now))

    def _counted(self) -> list[dict[str, Any]]:
        """Return the last forced reading and those after it, with which a new one must agree."""
        forced = [place for place, entry in enumerate(self.known) if entry["forced"]]
        return self.known[forced[-1] if forced else 0 :]

    def _write(self) -> None:
        write_document(self._storage, TEST_READS, json.dumps(self.known, indent=1) + "\n")


def _refusal(storage: str, first: Mapping[str, Any], now: str) -> str:
    specs = ", ".join(corpus["spec"] for corpus in first["test"])
    when = datetime.fromisoformat(first["time"]).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{storage}: the test corpora ({specs}) were read on {when} for {first['run']}, and {now}. "
        "A second reading would select on them: start another study, or give --force-test, "
        "which is recorded in summary.json"
    )
