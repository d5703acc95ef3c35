"""SNLI, MultiNLI and SICK: pairs of sentences with one label of inference."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats.annotators import annotated_premises, leaves_annotated_out
from sentune.corpora.formats.objects import objects
from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Row,
    check_label,
    lines,
    number,
    sentence,
)
from sentune.corpora.formats.spec import Spec
from sentune.errors import CorpusError

_SPLITS = ("TRAIN", "TRIAL", "TEST")
_RELATIONS = {"entails": "entailment", "neutral": "neutral", "contradicts": "contradiction"}


def jsonl(spec: Spec, log: Log) -> Iterator[Row]:
    """Labelled pairs of SNLI's and MultiNLI's official ``.jsonl`` files, compressed or not.

    Rows whose annotators did not agree (gold label ``-``) are dropped and counted. With
    ``annotators=none`` so are the rows that share a premise with a row that several people
    annotated: the file is then read twice, and the premises of those rows are held in memory.
    """
    annotated = annotated_premises(spec, log)
    needed = ("annotator_labels",) if leaves_annotated_out(spec) else ()
    for line, fields in objects(spec.path, log, "gold_label", "sentence1", "sentence2", *needed):
        if fields["gold_label"] == "-":
            log.counts["unlabelled"] += 1
            continue
        try:
            label = check_label(fields["gold_label"])
            premise = sentence(fields["sentence1"], "sentence1")
            hypothesis = sentence(fields["sentence2"], "sentence2")
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
            continue
        if premise in annotated:
            log.counts["of_annotated_premises"] += 1
        else:
            yield premise, hypothesis, label, None


def sick_pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Labelled pairs of SICK, with the label of the other direction (``entailment_BA``)."""
    for line, fields in _sick(spec, log, "entailment_label", "entailment_BA"):
        try:
            pair = _sick_sentences(fields)
            label = check_label(fields["entailment_label"].lower())
            reverse = _relation(fields["entailment_BA"])
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield *pair, label, reverse


def sick_scores(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of SICK: relatedness from 1 to 5."""
    for line, fields in _sick(spec, log, "relatedness_score"):
        try:
            pair = _sick_sentences(fields)
            score = number(fields["relatedness_score"], "relatedness_score")
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield *pair, score, None


def _sick(spec: Spec, log: Log, *needed: str) -> Iterator[tuple[int, dict[str, str]]]:
    split = spec.choice("split", "", ("", *_SPLITS))
    names = ("sentence_A", "sentence_B", *needed, *(("SemEval_set",) if split else ()))
    source = lines(spec.path, log)
    header = next(source, (1, ""))[1].split("\t")
    log.counts["read"] -= 1  # the header is no row
    if missing := [name for name in names if name not in header]:
        raise CorpusError(spec.path, f"the header lacks {', '.join(missing)}", line=1)
    for line, text in source:
        values = text.split("\t")
        if len(values) != len(header):
            reason = f"{len(values)} columns where the header has {len(header)}"
            log.quarantine(spec.path, line, reason)
            continue
        fields = dict(zip(header, values, strict=True))
        if split and fields["SemEval_set"] != split:
            log.counts["other_splits"] += 1
        else:
            yield line, fields


def _sick_sentences(fields: dict[str, str]) -> tuple[str, str]:
    first = sentence(fields["sentence_A"], "sentence_A")
    return first, sentence(fields["sentence_B"], "sentence_B")


def _relation(value: str) -> str:
    """``B_entails_A`` -> ``entailment``."""
    parts = value.split("_")
    if len(parts) != 3 or parts[1] not in _RELATIONS:
        raise BadFieldError(f"unknown relation {value!r}")
    return _RELATIONS[parts[1]]
