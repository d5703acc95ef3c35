"""Encoders from local folders, and everything that is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BartConfig,
    BertConfig,
    BertModel,
    MPNetConfig,
    MPNetModel,
    PretrainedConfig,
    T5Config,
)

from sentune.encoders import (
    TextEncoder,
    even_shares,
    length_sorted_chunks,
    load,
    load_tokenizer,
    prepare,
)
from sentune.encoders.prepare import named_folder
from sentune.encoders.tokenizing import pad
from sentune.errors import InvalidValue

SENTENCES = ["a poodle runs", "no four legged animal runs in the park", "bark"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Hugging Face folder with weights, as anybody might have one."""
    source = prepare("builtin:tiny?layers=1&width=16&heads=2&inner=32", SENTENCES, tmp_path)
    target = tmp_path / "bert"
    torch.manual_seed(0)
    BertModel(BertConfig.from_pretrained(source)).save_pretrained(target)
    AutoTokenizer.from_pretrained(source).save_pretrained(target)
    return target


def encode(encoder: TextEncoder, path: str, pooling: str, size: int) -> torch.Tensor:
    tokenizer = load_tokenizer(path)
    rows = tokenizer.encode(SENTENCES, 32)
    chunks, restore = length_sorted_chunks(rows, size, tokenizer.pad_id)
    with torch.no_grad():
        return torch.cat([encoder.eval()(*chunk, pooling) for chunk in chunks])[restore]  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_pooling_against_transformers_one_sentence_at_a_time(folder: Path, size: int) -> None:
    path = prepare(str(folder), [], folder)
    peer = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        states = [peer(tokenizer(s, return_tensors="pt")["input_ids"])[0][0] for s in SENTENCES]
    expected = {"cls": [s[0] for s in states], "mean": [s.mean(0) for s in states]}
    for pooling, vectors in expected.items():
        found = encode(load(path), path, pooling, size)
        torch.testing.assert_close(found, torch.stack(vectors), atol=1e-5, rtol=1e-4)


def test_half_precision_weights_are_trained_in_float32(folder: Path) -> None:
    weights = {k: v.half() for k, v in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = folder / "config.json"
    config.write_text(config.read_text().replace("float32", "float16"))
    assert all(p.dtype is torch.float32 for p in load(str(folder)).parameters())


def test_attention_does_without_cudnn(folder: Path) -> None:
    torch.backends.cuda.enable_cudnn_sdp(enabled=True)
    load(str(folder))
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_torch_s_attention_is_used_where_a_model_has_it(folder: Path) -> None:
    encoder, tokenizer = load(str(folder)).eval(), load_tokenizer(str(folder))
    with torch.profiler.profile() as profiled:
        encoder(*pad(tokenizer.encode(SENTENCES, 32), 0), "cls")
    assert "aten::scaled_dot_product_attention" in {event.key for event in profiled.key_averages()}


@pytest.mark.parametrize("weights", [True, False])
def test_an_encoder_without_torch_s_attention_embeds(
    folder: Path, tmp_path: Path, *, weights: bool
) -> None:
    path, tokenizer = tmp_path / "mpnet", AutoTokenizer.from_pretrained(folder)
    config = MPNetConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    (MPNetModel(config) if weights else config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    assert encode(load(str(path)), str(path), "mean", 2).shape == (3, 16)


@pytest.mark.parametrize(
    ("kind", "longest"), [("bert", 34), ("electra", 34), ("roberta", 32), ("mpnet", 32)]
)
def test_the_longest_sentence_has_a_position_for_each_token(kind: str, longest: int) -> None:
    config = AutoConfig.for_model(
        kind, vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=34, pad_token_id=1, embedding_size=16,
    )  # fmt: skip
    encoder = TextEncoder(AutoModel.from_config(config))
    assert encoder.max_length == longest
    ids = torch.full((1, longest), 7)
    assert encoder(ids, torch.ones_like(ids), "mean").shape == (1, 16)
    ids = torch.full((1, longest + 1), 7)
    with pytest.raises((IndexError, RuntimeError)):
        encoder(ids, torch.ones_like(ids), "mean")


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_sentence_without_a_token_is_zero(folder: Path, pooling: Literal["mean", "max"]) -> None:
    ids, mask = torch.ones(2, 3, dtype=torch.int64), torch.tensor([[1, 1, 1], [0, 0, 0]])
    encoder = load(str(folder))
    found = encoder(ids, mask, pooling)
    found.sum().backward()
    assert found[0].any()
    assert not found[1].any()
    assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.grad is not None)


def test_without_a_pooler_every_parameter_has_a_gradient(folder: Path) -> None:
    encoder = load(str(folder))
    rows = load_tokenizer(str(folder)).encode(SENTENCES, 32)
    encoder(*pad(rows, 0), "cls").sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_dropout_can_be_set(folder: Path) -> None:
    encoder = load(str(folder)).train()
    rows = load_tokenizer(str(folder)).encode(SENTENCES, 32)
    chunk = pad(rows, 0)
    encoder.set_dropout(0.0)
    assert torch.equal(encoder(*chunk, "cls"), encoder(*chunk, "cls"))
    encoder.set_dropout(0.5)
    assert not torch.equal(encoder(*chunk, "cls"), encoder(*chunk, "cls"))


@pytest.mark.parametrize(
    "config",
    [
        BartConfig(
            vocab_size=32, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32,
            decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2,
        ),
        T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2),
    ],
    ids=["bart", "t5"],
)  # fmt: skip
def test_dropout_of_functions_can_be_set_too(config: PretrainedConfig) -> None:
    encoder = TextEncoder(AutoModel.from_config(config)).train()
    ones = torch.ones(2, 6, dtype=torch.int64)
    encoder.set_dropout(0.0)
    assert torch.equal(encoder(ones, ones, "mean"), encoder(ones, ones, "mean"))
    encoder.set_dropout(0.5)
    assert not torch.equal(encoder(ones, ones, "mean"), encoder(ones, ones, "mean"))


