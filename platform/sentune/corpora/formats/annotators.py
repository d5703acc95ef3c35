"""Pairs of sentences that several people annotated: AmbiEnt, ChaosNLI, SNLI and MultiNLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sentune.corpora.formats.objects import objects
from sentune.corpora.formats.reading import BadFieldError, Log, Row, check_label, sentence
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import LABELS
from sentune.errors import InvalidValue

_FEW = 2
"""Labels from which on a row counts as annotated by several people; one is its author's alone."""

_CHAOS = {"e": "entailment", "n": "neutral", "c": "contradiction"}


def ambient(spec: Spec, log: Log) -> Iterator[Row]:
    """Pairs of AmbiEnt's official ``.jsonl``; ``labels`` is text such as "entailment, neutral"."""
    for line, fields in objects(spec.path, log, "premise", "hypothesis", "labels"):
        try:
            named = sentence(fields["labels"], "labels").split(",")
            row = *_sentences(fields, "premise", "hypothesis"), in_order([n.strip() for n in named])
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield row


def chaosnli(spec: Spec, log: Log) -> Iterator[Row]:
    """Pairs of ChaosNLI's official ``.jsonl`` with the labels of at least ``votes`` of 100 people.

    20 by default (GumbelCSE section 4.4). A row in which no label has as many is dropped and
    counted.
    """
    votes = spec.integer("votes", 20, minimum=1)
    for line, fields in objects(spec.path, log, "label_counter", "example"):
        try:
            found = _mapping(fields["label_counter"], "label_counter")
            counts = {check_label(_CHAOS.get(k, k)): _count(v) for k, v in found.items()}
            pair = _sentences(_mapping(fields["example"], "example"), "premise", "hypothesis")
            labels = _enough(counts, votes, log)
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            if labels:
                yield *pair, labels


def several(spec: Spec, log: Log) -> Iterator[Row]:
    """Pairs of SNLI or MultiNLI with the labels of at least ``votes`` annotators.

    ``annotator_labels`` begins with the author's own; 2 votes of 5 in GumbelCSE section 4.4. Rows
    with fewer than two annotators, and rows in which no label has as many votes, are dropped and
    counted. The gold label is not looked at.
    """
    votes = spec.integer("votes", 2, minimum=1)
    if "annotators" in spec.options:
        fix = "leave it out: votes reads the annotated rows, and annotators=none leaves them out"
        raise InvalidValue(f"{FIELD} option annotators", spec.options["annotators"], fix)
    for line, fields in objects(spec.path, log, "annotator_labels", "sentence1", "sentence2"):
        try:
            given = _given(fields)
            pair = _sentences(fields, "sentence1", "sentence2")
            if len(given) < _FEW:
                log.counts["fewer_annotators"] += 1
                continue
            labels = _enough(Counter(given), votes, log)
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            if labels:
                yield *pair, labels


def annotated_premises(spec: Spec, log: Log) -> set[str]:
    """Under ``annotators=none`` the premises of rows with several annotators, else no premise.

    Reads the file once for it. Rows that cannot be used are not counted in ``log``, as the next
    reader of the rows puts them aside; only the limit of ``log`` holds.

    Raises:
        CorpusError: the file cannot be read, or has too many rows that do not say who annotated
            them.
    """
    premises: set[str] = set()
    if not leaves_annotated_out(spec):
        return premises
    first = Log(log.limit)
    for line, fields in objects(spec.path, first, "annotator_labels", "sentence1"):
        try:
            if len(_given(fields)) >= _FEW:
                premises.add(sentence(fields["sentence1"], "sentence1"))
        except BadFieldError as error:
            first.quarantine(spec.path, line, str(error))
    return premises


def leaves_annotated_out(spec: Spec) -> bool:
    """Return whether ``annotators=none`` is asked for."""
    return spec.choice("annotators", "any", ("any", "none")) == "none"


def in_order(labels: object) -> list[str]:
    """Distinct labels of inference in the order of ``LABELS``; refuses none and unknown ones."""
    if not isinstance(labels, Collection) or isinstance(labels, str) or not labels:
        raise BadFieldError("labels is no list of labels")
    found = {check_label(label) for label in labels}
    return [label for label in LABELS if label in found]


def _enough(counts: Mapping[str, int], votes: int, log: Log) -> list[str]:
    """Return the labels with enough votes; where there is none, the row is counted and lost."""
    labels = [label for label, count in counts.items() if count >= votes]
    if not labels:
        log.counts["no_label_with_votes"] += 1
    return in_order(labels) if labels else []


def _given(fields: Mapping[str, Any]) -> list[str]:
    """The labels that annotators gave; an empty one stands for an annotator who gave none."""
    given = fields["annotator_labels"]
    if not isinstance(given, list):
        raise BadFieldError("annotator_labels is no list")
    return [check_label(label) for label in given if label != ""]


def _sentences(fields: Mapping[str, Any], first: str, second: str) -> tuple[str, str]:
    return sentence(fields.get(first), first), sentence(fields.get(second), second)


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFieldError(f"{name} is no JSON object")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int):
        raise BadFieldError(f"label_counter counts {value!r}")
    return value
