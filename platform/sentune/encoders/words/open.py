"""From ``--vectors`` and ``--frequencies`` to a word table, read once and cached."""

from __future__ import annotations

import json
import math
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

from sentune.credentials import without_credentials
from sentune.encoders.words.table import META, VERSION, WordTable
from sentune.encoders.words.vectors import Quarantine, VectorFile, blocks
from sentune.errors import CorpusError, InvalidValue
from sentune.io.folders import cached_folder

PACKAGE = "wordfreq:"

BAD_LINES = 100
"""Lines of a file that may be bad; they are counted and stand in ``quarantine.jsonl``."""


def open_words(vectors: str, frequencies: str | None, cache: Path) -> WordTable:
    """Return the words of a file with their vectors and probabilities.

    The first call reads the files as a stream and writes the table to a folder below
    ``cache/words``; the next one finds it by path, size and time of the files and maps it into
    memory. Where a word occurs twice, the first stays. Several processes may do it at once.

    Args:
        vectors: ``glove:FILE`` or ``fasttext:FILE``, local or fsspec, plain or ``.gz``.
        frequencies: a file of lines ``word count``, or ``wordfreq:LANGUAGE``. A word's probability
            is its count over the sum of the list, looked up in lower case, 0 where the list does
            not have it. None: 0 for every word, so that all words weigh the same.

    Raises:
        InvalidValue: no such format, language or package.
        CorpusError: a file that cannot be read, or with more than 100 bad lines.
    """
    source = VectorFile.parse(vectors)
    root = cache.expanduser().resolve() / "words"
    read = root / _key(vectors, _identity(source.path))
    cached_folder(read, partial(_write_vectors, source))
    known_by = "" if frequencies is None else _identity(frequencies)
    table = root / f"{read.name}-{_key(frequencies or '', known_by)}"
    cached_folder(table, partial(_write_table, source, frequencies, read))
    return WordTable.load(str(table))


def _identity(source: str) -> str:
    """Return a package's version, or path, size and time of a file where its system knows them."""
    if source.startswith(PACKAGE):
        wordfreq_package(source)
        return version("wordfreq")
    system, name = fsspec.core.url_to_fs(source)
    try:
        info = system.info(name)
    except FileNotFoundError as error:
        raise CorpusError(source, "there is no such file") from error
    times = [str(info.get(key)) for key in ("mtime", "LastModified", "updated", "ETag")]
    return "\n".join((info["name"], str(info["size"]), *times))


def _key(spec: str, identity: str) -> str:
    return sha256(f"{VERSION}\n{spec}\n{identity}".encode()).hexdigest()[:16]


def _write_vectors(source: VectorFile, draft: Path) -> None:
    """Write vectors.npy and words.txt block by block; only the words themselves stay in memory."""
    quarantine = Quarantine(source.path, BAD_LINES)
    words, content = dict[str, None](), sha256()
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False}
    with (draft / "vectors.npy").open("wb") as stream:
        for block, values in source.read(quarantine):
            if not stream.tell():  # numpy keeps room in a header for any count
                header["shape"] = (0, values.shape[1])
                np.lib.format.write_array_header_1_0(stream, header)
            new = []
            for row, word in enumerate(block):
                if word not in words:
                    words[word] = None
                    new.append(row)
            quarantine.counts["duplicates"] += len(block) - len(new)
            kept = np.ascontiguousarray(values[new], dtype="<f4").tobytes()
            stream.write(kept)
            content.update(kept)
        if not words:
            raise CorpusError(source.path, "no line is left that can be used")
        stream.seek(0)
        header["shape"] = (len(words), header["shape"][1])
        np.lib.format.write_array_header_1_0(stream, header)
    text = "\n".join(words).encode()
    content.update(text)
    (draft / "words.txt").write_bytes(text)
    _write_quarantine(draft, quarantine)
    counts = {name: quarantine.counts[name] for name in ("read", "bad", "duplicates")}
    meta = {"version": VERSION, "fingerprint": content.hexdigest(), "counts": counts}
    (draft / META).write_text(json.dumps(meta, indent=1))


def _write_table(source: VectorFile, frequencies: str | None, read: Path, draft: Path) -> None:
    """Write the words' probabilities into a folder that names the folder of the vectors."""
    words = (read / "words.txt").read_bytes().decode().split("\n")
    known = json.loads((read / META).read_text())
    quarantine = Quarantine(frequencies or "", BAD_LINES)
    listed = probabilities(frequencies, quarantine) if frequencies is not None else {}
    found = np.array([listed.get(word.lower(), 0.0) for word in words], dtype=np.float64)
    every = np.array(list(listed.values()), dtype=np.float64)
    np.save(draft / "probabilities.npy", found)
    np.save(draft / "listed.npy", every)
    _write_quarantine(draft, quarantine)
    content = known["fingerprint"].encode() + found.tobytes() + every.tobytes()
    meta = {
        "version": VERSION,
        "spec": without_credentials(source.spec),
        "frequencies": without_credentials(frequencies),
        "vectors": f"../{read.name}",
        "fingerprint": sha256(content).hexdigest()[:32],
        "counts": {
            **known["counts"],
            "listed_bad": quarantine.counts["bad"],
            "without_count": int((found == 0).sum()),
        },
    }
    (draft / META).write_text(json.dumps(meta, indent=1))


def _write_quarantine(draft: Path, quarantine: Quarantine) -> None:
    rows = (json.dumps({"line": line, "reason": why}) for line, why in quarantine.lines)
    text = "".join(f"{row}\n" for row in rows)
    (draft / "quarantine.jsonl").write_text(text)


def probabilities(spec: str, quarantine: Quarantine) -> dict[str, float]:
    """Return the relative frequency of each lower-cased word of a list; see ``open_words``."""
    if spec.startswith(PACKAGE):
        wordfreq = wordfreq_package(spec)
        try:
            return dict(wordfreq.get_frequency_dict(spec.removeprefix(PACKAGE)))
        except LookupError as error:
            fix = f"use one of the languages {', '.join(sorted(wordfreq.available_languages()))}"
            raise InvalidValue("--frequencies", spec, fix) from error
    counts: dict[str, float] = {}  # a word in two spellings (The, the) has the sum of both
    for number, lines in blocks(quarantine):
        for place, line in enumerate(lines, start=number):
            try:
                word, text = line.decode().split()
                count = float(text)
            except ValueError:  # UnicodeDecodeError is one
                quarantine.add(place, "the line is not 'word count'")
                continue
            if math.isfinite(count) and count > 0:
                counts[word.lower()] = counts.get(word.lower(), 0.0) + count
            else:
                quarantine.add(place, f"the count of {word!r} is not above 0: {text}")
    if not counts:
        raise CorpusError(quarantine.path, "the list has no line 'word count'")
    total = math.fsum(counts.values())
    return {word: count / total for word, count in counts.items()}


def wordfreq_package(spec: str) -> Any:
    """Return the package of ``wordfreq:LANGUAGE``, which is not one of sentune's own."""
    try:
        return import_module("wordfreq")
    except ModuleNotFoundError as error:
        fix = "it needs the package wordfreq: pip install wordfreq"
        raise InvalidValue("--frequencies", spec, fix) from error
