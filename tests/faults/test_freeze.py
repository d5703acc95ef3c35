"""Every process of a study is stopped in turn: it is healed, or said in one sentence what to do.

``make soak`` takes all processes and writes the table of ``docs/faults.md`` into ``build``; else
the control actor is taken (of trials that hang, ``test_stalls.py`` tells).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import forked
from tests.faults.damaged_job import (
    JOB,
    MILESTONE,
    PATIENCE,
    ROOT,
    without_clock,
    write_table,
)
from tests.ray_nodes import end, marked
from tests.servers import Server, free_port, mlflow_server
from tests.soak import SOAK

SENTENCE = re.compile(r"waiting for |no beat for |cannot be reached|is suspended|has died|gone")

STALL_SECONDS, STOPPED_SECONDS = (20, 75) if SOAK else (15, 20)
"""Without a beat; that a process is stopped, and again until it counts."""


@dataclass
class Started:
    """A job in a process of its own, whose log is read line by line.

    Attributes:
        command: of the job, without the interpreter.
        log: file of all that it says, over all starts.
        environment: of its process.
    """

    command: list[str]
    log: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    read: int = field(default=0, init=False)

    def start(self) -> None:
        with self.log.open("ab") as out:
            command = [sys.executable, *self.command]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=self.environment
            )

    @property
    def ended(self) -> int | None:
        assert self.process is not None
        return self.process.poll()

    def new(self) -> list[str]:
        """Lines since the last call."""
        text = self.log.read_text(errors="replace")
        whole = text[self.read : text.rfind("\n") + 1]
        self.read += len(whole)
        return whole.splitlines()

    def milestones(self, count: int, seconds: float) -> tuple[int, list[str]]:
        """Wait for so many milestones; return how many came, and all that was said."""
        said: list[str] = []
        deadline = time.monotonic() + seconds
        while True:
            said += self.new()
            found = sum(bool(MILESTONE.search(line)) for line in said)
            if found >= count or self.ended is not None or time.monotonic() > deadline:
                return found, said + self.new()
            time.sleep(0.2)


def kind_of(pid: int) -> str:
    """What a process of a study is; empty for one that is not looked at."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        line = " ".join(words).strip()
        if line.startswith("ray::"):
            name = re.split(r"[.(\s]", line.removeprefix("ray::"))[0]
            return "" if name.startswith("IDLE") else name
        first = Path(words[0]).name
        if first in ("gcs_server", "raylet"):
            return first
        for name, sign in (
            ("driver", "jobs/tune_"), ("dashboard agent", "dashboard/agent.py"),
            ("runtime environments' agent", "runtime_env/agent"), ("log monitor", "log_monitor.py"),
            ("autoscaler", "monitor.py"), ("dashboard", "dashboard/dashboard.py"),
        ):  # fmt: skip
            if sign in line:
                return name
    return ""


def processes(mark: str) -> dict[str, list[int]]:
    """Kind -> processes of a study, the oldest first."""
    found: dict[str, list[int]] = {}
    for pid in sorted(marked(mark)):
        if kind := kind_of(pid):
            found.setdefault(kind, []).append(pid)
    return found


