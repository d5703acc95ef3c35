"""What can be read off the surface of ``builtin:nli``, and what its splits share."""

from __future__ import annotations

from collections import Counter
from itertools import islice, product

import numpy as np
import pytest
from scipy.sparse import vstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from sentune.corpora import Kind, read
from sentune.corpora.builtin.generate import Derivation, derivations, triplets
from sentune.corpora.builtin.sentences import Frame, Sentence

TRAIN = 6_000


@pytest.fixture(scope="module")
def train() -> list[Derivation]:
    return list(islice(derivations("train", 0), TRAIN))


@pytest.fixture(scope="module")
def test() -> list[Derivation]:
    return list(islice(derivations("test", 0), 1_500))


def direction_by_length(pairs: list[tuple[str, str]], length: type[len]) -> float:
    """Accuracy of "the longer sentence entails the shorter one", the better way round."""
    signs = np.sign([length(a) - length(b) for a, b in pairs])
    accuracy = np.mean(signs > 0) + np.mean(signs == 0) / 2
    return float(max(accuracy, 1 - accuracy))


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("length", [lambda s: len(s.split()), len], ids=["words", "characters"])
def test_length_tells_direction_in_at_most_55_of_100(split: str, length: type[len]) -> None:
    pairs = [(p, e) for p, e, _ in islice(triplets(split, 0), 2_000)]
    assert direction_by_length(pairs, length) <= 0.55


def test_hypotheses_are_longer_equal_and_shorter_equally_often(train: list[Derivation]) -> None:
    for name in ("entailment", "contradiction", "neutral"):
        relations = Counter(
            int(np.sign(getattr(g, name).words() - g.premise.words())) for g in train
        )
        shares = [relations[r] / len(train) for r in (-1, 0, 1)]
        assert min(shares) > 0.28, (name, shares)


def test_words_alone_do_not_tell_direction(
    train: list[Derivation], test: list[Derivation], record_property: pytest.FixtureRequest
) -> None:
    words = CountVectorizer(token_pattern=r"\S+")
    words.fit([s.text() for g in train for s in (g.premise, g.entailment)])

    def differences(groups: list[Derivation]):
        return words.transform([g.premise.text() for g in groups]) - words.transform(
            [g.entailment.text() for g in groups]
        )

    seen = differences(train)
    model = LogisticRegression(fit_intercept=False, max_iter=300)
    model.fit(vstack([seen, -seen]), np.repeat([1, 0], len(train)))
    accuracy = float(np.mean(model.decision_function(differences(test)) > 0))
    record_property("bag_of_words_direction", accuracy)
    assert 0.6 < accuracy < 0.9


def test_downward_contexts_are_a_fifth_to_a_third(train: list[Derivation]) -> None:
    downward = [g for g in train if not (g.premise.subject_upward and g.premise.predicate_upward)]
    assert 0.2 < len(downward) / len(train) < 0.33


def combinations(s: Sentence) -> set[tuple[str, str]]:
    nouns = s.nouns if s.companion is None else (*s.nouns, s.companion)
    return {(n.text, v.text) for n, v in product(nouns, s.verbs)}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_held_out_premises_have_combinations_that_train_never_shows(
    split: str, train: list[Derivation]
) -> None:
    seen: set[tuple[str, str]] = set()
    for group in train:
        for s in (group.premise, group.entailment, group.neutral, group.contradiction):
            seen |= combinations(s)
    for group in islice(derivations(split, 0), 500):
        assert combinations(group.premise) - seen, group.premise.text()


def test_train_and_test_share_words_and_frames_but_no_premise(
    train: list[Derivation], test: list[Derivation]
) -> None:
    premises = {g.premise.text() for g in train}
    assert len(premises) == len(train)
    assert premises.isdisjoint(g.premise.text() for g in test)
    vocabulary = {w for g in train for s in (g.premise, g.entailment) for w in s.text().split()}
    assert {w for g in test for w in g.premise.text().split()} <= vocabulary
    for role in ("premise", "entailment", "neutral", "contradiction"):
        assert {getattr(g, role).frame for g in train} == set(Frame)


def test_vocabulary_is_a_few_hundred_words(train: list[Derivation]) -> None:
    words = {w for g in train for w in (*g.premise.text().split(), *g.neutral.text().split())}
    assert 200 < len(words) < 400


def test_triplets_and_pairs_tell_the_same_groups() -> None:
    three = read("builtin:nli?size=50&seed=7", Kind.TRIPLETS).table.to_pylist()
    pairs = read("builtin:nli?size=150&seed=7", Kind.LABELLED_PAIRS).table.to_pylist()
    made = [
        {"anchor": e["premise"], "positive": e["hypothesis"], "negative": c["hypothesis"]}
        for e, c in zip(pairs[0::3], pairs[2::3], strict=True)
    ]
    assert made == three
    assert Counter(p["label"] for p in pairs) == dict.fromkeys(
        ("entailment", "neutral", "contradiction"), 50
    )


def test_the_same_seed_gives_the_same_corpus_and_another_one_does_not() -> None:
    def fingerprint(options: str) -> str:
        return read(f"builtin:nli?size=200&{options}", Kind.TRIPLETS).fingerprint

    assert fingerprint("seed=1") == fingerprint("seed=1")
    assert len({fingerprint(o) for o in ("seed=1", "seed=2", "seed=1&split=dev")}) == 3


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one() -> None:
    small = read("builtin:nli?size=40", Kind.TRIPLETS).table
    assert read("builtin:nli?size=90", Kind.TRIPLETS).table.slice(0, 40) == small
