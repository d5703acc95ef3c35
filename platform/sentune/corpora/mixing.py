"""Batches from several corpora at once, in stated proportions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from sentune.corpora.batches import Batch, CorpusSource, Readers, check_batches
from sentune.errors import InvalidValue

_BLOCK = 1_024
"""Steps whose numbers of rows are drawn at once. A resume at step 1,000,000 draws those of
977 blocks again, in 0.3 s for two corpora, and reads no row of what went before."""

_WEIGHT = "mix_"
"""Begins the name of a corpus's weight among a trial's settings."""

_COUNTS, _PLACES, _ROWS = 1, 2, 3
"""Apart from each other, the three things that a seed decides."""


class Mixture:
    """A ``BatchSource`` whose batches hold rows of several sources.

    A batch of B rows has n_s rows of source s, (n_1, n_2, ...) ~ Multinomial(B, p) with p_s
    proportional to weight times rows of s; with equal weights every row of every corpus is drawn
    equally often, as from the corpora one after the other in one. Each source goes through its own
    epochs and loses no row; rows of a batch stand in random order. Everything is decided by seed
    and number of the step alone.

    Raises:
        InvalidValue: no source, weights that cannot be used, or columns that differ.
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

    def batches(self, batch_size: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """See ``BatchSource``. An epoch is as many examples as all sources together have."""
        check_batches(self.num_rows, batch_size, start)
        return self._batches(batch_size, seed, start // batch_size)

    def _batches(self, batch_size: int, seed: int, step: int) -> Iterator[Batch]:
        taken = enumerate(self._taken(batch_size, seed, step).tolist())
        rows = [self._sources[source].rows(_seed_of(seed, source), seen) for source, seen in taken]
        for number, counts in zip(count(step), self._counts(batch_size, seed, step), strict=False):
            places = np.repeat(np.arange(len(rows)), counts)
            order = np.random.default_rng([seed, _PLACES, number]).permutation(places)
            drawn = [next(rows[source]) for source in order.tolist()]
            columns = {name: [row[name] for row in drawn] for name in self.column_names}
            first = number * batch_size
            yield Batch(columns, first // self.num_rows, first)

    def _taken(self, batch_size: int, seed: int, step: int) -> npt.NDArray[np.int64]:
        """[S] rows of each source in the steps before ``step``."""
        whole, rest = divmod(step, _BLOCK)
        total: npt.NDArray[np.int64] = self._block(batch_size, seed, whole)[:rest].sum(axis=0)
        for number in range(whole):
            total += self._block(batch_size, seed, number).sum(axis=0)
        return total

    def _counts(self, batch_size: int, seed: int, step: int) -> Iterator[npt.NDArray[np.int64]]:
        """[S] rows of each source in ``step`` and in those after it."""
        whole, rest = divmod(step, _BLOCK)
        for number in count(whole):
            yield from self._block(batch_size, seed, number)[rest:]
            rest = 0

    def _block(self, batch_size: int, seed: int, number: int) -> npt.NDArray[np.int64]:
        """[_BLOCK, S] rows of each source in the steps of a block."""
        rng = np.random.default_rng([seed, _COUNTS, number])
        return rng.multinomial(batch_size, self.shares, size=_BLOCK)


@dataclass(frozen=True)
class MixedHandle:
    """A handle of a mixture; ``handles`` open to its sources, shared or streamed."""

    handles: tuple[Any, ...]
    weights: tuple[float, ...]

    def open(self) -> Mixture:
        return Mixture([handle.open() for handle in self.handles], self.weights)


def _seed_of(seed: int, source: int) -> int:
    """Return a seed for each source, or corpora of equal size would come in the same order."""
    return int(np.random.SeedSequence([seed, _ROWS, source]).generate_state(1)[0])


def _check(sources: Sequence[CorpusSource], weights: Sequence[float]) -> None:
    if not sources or len(weights) != len(sources):
        fix = f"give one for each of the {len(sources)} corpora, of which there must be one"
        raise InvalidValue("weights", tuple(weights), fix)
    for number, weight in enumerate(weights, start=1):
        if not (math.isfinite(weight) and weight > 0):
            raise InvalidValue(f"weight of corpus {number}", weight, "use a number above 0")
    wanted = sources[0].column_names
    for number, source in enumerate(sources, start=1):
        if set(source.column_names) != set(wanted):
            fix = f"all need the columns of corpus 1: {', '.join(wanted)}"
            raise InvalidValue(f"columns of corpus {number}", ", ".join(source.column_names), fix)


def is_weight(setting: str) -> bool:
    """Return whether it is the weight of a corpus."""
    return setting.startswith(_WEIGHT)


def weight_names(specs: Sequence[str]) -> tuple[str, ...]:
    """``mix_wikisplit``, ``mix_compression``, ``mix_compression_2``: one a corpus."""
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
    """A trial's other settings, and the weights in the order of the names, 1 where one is missing.

    Of weights only their ratios matter; 1 for all draws each corpus as often as its size has it.
    """
    kept = {name: value for name, value in settings.items() if not is_weight(name)}
    return kept, tuple(float(settings.get(name, 1.0)) for name in names)
