"""The product: encoding, comparing and deciding, on small models made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
import torch

from sentune.embedder.embedder import Embedder
from sentune.embedder.encode import Direction
from sentune.encoders import load, load_tokenizer, prepare
from sentune.errors import InvalidValue
from sentune.methods import REGISTRY
from sentune.tasks.pairs import symmetric_similarity
from sentune.training.model import save_model, seal_model
from sentune.training.settings import TrainingSettings
from tests.interpreter import run_python

SENTENCES = [
    "A poodle runs.",
    "A dog runs across a wide green meadow in the early morning.",
    "An animal moves.",
    "No animal moves.",
    "Two children eat ice cream.",
    "A poodle runs.",
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return prepare("builtin:tiny", SENTENCES, tmp_path_factory.mktemp("encoders"))


def make(encoder: str, name: str, **readouts: object) -> Embedder:
    torch.manual_seed(0)
    kind = REGISTRY[name]
    method = kind(load(encoder), kind.settings_type())
    tokenizer = load_tokenizer(encoder)
    settings = {"max_length": 16}
    return Embedder(method, tokenizer, settings=settings, readouts=readouts, device="cpu")


@pytest.fixture(params=sorted(REGISTRY))
def embedder(request: pytest.FixtureRequest, encoder: str) -> Embedder:
    return make(encoder, request.param)


@pytest.fixture
def gumbel(encoder: str) -> Embedder:
    return make(encoder, "gumbel", **{"rte/threshold": 0.25, "direction/by": "similarity"})


def test_batches_do_not_change_the_embeddings(embedder: Embedder) -> None:
    one_by_one = np.stack([embedder.encode(sentence) for sentence in SENTENCES])
    for batch_size in (1, 2, 64):
        together = embedder.encode(SENTENCES, batch_size=batch_size)
        assert together.dtype == np.float32
        np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    # the same sentence twice: where it stands in a batch moves only the last bits
    np.testing.assert_allclose(together[0], together[-1], atol=1e-6)


def test_encoding_is_without_dropout_and_repeats(embedder: Embedder) -> None:
    np.testing.assert_array_equal(embedder.encode(SENTENCES), embedder.encode(SENTENCES))


def test_nothing_gives_no_rows_of_the_right_width(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, len(embedder.encode("A dog.")))


def test_more_sentences_than_a_block_keep_their_order(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentune.embedder.encode.BATCHES_PER_BLOCK", 1)
    many = embedder.encode(SENTENCES, batch_size=2)
    np.testing.assert_allclose(many, embedder.encode(SENTENCES), atol=1e-5)


def test_long_sentences_are_cut(gumbel: Embedder) -> None:
    long = "a dog runs " * 200
    np.testing.assert_allclose(
        gumbel.encode(long), gumbel.encode(long + "and an animal moves"), atol=1e-6
    )


def test_a_bar_is_shown_when_asked_for(
    gumbel: Embedder, capsys: pytest.CaptureFixture[str]
) -> None:
    gumbel.encode(SENTENCES, show_progress=True)
    assert "Encoding" in capsys.readouterr().err
    gumbel.encode(SENTENCES)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_a_bar_is_shown_for_many_batches_on_a_terminal(
    gumbel: Embedder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentune.embedder.encode.LONG", 3)
    gumbel.encode(SENTENCES, batch_size=1)
    assert capsys.readouterr().err == ""  # nobody watches a file
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    gumbel.encode(SENTENCES, batch_size=1)
    assert "Encoding" in capsys.readouterr().err


def test_similarity_of_pairs_is_symmetric_and_broadcasts(embedder: Embedder) -> None:
    others = SENTENCES[1:4]
    paired = embedder.similarity(SENTENCES[:3], others)
    np.testing.assert_allclose(embedder.similarity(others, SENTENCES[:3]), paired, rtol=1e-4)
    table = embedder.similarity_table(SENTENCES[:3], others)
    np.testing.assert_allclose(np.diag(table), paired, rtol=1e-4)
    np.testing.assert_allclose(embedder.similarity(SENTENCES[0], others), table[0], rtol=1e-4)
    number = embedder.similarity(SENTENCES[0], others[0])
    assert isinstance(number, float)
    assert number == pytest.approx(float(paired[0]), rel=1e-4)


def test_embeddings_serve_in_place_of_sentences(gumbel: Embedder) -> None:
    a, b = gumbel.encode(SENTENCES[0]), gumbel.encode(SENTENCES[1:3])
    np.testing.assert_allclose(
        gumbel.similarity(a, b), gumbel.similarity(SENTENCES[0], SENTENCES[1:3]), rtol=1e-4
    )
    first, second = gumbel.embed(SENTENCES[:1]), gumbel.embed(SENTENCES[1:2])
    expected = float(symmetric_similarity(gumbel.geometry)(first, second))
    assert gumbel.similarity(a, b[0]) == pytest.approx(expected, rel=1e-4)


def test_no_pairs_give_nothing(gumbel: Embedder) -> None:
    assert gumbel.similarity([], []).shape == (0,)
    assert gumbel.entails([], "A dog.") == []


def test_entailment_is_decided_by_the_threshold(gumbel: Embedder) -> None:
    found = gumbel.entails(SENTENCES[0], SENTENCES[2])
    assert 0 <= found.score <= 1
    assert found.threshold == 0.25
    assert found.decision is (found.score > 0.25)
    assert gumbel.entails(SENTENCES[0], SENTENCES[2], threshold=2.0).decision is False
    many = gumbel.entails(SENTENCES[:2], SENTENCES[2])
    assert many[0].score == pytest.approx(found.score, rel=1e-4)


def test_without_a_threshold_there_is_a_score_and_no_decision(encoder: str) -> None:
    found = make(encoder, "gumbel").entails("A dog runs.", "An animal moves.")
    assert 0 <= found.score <= 1
    with pytest.raises(InvalidValue, match="threshold"):
        _ = found.decision


@pytest.mark.parametrize("name", ["gauss", "gumbel"])
@pytest.mark.parametrize("by", ["similarity", "extent"])
def test_direction_turns_with_the_pair(encoder: str, name: str, by: str) -> None:
    embedder = make(encoder, name, **{"direction/by": by})
    there = embedder.direction(SENTENCES[0], SENTENCES[1])
    back = embedder.direction(SENTENCES[1], SENTENCES[0])
    assert {there.entailing, back.entailing} == {"first", "second"}
    assert there.margin == pytest.approx(-back.margin, rel=1e-3)
    same = embedder.direction([SENTENCES[0]], [SENTENCES[0]])
    assert same == [Direction("neither", 0.0)]
    assert Direction.of(float("nan")).entailing == "neither"
    if by == "extent":
        first, second = embedder.geometry.extent(embedder.embed(SENTENCES[:2])).tolist()
        larger_first = (first > second) is embedder.geometry.entailing_is_larger()
        assert there.entailing == ("first" if larger_first else "second")


def test_points_cannot_tell_a_direction(encoder: str) -> None:
    with pytest.raises(InvalidValue, match="same both ways"):
        make(encoder, "simcse").direction("A dog runs.", "An animal moves.")


def test_wrong_input_is_named(gumbel: Embedder) -> None:
    with pytest.raises(InvalidValue, match=r"sentences\[1\]"):
        gumbel.encode(["A dog.", 3])  # type: ignore[list-item]
    with pytest.raises(InvalidValue, match="batch_size"):
        gumbel.encode(SENTENCES, batch_size=0)
    with pytest.raises(InvalidValue, match="2 and 3"):
        gumbel.similarity(SENTENCES[:2], SENTENCES[:3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.embed("abc"), "sentences: 'abc'.*list of strings"),
        (lambda model: model.encode(None), "sentences: None.*list of strings"),
        (lambda model: model.features("abc"), "sentences: 'abc'"),
        (lambda model: model.interpretations("a", references="a dog"), "references: 'a dog'"),
        (lambda model: model.encode(["a", "\ud800"]), r"sentences\[1\].*not valid Unicode"),
        (lambda model: model.encode(pd.DataFrame({"sentence": ["a"]})), "DataFrame.*its columns"),
        (lambda model: model.encode({"sentence": ["a"]}), "dict.*its columns"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(
    gumbel: Embedder, call: Callable[[Embedder], object], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        call(gumbel)


@pytest.mark.parametrize(
    "shape",
    [
        lambda model, texts: np.array(texts),
        lambda model, texts: np.array(texts, dtype=object),
        lambda model, texts: (text for text in texts),
        lambda model, texts: model.embed(texts),
        lambda model, texts: model.encode(texts).astype(np.float64),
        lambda model, texts: model.encode(texts[::-1])[::-1],
    ],
    ids=["strings", "objects", "generator", "tensor", "float64", "reversed"],
)
def test_sides_come_in_every_shape(gumbel: Embedder, shape: Any) -> None:
    expected = gumbel.similarity(SENTENCES[:2], SENTENCES[2:4])
    found = gumbel.similarity(shape(gumbel, SENTENCES[:2]), shape(gumbel, SENTENCES[2:4]))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    table = gumbel.similarity_table(shape(gumbel, SENTENCES[:2]), shape(gumbel, SENTENCES[2:4]))
    np.testing.assert_allclose(np.diag(table), expected, rtol=1e-4)
    assert len(gumbel.entails(shape(gumbel, SENTENCES[:1]), SENTENCES[2])) == 1


@pytest.mark.parametrize("shape", [(3, 2), (1,), (3, 1, 32)])
def test_embeddings_of_another_width_are_refused(gumbel: Embedder, shape: tuple[int, ...]) -> None:
    for side in (np.ones(shape, np.float32), torch.ones(shape)):
        for call in (gumbel.similarity, gumbel.similarity_table, gumbel.entails, gumbel.direction):
            with pytest.raises(InvalidValue, match=r"embeddings: .*shape.*numbers each"):
                call(side, SENTENCES[:3])


def test_an_absent_device_is_refused(encoder: str) -> None:
    gumbel = make(encoder, "gumbel")
    with pytest.raises(InvalidValue, match="device"):
        Embedder(gumbel.method, gumbel.tokenizer, settings={}, readouts={}, device="cuda:99")


@pytest.fixture
def folder(gumbel: Embedder, tmp_path: Path) -> Path:
    """A model folder as a study leaves it."""
    path = tmp_path / "model"
    save_model(
        gumbel.method,
        gumbel.tokenizer.path,
        path,
        training=TrainingSettings(max_length=16),
        readouts=gumbel.readouts,
        card={"Metrics": {"direction/accuracy": 0.987}},
    )
    return path


def test_a_saved_model_is_the_same_model(folder: Path, gumbel: Embedder) -> None:
    loaded = Embedder.load(folder, device="cpu")
    np.testing.assert_array_equal(loaded.encode(SENTENCES), gumbel.encode(SENTENCES))
    assert loaded.readouts == gumbel.readouts
    assert loaded.settings["max_length"] == loaded.max_length == 16
    assert "direction/accuracy" in loaded.card
    assert loaded.entails(*SENTENCES[:2]) == gumbel.entails(*SENTENCES[:2])


def test_a_card_that_was_edited_in_another_encoding_does_not_stop_the_model(folder: Path) -> None:
    (folder / "README.md").write_text("café", encoding="latin-1")
    assert Embedder.load(folder, "cpu").card == "caf\ufffd"


def test_a_model_in_an_object_store_is_copied_once(folder: Path, gumbel: Embedder) -> None:
    store, place = fsspec.filesystem("memory"), "memory://embedder/gumbel/model"
    store.put(str(folder), "/embedder/gumbel/model", recursive=True)
    assert np.array_equal(Embedder.load(place, "cpu").encode(SENTENCES), gumbel.encode(SENTENCES))
    store.rm("/embedder", recursive=True)
    assert Embedder.load(place, "cpu").readouts == gumbel.readouts
    with pytest.raises(InvalidValue, match=r"memory://embedder/gumbel/other.*no such folder"):
        Embedder.load("memory://embedder/gumbel/other")


def test_a_model_that_was_replaced_in_an_object_store_is_copied_again(folder: Path) -> None:
    store, place = fsspec.filesystem("memory"), "memory://replaced/model"
    found = []
    for threshold in (0.25, 0.75):
        (folder / "readouts.json").write_text(json.dumps({"rte/threshold": threshold}))
        (folder / "manifest.json").unlink(missing_ok=True)
        seal_model(folder, {})
        store.put(str(folder), "/replaced/model", recursive=True)
        found.append(Embedder.load(place, "cpu").readouts["rte/threshold"])
        store.rm("/replaced", recursive=True)
    assert found == [0.25, 0.75]


def test_a_registered_model_is_looked_up(
    folder: Path, gumbel: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def resolve(address: str) -> Path:
        asked.append(address)
        return folder

    monkeypatch.setattr("sentune.tracking.registry.resolve_model", resolve)
    loaded = Embedder.load("models:/gumbel@champion", device="cpu")
    assert asked == ["models:/gumbel@champion"]
    np.testing.assert_array_equal(loaded.encode(SENTENCES), gumbel.encode(SENTENCES))


@pytest.mark.parametrize(
    "name", ["settings.json", "readouts.json", "model.safetensors", "head.safetensors"]
)
def test_a_folder_that_lacks_a_file_is_refused_and_the_file_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InvalidValue, match=name):
        Embedder.load(folder, device="cpu")


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"no such folder; .* written hf:NAME"):
        Embedder.load("bert-base-uncased")
    study = tmp_path / "study"
    (study / "model").mkdir(parents=True)
    (study / "model" / "manifest.json").touch()
    with pytest.raises(InvalidValue, match=r"it is a study; name .*study/model"):
        Embedder.load(study)
    with pytest.raises(InvalidValue, match=r"lacks settings.json, readouts.json"):
        Embedder.load(tmp_path)


def test_the_working_folder_may_be_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert repr(Embedder.load(".", "cpu")) == "<Embedder gumbel on cpu>"
    monkeypatch.chdir(folder.parent)
    with pytest.raises(
        InvalidValue, match=r"it is not a model folder, because it lacks settings.json"
    ):
        Embedder.load("")


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "head.safetensors", "readouts.json", "settings.json", "config.json"],
)
def test_damaged_files_are_refused(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidValue, match="damaged"):
        Embedder.load(folder, device="cpu")


def test_a_pickle_in_place_of_the_weights_is_never_opened(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(InvalidValue, match=r"model\.safetensors"):
        Embedder.load(folder, device="cpu")


def test_the_embedder_is_at_the_top_and_runs_without_ray_and_mlflow() -> None:
    code = (
        "from sentune import Embedder; import sys;"
        "print(Embedder.__name__, [m for m in ('ray', 'mlflow', 'optuna') if m in sys.modules])"
    )
    assert run_python(code) == "Embedder []"
