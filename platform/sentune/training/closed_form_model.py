"""Methods on word vectors: built from settings, their fits on disk, and their product folder.

settings.json  readouts.json  README.md     as for every method
fit.safetensors  fit.json                   what the fit found, and its settings
words/                                      vectors and probabilities of the words
modules.json                                the folder, as sentence-transformers loads it
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import load_whole, save_whole
from sentune.io.folders import whole_folder
from sentune.methods import find_closed_form
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings
from sentune.training.model import READOUTS_FILE, LoadedModel, read_settings, write_description
from sentune.training.recipes.sentences import require, write_whole
from sentune.training.settings import refuse_unknown, validated

VECTORS = "vectors"
"""The setting that names a trial's word vectors."""
FIT_FILE, DETAILS_FILE, WORDS = "fit.safetensors", "fit.json", "words"


def closed_form_settings(name: str, settings: Mapping[str, Any]) -> ClosedFormSettings:
    """Return a trial's settings without its vectors, typed and checked.

    Raises:
        InvalidValue: an unknown setting or a value that is not allowed, naming it.
    """
    kind = find_closed_form(name)
    given = {k: v for k, v in settings.items() if k != VECTORS}
    refuse_unknown(given, kind.settings_type.model_fields, kind.title)
    return validated(kind.settings_type, given)


def build_closed_form(name: str, words: WordTable, settings: Mapping[str, Any]) -> ClosedForm:
    """Return the method, not fitted yet; errors as of ``closed_form_settings``."""
    return find_closed_form(name)(words, closed_form_settings(name, settings))


def save_fit(model: ClosedForm, folder: Path) -> None:
    """Write what a fit found, and by which method and settings."""
    # safetensors writes the buffer as it lies in memory: a transposed view would come back wrong
    state = {name: np.asarray(array, order="C") for name, array in model.state().items()}
    save_file(state, folder / FIT_FILE)
    details = {"method": model.name, "settings": model.settings.model_dump()}
    (folder / DETAILS_FILE).write_text(json.dumps(details), encoding="utf-8")


def load_fit(folder: Path, words: WordTable) -> ClosedForm:
    """Return the fitted method of a folder; ``words`` are those that it was fitted with."""
    details = json.loads((folder / DETAILS_FILE).read_text(encoding="utf-8"))
    model = build_closed_form(details["method"], words, details["settings"])
    model.load_state(load_file(folder / FIT_FILE))
    return model


def export_closed_form(
    checkpoint: Path,
    folder: Path,
    *,
    words: WordTable,
    settings: Mapping[str, Any],
    readouts: Mapping[str, Any],
    objective: str,
    card: Mapping[str, Mapping[str, Any]],
) -> None:
    """Make the product folder of a trial's checkpoint, whole or not at all.

    Args:
        words: that the trial was fitted with; they are copied, so that the folder is complete.
        readouts: ``task/readout`` -> value.
        objective: ``task/metric``; the value that is best for this task is shipped.
    """
    model = load_fit(checkpoint, words)
    axis, task = model.axis.name, objective.partition("/")[0]
    readouts = _renamed(readouts)
    shipped = {**readouts, axis: readouts[f"{task}/{axis}"]}
    with whole_folder(folder) as beside:
        for name in (FIT_FILE, DETAILS_FILE):
            shutil.copyfile(checkpoint / name, beside / name)
        save_whole(words, beside / WORDS)
        write_whole(beside)
        write_description(beside, model, settings, shipped, card)


def load_closed_form(folder: Path) -> LoadedModel:
    """Return the model of a folder.

    Raises:
        InvalidValue: it is no model folder of a method on word vectors.
    """
    settings = read_settings(folder)["settings"]
    require(folder, FIT_FILE, DETAILS_FILE, WORDS)
    readouts = _renamed(json.loads((folder / READOUTS_FILE).read_text(encoding="utf-8")))
    method = load_fit(folder, load_whole(folder / WORDS))
    return LoadedModel(method, None, settings, readouts)


def _renamed(readouts: Mapping[str, Any]) -> dict[str, Any]:
    """Return readouts by today's names: until 0.2.0, LAES's ``n_h`` was ``units``."""
    return {re.sub(r"(^|/)units$", r"\1n_h", name): value for name, value in readouts.items()}
