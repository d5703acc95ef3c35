"""Gigaword: headlines as compressions of the first sentences of their articles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import fsspec

from sentune.corpora.formats.columns import ApartLog, columns
from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, sentence
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.errors import CorpusError, InvalidValue

SHARED = 4
OPTIONS = {
    "split": "of a folder: train, dev or test; default train",
    "shared": f"fewest shared tokens that are no stopwords; default {SHARED}, as InterSent",
}
_FILES = {
    "train": (("train.article.txt", "train.title.txt"),),
    "dev": (
        ("valid.article.filter.txt", "valid.title.filter.txt"),
        ("valid.article.txt", "valid.title.txt"),
    ),
    "test": (("input.txt", "task1_ref0.txt"), ("test.article.txt", "test.title.txt")),
}
"""Names in Rush et al.'s release, the first pair that is there; ``.gz`` may follow."""


def gigaword(spec: Spec, log: Log) -> Iterator[Row]:
    """Compression: article -> title, of a folder of parallel files or of a TSV file.

    Dropped and counted as ``few_shared``: pairs with fewer than ``shared`` tokens in common
    (InterSent appendix A). A token is what stands between white space, lower-cased, each counted
    once; stopwords are scikit-learn's.

    Raises:
        InvalidValue: a split is asked for that is none, or of a single file.
        CorpusError: the files of the split are missing, or differ in their numbers of lines.
    """
    fewest, shared = spec.integer("shared", SHARED, minimum=0), _shared()
    for path, line, article, title in _source(spec, log):
        try:
            first, target = sentence(article, "article"), sentence(title, "title")
        except BadFieldError as error:
            log.quarantine(path, line, str(error))
            continue
        if shared(first, target) < fewest:
            log.counts["few_shared"] += 1
        else:
            yield "compression", first, None, target


def _shared() -> Callable[[str, str], int]:
    """Count the distinct tokens of two texts that both have and that are no stopwords."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # takes a second to import

    def count(first: str, second: str) -> int:
        common = set(first.lower().split()) & set(second.lower().split())
        return len(common - ENGLISH_STOP_WORDS)

    return count


def _source(spec: Spec, log: Log) -> Iterator[tuple[str, int, str, str]]:
    """File and line of each pair, and the pair."""
    system, root = fsspec.core.url_to_fs(spec.path)
    if system.isdir(root):
        articles, titles = _files(spec)
        for line, article, title in _parallel(articles, titles, log):
            yield articles, line, article, title
        return
    if "split" in spec.options:
        fix = "leave it out: splits are files of a folder, and this is one file"
        raise InvalidValue(f"{FIELD} option split", spec.options["split"], fix)
    for line, (article, title) in columns(spec.path, log, fewest=2, most=2):
        yield spec.path, line, article, title


def _files(spec: Spec) -> tuple[str, str]:
    split = spec.choice("split", "train", _FILES)
    system, root = fsspec.core.url_to_fs(spec.path)
    for pair in _FILES[split]:
        for end in ("", ".gz"):
            if all(system.exists(f"{root.rstrip('/')}/{name}{end}") for name in pair):
                first, second = (f"{spec.path.rstrip('/')}/{name}{end}" for name in pair)
                return first, second
    wanted = " or ".join(" with ".join(pair) for pair in _FILES[split])
    raise CorpusError(spec.path, f"the folder has no {wanted}")


def _parallel(first: str, second: str, log: Log) -> Iterator[tuple[int, str, str]]:
    """The lines that both files have, by their number; a bad line takes its partner with it."""
    before, other = log.counts["read"], ApartLog(log)
    partners = lines(second, other)
    place, partner = 0.0, ""
    for line, text in lines(first, log):
        while place < line:
            place, partner = next(partners, (math.inf, ""))
        if place == line:
            yield line, text, partner
    for _ in partners:
        pass
    sizes = log.counts["read"] - before, other.counts["read"]
    if sizes[0] != sizes[1]:
        reason = f"{sizes[1]} lines, but {first} has {sizes[0]}: one line a pair is needed"
        raise CorpusError(second, reason)
