"""Seconds from the command of a job to the first training step, and where the CPU time goes.

The caches are filled by a first start, which is not counted. The first step is noted in the trial's
process by a ``sitecustomize`` of the benchmark's own, which every process of the job imports.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import psutil
from measure import machine, show, table_of

ROUNDS = 5
JOB = ("jobs/tune_gumbel.py", "--trials=1", "--finalists=0", "--max-examples=512", "--no-history")
HOOK = """
import os, sys, threading, time

def wait():
    while not hasattr(sys.modules.get("sentune.training.step"), "Stepper"):
        time.sleep(0.01)
    kind = sys.modules["sentune.training.step"].Stepper
    take = kind.step
    def step(*given, **named):
        open(os.environ["FIRST_STEP"], "a").close()
        return take(*given, **named)
    kind.step = step

threading.Thread(target=wait, daemon=True).start()
"""


def start(folder: Path, study: str) -> tuple[float, Counter[str]]:
    """Seconds to the first step of a study, and the CPU seconds of its processes until then."""
    noted = folder / study
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    own = {"FIRST_STEP": str(noted), "PYTHONPATH": paths}
    command = [sys.executable, *JOB, f"--storage={folder / 'studies'}", f"--study={study}"]
    began = time.monotonic()
    with (folder / "log").open("w") as log:
        job = psutil.Popen(command, env=os.environ | own, stdout=log, stderr=log)
    while not noted.exists():
        if job.poll() is not None:
            raise SystemExit((folder / "log").read_text())
        time.sleep(0.005)
    seconds, spent = time.monotonic() - began, Counter({"driver": cpu(job)})
    for process in job.children(recursive=True):
        worker = process.name().startswith("ray::Implicit")
        spent["the trial's worker" if worker else "Ray, control actor"] += cpu(process)
    if job.wait() != 0:
        raise SystemExit((folder / "log").read_text())
    return seconds, spent


def cpu(process: psutil.Process) -> float:
    """CPU seconds so far."""
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    """Prints the medians."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "sitecustomize.py").write_text(HOOK)
        start(Path(name), "filling")
        found = [start(Path(name), f"round-{number}") for number in range(ROUNDS)]
    columns = ("from the command to the first training step", "seconds")
    table = table_of(f"To the first step, median of {ROUNDS}", *columns, caption=machine(1))
    table.add_row("wall time", f"{median(seconds for seconds, _ in found):.1f}")
    for part in found[0][1]:
        table.add_row(f"CPU time: {part}", f"{median(spent[part] for _, spent in found):.1f}")
    show(table)


if __name__ == "__main__":
    main()
