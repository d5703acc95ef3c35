"""``sentune push``: what goes to the Hub, and what is refused before."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError
from typer.testing import CliRunner

from sentune.cli import app
from sentune.encoders import prepare
from sentune.errors import InvalidValue
from sentune.training.model import seal_model
from tests.training.test_model import saved


@pytest.fixture
def model(tmp_path: Path) -> Path:
    encoder = prepare("builtin:tiny?layers=1&width=32", ["A dog runs."], tmp_path / "encoders")
    saved("gumbel", encoder, tmp_path / "model")
    seal_model(tmp_path / "model", {})
    return tmp_path / "model"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the Hub."""

    class LocalHub:
        def create_repo(self, repo: str, **given: Any) -> None:
            (tmp_path / "hub" / repo).mkdir(parents=True, exist_ok=given["exist_ok"])

        def upload_folder(self, repo_id: str, folder_path: Path, **_: Any) -> Any:
            shutil.copytree(folder_path, tmp_path / "hub" / repo_id, dirs_exist_ok=True)
            return SimpleNamespace(commit_url=f"https://huggingface.co/{repo_id}/commit/1")

    monkeypatch.setattr(huggingface_hub, "HfApi", LocalHub)
    return tmp_path / "hub"


def push(*words: str) -> Any:
    return CliRunner().invoke(app, ["push", *words])


def test_a_dry_run_names_the_files_and_sends_nothing(model: Path, hub: Path) -> None:
    done = push(str(model), "ann/boxes", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "model.safetensors" in done.stdout
    said = "would be uploaded to https://huggingface.co/ann/boxes; all checksums match"
    assert said in done.stdout
    assert "the model has no licence" in done.stderr
    assert not hub.exists()


def test_what_was_pushed_is_the_model(model: Path, hub: Path) -> None:
    card = model / "README.md"
    card.write_text(card.read_text().replace("---\n", "---\nlicense: apache-2.0\n", 1))
    done = push(str(model), "ann/boxes")
    assert done.exit_code == 0, done.output
    assert "no licence" not in done.stderr
    assert "huggingface.co/ann/boxes/commit/1" in done.stdout
    for file in model.rglob("*.*"):
        assert (hub / "ann" / "boxes" / file.relative_to(model)).read_bytes() == file.read_bytes()


def test_a_damaged_model_and_a_wrong_name_are_refused(model: Path, hub: Path) -> None:
    wrong = push(str(model), "no such name/x/y")
    assert "OWNER/NAME" in str(wrong.exception)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    done = push(str(model), "ann/boxes")
    assert "model.safetensors" in str(done.exception)
    assert not hub.exists()


def test_a_card_that_is_not_yaml_is_named(model: Path, hub: Path) -> None:
    card = model / "README.md"
    card.write_text(card.read_text().replace("---\n", "---\nlicense: foo: bar\n", 1))
    done = push(str(model), "ann/boxes")
    assert isinstance(done.exception, InvalidValue)
    assert "README.md" in str(done.exception)
    assert not hub.exists()


def test_what_the_hub_says_is_one_sentence(
    model: Path, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def create_repo(self, *_: Any, **__: Any) -> None:
            raise HfHubHTTPError("401 Client Error\nInvalid token", response=SimpleNamespace(
                headers={}, request=None, status_code=401,
            ))  # type: ignore[arg-type]  # fmt: skip

    monkeypatch.setattr(huggingface_hub, "HfApi", Refusing)
    done = push(str(model), "ann/boxes")
    assert "ann/boxes was not pushed: 401 Client Error Invalid token" in str(done.exception)
    assert not hub.exists()


def test_metadata_that_the_hub_refuses_are_one_sentence(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library has the Hub check a card before it sends a file: its ``validate-yaml``."""
    said = {"errors": [{"message": "base_model must be a string"}]}
    asked = httpx2.Request("POST", "https://huggingface.co/api/validate-yaml")
    answer = httpx2.Response(400, json=said, request=asked)

    class WithoutNetwork(huggingface_hub.HfApi):
        def create_repo(self, *_: Any, **__: Any) -> Any:
            return None

    session = SimpleNamespace(post=lambda *_, **__: answer)
    monkeypatch.setattr("huggingface_hub.hf_api.get_session", lambda: session)
    monkeypatch.setattr(huggingface_hub, "HfApi", WithoutNetwork)
    told = str(push(str(model), "ann/boxes").exception)
    assert "ann/boxes was not pushed: Invalid metadata in README.md" in told
    assert "base_model must be a string" in told
