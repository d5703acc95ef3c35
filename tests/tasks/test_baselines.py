"""LENGTH and the bag of words, and their figures on real data."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sentune.errors import InvalidValue
from sentune.tasks import bag_of_words_direction
from sentune.tasks.direction import characters, surplus, words
from sentune.tasks.pairs import Pairs, half_ties


def data(path: str) -> Path:
    folder = os.environ.get("SENTUNE_DATA", "")
    if not folder or not (Path(folder) / path).exists():
        pytest.skip(f"set SENTUNE_DATA to a folder that holds {path}")
    return Path(folder) / path


def pairs_of(rows: list[tuple[str, str]]) -> Pairs:
    return Pairs(*zip(*rows, strict=True))


def test_length_counts_ties_half() -> None:
    pairs = pairs_of([("a b", "a"), ("ab", "a b"), ("ab", "cd "), ("a b", "a c")])
    assert surplus(pairs).tolist() == [2, -1, 0, 0]
    assert half_ties(surplus(pairs)).mean() == pytest.approx((1 + 0 + 0.5 + 0.5) / 4)
    assert half_ties(surplus(pairs, words)).mean() == pytest.approx((1 + 0 + 0.5 + 0.5) / 4)


def test_length_on_snli_dev() -> None:
    with gzip.open(data("snli/snli_1.0_dev.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    entailed = [r for r in rows if r["gold_label"] == "entailment"]
    pairs = pairs_of([(r["sentence1"], r["sentence2"]) for r in entailed])
    assert len(pairs) == 3329
    by_characters = surplus(pairs, characters)
    assert np.mean(by_characters > 0) == pytest.approx(0.9231, abs=5e-5)
    assert half_ties(surplus(pairs, characters)).mean() == pytest.approx(0.9282, abs=5e-5)
    assert np.mean(by_characters >= 0) == pytest.approx(0.9333, abs=5e-5)
    assert half_ties(surplus(pairs, words)).mean() == pytest.approx(0.9216, abs=5e-5)


def test_length_on_sick_is_counted_in_characters_as_the_papers_figure_suggests() -> None:
    with data("sick/SICK.txt").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    one_way = [
        (r["sentence_A"], r["sentence_B"])
        for r in rows
        if r["entailment_AB"] == "A_entails_B" and r["entailment_BA"] != "B_entails_A"
    ]
    papers = 0.6914  # GumbelCSE Table 2, on the test rows; train and trial rows here
    assert np.mean(surplus(pairs_of(one_way), characters) > 0) == pytest.approx(papers, abs=0.01)
    assert abs(np.mean(surplus(pairs_of(one_way), words) > 0) - papers) > 0.05


TRAIN = [("a poodle runs", "a dog runs"), ("a dog runs", "an animal runs")] * 10


def test_a_bag_of_words_learns_which_word_is_more_general() -> None:
    test = [("a poodle sleeps", "a dog sleeps"), ("the dog sleeps", "the animal sleeps")]
    assert bag_of_words_direction(TRAIN, test).mean() == 1
    assert bag_of_words_direction(TRAIN, [(h, p) for p, h in test]).mean() == 0


def test_a_bag_of_words_is_at_half_where_generality_reverses() -> None:
    reversed_context = [(f"no {h}", f"no {p}") for p, h in TRAIN]
    assert bag_of_words_direction(TRAIN + reversed_context, TRAIN + reversed_context).mean() == 0.5


def test_unseen_words_are_ties() -> None:
    assert bag_of_words_direction(TRAIN, [("one cat", "some cat")]).mean() == 0.5


def test_the_bag_of_words_agrees_with_a_dense_regression() -> None:
    rng = np.random.default_rng(1)
    names = [f"w{i}" for i in range(12)]

    def draw(count: int) -> list[tuple[str, str]]:
        rows = rng.integers(0, 12, (count, 6))
        texts = [(sorted(row[:3]), sorted(row[3:])) for row in rows]
        return [(" ".join(names[i] for i in a), " ".join(names[i] for i in b)) for a, b in texts]

    def counts(pairs: list[tuple[str, str]]) -> np.ndarray:
        sides = [[[side.split().count(n) for n in names] for side in pair] for pair in pairs]
        return np.array([np.subtract(a, b) for a, b in sides])

    train, test = draw(200), draw(300)
    both = np.concatenate([counts(train), -counts(train)])
    model = LogisticRegression(fit_intercept=False, C=0.5, max_iter=1000)
    model.fit(both, np.repeat([1, -1], len(train)))
    expected = np.mean((np.sign(counts(test) @ model.coef_[0]) + 1) / 2)
    assert bag_of_words_direction(train, test).mean() == pytest.approx(expected, abs=1 / 300)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(InvalidValue, match="at least two"):
        bag_of_words_direction(TRAIN[:1], TRAIN)
