"""C-STS: the sweep against plain loops over every combination, pair and reference."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.geometry import Boxes, Points
from sentune.geometry.corners import Corners
from sentune.readouts.cells import Cells
from sentune.tasks.csts import Csts
from sentune.tasks.csts_sweep import Views, choices
from sentune.tasks.references import References
from tests.rounding import rounding

WIDTH = 4
WAYS = ("gumbel", "hard")
ALPHAS: dict[str, tuple[float, ...]] = {
    "alpha_1": (0.2, 0.5, 0.1, 0.9),
    "alpha_2": (0.5, 0.7, 1.0),
}


def corpus(rows: list[tuple[str, str, str, float]]) -> Corpus:
    columns = dict(zip(SCHEMAS[Kind.CONDITIONED_PAIRS].names, zip(*rows, strict=True), strict=True))
    table = pa.table(columns, schema=SCHEMAS[Kind.CONDITIONED_PAIRS])
    return Corpus(spec="made:here", kind=Kind.CONDITIONED_PAIRS, table=table, fingerprint="0")


def pairs(count: int, seed: int = 0) -> list[tuple[str, str, str, float]]:
    """Every pair under two conditions, as in C-STS; sentences and conditions in several pairs."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        one, other = rng.choice(count, 2, replace=False)
        for condition in rng.choice(4, 2, replace=False):
            rows.append((f"s{one}", f"s{other}", f"c{condition}", float(rng.integers(1, 6))))
    return rows


