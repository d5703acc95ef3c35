"""Formats of sentence operations: InterSent's corpora, and a plain format of this package."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from sentune.corpora.formats.reading import BadFieldError, Log, Row, names_in, parsed, sentence
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS
from sentune.errors import CorpusError
from sentune.io.object_store import files_at

OPTION = {"operations": f"some of {', '.join(OPERATIONS)} with + between them; default all"}
WIKISPLIT_OPTIONS = {"operation": "difference, fusion or both; default difference, as InterSent"}
_SHARED = 4  # from InterSent appendix A
GIGAWORD_OPTIONS = {
    "split": "train, dev or test, of a folder; default train",
    "shared": f"minimum shared tokens, without stopwords; default {_SHARED}, as InterSent",
}

_SHARDS = "sent-comp.train*.json*"
_BETWEEN = "<::::>"
_PARTS = ("incoherent_first_sentence", "incoherent_second_sentence")
_WHOLES = ("coherent_first_sentence", "coherent_second_sentence")
_QUORA = ("question1", "question2", "is_duplicate")
_GIGAWORD = {
    "train": (("train.article.txt", "train.title.txt"),),
    "dev": (
        ("valid.article.filter.txt", "valid.title.filter.txt"),
        ("valid.article.txt", "valid.title.txt"),
    ),
    "test": (("input.txt", "task1_ref0.txt"), ("test.article.txt", "test.title.txt")),
}
"""Split -> pairs of file names in Rush et al.'s release, optionally with ``.gz``; the first
existing pair is read."""


def operation_row(fields: Mapping[str, object]) -> Row:
    """Return operation, first, second and target; refuse a wrong number of sentences."""
    operation, second = fields.get("operation"), fields.get("second")
    if operation not in OPERATIONS:
        raise BadFieldError(f"unknown operation {operation!r}")
    if operation in PAIR_OPERATIONS:
        second = sentence(second, "second")
    elif second is not None:
        raise BadFieldError(f"{operation} takes one sentence, but second is {second!r}")
    first, target = (sentence(fields.get(name), name) for name in ("first", "target"))
    return operation, first, second, target


def jsonl(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield rows of a file with one object per line: operation, first, second and target.

    ``second`` is missing or null if the operation takes one sentence. Operations that the option
    ``operations`` excludes are dropped and counted as ``other_operations``.
    """
    chosen = spec.some_of("operations", OPERATIONS) or OPERATIONS
    for line, fields in log.objects(spec.path, "operation"):
        with log.checks(spec.path, line):
            row = operation_row(fields)
            if row[0] in chosen:
                yield row
            else:
                log.counts["other_operations"] += 1


