"""The folder that training on words starts from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import read_counts, training_folder
from sentune.errors import InvalidValue


def make_words(scale: float = 1.0) -> WordTable:
    vectors = scale * np.arange(6, dtype=np.float32).reshape(3, 2)
    return WordTable(("a", "dog", "barks"), vectors, np.array([0.5, 0.3, 0.2]))


def test_the_folder_gives_back_words_and_counts(tmp_path: Path) -> None:
    folder = training_folder(make_words(), np.array([5, 0, 2]), tmp_path)
    table = WordTable.load(folder)
    assert table.words == make_words().words
    assert np.array_equal(table.vectors, make_words().vectors)
    assert np.array_equal(table.probabilities, make_words().probabilities)
    assert table.fingerprint
    assert read_counts(folder).tolist() == [5, 0, 2]


def test_folders_are_named_by_their_content(tmp_path: Path) -> None:
    counts = np.array([5, 0, 2])
    first = training_folder(make_words(), counts, tmp_path)
    written = (Path(first) / "counts.npy").stat().st_mtime_ns
    assert training_folder(WordTable.load(first), counts, tmp_path) == first
    assert (Path(first) / "counts.npy").stat().st_mtime_ns == written
    others = {
        training_folder(make_words(2.0), counts, tmp_path),
        training_folder(make_words(), counts + 1, tmp_path),
    }
    assert len(others | {first}) == 3
    assert {str(path) for path in Path(first).parent.iterdir()} == others | {first}  # no drafts


def test_counts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for counts in ([1, 2], [1, 2, -3]):
        with pytest.raises(InvalidValue, match=r"counts: .* each of the 3 words"):
            training_folder(make_words(), np.array(counts), tmp_path)
    with pytest.raises(InvalidValue, match=r"has no counts\.npy"):
        read_counts(tmp_path)
