from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentune.errors import InvalidValue
from sentune.geometry import Boxes, Corners
from tests.rounding import rounding

KINDS = [
    Boxes(0.1),
    Boxes(0.1, chunk=7),
    Boxes(0.1, 0.5),
    Boxes(0.1, intersection="hard"),
]


def embeddings(count: int, d: int = 4, spread: float = 0.5) -> torch.Tensor:
    return torch.randn(count, 2 * d, dtype=torch.float64) * spread


@pytest.mark.parametrize("boxes", KINDS)
def test_table_is_the_probability_of_each_pair(boxes):
    x, y = embeddings(5), embeddings(3)
    table = boxes.entails_table(x, y)
    sides = [corner for z in (x, y) for corner in boxes.corners(z)]
    # logarithms of d sides in units of the temperature, of the intersection and of the premise
    error = rounding(4, 2 * 4 * 2 * float(torch.cat(sides).abs().max()) / 0.1)
    for i in range(5):
        for j in range(3):
            p, h = boxes.corners(x[i : i + 1]), boxes.corners(y[j : j + 1])
            both = boxes.log_volume(boxes.intersect(p, h))
            expected = (both - boxes.log_volume(p)).exp().item()
            assert table[i, j].item() == pytest.approx(expected, rel=error)
    there, back = boxes.entails_tables(x, y)
    assert torch.equal(there, table)
    torch.testing.assert_close(back, boxes.entails_table(y, x).T, rtol=error, atol=0)
    torch.testing.assert_close(boxes.entails(x[:3], y), table[:3].diagonal())


@settings(max_examples=200)
@given(
    temperature=st.floats(1e-5, 1.0),
    spread=st.floats(0.01, 30),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    intersection=st.sampled_from(["gumbel", "hard"]),
    seed=st.integers(0, 10**6),
)
def test_probabilities_are_probabilities(temperature, spread, dtype, intersection, seed):
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(4, 6, generator=generator, dtype=torch.float64) * spread).to(dtype)
    boxes = Boxes(temperature, intersection=intersection)
    table = boxes.entails_table(x, x)
    assert ((table >= 0) & (table <= 1)).all()
    assert torch.isfinite(boxes.extent(x)).all()


@settings(max_examples=200)
@given(temperature=st.floats(0.01, 1.0), seed=st.integers(0, 10**6))
def test_the_smaller_box_entails(temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    p, h = torch.randn(2, 1, 8, generator=generator, dtype=torch.float64).unbind(0)
    boxes = Boxes(temperature)
    forward, backward = boxes.log_entails(p, h), boxes.log_entails(h, p)
    assert bool(forward > backward) == bool(boxes.extent(p) < boxes.extent(h))
    direction = boxes.direction(p, h)
    torch.testing.assert_close(direction, forward - backward, rtol=1e-9, atol=1e-9)
    assert not boxes.entailing_is_larger()


def test_direction_is_told_where_both_probabilities_underflow():
    p, h = torch.zeros(1, 32), torch.zeros(1, 32)
    h[:, :16] += 50
    h[:, 16:] += 1
    boxes = Boxes(0.1)
    assert boxes.entails(p, h).item() == 0
    assert boxes.direction(p, h).item() > 1


@pytest.mark.parametrize(
    ("side", "probability"), [(10, 0.07), (30, 0.45), (100, 0.80), (1000, 0.98)]
)
def test_gumbel_intersection_is_not_idempotent_and_the_hard_one_is(side, probability):
    box = Corners(torch.zeros(1, 16), torch.full((1, 16), side * 0.1))
    for boxes, expected in ((Boxes(0.1), probability), (Boxes(0.1, intersection="hard"), 1.0)):
        kept = (boxes.log_overlap(box, box) - boxes.log_volume(box)).exp().item()
        assert kept == pytest.approx(expected, abs=0.006)


def test_boxes_overlap_at_the_start_and_a_wild_offset_keeps_a_side():
    boxes = Boxes(0.1)
    assert boxes.entails(torch.zeros(1, 32), torch.zeros(1, 32)).item() > 0.3
    raw = torch.tensor([[0.0, -200.0]], requires_grad=True)
    lower, upper = boxes.corners(raw)
    assert (upper - lower).item() >= 1e-4


def test_half_precision_is_widened():
    x = embeddings(6).to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        table = Boxes(0.1).entails_table(x, x)
    assert table.dtype == torch.float32
    assert torch.equal(table, Boxes(0.1).entails_table(x.float(), x.float()))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"intersection_temperature": 0.0}, "intersection_temperature"),
        ({"intersection_temperature": 1.0, "volume_temperature": -1.0}, "volume_temperature"),
        ({"intersection_temperature": 1.0, "intersection": "soft"}, "intersection"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, field):
    with pytest.raises(InvalidValue, match=field):
        Boxes(**arguments)
    with pytest.raises(InvalidValue, match="even"):
        Boxes(1.0).corners(torch.zeros(2, 3))
