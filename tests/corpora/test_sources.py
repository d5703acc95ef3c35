"""Prepared corpora are found again by the stamps of their sources, and bounded in memory."""

from __future__ import annotations

import json
import logging
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentune.corpora import Kind, batches, prepare, read
from sentune.corpora.batches import drawn_rows
from sentune.corpora.formats import FORMATS, open_rows, select
from sentune.corpora.formats.own import format
from sentune.corpora.prepare import SOURCES, Prepared, prepared
from sentune.corpora.stamps import source_stamp
from sentune.corpora.tokens import tokenise_batches
from sentune.errors import CorpusError
from tests.corpora.test_integrity import Lengths, flip


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The corpora that were opened to be read."""
    found: list[str] = []

    def noted(spec: str, *args: object, **options: object) -> object:
        found.append(spec)
        return open_rows(spec, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(prepare, "open_rows", noted)
    return found


def sentences(corpus: Prepared) -> list[str]:
    return list(corpus.texts("text"))


def test_an_unchanged_source_is_not_read_again(tmp_path: Path, readings: list[str]) -> None:
    (tmp_path / "x.txt").write_text("one\ntwo\nthree\n")
    spec = f"text:{tmp_path}/x.txt"
    first = prepared(spec, Kind.SENTENCES, tmp_path / "cache")
    assert prepared(spec, Kind.SENTENCES, tmp_path / "cache") == first
    assert readings == [spec]
    assert prepared(spec, Kind.SENTENCES, tmp_path / "cache", limit=2).num_rows == 2
    assert prepared(f"{spec}?rows=1:", Kind.SENTENCES, tmp_path / "cache").num_rows == 2
    assert len(readings) == 3


def rewritten(file: Path) -> None:
    """As many bytes as before, at another time."""
    file.write_text("one\ntwo\nseven\n")


def longer(file: Path) -> None:
    file.write_text("one\ntwo\nthree\nfour\n")


def touched(file: Path) -> None:
    os.utime(file, ns=(1, 1))


@pytest.mark.parametrize("change", [rewritten, longer, touched])
def test_a_changed_source_is_read_again(
    change: Callable[[Path], None], tmp_path: Path, readings: list[str]
) -> None:
    file = tmp_path / "x.txt"
    file.write_text("one\ntwo\nthree\n")
    os.utime(file, ns=(0, 0))
    spec, cache = f"text:{file}", tmp_path / "cache"
    prepared(spec, Kind.SENTENCES, cache)
    change(file)
    assert sentences(prepared(spec, Kind.SENTENCES, cache)) == file.read_text().split()
    assert len(readings) == 2
    prepared(spec, Kind.SENTENCES, cache)
    assert len(readings) == 2


def test_a_new_file_of_a_folder_and_a_file_of_labels_count(
    tmp_path: Path, readings: list[str]
) -> None:
    books, cache = tmp_path / "books", tmp_path / "cache"
    books.mkdir()
    (books / "a.txt").write_text("The first sentence is here. The second sentence is there.\n")
    first = prepared(f"books:{books}", Kind.SENTENCES, cache)
    (books / "b.txt").write_text("The third sentence is new. The fourth sentence is newer.\n")
    assert prepared(f"books:{books}", Kind.SENTENCES, cache).num_rows > first.num_rows
    (tmp_path / "c.csv").write_text("sentence1,sentence2,condition,label\na,b,c,1\n")
    labels = tmp_path / "labels.csv"
    stamps = set()
    for text in ("1", "22"):
        labels.write_text(text)
        stamps.add(source_stamp(f"csts:{tmp_path}/c.csv?labels={labels}"))
    assert len(stamps) == 2
    assert None not in stamps


def test_an_object_is_known_by_its_version(tmp_path: Path, readings: list[str]) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/stamps/x.txt", b"one\ntwo\n")
    for place in ("memory://stamps/x.txt", "memory://stamps/x.txt"):
        prepared(f"text:{place}", Kind.SENTENCES, tmp_path)
    assert len(readings) == 1
    store.pipe_file("/stamps/x.txt", b"one\nsix\n")
    assert sentences(prepared("text:memory://stamps/x.txt", Kind.SENTENCES, tmp_path)) == [
        "one", "six",
    ]  # fmt: skip


def test_a_built_in_corpus_is_made_once_for_each_of_its_options(
    tmp_path: Path, readings: list[str]
) -> None:
    for size in (9, 9, 12, 9, 12):
        assert prepared(f"builtin:nli?size={size}", Kind.TRIPLETS, tmp_path).num_rows == size
    assert len(readings) == 2


@pytest.mark.parametrize("spec", ["hf:someone/corpus", "text:/nowhere.txt"])
def test_what_has_no_stamp_is_read_every_time(spec: str) -> None:
    assert source_stamp(spec) is None


def test_another_function_of_a_format_is_read_in_place_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("one two")

    @format("words", "sentences")
    def lower(path: str) -> list[dict[str, str]]:
        return [{"text": word} for word in Path(path).read_text().split()]

    spec = f"words:{tmp_path}/x.txt"
    assert sentences(prepared(spec, Kind.SENTENCES, tmp_path / "cache")) == ["one", "two"]

    @format("words", "sentences")
    def upper(path: str) -> list[dict[str, str]]:
        return [{"text": row["text"].upper()} for row in lower(path)]

    assert sentences(prepared(spec, Kind.SENTENCES, tmp_path / "cache")) == ["ONE", "TWO"]
    del FORMATS["words"]


def test_a_source_that_cannot_be_looked_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CorpusError, match=r"nowhere://x: cannot be accessed: .*check the path"):
        source_stamp("text:nowhere://x")

    stat = Path.stat

    def refused(path: Path, **others: Any) -> os.stat_result:
        if path.name == "x.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **others)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(CorpusError, match=r"cannot be accessed: .*this user may read it"):
        source_stamp(f"text:{tmp_path}/x.txt")


def test_another_reader_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.txt").write_text("one\n")
    before = source_stamp(f"text:{tmp_path}/x.txt")
    assert before == source_stamp(f"text:{tmp_path}/x.txt") is not None
    monkeypatch.setattr("sentune.corpora.stamps.PACKAGE", tmp_path)
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora/read.py").write_text("other = 1")
    assert source_stamp(f"text:{tmp_path}/x.txt") not in (None, before)


def test_a_source_that_changes_while_it_is_read_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.txt"
    file.write_text("one\ntwo\n")

    def overtaken(spec: str, *args: object, **options: object) -> object:
        rows = open_rows(spec, *args, **options)  # type: ignore[arg-type]
        file.write_text("one\ntwo\nthree\n")
        return rows

    monkeypatch.setattr(prepare, "open_rows", overtaken)
    prepared(f"text:{file}", Kind.SENTENCES, tmp_path / "cache")
    assert not (tmp_path / "cache" / SOURCES).exists()


@pytest.mark.parametrize("damaged", ["part-00000.parquet", "source"])
def test_damage_to_what_is_known_is_mended(
    damaged: str, tmp_path: Path, readings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sentune")
    (tmp_path / "x.txt").write_text("one\ntwo\nthree\n")
    spec, cache = f"text:{tmp_path}/x.txt", tmp_path / "cache"
    first = prepared(spec, Kind.SENTENCES, cache)
    (known,) = (cache / SOURCES).iterdir()
    file = known if damaged == "source" else cache / first.fingerprint / damaged
    whole = file.read_bytes()
    for seed in range(5):
        flip(file, random.Random(seed))
        caplog.clear()
        again = prepared(spec, Kind.SENTENCES, cache)
        assert sentences(again) == ["one", "two", "three"]
        assert len(caplog.messages) <= 1
        assert file.read_bytes() == whole or json.loads(file.read_bytes()) == json.loads(whole)
    assert len(readings) > 1
    count = len(readings)
    prepared(spec, Kind.SENTENCES, cache)
    assert len(readings) == count


def test_rows_are_taken_and_drawn_as_from_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "SHARD_ROWS", 7)
    corpus = prepared("builtin:nli?size=30", Kind.TRIPLETS, tmp_path)
    table = read("builtin:nli?size=30", Kind.TRIPLETS).table
    assert len(corpus.cached) == 5
    rows = np.array([29, 0, 7, 6, 7, 13])
    assert corpus.take(rows).equals(table.take(rows))
    assert corpus.take(rows[:0]).num_rows == 0
    assert corpus.sample(100).table.equals(table)
    part = corpus.sample(10).table
    assert part.num_rows == 10
    assert part.equals(table.take(np.sort(drawn_rows(30, 10, 0))))


@pytest.mark.parametrize("permuted", [0, 1000])
def test_the_order_of_drawn_rows_does_not_depend_on_their_number(
    permuted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PERMUTED", permuted)
    whole = drawn_rows(1000, 1000, 5).tolist()
    assert sorted(whole) == list(range(1000))
    for count in (1, 10, 999):
        assert drawn_rows(1000, count, 5).tolist() == whole[:count]
    assert drawn_rows(1000, 10, 6).tolist() != whole[:10]


class Watched(Lengths):
    """Notes the most bytes of Arrow that there are when a batch is encoded."""

    def __init__(self) -> None:
        self.most = 0

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        self.most = max(self.most, pa.total_allocated_bytes())
        return super().table(batch)


def peaks(rows: int, folder: Path) -> tuple[int, int]:
    """Most bytes of Python, and of Arrow, while a file is prepared and tokenised."""
    texts = [f"sentence {i} of some words" for i in range(rows)]
    source, encoder = folder / f"{rows}.parquet", Watched()
    table = pa.table({"anchor": texts, "positive": texts, "negative": texts})
    pq.write_table(table, source, row_group_size=1_000)
    del texts, table
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        corpus = prepared(f"parquet:{source}", Kind.TRIPLETS, folder / "cache")
        tokenise_batches(corpus.batches(), str(rows), encoder, folder, shard_rows=1_000)
        corpus.sample(100)
        return tracemalloc.get_traced_memory()[1], encoder.most - before
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_a_corpus_five_times_as_long_takes_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "SHARD_ROWS", 1_000)
    monkeypatch.setattr("sentune.corpora.formats.open.BATCH_ROWS", 1_000)
    short, long = peaks(9_000, tmp_path), peaks(45_000, tmp_path)
    assert long[0] < 2 * short[0]
    assert long[1] < 2 * short[1]


def test_what_is_collected_lies_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_CACHED", 1 << 16)
    tracemalloc.start()
    try:
        found = select.sentences(((f"sentence {i % 50_000}",) for i in range(60_000)), (0,))
        assert sum(1 for _ in found) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 18
    finally:
        tracemalloc.stop()
