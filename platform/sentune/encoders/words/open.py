"""Read ``--vectors`` and ``--frequencies`` into a cached word table.

``glove:FILE`` has a word and its n numbers on each line. The first line determines n. A word may
contain spaces, as in glove.840B, because the last n fields are the numbers. PSL and ParaNMT vectors
have the same format. ``fasttext:FILE`` (``.vec``, also word2vec's text format) has an additional
first line ``count n``.

Legend: B = valid lines of a block, n = width of a vector.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from sentune.credentials import without_credentials
from sentune.encoders.words.table import META, VERSION, WordTable
from sentune.errors import CorpusError, InvalidValue
from sentune.io.bounded_read import bounded_lines
from sentune.io.folders import cached_folder
from sentune.io.object_store import files_at

FORMATS = ("glove", "fasttext")
PACKAGE = "wordfreq:"

BAD_LINES = 100
"""Maximum number of bad lines of a file, which are counted and listed in ``quarantine.jsonl``."""


def open_words(vectors: str, frequencies: str | None, cache: Path) -> WordTable:
    """Return the words of a file with their vectors and probabilities.

    The first call reads the files as a stream and writes the table to a folder below
    ``cache/words``. Later calls find it by path, size and time of the files and memory-map it. Of
    duplicate words, the first is kept. Several processes may do this at once.

    Args:
        vectors: ``glove:FILE`` or ``fasttext:FILE``, local or fsspec, plain or compressed.
        frequencies: a file of lines ``word count``, or ``wordfreq:LANGUAGE``. A word's probability
            is the count of its lower-case form over the sum of the list, or 0 if the list lacks
            it. None: 0 for every word, so that all words have the same weight.
        cache: folder of the cache.

    Raises:
        InvalidValue: the format or language is unknown.
        CorpusError: a file cannot be read, or has more than ``BAD_LINES`` bad lines.
    """
    form, path = _parsed(vectors)
    root = cache.expanduser().resolve() / "words"
    read = root / _key(vectors, _identity(path))
    cached_folder(read, partial(_write_vectors, form, path))
    known_by = "" if frequencies is None else _identity(frequencies)
    table = root / f"{read.name}-{_key(frequencies or '', known_by)}"
    cached_folder(table, partial(_write_table, vectors, frequencies, read))
    return WordTable.load(str(table))


def check_words(vectors: str, frequencies: str | None) -> None:
    """Check that the files of ``open_words`` exist, without reading them; raises what it does."""
    for source in filter(None, (_parsed(vectors)[1], frequencies)):
        _identity(source)


def _parsed(spec: str) -> tuple[str, str]:
    """Return format and path of a specification; raise ``InvalidValue`` for another one."""
    form, _, path = spec.partition(":")
    if form not in FORMATS or not path:
        raise InvalidValue("--vectors", spec, "write glove:FILE or fasttext:FILE")
    return form, path


def _identity(source: str) -> str:
    """Return the version of wordfreq, or a file's path, size and time as far as known."""
    if source.startswith(PACKAGE):
        return version("wordfreq")
    system, name = files_at(source)
    try:
        info = system.info(name)
    except FileNotFoundError as error:
        raise CorpusError(source, "there is no such file; check the path") from error
    times = [str(info.get(key)) for key in ("mtime", "LastModified", "updated", "ETag")]
    return "\n".join((info["name"], str(info["size"]), *times))


def _key(spec: str, identity: str) -> str:
    return sha256(f"{VERSION}\n{spec}\n{identity}".encode()).hexdigest()[:16]


def _write_vectors(form: str, path: str, draft: Path) -> None:
    """Write vectors.npy and words.txt block by block, with only the words in memory."""
    source = _Lines(path)
    words, content = dict[str, None](), sha256()
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False}
    with (draft / "vectors.npy").open("wb") as stream:
        for block, values in _read(form, source):
            if not stream.tell():  # numpy's header has room for any number of rows
                header["shape"] = (0, values.shape[1])
                np.lib.format.write_array_header_1_0(stream, header)
            new = []
            for row, word in enumerate(block):
                if word not in words:
                    words[word] = None
                    new.append(row)
            source.counts["duplicates"] += len(block) - len(new)
            kept = np.ascontiguousarray(values[new], dtype="<f4").tobytes()
            stream.write(kept)
            content.update(kept)
        if not words:
            raise CorpusError(path, "the file has no valid line")
        stream.seek(0)
        header["shape"] = (len(words), header["shape"][1])
        np.lib.format.write_array_header_1_0(stream, header)
    text = "\n".join(words).encode()
    content.update(text)
    (draft / "words.txt").write_bytes(text)
    source.save_bad(draft)
    counts = {name: source.counts[name] for name in ("read", "bad", "duplicates")}
    meta = {"version": VERSION, "fingerprint": content.hexdigest(), "counts": counts}
    (draft / META).write_text(json.dumps(meta, indent=1))


