"""ROUGE-1, ROUGE-2 and ROUGE-L by Google's rouge-score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentune.errors import InvalidValue

ROUGE = ("rouge1", "rouge2", "rougeL")


def f_measures(targets: Sequence[str], generated: Sequence[str]) -> NDArray[np.float64]:
    """Return the F-measures of ``ROUGE`` of each generated text, fractions from 0 to 1, [N, 3].

    The tokens are rouge-score's: lower-cased runs of a-z and 0-9, without a stemmer. ROUGE-L's
    longest common subsequence is of whole texts, as sentences are. A text without tokens, and for
    ROUGE-2 with a single one, scores 0.

    Raises:
        InvalidValue: the numbers of texts differ.
    """
    if len(targets) != len(generated):
        fix = f"give one for each of {len(targets)} targets"
        raise InvalidValue("generated texts", len(generated), fix)
    from rouge_score.rouge_scorer import RougeScorer  # loads nltk

    scorer = RougeScorer(list(ROUGE), use_stemmer=False)
    scores = [scorer.score(t, g) for t, g in zip(targets, generated, strict=True)]
    rows = [[score[name].fmeasure for name in ROUGE] for score in scores]
    return np.array(rows, dtype=np.float64).reshape(-1, len(ROUGE))
