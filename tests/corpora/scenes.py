"""An independent account of what the sentences of ``builtin:nli`` mean: truth in a scene.

Nothing here knows of monotonicity or of steps. A scene is drawn at random around the words of a
pair, and both sentences are looked up in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sentune.corpora.builtin.sentences import (
    MANNERS,
    NOUNS,
    PLACES,
    SCALES,
    TIMES,
    VERBS,
    Determiner,
    Sentence,
    Term,
)


@dataclass
class Band:
    """A group of one sort: leaf noun, head count, degree on every scale."""

    noun: Term
    count: int
    degrees: list[int]


@dataclass
class Scene:
    """At most one band of each root, and one thing that they do."""

    bands: list[Band]
    verb: Term
    place: Term | None
    time: Term | None
    manners: set[str]


def true_in(s: Sentence, scene: Scene) -> bool:
    """Whether the sentence is true in the scene."""
    done = _done(s, scene)
    if s.negated:
        done = not done
    found = [band for band in scene.bands if _fits(s, band)]
    largest = max((band.count for band in found), default=0)
    match s.determiner:
        case Determiner.SOME:
            also = s.companion is None or any(_is(band.noun, s.companion) for band in scene.bands)
            return bool(found) and also and done
        case Determiner.EXACTLY:
            return any(band.count == s.number for band in found) and done
        case Determiner.AT_LEAST:
            return largest >= s.number and done
        case Determiner.AT_MOST:
            return not (largest > s.number and done)
        case Determiner.NO:
            return not (found and done)
        case Determiner.EVERY:
            return not found or done


def draw_scene(rng: Random, sentences: list[Sentence]) -> Scene:
    """A scene near the sentences: most of its parts come from below their words."""
    bands = []
    for root in ("animal", "person"):
        if rng.random() < 0.85:
            mentioned = [n for s in sentences for n in (*s.nouns, s.companion) if n is not None]
            noun = _leaf(rng, [n for n in mentioned if n.root.text == root], NOUNS, root)
            bands.append(Band(noun, rng.randint(1, 6), _degrees(rng, sentences)))
    places = [s.place for s in sentences if s.place is not None]
    times = [s.time for s in sentences if s.time is not None]
    manners = [s.manner for s in sentences if s.manner is not None]
    return Scene(
        bands=bands,
        verb=_leaf(rng, [v for s in sentences for v in s.verbs], VERBS),
        place=_leaf(rng, places, PLACES) if rng.random() < 0.95 else None,
        time=_leaf(rng, times, TIMES) if rng.random() < 0.95 else None,
        manners={m for m in (*manners, rng.choice(MANNERS)) if rng.random() < 0.75},
    )


def _done(s: Sentence, scene: Scene) -> bool:
    return (
        any(_is(scene.verb, verb) for verb in s.verbs)
        and (s.place is None or (scene.place is not None and _is(scene.place, s.place)))
        and (s.time is None or (scene.time is not None and _is(scene.time, s.time)))
        and (s.manner is None or s.manner in scene.manners)
    )


def _fits(s: Sentence, band: Band) -> bool:
    if not any(_is(band.noun, noun) for noun in s.nouns):
        return False
    for scale, degree in s.adjectives:
        actual = band.degrees[scale]
        if (actual < degree) if degree > 0 else (actual > degree):
            return False
    return True


def _is(leaf: Term, term: Term) -> bool:
    while leaf is not term:
        if leaf.parent is None:
            return False
        leaf = leaf.parent
    return True


def _leaf(rng: Random, near: list[Term], terms: list[Term], root: str | None = None) -> Term:
    inside = [t for t in terms if root is None or t.root.text == root]
    term = rng.choice(near) if near and rng.random() < 0.9 else rng.choice(inside)
    if term.parent is not None and rng.random() < 0.15:
        term = term.parent
    while term.children:
        term = rng.choice(term.children)
    return term


def _degrees(rng: Random, sentences: list[Sentence]) -> list[int]:
    degrees = [rng.randint(-2, 2) for _ in SCALES]
    for s in sentences:
        for scale, degree in s.adjectives:
            if rng.random() < 0.7:
                degrees[scale] = degree if rng.random() < 0.6 else 2 * (1 if degree > 0 else -1)
    return degrees
