"""How the studies on one cluster share it: by weight, each in the resource that it needs most.

Dominant resource fairness (Ghodsi et al., NSDI 2011): the next run goes to the study whose share,
divided by its weight, is the smallest, a share being that of the resource of which the study holds
the largest part. What one study cannot use, the others get. Runs are not interrupted: a study that
holds more than its share gives the places of runs that end to others.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a study would like to run at a time.

    Attributes:
        study: its name.
        cpus: CPUs of a run.
        gpus: GPUs of a run.
        wanted: runs that it could use at a time.
        weight: of this study; twice the weight, twice the share.
        used: seconds times share of the cluster so far; of equals the one with less comes first.
    """

    study: str
    cpus: float
    gpus: float
    wanted: int
    weight: float = 1.0
    used: float = 0.0

    def share(self, runs: float, cpus: float, gpus: float) -> float:
        """Largest part of one of the resources that so many runs hold."""
        return runs * max(
            self.cpus / cpus if cpus else 0.0,
            self.gpus / gpus if gpus else 0.0,
        )


def fair_shares(claims: Sequence[Claim], cpus: float, gpus: float) -> list[int]:
    """Runs at a time of each claim, in the order of the claims.

    Args:
        claims: of all studies.
        cpus: of the whole cluster.
        gpus: of the whole cluster.
    """
    given = [0] * len(claims)
    free_cpus, free_gpus = cpus + 1e-9, gpus + 1e-9  # three thirds of a GPU are one
    queue = [(0.0, claim.used / claim.weight, place) for place, claim in enumerate(claims)]
    heapq.heapify(queue)
    while queue:
        _, used, place = heapq.heappop(queue)
        claim = claims[place]
        if given[place] >= claim.wanted or claim.cpus > free_cpus or claim.gpus > free_gpus:
            continue
        given[place] += 1
        free_cpus, free_gpus = free_cpus - claim.cpus, free_gpus - claim.gpus
        share = claim.share(given[place], cpus, gpus) / claim.weight
        heapq.heappush(queue, (share, used, place))
    return given
