"""Studies of several methods side by side."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import pytest
from scipy import stats

from sentune.errors import InvalidValue
from sentune.records import FinalistRecord, Spread, StudySummary, TrialState
from sentune.report.leaderboard import leaderboard, leaderboard_report, leaderboard_table
from sentune.report.paired import HITS_FILE, stored_hits
from sentune.report.render import to_html
from sentune.report.view import View
from tests.report.studies import OBJECTIVE, study, trial, trials


def seen(name: str, values: list[float], **others: object) -> View:
    summary: StudySummary = study(trials(3), method=f"method-{name}", state="complete")
    mean = sum(values) / len(values)
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1))
    over = {OBJECTIVE: Spread(mean=mean, sd=sd, values=values)}
    seeds = list(range(len(values)))
    summary.study, summary.winner = name, 0
    summary.finalists = [
        FinalistRecord(trial=0, settings={}, seeds=seeds, readouts={}, metrics=over)
    ]
    for field, value in others.items():
        setattr(summary, field, value)
    return View(summary=summary)


def test_the_best_comes_first_with_errors_and_welch_s_test() -> None:
    a, b = [0.90, 0.91, 0.92], [0.95, 0.96]
    test = {OBJECTIVE: 0.94, f"{OBJECTIVE}_standard_error": 0.02}
    views = [seen("a", a), seen("b", b, test=test), seen("c", [0.5])]
    found = leaderboard(views)
    assert list(found.index) == ["b", "a", "c"]
    assert found["dev"].tolist() == pytest.approx([0.955, 0.91, 0.5])
    assert found.loc["a", "error"] == pytest.approx(0.01)
    assert found.loc["b", "test"] == 0.94
    assert found.loc["a", "p"] == pytest.approx(stats.ttest_ind(b, a, equal_var=False).pvalue)
    assert math.isnan(found.loc["b", "p"])
    assert math.isnan(found.loc["c", "p"])
    assert found["seeds"].tolist() == [2, 3, 1]
    assert found["test_error"].tolist() == pytest.approx([0.02, math.nan, math.nan], nan_ok=True)
    assert "94.0 ± 2.0 %" in to_html(leaderboard_report(views)).replace("\N{NO-BREAK SPACE}", " ")


def test_what_was_judged_on_other_rows_or_never_differs_is_not_tested() -> None:
    same, other = ({"dev": {"spec": "x", "fingerprint": f, "rows": 9}} for f in ("one", "another"))
    views = [
        seen("a", [0.95, 0.96], corpora=same),
        seen("b", [0.90, 0.91], corpora=same),
        seen("c", [0.80, 0.81], corpora=other),
    ]
    p = leaderboard(views)["p"]
    assert p["b"] == pytest.approx(stats.ttest_ind([0.95, 0.96], [0.90, 0.91], equal_var=False)[1])
    assert math.isnan(p["c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = leaderboard([seen("a", [0.9, 0.9]), seen("b", [0.8, 0.8]), seen("c", [0.7, 0.71])])
    assert found["p"].isna().tolist() == [True, True, False]


def test_smaller_is_first_where_the_objective_is_smaller_the_better() -> None:
    found = leaderboard([seen("a", [0.9], mode="min"), seen("b", [0.1], mode="min")])
    assert list(found.index) == ["b", "a"]


@pytest.mark.parametrize(
    ("metric", "order"),
    [
        ("toy/loss", "ab"),
        ("train/deviation", "ab"),
        ("toy/loss:max", "ba"),
        ("toy/auc", "ba"),
        ("toy/auc:min", "ab"),
    ],
)
def test_a_metric_that_is_no_objective_says_whether_smaller_is_better(
    metric: str, order: str
) -> None:
    views = [seen("a", [0.9]), seen("b", [0.8])]
    for view, value in zip(views, (0.1, 0.2), strict=True):
        over = Spread(mean=value, sd=0.0, values=[value])
        view.summary.finalists[0].metrics |= {
            "toy/loss": over,
            "toy/auc": over,
            "train/deviation": over,
        }
    found = leaderboard(views, metric)
    assert "".join(found.index) == order
    assert set(found["metric"]) == {metric.partition(":")[0]}
    with pytest.raises(
        InvalidValue, match=r"--metric: 'nope/x'.*the studies have .*toy/auc, toy/loss"
    ):
        leaderboard(views, "nope/x")
    with pytest.raises(InvalidValue, match=r"--metric: 'toy/loss:low'.*max or min"):
        leaderboard(views, "toy/loss:low")


def test_an_objective_is_turned_where_the_metric_says_so() -> None:
    views = [seen("a", [0.9], mode="min"), seen("b", [0.1], mode="min")]
    assert list(leaderboard(views, OBJECTIVE).index) == ["b", "a"]
    assert list(leaderboard(views, f"{OBJECTIVE}:max").index) == ["a", "b"]


def test_a_study_without_a_trial_at_its_end_is_last() -> None:
    begun = study([trial(0, TrialState.RUNNING, 9000)], "interrupted")
    begun.study, begun.trials[0].metrics = "begun", {OBJECTIVE: 0.99}
    found = leaderboard([View(summary=begun), seen("a", [0.5])])
    assert list(found.index) == ["a", "begun"]
    assert math.isnan(found.loc["begun", "dev"])
    assert found.loc["begun", "state"] == "interrupted"


def test_other_objectives_need_a_metric_and_what_lacks_it_is_last() -> None:
    views = [seen("a", [0.9]), seen("b", [0.8], objective="sts/pearson")]
    with pytest.raises(InvalidValue, match=r"^--metric: missing; .* different .*sts/pearson"):
        leaderboard(views)
    with pytest.raises(InvalidValue, match="at least one study"):
        leaderboard([])
    table = leaderboard_table([seen("x", [0.7]), *views], OBJECTIVE)
    assert [line[0][0].text for line in table.lines] == ["a", "b", "x"]


def test_models_are_compared_on_the_same_test_pairs(tmp_path: Path) -> None:
    right = {"a": [1.0] * 9 + [0.0], "b": [1.0] * 3 + [0.0] * 7, "c": [1.0] * 5 + [0.0] * 5}
    tests = {"a": "one", "b": "one", "c": "another"}
    views = []
    for place, (name, hits) in enumerate(right.items()):
        corpora = {"test": {"spec": "x", "fingerprint": tests[name]}}
        one = seen(name, [0.9 - place / 10], corpora=corpora)
        (tmp_path / name).mkdir()
        file = tmp_path / name / HITS_FILE
        file.write_text(json.dumps({OBJECTIVE: hits}), encoding="utf-8")
        views.append(View(summary=one.summary, folder=tmp_path / name))
    found = leaderboard(views)["p_pairs"]
    assert found["b"] == pytest.approx(stats.binomtest(6, 6).pvalue)
    assert math.isnan(found["a"])
    assert math.isnan(found["c"])
    heads = [column.head for column in leaderboard_table(views).columns]
    assert "p of pairs" in heads
    assert "p" not in heads


def test_damaged_hits_are_one_sentence_with_file_and_fix(tmp_path: Path) -> None:
    (tmp_path / HITS_FILE).write_text('{"rte/accuracy": [1,', encoding="utf-8")
    with pytest.raises(InvalidValue, match=f"{HITS_FILE}.*damaged.*command again"):
        stored_hits(tmp_path)


def test_it_is_a_page(tmp_path: Path) -> None:
    page = to_html(leaderboard_report([seen("<b>", [0.9, 0.92]), seen("other", [0.8])]))
    assert "91.0 ± 1.4 %" in page
    assert "&lt;b&gt;" in page
    assert "Welch" in page
