"""What a linear classifier of a transfer task sees of sentences and of pairs of them.

Legend: S = distinct sentences, N = rows, D = width of the model's features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentune.tasks.base import Model
from sentune.tasks.evaluate import finite

Features = NDArray[np.float32]


def features_of(model: Model, first: Sequence[str], second: Sequence[str] | None) -> Features:
    """[N, D] features of sentences, or [N, 2D] of pairs: |u - v| beside u * v (SentEval).

    The model is asked once, for the S distinct sentences: for its features where it has some of
    their own, else for its embeddings.

    Raises:
        TrialFailed: an embedding is not finite.
    """
    row = {s: i for i, s in enumerate(dict.fromkeys([*first, *(second or ())]))}
    encode = model.features or model.embed
    encoded = finite(encode(list(row)), list(row)).detach().float().cpu().numpy()
    u = encoded[[row[s] for s in first]]
    if second is None:
        return u
    v = encoded[[row[s] for s in second]]
    return np.concatenate([np.abs(u - v), u * v], axis=1)
