"""MLflow's client, and names, texts and refusals as it takes them."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sentune.credentials import without_credentials
from sentune.errors import SentuneError
from sentune.tracking.environment import quieten_mlflow

MOST_NAME, MOST_PARAM, MOST_TAG = 250, 6000, 8000
"""Characters that MLflow takes in a name, a param and a tag."""


class Point(NamedTuple):
    """One value of a metric; ``time`` in UTC milliseconds, 0: when it is sent."""

    name: str
    step: int
    value: float
    time: int


@dataclass(frozen=True)
class RunKey:
    """Which run of a study: the study itself, a trial, or a trial's repetition from a seed."""

    trial: int | None = None
    seed: int | None = None

    @property
    def parent(self) -> RunKey | None:
        """The run under which this one is nested."""
        if self.trial is None:
            return None
        return RunKey() if self.seed is None else RunKey(self.trial)

    def name(self, study: str) -> str:
        """What the run is called on the screen."""
        if self.trial is None:
            return study
        trial = f"trial-{self.trial:04d}"
        return trial if self.seed is None else f"{trial}-seed-{self.seed}"

    def tags(self) -> dict[str, str]:
        """The tags by which the run is found again."""
        found = {"sentune.run": self.name("study")}
        if self.trial is not None:
            found["sentune.trial"] = str(self.trial)
        if self.seed is not None:
            found["sentune.seed"] = str(self.seed)
        return found


class Refused(SentuneError):
    """Raised for what MLflow can never be sent, however often it is tried."""


def mlflow_client(tracking_uri: str) -> Any:
    """Return an ``MlflowClient`` for tracking and registry; MLflow prints nothing from then on."""
    quieten_mlflow()
    import mlflow  # takes seconds

    return mlflow.MlflowClient(tracking_uri, registry_uri=tracking_uri)


def digest_of(content: Any) -> str:
    """Hash of a value of JSON types."""
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:32]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level: ``{"a": {"b": 1}}`` -> ``{"a.b": 1}``."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{prefix}{name}.")
        else:
            out[f"{prefix}{name}"] = value
    return out


def texts(values: Mapping[str, Any], most: int) -> dict[str, str]:
    """Values as MLflow takes them: flat, without credentials, legal names, limited length."""
    return {legal(name): text(value, most) for name, value in flat(values).items()}


def text(value: Any, most: int) -> str:
    """A value in at most ``most`` characters; what is cut says how long it was."""
    plain = json.dumps(value, default=str) if isinstance(value, list | tuple | dict) else value
    whole = str(without_credentials(plain))
    note = f" ... ({len(whole):,} characters)"
    return whole if len(whole) <= most else whole[: most - len(note)] + note


def legal(name: str) -> str:
    """A name that MLflow takes: letters, digits and ``_-. :/``, a normal path, not too long."""
    clean = re.sub(r"[^\w\-. :/]", "_", without_credentials(str(name)), flags=re.ASCII)
    clean = posixpath.normpath(clean).lstrip("/.")[:MOST_NAME]
    return clean or "_"


def model_name(name: str) -> str:
    """A name as MLflow takes it for a model, without ``/`` and ``:``."""
    return legal(name).replace("/", "-").replace(":", "-")
