"""Formats of scored pairs: the STS Benchmark, SemEval's STS tasks (2012 to 2016), and C-STS.

C-STS (Deshpande et al. 2023, princeton-nlp/c-sts) is similarity under a condition: CSV files with
the columns ``sentence1``, ``sentence2``, ``condition`` and ``label`` from 1 to 5. The labels of its
test file are hidden (-1). LC-STS (Tu et al. 2024, brandeis-llc/L-CSTS) is a new annotation: a TSV
file with the columns ``uid``, the number from 0 of a row of C-STS's development file, and
``reannotated-label``, which is -1 if the condition does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentune.corpora.formats.reading import BadFieldError, Log, Row, names_in, number, sentence
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError

OPTIONS = {"subsets": "A+B or all; default: all but SMT of 2013"}
CSTS_OPTIONS = {"labels": "LC-STS's .tsv, whose labels replace those of the same rows"}

_TOGETHER = "ALL"
"""Name of the file with all gold scores of a year, which is no subset."""

_LEFT_OUT = "SMT"
"""The subset of 2013 that papers leave out of the average, because its licence did not allow
SentEval to distribute it."""

_COLUMNS = ("sentence1", "sentence2", "condition", "label")
_LC_COLUMNS = ["uid", "reannotated-label"]
_NO_SCORE = -1.0
_LOWEST, _HIGHEST = 1, 5


def stsb(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield scored pairs of an STS Benchmark file: genre, file, year, id, score, two sentences.

    Columns are tab-separated without a header, quotes are literal, and columns after the seventh
    (sources) are ignored. The genre (main-captions, main-news, ...) is the subset.
    """
    for line, text in log.lines(spec.path):
        fields = text.split("\t")
        with log.checks(spec.path, line):
            if len(fields) < 7:
                raise BadFieldError(f"{len(fields)} columns instead of at least 7")
            first, second = sentence(fields[5], "sentence1"), sentence(fields[6], "sentence2")
            yield first, second, number(fields[4], "score"), fields[0].strip() or None


def folder(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield scored pairs of a year's folder, with its subsets in alphabetical order.

    Each line of ``STS.input.NAME.txt`` has two sentences, tab-separated with literal quotes, and
    their source (2016). ``STS.gs.NAME.txt`` has the scores. Pairs with an empty score are dropped
    and counted as ``unscored``. Pairs of subsets that are not chosen are counted as
    ``left_out_NAME``. By default all subsets except SMT of 2013 are chosen.

    Raises:
        InvalidValue: there is no such subset.
        CorpusError: there is no subset at all, or a file of one is missing.
    """
    names = _subsets(spec.path)
    if spec.options.get("subsets") == "all":
        chosen = names
    else:
        chosen = spec.some_of("subsets", names, "all, or ")
        chosen = chosen or [name for name in names if name != _LEFT_OUT]
    for name in names:
        first, gold = (f"{spec.path.rstrip('/')}/STS.{k}.{name}.txt" for k in ("input", "gs"))
        # bad rows of a subset that is not chosen are neither counted nor reported
        own = log if name in chosen else Log("100%")
        for line, (text, score) in own.parallel(first, gold, "score"):
            if not score.strip():
                own.counts["unscored"] += 1
            elif own is log:
                with log.checks(first, line):
                    yield _pair(text, score, name)
        if own is not log:
            log.counts["read"] += own.counts["read"]
            log.left_out += own.counts["read"]
            log.counts[f"left_out_{name}"] = own.counts["read"]


def _pair(text: str, gold: str, name: str) -> Row:
    fields = text.split("\t")
    if len(fields) < 2:
        raise BadFieldError("1 column instead of 2 sentences")
    first, second = sentence(fields[0], "sentence1"), sentence(fields[1], "sentence2")
    return first, second, number(gold, "score"), name


def _subsets(path: str) -> list[str]:
    """Return the names of the subsets with a file of pairs or of scores."""
    found = (re.fullmatch(r"STS\.(?:input|gs)\.(.+)\.txt", name) for name in names_in(path))
    names = {part[1] for part in found if part} - {_TOGETHER}
    if not names:
        wanted = "STS.input.NAME.txt and STS.gs.NAME.txt"
        raise CorpusError(path, f"there is no {wanted}; give the folder of one year")
    return sorted(names)


def csts(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield conditioned pairs of a C-STS file, with ``labels=FILE`` scored by LC-STS.

    Rows with the label -1 are dropped and counted as ``unscored``, rows without a label in LC-STS
    as ``not_reannotated``. A bad row is reported with the last of its lines.

    Raises:
        CorpusError: a column is missing, or ``labels`` is damaged or belongs to another file.
    """
    again = _labels(spec.options["labels"]) if "labels" in spec.options else None
    for line, fields in log.headed(spec.path, *_COLUMNS, csv_of=","):
        place = log.counts["read"] - log.counts["blank"] - 1
        with log.checks(spec.path, line):
            texts = [sentence(fields[name], name) for name in _COLUMNS[:3]]
            score = _score(fields["label"]) if again is None else again.get(place)
            if score is None:
                log.counts["not_reannotated"] += 1
            elif score == _NO_SCORE:
                log.counts["unscored"] += 1
            else:
                yield *texts, score
    rows = log.counts["read"] - log.counts["blank"]
    if again and max(again) >= rows:
        reason = f"it labels row {max(again)}, but {spec.path} has only {rows} rows, from row 0"
        raise CorpusError(spec.options["labels"], reason)


def _score(value: object) -> float:
    score = number(value, "label")
    if score != _NO_SCORE and not _LOWEST <= score <= _HIGHEST:
        raise BadFieldError(f"label is {value!r}, neither from {_LOWEST} to {_HIGHEST} nor -1")
    return score


def _labels(path: str) -> dict[int, float]:
    """Return row number -> label of an LC-STS file; any bad line is an error.

    Raises:
        CorpusError: the file cannot be read, or a line is bad.
    """
    found: dict[int, float] = {}
    for line, text in Log("0").lines(path):
        fields = text.split("\t")
        if line == 1 and fields != _LC_COLUMNS:
            reason = f"the header is {text!r}, not uid and reannotated-label with a tab between"
            raise CorpusError(path, reason, line=1)
        if line == 1:
            continue
        try:
            uid, label = fields
            place, score = int(uid), _score(label)
        except ValueError as error:
            shape = f"the line is {text!r}, not a row number and a label with a tab between"
            reason = str(error) if isinstance(error, BadFieldError) else shape
            raise CorpusError(path, reason, line=line) from None
        if place < 0 or place in found:
            reason = "comes twice" if place in found else "is negative"
            raise CorpusError(path, f"uid {place} {reason}", line=line)
        found[place] = score
    return found
