"""Published figures against the papers' own tables."""

from __future__ import annotations

import math
import re

import pytest

from sentune.corpora.formats.registry import FORMATS
from sentune.encoders.words.open import FORMATS as VECTORS
from sentune.report.blocks import Table
from sentune.report.comparison import comparison, is_data_set
from sentune.report.published import (
    PublishedColumn,
    PublishedRow,
    PublishedTable,
    data_sets,
    papers,
    published_figures,
)
from sentune.report.view import view
from tests.report.studies import study, texts, trials

TABLES = [
    pytest.param(table, id=f"{paper.paper}-{table.name}")
    for paper in papers()
    for table in paper.tables
]


def cells(text: str) -> list[list[str]]:
    """Lines of a table's text, split at tabs or bars, without marks of footnotes."""
    lines = []
    for line in text.strip("\n").splitlines():
        parts = line.strip("|").split("|") if line.startswith("|") else line.split("\t")
        lines.append([re.sub(r"<[^>]*>|[*†‡⁰¹²³⁴-⁹]", "", part).strip() for part in parts])
    return lines


def column_of(grid: list[list[str]], header: tuple[str, ...]) -> int:
    """Place of the column under these cells of the head; a cell spans the empty ones behind it."""
    places: set[int] | None = None
    for name in header:
        line = next(line for line in grid if name in line)
        width = max(map(len, grid))
        padded, found, last = [*line, *[""] * (width - len(line))], set(), ""
        for place, cell in enumerate(padded):
            last = cell or last
            if last == name:
                found.add(place)
        places = found if places is None else places & found
    assert places is not None
    (place,) = places
    return place


def cell_of(table: PublishedTable, row: PublishedRow, column: PublishedColumn) -> str:
    """What the paper's text has in a row and a column."""
    grid = cells(table.text)
    down, across = (column, row) if table.transposed else (row, column)
    (name,) = down.header
    (line,) = [line for line in grid if name in line[:2]]
    place = column_of(grid, across.header)
    return line[place] if place < len(line) else ""


def agrees(
    table: PublishedTable, row: PublishedRow, column: PublishedColumn, figure: float
) -> bool:
    text = cell_of(table, row, column)
    empty = text in ("", "-", "_", "—")
    return empty if math.isnan(figure) else not empty and float(text) == figure


@pytest.mark.parametrize("table", TABLES)
def test_every_figure_stands_in_its_row_and_column_of_the_paper(table: PublishedTable) -> None:
    for row in table.rows:
        if not row.figures:  # a row of ours alone
            assert not any({*row.header} <= {*line} for line in cells(table.text))
            continue
        assert not all(map(math.isnan, row.figures))
        for column, figure in zip(table.columns, row.figures, strict=True):
            assert agrees(table, row, column, figure), (row.header, column.header, figure)


@pytest.mark.parametrize(
    "table", [one for one in TABLES if len(one.values[0].columns) > 1 and one.values[0].text]
)
def test_a_figure_of_another_column_is_found_out(table: PublishedTable) -> None:
    for row in table.rows:
        if not row.figures:
            continue
        moved = (*row.figures[1:], row.figures[0])
        wrong = [
            not agrees(table, row, column, figure)
            for column, figure in zip(table.columns, moved, strict=True)
            if not math.isnan(figure)
        ]
        assert any(wrong)


def test_compression_of_gigaword_is_compression() -> None:
    """Its figures were once filed as reconstruction, for which the paper has no column."""
    found = [one for one in published_figures() if one.row.name == "InterSent"]
    assert not [one for one in found if one.metric.startswith("reconstruction/")]
    gigaword = {
        one.metric: one.percent / 100 for one in found if one.column.data == "Gigaword test"
    }
    assert gigaword == {
        "compression/rouge1": pytest.approx(0.480),
        "compression/rouge2": pytest.approx(0.247),
        "compression/rougeL": pytest.approx(0.438),
    }


def rows_beside(metrics: dict[str, float], *specs: str, decoder: str = "") -> list[list[str]]:
    """The comparison of an InterSent study that was tested on corpora of operations."""
    summary = study(trials(3), method="intersent", test=metrics)
    summary.lineage["decoder"] = decoder
    summary.corpora = {
        f"test-{place}": {
            "spec": spec,
            "kind": "operations",
            "rows": 9,
            **({"task": spec.partition("=")[0]} if spec.startswith("generation=") else {}),
        }
        for place, spec in enumerate(specs)
    }
    blocks = comparison(view(summary, summary.trials, None))
    (table,) = [block for block in blocks if isinstance(block, Table)]
    return texts(table)


