"""``builtin:similarity``: pairs of sentences of the stories, scored by what they share.

Where two sentences say the same, they mostly use the other word for it; where they have nothing in
common, they often share order, details and function words. Overlap of words alone therefore says
less than knowing which words belong together, which the stories teach.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from zlib import crc32

from sentune.corpora.builtin.moves import pick
from sentune.corpora.builtin.stories import Meaning, Wording, draw_actor, draw_wording, text_of
from sentune.corpora.builtin.stories_words import TOPICS, Topic

SPLITS = ("train", "dev", "test")

_ELSEWHERE = 0.2
"""Share of pairs about two topics."""

_OTHER_WORD = 0.75
"""How often what is shared is said by the other word for it."""


def pairs(split: str, seed: int) -> Iterator[tuple[str, str, float]]:
    """Endless (sentence, sentence, score from 0 to 5); the same for the same split and seed.

    Each meaning belongs to one split, so that splits share no sentence, whatever their seeds.
    """
    rng = Random(f"builtin:similarity {split} {seed}")
    while True:
        first = _meaning(pick(rng, TOPICS), split, rng)
        second = _second(first, split, rng)
        wording = draw_wording(rng)
        texts = text_of(first, wording), text_of(second, _reworded(first, second, wording, rng))
        if texts[0] != texts[1]:
            yield *texts, score(first, second)


def score(first: Meaning, second: Meaning) -> float:
    """Similarity from 0 to 5, in steps of a half.

    1 for the topic, 1 each for who acts and what is done, 1.5 for what it is done to, 0.5 for the
    place (that neither names one is the same place); in two topics 0.5 for the same person.
    """
    actor = first.actor == second.actor
    if first.topic != second.topic:
        return 0.5 * actor
    shared = 1.0 * actor + 1.0 * (first.verb == second.verb)
    return 1 + shared + 1.5 * (first.thing == second.thing) + 0.5 * (first.place == second.place)


def split_of(meaning: Meaning) -> str:
    """Return the split to which actor, verb and thing belong together."""
    key = f"{meaning.actor[0]}|{meaning.verb[0]}|{meaning.thing[0]}"
    return SPLITS[crc32(key.encode()) % len(SPLITS)]


def _meaning(topic: Topic, split: str, rng: Random) -> Meaning:
    """Any meaning of the split in a topic."""
    while True:
        activity = pick(rng, topic.activities)
        place = pick(rng, topic.places) if rng.random() < 0.5 else None
        drawn = Meaning(
            topic, draw_actor(topic, rng), activity.verb, pick(rng, activity.objects), place
        )
        if split_of(drawn) == split:
            return drawn


def _second(first: Meaning, split: str, rng: Random) -> Meaning:
    """Return a meaning that shares nothing, everything or something with the first."""
    if rng.random() < _ELSEWHERE:
        return _meaning(pick(rng, [t for t in TOPICS if t != first.topic]), split, rng)
    while True:
        drawn = _meaning(first.topic, split, rng)
        if rng.random() < 0.5:
            drawn = drawn._replace(actor=first.actor)
        if rng.random() < 0.4:
            drawn = drawn._replace(verb=first.verb, thing=first.thing)
        if rng.random() < 0.5:
            drawn = drawn._replace(place=first.place)
        if split_of(drawn) == split:
            return drawn


def _reworded(first: Meaning, second: Meaning, wording: Wording, rng: Random) -> Wording:
    """Other words for what is shared, and half of the time the same order and details."""
    base = wording if rng.random() < 0.5 else draw_wording(rng)
    one, two, three, four = (
        1 - said if here == there and rng.random() < _OTHER_WORD else int(rng.random() * 2)
        for said, here, there in zip(wording.words, first[1:], second[1:], strict=True)
    )
    return base._replace(words=(one, two, three, four))
