"""Surfaces to be searched: GaussCSE's Table 3 with a stated law of curves, and recorded ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, wilcoxon

from benchmarks.curves import Curves, PowerLaw, Recorded
from sentune.study.schedulers import default_first_rung
from sentune.study.space.space import Choice, SearchSpace

# Sentence Representations via Gaussian Embedding, Table 3: batch size -> learning rate -> AUC.
TABLE_3 = {
    16: {1e-5: 0.6439, 3e-5: 0.6602, 5e-5: 0.6700},
    32: {1e-5: 0.6321, 3e-5: 0.6523, 5e-5: 0.6597},
    64: {1e-5: 0.6079, 3e-5: 0.6413, 5e-5: 0.6527},
    128: {1e-5: 0.5993, 3e-5: 0.6272, 5e-5: 0.6360},
    256: {1e-5: 0.5886, 3e-5: 0.6150, 5e-5: 0.6252},
}
BUDGET = 900_000
BEST = max(max(row.values()) for row in TABLE_3.values())
SPACE = SearchSpace(
    method="gauss",
    objective="rte/auc",
    settings={"batch_size": Choice(*TABLE_3), "learning_rate": Choice(1e-5, 3e-5, 5e-5)},
)
ETA = 3
GRID = len(TABLE_3) * 3 * BUDGET
NEAR = 0.005
"""Of the best value of a recorded surface: about what a seed moves."""

FOLDER = Path(__file__).parent / "recorded"


def final(settings: Mapping[str, Any]) -> float:
    """The paper's value of a cell."""
    return TABLE_3[settings["batch_size"]][settings["learning_rate"]]


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A grid, its curves by the seed of a search, and how far a point's end is below the best.

    A point that is below it by at most ``near`` is good enough. ``first``: the first rung is the
    budget divided by it; 0: that of a study whose first point has the smallest batch.
    """

    name: str
    space: SearchSpace
    budget: int
    curves: Callable[[int], Curves]
    loss: Callable[[Mapping[str, Any]], float]
    near: float = 0.0
    first: int = 0

    @property
    def first_rung(self) -> int:
        """Examples at which trials are first compared."""
        if self.first:
            return self.budget // self.first
        return default_first_rung(self.budget, ETA, min(self.choices["batch_size"].values))

    @property
    def grid(self) -> int:
        """Examples of all of its points."""
        return self.budget * (self.space.size or 0)

    @property
    def choices(self) -> dict[str, Choice]:
        """Its settings and their values."""
        return {n: d for n, d in self.space.settings.items() if isinstance(d, Choice)}

    def good(self, settings: Mapping[str, Any]) -> bool:
        """Return whether a point is good enough."""
        return self.loss(settings) <= self.near


def table_3(title: str = "GaussCSE, Table 3", **shape: float) -> Surface:
    """GaussCSE's Table 3; ``shape``: fields of ``PowerLaw``, whose noise a search's seed draws."""
    return Surface(
        name=title,
        space=SPACE,
        budget=BUDGET,
        curves=lambda seed: PowerLaw(final=final, budget=BUDGET, seed=seed, **shape),
        loss=lambda settings: BEST - final(settings),
    )


def recorded(file: Path) -> Surface:
    """A surface that ``record_surface.py`` has written; a seed changes the search alone."""
    content = json.loads(gzip.decompress(file.read_bytes()))
    curves = {
        point: {int(at): value for at, value in curve.items()}
        for point, curve in content["curves"].items()
    }
    points, budget = [json.loads(point) for point in curves], content["budget"]
    axes = {name: Choice(*sorted({point[name] for point in points})) for name in points[0]}
    held = Recorded(points=curves)
    best = max(curve[budget] for curve in curves.values())
    return Surface(
        name=file.name.removesuffix(".json.gz"),
        space=replace(SPACE, objective=content["objective"], settings=axes),
        budget=budget,
        curves=lambda _: held,
        loss=lambda settings: best - held.value(settings, budget),
        near=NEAR,
    )


def surfaces() -> Iterator[Surface]:
    """Table 3, and every surface that is recorded."""
    yield table_3()
    yield from map(recorded, sorted(FOLDER.glob("*.json.gz")))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics."""
    ordered, low = sorted(values), int(binom.ppf(0.025, len(values), 0.5))
    return ordered[max(0, low - 1)], ordered[min(len(values) - 1, len(values) - low)]


def paired(differences: Sequence[float]) -> str:
    """Their mean with a 95 % confidence interval, and the p of Wilcoxon's signed-rank test."""
    found = np.asarray(differences)
    half = 1.96 * found.std(ddof=1) / len(found) ** 0.5
    p = wilcoxon(found).pvalue if found.any() else 1.0
    return (
        f"{found.mean():+.2f} ({found.mean() - half:+.2f} to {found.mean() + half:+.2f}), p {p:.2g}"
    )
