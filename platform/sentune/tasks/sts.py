"""Semantic textual similarity (STS): correlation of similarities with human scores.

Legend: V = variants of a model, N = pairs.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.geometry.base import Geometry
from sentune.tasks.base import Given, Result, require
from sentune.tasks.pairs import Pairs, symmetric_similarity

Floats = NDArray[np.float64]
METRICS = ("spearman", "pearson")
DRAWS = 1000
"""Number of bootstraps of the pairs for the standard error of a correlation."""


class Sts:
    """Scored pairs, whose similarity is the mean of the geometry's two directions.

    Metrics: ``spearman`` and ``pearson`` over all pairs. If the corpus has subsets (MSRpar, ...),
    also those of each subset, ``SUBSET/spearman``; their unweighted mean, ``spearman_mean``; and
    their mean weighted by numbers of pairs, ``spearman_weighted_mean``.

    Papers report different ones: SimCSE Spearman over all pairs of a year, SentEval and papers that
    use it one of the means, methods of word averages (SIF, LAES) Pearson.

    A correlation is undefined if the similarities or the scores are all the same (disjoint boxes
    whose overlap underflows) or not finite: it counts as 0, with the reason among the skipped.

    Raises:
        CorpusError: the corpus has no scored pairs, or they all have the same score.
    """

    kind = "sts"

    def __init__(self, corpus: Corpus, name: str = kind) -> None:
        require(corpus, Kind.SCORED_PAIRS, name)
        columns = corpus.table.to_pydict()
        self.name = name
        self.pairs = Pairs(tuple(columns["sentence1"]), tuple(columns["sentence2"]))
        self.scores = np.asarray(columns["score"], dtype=np.float64)
        if len(set(columns["score"])) < 2:
            raise CorpusError(corpus.spec, f"{name} needs pairs with different scores")
        subsets = np.array(columns["subset"], dtype=object)
        named = dict.fromkeys(subset for subset in columns["subset"] if subset is not None)
        self.subsets = {subset: np.flatnonzero(subsets == subset) for subset in named}

    def sentences(self) -> list[str]:
        """Return the distinct sentences of both sides."""
        return list(self.pairs.sentences)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the correlations; there is no readout."""
        return self.metrics_of(self.pairs.compare(embeddings, symmetric_similarity(geometry)))

    def metrics_of(self, similarities: Floats) -> Result:
        """Return all metrics of the pairs' similarities, [N]."""
        # metrics of subsets have their own counts of pairs
        parts = {f"{s}/{m}": len(places) for s, places in self.subsets.items() for m in METRICS}
        counts = {"pairs": len(self.pairs), **parts}
        scored = {self.name: np.stack([similarities, self.scores])}
        found = Result(tables={f"{self.name}/counts.json": counts}, scored=scored)
        self._correlate(found, self.name, similarities, self.scores)
        for subset, places in self.subsets.items():
            name = f"{self.name}/{subset}"
            self._correlate(found, name, similarities[places], self.scores[places])
        for metric in METRICS if self.subsets else ():
            each = [found.metrics[f"{self.name}/{subset}/{metric}"] for subset in self.subsets]
            for mean in (f"{metric}_mean", f"{metric}_weighted_mean"):
                found.metrics[f"{self.name}/{mean}"] = float(self._parts(mean)[2] @ each)
        return found

    def chosen_by(self, metric: str) -> str:
        """Return the metric to choose readouts by, given the metric of the objective.

        It is ``metric`` itself if this task has it; its correlation over all pairs if the task has
        no such subsets; else ``pearson``.
        """
        names = self._metrics()
        correlation = metric.rpartition("/")[2].partition("_")[0]
        return metric if metric in names else correlation if correlation in METRICS else "pearson"

    def sweep(self, similarities: Floats, metric: str = "pearson") -> Floats:
        """Return the metric of each variant, [V], given similarities [V, N]; see ``metrics_of``."""
        correlation, parts, weights = self._parts(metric)
        found = [correlations(similarities[:, p], self.scores[p], correlation) for p in parts]
        swept: Floats = weights @ np.nan_to_num(np.stack(found))
        return swept

    def standard_error(self, similarities: Floats, metric: str) -> float:
        """Return the bootstrap standard error of a metric over pairs, given similarities [N].

        That of a mean over subsets combines the errors of the subsets, which are independent.
        """
        correlation, parts, weights = self._parts(metric)
        each = [standard_error(similarities[p], self.scores[p], correlation) for p in parts]
        return float(np.linalg.norm(weights * each))

    def _metrics(self) -> list[str]:
        means = ("", "_mean", "_weighted_mean") if self.subsets else ("",)
        whole = [f"{metric}{mean}" for mean in means for metric in METRICS]
        return whole + [f"{subset}/{metric}" for subset in self.subsets for metric in METRICS]

    def _parts(self, metric: str) -> tuple[str, list[NDArray[np.int64]], Floats]:
        """Return a metric's correlation, the rows of each of its parts, and the parts' weights."""
        if metric not in self._metrics():
            raise InvalidValue("metric", metric, f"choose one of {', '.join(self._metrics())}")
        subset, _, name = metric.rpartition("/")
        correlation, _, mean = name.partition("_")
        whole = self.subsets[subset] if subset else np.arange(len(self.scores))
        parts = list(self.subsets.values()) if mean else [whole]
        sizes = np.array([len(part) if mean == "weighted_mean" else 1 for part in parts])
        return correlation, parts, sizes / sizes.sum()

    def _correlate(self, found: Result, name: str, similarities: Floats, scores: Floats) -> None:
        if add_correlations(found, f"{name}/", similarities, scores):
            what = "all similarities are the same"
            if not np.isfinite(similarities).all():
                what = "some similarities are not finite"
            elif np.ptp(scores) == 0:
                what = "all scores are the same"
            found.skipped[name] = f"{what}: undefined correlations count as 0"


