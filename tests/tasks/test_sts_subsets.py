"""STS by subset, and many variants at once, against scipy row by row."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from sentune.corpora import SCHEMAS, Corpus, Kind, read
from sentune.errors import InvalidValue
from sentune.tasks.sts import METRICS, Sts, correlations, standard_error
from tests.rounding import rounding

SCIPY = {"spearman": spearmanr, "pearson": pearsonr}
DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
SCORES = [0.0, 5.0, 2.5, 1.0, 4.0, 3.0, 3.5]
SUBSETS = ["news", "news", "MSRpar", None, "MSRpar", "MSRpar", "news"]


def sts(scores: list[float], subsets: list[str | None] | None = None) -> Sts:
    rows = {
        "sentence1": [f"a {n}" for n in range(len(scores))],
        "sentence2": [f"b {n}" for n in range(len(scores))],
        "score": scores,
        "subset": subsets or [None] * len(scores),
    }
    table = pa.table(rows, schema=SCHEMAS[Kind.SCORED_PAIRS])
    return Sts(Corpus(spec="sts:x", kind=Kind.SCORED_PAIRS, table=table, fingerprint=""))


def scipy_of(metric: str, similarities: np.ndarray, scores: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = float(SCIPY[metric](similarities, scores).statistic)
    return 0.0 if np.isnan(value) else value


@given(
    st.lists(st.lists(st.integers(-4, 4), min_size=7, max_size=7), min_size=1, max_size=5),
    st.sampled_from([1.0, 0.1, 1e-200]),
    st.sampled_from(METRICS),
)
def test_a_sweep_is_scipy_row_by_row(rows: list, unit: float, metric: str) -> None:
    similarities = np.array(rows) * unit
    found = sts(SCORES).sweep(similarities, metric)
    # scipy's own squares underflow at 1e-200; a correlation does not depend on the unit
    expected = [scipy_of(metric, np.array(row, float), np.array(SCORES)) for row in rows]
    # 7 whole numbers up to 5: their length is at most 15 times that of what differs from the mean
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding(7, 2 * 15))


def test_every_subset_and_both_means() -> None:
    similarities, scores = np.array([0.1, 0.3, 0.2, 0.9, 0.8, 0.3, 0.7]), np.array(SCORES)
    task = sts(SCORES, SUBSETS)
    found = task.metrics_of(similarities)
    for metric in METRICS:
        parts = {}
        for subset in ("news", "MSRpar"):
            mask = np.array([name == subset for name in SUBSETS])
            parts[subset] = scipy_of(metric, similarities[mask], scores[mask])
            assert found.metrics[f"sts/{subset}/{metric}"] == pytest.approx(parts[subset])
        whole = scipy_of(metric, similarities, scores)
        assert found.metrics[f"sts/{metric}"] == pytest.approx(whole)
        assert task.sweep(similarities[None], metric) == pytest.approx([whole])
        mean, news, msr = found.metrics[f"sts/{metric}_mean"], parts["news"], parts["MSRpar"]
        assert mean == pytest.approx((news + msr) / 2)
        for name in (f"{metric}_mean", f"{metric}_weighted_mean", f"MSRpar/{metric}"):
            expected = [found.metrics[f"sts/{name}"]]
            assert task.sweep(similarities[None], name) == pytest.approx(expected)
    means = {f"sts/{metric}_{mean}" for metric in METRICS for mean in ("mean", "weighted_mean")}
    parts_of = {f"sts/{subset}{m}" for subset in ("", "news/", "MSRpar/") for m in METRICS}
    assert found.metrics.keys() == means | parts_of
    assert found.skipped == {}


def test_the_weighted_mean_goes_by_numbers_of_pairs() -> None:
    task = sts([1.0, 2.0, 3.0, 1.0, 2.0], ["a", "a", "a", "b", "b"])
    found = task.metrics_of(np.array([1.0, 2.0, 3.0, 2.0, 1.0])).metrics
    assert (found["sts/a/pearson"], found["sts/b/pearson"]) == pytest.approx((1, -1))
    assert found["sts/pearson_mean"] == pytest.approx(0)
    assert found["sts/pearson_weighted_mean"] == pytest.approx((3 - 2) / 5)


def test_pairs_without_subsets_have_the_two_metrics_alone() -> None:
    found = sts(SCORES).metrics_of(np.arange(7.0))
    assert list(found.metrics) == ["sts/spearman", "sts/pearson"]


@pytest.mark.parametrize(
    ("similarities", "where", "reason"),
    [
        ([1.0, 1.0, 2.0, 3.0], "sts/a", "all similarities are the same"),
        ([1.0, 2.0, 3.0, 4.0], "sts/b", "all scores are the same"),
        ([1.0, np.nan, 3.0, 4.0], "sts/a", "not finite"),
    ],
)
def test_what_is_undefined_counts_as_0_and_is_told(
    similarities: list[float], where: str, reason: str
) -> None:
    task = sts([1.0, 2.0, 3.0, 3.0], ["a", "a", "b", "b"])
    found = task.metrics_of(np.array(similarities))
    assert found.metrics[f"{where}/pearson"] == 0
    assert reason in found.skipped[where]
    assert np.isfinite(list(found.metrics.values())).all()


def test_nothing_defined_is_0_everywhere_in_a_sweep() -> None:
    rows = np.array([[0.1] * 7, [0.0, 1, 2, 3, 4, 5, np.inf], [0.0, 1, 2, 3, 4, 5, 6]])
    found = sts(SCORES).sweep(rows)
    assert (found[:2] == 0).all()
    assert found[2] != 0


def test_a_sweep_refuses_other_metrics() -> None:
    with pytest.raises(InvalidValue, match="spearman, pearson"):
        sts(SCORES).sweep(np.zeros((2, 7)), "kendall")


def test_a_mean_over_subsets_chooses_where_there_are_some() -> None:
    one, whole = sts(SCORES, SUBSETS), sts(SCORES)
    for metric, with_subsets, without in (
        ("spearman_mean", "spearman_mean", "spearman"),
        ("pearson_weighted_mean", "pearson_weighted_mean", "pearson"),
        ("news/spearman", "news/spearman", "spearman"),
        ("accuracy", "pearson", "pearson"),
    ):
        assert (one.chosen_by(metric), whole.chosen_by(metric)) == (with_subsets, without)
    with pytest.raises(InvalidValue, match=r"spearman, pearson$"):
        whole.sweep(np.zeros((2, 7)), "pearson_mean")


def test_the_error_of_a_mean_is_that_of_subsets_drawn_apart() -> None:
    random = np.random.default_rng(0)
    scores, names = random.uniform(size=300), ["a"] * 200 + ["b"] * 100
    similarities = scores + random.normal(size=300)
    task = sts(scores.tolist(), names)
    squares = 0.0
    for place, weight in ((slice(200), 2 / 3), (slice(200, 300), 1 / 3)):
        r = scipy_of("pearson", similarities[place], scores[place])
        squares += (weight * (1 - r**2)) ** 2 / len(scores[place])
    error = task.standard_error(similarities, "pearson_weighted_mean")
    assert error == pytest.approx(np.sqrt(squares), rel=0.1)


def test_many_variants_of_many_pairs() -> None:
    random = np.random.default_rng(0)
    scores, rows = random.integers(0, 6, 300).astype(float), random.normal(size=(20, 300)).round(1)
    for metric in METRICS:
        expected = [SCIPY[metric](row, scores).statistic for row in rows]
        found = correlations(rows, scores, metric)
        np.testing.assert_allclose(found, expected, rtol=0, atol=rounding(300, 2))


@pytest.mark.parametrize("metric", METRICS)
def test_the_standard_error_is_that_of_a_thousand_draws_of_the_pairs(metric: str) -> None:
    similarities, scores = np.array([0.1, 0.4, 0.4, 0.9]), np.array([0.0, 3.0, 1.0, 5.0])
    random = np.random.default_rng(0)
    draws = [draw for _ in range(10) for draw in random.integers(0, 4, (100, 4))]
    found = [scipy_of(metric, similarities[draw], scores[draw]) for draw in draws]
    assert 0.0 in found, "of equal similarities"
    error = standard_error(similarities, scores, metric)
    assert error == pytest.approx(np.std(found, ddof=1), rel=1e-9)
    # of boxes, whose squares underflow
    assert standard_error(similarities * 1e-200, scores, metric) == pytest.approx(error)


@pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
def test_a_year_of_sts_by_the_share_of_common_words() -> None:
    """A plain measure that anyone can compute again, on real files."""
    task = Sts(read(f"sts:{DATA}/sts/STS2012-gold", Kind.SCORED_PAIRS))
    assert list(task.subsets) == [
        "MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews",
    ]  # fmt: skip
    sides = [(set(a.split()), set(b.split())) for a, b in zip(*_sides(task), strict=True)]
    similarities = np.array([len(a & b) / len(a | b) for a, b in sides])
    found = task.metrics_of(similarities)
    assert len(found.metrics) == 2 + 5 * 2 + 4
    assert found.metrics["sts/pearson"] == pytest.approx(
        pearsonr(similarities, task.scores).statistic
    )
    assert found.tables["sts/counts.json"]["MSRpar/pearson"] == 750
    assert 0.3 < found.metrics["sts/pearson_weighted_mean"] < 0.7


def _sides(task: Sts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return task.pairs.first, task.pairs.second
