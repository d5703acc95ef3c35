"""The STS Benchmark, and the yearly STS tasks of SemEval, 2012 to 2016: pairs with scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Row,
    lines,
    names_in,
    number,
    parallel,
    sentence,
)
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.errors import CorpusError, InvalidValue

OPTIONS = {"subsets": "A+B or all; default: all but SMT of 2013"}
_INPUT, _GOLD, _END = "STS.input.", "STS.gs.", ".txt"
_TOGETHER = "ALL"
"""Not a subset: all gold scores of a year in one file."""

_LEFT_OUT = "SMT"
"""The subset of 2013 that SentEval could not pass on for its licence, and that the averages of
papers for 2013 therefore leave out."""


def stsb(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of an STS Benchmark file: genre, file, year, id, score, and two sentences.

    Tab-separated without header; quotes are literal; columns after the seventh are sources. The
    genre (main-captions, main-news, ...) is the subset.
    """
    for line, text in lines(spec.path, log):
        fields = text.split("\t")
        with log.checks(spec.path, line):
            if len(fields) < 7:
                raise BadFieldError(f"{len(fields)} columns where there should be at least 7")
            first, second = sentence(fields[5], "sentence1"), sentence(fields[6], "sentence2")
            yield first, second, number(fields[4], "score"), fields[0].strip() or None


def folder(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of a year's folder, subset by subset in alphabetical order.

    ``STS.input.NAME.txt`` holds two sentences a line, tab-separated with literal quotes, and what
    follows them is their source (2016); ``STS.gs.NAME.txt`` holds the scores. Dropped and counted:
    pairs with an empty line as score, ``unscored``, and those of subsets that are not asked for,
    ``left_out_NAME``; without ``subsets`` that is SMT of 2013.

    Raises:
        InvalidValue: there is no such subset.
        CorpusError: there is no subset at all, a file of a subset is missing, or the numbers of
            its lines differ.
    """
    names = _subsets(spec.path)
    chosen = _chosen(spec, names)
    for name in names:
        first, gold = (f"{spec.path.rstrip('/')}/{kind}{name}{_END}" for kind in (_INPUT, _GOLD))
        before, rows = log.counts["read"], parallel(first, gold, log, "score")
        if name not in chosen:
            for _ in rows:
                pass
            log.counts[f"left_out_{name}"] += log.counts["read"] - before
            continue
        for line, (text, score) in rows:
            if not score.strip():
                log.counts["unscored"] += 1
                continue
            with log.checks(first, line):
                yield _pair(text, score, name)


def _pair(text: str, gold: str, name: str) -> Row:
    fields = text.split("\t")
    if len(fields) < 2:
        raise BadFieldError("1 column where there should be 2 sentences")
    first, second = sentence(fields[0], "sentence1"), sentence(fields[1], "sentence2")
    return first, second, number(gold, "score"), name


def _subsets(path: str) -> list[str]:
    """Return the subsets with a file of pairs or of scores; reading one needs both files."""
    files = names_in(path)
    names = {
        file.removeprefix(start).removesuffix(_END)
        for start in (_INPUT, _GOLD)
        for file in files
        if file.startswith(start) and file.endswith(_END)
    }
    if not names - {_TOGETHER}:
        raise CorpusError(path, f"there is no {_INPUT}NAME{_END} with {_GOLD}NAME{_END}")
    return sorted(names - {_TOGETHER})


def _chosen(spec: Spec, names: Collection[str]) -> Collection[str]:
    asked = spec.options.get("subsets")
    if asked is None:
        return [name for name in names if name != _LEFT_OUT]
    if asked == "all":
        return names
    chosen = asked.split("+")
    if unknown := [name for name in chosen if name not in names]:
        fix = f"use all, or some of {', '.join(names)} with + between them"
        raise InvalidValue(f"{FIELD} option subsets", "+".join(unknown), fix)
    return chosen
