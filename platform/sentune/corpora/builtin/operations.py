"""``builtin:operations``: sentence operations with one right answer each.

A scene is a subject that did something to a thing, and did something else at a place. Three forms
of sentences describe it, with a fixed order of slots, and with words that belong to one slot only::

    deed   the [small] dog [quickly] chased the [red] ball [in the garden]     5 to 9 words
    act    the [small] dog [quickly] slept in the garden                       6 to 8 words
    both   the [small] dog chased the [red] ball and slept in the garden       10 to 12 words

Fusion:
    deed + act -> both. The three describe the same scene: "both" has the adjectives of the parts
    and the subject once. There is neither an adverb nor a place of the deed.
Difference:
    both - deed -> act and both - act -> deed, equally often.
Compression:
    deed (in two of three rows) or both -> subject, deed and thing: "the dog chased the ball".
    Adjectives, the adverb, the place and the act are dropped. In every row something is dropped.
Reconstruction:
    each of the three forms equally often, unchanged.

A deed has at most two of its four modifiers. Of the 6,000 combinations of subject, deed and thing,
and of the 3,600 of subject, act and place, one in ten belongs to dev and one in ten to test. All
combinations in a sentence belong to its split, so that splits share no sentence.

Baselines, as ROUGE-1 on dev: the right answer of another row has 48 (fusion), 38 (difference), 44
(compression) and 38 (reconstruction), because all sentences share function words. The first
sentence, copied, has 70, 72, 75 and 100.

``builtin:scenes`` are pairs of such sentences. Their score is 5 times the Dice coefficient of the
slots (subject, deed, thing, act, place): twice the number of equal slots over the number of slots
in both sentences. Adjectives, adverbs and the place of a deed do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, cycle
from random import Random
from typing import NamedTuple

from sentune.corpora.builtin.moves import pick, split_of_text
from sentune.corpora.schema import OPERATIONS

Row = tuple[str, str, str | None, str]
"""Operation, first sentence, second sentence or None, right answer."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES = _words("small old young tired happy angry hungry clever quiet brave")
SUBJECTS = _words(
    "dog cat horse fox bear monkey boy girl farmer doctor teacher singer soldier sailor pilot "
    "queen king baker painter thief"
)
ADVERBS = _words("quickly slowly gladly secretly calmly suddenly carefully eagerly")
DEEDS = _words(
    "chased found lost took hid carried dropped kicked washed bought sold stole threw cleaned "
    "watched"
)
LOOKS = _words("red blue green yellow black white wooden golden heavy broken")
THINGS = _words(
    "ball box lamp chair cup book hat drum bell basket ladder clock mirror blanket bottle kite "
    "shoe key coin rope"
)
ACTS = _words("slept danced sang waited rested laughed cried jumped walked played talked worked")
PLACES = _words(
    "garden kitchen park forest street school market castle harbor tower valley barn office "
    "cellar station"
)

MOST_MODIFIERS = 2
_MODIFIERS = ("adjective", "adverb", "look", "where")
_MODIFIED = [
    chosen for n in range(MOST_MODIFIERS + 1) for chosen in combinations(_MODIFIERS, n)
]  # the first one is empty
_PATIENCE = 2_000
"""Consecutive rejected rows after which a split counts as exhausted."""


def operations(split: str, seed: int, chosen: Sequence[str] = OPERATIONS) -> Iterator[Row]:
    """Yield distinct rows of a split, taking the operations in turn; deterministic."""
    rng = Random(f"builtin:operations {split} {seed}")
    seen: set[Row] = set()
    for operation in cycle(chosen):
        drawn = (_ROWS[operation](draw_scene(split, rng), rng) for _ in range(_PATIENCE))
        row = next(((operation, *rest) for rest in drawn if (operation, *rest) not in seen), None)
        if row is None:
            return
        seen.add(row)
        yield row


def split_of(*words: str) -> str:
    """Return the split of a combination: subject, deed and thing, or subject, act and place."""
    return split_of_text("|".join(words))


class Scene(NamedTuple):
    """The content of sentences; a modifier is empty if it is not mentioned."""

    subject: str
    deed: str
    thing: str
    act: str
    place: str
    adjective: str = ""
    adverb: str = ""
    look: str = ""
    where: str = ""  # place of the deed

    def told(self, form: str) -> str:
        """Return the sentence of the form ``deed``, ``act`` or ``both``."""
        who = ("the", self.adjective, self.subject)
        deed = (self.deed, "the", self.look, self.thing)
        act = (self.act, "in the", self.place)
        words: tuple[str, ...] = (*who, *deed, "and", *act)
        if form == "deed":
            words = (*who, self.adverb, *deed, self.where and f"in the {self.where}")
        elif form == "act":
            words = (*who, self.adverb, *act)
        return " ".join(filter(None, words))


