"""``builtin:nli`` as triplets and as labelled pairs of the same groups of sentences."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.builtin import PremiseGroup, groups
from sentune.corpora.builtin import triplets as made_triplets
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.seeded import counted, split_and_seed
from sentune.corpora.formats.spec import Spec

SIZES = {"train": 30_000, "dev": 2_000, "test": 2_000}


def triplets(spec: Spec, log: Log) -> Iterator[Row]:
    """Premise, entailment and contradiction."""
    return counted(spec, log, made_triplets(*split_and_seed(spec, SIZES)), SIZES)


def pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Three pairs of each premise, so that labels are balanced."""
    made = groups(*split_and_seed(spec, SIZES))
    return counted(spec, log, (row for group in made for row in _group_pairs(group)), SIZES)


def _group_pairs(group: PremiseGroup) -> Iterator[Row]:
    yield group.premise, group.entailment, "entailment", "neutral"
    yield group.premise, group.neutral, "neutral", group.neutral_reverse
    yield group.premise, group.contradiction, "contradiction", "contradiction"
