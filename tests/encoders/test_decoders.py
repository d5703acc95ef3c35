"""Decoders of three families against plain calls of the library's models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BertLMHeadModel,
    RobertaConfig,
)

from sentune.encoders import load
from sentune.encoders.decoders import Decoder, load_decoder
from sentune.encoders.prepare import bundle, prepare_decoder
from sentune.encoders.tokenizing import pad
from sentune.encoders.transformer import most_tokens
from sentune.errors import InvalidValue
from tests.methods import intersent_scenes as corpus
from tests.methods.intersent_scenes import DECODER, FAMILIES, columns, family, scratch, texts

ALL = (*FAMILIES, "tiny")


def decoder_of(name: str) -> Decoder:
    torch.manual_seed(1)
    if name == "tiny":
        return load_decoder(prepare_decoder(DECODER, texts(), scratch())).eval()
    return load_decoder(family(name)).eval()


def memory_of(decoder: Decoder, count: int = 5) -> torch.Tensor:
    return 3 * torch.randn(count, decoder.width, generator=torch.Generator().manual_seed(2))


def plain_logits(name: str, decoder: Decoder, memory: torch.Tensor, ids: list[int]) -> torch.Tensor:
    """[V] logits after ids, by the whole model with an explicit memory of one place."""
    inputs, states = torch.tensor([ids]), memory[None, None]
    if name == "bert":
        return decoder.model(input_ids=inputs, encoder_hidden_states=states).logits[0, -1]
    found = decoder.model(encoder_outputs=(states,), decoder_input_ids=inputs)
    return found.logits[0, -1]


@pytest.mark.parametrize("name", ALL)
def test_losses_are_those_of_a_loop_over_tokens(name):
    decoder = decoder_of(name)
    rows = columns()["decoded"][:5]
    memory, chunk = memory_of(decoder), pad(rows, decoder.pad_id)
    found = decoder.loss_per_token(memory, *chunk)
    assert found.shape == chunk.input_ids.shape
    for i, row in enumerate(rows):
        prefix, expected = [decoder.start_id], [0.0] * decoder.given
        for token in row.tolist()[decoder.given :]:
            logits = plain_logits(name, decoder, memory[i], prefix)
            expected.append(-logits.log_softmax(0)[token].item())
            prefix.append(token)
        torch.testing.assert_close(found[i, : len(row)], torch.tensor(expected))
        assert not found[i, len(row) :].any(), "padding has no loss"
    assert torch.equal(decoder.predicted(chunk.attention_mask) > 0, found != 0)


@pytest.mark.parametrize("name", ALL)
def test_greedy_sentences_are_those_of_an_argmax_loop(name):
    decoder = decoder_of(name)
    memory = memory_of(decoder)
    found = decoder.generate(memory, max_length=9)
    for i, sentence in enumerate(found):
        ids = [decoder.start_id]
        while len(ids) < 9 and decoder.end_id not in ids[1:]:
            ids.append(int(plain_logits(name, decoder, memory[i], ids).argmax()))
        kept = (token for token in ids[1:] if token != decoder.end_id)
        expected = [t for t in kept if t not in (decoder.pad_id, decoder.start_id)]
        assert sentence == expected
    assert len({tuple(sentence) for sentence in found}) > 1, "the vector is read"


@pytest.mark.parametrize("name", ALL)
def test_beams_give_one_sentence_for_each_vector(name):
    decoder = decoder_of(name)
    memory = memory_of(decoder, 2)
    found = decoder.generate(memory, beams=3, max_length=6)
    assert len(found) == 2
    assert all(len(sentence) < 6 for sentence in found)


@pytest.mark.parametrize("name", ALL)
def test_a_saved_decoder_is_the_same_decoder(name, tmp_path: Path):
    decoder = decoder_of(name)
    decoder.save(tmp_path)
    torch.manual_seed(99)
    again = load_decoder(str(tmp_path)).eval()
    memory, chunk = memory_of(decoder), pad(columns()["decoded"][:5], decoder.pad_id)
    assert torch.equal(again.loss_per_token(memory, *chunk), decoder.loss_per_token(memory, *chunk))
    found, expected = (d.generate(memory, max_length=8) for d in (again, decoder))
    assert again.tokenizer.texts(found) == decoder.tokenizer.texts(expected)
    assert (again.start_id, again.given) == (decoder.start_id, decoder.given)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_the_decoders(name):
    """All get a gradient (a zero one in the attention's queries and keys: it has one place)."""
    decoder = decoder_of(name)
    chunk = pad(columns()["decoded"][:3], decoder.pad_id)
    decoder.loss_per_token(memory_of(decoder, 3), *chunk).sum().backward()
    idle = [k for k, p in decoder.named_parameters() if p.grad is None]
    assert not idle
    assert not any(".encoder.layers" in k or ".encoder.block" in k for k in decoder.state_dict())


def test_stored_weights_are_used():
    whole = AutoModelForSeq2SeqLM.from_pretrained(family("bart"))
    ours = decoder_of("bart").model
    assert torch.equal(ours.lm_head.weight, whole.lm_head.weight)
    layer, same = ours.model.decoder.layers[0], whole.model.decoder.layers[0]
    assert torch.equal(layer.encoder_attn.v_proj.weight, same.encoder_attn.v_proj.weight)


def test_positions_of_a_roberta_begin_behind_its_padding():
    config = RobertaConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=34, is_decoder=True,
    )  # fmt: skip
    assert most_tokens(AutoModelForCausalLM.from_config(config)) == 32


