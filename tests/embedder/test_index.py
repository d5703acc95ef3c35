"""Search in an index against the model's own tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sentune.embedder.embedder import Embedder
from sentune.embedder.index import SentenceIndex, write_embeddings
from sentune.encoders import prepare
from sentune.errors import CorpusError, InvalidValue
from tests.embedder.test_embedder import make

WORDS = ("dog", "cat", "poodle", "animal", "child", "ice", "meadow", "runs", "sleeps", "eats")
SENTENCES = [f"a {one} {two} near a {three}" for one in WORDS for two in WORDS for three in WORDS]
QUERIES = ["a dog runs near a meadow", "an animal sleeps", "a child"]
SCORES = {"gumbel": ("similarity", "entailed", "entailing"), "simcse": ("similarity",)}
SCORES["gauss"] = SCORES["gumbel"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoders")
    return prepare("builtin:tiny?layers=1&width=32", SENTENCES[:100], folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "in.txt"
    file.write_text("\n".join([*SENTENCES[:500], "", *SENTENCES[500:]]) + "\n")
    return file


def expected(embedder: Embedder, by: str) -> np.ndarray:
    """[Q, P] scores from the geometry's whole table."""
    queries, passages = embedder.embed(QUERIES), embedder.embed(SENTENCES)
    if by == "similarity":
        return embedder.similarity_table(QUERIES, SENTENCES)
    with torch.no_grad():
        if by == "entailed":
            return embedder.geometry.entails_table(queries, passages).cpu().numpy()
        return embedder.geometry.entails_table(passages, queries).T.cpu().numpy()


@pytest.mark.parametrize(("name", "by"), [(n, by) for n, all_by in SCORES.items() for by in all_by])
def test_the_best_by_the_models_own_score(
    name: str, by: str, encoder: str, source: Path, tmp_path: Path
) -> None:
    embedder = make(encoder, name)
    assert SentenceIndex.build(embedder, source, tmp_path / "index") == (len(SENTENCES), 1)
    found = embedder.search(QUERIES, tmp_path / "index", k=7, by=by)
    table = expected(embedder, by)
    # in 32 bits little is left of the divergence of nearly equal Gaussians
    near = 1e-3 if name == "gauss" else 1e-5
    for row, hits in zip(table, found, strict=True):
        assert len(hits) == 7
        best = np.sort(row)[::-1][:7]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=near)
        for hit in hits:
            assert hit.sentence == SENTENCES[hit.row]
            assert hit.score == pytest.approx(row[hit.row], abs=near)


