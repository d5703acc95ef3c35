"""Texts that a spreadsheet, a browser, a terminal or a log would obey, wherever they come out."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from sentune.cli import app, main
from sentune.cli.study_export import write_trials
from sentune.errors import CorpusError
from sentune.job.progress import Display
from sentune.job.terminal_report import report as printed
from sentune.records import TrialRecord, TrialState
from sentune.report import build
from sentune.report.importance import Importance
from sentune.report.render import to_html, to_markdown
from sentune.report.view import view
from sentune.study.space.objectives import Objective
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StoredRun, StudySnapshot
from sentune.terminal import Terminal, harmless, print_line
from tests.report.studies import OBJECTIVE, finished

FORMULAS = (
    "=cmd|' /C calc'!A0", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(1+1)", "\t=1+1", "\r=1+1",
    "\n=1+1", "  =1+1", "＝1+1", '=HYPERLINK("http://evil","x")',
)  # fmt: skip
TERMINAL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\x1bP+q\x1b\\\x08\r\u202egnp.exe"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
LINK = "[x](javascript:alert(1)) ![y](http://evil/z) `code` | cell\n# heading"


def trials(*texts: str) -> list[TrialRecord]:
    """Trials that hold the texts wherever a text can stand."""
    return [
        TrialRecord(
            id=number,
            state=TrialState.FAILED,
            settings={"pooling": text, "negative": -0.5},
            metrics={OBJECTIVE: -1.5},
            reason=text,
            source=text,
            notes=[text],
        )
        for number, text in enumerate(texts)
    ]


def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path) -> None:
    write_trials(trials(*FORMULAS), str(tmp_path / "t.csv"), curves=False)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, text in zip(rows, FORMULAS, strict=True):
        cells = (row["settings.pooling"], row["reason"], row["source"], row["notes"])
        assert set(cells) == {f"'{text}"}
        assert float(row["settings.negative"]) == -0.5
        assert float(row[f"metrics.{OBJECTIVE}"]) == -1.5
        assert not any(re.match(r"\s*[=+@]|\s*-\D", cell) for cell in row.values())


def test_columns_of_a_csv_are_no_formulas_and_plain_cells_stay(tmp_path: Path) -> None:
    plain = ("mean", "1e-5", "a=b", "it's -1", "")
    write_trials(trials(*plain), str(tmp_path / "t.csv"), curves=False)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(row["reason"] for row in rows) == plain


def test_json_and_parquet_are_exact(tmp_path: Path) -> None:
    for name in ("t.json", "t.parquet"):
        write_trials(trials(*FORMULAS, MARKUP), str(tmp_path / name), curves=False)
    found = [row["reason"] for row in json.loads((tmp_path / "t.json").read_text())]
    assert found == [*FORMULAS, MARKUP]
    assert pq.read_table(tmp_path / "t.parquet")["reason"].to_pylist() == found


class Tags(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile(text: str) -> Any:
    """A finished study with the text in names, settings, reasons, corpora and commands."""
    study = finished()
    for trial in study.trials:
        trial.settings = {**trial.settings, "pooling": f"{text}{trial.id % 2}"}
        trial.reason, trial.notes = text, [text]
    study.space["settings"]["pooling"] = {"choice": [f"{text}0", f"{text}1"]}
    study.study = study.reason = study.verdict = study.method = text
    study.lineage |= {"command": text, "encoder": text, "git": {"commit": text}}
    study.corpora["corpus"]["spec"] = text
    return study


@pytest.fixture(scope="module")
def pages() -> tuple[str, str]:
    """HTML and Markdown of a study that holds markup of both."""
    found = Importance(
        shares={"learning_rate": 0.9}, spreads={"learning_rate": 0.1}, trials=8, examples=9, fit=0.5
    )
    with pytest.MonkeyPatch.context() as patch:  # the forest takes seconds
        patch.setattr("sentune.report.view.importance", lambda summary: found)
        made = build(view(hostile(MARKUP + LINK), finished().trials))
    return to_html(made), to_markdown(made)


def test_a_report_holds_no_markup_of_others(pages: tuple[str, str]) -> None:
    tags = Tags(pages[0]).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert not [tag for tag, _ in tags if tag in ("img", "iframe", "object", "base", "form")]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert MARKUP not in pages[0]
    assert "&lt;script&gt;alert(1)" in pages[0]
    policy = next(a for tag, a in tags if tag == "meta" and "http-equiv" in a)["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_nor_does_its_markdown(pages: tuple[str, str]) -> None:
    lines = pages[1].splitlines()
    text = "\n".join(line for line in lines if not line.startswith("    "))
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\]\((?:javascript|http)", text)
    assert not [line for line in lines if line.startswith("# heading")]


def test_indented_code_ends_the_list_before_it(pages: tuple[str, str]) -> None:
    """Behind a list it would be text of the last item, and HTML in it would be HTML."""
    lines = pages[1].splitlines()
    coded = [n for n, line in enumerate(lines) if line.startswith("    ") and "<script" in line]
    assert coded
    for place in coded:
        before = [line for line in lines[:place] if line and not line.startswith("    ")]
        assert before[-1] == "<!-- -->"


def clean(shown: str) -> bool:
    """Whether the only escapes are colours, positions and clearing that rich itself writes."""
    left = re.sub(r"\x1b\[[\d;?]*[mAKHhl]", "", shown).replace("\r", "")
    return left == harmless(left) and "31m\x9b" not in shown


@pytest.mark.parametrize("colours", [False, True])
def test_nothing_printed_commands_the_terminal(colours: bool) -> None:
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=colours, width=60)
    table = Table(title=TERMINAL)
    table.add_column(f"head{TERMINAL}")
    table.add_row(Text(f"cell{TERMINAL}", "red"))
    table.add_row(f"[bold]no markup[/bold]{TERMINAL}")
    console.print(table)
    console.print(f"line{TERMINAL}", soft_wrap=True)
    print_line(console, "file.jsonl:100: I :heart: it")
    with Live(console=console, get_renderable=lambda: Text(TERMINAL)):
        pass
    shown = file.getvalue()
    assert clean(shown)
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert "[bold]no markup[/bold]" in shown
    assert "file.jsonl:100: I :heart: it" in shown
    assert ("\x1b[31m" in shown) is colours  # its own red is there, the text's is not alone


def test_a_study_of_hostile_texts_is_printed_harmless() -> None:
    file = io.StringIO()
    console = Terminal(file=file, width=120)
    study = hostile(TERMINAL + "[/red][link=http://evil]")
    printed(study, console, varied=("pooling",))
    trial = replace(study.trials[0], state=TrialState.RUNNING)
    failed = replace(trial, state=TrialState.FAILED, reason=TERMINAL)
    runs = (StoredRun(trial=0, record=trial), StoredRun(trial=0, record=failed, ended=1))
    place, objective = StudyPlace(name="s", folder="", url=""), Objective(study.objective)
    before = StudySnapshot(place=place, objectives=(objective,))
    seen = iter([before, *(replace(before, runs=(run,)) for run in runs)])
    plan = {"trials": 1, "rungs": [], "max_examples": 9}
    display = Display(console, study, plan, lambda: next(seen), varied=("pooling",))
    for _ in runs:
        display.refresh()
    assert clean(file.getvalue())
    assert "\x1b" not in file.getvalue()
    assert "[/red]" in file.getvalue()


def test_sentences_of_a_corpus_are_printed_harmless(tmp_path: Path) -> None:
    file = tmp_path / "c.txt"
    file.write_text(f"one {TERMINAL}\n[link=http://evil]two[/link]\n\x1b[31mthree\n", newline="\n")
    done = CliRunner().invoke(app, ["corpora", "show", f"text:{file}"], color=True)
    assert done.exit_code == 0
    assert clean(done.output)
    assert "[link=http://evil]two[/link]" in done.output
    assert "\x1b" not in done.output


def test_errors_are_printed_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise CorpusError(f"bad{TERMINAL}.txt", f"unknown label {TERMINAL}\nforged line")

    monkeypatch.setattr("sentune.cli.app", fails)
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert clean(said)
    assert said.count("\n") == 1
