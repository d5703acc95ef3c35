"""Figures of papers, rows that are encoders as they are, means of columns, and published rows."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from sentune import Embedder, evaluate
from sentune.corpora.formats import read
from sentune.corpora.schema import Kind
from sentune.corpora.stratified import stratified_part
from sentune.errors import SentuneError
from sentune.io.atomic import StorageError
from sentune.papers.figures import Line, make_plot, write_plot
from sentune.papers.make import TableMaker
from sentune.papers.page import comparison_table, differences, report
from sentune.papers.table import DataFolder, StudyChoices, every, find_published
from sentune.report.published import Measurement, PublishedColumn, PublishedPlot, PublishedRow
from sentune.report.published import PublishedTable as Published
from tests.end_to_end.test_closed_form_jobs import write_files


def choices(data: DataFolder, **models: str) -> StudyChoices:
    return StudyChoices(data=data, quick=False, models=models, options={})


def plot_of(name: str) -> PublishedPlot:
    found = find_published(name)[1]
    assert isinstance(found, PublishedPlot)
    return found


def test_tables_and_figures_are_listed_by_name() -> None:
    names = [name for name, _, _ in every()]
    assert names == sorted(names)
    assert {"gausscse/figure-3", "gumbelcse/figure-4", "laes/figure-2"} <= set(names)


def test_length_ratios_are_counted_over_entailments(tmp_path: Path) -> None:
    pairs = [
        ("entailment", "one two three four", "one two"),
        ("entailment", "one two", "one two"),
        ("contradiction", "one two three four", "one"),
    ]
    file = tmp_path / "snli.jsonl"
    rows = [{"gold_label": label, "sentence1": a, "sentence2": b} for label, a, b in pairs]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    spec = f"snli:{file}"
    data = DataFolder(None, {"SNLI test": spec, "SICK test": spec})
    paper, plot = find_published("gausscse/figure-3")[0], plot_of("gausscse/figure-3")
    lines, differs = make_plot(paper, plot, choices(data), lambda said: None)
    assert [line.name for line in lines] == ["SNLI test", "SICK test"]
    assert differs == []
    found = {round(x, 2): y for x, y in zip(lines[0].x, lines[0].y, strict=True) if y}
    near = [min(found, key=lambda x: abs(x - at)) for at in (0.0, math.log(2))]
    assert set(near) == set(found)
    assert sum(found.values()) == 2
    empty = tmp_path / "empty.jsonl"
    empty.write_text(json.dumps({**rows[0], "gold_label": "-"}), encoding="utf-8")
    part = DataFolder(None, {"SNLI test": spec, "SICK test": f"snli:{empty}"})
    lines, (missing,) = make_plot(paper, plot, choices(part), lambda said: None)
    assert [line.name for line in lines] == ["SNLI test"]
    said = f"No line: {empty}: no labelled-pairs are left of 1 rows, 1 unlabelled."
    assert missing == said
    with pytest.raises(SentuneError, match="SNLI test, SICK test not found"):
        make_plot(paper, plot, choices(DataFolder(None, {})), lambda said: None)


def test_a_figure_without_one_of_its_development_sets_trains_nothing() -> None:
    paper, plot = find_published("gumbelcse/figure-4")[0], plot_of("gumbelcse/figure-4")
    here = DataFolder(None, {"SNLI train": "builtin:nli", "SNLI dev": "builtin:nli?split=dev"})
    said: list[str] = []
    with pytest.raises(SentuneError, match="Figure 4: MNLI-mismatched, annotated not found"):
        make_plot(paper, plot, choices(here), said.append)
    assert not said


def test_a_figure_is_a_page_a_drawing_and_its_numbers(tmp_path: Path) -> None:
    paper, plot = find_published("laes/figure-2")[0], plot_of("laes/figure-2")
    lines = [Line("SIF", [1, 2], [70.0, 71.5]), Line("RES", [1, 2], [69.0, 72.0])]
    made = (lines, ["Study s: trained on x."])
    html, table, drawing = write_plot("laes/figure-2", paper, plot, made, tmp_path / "out")
    assert "Study s: trained on x." in html.read_text()
    assert "<svg" in drawing.read_text()
    rows = list(csv.reader(table.open()))
    assert rows[0] == ["line", "n_h", "Pearson's r x 100"]
    assert rows[-1] == ["RES", "2", "72.0"]
    with pytest.raises(StorageError, match="--out"):
        write_plot("laes/figure-2", paper, plot, made, table)


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_the_lines_of_a_figure_are_the_sweeps_of_its_studies(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    spec = f"stsb:{files}/test.csv"
    data = DataFolder(None, {
        "STS Benchmark train": f"stsb:{files}/train.csv", "STS Benchmark test": spec,
    })  # fmt: skip
    paper, plot = find_published("laes/figure-2")[0], plot_of("laes/figure-2")
    small = plot.lines[0].model_copy(
        update={"settings": {"variant": ("sif",), "components": ("0,1,2",)}}
    )
    asked = StudyChoices(
        data=data,
        quick=False,
        models={"vectors": f"glove:{files}/vectors.txt", "frequencies": f"{files}/counts.txt"},
        options={"storage": str(tmp_path / "studies")},
    )
    plot = plot.model_copy(update={"lines": (small,)})
    (line,), differs = make_plot(paper, plot, asked, lambda said: None)
    assert (line.name, list(line.x)) == ("SIF", [0, 1, 2])
    study = differs[1].partition(":")[0].removeprefix("Study ")
    reached = evaluate(Embedder.load(tmp_path / "studies" / study / "model"), {"sts": spec})
    assert max(line.y) == pytest.approx(100 * reached.loc["sts/pearson", "value"])


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
def test_a_spectrum_is_of_the_model_s_projection(tmp_path: Path) -> None:
    stories = tmp_path / "books.txt"
    stories.write_text("\n".join(f"w{i % 40} w{i % 7} ." for i in range(400)))
    files = write_files(tmp_path)
    fields = [line.split("\t") for line in (files / "dev.csv").read_text().splitlines()]
    scored = tmp_path / "STS2014-gold"
    scored.mkdir()
    (scored / "STS.input.made.txt").write_text("\n".join("\t".join(row[5:]) for row in fields))
    (scored / "STS.gs.made.txt").write_text("\n".join(row[4] for row in fields))
    data = DataFolder(None, {"BookCorpus": f"books:{stories}", "STS14": f"sts:{scored}"})
    asked = StudyChoices(
        data=data,
        quick=True,
        models={"vectors": f"glove:{files}/vectors.txt"},
        options={"storage": str(tmp_path / "studies")},
    )
    paper, plot = (
        find_published("invertible-decoders/spectrum")[0],
        plot_of("invertible-decoders/spectrum"),
    )
    with_it, without = (line.settings["constraint"] for line in plot.lines)
    assert (with_it, without) == ((True,), (False,))
    plot = plot.model_copy(update={"lines": plot.lines[:1]})
    (line,), (_, said) = make_plot(paper, plot, asked, lambda told: None)
    study = said.partition(":")[0].removeprefix("Study ")
    model = Embedder.load(tmp_path / "studies" / study / "model")
    weight = model.method.get_parameter("decoder.projection.weight").detach().double()
    assert list(line.y) == pytest.approx(torch.linalg.svdvals(weight).square().tolist())


def test_rows_may_be_encoders_and_columns_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = write_files(tmp_path)
    specs = {"STS12": f"stsb:{files}/dev.csv", "STS13": f"stsb:{files}/test.csv"}
    vectors = f"glove:{files}/vectors.txt"
    mean = tuple(Measurement(data=name, metric="sts/pearson") for name in specs)
    table = Published(
        name="Table 9",
        caption="",
        trained="stsb",
        text="x",
        columns=(PublishedColumn(header=("mean",), mean=mean),),
        rows=(
            PublishedRow(header=("BOREP",), model="random:borep?size=64", figures=(50.0,)),
            PublishedRow(header=("gone",), model=f"hf:{tmp_path}/nothing", figures=(51.0,)),
            PublishedRow(header=("known",), figures=(52.0,)),
        ),
    )
    paper = find_published("laes/table-i")[0]
    maker = TableMaker(
        choices=choices(DataFolder(None, specs), vectors=vectors), say=lambda said: None
    )
    made = maker.make(paper, table)
    borep, gone, known = made.cells
    model = Embedder.load(f"random:borep?size=64&vectors={vectors}")
    each = [evaluate(model, {"sts": s}).loc["sts/pearson", "value"] for s in specs.values()]
    assert borep.ours == pytest.approx(100 * np.mean(each))
    assert gone.ours is None
    assert "name a folder of an encoder" in gone.reason
    assert known.reason == "published only"
    lines = [[cell.text for cell, _ in line] for line in comparison_table(made).lines]
    assert [line[:2] for line in lines] == [
        ["BOREP", "paper"], ["", "ours"], ["gone", "paper"], ["", "ours"], ["known", "paper"],
    ]  # fmt: skip
    assert "Published figures only: known." in differences(made)
    assert report("laes/table-9", made).state == "with gaps"


def test_a_quick_transfer_column_is_a_stratified_part_with_two_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = write_files(tmp_path)
    for name, words in (("pos", range(20)), ("neg", range(15, 40))):
        lines = [f"w{word} w{(word + step) % 40}" for word in words for step in range(16)]
        (tmp_path / f"rt-polarity.{name}").write_text("\n".join(lines))
    spec, vectors = f"senteval:{tmp_path}?task=mr", f"glove:{files}/vectors.txt"
    table = Published(
        name="Table 9",
        caption="",
        trained="books",
        columns=(PublishedColumn(header=("MR",), data="MR", metric="mr/accuracy"),),
        rows=(PublishedRow(header=("BOREP",), model="random:borep", figures=(math.nan,)),),
    )
    paper = find_published("invertible-decoders/table-5")[0]
    quick = paper.trained["books"].quick
    asked = StudyChoices(
        data=DataFolder(None, {"MR": spec}), quick=True, models={"vectors": vectors}, options={}
    )
    (cell,) = TableMaker(choices=asked, say=lambda said: None).make(paper, table).cells
    model = Embedder.load(f"random:borep?vectors={vectors}&size={quick.width}")
    corpus = read(spec, Kind.CLASSIFIED)
    assert quick.transfer is not None
    assert quick.transfer < corpus.table.num_rows
    part = stratified_part(corpus, quick.transfer).table
    found = evaluate(model, {"mr": part}, folds=quick.folds)
    assert cell.ours == pytest.approx(100 * found.loc["mr/accuracy", "value"])
    assert cell.ours != pytest.approx(
        100 * evaluate(model, {"mr": spec}).loc["mr/accuracy", "value"]
    )
