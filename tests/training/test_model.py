"""The product folder: what is saved is what is loaded, here and in sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentune import Embedder
from sentune.encoders import TextEncoder, Tokenizer, length_sorted_chunks, load_tokenizer
from sentune.errors import InvalidValue
from sentune.methods import SentenceMethod, find
from sentune.methods.base import MethodSettings
from sentune.methods.simcse import Simcse
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.model import export_checkpoint, load_method, save_model
from sentune.training.recipes import build
from sentune.training.settings import split
from sentune.training.trial import TrialSpec

SENTENCES = ["a poodle runs", "no four legged animal runs in the park", "at least two dogs bark"]
METHODS = ["simcse", "gauss", "gumbel"]


def embed(method: SentenceMethod, tokenizer: Tokenizer, max_length: int = 32) -> Tensor:
    rows = tokenizer.encode(SENTENCES, max_length)
    chunks, restore = length_sorted_chunks(rows, 2, tokenizer.pad_id)
    with torch.inference_mode():
        return torch.cat([method.eval().embed(*chunk) for chunk in chunks])[restore]


def saved(method: str, encoder: str, folder: Path, **settings: object) -> SentenceMethod:
    kind = find(method)
    own, training = split({"max_length": 32, **settings}, kind)
    made = build(kind, own, training, encoder, seed=1)
    card = {"Metrics": {"direction/accuracy": 0.98765}, "Lineage": {"git": {"commit": "abc"}}}
    readouts = {"rte/threshold": 0.25}
    save_model(made, encoder, folder, training=training, readouts=readouts, card=card)
    return made


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_comes_back_as_it_was(method: str, pooling: str, encoder: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    made = saved(method, encoder, folder, pooling=pooling, temperature=0.1)
    loaded, tokenizer, settings, readouts = load_method(folder)
    assert torch.equal(embed(loaded, tokenizer), embed(made, load_tokenizer(encoder)))
    assert loaded.settings == made.settings
    assert (settings["temperature"], settings["max_length"]) == (0.1, 32)
    assert readouts == {"rte/threshold": 0.25}
    assert not loaded.training


@pytest.mark.parametrize("method", ["gumbel", "gauss"])
def test_boxes_and_gaussians_load_in_sentence_transformers(
    method: str, encoder: str, tmp_path: Path
) -> None:
    peer = pytest.importorskip("sentence_transformers")
    from sentune.sentence_transformers import EntailmentTransformer

    folder = str(tmp_path / "model")
    saved(method, encoder, tmp_path / "model")
    ours = Embedder.load(folder, "cpu")
    with pytest.raises(ValueError, match="trust_remote_code"):
        peer.SentenceTransformer(folder, device="cpu")
    theirs = peer.SentenceTransformer(folder, device="cpu", trust_remote_code=True)
    found = theirs.encode(SENTENCES)
    np.testing.assert_array_equal(found, ours.encode(SENTENCES))
    for own in (EntailmentTransformer(folder, device="cpu"), theirs):
        table = own.similarity(found, found)
        np.testing.assert_array_equal(table, ours.similarity_table(SENTENCES, SENTENCES))
        pairs = own.similarity_pairwise(found, found[::-1].copy())
        np.testing.assert_array_equal(pairs, ours.similarity(SENTENCES, SENTENCES[::-1]))
    theirs.save(str(tmp_path / "copy"))
    again = Embedder.load(tmp_path / "copy", "cpu")
    np.testing.assert_array_equal(again.encode(SENTENCES), found)


def test_the_encoder_alone_loads_in_transformers(encoder: str, tmp_path: Path) -> None:
    from transformers import AutoModel

    made = saved("gumbel", encoder, tmp_path / "model")
    theirs = AutoModel.from_pretrained(tmp_path / "model").state_dict()
    ours = made.encoder.model.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)


class OwnSettings(MethodSettings):
    words: Path = Path("words.txt")


class Own(Simcse):
    """Tied layers, and a temperature that is learned."""

    name: ClassVar[str] = f"{__name__}:Own"
    settings_type: ClassVar[type[MethodSettings]] = OwnSettings
    loss_modules: ClassVar[tuple[str, ...]] = ("log_temperature",)

    def __init__(self, encoder: TextEncoder, settings: Any) -> None:
        super().__init__(encoder, settings)
        self.one, self.other = (nn.Linear(encoder.width, 3) for _ in range(2))
        self.other.weight = self.one.weight
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def head(self, vectors: Tensor) -> Tensor:
        found: Tensor = self.one(vectors) * self.other(vectors)
        return found


def test_tied_weights_paths_and_parameters_of_the_loss_come_back(
    encoder: str, tmp_path: Path
) -> None:
    made = saved(Own.name, encoder, tmp_path / "model", words="other.txt")
    loaded, tokenizer, settings, _ = load_method(tmp_path / "model")
    assert torch.equal(embed(loaded, tokenizer), embed(made, load_tokenizer(encoder)))
    assert settings["words"] == Path("other.txt")
    assert not hasattr(loaded, "log_temperature")


def test_folder_holds_no_pickle_and_a_card(encoder: str, tmp_path: Path) -> None:
    saved("gauss", encoder, tmp_path / "model")
    suffixes = {file.suffix for file in (tmp_path / "model").rglob("*") if file.is_file()}
    assert suffixes <= {".json", ".safetensors", ".md", ".txt"}
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# GaussCSE" in card
    assert "| direction/accuracy | 0.9877 |" in card
    assert "| git.commit | abc |" in card
    assert "| rte/threshold | 0.25 |" in card


def test_an_existing_folder_is_replaced_whole(encoder: str, tmp_path: Path) -> None:
    saved("simcse", encoder, tmp_path / "model")
    made = saved("gumbel", encoder, tmp_path / "model")
    assert not (tmp_path / "model" / "1_Pooling").exists()
    assert load_method(tmp_path / "model").settings["dimension"] == made.settings.dimension  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_no_model_is_refused(encoder: str, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValue, match=r"it is not a model folder, because it lacks settings\.json"
    ):
        load_method(tmp_path)
    saved("gumbel", encoder, tmp_path / "model")
    settings = tmp_path / "model" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "format": 99}))
    with pytest.raises(InvalidValue, match="format 99"):
        load_method(tmp_path / "model")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_checkpoint_becomes_a_model(
    make_trial: Callable[..., TrialSpec], tmp_path: Path, precision: str
) -> None:
    settings = {"precision": precision}
    spec = make_trial(max_examples=64, milestones=(64,), settings=settings)
    store = CheckpointStore(spec.directory)
    for progress in train(spec, Group.single("cpu")):
        store.save(progress, progress.metrics[spec.objective])
    best = store.best()
    assert best is not None
    export_checkpoint(
        best,
        tmp_path / "model",
        method=spec.method,
        settings=spec.settings,
        encoder=spec.encoder,
        readouts=progress.readouts,
        card={},
    )
    method, tokenizer, _, readouts = load_method(tmp_path / "model")
    assert readouts == progress.readouts
    result = embed(method, tokenizer)
    assert result.dtype is torch.float32
    assert torch.isfinite(result).all()
