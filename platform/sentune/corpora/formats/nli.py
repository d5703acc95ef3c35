"""Formats of inference corpora: SNLI, MultiNLI, SICK, AmbiEnt, ChaosNLI, SimCSE's triplets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sentune.corpora.formats.reading import BadFieldError, Log, Row, check_label, number, sentence
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import LABELS

OPTIONS = {
    "votes": "minimum annotators of a label, in rows that several annotated; 2 in GumbelCSE",
    "annotators": "any, or none to leave out premises of rows that several people annotated",
}
CHAOS_OPTIONS = {"votes": "minimum annotators of a label, of 100; default 20"}
SICK_OPTIONS = {"split": "TRAIN, TRIAL or TEST, or some of them with + between them"}

_TRIPLET = ("sent0", "sent1", "hard_neg")
_FEW = 2  # minimum labels of a row that several people annotated; the first is its author's

_CHAOS = {"e": "entailment", "n": "neutral", "c": "contradiction"}
_RELATIONS = {"entails": "entailment", "neutral": "neutral", "contradicts": "contradiction"}


def jsonl(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield labelled pairs of SNLI's and MultiNLI's official ``.jsonl`` files, compressed or not.

    Rows whose annotators did not agree (gold label ``-``) are dropped and counted. With
    ``annotators=none``, rows that share a premise with a row that several people annotated are
    dropped too. The file is then read twice, and those premises are held in memory.
    """
    annotated, needed = set[str](), list[str]()
    if spec.choice("annotators", "any", ("any", "none")) == "none":
        annotated, needed = _annotated_premises(spec, log.limit), ["annotator_labels"]
    for line, fields in log.objects(spec.path, "gold_label", "sentence1", "sentence2", *needed):
        if fields["gold_label"] == "-":
            log.counts["unlabelled"] += 1
            continue
        with log.checks(spec.path, line):
            label = check_label(fields["gold_label"])
            premise, hypothesis = _pair(fields, "sentence1", "sentence2")
            if premise in annotated:
                log.counts["of_annotated_premises"] += 1
            else:
                yield premise, hypothesis, label, None


