"""The product folder of a method on word vectors.

settings.json  readouts.json  README.md     as for every method
fit.safetensors  fit.json                   what the fit found, and its settings
words/                                      vectors and probabilities of the words
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import load_whole, save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import whole_folder
from sentune.methods.closed_form import ClosedForm
from sentune.training.fits import DETAILS_FILE, FIT_FILE, load_fit
from sentune.training.model import READOUTS_FILE, read_settings, write_description

WORDS = "words"


class LoadedClosedForm(NamedTuple):
    """A model folder in memory; ``value`` is that of its readout."""

    method: ClosedForm
    value: int
    settings: dict[str, Any]
    readouts: dict[str, Any]


def export_closed_form(
    checkpoint: Path,
    folder: Path,
    *,
    words: WordTable,
    settings: Mapping[str, Any],
    readouts: Mapping[str, Any],
    card: Mapping[str, Mapping[str, Any]],
) -> None:
    """Make the product folder of a trial's checkpoint, whole or not at all.

    Args:
        words: that the trial was fitted with; they are copied, so that the folder is complete.
        settings: of the trial.
        readouts: ``task/readout`` -> value; the readout's bare name is the value that is shipped.
    """
    model = load_fit(checkpoint, words)
    with whole_folder(folder) as beside:
        for name in (FIT_FILE, DETAILS_FILE):
            shutil.copyfile(checkpoint / name, beside / name)
        save_whole(words, beside / WORDS)
        write_description(beside, model, settings, readouts, card)


def load_closed_form(folder: Path) -> LoadedClosedForm:
    """Return the model of a folder.

    Raises:
        InvalidValue: it is no model folder of a method on word vectors.
    """
    settings = read_settings(folder)["settings"]
    missing = [
        name
        for name in (READOUTS_FILE, FIT_FILE, DETAILS_FILE, WORDS)
        if not (folder / name).exists()
    ]
    if missing:
        raise InvalidValue("model", str(folder), f"it is no model, without {', '.join(missing)}")
    readouts = json.loads((folder / READOUTS_FILE).read_text(encoding="utf-8"))
    method = load_fit(folder, load_whole(folder / WORDS))
    return LoadedClosedForm(method, int(readouts[method.axis.name]), settings, readouts)
