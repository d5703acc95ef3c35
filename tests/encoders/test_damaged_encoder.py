"""Damaged files of encoders: made again where they are derived, named where they are a user's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import save_file

from sentune.encoders import load, prepare
from sentune.errors import DamagedFile
from tests.tampering import flip

TEXTS = ["A poodle runs.", "Dogs run in the park."]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_built_in_encoder_is_made_again(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(prepare("builtin:tiny", TEXTS, tmp_path))
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    flip(folder / name)
    assert prepare("builtin:tiny", TEXTS, tmp_path) == str(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole
    (message,) = caplog.messages
    assert name in message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_user_s_encoder_is_refused_with_the_file(tmp_path: Path, name: str) -> None:
    own = tmp_path / "own"
    shutil.copytree(prepare("builtin:tiny", TEXTS, tmp_path), own)
    encoder = load(str(own))
    save_file({"x": next(encoder.parameters()).detach().clone()}, own / "model.safetensors")
    assert prepare(str(own), TEXTS, tmp_path) == str(own)
    content = (own / name).read_bytes()
    (own / name).write_bytes(content[:-10])
    with pytest.raises(DamagedFile, match=f"{name}: .*; restore it from a copy"):
        prepare(str(own), TEXTS, tmp_path)