def _write_table(vectors: str, frequencies: str | None, read: Path, draft: Path) -> None:
    """Write the words' probabilities, with a reference to the folder of the vectors."""
    words = (read / "words.txt").read_bytes().decode().split("\n")
    known = json.loads((read / META).read_text())
    source = _Lines(frequencies or "")
    listed = _probabilities(source) if frequencies is not None else {}
    found = np.array([listed.get(word.lower(), 0.0) for word in words], dtype=np.float64)
    every = np.array(list(listed.values()), dtype=np.float64)
    np.save(draft / "probabilities.npy", found)
    np.save(draft / "listed.npy", every)
    source.save_bad(draft)
    content = known["fingerprint"].encode() + found.tobytes() + every.tobytes()
    meta = {
        "version": VERSION,
        "spec": without_credentials(vectors),
        "frequencies": without_credentials(frequencies),
        "vectors": f"../{read.name}",
        "fingerprint": sha256(content).hexdigest()[:32],
        "counts": {
            **known["counts"],
            "listed_bad": source.counts["bad"],
            "without_count": int((found == 0).sum()),
        },
    }
    (draft / META).write_text(json.dumps(meta, indent=1))


def _probabilities(source: _Lines) -> dict[str, float]:
    """Return the relative frequency of each lower-cased word of a list; see ``open_words``."""
    spec = source.path
    if spec.startswith(PACKAGE):
        import wordfreq  # imported here because few jobs need it

        try:
            return dict(wordfreq.get_frequency_dict(spec.removeprefix(PACKAGE)))
        except LookupError as error:
            fix = f"use one of the languages {', '.join(sorted(wordfreq.available_languages()))}"
            raise InvalidValue("--frequencies", spec, fix) from error
    counts: dict[str, float] = {}  # spellings of a word (The, the) are summed
    for place, line in enumerate(chain.from_iterable(b for _, b in source.blocks()), start=1):
        try:
            word, text = line.decode().split()
            count = float(text)
        except ValueError:  # UnicodeDecodeError is one
            source.quarantine(place, "the line is not 'word count'")
            continue
        if math.isfinite(count) and count > 0:
            counts[word.lower()] = counts.get(word.lower(), 0.0) + count
        else:
            source.quarantine(place, f"the count of {word!r} is not above 0: {text}")
    if not counts:
        raise CorpusError(spec, "the list has no line 'word count'")
    total = math.fsum(counts.values())
    return {word: count / total for word, count in counts.items()}


BLOCK = 1 << 24
"""Bytes of a block of lines that is parsed at once: 7,300 lines of glove.840B."""

Block = tuple[list[str], NDArray[np.float32]]

WIDEST = 65_536
"""Maximum width of a vector; column names for a larger one in a header could exhaust memory."""


