"""LAES: sentence embeddings from a linear autoencoder for sequences that is fitted in closed form.

Carta and Bacciu, "Sequential Sentence Embeddings for Semantic Similarity". One pass over the
sentences, one decomposition, and every number of units at once.

Legend: S = distinct sentences, N = pairs, V = numbers of units, n = width of a word vector,
P = units of the largest model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sentune.encoders.words import WordRows, WordTable
from sentune.errors import InvalidValue
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings, Floats, Rows
from sentune.methods.laes_fit import (
    GramStatistics,
    KeptSentences,
    Solver,
    Units,
    occurring,
    of_data,
    of_gram,
)
from sentune.methods.laes_sweep import LinearRecurrence, SentenceBatch, chosen, cosines, parts
from sentune.readouts.grid import Grid, Readout

Form = Literal["hid", "reco", "res", "bres-sum", "bres-cat"]

_SMALL, _LARGE = tuple(range(1, 151)), (150, 300, 600, 1200, 2400)
"""Section VI: of RES and of BRES, which is made of it; of HID and RECO."""

_WAYS = ("forward", "backward")
"""Names of the models in a fit's state."""


class LaesSettings(ClosedFormSettings):
    """Settings of LAES."""

    max_length: int | None = Field(25, ge=1)
    """Words of a sentence that are used, known ones, from its beginning; none: all. The fit's
    memory grows with the square of the longest sentence: 225 MB for 25 words of 300 dimensions.
    Sentences are cut and not the autoencoder's lags: with cut lags it is no longer the optimum."""
    form: Form = "res"
    """``hid``: last hidden state; ``reco``: mean of the decoded words; ``res``: mean of what
    decoding leaves over; ``bres-sum`` and ``bres-cat``: half the sum and the concatenation of
    ``res`` by a forward and a backward model (sections V-A to V-D)."""
    solver: Solver = "auto"
    """``exact`` and ``lanczos`` decompose the Gram matrix, which squares the condition number of
    the data: at full rank they decode to about 1e-16 times its square. ``svd`` decomposes the data
    matrix itself, which must fit into memory; for small data."""