def references(count: int) -> References:
    """Three sizes; one of the references is a sentence of the pairs, and one a condition."""
    names = ["s0", "c1", *(f"t{i}" for i in range(count - 2))]
    return References(tuple(names), {1: count // 5, 2: count // 2, 9: count})


def embed(sentences: list[str], spread: float, seed: int = 0) -> Tensor:
    """Boxes around the middle; every third reference has the box of the one before."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(len(sentences), WIDTH, generator=generator) * spread
    found[:, WIDTH // 2 :] += spread
    row = {sentence: i for i, sentence in enumerate(sentences)}
    for i in range(2, len(sentences), 3):
        if f"t{i}" in row:
            found[row[f"t{i}"]] = found[row[f"t{i - 1}"]]
    return found


class Loops:
    """Eq. 13, 15 and 16 for one combination, one box at a time, in float64."""

    def __init__(self, task: Csts, boxes: Boxes, embeddings: Tensor) -> None:
        self.boxes, self.task = boxes, task
        self.coverage, self.interpreted = cache(self._coverage), cache(self._interpreted)
        corners = boxes.corners(embeddings.double())
        self.box = {
            sentence: Corners(corners.lower[i], corners.upper[i])
            for i, sentence in enumerate(task.sentences())
        }

    def _coverage(self, sentence: str, reference: str) -> float:
        own = self.box[sentence]
        log = self.boxes.log_overlap(own, self.box[reference]) - self.boxes.log_volume(own)
        largest = 1.0 if self.boxes.intersection == "hard" else np.nextafter(np.float32(1), 0)
        return float(np.float32(min(math.exp(float(log)), largest)))

    def similarity(self, x: Corners, y: Corners) -> float:
        """Rounded, so that equal boxes are a tie wherever they were computed."""
        overlap = self.boxes.log_overlap(x, y)
        shares = [math.exp(min(float(overlap - self.boxes.log_volume(b)), 0)) for b in (x, y)]
        return math.exp(round(math.log(sum(shares) / 2), 9))

    def _interpreted(self, sentence: str, reference: str, condition: str) -> tuple[Any, float]:
        both = self.boxes.intersect(self.box[sentence], self.box[reference])
        return both, self.similarity(both, self.box[condition])

    def choose(self, sentence: str, condition: str, among: list[str]) -> Corners:
        best, chosen = -1.0, self.box[sentence]
        for reference in among:
            both, similarity = self.interpreted(sentence, reference, condition)
            if similarity > best:
                best, chosen = similarity, both
        return chosen

    def similarities(self, count: int, low: float, high: float) -> list[float]:
        found = []
        names = self.task.references.sentences[:count]
        for one, other, condition in zip(
            self.task.pairs.first, self.task.pairs.second, self.task.conditions, strict=True
        ):
            sides = [
                self.choose(s, condition, [t for t in names if low < self.coverage(s, t) < high])
                for s in (one, other)
            ]
            found.append(self.similarity(*sides))
        return found


@pytest.mark.parametrize(("spread", "seed"), [(0.6, 0), (1.5, 1)])
def test_the_sweep_is_what_plain_loops_find(spread: float, seed: int) -> None:
    some = references(15)
    task = Csts(corpus(pairs(6, seed)), references=some, grids=ALPHAS)
    embeddings, boxes = embed(task.sentences(), spread, seed), Boxes(0.1)
    result = task.evaluate(embeddings, boxes)
    table = result.tables["csts/sweep.json"]
    assert list(table["axes"]) == ["intersection", "references", "alpha_1", "alpha_2"]
    assert table["axes"]["references"] == [1, 2, 9]
    values, seen = np.array(table["values"], dtype=float), []
    loops = {way: Loops(task, replace(boxes, intersection=way), embeddings) for way in WAYS}
    for place in product(*(range(n) for n in values.shape)):
        way, n, low, high = (axis[i] for axis, i in zip(table["axes"].values(), place, strict=True))
        if low >= high:
            assert math.isnan(values[place])
            continue
        wanted = loops[way].similarities(some.sizes[n], low, high)
        seen.append(float(spearmanr(wanted, task.scores).statistic))
        assert values[place] == pytest.approx(seen[-1], abs=rounding(12, 4)), place
    assert len({round(value, 6) for value in seen}) > 20
    assert result.metrics["csts/spearman"] == pytest.approx(max(seen), abs=rounding(12, 4))


def pack(low: float, high: float) -> tuple[float, float]:
    """Center and offset of an interval."""
    return (low + high) / 2, math.log(math.expm1((high - low) / 2 - 1e-4)) - 1


def test_the_first_of_equally_similar_references_is_taken() -> None:
    """Hard boxes in one dimension; t0, t1 and t2 cut the same part out of the sentence."""
    rows = [("s", "other", "c", 1.0), ("s", "far", "c", 2.0)]
    task = Csts(corpus(rows), references=References(("wide", "t0", "t1", "t2"), {1: 2, 4: 4}))
    sides = {
        "s": (0, 10), "c": (0, 5), "wide": (-9, 19), "t0": (-9, 5), "t1": (-8, 5), "t2": (-7, 5),
    }  # fmt: skip
    packed = [pack(*sides.get(s, (50, 60))) for s in task.sentences()]
    embeddings = torch.tensor(packed, dtype=torch.float64)
    boxes = Boxes(0.01, intersection="hard")
    sides = task.pairs.first, task.pairs.second, task.conditions
    views = Views(*(task.rows(side, embeddings).numpy() for side in sides))
    others = embeddings[task.rows(task.references.sentences, embeddings)]
    cells = Cells([0.1, 0.9, 1.0])
    found = choices(boxes, embeddings, others, views, cells, (2, 4))
    view = views.of[0][0]
    assert found.of(cells.between(0.1, 0.9), 0)[view] == 1
    assert found.of(cells.between(0.1, 0.9), 1)[view] == 1
    assert found.of(cells.between(0.9, 1.0), 1)[view] == -1
    assert (found.log_similarity[view, :, 1] > -math.inf).sum() == 1


def test_applied_readouts_give_what_the_sweep_found() -> None:
    task = Csts(corpus(pairs(6)), references=references(15), grids=ALPHAS)
    embeddings, boxes = embed(task.sentences(), 0.6), Boxes(0.1)
    swept = task.evaluate(embeddings, boxes)
    applied = task.evaluate(embeddings, boxes, swept.readouts)
    assert applied.metrics == swept.metrics
    assert applied.readouts == swept.readouts
    assert set(swept.readouts) == {
        f"csts/{name}" for name in ("intersection", "references", "alpha_1", "alpha_2")
    }
    assert "csts/sweep.json" not in applied.tables
    other = Csts(corpus(pairs(6)), "csts-lc", references=references(15), grids=ALPHAS)
    renamed = other.evaluate(embeddings, boxes, swept.readouts)
    assert renamed.metrics["csts-lc/pearson"] == swept.metrics["csts/pearson"]


def test_counts_say_how_many_sentences_have_no_interpretation() -> None:
    some = references(15)
    grids = {"alpha_1": (0.3,), "alpha_2": (0.6,), "intersection": ("gumbel",), "references": (1,)}
    task = Csts(corpus(pairs(6)), references=some, grids=grids)
    embeddings, boxes = embed(task.sentences(), 1.5), Boxes(0.1)
    counts = task.evaluate(embeddings, boxes).tables["csts/counts.json"]
    loops, sentences = Loops(task, boxes, embeddings), task.pairs.sentences
    found = [sum(0.3 < loops.coverage(s, t) < 0.6 for t in some.sentences[:3]) for s in sentences]
    assert counts == {
        "pairs": 12,
        "sentences": len(sentences),
        "references": 3,
        "interpretations": pytest.approx(np.mean(found)),
        "without_interpretation": pytest.approx(np.mean(np.array(found) == 0)),
    }
    assert 0 < counts["without_interpretation"] < 1


def test_sentences_without_interpretations_are_compared_as_they_are() -> None:
    grids = {"alpha_1": (0.999999,), "alpha_2": (0.9999991,)}
    task = Csts(corpus(pairs(6)), references=references(15), grids=grids)
    embeddings, boxes = embed(task.sentences(), 0.6), Boxes(0.1)
    result = task.evaluate(embeddings, boxes)
    assert result.tables["csts/counts.json"]["without_interpretation"] == 1
    assert result.metrics["csts/pearson"] == pytest.approx(result.metrics["csts/sen_pearson"])
    first, second = (
        embeddings[[task.sentences().index(s) for s in side]].double()
        for side in (task.pairs.first, task.pairs.second)
    )
    similarity = (boxes.entails(first, second) + boxes.entails(second, first)) / 2
    for name, statistic in (("spearman", spearmanr), ("pearson", pearsonr)):
        wanted = statistic(similarity.numpy(), task.scores).statistic
        assert result.metrics[f"csts/sen_{name}"] == pytest.approx(wanted)


def test_points_compare_sentences_joined_with_their_condition() -> None:
    task = Csts(corpus(pairs(6)))
    names = task.sentences()
    assert f"{task.pairs.first[0]} [SEP] {task.conditions[0]}" in names
    assert len(set(names)) == len(names)
    embeddings = torch.randn(len(names), 5, generator=torch.Generator().manual_seed(0))
    result = task.evaluate(embeddings, Points(), {"csts/alpha_1": 0.5})
    unit = torch.nn.functional.normalize(embeddings.double())
    for prefix, ending in (("", True), ("sen_", False)):
        wanted = [
            float(unit[names.index(one)] @ unit[names.index(other)])
            for one, other in (
                [f"{s} [SEP] {c}" if ending else s for s in both]
                for *both, c in zip(
                    task.pairs.first, task.pairs.second, task.conditions, strict=True
                )
            )
        ]
        spearman = spearmanr(wanted, task.scores).statistic
        assert result.metrics[f"csts/{prefix}spearman"] == pytest.approx(spearman)
    assert not result.readouts
    assert not result.skipped


def test_what_is_missing_is_said() -> None:
    boxes = Boxes(0.1)
    alone = Csts(corpus(pairs(6)))
    result = alone.evaluate(embed(alone.sentences(), 0.6), boxes)
    assert set(result.metrics) == {"csts/sen_spearman", "csts/sen_pearson"}
    assert "reference" in result.skipped["csts/spearman"]
    task = Csts(corpus(pairs(6)), references=references(15))
    others = {f"ambiguous-rte/{name}": 0.5 for name in ("alpha_1", "alpha_2")}
    result = task.evaluate(embed(task.sentences(), 0.6), boxes, others)
    assert set(result.metrics) == {"csts/sen_spearman", "csts/sen_pearson"}
    assert "development set" in result.skipped["csts/pearson"]


def test_an_undefined_correlation_counts_as_0() -> None:
    task = Csts(corpus(pairs(6)), references=references(15), grids=ALPHAS)
    embeddings = torch.zeros(len(task.sentences()), WIDTH)
    result = task.evaluate(embeddings, Boxes(0.1))
    assert set(result.metrics.values()) == {0.0}
    assert set(result.skipped) == set(result.metrics)
    assert result.tables["csts/sweep.json"]["best"]["value"] == 0


def test_what_cannot_be() -> None:
    rows = [("a", "b", "c", 1.0), ("a", "d", "c", 1.0)]
    with pytest.raises(CorpusError, match="different scores"):
        Csts(corpus(rows))
    with pytest.raises(CorpusError, match="conditioned-pairs"):
        Csts(replace(corpus(rows), kind=Kind.SCORED_PAIRS))
    grids = {"alpha_1": (0.5,), "alpha_2": (0.5, 0.4)}
    task = Csts(corpus(pairs(6)), references=references(15), grids=grids)
    with pytest.raises(InvalidValue, match="below an alpha_2"):
        task.evaluate(embed(task.sentences(), 0.6), Boxes(0.1))
