"""Times and peak memory of two ways to do the same thing, each in a process of its own.

A fresh process per way, because peak memory never comes down again in one that measured another
way before, and because an allocator warmed up by the first way would favour the second.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import torch

Work = Callable[[], object]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Measurement:
    """Median seconds of a call, and bytes by which the process's peak rose above its start."""

    seconds: float
    peak: int


def measure(make: Callable[[], Work], *, repeats: int = 5, threads: int = 1) -> Measurement:
    """Runs ``make()`` in a new process, calls what it returns, once to warm up, then timed.

    Args:
        make: a module-level function (the process imports it) that prepares the inputs and gives
            the work; preparing is neither timed nor counted as memory.
        repeats: timed calls, of which the median counts.
        threads: torch's threads.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(make, repeats, threads, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{make} ended with exit code {process.exitcode}") from None
    finally:
        process.join()


def _child(make: Callable[[], Work], repeats: int, threads: int, sender: Connection) -> None:
    torch.set_num_threads(threads)
    work = make()
    _warm_up_autograd()
    before = _resident()
    _reset_peak()
    work()
    peak = _peak()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    sender.send(Measurement(median(seconds), max(0, peak - before)))


def _warm_up_autograd() -> None:
    """Threads and libraries that the first backward loads are left out of the measurement."""
    x = torch.randn(64, 64, requires_grad=True)
    (x @ x).log1p().sum().backward()


def _status(field: str) -> int | None:
    """Bytes of a field of /proc/self/status, where there is one."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def _resident() -> int:
    return _status("VmRSS:") or _rusage_peak()


def _peak() -> int:
    return _status("VmHWM:") or _rusage_peak()


def _rusage_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _reset_peak() -> None:
    """Linux forgets the peak of preparing when told to; elsewhere it counts in."""
    handle = Path("/proc/self/clear_refs")
    if handle.exists():
        handle.write_text("5")


def time_ratio(slow: Work, fast: Work, repeats: int = 5) -> float:
    """How many times faster ``fast`` is; calls alternate, so that a busy machine hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for work in (slow, fast):
        work()
    for _ in range(repeats):
        for work, seconds in zip((slow, fast), times, strict=True):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return median(times[0]) / median(times[1])


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call in this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def product_speed(width: int, outputs: int, rows: int = 512, repeats: int = 10) -> float:
    """Floating-point operations a CPU second of torch's [rows, width] @ [width, outputs]."""
    first, second = torch.randn(rows, width), torch.randn(width, outputs)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(4):
            first @ second
        times.append((time.process_time() - start) / 4)
    return 2 * rows * width * outputs / median(times)


def machine(threads: int) -> str:
    """One line that says on what the figures were taken."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        name = models[0].split(":", 1)[1].strip() if models else name
    return f"{name}, {os.cpu_count()} cores, torch {torch.__version__}, {threads} torch thread(s)"


def report(title: str, rows: Sequence[tuple[str, Measurement]], threads: int) -> None:
    """Prints a table; ratios are of each row to the last one, the one that is ours."""
    from rich.console import Console
    from rich.table import Table

    ours = rows[-1][1]
    table = Table(title=title, caption=machine(threads), title_justify="left")
    for column in ("", "ms", "times ours", "peak MiB", "of our peak"):
        table.add_column(column, justify="right" if column else "left")
    for name, m in rows:
        memory = f"{m.peak / ours.peak:.1f}x" if ours.peak else "-"
        cells = (f"{m.seconds * 1e3:.1f}", f"{m.seconds / ours.seconds:.1f}x")
        table.add_row(name, *cells, f"{m.peak / MEBIBYTE:.1f}", memory)
    Console(width=110).print(table)
