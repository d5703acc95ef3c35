"""Which studies a paper's table takes, what is missing, and how ours stands beside the paper's."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from benchmarks import quick_tables
from sentune.embedder.references import StoredReferences
from sentune.errors import InvalidValue
from sentune.papers.make import MadeCell, MadeTable, TableMaker, _of_trial
from sentune.papers.page import (
    comparison_table,
    differences,
    report,
    rows_by_state,
    to_csv,
    write,
)
from sentune.papers.table import (
    DataFolder,
    PaperStudy,
    StudyChoices,
    Unavailable,
    cut,
    every,
    find_published,
    grid_row,
    missing_data,
    study_of,
)
from sentune.report.published import PublishedTable, data_sets, figures_of, papers
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


def test_data_sets_of_intersent_are_the_paper_s(tmp_path: Path) -> None:
    """The parts of the official releases that appendix A counts, as they unpack."""
    discofuse, google, giga = "discofuse_v1", "sentence-compression/data", "sumdata"
    for path in (
        *(f"{discofuse}/{of}/train{part}.tsv" for of in ("sports", "wikipedia")
          for part in ("", "_balanced")),
        f"{discofuse}/sports/test_balanced.tsv", f"{discofuse}/wikipedia/test_balanced.tsv",
        f"{google}/sent-comp.train01.json.gz", f"{google}/sent-comp.train02.json.gz",
        f"{google}/comp-data.eval.json.gz", f"{giga}/train/train.article.txt",
        f"{giga}/train/valid.article.filter.txt", f"{giga}/Giga/input.txt",
        "para/para-nmt-5m-processed.txt", "para/para-nmt-50m.txt",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    data = DataFolder(tmp_path, {})
    found = {
        "DiscoFuse train": f"discofuse:{tmp_path}/{discofuse}/wikipedia/train_balanced.tsv",
        "DiscoFuse test": f"discofuse:{tmp_path}/{discofuse}/wikipedia/test_balanced.tsv",
        "Google compression train": f"compression:{tmp_path}/{google}",
        "Google compression test": f"compression:{tmp_path}/{google}/comp-data.eval.json.gz",
        "Gigaword train": f"gigaword:{tmp_path}/{giga}/train",
        "Gigaword dev": f"gigaword:{tmp_path}/{giga}/train?split=dev",
        "Gigaword test": f"gigaword:{tmp_path}/{giga}/Giga?split=test",
        "ParaNMT": f"paranmt:{tmp_path}/para/para-nmt-5m-processed.txt",
    }
    assert {name: data.find(name) for name in found} == found
    paper, _ = find_published("intersent/table-1")
    for name in ("operations", "contrastive", "contrastive-operations"):
        trained = paper.trained[name]
        assert {data_sets()[one].format for one in trained.data} == set(trained.formats)
    five_epochs = 5 * (4_490_803 + 989_944 + 200_000 + 3_535_011 + 5_370_128)
    assert paper.trained["operations"].options["max_examples"] == five_epochs


def test_sick_of_intersent_is_its_test_part() -> None:
    paper, _ = find_published("intersent/table-2")
    columns = [column for table in paper.tables for column in table.columns]
    judged = {part.data for column in columns for part in column.parts}
    assert {name for name in judged if name.startswith("SICK")} == {"SICK test"}


def test_rows_have_the_pooling_and_the_representation_of_the_paper() -> None:
    rows = {
        (name, row.name): row
        for name in ("intersent/table-8", "invertible-decoders/table-3")
        for row in getattr(find_published(name)[1], "rows", ())
    }
    assert rows["intersent/table-8", "T5"].settings == {"pooling": ("mean",)}  # it has no [CLS]
    for decoder in ("Linear", "Bijective"):
        row = rows["invertible-decoders/table-3", f"{decoder}, B"]
        assert row.readouts == {"representation": "ensemble"}


def test_the_decoder_is_said_and_how_it_decodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dict.fromkeys(("WikiSplit train", "WikiSplit validation"), "wikisplit:x.tsv")
    name, test = "intersent/table-1", {"WikiSplit test": "wikisplit:test.tsv"}
    _, made = measured_by(monkeypatch, name, "InterSent", data | test, 3)
    said = differences(made)
    assert any("decoder bart-base, trained on DiscoFuse" in line for line in said)
    assert any("decoder builtin:tiny?layers=1&width=128, trained on" in line for line in said)
    assert any("greedy decoding; the authors' code uses 5 beams" in line for line in said)


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


def test_every_trial_of_a_table_over_two_settings_runs_to_its_end(folder: Path) -> None:
    """A trial that was stopped at a rung once stood beside the paper's full run."""
    paper, table = find_published("gausscse/table-3")
    trained = paper.trained[table.trained]
    study = study_of(grid_row(table), trained, choices(folder, quick=False))
    assert (study.options["scheduler"], study.options["finalists"]) == ("none", 0)
    assert any("every 1,600 examples, 100 steps of the smallest" in said for said in study.differs)
    rows = [
        {"state": state, "settings.batch_size": 16, "metrics.rte/auc": value}
        for state, value in (("complete", 0.5), ("pruned", 0.75))
    ]
    result: Any = SimpleNamespace(trials=pd.DataFrame(rows))
    assert _of_trial(result, "rte/auc", {"batch_size": 16}) == 50
    result.trials = result.trials[1:]
    with pytest.raises(Unavailable, match="no complete trial has these settings"):
        _of_trial(result, "rte/auc", {"batch_size": 16})


