from __future__ import annotations

import json
from pathlib import Path

import optuna
import pytest
import typer
from typer.testing import CliRunner

from sentune.cli.report import report
from sentune.errors import InvalidValue
from tests.report.studies import OBJECTIVE, SPACE, finished

WORLD = {"space": {"method": "gumbel", "objective": OBJECTIVE, "mode": "max", "settings": SPACE}}
app = typer.Typer()
app.command()(report)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A folder with a study of two trials, as a driver that was killed leaves it."""
    folder = tmp_path / "little"
    folder.mkdir()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name="little", storage=f"sqlite:///{folder}/optuna.db", direction="maximize"
    )
    study.set_user_attr("world", WORLD)
    for value in (0.71, 0.82):
        trial = study.ask()
        trial.set_user_attr("settings", {"batch_size": 16, "learning_rate": value / 1000})
        for at in (1000, 3000):
            said = {"metrics": {OBJECTIVE: value - 1 / at}, "readouts": {}, "seconds": at / 100}
            trial.set_user_attr(f"milestone:{at:012d}", said)
        study.tell(trial, value)
    described = {"space": WORLD["space"], "options": {"encoder": "builtin:tiny", "trials": 5}}
    (folder / "study.json").write_text(json.dumps(described))
    return tmp_path


def page(storage: Path, *more: str) -> str:
    done = CliRunner().invoke(app, ["little", "--storage", str(storage), *more])
    assert done.exit_code == 0, done.output
    html, markdown = map(Path, done.output.split())
    assert markdown.read_text().startswith("# little")
    return html.read_text()


def test_a_study_without_a_summary_has_a_page_from_its_store(storage: Path) -> None:
    text = page(storage)
    assert (storage / "little" / "report.html").exists()
    assert "So far the best direction/accuracy on dev: 82.0\N{NO-BREAK SPACE}%" in text
    assert "2 of 5" in text
    assert "Learning curves" in text
    assert "builtin:tiny" in text


def test_curves_of_the_store_join_the_summary(storage: Path, tmp_path: Path) -> None:
    summary = finished().to_dict()
    (storage / "little" / "summary.json").write_text(json.dumps(summary))
    text = page(storage, "--out", str(tmp_path / "elsewhere"))
    assert not (storage / "little" / "report.html").exists()
    assert "93.1 ± 0.5 %" in text
    assert "Learning curves" in text


def test_an_unknown_study_is_refused(storage: Path) -> None:
    done = CliRunner().invoke(app, ["other", "--storage", str(storage)])
    assert isinstance(done.exception, InvalidValue)
    assert "little" in str(done.exception)
