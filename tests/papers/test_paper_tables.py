"""Which studies a paper's table takes, what is missing, and how ours stands beside the paper's."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentune.errors import InvalidValue
from sentune.papers.make import MadeCell, MadeTable, TableMaker
from sentune.papers.page import comparison_table, differences, report, rows_by_state, to_csv
from sentune.papers.table import (
    DataFolder,
    StudyChoices,
    Unavailable,
    cut,
    every,
    find_published,
    grid_row,
    missing_data,
    study_of,
)
from sentune.report.published import PublishedTable, data_sets, papers
from sentune.report.render import to_html, to_markdown
from sentune.training.linear import LinearSettings, run_linear
from tests.report.studies import texts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "SNLI").mkdir()
    for name in ("snli_1.0_train_part.jsonl.gz", "snli_1.0_dev.jsonl"):
        (tmp_path / "SNLI" / name).touch()
    (tmp_path / "sts" / "STS2012-gold").mkdir(parents=True)
    return tmp_path


def choices(folder: Path | None, *, quick: bool = True, **models: str) -> StudyChoices:
    data = DataFolder(folder, {})
    return StudyChoices(
        data=data, quick=quick, models=models, options={"storage": "s3://b/studies"}
    )


def test_every_table_has_a_name_of_its_own() -> None:
    names = [name for name, _, found in every() if isinstance(found, PublishedTable)]
    assert len(set(names)) == len(names) == sum(len(paper.tables) for paper in papers())
    assert "gumbelcse/table-2" in names
    with pytest.raises(InvalidValue, match="gumbelcse/table-2"):
        find_published("gumbelcse/table-9")


def test_data_sets_are_found_by_the_names_of_their_publishers(folder: Path) -> None:
    data = DataFolder(folder, {"SNLI test": "snli:mine.jsonl"})
    assert data.find("SNLI dev") == f"snli:{folder}/SNLI/snli_1.0_dev.jsonl"
    train = data.find("SNLI train")
    assert train == f"snli:{folder}/SNLI/snli_1.0_train_part.jsonl.gz?annotators=none"
    assert data.find("STS12") == f"sts:{folder}/sts/STS2012-gold"
    assert data.find("SNLI test") == "snli:mine.jsonl"
    assert data.find("MNLI-mismatched") is None
    with pytest.raises(InvalidValue, match=r"SNLI tset.*SNLI test"):
        DataFolder(folder, {"SNLI tset": "snli:mine.jsonl"})


def test_corpora_without_an_end_are_cut() -> None:
    assert cut("snli:a.jsonl", 5) == "snli:a.jsonl?rows=0:5"
    assert cut("snli:a.jsonl?votes=2", 5) == "snli:a.jsonl?votes=2&rows=0:5"
    assert cut("snli:a.jsonl?rows=5:9", 5) == "snli:a.jsonl?rows=5:9"
    assert cut("snli:a.jsonl?rows=5:", 5) == "snli:a.jsonl?rows=5:10"
    assert cut("snli:a.jsonl?rows=5:&votes=2", 5) == "snli:a.jsonl?rows=5:10&votes=2"
    assert cut("quora:a.tsv?size=50", 5) == "quora:a.tsv?size=50"
    assert cut("snli:a.jsonl", None) == "snli:a.jsonl"


def test_a_study_has_the_paper_s_settings_and_the_row_s_own(folder: Path) -> None:
    paper, table = find_published("gausscse/table-1")
    (row,) = [row for row in table.rows if row.name == "ent+swap"]
    study = study_of(row, paper.trained["nli"], choices(folder, quick=False, encoder="bert"))
    setting = study.options["set"]
    assert setting["contradiction_weight"] == 0
    assert setting["reverse_weight"] == 1
    assert setting["batch_size"] == 16
    assert setting["learning_rate"] == 5e-5
    assert study.options["encoder"] == "bert"
    assert study.options["profile"] == "paper"
    assert study.options["storage"] == "s3://b/studies"
    assert study.differs == ("without MultiNLI train",)


def test_studies_are_shared_by_content_alone(folder: Path) -> None:
    paper, table = find_published("gumbelcse/table-2")
    rows = {row.name: row for row in table.rows}
    trained, asked = paper.trained["nli"], choices(folder)
    own = study_of(rows["GumbelCSE"], trained, asked)
    assert study_of(rows["LENGTH"], trained, asked).name == own.name
    assert study_of(rows["GaussCSE"], trained, asked).name != own.name
    assert study_of(rows["GumbelCSE"], trained, choices(folder, encoder="bert")).name != own.name
    assert study_of(rows["GumbelCSE"], trained, choices(folder, quick=False)).name != own.name


def test_a_setting_that_another_one_excludes_is_left_out(tmp_path: Path) -> None:
    for name in ("books.txt", "STS2014"):
        (tmp_path / name).touch()
    paper, table = find_published("invertible-decoders/table-3")
    linear, coupling = (
        study_of(row, paper.trained["books"], choices(tmp_path)).options["set"]
        for row in table.rows
        if row.method == "invertible"
    )
    assert "coupling_layers" not in linear
    assert coupling["coupling_layers"] == 4


def test_a_row_may_have_word_vectors_of_its_own(tmp_path: Path) -> None:
    for name in ("sts-train.csv", "sts-dev.csv", "paragram_300_sl999.txt"):
        (tmp_path / name).touch()
    paper, table = find_published("laes/word-vectors")
    rows = {row.name: row for row in table.rows}
    trained, asked = paper.trained["stsb"], choices(tmp_path, vectors="glove:theirs.txt")
    study = study_of(rows["PSL, average+WR"], trained, asked)
    assert study.options["vectors"] == (f"glove:{tmp_path}/paragram_300_sl999.txt",)
    assert study.options["set"] == {"variant": "average", "components": 1}
    with pytest.raises(Unavailable, match="fastText vectors"):
        study_of(rows["fastText, SIF"], trained, asked)
    missing = missing_data(table, paper, DataFolder(tmp_path, {}))
    assert "fasttext.cc" in missing["fastText vectors"]
    assert "PSL vectors" not in missing


def test_a_table_over_two_settings_is_one_study(folder: Path) -> None:
    paper, table = find_published("gausscse/table-3")
    study = study_of(grid_row(table), paper.trained["nli"], choices(folder))
    assert study.options["set"]["batch_size"] == [16, 32, 64, 128, 256]
    assert study.options["set"]["learning_rate"] == [1e-5, 3e-5, 5e-5]
    assert study.options["trials"] == 15
    assert study.options["sampler"] == "grid"


def test_what_is_missing_is_named_with_its_source(folder: Path) -> None:
    paper, table = find_published("gumbelcse/table-1")
    missing = missing_data(table, paper, DataFolder(folder, {}))
    assert set(missing) == {"SNLI test", "MNLI-mismatched", "SICK test", "MultiNLI train"}
    assert missing["SNLI test"] == data_sets()["SNLI test"].source
    with pytest.raises(Unavailable, match="SNLI train"):
        study_of(table.rows[0], paper.trained["nli"], choices(None))


def test_data_of_a_row_s_encoder_is_missing_too(tmp_path: Path) -> None:
    paper, table = find_published("intersent/table-1")
    assert "STS Benchmark dev" in missing_data(table, paper, DataFolder(tmp_path, {}))


def test_a_figure_needs_the_data_that_its_studies_are_judged_on(tmp_path: Path) -> None:
    paper, plot = find_published("laes/figure-2")
    assert "STS Benchmark dev" not in missing_data(plot, paper, DataFolder(tmp_path, {}))
    assert {*plot.dev} <= missing_data(plot, paper, DataFolder(tmp_path, {})).keys()


def test_ours_stands_under_the_paper_s_with_what_differs(folder: Path) -> None:
    paper, table = find_published("gumbelcse/table-2")
    study = study_of(table.rows[0], paper.trained["nli"], choices(folder, encoder="tiny"))
    column = table.columns[0]
    cell = {"row": "GumbelCSE", "column": column.header, "metric": "direction/accuracy"}
    made = MadeTable(
        paper=paper,
        table=table,
        studies=(study,),
        cells=(
            MadeCell(**cell, data="SNLI test", paper=98.1, ours=91.239, judged_on="snli:dev"),
            MadeCell(
                **cell, data="MNLI-mismatched", paper=92.41, reason="MNLI-mismatched is not there"
            ),
            MadeCell(**cell, data="SICK test", paper=float("nan"), ours=70.0, judged_on="sick:s"),
        ),
    )
    first, second = texts(comparison_table(made))
    assert first == ["GumbelCSE", "paper", "98.10", "92.41", ""]
    assert second == ["", "ours", "91.24", "", "70.00"]
    said = "\n".join(differences(made))
    assert "The paper: bert-base-uncased" in said
    assert f"Study {study.name}: tiny" in said
    assert "SNLI test: judged on snli:dev." in said
    assert data_sets()["MNLI-mismatched"].source in said
    page = report("gumbelcse/table-2", made)
    assert page.state == "with gaps"
    assert "91.24" in to_html(page)
    assert "98.10" in to_markdown(page)
    rows = list(csv.DictReader(io.StringIO(to_csv(made))))
    assert [row["ours"] for row in rows] == ["91.24", "", "70.00"]
    assert [row["paper"] for row in rows] == ["98.1", "92.41", ""]


def test_the_docs_say_of_each_row_whether_it_runs() -> None:
    page = (Path(__file__).parents[2] / "docs/papers.md").read_text(encoding="utf-8")
    assert rows_by_state() in page, "put the output of `sentune paper rows` into docs/papers.md"
    assert "| `sentune paper run laes/figure-2` | SIF; LAES-RES |  |" in rows_by_state()
    (line,) = [text for text in rows_by_state().splitlines() if "gumbelcse/table-2`" in text]
    assert line.split("|")[2:4] == [" GumbelCSE; GaussCSE; LENGTH ", "  "]


def test_linear_is_trained_for_all_columns_of_a_table_at_once(tmp_path: Path) -> None:
    lines = [
        {"annotator_labels": [label], "gold_label": label, "sentence1": a, "sentence2": b}
        for a in ("A man sleeps .", "A dog runs .", "Two girls sing .")
        for label, b in (("entailment", "It lives ."), ("contradiction", "It is a stone ."))
    ]
    for name in ("snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"):
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    paper, table = find_published("gumbelcse/table-1")
    rows = tuple(row for row in table.rows if row.name == "LINEAR")
    maker = TableMaker(choices=choices(tmp_path), say=lambda said: None)
    made = maker.make(paper, table.model_copy(update={"rows": rows}))
    snli, mnli, _ = made.cells
    spec = f"snli:{tmp_path}/snli_1.0_test.jsonl?rows=0:100"
    asked = made.studies[0].options
    assert asked["corpus"] == f"snli:{tmp_path}/snli_1.0_train.jsonl?annotators=none"
    again = run_linear(**asked, tests={"rte": ("rte", spec)}, settings=LinearSettings(seed=0))
    assert snli.ours == 100 * again.metrics["rte/accuracy"]
    assert snli.judged_on == spec
    assert mnli.reason == "MNLI-mismatched is not there"


def test_an_encoder_is_trained_before_the_decoder_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WikiSplit/train.tsv", "WikiSplit/validation.tsv", "sts-dev.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    asked: list[tuple[str, Any]] = []

    def tune(method: str, **options: Any) -> Any:
        asked.append((method, options.get("encoder")))
        return SimpleNamespace(view=SimpleNamespace(summary=SimpleNamespace(model="E/model")))

    monkeypatch.setattr("sentune.api.tune", tune)
    paper, table = find_published("intersent/table-1")
    (row,) = [row for row in table.rows if row.name == "Sup. Contr."]
    small = {"rows": (row.model_copy(update={"figures": row.figures[3:4]}),)}
    one = table.model_copy(update={**small, "columns": table.columns[3:4]})
    data = DataFolder(tmp_path, {"WikiSplit test": "wikisplit:test.tsv"})
    storage = {"storage": str(tmp_path / "studies")}
    wanted = replace(choices(tmp_path, encoder="bert"), data=data, options=storage)
    with pytest.raises(AttributeError, match="model"):  # there is none to be measured
        TableMaker(choices=wanted, say=lambda said: None).make(paper, one)
    assert asked == [("simcse-pairs", "bert"), ("intersent", "E/model")]