def measured_by(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    row: str,
    data: dict[str, str],
    *places: int,
    **changes: Any,
) -> tuple[list[dict[str, Any]], MadeTable]:
    """Keywords of ``evaluate`` for columns of a row whose study is not run, and the table, with
    changes of its fields."""
    stored = StoredReferences(("Own one .", "Own two ."), torch.zeros(2, 4), {1: 2})
    model = SimpleNamespace(
        readouts={}, references=stored, embed=lambda texts, **_: torch.ones(len(texts), 4)
    )
    view = SimpleNamespace(summary=SimpleNamespace(model="MODEL"))
    tuned = SimpleNamespace(model=model, view=view, state="complete")
    asked: list[dict[str, Any]] = []

    def evaluate(model: Any, tasks: dict[str, str], **options: Any) -> pd.DataFrame:
        asked.append({"model": model, "tasks": tasks, **options})
        return pd.DataFrame({"value": [], "reason": []})

    monkeypatch.setattr("sentune.api.tune", lambda method, **options: tuned)
    monkeypatch.setattr("sentune.api.evaluate", evaluate)
    paper, table = find_published(name)
    assert isinstance(table, PublishedTable)
    rows = tuple(
        one.model_copy(update={"figures": tuple(one.figures[p] for p in places if one.figures)})
        for one in table.rows
        if one.name == row
    )
    columns = tuple(table.columns[place] for place in places)
    small = table.model_copy(update={"rows": rows, "columns": columns, **changes})
    wanted = replace(choices(None, quick=False), data=DataFolder(None, data))
    return asked, TableMaker(choices=wanted, say=lambda said: None).make(paper, small)


NLI = {"SNLI train": "snli:train.jsonl", "SNLI dev": "snli:dev.jsonl"}


@pytest.mark.parametrize(
    ("name", "row", "exclude"),
    [("gausscse/table-2", "ent", "none"), ("gumbelcse/table-2", "GumbelCSE", "both-ways")],
)
def test_direction_is_measured_on_the_pairs_of_its_paper(
    monkeypatch: pytest.MonkeyPatch, name: str, row: str, exclude: str
) -> None:
    """GaussCSE takes every pair labelled entailment, GumbelCSE none that entails both ways."""
    (asked,), _ = measured_by(monkeypatch, name, row, {**NLI, "SICK test": "sick:SICK.txt"}, 2)
    assert (asked["exclude"], asked["component_from"]) == (exclude, "corpus")


def test_components_of_invertible_decoders_are_of_each_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"BookCorpus": "books:b.txt", "STS14": "sts:2014", "STS12": "sts:2012"}
    (asked,), _ = measured_by(monkeypatch, "invertible-decoders/table-3", "Linear, B", data, 0)
    assert asked["component_from"] == "task"


