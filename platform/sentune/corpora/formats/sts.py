"""The yearly STS tasks of SemEval, 2012 to 2016: a folder of pairs and scores by subset."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import fsspec

from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, number, sentence
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.errors import CorpusError, InvalidValue

_INPUT, _GOLD, _END = "STS.input.", "STS.gs.", ".txt"
_TOGETHER = "ALL"
"""Not a subset: all gold scores of a year in one file."""

_LEFT_OUT = "SMT"
"""The subset of 2013 that SentEval could not pass on for its licence, and that the averages of
papers for 2013 therefore leave out."""


def folder(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of a year's folder, subset by subset in alphabetical order.

    ``STS.input.NAME.txt`` holds two sentences a line, tab-separated with literal quotes, and what
    follows them is their source (2016); ``STS.gs.NAME.txt`` holds the scores. Dropped and counted:
    pairs without a score (an empty line), ``unscored``, and the pairs of subsets that are not
    asked for, ``left_out_NAME``; without ``subsets`` that is SMT of 2013.

    Raises:
        InvalidValue: there is no such subset.
        CorpusError: there is no subset at all, a file of a subset is missing, or the numbers of
            its lines differ.
    """
    system, root = fsspec.core.url_to_fs(spec.path)
    names = _subsets(system, root, spec.path)
    chosen = _chosen(spec, names)
    for name in names:
        first, gold = (f"{spec.path.rstrip('/')}/{kind}{name}{_END}" for kind in (_INPUT, _GOLD))
        rows, scores = _numbered(first, log), _numbered(gold, log, count=False)
        if rows.size != scores.size:
            reason = f"{scores.size} lines, but {first} has {rows.size}: one score a pair is needed"
            raise CorpusError(gold, reason)
        if name in chosen:
            yield from _pairs(name, rows, scores, log)
        else:
            log.counts[f"left_out_{name}"] += rows.size


@dataclass(frozen=True)
class _Lines:
    """The readable lines of a file by their numbers, from 1, and how many it has in all."""

    path: str
    texts: dict[int, str]
    size: int


def _numbered(path: str, log: Log, *, count: bool = True) -> _Lines:
    before = log.counts["read"]
    texts = dict(lines(path, log))
    size = log.counts["read"] - before
    if not count:
        log.counts["read"] = before
    return _Lines(path, texts, size)


def _pairs(name: str, rows: _Lines, scores: _Lines, log: Log) -> Iterator[Row]:
    for line in sorted(rows.texts.keys() & scores.texts.keys()):
        if not scores.texts[line].strip():
            log.counts["unscored"] += 1
            continue
        try:
            fields = rows.texts[line].split("\t")
            if len(fields) < 2:
                raise BadFieldError("1 column where there should be 2 sentences")
            first, second = sentence(fields[0], "sentence1"), sentence(fields[1], "sentence2")
            row = first, second, number(scores.texts[line], "score"), name
        except BadFieldError as error:
            log.quarantine(rows.path, line, str(error))
        else:
            yield row


def _subsets(system: Any, root: str, path: str) -> list[str]:
    """Names of the subsets that have pairs or scores; a file that lacks its partner is told when
    it is opened."""
    if not system.isdir(root):
        raise CorpusError(path, "there is no such folder")
    files = {PurePosixPath(name).name for name in system.ls(root, detail=False)}
    starts = (_INPUT, _GOLD)
    names = {
        file.removeprefix(start).removesuffix(_END)
        for start in starts
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
