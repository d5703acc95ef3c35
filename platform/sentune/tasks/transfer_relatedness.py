"""Supervised relatedness of pairs: SICK-R and the STS Benchmark (SentEval; Tai et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.tasks.base import Model, Result
from sentune.tasks.sts import METRICS, correlations
from sentune.tasks.transfer_fit import Scores
from sentune.tasks.transfer_protocols import by_dev, choose, grid_of, judged_split
from sentune.tasks.transfer_results import split_result
from sentune.tasks.transfer_rows import WHOLE, check, rows_of
from sentune.tasks.transfer_solver import Values

GRID = tuple(4.0**t for t in range(9))
"""C, from 1 to 65536: with averaged word vectors the best was 4, with the same at length 1, whose
products of coordinates are small, beyond 1000."""


class TransferRelatedness:
    """Scores of pairs, predicted as the expectation of a distribution over integers.

    The distribution is a softmax of [|u - v|, u * v] (Tai, Socher & Manning 2015, section 4.2; see
    ``transfer_fit.Scores``). SentEval stops early where this is penalised: C is chosen by
    Pearson's r on dev, and test is judged. Without a test split, folds of train choose C and dev
    is judged; ``NAME/test`` among the skipped says so. Without dev, folds of train choose.

    Metrics: ``pearson``, ``spearman``, ``mse`` (squared units of the score), and ``dev_pearson``,
    by which C was chosen. An undefined correlation counts as 0, with the reason among the
    skipped. The readout ``C`` is the strength chosen; given among the readouts, it is applied
    without choosing. Tables: ``counts.json``, and ``regularisation.json`` with r by C.

    Args:
        corpus: related pairs.
        name: of the task.
        folds: of train, where they choose.

    Raises:
        CorpusError: the corpus is of another kind, a split is missing, the scores of a split are
            all the same, or train has fewer than two rows a fold.
        InvalidValue: fewer than 2 folds.
    """

    kind = "relatedness"

    def __init__(self, corpus: Corpus, name: str = kind, *, folds: int = 10) -> None:
        check(corpus, name, Kind.RELATED, folds)
        self.name, self.folds = name, folds
        scores = np.asarray(corpus.table["score"].to_pylist(), dtype=np.float64)
        self.rows = rows_of(corpus, ("sentence1", "sentence2"), scores)
        self._check_scores(corpus)
        self.readout = Scores()

    def run(self, model: Model, readouts: Mapping[str, Any] | None = None) -> Result:
        """Encode each distinct sentence once, then choose C and judge.

        Raises:
            TrialFailed: an embedding is not finite.
            InvalidValue: the C among the readouts is no positive number.
        """
        parts = self.rows.parts(model)
        chosen = choose(self.readout, parts, self.folds, grid_of(readouts, self.name, GRID))
        result = split_result(self.name, parts, chosen, self.readout.metric)
        gold = parts[judged_split(parts)].targets
        self._add_metrics(result, chosen.predictions, gold)
        return result

    def _add_metrics(self, result: Result, predictions: Values, scores: Values) -> None:
        for metric in METRICS:
            value = correlations(predictions[None], scores, metric)[0]
            result.metrics[f"{self.name}/{metric}"] = float(np.nan_to_num(value))
            if np.isnan(value):
                reason = "all predictions are the same, so nothing is ranked: counted as 0"
                result.skipped[self.name] = reason
        result.metrics[f"{self.name}/mse"] = float(np.mean((predictions - scores) ** 2))

    def _check_scores(self, corpus: Corpus) -> None:
        places = self.rows.places
        if WHOLE in places:
            raise CorpusError(corpus.spec, f"{self.name} needs rows of train, and of dev or test")
        for split in places:
            if np.ptp(self.rows.of(split)) == 0:
                raise CorpusError(corpus.spec, f"the scores of {split} are all the same")
        if not by_dev(places) and len(places["train"]) < 2 * self.folds:
            reason = f"{self.folds} folds need {2 * self.folds} rows of train"
            raise CorpusError(corpus.spec, f"{reason}, there are {len(places['train'])}")
        train = self.rows.of("train")
        values, counts = np.unique(train, return_counts=True)
        if not by_dev(places) and len(train) - counts.max() <= -(-len(train) // self.folds):
            reason = f"{counts.max()} of {len(train)} scores of train are {values[counts.argmax()]}"
            raise CorpusError(corpus.spec, f"{reason}, so that a fold may leave no others")
