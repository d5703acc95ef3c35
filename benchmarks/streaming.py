"""A corpus of 5 million generated sentences, from text to SIF's statistics, against one of 50,000.

Speed of `prepare` and of one streamed pass of SIF's fit over the shards, and the memory of all
processes of it together (driver, Ray and its workers), which must not grow with the corpus: at most
2 GB, at no less than 0.8 of the small corpus's speed. A pass over a few sentences beforehand starts
Ray's processes; it is not counted.

python benchmarks/streaming.py [SENTENCES] needs about 1.5 GB in the temporary folder.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
import ray
from measure import machine, show, table_of

from sentune.code import runtime_env
from sentune.corpora import Kind
from sentune.corpora.prepare import prepare
from sentune.corpora.reduce import accumulate
from sentune.encoders.words import WordTable
from sentune.io.cached_file import CachedFile
from sentune.methods.sif import Moments, Sif, SifSettings

WORDS, DIMENSIONS, AT_ONCE = 20_000, 300, 10_000
SMALL, LARGE = 50_000, 5_000_000
GIGABYTE, MEMORY_LIMIT, SLOWEST = 1e9, 2e9, 0.8


@dataclass
class Peak:
    """Most bytes that a process and all its descendants have held, shared pages counted once."""

    bytes: int = 0


@contextmanager
def watched(peak: Peak, every: float = 1.0) -> Iterator[None]:
    """Looks at the memory again and again."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(every):
            peak.bytes = max(peak.bytes, _held())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        peak.bytes = max(peak.bytes, _held())


def _held() -> int:
    total, me = 0, psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def word_table() -> WordTable:
    """Words as frequent as Zipf's law has it, with random vectors."""
    p = 1 / np.arange(1, WORDS + 1)
    p /= p.sum()
    vectors = np.random.default_rng(0).normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
    return WordTable(tuple(f"w{i}" for i in range(WORDS)), vectors, p, listed=p)


def write(file: Path, sentences: int) -> None:
    """Sentences of 4 to 18 words, one a line."""
    rng = np.random.default_rng(1)
    table = word_table()
    names, p = np.array(table.words), table.listed
    with file.open("w") as out:
        for at in range(0, sentences, AT_ONCE):
            lengths = rng.integers(4, 19, min(AT_ONCE, sentences - at))
            words = names[rng.choice(WORDS, int(lengths.sum()), p=p)].tolist()
            ends = np.cumsum(lengths).tolist()
            for start, end in zip([0, *ends], ends, strict=False):
                out.write(" ".join(words[start:end]) + "\n")


def statistics(shared: list[Any]) -> Moments:
    """Empty ones, on a worker."""
    return Sif(ray.get(shared[0]), SifSettings()).statistics()


def measured(file: str, folder: str, answer: Any) -> None:
    """Prepares a file and passes over it once, in a process of its own."""
    os.environ["RAY_DEDUP_LOGS"] = "0"
    peaks = Peak(), Peak()
    started = time.perf_counter()
    with watched(peaks[0]):
        manifest = prepare(f"text:{file}", f"{folder}/shards", kind=Kind.SENTENCES)
    preparing = time.perf_counter() - started
    shards = [CachedFile(str(p)) for p in sorted(Path(folder, "shards").glob("*.parquet"))]
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        object_store_memory=500_000_000, runtime_env=runtime_env(),
    )  # fmt: skip
    ray.cloudpickle.register_pickle_by_value(sys.modules[statistics.__module__])
    make = partial(statistics, [ray.put(word_table())])
    few = Path(folder, "few.txt")
    with Path(file).open() as lines:
        few.write_text("".join(next(lines) for _ in range(1000)))
    sizes = prepare(f"text:{few}", f"{folder}/few", kind=Kind.SENTENCES)["shards"]
    accumulate([CachedFile(f"{folder}/few/part-00000.parquet")], sizes, make)
    started = time.perf_counter()
    with watched(peaks[1]):
        accumulate(shards, manifest["shards"], make)
    passing = time.perf_counter() - started
    ray.shutdown()
    rows = manifest["counts"]["rows"]
    answer.put((rows, preparing, peaks[0].bytes, passing, peaks[1].bytes))


def run(sentences: int, folder: Path) -> tuple[int, float, int, float, int]:
    """Rows, then seconds and bytes of ``prepare``, then those of the pass."""
    file = folder / f"{sentences}.txt"
    write(file, sentences)
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=measured, args=(str(file), str(folder / file.stem), answer))
    (folder / file.stem).mkdir()
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{sentences:,} sentences ended with exit code {process.exitcode}")
    return answer.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=int, nargs="?", default=LARGE)
    most = parser.parse_args().sentences
    table = table_of("streaming", "sentences", "prepare /s", "GB", "pass /s", "GB ")
    rates = []
    with TemporaryDirectory() as folder:
        for sentences in (SMALL, most):
            rows, preparing, first, passing, second = run(sentences, Path(folder))
            rates.append((sentences / preparing, rows / passing))
            held = max(first, second)
            table.add_row(
                f"{sentences:,}", f"{sentences / preparing:,.0f}", f"{first / GIGABYTE:.2f}",
                f"{rows / passing:,.0f}", f"{second / GIGABYTE:.2f}",
            )  # fmt: skip
    ratios = [large / small for small, large in zip(*rates, strict=True)]
    show(table, machine(1))
    show(f"speed at {most:,} of that at {SMALL:,}: prepare {ratios[0]:.2f}, pass {ratios[1]:.2f}")
    if held > MEMORY_LIMIT or min(ratios) < SLOWEST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
