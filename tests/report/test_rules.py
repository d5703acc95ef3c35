"""Whether a model beats the rules that need none, and where that is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sentune.records import FinalistRecord, Spread, StudySummary
from sentune.report.render import to_html
from sentune.report.rules import of_rule, rules_of, verdict_on
from sentune.report.study_page import build
from sentune.report.view import View
from sentune.tracking.run_content import describe
from tests.report.studies import study, trials

RTE = "rte/accuracy"
DIRECTION = {
    "direction/length": 0.982,
    "direction/length_words": 0.917,
    "direction/bag_of_words": 0.778,
    "rte/majority": 0.66,
}


def test_a_metric_has_the_rules_of_its_task_the_best_first() -> None:
    assert list(rules_of("direction/by_extent", DIRECTION)) == [
        "sentence length", "length in words", "bag of words",
    ]  # fmt: skip
    assert rules_of("rte/accuracy", DIRECTION) == {"larger class": 0.66}
    assert rules_of("rte/auc", DIRECTION) == {}
    ambiguous = {"ambiguous-rte/majority": 0.5, "ambiguous-rte/always_both": 0.489}
    assert rules_of("ambiguous-rte/f1_both", ambiguous) == {"always both": 0.489}
    assert rules_of("ambiguous-rte/accuracy", ambiguous) == {"larger class": 0.5}
    copied = {"fusion/copy_rouge1": 0.85, "fusion/copy_rouge2": 0.7}
    assert rules_of("fusion/rouge2", copied) == {"copying": 0.7}


@pytest.mark.parametrize(
    ("value", "error", "beaten", "words"),
    [
        (0.917, 0.01, False, "does not beat sentence length (98.2 %)"),
        (0.982, None, False, "does not beat sentence length (98.2 %)"),
        (0.985, 0.004, None, "98.5 % on test, with its 95 % interval of ± 0.4 % on dev."),
        (0.979, 0.004, None, "The comparison with sentence length (98.2 %) is inconclusive"),
        (0.991, 0.003, True, "(98.2 %), by more than its 95 % interval of ± 0.3 % on dev: "),
        (0.991, None, None, "99.1 % on test (one run, no error bar)"),
    ],
)
def test_a_model_beats_a_rule_by_more_than_its_error(
    value: float, error: float | None, beaten: bool | None, words: str
) -> None:
    found = verdict_on("direction/accuracy", value, error, DIRECTION, "test")
    assert found is not None
    assert (found.beaten, words in found.text) == (beaten, True)


@pytest.mark.parametrize(
    ("p", "beaten", "words"),
    [
        (0.2, None, "The comparison with sentence length (98.2 %) is inconclusive"),
        (0.2, None, "99.1 % on test (paired: difference 0.9 ± 0.7 %, p = 0.2, 3,368 pairs)"),
        (1e-9, True, "98.2 %): direction/accuracy 99.1 % on test (paired: difference 0.9 ± 0.7 %"),
    ],
)
def test_on_the_same_pairs_the_difference_has_to_be_significant(
    p: float, beaten: bool | None, words: str
) -> None:
    test = {"difference": 0.009, "standard_error": 0.007, "p": p, "items": 3368}
    paired = {"direction/length": test, "direction/bag_of_words": {"p": 0.0}}
    found = verdict_on("direction/accuracy", 0.991, 0.012, DIRECTION, "test", paired)
    assert found is not None
    assert (found.beaten, words in found.text) == (beaten, True), found.text


def test_a_correlation_on_test_has_an_error_of_its_own() -> None:
    rules = {"sts/word_average_spearman": 0.71}
    found = verdict_on("sts/spearman", 0.74, 0.02, rules, "test", error_on="test")
    assert found is not None
    assert "by more than its 95 % interval of ± 2.0 %: sts/spearman 74.0 % on test" in found.text
    over = Spread(mean=0.75, sd=0.001, values=[0.749, 0.751])
    finalist = FinalistRecord(trial=0, settings={}, seeds=[1, 2], metrics={"sts/spearman": over})
    test = {"sts/spearman": 0.74, "sts/spearman_standard_error": 0.04}
    summary = study(trials(3), test=test, objective="sts/spearman", baselines=rules)
    summary = replace(summary, finalists=[finalist], winner=0, model="studies/s/model")
    seen = View(summary=summary)
    assert seen.against_rules is not None
    assert "74.0 % on test, with its 95 % interval of ± 7.8 %." in seen.against_rules.text
    rows = {names: on_test for names, _, on_test, _ in seen.metric_rows}
    assert rows["sts/spearman"] == "74.0 ± 4.0 %"
    assert seen.test_kind == "shipped model, ± se over pairs"
    summary.test.pop("sts/spearman_standard_error")  # of an earlier version
    # one run of which two seeds tell the deviation: 12.7 times that
    assert "± 1.3 % on dev" in str(View(summary=summary).against_rules)


def test_two_seeds_seldom_tell_a_model_from_a_rule() -> None:
    """One standard deviation of two seeds lets a model that is as good as the rule beat it in 20 %
    of all cases, and half of a 95 % interval in 2.5 %."""
    rules, beaten, random = {"rte/majority": 0.7}, 0, np.random.default_rng(0)
    for values in 0.7 + random.normal(0, 0.01, (200, 2)):
        over = Spread.of(values.tolist())
        finalist = FinalistRecord(trial=0, settings={}, seeds=[1, 2], metrics={RTE: over})
        summary = study(trials(1), objective=RTE, baselines=rules)
        summary = replace(summary, finalists=[finalist], winner=0, model="studies/s/model")
        found = View(summary=summary).against_rules
        assert found is not None
        beaten += found.beaten is True
    assert beaten / 200 < 0.05


def test_averages_of_word_vectors_are_a_rule_for_each_metric_of_their_task() -> None:
    rules = {"rte/majority": 0.66, "rte/word_average_accuracy": 0.7, "rte/word_average_auc": 0.5}
    assert rules_of("rte/accuracy", rules) == {"averaged word vectors": 0.7, "larger class": 0.66}
    assert rules_of("rte/auc", rules) == {"averaged word vectors": 0.5}
    assert all(map(of_rule, rules))
    assert not of_rule("rte/average_precision")


def test_without_a_rule_there_is_no_verdict() -> None:
    assert verdict_on("sts/pearson", 0.8, 0.01, DIRECTION, "dev") is None


@pytest.fixture
def losing() -> StudySummary:
    summary = study(trials(3), test={"direction/accuracy": 0.917, "direction/by_extent": 0.917})
    values = {"direction/accuracy": [0.91, 0.92], "direction/by_extent": [0.91, 0.92]}
    over = {name: Spread(mean=0.915, sd=0.005, values=each) for name, each in values.items()}
    finalist = FinalistRecord(trial=0, settings={}, seeds=[1, 2], readouts={}, metrics=over)
    summary.objective, summary.baselines = "direction/accuracy", DIRECTION
    summary.finalists, summary.winner, summary.model = [finalist], 0, "studies/s/model"
    return summary


def test_the_first_lines_of_report_and_description_say_it(losing: StudySummary) -> None:
    text = "It does not beat sentence length (98.2 %): direction/accuracy 91.7 % on test."
    blocks = build(View(summary=losing)).sections[0].blocks
    assert (blocks[1].text, blocks[1].tone) == (text, "bad")  # type: ignore[union-attr]
    unbroken = text.replace(" %", "\N{NO-BREAK SPACE}%")
    assert f'<p class="bad">{unbroken}</p>' in to_html(build(View(summary=losing)))
    assert describe(losing, "models:/s@champion").splitlines()[0].endswith(text)


def test_the_error_of_one_seed_is_none_of_seeds(losing: StudySummary) -> None:
    assert View(summary=losing).error_kind == "± sd over seeds"
    one = Spread(mean=0.91, sd=0.0, values=[0.91])
    losing.finalists[0] = replace(
        losing.finalists[0], seeds=[1], metrics=dict.fromkeys(losing.finalists[0].metrics, one)
    )
    assert View(summary=losing).error_kind == "one run"
    assert "trained again from 1 seed\n" in describe(losing, "models:/s@champion")
    losing.finalists[0].metrics["direction/accuracy_standard_error"] = one
    assert View(summary=losing).error_kind == "± se over pairs"


def test_equal_accuracies_are_one_row_with_their_rules(losing: StudySummary) -> None:
    rows = View(summary=losing).metric_rows
    (row,) = [row for row in rows if row[0].startswith("direction/")]
    assert row == (
        "direction/accuracy, by_extent",
        "91.5 ± 0.5 %",
        "91.7 %",
        "98.2 % sentence length, 91.7 % length in words, 77.8 % bag of words",
    )
    losing.test["direction/by_extent"] = 0.9
    rows = View(summary=losing).metric_rows
    assert len([row for row in rows if row[0].startswith("direction/")]) == 2
