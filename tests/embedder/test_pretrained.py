"""Encoders as they are: from folders of each architecture, and random ones, without training."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    GPT2Config,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
    T5EncoderModel,
)

from sentune import Embedder
from sentune.encoders.words.random import KINDS, SPECTRAL_RADIUS, EchoState
from sentune.errors import InvalidValue

SENTENCES = ["a dog runs", "the dog", "a cat sleeps in the sun today"]
WORDS = [
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[UNK]",
    "a",
    "the",
    "dog",
    "cat",
    "runs",
    "sleeps",
    "in",
    "sun",
    "today",
    "this",
    "sentence",
    ":",
    "means",
]
SMALL: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 40, "pad_token_id": 0,
}  # fmt: skip
CONFIGS = {
    "bert": BertConfig(**SMALL),
    "roberta": RobertaConfig(**SMALL),
    "gpt2": GPT2Config(vocab_size=32, n_embd=16, n_layer=2, n_head=2, n_positions=40),
    "t5": T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2),
}


def save_tokenizer(folder: Path, *, special: bool, padded: bool) -> None:
    """A tokenizer of whole words.

    Args:
        special: with [CLS] and [SEP] around a sentence.
        padded: with a padding token, which GPT-2 lacks.
    """
    words = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        around = [("[CLS]", 1), ("[SEP]", 2)]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, around)
    pad = {"pad_token": "[PAD]"} if padded else {"eos_token": "[SEP]"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=40, **pad,
    )  # fmt: skip
    fast.save_pretrained(folder)


@pytest.fixture(params=list(CONFIGS))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small model of an architecture, with random weights."""
    torch.manual_seed(0)
    AutoModel.from_config(CONFIGS[request.param]).eval().save_pretrained(tmp_path)
    special = request.param not in ("gpt2", "t5")
    save_tokenizer(tmp_path, special=special, padded=request.param != "gpt2")
    return tmp_path


def states_of(folder: Path, sentence: str) -> tuple[torch.Tensor, Any]:
    """The last hidden states of one sentence, by transformers alone."""
    encoder_decoder = AutoModel.from_pretrained(folder).config.is_encoder_decoder
    kind = T5EncoderModel if encoder_decoder else AutoModel
    tokens = AutoTokenizer.from_pretrained(folder)(sentence, return_tensors="pt")
    ids = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        found = kind.from_pretrained(folder).eval()(**ids)
    return found.last_hidden_state[0], getattr(found, "pooler_output", None)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_pooling_is_that_of_the_last_hidden_states(folder: Path, pooling: str) -> None:
    model = f"hf:{folder}?pooling={pooling}"
    first = AutoTokenizer.from_pretrained(folder)(SENTENCES[0]).tokens()[0]
    if pooling == "cls" and first != "[CLS]":  # GPT-2 and T5
        with pytest.raises(InvalidValue, match=r"pooling: 'cls' .*puts no \[CLS\] before"):
            Embedder.load(model, "cpu")
        return
    found = Embedder.load(model, "cpu").encode(SENTENCES)
    pooled = {
        "mean": lambda states: states.mean(0),
        "cls": lambda states: states[0],
        "max": lambda states: states.amax(0),
        "last": lambda states: states[-1],
    }[pooling]
    expected = np.stack([pooled(states_of(folder, sentence)[0]) for sentence in SENTENCES])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_the_poolers_output(folder: Path) -> None:
    found = Embedder.load(f"hf:{folder}?pooling=pooler", "cpu").encode(SENTENCES[0])
    np.testing.assert_allclose(found, states_of(folder, SENTENCES[0])[1][0], atol=1e-5)


@pytest.mark.parametrize("folder", ["roberta"], indirect=True)
def test_a_sentence_is_cut_at_the_last_position(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_max_length": 10_000}))
    model = Embedder.load(f"hf:{folder}")
    assert np.isfinite(model.encode(["the dog " * 40])).all()


@pytest.mark.parametrize("folder", ["gpt2"], indirect=True)
def test_a_copy_by_pickle_is_the_same_encoder(folder: Path) -> None:
    embedder = Embedder.load(f"hf:{folder}?pooling=mean", "cpu")
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.encode(SENTENCES), embedder.encode(SENTENCES))


@pytest.mark.parametrize("folder", ["gpt2"], indirect=True)
def test_a_prompt_goes_around_each_sentence(folder: Path) -> None:
    embedder = Embedder.load(f"hf:{folder}?pooling=last&prompt=eol", "cpu")
    text = 'This sentence : "a dog runs" means in one word:"'
    expected = states_of(folder, text)[0][-1]
    np.testing.assert_allclose(embedder.encode("a dog runs"), expected, atol=1e-5)


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_a_sentence_transformers_model_keeps_its_own_head(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    modules = [Transformer(str(folder)), Pooling(16, pooling_mode="cls"), Dense(16, 8)]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "whole"))
    embedder = Embedder.load(f"hf:{tmp_path / 'whole'}", "cpu")
    assert embedder.encode(SENTENCES).shape == (3, 8)
    np.testing.assert_allclose(embedder.encode(SENTENCES), model.encode(SENTENCES), atol=1e-6)


