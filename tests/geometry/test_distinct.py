"""The most distinct interpretations of a sentence, against one box at a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry import Boxes
from sentune.geometry.interpretations import distinct
from sentune.geometry.interpretations.coverage import covered
from sentune.geometry.interpretations.distinct import most_distinct

D = 8
BOXES = Boxes(0.1)


def embeddings(rows: int) -> Tensor:
    return torch.randn(rows, D, dtype=torch.float64) * 0.5


def pack(*sides: tuple[float, float]) -> Tensor:
    """A box by the (low, high) of each dimension."""
    low, high = torch.tensor(sides, dtype=torch.float64).T
    return torch.cat(((low + high) / 2, ((high - low) / 2 - 1e-4).expm1().log() - 1))


def by_hand(sentence: Tensor, references: Tensor, rows: list[int], k: int) -> list[int]:
    """Farthest first, with every similarity computed on its own; rows by falling coverage."""
    own = BOXES.corners(sentence)
    parts = {row: BOXES.intersect(own, BOXES.corners(references[row])) for row in rows}

    def similarity(i: int, j: int) -> float:
        both = BOXES.log_overlap(parts[i], parts[j])
        shares = [float((both - BOXES.log_volume(parts[row])).exp()) for row in (i, j)]
        return sum(shares) / 2

    chosen = rows[:1]
    while len(chosen) < k:
        left = [row for row in rows if row not in chosen]
        chosen.append(min(left, key=lambda row: max(similarity(row, one) for one in chosen)))
    return chosen


def test_farthest_first_among_those_between_the_alphas() -> None:
    sentence, references = embeddings(1)[0], embeddings(60)
    (kept,) = covered(BOXES, sentence[None], references, 0.2)
    inside = [
        (-value, row)
        for row, value in zip(kept.rows.tolist(), kept.coverage.tolist(), strict=True)
        if value < 0.6
    ]
    rows = [row for _, row in sorted(inside)]
    assert 6 < len(rows) < len(kept.rows)
    found = most_distinct(BOXES, sentence, references, 5, 0.2, 0.6)
    assert [one.row for one in found.chosen] == by_hand(sentence, references, rows, 5)
    assert found.between == len(rows)
    assert found.chosen[0].coverage == found.largest == -min(inside)[0]


def test_corners_of_a_square_are_told_apart() -> None:
    """Four references each hold a quarter of the square; the fifth is nearly the first again."""
    square = pack((0, 10), (0, 10))
    quarters = [((0, 5), (0, 5)), ((0, 5), (5, 10)), ((5, 10), (0, 5)), ((5, 10), (5, 10))]
    references = torch.stack([pack(*q) for q in [((0, 5.2), (0, 5.2)), *quarters]])
    found = most_distinct(Boxes(0.01), square, references, 4, 0.1, 0.9)
    assert found.chosen[0].row == 0
    assert {one.row for one in found.chosen} == {0, 2, 3, 4}
    assert max(one.similarity for one in found.chosen) < 0.1
    every = most_distinct(Boxes(0.01), square, references, 9, 0.1, 0.9)
    again = {one.row: one.similarity for one in every.chosen}
    assert len(again) == 5
    assert again[1] == again[0] > 0.9


def test_none_between_the_alphas_says_how_low_alpha_1_would_have_to_be() -> None:
    sentence, references = embeddings(1)[0], embeddings(30)
    found = most_distinct(BOXES, sentence, references, 3, 0.999, 1.0)
    assert found.chosen == ()
    assert found.between == 0
    assert found.largest is not None
    lower = most_distinct(BOXES, sentence, references, 3, found.largest - 1e-9, 1.0)
    assert len(lower.chosen) == 1
    assert math.isnan(lower.chosen[0].similarity)
    assert most_distinct(BOXES, sentence, references[:0], 3, None, 1.0).largest is None


def test_without_alpha_1_those_that_cover_most_are_in_question() -> None:
    sentence, references = embeddings(1)[0], embeddings(90)
    found = most_distinct(BOXES, sentence, references, 2, None, 1.0)
    (kept,) = covered(BOXES, sentence[None], references, found.alpha_1)
    assert found.between == len(kept.rows) == 2 * distinct.POOL
    assert most_distinct(BOXES, sentence, references, 90, None, 1.0).alpha_1 == 0
    same = references[:1].expand(90, -1)
    assert most_distinct(BOXES, sentence, same, 2, None, 1.0).between == 90


def test_only_so_many_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "CANDIDATES", 4)
    sentence, references = embeddings(1)[0], embeddings(50)
    (kept,) = covered(BOXES, sentence[None], references, 0.01)
    most = kept.rows[kept.coverage.argsort(descending=True)[:4]].tolist()
    found = most_distinct(BOXES, sentence, references, 9, 0.01, 1.0)
    assert sorted(one.row for one in found.chosen) == sorted(most)
    assert found.between == len(kept.rows)


@pytest.mark.parametrize(("k", "low", "high"), [(0, 0.1, 0.9), (3, 0.5, 0.5), (3, 0.9, 0.1)])
def test_what_cannot_be(k: int, low: float, high: float) -> None:
    with pytest.raises(InvalidValue, match=r"^(k|alpha_1):"):
        most_distinct(BOXES, embeddings(1)[0], embeddings(5), k, low, high)