def wikisplit(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield rows of WikiSplit (Botha et al. 2018): ``complex TAB simple1 <::::> simple2``.

    Difference: complex, simple1 -> simple2. Fusion: simple1, simple2 -> complex. With ``both``,
    each line gives two rows, difference first.
    """
    asked = spec.choice("operation", "difference", ("difference", "fusion", "both"))
    for line, (text, parts) in log.columns(spec.path, fewest=2, most=2):
        with log.checks(spec.path, line):
            whole, simple = sentence(text, "the complex sentence"), parts.split(_BETWEEN)
            if len(simple) != 2:
                raise BadFieldError(f"{len(simple)} simple sentences instead of 2")
            first, second = (sentence(simple[i], f"simple sentence {i + 1}") for i in (0, 1))
            if asked != "fusion":
                yield "difference", whole, first, second
            if asked != "difference":
                yield "fusion", first, second, whole


def discofuse(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield fusions of DiscoFuse's official TSV (Geva et al. 2019): incoherent pair -> coherent.

    If the coherent text has two sentences, they are joined by a space.
    """
    for line, fields in log.headed(spec.path, *_PARTS, *_WHOLES):
        with log.checks(spec.path, line):
            first, second = (sentence(fields[name], name) for name in _PARTS)
            whole = sentence(fields[_WHOLES[0]], _WHOLES[0])
            yield "fusion", first, second, f"{whole} {fields[_WHOLES[1]].strip()}".strip()


def paranmt(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield reconstructions of ParaNMT (Wieting and Gimpel 2018): two sentences, maybe a score."""
    for line, (text, other, *_) in log.columns(spec.path, fewest=2, most=3):
        with log.checks(spec.path, line):
            first, target = sentence(text, "sentence1"), sentence(other, "sentence2")
            yield "reconstruction", first, None, target


def quora(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield reconstructions of Quora's official TSV: question1 -> question2 of duplicates.

    Other pairs are counted as ``no_duplicates``. Quoted fields may contain line breaks. A bad row
    is reported with the last of its lines.
    """
    for line, fields in log.headed(spec.path, *_QUORA, csv_of="\t"):
        with log.checks(spec.path, line):
            first, target = (sentence(fields[name], name) for name in _QUORA[:2])
            if fields["is_duplicate"] == "1":
                yield "reconstruction", first, None, target
            elif fields["is_duplicate"] == "0":
                log.counts["no_duplicates"] += 1
            else:
                reason = f"is_duplicate is {fields['is_duplicate']!r}, neither 0 nor 1"
                raise BadFieldError(reason)


def compression(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield compressions of Filippova and Altun (2013), or of two tab-separated columns.

    ``graph.sentence`` -> ``compression.text``. In the official files, each JSON object covers many
    lines and ends with a blank line. They are read as a stream. A bad record is reported with its
    first line. If the path is a folder, the ten files of its training set are read.

    Raises:
        CorpusError: the folder has no such file.
    """
    system, root = files_at(spec.path)
    paths = [spec.path]
    if system.isdir(root):
        names = sorted(fnmatch.filter(names_in(spec.path), _SHARDS))
        paths = [f"{spec.path.rstrip('/')}/{name}" for name in names]
        if not paths:
            raise CorpusError(spec.path, f"the folder has no {_SHARDS}")
    for path in paths:
        texts = (text.strip() for _, text in Log(log.limit).lines(path) if text.strip())
        first = next(texts, "")
        if first.startswith("{") and "\t" not in first:
            pairs = _records(path, log)
        else:
            pairs = ((line, (c[0], c[1])) for line, c in log.columns(path, fewest=2, most=2))
        for line, (text, shorter) in pairs:
            with log.checks(path, line):
                row = sentence(text, "sentence"), None, sentence(shorter, "compression")
                yield "compression", *row


def _records(path: str, log: Log) -> Iterator[tuple[int, tuple[object, object]]]:
    """Yield the first line of each JSON object, with its sentence and compression."""
    held: list[str] = []
    start = 0
    for line, text in chain(log.apart().lines(path), [(0, "")]):
        if text.strip():
            start = start if held else line
            held.append(text)
        elif held:
            log.counts["read"] += 1
            with log.checks(path, start):
                fields = parsed("\n".join(held))
                try:
                    yield start, (fields["graph"]["sentence"], fields["compression"]["text"])
                except (KeyError, TypeError):
                    reason = "the keys graph.sentence or compression.text are missing"
                    raise BadFieldError(reason) from None
            held = []


def gigaword(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield compressions, article -> title, of a folder of parallel files or of a TSV file.

    Pairs with fewer than ``shared`` tokens in common are dropped and counted as ``few_shared``
    (InterSent appendix A). Tokens are lower-cased and separated by white space. Each is counted
    once, and scikit-learn's stopwords are not counted.

    Raises:
        InvalidValue: the split is unknown, or given for a single file.
        CorpusError: the files of the split are missing.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # takes a second to import

    fewest = spec.integer("shared", _SHARED, minimum=0)
    path, pairs = _articles(spec, log)
    for line, (article, title) in pairs:
        with log.checks(path, line):
            first, target = sentence(article, "article"), sentence(title, "title")
            common = set(first.lower().split()) & set(target.lower().split())
            if len(common - ENGLISH_STOP_WORDS) < fewest:
                log.counts["few_shared"] += 1
            else:
                yield "compression", first, None, target


def _articles(spec: Spec, log: Log) -> tuple[str, Iterator[tuple[int, Sequence[str]]]]:
    """Return the file of articles, and (line, (article, title)) of each pair."""
    system, root = files_at(spec.path)
    if not system.isdir(root):
        if "split" in spec.options:
            fix = "leave it out, because the path is a file and splits are files of a folder"
            raise spec.refused("split", fix)
        return spec.path, log.columns(spec.path, fewest=2, most=2)
    choices = _GIGAWORD[spec.choice("split", "train", _GIGAWORD)]
    for pair in choices:
        for end in ("", ".gz"):
            if all(system.exists(f"{root.rstrip('/')}/{name}{end}") for name in pair):
                first, second = (f"{spec.path.rstrip('/')}/{name}{end}" for name in pair)
                return first, log.parallel(first, second, "line")
    wanted = " or ".join(" with ".join(pair) for pair in choices)
    raise CorpusError(spec.path, f"the folder has no {wanted}")
