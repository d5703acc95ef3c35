"""The judge: trials on a Ray Train group ask it at each milestone and leave by themselves.

A STOP from Tune on such a trial leaves its placement group and all its CPUs taken for as long as
the study runs (5 times in 5 on Ray 2.60, ray#54305).
"""

from __future__ import annotations

import asyncio
from typing import Any

import ray


class JudgeActor:
    """Keeps verdicts until they are asked for, and makes whoever asks early wait."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, int], asyncio.Future[bool]] = {}
        self._obituaries: dict[str, dict[str, Any]] = {}

    def _future(self, trial: str, examples: int) -> asyncio.Future[bool]:
        made = asyncio.get_running_loop().create_future
        if (trial, examples) not in self._verdicts:
            self._verdicts[trial, examples] = made()
        return self._verdicts[trial, examples]

    async def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """The driver has heard of this milestone; the first verdict stands."""
        future = self._future(trial, examples)
        if not future.done():
            future.set_result(goes_on)

    async def verdict(self, trial: str, examples: int) -> bool:
        """Whether the trial goes on; returns once the driver has heard of the milestone."""
        return await self._future(trial, examples)

    async def bury(self, trial: str, result: dict[str, Any]) -> None:
        """A worker has met an error that would come again; the first one stands."""
        self._obituaries.setdefault(trial, result)

    async def obituary(self, trial: str) -> dict[str, Any] | None:
        """The error that a worker of this trial has met, as a result."""
        return self._obituaries.get(trial)


class RemoteJudge:
    """The judge as the driver speaks to it; its actor takes no CPU and ends with the driver."""

    def __init__(self) -> None:
        self.actor = ray.remote(num_cpus=0)(JudgeActor).remote()

    def put(self, trial: str, examples: int, goes_on: bool) -> None:
        """Passes a verdict on without waiting."""
        self.actor.put.remote(trial, examples, goes_on)