class Laes(ClosedForm):
    """Linear autoencoder sentence embeddings, every number of units from one fit.

    Attributes:
        residual: max |G u - lambda u| / lambda_1 over the eigenvectors, the error of the fit's
            decomposition; NaN before a fit.
    """

    name = "laes"
    title = "LAES"
    settings_type = LaesSettings
    axis = Readout(name="units", grid=_SMALL, low=1, high=100_000, integer=True)
    """n_h, units of the linear autoencoder."""
    settings: LaesSettings

    def __init__(self, words: WordTable, settings: LaesSettings) -> None:
        super().__init__(words, settings)
        self.residual = float("nan")
        self._units: tuple[Units, ...] = ()

    @property
    def _ways(self) -> tuple[bool, ...]:
        """Directions of the models, whether backward."""
        return (False, True) if self.settings.form in ("bres-sum", "bres-cat") else (False,)

    def statistics(self) -> GramStatistics | KeptSentences:
        """Empty statistics: Gram matrices, or the sentences for the direct SVD."""
        a, longest = self.settings.a, self.settings.max_length
        if self.settings.solver == "svd":
            return KeptSentences(self.words, a, longest)
        return GramStatistics(self.words, a, longest, both=len(self._ways) == 2)

    def solve(
        self, statistics: GramStatistics | KeptSentences, largest: int, device: str = "cpu"
    ) -> None:
        """Fit the models of up to ``largest`` units. Nothing can be added afterwards.

        Raises:
            TrialFailed: the sentences span fewer units, or Lanczos does not converge.
            InvalidValue: the data matrix is too large for the direct SVD.
        """
        if isinstance(statistics, KeptSentences):
            matrices = (statistics.data_matrix(backward=way) for way in self._ways)
            found = [of_data(xi, largest) for xi in matrices]
        else:
            solver = self.settings.solver
            found = [of_gram(gram, largest, solver, device) for gram in statistics.grams]
        width = self.words.vectors.shape[1]
        self._units = tuple(Units.of(spectrum, width) for spectrum in found)
        self.residual = max(spectrum.residual for spectrum in found)

    def grid(self) -> Grid:
        """1 to 150 units, and up to 2,400 for HID and RECO (section VI)."""
        return _LARGE if self.settings.form in ("hid", "reco") else _SMALL

    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """[V, N] cosines of pairs, for each number of units; 0 for a sentence without words.

        Raises:
            InvalidValue: a number of units that the fit does not hold.
        """
        models = self._models(values)
        rows = self.words.ids(sentences, self.settings.max_length)
        found = np.empty((len(values), len(first)))
        costs = rows.lengths[first] + rows.lengths[second]
        for part in parts(costs, max(values, default=0) * len(self._ways)):
            used, places = np.unique(np.stack([first[part], second[part]]), return_inverse=True)
            batch = self._batch(chosen(rows, used))
            one, other = np.argsort(batch.order)[places.reshape(2, -1)]
            for row, embedded in zip(found, self._embedded(models, batch, values), strict=True):
                row[part] = cosines(embedded, one, other)
        return found

    def embed(self, sentences: Sequence[str], value: int) -> NDArray[np.float32]:
        """[S, D] embeddings at one number of units; zero for a sentence without words.

        D is ``value`` for HID, 2 n for BRES-CAT, else n.

        Raises:
            InvalidValue: a number of units that the fit does not hold.
        """
        models = self._models([value])
        rows = self.words.ids(sentences, self.settings.max_length)
        width = value if self.settings.form == "hid" else self.words.vectors.shape[1]
        found = np.zeros((len(rows), width * (1 + (self.settings.form == "bres-cat"))), np.float32)
        for part in parts(rows.lengths, value * len(self._ways)):
            batch = self._batch(chosen(rows, np.arange(part.start, part.stop)))
            (embedded,) = self._embedded(models, batch, [value])
            found[part] = batch.back(embedded)
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """Return A and B of the largest model, and of the backward one where there is one."""
        found: dict[str, NDArray[Any]] = {"residual": np.array(self.residual)}
        for way, units in zip(_WAYS, self._units, strict=False):
            found |= {f"{way}.A": units.A, f"{way}.B": units.B}
        return found

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Load what ``state`` gave.

        Raises:
            InvalidValue: it is of another form, or of word vectors of another width.
        """
        names = _WAYS[: len(self._ways)]
        missing = [f"{way}.A" for way in names if f"{way}.A" not in state]
        if missing:
            raise InvalidValue("state", sorted(state), f"{missing[0]} is missing; use its own form")
        units = tuple(Units(A=state[f"{way}.A"], B=state[f"{way}.B"]) for way in names)
        width = self.words.vectors.shape[1]
        if units[0].A.shape[1] != width:
            fix = f"these word vectors have {width} numbers"
            raise InvalidValue("state", units[0].A.shape, fix)
        self._units, self.residual = units, float(state["residual"])

    def _models(self, values: Sequence[int]) -> tuple[Units, ...]:
        """Return the models, cut to the largest number of units that is asked for."""
        held = len(self._units[0]) if self._units else 0
        wrong = [value for value in values if not 1 <= value <= held]
        if wrong:
            fix = f"the fit holds 1 to {held}" if held else "fit the method first"
            raise InvalidValue("units", wrong[0], fix)
        most = max(values, default=0)
        return tuple(Units(A=u.A[:most], B=u.B[:most, :most]) for u in self._units)

    def _batch(self, rows: WordRows) -> SentenceBatch:
        return SentenceBatch.of(*occurring(self.words, self.settings.a, rows))

    def _embedded(
        self, models: tuple[Units, ...], batch: SentenceBatch, values: Sequence[int]
    ) -> Iterator[Floats]:
        """[S, D] embeddings in the order of the batch, for each number of units."""
        ways = zip(models, self._ways, strict=True)
        recurrences = [LinearRecurrence(units, batch, backward=way) for units, way in ways]
        for p in values:
            if self.settings.form == "hid":
                yield recurrences[0].states(p)
                continue
            # sections V-B to V-D, from the means of the words and of the decoded words
            decoded = [recurrence.reconstructed(p) for recurrence in recurrences]
            if self.settings.form == "reco":
                yield decoded[0]
            elif self.settings.form == "bres-cat":
                yield np.hstack([batch.means - each for each in decoded])
            else:
                yield batch.means - sum(decoded) / len(decoded)
