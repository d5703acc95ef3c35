"""``sentune interpret`` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from sentune.cli.model import interpret
from sentune.embedder.embedder import Embedder
from sentune.embedder.references import StoredReferences
from sentune.encoders import load, load_tokenizer, prepare
from sentune.errors import InvalidValue
from sentune.formatting import percent
from sentune.methods import REGISTRY

SENTENCES = [
    "A poodle runs.",
    "A dog runs across a [wide] green meadow in the early morning, and nobody is there to see it.",
    "An animal moves.",
    "No animal moves.",
    "Two children eat ice cream.",
]
app = typer.Typer()
app.command()(interpret)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return prepare("builtin:tiny", SENTENCES, tmp_path_factory.mktemp("encoders"))


@pytest.fixture(autouse=True)
def models(encoder: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Embedder]:
    """Models by name: boxes with and without references and readouts, and points."""
    made = {}
    for name, method, readouts in (
        ("gumbel", "gumbel", {}),
        ("tuned", "gumbel", {"csts/alpha_1": 0.9999999, "csts/alpha_2": 1.0}),
        ("bare", "gumbel", {}),
        ("simcse", "simcse", {}),
    ):
        torch.manual_seed(0)
        kind = REGISTRY[method]
        model = kind(load(encoder), kind.settings_type())
        tokenizer = load_tokenizer(encoder)
        embedder = Embedder(model, tokenizer, settings={}, readouts=readouts, device="cpu")
        if name != "bare":
            embedder.references = StoredReferences(SENTENCES, embedder.embed(SENTENCES))
        made[name] = embedder
    monkeypatch.setattr(Embedder, "load", lambda source, device: made[source])
    return made


def run(*arguments: str, columns: int = 100) -> str:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_table_that_fits_and_how_many_were_in_question(models: dict[str, Embedder]) -> None:
    shown = run("gumbel", "a poodle [runs]", "-k", "3", "--alpha-1", "0")
    lines = shown.splitlines()
    assert lines[0].strip() == "a poodle [runs]"
    assert max(map(len, lines)) <= 100
    assert "4 of 4 references have a coverage between alpha_1 0 and alpha_2 1." in lines[-2]
    found = models["gumbel"].interpretations("a poodle [runs]", 3, alpha_1=0.0)
    assert len(found) == 3
    for one in found:
        assert one.reference[:30] in shown
        assert percent(one.coverage) in shown
    assert "A poodle runs." not in shown


def test_a_narrow_terminal_loses_no_words() -> None:
    words = " ".join(run("gumbel", "A cat.", "--alpha-1", "0", columns=60).split())
    assert "[wide] green" in words
    assert "5 of 5 references" in words


def test_other_references(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_text("A cat sleeps.\nA bird sings.\nA cat sleeps.\n")
    shown = run("bare", "A poodle runs.", "--references", f"text:{path}", "--alpha-1", "0")
    assert "A cat sleeps." in shown
    assert "of 2 references" in shown


def test_none_says_how_low_alpha_1_would_have_to_be() -> None:
    shown = run("tuned", "A cat.")
    assert "0 of 5 references" in shown
    largest = float(shown.split("alpha_2 is ")[1].split(":")[0])
    assert "A dog" in run("tuned", "A cat.", "--alpha-1", str(largest * 0.1))
    assert "larger --alpha-2" in run("gumbel", "A cat.", "--alpha-1", "0", "--alpha-2", "1e-30")


def test_what_cannot_be() -> None:
    with pytest.raises(InvalidValue, match="boxes"):
        run("simcse", "A cat.")
    with pytest.raises(InvalidValue, match="--references"):
        run("bare", "A cat.")
