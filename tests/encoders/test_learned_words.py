"""Word vectors that are learned from the corpus."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from sentune.encoders.words import WordTable
from sentune.encoders.words.learned import learn_words
from sentune.errors import InvalidValue

RNG = np.random.default_rng(0)
WORDS = [f"w{i}" for i in range(12)]
TEXTS = [
    " ".join(RNG.choice(WORDS, size=RNG.integers(1, 9), p=np.arange(1, 13) / 78)) for _ in range(80)
]
TEXTS += ["Once, W3 w4!", "", "W3's"]
SPEC = "builtin:ppmi?width=4&window=2&min_count=2"


def ppmi_by_loops(tokens: list[list[str]], words: tuple[str, ...], window: int) -> np.ndarray:
    counts = np.zeros((len(words), len(words)))
    place = {word: i for i, word in enumerate(words)}
    for sentence in tokens:
        for i, word in enumerate(sentence):
            for j, other in enumerate(sentence):
                if i != j and abs(i - j) <= window and word in place and other in place:
                    counts[place[word], place[other]] += 1
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(counts / expected), 0)


def test_vectors_are_those_of_a_dense_decomposition(tmp_path: Path) -> None:
    table = learn_words(TEXTS, SPEC, tmp_path)
    tokens = [
        text.lower().replace(",", "").replace("!", "").replace("'", " ").split() for text in TEXTS
    ]
    matrix = ppmi_by_loops(tokens, table.words, window=2)
    left, strengths, _ = np.linalg.svd(matrix)
    expected = left[:, :4] * np.sqrt(strengths[:4])
    expected *= np.sign((expected * table.vectors).sum(axis=0))
    assert table.vectors == pytest.approx(expected, abs=1e-5)
    assert (table.vectors[np.abs(table.vectors).argmax(axis=0), range(4)] > 0).all()


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["dog", "cat", "sun"], "no two words"), (["dog dog"], "1 words of the corpus occur 1 times")],
)
def test_a_corpus_without_pairs_of_words_is_refused(
    texts: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match=said):
        learn_words(texts, "builtin:ppmi?width=1&min_count=1", tmp_path)


def test_words_come_by_frequency_and_rare_ones_only_count(tmp_path: Path) -> None:
    table = learn_words(TEXTS, SPEC, tmp_path)
    tokens = [
        text.lower().replace(",", "").replace("!", "").replace("'", " ").split() for text in TEXTS
    ]
    counts = Counter(chain.from_iterable(tokens))
    kept = sorted((w for w in counts if counts[w] >= 2), key=lambda w: (-counts[w], w))
    assert table.words == tuple(kept)
    assert {"once", "s"} <= set(counts) - set(kept)
    assert table.probabilities == pytest.approx([counts[w] / counts.total() for w in kept])
    assert table.listed.sum() == pytest.approx(1)
    assert len(table.listed) == len(counts)
    assert table.counts == {"read": len(TEXTS), "rare": len(counts) - len(kept)}


def test_the_cache_is_named_by_content(tmp_path: Path) -> None:
    first = learn_words(iter(TEXTS), SPEC, tmp_path)
    again = learn_words(TEXTS, SPEC, tmp_path)
    assert (again.folder, again.fingerprint) == (first.folder, first.fingerprint)
    fresh = learn_words(TEXTS, SPEC, tmp_path / "other")
    assert np.array_equal(fresh.vectors, first.vectors)
    others = [
        learn_words(TEXTS[1:], SPEC, tmp_path),
        learn_words(TEXTS, f"{SPEC}&seed=1", tmp_path),
    ]
    assert len({first.fingerprint, *(table.fingerprint for table in others)}) == 3
    assert isinstance(WordTable.load(first.folder), WordTable)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("builtin:glove", "builtin:ppmi"),
        ("builtin:ppmi?size=3", "width, window, min_count, seed"),
        ("builtin:ppmi?width=0", "width"),
        ("builtin:ppmi?width=50", r"width: 50 .* below 12"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path: Path, spec: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        learn_words(TEXTS, spec, tmp_path)


def test_a_corpus_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no words"):
        learn_words(["...", ""], SPEC, tmp_path)