def test_interpretations_are_taken_against_the_paper_s_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = tmp_path / "csts_train.csv"
    lines = [f"A {n},B {n},color,{n % 5 + 1}" for n in range(6)]
    train.write_text("\n".join(["sentence1,sentence2,condition,label", *lines]))
    data = {**NLI, "C-STS train": f"csts:{train}", "C-STS dev": "csts:dev.csv"}
    name, row = "gumbelcse/table-4", "GumbelCSE-con"
    (asked,), made = measured_by(monkeypatch, name, row, data, 0, 1)
    references = asked["model"].references
    assert sorted(references.sentences) == sorted(
        [f"{side} {n}" for side in "AB" for n in range(6)]
    )
    assert (references.sizes, len(references.embeddings)) == ({6: 12}, 12)
    assert asked["dev"] == {"csts": f"csts:{train}"}
    said = differences(made)
    assert f"Readouts of csts: chosen on csts:{train}." in said
    assert f"Interpretations: with all rows of csts:{train} as references." in said
    (asked,), _ = measured_by(monkeypatch, name, row, data, 0, 1, reference_rows=2)
    assert asked["model"].references.sizes == {2: 4}

    paper, table = find_published("gumbelcse/table-3")
    assert isinstance(table, PublishedTable)
    assert (table.dev, table.reference_rows) == (
        {"ambiguous-rte": "MNLI-mismatched, annotated"}, 10_000,
    )  # fmt: skip
    found = missing_data(table, paper, DataFolder(None, {}))
    assert {"MNLI-mismatched, annotated", "SNLI train"} <= found.keys()


def test_a_maker_of_two_tables_measures_with_the_data_sets_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dict(NLI)
    for name in ("train", "dev"):
        file = tmp_path / f"{name}.csv"
        file.write_text("sentence1,sentence2,condition,label\nA,B,color,1\nC,D,size,5\n")
        data[f"C-STS {name}"] = f"csts:{file}"
    name, row = "gumbelcse/table-4", "GumbelCSE-con"
    asked, _ = measured_by(monkeypatch, name, row, data, 0)
    asked.clear()
    paper, table = find_published(name)
    assert isinstance(table, PublishedTable)
    rows = tuple(one.model_copy(update={"figures": ()}) for one in table.rows if one.name == row)
    table = table.model_copy(update={"rows": rows, "columns": table.columns[:1]})
    other = table.model_copy(update={"dev": {"csts": "C-STS dev"}, "references": "C-STS dev"})
    wanted = replace(choices(None, quick=False), data=DataFolder(None, data))
    maker = TableMaker(choices=wanted, say=lambda said: None)
    for one in (table, other, table, table.model_copy(update={"reference_rows": 1})):
        maker.make(paper, one)
    assert [one["dev"]["csts"] for one in asked] == [
        data["C-STS train"], data["C-STS dev"], data["C-STS train"],
    ]  # fmt: skip
    assert [dict(one["model"].references.sizes) for one in asked] == [{2: 4}, {2: 4}, {1: 2}]


def test_a_maker_trains_linear_for_the_corpora_of_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run_linear(tests: dict[str, Any], **_: Any) -> Any:
        asked.append([*tests])
        return SimpleNamespace(metrics={f"{spec}/accuracy": 0.5 for spec in tests})

    monkeypatch.setattr("sentune.training.linear.run_linear", run_linear)
    paper, table = find_published("gumbelcse/table-1")
    assert isinstance(table, PublishedTable)
    (row,) = [row for row in table.rows if row.model == "linear"]
    row = row.model_copy(update={"figures": ()})
    data = DataFolder(None, {**NLI, "SNLI test": "snli:test.jsonl", "SICK test": "sick:S.txt"})
    maker = TableMaker(
        choices=replace(choices(None, quick=False), data=data), say=lambda said: None
    )
    for place in (0, 2, 0):
        columns = table.columns[place : place + 1]
        (cell,) = maker.make(
            paper, table.model_copy(update={"rows": (row,), "columns": columns})
        ).cells
        assert (cell.ours, cell.reason) == (50.0, "")
    assert asked == [["snli:test.jsonl"], ["sick:S.txt"]]


def test_readouts_of_a_data_set_that_is_not_there_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {**NLI, "C-STS dev": "csts:dev.csv"}
    (asked,), made = measured_by(monkeypatch, "gumbelcse/table-4", "GumbelCSE-con", data, 0)
    assert asked["dev"] is None
    assert asked["model"].references.sentences == ("Own one .", "Own two .")
    said = "\n".join(differences(made))
    assert "Readouts of csts: those of the study, because C-STS train was not found." in said
    assert "stored with the model, because C-STS train was not found." in said


