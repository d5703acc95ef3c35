"""Methods on word vectors, built from a trial's settings, and their fits on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.methods import find_closed_form
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings
from sentune.training.settings import validated

VECTORS = "vectors"
"""The setting that names a trial's word vectors."""
FIT_FILE, DETAILS_FILE = "fit.safetensors", "fit.json"


def build_closed_form(name: str, words: WordTable, settings: Mapping[str, Any]) -> ClosedForm:
    """Return the method, not fitted yet.

    Raises:
        InvalidValue: an unknown setting or a value that is not allowed, naming it.
    """
    kind = find_closed_form(name)
    return kind(words, closed_form_settings(name, settings))


def closed_form_settings(name: str, settings: Mapping[str, Any]) -> ClosedFormSettings:
    """Return a trial's settings without its vectors, typed and checked.

    Raises:
        InvalidValue: as ``build_closed_form``.
    """
    kind = find_closed_form(name)
    given = {k: v for k, v in settings.items() if k != VECTORS}
    unknown = [key for key in given if key not in kind.settings_type.model_fields]
    if unknown:
        known = ", ".join(sorted(kind.settings_type.model_fields))
        raise InvalidValue(unknown[0], given[unknown[0]], f"settings of {kind.title} are {known}")
    return validated(kind.settings_type, given)


def save_fit(model: ClosedForm, folder: Path) -> None:
    """What a fit found, and by which method and settings."""
    # safetensors writes the buffer as it lies in memory: a transposed view would come back wrong
    state = {name: np.asarray(array, order="C") for name, array in model.state().items()}
    save_file(state, folder / FIT_FILE)
    details = {"method": model.name, "settings": model.settings.model_dump()}
    (folder / DETAILS_FILE).write_text(json.dumps(details), encoding="utf-8")


def load_fit(folder: Path, words: WordTable) -> ClosedForm:
    """Return the fitted method of a folder.

    Args:
        words: the word vectors that it was fitted with.
    """
    details = json.loads((folder / DETAILS_FILE).read_text(encoding="utf-8"))
    model = build_closed_form(details["method"], words, details["settings"])
    model.load_state(load_file(folder / FIT_FILE))
    return model
