"""Steps between structured sentences, one slot at a time.

``broaden`` lets a slot cover more (poodle -> dog, "in a kitchen" -> nothing, "running" ->
"running or napping"), ``narrow`` lets it cover less. Whether that weakens or strengthens the
sentence is a matter of monotonicity (``derive``): in "no dog is running" both arguments are
downward monotone, so narrowing weakens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from sentune.corpora.builtin.lexicon import (
    MANNERS,
    PLACES,
    SCALES,
    TIMES,
    Term,
)
from sentune.corpora.builtin.sentences import Determiner, Sentence

Item = TypeVar("Item")
Move = Callable[[Sentence, Random], Sentence | None]
"""Changes a slot, or gives ``None`` where the slot has nothing to change."""

MOST_ADJECTIVES = 2
_DISJOINABLE = (Determiner.SOME, Determiner.NO, Determiner.EVERY)


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """Return a random item (``Random.choice`` at a third of its cost)."""
    return items[int(rng.random() * len(items))]


def broaden_noun(s: Sentence, rng: Random) -> Sentence | None:
    """Return a more general noun, or one more behind "or"."""
    single = len(s.nouns) == 1
    joinable = s.determiner in _DISJOINABLE and not (s.adjectives or s.companion or s.negated)
    if single and joinable and rng.random() < 0.2:
        return s._replace(nouns=_joined(s.nouns[0], rng))
    nouns = _raised(s.nouns, rng)
    return None if nouns is None else s._replace(nouns=nouns)


def narrow_noun(s: Sentence, rng: Random) -> Sentence | None:
    """Return a more specific noun, or only one of two."""
    nouns = _lowered(s.nouns, rng)
    return None if nouns is None else s._replace(nouns=nouns)


def broaden_verb(s: Sentence, rng: Random) -> Sentence | None:
    """Return a more general verb, or one more behind "or"."""
    if len(s.verbs) == 1 and not s.negated and rng.random() < 0.2:
        return s._replace(verbs=_joined(s.verbs[0], rng))
    verbs = _raised(s.verbs, rng)
    return None if verbs is None else s._replace(verbs=verbs)


def narrow_verb(s: Sentence, rng: Random) -> Sentence | None:
    """Return a more specific verb, or only one of two."""
    verbs = _lowered(s.verbs, rng)
    return None if verbs is None else s._replace(verbs=verbs)


def broaden_adjective(s: Sentence, rng: Random) -> Sentence | None:
    """Return a weaker adjective, or none."""
    if not s.adjectives:
        return None
    place = int(rng.random() * len(s.adjectives))
    scale, degree = s.adjectives[place]
    kept: tuple[tuple[int, int], ...] = ()
    if abs(degree) == 2 and rng.random() < 0.5:
        kept = ((scale, degree // 2),)
    return s._replace(adjectives=s.adjectives[:place] + kept + s.adjectives[place + 1 :])


def narrow_adjective(s: Sentence, rng: Random) -> Sentence | None:
    """Return a stronger adjective, or one more."""
    mild = [i for i, (_, degree) in enumerate(s.adjectives) if abs(degree) == 1]
    if mild and rng.random() < 0.4:
        place = pick(rng, mild)
        scale, degree = s.adjectives[place]
        stronger = ((scale, degree * 2),)
        return s._replace(adjectives=s.adjectives[:place] + stronger + s.adjectives[place + 1 :])
    if len(s.adjectives) == MOST_ADJECTIVES or len(s.nouns) > 1:
        return None
    taken = [scale for scale, _ in s.adjectives]
    scale = pick(rng, [i for i in range(len(SCALES)) if i not in taken])
    added = (scale, pick(rng, (1, 2, -1, -2)))
    return s._replace(adjectives=(added, *s.adjectives))


def broaden_place(s: Sentence, rng: Random) -> Sentence | None:
    """Return a larger place, or none."""
    return None if s.place is None else s._replace(place=_raised_or_dropped(s.place, rng))


def narrow_place(s: Sentence, rng: Random) -> Sentence | None:
    """Return a smaller place, or some place."""
    place = pick(rng, PLACES) if s.place is None else _below(s.place, rng)
    return None if place is None else s._replace(place=place)


def broaden_time(s: Sentence, rng: Random) -> Sentence | None:
    """Return a longer time, or none."""
    return None if s.time is None else s._replace(time=_raised_or_dropped(s.time, rng))


def narrow_time(s: Sentence, rng: Random) -> Sentence | None:
    """Return a shorter time, or some time."""
    time = pick(rng, TIMES) if s.time is None else _below(s.time, rng)
    return None if time is None else s._replace(time=time)


def broaden_manner(s: Sentence, rng: Random) -> Sentence | None:
    """No manner."""
    return None if s.manner is None else s._replace(manner=None)


def narrow_manner(s: Sentence, rng: Random) -> Sentence | None:
    """Some manner."""
    return s._replace(manner=pick(rng, MANNERS)) if s.manner is None else None


def _joined(term: Term, rng: Random) -> tuple[Term, Term]:
    other = pick(rng, term.unrelated)
    return (term, other) if rng.random() < 0.5 else (other, term)


def _raised(terms: tuple[Term, ...], rng: Random) -> tuple[Term, ...] | None:
    """One of the terms made more general; two terms stay unrelated."""
    place = int(rng.random() * len(terms))
    rest = terms[:place] + terms[place + 1 :]
    higher = [a for a in terms[place].ancestors if not any(a.covers(other) for other in rest)]
    if not higher:
        return None
    return (*terms[:place], pick(rng, higher), *terms[place + 1 :])


def _lowered(terms: tuple[Term, ...], rng: Random) -> tuple[Term, ...] | None:
    """One of the terms made more specific, or one of two dropped."""
    place = int(rng.random() * len(terms))
    if len(terms) > 1 and rng.random() < 0.5:
        return (terms[place],)
    lower = _below(terms[place], rng)
    return None if lower is None else (*terms[:place], lower, *terms[place + 1 :])


def _below(term: Term, rng: Random) -> Term | None:
    """Return a child, or one of the terms below it."""
    if not term.children:
        return None
    child = pick(rng, term.children)
    return child if rng.random() < 0.5 else _below(child, rng) or child


def _raised_or_dropped(term: Term, rng: Random) -> Term | None:
    """One of the more general terms, or ``None``: no restriction at all."""
    return None if rng.random() < 0.4 or not term.ancestors else pick(rng, term.ancestors)
