"""The lineage of a result: code, packages, platform and command."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import sentune
from sentune.credentials import without_credentials

PACKAGES = (
    "sentune", "ray", "torch", "transformers", "tokenizers", "optuna", "mlflow", "datasets",
    "pyarrow", "numpy", "scikit-learn", "scipy",
)  # fmt: skip
"""Packages whose versions can change a metric."""


def lineage() -> dict[str, Any]:
    """Return git commit, package versions, Python, platform and command line, without credentials.

    The result is ``{"git": {"commit", "branch", "dirty"}, "packages": {name: version}, "python",
    "platform", "command"}``, without ``git`` if the code is not in a git checkout, and without
    packages that are not installed.
    """
    versions: dict[str, str] = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):  # a GPU machine may have torch alone
            versions[name] = metadata.version(name)
    found: dict[str, Any] = {
        "packages": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": shlex.join(sys.argv),
    }
    if (git := git_state(Path(sentune.__file__).parent)) is not None:
        found["git"] = git
    clean: dict[str, Any] = without_credentials(found)
    return clean


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return commit, branch, and whether tracked files have changes; None outside a checkout.

    Code that git ignores or does not track, such as a package installed in a checkout's ``.venv``,
    has no commit.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or not _git(folder, "ls-files", "--", "."):
        return None
    return {
        "commit": commit,
        "branch": _git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails or git is not installed."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