def test_models_of_a_column_are_fitted_on_its_corpus(tmp_path: Path) -> None:
    for name in ("SICK.txt", "sts-train.csv", "sts-dev.csv"):
        (tmp_path / name).touch()
    paper, table = find_published("laes/table-ii")
    assert isinstance(table, PublishedTable)
    figures = [one for one in figures_of(paper, table) if one.row.name.startswith("LAES-BRES")]
    sick, stsb = (study_of(one.row, one.trained, choices(tmp_path)).options for one in figures)
    assert sick["corpus"] == f"sick:{tmp_path}/SICK.txt?split=TRAIN"
    assert sick["dev"] == [f"sick:{tmp_path}/SICK.txt?split=TRIAL&rows=0:500"]
    assert stsb["corpus"] == f"stsb:{tmp_path}/sts-train.csv"
    assert sick["set"]["n_h"] == stsb["set"]["n_h"] == 4


def test_a_row_s_own_corpus_is_among_the_differences() -> None:
    paper, table = find_published("laes/table-ii")
    assert isinstance(table, PublishedTable)
    said = differences(MadeTable(paper=paper, table=table, cells=(), studies=()))
    assert "Paper, InferSent: GloVe, 300, trained on SNLI and MultiNLI." in said
    assert "Paper: PSL and ParaNMT word vectors, 300, trained on SICK train." in said


def test_paths_outside_of_the_folder_stay_whole() -> None:
    """``--data data`` once took its name out of other paths, too."""
    paper, table = find_published("laes/table-ii")
    assert isinstance(table, PublishedTable)
    cells = tuple(
        MadeCell(row="r", column=("c",), data=data, metric="m", paper=1.0, judged_on=spec)
        for data, spec in (("A", "snli:data/snli/test.jsonl"), ("B", "snli:/shared/data/dev.jsonl"))
    )
    made = MadeTable(paper=paper, table=table, cells=cells, studies=(), folder=Path("data"))
    said = differences(made)
    assert "A: evaluated on snli:snli/test.jsonl." in said
    assert "B: evaluated on snli:/shared/data/dev.jsonl." in said


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
                **cell, data="MNLI-mismatched", paper=92.41, reason="MNLI-mismatched not found"
            ),
            MadeCell(**cell, data="SICK test", paper=float("nan"), ours=70.0, judged_on="sick:s"),
        ),
    )
    first, second = texts(comparison_table(made))
    assert first == ["GumbelCSE", "paper", "98.10", "92.41", ""]
    assert second == ["", "ours", "91.24", "", "70.00"]
    said = "\n".join(differences(made))
    assert "Paper: bert-base-uncased" in said
    assert f"Study {study.name}: tiny" in said
    assert "SNLI test: evaluated on snli:dev." in said
    assert data_sets()["MNLI-mismatched"].source in said
    page = report("gumbelcse/table-2", made)
    assert page.state == "with gaps"
    assert "91.24" in to_html(page)
    assert "98.10" in to_markdown(page)
    rows = list(csv.DictReader(io.StringIO(to_csv(made))))
    assert [row["ours"] for row in rows] == ["91.24", "", "70.00"]
    assert [row["paper"] for row in rows] == ["98.1", "92.41", ""]

    write("gumbelcse/table-2", made, folder)
    part = quick_tables._section("gumbelcse/table-2", paper, table, folder, 7)
    assert "|  | ours | **91.24** |  | **70.00** |" in part
    assert "- SNLI test: evaluated on snli:dev." in part
    assert part.endswith("Made in 7 s.\n")


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
    assert mnli.reason == "MNLI-mismatched not found"


def test_an_encoder_is_trained_before_the_decoder_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WikiSplit/train.tsv", "WikiSplit/validation.tsv", "sts-dev.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    asked: list[tuple[str, Any]] = []

    def tune(method: str, **options: Any) -> Any:
        asked.append((method, options.get("encoder")))
        view = SimpleNamespace(summary=SimpleNamespace(model="E/model"))
        return SimpleNamespace(view=view, state="complete")

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


def test_ctrl_c_in_a_study_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    study = PaperStudy(name="s", method="gumbel", options={"trials": 1}, differs=())
    for state in ("complete", "stopped", "interrupted"):
        result = SimpleNamespace(state=state)
        monkeypatch.setattr("sentune.api.tune", lambda method, result=result, **_: result)
        if state == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                study.run()
        else:
            assert study.run() is result  # type: ignore[comparison-overlap]


def test_a_grid_whose_study_has_no_trials_has_a_reason() -> None:
    with pytest.raises(Unavailable, match="no complete trial"):
        _of_trial(SimpleNamespace(trials=pd.DataFrame()), "rte/auc", {"a": 1})  # type: ignore[arg-type]
