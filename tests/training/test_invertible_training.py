"""Training on built-in stories: resuming, the constraint, validation, and the model folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sentune import evaluate
from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import WordEncoder
from sentune.embedder.embedder import Embedder
from sentune.encoders.words import WordTable
from sentune.encoders.words.learned import learn_words
from sentune.encoders.words.whole import training_folder
from sentune.errors import InvalidValue
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import REPRESENTATION
from sentune.training.checkpoints import CheckpointStore
from sentune.training.model import export_checkpoint
from sentune.training.recipes.invertible import sample
from sentune.training.trial import TrialSpec
from tests.token_tables import tokenise
from tests.training.runs import run, untimed

SETTINGS = {"hidden_size": 8, "batch_size": 32, "max_length": 16, "component_sentences": 100}


@pytest.fixture(scope="module")
def stories() -> Corpus:
    return read("builtin:stories?size=400", Kind.ADJACENT_SENTENCES)


@pytest.fixture(scope="module")
def folder(stories: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Words of the stories, with their counts."""
    cache = tmp_path_factory.mktemp("words")
    words = learn_words(stories.table["text"].to_pylist(), "builtin:ppmi?width=8", cache)
    tokens = tokenise(stories, WordEncoder(WordTable.load(words.folder), 16), None)
    counts = np.bincount(tokens.columns["following"].ids, minlength=len(words.words))
    return training_folder(words, counts, cache)


@pytest.fixture
def spec(stories: Corpus, folder: str, tmp_path: Path) -> TrialSpec:
    encoder = WordEncoder(WordTable.load(folder), 16)
    return TrialSpec(
        trial="0000",
        method="invertible",
        settings=SETTINGS,
        encoder=folder,
        corpus=Held(SharedSource(tokenise(stories, encoder, None))),
        dev=Held([read("builtin:similarity?split=dev&size=60", Kind.SCORED_PAIRS)]),
        max_examples=192,
        milestones=(64, 128, 192),
        objective="sts/pearson",
        directory=str(tmp_path / "checkpoints"),
    )


@pytest.mark.parametrize("settings", [{}, {"decoder": "coupling", "precision": "bfloat16"}])
def test_killed_and_started_again_equals_uninterrupted(
    spec: TrialSpec, tmp_path: Path, settings: dict[str, Any]
) -> None:
    spec = replace(spec, settings={**spec.settings, **settings})
    killed = replace(spec, directory=str(tmp_path / "killed"))
    expected = run(spec)
    run(killed, stop_after=2)
    torch.manual_seed(999)  # the second process starts from another global state
    found = run(killed)
    assert [untimed(p) for p in found] == [untimed(p) for p in expected[1:]]
    assert found[-1].readouts == expected[-1].readouts
    states = [CheckpointStore(each.directory).last() for each in (spec, killed)]
    one, other = (load_file(Path(state or "", "weights.safetensors")) for state in states)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_validation_says_what_the_representations_are_worth(spec: TrialSpec) -> None:
    progress = run(spec, stop_after=1)[-1]
    table = progress.tables["sts/representations.json"]
    assert {"ensemble", "z_en", "z_de", "decoded", "words"} <= table.keys()
    chosen = progress.readouts["sts/representation"]
    best = max(table[name]["pearson"] for name in REPRESENTATION.grid)
    assert progress.metrics["sts/pearson"] == best == table[chosen]["pearson"]
    assert progress.readouts["representation"] == chosen
    assert 0 < progress.metrics["train/deviation"] < 10
    assert progress.metrics["sts/words_pearson"] == table["words"]["pearson"]


def exported(spec: TrialSpec, folder: Path) -> Path:
    best = CheckpointStore(spec.directory).best()
    assert best is not None
    export_checkpoint(
        best,
        folder,
        method="invertible",
        settings=spec.settings,
        encoder=spec.encoder,
        readouts={"sts/representation": "z_de"},
        card={},
    )
    return folder


def test_a_checkpoint_becomes_a_model_that_needs_nothing_else(
    spec: TrialSpec, tmp_path: Path
) -> None:
    run(spec, stop_after=1)
    folder = exported(spec, tmp_path / "model")
    embedder = Embedder.load(folder, device="cpu")
    words = WordTable.load(str(folder / "words")).words
    sentences = [" ".join(words[at : at + 5]) for at in (0, 3, 9)] + ["unheard-of"]
    found = embedder.represent(sentences)
    assert np.array_equal(embedder.encode(sentences), found["z_de"].numpy()), "the readout"
    embedder.representation = "ensemble"
    np.testing.assert_allclose(
        embedder.encode(sentences[0]), found["ensemble"][0].numpy(), atol=1e-6
    )
    both = embedder.features(sentences)
    assert both.shape == (4, 6 * 16)
    rows = [(sentences[0], sentences[1], 1.0), (sentences[0], sentences[2], 2.0),
            (sentences[1], sentences[2], 4.0)]  # fmt: skip
    of_task, of_corpus = (
        evaluate(embedder, {"sts": rows}, component_from=part)["value"]
        for part in ("task", "corpus")
    )
    assert of_task["sts/pearson"] != of_corpus["sts/pearson"]
    alone = Representations(embedder.method, max_length=40, size=2)
    halves = [alone.features(sentences, representation=name) for name in ("z_en", "z_de")]
    torch.testing.assert_close(torch.cat(halves, dim=1), both)
    with pytest.raises(InvalidValue, match="choose among ensemble, z_en, z_de"):
        alone.features(sentences, representation="z")
    assert embedder.similarity(sentences[0], sentences[0]) == pytest.approx(1, abs=1e-5)
    assert not embedder.method.training
    assert embedder.encode([]).shape == (0, 16)
    state = load_file(folder / "weights.safetensors")
    assert all(torch.equal(state[k], v) for k, v in embedder.method.state_dict().items())
    assert state["postprocessing.component_z_en"].any()
    embedder.representation = "z"
    with pytest.raises(InvalidValue, match="choose among ensemble"):
        embedder.encode(sentences)


def test_what_is_no_model_is_refused(spec: TrialSpec, tmp_path: Path) -> None:
    run(spec, stop_after=1)
    folder = exported(spec, tmp_path / "model")
    settings = json.loads((folder / "settings.json").read_text())
    changed = {**settings, "settings": {**settings["settings"], "hidden_size": 9}}
    (folder / "settings.json").write_text(json.dumps(changed))
    with pytest.raises(InvalidValue, match="does not fit"):
        Embedder.load(folder)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(InvalidValue, match=r"lacks weights\.safetensors"):
        Embedder.load(folder)


def test_the_sample_is_of_sentences_with_words_and_of_one_epoch(spec: TrialSpec) -> None:
    source = spec.corpus.open()
    found = sample(source, 50)
    assert len(found) == 50
    assert all(len(row) for row in found)
    assert len(sample(source, 10**6)) <= source.num_rows
