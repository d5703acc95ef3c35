"""Starts processes that have torch, Optuna and MLflow in memory, which saves each 3 CPU seconds.

They are forked from Python's fork server, which imports all of it once for each process of pytest.
A process that is found by its command line or environment is started with ``subprocess``.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.multiprocessing.spawn import start_processes

if TYPE_CHECKING:
    from sentune.training.group import Group

_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload([
    "mlflow", "optuna", "pyarrow", "scipy.stats", "sentune.cli", "sentune.tracking.tracker",
    "sentune.training.loop", "transformers.models.bert.modeling_bert",
])  # fmt: skip
# Ray is not among them: processes forked behind its import draw the same ids.


def run_group(work: Callable[..., None], arguments: tuple[Any, ...], workers: int) -> None:
    """Runs ``work(rank, *arguments)`` in as many processes, to the end of all.

    A group of torch that it has joined is left behind it. The environment is that of now: the fork
    server keeps the one in which it was started. ``work`` is pickled apart, because Ray, which its
    module may import, reads ``RAY_AUTH_MODE`` at its import.
    """
    given = (dict(os.environ), pickle.dumps((work, arguments)))
    start_processes(_member, given, nprocs=workers, start_method="forkserver")


def _member(rank: int, env: dict[str, str], pickled: bytes) -> None:
    os.environ.clear()
    os.environ.update(env)
    work, arguments = pickle.loads(pickled)
    work(rank, *arguments)
    leave_group()


def join_group(rank: int, workers: int, folder: Path | str, *given: Any) -> Group:
    """Returns the gloo group of the processes that meet in a folder; each has one thread.

    ``given`` is device and shards, as for ``Group.from_torch_distributed``.
    """
    import torch
    from torch import distributed

    from sentune.training.group import Group

    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting-point-{workers}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=workers)
    return Group.from_torch_distributed(*given)


def leave_group() -> None:
    """Ends the process's group of torch, once nothing holds a gradient reducer any more.

    One that is in a circle of references would be the last to hold the group, and torch may then
    wait for itself.
    """
    import torch.distributed

    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Program:
    """A Python program in a process of its own, with the methods of ``subprocess.Popen``.

    Args:
        words: ``FILE ARGUMENTS`` or ``-m MODULE ARGUMENTS``.
        env: of the process.
        cwd: its folder.
        log: gets stdout and stderr; None: they are apart.
    """

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path | None = None
    ) -> None:
        self.words = words
        if log is None:
            apart = Path(tempfile.mkdtemp(prefix="forked-"))
            weakref.finalize(self, shutil.rmtree, apart, ignore_errors=True)
        self._files = (apart / "out", apart / "err") if log is None else (log,)
        for file in self._files:
            file.write_text("")
        given = (list(words), dict(env), cwd, self._files[0], self._files[-1])
        self._process = _FORKSERVER.Process(target=_execute, args=given, daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(list(self.words), timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        out, *err = (file.read_text() for file in self._files)
        return out, "".join(err)

    def send_signal(self, number: int) -> None:
        if self._process.is_alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    program = Program(words, env=env, cwd=cwd)
    out, err = program.communicate(timeout)
    return subprocess.CompletedProcess(list(words), program.wait(), out, err)


def _execute(words: list[str], env: dict[str, str], cwd: Path, out: Path, err: Path) -> None:
    """Does what the interpreter does with a command."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(cwd, words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")
