"""A file that appears in an object store after a look at it is found, also in the same process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sentune.corpora import Kind, read
from sentune.corpora.formats.reading import names_in


class Listed(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An object store that keeps its listings, as the file systems of fsspec do by default."""

    protocol = "listed"

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = path.removeprefix("listed://").rstrip("/")
        try:
            found = self.dircache[path]
        except KeyError:
            found = [
                {**info, "name": info["name"].lstrip("/")}
                for info in MemoryFileSystem().ls(f"/{path}", detail=True)
            ]
            self.dircache[path] = found
        return found if detail else [info["name"] for info in found]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return MemoryFileSystem().open(f"/{path}", mode)


@pytest.fixture
def store() -> Iterator[MemoryFileSystem]:
    fsspec.register_implementation("listed", Listed, clobber=True)
    files = MemoryFileSystem()
    files.pipe_file("/files/other.bin", b"")
    yield files
    files.store.clear()


def parquet(*texts: str) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"text": list(texts)}), written)
    return written.getvalue()


def test_a_store_keeps_its_listings(store: MemoryFileSystem) -> None:
    """What the other tests rest upon."""
    files, root = fsspec.url_to_fs("listed://files")
    assert files.ls(root, detail=False) == ["files/other.bin"]
    store.pipe_file("/files/b.txt", b"")
    assert files.ls(root, detail=False) == ["files/other.bin"]


def test_a_new_shard_is_read(store: MemoryFileSystem) -> None:
    store.pipe_file("/files/a.parquet", parquet("one"))
    assert read("parquet:listed://files", Kind.SENTENCES).table.num_rows == 1
    store.pipe_file("/files/b.parquet", parquet("two"))
    assert read("parquet:listed://files", Kind.SENTENCES).table.num_rows == 2


def test_a_new_book_is_read(store: MemoryFileSystem) -> None:
    store.pipe_file("/files/a.txt", b"One dog runs.")
    assert read("books:listed://files", Kind.SENTENCES).table.num_rows == 1
    store.pipe_file("/files/b.txt", b"Two dogs run.")
    assert read("books:listed://files", Kind.SENTENCES).table.num_rows == 2


def test_a_new_name_is_in_a_folder(store: MemoryFileSystem) -> None:
    assert names_in("listed://files") == {"other.bin"}
    store.pipe_file("/files/b.txt", b"")
    assert names_in("listed://files") == {"other.bin", "b.txt"}
