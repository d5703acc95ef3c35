"""``sentune encode``, ``index`` and ``search``: embeddings of a text file, and what is nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from rich.progress import Progress
from typer import Argument, Option

from sentune.cli.options import BatchSize, Device, Model
from sentune.terminal import Terminal, plain_table, say, screen

Source = Annotated[Path, Argument(metavar="IN.txt", help="One sentence a line, UTF-8.")]


def encode(
    model: Model,
    source: Source,
    out: Annotated[Path, Argument(metavar="OUT.parquet", help="Columns text, embedding.")],
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Encode the sentences of a text file; empty lines are left out."""
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.index import write_embeddings

    embedder = Embedder.load(model, device)
    with _bar(source) as advance:
        written, empty = write_embeddings(
            embedder, source, out, batch_size=batch_size, advance=advance
        )
    _done(out, written, empty)


def index(
    model: Model,
    source: Source,
    out: Annotated[Path, Argument(metavar="INDEX", help="A folder.")],
    factory: Annotated[
        str,
        Option(
            help="For models of points: FAISS's index_factory, as in HNSW32 or IVF1024,Flat. "
            "Needs the extra 'search'. Default: exact search, for all models."
        ),
    ] = "",
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Encode the sentences of a text file into a folder that `sentune search` reads."""
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.index import SentenceIndex

    embedder = Embedder.load(model, device)
    with _bar(source) as advance:
        written, empty = SentenceIndex.build(
            embedder, source, out, factory=factory, batch_size=batch_size, advance=advance
        )
    _done(out, written, empty)


def search(
    model: Model,
    folder: Annotated[Path, Argument(metavar="INDEX", help="What `sentune index` wrote.")],
    queries: Annotated[list[str], Argument(metavar="SENTENCE...")],
    k: Annotated[int, Option("-k", min=1, help="How many to show.")] = 5,
    by: Annotated[
        str,
        Option(
            help="similarity; entailed: what the sentence entails; entailing: what entails it. "
            "The latter two need a model of boxes or Gaussians."
        ),
    ] = "similarity",
    device: Device = None,
) -> None:
    """Show the sentences of an index that are nearest to others by the model's own score."""
    from sentune.embedder.embedder import Embedder

    found = Embedder.load(model, device).search(queries, folder, k=k, by=by)
    for query, hits in zip(queries, found, strict=True):
        table = plain_table("score", query)
        for hit in hits:
            table.add_row(f"{hit.score:.4f}", hit.sentence)
        screen().print(table)


@contextmanager
def _bar(source: Path) -> Iterator[Callable[[int], object]]:
    """Show on a terminal how much of a file was read."""
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        size = source.stat().st_size if source.is_file() else None
        bar = progress.add_task("Encoding", total=size)
        yield lambda size: progress.advance(bar, size)


def _done(out: Path, written: int, empty: int) -> None:
    say(f"{out}: {written} sentences{f', {empty} empty lines left out' if empty else ''}")
