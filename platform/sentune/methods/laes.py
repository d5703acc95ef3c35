"""LAES: sentence embeddings from a linear autoencoder for sequences that is fitted in closed form.

Carta and Bacciu, "Sequential Sentence Embeddings for Semantic Similarity". One pass over the
sentences and one decomposition serve every number of units.

The hidden state of a model of p units is not a prefix of that of a larger model, so each p runs its
own recurrence (LAES Eq. 1). All p share the word vectors and the projections A x of the largest
model. Sentences are sorted by decreasing length, so that those with a word t are a prefix and no
padding is multiplied.

Legend: S = distinct sentences, N = pairs, V = numbers of units, T = words in all, W = distinct
words, n = width of a word vector, l = words of a sentence, p = units, P = units of the largest
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy
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
    word_by_word,
)
from sentune.readouts.grid import Grid, Readout

Form = Literal["hid", "reco", "res", "bres-sum", "bres-cat"]

_SMALL, _LARGE = tuple(range(1, 151)), (150, 300, 600, 1200, 2400)
"""Grids of section VI: that of RES and BRES, and that of HID and RECO."""

_BUDGET = 1 << 27
"""Maximum bytes of projections A x in memory."""

_WAYS = ("forward", "backward")
"""Names of the models in the state of a fit."""


class LaesSettings(ClosedFormSettings):
    """Settings of LAES."""

    max_length: int | None = Field(None, ge=1)
    """Number of known words of a sentence that are used, from its beginning; none: all, as in the
    paper. The memory of the fit grows with the square of the longest sentence: 225 MB for 25 words
    of 300 dimensions. Limiting the lags of the autoencoder instead would lose the optimum."""
    form: Form = "res"
    """``hid``: last hidden state. ``reco``: mean of the decoded words. ``res``: mean of the
    residuals of the words. ``bres-sum`` and ``bres-cat``: half the sum and the concatenation of
    ``res`` by a forward and a backward model (sections V-A to V-D)."""
    decoding: Literal["last", "states"] = "last"
    """``last``: decode the words from the last state by A^T (B^T)^i h_l (section IV). ``states``:
    decode each word from its own state by A^T h_i, another reading of the indices in sections V-B
    and V-C, which is much closer to the paper's RECO on STS Benchmark dev."""
    solver: Solver = "auto"
    """``exact`` and ``lanczos`` decompose the Gram matrix; its condition number is the square of
    that of the data, so at full rank the relative error of decoding is about 1e-16 times the
    square. ``svd`` decomposes the data matrix, which must fit into memory. ``auto``: the faster of
    ``exact`` and ``lanczos``."""


