"""What tests and benchmarks of studies share: a small cluster, trials without corpora, claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from sentune.code import runtime_env
from sentune.training.trial import TrialSpec

OBJECTIVE = "toy/score"


@contextmanager
def cluster_of_two_cpus(**options: Any) -> Iterator[None]:
    """A cluster of its own in this process, whose workers have this code."""
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=runtime_env(),
        **options,
    )
    try:
        yield
    finally:
        ray.shutdown()


def toy_spec(
    settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...], **changes: Any
) -> TrialSpec:
    """A trial as ``Study`` asks for it, of a program that reads no corpus."""
    given = {
        "trial": name,
        "method": "toy",
        "settings": settings,
        "encoder": "",
        "corpus": None,
        "dev": None,
        "max_examples": milestones[-1],
        "milestones": milestones,
        "objective": OBJECTIVE,
        "seed": seed,
    }
    return TrialSpec(**{**given, **changes})


class Wall(dict[str, str]):
    """A store of the claims of studies that share a cluster, in memory."""

    def write(self, key: str, text: str) -> None:
        self[key] = text

    def read(self) -> dict[str, str]:
        return dict(self)

    def remove(self, key: str) -> None:
        self.pop(key, None)
