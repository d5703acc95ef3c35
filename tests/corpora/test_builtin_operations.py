"""The right answers of ``builtin:operations``, told from the words of its rows alone."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentune.corpora import Kind, read
from sentune.corpora.builtin import operations as words
from sentune.corpora.builtin.operations import operations, split_of
from sentune.corpora.formats import kinds_of
from sentune.corpora.schema import OPERATIONS
from sentune.errors import InvalidValue

SLOTS = (
    words.ADJECTIVES, words.SUBJECTS, words.ADVERBS, words.DEEDS, words.LOOKS, words.THINGS,
    words.ACTS, words.PLACES,
)  # fmt: skip
MODIFIERS = {*words.ADJECTIVES, *words.ADVERBS, *words.LOOKS}
SPLITS = ("train", "dev", "test")


def fused(deed: str, act: str) -> str:
    """The deed, and what the act tells beyond the words that both begin with."""
    first, second = deed.split(), act.split()
    pairs = enumerate(zip(first, second, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), len(second))
    return " ".join([*first, "and", *second[same:]])


def compressed(text: str) -> str:
    """Without modifiers, and cut before the place or the act."""
    plain = " ".join(word for word in text.split() if word not in MODIFIERS)
    return plain.split(" and ")[0].split(" in the ")[0]


def is_right(operation: str, first: str, second: str | None, target: str) -> bool:
    if operation == "fusion":
        return second is not None and target == fused(first, second)
    if operation == "difference":
        return second is not None and first in (fused(second, target), fused(target, second))
    if operation == "compression":
        return target == compressed(first) != first and compressed(target) == target
    return target == first


def sentences(split: str, seed: int, size: int) -> set[str]:
    return {t for row in islice(operations(split, seed), size) for t in row[1:] if t is not None}


def test_no_word_has_two_slots() -> None:
    every = [word for slot in SLOTS for word in slot]
    assert len(set(every) | {"the", "in", "and"}) == len(every) + 3 == 113


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), split=st.sampled_from(SPLITS))
def test_every_target_follows_from_the_inputs(seed: int, split: str) -> None:
    rows = list(islice(operations(split, seed), 400))
    assert [row[0] for row in rows] == list(OPERATIONS) * 100
    assert [row for row in rows if not is_right(*row)] == []
    assert all((row[1] is not None) and ((row[2] is None) == (row[0] in OPERATIONS[2:]))
               for row in rows)  # fmt: skip
    assert len(set(rows)) == 400
    lengths = {len(text.split()) for row in rows for text in row[1:] if text is not None}
    assert lengths <= set(range(5, 13))


def test_the_checks_of_these_tests_can_fail() -> None:
    deed, act = "the old dog hid the key", "the old dog slept in the barn"
    both = "the old dog hid the key and slept in the barn"
    assert is_right("fusion", deed, act, both)
    assert not is_right("fusion", act, deed, both)
    assert is_right("difference", both, deed, act)
    assert not is_right("difference", both, deed, deed)
    assert not is_right("difference", both, deed, act.replace("old ", ""))
    assert is_right("compression", both, None, "the dog hid the key")
    assert not is_right("compression", both, None, deed)


def test_no_sentence_of_a_split_is_in_another() -> None:
    train = sentences("train", 1, 20_000)
    dev, test = sentences("dev", 2, 3_000), sentences("test", 3, 3_000)
    assert len(train) > 25_000
    assert min(len(dev), len(test)) > 4_000
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_one_combination_in_ten_is_held_out_for_each_split() -> None:
    deeds = Counter(split_of(s, d, t) for s in words.SUBJECTS for d in words.DEEDS
                    for t in words.THINGS)  # fmt: skip
    acts = Counter(split_of(s, a, p) for s in words.SUBJECTS for a in words.ACTS
                   for p in words.PLACES)  # fmt: skip
    for counts, size in ((deeds, 6_000), (acts, 3_600)):
        assert counts.total() == size
        assert all(0.08 < counts[split] / size < 0.12 for split in ("dev", "test"))


def test_the_stream_is_that_of_its_seed() -> None:
    first = read("builtin:operations?size=40", Kind.OPERATIONS)
    again = read("builtin:operations?size=40&seed=0&split=train", Kind.OPERATIONS)
    assert again.fingerprint == first.fingerprint
    other = read("builtin:operations?size=40&seed=1", Kind.OPERATIONS)
    assert other.fingerprint != first.fingerprint
    longer = read("builtin:operations?size=80", Kind.OPERATIONS)
    assert longer.table.slice(0, 40).equals(first.table)
    # what earlier runs were measured on
    assert first.table.slice(0, 1).to_pylist() == [FIRST]


FIRST = {
    "operation": "fusion",
    "first": "the clever cat hid the rope",
    "second": "the clever cat slept in the park",
    "target": "the clever cat hid the rope and slept in the park",
}


def test_sizes_kinds_and_chosen_operations() -> None:
    dev = read("builtin:operations?split=dev", Kind.OPERATIONS)
    assert dev.counts == {"read": 1_000, "rows": 1_000}
    assert Counter(dev.table["operation"].to_pylist()) == dict.fromkeys(OPERATIONS, 250)
    assert kinds_of("builtin:operations") == (
        Kind.OPERATIONS, Kind.SENTENCE_PAIRS, Kind.SENTENCES,
    )  # fmt: skip
    chosen = read("builtin:operations?size=9&operations=compression+fusion", Kind.OPERATIONS)
    assert chosen.table["operation"].to_pylist() == (["fusion", "compression"] * 5)[:9]
    with pytest.raises(InvalidValue, match="some of fusion, difference"):
        read("builtin:operations?operations=fusions", Kind.OPERATIONS)
    with pytest.raises(InvalidValue, match="'operations' cannot be used; builtin allows split"):
        read("builtin:nli?operations=fusion", Kind.TRIPLETS)


def test_a_split_ends_where_it_has_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one word in each slot there are few rows, and they are told once each."""
    name = "sentune.corpora.builtin.operations"
    for slot in ("ADJECTIVES", "SUBJECTS", "ADVERBS", "DEEDS", "LOOKS", "THINGS", "ACTS", "PLACES"):
        monkeypatch.setattr(f"{name}.{slot}", getattr(words, slot)[:1])
    split = split_of("dog", "chased", "ball")
    monkeypatch.setattr(f"{name}.split_of", lambda *_: split)
    # fusion: the two adjectives of the deed, told or not
    assert len(list(operations(split, 0, ["fusion"]))) == 4
    assert len(list(operations(split, 0, ["difference"]))) == 8
    # a deed with one or two of four modifiers, or both with 0 to 2 adjectives
    assert len(list(operations(split, 0, ["compression"]))) == 10 + 4
    # a deed with up to two modifiers, an act with up to two, both
    assert len(list(operations(split, 0, ["reconstruction"]))) == 11 + 4 + 4