@dataclass
class _Lines:
    """The lines of a file, of which at most ``BAD_LINES`` may be bad.

    Attributes:
        counts: number of ``read`` and ``bad`` lines, and a reader's own counts.
        bad: (line, reason) of each bad line.
    """

    path: str
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield (number of the first line, lines) of each block of ``BLOCK`` bytes."""
        first, held, size = 1, list[bytes](), 0
        for line in bounded_lines(self.path):
            held.append(line)
            size += len(line)
            self.counts["read"] += 1
            if size >= BLOCK:
                yield first, held
                first, held, size = first + len(held), [], 0
        if held:
            yield first, held

    def quarantine(self, line: int, reason: str) -> None:
        """Record a bad line; raise a ``CorpusError`` if there are more than allowed."""
        self.bad.append((line, reason))
        self.counts["bad"] += 1
        if len(self.bad) > BAD_LINES:
            first, why = self.bad[0]
            message = (
                f"{reason}; this is bad line {len(self.bad)} and {BAD_LINES} are allowed "
                f"(the first: line {first}, {why}); fix the file"
            )
            raise CorpusError(self.path, message, line=line)

    def save_bad(self, draft: Path) -> None:
        """Write the bad lines to ``quarantine.jsonl`` in the draft."""
        rows = (json.dumps({"line": line, "reason": why}) for line, why in self.bad)
        (draft / "quarantine.jsonl").write_text("".join(f"{row}\n" for row in rows))


def _read(form: str, source: _Lines) -> Iterator[Block]:
    """Yield blocks of words [B] and vectors [B, n], including duplicates.

    Raises:
        CorpusError: the file cannot be read, its first line is invalid, its number of words is not
            that of the header, or it has too many bad lines.
    """
    width, expected = 0, None
    for number, lines in source.blocks():
        if number == 1:
            width, expected = _first_line(form, source.path, lines[0])
            if width > WIDEST:
                reason = f"the vectors have {width:,} numbers, more than the limit {WIDEST:,}"
                raise CorpusError(source.path, reason, line=1)
            skipped = int(expected is not None)
            lines, number = lines[skipped:], number + skipped
            source.counts["read"] -= skipped
        yield _words_and_vectors(lines, number, width, source)
    found = source.counts["read"]
    if not found:
        raise CorpusError(source.path, "the file has no word vectors")
    if expected is not None and found != expected:
        reason = f"the first line says {expected} words, but the file has {found}"
        raise CorpusError(source.path, f"{reason}; fetch it again")


def _first_line(form: str, path: str, line: bytes) -> tuple[int, int | None]:
    """Return the width of the vectors, and their number if the file has a header."""
    fields = line.split()
    header = len(fields) == 2 and all(part.isdigit() for part in fields)
    if form == "fasttext":
        if not header or int(fields[1]) < 1:
            reason = "the first line is not 'count width'; use glove:FILE if there is no header"
            raise CorpusError(path, reason, line=1)
        return int(fields[1]), int(fields[0])
    if header or len(fields) < 2:
        reason = "the first line is not a word and its numbers"
        fix = "; use fasttext:FILE for a file that begins with 'count width'" if header else ""
        raise CorpusError(path, reason + fix, line=1)
    return len(fields) - 1, None


def _words_and_vectors(lines: Sequence[bytes], number: int, width: int, source: _Lines) -> Block:
    """Parse lines of a word and ``width`` finite numbers; quarantine others."""
    found = []
    for place, line in enumerate(lines, start=number):
        parts = _split(line.rstrip(b" \r\n"), width)
        if isinstance(parts, str):
            source.quarantine(place, parts)
        else:
            found.append((place, *parts))
    values = _floats([numbers for _, _, numbers in found], width)
    if values is not None:
        return [word for _, word, _ in found], values
    words, rows = [], [np.zeros((0, width), dtype=np.float32)]
    for place, word, numbers in found:  # one by one, to find the bad ones
        row = _floats([numbers], width)
        if row is None:
            source.quarantine(place, f"the vector of {word!r} has a field that is no finite number")
        else:
            words.append(word)
            rows.append(row)
    return words, np.concatenate(rows)


def _split(line: bytes, width: int) -> tuple[str, bytes] | str:
    """Return word and numbers of a line, or a string that says why the line is bad."""
    if line.count(b" ") == width:
        word, _, numbers = line.partition(b" ")
    else:
        word, *fields = line.rsplit(b" ", width)
        if len(fields) < width:
            return f"{len(fields)} fields after the word instead of {width}"
        numbers = b" ".join(fields)
    try:
        return (word.decode(), numbers) if word else "the word is missing"
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}"


def _floats(numbers: Sequence[bytes], width: int) -> NDArray[np.float32] | None:
    """Parse the numbers of B lines, [B, n]; return None if a field is no finite number.

    Arrow's reader takes 1.9 s for the 10 million numbers of 33,860 lines on one core (numpy:
    loadtxt 2.1 s, fromstring 2.8 s), uses all cores, and rejects invalid numbers.
    """
    names = [str(column) for column in range(width)]
    if not numbers:
        return np.zeros((0, width), dtype=np.float32)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(b"\n".join(numbers)),
            read_options=arrow_csv.ReadOptions(column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=" ", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float32()), null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return None
    values = np.stack([column.to_numpy() for column in table.columns], axis=1)
    return values if np.isfinite(values).all() else None
