"""What the sections compute: survival, savings, the paper's figures, numbers in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from rich.console import Console

from sentune.formatting import clock, hours, measured, percent
from sentune.job.trial_table import trials_table
from sentune.records import PART, FinalistRecord, Spread, TrialRecord, TrialState
from sentune.report.blocks import Block, Facts, Figure, StudyReport, Table, Text, is_empty
from sentune.report.comparison import comparison
from sentune.report.drawing import (
    ACCENT,
    BEST,
    INK,
    LINE,
    MUTED,
    PAPER,
    plain,
    to_canvas,
    to_svg,
)
from sentune.report.figures import curves, history, parallel
from sentune.report.provenance import costs, lineage
from sentune.report.render import to_html
from sentune.report.study_page import build, finding
from sentune.report.trial_sections import notes, rungs
from sentune.report.trial_sections import trials as trials_section
from sentune.report.view import View, view
from sentune.study.space.objectives import Objective
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StudySnapshot
from sentune.tracking.run_content import run_content, study_content
from tests.report.studies import FULL, OBJECTIVE, finished, study, texts, trial, trials
from tests.tracking.story import run_of

ENDED = st.sampled_from(list(TrialState))


def only(blocks: Sequence[Block | None]) -> list[list[str]]:
    """What the cells of the only table say."""
    (table,) = [block for block in blocks if isinstance(block, Table)]
    return texts(table)


def warned(blocks: Sequence[Block | None]) -> bool:
    return any(isinstance(b, Text) and "reproduction" in b.text for b in blocks)


@given(st.lists(st.tuples(ENDED, st.sampled_from([0, 500, 1000, 3000, 9000])), max_size=30))
def test_at_each_rung_every_trial_is_counted_once(ends: list[tuple[TrialState, int]]) -> None:
    records = [
        TrialRecord(id=n, state=state, settings={}, examples=examples)
        for n, (state, examples) in enumerate(ends)
        if not (state is TrialState.COMPLETE and examples < FULL)
    ]
    found = view(study(records), records).rung_counts
    for rung, counts in found.items():
        fates = ("reached", "stopped", "lost", "running")
        assert sum(counts[fate] for fate in fates) == len(records)
        assert counts["reached"] == sum(record.examples >= rung for record in records)
        assert counts["judged"] <= counts["reached"]
    reached = [counts["reached"] for counts in found.values()]
    assert reached == sorted(reached, reverse=True)


def test_survival_goes_by_the_curve_where_there_is_one() -> None:
    record = trial(0, TrialState.PRUNED, 3000)
    record.examples = 0
    found = view(study([record]), [record]).rung_counts
    assert [counts["reached"] for counts in found.values()] == [1, 1, 0]


def test_the_best_of_several_objectives_is_the_trial_that_was_shipped() -> None:
    summary = study(trials(12))
    first = view(summary).best
    assert first is not None
    other = next(t for t in summary.trials if t.state == "complete" and t.id != first.id)
    summary.best = other.id
    assert view(summary).best == other


def test_the_savings_of_the_rungs() -> None:
    records = [
        TrialRecord(id=0, state=TrialState.COMPLETE, settings={}, examples=9000, seconds=90),
        TrialRecord(id=1, state=TrialState.PRUNED, settings={}, examples=1000, seconds=20),
        TrialRecord(id=2, state=TrialState.FAILED, settings={}, examples=3000, seconds=30),
    ]
    blocks = costs(view(study(records), records, None))
    said = next(block.text for block in blocks if isinstance(block, Text))
    assert "stopped 1 trial and saved 8,000 of 21,000 examples" in said
    assert "(38.1 %)" in said
    assert clock(8000 * 20 / 1000) in said


@pytest.mark.parametrize(("scheduler", "said"), [("asha", True), ("median", False)])
def test_the_median_rule_lets_no_share_go_on(scheduler: str, said: bool) -> None:
    summary = finished()
    summary.plan["scheduler"] = scheduler
    (text, *_) = (block for block in rungs(View(summary=summary)) if isinstance(block, Text))
    assert ("keeps one trial in 3" in text.text) is said


def test_trials_of_another_study_are_neither_counted_nor_saved() -> None:
    taken = TrialRecord(
        id=0, state=TrialState.PRUNED, settings={}, examples=1000, seconds=20, source="another"
    )
    own = TrialRecord(id=1, state=TrialState.COMPLETE, settings={}, examples=9000, seconds=90)
    seen = view(study([taken, own]), [taken, own], None)
    assert "saved" not in "".join(block.text for block in costs(seen) if isinstance(block, Text))
    blocks = [block for section in build(seen).sections for block in section.blocks]
    (facts,) = (block.facts for block in blocks if isinstance(block, Facts))
    assert facts["trials ended"].split()[0] == "1"
    assert "stopped early" not in facts
    (paid,) = (b for b in costs(seen) if isinstance(b, Table))
    assert ["seconds of trials", "1:30", "", ""] in texts(paid)
    (drawn,) = (b for b in costs(seen) if isinstance(b, Figure))
    assert "90 seconds in total" in drawn.description


def test_more_trials_than_the_last_start_planned_are_counted_alone() -> None:
    summary = finished()
    summary.plan |= {"trials": 2, "finalists": 4}
    blocks = [
        block for section in build(View(summary=summary)).sections for block in section.blocks
    ]
    (facts,) = (block.facts for block in blocks if isinstance(block, Facts))
    assert facts["trials ended"] == "12"
    (plan,) = (b for b in blocks if isinstance(b, Table) and b.folded == "Plan")
    assert ("finalist runs", "4") in plan.rows


def rows_of(summary_encoder: str, spec: str, rows: int) -> list[list[str]]:
    summary = finished()
    summary.lineage["encoder"] = summary_encoder
    summary.corpora["corpus"] |= {"spec": spec, "rows": rows}
    blocks = comparison(view(summary, summary.trials, None))
    assert warned(blocks) == any(line[-1] for line in only(blocks))
    return only(blocks)


def test_the_search_space_says_where_a_setting_is_active() -> None:
    settings = {
        "decoder": {"choice": ["linear", "coupling", "both"]},
        "layers": {"integer": [1, 1000], "log": True, "step": 1},
        "dropout": {"uniform": [0.0, 0.5], "log": False},
    }
    conditions = {"layers": {"decoder": ["coupling", "both"], "deep": [True]}}
    space = {"settings": settings, "conditions": conditions, "fixed": {"seed": 3}}
    summary = study(trials(1), space=space)
    (table,) = (
        block
        for block in lineage(view(summary, summary.trials, None))
        if isinstance(block, Table) and block.folded == "Search space"
    )
    assert texts(table) == [
        ["decoder", "linear, coupling, both"],
        ["layers", "1 to 1,000, logarithmic, if decoder is coupling or both and deep is true"],
        ["dropout", "0 to 0.5"],
        ["seed", "fixed at 3"],
    ]


def test_the_papers_figure_stands_beside_ours() -> None:
    (line,) = rows_of("builtin:tiny", "builtin:nli", 30_000)
    assert line[:5] == [
        "GumbelCSE, Table 2: GumbelCSE",
        OBJECTIVE,
        "SNLI test",
        "98.1 %",
        "91.7 %",
    ]
    assert line[-1] == "encoder, training corpus"


def test_every_training_corpus_is_named_beside_the_papers() -> None:
    summary = finished()
    summary.corpora["corpus-2"] = {"spec": "multinli:TRAIN", "rows": 7}
    first, *_ = comparison(View(summary=summary))
    assert isinstance(first, Text)
    assert first.text.endswith("train.jsonl (100 rows) and multinli:TRAIN (7 rows).")


def test_other_rows_or_a_slice_of_the_corpus_are_no_reproduction() -> None:
    bert = "bert-base-uncased"
    (line,) = rows_of(bert, "snli:/d/snli_1.0_train.jsonl", 275_601)
    assert line[-1] == "training corpus"  # without MultiNLI


def test_a_whole_reproduction_has_no_warning() -> None:
    summary = finished()
    summary.lineage["encoder"] = "google-bert/bert-base-uncased"
    summary.corpora["corpus"]["rows"] = 200_000
    other = {"spec": "multinli:/d/train.jsonl", "rows": 75_601, "kind": "triplets"}
    summary.corpora["corpus-2"] = other
    blocks = comparison(view(summary, summary.trials, None))
    assert blocks
    assert not warned(blocks)
    other["spec"] += "?rows=0:10"
    assert warned(comparison(view(summary, summary.trials, None)))


def test_notes_tell_of_everything_that_happened() -> None:
    records = trials(6)
    records[0].restarts, records[1].notes = 2, ["micro-batch 64 -> 32 after out of memory"]
    records[2].violations = {"train/seconds<=600": 12.5, "a<=1": -1.0}
    found = only(notes(view(study(records), records, None)))
    said = {(number, what): how for number, what, how in found}
    assert said["0", "restarts"] == "its processes died twice and it was resumed"
    assert said["1", "note"].startswith("micro-batch")
    assert said["2", "constraint"] == "violates train/seconds<=600 by 12.5"
    assert said["4", "failed"] == "unknown reason"
    assert len(said) == 5
    assert all(map(is_empty, notes(view(study(trials(3)), trials(3), None))))


@pytest.mark.parametrize("mode", ["max", "min"])
def test_trials_are_listed_best_first(mode: str) -> None:
    records = trials(12)
    summary = study(records, mode=mode)
    table = trials_section(view(summary, records, None))[-1]
    assert isinstance(table, Table)
    values = [line[2][0].key for line in table.lines]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=mode == "max")
    assert values[len(known) :] == [None] * 4
    assert table.sortable


def test_the_best_trial_holds_the_constraints_where_any_does() -> None:
    records = [trial(n, TrialState.COMPLETE, 9000) for n in range(4)]
    seen = View(summary=study(records))
    first, second, *others = seen.ranked
    assert seen.best is first
    first.violations = {"train/seconds<=60": 120.0}
    second.violations = {"train/seconds<=60": -1.0}
    assert View(summary=study(records)).best is second
    for one in (second, *others):
        one.violations = {"train/seconds<=60": 1.0}
    assert View(summary=study(records)).best is first
    assert f"trial {first.id}, which violates a constraint." in finding(
        View(summary=study(records))
    )


def test_an_estimate_on_a_part_of_dev_is_no_best_and_is_marked() -> None:
    whole, part = trial(0, TrialState.COMPLETE, 9000), trial(1, TrialState.PRUNED, 1000)
    part.metrics = {OBJECTIVE: 0.99, PART: 500.0}
    seen = View(summary=study([whole, part]))
    assert (seen.best, seen.ranked) == (whole, [whole, part])
    shown = only(trials_section(seen))
    assert [row[2] for row in shown[-2:]] == [percent(whole.metrics[OBJECTIVE]), "~99.0 %"]
    console = Console(width=200, record=True)
    console.print(trials_table([whole, part], [OBJECTIVE], []))
    assert [line.count("~") for line in console.export_text().splitlines()[-2:]] == [0, 1]
    figure = history(seen)
    assert figure is not None
    lines = {line.get_label(): line for line in to_canvas(figure).axes[0].lines}
    assert lines["best so far"].get_ydata().tolist() == [whole.metrics[OBJECTIVE]] * 2
    early = View(summary=study([part], state="running"))
    assert "So far the best direction/accuracy on dev: ~99.0 %" in finding(early)
    assert early.metric_rows == [(OBJECTIVE, "~99.0 %", "", "")]
    drawn = history(early)
    assert drawn is not None
    assert "the best so far (none after 1 trial with a value)" in drawn.description


def test_what_breaks_a_constraint_is_no_best() -> None:
    breaks, holds = trial(0, TrialState.COMPLETE, 9000), trial(1, TrialState.COMPLETE, 9000)
    breaks.metrics, breaks.violations = {OBJECTIVE: 0.9}, {"rte/auc": 0.1}
    holds.metrics = {OBJECTIVE: 0.7}
    seen = View(summary=study([breaks, holds]))
    assert seen.best == holds
    drawn, lines = history(seen), parallel(seen)
    assert drawn is not None
    assert lines is not None
    assert "best so far (70.0 % after" in drawn.description
    bold = [line.get_ydata()[-1] for line in to_canvas(lines).axes[0].lines if line.zorder == 3]
    assert bold == [0.0]


def test_rows_of_a_part_are_those_of_each_dev_corpus() -> None:
    record = trial(0, TrialState.COMPLETE, 9000)
    record.curve[500][PART] = 500.0
    drawn = curves(View(summary=study([record])))
    assert drawn is not None
    assert (
        "before a trial's end are measured on at most 500 rows of each dev corpus"
        in drawn.description
    )


def test_mlflow_has_the_deviation_of_several_seeds_alone() -> None:
    summary, place = study([]), StudyPlace(name="s", folder="", url="")
    snapshot = StudySnapshot(place=place, objectives=(Objective(OBJECTIVE),), runs=(), finals=())
    for values, told in (([0.9], set()), ([0.9, 0.8], {f"winner/{OBJECTIVE}/sd"})):
        over = {OBJECTIVE: Spread.of(values)}
        seeds, summary.winner = list(range(len(values))), 0
        summary.finalists = [FinalistRecord(trial=0, settings={}, seeds=seeds, metrics=over)]
        points = study_content(snapshot, summary, "s").points
        assert {point.name for point in points if point.name.endswith("/sd")} == told


def test_mlflow_has_what_a_part_of_dev_measured_under_a_name_of_its_own() -> None:
    record = trial(1, TrialState.PRUNED, 1000)
    for metrics in (*record.curve.values(), record.metrics):
        metrics[PART] = 500.0
    content = run_content(run_of(record), tables=False, varied=(), driven=True)
    names = {point.name for point in content.points}
    assert f"part/{OBJECTIVE}" in names
    assert not names & {OBJECTIVE, f"selected/{OBJECTIVE}"}
    assert {"train/seconds", PART} <= names


def test_numbers_as_people_read_them() -> None:
    assert percent(0.9312) == "93.1 %"
    assert percent(0.9312, 0.004) == "93.1 ± 0.4 %"
    assert percent(None) == percent(float("nan")) == "-"
    assert clock(75) == "1:15"
    assert measured("train/seconds", 4000) == "1:06:40"
    assert measured("train/loss", 2.10469) == "2.105"
    assert measured("ambiguous-rte/references_per_sentence", 52.435) == "52.44"
    assert (hours(0.01), hours(0.5), hours(30)) == ("36 s", "30.0 min", "30.0 h")


def drawn(name: str) -> str:
    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], "o-", color=ACCENT)
        axes.set_title(plain("a $b$ <c> \x07" + "x" * 50))

    return to_svg(Figure(name, "What it <is>", "said", draw))


def test_a_drawing_has_texts_and_ids_of_its_own() -> None:
    svg = drawn("one")
    assert svg.startswith("<svg")
    assert '<title id="one-title">What it &lt;is&gt;: said</title>' in svg
    assert "a $b$ &lt;c&gt; " in svg
    assert "xmlns" not in svg
    assert "http" not in svg
    ids = re.findall(r'id="([^"]+)"', svg)
    assert set(re.findall(r'href="#([^"]+)"', svg)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= set(ids)
    assert len(ids) > 2
    assert not set(ids) & set(re.findall(r'id="([^"]+)"', drawn("two")))


def test_every_colour_of_a_drawing_has_one_of_the_page() -> None:
    """A page maps fixed colours of the SVG to variables that know light and dark."""
    style = to_html(StudyReport("", "", "", [])).partition("</style>")[0]
    rule = r'\.drawing \[style\*="(fill|stroke): (#[0-9a-f]{6})"\], .* \{ \1: var\((--[a-z]+)\)'
    mapped = re.findall(rule, style)
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    for colour in (INK, MUTED, LINE, PAPER, ACCENT, BEST):
        names = {name for kind, of, name in mapped if of == colour}
        assert len([of for _, of, _ in mapped if of == colour]) == 2
        (name,) = names
        assert f"{name}: {colour};" in light
        assert f"{name}: " in dark
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawn("one")))
    assert used <= {colour for _, colour, _ in mapped}
    assert ACCENT in used


def test_baselines_that_a_trial_measured_are_no_metrics_of_a_study_without_a_model() -> None:
    records = trials(3)
    for record in records:
        record.metrics |= {"direction/length": 0.5, "rte/majority": 0.6, "rte/accuracy": 0.7}
    shown = {name for name, *_ in View(summary=study(records, state="failed")).metric_rows}
    assert shown == {OBJECTIVE, "rte/accuracy"}
