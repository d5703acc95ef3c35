"""Cells of coverage against the two inequalities they stand for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentune.errors import InvalidValue
from sentune.readouts.cells import Cells

TENTHS = [round(0.1 * i, 1) for i in range(1, 11)]
shares = st.one_of(st.floats(0, 1), st.sampled_from(TENTHS))


@given(st.lists(shares, min_size=2, max_size=6, unique=True), st.lists(shares, max_size=20))
def test_both_inequalities_are_strict(edges: list[float], values: list[float]) -> None:
    cells, coverage = Cells(edges), np.array(values + edges)
    found = cells.of(coverage)
    assert found.min() >= 0
    assert found.max() < cells.count == 2 * len(edges) + 1
    for low, high in combinations(sorted(edges), 2):
        block = cells.between(low, high)
        inside = (found >= block.start) & (found < block.stop)
        np.testing.assert_array_equal(inside, (low < coverage) & (coverage < high))


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=20))
def test_float32_compares_as_torch_does(values: list[float]) -> None:
    coverage = torch.tensor(values + TENTHS, dtype=torch.float32)
    found = Cells(TENTHS).of(coverage.numpy())
    for low, high in combinations(TENTHS, 2):
        block = Cells(TENTHS).between(low, high)
        inside = (found >= block.start) & (found < block.stop)
        wanted = (coverage > low) & (coverage < high)
        np.testing.assert_array_equal(inside, wanted.numpy())


def test_the_order_of_the_cells() -> None:
    cells = Cells([0.5, 0.2, 0.5])
    assert cells.count == 5
    found = cells.of(np.array([0.1, 0.2, 0.3, 0.5, 0.6]))
    assert found.tolist() == [0, 1, 2, 3, 4]
    assert found.dtype == np.int16
    assert cells.between(0.2, 0.5) == slice(2, 3)


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.2), (0.2, 0.2), (0.3, 0.5), (0.2, 0.7)])
def test_alphas_that_cannot_be(low: float, high: float) -> None:
    with pytest.raises(InvalidValue, match="alpha_"):
        Cells([0.2, 0.5]).between(low, high)


@pytest.mark.parametrize("edges", [[], [float("nan")], [0.1, float("inf")]])
def test_edges_that_cannot_be(edges: list[float]) -> None:
    with pytest.raises(InvalidValue, match="alphas"):
        Cells(edges)
