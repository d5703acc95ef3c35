"""Two models on the same items: the items that each got right, and whether they differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from numpy.typing import NDArray

from sentune.report.sweep_figures import read_exhibit

HITS_FILE = "test_hits.json"
"""Of a study's artifacts: ``task/accuracy`` -> how right its model was on each item of test."""

Floats = NDArray[np.float64]
Hits = Floats
"""[N], how right each of N items is: 1, 0, or 1/2 for a tie."""


@dataclass(frozen=True)
class PairedTest:
    """The difference of the metrics of a model and another, or a rule, on the same items.

    Attributes:
        standard_error: of the difference, over the items.
        better, worse: items on which the model is more, less right than the other; of correlations
            bootstraps of the items on which its own is higher, lower.
        p: of the two-sided exact sign test, for accuracies McNemar's; of correlations the
            bootstraps', two-sided.
    """

    difference: float
    standard_error: float
    better: int
    worse: int
    items: int
    p: float

    @classmethod
    def of(cls, model: Hits, other: Hits) -> PairedTest:
        """Compare two lists of N hits."""
        each = model - other
        better, worse = int((each > 0).sum()), int((each < 0).sum())
        p = float(scipy.stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
        error = float(scipy.stats.sem(each)) if len(each) > 1 else 0.0
        return cls(float(each.mean()), error, better, worse, len(each), p)

    @classmethod
    def of_bootstraps(
        cls, difference: float, model: Floats, other: Floats, items: int
    ) -> PairedTest:
        """Compare two metrics by their values on the same B bootstraps of N items."""
        each = model - other
        better, worse = int((each > 0).sum()), int((each < 0).sum())
        p = min(1.0, 2 * (1 + len(each) - max(better, worse)) / (1 + len(each)))
        return cls(difference, float(each.std(ddof=1)), better, worse, items, p)


def stored_hits(folder: Path | None) -> dict[str, Hits]:
    """Return ``task/accuracy`` -> hits on test, of a study's artifacts; none where it has none.

    Raises:
        InvalidValue: they are damaged.
    """
    if folder is None or not (folder / HITS_FILE).is_file():
        return {}
    content = read_exhibit(folder / HITS_FILE)
    return {metric: np.array(hits, dtype=np.float64) for metric, hits in content.items()}
