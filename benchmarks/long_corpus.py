"""Memory of a job's driver on a corpus of any length: generated triplets, GumbelCSE.

The job runs as a user starts it, from the file to the report: preparing, tokenising, planning, one
trial of some steps on a corpus that streams, baselines, model. It starts twice under two names; the
second start finds shards and tokens by the stamp of the source. At most 2 GB resident in the
driver's process, shared pages of the object store included. The triplets are three to five words of
2,000 distinct sentences, which keeps tokenising short; their order and number are what the
driver could hold on to.

python benchmarks/long_corpus.py 20000000 needs about 2 GB in the temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import machine, show, table_of

ROOT = Path(__file__).resolve().parents[1]
TRIPLETS, AT_ONCE, SENTENCES, WORDS = 2_000_000, 65_536, 2_000, 2_000
LIMIT, GIGABYTE = 2e9, 1e9
DEV, TEST = (f"builtin:nli?split={split}&size=90" for split in ("dev", "test"))
OPTIONS = (
    *("--encoder=builtin:tiny?layers=1&width=16&heads=2&inner=32", "--share-mb=128"),
    *("--trials=1", "--finalists=0", "--max-examples=512", "--validate-every=256"),
    *("--set=batch_size=16", "--set=max_length=16", f"--dev={DEV}", f"--test={TEST}"),
)


def write(file: Path, triplets: int) -> None:
    """Triplets of distinct short sentences, a row group at a time."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(WORDS)])
    texts = [" ".join(rng.choice(words, rng.integers(3, 6))) for _ in range(SENTENCES)]
    names = ("anchor", "positive", "negative")
    with pq.ParquetWriter(file, pa.schema([(name, pa.string()) for name in names])) as out:
        for at in range(0, triplets, AT_ONCE):
            places = rng.integers(SENTENCES, size=(3, min(AT_ONCE, triplets - at)))
            columns = [pa.array(texts).take(pa.array(part)) for part in places]
            out.write_table(pa.table(columns, names=names))


def run(name: str, file: Path, storage: Path) -> tuple[float, float, int]:
    """Seconds until the first trial and of the whole job, and the peak of the driver in bytes."""
    log = storage / f"{name}.log"
    command = (sys.executable, ROOT / "jobs/tune_gumbel.py", f"--study={name}")
    corpus = (f"--corpus=parquet:{file}", f"--storage={storage}", "--no-history")
    started, planned, peak = time.perf_counter(), 0.0, 0
    with log.open("w") as out:
        process = subprocess.Popen(
            [*map(str, command), *corpus, *OPTIONS], stdout=out, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                peak = max(peak, 1024 * int(found[1]))
            if not planned and (storage / name / "trials").is_dir():
                planned = time.perf_counter() - started
            time.sleep(0.2)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {log.read_text()[-2000:]}")
    return planned, time.perf_counter() - started, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("triplets", type=int, nargs="?", default=TRIPLETS)
    triplets = parser.parse_args().triplets
    os.environ.pop("RAY_ADDRESS", None)
    columns = ("start", "s to the first trial", "s in all", "driver's peak, GB")
    table = table_of(f"{triplets:,} triplets", *columns)
    peaks = []
    with TemporaryDirectory() as folder:
        file = Path(folder, "triplets.parquet")
        write(file, triplets)
        storage = Path(folder, "studies")
        storage.mkdir()
        for name in ("first", "second"):
            planned, whole, peak = run(name, file, storage)
            peaks.append(peak)
            table.add_row(name, f"{planned:,.0f}", f"{whole:,.0f}", f"{peak / GIGABYTE:.2f}")
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if not path.is_symlink())
    show(table, f"{size / GIGABYTE:.1f} GB on disk", machine(1))
    if max(peaks) > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
