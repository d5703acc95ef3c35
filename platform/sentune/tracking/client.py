"""MLflow's client, its limits on names and texts, and the content that a server has refused."""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from sentune.credentials import without_credentials
from sentune.errors import SentuneError
from sentune.tracking.environment import quieten_mlflow

log = logging.getLogger(__name__)

MOST_NAME, MOST_PARAM, MOST_TAG = 250, 6000, 8000
"""Largest number of characters of a name, a param and a tag in MLflow."""
NEVER = {"INVALID_PARAMETER_VALUE"}
"""MLflow's error codes for content that it will never accept."""
DOUBTFUL, TRIES = {"BAD_REQUEST"}, 5
"""MLflow gives this code to every error of its database except a lock, including conflicts between
two writers. Content that gets it ``TRIES`` times when sent alone is never accepted."""


class Point(NamedTuple):
    """One value of a metric; ``time`` is in UTC milliseconds, 0 for the time of sending."""

    name: str
    step: int
    value: float
    time: int


class RunKey(NamedTuple):
    """Key of a study's run: the study itself, a trial, or a trial's repetition from a seed."""

    trial: int | None = None
    seed: int | None = None

    @property
    def parent(self) -> RunKey | None:
        """The key of the run under which this one is nested; None for the study."""
        if self.trial is None:
            return None
        return RunKey() if self.seed is None else RunKey(self.trial)

    def name(self, study: str) -> str:
        """Return the run's displayed name."""
        if self.trial is None:
            return study
        trial = f"trial-{self.trial:04d}"
        return trial if self.seed is None else f"{trial}-seed-{self.seed}"

    def tags(self) -> dict[str, str]:
        """Return the tags by which the run is found again."""
        known = {name: str(value) for name, value in self._asdict().items() if value is not None}
        return {"sentune.run": self.name("study"), **{f"sentune.{n}": v for n, v in known.items()}}


class Refused(SentuneError):
    """Raised for content that can never be sent to MLflow."""


@dataclass
class Refusals:
    """Content that a server, named by its URI, will never accept: logged once, not sent again."""

    server: str
    _hashes: set[str] = field(default_factory=set, init=False)
    _doubts: Counter[str] = field(default_factory=Counter, init=False)

    def __contains__(self, content: Any) -> bool:
        return bool(self._hashes) and digest_of(content) in self._hashes

    def add(self, content: Any, error: Exception) -> None:
        """Record refused content, and log it."""
        self._hashes.add(digest_of(content))
        where, why, what = without_credentials([self.server, str(error), str(content)])
        log.warning(
            "%s refuses part of the study, which is not sent again: %s (%s)", where, why, what[:200]
        )

    def is_final(self, content: Any, error: Exception) -> bool:
        """Return whether sending the content again cannot succeed."""
        code = getattr(error, "error_code", "")
        if code in DOUBTFUL:
            self._doubts[digest_of(content)] += 1
            return self._doubts[digest_of(content)] >= TRIES
        return isinstance(error, Refused) or code in NEVER

    def guard(self, content: Any, action: Callable[[], object]) -> None:
        """Run an action unless its content was refused before; record a new refusal."""
        if content in self:
            return
        try:
            action()
        except Exception as error:
            if not self.is_final(content, error):
                raise
            self.add(content, error)


def load_mlflow() -> Any:
    """Import MLflow, which takes seconds, and silence its output."""
    quieten_mlflow()
    import mlflow

    return mlflow


def mlflow_client(tracking_uri: str) -> Any:
    """Return an ``MlflowClient`` for tracking and registry."""
    return load_mlflow().MlflowClient(tracking_uri, registry_uri=tracking_uri)


def digest_of(content: Any) -> str:
    """Return a hash of a value of JSON types."""
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:32]


def texts(values: Mapping[str, Any], most: int, prefix: str = "") -> dict[str, str]:
    """Return values as MLflow accepts them: flat, as text, with legal names, without credentials.

    ``{"a": {"b": 1}}`` becomes ``{"a.b": "1"}``. A text longer than ``most`` characters is cut and
    ends with its original length.
    """
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= texts(value, most, f"{prefix}{name}.")
            continue
        plain = json.dumps(value, default=str) if isinstance(value, list | tuple) else value
        whole = str(without_credentials(plain))
        note = f" ... ({len(whole):,} characters)"
        short = whole if len(whole) <= most else whole[: most - len(note)] + note
        found[legal(f"{prefix}{name}")] = short
    return found


@lru_cache(4096)
def legal(name: str) -> str:
    """Return a name that MLflow accepts: letters, digits and ``_-. :/``, a normalised path."""
    clean = re.sub(r"[^\w\-. :/]", "_", without_credentials(str(name)), flags=re.ASCII)
    clean = posixpath.normpath(clean).lstrip("/.")[:MOST_NAME]
    return clean or "_"