@pytest.mark.parametrize(
    ("query", "said"),
    [("?pooling=first", "pooling"), ("?size=3", "size"), ("?prompt=word", "{}")],
)
@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_an_option_that_cannot_be_is_named(folder: Path, query: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Embedder.load(f"hf:{folder}{query}")


def test_what_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="name a folder of an encoder"):
        Embedder.load(f"hf:{tmp_path}")


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(InvalidValue, match="name a folder of an encoder"):
        Embedder.load(f"hf:{folder}?pooling=mean")


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """A file of word vectors of 6 numbers."""
    rng = np.random.default_rng(0)
    lines = (f"{word} " + " ".join(f"{x:.4f}" for x in rng.normal(size=6)) for word in WORDS[4:])
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    return f"glove:{tmp_path / 'glove.txt'}"


@pytest.mark.parametrize("kind", list(KINDS))
def test_random_encoders_repeat_by_seed_and_do_not_depend_on_the_batch(
    kind: str, vectors: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = f"random:{kind}?vectors={vectors}&size=32"
    embedder = Embedder.load(source, "cpu")
    found = embedder.encode([*SENTENCES, "zebra"])
    assert found.shape == (4, 32)
    assert not found[3].any()
    alone = [embedder.encode(sentence) for sentence in SENTENCES]
    np.testing.assert_allclose(found[:3], alone, atol=1e-6)
    np.testing.assert_array_equal(Embedder.load(source, "cpu").encode(SENTENCES), found[:3])
    assert not np.allclose(Embedder.load(f"{source}&seed=1", "cpu").encode(SENTENCES), found[:3])
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.encode(SENTENCES), found[:3])


def test_borep_is_the_largest_of_the_projected_words() -> None:
    encoder = KINDS["borep"](6, 32, torch.Generator().manual_seed(0))
    words, mask = torch.randn(2, 3, 6), torch.tensor([[True, True, True], [True, False, False]])
    weight = encoder.state_dict()["weight"]
    assert weight.abs().max() <= 6**-0.5
    expected = torch.stack([(words[0] @ weight).amax(0), words[1, 0] @ weight])
    torch.testing.assert_close(encoder(words, mask), expected)


def test_a_small_echo_state_network_may_be_nilpotent() -> None:
    for seed in range(40):
        encoder = EchoState(3, 4, torch.Generator().manual_seed(seed))
        assert all(weight.isfinite().all() for weight in encoder.layer.state_dict().values())


def test_the_echo_state_network_is_its_recurrence_both_ways() -> None:
    encoder = EchoState(6, 32, torch.Generator().manual_seed(0))
    weights = encoder.layer.state_dict()
    inner, recurrent = (
        [weights[f"weight_{part}_l0{suffix}"].T for suffix in ("", "_reverse")]
        for part in ("ih", "hh")
    )
    radius = torch.linalg.eigvals(recurrent[0]).abs().max().item()
    assert radius == pytest.approx(SPECTRAL_RADIUS, rel=0.1)
    words = torch.randn(4, 6)
    states = torch.zeros(2, 4, 16)
    for direction, order in enumerate((range(4), range(3, -1, -1))):
        state = torch.zeros(16)
        for place in order:
            step = words[place] @ inner[direction] + state @ recurrent[direction]
            states[direction, place] = state = torch.tanh(step)
    padded = torch.cat([words, torch.randn(2, 6)]).unsqueeze(0)
    mask = torch.tensor([[True] * 4 + [False] * 2])
    expected = torch.cat([states[0], states[1]], dim=1).amax(0)
    torch.testing.assert_close(encoder(padded, mask)[0], expected)


@pytest.mark.parametrize("kind", ["lstm", "esn"])
def test_an_odd_size_in_two_directions_is_refused(kind: str) -> None:
    with pytest.raises(InvalidValue, match=r"size: 33 .*give an even number"):
        Embedder.load(f"random:{kind}?vectors=glove:x.txt&size=33")


def test_borep_has_an_odd_size_too(
    vectors: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    embedder = Embedder.load(f"random:borep?vectors={vectors}&size=33", "cpu")
    assert embedder.encode("a dog runs").shape == (33,)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(InvalidValue, match="borep, lstm, esn"):
        Embedder.load("random:gru?vectors=glove:x.txt")
