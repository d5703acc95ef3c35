"""``builtin:stories`` and ``builtin:similarity``: ordered sentences, and scored pairs of such."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.builtin.similarity import pairs
from sentune.corpora.builtin.stories import adjacent as made
from sentune.corpora.formats import select
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.seeded import counted, split_and_seed
from sentune.corpora.formats.spec import Spec

SIZES = {"train": 30_000, "dev": 2_000, "test": 2_000}
SIMILARITY_SIZES = {"train": 1_000, "dev": 1_000, "test": 1_000}


def adjacent(spec: Spec, log: Log) -> Iterator[Row]:
    """Pairs of a sentence and the one that follows it; ``size`` counts pairs."""
    return counted(spec, log, made(*split_and_seed(spec, SIZES)), SIZES)


def sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """The distinct sentences of ``size`` pairs."""
    return select.sentences(adjacent(spec, log), (0, 1))


def similarity(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of sentences, which belong to no subset."""
    rows = ((*row, None) for row in pairs(*split_and_seed(spec, SIMILARITY_SIZES)))
    return counted(spec, log, rows, SIMILARITY_SIZES)
