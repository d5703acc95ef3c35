"""``builtin:scenes``: pairs of the sentences of ``builtin:operations``, scored by what they share.

The score is 5 times the share of slots (subject, deed, thing, act, place) that the two tell alike:
twice the equal ones over all that both tell (Dice). Adjectives, adverbs and the place of a deed do
not count, so that telling them apart is no virtue here, as it is in reconstruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sentune.corpora.builtin.moves import pick
from sentune.corpora.builtin.operations import Scene, draw_scene, in_split, reworded

TOLD = {
    "deed": ("subject", "deed", "thing"),
    "act": ("subject", "act", "place"),
    "both": ("subject", "deed", "thing", "act", "place"),
}
"""Form of a sentence -> the slots that it tells."""


def pairs(split: str, seed: int) -> Iterator[tuple[str, str, float]]:
    """Endless (sentence, sentence, score from 0 to 5); the same for the same split and seed."""
    rng = Random(f"builtin:scenes {split} {seed}")
    while True:
        first = draw_scene(split, rng)
        second = _near(first, split, rng)
        forms = pick(rng, tuple(TOLD)), pick(rng, tuple(TOLD))
        texts = reworded(first, rng).told(forms[0]), reworded(second, rng).told(forms[1])
        if texts[0] != texts[1]:
            yield *texts, score(first, second, *forms)


def score(first: Scene, second: Scene, form: str, other: str) -> float:
    """5 times the Dice share of the slots that both forms tell alike."""
    told = TOLD[form], TOLD[other]
    alike = [n for n in told[0] if n in told[1] and getattr(first, n) == getattr(second, n)]
    return 10 * len(alike) / (len(told[0]) + len(told[1]))


def _near(scene: Scene, split: str, rng: Random) -> Scene:
    """Another scene of the split that shares some slots, from none to all."""
    kept = [name for name in TOLD["both"] if rng.random() < rng.random()]
    while True:
        other = draw_scene(split, rng)._replace(**{name: getattr(scene, name) for name in kept})
        if in_split(other, split):
            return other
