"""``benchmarks/gpu.py`` in its small form: every method takes steps, every way gives a figure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sentune.methods import TRAINED

ROOT = Path(__file__).parent.parent


def test_the_small_form_runs_on_this_machine() -> None:
    command = [sys.executable, "-W", "ignore", "benchmarks/gpu.py", "--small"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in TRAINED:
        assert re.search(rf"│ {name} +│ +8 │ +no │ +[\d.,]*[1-9]", done.stdout), name
    ways = ("broadcast", "matrix form", "one at a time", "stacked", "processes side by side")
    assert all(re.search(rf"│ {way}.*[1-9]", done.stdout) for way in ways), done.stdout
