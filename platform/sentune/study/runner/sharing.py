"""Fair shares of a cluster's resources between its studies.

Dominant resource fairness (Ghodsi et al., NSDI 2011): the next run goes to the study with the
smallest share divided by weight, where a study's share is the largest of its shares of the CPUs and
of the GPUs. Resources that one study cannot use go to the others. Runs are not interrupted: when
a run of a study above its share ends, another study gets its place.

Each driver writes its claim into the cluster's key-value store about once a second, reads those of
the others and computes all shares itself. There is no central process. A claim without an update
for ``FORGOTTEN`` seconds does not count.
"""

from __future__ import annotations

import heapq
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import ray

from sentune.beats import repeated
from sentune.launchers.ray_internals import ClusterStore
from sentune.study.planning.capacity import Capacity

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two updates of the claims."""

FORGOTTEN = 15.0
"""Seconds without an update of its claim after which a study counts as dead."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Resources that a study would like to use at a time.

    Attributes:
        cpus, gpus: CPUs and GPUs of a run.
        wanted: runs that the study could use at a time.
        weight: weight of the study; twice the weight gives twice the share.
        used: share of the cluster times seconds so far; breaks ties in favour of the smaller one.
    """

    study: str
    cpus: float
    gpus: float
    wanted: int
    weight: float = 1.0
    used: float = 0.0

    def share(self, runs: float, cpus: float, gpus: float) -> float:
        """Return the dominant share of so many runs on a cluster of so many CPUs and GPUs."""
        return runs * max(self.cpus / cpus if cpus else 0.0, self.gpus / gpus if gpus else 0.0)


class Sharing:
    """Limits a study's runs at a time to its fair share of the cluster.

    Args:
        claim: claim of this study, for as many runs as it could ever use at a time.
        capacity: the cluster; shares refer to all nodes that it can grow to.
        store: key-value store of the claims.

    Attributes:
        most: runs at a time that this study could ever use.
        allowed: runs at a time that this study may use now.
        live, wanted: runs that are running and that could be; set by the trial runner.
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
        """Update the claims once a second in a thread, so that trials never wait for it."""

        def tried(action: Callable[[], object], told: str) -> None:
            try:
                action()
            except (ray.exceptions.RayError, OSError) as error:
                logger.warning("cannot %s: %s", told, error)

        self.look()
        try:
            read = "read the claims of other studies for now"
            with repeated(lambda: tried(self.look, read), EVERY, "sharing"):
                yield
        finally:
            left = f"remove this study's claim; it counts for {FORGOTTEN:g} s more"
            tried(lambda: self._store.remove(self._key), left)

    def look(self) -> None:
        """Write this study's claim, and compute its share."""
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
        """Return the claims of other studies that were updated lately."""
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
            elif now - at > 10 * FORGOTTEN:  # long after it stopped counting
                self._store.remove(key)
                del self._signs[key]
        return found

    def _read(self, text: str) -> Claim | None:
        """Return a claim; None, with one warning, if another version wrote it."""
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
    """Return the allowed runs at a time of each claim, on a cluster of so many CPUs and GPUs."""
    given = [0] * len(claims)
    free_cpus, free_gpus = cpus + 1e-9, gpus + 1e-9  # against rounding of fractional GPUs
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
