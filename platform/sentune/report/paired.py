"""Paired significance tests of two models on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from numpy.typing import NDArray

from sentune.report.sweep_figures import read_artifact

HITS_FILE = "test_hits.json"
"""Artifact of a study: ``task/accuracy`` -> the model's hit on each test item."""

Floats = NDArray[np.float64]
Hits = Floats
"""Score of each of N items, shape [N]: 1 if right, 0 if wrong, 1/2 for a tie."""


@dataclass(frozen=True)
class PairedTest:
    """Difference of a metric between a model and another model or a rule on the same items.

    Attributes:
        difference: metric of the model minus that of the other.
        standard_error: standard error of the difference.
        better, worse: number of items on which the model scores higher, lower than the other; for
            correlations, number of bootstraps.
        items: number of items.
        p: p value of the two-sided exact sign test, which is McNemar's for accuracies; for
            correlations, the two-sided bootstrap p value.
    """

    difference: float
    standard_error: float
    better: int
    worse: int
    items: int
    p: float

    @classmethod
    def of(cls, model: Hits, other: Hits) -> PairedTest:
        """Return the test on the hits of both, each of shape [N]."""
        each = model - other
        better, worse = int((each > 0).sum()), int((each < 0).sum())
        p = float(scipy.stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
        error = float(scipy.stats.sem(each)) if len(each) > 1 else 0.0
        return cls(float(each.mean()), error, better, worse, len(each), p)

    @classmethod
    def of_bootstraps(
        cls, difference: float, model: Floats, other: Floats, items: int
    ) -> PairedTest:
        """Return the test on the metrics of both on the same B bootstraps, each of shape [B]."""
        each = model - other
        better, worse = int((each > 0).sum()), int((each < 0).sum())
        p = min(1.0, 2 * (1 + len(each) - max(better, worse)) / (1 + len(each)))
        return cls(difference, float(each.std(ddof=1)), better, worse, items, p)


def stored_hits(folder: Path | None) -> dict[str, Hits]:
    """Return ``task/accuracy`` -> hits on test from a study's artifacts; empty without the file.

    Raises:
        InvalidValue: the file is damaged.
    """
    content = read_artifact(folder / HITS_FILE) if folder is not None else {}
    return {metric: np.array(hits, dtype=np.float64) for metric, hits in content.items()}