def test_dropout_that_the_config_does_not_have_counts() -> None:
    config = BartConfig(
        vocab_size=32, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32,
        decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2, dropout=0.0,
    )  # fmt: skip
    encoder = TextEncoder(AutoModel.from_config(config)).train()
    assert not encoder.drops_out()
    encoder.set_dropout(0.5)
    assert encoder.drops_out()


def test_lost_weights_are_an_error(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if name.endswith("query.weight"))
    del weights[lost]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidValue, match="its weights lack"):
        load(str(folder))


def test_pickled_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    for attempt in (lambda: prepare(str(folder), [], tmp_path), lambda: load(str(folder))):
        with pytest.raises(InvalidValue, match="safetensors"):
            attempt()


@pytest.mark.parametrize("spec", ["/no/such/folder", "./nothing", "~/nothing-here", "a/b/c"])
def test_a_folder_that_does_not_exist(spec: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"--encoder: .* no such folder"):
        prepare(spec, [], tmp_path)


def test_a_folder_that_is_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"config\.json"):
        prepare(str(tmp_path), [], tmp_path)


def test_a_hub_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InvalidValue, match=r"--encoder: 'someone/encoder'.*builtin:tiny"):
        prepare("someone/encoder", [], tmp_path)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_name_of_the_hub_without_safetensors_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: Literal["encoder", "decoder"]
) -> None:
    """Pickles that it has are not fetched; a local folder without weights is one to train."""
    module = sys.modules[named_folder.__module__]
    monkeypatch.setattr(module, "snapshot_download", lambda *_, **__: str(folder))
    assert named_folder("someone/encoder", part) == str(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InvalidValue, match=f"--{part}: 'someone/encoder'.*no safetensors"):
        named_folder("someone/encoder", part)
    assert named_folder(str(folder), part) == str(folder)


class TestPadding:
    def test_chunks_are_sorted_and_restored(self) -> None:
        rows = [np.arange(1, n + 1, dtype=np.int32) for n in (3, 1, 5, 5, 2, 4, 1)]
        chunks, restore = length_sorted_chunks(rows, 3, pad_id=0)
        assert [tuple(c.input_ids.shape) for c in chunks] == [(3, 5), (2, 3), (2, 1)]
        sums = torch.cat([chunk.input_ids.sum(1) for chunk in chunks])[restore]
        assert sums.tolist() == [row.sum() for row in rows]
        assert [int(c.attention_mask.sum()) for c in chunks] == [14, 5, 2]

    def test_a_gpu_is_called_less_often(self) -> None:
        rows = [np.ones(n, dtype=np.int32) for n in range(1, 21) for _ in range(40)]
        on_cpu, on_gpu = (length_sorted_chunks(rows, 512, 0, kind)[0] for kind in ("cpu", "cuda"))
        assert [len(chunk.input_ids) for chunk in on_gpu] == [400, 400]
        assert len(on_cpu) > 4

    def test_padding_takes_the_tokenizers_id(self) -> None:
        chunk = pad([np.array([5, 6]), np.array([7])], pad_id=9)
        assert chunk.input_ids.tolist() == [[5, 6], [7, 9]]
        assert chunk.attention_mask.tolist() == [[1, 1], [1, 0]]

    def test_nothing_gives_no_chunk(self) -> None:
        chunks, restore = length_sorted_chunks([], 4, 0)
        assert (chunks, restore.tolist()) == ([], [])

    @given(lengths=st.lists(st.integers(1, 500), min_size=5), count=st.integers(1, 5))
    def test_shares_have_as_many_tokens_and_none_is_empty(
        self, lengths: list[int], count: int
    ) -> None:
        order, sizes = even_shares([np.zeros(n, np.int32) for n in lengths], count)
        ordered = [lengths[at] for at in order]
        assert ordered == sorted(lengths, reverse=True)
        assert sorted(order) == list(range(len(lengths)))
        assert min(sizes) > 0
        assert sum(sizes) == len(lengths)
        tokens, most = np.cumsum([0, *ordered]), len(lengths) - count
        for share, end in enumerate(np.cumsum(sizes)[:-1], 1):
            even = sum(lengths) * share / count
            assert tokens[end] <= even or end == share, "another sentence would not fit"
            assert tokens[end + 1] >= even or end == most + share


def test_minilm_from_disk_gives_known_neighbours(tmp_path: Path) -> None:
    data = os.environ.get("SENTUNE_DATA", "")
    models = os.environ.get("SENTUNE_MODELS") or (str(Path(data).parent / "models") if data else "")
    path = Path(models, "all-MiniLM-L6-v2")
    if not models or not path.is_dir():
        pytest.skip("set SENTUNE_DATA or SENTUNE_MODELS to a folder with all-MiniLM-L6-v2")
    encoder = load(prepare(str(path), [], tmp_path))
    assert encoder.width == 384
    assert all(p.dtype is torch.float32 for p in encoder.parameters())
    tokenizer = load_tokenizer(str(path))
    texts = ["A dog runs.", "A puppy is running.", "The parliament passed a law."]
    with torch.no_grad():
        vectors = encoder.eval()(*pad(tokenizer.encode(texts, 32), tokenizer.pad_id), "mean")
    cosines = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    assert cosines[0] > 0.6
    assert cosines[1] < 0.2
