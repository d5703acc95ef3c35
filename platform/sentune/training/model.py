"""The product folder ``model/``: everything that is needed to use a trained method.

config.json  model.safetensors  tokenizer*     the encoder, as Hugging Face reads it
head.safetensors                               the method's own layers, where it has any
settings.json  readouts.json                   format version, method, values
README.md                                      model card
modules.json  config_sentence_transformers.json  1_Pooling/    as sentence-transformers reads it
manifest.json                                  checksums of these, and what the model came from
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
"""The card, and what sentence-transformers' ``save`` writes anew."""
READ = {".json", ".parquet", ".safetensors"}
"""Suffixes of files that a model is read from where they lie in its folder."""


class LoadedModel(NamedTuple):
    """A model folder in memory; ``settings`` holds the method's and the training's, flat.

    ``tokenizer`` is None where the method finds the words of sentences itself.
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
    """Write the folder whole or not at all; an existing one is replaced.

    Args:
        source: the folder that the method was built from.
        training: what it was trained with; ``max_length`` is needed to use the model.
        readouts: ``task/readout`` -> value found on the development set.
        card: section of the model card -> name -> value.
    """
    with whole_folder(folder) as beside:
        stored = copy.deepcopy(method).float().cpu()  # also what was trained in float64
        recipe_of(method).write(stored, source, beside, training)
        own = method.settings.model_dump(mode="json")  # a path or an enum may be among them
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

    ``source`` is the folder of the encoder that the method was built from, if it has one.
    """
    described = {"format": FORMAT, "method": method.name, "settings": dict(settings)}
    write_json(folder / SETTINGS_FILE, described)
    write_json(folder / READOUTS_FILE, dict(readouts))
    sections = {**card, "Readouts": readouts, "Settings": settings}
    text = model_card(method.name, method.title, folder, source, sections)
    (folder / CARD_FILE).write_text(text, encoding="utf-8")


def load_method(folder: str | Path) -> LoadedModel:
    """Return the model of a folder, on the CPU in float32, ready for inference.

    Raises:
        InvalidValue: it is no model folder, or one of a newer version.
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
    """Make the product folder of a trial's checkpoint; method, settings and encoder are those of
    the trial's ``TrialSpec``."""
    kind = find(method)
    method_settings, training = split(settings, kind)
    trained = build(kind, method_settings, training, encoder, seed=0)
    load_weights(checkpoint, trained)
    save_model(trained, encoder, folder, training=training, readouts=readouts, card=card)


def seal_model(folder: Path, origin: Mapping[str, Any]) -> str:
    """Write ``manifest.json`` into a complete model folder, with checksums and ``origin``, what the
    model came from in JSON types; return its checksum."""
    return str(write_manifest(folder / MANIFEST, {"format": FORMAT, **origin})["checksum"])


def link_to(checkpoint: Path, folder: str) -> dict[str, Any]:
    """Return what a model's manifest tells of the checkpoint that it was made of.

    Args:
        checkpoint: a local folder with its ``progress.json``.
        folder: of its run, as seen from where the model's folder lies.
    """
    saved = json.loads((checkpoint / PROGRESS_FILE).read_text(encoding="utf-8"))
    # checkpoints of versions before 0.2.0 have no checksum
    return {"folder": folder, "examples": saved["examples"], "checksum": saved.get("checksum", "")}


def check_model(folder: Path) -> None:
    """Refuse a model folder that has other files than its manifest, but for those ``NOT_READ``.

    A folder without a manifest, which earlier versions left, is not checked.

    Raises:
        InvalidValue: names the file, its checksum and the recorded one.
    """
    if not (folder / MANIFEST).is_file():
        return
    manifest, fault = read_manifest(folder / MANIFEST)
    recorded = manifest.get("files", {})
    read = {name: was for name, was in recorded.items() if name not in NOT_READ}
    if fault := fault or changed(str(folder), read) or _surplus(folder, recorded):
        fix = f"{fault}; copy it again from where it was made, or run its study again"
        raise InvalidValue("model", str(folder), fix)


def _surplus(folder: Path, recorded: Mapping[str, Any]) -> str:
    """Return which file would be read that the manifest does not name; empty if there is none."""
    files = (file for file in folder.rglob("*") if file.suffix in READ and file.is_file())
    names = {file.relative_to(folder).as_posix() for file in files} - {
        *recorded,
        MANIFEST,
        *NOT_READ,
    }
    return f"{min(names)} is not in {MANIFEST}" if names else ""


def read_settings(folder: Path) -> dict[str, Any]:
    """Return format, method and settings of a model folder.

    Raises:
        InvalidValue: it is no model folder, or one of a newer version.
    """
    require(folder, SETTINGS_FILE, READOUTS_FILE)
    described: dict[str, Any] = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    if described.get("format") != FORMAT:
        fix = f"it has format {described.get('format')}; this version reads format {FORMAT}"
        raise InvalidValue("model", str(folder), fix)
    return described
