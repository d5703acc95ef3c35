"""Entailment direction: which sentence of an entailing pair entails the other.

GaussCSE section 3.1, GumbelCSE section 4.3.

The baseline LENGTH predicts that the longer sentence entails the shorter one. The papers do not
define the length. By characters, the share of strictly longer premises is 92.3 % on SNLI dev and
68.8 % on SICK's train and trial pairs, close to the papers' 92.6 % and 69.1 % on the test sets; by
words it is 89.9 % and 61.6 %. So the length is the number of characters here. Ties count half; on
SNLI dev they are 1.0 % of the pairs: 92.3 % if they count as wrong, 92.8 % half, 93.3 % as right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.geometry.base import Geometry
from sentune.tasks.base import Given, Result, readout_of, require, under
from sentune.tasks.pairs import Pairs, extent_direction, half_ties

Exclude = Literal["both-ways", "none"]
SYMMETRIC = "the geometry is symmetric: both directions of a pair have the same similarity"


def entailment_pairs(corpus: Corpus, exclude: Exclude = "both-ways") -> list[tuple[str, str]]:
    """Return (entailing, entailed) sentences of labelled pairs or triplets (anchor, positive).

    Args:
        exclude: for corpora that label both directions of a pair (SICK), ``both-ways`` leaves out
            pairs that entail each other (GumbelCSE section 4.3); ``none`` keeps every pair labelled
            entailment (GaussCSE section 3.1).

    Raises:
        InvalidValue: ``exclude`` has another value.
        CorpusError: the corpus has neither labelled pairs nor triplets.
    """
    if exclude not in get_args(Exclude):
        raise InvalidValue("exclude", exclude, f"choose one of {', '.join(get_args(Exclude))}")
    columns = corpus.table.to_pydict()
    if corpus.kind is Kind.TRIPLETS:
        return list(zip(columns["anchor"], columns["positive"], strict=True))
    if corpus.kind is not Kind.LABELLED_PAIRS:
        raise CorpusError(corpus.spec, f"{corpus.kind.value} do not label entailments")
    names = ("premise", "hypothesis", "label", "reverse_label")
    return [
        (premise, hypothesis)
        for premise, hypothesis, label, reverse in zip(*map(columns.get, names), strict=True)
        if label == "entailment" and not (exclude == "both-ways" and reverse == "entailment")
    ]


class DirectionTask:
    """Direction of entailment of pairs labelled entailment; ties count half.

    Metrics: ``by_similarity`` (the papers' sim) and ``by_extent`` (GaussCSE's var; log-volume of
    boxes); ``accuracy`` of the rule that the readout names; that accuracy over the pairs with a
    hypothesis that is ``longer``, ``equal``, ``shorter`` or ``not_shorter`` in characters, if there
    are any; and the baselines ``length`` and ``length_words``. Readout: ``by``, the better rule on
    the development set ("similarity" if both are equal).

    Raises:
        CorpusError: the corpus has no labelled pairs, or no pair that entails in one direction.
    """

    kind = "direction"

    def __init__(self, corpus: Corpus, name: str = kind, *, exclude: Exclude = "both-ways") -> None:
        require(corpus, Kind.LABELLED_PAIRS, name)
        chosen = entailment_pairs(corpus, exclude)
        if not chosen:
            raise CorpusError(corpus.spec, f"{name} needs entailments in one direction; found none")
        self.name, self.exclude = name, exclude
        self.pairs = Pairs(*(tuple(side) for side in zip(*chosen, strict=True)))
        self.positive = np.ones(len(self.pairs), dtype=bool)
        surpluses = surplus(self.pairs, characters)
        self.strata: dict[str, NDArray[np.bool_]] = {
            "longer": surpluses < 0,
            "equal": surpluses == 0,
            "shorter": surpluses > 0,
            "not_shorter": surpluses <= 0,
        }

    def sentences(self) -> list[str]:
        """Return the distinct sentences of the entailing pairs."""
        return list(self.pairs.sentences)

    def rules(self) -> dict[str, NDArray[np.float64]]:
        """Return ``task/rule`` -> hits of the LENGTH baselines, [N]; ties count half."""
        lengths = {"length": characters, "length_words": words}
        rules = {rule: half_ties(surplus(self.pairs, of)) for rule, of in lengths.items()}
        return under(self.name, rules)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the metrics; a symmetric geometry, which has no direction, skips them all."""
        if geometry.symmetric:
            return Result(skipped={self.name: SYMMETRIC})
        right = {
            "similarity": half_ties(self.pairs.compare(embeddings, geometry.direction)),
            "extent": half_ties(self.pairs.compare(embeddings, extent_direction(geometry))),
        }
        by = self._rule(right, readouts)
        hits = {f"{self.name}/by_{rule}": found for rule, found in right.items()}
        hits[f"{self.name}/accuracy"] = right[by]
        metrics = {name: float(found.mean()) for name, found in (hits | self.rules()).items()}
        strata = {name: right[by][rows].mean() for name, rows in self.strata.items() if rows.any()}
        metrics |= under(self.name, {name: float(mean) for name, mean in strata.items()})
        sizes = {stratum: int(chosen.sum()) for stratum, chosen in self.strata.items()}
        counts = {"pairs": len(self.pairs), "exclude": self.exclude, **sizes}
        tables = {f"{self.name}/counts.json": counts}
        readouts = {f"{self.name}/by": by}
        return Result(metrics=metrics, hits=hits, readouts=readouts, tables=tables)

    def _rule(self, right: Mapping[str, NDArray[np.float64]], readouts: Given) -> str:
        """Return the given rule, without readouts the better one, else the papers' (similarity)."""
        if readouts is None:
            return max(right, key=lambda rule: float(right[rule].mean()))
        by = readout_of(readouts, self.name, self.kind, "by") or "similarity"
        if by not in right:
            raise InvalidValue(f"{self.name}/by", by, f"choose one of {', '.join(right)}")
        return str(by)


