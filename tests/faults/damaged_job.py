"""A small job that the tests of stopped processes and flipped bits damage, and their tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.soak import SOAK

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"

JOB = [
    "jobs/tune_simcse.py", "--study", "s", "--concurrent", "1", "--seeds", "1",
    "--scheduler", "none", "--corpus", "builtin:nli?size=3000",
    "--dev", "builtin:nli?split=dev&size=60", "--test", "builtin:nli?split=test&size=60",
    "--set", "batch_size=16", "--failed-share", "1",
]  # fmt: skip

MILESTONE = re.compile(r"(?:trial|finalist: trial) \d+.* at [\d,]+ examples")

PATIENCE = 400
"""Seconds that anything may take on a busy machine."""


def without_clock(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    line = re.sub(r"^\[\s*[\d:.]+( s)?\] ", "", line.strip())
    line = re.sub(r"\b(process|pid|-CONT) \d+", r"\1 N", line)
    return re.sub(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?", "HOST", line)


def write_table(name: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Write a table of the documentation, and print it."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]
    text = "\n".join(lines) + "\n"
    if SOAK:
        BUILD.mkdir(exist_ok=True)
        (BUILD / name).write_text(text)
    sys.stdout.write(text)
