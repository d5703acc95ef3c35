"""Caches and prepared folders whose files change behind our back; originals that are damaged."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import multiprocessing
import os
import random
import shutil
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.prepare import prepare, prepared
from sentune.corpora.tokens import TokenTable
from sentune.errors import CorpusError
from tests.token_tables import tokenise

SIZE, SHARD_ROWS, FLIPS = 60, 25, 150
CORPUS = f"builtin:nli?size={SIZE}"


class Lengths:
    """A ``TableEncoder``: each text as the lengths of its words."""

    fingerprint, max_length = "lengths", 20

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table(
            {
                field.name: pa.array(
                    [[len(word) for word in text.split()] for text in column.to_pylist()],
                    pa.list_(pa.int32()),
                )
                for field, column in zip(batch.schema, batch.columns, strict=True)
            }
        )


def tokens(corpus: Corpus, cache: Path) -> TokenTable:
    return tokenise(corpus, Lengths(), cache, shard_rows=SHARD_ROWS)


def content(table: TokenTable) -> tuple:
    ids = {name: (c.ids.tolist(), c.offsets.tolist()) for name, c in table.columns.items()}
    return ids, table.shards, table.fingerprint


def flip(file: Path, rng: random.Random) -> None:
    """Flip one bit anywhere in a file."""
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def attempt(spec: str, kind: Kind, **options: int) -> Corpus | CorpusError:
    try:
        return read(spec, kind, **options)
    except CorpusError as error:
        return error


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read(CORPUS, Kind.TRIPLETS)


def test_of_150_flipped_bits_in_tokens_none_is_trained_on(
    corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    right = content(tokens(corpus, tmp_path))
    (folder,) = tmp_path.iterdir()
    whole, rng, found = files_of(folder), random.Random(0), 0
    assert len(whole) == 4  # three shards and their manifest
    for turn in range(FLIPS):
        file = folder / list(whole)[turn % len(whole)]
        flip(file, rng)
        caplog.clear()
        assert content(tokens(corpus, tmp_path)) == right
        found += len(caplog.messages)
        assert len(caplog.messages) <= 1
        assert files_of(folder) == whole or not caplog.messages
        file.write_bytes(whole[file.name])
    assert found > 0.9 * FLIPS  # the rest are blanks of a document, say
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]  # no drafts left


@pytest.mark.parametrize("harm", ["truncated", "missing", "ten rows", "no manifest", "a file"])
def test_damaged_tokens_are_made_again_with_one_warning(
    harm: str, corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    right = content(tokens(corpus, tmp_path))
    (folder,) = tmp_path.iterdir()
    shard = folder / "shard-00001.parquet"
    if harm == "truncated":
        shard.write_bytes(shard.read_bytes()[:-100])
    elif harm == "missing":
        shard.unlink()
    elif harm == "ten rows":
        pq.write_table(pq.read_table(shard).slice(0, 10), shard)
    elif harm == "no manifest":
        (folder / "tokens.json").unlink()
    else:
        shutil.rmtree(folder)
        folder.write_text("no folder")
    assert content(tokens(corpus, tmp_path)) == right
    (warning,) = caplog.messages
    assert str(folder) in warning
    assert "is created again: " in warning
    caplog.clear()
    assert content(tokens(corpus, tmp_path)) == right
    assert not caplog.messages


def test_tokens_of_a_version_without_checksums_are_made_again(
    corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens(corpus, tmp_path)
    (folder,) = tmp_path.iterdir()
    whole = files_of(folder)
    meta = json.loads(whole["tokens.json"])
    old = {name: meta[name] for name in ("fingerprint", "columns", "shards", "nbytes")}
    (folder / "tokens.json").write_text(json.dumps({"version": 1, **old}))
    tokens(corpus, tmp_path)
    assert files_of(folder) == whole
    assert "it has no checksum" in caplog.text


def test_of_150_flipped_bits_in_a_prepared_folder_each_is_found_or_harmless(
    corpus: Corpus, tmp_path: Path
) -> None:
    folder, rng, found = tmp_path / "out", random.Random(0), 0
    prepare(CORPUS, str(folder), kind=Kind.TRIPLETS, shard_rows=SHARD_ROWS)
    whole = files_of(folder)
    for turn in range(FLIPS):
        file = folder / list(whole)[turn % len(whole)]
        if not whole[file.name]:  # no bad row is in quarantine
            continue
        flip(file, rng)
        seen = attempt(f"parquet:{folder}", Kind.TRIPLETS)
        if isinstance(seen, CorpusError):
            found += 1
            assert file.name in str(seen)
            assert "prepare the corpus again" in str(seen)
        else:
            assert seen.fingerprint == corpus.fingerprint
        file.write_bytes(whole[file.name])
    assert found > 0.7 * FLIPS


def test_a_replaced_shard_of_a_prepared_folder_is_found(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    prepare(CORPUS, str(folder), kind=Kind.TRIPLETS)
    shard = folder / "part-00000.parquet"
    pq.write_table(pq.read_table(shard).slice(0, 10), shard)
    with pytest.raises(CorpusError, match=r"part-00000\.parquet: the shard's checksum"):
        read(f"parquet:{folder}", Kind.TRIPLETS)
    manifest = json.loads((folder / "manifest.json").read_text())
    old = {k: v for k, v in manifest.items() if k not in ("files", "checksum")}  # of 0.2.0
    (folder / "manifest.json").write_text(json.dumps(old))
    with pytest.raises(CorpusError, match=r"10 rows, but manifest\.json says 60"):
        read(f"parquet:{folder}", Kind.TRIPLETS)
    shard.unlink()
    with pytest.raises(CorpusError, match="there is no such file; delete the folder and prepare"):
        read(f"parquet:{folder}", Kind.TRIPLETS)


def prepared_in(cache: Path) -> Path:
    """Return the one prepared corpus of a cache, which has the stamps of its sources beside it."""
    (manifest,) = cache.glob("*/manifest.json")
    return manifest.parent


def test_a_shard_that_the_manifest_does_not_name_is_not_read(
    corpus: Corpus, tmp_path: Path
) -> None:
    prepare(CORPUS, str(tmp_path / "out"), kind=Kind.TRIPLETS)
    shutil.copy(tmp_path / "out/part-00000.parquet", tmp_path / "out/part-00001.parquet")
    assert read(f"parquet:{tmp_path}/out", Kind.TRIPLETS).fingerprint == corpus.fingerprint
    first = prepared(CORPUS, Kind.TRIPLETS, tmp_path / "cache")
    folder = prepared_in(tmp_path / "cache")
    shutil.copy(folder / "part-00000.parquet", folder / "part-00001.parquet")
    assert prepared(CORPUS, Kind.TRIPLETS, tmp_path / "cache").cached == first.cached


def test_shards_of_other_sizes_in_the_cache_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = prepared(CORPUS, Kind.TRIPLETS, tmp_path).load()
    monkeypatch.setattr("sentune.corpora.prepare.SHARD_ROWS", SHARD_ROWS)
    again = prepared(CORPUS, Kind.TRIPLETS, tmp_path)
    assert again.load().equals(first)
    assert len(again.cached) == 3
    assert "its rows or its shards differ" in caplog.text


@pytest.mark.parametrize("name", ["part-00000.parquet", "manifest.json"])
def test_a_damaged_shard_in_the_cache_is_made_again(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = prepared(CORPUS, Kind.TRIPLETS, tmp_path)
    folder, made = prepared_in(tmp_path), {*tmp_path.iterdir()}
    whole = files_of(folder)
    (folder / name).write_bytes(whole[name][:-20])
    again = prepared(CORPUS, Kind.TRIPLETS, tmp_path)
    assert again.load().equals(first.load())
    assert files_of(folder) == whole
    (warning,) = caplog.messages
    assert f"{folder} is created again: " in warning
    assert {*tmp_path.iterdir()} == made


def test_a_damaged_folder_of_the_same_corpus_is_prepared_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    prepare(CORPUS, str(out), kind=Kind.TRIPLETS)
    whole = files_of(out)
    flip(out / "part-00000.parquet", random.Random(1))
    prepare(CORPUS, str(out), kind=Kind.TRIPLETS)
    assert files_of(out) == whole
    assert len(caplog.messages) == 1
    (out / "manifest.json").write_text("{")  # whose it is cannot be known
    with pytest.raises(
        CorpusError, match=r"no prepared corpus \(manifest\.json: it is not valid JSON\)"
    ):
        prepare(CORPUS, str(out), kind=Kind.TRIPLETS)


def test_a_damaged_folder_in_an_object_store_is_prepared_again(
    corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    import fsspec

    out = "memory://integrity/out"
    prepare(CORPUS, out, kind=Kind.TRIPLETS)
    system = fsspec.filesystem("memory")
    system.pipe_file("/integrity/out/part-00000.parquet", b"PAR1")
    with pytest.raises(CorpusError, match="checksum or size differs"):
        read(f"parquet:{out}", Kind.TRIPLETS)
    prepare(CORPUS, out, kind=Kind.TRIPLETS)
    assert read(f"parquet:{out}", Kind.TRIPLETS).fingerprint == corpus.fingerprint
    assert len(caplog.messages) == 1


def _prepare(out: str, gate: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    prepare(CORPUS, out, kind=Kind.TRIPLETS)


def test_the_loser_of_a_race_takes_the_winners_folder(corpus: Corpus, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(3)
    others = [
        context.Process(target=_prepare, args=(str(tmp_path / "out"), gate)) for _ in range(3)
    ]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert read(f"parquet:{tmp_path}/out", Kind.TRIPLETS).fingerprint == corpus.fingerprint


def test_a_loser_between_look_and_rename_takes_the_winners_folder(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def overtaken(draft: Path, target: Path) -> Path:
        if ".draft-" in draft.name and not target.exists():
            shutil.copytree(draft, target)  # another process with the same content
        return rename(draft, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    prepare(CORPUS, str(tmp_path / "out"), kind=Kind.TRIPLETS)
    assert content(tokens(corpus, tmp_path / "tokens"))[1] == (25, 25, 10)
    assert not list(tmp_path.rglob("*.draft-*"))


@pytest.mark.parametrize("end", ["gz", "xz", "bz2", "zip"])
def test_damaged_originals_are_told_in_one_sentence(end: str, tmp_path: Path) -> None:
    import zipfile

    lines = "\n".join(f"sentence {i} of many {i * 7919}" for i in range(3_000)).encode()
    file = tmp_path / f"text.txt.{end}"
    if end == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("text.txt", lines)
    else:
        file.write_bytes({"gz": gzip, "xz": lzma, "bz2": bz2}[end].compress(lines))
    whole, rng, found = file.read_bytes(), random.Random(0), 0
    for _ in range(20):
        flip(file, rng)
        seen = attempt(f"text:{file}", Kind.SENTENCES)
        if isinstance(seen, CorpusError):
            found += 1
            assert str(file) in str(seen)
            assert "\n" not in str(seen)
        else:  # a name or a date in a header
            assert seen.table.num_rows == 3_000
        file.write_bytes(whole)
    assert found >= 12
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match=r"damaged.*fetch or write it again|cannot be read"):
        read(f"text:{file}", Kind.SENTENCES)


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    """Of two parts only the first was read, and nothing where a folder stands first."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.writestr("a.txt", "one\n")
        archive.writestr("b.txt", "two\n")
    with pytest.raises(
        CorpusError, match=r"contains a\.txt, b\.txt; name one file as zip://FILE::"
    ):
        read(f"text:{tmp_path}/both.zip", Kind.SENTENCES)
    corpus = read(f"text:zip://b.txt::{tmp_path}/both.zip", Kind.SENTENCES)
    assert corpus.table["text"].to_pylist() == ["two"]


