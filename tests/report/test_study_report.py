"""The page as a whole: every state, nothing from outside, everything escaped."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sentune.errors import InvalidValue
from sentune.io.atomic import StorageError
from sentune.records import StudySummary, TrialRecord, TrialState
from sentune.report import build, write
from sentune.report.importance import Importance
from sentune.report.render import to_html, to_markdown
from sentune.report.view import view
from tests.report.studies import OBJECTIVE, finished, study, trial, trials

EVIL = '<script>alert("x")</script> & $x_2 | `y`'
VOID = {"meta", "path", "use", "rect", "br"}


@pytest.fixture(autouse=True)
def _quick_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forest has tests of its own and takes seconds."""
    found = Importance(
        shares={"learning_rate": 0.9, "batch_size": 0.1},
        spreads={"learning_rate": 0.1, "batch_size": 0.02},
        trials=8,
        examples=1000,
        fit=0.5,
    )
    monkeypatch.setattr("sentune.report.view.importance", lambda summary: found)


class Page(HTMLParser):
    """Tags, attributes and texts of a page; complains of tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def states() -> dict[str, tuple[StudySummary, str]]:
    bad = [trial(n, TrialState.FAILED, 0, reason="loss is nan") for n in range(3)]
    running = [*trials(6), trial(6, TrialState.RUNNING, 1000)]
    closed = study(trials(0), plan={}, test={})
    closed.trials = [
        TrialRecord(
            id=n,
            state=TrialState.COMPLETE,
            settings={"form": form},
            metrics={OBJECTIVE: 0.7 + n / 10, f"{OBJECTIVE}_standard_error": 0.01},
            readouts={"sts/n_h": 14},
            examples=100,
        )
        for n, form in enumerate(("res", "reco"))
    ]
    return {
        "complete": (finished(), "93.1 ± 0.5 %"),
        "running": (study(running, "running"), "The study is running"),
        "stopped": (study(trials(6), "stopped", reason="12 GPU hours are used up"), "12 GPU hours"),
        "failed": (study(bad, "failed", reason="3 of 3 trials failed"), "No trial has a value"),
        "closed form": (closed, "80.0 ± 1.0 % (± standard error over the pairs)"),
        "one": (study([trial(2, TrialState.COMPLETE, 9000)]), "one run, no error bar"),
        "none": (study([], "running"), "No trial has started yet"),
    }


def test_a_report_that_cannot_be_written_names_the_option_of_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    summary, _ = states()["none"]
    with pytest.raises(StorageError, match="give another --out"):
        write(build(view(summary, summary.trials)), file / "report", "--out")


@pytest.mark.parametrize("name", list(states()))
def test_every_state_has_its_page(name: str, tmp_path: Path) -> None:
    summary, said = states()[name]
    html, markdown = write(build(view(summary, summary.trials)), tmp_path)
    assert (html.name, markdown.name) == ("report.html", "report.md")
    page = Page(html.read_text(encoding="utf-8"))
    assert not page.open
    assert said in page.text
    assert said.replace("_", "\\_") in markdown.read_text(encoding="utf-8")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for picture in page.of("svg"):
        assert picture["role"] == "img"
        assert picture["aria-labelledby"] in ids
    anchors = [str(link["href"]).removeprefix("#") for link in page.of("a")]
    assert set(anchors) < set(ids)


def test_nothing_comes_from_outside() -> None:
    text = to_html(build(view(finished(), finished().trials)))
    page = Page(text)
    assert not re.search(r"https?:|url\((?!#)|@import|//[a-z]", text)
    assert not page.of("link") + page.of("img") + page.of("iframe") + page.of("image")
    (script,) = page.of("script")
    assert not script
    for _, attributes in page.tags:
        assert not attributes.keys() & {"src", "srcset", "data", "action", "onload", "onclick"}
        for name in ("href", "xlink:href"):
            assert str(attributes.get(name, "#")).startswith("#")


def test_texts_of_users_are_only_text() -> None:
    records = trials(6)
    records[4].reason = records[3].reason = EVIL
    records[0].notes = [EVIL]
    records[1].violations = {EVIL: 1.0}
    for record in records:
        record.settings["odd"] = [EVIL, f"{EVIL} 2"][record.id % 2]
        record.settings[EVIL] = record.id / 10
        record.metrics = {**record.metrics, EVIL: 0.5}
    summary = study(
        records, study=EVIL, reason=EVIL, verdict=EVIL, method=EVIL, state="stopped",
        warm_start=[EVIL], forked_from=EVIL, comparison={EVIL: EVIL}, test_reads=[{EVIL: EVIL}],
        lineage={"command": EVIL, "encoder": EVIL, "packages": {EVIL: EVIL}},
        plan={"scheduler": EVIL, "rungs": [1000]}, objective=EVIL, baselines={EVIL: 0.1},
    )  # fmt: skip
    summary.corpora[EVIL] = {"spec": EVIL, "fingerprint": EVIL, "kind": EVIL, "rows": 1}
    report = build(view(summary, records))
    page = Page(to_html(report))
    assert len(page.of("script")) == 1
    assert 'alert("x")</script>' in page.text
    outside_code = re.sub(r"(?m)^    .*$", "", to_markdown(report))
    assert "<script" not in outside_code
    assert "$x_2" in page.text


def test_a_summary_on_disk_gives_the_same_page() -> None:
    summary = finished()
    content = json.loads(json.dumps(summary.to_dict()))
    assert to_html(build(view(content, summary.trials))) == to_html(
        build(view(summary, summary.trials))
    )
    alone = Page(to_html(build(view(content))))
    assert "Learning curves" not in alone.text
    assert "93.1 ± 0.5 %" in alone.text


def test_an_older_summary_is_read_and_a_later_one_refused() -> None:
    content = finished().to_dict()
    old = {k: v for k, v in content.items() if k not in ("spent", "plan", "verdict", "objectives")}
    assert "93.1 ± 0.5 %" in to_html(build(view({**old, "version": 1})))
    with pytest.raises(InvalidValue, match="versions up to 3"):
        build(view({**content, "version": 4}))
    del content["method"]
    with pytest.raises(InvalidValue, match="method"):
        build(view(content))


@pytest.mark.parametrize("state", ["done", None])
def test_a_damaged_trial_is_said(state: str | None) -> None:
    content = finished().to_dict()
    content["trials"][0] = {"id": 0, "settings": {}, **({"state": state} if state else {})}
    with pytest.raises(InvalidValue, match=r"summary: 'little'.*damaged.*(done|state)"):
        build(view(content))


def test_test_figures_stand_once() -> None:
    page = Page(to_html(build(view(finished(), finished().trials))))
    assert page.text.count("91.7 %") == 3  # in the verdict, the summary, and beside the paper's
    assert "test data were used once" in page.text
    twice = finished()
    twice.test_reads = [{"forced": False}, {"forced": True}]
    assert "test data were used 2 times, 1 of them forced" in Page(to_html(build(view(twice)))).text
    twice.test = {}
    page = Page(to_html(build(view(twice))))
    assert "This start used no test data; they were used 2 earlier times: see Lineage." in page.text


def test_two_hundred_trials_stay_small() -> None:
    summary = finished(200)
    for record in summary.trials:
        record.reason = "0.4768 at 1,000 examples; the best 1 of 3 go on, from 0.6807"
    text = to_html(build(view(summary, summary.trials)))
    assert len(text.encode()) < 1_500_000


def test_artifacts_become_pictures(tmp_path: Path) -> None:
    grid = [0.2, 0.3, 0.4]
    values: list[list[float | None]] = [[0.5, 0.6, 0.7], [None, 0.8, 0.7], [None, None, 0.6]]
    best = {"value": 0.8, "alpha_1": 0.3, "alpha_2": 0.3, "references": 40}
    table: dict[str, Any] = {
        "metric": "csts/spearman",
        "axes": {"references": [10, 40], "alpha_1": grid, "alpha_2": grid},
        "values": [values, values],
        "exact": {},
        "best": best,
    }
    folder = tmp_path / "csts"
    folder.mkdir()
    (folder / "sweep.json").write_text(json.dumps(table))
    curve = {"precision": [1.0, 0.5], "recall": [0.0, 1.0]}
    (folder / "precision_recall.json").write_text(json.dumps(curve))
    page = Page(to_html(build(view(finished(), (), tmp_path))))
    assert "csts/spearman by readout" in page.text
    assert "over alpha_1 and alpha_2 with references 40" in page.text
    assert "csts/spearman by references" in page.text
    assert "csts: area 75.0 %" in page.text
    assert page.texts.count("80.0") == 1
    again = replace(finished(), state="stopped", winner=None, model=None, test={})
    assert "area 75.0 %" not in to_markdown(build(view(again, (), tmp_path)))
    (folder / "sweep.json").write_text("{")
    with pytest.raises(InvalidValue, match="damaged"):
        build(view(finished(), (), tmp_path))


def test_several_objectives_have_a_front() -> None:
    summary = finished()
    summary.objectives = [
        {"metric": OBJECTIVE, "mode": "max"},
        {"metric": "train/seconds", "mode": "min"},
    ]
    summary.front = [2, 3]
    page = Page(to_html(build(view(summary, summary.trials))))
    assert "on the Pareto front of all objectives: 2, 3." in page.text
    assert "train/seconds (min)" in page.text


def test_a_running_study_says_what_it_has_not_got() -> None:
    records = [*trials(3), trial(3, TrialState.RUNNING, 1000)]
    text = to_markdown(build(view(study(records, "running"), records)))
    assert text.startswith("# little (running)")
    assert "So far the best direction/accuracy on dev" in text
    assert "Finalists" not in text
    assert "running ○" in text
    assert "unfinished" not in text


def test_a_trial_that_no_driver_works_at_is_unfinished() -> None:
    records = [*trials(3), trial(3, TrialState.RUNNING, 1000)]
    text = to_markdown(build(view(study(records, "interrupted"), records)))
    assert "unfinished ○" in text
    assert "running ○" not in text
