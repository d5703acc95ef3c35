"""How far words alone tell the direction of entailment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from sentune.errors import InvalidValue
from sentune.tasks.pairs import half_ties


def bag_of_words_direction(
    train_pairs: Sequence[tuple[str, str]],
    test_pairs: Sequence[tuple[str, str]],
    *,
    seed: int = 0,
) -> float:
    """Accuracy of a logistic regression on the difference of two sentences' word counts.

    Half of the training pairs are turned round at random, so that both classes occur; without an
    intercept the decision changes sign with the pair's order. A test pair none of whose differing
    words was seen in training is a tie and counts half.

    Args:
        train_pairs, test_pairs: (entailing, entailed) sentences.
        seed: of the turning.

    Raises:
        InvalidValue: fewer than two training pairs, or no test pair.
    """
    if len(train_pairs) < 2 or not test_pairs:
        sizes = f"{len(train_pairs)} for training, {len(test_pairs)} for testing"
        raise InvalidValue("pairs", sizes, "give at least two to train on and one to test on")
    counter = CountVectorizer(token_pattern=r"(?u)\b\w+\b")  # the default drops "a" and "I"
    counter.fit(sentence for pair in train_pairs for sentence in pair)
    first, second = (counter.transform(side) for side in zip(*train_pairs, strict=True))
    turned = np.random.default_rng(seed).permutation(len(train_pairs)) % 2 == 0
    signs = np.where(turned, -1, 1)
    model = LogisticRegression(fit_intercept=False, max_iter=1000)
    model.fit((first - second).multiply(signs[:, None]).tocsr(), signs)
    first, second = (counter.transform(side) for side in zip(*test_pairs, strict=True))
    return float(half_ties(model.decision_function(first - second)).mean())
