from __future__ import annotations

import pytest
import torch

from sentune.geometry import Points
from tests.rounding import rounding


def test_table_is_the_cosine_of_every_pair():
    x, y = torch.randn(4, 7, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)
    table = Points().entails_table(x, y)
    for i in range(4):
        for j in range(3):
            expected = torch.cosine_similarity(x[i], y[j], dim=0)
            assert float(table[i, j]) == pytest.approx(float(expected), rel=0, abs=rounding(7))


def test_entails_is_the_diagonal_and_knows_no_direction():
    x, y = torch.randn(5, 7), torch.randn(5, 7)
    points = Points()
    torch.testing.assert_close(points.entails(x, y), points.entails_table(x, y).diagonal())
    assert torch.equal(points.direction(x, y), torch.zeros(5))
    assert torch.equal(points.extent(x), torch.zeros(5))


def test_stays_within_one_even_where_rounding_would_not():
    x = torch.randn(2000, 3)
    assert Points().entails(x, 3 * x).max() <= 1


def test_autocast_does_not_narrow_it():
    x = torch.randn(6, 384)
    exact = Points().entails_table(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(Points().entails_table(x, x), exact)
