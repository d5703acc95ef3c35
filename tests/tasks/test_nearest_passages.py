"""Exact search against slow loops and against sentence-transformers."""

from __future__ import annotations

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.util import semantic_search
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from sentune.errors import InvalidValue, TrialFailed
from sentune.geometry import Boxes, Gaussians, Geometry, Points
from sentune.tasks import nearest_passages
from sentune.tasks.nearest_passages import NOTHING, Hits, NearestPassages
from sentune.tasks.pairs import symmetric_similarity
from tests.third_party_internals import TorchDispatchMode, tree_leaves


class Products(Points):
    """Inner products; of small integers they are exact, so that ties are ties."""

    symmetric = True

    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        return premises @ hypotheses.T


class Towards:
    """Not symmetric: a product and what the hypothesis alone adds."""

    symmetric = False

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        table = first @ second.T
        return table + second[:, 0], table + first[:, :1]


def search(
    queries: Tensor,
    passages: Tensor,
    geometry: Geometry,
    depth: int,
    block: int,
    left_out: list[tuple[int, int]] | None = None,
) -> Hits:
    found = NearestPassages(queries, geometry, depth=depth)
    for start in range(0, len(passages), block):
        part = passages[start : start + block]
        hidden = [(q, p) for q, p in left_out or [] if start <= p < start + len(part)]
        found.add(part, hidden)
    assert found.seen == len(passages)
    return found.hits()


def ranked(scores: list[float], depth: int, left_out: set[int]) -> list[int]:
    """Places by decreasing score, equal ones by place; filled up with ``NOTHING``."""
    order = sorted((-score, place) for place, score in enumerate(scores) if place not in left_out)
    return ([place for _, place in order] + [NOTHING] * depth)[:depth]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, int, int, list[tuple[int, int]]]:
    vector = st.tuples(*[st.integers(-1, 1)] * 2)
    queries = draw(st.lists(vector, min_size=1, max_size=5))
    passages = draw(st.lists(vector, min_size=1, max_size=40))
    pair = st.tuples(st.integers(0, len(queries) - 1), st.integers(0, len(passages) - 1))
    left_out = draw(st.lists(pair, max_size=6, unique=True))
    sides = (torch.tensor(side, dtype=torch.float32) for side in (queries, passages))
    return *sides, draw(st.integers(1, 12)), draw(st.integers(1, 50)), left_out


@pytest.mark.parametrize("directed", [False, True])
@given(case=cases(), tile=st.integers(1, 9), rows=st.integers(1, 4))
@settings(max_examples=60)
def test_hits_are_those_of_a_slow_loop(
    case: tuple[Tensor, Tensor, int, int, list[tuple[int, int]]],
    tile: int,
    rows: int,
    directed: bool,
) -> None:
    queries, passages, depth, block, left_out = case
    geometry = Towards() if directed else Products()
    with (
        patch.multiple(nearest_passages, TILE=tile, ROWS=rows),
        patch.object(nearest_passages, "Points", type(None)),
    ):
        hits = search(queries, passages, geometry, depth, block, left_out)
    for row, query in enumerate(queries.tolist()):
        extra = [(query[0] + p[0]) / 2 if directed else 0 for p in passages.tolist()]
        products = [query[0] * p[0] + query[1] * p[1] for p in passages.tolist()]
        scores = [a + b for a, b in zip(products, extra, strict=True)]
        hidden = {place for q, place in left_out if q == row}
        places = hits.places[row].tolist()
        assert places == ranked(scores, depth, hidden)
        expected = [-np.inf if place == NOTHING else scores[place] for place in places]
        assert hits.scores[row].tolist() == expected


def test_points_are_found_as_sentence_transformers_finds_them() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, passages = (torch.randn(n, 24, generator=generator) for n in (300, 9_000))
    hits = search(queries, passages, Points(), 20, 1_000)
    theirs = semantic_search(queries, passages, top_k=20)
    assert hits.places.tolist() == [[hit["corpus_id"] for hit in row] for row in theirs]
    scores = torch.tensor([[hit["score"] for hit in row] for row in theirs])
    torch.testing.assert_close(hits.scores, scores)


