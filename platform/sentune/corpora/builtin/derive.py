"""Derive entailed, neutral and contradicting sentences from a premise by natural logic.

Broadening an upward monotone slot weakens a sentence, and so does narrowing a downward monotone one
(van Benthem 1986; MacCartney and Manning 2009, "An extended model of natural logic"). A chain of
weakenings is an entailment. The negation of an entailed sentence contradicts the premise.
"""

from __future__ import annotations

from functools import cache
from random import Random

from sentune.corpora.builtin.moves import broaden, narrow, pick
from sentune.corpora.builtin.sentences import MANNERS, NOUNS, Determiner, Sentence, Term

SLOTS = (
    "nouns", "adjectives", "verbs", "place", "time", "manner", "number", "companion",
)  # fmt: skip
_STEPS = (2, 2, 3, 4)
"""Maximum steps of a chain, from which one is drawn for each chain."""
_MOST = 5
"""Largest number in a sentence."""


def step(s: Sentence, slot: str, rng: Random, *, weaker: bool) -> Sentence | None:
    """Weaken or strengthen a sentence strictly in one slot; return None if impossible."""
    if slot == "number":
        return _weaker_number(s, rng) if weaker else _stronger_number(s, rng)
    if slot == "companion" and weaker:
        return s._replace(companion=None) if s.companion else None
    if slot == "companion":
        return _with_companion(s, rng)
    upward = s.subject_upward if slot in ("nouns", "adjectives") else s.predicate_upward
    return (broaden if weaker == upward else narrow)(s, slot, rng)


def chain(s: Sentence, rng: Random, *, weaker: bool, steps: int) -> Sentence | None:
    """Make up to ``steps`` steps in one direction; return None if none was possible."""
    start = s
    for _ in range(steps):
        s = step(s, pick(rng, SLOTS), rng, weaker=weaker) or s
    return s if s is not start else None


def entailed(premise: Sentence, rng: Random) -> Sentence | None:
    """Return a sentence that the premise entails and that does not entail the premise."""
    return chain(premise, rng, weaker=True, steps=pick(rng, _STEPS))


def undecided(premise: Sentence, rng: Random) -> tuple[Sentence, bool] | None:
    """Return a sentence that the premise leaves open, and whether it entails the premise.

    The sentence is stronger, or stronger in one slot and weaker in others, or has another manner.
    No slot is changed twice, because the steps could cancel.
    """
    turn = rng.random()
    if turn < 0.45:
        stronger = chain(premise, rng, weaker=False, steps=pick(rng, _STEPS))
        return None if stronger is None else (stronger, True)
    if turn < 0.6:
        if premise.manner is None:
            return None
        other = pick(rng, [manner for manner in MANNERS if manner != premise.manner])
        return _elsewhere(premise._replace(manner=other), "manner", rng), False
    slots = rng.sample(SLOTS, 3)
    result = step(premise, slots[0], rng, weaker=False)
    mixed = result and step(result, slots[1], rng, weaker=True)
    if mixed is None:
        return None
    return step(mixed, slots[2], rng, weaker=True) or mixed, False


def contradicted(premise: Sentence, rng: Random) -> Sentence | None:
    """Return a sentence that contradicts the premise.

    It negates an entailment of the premise, or gives the scene another kind of activity, place,
    time or number, or the opposite quality.
    """
    positive = premise.subject_upward and not premise.negated
    if positive and rng.random() < 0.65:
        return _excluded(premise, rng)
    weaker = chain(premise, rng, weaker=True, steps=pick(rng, _STEPS) - 1) or premise
    return _negation(weaker, rng)


def _weaker_number(s: Sentence, rng: Random) -> Sentence | None:
    if s.determiner in (Determiner.EXACTLY, Determiner.AT_LEAST):
        lowest_stronger = s.number if s.determiner is Determiner.EXACTLY else s.number - 1
        number = rng.randint(1, lowest_stronger)
        return _count(s, Determiner.AT_LEAST if number > 1 else Determiner.SOME, number)
    if s.determiner is Determiner.NO and len(s.nouns) == 1:
        return _count(s, Determiner.AT_MOST, rng.randint(1, _MOST - 2))
    if s.determiner is Determiner.AT_MOST and s.number < _MOST - 1:
        return s._replace(number=rng.randint(s.number + 1, _MOST - 1))
    return None


