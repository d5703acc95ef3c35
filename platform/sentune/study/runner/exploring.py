"""A setting changed a little, as population-based training explores.

Jaderberg et al. 2017, appendix A.1.1: a number is multiplied by 0.8 or 1.2, or drawn anew with a
probability of 0.25.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sentune.study.space.domains import Choice, Dimension, Value
from sentune.study.space.space import SearchSpace

FACTORS = (0.8, 1.2)
RESAMPLED = 0.25


def explored(
    point: Mapping[str, Value], space: SearchSpace, rng: np.random.Generator
) -> dict[str, Value]:
    """The point with its live settings changed, all others as they are.

    Args:
        point: active settings.
        space: what may be taken.
        rng: two or three numbers are drawn for each live setting.
    """

    def value(name: str, dimension: Dimension) -> Value:
        if name not in space.live and name in point:
            return point[name]
        if name not in point or rng.random() < RESAMPLED:
            return dimension.at(float(rng.random()))
        return perturbed(point[name], dimension, rng)

    return space.draw(value)


def perturbed(value: Value, dimension: Dimension, rng: np.random.Generator) -> Value:
    """A fifth less or more within the dimension; for a choice a neighbour of the value."""
    place = int(rng.integers(2))
    if isinstance(dimension, Choice):
        values = dimension.values
        return values[min(max(values.index(value) + 2 * place - 1, 0), len(values) - 1)]
    assert isinstance(value, int | float)
    return dimension.nearest(value * FACTORS[place])