def test_an_encoder_gets_cross_attention():
    decoder = decoder_of("bert")
    assert isinstance(decoder.model, BertLMHeadModel)
    names = [name for name, _ in decoder.named_parameters()]
    assert any("crossattention" in name for name in names)
    words = decoder.model.get_input_embeddings().weight
    assert torch.equal(words, load(family("bert")).model.get_input_embeddings().weight)


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_an_encoder_decoder_gives_its_encoder_alone(name, tmp_path: Path):
    encoder = load(family(name)).eval()
    chunk = pad(columns()["first"][:4], 0)
    found = encoder(*chunk, "mean")
    whole = AutoModelForSeq2SeqLM.from_pretrained(family(name)).eval()
    states = whole.get_encoder()(*chunk).last_hidden_state
    mask = chunk.attention_mask[..., None]
    torch.testing.assert_close(found, (states * mask).sum(1) / mask.sum(1))
    assert not any("decoder" in name for name, _ in encoder.named_parameters())
    encoder.save(tmp_path)
    assert torch.equal(load(str(tmp_path)).eval()(*chunk, "mean"), found)


def test_the_small_decoder_is_learned_from_the_corpus(tmp_path: Path):
    folder = prepare_decoder(DECODER, texts(), tmp_path)
    assert prepare_decoder(DECODER, reversed(texts()), tmp_path) == folder
    decoder = load_decoder(folder)
    ids = [row.tolist() for row in columns()["decoded"][:4]]
    assert decoder.tokenizer.texts(ids) == corpus.rows()["target"].to_pylist()[:4]
    assert decoder.given == 1
    assert decoder.width == 24


@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        ("builtin:huge", "the built-in decoder"),
        ("builtin:tiny?depth=2", "options are"),
        ("builtin:tiny?width=10&heads=4", "multiple of heads"),
        ("/nowhere", "no such folder"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(spec, fix, tmp_path: Path):
    with pytest.raises(InvalidValue, match=fix) as caught:
        prepare_decoder(spec, texts(), tmp_path)
    assert caught.value.field == "--decoder"


def test_weights_that_are_missing_are_named(tmp_path: Path):
    for file in Path(family("bart")).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.decoder.layers.0.fc1.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidValue, match="fc1"):
        load_decoder(str(tmp_path))
    (tmp_path / "model.safetensors").rename(tmp_path / "model.bin")
    with pytest.raises(InvalidValue, match="safetensors"):
        load_decoder(str(tmp_path))


def test_a_bundle_links_both_folders(tmp_path: Path):
    encoder, decoder = family("bert"), family("bart")
    made = Path(bundle(encoder, decoder, tmp_path))
    assert bundle(encoder, decoder, tmp_path) == str(made)
    assert {p.name for p in made.iterdir()} == {"encoder", "decoder", "checksums.json"}
    for name, source in (("encoder", encoder), ("decoder", decoder)):
        here, there = made / name / "model.safetensors", Path(source, "model.safetensors")
        assert here.samefile(there)
        assert (made / name / "tokenizer.json").is_file()
    assert bundle(decoder, encoder, tmp_path) != str(made)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    with pytest.raises(InvalidValue, match="--decoder"):
        bundle(encoder, str(tmp_path), tmp_path)
