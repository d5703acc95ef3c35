"""A table of a paper is made by its studies, on files that the test makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentune import Embedder, evaluate
from sentune.papers.make import TableMaker
from sentune.papers.table import DataFolder, StudyChoices, cut, find_published
from tests.end_to_end.test_closed_form_jobs import write_files

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("cluster")]


def test_cells_are_what_the_models_of_the_studies_reach(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    for name in ("train", "dev", "test"):
        (files / f"{name}.csv").rename(files / f"sts-{name}.csv")
    paper, table = find_published("laes/table-i")
    small_readouts = {"LAES-RES": {"n_h": (4,)}, "SIF": {"components": (1,)}}
    rows = [
        row.model_copy(update={"settings": {**row.settings, **small_readouts[row.name]}})
        for row in table.rows
        if row.name in small_readouts
    ]
    said: list[str] = []
    choices = StudyChoices(
        data=DataFolder(files, {}),
        quick=True,
        models={
            "vectors": f"glove:{files}/vectors.txt",
            "frequencies": f"{files}/counts.txt",
            "encoder": "is not an option of these methods",
        },
        options={"storage": str(tmp_path / "studies")},
    )
    small = table.model_copy(update={"rows": tuple(rows)})
    made = TableMaker(choices=choices, say=said.append).make(paper, small)

    judged = {"STS Benchmark dev": "dev", "STS Benchmark test": "test"}
    for cell in made.cells:
        if cell.data not in judged:
            assert cell.ours is None
            assert cell.reason.startswith("SICK t")
            continue
        model = Embedder.load(tmp_path / "studies" / cell.study / "model")
        rows = paper.trained[table.trained].quick.rows
        spec = cut(f"stsb:{files}/sts-{judged[cell.data]}.csv", rows)
        assert cell.judged_on == spec
        found = evaluate(model, {"sts": spec}).loc["sts/pearson", "value"]
        assert cell.ours == pytest.approx(100 * found)
    assert {study.method for study in made.studies} == {"laes", "sif"}
    assert len([line for line in said if "study" in line]) == 2

    again = TableMaker(choices=choices, say=said.append).make(paper, small)
    assert again.cells == made.cells


def test_rows_of_word_vectors_read_the_files_of_their_makers(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    for name in ("train", "dev", "test"):
        (files / f"{name}.csv").rename(files / f"sts-{name}.csv")
    lines = (files / "vectors.txt").read_text().splitlines()
    (files / "crawl-300d-2M.vec").write_text("\n".join(["40 12", *(f"{x} " for x in lines)]) + "\n")
    (files / "paragram_300_sl999.txt").write_text("\n".join(lines) + "\n")
    paper, table = find_published("laes/word-vectors")
    kept = ("fastText, average", "PSL, average", "PSL, average+WR", "ParaNMT, SIF")
    small = table.model_copy(
        update={
            "rows": tuple(
                row.model_copy(update={"figures": row.figures[5:6]})
                for row in table.rows
                if row.name in kept
            ),
            "columns": table.columns[5:6],
        }
    )
    choices = StudyChoices(
        data=DataFolder(files, {}),
        quick=True,
        models={},
        options={"storage": str(tmp_path / "studies")},
    )
    made = TableMaker(choices=choices, say=lambda said: None).make(paper, small)
    fasttext, psl, without, missing = made.cells
    assert fasttext.ours == pytest.approx(psl.ours), "the same vectors in both formats"
    assert without.ours is not None
    assert psl.ours is not None
    assert abs(without.ours - psl.ours) > 1, "the vectors have a common direction"
    assert missing.ours is None
    assert missing.reason == "ParaNMT vectors not found"
    assert [study.options["vectors"][0].partition(":")[0] for study in made.studies] == [
        "fasttext", "glove", "glove",
    ]  # fmt: skip