def test_an_index_that_another_program_wrote_again(encoder: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a dog runs\na cat eats\n")
    embedder, index = make(encoder, "gauss"), tmp_path / "index"
    SentenceIndex.build(embedder, tmp_path / "in.txt", index)
    before = embedder.search(["a dog"], index, k=2)
    (file,) = index.glob("*.parquet")
    table = pq.read_table(file)
    embeddings = pa.array(table["embedding"].to_pylist(), pa.list_(pa.float32()))
    place = table.column_names.index("embedding")
    pq.write_table(table.set_column(place, "embedding", embeddings), file)
    assert embedder.search(["a dog"], index, k=2) == before


def test_fewer_sentences_than_asked_for(encoder: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a dog runs\na cat eats\n")
    embedder = make(encoder, "gauss")
    SentenceIndex.build(embedder, tmp_path / "in.txt", tmp_path / "index")
    (hits,) = embedder.search(["a dog"], tmp_path / "index", k=5)
    assert {hit.sentence for hit in hits} == {"a dog runs", "a cat eats"}


@pytest.mark.extras
@pytest.mark.parametrize("factory", ["Flat", "HNSW32"])
def test_faiss_finds_the_nearest_points(
    factory: str, encoder: str, source: Path, tmp_path: Path
) -> None:
    pytest.importorskip("faiss", reason="the extra 'search' is not installed")
    embedder = make(encoder, "simcse")
    SentenceIndex.build(embedder, source, tmp_path / "index", factory=factory)
    table = expected(embedder, "similarity")
    found = embedder.search(QUERIES, tmp_path / "index", k=5)
    for row, hits in zip(table, found, strict=True):
        scores = [hit.score for hit in hits]
        assert scores == pytest.approx([row[hit.row] for hit in hits], abs=1e-5)
        if factory == "Flat":
            assert scores == pytest.approx(np.sort(row)[::-1][:5], abs=1e-5)
    with pytest.raises(InvalidValue, match=r"--factory.*nonsense"):
        SentenceIndex.build(embedder, source, tmp_path / "other", factory="nonsense")


@pytest.mark.extras
def test_an_interrupted_build_leaves_no_faiss_index_of_other_sentences(
    encoder: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="the extra 'search' is not installed")
    embedder, folder = make(encoder, "simcse"), tmp_path / "index"
    SentenceIndex.build(embedder, source, folder, factory="Flat")
    (tmp_path / "in.txt").write_text("a dog runs\na cat eats\n")

    def killed(*args: Any, **options: Any) -> None:
        write_embeddings(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr("sentune.embedder.index.write_embeddings", killed)
    with pytest.raises(KeyboardInterrupt):
        SentenceIndex.build(embedder, tmp_path / "in.txt", folder, factory="Flat")
    (hits,) = embedder.search(["a dog"], folder, k=5)
    assert {hit.sentence for hit in hits} == {"a dog runs", "a cat eats"}


@pytest.mark.extras
def test_a_damaged_faiss_index_is_named(encoder: str, source: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="the extra 'search' is not installed")
    embedder, file = make(encoder, "simcse"), tmp_path / "points.faiss"
    SentenceIndex.build(embedder, source, tmp_path, factory="Flat")
    file.write_bytes(file.read_bytes()[:-99])
    with pytest.raises(
        InvalidValue, match=r"INDEX.*points\.faiss is damaged.*make the index again"
    ):
        embedder.search(QUERIES, tmp_path)


def test_an_index_in_the_home_folder_is_found(
    encoder: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    embedder = make(encoder, "simcse")
    SentenceIndex.build(embedder, source, tmp_path / "index")
    assert embedder.search(QUERIES[:1], "~/index", k=1)


def test_a_damaged_index_is_named(encoder: str, source: Path, tmp_path: Path) -> None:
    embedder, file = make(encoder, "simcse"), tmp_path / "sentences.parquet"
    SentenceIndex.build(embedder, source, tmp_path)
    file.write_bytes(file.read_bytes()[:-99])
    with pytest.raises(
        InvalidValue, match=r"INDEX.*sentences\.parquet is damaged.*make the index again"
    ):
        embedder.search(QUERIES, tmp_path)


def test_what_cannot_be_searched_is_refused(encoder: str, source: Path, tmp_path: Path) -> None:
    gumbel, simcse = make(encoder, "gumbel"), make(encoder, "simcse")
    with pytest.raises(InvalidValue, match=r"INDEX.*sentune index"):
        gumbel.search(QUERIES, tmp_path)
    SentenceIndex.build(simcse, source, tmp_path / "index")
    with pytest.raises(InvalidValue, match="made by another model"):
        gumbel.search(QUERIES, tmp_path / "index")
    with pytest.raises(InvalidValue, match=r"by.*similarity is symmetric"):
        simcse.search(QUERIES, tmp_path / "index", by="entailed")
    with pytest.raises(InvalidValue, match=r"by.*near"):
        simcse.search(QUERIES, tmp_path / "index", by="near")
    with pytest.raises(InvalidValue, match=r"--factory.*models of points"):
        SentenceIndex.build(gumbel, source, tmp_path / "boxes", factory="Flat")
    (tmp_path / "bad.txt").write_bytes(b"a dog\n\xff\n")
    with pytest.raises(CorpusError, match=r"2.*UTF-8"):
        SentenceIndex.build(gumbel, tmp_path / "bad.txt", tmp_path / "boxes")
    assert not (tmp_path / "boxes" / "sentences.parquet").exists()
