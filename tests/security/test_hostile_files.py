"""Corpus files of whoever means harm, through the readers that a job uses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentune.corpora.formats import open_rows, read
from sentune.corpora.schema import Kind
from sentune.encoders.words import open_words
from sentune.errors import CorpusError
from sentune.io import bounded_read as bounded

MB = 1 << 20
GOOD = {"gold_label": "neutral", "sentence1": "a dog", "sentence2": "a cat"}


def compressed(path: Path, blocks: Iterator[bytes]) -> Path:
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for block in blocks:
            stream.write(block)
    return path


def in_little_memory(spec: str, allowed: int = 300 * MB) -> str:
    """What the reader of a process says that may take ``allowed`` bytes more than its imports."""
    code = (
        "import resource, sys\n"
        "from sentune.corpora.formats import kinds_of, open_rows\n"
        "from sentune.errors import CorpusError\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size + {allowed},) * 2)\n"
        "try:\n"
        "    rows = open_rows(sys.argv[1], kinds_of(sys.argv[1])[0])\n"
        "    print(sum(batch.num_rows for batch in rows.batches), dict(rows.log.counts))\n"
        "except CorpusError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, spec], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_line_of_a_gigabyte_is_refused_in_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "one.txt").open("wb") as sparse:
        sparse.truncate(1 << 30)
    said = in_little_memory(f"text:{tmp_path}/one.txt")
    assert "one.txt:1: the line has more than 16,777,216 bytes" in said


def test_a_bomb_of_one_line_is_refused_in_little_memory(tmp_path: Path) -> None:
    bomb = compressed(tmp_path / "bomb.txt.gz", (bytes(MB) for _ in range(64)))
    bomb.write_bytes(bomb.read_bytes() * 32)  # members of one file: 2 GB
    assert bomb.stat().st_size < 3 * MB
    assert "bomb.txt.gz:1: the line has more than" in in_little_memory(f"text:{bomb}")


def test_a_bomb_of_short_lines_is_refused_in_little_memory(tmp_path: Path) -> None:
    bomb = compressed(tmp_path / "bomb.txt.gz", (b" " * (MB - 1) + b"\n" for _ in range(8)))
    bomb.write_bytes(bomb.read_bytes() * 128)  # 1 GB of blank lines
    assert bomb.stat().st_size < 2 * MB
    said = in_little_memory(f"text:{bomb}")
    assert "when decompressed, over 200 times its size" in said


@pytest.mark.parametrize("end", ["gz", "zip", "xz", "bz2"])
def test_growth_has_a_limit_whatever_the_compression(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bz2
    import lzma

    monkeypatch.setattr(bounded, "FREE_BYTES", 1 << 16)
    monkeypatch.setattr(bounded, "EXPANSION", 20)
    path, content = tmp_path / f"lines.txt.{end}", b"the same line\n" * 20_000
    if end == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("lines.txt", content)
    else:
        made = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[end](content)
        path.write_bytes(made)
    with pytest.raises(CorpusError, match=r"lines\.txt\.\w+: it grows to more than [\d,]+ bytes"):
        read(f"text:{path}", Kind.SENTENCES)
    monkeypatch.setattr(bounded, "EXPANSION", 1e9)
    rows = open_rows(f"text:{path}", Kind.SENTENCES)
    list(rows.batches)
    assert rows.log.counts["read"] == 20_000


def test_lines_up_to_the_limit_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LINE_BYTES", 200_000)
    file = tmp_path / "lines.txt"
    file.write_bytes(b"short\n" + b"x" * 200_000 + b"\nshort too")
    table = read(f"text:{file}", Kind.SENTENCES).table
    assert [len(text) for text in table["text"].to_pylist()] == [5, 200_000, 9]
    file.write_bytes(b"short\n" + b"x" * 300_000 + b"\nshort too")
    with pytest.raises(CorpusError, match=r"lines\.txt:2: the line has more than 200,000 bytes"):
        read(f"text:{file}", Kind.SENTENCES)


@pytest.mark.parametrize("spec", ["text", "books", "snli", "simcse-csv", "stsb", "compression"])
def test_every_kind_of_reader_has_the_limit(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "LINE_BYTES", 1000)
    file = tmp_path / "long.txt"
    file.write_bytes(b"a" * 100_000)
    with pytest.raises(CorpusError, match="more than 1,000 bytes"):
        read(f"{spec}:{file}", kinds(spec, file))


def kinds(spec: str, file: Path) -> Kind:
    from sentune.corpora.formats import kinds_of

    return kinds_of(f"{spec}:{file}")[0]


def test_word_vectors_have_the_limits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = tmp_path / "wide.vec"
    wide.write_text("1 1000000000000\ndog 1 2 3\n")
    with pytest.raises(CorpusError, match=r"1,000,000,000,000 numbers, more than the limit 65,536"):
        open_words(f"fasttext:{wide}", None, tmp_path / "cache")
    monkeypatch.setattr(bounded, "LINE_BYTES", 1000)
    long = tmp_path / "long.txt"
    long.write_bytes(b"dog 1 2 3\ncat " + b"1" * 100_000 + b" 2 3\n")
    with pytest.raises(CorpusError, match=r"long\.txt:2: the line has more than 1,000 bytes"):
        open_words(f"glove:{long}", None, tmp_path / "cache")


HOSTILE = {
    "bytes that are no UTF-8": b'{"gold_label": "neutral", "sentence1": "\xff\xfe", "x": 1}',
    "a hundred thousand brackets": b"[" * 100_000,
    "the same in a field": b'{"gold_label": "neutral", "sentence1": ' + b'{"a":' * 100_000,
    "a number of 5,000 digits": b'{"gold_label": ' + b"9" * 5000 + b"}",
    "half of a surrogate pair": json.dumps({**GOOD, "sentence1": "\ud83d"}).encode(),
    "a list for a label": json.dumps({**GOOD, "gold_label": ["neutral"]}).encode(),
    "a dict for a sentence": json.dumps({**GOOD, "sentence2": {"a": 1}}).encode(),
    "no JSON": b"\x00\x01\x02",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_bad_line_is_put_aside_and_the_rest_is_read(what: str, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    good = json.dumps(GOOD).encode()
    file.write_bytes(b"\n".join([good, HOSTILE[what], good]) + b"\n")
    corpus = read(f"snli:{file}", Kind.LABELLED_PAIRS)
    assert corpus.table.num_rows == 2
    assert [bad.line for bad in corpus.quarantine] == [2]


def test_scores_beyond_all_numbers_are_put_aside(tmp_path: Path) -> None:
    row = "main\tx\t2012\t1\t{}\ta dog runs\ta cat runs\n"
    (tmp_path / "sts.csv").write_text(
        row.format("1" + "0" * 400) + row.format("nan") + row.format("2.5")
    )
    corpus = read(f"stsb:{tmp_path}/sts.csv", Kind.SCORED_PAIRS)
    assert (corpus.table.num_rows, len(corpus.quarantine)) == (1, 2)


def test_nul_bytes_are_text_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "nul.txt"
    file.write_bytes(b"a\x00b\nplain\n")
    assert read(f"text:{file}", Kind.SENTENCES).table["text"].to_pylist() == ["a\x00b", "plain"]


def test_a_quote_that_is_never_closed_swallows_a_bounded_part(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    lines = "".join(f"a dog {n},a puppy {n},a cat {n}\n" for n in range(50_000))
    file.write_text('sent0,sent1,hard_neg\na,b,c\n"never closed,\n' + lines)
    with pytest.raises(CorpusError, match=r"train\.csv:3: the quotes are damaged"):
        read(f"simcse-csv:{file}", Kind.TRIPLETS)
    file.write_text('sent0,sent1,hard_neg\na,b,c\n"closed"by nothing,b,c\nd,e,f\n')
    corpus = read(f"simcse-csv:{file}", Kind.TRIPLETS)
    assert (corpus.table.num_rows, corpus.quarantine[0].line) == (2, 3)
