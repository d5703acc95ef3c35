"""A study's course as a small file: what its display saw each second, to be seen again in a test.

``python -m tests.job.recorded_study FILE METHOD OPTION...`` runs a study and records it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sentune.beats import Beat
from sentune.job.time_left import PlannedWork
from sentune.records import TrialRecord, TrialState
from sentune.study.space.objectives import Objective
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StoredRun, StudySnapshot

KEPT = ("train/seconds", "train/examples_per_second")
FOLDER = Path(__file__).parent / "recorded"


def frames(name: str) -> tuple[PlannedWork, list[tuple[float, StudySnapshot, dict[str, Beat]]]]:
    """What was ahead of a recorded study, and (seconds, snapshot, beats) of its course."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    chances = {int(at): share for at, share in recorded["ahead"].pop("chances").items()}
    return PlannedWork(**recorded["ahead"], chances=chances), list(_played(recorded["frames"]))


def _played(recorded: list[Any]) -> Iterator[tuple[float, StudySnapshot, dict[str, Beat]]]:
    runs: dict[str, StoredRun] = {}
    for seconds, changed, beats in recorded:
        runs |= {name: _run(*told) for name, told in changed.items()}
        search = tuple(run for run in runs.values() if run.seed is None)
        study = StudySnapshot(
            place=StudyPlace(name="recorded", folder="", url=""),
            objectives=(Objective("task/metric"),),
            runs=search,
            finals=tuple(run for run in runs.values() if run.seed is not None),
        )
        now = {
            name: Beat(phase=phase, examples=seen, rate=rate, done=done, total=total)
            for name, (phase, seen, rate, done, total) in beats.items()
        }
        yield seconds, study, now


def _run(trial: int, seed: int | None, state: str, lasted: float | None, curve: Any) -> StoredRun:
    times = {int(at): round(1000 * told[0]) for at, told in curve.items()}
    known = {int(at): dict(zip(KEPT, told[1:], strict=True)) for at, told in curve.items()}
    record = TrialRecord(
        id=trial, state=TrialState(state), settings={}, examples=max(known, default=0),
        seconds=max((metrics[KEPT[0]] for metrics in known.values()), default=0.0), curve=known,
    )  # fmt: skip
    ended = None if lasted is None else round(1000 * lasted)
    return StoredRun(trial=trial, seed=seed, record=record, ended=ended, times=times)


def _told(run: StoredRun) -> list[Any]:
    """A run as ``_run`` takes it."""
    curve = {
        at: [(run.times[at] - run.began) / 1000, *(round(metrics[name], 3) for name in KEPT)]
        for at, metrics in run.record.curve.items()
    }
    lasted = None if run.ended is None else (run.ended - run.began) / 1000
    return [run.trial, run.seed, run.record.state.value, lasted, curve]


def record(file: Path, arguments: list[str]) -> None:
    """Run a study, and write down what its display saw."""
    from sentune.cli import main
    from sentune.job import progress

    taken: list[Any] = []
    told: dict[str, Any] = {}
    ahead: dict[str, Any] = {}

    class Recorder(progress.Display):
        def look(self) -> None:
            super().look()
            frame(self)

        def refresh(self) -> None:
            super().refresh()
            frame(self)

    def frame(display: progress.Display) -> None:
        assert display.time_left is not None
        ahead.update(asdict(display.time_left.work))
        seen = {run.name: _told(run) for run in (*display._seen.runs, *display._seen.finals)}
        changed = {name: run for name, run in seen.items() if told.get(name) != run}
        told.update(changed)
        running = {run.name for run in display._running()}
        beats = {
            name: [beat.phase, beat.examples, round(beat.rate, 1), beat.done, beat.total]
            for name, beat in display._beats().items()
            if name in running
        }
        seconds = round(display._now() - display.started, 2)
        if changed or not taken or beats != taken[-1][2]:
            taken.append([seconds, changed, beats])

    progress.Display = Recorder  # type: ignore[misc]
    sys.argv = ["sentune", "tune", *arguments]
    try:
        main()
    finally:
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in taken)
        file.write_text(f'{{"ahead":{json.dumps(ahead)},\n"frames":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:])