def characters(sentence: str) -> int:
    """Return the number of characters without leading and trailing white space."""
    return len(sentence.strip())


def words(sentence: str) -> int:
    """Return the number of words separated by white space."""
    return len(sentence.split())


def surplus(pairs: Pairs, length: Callable[[str], int] = characters) -> NDArray[np.float64]:
    """Return the length of each pair's first sentence minus that of the second, [N]."""
    sides = zip(pairs.first, pairs.second, strict=True)
    return np.array([length(a) - length(b) for a, b in sides], dtype=np.float64)


def bag_of_words_direction(
    train_pairs: Sequence[tuple[str, str]],
    test_pairs: Sequence[tuple[str, str]],
    *,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the hits of a logistic regression on the difference of word counts, [N].

    Half of the training pairs are reversed at random, so that both classes occur. There is no
    intercept, so the decision changes sign with the order of the pair. A test pair whose differing
    words were all unseen in training is a tie and counts half.

    Args:
        train_pairs, test_pairs: (entailing, entailed) sentences.
        seed: seed of the reversal.

    Raises:
        InvalidValue: there are fewer than two training pairs or no test pairs.
    """
    if len(train_pairs) < 2 or not test_pairs:
        sizes = f"{len(train_pairs)} for training, {len(test_pairs)} for testing"
        raise InvalidValue("pairs", sizes, "give at least two to train on and one to test on")
    # imported here because scikit-learn takes seconds to import
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    counter = CountVectorizer(token_pattern=r"(?u)\b\w+\b")  # the default drops "a" and "I"
    counter.fit(sentence for pair in train_pairs for sentence in pair)
    first, second = (counter.transform(side) for side in zip(*train_pairs, strict=True))
    turned = np.random.default_rng(seed).permutation(len(train_pairs)) % 2 == 0
    signs = np.where(turned, -1, 1)
    model = LogisticRegression(fit_intercept=False, max_iter=1000)
    model.fit((first - second).multiply(signs[:, None]).tocsr(), signs)
    first, second = (counter.transform(side) for side in zip(*test_pairs, strict=True))
    return half_ties(model.decision_function(first - second))
