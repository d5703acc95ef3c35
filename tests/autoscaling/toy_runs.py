"""A toy study that runs on a growing cluster, as a test sees it from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.autoscaling.growing import Growing
from tests.autoscaling.toy_study import NAME

SCRIPT = Path(__file__).with_name("toy_study.py")
PATIENCE = 240.0
"""Seconds for anything at all, on two cores that others use too."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a trial wrote: that it started, reached ``examples``, or ended; where and when."""

    event: str
    trial: str
    node: str
    at: float
    examples: int
    rank: int
    workers: int


class ToyRun:
    """One start of a study.

    Args:
        cluster: on which it runs.
        folder: where studies are kept.
        by_job: it is submitted with ``ray job submit``.
        hold: number of a trial, or ``all`` -> milestone at which it stands still.
        options: of StudyConfig.
    """

    def __init__(
        self, cluster: Growing, folder: Path, *, hold: Mapping[str, int], by_job: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        self.folder = folder / NAME
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, milestone in hold.items():
            self.hold(name, milestone)
        words = [str(SCRIPT), str(folder), json.dumps(options)]
        self.submitted = time.time()
        self.driver = cluster.submit(*words) if by_job else cluster.start(*words)

    def hold(self, trial: str, milestone: int) -> None:
        """Lets a trial, or ``all``, go no further than to this milestone."""
        new = self.folder / f"new-{trial}"  # never seen half written
        new.write_text(str(milestone))
        new.rename(self.folder / f"hold-{trial}")

    def release(self, trial: str) -> None:
        """Lets a trial, or ``all``, go on to its end."""
        (self.folder / f"hold-{trial}").unlink()

    def log(self, event: str = "") -> list[Entry]:
        """What the trials wrote, in that order."""
        file = self.folder / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        entries = [Entry(**json.loads(line)) for line in lines]
        return [entry for entry in entries if event in ("", entry.event)]

    def wait(self, wanted: Callable[[], bool], seconds: float = PATIENCE) -> float:
        """Waits while the driver runs; returns when it was as wanted."""
        deadline = time.monotonic() + seconds
        while not wanted():
            assert self.driver.poll() is None, self.driver.communicate()[0]
            assert time.monotonic() < deadline, [(e.event, e.trial, e.examples) for e in self.log()]
            time.sleep(0.1)
        return time.time()

    def starts(self, trial: str) -> list[int]:
        """Examples at which each start of a trial began."""
        return [entry.examples for entry in self.log("start") if entry.trial == trial]

    def reached(self, trial: str) -> int:
        """Newest milestone of a trial."""
        return max((e.examples for e in self.log("work") if e.trial == trial), default=0)

    def running(self) -> dict[str, str]:
        """Trial at work -> its node."""
        at_work: dict[str, str] = {}
        for entry in self.log():
            if entry.event == "end":
                at_work.pop(entry.trial, None)
            else:
                at_work[entry.trial] = entry.node
        return at_work

    def end(self) -> dict[str, Any]:
        """Waits for the driver's end; how the study ended."""
        said, _ = self.driver.communicate(timeout=PATIENCE)
        assert self.driver.returncode == 0, said
        outcome: dict[str, Any] = json.loads((self.folder / "outcome").read_text())
        return outcome
