"""Whose a checkpoint is: everything that decides about its weights and its score.

Parts are kept apart, so that a message can name the one in which two runs differ. Corpora, encoder
and code are digests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sentune.formatting import differences
from sentune.io.checksums import document_checksum
from sentune.training.trial import TrialSpec

SETTINGS, LIVE = "settings", "live"
"""Parts of an identity: settings, and those of them that may change while a model is trained."""


def identity_of(
    spec: TrialSpec,
    settings: Mapping[str, Any],
    fingerprints: Mapping[str, Any],
    live: Collection[str] = (),
) -> dict[str, Any]:
    """Return the identity of a training run: part -> value, JSON types.

    Args:
        spec: of the run.
        settings: all of the run's, weights of corpora and readouts too.
        fingerprints: of corpora, encoder and code, as the job has them, JSON types.
        live: settings that may change while a model is trained.
    """
    plain = json.loads(json.dumps(dict(settings)))
    return {
        "method": spec.method,
        SETTINGS: {name: value for name, value in plain.items() if name not in live},
        LIVE: {name: value for name, value in plain.items() if name in live},
        "seed": spec.seed,
        "max_examples": spec.max_examples,
        "objective": f"{spec.objective}:{spec.mode}",
        **{part: document_checksum(value) for part, value in fingerprints.items()},
    }


def other_run(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return in what two identities differ; empty where they are equal."""
    whole = ({**run.get(SETTINGS, {}), **run.get(LIVE, {})} for run in (was, now))
    return _differing(was, now, *whole)


def other_donor(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return why a run may not go on from another run's checkpoint; empty where it may.

    Settings that may change while a model is trained are left out, and those that only one of the
    runs has: a condition on one of these may bring them in.
    """
    both = was.get(SETTINGS, {}).keys() & now.get(SETTINGS, {}).keys()
    return _differing(
        was, now, *({name: run[SETTINGS][name] for name in both} for run in (was, now))
    )


def _differing(
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    settings_was: Mapping[str, Any],
    settings_now: Mapping[str, Any],
) -> str:
    if not was:
        return "it does not say of which"
    other = {**was, SETTINGS: settings_was, LIVE: {}}
    return "; ".join(differences(other, {**now, SETTINGS: settings_now, LIVE: {}}))
