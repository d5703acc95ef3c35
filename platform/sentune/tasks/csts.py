"""Conditional semantic textual similarity (C-STS): similarity of two sentences under a condition.

Deshpande et al. (2023); GumbelCSE section 4.5. Legend: N = pairs, D = packed width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.readouts.grid import ALPHA_1, ALPHA_2, INTERSECTION, Grids
from sentune.tasks.base import Given, Result, require
from sentune.tasks.csts_sweep import Views, sweep
from sentune.tasks.pairs import Pairs, symmetric_similarity
from sentune.tasks.references import InterpretationTask, References
from sentune.tasks.sts import METRICS, add_correlations

Floats = NDArray[np.float64]
SAME = "all similarities are the same: the undefined correlation counts as 0"


class Csts(InterpretationTask):
    """Scored pairs of sentences with a condition each.

    Metrics: ``spearman`` and ``pearson`` with the condition (the papers' "-con"), ``sen_spearman``
    and ``sen_pearson`` without it ("-sen"). With the condition

    - boxes compare the interpretations b'_1 and b'_2 that are most similar to the condition
      (Eq. 15, 16), of equally similar ones that of the first reference. The own box replaces the
      interpretation of a sentence that has none. Without references these metrics are skipped;
    - other geometries compare the sentences "s_1 [SEP] c" and "s_2 [SEP] c" (bi-encoder).

    Readouts, for boxes only: ``intersection``, ``references``, ``alpha_1`` and ``alpha_2`` with the
    best Spearman correlation. The alphas of ambiguous entailment are not used. If all similarities
    are the same, a correlation is undefined: it counts as 0 and is among the skipped.

    Raises:
        CorpusError: the corpus has no conditioned pairs, or they all have the same score.
    """

    kind = "csts"
    swept = (INTERSECTION, ALPHA_1, ALPHA_2)

    def __init__(
        self,
        corpus: Corpus,
        name: str = kind,
        *,
        references: References | None = None,
        grids: Grids | None = None,
    ) -> None:
        require(corpus, Kind.CONDITIONED_PAIRS, name)
        columns = corpus.table.to_pydict()
        if len(set(columns["score"])) < 2:
            raise CorpusError(corpus.spec, f"{name} needs pairs with different scores")
        self.scores = np.asarray(columns["score"], dtype=np.float64)
        self.conditions: tuple[str, ...] = tuple(columns["condition"])
        sides = columns["sentence1"], columns["sentence2"]
        self.pairs = Pairs(*map(tuple, sides))
        of_sides = (zip(side, self.conditions, strict=True) for side in sides)
        self.joined = Pairs(*(tuple(f"{s} [SEP] {c}" for s, c in of) for of in of_sides))
        parts = (*self.pairs.sentences, *self.conditions, *self.joined.sentences)
        super().__init__(name, parts, references, grids)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the metrics; those that need a readout missing in ``readouts`` are skipped."""
        result = Result(tables={f"{self.name}/counts.json": {"pairs": len(self.pairs)}})
        self._correlate(result, "sen_", self._compare(self.pairs, embeddings, geometry))
        if isinstance(geometry, Boxes):
            return self._interpret(result, embeddings, geometry, readouts)
        self._correlate(result, "", self._compare(self.joined, embeddings, geometry))
        return result

    def _interpret(
        self, result: Result, embeddings: Tensor, boxes: Boxes, readouts: Given
    ) -> Result:
        grids = self.grids_or_reason(readouts)
        if isinstance(grids, str):
            return self.without(result, METRICS, grids)
        sides = (self.pairs.first, self.pairs.second, self.conditions)
        references, sizes = self.references_within(grids, embeddings)
        swept, similarities, counts = sweep(
            f"{self.name}/spearman",
            grids,
            boxes=boxes,
            embeddings=embeddings,
            references=references,
            sizes=sizes,
            views=Views(*(self.rows(side, embeddings).cpu().numpy() for side in sides)),
            scores=self.scores,
        )
        self._correlate(result, "", similarities)
        result.tables[f"{self.name}/counts.json"] |= counts
        self.add(result, swept, readouts)
        return result

    def _compare(self, pairs: Pairs, embeddings: Tensor, geometry: Geometry) -> Floats:
        """Return the pairs' similarities, [N], in float64 because those of boxes underflow."""
        rows = self.rows(pairs.sentences, embeddings)
        return pairs.compare(embeddings[rows].double(), symmetric_similarity(geometry))

    def _correlate(self, result: Result, prefix: str, similarities: Floats) -> None:
        names = add_correlations(result, f"{self.name}/{prefix}", similarities, self.scores)
        result.skipped |= dict.fromkeys(names, SAME)
