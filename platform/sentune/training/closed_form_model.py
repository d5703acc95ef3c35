"""Build, save and load methods on word vectors, and export their model folder.

settings.json  readouts.json  README.md     as for every method
fit.safetensors  fit.json                   result of the fit, and its settings
words/                                      vectors and probabilities of the words
modules.json                                module that sentence-transformers loads
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from sentune.corpora.schema import Corpus
from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import load_whole, save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import whole_folder
from sentune.methods import find_closed_form
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings
from sentune.tasks import Sts, tasks_for
from sentune.training.model import READOUTS_FILE, LoadedModel, read_settings, write_description
from sentune.training.recipes.sentences import require, write_modules
from sentune.training.settings import refuse_unknown, validated

VECTORS = "vectors"
"""Name of the setting with a trial's word vectors."""
FIT_FILE, DETAILS_FILE, WORDS = "fit.safetensors", "fit.json", "words"
NEEDS_FREQUENCIES = "sif and usif need it: give a FILE or wordfreq:en, or --set variant=average"


def check_scored(dev: Iterable[Corpus], method: str) -> None:
    """Raise ``InvalidValue`` if a development corpus is not for STS alone."""
    for corpus in dev:
        if other := [task.name for task in tasks_for(corpus) if not isinstance(task, Sts)]:
            fix = f"it is for {', '.join(other)}; {method} selects on scored pairs"
            raise InvalidValue("--dev", corpus.spec, fix)


def closed_form_settings(name: str, settings: Mapping[str, Any]) -> ClosedFormSettings:
    """Return a trial's validated settings, without ``vectors``.

    Raises:
        InvalidValue: a setting is unknown or its value is not allowed.
    """
    kind = find_closed_form(name)
    given = {k: v for k, v in settings.items() if k != VECTORS}
    refuse_unknown(given, kind.settings_type.model_fields, kind.title)
    return validated(kind.settings_type, given)


def build_closed_form(name: str, words: WordTable, settings: Mapping[str, Any]) -> ClosedForm:
    """Return the unfitted method; raises the errors of ``closed_form_settings``."""
    return find_closed_form(name)(words, closed_form_settings(name, settings))


def save_fit(model: ClosedForm, folder: Path) -> None:
    """Write the result of a fit, its method and its settings."""
    # safetensors writes the memory buffer, so a transposed view would be read back wrongly
    state = {name: np.asarray(array, order="C") for name, array in model.state().items()}
    save_file(state, folder / FIT_FILE)
    details = {"method": model.name, "settings": model.settings.model_dump()}
    (folder / DETAILS_FILE).write_text(json.dumps(details), encoding="utf-8")


def load_fit(folder: Path, words: WordTable) -> ClosedForm:
    """Return the fitted method of a folder, given the ``words`` that it was fitted with."""
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
    """Export the model folder of a trial's checkpoint, atomically.

    Args:
        words: words that the trial was fitted with; they are copied into the folder.
        readouts: ``task/readout`` -> best value.
        objective: ``task/metric``; the model uses the best value for this task, or for the first
            one if it is a metric of the training.
    """
    model = load_fit(checkpoint, words)
    axis, readouts = model.axis.name, _renamed(readouts)
    own = f"{objective.partition('/')[0]}/{axis}"
    first = next(name for name in readouts if name.endswith(f"/{axis}"))
    shipped = {**readouts, axis: readouts.get(own, readouts[first])}
    with whole_folder(folder) as beside:
        for name in (FIT_FILE, DETAILS_FILE):
            shutil.copyfile(checkpoint / name, beside / name)
        save_whole(words, beside / WORDS)
        write_modules(beside)
        write_description(beside, model, settings, shipped, card)


def load_closed_form(folder: Path) -> LoadedModel:
    """Return the model of a folder.

    Raises:
        InvalidValue: it is not a model folder of a method on word vectors.
    """
    settings = read_settings(folder)["settings"]
    require(folder, FIT_FILE, DETAILS_FILE, WORDS)
    readouts = _renamed(json.loads((folder / READOUTS_FILE).read_text(encoding="utf-8")))
    method = load_fit(folder, load_whole(folder / WORDS))
    return LoadedModel(method, None, settings, readouts)


def _renamed(readouts: Mapping[str, Any]) -> dict[str, Any]:
    """Return readouts by their current names: until 0.2.0, LAES's ``n_h`` was ``units``."""
    return {re.sub(r"(^|/)units$", r"\1n_h", name): value for name, value in readouts.items()}
