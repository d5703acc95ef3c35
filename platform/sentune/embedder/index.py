"""Embeddings of a text file's sentences as a Parquet file, and a folder to search them.

sentences.parquet  columns text, embedding, as ``sentune encode`` writes them
points.faiss       FAISS index of cosines, optional, for models of points
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn import functional as F

from sentune.embedder.references import rows_of
from sentune.errors import CorpusError, InvalidValue, first_line
from sentune.geometry.base import Geometry
from sentune.geometry.points import Points
from sentune.tasks.nearest_passages import NOTHING, NearestPassages

if TYPE_CHECKING:
    from sentune.embedder.encode import Encoding

ROWS = 4096  # rows of a row group; 4,096 embeddings of 768 numbers take 12.6 MB
SENTENCES, FAISS = "sentences.parquet", "points.faiss"
SAME_MODEL = 1e-3
"""Tolerance, relative to the largest number, of an embedding on other devices and batches."""


class Found(NamedTuple):
    """A sentence found in an index; ``row`` is its row there, from 0."""

    sentence: str
    score: float
    row: int


class SentenceIndex:
    """A folder of embeddings made by ``build``, which a search reads in blocks.

    Raises:
        InvalidValue: the folder is not an index.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        if not (self.folder / SENTENCES).is_file():
            fix = "name a folder that `sentune index` wrote"
            raise InvalidValue("INDEX", str(folder), fix)

    @staticmethod
    def build(
        embedder: Encoding,
        source: Path,
        folder: Path,
        *,
        factory: str = "",
        batch_size: int = 64,
        advance: Callable[[int], object] = lambda size: None,
    ) -> tuple[int, int]:
        """Encode a text file into the folder of an index.

        Args:
            factory: description of a FAISS index of cosines, for ``faiss.index_factory``; empty:
                no FAISS index, the search is exact.
            source, batch_size, advance: as in ``write_embeddings``.

        Returns:
            The numbers of sentences written and of empty lines.

        Raises:
            InvalidValue: FAISS is not installed or cannot make the index, or the model's embeddings
                are not points.
        """
        faiss = _faiss(embedder.geometry) if factory else None
        (folder / FAISS).unlink(missing_ok=True)  # first: it must not outlive its sentences
        done = write_embeddings(
            embedder, source, folder / SENTENCES, batch_size=batch_size, advance=advance
        )
        if faiss is not None:
            table = pq.read_table(folder / SENTENCES, columns=["embedding"])
            points = F.normalize(torch.from_numpy(rows_of(table["embedding"]))).numpy()
            try:
                made = faiss.index_factory(points.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
                made.train(points)
            except RuntimeError as error:
                fix = f"FAISS cannot make this index: {str(error).splitlines()[0]}"
                raise InvalidValue("--factory", factory, fix) from error
            made.add(points)
            faiss.write_index(made, str(folder / FAISS))
        return done

    def search(
        self, embedder: Encoding, queries: Sequence[str], *, k: int, by: str
    ) -> list[list[Found]]:
        """Return the k best sentences for each query, the best first; see ``Embedder.search``."""
        score = _score(embedder.geometry, by)
        self._refuse_other(embedder)
        embedded = embedder.embed(queries, show_progress=False)
        if (self.folder / FAISS).is_file():
            faiss = _faiss(embedder.geometry)
            try:
                index = faiss.read_index(str(self.folder / FAISS))
            except RuntimeError as error:
                raise self._damaged(FAISS, error) from error
            scores, places = index.search(F.normalize(embedded.float()).cpu().numpy(), k)
        else:
            nearest = NearestPassages(embedded, embedder.geometry, depth=k, score=score)
            for batch in self._batches("embedding"):
                nearest.add(torch.from_numpy(rows_of(batch["embedding"])).to(embedded))
            hits = nearest.hits()
            scores, places = hits.scores.cpu().numpy(), hits.places.cpu().numpy()
        texts = self._texts({*places.flatten().tolist()} - {NOTHING})
        return [
            [Found(texts[p], s, p) for s, p in zip(*row, strict=True) if p != NOTHING]
            for row in zip(scores.tolist(), places.tolist(), strict=True)
        ]

    def _batches(self, *columns: str, rows: int = ROWS) -> Iterator[Any]:
        try:
            file = pq.ParquetFile(self.folder / SENTENCES)
            yield from file.iter_batches(batch_size=rows, columns=[*columns])
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(SENTENCES, error) from error

    def _damaged(self, name: str, error: Exception) -> InvalidValue:
        fix = f"{name} is damaged: {first_line(error)}; make the index again"
        return InvalidValue("INDEX", str(self.folder), fix)

    def _texts(self, places: set[int]) -> dict[int, str]:
        """Return row -> sentence of some rows."""
        found: dict[int, str] = {}
        start = 0
        for batch in self._batches("text"):
            here = [place for place in places if start <= place < start + len(batch)]
            found |= {place: batch["text"][place - start].as_py() for place in here}
            start += len(batch)
        return found

    def _refuse_other(self, embedder: Encoding) -> None:
        """Check that the model made the index, by its embedding of the first sentence.

        Raises:
            InvalidValue: the index has no sentences, or another embedding of the first one.
        """
        first = next(self._batches("text", "embedding", rows=1), None)
        if first is None or not len(first):
            raise InvalidValue("INDEX", str(self.folder), "it has no sentences; make it again")
        known = rows_of(first["embedding"])[0]
        here = embedder.encode(first["text"][0].as_py())
        close = SAME_MODEL * np.abs(known).max()
        if known.shape != here.shape or np.abs(known - here).max() > close:
            fix = "it was made by another model; run `sentune index` with this one"
            raise InvalidValue("INDEX", str(self.folder), fix)


def write_embeddings(
    embedder: Encoding,
    source: Path,
    out: Path,
    *,
    batch_size: int = 64,
    advance: Callable[[int], object] = lambda size: None,
) -> tuple[int, int]:
    """Encode the lines of a text file into a Parquet file of columns ``text`` and ``embedding``.

    Args:
        source: text file in UTF-8 with one sentence per line; empty lines are left out.
        out: Parquet file, written atomically.
        advance: called with the number of bytes of each block of lines when it is written.

    Returns:
        The numbers of sentences written and of empty lines.

    Raises:
        InvalidValue: there is no such file.
        CorpusError: a line is not UTF-8.
    """
    if not source.is_file():
        raise InvalidValue("IN.txt", str(source), "name a text file with one sentence a line")
    width = len(embedder.encode(""))
    schema = pa.schema([("text", pa.string()), ("embedding", pa.list_(pa.float32(), width))])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    written = lines = 0
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            for block, size in _blocks(source):
                kept = [line for line in block if line]
                rows = embedder.encode(kept, batch_size=batch_size, show_progress=False)
                vectors = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), width)
                writer.write_table(pa.table([pa.array(kept, pa.string()), vectors], schema=schema))
                written, lines = written + len(kept), lines + len(block)
                advance(size)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return written, lines - written


