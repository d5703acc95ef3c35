"""Sweeps become tables and pictures: a heat map of the alphas, a curve of every number."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from sentune.readouts.sweep import Sweep
from sentune.report.drawing import to_canvas
from sentune.report.sweep_figures import (
    SweepTable,
    heat,
    precision_recall,
    scale_of,
    sweep_figures,
    write_tables,
)

ALPHAS = (0.1, 0.3, 0.5, 0.7)


def interpretations() -> dict:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.3, 0.6, (2, 3, 4, 4))
    below = np.array(ALPHAS)[:, None] < np.array(ALPHAS)[None]
    values[..., ~below] = np.nan
    axes = {
        "intersection": ("gumbel", "hard"),
        "references": (10, 1000, 20_000),
        "alpha_1": ALPHAS,
        "alpha_2": ALPHAS,
    }
    return Sweep(metric="ambiguous-rte/macro_f1", axes=axes, values=values).to_table()


def test_alphas_make_a_heat_map_and_references_a_curve(tmp_path: Path) -> None:
    write_tables({"ambiguous-rte/sweep.json": interpretations()}, tmp_path)
    files = sorted(tmp_path.rglob("*.png"))
    assert [file.name for file in files] == ["curve_references.png", "heat.png"]
    assert json.loads((tmp_path / "ambiguous-rte" / "sweep.json").read_text()) == interpretations()
    for file in files:
        with Image.open(file) as picture:
            assert len(set(picture.convert("L").getdata())) > 20, "the picture is blank"


def test_the_heat_map_shows_the_best_plane_in_percent() -> None:
    table = interpretations()
    figure = heat(SweepTable.read(table))
    shown = {text.get_text() for text in to_canvas(figure).axes[0].texts}
    best = table["best"]
    assert f"{100 * best['value']:.1f}" in shown
    assert f"intersection {best['intersection']}" in figure.description
    assert figure.table is not None
    column = figure.table.heads.index(f"alpha_2 {best['alpha_2']:g}")
    cells = {row[0].key: row for row in figure.table.rows}  # type: ignore[union-attr]
    assert cells[best["alpha_1"]][column].key == best["value"]  # type: ignore[union-attr]


def test_a_combination_that_was_passed_over_is_not_called_worse() -> None:
    open_ = SweepTable.read(interpretations())
    assert "Higher ones" not in "".join(one.description for one in sweep_figures(open_))
    values = open_.values.copy()
    place = np.unravel_index(np.nanargmax(values), values.shape)
    values[*place[:2], 0, 1:] = 0.9  # above the chosen one, and barred
    barred = np.zeros(values.shape, bool)
    barred[*place[:2], 0, 1:] = True
    sweep = Sweep(metric=open_.metric, axes=open_.axes, values=values, barred=barred)
    told = heat(SweepTable.read(sweep.to_table())).description
    assert "The chosen value is framed. Higher values leave" in told
    assert "the best" not in told


def test_the_table_of_a_curve_has_the_best_precision_from_each_recall_on() -> None:
    figure = precision_recall({"rte": ([0.5, 0.8, 0.7, 1.0], [1.0, 0.8, 0.4, 0.05])}, "test")
    assert figure is not None
    assert figure.table is not None
    assert [row[2] for row in figure.table.rows] == ["80.0 %"] * 4 + ["50.0 %"] * 2


def test_components_make_a_curve_and_one_value_none(tmp_path: Path) -> None:
    curve = Sweep(metric="sts/pearson", axes={"components": tuple(range(151))},
                  values=np.sin(np.arange(151) / 50)).to_table()  # fmt: skip
    single = Sweep(metric="sts/pearson", axes={"components": (3,)}, values=np.array([0.5]))
    write_tables({"sts/sweep.json": curve}, tmp_path)
    assert [file.name for file in tmp_path.rglob("*.png")] == ["curve_components.png"]
    assert sweep_figures(SweepTable.read(single.to_table())) == []


def test_a_cut_has_its_readouts_in_the_order_that_was_asked_for() -> None:
    table = SweepTable.read(interpretations())
    at = {name: table.axes[name].index(table.best[name]) for name in table.axes}
    for i, lower in enumerate(ALPHAS):
        for j, upper in enumerate(ALPHAS):
            value = table.values[at["intersection"], at["references"], i, j]
            assert np.array_equal(table.at_best("alpha_1", "alpha_2")[i, j], value, equal_nan=True)
            assert np.array_equal(table.at_best("alpha_2", "alpha_1")[j, i], value, equal_nan=True)
            assert np.isnan(value) == (lower >= upper)


def test_only_values_far_apart_are_spread_by_their_logarithm() -> None:
    assert scale_of(range(151)) == "linear"
    assert scale_of([0.1, 0.5, 0.9]) == "linear"
    assert scale_of([10, 1000, 20_000]) == "log"
    assert scale_of([0, 10, 1000]) == "symlog"


def test_the_area_is_the_trapezoid_rule() -> None:
    figure = precision_recall({"rte": ([0.5, 0.8, 1.0], [1.0, 0.5, 0.0])}, "dev")
    assert figure is not None
    assert figure.title == "Precision and recall of the winner on dev"
    assert figure.description.startswith("rte: area 77.5 %,")
    assert precision_recall({}, "dev") is None