def wake(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@dataclass
class Frozen:
    """A study whose processes are stopped one after the other."""

    job: Started
    mark: str
    mlflow: Server
    table: list[tuple[str, str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ready(self) -> None:
        """Start the job if it does not run, and wait until it trains."""
        if self.job.process is None or self.job.ended is not None:
            if self.job.process is not None:
                end(self.mark)
            self.job.start()
        found, said = self.job.milestones(1, PATIENCE)
        assert found, "\n".join(said[-30:])

    def freeze(self, kind: str) -> None:
        """Stop one process, and add a line to the table or to what is wrong."""
        self.ready()
        assert self.mlflow.process is not None
        groups = {"MLflow": [-self.mlflow.process.pid], **processes(self.mark)}
        if kind not in groups:
            return  # it has ended meanwhile
        pid = groups[kind][-1]
        self.job.new()
        os.kill(pid, signal.SIGSTOP)
        try:
            told = [self.second_start(pid)] if kind == "driver" else []
            _, before = self.job.milestones(1_000_000, STOPPED_SECONDS)
            goes_on, after = self.job.milestones(2, 0 if kind == "driver" else STOPPED_SECONDS)
        finally:
            wake(pid)
        said = [*told, *before, *after]
        ended = self.job.ended is not None
        woken, more = (0, []) if ended or goes_on >= 2 else self.job.milestones(2, PATIENCE)
        late = not ended and self.job.ended is not None
        sentences = [line for line in (*said, *more) if SENTENCE.search(line)]
        shown = "; ".join(dict.fromkeys(map(without_clock, sentences)))
        end_of = "\n".join([*said, *more][-30:])
        if ended and (not sentences or "Traceback" in end_of):
            self.wrong.append(f"{kind}: it ended without a sentence\n{end_of}")
        elif not (ended or goes_on >= 2 or sentences):
            self.wrong.append(f"{kind}: silent\n{end_of}")
        elif late and ("same command again" not in end_of or "Traceback" in end_of):
            self.wrong.append(f"{kind}: woken, it ended without a sentence\n{end_of}")
        elif not (ended or late or goes_on >= 2 or woken >= 2):
            self.wrong.append(f"{kind}: woken, it does not go on\n{end_of}")
        elif kind == "driver" and "no beat" in end_of:
            self.wrong.append(f"{kind}: its trials were taken for stalled\n{end_of}")
        how = "goes on, healed where it has to be"
        if ended or late:
            how = f"the study ends{' when it is woken' * late}; the same command goes on"
        elif goes_on < 2:
            how = "waits, and goes on when it is woken"
        self.table.append((kind, how, shown))

    def second_start(self, pid: int) -> str:
        """Start the same command while the driver is stopped; return what it says."""
        environment = self.job.environment
        refused = forked.run(self.job.command, cwd=ROOT, env=environment, timeout=PATIENCE)
        assert refused.returncode == 2, refused.stderr
        assert "Traceback" not in refused.stderr
        (line,) = [line for line in refused.stderr.splitlines() if f"pid {pid}" in line]
        return line


@pytest.mark.timeout(7200 if SOAK else 1800)
@pytest.mark.parametrize(
    "launcher",
    [["inline"], ["train", "--share-mb", "0"]] if SOAK else [["inline"]],
    ids=lambda words: words[0],
)
def test_every_process_of_a_study_is_stopped_in_turn(
    tmp_path: Path, environment: dict[str, str], launcher: list[str]
) -> None:
    mark = environment["SENTUNE_TEST_MARK"]
    port = free_port()
    command = [
        *JOB, "--storage", str(tmp_path), "--trials", "100", "--max-examples", "1000000",
        "--validate-every", "1600", "--stall-timeout", str(STALL_SECONDS),
        "--tracking", f"http://127.0.0.1:{port}", "--launcher", *launcher,
    ]  # fmt: skip
    kept = tmp_path / "mlflow"
    kept.mkdir()
    database, artifacts = f"sqlite:///{kept}/mlflow.db", str(kept / "artifacts")
    with mlflow_server(kept, port, backend=database, artifacts=artifacts) as server:
        frozen = Frozen(Started(command, tmp_path / "log", environment), mark, server)
        frozen.ready()
        if SOAK:
            last = ("driver", "raylet", "gcs_server")  # these end it
            frozen.freeze("MLflow")
            while left := processes(mark).keys() - {kind for kind, _, _ in frozen.table}:
                frozen.freeze(min(left, key=lambda kind: (kind in last, kind)))
        else:
            frozen.freeze("ControlActor")
    write_table(f"freeze-{launcher[0]}.md", ("stopped", "outcome", "said"), frozen.table)
    assert len(frozen.table) >= (8 if SOAK else 1)
    assert not frozen.wrong, "\n\n".join(frozen.wrong)
