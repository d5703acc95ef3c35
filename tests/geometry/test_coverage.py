"""Coverage of sentences by references, against all pairs at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentune.geometry import Boxes
from sentune.geometry.interpretations import coverage
from sentune.geometry.interpretations.coverage import Kept, covered

D = 8


def embeddings(rows: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, D, dtype=dtype) * torch.rand(rows, 1, dtype=dtype) * 2


def by_hand(boxes: Boxes, sentence: Tensor, references: Tensor) -> Tensor:
    """[R]: one intersection and one volume at a time."""
    own = boxes.corners(sentence)
    overlaps = [boxes.intersect(own, boxes.corners(row)) for row in references]
    logs = torch.stack([boxes.log_volume(overlap) for overlap in overlaps])
    return (logs - boxes.log_volume(own)).clamp(max=0).exp()


def same(one: Kept, other: Kept) -> bool:
    return torch.equal(one.rows, other.rows) and torch.equal(one.coverage, other.coverage)


@pytest.mark.parametrize("intersection", ["gumbel", "hard"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_one_pair_at_a_time(intersection: str, dtype: torch.dtype) -> None:
    boxes = Boxes(0.1, intersection=intersection)
    sentences, references = embeddings(7, dtype), embeddings(40, dtype)
    sizes = []
    for sentence, kept in zip(sentences, covered(boxes, sentences, references, 0.2), strict=True):
        wanted = by_hand(boxes, sentence, references)
        assert kept.coverage.dtype == dtype
        assert kept.rows.dtype == torch.int64
        assert kept.rows.tolist() == (wanted > 0.2).nonzero().flatten().tolist()
        torch.testing.assert_close(kept.coverage, wanted[kept.rows])
        sizes.append(len(kept.rows))
    assert 0 < sum(sizes) < 7 * 40


@pytest.mark.parametrize("chunk", [1, 41, 130, 10_000])
def test_blocks_change_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hard boxes, whose entries do not depend on what else is in the table."""
    boxes = Boxes(0.1, intersection="hard")
    sentences, references = embeddings(9), embeddings(40)
    whole = list(covered(boxes, sentences, references, 0.1))
    monkeypatch.setattr(coverage, "TABLE", max(1, chunk // 2))
    monkeypatch.setattr(coverage, "PAIRS", chunk)
    in_blocks = list(covered(boxes, sentences, references, 0.1))
    assert all(same(one, other) for one, other in zip(whole, in_blocks, strict=True))
    assert sum(len(kept.rows) for kept in whole) > 20


def test_a_coverage_of_exactly_the_bound_is_left_out() -> None:
    """Whatever the shape of the tables, a hard box that holds another covers exactly all of it."""
    boxes = Boxes(0.1, intersection="hard")
    inside = embeddings(50)
    around = inside.clone()
    around[:, D // 2 :] += torch.rand(50, D // 2)
    for row in range(50):
        for others in (around[row : row + 1], around, around[: row + 1]):
            (kept,) = covered(boxes, inside[row : row + 1], others, 0.99)
            place = (kept.rows == min(row, len(others) - 1)).nonzero().flatten()
            assert kept.coverage[place].tolist() == [1.0]
    (kept,) = covered(boxes, inside[:1], around[:1], 1.0)
    assert not len(kept.rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gumbel_coverage_is_below_1(dtype: torch.dtype) -> None:
    """However much larger the reference is: the exact number is below 1."""
    around = torch.tensor([[0.0, 0.0, 50.0, 50.0]], dtype=dtype)
    inside = torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=dtype)
    (kept,) = covered(Boxes(0.1), inside, around, 0.99)
    assert kept.coverage.tolist() == [1 - torch.finfo(dtype).eps / 2]


def test_the_bound_is_rounded_as_the_coverages_are() -> None:
    boxes = Boxes(0.1)
    sentences, references = embeddings(1), embeddings(1)
    (kept,) = covered(boxes, sentences, references, 0.0)
    value = float(kept.coverage[0])
    nearer = value + 0.2 * (float(torch.nextafter(kept.coverage, torch.tensor(0.0))[0]) - value)
    (kept,) = covered(boxes, sentences, references, nearer)
    assert not len(kept.rows)


def test_nothing_to_look_at() -> None:
    boxes, rows = Boxes(0.1), embeddings(3)
    assert list(covered(boxes, rows[:0], rows, 0.1)) == []
    for some in (boxes, Boxes(0.1, intersection="hard")):
        found = list(covered(some, rows, rows[:0], 0.1))
        assert [len(kept.rows) for kept in found] == [0, 0, 0]
        assert {kept.coverage.dtype for kept in found} == {torch.float32}


def test_tables_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    table = Boxes.log_overlap_table

    def noted(self: Boxes, *sides: object) -> Tensor:
        found = table(self, *sides)  # type: ignore[arg-type]
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(Boxes, "log_overlap_table", noted)
    monkeypatch.setattr(coverage, "TABLE", 64)
    monkeypatch.setattr(coverage, "PAIRS", 200)
    assert len(list(covered(Boxes(0.1), embeddings(50), embeddings(100), 0.5))) == 50
    assert max(sizes) <= 64
    assert sum(sizes) == 5000
