"""Write, load and check the model folder, which has all that is needed to use a trained method.

config.json  model.safetensors  tokenizer*     the encoder, in Hugging Face's format
head.safetensors                               the method's own layers, if it has any
settings.json  readouts.json                   format version, method, values
README.md                                      model card
modules.json  config_sentence_transformers.json  1_Pooling/    for sentence-transformers
manifest.json                                  checksums of these files, and the model's origin
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sentune.encoders import Tokenizer, WordTokenizer, load_tokenizer
from sentune.errors import InvalidValue
from sentune.io.checksums import changed
from sentune.io.folders import read_manifest, whole_folder, write_json, write_manifest
from sentune.methods import GradientMethod, find
from sentune.methods.closed_form import ClosedForm
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.model_card import model_card
from sentune.training.recipes import build, recipe_of
from sentune.training.recipes.sentences import require
from sentune.training.settings import TrainingSettings, split
from sentune.training.state import load_weights
from sentune.user_code import check_named

FORMAT = 1
SETTINGS_FILE, READOUTS_FILE = "settings.json", "readouts.json"
CARD_FILE, MANIFEST = "README.md", "manifest.json"
NOT_READ = {CARD_FILE, "modules.json", "config_sentence_transformers.json"}
"""Files that are not read: the card, and those that sentence-transformers' ``save`` rewrites."""
READ = {".json", ".parquet", ".safetensors"}
"""Suffixes of the files in a model folder from which a model is read."""


class LoadedModel(NamedTuple):
    """A loaded model folder.

    Attributes:
        tokenizer: None if the method splits sentences into words itself.
        settings: settings of the method and of the training in one dictionary.
    """

    method: Any
    tokenizer: Tokenizer | WordTokenizer | None
    settings: dict[str, Any]
    readouts: dict[str, Any]


def save_model(
    method: Any,
    source: str,
    folder: Path,
    *,
    training: TrainingSettings,
    readouts: Mapping[str, Any],
    card: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the model folder atomically, replacing an existing one.

    Args:
        source: folder from which the method was built.
        training: training settings; ``max_length`` is needed to use the model.
        readouts: ``task/readout`` -> best value on the development corpora.
        card: section of the model card -> name -> value.
    """
    with whole_folder(folder) as beside:
        stored = copy.deepcopy(method).float().cpu()
        recipe_of(method).write(stored, source, beside, training)
        own = method.settings.model_dump(mode="json")  # may include a path or an enum
        settings = {**training.model_dump(), **own}
        write_description(beside, method, settings, readouts, card, source)


def write_description(
    folder: Path,
    method: GradientMethod | ClosedForm,
    settings: Mapping[str, Any],
    readouts: Mapping[str, Any],
    card: Mapping[str, Mapping[str, Any]],
    source: str | None = None,
) -> None:
    """Write ``settings.json``, ``readouts.json`` and the model card into a model folder.

    ``source`` is the folder of the encoder from which the method was built, if there is one.
    """
    described = {"format": FORMAT, "method": method.name, "settings": dict(settings)}
    write_json(folder / SETTINGS_FILE, described)
    write_json(folder / READOUTS_FILE, dict(readouts))
    sections = {**card, "Readouts": readouts, "Settings": settings}
    text = model_card(method.name, method.title, folder, source, sections)
    (folder / CARD_FILE).write_text(text, encoding="utf-8")


def load_method(folder: str | Path) -> LoadedModel:
    """Return the model of a folder, on the CPU in float32, in evaluation mode.

    Raises:
        InvalidValue: it is not a model folder, or its format is not supported.
    """
    folder = Path(folder)
    described = read_settings(folder)
    if ":" in str(described["method"]):
        check_named(str(described["method"]))
    kind = find(described["method"])
    method_settings, training = split(described["settings"], kind)
    method = recipe_of(kind).read(partial(kind, settings=method_settings), folder)
    readouts = json.loads((folder / READOUTS_FILE).read_text(encoding="utf-8"))
    settings = {**training.model_dump(), **method_settings.model_dump()}
    tokenizer = None if kind.name == "invertible" else load_tokenizer(str(folder))
    return LoadedModel(method.eval(), tokenizer, settings, readouts)


def export_checkpoint(
    checkpoint: Path,
    folder: Path,
    *,
    method: str,
    settings: Mapping[str, Any],
    encoder: str,
    readouts: Mapping[str, Any],
    card: Mapping[str, Mapping[str, Any]],
) -> None:
    """Export the model folder of a trial's checkpoint.

    ``method``, ``settings`` and ``encoder`` are those of the trial's ``TrialSpec``.
    """
    kind = find(method)
    method_settings, training = split(settings, kind)
    trained = build(kind, method_settings, training, encoder, seed=0)
    load_weights(checkpoint, trained)
    save_model(trained, encoder, folder, training=training, readouts=readouts, card=card)


def seal_model(folder: Path, origin: Mapping[str, Any]) -> str:
    """Write ``manifest.json`` with checksums into a complete model folder; return its checksum.

    Args:
        origin: where the model came from, as JSON types; it is added to the manifest.
    """
    return str(write_manifest(folder / MANIFEST, {"format": FORMAT, **origin})["checksum"])


def link_to(checkpoint: Path, folder: str) -> dict[str, Any]:
    """Return the entry of a model's manifest for the checkpoint that it was exported from.

    Args:
        checkpoint: local folder with ``progress.json``.
        folder: folder of the checkpoints, relative to that of the run.
    """
    saved = json.loads((checkpoint / PROGRESS_FILE).read_text(encoding="utf-8"))
    # checkpoints of versions before 0.2.0 have no checksum
    return {"folder": folder, "examples": saved["examples"], "checksum": saved.get("checksum", "")}


def check_model(folder: Path) -> None:
    """Check the files of a model folder, except ``NOT_READ``, against its manifest.

    A folder without a manifest, which earlier versions wrote, is not checked.

    Raises:
        InvalidValue: a file is missing, changed, or not in the manifest.
    """
    if not (folder / MANIFEST).is_file():
        return
    manifest, fault = read_manifest(folder / MANIFEST)
    recorded = manifest.get("files", {})
    read = {name: was for name, was in recorded.items() if name not in NOT_READ}
    fault = fault or changed(str(folder), read)
    files = (file for file in folder.rglob("*") if file.suffix in READ and file.is_file())
    names = {file.relative_to(folder).as_posix() for file in files}
    if not fault and (surplus := names.difference(recorded, NOT_READ, (MANIFEST,))):
        fault = f"{min(surplus)} is not in {MANIFEST}"
    if fault:
        fix = f"{fault}; copy the folder again from its origin, or run its study again"
        raise InvalidValue("model", str(folder), fix)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return format, method and settings of a model folder.

    Raises:
        InvalidValue: it is not a model folder, or its format is not supported.
    """
    require(folder, SETTINGS_FILE, READOUTS_FILE)
    described: dict[str, Any] = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    if described.get("format") != FORMAT:
        fix = f"it has format {described.get('format')}; this version reads format {FORMAT}"
        raise InvalidValue("model", str(folder), fix)
    return described