def draw_scene(split: str, rng: Random) -> Scene:
    """Return a scene of the split without modifiers."""
    subject = pick(rng, SUBJECTS)
    while split_of(subject, deed := pick(rng, DEEDS), thing := pick(rng, THINGS)) != split:
        pass
    while split_of(subject, act := pick(rng, ACTS), place := pick(rng, PLACES)) != split:
        pass
    return Scene(subject, deed, thing, act, place)


def _modified(scene: Scene, names: Sequence[str], rng: Random) -> Scene:
    words = {"adjective": ADJECTIVES, "adverb": ADVERBS, "look": LOOKS, "where": PLACES}
    return scene._replace(**{name: pick(rng, words[name]) for name in names})


def reworded(plain: Scene, rng: Random) -> Scene:
    """Return the scene with at most two modifiers."""
    return _modified(plain, pick(rng, _MODIFIED), rng)


def _with_some(scene: Scene, rng: Random, names: Sequence[str] = ("adjective", "look")) -> Scene:
    """Return the scene with each of the modifiers with probability 1/2."""
    return _modified(scene, [name for name in names if rng.random() < 0.5], rng)


def _fusion(plain: Scene, rng: Random) -> tuple[str, str, str]:
    scene = _with_some(plain, rng)
    return scene.told("deed"), scene.told("act"), scene.told("both")


def _difference(plain: Scene, rng: Random) -> tuple[str, str, str]:
    deed, act, both = _fusion(plain, rng)
    return (both, deed, act) if rng.random() < 0.5 else (both, act, deed)


def _compression(plain: Scene, rng: Random) -> tuple[str, str | None, str]:
    if rng.random() < 1 / 3:
        return _with_some(plain, rng).told("both"), None, plain.told("deed")
    modified = _modified(plain, pick(rng, _MODIFIED[1:]), rng)
    return modified.told("deed"), None, plain.told("deed")


def _reconstruction(plain: Scene, rng: Random) -> tuple[str, str | None, str]:
    form = pick(rng, ("deed", "act", "both"))
    if form == "deed":
        scene = reworded(plain, rng)
    elif form == "act":
        scene = _with_some(plain, rng, ("adjective", "adverb"))
    else:
        scene = _with_some(plain, rng)
    return scene.told(form), None, scene.told(form)


_ROWS: dict[str, Callable[[Scene, Random], tuple[str, str | None, str]]] = {
    "fusion": _fusion,
    "difference": _difference,
    "compression": _compression,
    "reconstruction": _reconstruction,
}

TOLD = {
    "deed": ("subject", "deed", "thing"),
    "act": ("subject", "act", "place"),
    "both": ("subject", "deed", "thing", "act", "place"),
}
"""Form of a sentence -> its slots."""


def scene_pairs(split: str, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield (sentence, sentence, score from 0 to 5) endlessly; deterministic."""
    rng = Random(f"builtin:scenes {split} {seed}")
    while True:
        first = draw_scene(split, rng)
        second = _near_scene(first, split, rng)
        forms = pick(rng, tuple(TOLD)), pick(rng, tuple(TOLD))
        texts = reworded(first, rng).told(forms[0]), reworded(second, rng).told(forms[1])
        if texts[0] != texts[1]:
            yield *texts, score(first, second, *forms)


def score(first: Scene, second: Scene, form: str, other: str) -> float:
    """Return 5 times the Dice coefficient of the slots of the two sentences."""
    told = TOLD[form], TOLD[other]
    alike = [n for n in told[0] if n in told[1] and getattr(first, n) == getattr(second, n)]
    return 10 * len(alike) / (len(told[0]) + len(told[1]))


def _near_scene(scene: Scene, split: str, rng: Random) -> Scene:
    """Return a scene of the split that shares some slots, from none to all."""
    kept = [name for name in TOLD["both"] if rng.random() < rng.random()]
    while True:
        other = draw_scene(split, rng)._replace(**{name: getattr(scene, name) for name in kept})
        parts = (other.subject, other.deed, other.thing), (other.subject, other.act, other.place)
        if all(split_of(*words) == split for words in parts):
            return other
