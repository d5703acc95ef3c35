from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.tracking.axes import Axis, axes_of
from sentune.tracking.importance import comparable, importance
from sentune.tracking.plots import MARKS, draw, history, precision_recall

OBJECTIVE = "direction/accuracy"
SPACE = {
    "learning_rate": {"uniform": [1e-5, 1e-2], "log": True},
    "batch_size": {"choice": [128, 32, 512]},
    "pooling": {"choice": ["cls", "mean"]},
    "layers": {"integer": [1, 12], "log": False, "step": 1},
}


def study(trials: list[TrialRecord], mode: str = "max") -> StudySummary:
    return StudySummary(
        study="little",
        method="gumbel",
        state="complete",
        objective=OBJECTIVE,
        mode=mode,
        corpora={},
        space={"settings": SPACE},
        trials=trials,
    )


def trial(number: int, value: float | None, **settings: Any) -> TrialRecord:
    metrics = {} if value is None else {OBJECTIVE: value}
    state = TrialState.FAILED if value is None else TrialState.COMPLETE
    return TrialRecord(id=number, state=state, settings=settings, metrics=metrics)


def searched(count: int) -> list[TrialRecord]:
    dice = random.Random(0)
    trials = []
    for number in range(count):
        settings = {
            "learning_rate": 10 ** dice.uniform(-5, -2),
            "batch_size": dice.choice([32, 128, 512]),
            "pooling": dice.choice(["cls", "mean"]),
            "layers": dice.randint(1, 12),
        }
        value = 0.9 + 0.1 * math.log10(settings["learning_rate"])
        trials.append(trial(number, value, **settings))
    return trials


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [trial(0, 0.5, learning_rate=1e-3, pooling="cls")],
        [trial(n, None, learning_rate=1e-3) for n in range(4)],
        [trial(0, math.nan, learning_rate=1e-3), trial(1, math.nan, learning_rate=1e-4)],
        [trial(n, 0.5, learning_rate=10.0**-n, pooling=None) for n in range(2, 10)],
        [trial(0, 0.5, odd=[1, 2]), trial(1, 0.6, odd="x"), trial(2, 0.7)],
        searched(40),
    ],
    ids=["none", "one", "all failed", "all NaN", "all equal", "odd values", "many"],
)
def test_every_study_has_its_pictures(tmp_path: Path, trials: list[TrialRecord]) -> None:
    recall = np.linspace(1, 0, 20)
    files = draw(study(trials), tmp_path, curves={"rte": (1 - recall / 2, recall)})
    assert [file.name for file in files] == [
        "history.png",
        "importance.png",
        "parallel.png",
        "precision_recall.png",
    ]
    for file in files:
        picture = matplotlib.image.imread(file)
        assert picture[..., :3].std() > 0.01  # something is drawn
        assert min(picture.shape[:2]) > 200


def test_every_state_has_a_mark_of_its_own() -> None:
    trials = [trial(number, 0.5) for number, _ in enumerate(TrialState)]
    for one, state in zip(trials, TrialState, strict=True):
        one.state = state
    axes = history(study(trials)).axes[0]
    words = {text.get_text() for text in axes.get_legend().get_texts()}
    assert words == {*(word for word, _, _ in MARKS.values()), "best so far"}
    assert len(axes.collections) == len({mark[1:] for mark in MARKS.values()}) == len(TrialState)


def test_trials_without_a_value_stand_at_the_foot_by_their_state() -> None:
    trials = [trial(0, 0.5), *(trial(number, None) for number in (1, 2, 3))]
    trials[2].state = TrialState.INFEASIBLE
    axes = history(study(trials)).axes[0]
    shown = {line.get_label(): list(line.get_xdata()) for line in axes.lines}
    assert shown["failed, no value"] == [1, 3]
    assert shown["no memory, no value"] == [2]


def test_the_importance_finds_what_made_the_objective() -> None:
    found = importance(study(searched(40)))
    assert found is not None
    assert found.shares["learning_rate"] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.fit > 0.8
    assert found.trials == 40


def test_a_study_of_noise_says_that_nothing_is_explained() -> None:
    trials = searched(40)
    dice = random.Random(1)
    for one in trials:
        one.metrics[OBJECTIVE] = dice.random()
    found = importance(study(trials))
    assert found is not None
    assert found.fit < 0.2


def test_trials_are_compared_at_one_budget() -> None:
    trials = searched(12)
    for one in trials:
        reached = (1000, 2000, 4000)[: 3 if one.id < 5 else 2 if one.id < 9 else 1]
        one.curve = {step: {OBJECTIVE: step / 1e4 + one.id / 1e3} for step in reached}
    budget, scores = comparable(study(trials))
    assert budget == 2000  # five reached 4000: less than half
    assert scores == {n: pytest.approx(0.2 + n / 1e3) for n in range(9)}


def test_axes_are_the_settings_that_varied() -> None:
    trials = [
        trial(0, 0.1, learning_rate=1e-4, batch_size=32, dimension=16),
        trial(1, 0.2, learning_rate=1e-3, batch_size=512, dimension=16),
    ]
    rate, batch = axes_of(study(trials))
    assert rate == Axis("learning_rate", low=1e-5, high=1e-2, log=True)
    assert rate.position(1e-5) == 0
    assert rate.position(math.sqrt(1e-5 * 1e-2)) == pytest.approx(0.5)
    assert [label for _, label in rate.ticks()] == ["1e-5", "1e-4", "0.001", "0.01"]
    assert batch.choices == (32, 128, 512)
    assert [batch.position(value) for value in (32, 128, 512, 64)] == [0, 0.5, 1, None]
    assert rate.position(math.nan) is None
    assert rate.position(None) is None


def test_the_area_is_the_trapezoid_rule() -> None:
    precision, recall = np.array([0.5, 0.8, 1.0]), np.array([1.0, 0.5, 0.0])
    figure = precision_recall({"rte": (precision, recall)})
    (label,) = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert label == "rte: area 0.775"
