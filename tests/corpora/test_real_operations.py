"""Row counts of real WikiSplit and sentence compression, in the folder SENTUNE_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentune.corpora import Kind, read

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")


@pytest.mark.parametrize("name", ["tune", "validation"])
def test_wikisplit_is_read_without_a_bad_row(name: str) -> None:
    spec = f"wikisplit:{DATA}/wikisplit/{name}.tsv?operation=both"
    corpus = read(spec, Kind.OPERATIONS, bad_rows="0")
    assert corpus.counts == {"read": 5_000, "rows": 10_000}


def test_compression_is_read_without_a_bad_row() -> None:
    spec = f"compression:{DATA}/sentence-compression/pairs.tsv"
    corpus = read(spec, Kind.OPERATIONS, bad_rows="0")
    assert corpus.counts == {"read": 9_000, "rows": 9_000}
