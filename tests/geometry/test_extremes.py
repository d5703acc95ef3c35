"""Extremes over interpretations, and the bounds that skip entries, against slow loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.interpretations import bounded_search
from sentune.geometry.interpretations import extremes as extremes_module
from sentune.geometry.interpretations.bounded_search import Side, every_entry, smallest
from sentune.geometry.interpretations.bounds import planes_above, planes_below
from sentune.geometry.interpretations.coverage import Kept
from sentune.geometry.interpretations.extremes import Interpretations, extremes
from sentune.geometry.interpretations.groups import Groups
from tests.rounding import rounding

EXAMPLES = settings(max_examples=25, deadline=None)
GROUPS = Groups(cells=3, prefixes=2)
GEOMETRIES = {
    "gumbel": Boxes(0.1),
    "narrow": Boxes(0.005),
    "untied": Boxes(0.1, 0.3),
    "hard": Boxes(0.1, intersection="hard"),
}


def random_boxes(count: int, d: int, spread: float, dtype: torch.dtype = torch.float64) -> Corners:
    center = torch.randn(count, d, dtype=dtype) * spread
    half = 1 + torch.rand(count, d, dtype=dtype)
    return Corners(center - half, center + half)


def direct(boxes: Boxes, first: Corners, second: Corners) -> Tensor:
    """[n, m] log P(second_j | first_i) before the clamp."""
    rows = Corners(first.lower[:, None], first.upper[:, None])
    columns = Corners(second.lower[None], second.upper[None])
    return boxes.log_volume(boxes.intersect(rows, columns)) - boxes.log_volume(rows)


class Scene:
    """Sentences, references, and groups of the kept ones drawn at random."""

    def __init__(self, d: int, sentences: int, references: int, kept: list[int], spread: float):
        self.sentences = random_boxes(sentences, d, spread)
        self.references = random_boxes(references, d, spread)
        self.kept = [
            Kept(torch.randperm(references)[:k].sort().values, torch.rand(k)) for k in kept
        ]
        self.groups = [torch.randint(0, GROUPS.own, (k,)) for k in kept]
        pending = iter(self.groups)
        self.interpretations = Interpretations.of(
            self.sentences, self.references, self.kept, lambda _: next(pending), GROUPS.own
        )

    def sets(self, boxes: Boxes, sentence: int, prefix: int, low: int, high: int) -> Corners:
        """U of a sentence, box by box; its own box where it is empty."""
        own = [corner[sentence] for corner in self.sentences]
        rows = [
            row
            for row, group in zip(self.kept[sentence].rows, self.groups[sentence], strict=True)
            if low <= group // 2 <= high and group % 2 <= prefix
        ]
        found = [
            boxes.intersect(Corners(*own), Corners(*(c[row] for c in self.references)))
            for row in rows
        ] or [Corners(*own)]
        return Corners(*(torch.stack(side) for side in zip(*found, strict=True)))

    def slow(self, boxes: Boxes, pair: tuple[int, int], prefix: int, low: int, high: int):
        u_p, u_h = (self.sets(boxes, s, prefix, low, high) for s in pair)
        table = direct(boxes, u_p, u_h).clamp(max=0)
        return float(table.min()), float(table.max())


def sweep(scene: Scene, boxes: Boxes, pairs: list[tuple[int, int]]):
    """(pair, prefix, low, high) -> smallest and largest log P."""
    premises, hypotheses = (torch.tensor(side) for side in zip(*pairs, strict=True))
    low, high = extremes(boxes, scene.interpretations, premises, hypotheses, GROUPS)
    low, high = GROUPS.minima(low), -GROUPS.minima(-high)
    empty = (GROUPS.sizes(scene.interpretations.sizes(GROUPS.count)) == 0).long()
    for k, (p, h) in enumerate(pairs):
        for f, a, b in product(range(2), range(3), range(3)):
            if a <= b:
                place = (k, empty[p, f, a, b], empty[h, f, a, b], f, a, b)
                yield (k, f, a, b), (float(low[place]), float(high[place]))


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize(("few", "many"), [(0, 0), (0, 2**18), (40, 100), (2**13, 2**18)])
def test_every_set_against_a_loop(name, few, many, monkeypatch):
    """By bounds, by tables, each for some, and all pairs at once; with empty sets."""
    monkeypatch.setattr(extremes_module, "FEW", few)
    monkeypatch.setattr(extremes_module, "MANY", many)
    monkeypatch.setattr(bounded_search, "COLUMNS", 7)
    monkeypatch.setattr(bounded_search, "CHUNK", 30)
    boxes, pairs = GEOMETRIES[name], [(0, 1), (2, 0), (3, 3), (1, 3)]
    scene = Scene(5, 4, 30, [20, 9, 0, 3], spread=0.4)
    checked = 0
    for (k, f, a, b), found in sweep(scene, boxes, pairs):
        expected = scene.slow(boxes, pairs[k], f, a, b)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        checked += 1
    assert checked == 4 * 2 * 6


@EXAMPLES
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(GEOMETRIES)),
    d=st.integers(1, 8),
    spread=st.floats(0.01, 3),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
)
def test_skipping_changes_nothing(seed, name, d, spread, rows, columns):
    torch.manual_seed(seed)
    boxes, groups = GEOMETRIES[name], Groups(2, 2)

    def side(count: int) -> Side:
        return Side(random_boxes(count, d, spread), torch.randint(0, 5, (count,)).sort().values)

    first, second = side(rows), side(columns)
    values = direct(boxes, first.corners, second.corners)
    tables = every_entry(boxes, first, second, groups)
    for sign, everything in zip((1, -1), tables, strict=True):
        expected = torch.full((5, 5), torch.inf, dtype=torch.float64)
        for i, j in np.ndindex(rows, columns):
            a, b = first.groups[i], second.groups[j]
            expected[a, b] = torch.minimum(expected[a, b], sign * values[i, j])
        torch.testing.assert_close(everything, expected, rtol=1e-9, atol=1e-9)
        found = smallest(boxes, first, second, groups, sign=sign)
        torch.testing.assert_close(
            groups.minima(found).triu(), groups.minima(expected).triu(), rtol=1e-9, atol=1e-9
        )


@EXAMPLES
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(GEOMETRIES)),
    spread=st.floats(0, 5),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_no_entry_leaves_its_planes(seed, name, spread, dtype):
    torch.manual_seed(seed)
    boxes = GEOMETRIES[name]
    rows, columns = random_boxes(6, 4, 1.0, dtype), random_boxes(9, 4, spread, dtype)
    wide = [Corners(*(corner.double() for corner in side)) for side in (rows, columns)]
    exact = direct(boxes, *wide) + boxes.log_volume(wide[0])[:, None]
    for make, sign in ((planes_below, 1), (planes_above, -1)):
        planes = make(boxes, rows, columns)
        bound = planes.slopes @ planes.distances(columns) + planes.value[:, None]
        distance = sign * (exact - bound) + planes.slack(columns)[:, None]
        assert distance.min() >= -rounding(4, exact.abs().max())


def test_most_entries_are_skipped(monkeypatch):
    """Of interpretations that cover half of their sentences, as those of a trained model do."""
    boxes, count = Boxes(0.05), 400
    computed = 0

    def counted(*arguments):
        nonlocal computed
        computed += len(arguments[1])
        return original(*arguments)

    original = bounded_search.overlaps
    monkeypatch.setattr(bounded_search, "overlaps", counted)
    sentences = random_boxes(2, 8, 0.1, torch.float32)
    sides = []
    for lower, upper in zip(*sentences, strict=True):
        shift = 0.2 * torch.rand(count, 1) * torch.randn(count, 8)
        both = boxes.intersect(Corners(lower, upper), Corners(lower + shift, upper + shift))
        sides.append(Side(both, torch.zeros(count, dtype=torch.int64)))
    for sign in (1, -1):
        found = smallest(boxes, *sides, Groups(1, 1), sign=sign)
        values = sign * direct(boxes, sides[0].corners, sides[1].corners)
        torch.testing.assert_close(found[0, 0], values.min(), rtol=1e-5, atol=1e-5)
    assert 0 < computed < 0.05 * 2 * count**2


def test_float32_keeps_what_float64_finds():
    scene, boxes = Scene(16, 2, 200, [200, 150], spread=0.3), Boxes(0.02)
    exact = dict(sweep(scene, boxes, [(0, 1)]))
    single = scene.interpretations
    for name in ("sentences", "references"):
        narrow = Corners(*(corner.float() for corner in getattr(single, name)))
        object.__setattr__(single, name, narrow)
    for key, found in sweep(scene, boxes, [(0, 1)]):
        assert found == pytest.approx(exact[key], rel=1e-5, abs=1e-4)


def test_inference_mode_and_no_pairs():
    with torch.inference_mode():
        scene = Scene(3, 2, 600, [600, 600], spread=0.3)
        (_, found), *_ = sweep(scene, Boxes(0.1), [(0, 1)])
        none = torch.empty(0, dtype=torch.int64)
        empty, _ = extremes(Boxes(0.1), scene.interpretations, none, none, GROUPS)
    assert found == pytest.approx(scene.slow(Boxes(0.1), (0, 1), 0, 0, 0))
    assert empty.shape == (0, 7, 7)


def test_without_references_a_sentence_stands_for_itself():
    scene, boxes = Scene(4, 3, 0, [0, 0, 0], spread=0.3), Boxes(0.1)
    for (k, *_), found in sweep(scene, boxes, [(0, 1), (2, 2)]):
        pair = [(0, 1), (2, 2)][k]
        own = [Corners(*(corner[s] for corner in scene.sentences)) for s in pair]
        alone = boxes.log_overlap(*own) - boxes.log_volume(own[0])
        assert found == pytest.approx((float(alone), float(alone)))
