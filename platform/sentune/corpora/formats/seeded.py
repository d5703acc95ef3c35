"""What the built-in corpora share: a split, a seed and a size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.spec import Spec

OPTIONS = {
    "split": "train, dev or test; default train",
    "size": "rows; each built-in corpus has its own default",
    "seed": "an integer; default 0",
}


def split_and_seed(spec: Spec, sizes: Mapping[str, int]) -> tuple[str, int]:
    """Return the split, one of those that ``sizes`` names, and the seed."""
    return spec.choice("split", next(iter(sizes)), sizes), spec.integer("seed", 0, minimum=0)


def counted(spec: Spec, log: Log, rows: Iterator[Row], sizes: Mapping[str, int]) -> Iterator[Row]:
    """As many rows as are asked for, counted as read.

    Args:
        spec: its ``size`` decides.
        log: where they are counted.
        rows: endless, or as many as there are.
        sizes: default size of each split.
    """
    split, _ = split_and_seed(spec, sizes)
    for row in islice(rows, spec.integer("size", sizes[split], minimum=1)):
        log.counts["read"] += 1
        yield row
