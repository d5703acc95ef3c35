"""Decisions on embeddings: similarity, entailment and its direction.

Legend: N, M = sentences or pairs, D = packed width of the method's geometry.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from sentune.embedder.encode import Embeddings, Encoding, Sentences
from sentune.embedder.predictions import Direction, Entailment
from sentune.errors import InvalidValue
from sentune.geometry.base import Geometry
from sentune.tasks.pairs import Compare, extent_direction, symmetric_similarity


class Comparing(Encoding):
    """The part of an ``Embedder`` that compares two sides: sentences, or their embeddings.

    Attributes:
        readouts: ``task/readout`` -> value chosen on the development set.
    """

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
        """[N] similarities of pairs, the same both ways: the mean of both directions.

        Args:
            a, b: sentences or their embeddings, N and N, or N and one. Two single ones give a
                number.
        """
        values = self._compare(a, b, symmetric_similarity(self.geometry))
        return values.float().cpu().numpy() if _many(a, b) else float(values[0])

    def similarity_table(self, a: Sentences, b: Sentences) -> Embeddings:
        """[N, M] similarities of each of N sentences with each of M, the same both ways."""
        first, second = self._rows(a), self._rows(b)
        with torch.no_grad():
            table = self.geometry.entails_table(first, second)
            if not self.geometry.symmetric:
                table = (table + self.geometry.entails_table(second, first).T) / 2
        return table.float().cpu().numpy()

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
        """How far the premise entails the hypothesis; a list for lists, as in ``similarity``.

        Args:
            premise, hypothesis: sentences or their embeddings.
            threshold: instead of the model's own.
        """
        limit = self.readouts.get("rte/threshold") if threshold is None else threshold
        scores = self._compare(premise, hypothesis, self.geometry.entails)
        found = [Entailment(float(score), limit) for score in scores.double()]
        return found if _many(premise, hypothesis) else found[0]

    @overload
    def direction(self, a: str, b: str) -> Direction: ...

    @overload
    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]: ...

    def direction(self, a: Sentences, b: Sentences) -> Direction | list[Direction]:
        """Which of two entailing sentences entails the other; a list for lists.

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
        return found if _many(a, b) else found[0]

    def _compare(self, a: Sentences, b: Sentences, compare: Compare) -> Tensor:
        """[N] comparisons of paired rows; one row is paired with all of the other side."""
        first, second = self._rows(a), self._rows(b)
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            fix = "give as many on both sides, or one on one of them"
            raise InvalidValue("sentences", f"{len(first)} and {len(second)}", fix)
        count = 0 if 0 in (len(first), len(second)) else max(len(first), len(second))
        with torch.no_grad():
            return compare(first.expand(count, -1), second.expand(count, -1))


def _many(*sides: Sentences) -> bool:
    """Return whether a side is more than one string or one row."""
    return any(
        side.ndim > 1 if isinstance(side, np.ndarray) else not isinstance(side, str)
        for side in sides
    )
