"""Mixtures of corpora: proportions, epochs of each, resumes."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.corpora.batches import Batch, Held, SharedSource
from sentune.corpora.mixing import MixedHandle, Mixture
from sentune.corpora.tokens import Ragged, TokenTable
from sentune.errors import InvalidValue


def numbered(
    rows: int, first: int, shards: tuple[int, ...] = (), name: str = "text"
) -> SharedSource:
    """Row r holds the single token ``first + r``."""
    column = Ragged(np.arange(first, first + rows, dtype=np.int32), np.arange(rows + 1))
    return SharedSource(TokenTable({name: column}, shards or (rows,), "numbered"))


def rows_of(batch: Batch) -> list[int]:
    return [int(ids[0]) for ids in batch.columns["text"]]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 60))
def test_rows_come_in_the_order_of_the_epochs_and_none_is_dropped(
    shards: list[int], seed: int, start: int
) -> None:
    size = sum(shards)
    source = numbered(size, 0, tuple(shards))
    straight = [int(row["text"][0]) for row in islice(source.rows(seed), start + 2 * size)]
    resumed = [int(row["text"][0]) for row in islice(source.rows(seed, start), 2 * size)]
    assert resumed == straight[start:]
    for epoch, batch in enumerate(islice(source.batches(size, seed), 2)):
        assert straight[epoch * size : (epoch + 1) * size] == rows_of(batch)


@pytest.mark.parametrize("done", [0, 1, 7, 1_023, 1_024, 2_050])
@pytest.mark.parametrize(("batch_size", "seed"), [(1, 0), (6, 1), (31, 0)])
def test_a_resume_gives_what_an_uninterrupted_run_gives(
    batch_size: int, seed: int, done: int
) -> None:
    mixture = Mixture([numbered(23, 0, (9, 14)), numbered(7, 100), numbered(1, 200)], [1, 2.5, 1])
    straight = list(islice(mixture.batches(batch_size, seed), done, done + 4))
    resumed = list(islice(mixture.batches(batch_size, seed, done * batch_size), 4))
    assert [(b.epoch, b.first, rows_of(b)) for b in resumed] == [
        (b.epoch, b.first, rows_of(b)) for b in straight
    ]


def test_a_small_source_goes_through_its_epochs() -> None:
    mixture = Mixture([numbered(100, 0), numbered(7, 100)], [1, 5])
    seen = [r for b in islice(mixture.batches(16, 3), 60) for r in rows_of(b)]
    small = [r for r in seen if r >= 100]
    epochs = [small[i : i + 7] for i in range(0, len(small) - 6, 7)]
    assert len(epochs) > 10
    assert all(sorted(epoch) == list(range(100, 107)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 5


@pytest.mark.parametrize("weights", [(1, 1, 1), (4, 0.5, 1)])
def test_shares_are_weight_times_size(weights: tuple[float, ...]) -> None:
    sizes = (300, 120, 30)
    mixture = Mixture([numbered(n, 1_000 * s) for s, n in enumerate(sizes)], weights)
    steps, size = 1_500, 20
    counts = [Counter(r // 1_000 for r in rows_of(b))
              for b in islice(mixture.batches(size, 0), steps)]  # fmt: skip
    share = np.array([w * n for w, n in zip(weights, sizes, strict=True)], dtype=float)
    share /= share.sum()
    drawn = np.array([[c[s] for s in range(3)] for c in counts])
    off = drawn.mean(axis=0) - size * share
    deviation = np.sqrt(size * share * (1 - share))  # of a binomial
    assert np.all(np.abs(off) < 4 * deviation / np.sqrt(steps))
    assert drawn.std(axis=0) == pytest.approx(deviation, rel=0.1)


def test_rows_of_a_batch_stand_in_no_order_of_sources() -> None:
    mixture = Mixture([numbered(50, 0), numbered(50, 100)], [1, 1])
    batches = [rows_of(b) for b in islice(mixture.batches(20, 0), 200)]
    first_half = [sum(r >= 100 for r in rows[:10]) / 10 for rows in batches]
    assert np.mean(first_half) == pytest.approx(0.5, abs=0.05)


def test_sources_of_one_size_come_in_orders_of_their_own() -> None:
    mixture = Mixture([numbered(20, 0), numbered(20, 100)], [1, 1])
    seen = [r for b in islice(mixture.batches(40, 0), 2) for r in rows_of(b)]
    assert [r for r in seen if r < 100][:10] != [r - 100 for r in seen if r >= 100][:10]


def test_a_handle_opens_every_source() -> None:
    sources = [numbered(20, 0), numbered(10, 100)]
    handle = MixedHandle((Held(sources[0]), Held(sources[1])), (1.0, 2.0))
    opened = pickle.loads(pickle.dumps(handle)).open()
    expected = Mixture(sources, (1.0, 2.0))
    assert (opened.num_rows, opened.column_names) == (30, ("text",))
    assert rows_of(next(opened.batches(8, 1))) == rows_of(next(expected.batches(8, 1)))


def test_what_cannot_be_mixed_is_refused() -> None:
    one, other = numbered(5, 0), numbered(5, 0, name="anchor")
    with pytest.raises(InvalidValue, match=r"columns of corpus 2: 'anchor' .* corpus 1: text"):
        Mixture([one, other], [1, 1])
    with pytest.raises(InvalidValue, match=r"weight of corpus 2: 0 "):
        Mixture([one, one], [1, 0])
    with pytest.raises(InvalidValue, match=r"weights: \(1,\) .* 2 corpora"):
        Mixture([one, one], [1])
    with pytest.raises(InvalidValue, match=r"batch_size: 11 .* 1 to 10"):
        Mixture([one, one], [1, 1]).batches(11, 0)
    with pytest.raises(InvalidValue, match=r"start: 3 .* multiple"):
        Mixture([one, one], [1, 1]).batches(2, 0, 3)
