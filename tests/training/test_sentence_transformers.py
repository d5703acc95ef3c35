"""A model folder of every method gives the same vectors in sentence-transformers as here."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BartConfig, BartModel

import sentune
from sentune import Embedder
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.methods.invertible import Invertible
from sentune.methods.simcse import Simcse
from sentune.training.model import save_model
from sentune.training.settings import split
from tests.embedder.test_pretrained import save_tokenizer
from tests.methods import intersent_scenes, invertible_scenes
from tests.training.test_model import saved

peer = pytest.importorskip("sentence_transformers")

LONG = " ".join(["the small dog"] * 20)
SENTENCES = ["a poodle runs", LONG, "w1 w2 w3 no w4", "at least two dogs bark"]
PLAIN = ("simcse", "simcse-pairs", "simcse-unsupervised", "sbert-softmax", "intersent")
CLOSED = ("sif", "laes")


class Halved(Simcse):
    """A method of a user's own: half of the encoder's vectors."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = "Halved"
    kind: ClassVar[Kind] = Kind.TRIPLETS

    def head(self, vectors: Tensor) -> Tensor:
        return vectors / 2


OWN = f"{__name__}:{Halved.__name__}"
BART = "simcse on BART"


def bart(folder: Path) -> str:
    """Write a small encoder-decoder with random weights, and return its folder."""
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    BartModel(
        BartConfig(vocab_size=32, d_model=16, pad_token_id=0, **sizes, **heads)
    ).save_pretrained(folder)
    save_tokenizer(folder, special=True, padded=True)
    return str(folder)


@pytest.fixture
def model_of(encoder: str, tmp_path: Path) -> Callable[[str], Path]:
    """Makes the model folder of a method, of sentences of 16 tokens at most."""

    def make(method: str) -> Path:
        folder = tmp_path / "model"
        if method in CLOSED:
            stories, judged = "builtin:stories?size=200", "builtin:similarity?split=dev&size=40"
            words = "builtin:ppmi?width=8"
            units = {"n_h": 8} if method == "laes" else {}
            sentune.fit(method, stories, dev=judged, set=units, vectors=words, out=tmp_path)
        elif method == "invertible":
            made = invertible_scenes.model()
            _, training = split({}, Invertible)
            save_model(made, "", folder, training=training, readouts={}, card={})
        elif method == "intersent":
            made, training = intersent_scenes.build()
            source = intersent_scenes.folder()
            save_model(made, source, folder, training=training, readouts={}, card={})
        else:
            source = bart(tmp_path / "bart") if method == BART else encoder
            saved("simcse" if method == BART else method, source, folder, max_length=16)
        return folder

    return make


@pytest.mark.parametrize("method", [*PLAIN, BART, "gumbel", "gauss", OWN, "invertible", *CLOSED])
def test_vectors_are_those_of_the_embedder(
    method: str, model_of: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = model_of(method)
    ours = Embedder.load(folder, "cpu")
    if method not in PLAIN:
        with pytest.raises(ValueError, match="trust_remote_code"):
            peer.SentenceTransformer(str(folder), device="cpu")
    trust = method not in PLAIN
    theirs = peer.SentenceTransformer(str(folder), device="cpu", trust_remote_code=trust)
    found = ours.encode(SENTENCES)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ours)).encode(SENTENCES), found)
    assert np.ptp(found, axis=0).max() > 1e-3
    np.testing.assert_allclose(theirs.encode(SENTENCES), found, rtol=1e-5, atol=1e-6)
    table = torch.from_numpy(ours.similarity_table(SENTENCES, SENTENCES))
    torch.testing.assert_close(theirs.similarity(found, found), table, rtol=1e-5, atol=1e-5)
    theirs.save(str(tmp_path / "copy"), create_model_card=False)
    again = peer.SentenceTransformer(str(tmp_path / "copy"), device="cpu", trust_remote_code=trust)
    np.testing.assert_allclose(again.encode(SENTENCES), found, rtol=1e-5, atol=1e-6)


def test_a_length_and_a_pair_of_vectors_are_those_of_the_embedder(
    model_of: Callable[[str], Path],
) -> None:
    folder = model_of("gumbel")
    ours = Embedder.load(folder, "cpu")
    theirs = peer.SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    assert theirs.max_seq_length == ours.max_length == 16
    whole = ours.encode(SENTENCES)
    np.testing.assert_allclose(theirs.encode(["poodle runs"], prompt="a "), whole[:1], rtol=1e-5)
    with pytest.raises(InvalidValue, match=r"sentences\[0\]: None"):
        theirs.encode([None])
    found = theirs.similarity_pairwise(whole[0], whole[1])
    assert found.tolist() == pytest.approx([ours.similarity(whole[0], whole[1])])
    theirs.max_seq_length = ours.max_length = 4
    short = theirs.encode(SENTENCES)
    np.testing.assert_allclose(short, ours.encode(SENTENCES), rtol=1e-5, atol=1e-6)
    assert not np.allclose(short, whole)


def test_a_method_in_a_module_that_begins_like_simcse_keeps_its_head(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    (tmp_path / "simcse_halved.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    saved("simcse_halved:Halved", encoder, tmp_path / "model")
    theirs = peer.SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True)
    ours = Embedder.load(tmp_path / "model", "cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs.encode(SENTENCES), ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["simcse", "intersent"])
def test_the_files_are_those_that_the_library_saves(
    method: str, model_of: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = model_of(method)
    theirs = peer.SentenceTransformer(str(folder), device="cpu")
    theirs.save(str(tmp_path / "theirs"), create_model_card=False)
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        assert json_of(folder / name) == json_of(tmp_path / "theirs" / name)
    pooling = "1_Pooling/config.json"
    assert json_of(folder / pooling) == json_of(tmp_path / "theirs" / pooling)


def json_of(file: Path) -> Any:
    return json.loads(file.read_text())
