"""Transfer tasks: how well a linear classifier on sentence embeddings does (SentEval).

Legend: N = rows, G = strengths of regularisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.tasks.base import Model, Result
from sentune.tasks.transfer_fit import Labels
from sentune.tasks.transfer_protocols import (
    GRID,
    GRID_OF_FOLDS,
    Part,
    by_dev,
    choose,
    grid_of,
    judged_split,
    nested,
)
from sentune.tasks.transfer_results import nested_result, split_result
from sentune.tasks.transfer_rows import WHOLE, check, rows_of
from sentune.tasks.transfer_solver import Values

TRANSFER: dict[str, Kind] = {
    "mr": Kind.CLASSIFIED,
    "cr": Kind.CLASSIFIED,
    "subj": Kind.CLASSIFIED,
    "mpqa": Kind.CLASSIFIED,
    "sst2": Kind.CLASSIFIED,
    "trec": Kind.CLASSIFIED,
    "mrpc": Kind.CLASSIFIED,
    "sick-e": Kind.CLASSIFIED,
    "sick-r": Kind.RELATED,
    "stsb-supervised": Kind.RELATED,
}
"""SentEval's transfer tasks: name -> what its corpus holds."""


class Transfer:
    """Logistic regression of labels on embeddings as they are (Conneau & Kiela 2018, section 3).

    What the corpus has decides the protocol, as in SentEval's ``tools/validation.py``:

    - no splits (MR, CR, SUBJ, MPQA): folds are judged, and inner folds choose each one's C;
    - train and test (TREC, MRPC): folds of train choose C, test is judged;
    - train, dev and test (SST2, SICK-E): dev chooses C, test is judged;
    - train and dev, where the test split is not at hand: folds of train choose C and dev is
      judged; ``NAME/test`` among the skipped says so.

    Metrics: ``accuracy``; ``dev_accuracy``, by which C was chosen; for pairs of two classes
    (MRPC) ``f1`` of the class that is last in the alphabet. The readout ``C`` is the strength that
    was chosen; given among the readouts, it is applied without choosing. Tables:
    ``counts.json``, and ``regularisation.json`` with the dev accuracy by C.

    The regression is scikit-learn's ``LogisticRegression``: softmax over the classes, the
    intercept free. SentEval ran it with the solver that was the default then (liblinear: a class
    against the rest, the intercept penalised).

    Args:
        corpus: classified sentences or pairs.
        name: of the task.
        folds: outer and inner ones; 10 in SentEval.

    Raises:
        CorpusError: the corpus is of another kind, a split is missing, the training rows have one
            label, fewer rows of a label than folds, or other labels than the rest.
        InvalidValue: fewer than 2 folds.
    """

    kind = "transfer"

    def __init__(self, corpus: Corpus, name: str = kind, *, folds: int = 10) -> None:
        check(corpus, name, Kind.CLASSIFIED, folds)
        self.name, self.folds = name, folds
        self.labels, codes = np.unique(corpus.table["label"].to_pylist(), return_inverse=True)
        self.rows = rows_of(corpus, ("text", "second"), codes.astype(np.float64))
        self._check_labels(corpus)

    def run(self, model: Model, readouts: Mapping[str, Any] | None = None) -> Result:
        """Encode each distinct sentence once, then choose C and judge.

        Raises:
            TrialFailed: an embedding is not finite.
            InvalidValue: the C among the readouts is no positive number.
        """
        parts = self.rows.parts(model)
        return self._nested(parts, readouts) if WHOLE in parts else self._split(parts, readouts)

    def majority(self) -> float:
        """Accuracy of the commonest label of the training rows on the judged ones.

        Without splits, the share of the commonest label.
        """
        whole = WHOLE in self.rows.places
        train = self.rows.of(WHOLE if whole else "train")
        judged = self.rows.of(WHOLE if whole else judged_split(self.rows.places))
        commonest = np.bincount(train.astype(np.int64)).argmax()
        return float(np.mean(judged == commonest))

    def _nested(self, parts: Mapping[str, Part], readouts: Mapping[str, Any] | None) -> Result:
        grid = grid_of(readouts, self.name, GRID)
        found = nested(Labels(), parts[WHOLE], self.folds, grid)
        result = nested_result(self.name, found, grid)
        self._add_f1(result, parts[WHOLE].targets, found.predictions)
        return result

    def _split(self, parts: Mapping[str, Part], readouts: Mapping[str, Any] | None) -> Result:
        grid = grid_of(readouts, self.name, GRID if by_dev(parts) else GRID_OF_FOLDS)
        readout = Labels()
        chosen = choose(readout, parts, self.folds, grid)
        gold = parts[judged_split(parts)].targets
        result = split_result(self.name, parts, chosen, readout.metric)
        result.metrics[f"{self.name}/accuracy"] = readout.score(chosen.predictions, gold)
        self._add_f1(result, gold, chosen.predictions)
        return result

    def _add_f1(self, result: Result, gold: Values, predictions: Values) -> None:
        if self.rows.second is not None and len(self.labels) == 2:
            result.metrics[f"{self.name}/f1"] = float(f1_score(gold, predictions, zero_division=0))

    def _check_labels(self, corpus: Corpus) -> None:
        places = self.rows.places
        train = self.rows.of(WHOLE if WHOLE in places else "train")
        counts = np.bincount(train.astype(np.int64), minlength=len(self.labels))
        seen = [f"{count} {label}" for label, count in zip(self.labels, counts, strict=True)]
        if len(train) in counts:
            reason = "the training rows all have one label; rows=A:B takes rows in the files' order"
            raise CorpusError(corpus.spec, f"{reason} ({', '.join(seen)})")
        if not counts.all():
            missing = ", ".join(self.labels[counts == 0])
            raise CorpusError(corpus.spec, f"no training row is labelled {missing}, others are")
        # the training rows of an outer fold are split into folds once more
        smallest = counts.min() - (-(-counts.min() // self.folds) if WHOLE in places else 0)
        if not by_dev(places) and smallest < self.folds:
            reason = f"{self.folds} folds need more rows of each label than {', '.join(seen)}"
            raise CorpusError(corpus.spec, reason)
