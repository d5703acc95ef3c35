"""``builtin:nli``: the corpus that the package makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from sentune.corpora.builtin import Group, groups, triplets
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue

SIZES = {"train": 30_000, "dev": 2_000, "test": 2_000}
OPTIONS = {
    "split": "train, dev or test; default train",
    "size": "rows; default 30000 for train, 2000 for dev and test",
    "seed": "an integer; default 0",
}


def readers(spec: Spec) -> Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]:
    """Triplets and labelled pairs; both tell the same groups of sentences."""
    if spec.path != "nli":
        raise InvalidValue(FIELD, spec.text, "the built-in corpus is called builtin:nli")
    return {Kind.TRIPLETS: _triplets, Kind.LABELLED_PAIRS: _pairs}


def _asked(spec: Spec) -> tuple[str, int, int]:
    """Split, seed and size."""
    split = spec.choice("split", "train", SIZES)
    seed, size = spec.integer("seed", 0, minimum=0), spec.integer("size", SIZES[split], minimum=1)
    return split, seed, size


def _triplets(spec: Spec, log: Log) -> Iterator[Row]:
    split, seed, size = _asked(spec)
    return _counted(islice(triplets(split, seed), size), log)


def _pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Three pairs of each premise, so that labels are balanced."""
    split, seed, size = _asked(spec)
    rows = (row for group in groups(split, seed) for row in _group_pairs(group))
    return _counted(islice(rows, size), log)


def _counted(rows: Iterator[Row], log: Log) -> Iterator[Row]:
    for row in rows:
        log.counts["read"] += 1
        yield row


def _group_pairs(group: Group) -> Iterator[Row]:
    yield group.premise, group.entailment, "entailment", "neutral"
    yield group.premise, group.neutral, "neutral", group.neutral_reverse
    yield group.premise, group.contradiction, "contradiction", "contradiction"