def _blocks(source: Path) -> Iterator[tuple[list[str], int]]:
    """Yield blocks of stripped lines, with the number of bytes of each block."""
    with source.open("rb") as stream:
        lines = enumerate(stream, start=1)
        while block := list(islice(lines, ROWS)):
            texts = []
            for number, line in block:
                try:
                    texts.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
                except UnicodeDecodeError as error:
                    raise CorpusError(source, f"not UTF-8: {error.reason}", line=number) from error
            yield texts, sum(len(line) for _, line in block)


def _score(geometry: Geometry, by: str) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return a function of queries [Q, D] and passages [P, D] that returns their scores, [Q, P].

    None stands for the similarity.
    """
    if by == "similarity":
        return None
    if by not in ("entailed", "entailing"):
        raise InvalidValue("by", by, "choose one of similarity, entailed, entailing")
    if geometry.symmetric:
        raise InvalidValue("by", by, "this model's similarity is symmetric; leave it out")
    if by == "entailed":
        return geometry.entails_table
    return lambda queries, passages: geometry.entails_table(passages, queries).T


def _faiss(geometry: Geometry) -> Any:
    """Return the module ``faiss`` if it is installed and the model's embeddings are points."""
    if not isinstance(geometry, Points):
        fix = "FAISS is for models of points; leave it out to search exactly"
        raise InvalidValue("--factory", type(geometry).__name__, fix)
    try:
        import faiss
    except ImportError as error:
        fix = "FAISS is not installed: pip install 'sentune[search]'"
        raise InvalidValue("--factory", FAISS, fix) from error
    return faiss
