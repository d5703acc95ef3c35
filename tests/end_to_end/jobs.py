"""Starts jobs and commands as a user does."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from sentune.cli import main

ROOT = Path(__file__).resolve().parents[2]


def start(
    name: str, options: list[str], storage: Path, *, own_ray: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end; stdout and stderr are text.

    Args:
        name: of the file in ``jobs``.
        options: besides ``--storage``; nothing is taken from earlier studies there.
        storage: also the folder that it runs in.
        own_ray: in a process of its own it starts a cluster, as at a desk; else it runs in this
            process, which has imported all that a job needs, and joins that of ``RAY_ADDRESS``.
    """
    script = str(ROOT / "jobs" / f"{name}.py")
    words = [script, f"--storage={storage}", "--no-history", *options]
    if own_ray:
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        return subprocess.run(
            [sys.executable, *words], cwd=storage, env=environment, capture_output=True, text=True,
            timeout=550, check=False,
        )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "jobs"))
        patched.chdir(storage)
        return _here(words, lambda: runpy.run_path(script, run_name="__main__"))


def _here(words: list[str], program: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    """Runs a program in this process with these words on its command line."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", words)
        try:
            program()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def finish(
    name: str, options: list[str], storage: Path, *, own_ray: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a job that must succeed."""
    done = start(name, options, storage, own_ray=own_ray)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ``sentune`` in this process; stdout and stderr are text."""
    return _here(["sentune", *words], main)
