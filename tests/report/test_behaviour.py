"""The report section on model behaviour: escaped texts, and a table for each chart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sentune.errors import InvalidValue
from sentune.report import build
from sentune.report.behaviour import BEHAVIOUR_FILE, chapter
from sentune.report.behaviour_charts import BINS, scores
from sentune.report.blocks import Chart, Table
from sentune.report.render import to_html, to_markdown
from sentune.report.view import View, view
from tests.report.studies import finished, texts

EVIL = '</script><img src=x onerror="alert(1)"> <b>bold</b>'


def pair(number: int, label: Any = "entailment") -> dict[str, Any]:
    return {"first": f"{number} {EVIL}", "second": "a dog", "label": label, "score": number / 9}


def content() -> dict[str, Any]:
    scores = [n / 40 for n in range(40)]
    rte = {
        "task": "rte",
        "kind": "rte",
        "by": "entails",
        "pairs": 400,
        "scores": scores,
        "surplus": [n - 20 for n in range(40)],
        "threshold": 0.5,
        "positive": [int(n >= 15) for n in range(40)],
        "right": [pair(n) for n in range(5, 9)],
        "wrong": [pair(n, "other") for n in range(5, 7)],
    }
    direction = {**rte, "task": "direction", "kind": "direction", "by": "similarity", "pairs": 40}
    del direction["positive"]
    sts = {**rte, "task": "sts", "kind": "sts", "gold": scores, "right": [pair(1, 0.4)]}
    shapes = [
        {**pair(1), "outcome": "right", "shape": shape, "dimensions": [1, 4],
         "centre": [[0.0, 1.0], [1.0, 2.0]], "reach": [[1.0, 1.0], [2.0, 2.0]]}
        for shape in ("box", "Gaussian")
    ]  # fmt: skip
    placed = {"kind": EVIL, "first": EVIL, "second": "b", "places": [[0.0, 1.0], [2.0, 3.0]]}
    chosen = {"reference": EVIL, "coverage": 0.4, "similarity": None}
    return {
        "version": 1,
        "tasks": [rte, direction, sts],
        "map": {"explained": [0.5, 0.2], "pairs": [placed]},
        "shapes": shapes,
        "interpretations": [
            {"sentence": EVIL, "interpretations": [chosen]},
            {"sentence": "alone", "interpretations": []},
        ],
    }


@pytest.fixture
def seen(tmp_path: Path) -> View:
    (tmp_path / BEHAVIOUR_FILE).write_text(json.dumps(content()))
    item = {"operation": "fusion", "first": "a", "second": "b", "target": "a b",
            "generated": EVIL, "rouge1": 0.5}  # fmt: skip
    (tmp_path / "generation").mkdir()
    (tmp_path / "generation" / "examples.json").write_text(json.dumps([item]))
    summary = finished()
    for trial in summary.trials:
        trial.curve = {at: {**m, "train/loss": 1 / at} for at, m in trial.curve.items()}
    return view(summary, folder=tmp_path)


def test_every_chart_has_its_numbers_and_words(seen: View) -> None:
    blocks = [block for block in chapter(seen) if block is not None]
    charts = {block.name: block for block in blocks if isinstance(block, Chart)}
    assert set(charts) == {
        *("scores_0", "lengths_0", "scores_1", "lengths_1", "similarities_2"),
        *("embedding_map", "region_0", "region_1", "losses", "dev_and_test"),
    }
    for chart in charts.values():
        assert chart.title
        assert chart.description
        assert chart.table.lines
        assert chart.draw().data
    scores = texts(charts["scores_0"].table)
    assert [sum(int(row[place]) for row in scores) for place in (1, 2)] == [25, 15]
    lengths = {row[0]: tuple(row[1:]) for row in texts(charts["lengths_0"].table)}
    assert lengths == {
        "-39 to -20": ("100.0 %", "1"),
        "-19 to -1": ("73.7 %", "19"),
        "0": ("0.0 %", "1"),
        "1 to 20": ("100.0 %", "19"),
    }
    both = texts(charts["dev_and_test"].table)
    assert ["direction/accuracy", "93.1 ± 0.5 %", "91.7 %"] in both


def test_confusion_counts_every_pair(seen: View) -> None:
    tables = [block for block in chapter(seen) if isinstance(block, Table)]
    rte, direction = (table for table in tables if table.caption.startswith("Confusion"))
    assert texts(rte) == [
        ["entailment", "19 (76.0 %)", "6 (24.0 %)", "25"],
        ["other", "0 (0.0 %)", "15 (100.0 %)", "15"],
    ]
    assert texts(direction) == [
        ["first is longer", "19 (100.0 %)", "0 (0.0 %)", "19"],
        ["first is not longer", "0 (0.0 %)", "21 (100.0 %)", "21"],
    ]


def test_sentences_are_only_text_on_a_page_that_loads_nothing(seen: View) -> None:
    report = build(seen)
    page = to_html(report)
    assert len(page.encode()) < 8_000_000
    assert "<img" not in page.replace(_plotly(page), "")
    assert "default-src 'none'" in page
    drawings = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert len(drawings) == sum(
        block.kind == "chart" for s in report.sections for block in s.blocks
    )
    for drawing in drawings:
        for text in re.findall(r"<[^>]*>", json.dumps(json.loads(drawing))):
            assert text == "<br>"  # the only tag of plotly's that a chart uses
    assert "<img" not in to_markdown(report)


def test_a_study_without_the_file_has_no_such_section(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        report = build(view(finished(), folder=folder))
        assert "model" not in [section.name for section in report.sections]
        assert not report.interactive
        assert len(to_html(report)) < 1_000_000
    later = {**content(), "version": 99}
    (tmp_path / BEHAVIOUR_FILE).write_text(json.dumps(later))
    assert chapter(view(finished(), folder=tmp_path)) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / BEHAVIOUR_FILE).write_text("{")
    with pytest.raises(InvalidValue, match=r"behaviour\.json.*damaged.*command again"):
        chapter(view(finished(), folder=tmp_path))


def test_small_scores_have_a_logarithmic_axis(seen: View, tmp_path: Path) -> None:
    found = content()
    found["tasks"] = [{**found["tasks"][0], "threshold": 1e-5}]
    found["tasks"][0]["scores"] = [10.0 ** -(n / 4) for n in range(40)]
    (tmp_path / BEHAVIOUR_FILE).write_text(json.dumps(found))
    chart = next(block for block in chapter(seen) if isinstance(block, Chart))
    rows = texts(chart.table)
    assert rows[0][0].startswith("1.78e-10 to ")
    assert rows[-1][0].endswith(" to 1")
    assert sum(int(row[1]) for row in rows) == 25


def test_a_threshold_of_zero_has_no_place_on_a_logarithmic_axis() -> None:
    entry = content()["tasks"][0]
    entry |= {"scores": [10.0 ** -(n / 4) for n in range(40)], "threshold": 0.0}
    chart = scores(entry, "scores")
    (line,) = chart.draw().layout.shapes
    assert line.x0 == 0.0
    assert sum(int(row[1]) for row in texts(chart.table)) == 25


def test_scores_that_are_close_have_bars_with_ends_of_their_own() -> None:
    entry = content()["tasks"][0]
    entry |= {"scores": [1 - n / 1e6 for n in range(40)], "threshold": 1 - 2e-5}
    chart = scores(entry, "scores")
    assert len({row[0] for row in texts(chart.table)}) == BINS
    assert chart.description.endswith("the threshold, 0.99998.")


def _plotly(page: str) -> str:
    """The library itself, which has tags in its texts."""
    return max(re.findall(r"<script>(.*?)</script>", page, re.DOTALL), key=len)
