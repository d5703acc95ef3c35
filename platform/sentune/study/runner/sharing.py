"""The studies that run on the same cluster, and how many runs at a time that leaves for this one.

Each driver writes its claim beside those of the others into the cluster's own key-value store about
once a second, reads theirs, and reckons all shares for itself: nobody has to be in charge, and a
driver that is killed is forgotten after ``FORGOTTEN`` seconds.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Protocol

import ray
from ray.experimental import internal_kv

from sentune.study.planning.capacity import Capacity
from sentune.study.runner.shares import Claim, fair_shares

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks at the others."""

FORGOTTEN = 15.0
"""Seconds without a sign of a study after which it is taken for dead."""

_SPACE, _PREFIX = b"sentune", b"claim/"


class Board(Protocol):
    """Where claims are left for others to read."""

    def write(self, key: str, text: str) -> None:
        """This study's claim."""

    def read(self) -> dict[str, str]:
        """Everybody's claims, by key."""

    def remove(self, key: str) -> None:
        """A claim that no longer holds."""


class ClusterBoard:
    """The key-value store of the connected Ray cluster.

    Ray's own libraries use these calls; a public one for it there is not.
    """

    def write(self, key: str, text: str) -> None:
        """This study's claim."""
        internal_kv._internal_kv_put(_PREFIX + key.encode(), text.encode(), namespace=_SPACE)

    def read(self) -> dict[str, str]:
        """Everybody's claims, by key."""
        keys = internal_kv._internal_kv_list(_PREFIX, namespace=_SPACE)
        found = {key: internal_kv._internal_kv_get(key, namespace=_SPACE) for key in keys}
        return {
            key.removeprefix(_PREFIX).decode(): text.decode()
            for key, text in found.items()
            if text is not None
        }

    def remove(self, key: str) -> None:
        """A claim that no longer holds."""
        internal_kv._internal_kv_del(_PREFIX + key.encode(), namespace=_SPACE)


class Neighbours:
    """How many runs at a time a study may have, beside the others.

    Args:
        claim: of this study, for as many runs as it could ever use at a time.
        capacity: the cluster; its share is one of all that it can grow to.
        board: where the claims are.

    Attributes:
        most: runs at a time that this study could ever use.
        allowed: runs at a time, as of the last look.
        live: runs that are at work; set by whoever gives them.
        wanted: runs that could be at work; set likewise.
    """

    def __init__(self, claim: Claim, capacity: Capacity, board: Board) -> None:
        self.most = self.allowed = self.wanted = claim.wanted
        self.live = 0
        self._claim, self._board = claim, board
        self._cpus = sum(node.cpus for node in capacity.reachable)
        self._gpus = sum(node.gpus for node in capacity.reachable)
        self._key = uuid.uuid4().hex
        self._beats = 0
        self._looked: float | None = None
        self._signs: dict[str, tuple[str, float]] = {}
        self._told: set[str] = set()
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks again and again, in a thread of its own: trials never wait for it."""
        self.look()
        thread = threading.Thread(target=self._watch, name="neighbours", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._leave()

    def look(self) -> None:
        """Says what this study wants, and reckons what it gets."""
        now = time.monotonic()
        if self._looked is not None:
            used = self._claim.share(self.live, self._cpus, self._gpus) * (now - self._looked)
            self._claim = replace(self._claim, used=self._claim.used + used)
        self._looked = now
        self._claim = replace(self._claim, wanted=self.wanted)
        self._beats += 1
        self._board.write(self._key, json.dumps({**asdict(self._claim), "beats": self._beats}))
        claims = {self._key: self._claim, **self._others(now)}
        order = sorted(claims)  # the same for everybody
        shares = fair_shares([claims[key] for key in order], self._cpus, self._gpus)
        self.allowed = shares[order.index(self._key)]
        self._tell({claim.study for key, claim in claims.items() if key != self._key})

    def _others(self, now: float) -> dict[str, Claim]:
        """Claims of the studies that have given a sign lately."""
        found: dict[str, Claim] = {}
        for key, text in self._board.read().items():
            if key == self._key:
                continue
            before, at = self._signs.get(key, ("", now))
            at = at if text == before else now
            self._signs[key] = (text, at)
            if now - at <= FORGOTTEN:
                found[key] = _claim(text)
            elif now - at > 10 * FORGOTTEN:  # long after everybody has forgotten it
                self._board.remove(key)
                del self._signs[key]
        return found

    def _tell(self, others: set[str]) -> None:
        """Once for each study that joins: who shares the cluster."""
        if others - self._told:
            logger.warning(
                "the cluster is shared with %s: %d of %d runs at a time for now",
                ", ".join(sorted(others)), self.allowed, self.wanted,
            )  # fmt: skip
        self._told |= others

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            try:
                self.look()
            except (ray.exceptions.RayError, OSError) as error:
                logger.warning("other studies on this cluster cannot be seen for now: %s", error)

    def _leave(self) -> None:
        try:
            self._board.remove(self._key)
        except (ray.exceptions.RayError, OSError) as error:
            logger.warning("others will hold places free for %g s more: %s", FORGOTTEN, error)


def _claim(text: str) -> Claim:
    told = json.loads(text)
    del told["beats"]
    return Claim(**told)
