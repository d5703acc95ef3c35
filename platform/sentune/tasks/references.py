"""Reference sentences of interpretation embeddings, and the base class of the tasks on these.

GumbelCSE sections 3.2, 4.4, 4.5 and 5: the distinct sentences of n triplets drawn from the training
set. Here all n are prefixes of one shuffled list, so a larger n contains the smaller ones and one
pass over the references suffices for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.batches import drawn_rows
from sentune.corpora.formats import kinds_of
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.readouts.grid import ALPHA_1, ALPHA_2, REFERENCES, Grid, Grids, Readout, grid_of
from sentune.readouts.sweep import SWEEP_FILE, Sweep
from sentune.tasks.base import Given, Result, readout_of, under

SENTENCES = (
    "anchor", "positive", "negative", "premise", "hypothesis", "sentence1", "sentence2", "text",
)  # fmt: skip
"""Columns with sentences, without the condition of C-STS, which is not a sentence."""


def kind_of_references(spec: str) -> Kind:
    """Return the kind to read references as: triplets if the format has them, as in GumbelCSE."""
    kinds = kinds_of(spec)
    return Kind.TRIPLETS if Kind.TRIPLETS in kinds else kinds[0]


class RowSource(Protocol):
    """Rows that can be taken by index: a ``pyarrow.Table`` or ``corpora.prepare.Prepared``."""

    @property
    def num_rows(self) -> int: ...

    @property
    def column_names(self) -> list[str]: ...

    def take(self, rows: NDArray[np.int64]) -> pa.Table: ...


@dataclass(frozen=True)
class References:
    """Distinct reference sentences.

    Attributes:
        sentences: sentences of the largest n.
        sizes: n -> number of distinct sentences of the first n rows, a prefix of ``sentences``.
    """

    sentences: tuple[str, ...]
    sizes: Mapping[int, int]

    @classmethod
    def sample(cls, table: RowSource, counts: Sequence[int], seed: int) -> References:
        """Return the sentences of the first n rows in a random order, for each n of ``counts``.

        The sentences of a row are in the order of the columns. The order of the rows does not
        depend on ``counts``. Counts are limited to the number of rows.

        Raises:
            InvalidValue: there is no count, a count is below 1, or the table has no rows or no
                sentences.
        """
        columns = [name for name in table.column_names if name in SENTENCES]
        if not columns or not table.num_rows:
            found = f"{table.num_rows} rows of {', '.join(table.column_names)}"
            raise InvalidValue("references", found, f"give rows with one of {', '.join(SENTENCES)}")
        usable = _usable(counts, table.num_rows)
        order = drawn_rows(table.num_rows, usable[-1], seed)
        drawn = table.take(order).select(columns).to_pydict()
        rows = zip(*drawn.values(), strict=True)
        sentences, sizes = dict[str, None](), dict[int, int]()
        for number, row in enumerate(rows, start=1):
            sentences.update(dict.fromkeys(row))
            if number in usable:
                sizes[number] = len(sentences)
        return cls(tuple(sentences), sizes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Return every n, increasing."""
        return tuple(sorted(self.sizes))

    def within(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Return the distinct n of ``counts``, increasing, limited to the largest n.

        Raises:
            InvalidValue: there is no count, or a count was not drawn.
        """
        usable = _usable(counts, self.counts[-1])
        for count in usable:
            if count not in self.sizes:
                fix = f"the references were drawn for {', '.join(map(str, self.counts))}"
                raise InvalidValue("references", count, fix)
        return usable


def _usable(counts: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the distinct counts, increasing and limited to ``most``."""
    if not counts or min(counts) < 1:
        raise InvalidValue("references", list(counts), "give numbers of rows, each at least 1")
    return tuple(sorted({min(count, most) for count in counts}))


AT_RUNGS = 200
"""n of a coarse evaluation of interpretations at rungs, about 600 sentences."""

AXES = ("intersection", "references", "alpha_1", "alpha_2")


class InterpretationTask:
    """Base class of tasks that compare sentences by their overlaps with reference sentences.

    Attributes:
        swept: readouts besides the number of references.

    Args:
        sentences: sentences to embed besides the references.
        references: reference sentences; None: metrics of interpretations are skipped.
        grids: grids of the readouts; the defaults are the readouts' own and every n of
            ``references``.
    """

    kind: ClassVar[str]
    swept: ClassVar[tuple[Readout, ...]]

    def __init__(
        self,
        name: str,
        sentences: Iterable[str],
        references: References | None,
        grids: Grids | None,
    ) -> None:
        self.name, self.grids = name, grids or {}
        self.references = references or References((), {})
        needed = dict.fromkeys((*sentences, *self.references.sentences))
        self._row = {sentence: row for row, sentence in enumerate(needed)}

    def sentences(self) -> list[str]:
        """Return the distinct sentences, the references last."""
        return list(self._row)

    def rows(self, sentences: Iterable[str], embeddings: Tensor) -> Tensor:
        """Return the sentences' rows of the embeddings, a tensor on the embeddings' device."""
        return torch.tensor([self._row[s] for s in sentences], device=embeddings.device)

    def grids_or_reason(self, readouts: Given) -> dict[str, Grid] | str:
        """Return the grids to sweep, or each readout's given value as its grid.

        Without references, or if a readout is missing, the result is the reason as text.

        Raises:
            InvalidValue: references were not drawn for a requested n.
        """
        if not self.references.sentences:
            return "there are no reference sentences for interpretations"
        if readouts is None:
            grids = {readout.name: grid_of(readout, self.grids) for readout in self.swept}
            grids["references"] = self.grids.get("references", self.references.counts)
        else:
            names = ["references", *(readout.name for readout in self.swept)]
            found = {name: readout_of(readouts, self.name, self.kind, name) for name in names}
            grids = {name: (value,) for name, value in found.items() if value is not None}
            if len(grids) < len(found):
                return f"{', '.join(found)} are not all given; choose them on a development set"
        within = self.references.within([int(n) for n in grids["references"]])
        return grids | {"references": within}

    def without(self, result: Result, metrics: Iterable[str], reason: str) -> Result:
        """Add the reason why metrics are skipped, and return the result."""
        result.skipped |= under(self.name, dict.fromkeys(metrics, reason))
        return result

    def references_within(
        self, grids: Mapping[str, Grid], embeddings: Tensor
    ) -> tuple[Tensor, tuple[int, ...]]:
        """Return the references of the grids' largest n, [R, D], and each n's number of them."""
        sizes = tuple(self.references.sizes[int(n)] for n in grids["references"])
        return embeddings[self.rows(self.references.sentences[: sizes[-1]], embeddings)], sizes

    def add(self, result: Result, sweep: Sweep, readouts: Given) -> None:
        """Add the readouts, and the table of the sweep if it has chosen them."""
        result.readouts |= under(self.name, sweep.chosen)
        if readouts is None:
            result.tables[f"{self.name}/{SWEEP_FILE}"] = sweep.to_table()


def coarse(references: References, grids: Grids) -> tuple[References, Grids]:
    """Return references and grids of a coarse evaluation: the smallest n and every other alpha.

    The smallest alpha_1 and the largest alpha_2 are kept. Grids with a single value, set by a user
    or a search, are unchanged.
    """
    asked = grids.get(REFERENCES.name, references.counts)
    n = references.within([int(asked[0])])[0] if len(asked) == 1 else references.counts[0]
    low, high = (sorted(map(float, grid_of(alpha, grids))) for alpha in (ALPHA_1, ALPHA_2))
    first = References(references.sentences[: references.sizes[n]], {n: references.sizes[n]})
    alphas = {ALPHA_1.name: tuple(low[::2]), ALPHA_2.name: tuple(high[::-2][::-1])}
    return first, {**grids, REFERENCES.name: (n,), **alphas}


def allowed_alphas(grids: Mapping[str, Grid]) -> list[tuple[int, int]]:
    """Return the index pairs into the grids of alpha_1 and alpha_2 with alpha_1 < alpha_2.

    Raises:
        InvalidValue: no alpha_1 is below an alpha_2.
    """
    low, high = grids["alpha_1"], grids["alpha_2"]
    places = product(range(len(low)), range(len(high)))
    allowed = [(i, j) for i, j in places if float(low[i]) < float(high[j])]
    if not allowed:
        raise InvalidValue("alpha_1", list(low), f"none is below an alpha_2 ({list(high)})")
    return allowed
