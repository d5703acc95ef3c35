"""The rows of a transfer task, by split and in SentEval's order.

Legend: N = rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sentune.corpora.schema import Corpus
from sentune.errors import CorpusError
from sentune.tasks.base import Model
from sentune.tasks.evaluate import finite
from sentune.tasks.transfer_protocols import Part
from sentune.tasks.transfer_solver import Singles, Values

WHOLE = "whole"
"""Stands for the split of a corpus without splits."""


@dataclass(frozen=True, kw_only=True)
class TransferRows:
    """Sentences or pairs and their targets.

    Attributes:
        first: N sentences.
        second: N sentences, or None where the rows are single sentences.
        targets: [N] classes or scores.
        places: split -> its rows; ``WHOLE`` alone where there are no splits.
    """

    first: Sequence[str]
    second: Sequence[str] | None
    targets: Values
    places: dict[str, NDArray[np.int64]]

    def of(self, split: str) -> Values:
        """Targets of a split."""
        return self.targets[self.places[split]]

    def parts(self, model: Model) -> dict[str, Part]:
        """Split -> its features and targets; the model encodes each distinct sentence once."""
        features = _features(model, self.first, self.second)
        return {
            split: Part(features=features[places], targets=self.targets[places])
            for split, places in self.places.items()
        }


def rows_of(corpus: Corpus, columns: tuple[str, str], targets: Values) -> TransferRows:
    """The rows of a corpus with their targets, sorted as SentEval does before it makes folds:
    by numbers of words, then by target.

    Args:
        corpus: classified or related sentences.
        columns: of the first and of the second sentences.
        targets: [N], in the corpus's order.

    Raises:
        CorpusError: single sentences among pairs, rows without a split among others, or no train
            split beside one of dev and test.
    """
    first, second = (corpus.table[column].to_pylist() for column in columns)
    single = [sentence is None for sentence in second]
    if any(single) and not all(single):
        reason = f"{sum(single)} of {len(single)} rows are single sentences, the others pairs"
        raise CorpusError(corpus.spec, f"{reason}; give one or the other")
    sides = [first] if all(single) else [first, second]
    words: list[list[int]] = [[len(sentence.split()) for sentence in side] for side in sides]
    order = np.lexsort([targets, *map(np.array, reversed(words))])
    splits = np.array([split or WHOLE for split in corpus.table["split"].to_pylist()])
    places = {split: order[splits[order] == split] for split in dict.fromkeys(splits.tolist())}
    there = ", ".join(f"{len(rows)} of {split}" for split, rows in places.items())
    if WHOLE in places and len(places) > 1:
        raise CorpusError(corpus.spec, f"some rows name no split: {there}; give all of them one")
    if WHOLE not in places and ("train" not in places or len(places) < 2):
        fix = "there must be rows of train, and of dev or test"
        raise CorpusError(corpus.spec, f"the rows are {there}; {fix}")
    pairs = None if all(single) else second
    return TransferRows(first=first, second=pairs, targets=targets, places=places)


def _features(model: Model, first: Sequence[str], second: Sequence[str] | None) -> Singles:
    """[N, D] features of sentences, or [N, 2D] of pairs: |u - v| beside u * v (SentEval).

    The model is asked once, for its own features of the distinct sentences, else its embeddings.
    """
    row = {s: i for i, s in enumerate(dict.fromkeys([*first, *(second or ())]))}
    encode = model.features or model.embed
    encoded = finite(encode(list(row)), list(row)).detach().float().cpu().numpy()
    u = encoded[[row[s] for s in first]]
    if second is None:
        return u
    v = encoded[[row[s] for s in second]]
    return np.concatenate([np.abs(u - v), u * v], axis=1)
