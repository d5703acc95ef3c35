"""What the shell is told of a study's end."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sentune.errors import Overtaken
from sentune.job.command import Ended, check_ending, exit_codes
from sentune.job.run import _close
from sentune.records import StudySummary
from tests.interpreter import run_python

ROOT = Path(__file__).parents[2]


def summary(state: str, reason: str = "") -> StudySummary:
    return StudySummary(
        study="s", method="gumbel", state=state, objective="direction/accuracy", mode="max",
        corpora={}, space={}, reason=reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "why", "code", "fix"),
    [
        ("failed", "3 of 5 trials failed", 1, ""),
        ("stopped", "--max-hours 2 is used up", 3, "a higher limit resumes"),
        ("stopped", "stopped by `sentune study stop`", 3, "the same command resumes"),
        ("interrupted", "ended by a signal", 130, "the same command resumes"),
    ],
)
def test_every_end_has_its_code_and_says_why(state: str, why: str, code: int, fix: str) -> None:
    with pytest.raises(Ended) as caught:
        check_ending(summary(state, why))
    assert caught.value.code == code
    assert why in caught.value.line
    assert caught.value.line.endswith(f"{fix} the study" if fix else why)


def test_a_method_of_the_package_is_found_without_torch() -> None:
    code = (
        "import sys; from search_spaces import find_job; find_job('gumbel');"
        "print({'torch', 'ray', 'optuna'} & set(sys.modules))"
    )
    assert run_python(code) == "set()"


def test_the_help_names_every_value() -> None:
    call = [sys.executable, str(ROOT / "jobs" / "tune_gumbel.py"), "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=120)
    assert "<" not in done.stdout.replace("METRIC<=X", "").replace("seconds<=600", "")
    assert "hyperband" in done.stdout


def test_the_help_of_a_job_shows_a_flag_without_a_value() -> None:
    call = [sys.executable, str(ROOT / "jobs" / "tune_sif.py"), "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=120)
    (line,) = [line for line in done.stdout.splitlines() if "--dry-run" in line]
    assert line.split() == ["--dry-run", "print", "the", "plan", "and", "exit"]


def test_the_first_line_comes_before_what_takes_long_to_import(tmp_path: Path) -> None:
    given = {"corpus": "snli:no-such-file", "dev": ["snli:none"], "storage": str(tmp_path)}
    code = f"""
import sys
from search_spaces.gumbel import DEFAULTS, SPACE
from sentune.job.options import parse
from sentune.job.run import tune

class Out:
    first = None
    def write(self, text):
        Out.first = Out.first or [text, *(HEAVY & set(sys.modules))]
    def flush(self):
        pass

HEAVY = {{'torch', 'ray', 'optuna', 'pyarrow'}}
sys.stdout, kept = Out(), sys.stdout
try:
    tune(parse({given!r}, DEFAULTS), SPACE)
except Exception as error:
    print(Out.first, type(error).__name__, file=kept)
"""
    printed = run_python(code)
    assert printed.startswith(f"['study   gumbel (gumbel) in {tmp_path}")
    assert "torch" not in printed
    assert "CorpusError" in printed


def test_a_complete_study_ends_well_whatever_ended_its_search() -> None:
    check_ending(summary("complete"))
    check_ending(summary("complete", "--max-trials 20 is used up"))


def test_an_overtaken_driver_ends_as_a_stopped_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, exit_codes("interrupted"):
        raise Overtaken("start 4 of this study drives it")
    assert end.value.code == 3
    assert capsys.readouterr().err == "stopped: start 4 of this study drives it\n"


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("", ""), ("[Errno 28] no room", "waiting up to 60 s for MLflow: [Errno 28] no room\n")],
)
def test_the_wait_for_an_mlflow_that_has_failed_is_said_before_it(trouble: str, said: str) -> None:
    text = io.StringIO()

    def close() -> bool:
        assert text.getvalue() == said
        return True

    tracker: Any = SimpleNamespace(trouble=trouble, close=close)
    _close(tracker, Console(file=text), None, None, None)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("disk"), "OSError: disk"),
        (KeyboardInterrupt(), ""),
        (Overtaken("start 4 drives it"), None),
        (None, None),
    ],
)
def test_an_error_that_ends_a_start_is_the_reason_in_mlflow(
    error: BaseException | None, reason: str | None
) -> None:
    said: list[str] = []
    tracker: Any = SimpleNamespace(trouble="", close=lambda: True, interrupt=said.append)
    _close(tracker, Console(file=io.StringIO()), None, error, None)
    assert said == ([] if reason is None else [reason])
