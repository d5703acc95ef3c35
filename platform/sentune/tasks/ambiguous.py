"""Ambiguous entailment: a pair is an entailment, a non-entailment or both (GumbelCSE 3.2, 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.readouts.grid import ALPHA_1, ALPHA_2, BETA, INTERSECTION, Grids
from sentune.readouts.three_way import (
    BOTH,
    CLASSES,
    ENTAILMENT,
    NON_ENTAILMENT,
    class_metrics,
    class_of,
    class_weights,
)
from sentune.readouts.threshold import best_threshold
from sentune.tasks.ambiguous_sweep import OF_SETS, RangeFinder, sweep
from sentune.tasks.base import Given, ParallelMap, Result, readout_of, require, under
from sentune.tasks.pairs import Pairs
from sentune.tasks.references import AXES, InterpretationTask, References

BY_ALPHA_1 = "by_alpha_1.json"
"""Table of the best readouts for each alpha_1, ``TASK/by_alpha_1.json``."""
METRICS = ("macro_f1", *(f"f1_{name}" for name in CLASSES), "accuracy")


class AmbiguousRte(InterpretationTask):
    """Three-way entailment of pairs with several labels (GumbelCSE section 4.4).

    A pair is ``entailment`` if that is its only label, ``non_entailment`` if it is not among its
    labels, and ``both`` otherwise.

    Metrics of the interpretations (Eq. 14, the paper's "-int"), for boxes with references:
    ``macro_f1`` over the three classes, ``f1_entailment``, ``f1_non_entailment``, ``f1_both`` and
    ``accuracy``. The same with the prefix ``sen_`` for one threshold on the sentences' own boxes
    ("-sen"), which never predicts "both". Baselines: ``majority``, the share of the largest class,
    and ``always_both``, the ``f1_both`` of always predicting "both". If the corpus has a prior of
    the classes, ``prior_macro_f1`` and ``prior_f1_both`` weight its pairs to that prior. At the
    chosen readouts: ``empty_sets``, the share of sentences without an interpretation, for which
    their own box is used; ``references_per_sentence``, the mean of |U|; and ``self_probability``,
    the mean P(b | b).

    Readouts: ``intersection``, ``references``, ``alpha_1``, ``alpha_2`` and ``beta`` with the best
    macro F1 (at the prior, if there is one) among those that leave at most half of the sentences
    without an interpretation, the first of equal ones; and ``sen_beta`` with the best accuracy on
    the pairs that are not ``both``, as with two classes (section 4.2).

    Args:
        references: reference sentences of boxes; None: only the ``sen_`` metrics.
        grids: as in ``InterpretationTask``; an empty grid of ``beta`` finds the exact optimum.
        spread: maps over blocks of pairs, locally or on a cluster.

    Raises:
        CorpusError: the corpus has no pairs of several labels, or all of them are of one class.
        InvalidValue: its pairs cannot be weighted to its prior.
    """

    kind = "ambiguous-rte"
    swept = (INTERSECTION, ALPHA_1, ALPHA_2, BETA)

    def __init__(
        self,
        corpus: Corpus,
        name: str = kind,
        *,
        references: References | None = None,
        grids: Grids | None = None,
        spread: ParallelMap = map,
    ) -> None:
        require(corpus, Kind.SEVERAL_LABELS, name)
        columns = corpus.table.to_pydict()
        self.spread = spread
        self.gold = np.array([class_of(labels) for labels in columns["labels"]], dtype=np.int64)
        if len(set(self.gold.tolist())) < 2:
            classes = ", ".join(CLASSES[i] for i in sorted(set(self.gold.tolist()))) or "no pairs"
            raise CorpusError(corpus.spec, f"{name} needs at least two classes; found: {classes}")
        self.prior = corpus.prior
        self.weights = class_weights(corpus.prior, self.gold)
        self.pairs = Pairs(tuple(columns["premise"]), tuple(columns["hypothesis"]))
        super().__init__(name, self.pairs.sentences, references, grids)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the metrics; those that need a readout missing in ``readouts`` are skipped."""
        counts = np.bincount(self.gold, minlength=3).tolist()
        table = {"pairs": len(self.gold), **dict(zip(CLASSES, counts, strict=True))}
        result = Result(metrics=self.baselines(), tables={f"{self.name}/counts.json": table})
        self._judge_sentences(result, embeddings, geometry, readouts)
        if isinstance(geometry, Boxes):
            return self._judge_interpretations(result, embeddings, geometry, readouts)
        reason = "interpretations need a geometry of boxes"
        return self.without(result, (*METRICS, *OF_SETS), reason)

    def at_each(
        self, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[list[AmbiguousRte], dict[str, Any]]:
        """Return a copy of the task for each row of a table ``BY_ALPHA_1``, and the readouts.

        The copy ``ambiguous-rte@0.3`` has the best readouts with an alpha_1 of 0.3.
        """
        tasks: list[AmbiguousRte] = []
        readouts: dict[str, Any] = {}
        for row in rows:
            task = copy(self)
            task.name = f"{self.name}@{row['alpha_1']:g}"
            tasks.append(task)
            readouts |= under(task.name, {name: row[name] for name in (*AXES, BETA.name)})
        return tasks, readouts

    def baselines(self) -> dict[str, float]:
        """Return the share of the largest class and the ``f1_both`` of always predicting "both"."""
        shares = np.bincount(self.gold, minlength=3) / len(self.gold)
        both = float(shares[BOTH])
        found = {"majority": float(shares.max()), "always_both": 2 * both / (1 + both)}
        return under(self.name, found)

    def _judge_sentences(
        self, result: Result, embeddings: Tensor, geometry: Geometry, readouts: Given
    ) -> None:
        """Add the ``sen_`` metrics by P(b_h | b_p), in float64 because probabilities underflow."""
        own = embeddings[: len(self.pairs.sentences)].double()
        scores = self.pairs.compare(own, geometry.entails)
        if readouts is None:
            told = self.gold != BOTH
            beta: float | None = best_threshold(scores[told], self.gold[told] == ENTAILMENT)
        else:
            beta = readout_of(readouts, self.name, self.kind, "sen_beta")
        if beta is None:
            names = [f"sen_{metric}" for metric in METRICS]
            self.without(result, names, "no sen_beta is given; choose one on a development set")
            return
        result.readouts[f"{self.name}/sen_beta"] = beta
        self._score(result, "sen_", np.where(scores > beta, ENTAILMENT, NON_ENTAILMENT))

    def _judge_interpretations(
        self, result: Result, embeddings: Tensor, boxes: Boxes, readouts: Given
    ) -> Result:
        grids = self.grids_or_reason(readouts)
        if isinstance(grids, str):
            return self.without(result, (*METRICS, *OF_SETS), grids)
        premises, hypotheses = self.pairs.rows
        references, sizes = self.references_within(grids, embeddings)
        finder = RangeFinder(
            boxes=boxes,
            sentences=embeddings[: len(self.pairs.sentences)],
            references=references,
            premises=premises,
            hypotheses=hypotheses,
            sizes=sizes,
            grids=grids,
        )
        metric = f"{self.name}/{'prior_' if self.prior else ''}macro_f1"
        swept = sweep(metric, finder, self.gold, self.weights, self.spread)
        self._score(result, "", swept.predicted)
        if self.prior:
            found = class_metrics(self.gold, swept.predicted, self.weights)
            names = ("macro_f1", "f1_both")
            result.metrics |= {f"{self.name}/prior_{name}": found[name] for name in names}
        result.metrics |= under(self.name, swept.of_sets)
        result.tables[f"{self.name}/coverage.json"] = swept.coverage
        if readouts is None:
            result.tables[f"{self.name}/{BY_ALPHA_1}"] = swept.by_alpha_1
        self.add(result, swept.sweep, readouts)
        return result

    def _score(self, result: Result, prefix: str, predicted: NDArray[np.int64]) -> None:
        found = class_metrics(self.gold, predicted)
        result.metrics |= under(self.name, {f"{prefix}{metric}": x for metric, x in found.items()})
        result.hits[f"{self.name}/{prefix}accuracy"] = (predicted == self.gold).astype(np.float64)
