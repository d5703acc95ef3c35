"""Decisions on embeddings: similarity, entailment and its direction.

Legend: N, M = sentences or pairs, D = packed width of the method's geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from torch import Tensor

from sentune.embedder.encode import Embeddings, Encoding, Sentences, as_array, paired, single
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.tasks.pairs import Compare, extent_direction, symmetric_similarity


@dataclass(frozen=True)
class Entailment:
    """How far a premise entails a hypothesis.

    Attributes:
        score: P(hypothesis | premise) for boxes, sim(hypothesis || premise) in (0, 1] for
            Gaussians, the cosine in [-1, 1] for points.
        threshold: the readout that decides; None if the model has none.
    """

    score: float
    threshold: float | None

    @property
    def decision(self) -> bool:
        """Whether it is an entailment.

        Raises:
            InvalidValue: the model was tuned without labelled pairs, so it has no threshold.
        """
        if self.threshold is None:
            fix = "the model has none; give entails() a threshold"
            raise InvalidValue("rte/threshold", self.threshold, fix)
        return self.score > self.threshold


@dataclass(frozen=True)
class Direction:
    """Which of two sentences entails the other.

    Attributes:
        entailing: ``first``, ``second``, or ``neither`` where the margin is exactly 0.
        margin: positive for the first: log similarity one way minus the other, or, by extent,
            the difference of log-volumes or of summed log sigma.
    """

    entailing: Literal["first", "second", "neither"]
    margin: float

    @classmethod
    def of(cls, margin: float) -> Direction:
        """Return the direction that a margin stands for."""
        if margin == 0:
            return cls("neither", margin)
        return cls("first" if margin > 0 else "second", margin)


class Comparing(Encoding):
    """The part of an ``Embedder`` that compares two sides: sentences, or their embeddings."""

    readouts: dict[str, Any]

    @property
    def geometry(self) -> Geometry:
        """How two embeddings are compared."""
        return self.method.geometry

    @overload
    def similarity(self, a: str, b: str) -> float: ...

    @overload
    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings: ...

    def similarity(self, a: Sentences, b: Sentences) -> float | Embeddings:
        """Return [N] similarities of pairs, the same both ways: the mean of both directions.

        Args:
            a, b: sentences or their embeddings, N and N, or N and one; of two single ones a number.
        """
        numbers = as_array(self._compare(a, b, symmetric_similarity(self.geometry)), one=False)
        return float(numbers[0]) if single(a, b) else numbers

    def similarity_table(self, a: Sentences, b: Sentences) -> Embeddings:
        """Return [N, M] similarities of N sentences with M others, the same both ways."""
        first, second = self._rows(a), self._rows(b)
        with torch.no_grad():
            table = self.geometry.entails_table(first, second)
            if not self.geometry.symmetric:
                table = (table + self.geometry.entails_table(second, first).T) / 2
        return as_array(table, one=False)

    @overload
    def entails(
        self, premise: str, hypothesis: str, *, threshold: float | None = None
    ) -> Entailment: ...

    @overload
    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Entailment | list[Entailment]: ...

    def entails(
        self, premise: Sentences, hypothesis: Sentences, *, threshold: float | None = None
    ) -> Entailment | list[Entailment]:
        """Return how far the premise entails the hypothesis; a list for lists, as ``similarity``.

        Args:
            premise, hypothesis: sentences or their embeddings.
            threshold: instead of the model's own.
        """
        limit = self.readouts.get("rte/threshold") if threshold is None else threshold
        scores = self._compare(premise, hypothesis, self.geometry.entails)
        found = [Entailment(float(score), limit) for score in scores.double()]
        return found[0] if single(premise, hypothesis) else found

    @overload
    def direction(self, a: str, b: str) -> Direction: ...

    @overload
    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]: ...

    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]:
        """Return which of two entailing sentences entails the other; a list for lists.

        Decided as the readout ``direction/by`` says, by similarity if there is none.

        Raises:
            InvalidValue: the method's similarity is the same both ways, so it cannot tell.
        """
        if self.geometry.symmetric:
            fix = "its similarity is the same both ways; use a model of Gaussians or boxes"
            raise InvalidValue("method", self.name, fix)
        by_extent = self.readouts.get("direction/by") == "extent"
        compare = extent_direction(self.geometry) if by_extent else self.geometry.direction
        found = [Direction.of(float(margin)) for margin in self._compare(a, b, compare).double()]
        return found[0] if single(a, b) else found

    def _compare(self, a: Sentences, b: Sentences, compare: Compare) -> Tensor:
        """Return [N] comparisons of paired rows."""
        with torch.no_grad():
            return compare(*paired(self._rows(a), self._rows(b)))