@pytest.mark.parametrize(
    ("spec", "name", "same"),
    [
        ("wikisplit:/d/wiki-split/test.tsv", "WikiSplit test", True),
        ("wikisplit:/home/latest/validation.tsv", "WikiSplit test", False),
        ("sick:SICK.txt", "SICK", True),
        ("sick:SICK.txt?split=TRIAL", "SICK", False),
        ("sick:SICK.txt?split=TEST", "SICK test", True),
        ("sick:SICK.txt", "SICK test", False),
        ("sts:d/STS2012-gold/", "STS12", True),
        ("sts:d/STS2012-gold?subsets=MSRpar", "STS12", False),
        ("discofuse:/d/discofuse_v1/wikipedia/test_balanced.tsv", "DiscoFuse test", True),
        ("discofuse:/d/sports/test.tsv", "DiscoFuse test", False),
        ("compression:/data/comp-data.eval.json.gz", "Google compression test", True),
        ("compression:/data/contest/pairs.tsv", "Google compression test", False),
        ("gigaword:/data/giga?split=test", "Gigaword test", True),
        ("gigaword:/data/giga", "Gigaword test", False),
        ("beir:/d/quora", "QQP", True),
        ("beir:/d/quora?split=dev", "QQP", False),
        ("senteval:/d/senteval", "MR", True),
        ("csts:/d/lc/all.csv", "LC-STS", True),
        ("snli:/d/snli_1.0_test.jsonl?rows=0:9", "SNLI test", False),
        ("snli:/d/snli_1.0_test.jsonl?premises=0:9", "SNLI test", False),
        ("json:/d/snli_1.0_test.jsonl", "SNLI test", False),
    ],
)
def test_a_data_set_is_known_by_its_files_and_its_part(spec: str, name: str, same: bool) -> None:
    assert is_data_set(spec, name) is same


def test_another_decoder_is_a_difference() -> None:
    specs = ("generation=wikisplit:/d/wiki-split/test.tsv",)
    for decoder, said in (("facebook/bart-base", False), ("builtin:tiny", True), ("", True)):
        (row,) = rows_beside({"difference/rouge1": 0.4}, *specs, decoder=decoder)
        assert ("decoder" in row[-1].split(", ")) is said


def test_a_row_of_a_readout_stands_beside_studies_that_chose_it() -> None:
    """LAES Table II names its n_h, which is chosen on dev and no setting of a trial."""
    summary = study(trials(3), method="laes", test={"sts/pearson": 0.7})
    summary.space["fixed"] = {"form": "bres-cat"}
    summary.corpora = {"test": {"spec": "stsb:/d/sts-test.csv", "kind": "scored-pairs", "rows": 9}}
    for n_h, names in ((4, ["LAES-BRES", "LAES-BRES (cat, $n_h = 4$)"]), (7, ["LAES-BRES"])):
        for trial in summary.trials:
            trial.readouts = {"sts/n_h": n_h}
        blocks = comparison(view(summary, summary.trials, None))
        (table,) = [block for block in blocks if isinstance(block, Table)]
        assert [row[0].partition(": ")[2] for row in texts(table)] == names


@pytest.mark.parametrize("task", ["", "generation="])
def test_a_study_on_gigaword_stands_beside_gigaword(task: str) -> None:
    (row,) = rows_beside({"compression/rouge1": 0.4}, f"{task}gigaword:/data/giga?split=test")
    assert row[1:5] == ["compression/rouge1", "Gigaword test", "48.0 %", "40.0 %"]
    assert "evaluation data" not in row[-1]


def test_a_second_corpus_of_compressions_stands_beside_its_own_column() -> None:
    found = {"compression/rouge1": 0.6, "compression-gigaword/rouge1": 0.4}
    rows = rows_beside(found, "compression:/data/comp-data.eval.json", "gigaword:/d?split=test")
    beside = {(row[1], row[2]): (row[3], row[4]) for row in rows}
    assert beside["compression/rouge1", "Google compression test"] == ("69.6 %", "60.0 %")
    assert beside["compression-gigaword/rouge1", "Gigaword test"] == ("48.0 %", "40.0 %")
    assert len(rows) == 2


def test_a_rule_without_a_model_stands_there_on_test_as_the_model_does() -> None:
    summary = study(trials(3), method="gumbel", test={"direction/accuracy": 0.9})
    summary.corpora = {"test": {"spec": "snli:/data/snli_1.0_test.jsonl", "rows": 9}}
    summary.trials[2].metrics["direction/length"] = 0.5
    summary.baselines = {"direction/length": 0.4}

    def lengths() -> set[tuple[str, str]]:
        blocks = comparison(view(summary, summary.trials, None))
        (table,) = [block for block in blocks if isinstance(block, Table)]
        rows = [row for row in texts(table) if row[1] == "direction/length"]
        return {(row[4], row[5].partition(":")[0]) for row in rows}

    assert lengths() == {("40.0 %", "test")}
    summary.test = {}
    assert lengths() == {("50.0 %", "dev")}


def test_every_published_figure_is_a_fraction_of_a_known_data_set() -> None:
    assert len(published_figures()) > 60
    for figure in published_figures():
        assert 1 < figure.percent < 100
    columns = [c for paper in papers() for table in paper.tables for c in table.columns]
    judged = {part.data for column in columns for part in column.parts}
    trained = {name for p in papers() for t in p.trained.values() for name in (*t.data, *t.dev)}
    chosen = {name for paper in papers() for table in paper.tables for name in table.dev.values()}
    vectors = {r.vectors for paper in papers() for t in paper.tables for r in t.rows} - {""}
    assert judged | trained | chosen | vectors == set(data_sets())
    assert {data_sets()[name].format for name in vectors} <= set(VECTORS)
    formats = {name for paper in papers() for t in paper.trained.values() for name in t.formats}
    read = {data.format for name, data in data_sets().items() if name not in vectors}
    assert read | formats <= set(FORMATS)
