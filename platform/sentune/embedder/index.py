"""Sentences and their embeddings in a folder, searched by a model's own score.

sentences.parquet  columns text, embedding, as ``sentune encode`` writes them
points.faiss       for points, where a FAISS index was asked for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from sentune.embedder.text_file import ROWS, write_embeddings
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.geometry.points import Points
from sentune.tasks.nearest_passages import NOTHING, NearestPassages

if TYPE_CHECKING:
    from sentune.embedder.embedder import Embedder

SENTENCES, FAISS = "sentences.parquet", "points.faiss"
SAME_MODEL = 1e-3
"""Difference, relative to the largest number, that batches and devices make in an embedding."""


class Found(NamedTuple):
    """A sentence of an index; ``row`` is its place in it, from 0."""

    sentence: str
    score: float
    row: int


class SentenceIndex:
    """A folder that ``build`` made. Embeddings are read from it a block at a time.

    Args:
        folder: of the index.

    Raises:
        InvalidValue: it is none.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / SENTENCES).is_file():
            fix = "name a folder that `sentune index` wrote"
            raise InvalidValue("INDEX", str(folder), fix)

    @staticmethod
    def build(
        embedder: Embedder,
        source: Path,
        folder: Path,
        *,
        factory: str = "",
        batch_size: int = 64,
        advance: Callable[[int], object] = lambda size: None,
    ) -> tuple[int, int]:
        """Encode a text file into the folder of an index; see ``write_embeddings``.

        Args:
            factory: description of a FAISS index of cosines, for ``faiss.index_factory``; empty:
                none, the search is exact.

        Raises:
            InvalidValue: FAISS is not installed or knows no such index, or the model has no points.
        """
        faiss = _faiss(embedder.geometry) if factory else None
        done = write_embeddings(
            embedder, source, folder / SENTENCES, batch_size=batch_size, advance=advance
        )
        (folder / FAISS).unlink(missing_ok=True)
        if faiss is not None:
            table = pq.read_table(folder / SENTENCES, columns=["embedding"])
            points = _unit(_rows(table["embedding"]))
            try:
                made = faiss.index_factory(points.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
                made.train(points)
            except RuntimeError as error:
                said = str(error).splitlines()[0]
                raise InvalidValue("--factory", factory, f"FAISS makes none: {said}") from error
            made.add(points)
            faiss.write_index(made, str(folder / FAISS))
        return done

    def search(
        self, embedder: Embedder, queries: Sequence[str], *, k: int, by: str
    ) -> list[list[Found]]:
        """Return the k best sentences for each query, the best first; see ``Embedder.search``."""
        score = _score(embedder.geometry, by)
        self._refuse_other(embedder)
        embedded = embedder.embed(queries, show_progress=False)
        if (self.folder / FAISS).is_file():
            faiss = _faiss(embedder.geometry)
            index = faiss.read_index(str(self.folder / FAISS))
            scores, places = index.search(_unit(embedded.float().cpu().numpy()), k)
        else:
            nearest = NearestPassages(embedded, embedder.geometry, depth=k, score=score)
            for batch in self._batches("embedding"):
                rows = torch.from_numpy(_rows(batch["embedding"]))
                nearest.add(rows.to(embedded))
            hits = nearest.hits()
            scores, places = hits.scores.cpu().numpy(), hits.places.cpu().numpy()
        texts = self._texts({int(place) for place in places.flat if place != NOTHING})
        return [
            [
                Found(texts[int(place)], float(value), int(place))
                for value, place in zip(*row, strict=True)
                if place != NOTHING
            ]
            for row in zip(scores, places, strict=True)
        ]

    def _batches(self, *columns: str, rows: int = ROWS) -> Iterator[Any]:
        file = pq.ParquetFile(self.folder / SENTENCES)
        yield from file.iter_batches(batch_size=rows, columns=[*columns])

    def _texts(self, places: set[int]) -> dict[int, str]:
        """Return the sentences at some places."""
        found: dict[int, str] = {}
        start = 0
        for batch in self._batches("text"):
            here = [place for place in places if start <= place < start + len(batch)]
            found |= {place: batch["text"][place - start].as_py() for place in here}
            start += len(batch)
        return found

    def _refuse_other(self, embedder: Embedder) -> None:
        """Refuse a model that embeds the first sentence in another way than the index has it."""
        first = next(self._batches("text", "embedding", rows=1), None)
        if first is None or not len(first):
            raise InvalidValue("INDEX", str(self.folder), "it has no sentence; make it again")
        known = _rows(first["embedding"])[0]
        here = embedder.encode(first["text"][0].as_py())
        close = SAME_MODEL * np.abs(known).max()
        if known.shape != here.shape or np.abs(known - here).max() > close:
            fix = "it was made by another model; run `sentune index` with this one"
            raise InvalidValue("INDEX", str(self.folder), fix)


def _score(geometry: Geometry, by: str) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the score of [Q, D] queries and [P, D] passages, [Q, P]; None: their similarity."""
    if by == "similarity":
        return None
    if by not in ("entailed", "entailing"):
        raise InvalidValue("by", by, "choose one of similarity, entailed, entailing")
    if geometry.symmetric:
        fix = "this model's similarity is the same both ways; leave it out"
        raise InvalidValue("by", by, fix)
    if by == "entailed":
        return geometry.entails_table
    return lambda queries, passages: geometry.entails_table(passages, queries).T


def _faiss(geometry: Geometry) -> Any:
    """Return the module, for a model of points."""
    if not isinstance(geometry, Points):
        fix = "FAISS is for models of points; leave it out, the search is exact"
        raise InvalidValue("--factory", type(geometry).__name__, fix)
    try:
        import faiss
    except ImportError as error:
        fix = "FAISS is not installed: pip install 'sentune[search]'"
        raise InvalidValue("--factory", FAISS, fix) from error
    return faiss


def _rows(column: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return [N, D] of a column of lists of one length."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    parts = [chunk.flatten().to_numpy().reshape(len(chunk), -1) for chunk in chunks]
    return np.concatenate(parts).astype(np.float32)


def _unit(points: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.ascontiguousarray(points / np.maximum(lengths, 1e-12), dtype=np.float32)