class Laes(ClosedForm):
    """Linear autoencoder sentence embeddings, for every number of units from one fit.

    Attributes:
        residual: error of the decomposition, max |G u - lambda u| / lambda_1 over the eigenvectors;
            NaN before a fit.
    """

    name = "laes"
    title = "LAES"
    settings_type = LaesSettings
    axis = Readout(name="n_h", grid=_SMALL, low=1, high=100_000, integer=True)
    """n_h, the number of units of the linear autoencoder."""
    settings: LaesSettings

    def __init__(self, words: WordTable, settings: LaesSettings) -> None:
        super().__init__(words, settings)
        self.residual = float("nan")
        self._units: tuple[Units, ...] = ()

    @property
    def _ways(self) -> tuple[bool, ...]:
        """Whether each model is backward."""
        return (False, True) if self.settings.form in ("bres-sum", "bres-cat") else (False,)

    def statistics(self) -> GramStatistics | KeptSentences:
        """Return empty statistics: Gram matrices, or kept sentences for the direct SVD."""
        a, longest = self.settings.a, self.settings.max_length
        if self.settings.solver == "svd":
            return KeptSentences(self.words, a, longest)
        return GramStatistics(self.words, a, longest, both=len(self._ways) == 2)

    def solve(
        self, statistics: GramStatistics | KeptSentences, largest: int, device: str = "cpu"
    ) -> None:
        """Fit the models of up to ``largest`` units; the statistics cannot be added to afterwards.

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
        """Return 1 to 150 units, or 150 to 2,400 for HID and RECO (section VI)."""
        return _LARGE if self.settings.form in ("hid", "reco") else _SMALL

    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """Return the cosines of pairs for each number of units, [V, N]; 0 for empty sentences.

        Raises:
            InvalidValue: a number of units exceeds that of the fit.
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
        """Return embeddings at one number of units, [S, D]; zeros for sentences without words.

        D is ``value`` for HID, 2 n for BRES-CAT, and n for the other forms.

        Raises:
            InvalidValue: the number of units exceeds that of the fit.
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
        """Return A and B of the largest forward and, if it exists, backward model."""
        found: dict[str, NDArray[Any]] = {"residual": np.array(self.residual)}
        for way, units in zip(_WAYS, self._units, strict=False):
            found |= {f"{way}.A": units.A, f"{way}.B": units.B}
        return found

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        names = _WAYS[: len(self._ways)]
        missing = [f"{way}.A" for way in names if f"{way}.A" not in state]
        if missing:
            fix = f"{missing[0]} is missing; use the form that it was fitted with"
            raise InvalidValue("state", sorted(state), fix)
        units = tuple(Units(A=state[f"{way}.A"], B=state[f"{way}.B"]) for way in names)
        self.check_width("state", units[0].A)
        self._units, self.residual = units, float(state["residual"])

    def _models(self, values: Sequence[int]) -> tuple[Units, ...]:
        """Return the models, truncated to the largest number of units in ``values``."""
        held = len(self._units[0]) if self._units else 0
        wrong = [value for value in values if not 1 <= value <= held]
        if wrong:
            fix = f"the fit has 1 to {held} units" if held else "fit the method first"
            raise InvalidValue("n_h", wrong[0], fix)
        most = max(values, default=0)
        return tuple(Units(A=u.A[:most], B=u.B[:most, :most]) for u in self._units)

    def _batch(self, rows: WordRows) -> SentenceBatch:
        return SentenceBatch(*occurring(self.words, self.settings.a, rows))

    def _embedded(
        self, models: tuple[Units, ...], batch: SentenceBatch, values: Sequence[int]
    ) -> Iterator[Floats]:
        """Yield embeddings in the order of the batch for each number of units, [S, D]."""
        ways = zip(models, self._ways, strict=True)
        recurrences = [LinearRecurrence(units, batch, backward=way) for units, way in ways]
        for p in values:
            if self.settings.form == "hid":
                yield recurrences[0].states(p)[0]
                continue
            # sections V-B to V-D: from the means of the words and of the decoded words
            of_states = self.settings.decoding == "states"
            decoded = [r.reconstructed(p, of_states=of_states) for r in recurrences]
            if self.settings.form == "reco":
                yield decoded[0]
            elif self.settings.form == "bres-cat":
                yield np.hstack([batch.means - each for each in decoded])
            else:
                yield batch.means - sum(decoded) / len(decoded)


class SentenceBatch:
    """S sentences, given as rows of ``vectors`` and sorted by decreasing length.

    Attributes:
        vectors: [W, n] weighted vectors of the words that occur.
        ids: [T] words of the sentences, as rows of ``vectors``.
        first: [S] start of each sentence in ``ids``.
        lengths: [S] number of words, decreasing.
        order: [S] index of each sentence before sorting.
        means: [S, n] mean word vectors; zeros for sentences without words.
    """

    def __init__(self, vectors: Floats, rows: WordRows) -> None:
        self.vectors, self.ids = vectors, rows.ids
        self.order = np.argsort(-rows.lengths, kind="stable")
        self.first, self.lengths = rows.offsets[:-1][self.order], rows.lengths[self.order]
        shares = np.repeat(1 / np.maximum(rows.lengths, 1), rows.lengths)
        shape = (len(rows), len(vectors))
        means = np.asarray(
            scipy.sparse.csr_array((shares, rows.ids, rows.offsets), shape=shape) @ vectors
        )
        self.means: Floats = means[self.order]

    def back(self, values: Floats) -> Floats:
        """Return the rows in the order of the sentences before sorting."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


