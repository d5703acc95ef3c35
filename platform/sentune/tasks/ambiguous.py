"""Ambiguous entailment: entailment, non-entailment, or both, by the interpretations of a pair.

GumbelCSE sections 3.2 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.readouts.grid import Grid, Grids, grid_of
from sentune.readouts.interpretation import ALPHA_1, ALPHA_2, BETA, INTERSECTION
from sentune.readouts.sweep import SWEEP_FILE
from sentune.readouts.three_way import (
    BOTH,
    CLASSES,
    ENTAILMENT,
    NON_ENTAILMENT,
    best_split,
)
from sentune.tasks.ambiguous_sweep import AXES, AmbiguousSweepResult, sweep
from sentune.tasks.base import Result, readout_of
from sentune.tasks.pairs import Pairs
from sentune.tasks.parallel_map import ParallelMap, in_order
from sentune.tasks.references import References

METRICS = ("macro_f1", *(f"f1_{name}" for name in CLASSES), "accuracy")
OF_SETS = ("empty_sets", "self_probability", "references_per_sentence")


class AmbiguousRte:
    """Three-way entailment of pairs that several labels may fit.

    A pair is ``entailment`` where that is its only label, ``non_entailment`` where it is none of
    them, ``both`` otherwise.

    Metrics: ``macro_f1`` over the three classes, ``f1_entailment``, ``f1_non_entailment``,
    ``f1_both`` and ``accuracy`` of Eq. 14 (the paper's "-int"), for boxes with references; the same
    with ``sen_`` for one threshold on the sentences alone ("-sen"), which never says "both";
    ``majority``, the share of the largest class. At the chosen readouts ``empty_sets``, the share
    of sentences without an interpretation (their own box stands in for one),
    ``references_per_sentence``, the mean of |U|, and ``self_probability``, the mean P(b | b).

    Readouts: ``intersection``, ``references``, ``alpha_1``, ``alpha_2``, ``beta`` with the best
    macro F1, of equal ones the first, and ``sen_beta``.

    Args:
        references: of boxes; without them there are only the ``sen_`` metrics.
        grids: of the readouts; by default the papers' and below, and every n of ``references``. An
            empty grid for ``beta`` finds it exactly.
        spread: runs the blocks of pairs.

    Raises:
        CorpusError: the corpus has no pairs of several labels, or all of them are of one class.
    """

    kind = "ambiguous-rte"

    def __init__(
        self,
        corpus: Corpus,
        name: str = kind,
        *,
        references: References | None = None,
        grids: Grids | None = None,
        spread: ParallelMap = in_order,
    ) -> None:
        if corpus.kind is not Kind.SEVERAL_LABELS:
            found = corpus.kind.value
            raise CorpusError(corpus.spec, f"{name} needs pairs of several labels, not {found}")
        columns = corpus.table.to_pydict()
        self.name, self.references, self.grids = name, references, grids or {}
        self.spread = spread
        self.gold = np.array([_class_of(labels) for labels in columns["labels"]], dtype=np.int64)
        if len(set(self.gold.tolist())) < 2:
            classes = ", ".join(CLASSES[i] for i in sorted(set(self.gold.tolist()))) or "no pairs"
            raise CorpusError(corpus.spec, f"{name} needs two classes at least; found: {classes}")
        self.pairs = Pairs(tuple(columns["premise"]), tuple(columns["hypothesis"]))
        others = () if references is None else references.sentences
        both = dict.fromkeys((*self.pairs.sentences, *others))
        self._row = {sentence: row for row, sentence in enumerate(both)}

    def sentences(self) -> list[str]:
        """Distinct premises and hypotheses, then the references."""
        return list(self._row)

    def evaluate(
        self,
        embeddings: Tensor,
        geometry: Geometry,
        readouts: Mapping[str, Any] | None = None,
    ) -> Result:
        """Without readouts they are swept; a missing one leaves out what needs it."""
        result = Result(
            metrics={f"{self.name}/majority": self.majority()},
            tables={f"{self.name}/counts.json": self._counts()},
        )
        self._judge_sentences(result, embeddings, geometry, readouts)
        if not isinstance(geometry, Boxes):
            reason = "interpretations are overlaps of boxes, which this geometry has not"
        elif self.references is None:
            reason = "there are no reference sentences for interpretations"
        else:
            grids = self._grids(self.references, readouts)
            if grids:
                swept = self._sweep(embeddings, geometry, self.references, grids)
                return self._report(result, swept, tables=readouts is None)
            reason = f"{', '.join(AXES)} and beta are not all given: choose them on dev"
        result.skipped |= {f"{self.name}/{metric}": reason for metric in (*METRICS, *OF_SETS)}
        return result

    def majority(self) -> float:
        """Share of the largest class: the accuracy of always saying the same."""
        return float(np.bincount(self.gold).max() / len(self.gold))

    def _counts(self) -> dict[str, int]:
        counts = np.bincount(self.gold, minlength=3).tolist()
        return {"pairs": len(self.gold), **dict(zip(CLASSES, counts, strict=True))}

    def _judge_sentences(
        self,
        result: Result,
        embeddings: Tensor,
        geometry: Geometry,
        readouts: Mapping[str, Any] | None,
    ) -> None:
        """One threshold on P(b_h | b_p), in float64: probabilities of boxes underflow."""
        own = embeddings[: len(self.pairs.sentences)].double()
        scores = self.pairs.compare(own, geometry.entails)
        if readouts is None:
            beta: Any = best_split(scores, self.gold).beta
        else:
            beta = readout_of(readouts, self.name, self.kind, "sen_beta")
        if beta is None:
            reason = "no sen_beta is given: choose one on a development set"
            result.skipped |= {f"{self.name}/sen_{metric}": reason for metric in METRICS}
            return
        result.readouts[f"{self.name}/sen_beta"] = float(beta)
        predicted = np.where(scores > float(beta), ENTAILMENT, NON_ENTAILMENT)
        self._score(result, "sen_", predicted)

    def _report(self, result: Result, swept: AmbiguousSweepResult, *, tables: bool) -> Result:
        self._score(result, "", swept.predicted)
        found = zip(OF_SETS, swept.of_sets, strict=True)
        result.metrics |= {f"{self.name}/{metric}": value for metric, value in found}
        chosen = swept.sweep.chosen
        result.readouts |= {f"{self.name}/{readout}": value for readout, value in chosen.items()}
        result.tables[f"{self.name}/coverage.json"] = swept.coverage
        if tables:
            result.tables[f"{self.name}/{SWEEP_FILE}"] = swept.sweep.to_table()
        return result

    def _sweep(
        self,
        embeddings: Tensor,
        boxes: Boxes,
        references: References,
        grids: Mapping[str, Grid],
    ) -> AmbiguousSweepResult:
        """With as many references as the largest n needs."""
        count = references.sizes[int(grids["references"][-1])]
        others = [self._row[sentence] for sentence in references.sentences[:count]]
        sides = (self.pairs.first, self.pairs.second)
        premises, hypotheses = (np.array([self._row[s] for s in side]) for side in sides)
        return sweep(
            f"{self.name}/macro_f1",
            grids,
            boxes=boxes,
            sentences=embeddings[: len(self.pairs.sentences)],
            references=embeddings[torch.tensor(others, device=embeddings.device)],
            pairs=(premises, hypotheses),
            sizes=tuple(references.sizes[int(n)] for n in grids["references"]),
            gold=self.gold,
            spread=self.spread,
        )

    def _grids(self, references: References, readouts: Mapping[str, Any] | None) -> dict[str, Grid]:
        """What is swept, or one value each as given; empty where one of those is missing."""
        if readouts is None:
            swept = (INTERSECTION, ALPHA_1, ALPHA_2, BETA)
            grids = {readout.name: grid_of(readout, self.grids) for readout in swept}
            grids["references"] = self.grids.get("references", references.counts)
        else:
            names = (*AXES, "beta")
            given = {name: readout_of(readouts, self.name, self.kind, name) for name in names}
            if any(value is None for value in given.values()):
                return {}
            grids = {name: (value,) for name, value in given.items() if value is not None}
        return grids | {"references": references.within([int(n) for n in grids["references"]])}

    def _score(self, result: Result, prefix: str, predicted: NDArray[np.int64]) -> None:
        each = f1_score(self.gold, predicted, labels=range(3), average=None, zero_division=0)
        values = (each.mean(), *each, np.mean(predicted == self.gold))
        found = zip(METRICS, values, strict=True)
        result.metrics |= {f"{self.name}/{prefix}{metric}": float(x) for metric, x in found}


def _class_of(labels: list[str]) -> int:
    if "entailment" not in labels:
        return NON_ENTAILMENT
    return ENTAILMENT if set(labels) == {"entailment"} else BOTH
