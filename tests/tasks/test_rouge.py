"""Our ROUGE against Google's rouge-score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from sentune.errors import InvalidValue
from sentune.tasks.rouge import ROUGE, f_measures

GOOGLE = RougeScorer(list(ROUGE), use_stemmer=False)

words = st.lists(st.sampled_from(["a", "b", "c", "the", "Cat's", "cat,", "1-2", "é"]), max_size=80)
texts = st.one_of(words.map(" ".join), st.text(max_size=40))


def google(target: str, generated: str) -> list[float]:
    scores = GOOGLE.score(target, generated)
    return [scores[name].fmeasure for name in ROUGE]


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_scores_are_those_of_rouge_score(pairs: list[tuple[str, str]]) -> None:
    scores = f_measures([target for target, _ in pairs], [text for _, text in pairs])
    assert scores.shape == (len(pairs), 3)
    expected = np.array([google(*pair) for pair in pairs]).reshape(-1, 3)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)


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