@pytest.mark.parametrize(
    "geometry", [Gaussians(), Gaussians("mean"), Boxes(0.5), Boxes(0.1, 0.5, "hard")]
)
def test_other_geometries_by_the_mean_of_both_directions(geometry: Geometry) -> None:
    torch.manual_seed(0)
    queries, passages = torch.randn(4, 6), torch.randn(50, 6)
    with patch.object(nearest_passages, "TILE", 16):
        hits = search(queries, passages, geometry, 50, 7)
    compare = symmetric_similarity(geometry)
    for query, scores, places in zip(queries, hits.scores, hits.places, strict=True):
        similarities = compare(query.expand_as(passages), passages)
        torch.testing.assert_close(scores, similarities[places], rtol=1e-4, atol=1e-6)
        assert sorted(places.tolist()) == list(range(50))
        assert (scores.diff() <= 0).all()


@pytest.mark.parametrize("block", [1, 37, 5_000])  # the last tile has one passage
def test_equal_passages_rank_in_their_order_whatever_the_block(block: int) -> None:
    generator = torch.Generator().manual_seed(1)
    different = torch.randn(7, 33, generator=generator)
    kinds = torch.randint(7, (513 if block == 1 else 4_609,), generator=generator)
    queries = torch.randn(16, 33, generator=generator)
    with patch.object(nearest_passages, "TILE", 512):
        hits = search(queries, different[kinds], Points(), 2_000, block)
    cosines = Points().entails_table(queries, different)
    for row, places in zip(cosines, hits.places, strict=True):
        rank = row.argsort(descending=True).argsort()
        order = sorted((int(rank[kind]), place) for place, kind in enumerate(kinds.tolist()))
        expected = [place for _, place in order][:2_000]
        assert places[places != NOTHING].tolist() == expected


def test_half_precision_is_compared_in_32_bits() -> None:
    torch.manual_seed(0)
    queries, passages = torch.randn(5, 16).bfloat16(), torch.randn(100, 16).bfloat16()
    half = search(queries, passages, Points(), 9, 10)
    whole = search(queries.float(), passages.float(), Points(), 9, 100)
    assert torch.equal(half.places, whole.places)
    assert torch.equal(half.scores, whole.scores)


class Live(TorchDispatchMode):
    """The most bytes that the tensors made inside held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                self.held[storage.data_ptr()] = (StorageWeakRef(storage), storage.nbytes())
        self.held = {key: held for key, held in self.held.items() if not held[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.held.values()))
        return result


def memory(count: int) -> tuple[int, int]:
    """Peaks of the bytes of tensors and of Python's own, for so many passages."""
    torch.manual_seed(0)
    queries = torch.randn(20, 8)
    found = NearestPassages(queries, Points(), depth=10)
    tracemalloc.start()
    with Live() as live:
        for start in range(0, count, 500):
            found.add(torch.randn(500, 8), [(start % 20, start)])
        found.hits()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return live.peak, peak


def test_memory_does_not_grow_with_the_passages() -> None:
    # the least of three runs: threads that other tests left allocate now and then
    with patch.object(nearest_passages, "TILE", 512):
        few, many = (np.min([memory(n) for _ in range(3)], axis=0) for n in (2_000, 40_000))
    assert many[0] < 1.1 * few[0]
    assert many[0] < 4 * 8 * 40_000  # fewer bytes than the passages themselves
    assert many[1] - few[1] < 40_000 - 2_000  # less than a byte for each further passage


def test_nothing_is_searched_for_nothing() -> None:
    with pytest.raises(InvalidValue, match="queries"):
        NearestPassages(torch.ones(0, 3), Points(), depth=1)
    with pytest.raises(InvalidValue, match="depth"):
        NearestPassages(torch.ones(1, 3), Points(), depth=0)
    hits = NearestPassages(torch.ones(1, 3), Points(), depth=2).hits()
    assert hits.places.tolist() == [[NOTHING, NOTHING]]


def test_a_similarity_that_is_no_number_is_an_error() -> None:
    found = NearestPassages(torch.ones(1, 3), Points(), depth=1)
    found.add(torch.tensor([[1.0, 1.0, 1.0], [torch.nan, 1.0, 1.0]]))
    with pytest.raises(TrialFailed, match="passages 0 to 1"):
        found.hits()
