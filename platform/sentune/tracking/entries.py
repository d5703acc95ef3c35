"""What is written into the spool: one JSON object for each thing that a tracker should know."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentune.credentials import without_credentials
from sentune.tracking.journal import Entry

MOST_NAME, MOST_PARAM, MOST_TAG = 250, 6000, 8000
"""Characters that MLflow takes in a name, a param and a tag."""


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


def start(
    key: RunKey, *, params: Mapping[str, Any], tags: Mapping[str, Any], running: bool = True
) -> Entry:
    """The run exists, and is running unless said otherwise; params that it has stay as they are."""
    written = {"params": texts(params, MOST_PARAM), "tags": texts(tags, MOST_TAG)}
    return _entry("start", key, running=running, **written)


def metrics(key: RunKey, step: int, values: Mapping[str, float]) -> Entry:
    """Metric values at a step (examples seen)."""
    return _entry("metrics", key, step=step, values={legal(k): float(values[k]) for k in values})


def end(key: RunKey, status: str, tags: Mapping[str, Any]) -> Entry:
    """The run has ended: FINISHED, KILLED or FAILED."""
    return _entry("end", key, status=status, tags=texts(tags, MOST_TAG))


def artifact(key: RunKey, path: Path, folder: str) -> Entry:
    """A file, or what is in a folder; it is read when it is sent."""
    return _entry("artifact", key, path=str(path.resolve()), folder=folder)


def document(key: RunKey, file: str, content: Any) -> Entry:
    """A small JSON document that goes among the run's artifacts."""
    text = json.dumps(without_credentials(content), indent=1, ensure_ascii=False, default=str)
    return _entry("document", key, file=file, text=text)


def datasets(key: RunKey, corpora: Mapping[str, Mapping[str, Any]]) -> Entry:
    """The corpora by role, with their fingerprints."""
    return _entry("datasets", key, corpora=without_credentials(dict(corpora)))


def model(path: str, name: str, *, description: str, tags: Mapping[str, Any]) -> Entry:
    """The study's model, a folder or URI, to be registered under a name as its champion."""
    safe = texts(tags, MOST_TAG)
    source = path if "://" in path else str(Path(path).resolve())
    return _entry("model", RunKey(), path=source, name=name, description=description, tags=safe)


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
    """Values as a tracker takes them: flat, without credentials, legal names, limited length."""
    return {legal(name): text(value, most) for name, value in flat(values).items()}


def text(value: Any, most: int) -> str:
    """A value in at most ``most`` characters; what is cut says how long it was."""
    whole = str(without_credentials(_plain(value)))
    note = f" ... ({len(whole):,} characters)"
    return whole if len(whole) <= most else whole[: most - len(note)] + note


def legal(name: str) -> str:
    """A name that MLflow takes: letters, digits and ``_-. :/``, a normal path, not too long."""
    clean = re.sub(r"[^\w\-. :/]", "_", without_credentials(str(name)), flags=re.ASCII)
    clean = posixpath.normpath(clean).lstrip("/.")[:MOST_NAME]
    return clean or "_"


def key_of(entry: Entry) -> RunKey:
    """The run that an entry is about."""
    return RunKey(*entry["run"])


def _entry(kind: str, key: RunKey, **fields: Any) -> Entry:
    run = [key.trial, key.seed]
    return {"kind": kind, "run": run, "time": round(1000 * time.time()), **fields}


def _plain(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, list | tuple | dict) else value
