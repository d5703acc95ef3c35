"""SIF, uSIF and the plain average: weighted averages of word vectors without common components.

SIF: Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings" (ICLR 2017);
LAES section III. uSIF: Ethayarajh, "Unsupervised Random Walk Sentence Embeddings" (Repl4NLP 2018).

Legend: S = sentences, N = pairs, V = values of the readout, n = width of a word vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings, Floats, Rows
from sentune.methods.sif_averages import Averages, Variant
from sentune.methods.sif_removal import Components, Way
from sentune.readouts.grid import Grid, Readout


class SifSettings(ClosedFormSettings):
    """Settings of SIF and its relatives; ``a`` is SIF's alone."""

    variant: Variant = "sif"
    """sif; usif, whose weights have no hyperparameter; or average, where all words weigh 1."""
    walk_length: int = Field(11, ge=1)
    """n of uSIF, the expected number of words of a sentence; 11 in its code."""


@dataclass(eq=False)
class Moments:
    """The statistics of SIF: the sum of e e^T over sentences, in float64.

    Attributes:
        averages: sentences to averages e.
        total: [n, n].
        sentences: how many were added.
        empty: how many of them have no known word.
    """

    averages: Averages
    total: Floats = field(init=False)
    sentences: int = 0
    empty: int = 0

    def __post_init__(self) -> None:
        width = self.averages.words.vectors.shape[1]
        self.total = np.zeros((width, width))

    def add(self, texts: Sequence[str]) -> None:
        """Add some sentences."""
        for chunk in self.averages.chunks(texts):
            self.total += chunk.T @ chunk
            self.empty += int((~chunk.any(axis=1)).sum())
        self.sentences += len(texts)

    def merge(self, other: Moments) -> None:
        """Add what another pass has added up."""
        self.total += other.total
        self.sentences += other.sentences
        self.empty += other.empty


class Sif(ClosedForm):
    """The average of a sentence's words without its projections on the common components.

    The components are the first right singular vectors of the matrix of averages, which is not
    centred (as in SIF's code). A sentence without a known word is a zero vector, and its similarity
    is 0 with any other.
    """

    name: ClassVar[str] = "sif"
    title: ClassVar[str] = "SIF"
    settings_type: ClassVar[type[ClosedFormSettings]] = SifSettings
    axis: ClassVar[Readout] = Readout(
        name="components",
        grid=tuple(range(151)),
        low=0,
        high=10_000,
        integer=True,
        help="common components removed; LAES sweeps 1 to 150, uSIF takes 5",
    )
    settings: SifSettings

    def __init__(self, words: WordTable, settings: SifSettings) -> None:
        super().__init__(words, settings)
        self.averages = Averages(
            words, settings.variant, settings.a, settings.walk_length, settings.max_length
        )
        self._components: Components | None = None
        self._counts = {"sentences": 0, "empty": 0}

    def statistics(self) -> Moments:
        return Moments(self.averages)

    def solve(self, statistics: Moments, largest: int) -> None:
        """The first ``largest`` components, by one eigendecomposition.

        Raises:
            TrialFailed: the sentences do not span as many directions.
        """
        self._components = Components.solve(statistics.total, largest, self._way)
        self._counts = {"sentences": statistics.sentences, "empty": statistics.empty}

    def grid(self) -> Grid:
        """0 to 150, fewer than the vectors have dimensions; 0 alone for the plain average."""
        if self.settings.variant == "average":
            return (0,)
        return self.within(self.axis.grid)

    def within(self, grid: Grid) -> Grid:
        """Fewer components than the vectors have dimensions."""
        return tuple(value for value in grid if int(value) < self.words.vectors.shape[1])

    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """[V, N] cosines of pairs, for each number of removed components, in one pass."""
        return self._fitted(values).cosines(self.averages(sentences), first, second, values)

    def embed(self, sentences: Sequence[str], value: int) -> NDArray[np.float32]:
        """[S, n] averages without ``value`` components."""
        left = self._fitted([value]).removed(self.averages(sentences), value)
        return left.astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Components, squared singular values, and the numbers of fitted and empty sentences."""
        components = self._fitted([])
        counts = {name: np.array(count) for name, count in self._counts.items()}
        return {"components": components.vectors, "squares": components.squares, **counts}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Load what ``state`` gave.

        Raises:
            InvalidValue: it belongs to word vectors of another width.
        """
        vectors = state["components"]
        width = self.words.vectors.shape[1]
        if vectors.shape[1] != width:
            fix = f"the word vectors have {width} dimensions; use those that it was fitted with"
            raise InvalidValue("components", vectors.shape, fix)
        self._components = Components(vectors, state["squares"], self._way)
        self._counts = {name: int(state[name]) for name in self._counts}

    @property
    def _way(self) -> Way:
        return "piecewise" if self.settings.variant == "usif" else "whole"

    def _fitted(self, values: Sequence[int]) -> Components:
        """Return the components, where they are enough for the values."""
        if self._components is None:
            raise TrialFailed("SIF is not fitted yet: call solve or load_state first")
        there = len(self._components.squares)
        for value in values:
            if not 0 <= value <= there:
                fix = f"the fit holds 0 to {there} components"
                raise InvalidValue("readout components", value, fix)
        return self._components
