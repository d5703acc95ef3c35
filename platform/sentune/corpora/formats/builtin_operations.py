"""``builtin:operations`` and ``builtin:scenes``: sentence operations, and scored pairs of such
sentences."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.builtin.operations import operations as made
from sentune.corpora.builtin.scenes import pairs
from sentune.corpora.formats.operations import chosen_operations
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.seeded import counted, split_and_seed
from sentune.corpora.formats.spec import Spec

SIZES = {"train": 100_000, "dev": 1_000, "test": 1_000}
SCENES = {"train": 1_000, "dev": 1_000, "test": 1_000}


def operations(spec: Spec, log: Log) -> Iterator[Row]:
    """The operations that are asked for, in turn; ``size`` counts the rows of all together."""
    chosen = chosen_operations(spec)
    return counted(spec, log, made(*split_and_seed(spec, SIZES), chosen), SIZES)


def scenes(spec: Spec, log: Log) -> Iterator[Row]:
    """Scored pairs of sentences, which belong to no subset."""
    rows = ((*row, None) for row in pairs(*split_and_seed(spec, SCENES)))
    return counted(spec, log, rows, SCENES)
