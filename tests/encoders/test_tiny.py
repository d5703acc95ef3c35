"""The built-in encoder: learned from the corpus, equal for equal texts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, DistilBertConfig, T5Config

from sentune.encoders import load, load_tokenizer, prepare
from sentune.encoders.prepare import encoder_class
from sentune.errors import InvalidValue
from tests.interpreter import run_python

TEXTS = ["A poodle runs.", "No four-legged animal runs in the park!", "Poodles ran; dogs run."] * 4


def files(folder: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def test_the_same_texts_give_the_same_folder_whatever_their_order(tmp_path: Path) -> None:
    first = prepare("builtin:tiny", TEXTS, tmp_path)
    assert prepare("builtin:tiny", reversed(TEXTS), tmp_path) == first
    assert Path(first).is_absolute()
    assert Path(prepare("builtin:tiny", TEXTS, tmp_path / "other")).name == Path(first).name


def test_a_known_source_is_not_read_again_unless_its_folder_is_gone(tmp_path: Path) -> None:
    first = prepare("builtin:tiny", TEXTS, tmp_path, "of these sentences")

    def unread() -> Iterator[str]:
        raise AssertionError("read again")
        yield

    assert prepare("builtin:tiny", unread(), tmp_path, "of these sentences") == first
    for damage in (b"tiny-../..", b"\xff\xfe"):
        (note,) = (tmp_path / "sources").iterdir()
        note.write_bytes(damage)
        assert prepare("builtin:tiny", TEXTS, tmp_path, "of these sentences") == first
    shutil.rmtree(first)
    assert prepare("builtin:tiny", TEXTS, tmp_path, "of these sentences") == first
    other = prepare("builtin:tiny", ["other words"], tmp_path, "of others")
    assert other != first
    assert prepare("builtin:tiny?width=32", TEXTS, tmp_path, "of these sentences") != first


def test_vocabulary_is_equal_in_every_process(tmp_path: Path) -> None:
    """The tokenizers library numbers characters in an order that changes with the process."""
    here = files(prepare("builtin:tiny", TEXTS, tmp_path / "here"))
    call = f"prepare('builtin:tiny', {TEXTS!r}, Path({str(tmp_path / 'there')!r}))"
    code = f"from pathlib import Path; from sentune.encoders import prepare; print({call})"
    assert files(run_python(code)) == here


def test_other_texts_or_options_give_another_folder(tmp_path: Path) -> None:
    folders = {
        prepare("builtin:tiny", TEXTS, tmp_path),
        prepare("builtin:tiny", TEXTS[1:], tmp_path),
        prepare("builtin:tiny?layers=1", TEXTS, tmp_path),
    }
    assert len(folders) == 3
    assert {path.name for path in tmp_path.iterdir()} == {Path(f).name for f in folders}


def test_tokens_are_lower_cased_words_between_special_tokens(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(prepare("builtin:tiny", TEXTS, tmp_path))
    upper, lower = tokenizer.encode(["A POODLE runs.", "a poodle runs."], 32)
    assert upper.tolist() == lower.tolist()
    assert len(lower) == 6, "[CLS] a poodle runs . [SEP]"
    assert (lower[0], lower[-1], tokenizer.pad_id) == (2, 3, 0)
    assert len(tokenizer.encode(["a poodle runs."], 4)[0]) == 4


def test_unseen_words_are_cut_into_pieces(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(prepare("builtin:tiny", TEXTS, tmp_path))
    (ids,) = tokenizer.encode(["poorer"], 32)
    assert len(ids) > 3
    assert 1 not in ids, "[UNK]"


def test_weights_are_drawn_from_the_global_seed(tmp_path: Path) -> None:
    path = prepare("builtin:tiny?layers=1&width=32&heads=2&inner=64", TEXTS, tmp_path)
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        encoder = load(path)
        weights.append(torch.cat([p.flatten() for p in encoder.parameters()]))
    assert encoder.width == 32
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        ("builtin:small", "the built-in encoder is builtin:tiny"),
        ("builtin:tiny?depth=3", "; depth: extra inputs are .*; the options are layers, [a-z, ]+$"),
        ("builtin:tiny?layers=many", "; layers: input should be .*; the options are layers, width"),
        ("builtin:tiny?layers", "; bad query field: 'layers'; the options are layers, width"),
        ("builtin:tiny?heads=3", "width must be a multiple of heads"),
    ],
)
def test_options_that_cannot_be_used(spec: str, fix: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=f"--encoder: .*{fix}"):
        prepare(spec, TEXTS, tmp_path)


def test_a_corpus_without_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no words"):
        prepare("builtin:tiny", ["", " "], tmp_path)


def test_the_class_of_an_encoder_is_told_by_its_config(tmp_path: Path) -> None:
    configs = {
        "small": BertConfig(hidden_size=384),
        "base": DistilBertConfig(dim=768),
        "bundle/encoder": T5Config(d_model=512),
    }
    for name, config in configs.items():
        config.save_pretrained(tmp_path / name)
    found = {name: encoder_class(name, str(tmp_path / name)) for name in ("small", "base")}
    assert found == {"small": "small", "base": "base"}
    assert encoder_class("t5", str(tmp_path / "bundle")) == "small"
    assert encoder_class("builtin:tiny?width=1024", prepare("builtin:tiny", TEXTS, tmp_path)) == (
        "scratch"
    )
    assert encoder_class("glove:file.txt", str(tmp_path)) == ""
