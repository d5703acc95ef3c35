"""Shares of the studies on one cluster: by weight, each in the resource that it needs most.

Dominant resource fairness (Ghodsi et al., NSDI 2011): the next run goes to the study whose share,
divided by its weight, is the smallest, a share being that of the resource of which the study holds
the largest part. What one study cannot use, the others get. Runs are not interrupted: a study that
holds more than its share gives the places of runs that end to others.

Each driver writes its claim into the cluster's own key-value store about once a second, reads those
of the others and computes all shares by itself: no driver is in charge, and one that is killed is
forgotten after ``FORGOTTEN`` seconds.
"""

from __future__ import annotations

import heapq
import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import ray

from sentune.beats import repeated
from sentune.launchers.ray_internals import ClusterStore
from sentune.study.planning.capacity import Capacity

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks at the others."""

FORGOTTEN = 15.0
"""Seconds without a sign of a study after which it is taken for dead."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Resources that a study would like to use at a time.

    Attributes:
        study: its name.
        cpus, gpus: of a run.
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
        """Return the largest part of one of the resources that so many runs hold."""
        return runs * max(self.cpus / cpus if cpus else 0.0, self.gpus / gpus if gpus else 0.0)


class Sharing:
    """Limit on the runs at a time of a study beside the others on its cluster.

    Args:
        claim: of this study, for as many runs as it could ever use at a time.
        capacity: the cluster; its share is one of all that it can grow to.
        store: where the claims are.

    Attributes:
        most: runs at a time that this study could ever use.
        allowed: runs at a time, as of the last look.
        live, wanted: runs that are, and that could be, at work; set by the trial runner.
    """

    def __init__(self, claim: Claim, capacity: Capacity, store: ClusterStore) -> None:
        self.most = self.allowed = self.wanted = claim.wanted
        self.live = 0
        self._claim, self._store = claim, store
        self._cpus = sum(node.cpus for node in capacity.reachable)
        self._gpus = sum(node.gpus for node in capacity.reachable)
        self._key = f"claim/{uuid.uuid4().hex}"  # other versions look for keys that begin so
        self._beats, self._looked = 0, time.monotonic()
        self._signs: dict[str, tuple[str, float]] = {}
        self._known: set[str] = set()
        self._ignored = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look once a second in a thread of its own: trials never wait for it."""

        def look() -> None:
            try:
                self.look()
            except (ray.exceptions.RayError, OSError) as error:
                logger.warning("other studies on this cluster cannot be seen for now: %s", error)

        self.look()
        try:
            with repeated(look, EVERY, "sharing"):
                yield
        finally:
            try:
                self._store.remove(self._key)
            except (ray.exceptions.RayError, OSError) as error:
                logger.warning("others will hold places free for %g s more: %s", FORGOTTEN, error)

    def look(self) -> None:
        """Write what this study wants, and compute what it gets."""
        now = time.monotonic()
        used = self._claim.share(self.live, self._cpus, self._gpus) * (now - self._looked)
        self._claim = replace(self._claim, wanted=self.wanted, used=self._claim.used + used)
        self._looked, self._beats = now, self._beats + 1
        self._store.write(self._key, json.dumps({**asdict(self._claim), "beats": self._beats}))
        claims = {self._key: self._claim, **self._others(now)}
        order = sorted(claims)  # the same in each driver
        shares = fair_shares([claims[key] for key in order], self._cpus, self._gpus)
        self.allowed = shares[order.index(self._key)]
        others = {claim.study for key, claim in claims.items() if key != self._key}
        if others - self._known:
            shared = "the cluster is shared with %s: %d of %d runs at a time for now"
            logger.warning(shared, ", ".join(sorted(others)), self.allowed, self.wanted)
        self._known |= others

    def _others(self, now: float) -> dict[str, Claim]:
        """Return claims of the studies that have given a sign lately."""
        found: dict[str, Claim] = {}
        for key, text in self._store.read().items():
            if key == self._key:
                continue
            before, at = self._signs.get(key, ("", now))
            at = at if text == before else now
            self._signs[key] = (text, at)
            if now - at <= FORGOTTEN:
                if (claim := self._read(text)) is not None:
                    found[key] = claim
            elif now - at > 10 * FORGOTTEN:  # long after each driver has forgotten it
                self._store.remove(key)
                del self._signs[key]
        return found

    def _read(self, text: str) -> Claim | None:
        """Return a claim; None, and a warning once, where another version wrote it."""
        try:
            fields = json.loads(text)
            numbers = {name: float(fields[name]) for name in ("cpus", "gpus", "weight", "used")}
            claim = Claim(study=str(fields["study"]), wanted=int(fields["wanted"]), **numbers)
            if claim.weight <= 0:
                raise ValueError(f"weight {claim.weight}")
            return claim
        except (ValueError, TypeError, KeyError) as error:
            if not self._ignored:
                what = "a study of another version is on this cluster; its claim is ignored"
                logger.warning("%s (%s: %s)", what, type(error).__name__, error)
            self._ignored = True
            return None


def fair_shares(claims: Sequence[Claim], cpus: float, gpus: float) -> list[int]:
    """Return the runs at a time of each claim, on a cluster of so many CPUs and GPUs."""
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
