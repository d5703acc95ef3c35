"""A fresh Python interpreter, which has imported nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_python(code: str, *, platform: Path = ROOT / "platform") -> str:
    """What the code prints, with the package in a folder and the repository on its path."""
    environment = os.environ | {"PYTHONPATH": f"{platform}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
