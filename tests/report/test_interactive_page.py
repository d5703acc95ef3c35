"""Optuna's figures on one page."""

from __future__ import annotations

import re

import optuna
import pytest

from sentune.records import TrialState
from sentune.report.view import View
from sentune.study.interactive_page import figures_of, interactive_page, plain_study
from tests.report.studies import OBJECTIVE, finished, study, trials

HEADINGS = [
    "Optimisation history", "Intermediate values", "Slices", "Parallel coordinates",
    "Importance of settings",
]  # fmt: skip


CAPTION, CHART = "<figcaption><b>(.*?)</b>", '<div class="chart"'


def test_one_page_has_all_figures_and_plotly_once() -> None:
    text = interactive_page(finished(40))
    assert re.findall(CAPTION, text) == HEADINGS
    assert text.count(CHART) == len(HEADINGS)
    assert text.count("plotly.js v") <= 2  # its own banner
    assert 4e6 < len(text) < 6e6
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", text)


def test_several_objectives_have_their_front() -> None:
    summary = finished(20)
    summary.objectives = [
        {"metric": OBJECTIVE, "mode": "max"},
        {"metric": "train/seconds", "mode": "min"},
    ]
    text = interactive_page(summary)
    assert re.findall(CAPTION, text)[1] == "Pareto front"
    assert '"text":"train\\u002fseconds"' in text or '"text":"train/seconds"' in text


def test_what_cannot_be_drawn_is_said() -> None:
    text = interactive_page(study(trials(2)))  # both were stopped early
    assert text.count(": there is nothing to draw yet.") == 3
    assert text.count(CHART) == 1  # their curves
    assert "Importance of settings" not in text
    assert interactive_page(study([])).count(": there is nothing to draw yet.") == 4


def test_a_figure_that_optuna_refuses_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise ValueError("no common <parameter>")

    optuna.visualization.is_available()  # the module is loaded when it is first used
    monkeypatch.setattr(optuna.visualization, "plot_slice", refuses)
    text = interactive_page(finished(20))
    assert "<p>Slices: Optuna cannot draw it: no common &lt;parameter&gt;</p>" in text
    assert text.count(CHART) == 3


def test_a_plain_study_is_the_summary_in_optunas_terms() -> None:
    summary = finished(12)
    made = plain_study(summary)
    assert made.direction == optuna.study.StudyDirection.MAXIMIZE
    for record, trial in zip(summary.trials, made.trials, strict=True):
        assert trial.number == record.id
        assert trial.user_attrs == {}
        assert trial.params["learning_rate"] == record.settings["learning_rate"]
        if record.state is TrialState.COMPLETE:
            assert trial.value == record.metrics[OBJECTIVE]
        curve = {at: said[OBJECTIVE] for at, said in record.curve.items()}
        assert trial.intermediate_values == curve


def test_what_breaks_a_constraint_is_no_best_of_optunas() -> None:
    records = [one for one in trials(24) if one.state is TrialState.COMPLETE]
    values = {record.id: record.metrics[OBJECTIVE] for record in records}
    first = max(values, key=lambda number: values[number])
    for record in records:
        record.violations = {"train/seconds<=600": 1.0 if record.id == first else -1.0}
    history = figures_of(plain_study(study(records)), [OBJECTIVE])["history"]()
    (best,) = (line for line in history.data if line.name == "Best Value")
    assert best.y[-1] == max(value for number, value in values.items() if number != first)


def test_trials_keep_their_numbers_and_a_long_study_shows_its_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = trials(12)
    made = plain_study(study([record for record in records if record.id not in (1, 3)]))
    assert [t.number for t in made.trials if t.value is not None] == [2, 8]
    assert made.trials[1].params == made.trials[3].params == {}
    monkeypatch.setattr("sentune.study.interactive_page.MOST", 2)
    shown = [t.number for t in plain_study(study(records)).trials if t.params]
    assert shown == sorted(one.id for one in View(summary=study(records)).ranked[:2])


def test_texts_of_users_are_only_text() -> None:
    evil = '</script><script>alert("x")</script><a href="http://evil">'
    secret = "http://ann:hunter2@host/"
    summary = finished(12)
    summary.study = evil
    for trial in summary.trials:
        trial.settings = {**trial.settings, "pooling": [evil, secret][trial.id % 2], evil: trial.id}
        trial.reason = evil
    summary.space["settings"].pop("pooling", None)
    text = interactive_page(summary)
    assert "<script>alert" not in text
    figures, _, _ = text.partition("plotly.js v")
    assert "<a href" not in figures.replace("\\u003c", "<").partition("<main>")[2]
    assert "hunter2" not in text