@pytest.mark.parametrize(
    ("name", "start", "what"),
    [
        ("a.txt", gzip.compress(b"one\n"), "compressed with gzip"),
        ("a.txt.zst", b"\x28\xb5\x2f\xfd\x04\x00", "compressed with zstd"),
        ("a.xlsx", b"PK\x03\x04\x14\x00", "an Excel workbook"),
    ],
    ids=["gzip", "zstd", "Excel"],
)
def test_a_compressed_file_that_is_not_decompressed_is_told(
    tmp_path: Path, name: str, start: bytes, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(fsspec.utils.compressions, "zst", raising=False)  # of another package
    (tmp_path / name).write_bytes(start)
    with pytest.raises(CorpusError, match=f"{what}; extract its text"):
        read(f"text:{tmp_path / name}", Kind.SENTENCES)


def test_a_damaged_parquet_page_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"text": [f"sentence {i} of many {i * 7919}" for i in range(2_000)]})
    pq.write_table(table, file, write_page_checksum=True)
    whole, rng, found = file.read_bytes(), random.Random(0), 0
    for _ in range(60):
        flip(file, rng)
        seen = attempt(f"parquet:{file}", Kind.SENTENCES)
        if isinstance(seen, CorpusError):
            found += 1
            assert "x.parquet: " in str(seen)
            assert "\n" not in str(seen)
        file.write_bytes(whole)
    assert found > 50


