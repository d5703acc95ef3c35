"""``builtin:scenes``: the score follows from the words alone, and splits share no sentence."""

from __future__ import annotations

from sentune.corpora import Kind, read
from sentune.corpora.builtin.operations import ACTS, DEEDS, PLACES, SUBJECTS, THINGS

COUNTED = {*ACTS, *DEEDS, *SUBJECTS, *THINGS}


def told(sentence: str) -> set[str]:
    """Subject, deed, thing, act and the act's place, read off the words."""
    words = sentence.split()
    found = COUNTED & set(words)
    if any(word in ACTS for word in words):  # a place without an act is the deed's
        found |= set(words) & set(PLACES)
    return found


def test_the_score_is_the_share_of_what_both_tell() -> None:
    rows = read("builtin:scenes?split=dev", Kind.SCORED_PAIRS).table.to_pylist()
    assert len(rows) == 1_000
    for row in rows:
        a, b = told(row["sentence1"]), told(row["sentence2"])
        assert row["score"] == 10 * len(a & b) / (len(a) + len(b)), row
    assert {0.0, 5.0} <= {row["score"] for row in rows}


def test_splits_share_no_sentence_and_a_seed_decides() -> None:
    def sentences(split: str, seed: int = 0) -> set[str]:
        table = read(f"builtin:scenes?split={split}&seed={seed}", Kind.SCORED_PAIRS).table
        return {*table["sentence1"].to_pylist(), *table["sentence2"].to_pylist()}

    assert not sentences("dev") & sentences("test")
    assert sentences("dev") == sentences("dev")
    assert sentences("dev") != sentences("dev", 1)
