"""Ten ways to change what a study has left, each with the file that `sentune verify` names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def flip(file: Path, at: int | None = None) -> None:
    """Flip one bit of a byte, by default of the one in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    file.write_bytes(content)


def first(folder: Path, pattern: str) -> Path:
    """The first file of a pattern, by name."""
    return sorted(folder.glob(pattern))[0]


def _progress(study: Path) -> None:
    file = first(study, "trials/*/examples_*/progress.json")
    flip(file, file.read_bytes().index(b'"examples": ') + len('"examples": '))


def _metric(study: Path) -> None:
    file = study / "summary.json"
    content = json.loads(file.read_text())
    name = next(iter(content["trials"][0]["metrics"]))
    content["trials"][0]["metrics"][name] += 0.01
    file.write_text(json.dumps(content))


def _other_weights(study: Path) -> None:
    from sentune.embedder.embedder import Embedder
    from sentune.training.model import save_model
    from sentune.training.settings import TrainingSettings

    model, other = study / "model", study / "other"
    made = Embedder.load(model, "cpu")
    made.method.encoder.model.embeddings.word_embeddings.weight.data += 1  # type: ignore[union-attr, operator]
    training = TrainingSettings(max_length=16)
    save_model(made.method, str(model), other, training=training, readouts={}, card={})
    shutil.copy(other / "model.safetensors", model)
    shutil.rmtree(other)


@dataclass(frozen=True, kw_only=True)
class Tampering:
    """One change.

    Attributes:
        change: makes it in a study's folder, whose storage is the folder above.
        names: what the message names.
        refused: whether the model does not load any more.
    """

    change: Callable[[Path], object]
    names: str
    refused: bool = False


TEN = {
    "weights of the model": Tampering(
        change=lambda study: flip(study / "model" / "model.safetensors"),
        names="model.safetensors has the checksum",
        refused=True,
    ),
    "settings of the model": Tampering(
        change=lambda study: flip(study / "model" / "settings.json"),
        names="settings.json has the checksum",
        refused=True,
    ),
    "card": Tampering(
        change=lambda study: flip(study / "model" / "README.md"),
        names="README.md has the checksum",
    ),
    "other model's weights": Tampering(
        change=_other_weights, names="model.safetensors has the checksum", refused=True
    ),
    "weights of a checkpoint": Tampering(
        change=lambda study: flip(first(study, "trials/*/examples_*/weights.safetensors")),
        names="checksum of weights.safetensors",
    ),
    "optimiser of a checkpoint": Tampering(
        change=lambda study: flip(first(study, "trials/*/examples_*/optimizer.pt")),
        names="checksum of optimizer.pt",
    ),
    "progress.json": Tampering(change=_progress, names="checksum of progress.json"),
    "token shard": Tampering(
        change=lambda study: flip(first(study.parent, ".cache/tokens/*/shard-00000.parquet")),
        names="shard-00000.parquet has the checksum",
    ),
    "prepared corpus": Tampering(
        change=lambda study: flip(first(study.parent, "**/part-00000.parquet")),
        names="part-00000.parquet",
    ),
    "metric of the summary": Tampering(change=_metric, names="summary.json: trial 0 differs"),
}
