"""The command line as a whole: what it offers, and what it does not load."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentune.cli import app
from tests.interpreter import run_python

COMMANDS = ("train", "evaluate", "encode", "corpora", "dashboard")


def test_every_command_is_listed() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    for command in COMMANDS:
        assert f"\n  {command}" in shown.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_its_options(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    assert "Usage:" in shown.output


def test_the_help_loads_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "ray", "mlflow", "optuna", "sklearn", "datasets", "numpy")
    code = (
        "import sys; from typer.testing import CliRunner; from sentune.cli import app;"
        "CliRunner().invoke(app, ['--help'], catch_exceptions=False);"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    assert run_python(code) == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_their_own_help_says(command: str) -> None:
    listed = CliRunner().invoke(app, ["--help"]).output.partition(f"\n  {command} ")[2]
    shown = CliRunner().invoke(app, [command, "--help"]).output
    first = " ".join(shown.partition("\n\n")[2].partition("\n\n")[0].split())
    assert " ".join(listed.split()).startswith(first)


def test_commands_import_no_torch_before_they_run() -> None:
    code = (
        "import sys; from sentune.cli import MODULES, _imported;"
        "[_imported(name) for name in ('tune', 'study', 'dashboard', 'report', 'cluster')];"
        "print([m for m in ('torch', 'transformers', 'ray', 'mlflow') if m in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_a_job_with_a_built_in_encoder_and_its_tokens_in_the_cache_starts_without_transformers(
    tmp_path: Path,
) -> None:
    code = (
        "import sys; from rich.console import Console; import sentune.study.study;"
        "from sentune.job.families import make_job; from search_spaces import find_job;"
        "from sentune.job.options import parse;"
        "given = {'corpus': 'builtin:nli?size=600', 'dev': ['builtin:nli?size=60&split=dev'],"
        f" 'storage': {str(tmp_path)!r}}};"
        "found = find_job('gumbel');"
        "job = make_job(parse(given, found.defaults), found.space);"
        "job.check(); job.prepare(Console(quiet=True)); assert job.checkpoint_bytes() == 0;"
        "print([m for m in ('transformers', 'mlflow') if m in sys.modules])"
    )
    assert run_python(code) == "['transformers']"
    assert run_python(code) == "[]"


def test_evaluating_and_training_need_neither_ray_nor_mlflow_nor_optuna() -> None:
    """Nor, before a task asks for them, what takes seconds to import."""
    code = (
        "import sys, sentune.cli, sentune.embedder.embedder, sentune.tasks;"
        "import sentune.corpora.formats;"
        "import sentune.training.local;"
        "slow = ('ray', 'mlflow', 'optuna', 'sklearn', 'scipy.stats', 'pandas');"
        "print([m for m in slow if m in sys.modules])"
    )
    assert run_python(code) == "[]"
