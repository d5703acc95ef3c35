"""Broaden or narrow one slot (field) of a structured sentence.

``broaden`` makes a slot more general (poodle -> dog, "in a kitchen" -> nothing, "running" ->
"running or napping"), ``narrow`` makes it more specific. Whether that weakens or strengthens the
sentence depends on monotonicity (see ``derive``): in "no dog is running" both arguments are
downward monotone, so narrowing weakens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar
from zlib import crc32

from sentune.corpora.builtin.sentences import (
    MANNERS,
    PLACES,
    SCALES,
    TIMES,
    Determiner,
    Sentence,
    Term,
)

Item = TypeVar("Item")

MOST_ADJECTIVES = 2
_ANY: dict[str, Sequence[Any]] = {"place": PLACES, "time": TIMES, "manner": MANNERS}
_DISJOINABLE = (Determiner.SOME, Determiner.NO, Determiner.EVERY)


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """Return a random item, at a third of the cost of ``Random.choice``."""
    return items[int(rng.random() * len(items))]


def split_of_text(text: str) -> str:
    """Return the split of a text by its hash: one in ten is dev, one in ten test."""
    return {0: "dev", 1: "test"}.get(crc32(text.encode()) % 10, "train")


def broaden(s: Sentence, slot: str, rng: Random) -> Sentence | None:
    """Return the sentence with a more general slot, or None if there is none.

    A noun or verb becomes more general or gets an alternative with "or". An adjective becomes
    weaker, a place larger, a time longer, or it is dropped.
    """
    value: Any = getattr(s, slot)
    new: Any
    if slot in ("nouns", "verbs"):
        if len(value) == 1 and _joinable(s, slot) and rng.random() < 0.2:
            other = pick(rng, value[0].unrelated)
            new = (value[0], other) if rng.random() < 0.5 else (other, value[0])
        else:
            new = _raised(value, rng)
        return new and s._replace(**{slot: new})
    if not value:
        return None
    if slot != "adjectives":
        dropped = slot == "manner" or rng.random() < 0.4 or not value.ancestors
        new = None if dropped else pick(rng, value.ancestors)
        return s._replace(**{slot: new})
    place = int(rng.random() * len(value))
    scale, degree = value[place]
    kept = ((scale, degree // 2),) if abs(degree) == 2 and rng.random() < 0.5 else ()
    return s._replace(adjectives=(*value[:place], *kept, *value[place + 1 :]))


def narrow(s: Sentence, slot: str, rng: Random) -> Sentence | None:
    """Return the sentence with a more specific slot, or None if there is none.

    A noun or verb becomes more specific or loses its alternative. An adjective becomes stronger or
    is added. A place becomes smaller, a time shorter, or a missing place, time or manner is added.
    """
    if slot == "adjectives":
        return _narrow_adjectives(s, rng)
    value: Any = getattr(s, slot)
    new: Any
    if slot in ("nouns", "verbs"):
        new = _lowered(value, rng)
    elif value is None:
        new = pick(rng, _ANY[slot])
    else:
        new = None if slot == "manner" else _below(value, rng)
    return new and s._replace(**{slot: new})


def _narrow_adjectives(s: Sentence, rng: Random) -> Sentence | None:
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


def _joinable(s: Sentence, slot: str) -> bool:
    """Return whether a term of the slot may get an alternative with "or"."""
    if slot == "verbs":
        return not s.negated
    return s.determiner in _DISJOINABLE and not (s.adjectives or s.companion or s.negated)


def _raised(terms: tuple[Term, ...], rng: Random) -> tuple[Term, ...] | None:
    """Make one of the terms more general; two terms stay unrelated."""
    place = int(rng.random() * len(terms))
    rest = terms[:place] + terms[place + 1 :]
    higher = [a for a in terms[place].ancestors if not any(a.covers(other) for other in rest)]
    if not higher:
        return None
    return (*terms[:place], pick(rng, higher), *terms[place + 1 :])


def _lowered(terms: tuple[Term, ...], rng: Random) -> tuple[Term, ...] | None:
    """Make one of the terms more specific, or drop one of two."""
    place = int(rng.random() * len(terms))
    if len(terms) > 1 and rng.random() < 0.5:
        return (terms[place],)
    lower = _below(terms[place], rng)
    return None if lower is None else (*terms[:place], lower, *terms[place + 1 :])


def _below(term: Term, rng: Random) -> Term | None:
    """Return a random term below ``term``, or None for a leaf."""
    if not term.children:
        return None
    child = pick(rng, term.children)
    return child if rng.random() < 0.5 else _below(child, rng) or child
