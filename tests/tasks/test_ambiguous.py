"""Ambiguous entailment against a loop over every combination, one evaluation each."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor

from sentune.corpora.formats import read
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import CorpusError
from sentune.geometry.boxes import Boxes
from sentune.geometry.corners import Corners
from sentune.geometry.points import Points
from sentune.readouts.three_way import class_weights
from sentune.tasks import ambiguous_sweep
from sentune.tasks.ambiguous import OF_SETS, AmbiguousRte
from sentune.tasks.references import References
from tests.rounding import rounding

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
LABELS = (["entailment"], ["neutral"], ["entailment", "neutral"], ["neutral", "contradiction"])
GRIDS = {
    "alpha_1": (0.01, 0.1, 0.3, 0.5),
    "alpha_2": (0.1, 0.5, 0.7, 1.0),
    "references": (4, 9, 20),
}
BOXES = Boxes(0.1)
BOTH_ENDS = (torch.min, torch.max)
ROUNDING = rounding(1, 2000)
"""Of an overlap: logarithms of volumes are up to some thousand."""


def corpus(labels: Sequence[Sequence[str]]) -> Corpus:
    rows = range(len(labels))
    columns = {
        "premise": [f"premise {i // 2}" for i in rows],
        "hypothesis": [f"hypothesis {i % 5}" for i in rows],
        "labels": list(labels),
    }
    kind = Kind.SEVERAL_LABELS
    table = pa.table(columns, schema=SCHEMAS[kind])
    return Corpus(spec="ambient:made", kind=kind, table=table, fingerprint="made")


def references() -> References:
    """The first sentence of the corpus is a reference, too."""
    sentences = ("premise 0", *(f"reference {i}" for i in range(1, 20)))
    return References(sentences, {4: 4, 9: 9, 20: 20})


def embedded(task: AmbiguousRte, d: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(3)
    count = len(task.sentences())
    centers = 0.5 * torch.randn(count, d, dtype=dtype)
    return torch.cat([centers, torch.rand(count, d, dtype=dtype)], dim=1)


@pytest.fixture
def task() -> AmbiguousRte:
    labels = [LABELS[i * i % 7 % 4] for i in range(12)]
    return AmbiguousRte(corpus(labels), references=references(), grids=GRIDS)


def shuffled(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
    """As a cluster does: work and parts travel, and the order of the work is not theirs."""
    sent, found = pickle.dumps(work), {}
    for i in reversed(range(len(parts))):
        found[i] = pickle.loads(sent)(pickle.loads(pickle.dumps(parts[i])))
    return (found[i] for i in range(len(parts)))


class Slow:
    """One combination at a time, one entry at a time."""

    def __init__(self, task: AmbiguousRte, embeddings: Tensor, boxes: Boxes) -> None:
        self.task, self.boxes = task, boxes
        self.row = {s: embeddings[i : i + 1] for i, s in enumerate(task.sentences())}
        self.gold = task.gold.tolist()

    @cache  # noqa: B019
    def covering(self, boxes: Boxes, sentence: str) -> list[tuple[float, Corners]]:
        own, found = boxes.corners(self.row[sentence]), []
        for other in references().sentences:
            both = boxes.intersect(own, boxes.corners(self.row[other]))
            found.append((float((boxes.log_volume(both) - boxes.log_volume(own)).exp()), both))
        return found

    def boxes_of(self, boxes: Boxes, sentence: str, n: int, low: float, high: float) -> list[Any]:
        return [b for coverage, b in self.covering(boxes, sentence)[:n] if low < coverage < high]

    def ranges(self, name: str, n: int, low: float, high: float) -> list[tuple[float, float]]:
        boxes, found = replace(self.boxes, intersection=name), []
        for pair in zip(self.task.pairs.first, self.task.pairs.second, strict=True):
            u_p, u_h = (
                self.boxes_of(boxes, s, n, low, high) or [boxes.corners(self.row[s])] for s in pair
            )
            hypotheses = Corners(*map(torch.cat, zip(*u_h, strict=True)))
            entries = [boxes.log_overlap(p, hypotheses) - boxes.log_volume(p) for p in u_p]
            found.append(tuple(float(f(torch.cat(entries)).exp().clamp(max=1)) for f in BOTH_ENDS))
        return found

    def predicted(self, ranges: list[tuple[float, float]], beta: float) -> list[int]:
        return [0 if low > beta else 1 if high < beta else 2 for low, high in ranges]

    def macro(self, predicted: list[int]) -> float:
        return f1_score(self.gold, predicted, labels=[0, 1, 2], average="macro", zero_division=0)

    def best(self, ranges: list[tuple[float, float]]) -> float:
        values = sorted({value for both in ranges for value in both})
        gaps = [(a + b) / 2 for a, b in pairwise(values)]
        betas = [values[0] - 1e-9, *gaps, values[-1] + 1e-9]
        return max(self.macro(self.predicted(ranges, b)) for b in betas if 0 <= b <= 1)


@pytest.mark.parametrize("block", [1, 5, 256])
def test_the_sweep_is_what_single_evaluations_find(task, block, monkeypatch):
    monkeypatch.setattr(ambiguous_sweep, "LARGEST_BLOCK", block)
    embeddings = embedded(task)
    task.spread = shuffled
    table = task.evaluate(embeddings, BOXES).tables["ambiguous-rte/sweep.json"]
    assert list(table["axes"]) == ["intersection", "references", "alpha_1", "alpha_2"]
    assert table["axes"]["intersection"] == ["gumbel", "hard"]
    slow = Slow(task, embeddings, BOXES)
    values = np.array(table["values"], dtype=float)
    for place in list(np.ndindex(values.shape))[:: 7 if block == 5 else 37]:
        name, n, low, high = (
            grid[i] for grid, i in zip(table["axes"].values(), place, strict=True)
        )
        if low >= high:
            assert np.isnan(values[place])
            continue
        ranges = slow.ranges(name, n, low, high)
        assert values[place] == pytest.approx(slow.best(ranges), abs=1e-9)
        beta = table["exact"]["beta"][place[0]][place[1]][place[2]][place[3]]
        assert values[place] == pytest.approx(slow.macro(slow.predicted(ranges, beta)))


def test_what_is_reported_at_the_best_combination(task):
    embeddings = embedded(task)
    result = task.evaluate(embeddings, BOXES)
    metrics, readouts = result.metrics, result.readouts
    names = ("intersection", "references", "alpha_1", "alpha_2")
    chosen = [readouts[f"ambiguous-rte/{name}"] for name in names]
    slow = Slow(task, embeddings, BOXES)
    predicted = slow.predicted(slow.ranges(*chosen), readouts["ambiguous-rte/beta"])
    each = f1_score(slow.gold, predicted, labels=[0, 1, 2], average=None, zero_division=0)
    found = [metrics[f"ambiguous-rte/f1_{c}"] for c in ("entailment", "non_entailment", "both")]
    assert found == pytest.approx(each)
    assert metrics["ambiguous-rte/macro_f1"] == pytest.approx(each.mean())
    assert metrics["ambiguous-rte/accuracy"] == np.mean(np.array(predicted) == slow.gold)
    boxes = replace(BOXES, intersection=chosen[0])
    sizes = [len(slow.boxes_of(boxes, s, *chosen[1:])) for s in task.pairs.sentences]
    assert metrics["ambiguous-rte/references_per_sentence"] == pytest.approx(np.mean(sizes))
    assert metrics["ambiguous-rte/empty_sets"] == pytest.approx(np.mean(np.array(sizes) == 0))
    own = embeddings[: len(task.pairs.sentences)]
    alone = boxes.entails(own, own)
    assert metrics["ambiguous-rte/self_probability"] == pytest.approx(float(alone.mean()))
    table = result.tables["ambiguous-rte/coverage.json"][chosen[0]]
    assert table["self_probability"]["values"] == pytest.approx(
        np.quantile(alone, [0, 0.25, 0.5, 0.75, 1])
    )
    without = [
        np.mean([not slow.boxes_of(boxes, s, 20, alpha, 2.0) for s in task.pairs.sentences])
        for alpha in table["alphas"]
    ]
    assert table["without_reference"] == pytest.approx(without)
    assert table["alphas"] == [0.01, 0.1, 0.3, 0.5, 0.7, 1.0]
    counts = result.tables["ambiguous-rte/counts.json"]
    assert counts["pairs"] == 12 == sum(v for k, v in counts.items() if k != "pairs")
    assert metrics["ambiguous-rte/majority"] == max(counts[c] for c in list(counts)[1:]) / 12
    always = f1_score(slow.gold, [2] * 12, labels=[2], average=None)[0]
    assert metrics["ambiguous-rte/always_both"] == pytest.approx(always)


@pytest.mark.parametrize("most", [0.0, 0.2, 0.5, 1.0])
def test_a_combination_that_leaves_too_many_sentences_empty_is_not_chosen(task, most, monkeypatch):
    monkeypatch.setattr(ambiguous_sweep, "MOST_EMPTY", most)
    embeddings = embedded(task)
    result = task.evaluate(embeddings, BOXES)
    table = result.tables["ambiguous-rte/sweep.json"]
    values = np.array(table["values"], dtype=float)
    slow, empty = Slow(task, embeddings, BOXES), np.full(values.shape, np.nan)
    for place in np.ndindex(values.shape):
        if np.isfinite(values[place]):
            name, *given = (axis[i] for axis, i in zip(table["axes"].values(), place, strict=True))
            boxes = replace(BOXES, intersection=name)
            sets = [slow.boxes_of(boxes, s, *given) for s in task.pairs.sentences]
            empty[place] = np.mean([not found for found in sets])
    allowed = np.where(empty <= most, values, np.nan)
    expected = np.nanmax(allowed if np.isfinite(allowed).any() else values)
    assert table["best"]["value"] == pytest.approx(expected)
    if np.isfinite(allowed).any():
        assert result.metrics["ambiguous-rte/empty_sets"] <= most


@pytest.mark.parametrize("prior", ["", "both=0.6", "balanced"])
def test_the_best_of_each_alpha_1_and_what_a_prior_weights(task, prior):
    weighted = replace(task_corpus(task), prior=prior)
    task = AmbiguousRte(weighted, references=references(), grids=GRIDS)
    embeddings = embedded(task)
    result = task.evaluate(embeddings, BOXES)
    metrics, table = result.metrics, result.tables["ambiguous-rte/sweep.json"]
    weights = class_weights(prior, task.gold)[task.gold]
    slow, values = Slow(task, embeddings, BOXES), np.array(table["values"], dtype=float)

    def scored(row: dict[str, Any], **options: Any) -> list[float]:
        names = ("intersection", "references", "alpha_1", "alpha_2")
        predicted = slow.predicted(slow.ranges(*(row[name] for name in names)), row["beta"])
        each = f1_score(slow.gold, predicted, labels=[0, 1, 2], average=None, **options)
        return [each.mean(), each[2]]

    rows = result.tables["ambiguous-rte/by_alpha_1.json"]
    assert [row["alpha_1"] for row in rows] == list(GRIDS["alpha_1"])
    for place, row in enumerate(rows):
        assert [row["macro_f1"], row["f1_both"]] == pytest.approx(scored(row))
        assert row["swept"] == pytest.approx(scored(row, sample_weight=weights)[0])
        if row["empty_sets"] <= 0.5:
            assert row["swept"] <= np.nanmax(values[:, :, place])
        else:  # all combinations leave as many empty
            assert row["swept"] == np.nanmax(values[:, :, place])
    (chosen,) = [r for r in rows if r["alpha_1"] == result.readouts["ambiguous-rte/alpha_1"]]
    assert chosen["macro_f1"] == metrics["ambiguous-rte/macro_f1"]
    assert chosen["swept"] == table["best"]["value"]
    assert table["metric"] == f"ambiguous-rte/{'prior_' if prior else ''}macro_f1"
    both = [metrics.get(f"ambiguous-rte/prior_{name}") for name in ("macro_f1", "f1_both")]
    expected = scored(chosen, sample_weight=weights) if prior else [None, None]
    assert both == (pytest.approx(expected) if prior else expected)
    copies, readouts = task.at_each(rows)
    for copy, row in zip(copies, rows, strict=True):
        again = copy.evaluate(embeddings, BOXES, readouts).metrics
        assert copy.name == f"ambiguous-rte@{row['alpha_1']}"
        assert again[f"{copy.name}/f1_both"] == row["f1_both"]
        assert again[f"{copy.name}/accuracy"] == row["accuracy"]


def test_the_threshold_of_two_classes_is_the_most_accurate_on_pairs_that_are_not_both(task):
    """As GumbelCSE section 4.2 has it, which -sen follows."""
    embeddings = embedded(task)
    beta = task.evaluate(embeddings, BOXES).readouts["ambiguous-rte/sen_beta"]
    scores = task.pairs.compare(embeddings[: len(task.pairs.sentences)], BOXES.entails)
    told = task.gold != 2

    def accuracy(at: float) -> float:
        return float(np.mean((scores[told] > at) == (task.gold[told] == 0)))

    assert accuracy(beta) == max(map(accuracy, (*scores, -1.0)))


def test_readouts_of_dev_are_applied_on_test(task):
    embeddings = embedded(task)
    dev = task.evaluate(embeddings, BOXES)
    test = AmbiguousRte(task_corpus(task), "ambiguous-rte-2", references=references())
    again = test.evaluate(embeddings, BOXES, dev.readouts)
    assert {k.replace("-rte-2", "-rte"): v for k, v in again.metrics.items()} == dev.metrics
    assert {k.replace("-rte-2", "-rte"): v for k, v in again.readouts.items()} == dev.readouts
    assert not again.skipped
    assert "ambiguous-rte-2/sweep.json" not in again.tables
    partial = {k: v for k, v in dev.readouts.items() if "alpha_2" not in k and "sen" not in k}
    missing = test.evaluate(embeddings, BOXES, partial)
    assert set(missing.metrics) == {"ambiguous-rte-2/majority", "ambiguous-rte-2/always_both"}
    assert "alpha_2" in missing.skipped["ambiguous-rte-2/macro_f1"]
    assert "sen_beta" in missing.skipped["ambiguous-rte-2/sen_accuracy"]


def task_corpus(task: AmbiguousRte) -> Corpus:
    return corpus([LABELS[i * i % 7 % 4] for i in range(len(task.gold))])


def test_beta_on_a_grid_agrees_with_the_exact_one(task):
    embeddings = embedded(task)
    exact = task.evaluate(embeddings, BOXES).tables["ambiguous-rte/sweep.json"]
    betas = tuple(sorted({b for b in np.array(exact["exact"]["beta"], dtype=float).flat if b == b}))
    task.grids = GRIDS | {"beta": betas}
    result = task.evaluate(embeddings, BOXES)
    table = result.tables["ambiguous-rte/sweep.json"]
    assert list(table["axes"])[-1] == "beta"
    assert table["exact"] == {}
    on_grid = np.array(table["values"], dtype=float)
    np.testing.assert_allclose(on_grid.max(-1), np.array(exact["values"], dtype=float))
    assert result.metrics["ambiguous-rte/macro_f1"] == pytest.approx(exact["best"]["value"])
    assert result.readouts["ambiguous-rte/beta"] in betas


def test_float32_and_large_pairs_agree_with_float64(task, monkeypatch):
    """By bounds, which small pairs do not take otherwise."""
    exact = task.evaluate(embedded(task), BOXES).metrics
    for name in ("FEW", "MANY"):
        monkeypatch.setattr(f"sentune.geometry.interpretations.extremes.{name}", 0)
    single = task.evaluate(embedded(task).float(), BOXES).metrics
    assert single == pytest.approx(exact, rel=1e-4)


def test_without_references_or_boxes_the_sentences_alone_are_judged():
    labels = [LABELS[i % 4] for i in range(8)]
    alone = AmbiguousRte(corpus(labels))
    result = alone.evaluate(embedded(alone), BOXES)
    metrics = {"majority", "always_both", "sen_macro_f1", "sen_accuracy"}
    metrics |= {f"sen_f1_{c}" for c in ("entailment", "non_entailment", "both")}
    assert set(result.metrics) == {f"ambiguous-rte/{m}" for m in metrics}
    assert result.metrics["ambiguous-rte/sen_f1_both"] == 0
    assert set(result.readouts) == {"ambiguous-rte/sen_beta"}
    assert all(f"ambiguous-rte/{m}" in result.skipped for m in ("macro_f1", *OF_SETS))
    assert "reference" in result.skipped["ambiguous-rte/macro_f1"]
    task = AmbiguousRte(corpus(labels), references=references())
    points = task.evaluate(embedded(task), Points())
    assert set(points.metrics) == set(result.metrics)
    assert "boxes" in points.skipped["ambiguous-rte/accuracy"]


def test_classes_of_labels():
    labels = [*LABELS, ["entailment", "contradiction"], ["contradiction"]]
    assert AmbiguousRte(corpus(labels)).gold.tolist() == [0, 1, 2, 1, 2, 1]


def test_what_poses_no_task():
    with pytest.raises(CorpusError, match="at least two classes; found: non_entailment"):
        AmbiguousRte(corpus([["neutral"], ["contradiction"]]))
    with pytest.raises(CorpusError, match="no pairs"):
        AmbiguousRte(corpus([]))
    triplets = replace(corpus(LABELS), kind=Kind.TRIPLETS)
    with pytest.raises(CorpusError, match="pairs-of-several-labels, not triplets"):
        AmbiguousRte(triplets)


@pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
def test_the_rule_that_always_says_both_on_real_pairs() -> None:
    """GumbelCSE's Table 3 has 46.25 for GumbelCSE-int, below that rule."""
    spec = f"chaosnli:{DATA}/chaosnli/chaosNLI_snli.jsonl"
    found = AmbiguousRte(read(spec, Kind.SEVERAL_LABELS)).baselines()
    assert found["ambiguous-rte/always_both"] == pytest.approx(0.489, abs=5e-4)