def add_correlations(found: Result, prefix: str, similarities: Floats, scores: Floats) -> list[str]:
    """Add both correlations of similarities with scores, [N] each, with 0 for undefined ones.

    Returns:
        The names of the undefined metrics.
    """
    undefined = []
    for metric in METRICS:
        value = correlations(similarities[None], scores, metric)[0]
        found.metrics[f"{prefix}{metric}"] = float(np.nan_to_num(value))
        if np.isnan(value):
            undefined.append(f"{prefix}{metric}")
    return undefined


def correlations(similarities: Floats, scores: Floats, metric: str) -> Floats:
    """Return the correlation of each row of similarities [V, N] with the scores [N], [V].

    It is NaN if undefined. For ``spearman``, equal values have the mean of their ranks.
    """
    rows = np.asarray(similarities, dtype=np.float64)
    if metric == "spearman":
        rankdata = scipy.stats.rankdata
        rows, scores = rankdata(rows, axis=1), rankdata(scores)
    found: Floats = np.clip(_unit(rows) @ _unit(scores[None])[0], -1, 1)
    return found


def standard_error(similarities: Floats, scores: Floats, metric: str) -> float:
    """Return the bootstrap standard error of a correlation over pairs, for [N] similarities.

    It does not include the variance over seeds.
    """
    return float(bootstraps(similarities[None], scores, metric).std(ddof=1))


def bootstraps(similarities: Floats, scores: Floats, metric: str) -> Floats:
    """Return the correlations of [V, N] with [N] on bootstraps of the pairs, [V, DRAWS].

    All variants share the bootstraps; undefined correlations are 0.
    """
    random, pairs = np.random.default_rng(0), len(scores)
    draws = (random.integers(0, pairs, pairs) for _ in range(DRAWS))
    found = [correlations(similarities[:, draw], scores[draw], metric) for draw in draws]
    return np.nan_to_num(np.stack(found, axis=1))


def _unit(rows: Floats) -> Floats:
    """Return rows [V, N] with mean 0 and length 1, NaN if constant or not finite.

    Rows are divided by their largest value first, because squares of values below 1e-154 underflow.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        constant = np.ptp(rows, axis=1, keepdims=True) == 0
        centred = rows - rows.mean(axis=1, keepdims=True)
        scaled = centred / np.abs(centred).max(axis=1, keepdims=True)
        scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.where(constant, np.nan, scaled)
