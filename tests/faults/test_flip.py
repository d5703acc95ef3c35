"""One bit of every file of a study is flipped in turn: it is healed, or said in one sentence.

``make soak`` takes all files and writes the table into ``build``; else those of ``FLIPPED`` are
taken.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sentune.summary import read_summary
from tests import forked
from tests.faults.damaged_job import JOB, MILESTONE, PATIENCE, ROOT, without_clock, write_table
from tests.soak import SOAK
from tests.tampering import flip

FLIPPED = ("weights.safetensors",)
"""Names of the files that are flipped outside of ``make soak``; others have tests of their own."""


def found_by(storage: Path) -> dict[str, Any]:
    """What a study found, without what depends on the clock, and the bytes of its model."""
    summary = read_summary(str(storage / "s"))
    trials = [
        {name: trial[name] for name in ("id", "state", "settings", "examples", "readouts")}
        | {"metrics": {k: v for k, v in trial["metrics"].items() if not k.startswith("train/")}}
        for trial in summary["trials"]
    ]
    weights = (storage / "s" / "model" / "model.safetensors").read_bytes()
    return {
        "state": summary["state"], "trials": trials, "winner": summary["winner"], "model": weights,
    }  # fmt: skip


def files_of(storage: Path) -> list[Path]:
    """The files with content; each kind comes once before any comes twice."""
    found = [path for path in sorted(storage.rglob("*")) if path.is_file() and path.stat().st_size]
    seen: dict[str, int] = {}
    ranks = {}
    for path in found:
        kind = re.sub(r"\d+|[0-9a-f]{16,}", "*", str(path.relative_to(storage)))
        ranks[path] = seen[kind] = seen.get(kind, -1) + 1
    return sorted(found, key=lambda path: (ranks[path], path))


@pytest.mark.timeout(14_400 if SOAK else 1800)
def test_one_bit_of_every_file_of_a_study_is_flipped_in_turn(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    storage, whole = tmp_path / "studies", tmp_path / "whole"
    command = [
        *JOB, "--storage", str(storage), "--max-examples", "1600", "--validate-every", "800",
        "--finalists", "1", "--trials",
    ]  # fmt: skip

    def run(trials: int) -> subprocess.CompletedProcess[str]:
        return forked.run([*command, str(trials)], cwd=ROOT, env=environment, timeout=PATIENCE)

    first = run(1)
    assert first.returncode == 0, first.stderr
    shutil.copytree(storage, whole)
    second = run(2)
    assert second.returncode == 0, second.stderr
    expected = found_by(storage)
    files = [path.relative_to(whole) for path in files_of(whole)]
    if not SOAK:
        files = [next(file for file in files if file.name == name) for name in FLIPPED]
    table: list[tuple[str, ...]] = []
    wrong: list[str] = []
    for file in files:
        shutil.rmtree(storage)
        shutil.copytree(whole, storage)
        at = random.Random(file.name).randrange((storage / file).stat().st_size)
        flip(storage / file, at)
        where = f"{file}, byte {at:,}"
        again = run(2)
        said = [line for line in again.stderr.splitlines() if line.strip()]
        if again.returncode == 0:
            if found_by(storage) != expected:
                wrong.append(f"{where}: another result without a word")
            words = [line for line in said if not MILESTONE.search(line)]
            table.append((f"`{file}`", "healed", "; ".join(map(without_clock, words[:2]))))
            continue
        if "Traceback" in again.stderr or not said:
            wrong.append(f"{where}: " + "\n".join(said[-15:]))
        words = " ".join(" ".join(said[-6:]).split())
        table.append((f"`{file}`", f"exit code {again.returncode}", words))
    write_table("flip.md", ("file", "outcome", "said"), table)
    assert not wrong, "\n\n".join(wrong)
