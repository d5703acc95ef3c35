"""The tiers of the tests: which there are, what each holds, and how many of its tests ran.

A test without a mark belongs to ``default``. ``@pytest.mark.TIER`` on a test, or ``pytestmark`` in
its file, puts it into another one; ``FOLDERS`` does so for whole folders. What runs when stands in
the Makefile. As a script, this sums the counts of several runs of pytest:

    python tests/tiers.py COUNTS
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

DEFAULT = "default"

TIERS = {
    "smoke": "the whole system once, on one Ray cluster of two CPUs",
    "faults": "breaks what a study runs on: drivers, workers, nodes, networks, disks, servers",
    "servers": "starts PostgreSQL, an S3 server or MLflow's server",
    "cluster": "starts a Ray cluster of its own",
    "extras": "needs an optional dependency: mteb, faiss, nbclient, Ray Serve ... or Chromium",
    "long": "trains or solves for many seconds, without Ray",
}
"""Name of the mark and what it stands for. Tests start in this order: the longest files first, so
that no process is left alone with them at the end."""

FOLDERS = {
    "smoke": "smoke",
    "faults": "faults",
    "networks": "faults",
    "sharing": "servers",
    "autoscaling": "cluster",
    "end_to_end": "cluster",
}
"""Folders below ``tests/`` whose tests are in one tier, except those with a mark of their own."""

OUTCOMES = ("passed", "failed", "skipped")

Counts = Mapping[str, Mapping[str, int]]
"""How many tests of a tier had which outcome."""


def tier_of(marks: Iterable[str], folder: str) -> str:
    """Return the tier of a test from the names of its marks and its folder below ``tests/``.

    Raises:
        ValueError: it has the marks of two tiers.
    """
    named = sorted({mark for mark in marks if mark in TIERS})
    if len(named) > 1:
        raise ValueError(f"a test has one tier; this one has {' and '.join(named)}")
    return named[0] if named else FOLDERS.get(folder, DEFAULT)


def ran(counts: Counts) -> str:
    """Return the line that says how many tests of each tier ran."""
    told = [
        f"{tier} {sum(counts.get(tier, {}).get(o, 0) for o in OUTCOMES if o != 'skipped')}"
        for tier in (DEFAULT, *TIERS)
    ]
    return f"tests that ran, by tier: {', '.join(told)}"


def summed(lines: Iterable[str]) -> Counts:
    """Return the counts of all runs, each a line of JSON."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for tier, outcomes in json.loads(line).items():
            total[tier].update(outcomes)
    return total


def main(file: str) -> None:
    """Print what all runs of a file of counts came to."""
    total = summed(Path(file).read_text().splitlines())
    whole = {outcome: sum(of.get(outcome, 0) for of in total.values()) for outcome in OUTCOMES}
    closing = ", ".join(f"{number} {outcome}" for outcome, number in whole.items())
    sys.stdout.write(f"{ran(total)}\n{closing}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
