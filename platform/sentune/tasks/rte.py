"""Recognising textual entailment with two classes: entailment or not.

GaussCSE section 3.1 and GumbelCSE section 4.2: neutral and contradiction form one class, and a
pair is an entailment if its score exceeds a threshold chosen on the development set.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.base import Geometry
from sentune.readouts.threshold import best_threshold, precision_recall
from sentune.tasks.base import Given, Result, readout_of, require, under
from sentune.tasks.pairs import Pairs


class Rte:
    """Two-way entailment of labelled pairs.

    Metrics: ``accuracy`` at the threshold; ``auc``, the area under the precision-recall curve by
    the trapezoid rule (the share of entailments if all scores are equal); ``average_precision``;
    and ``majority``, the accuracy of always predicting the more frequent class.
    Readout: ``threshold``.

    Raises:
        CorpusError: the corpus has no labelled pairs, or all of them are in one class.
    """

    kind = "rte"

    def __init__(self, corpus: Corpus, name: str = kind) -> None:
        require(corpus, Kind.LABELLED_PAIRS, name)
        columns = corpus.table.to_pydict()
        self.name = name
        self.pairs = Pairs(tuple(columns["premise"]), tuple(columns["hypothesis"]))
        self.positive = np.array([label == "entailment" for label in columns["label"]], dtype=bool)
        if self.positive.all() or not self.positive.any():
            found = ", ".join(sorted(set(columns["label"]))) or "no rows"
            raise CorpusError(corpus.spec, f"{name} needs entailments and others; found: {found}")

    def sentences(self) -> list[str]:
        """Return the distinct premises and hypotheses."""
        return list(self.pairs.sentences)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the metrics; a pair's score is ``geometry.entails(premise, hypothesis)``."""
        scores = self.pairs.compare(embeddings, geometry.entails)
        curve = precision_recall(scores, self.positive)
        metrics = {"auc": curve.area, "average_precision": curve.average_precision}
        counts = {"pairs": len(self.pairs), "entailment": int(self.positive.sum())}
        tables = {"precision_recall.json": curve.thinned(), "counts.json": counts}
        result = Result(metrics=under(self.name, metrics), tables=under(self.name, tables))
        result.metrics |= {name: float(hits.mean()) for name, hits in self.rules().items()}
        accuracy = f"{self.name}/accuracy"
        if readouts is None:
            threshold: float | None = best_threshold(scores, self.positive)
        else:
            threshold = readout_of(readouts, self.name, self.kind, "threshold")
        if threshold is None:
            result.skipped[accuracy] = "no threshold is given; choose one on a development set"
            return result
        result.readouts[f"{self.name}/threshold"] = float(threshold)
        hits = ((scores > threshold) == self.positive).astype(np.float64)
        result.metrics[accuracy], result.hits[accuracy] = float(hits.mean()), hits
        return result

    def rules(self) -> dict[str, NDArray[np.float64]]:
        """Return ``task/majority`` -> hits of always predicting the larger class, [N]."""
        larger = self.positive.mean() >= 0.5
        return {f"{self.name}/majority": (self.positive == larger).astype(np.float64)}