def several(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield pairs of SNLI or MultiNLI with the labels of at least ``votes`` annotators.

    ``annotator_labels`` begins with the author's own label. GumbelCSE section 4.4 uses 2 votes of
    5. Rows with fewer than two annotators, and rows without a label with enough votes, are dropped
    and counted. The gold label is ignored.
    """
    votes = spec.integer("votes", 2, minimum=1)
    if "annotators" in spec.options:
        fix = "leave it out: votes reads the annotated rows, and annotators=none leaves them out"
        raise spec.refused("annotators", fix)
    for line, fields in log.objects(spec.path, "annotator_labels", "sentence1", "sentence2"):
        with log.checks(spec.path, line):
            given = _given(fields)
            pair = _pair(fields, "sentence1", "sentence2")
            if len(given) < _FEW:
                log.counts["fewer_annotators"] += 1
            elif labels := _enough(Counter(given), votes, log):
                yield *pair, labels


def chaosnli(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield pairs of ChaosNLI's official ``.jsonl`` with labels of at least ``votes`` annotators.

    The default is 20 of 100 (GumbelCSE section 4.4). Rows without such a label are dropped and
    counted.
    """
    votes = spec.integer("votes", 20, minimum=1)
    for line, fields in log.objects(spec.path, "label_counter", "example"):
        with log.checks(spec.path, line):
            found = _mapping(fields["label_counter"], "label_counter")
            for count in found.values():
                if not isinstance(count, int):
                    raise BadFieldError(f"label_counter has the count {count!r}, not an integer")
            counts = {check_label(_CHAOS.get(name, name)): n for name, n in found.items()}
            pair = _pair(_mapping(fields["example"], "example"), "premise", "hypothesis")
            if labels := _enough(counts, votes, log):
                yield *pair, labels


def ambient(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield pairs of AmbiEnt's ``.jsonl``, whose ``labels`` are text: "entailment, neutral"."""
    for line, fields in log.objects(spec.path, "premise", "hypothesis", "labels"):
        with log.checks(spec.path, line):
            named = sentence(fields["labels"], "labels").split(",")
            yield *_pair(fields, "premise", "hypothesis"), in_order([n.strip() for n in named])


def sick_pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield labelled pairs of SICK with the label of the other direction (``entailment_BA``)."""
    for line, fields in _sick(spec, log, "entailment_label", "entailment_BA"):
        with log.checks(spec.path, line):
            pair = _pair(fields, "sentence_A", "sentence_B")
            label = check_label(fields["entailment_label"].lower())
            parts = (relation := fields["entailment_BA"]).split("_")  # B_entails_A
            if len(parts) != 3 or parts[1] not in _RELATIONS:
                raise BadFieldError(f"unknown relation {relation!r}")
            yield *pair, label, _RELATIONS[parts[1]]


def sick_scores(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield scored pairs of SICK, with relatedness from 1 to 5."""
    name = "relatedness_score"
    for line, fields in _sick(spec, log, name):
        with log.checks(spec.path, line):
            yield *_pair(fields, "sentence_A", "sentence_B"), number(fields[name], name), None


def simcse(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield triplets of a CSV file with the columns ``sent0``, ``sent1`` and ``hard_neg``.

    A bad row is reported with the last of its lines.
    """
    for line, fields in log.headed(spec.path, *_TRIPLET, csv_of=","):
        with log.checks(spec.path, line):
            yield tuple(sentence(fields[name], name) for name in _TRIPLET)


def in_order(labels: object) -> list[str]:
    """Return distinct labels in the order of ``LABELS``; refuse no label and unknown ones."""
    if not isinstance(labels, Collection) or isinstance(labels, str) or not labels:
        raise BadFieldError("labels is not a list of labels")
    found = {check_label(label) for label in labels}
    return [label for label in LABELS if label in found]


def _annotated_premises(spec: Spec, limit: str) -> set[str]:
    """Return the premises of rows with several annotators; the second reading logs bad rows."""
    premises: set[str] = set()
    log = Log(limit)
    for line, fields in log.objects(spec.path, "annotator_labels", "sentence1"):
        with log.checks(spec.path, line):
            if len(_given(fields)) >= _FEW:
                premises.add(sentence(fields["sentence1"], "sentence1"))
    return premises


def _sick(spec: Spec, log: Log, *needed: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield rows of the splits in ``split``, or all rows, and count those ``of_test_split``."""
    splits = spec.some_of("split", ("TRAIN", "TRIAL", "TEST"))
    names = ("sentence_A", "sentence_B", *needed, *(("SemEval_set",) if splits else ()))
    for line, fields in log.headed(spec.path, *names):
        if splits and fields["SemEval_set"] not in splits:
            log.counts["other_splits"] += 1
            continue
        if not splits and fields.get("SemEval_set") == "TEST":
            log.counts["of_test_split"] += 1
        yield line, fields


def _enough(counts: Mapping[str, int], votes: int, log: Log) -> list[str]:
    """Return the labels with enough votes in the order of ``LABELS``; count a row without any."""
    labels = [label for label in LABELS if counts.get(label, 0) >= votes]
    if not labels:
        log.counts["no_label_with_votes"] += 1
    return labels


def _given(fields: Mapping[str, Any]) -> list[str]:
    """Return the annotators' labels, without the empty labels of missing annotators."""
    given = fields["annotator_labels"]
    if not isinstance(given, list):
        raise BadFieldError("annotator_labels is not a list")
    return [check_label(label) for label in given if label != ""]


def _pair(fields: Mapping[str, Any], first: str, second: str) -> tuple[str, str]:
    return sentence(fields.get(first), first), sentence(fields.get(second), second)


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFieldError(f"{name} is not a JSON object")
    return value
