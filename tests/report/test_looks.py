"""How pages look in a browser: on a telephone, in the dark, on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentune.report import build
from sentune.report.behaviour import BEHAVIOUR_FILE
from sentune.report.leaderboard import leaderboard_report
from sentune.report.render import to_html
from sentune.report.view import view
from sentune.study.interactive_page import interactive_page
from tests.chromium import PROGRAM, Chromium, chromium
from tests.report.studies import finished
from tests.report.test_behaviour import content
from tests.report.test_leaderboard import seen

pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt-get install chromium"),
]

TELEPHONE, DESK, PAPER = 390, 1200, 718
"""Widths in pixels; A4 between its margins."""

CUT = """[...document.querySelectorAll("body *")].filter(element => {
  const style = getComputedStyle(element);
  return ["hidden", "clip"].includes(style.overflowX) && !element.closest("svg")
    && element.scrollWidth > element.clientWidth + 1;
}).map(element => element.outerHTML.slice(0, 200))"""
"""Elements that hide a part of what they hold."""

OUTSIDE = """[...document.querySelectorAll(".chart text")].filter(text => {
  const own = text.getBoundingClientRect();
  const all = text.closest(".chart").getBoundingClientRect();
  return own.width > 0 && (own.left < all.left - 1 || own.right > all.right + 1
    || own.top < all.top - 1 || own.bottom > all.bottom + 1);
}).map(text => text.closest(".chart").id + ": " + text.textContent)"""
"""Texts of a chart that reach over its edge."""

COLOURS = """["p", "td", "figcaption", "summary", ".chart text", ".drawing text"].map(one => {
  const found = document.querySelector(one), style = getComputedStyle(found);
  return [one, found.closest("svg") ? style.fill : style.color,
          getComputedStyle(document.body).backgroundColor];
})"""
"""Texts of each kind, their colour and the page's."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, found = tmp_path_factory.mktemp("report"), content()
    long = "a sentence of many words that goes on and on until the page has to break it somewhere"
    for entry in found["tasks"]:
        for pair in (*entry["right"], *entry["wrong"]):
            pair["first"], pair["second"] = long, "x" * 90
    found["shapes"][0] |= {"first": long, "second": long, "label": "entailment"}
    (folder / BEHAVIOUR_FILE).write_text(json.dumps(found))
    summary = finished()
    for trial in summary.trials:
        trial.curve = {at: {**m, "train/loss": 1 / at} for at, m in trial.curve.items()}
    file = folder / "report.html"
    file.write_text(to_html(build(view(summary, folder=folder))), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    views = [seen(f"a-study-with-a-long-name-{n}", [0.9, 0.9 + n / 100]) for n in range(4)]
    file = tmp_path_factory.mktemp("comparison") / "compare.html"
    file.write_text(to_html(leaderboard_report(views)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def optuna_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("optuna") / "figures.html"
    file.write_text(interactive_page(finished(20)), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [TELEPHONE, DESK])
@pytest.mark.parametrize("shown", ["page", "comparison_page", "optuna_page"])
def test_nothing_is_cut_and_the_page_does_not_scroll_sideways(
    shown: str, width: int, request: pytest.FixtureRequest, browser: Chromium
) -> None:
    page: Path = request.getfixturevalue(shown)
    browser.open(page, width)
    browser.run('document.querySelectorAll("details").forEach(one => one.open = true)')
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT) == []
    assert browser.run(OUTSIDE) == []


@pytest.mark.parametrize(("shown", "count"), [("page", 10), ("optuna_page", 4)])
def test_every_chart_is_drawn_under_the_pages_own_policy(
    shown: str, count: int, request: pytest.FixtureRequest, browser: Chromium
) -> None:
    page: Path = request.getfixturevalue(shown)
    browser.errors.clear()
    browser.open(page, DESK)
    charts = browser.run('document.querySelectorAll(".chart").length')
    assert charts == count
    assert browser.run('document.querySelectorAll(".chart .main-svg").length') >= charts
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_in_light_and_dark(dark: bool, page: Path, browser: Chromium) -> None:
    browser.open(page, DESK, dark=dark)
    found = browser.run(COLOURS)
    assert (luminance(found[0][2]) < 0.1) is dark
    for kind, ink, paper in found:
        low, high = sorted((luminance(ink), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (kind, ink, paper)  # WCAG 2.2, 1.4.3


def test_on_paper_tables_are_open_and_nothing_is_cut(page: Path, browser: Chromium) -> None:
    browser.open(page, PAPER, media="print")
    browser.run('dispatchEvent(new Event("beforeprint"))')
    assert browser.run("document.documentElement.scrollWidth") <= PAPER
    assert browser.run("""[...document.querySelectorAll("section > details")]
        .every(one => one.open)""")
    assert (
        browser.run("""[...document.querySelectorAll(".scroll")]
        .filter(one => one.scrollHeight > one.clientHeight + 1).length""")
        == 0
    )
    browser.run('dispatchEvent(new Event("afterprint"))')
    assert not browser.run('document.querySelector("section > details").open')


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)``, by WCAG."""
    numbers: Any = colour[colour.index("(") + 1 : -1].split(",")[:3]
    parts = [float(number) / 255 for number in numbers]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
