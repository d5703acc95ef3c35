"""``sentune corpora`` as a user types it."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from sentune.cli.corpora import app
from sentune.errors import InvalidValue

RUN = CliRunner()


def test_show_prints_rows_counts_and_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(b"[bold]first\nsecond\n\xff\n")
    result = RUN.invoke(app, ["show", f"text:{path}", "--rows", "1"])
    assert result.exit_code == 0, result.output
    assert "[bold]first" in result.output
    assert "second" not in result.output
    assert "read 3, bad 1, rows 2" in result.output
    assert ":3: invalid UTF-8 at byte 0" in result.output


def test_prepare_says_what_it_wrote(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    args = ["prepare", "builtin:nli?size=50", out, "--kind", "triplets", "--shard-rows", "20"]
    result = RUN.invoke(app, [*args, "--limit", "45"])
    assert result.exit_code == 0, result.output
    assert "triplets in 3 shards" in " ".join(result.output.split())
    assert "rows 45" in result.output
    again = RUN.invoke(app, ["show", f"parquet:{out}", "--rows", "2"])
    assert "rows 45" in again.output


def test_show_and_prepare_of_lists_and_of_empty_columns(tmp_path: Path) -> None:
    """The kind of a prepared folder is found again without being named."""
    labels, scores = tmp_path / "a.jsonl", tmp_path / "s.csv"
    labels.write_text('{"premise": "P", "hypothesis": "H", "labels": "neutral, entailment"}\n')
    scores.write_text("\tf\t2012\t1\t5.0\tA plane.\tAn air plane.\n")
    for spec, kind, text in (
        (f"ambient:{labels}", "pairs-of-several-labels", "entailment, neutral"),
        (f"stsb:{scores}", "scored-pairs", "An air plane."),
    ):
        out = tmp_path / kind
        assert kind in " ".join(RUN.invoke(app, ["prepare", spec, str(out)]).output.split())
        shown = RUN.invoke(app, ["show", f"parquet:{out}"])
        assert shown.exit_code == 0, shown.output
        assert kind in shown.output
        assert text in shown.output
        assert "None" not in shown.output


def test_wrong_values_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["show", "snil:x"])
    assert isinstance(result.exception, InvalidValue)
    assert RUN.invoke(app, ["show", "text:x", "--kind", "pairs"]).exit_code == 2
