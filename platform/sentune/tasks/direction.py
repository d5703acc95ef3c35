"""Entailment direction: which sentence of an entailing pair entails the other.

GaussCSE section 3.1, GumbelCSE section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.geometry.base import Geometry
from sentune.tasks.base import Given, Result, readout_of, require
from sentune.tasks.direction_baselines import characters, length_baseline, surplus, words
from sentune.tasks.pairs import Pairs, extent_direction, half_ties

Exclude = Literal["both-ways", "none"]
SYMMETRIC = "the geometry is symmetric: both directions of a pair have the same similarity"


def entailment_pairs(corpus: Corpus, exclude: Exclude = "both-ways") -> list[tuple[str, str]]:
    """(entailing, entailed) sentences of labelled pairs, or of triplets' anchors and positives.

    SICK labels both directions of a pair. The papers' rules for it differ:

    - ``both-ways``: pairs that entail each other are left out (GumbelCSE section 4.3);
    - ``none``: every pair labelled entailment stays (the text of GaussCSE section 3.1).

    A corpus that labels one direction only has nothing to leave out.
    """
    if exclude not in get_args(Exclude):
        raise InvalidValue("exclude", exclude, f"choose one of {', '.join(get_args(Exclude))}")
    columns = corpus.table.to_pydict()
    if corpus.kind is Kind.TRIPLETS:
        return list(zip(columns["anchor"], columns["positive"], strict=True))
    if corpus.kind is not Kind.LABELLED_PAIRS:
        raise CorpusError(
            corpus.spec, f"{corpus.kind.value} do not say which pairs are entailments"
        )
    names = ("premise", "hypothesis", "label", "reverse_label")
    return [
        (premise, hypothesis)
        for premise, hypothesis, label, reverse in zip(*map(columns.get, names), strict=True)
        if label == "entailment" and not (exclude == "both-ways" and reverse == "entailment")
    ]


class DirectionTask:
    """Direction of entailment on pairs labelled entailment. Ties of a rule count half.

    Metrics: ``by_similarity`` (the papers' sim), ``by_extent`` (GaussCSE's var; log-volume of
    boxes), ``accuracy`` by the rule that the readout names, and that accuracy over the pairs whose
    hypothesis is ``longer``, ``equal``, ``shorter`` or ``not_shorter`` in characters, where there
    are such pairs; the baselines ``length`` and ``length_words``. Readout: ``by``, the better rule
    on the development set ("similarity" where both are as good).

    Raises:
        CorpusError: the corpus has no labelled pairs, or none that has a direction.
    """

    kind = "direction"

    def __init__(self, corpus: Corpus, name: str = kind, *, exclude: Exclude = "both-ways") -> None:
        require(corpus, Kind.LABELLED_PAIRS, name)
        chosen = entailment_pairs(corpus, exclude)
        if not chosen:
            raise CorpusError(corpus.spec, f"{name} needs entailments in one direction; none here")
        self.name, self.exclude = name, exclude
        self.pairs = Pairs(*(tuple(side) for side in zip(*chosen, strict=True)))
        surpluses = surplus(self.pairs, characters)
        self.strata: dict[str, NDArray[np.bool_]] = {
            "longer": surpluses < 0,
            "equal": surpluses == 0,
            "shorter": surpluses > 0,
            "not_shorter": surpluses <= 0,
        }

    def sentences(self) -> list[str]:
        """Distinct sentences of the entailing pairs."""
        return list(self.pairs.sentences)

    def baselines(self) -> dict[str, float]:
        """What LENGTH reaches on these pairs, by characters and by words."""
        return {
            f"{self.name}/length": length_baseline(self.pairs, characters),
            f"{self.name}/length_words": length_baseline(self.pairs, words),
        }

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """A symmetric geometry has no direction: it gets a reason instead of metrics."""
        if geometry.symmetric:
            return Result(skipped={self.name: SYMMETRIC})
        right = {
            "similarity": half_ties(self.pairs.compare(embeddings, geometry.direction)),
            "extent": half_ties(self.pairs.compare(embeddings, extent_direction(geometry))),
        }
        by = self._rule(right, readouts)
        metrics = {f"{self.name}/by_{rule}": float(hits.mean()) for rule, hits in right.items()}
        metrics[f"{self.name}/accuracy"] = float(right[by].mean())
        metrics |= {
            f"{self.name}/{stratum}": float(right[by][chosen].mean())
            for stratum, chosen in self.strata.items()
            if chosen.any()
        }
        sizes = {stratum: int(chosen.sum()) for stratum, chosen in self.strata.items()}
        counts = {"pairs": len(self.pairs), "exclude": self.exclude, **sizes}
        return Result(
            metrics=metrics | self.baselines(),
            readouts={f"{self.name}/by": by},
            tables={f"{self.name}/counts.json": counts},
        )

    def _rule(self, right: Mapping[str, NDArray[np.float64]], readouts: Given) -> str:
        """The better rule where it is to be chosen, else the given one, else the papers' own."""
        if readouts is None:
            return max(right, key=lambda rule: float(right[rule].mean()))
        by = readout_of(readouts, self.name, self.kind, "by") or "similarity"
        if by not in right:
            raise InvalidValue(f"{self.name}/by", by, f"choose one of {', '.join(right)}")
        return str(by)
