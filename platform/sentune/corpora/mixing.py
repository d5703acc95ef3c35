"""Batches that mix several corpora in given proportions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from sentune.corpora.batches import Batch, BatchSource, CorpusSource, Readers
from sentune.errors import InvalidValue

_BLOCK = 1_024
"""Steps whose row counts are drawn together. A resume at step 1,000,000 draws 977 blocks again,
which takes 0.3 s for two corpora, and reads none of the earlier rows."""

_WEIGHT = "mix_"
"""Prefix of the name of a corpus's weight among a trial's settings."""

_COUNTS, _PLACES, _ROWS = 1, 2, 3
"""Keys of the three independent random streams of a seed."""


class Mixture(BatchSource):
    """Batches that mix the rows of several sources; an epoch has as many examples as these rows.

    A batch of B rows has n_s rows of source s, (n_1, n_2, ...) ~ Multinomial(B, p), where p_s is
    proportional to the weight of s times its number of rows. With equal weights every row is drawn
    equally often, as from the concatenated corpora. Each source goes through its own epochs and
    drops no row. The rows of a batch are shuffled. A batch depends on the seed and its step alone.

    Raises:
        InvalidValue: there is no source, a weight is invalid, or the columns differ.
    """

    def __init__(self, sources: Sequence[CorpusSource], weights: Sequence[float]) -> None:
        _check(sources, weights)
        self._sources = tuple(sources)
        self.num_rows = sum(source.num_rows for source in sources)
        self.column_names = sources[0].column_names
        shares = np.array([w * s.num_rows for w, s in zip(weights, sources, strict=True)])
        self.shares: npt.NDArray[np.float64] = shares / shares.sum()

    def join(self, readers: Readers) -> None:
        for source in self._sources:
            source.join(readers)

    def _batches(self, batch_size: int, seed: int, seen: int) -> Iterator[Batch]:
        step = seen // batch_size
        taken = enumerate(self._taken(batch_size, seed, step).tolist())
        rows = [self._sources[source].rows(_seed_of(seed, source), own) for source, own in taken]
        for number, counts in zip(count(step), self._counts(batch_size, seed, step), strict=False):
            places = np.repeat(np.arange(len(rows)), counts)
            order = np.random.default_rng([seed, _PLACES, number]).permutation(places)
            drawn = [next(rows[source]) for source in order.tolist()]
            columns = {name: [row[name] for row in drawn] for name in self.column_names}
            first = number * batch_size
            yield Batch(columns, first // self.num_rows, first)

    def _taken(self, batch_size: int, seed: int, step: int) -> npt.NDArray[np.int64]:
        """Return the number of rows of each source in the steps before ``step``, [S]."""
        whole, rest = divmod(step, _BLOCK)
        total: npt.NDArray[np.int64] = self._block(batch_size, seed, whole)[:rest].sum(axis=0)
        for number in range(whole):
            total += self._block(batch_size, seed, number).sum(axis=0)
        return total

    def _counts(self, batch_size: int, seed: int, step: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the number of rows of each source in ``step`` and in each later step, [S]."""
        whole, rest = divmod(step, _BLOCK)
        for number in count(whole):
            yield from self._block(batch_size, seed, number)[rest:]
            rest = 0

    def _block(self, batch_size: int, seed: int, number: int) -> npt.NDArray[np.int64]:
        """Return the number of rows of each source in each step of a block, [_BLOCK, S]."""
        rng = np.random.default_rng([seed, _COUNTS, number])
        return rng.multinomial(batch_size, self.shares, size=_BLOCK)


@dataclass(frozen=True)
class MixedHandle:
    """A handle of a ``Mixture`` of the sources that ``handles`` open."""

    handles: tuple[Any, ...]
    weights: tuple[float, ...]

    def open(self) -> Mixture:
        return Mixture([handle.open() for handle in self.handles], self.weights)


def _seed_of(seed: int, source: int) -> int:
    """Return a source's own seed, without which corpora of equal size have the same order."""
    return int(np.random.SeedSequence([seed, _ROWS, source]).generate_state(1)[0])


def _check(sources: Sequence[CorpusSource], weights: Sequence[float]) -> None:
    if not sources or len(weights) != len(sources):
        fix = f"give one weight for each of the {len(sources)} corpora, at least one"
        raise InvalidValue("weights", tuple(weights), fix)
    for number, weight in enumerate(weights, start=1):
        if not (math.isfinite(weight) and weight > 0):
            raise InvalidValue(f"weight of corpus {number}", weight, "use a number above 0")
    wanted = sources[0].column_names
    for number, source in enumerate(sources, start=1):
        if set(source.column_names) != set(wanted):
            fix = f"all corpora need the columns of corpus 1: {', '.join(wanted)}"
            raise InvalidValue(f"columns of corpus {number}", ", ".join(source.column_names), fix)


def weight_names(specs: Sequence[str]) -> tuple[str, ...]:
    """Return the settings' names of the weights: ``mix_wikisplit``, ``mix_wikisplit_2``, ..."""
    names: list[str] = []
    for spec in specs:
        own = name = _WEIGHT + spec.partition(":")[0].replace("-", "_")
        count = 2
        while name in names:
            name, count = f"{own}_{count}", count + 1
        names.append(name)
    return tuple(names)


def apart(
    settings: Mapping[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], tuple[float, ...]]:
    """Split a trial's settings into the others and the corpora's weights.

    The weights are in the order of ``names``. A missing one is 1. Only their ratios matter.
    """
    kept = {name: value for name, value in settings.items() if name not in names}
    return kept, tuple(float(settings.get(name, 1.0)) for name in names)
