"""Starts jobs as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(
    name: str, options: list[str], storage: Path, *, own_ray: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end; stdout and stderr are text.

    Args:
        name: of the file in ``jobs``.
        options: besides ``--storage``; nothing is taken from earlier studies there.
        storage: also the folder that it runs in.
        own_ray: it starts a cluster, as at a desk; else it joins that of ``RAY_ADDRESS``.
    """
    common = [f"--storage={storage}", "--no-history"]
    command = [sys.executable, str(ROOT / "jobs" / f"{name}.py"), *common, *options]
    environment = dict(os.environ)
    if own_ray:
        environment.pop("RAY_ADDRESS", None)
    return subprocess.run(
        command, cwd=storage, env=environment, capture_output=True, text=True, timeout=550,
        check=False,
    )  # fmt: skip


def finish(
    name: str, options: list[str], storage: Path, *, own_ray: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a job that must succeed."""
    done = start(name, options, storage, own_ray=own_ray)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
