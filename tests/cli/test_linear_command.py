"""``sentune linear`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sentune.cli.train import linear
from sentune.errors import InvalidValue

RUN = CliRunner()
APP = typer.Typer()
APP.command()(linear)
TINY = "builtin:tiny?layers=1&width=16&heads=2&inner=32"


@pytest.fixture
def ambiguous(tmp_path: Path) -> str:
    path = tmp_path / "ambient.jsonl"
    labels = ["entailment", "neutral, contradiction", "entailment, neutral"] * 8
    rows = [
        {"premise": f"a {n}", "hypothesis": f"b {n}", "labels": x} for n, x in enumerate(labels)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"ambient:{path}"


def test_both_stages_are_trained_and_judged(tmp_path: Path, ambiguous: str) -> None:
    out = tmp_path / "out" / "linear.json"
    result = RUN.invoke(
        APP,
        ["--corpus", "builtin:nli?size=40", "--encoder", TINY, "--ambiguous", ambiguous,
         "--test", "rte=builtin:nli?split=dev&size=30", "--test", f"ambiguous-rte={ambiguous}",
         "--test", "rte=builtin:nli?split=test&size=30", "--max-examples", "64",
         "--second-epochs", "2", "--prior", "both=0.5", "--json", str(out)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "2 of 2 steps" in result.output
    found = json.loads(out.read_text())
    assert set(found) == {"rte", "rte-builtin", "ambiguous-rte"}
    assert set(found["rte"]) == {"accuracy", "majority"}
    assert set(found["ambiguous-rte"]) == {
        "f1_entailment", "f1_non_entailment", "f1_both", "macro_f1", "accuracy",
    }  # fmt: skip
    for name in found:
        assert name in result.output


def test_without_a_second_stage_nothing_is_both(tmp_path: Path, ambiguous: str) -> None:
    out = tmp_path / "linear.json"
    args = ["--corpus", "builtin:nli?size=20", "--encoder", TINY, "--json", str(out)]
    result = RUN.invoke(APP, [*args, "--test", f"ambiguous-rte={ambiguous}", "--limit", "12"])
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())["ambiguous-rte"]
    assert found["f1_both"] == 0
    assert found["accuracy"] <= 8 / 12


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--test", "sts=stsb:x"], "TASK one of rte, ambiguous-rte"),
        (["--test", "rte"], "TASK=FORMAT:PATH"),
        (["--test", "rte=stsb:x"], "read as scored-pairs"),
        (
            ["--test", "rte=builtin:nli", "--learning-rate", "0"],
            "--learning-rate: 0.0 cannot be used; input should be greater than 0",
        ),
        (["--test", "rte=builtin:nli?size=9", "--max-length", "500"], "at most 128 tokens"),
        (["--test", "rte=builtin:nli?size=9", "--prior", "balanced"], "pairs of --ambiguous"),
    ],
)
def test_wrong_values_are_refused(args: list[str], reason: str) -> None:
    start = ["--corpus", "builtin:nli?size=9", "--encoder", TINY]
    result = RUN.invoke(APP, [*start, *args])
    assert isinstance(result.exception, InvalidValue)
    assert reason in str(result.exception)
