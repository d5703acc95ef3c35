"""ROUGE: by hand, and figures that stay as they were."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sentune.errors import InvalidValue
from sentune.tasks.generation import f_measures
from tests.rounding import rounding

WORDS = ["a", "b", "c", "the", "Cat's", "cat,", "1-2", "é", "sat", "mat."]


def test_figures_are_those_of_the_implementation_before_rouge_score() -> None:
    """Mean and deviation over 200 pairs of texts, as an implementation of our own had them."""
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(30))) for _ in range(400)]
    scores = f_measures(texts[::2], texts[1::2])
    mean = [0.43271415766457644, 0.1711996772977544, 0.32144347778822113]
    deviation = [0.23077179765393094, 0.1395572877294667, 0.1554583023207973]
    np.testing.assert_allclose(scores.mean(0), mean, rtol=0, atol=rounding(200))
    np.testing.assert_allclose(scores.std(0), deviation, rtol=0, atol=rounding(200))
    assert f_measures([], []).shape == (0, 3)


@pytest.mark.parametrize(
    ("target", "generated", "expected"),
    [
        ("the cat sat", "The cat sat!", (1, 1, 1)),
        ("a b c d", "d c b a", (1, 0, 1 / 4)),
        ("a b", "a b c d", (2 / 3, 1 / 2, 2 / 3)),
        ("cats sit", "cat sits", (0, 0, 0)),  # a stemmer would give 1
        ("", "a", (0, 0, 0)),
    ],
)
def test_scores_by_hand(target: str, generated: str, expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(f_measures([target], [generated])[0], expected)


def test_every_target_needs_a_text() -> None:
    with pytest.raises(InvalidValue, match="one for each of 2 targets"):
        f_measures(["a", "b"], ["a"])
