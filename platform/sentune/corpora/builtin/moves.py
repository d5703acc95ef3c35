"""Steps between structured sentences, one slot (field) at a time.

``broaden`` lets a slot cover more (poodle -> dog, "in a kitchen" -> nothing, "running" ->
"running or napping"), ``narrow`` lets it cover less. Whether that weakens or strengthens the
sentence is a matter of monotonicity (``derive``): in "no dog is running" both arguments are
downward monotone, so narrowing weakens.
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
    """Return a random item (``Random.choice`` at a third of its cost)."""
    return items[int(rng.random() * len(items))]


def split_of_text(text: str) -> str:
    """Return the split of a combination: one in ten is dev's, one in ten test's."""
    return {0: "dev", 1: "test"}.get(crc32(text.encode()) % 10, "train")


def broaden(s: Sentence, slot: str, rng: Random) -> Sentence | None:
    """Return the sentence with a slot that covers more; ``None`` where there is nothing more.

    A more general noun or verb, or one more behind "or"; a weaker adjective, a larger place, a
    longer time, or none at all.
    """
    value: Any = getattr(s, slot)
    new: Any
    if slot in ("nouns", "verbs"):
        if len(value) == 1 and _joinable(s, slot) and rng.random() < 0.2:
            new = _joined(value[0], rng)
        else:
            new = _raised(value, rng)
        return new and s._replace(**{slot: new})
    if not value:
        return None
    if slot != "adjectives":
        new = None if slot == "manner" else _raised_or_dropped(value, rng)
        return s._replace(**{slot: new})
    place = int(rng.random() * len(value))
    scale, degree = value[place]
    kept = ((scale, degree // 2),) if abs(degree) == 2 and rng.random() < 0.5 else ()
    return s._replace(adjectives=(*value[:place], *kept, *value[place + 1 :]))


def narrow(s: Sentence, slot: str, rng: Random) -> Sentence | None:
    """Return the sentence with a slot that covers less; ``None`` where there is nothing less.

    A more specific noun or verb, or only one of two; a stronger adjective, or one more; a smaller
    place, a shorter time, or any place, time or manner where there was none.
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
    """Whether a term of the slot may get another one behind "or"."""
    if slot == "verbs":
        return not s.negated
    return s.determiner in _DISJOINABLE and not (s.adjectives or s.companion or s.negated)


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
