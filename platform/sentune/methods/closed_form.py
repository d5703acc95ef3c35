"""Methods on word vectors that are fitted in closed form: statistics, one decomposition, readouts.

Nothing is trained by gradient. A fit is one pass over the sentences that adds up statistics, so a
corpus may be of any length and its parts may be added up on different machines; then one
decomposition holds every value of the method's readout (components removed, units) at once.

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
from sentune.methods.base import Settings
from sentune.readouts.grid import Grid, Readout

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class ClosedFormSettings(Settings):
    """Settings that every method on word vectors has; a method adds its own."""

    a: float = Field(1e-3, gt=0.0)
    """a of the weights a / (a + p(word)); 1e-3 in SIF and LAES, which do not tune it."""
    max_length: int | None = Field(None, ge=1)
    """Words of a sentence that are used, known ones, from its beginning; none: all."""


class ClosedForm(ABC):
    """One method: from word vectors and fitted statistics to similarities and embeddings.

    Attributes:
        name: key in ``sentune.methods.CLOSED_FORM``.
        title: what the method is called in a text.
        axis: its readout; every value of it comes from one fit.
        objective: metric that it is selected by, unless another is named.
        kind: kind of corpus that it is fitted on.
        on_words: that it is built from word vectors, as all of them.
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
        """Empty statistics, to add sentences to."""

    @abstractmethod
    def solve(self, statistics: Any, largest: int, device: str = "cpu") -> None:
        """Fit the method: one decomposition for all values of the readout up to ``largest``.

        Args:
            statistics: that sentences were added to.
            device: on which a whole symmetric matrix is decomposed, as torch names it.

        Raises:
            TrialFailed: the statistics hold too little for it.
        """

    @abstractmethod
    def grid(self) -> Grid:
        """The paper's grid of the readout for these settings (LAES-HID has another than RES)."""

    def within(self, grid: Grid) -> Grid:
        """Return the values of a grid that these word vectors allow."""
        return grid

    @abstractmethod
    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """[V, N] cosines of pairs, for each value of the readout.

        Args:
            sentences: S distinct sentences.
            first, second: [N] rows of ``sentences``.
            values: of the readout, at most the ``largest`` of the fit.
        """

    @abstractmethod
    def embed(self, sentences: Sequence[str], value: int) -> NDArray[np.float32]:
        """[S, D] embeddings at one value; the cosines of ``similarities`` are theirs."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """What the fit found, as arrays, without the word vectors."""

    @abstractmethod
    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Load what ``state`` gave."""


def eigenvectors(matrix: Floats, device: str = "cpu") -> tuple[Floats, Floats]:
    """Return all eigenvalues of a symmetric matrix [D, D], rising, and its eigenvectors as columns.

    Its lower triangle is read; it is decomposed in float64.
    """
    if device == "cpu":
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    import torch  # a fit on the CPU does without

    found = torch.linalg.eigh(torch.from_numpy(matrix).to(device))
    return found.eigenvalues.cpu().numpy(), found.eigenvectors.cpu().numpy()
