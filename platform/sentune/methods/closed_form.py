"""Base class of methods on word vectors that are fitted in closed form.

A fit accumulates statistics in one pass over the sentences, so the corpus may have any length and
its parts may be processed on different machines. One decomposition of the statistics then serves
every value of the method's readout (removed components, or units).

Legend: S = distinct sentences, N = pairs, V = values of the readout, D = width of an embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sentune.corpora.schema import Kind, Statistics
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.lazy_import import torch
from sentune.methods.base import Settings
from sentune.readouts.grid import Grid, Readout

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class ClosedFormSettings(Settings):
    """Settings common to all methods on word vectors; subclasses add their own."""

    a: float = Field(1e-3, gt=0.0)
    """a of the weights a / (a + p(word)); 1e-3 in SIF and LAES, which do not tune it."""
    max_length: int | None = Field(None, ge=1)
    """Number of known words of a sentence that are used, from its beginning; none: all."""


class ClosedForm(ABC):
    """Base class of methods that turn word vectors and fitted statistics into embeddings.

    Attributes:
        name: key of the method in ``sentune.methods.CLOSED_FORM``.
        title: name of the method in texts.
        settings_type: class of its settings.
        axis: its readout; one fit serves every value.
        objective: default metric by which it is selected.
        kind: kind of corpus that it is fitted on.
        on_words: always True, as in ``GradientMethod``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings_type: ClassVar[type[ClosedFormSettings]]
    axis: ClassVar[Readout]
    objective: ClassVar[str] = "sts/pearson"
    kind: ClassVar[Kind] = Kind.SENTENCES
    on_words: ClassVar[bool] = True

    def __init__(self, words: WordTable, settings: ClosedFormSettings) -> None:
        self.words = words
        self.settings = settings

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return empty statistics, to which sentences are added."""

    @abstractmethod
    def solve(self, statistics: Any, largest: int, device: str = "cpu") -> None:
        """Fit the method by one decomposition for all values of the readout up to ``largest``.

        Args:
            statistics: statistics with all sentences added.
            device: torch device on which a whole symmetric matrix is decomposed.

        Raises:
            TrialFailed: the sentences are too few for ``largest``.
        """

    @abstractmethod
    def grid(self) -> Grid:
        """Return the paper's grid of the readout for these settings (LAES-HID and RES differ)."""

    def within(self, grid: Grid) -> Grid:
        """Return the values of a grid that these word vectors allow."""
        return grid

    @abstractmethod
    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """Return the cosines of pairs for each value of the readout, [V, N].

        Args:
            sentences: S distinct sentences.
            first, second: [N] indices in ``sentences``.
            values: V values of the readout, at most the ``largest`` of the fit.
        """

    @abstractmethod
    def embed(self, sentences: Sequence[str], value: int) -> NDArray[np.float32]:
        """Return embeddings at one value, [S, D]; their cosines are those of ``similarities``."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the result of the fit as arrays, without the word vectors."""

    @abstractmethod
    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Load the arrays that ``state`` returned.

        Raises:
            InvalidValue: the state is of another form, or of word vectors of another width.
        """

    def check_width(self, field: str, found: Floats) -> None:
        """Raise ``InvalidValue`` unless a matrix has as many columns as the word vectors."""
        width = self.words.vectors.shape[1]
        if found.shape[1] != width:
            fix = f"the word vectors have {width} dimensions; use those that it was fitted with"
            raise InvalidValue(field, found.shape, fix)


def eigenvectors(matrix: Floats, device: str = "cpu") -> tuple[Floats, Floats]:
    """Return the eigenvalues, increasing, and eigenvectors, as columns, of a symmetric matrix.

    Only the lower triangle of the [D, D] matrix is read. The decomposition is in float64.
    """
    if device == "cpu":
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    found = torch.linalg.eigh(torch.from_numpy(matrix).to(device))
    return found.eigenvalues.cpu().numpy(), found.eigenvectors.cpu().numpy()
