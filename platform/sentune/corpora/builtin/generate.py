"""Generate premises, each with an entailment, a neutral and a contradicting hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import NamedTuple

from sentune.corpora.builtin import derive
from sentune.corpora.builtin.moves import pick, split_of_text
from sentune.corpora.builtin.sentences import (
    MANNERS,
    NOUNS,
    PLACES,
    SCALES,
    TIMES,
    VERBS,
    Determiner,
    Sentence,
)

DETERMINERS = {
    Determiner.SOME: 0.54,
    Determiner.EXACTLY: 0.12,
    Determiner.AT_LEAST: 0.10,
    Determiner.NO: 0.12,
    Determiner.AT_MOST: 0.06,
    Determiner.EVERY: 0.06,
}
NEGATED = 0.10
"""Share of negated sentences ("is not") among those with "a"."""

_TRIES = 8
_SLACK = 10
"""Maximum difference between the counts of two relations of lengths (hypothesis shorter, equal,
longer). A premise that exceeds it is drawn again."""
_NEUTRAL_DRAWS = 20
_PATIENCE = 2_000
"""Consecutive rejected premises after which a split counts as exhausted."""


class Derivation(NamedTuple):
    """A premise with an entailment, a neutral sentence and a contradiction."""

    premise: Sentence
    entailment: Sentence
    neutral: Sentence
    contradiction: Sentence
    neutral_entails: bool  # the premise


def triplets(split: str, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield the texts of ``derivations`` without neutral sentences, at two thirds of the cost."""
    for premise, entailment, contradiction in _triplets(split, seed):
        yield premise.text(), entailment.text(), contradiction.text()


def derivations(split: str, seed: int) -> Iterator[Derivation]:
    """Yield derivations of a split (``train``, ``dev`` or ``test``).

    Each combination of noun and verb belongs to one split. No sentence of train has a combination
    of dev or test, and every premise of dev and test has one. For each determiner and label,
    hypotheses are longer, equally long and shorter equally often.

    One group in 30,000 is left out, because no neutral sentence is found for its premise ("a
    miserable tiny freshman is not in motion").
    """
    rng = Random(f"builtin:nli {split} {seed} neutral")
    balance = _Balance(split, rng)
    for premise, entailment, contradiction in _triplets(split, seed):
        draws = (balance.draw("neutral", premise, derive.undecided, slack=_PATIENCE)
                 for _ in range(_NEUTRAL_DRAWS))  # fmt: skip
        if neutral := next((drawn for drawn in draws if drawn is not None), None):
            yield Derivation(premise, entailment, neutral[0], contradiction, neutral[1])


def _triplets(split: str, seed: int) -> Iterator[tuple[Sentence, Sentence, Sentence]]:
    rng = Random(f"builtin:nli {split} {seed}")
    balance = _Balance(split, rng)
    seen: set[str] = set()
    failures = 0
    while failures < _PATIENCE:
        failures += 1
        premise = _premise(split, rng)
        text = premise.text()
        if text in seen:
            continue
        entailment = balance.draw("entailment", premise, _plain(derive.entailed))
        contradiction = balance.draw("contradiction", premise, _plain(derive.contradicted))
        if entailment and contradiction:
            seen.add(text)
            failures = 0
            yield premise, entailment[0], contradiction[0]


class _Balance:
    """Draws hypotheses and prefers the relation of lengths that is rarest so far."""

    def __init__(self, split: str, rng: Random) -> None:
        self._train, self._rng = split == "train", rng
        self._tallies: Counter[tuple[str, Determiner, int]] = Counter()

    def draw(
        self, label: str, premise: Sentence, derived: Derived, slack: int = _SLACK
    ) -> tuple[Sentence, bool] | None:
        """Return a hypothesis, or None if its relation of lengths is too frequent (``slack``)."""
        kind, length = premise.determiner, premise.words()
        tallies = [self._tallies[label, kind, relation] for relation in (-1, 0, 1)]
        best: tuple[Sentence, bool] | None = None
        best_relation = 0
        for _ in range(_TRIES):
            drawn = derived(premise, self._rng)
            if drawn is None or (self._train and not _seen(drawn[0])):
                continue
            drawn = _framed(drawn[0], self._rng), drawn[1]
            words = drawn[0].words()
            relation = (words > length) - (words < length)
            if best is None or tallies[relation + 1] < tallies[best_relation + 1]:
                best, best_relation = drawn, relation
            if tallies[best_relation + 1] == min(tallies):
                break
        if best is None or tallies[best_relation + 1] > min(tallies) + slack:
            return None
        self._tallies[label, kind, best_relation] += 1
        return best


Derived = Callable[[Sentence, Random], tuple[Sentence, bool] | None]


def _plain(derived: Callable[[Sentence, Random], Sentence | None]) -> Derived:
    return lambda premise, rng: (found, False) if (found := derived(premise, rng)) else None


def _premise(split: str, rng: Random) -> Sentence:
    """Return a random sentence of the split."""
    while True:
        noun, verb = pick(rng, NOUNS), pick(rng, VERBS)
        if _SPLITS[noun.key][verb.key] == split:
            break
    kind = rng.choices(list(DETERMINERS), list(DETERMINERS.values()))[0]
    counted = kind in (Determiner.EXACTLY, Determiner.AT_LEAST, Determiner.AT_MOST)
    scales = rng.sample(range(len(SCALES)), pick(rng, (0, 0, 1, 1, 2)))
    result = Sentence(
        determiner=kind,
        nouns=(noun,),
        verbs=(verb,),
        number=rng.randint(2, 4) if counted else 1,
        adjectives=tuple((scale, pick(rng, (1, 2, -1, -2))) for scale in scales),
        negated=kind is Determiner.SOME and rng.random() < NEGATED,
        place=pick(rng, PLACES) if rng.random() < 0.5 else None,
        time=pick(rng, TIMES) if rng.random() < 0.3 else None,
        manner=pick(rng, MANNERS) if rng.random() < 0.3 else None,
    )
    return _framed(_joined(result, split, rng), rng)


def _joined(s: Sentence, split: str, rng: Random) -> Sentence:
    """Return the sentence, sometimes with a second noun or verb."""
    turn, joined = rng.random(), None
    if turn < 0.12:
        joined = derive.step(s, "companion", rng, weaker=False)
    elif turn < 0.3:
        slot = "nouns" if turn < 0.2 else "verbs"
        upward = s.subject_upward if slot == "nouns" else s.predicate_upward
        joined = derive.step(s, slot, rng, weaker=upward)
        if joined and len(joined.nouns) + len(joined.verbs) < 3:
            joined = None
    return joined if joined and (split != "train" or _seen(joined)) else s


def _framed(s: Sentence, rng: Random) -> Sentence:
    return s._replace(frame=pick(rng, s.frames()))


def _seen(s: Sentence) -> bool:
    """Return whether every combination of noun and verb in the sentence belongs to train."""
    nouns = s.nouns if s.companion is None else (*s.nouns, s.companion)
    return all(_SPLITS[n.key][v.key] == "train" for n, v in product(nouns, s.verbs))


_SPLITS = [[split_of_text(f"{noun.text}|{verb.text}") for verb in VERBS] for noun in NOUNS]
