"""Times and peak memory of two ways to do the same thing, each in a process of its own.

A fresh process per way, because peak memory never comes down again in one that measured another
way before, and because an allocator warmed up by the first way would favour the second.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

Work = Callable[[], object]
MEBIBYTE = 2**20
DATA, MODELS = os.environ.get("SENTUNE_DATA"), os.environ.get("SENTUNE_MODELS")


def snli(part: str) -> str:
    """Return a part of SNLI (``dev``) from SENTUNE_DATA; without that folder, the built-in NLI."""
    return f"snli:{DATA}/snli/snli_1.0_{part}.jsonl.gz" if DATA else "builtin:nli"


def minilm() -> str:
    """Return all-MiniLM-L6-v2 in SENTUNE_MODELS; without that folder, the built-in encoder."""
    return f"{MODELS}/all-MiniLM-L6-v2" if MODELS else "builtin:tiny"


def options(description: str | None, *, repeats: int, **defaults: Any) -> argparse.Namespace:
    """Return the command line's options: ``--threads``, ``--repeats`` and those of ``defaults``.

    A default also tells the type; a list takes several values.
    """
    parser = argparse.ArgumentParser(description=description)
    for name, value in {**defaults, "threads": 1, "repeats": repeats}.items():
        several = isinstance(value, list)
        kind, count = type(value[0] if several else value), "+" if several else None
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=value, nargs=count, help="%(default)s")
    return parser.parse_args()


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


def in_turns(
    works: Mapping[str, Work], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Return the seconds of each work's calls, by default CPU seconds.

    Calls alternate, so that a busy machine slows all; the first turn warms up and is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = clock()
            work()
            if turn:
                times[name].append(clock() - start)
    return times


def time_ratio(slow: Work, fast: Work, repeats: int = 5) -> float:
    """Return how many times faster ``fast`` is; calls alternate."""
    times = in_turns({"slow": slow, "fast": fast}, repeats, time.perf_counter)
    return median(times["slow"]) / median(times["fast"])


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


def table_of(title: str, *columns: str, caption: str = "") -> Table:
    """Return an empty table; numbers stand in all columns but the first."""
    table = Table(title=title, caption=caption or None, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


def show(*parts: object) -> None:
    """Print tables and lines."""
    Console(width=110).print(*parts)


def report(title: str, rows: Sequence[tuple[str, Measurement]], threads: int) -> None:
    """Prints a table; ratios are of each row to the last one, the one that is ours."""
    ours = rows[-1][1]
    columns = ("", "ms", "times ours", "peak MiB", "of our peak")
    table = table_of(title, *columns, caption=machine(threads))
    for name, m in rows:
        memory = f"{m.peak / ours.peak:.1f}x" if ours.peak else "-"
        cells = (f"{m.seconds * 1e3:.1f}", f"{m.seconds / ours.seconds:.1f}x")
        table.add_row(name, *cells, f"{m.peak / MEBIBYTE:.1f}", memory)
    show(table)


def compare(title: str, speed: Mapping[str, float], unit: str) -> None:
    """Print each way's ``unit`` per CPU second, and its ratio to that of the first way."""
    table = table_of(title, "", f"{unit} / CPU s", "times theirs", caption=machine(1))
    theirs = next(iter(speed.values()))
    for name, value in speed.items():
        table.add_row(name, f"{value:.1f}", f"{value / theirs:.2f}x")
    show(table)


def measure_all(
    ways: Mapping[str, Callable[[], Work]], *, repeats: int, threads: int
) -> list[tuple[str, Measurement]]:
    """Return name -> measurement of each way, for ``report``."""
    return [(name, measure(make, repeats=repeats, threads=threads)) for name, make in ways.items()]
