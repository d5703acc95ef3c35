from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance

from sentune.formatting import STATES
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report import build
from sentune.report.axes import Axis, axes_of
from sentune.report.blocks import Figure
from sentune.report.drawing import to_canvas
from sentune.report.figures import history, write_figures
from sentune.report.importance import SHUFFLES, comparable, importance, rises_of_error
from sentune.report.sweep_figures import SweepTable, sweep_figures
from sentune.report.view import View
from tests.report.studies import finished
from tests.report.test_sweep_figures import interpretations

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
    ("trials", "wanted"),
    [
        ([], []),
        ([trial(0, 0.5, learning_rate=1e-3, pooling="cls")], ["history"]),
        ([trial(n, None, learning_rate=1e-3) for n in range(4)], []),
        ([trial(0, math.nan, learning_rate=1e-3), trial(1, math.nan, learning_rate=1e-4)], []),
        (
            [trial(n, 0.5, learning_rate=10.0**-n, pooling=None) for n in range(2, 10)],
            ["history", "parallel"],
        ),
        (
            [trial(0, 0.5, odd=[1, 2]), trial(1, 0.6, odd="x"), trial(2, 0.7)],
            ["history", "parallel"],
        ),
        (searched(40), ["history", "importance", "parallel"]),
    ],
    ids=["none", "one", "all failed", "all NaN", "all equal", "odd values", "many"],
)
def test_a_study_has_the_pictures_that_show_something(
    tmp_path: Path, trials: list[TrialRecord], wanted: list[str]
) -> None:
    files = write_figures(View(summary=study(trials)), tmp_path)
    assert [file.stem for file in files] == wanted
    for file in files:
        picture = matplotlib.image.imread(file)
        assert picture[..., :3].std() > 0.01  # something is drawn
        assert min(picture.shape[:2]) > 200


def test_a_finished_study_has_all_of_its_pictures(tmp_path: Path) -> None:
    summary = finished(20)
    summary.objectives = [
        {"metric": OBJECTIVE, "mode": "max"},
        {"metric": "train/seconds", "mode": "min"},
    ]
    names = {file.name for file in write_figures(View(summary=summary), tmp_path)}
    assert names == {
        *("history.png", "curves.png", "front.png", "importance.png", "parallel.png"),
        *("survival.png", "finalists.png", "cost.png"),
    }


def drawn(trials: list[TrialRecord]) -> Any:
    figure = history(View(summary=study(trials)))
    assert figure is not None
    return to_canvas(figure).axes[0]


def test_every_state_has_a_mark_of_its_own() -> None:
    trials = [trial(number, 0.5) for number, _ in enumerate(TrialState)]
    for one, state in zip(trials, TrialState, strict=True):
        one.state = state
    axes = drawn(trials)
    words = {text.get_text() for text in axes.get_legend().get_texts()}
    assert words == {*STATES.values(), "unfinished", "best so far"} - {"running"}
    marks = {tuple(one.get_paths()[0].vertices.ravel().round(3)) for one in axes.collections}
    assert len(marks) == len(TrialState) - 1  # one circle is hollow
    assert len(axes.collections) == len(TrialState)


def test_trials_without_a_value_stand_at_the_foot_by_their_state() -> None:
    trials = [trial(0, 0.5), *(trial(number, None) for number in (1, 2, 3))]
    trials[2].state = TrialState.INFEASIBLE
    shown = {one.get_label(): one.get_offsets()[:, 0].tolist() for one in drawn(trials).collections}
    assert shown["failed, no value"] == [1, 3]
    assert shown["infeasible, no value"] == [2]


def test_the_rises_of_error_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(5)
    table = random.random((60, 4))
    target = table @ [3.0, 1.0, 0.2, 0.0] + 0.1 * random.standard_normal(60)
    forest = RandomForestRegressor(20, random_state=0).fit(table, target)
    rises = rises_of_error(forest.predict, table, target)
    theirs = permutation_importance(
        forest, table, target, scoring="neg_mean_squared_error", n_repeats=SHUFFLES, random_state=0
    )
    errors = np.hypot(rises.std(1), theirs.importances_std) / math.sqrt(SHUFFLES)
    apart = np.abs(rises.mean(1) - theirs.importances_mean)
    assert (apart <= 4 * errors).all()
    assert (np.diff(rises.mean(1)[:3]) < -4 * errors[:2]).all(), "the larger weight stands out"


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
    close = Axis("learning_rate", choices=(1.25e-5, 1.5e-5))
    assert [label for _, label in close.ticks()] == ["1.25e-5", "1.5e-5"]
    assert batch.choices == (32, 128, 512)
    assert [batch.position(value) for value in (32, 128, 512, 64)] == [0, 0.5, 1, None]
    assert rate.position(math.nan) is None
    assert rate.position(None) is None


def test_no_drawing_reaches_over_its_edge() -> None:
    shown = [block for section in build(View(summary=finished())).sections
             for block in section.blocks if isinstance(block, Figure)]  # fmt: skip
    shown += sweep_figures(SweepTable.read(interpretations()))
    assert {one.name for one in shown} >= {"history", "curves", "parallel", "finalists", "heat"}
    for one in shown:
        canvas = to_canvas(one)
        FigureCanvasAgg(canvas).draw()
        drawn = canvas.get_tightbbox()  # inches
        edges = (drawn.x0, drawn.y0, one.width - drawn.x1, one.height - drawn.y1)
        assert min(edges) >= -0.01, (one.name, edges)