def test_text_that_is_no_utf_8_in_parquet_is_told(tmp_path: Path) -> None:
    texts = pa.array([b"good", b"\xff\xfe bad"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "x.parquet")
    with pytest.raises(CorpusError, match=r"x\.parquet: not a Parquet file, or a damaged one"):
        read(f"parquet:{tmp_path}/x.parquet", Kind.SENTENCES)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes("one sentence\nand another\n".encode(encoding))
    with pytest.raises(CorpusError, match=r"x\.txt:1: the file is UTF-16; .*iconv -f UTF-16"):
        read(f"text:{file}", Kind.SENTENCES)


def test_what_is_left_of_bad_rows_alone_tells_the_first_reason(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"gold_label": "neutral"}\n[]\n')
    for reader in (
        lambda: read(f"snli:{file}", Kind.LABELLED_PAIRS),
        lambda: prepare(f"snli:{file}", str(tmp_path / "out"), kind=Kind.LABELLED_PAIRS),
    ):
        with pytest.raises(CorpusError, match="first bad row: line 1, the key sentence1 is miss"):
            reader()


def test_a_question_mark_in_a_path(tmp_path: Path) -> None:
    for name in ("what?.txt", "a%3Fb.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    for written in ("what%3F.txt", "what%3f.txt?rows=0:1", "a%253Fb.txt"):
        table = read(f"text:{tmp_path}/{written}", Kind.SENTENCES).table
        assert table.num_rows == (1 if "rows" in written else 2)


@pytest.mark.parametrize("spec", ["text:{}", "parquet:{}", "snli:{}", "labels"])
def test_a_pipe_is_refused(spec: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if spec == "labels":  # an option that names a file
        (tmp_path / "c.csv").write_text("sentence1,sentence2,condition,label\na,b,c,1\n")
        spec, kind = f"csts:{tmp_path}/c.csv?labels={{}}", Kind.CONDITIONED_PAIRS
    else:
        kind = {"snli": Kind.LABELLED_PAIRS}.get(spec[:4], Kind.SENTENCES)
    with pytest.raises(CorpusError, match="pipe: it is a pipe or socket; write its content to a"):
        read(spec.format(pipe), kind)


def test_a_device_is_refused() -> None:
    with pytest.raises(CorpusError, match="/dev/zero: it is a device"):
        read("text:/dev/zero", Kind.SENTENCES)


@pytest.fixture(autouse=True)
def warnings_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "sentune")
