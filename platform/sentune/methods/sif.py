"""SIF, uSIF and the plain average: weighted averages of word vectors without common components.

SIF: Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings" (ICLR 2017);
LAES section III. uSIF: Ethayarajh, "Unsupervised Random Walk Sentence Embeddings" (Repl4NLP 2018).

One pass serves every number of removed components. With x_i and y_i the projections of two vectors
on component i, removal subtracts a cumulative sum over i from their inner product. Computations are
in float64, because a cosine in float32 errs by up to 0.14 if most of a vector is removed.

Legend: S = sentences, N = pairs, V = values of the readout (numbers of removed components), K =
components, n = width of a word vector, W = words of the table, F = words of the frequency list, U =
distinct words of a chunk of sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from sentune.corpora.schema import Reducer
from sentune.encoders.words import WordRows, WordTable
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.closed_form import ClosedForm, ClosedFormSettings, Floats, Rows, eigenvectors
from sentune.readouts.grid import Grid, Readout

Variant = Literal["average", "sif", "usif"]
Way = Literal["whole", "piecewise"]

_CHUNK = 4096
"""Sentences averaged at once; 10,000 distinct words of 300 dimensions take 24 MB."""

_PAIRS = 2048
"""Pairs compared at once; with 150 components a table takes 2.5 MB."""


class SifSettings(ClosedFormSettings):
    """Settings of SIF, uSIF and the plain average; only ``sif`` uses ``a``."""

    variant: Variant = "sif"
    """sif; usif, whose weights have no hyperparameter; or average, with a weight of 1 per word."""
    walk_length: int = Field(11, ge=1)
    """n of uSIF, the expected number of words of a sentence; 11 in its published code."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Average the vectors of the known words of sentences.

    - ``average``: (1 / l) sum_i x_i over the l known words of the sentence.
    - ``sif``: (1 / l) sum_i a / (a + p_i) x_i (Arora et al. 2017, Algorithm 1; LAES Algorithm 1).
    - ``usif``: (1 / l) sum_i a / (a/2 + p_i) x_i / N, with N of each dimension the Euclidean norm
      of that dimension over the sentence's words. The weights and their ``a`` are those of
      Ethayarajh (2018); the division by N is in its published code (kawine/usif).

    A sentence without known words becomes a zero vector (in kawine/usif the constant a).
    """

    words: WordTable
    settings: SifSettings

    def __call__(self, sentences: Sequence[str]) -> Floats:
        """Return the averages, [S, n]."""
        width = self.words.vectors.shape[1]
        return np.concatenate([np.zeros((0, width)), *self.chunks(sentences)])

    def chunks(self, sentences: Sequence[str]) -> Iterator[Floats]:
        """Yield the averages of at most 4,096 sentences at a time."""
        for start in range(0, len(sentences), _CHUNK):
            some = sentences[start : start + _CHUNK]
            yield self._averages(self.words.ids(some, self.settings.max_length))

    @cached_property
    def weights(self) -> Floats:
        """The weight of each word, [W].

        Raises:
            InvalidValue: the frequency list does not allow computing uSIF's ``a``.
        """
        if self.settings.variant == "average":
            return np.ones(len(self.words.words))
        if self.settings.variant == "sif":
            return self.settings.a / (self.settings.a + self.words.probabilities)
        a = usif_a(self.words.listed, self.settings.walk_length)
        # An unlisted word has probability 0. kawine/usif uses the smallest listed one, 5.7e-8 in
        # the Wikipedia counts, which is negligible beside a/2 = 6.0e-4.
        return a / (a / 2 + self.words.probabilities)

    def _averages(self, rows: WordRows) -> Floats:
        used, place = np.unique(rows.ids, return_inverse=True)
        vectors = self.words.vectors[used].astype(np.float64)  # [U, n], read from a memory map

        def summed(weights: Floats, values: Floats) -> Floats:
            shape = (len(rows), len(used))
            sums = scipy.sparse.csr_array((weights, place, rows.offsets), shape=shape)
            return np.asarray(sums @ values)

        total = summed(self.weights[rows.ids], vectors)
        if self.settings.variant == "usif":
            norms = np.sqrt(summed(np.ones(len(place)), vectors**2))
            total = np.divide(total, norms, out=np.zeros_like(total), where=norms > 0)
        return total / np.maximum(rows.lengths, 1)[:, None]

    def __reduce__(self) -> tuple[type[Averages], tuple[object, ...]]:
        return Averages, (self.words, self.settings)  # without the cached weights


def usif_a(listed: Floats, walk_length: int) -> float:
    """Return uSIF's a = (1 - alpha) / (alpha Z) with Z = F / 2.

    alpha is the share of the F words whose probability exceeds 1 - (1 - 1/F)^n, the probability
    that a random walk of n words visits a given word (Ethayarajh 2018). As in kawine/usif, the
    frequency list is the vocabulary.

    Args:
        listed: [F] probabilities of the words of the frequency list.
        walk_length: n.

    Raises:
        InvalidValue: there is no list, or no word or every word is above the threshold.
    """
    if not len(listed):
        raise InvalidValue("--frequencies", "", "uSIF needs a list of word frequencies; name one")
    threshold = 1 - (1 - 1 / len(listed)) ** walk_length
    alpha = float((listed > threshold).mean())
    if not 0 < alpha < 1:
        found = f"{len(listed)} words of which {alpha:.0%} are above {threshold:.3g}"
        fix = "uSIF needs some words above its threshold and some below; use a longer list"
        raise InvalidValue("--frequencies", found, fix)
    return (1 - alpha) / (alpha * len(listed) / 2)


class Moments:
    """Statistics of SIF: the sum of e e^T over the averages e of sentences, in float64.

    Attributes:
        total: [n, n] the sum.
        sentences: number of sentences added.
        empty: number of those without known words.
    """

    def __init__(self, averages: Averages) -> None:
        self.averages = averages
        self.total = np.zeros((averages.words.vectors.shape[1],) * 2)
        self.sentences = self.empty = 0

    def add(self, texts: Sequence[str]) -> None:
        """Add sentences."""
        for chunk in self.averages.chunks(texts):
            self.total += chunk.T @ chunk
            self.empty += int((~chunk.any(axis=1)).sum())
        self.sentences += len(texts)

    def all_reduce(self, workers: Reducer) -> None:
        """Add the statistics of the other workers."""
        workers.add_up(self.total)
        self.sentences = sum(workers.collect(self.sentences))
        self.empty = sum(workers.collect(self.empty))


class Sif(ClosedForm):
    """Average the words of a sentence and remove the projections on common components.

    The components are the first right singular vectors of the matrix of averages, which is not
    centred (as in SIF's code). A sentence without known words is a zero vector, whose similarity to
    any other is 0.
    """

    name: ClassVar[str] = "sif"
    title: ClassVar[str] = "SIF"
    settings_type: ClassVar[type[ClosedFormSettings]] = SifSettings
    axis: ClassVar[Readout] = Readout(
        name="components", grid=tuple(range(151)), low=0, high=10_000, integer=True
    )
    """Number of common components removed; LAES sweeps 1 to 150, uSIF uses 5."""
    settings: SifSettings

    def __init__(self, words: WordTable, settings: SifSettings) -> None:
        super().__init__(words, settings)
        self.averages = Averages(words, settings)
        self._components: Components | None = None
        self._counts = {"sentences": 0, "empty": 0}

    def statistics(self) -> Moments:
        return Moments(self.averages)

    def solve(self, statistics: Moments, largest: int, device: str = "cpu") -> None:
        """Compute the first ``largest`` components by one eigendecomposition.

        Raises:
            TrialFailed: the sentences span fewer directions.
        """
        self._components = Components.solve(statistics.total, largest, self._way, device)
        self._counts = {"sentences": statistics.sentences, "empty": statistics.empty}

    def grid(self) -> Grid:
        """Return 0 to 150, below the width of the vectors, or only 0 for the plain average."""
        if self.settings.variant == "average":
            return (0,)
        return self.within(self.axis.grid)

    def within(self, grid: Grid) -> Grid:
        """Return the values of a grid below the width of the word vectors."""
        return tuple(value for value in grid if int(value) < self.words.vectors.shape[1])

    def similarities(
        self, sentences: Sequence[str], first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """Return the cosines of pairs for each number of removed components, [V, N]."""
        return self._fitted(values).cosines(self.averages(sentences), first, second, values)

    def embed(self, sentences: Sequence[str], value: int) -> NDArray[np.float32]:
        """Return the averages without the first ``value`` components, [S, n]."""
        left = self._fitted([value]).removed(self.averages(sentences), value)
        return left.astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return components, squared singular values, and numbers of fitted and empty sentences."""
        components = self._fitted([])
        counts = {name: np.array(count) for name, count in self._counts.items()}
        return {"components": components.vectors, "squares": components.squares, **counts}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.check_width("components", state["components"])
        self._components = Components(state["components"], state["squares"], self._way)
        self._counts = {name: int(state[name]) for name in self._counts}

    @property
    def _way(self) -> Way:
        return "piecewise" if self.settings.variant == "usif" else "whole"

    def _fitted(self, values: Sequence[int]) -> Components:
        """Return the components after checking that they suffice for the values."""
        if self._components is None:
            raise TrialFailed("SIF is not fitted yet: call solve or load_state first")
        there = len(self._components.squares)
        for value in values:
            if not 0 <= value <= there:
                fix = f"the fit has 0 to {there} components"
                raise InvalidValue("readout components", value, fix)
        return self._components


@dataclass(frozen=True, eq=False)
class Components:
    """The first K right singular vectors of a matrix of averages (not centred).

    Attributes:
        vectors: [K, n] orthonormal rows; the entry of each with the largest magnitude is positive.
        squares: [K] squared singular values, decreasing.
        way: how m components are removed. ``whole``: e - sum_{i<=m} x_i c_i (SIF). ``piecewise``:
            e - sum_{i<=m} lambda_i x_i c_i with lambda_i = sigma_i^2 / S_m and
            S_m = sum_{j<=m} sigma_j^2 (Ethayarajh 2018, piecewise common component removal).
    """

    vectors: Floats
    squares: Floats
    way: Way

    @classmethod
    def solve(cls, moments: Floats, largest: int, way: Way, device: str = "cpu") -> Components:
        """Return the first ``largest`` components from the [n, n] sum of e e^T over the sentences.

        Raises:
            TrialFailed: the rank of the sum is below ``largest``, or 0.
        """
        squares, vectors = eigenvectors(moments, device)
        squares, vectors = squares[::-1], vectors[:, ::-1].T
        # a direction that no sentence has may get an eigenvalue of rounding size instead of 0
        rank = int((squares > len(moments) * np.finfo(float).eps * max(squares[0], 0)).sum())
        if largest > rank or not rank:
            raise TrialFailed(
                f"components: {largest} were requested, but the sentences span only {rank} "
                f"directions; request at most {rank}, or fit on more sentences"
            )
        vectors = vectors[:largest]
        peaks = vectors[np.arange(largest), np.abs(vectors).argmax(axis=1)]
        return cls(vectors * np.sign(peaks)[:, None], squares[:largest].copy(), way)

    def removed(self, embeddings: Floats, value: int) -> Floats:
        """Return embeddings without ``value`` components, [S, n]; 0 if only rounding remains."""
        vectors, squares = self.vectors[:value], self.squares[:value]
        projections = embeddings @ vectors.T
        if self.way == "piecewise" and value:
            projections = projections * (squares / squares.sum())
        left = embeddings - projections @ vectors
        gone = _gone((left**2).sum(axis=1), (embeddings**2).sum(axis=1))
        return np.where(gone[:, None], 0.0, left)

    def cosines(
        self, embeddings: Floats, first: Rows, second: Rows, values: Sequence[int]
    ) -> Floats:
        """Return the cosines of pairs of rows without ``values[v]`` components, [V, N].

        A cosine is 0 if only rounding remains of one of the rows.
        """
        largest = max(values, default=0)
        projections = embeddings @ self.vectors[:largest].T
        out = np.empty((len(values), len(first)))
        for start in range(0, len(first), _PAIRS):
            chosen = slice(start, start + _PAIRS)
            one, other = first[chosen], second[chosen]

            def left(a: Rows, b: Rows) -> tuple[Floats, Floats]:
                whole = np.einsum("ij,ij->i", embeddings[a], embeddings[b])
                return whole, whole - self._taken(projections[a] * projections[b], values)

            norms = [left(side, side) for side in (one, other)]
            gone = _gone(norms[0][1], norms[0][0]) | _gone(norms[1][1], norms[1][0])
            length = np.sqrt(np.where(gone, 1.0, norms[0][1] * norms[1][1]))
            out[:, chosen] = np.where(gone, 0.0, left(one, other)[1] / length)
        return np.clip(out, -1.0, 1.0, out=out)

    def _taken(self, products: Floats, values: Sequence[int]) -> Floats:
        """Return what removal subtracts from inner products, [V, N], given [N, K] x_i y_i.

        Piecewise: (2 / S_m) sum sigma_i^2 x_i y_i - (1 / S_m^2) sum sigma_i^4 x_i y_i.
        """
        chosen = list(values)
        if self.way == "whole":
            return _sums(products)[chosen]
        squares = self.squares[: products.shape[1]]
        total = _sums(squares[None])[chosen]
        total[total == 0] = 1.0  # m = 0: both sums are empty
        once = _sums(products * squares)[chosen] / total
        twice = _sums(products * squares**2)[chosen] / total**2
        return 2 * once - twice


def _sums(terms: Floats) -> Floats:
    """Return the sums of the first 0, 1, ..., K of [N, K] terms, [K + 1, N]."""
    sums = np.zeros((terms.shape[1] + 1, len(terms)))
    np.cumsum(terms.T, axis=0, out=sums[1:])
    return sums


def _gone(left: Floats, whole: Floats) -> NDArray[np.bool_]:
    """Return whether a squared norm is a rounding error: at most n eps of the whole, n = 450."""
    return left <= 1e-13 * whole