def _stronger_number(s: Sentence, rng: Random) -> Sentence | None:
    if s.determiner is Determiner.SOME and len(s.nouns) == 1 and not (s.negated or s.companion):
        kind = pick(rng, (Determiner.AT_LEAST, Determiner.EXACTLY))
        return _count(s, kind, rng.randint(2, _MOST - 1))
    if s.determiner is Determiner.AT_LEAST:
        return _count(s, Determiner.EXACTLY, rng.randint(s.number, _MOST))
    if s.determiner is Determiner.AT_MOST:
        number = rng.randint(0, s.number - 1)
        return s._replace(number=number) if number else _count(s, Determiner.NO, 1)
    return None


def _count(s: Sentence, determiner: Determiner, number: int) -> Sentence:
    return s._replace(determiner=determiner, number=number)


def _with_companion(s: Sentence, rng: Random) -> Sentence | None:
    if s.determiner is not Determiner.SOME or s.negated or s.companion or len(s.nouns) > 1:
        return None
    other = pick(rng, [noun for noun in NOUNS if noun.root is not s.nouns[0].root])
    return s._replace(companion=other)


def _negation(s: Sentence, rng: Random) -> Sentence | None:
    """Return the negation of ``s``, or None if one sentence cannot express it.

    For a counted sentence, the result is the negation of a sentence that it entails.
    """
    s, kind = s._replace(companion=None), s.determiner
    if kind is Determiner.SOME and s.negated:
        return s._replace(determiner=Determiner.EVERY, negated=False)
    if kind is Determiner.SOME:
        return _count(s, Determiner.NO, 1)
    if kind in (Determiner.EXACTLY, Determiner.AT_LEAST):
        number = rng.randint(0, s.number - 1)
        return _count(s, Determiner.AT_MOST, number) if number else _count(s, Determiner.NO, 1)
    if kind is Determiner.NO:
        return _count(s, Determiner.SOME, 1)
    if kind is Determiner.AT_MOST:
        above = rng.randint(s.number + 1, _MOST)
        return _count(s, pick(rng, (Determiner.AT_LEAST, Determiner.EXACTLY)), above)
    if len(s.verbs) > 1 or len(s.nouns) > 1:
        return None
    return _count(s, Determiner.SOME, 1)._replace(negated=True)


def _excluded(s: Sentence, rng: Random) -> Sentence | None:
    """Replace one slot by an excluded value, and change other slots in either direction."""
    slot = pick(rng, ("adjectives", "verbs", "verbs", "place", "time", "number"))
    result: Sentence | None = None
    if slot == "adjectives" and s.adjectives:
        (scale, degree), *rest = s.adjectives
        opposite = (scale, pick(rng, (-1, -2) if degree > 0 else (1, 2)))
        result = s._replace(adjectives=(opposite, *rest))
    elif slot == "verbs" and len(s.verbs) == 1:
        result = s._replace(verbs=(pick(rng, _apart(s.verbs[0])),))
    elif slot == "place" and s.place:
        result = s._replace(place=pick(rng, _apart(s.place)))
    elif slot == "time" and s.time:
        result = s._replace(time=pick(rng, _apart(s.time)))
    elif slot == "number" and s.determiner is Determiner.EXACTLY:
        number = pick(rng, [n for n in range(2, _MOST + 1) if n != s.number])
        result = s._replace(number=number)
    return result and _elsewhere(result, slot, rng)


@cache
def _apart(term: Term) -> tuple[Term, ...]:
    """Return the unrelated terms of the tree that share at most the root as an ancestor."""
    near = {term, *term.ancestors} - {term.root}
    return tuple(
        other for other in term.tree if not other.related(term) and near.isdisjoint(other.ancestors)
    )


def _elsewhere(s: Sentence, slot: str, rng: Random) -> Sentence:
    """Make at most two steps, in either direction, in slots other than ``slot``."""
    for other in rng.sample(SLOTS, 2):
        if other != slot and rng.random() < 0.6:
            s = step(s, other, rng, weaker=rng.random() < 0.5) or s
    return s