class LinearRecurrence:
    """Run the autoencoders of all numbers of units over a batch, from its end if ``backward``."""

    def __init__(self, units: Units, batch: SentenceBatch, *, backward: bool = False) -> None:
        self._units, self._batch = units, batch
        projected = batch.vectors @ units.A.T
        steps = word_by_word(batch.ids, batch.first, batch.lengths, backward=backward)
        self._inputs = [projected[step] for step in steps]

    def states(self, p: int) -> tuple[Floats, Floats]:
        """Return h_l (LAES Eq. 6) and h_1 + ... + h_l of each sentence, [S, p] each.

        Both are 0 for sentences without words.
        """
        B = self._units.B[:p, :p]
        h, summed = np.zeros((2, len(self._batch.lengths), p))
        for t, inputs in enumerate(self._inputs):
            active = h[: len(inputs)]
            active[:] = active @ B.T + inputs[:, :p] if t else inputs[:, :p]
            summed[: len(inputs)] += active
        return h, summed

    def reconstructed(self, p: int, *, of_states: bool) -> Floats:
        """Return the means of the decoded words (LAES section V-B), [S, n], 0 without words.

        The words decoded from h = h_l are A^T h, A^T B^T h, A^T (B^T)^2 h, ..., so their sum is
        A^T sum_(i < l) (B^T)^i h. With ``of_states`` they are A^T h_1, ..., A^T h_l.
        """
        last, summed = self.states(p)
        if not of_states:
            summed = self._summed(last, p)
        summed /= np.maximum(self._batch.lengths, 1)[:, None]
        return summed @ self._units.A[:p]

    def _summed(self, h: Floats, p: int) -> Floats:
        """Return sum_(i < l) (B^T)^i h, [S, p], at a cost of p^2 a word or p^3 a length."""
        B, lengths = self._units.B[:p, :p], self._batch.lengths
        longest = len(self._inputs)
        if p * longest + len(lengths) < lengths.sum():
            return _by_length(h, B, lengths)
        return _by_word(h, B, [len(inputs) for inputs in self._inputs])


def _by_length(h: Floats, B: Floats, lengths: Rows) -> Floats:
    """Multiply all sentences of l words by I + B + ... + B^(l - 1)."""
    summed, powers = np.zeros_like(h), np.zeros_like(B)
    for length in range(1, int(lengths.max(initial=0)) + 1):
        powers = powers @ B
        powers.flat[:: len(B) + 1] += 1
        first, end = np.searchsorted(-lengths, (-length, -length + 1))
        if first < end:
            summed[first:end] = h[first:end] @ powers
    return summed


def _by_word(h: Floats, B: Floats, active: list[int]) -> Floats:
    """Multiply by B once per word."""
    summed = np.zeros_like(h)
    for step, count in enumerate(active):
        h = h[:count] @ B if step else h[:count]
        summed[:count] += h
    return summed


def parts(words: Rows, numbers: int) -> Iterator[slice]:
    """Yield slices of items whose projections fit into the memory budget.

    Args:
        words: number of words of each item, a sentence or a pair.
        numbers: width of the projection of a word.
    """
    most = max(1, _BUDGET // (8 * max(numbers, 1)))
    ends = np.cumsum(words)
    start = 0
    while start < len(words):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, min(stop, len(words)))
        start = stop


def chosen(rows: WordRows, which: Rows) -> WordRows:
    """Return the sentences at the given indices."""
    lengths = rows.lengths[which]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return WordRows(rows.ids[np.repeat(rows.offsets[which], lengths) + within], offsets)


def cosines(embedded: Floats, one: Rows, other: Rows) -> Floats:
    """Return the cosines of pairs of rows, [N]; 0 if a row is zero."""
    norms = np.linalg.norm(embedded, axis=1)
    dots = np.einsum("nd,nd->n", embedded[one], embedded[other])
    scale = norms[one] * norms[other]
    found: Floats = np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
    return found
