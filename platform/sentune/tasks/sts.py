"""Semantic textual similarity: correlation of similarities with human scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.base import Geometry
from sentune.tasks.base import Result
from sentune.tasks.pairs import Pairs, symmetric_similarity


class Sts:
    """Scored pairs, all in one ranking; the similarity is the mean of both directions.

    Metrics: ``spearman`` and ``pearson``. Similarities that are all the same (disjoint boxes whose
    overlap underflows) rank nothing: their correlation is undefined, counts as 0, and the reason
    is among the skipped.

    Raises:
        CorpusError: the corpus has no scored pairs, or they all have the same score.
    """

    kind = "sts"

    def __init__(self, corpus: Corpus, name: str = kind) -> None:
        if corpus.kind is not Kind.SCORED_PAIRS:
            raise CorpusError(corpus.spec, f"{name} needs scored pairs, not {corpus.kind.value}")
        columns = corpus.table.to_pydict()
        self.name = name
        self.pairs = Pairs(tuple(columns["sentence1"]), tuple(columns["sentence2"]))
        self.scores = np.asarray(columns["score"], dtype=np.float64)
        if len(set(columns["score"])) < 2:
            raise CorpusError(corpus.spec, f"{name} needs pairs with different scores")

    def sentences(self) -> list[str]:
        """Distinct sentences of both sides."""
        return list(self.pairs.sentences)

    def evaluate(
        self,
        embeddings: Tensor,
        geometry: Geometry,
        readouts: Mapping[str, Any] | None = None,
    ) -> Result:
        """Correlates; there is no readout."""
        similarities = self.pairs.compare(embeddings, symmetric_similarity(geometry))
        counts = {f"{self.name}/counts.json": {"pairs": len(self.pairs)}}
        if np.ptp(similarities) == 0:
            zero = {f"{self.name}/spearman": 0.0, f"{self.name}/pearson": 0.0}
            reason = "all similarities are the same, so nothing is ranked: counted as 0"
            return Result(metrics=zero, tables=counts, skipped={self.name: reason})
        metrics = {
            f"{self.name}/spearman": float(spearmanr(similarities, self.scores).statistic),
            f"{self.name}/pearson": float(pearsonr(similarities, self.scores).statistic),
        }
        return Result(metrics=metrics, tables=counts)
