"""Vocabulary and structured sentences of ``builtin:nli``, and their English text.

Words are trees of terms from general to specific, or antonyms. A general term may be longer than a
specific one ("poodle", "four-legged animal") or shorter ("golden retriever", "dog"), so that length
does not indicate generality.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from functools import cache, cached_property
from textwrap import dedent
from typing import NamedTuple


class Term:
    """A word or phrase in a tree of terms.

    Attributes:
        text: as in a sentence, in singular or in the ``-ing`` form.
        tree: all terms of the tree, each before its children.
        children: the next more specific terms.
        parent, ancestors: the next and all more general terms, the next first.
        root: the most general term of the tree.
    """

    def __init__(self, text: str, parent: Term | None, tree: list[Term]) -> None:
        self.text, self.parent, self.tree = text, parent, tree
        self.children: list[Term] = []
        self.ancestors: tuple[Term, ...] = (parent, *parent.ancestors) if parent else ()
        self.root: Term = self.ancestors[-1] if self.ancestors else self
        self.key = len(tree)  # index in the tree
        tree.append(self)
        if parent:
            parent.children.append(self)

    def __repr__(self) -> str:
        return f"Term({self.text!r})"

    @cached_property
    def unrelated(self) -> tuple[Term, ...]:
        """The terms of the tree that neither cover this one nor are covered by it."""
        return tuple(other for other in self.tree if not self.related(other))

    def covers(self, other: Term) -> bool:
        """Return whether ``other`` is this term or more specific."""
        return other is self or self in other.ancestors

    def related(self, other: Term) -> bool:
        """Return whether one of the terms covers the other."""
        return self.covers(other) or other.covers(self)


def _grow(text: str) -> list[Term]:
    """Parse an indented list of terms, with leaves behind a colon; parents come first."""
    terms: list[Term] = []
    branch: list[Term] = []
    for line in dedent(text).strip().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, leaves = line.strip().partition(": ")
        branch[depth:] = [Term(name, branch[depth - 1] if depth else None, terms)]
        for leaf in filter(None, leaves.split(", ")):
            Term(leaf, branch[-1], terms)
    return terms


NOUNS = _grow(
    """
    animal
      four-legged animal
        dog: poodle, beagle, golden retriever
        cat: tabby, siamese cat, fluffy house cat
        horse: pony, stallion, heavy cart horse
      winged animal
        song bird: robin, finch, wren
        owl: barn owl, snowy owl
        duck: mallard, teal, common wood duck
    person
      stage performer
        musician: violinist, drummer, jazz piano player
        singer: soprano, tenor, opera star
      medical worker
        doctor: surgeon, dentist, heart specialist
        nurse: midwife, night nurse, head nurse
      young person
        child: toddler, school boy, little girl
        student: freshman, apprentice, high school pupil
      athlete
        runner: sprinter, marathon runner
        fighter: boxer, wrestler, karate black belt
    """
)

PLURALS = {"person": "people", "child": "children", "midwife": "midwives", "freshman": "freshmen",
           "finch": "finches"}  # fmt: skip

VERBS = _grow(
    """
    in motion
      running: sprinting, jogging, racing along at full speed
      walking: strolling, limping, marching along
      jumping: leaping, hopping, bouncing around
    at rest
      sleeping: napping, dozing, snoring away
      sitting down: squatting, kneeling, crouching on the floor
    making a noise
      singing: humming, chanting, crooning softly
      shouting: yelling, screaming, calling out loud
      laughing: giggling, chuckling, cackling with joy
    having something
      eating: nibbling, munching, gobbling up food
      drinking: sipping, gulping, slurping some water
    """
)

PLACES = _grow(
    """
    indoors
      inside a house: in a kitchen, in an attic, in a cellar
      in a clinic: in a ward, in the waiting room, in a lab
      inside some public building: in a museum, in a theater, in a library
    out in the open
      in the countryside: in a meadow, in an orchard, on a farm
      by the sea: on a beach, on a pier, near the harbor wall
      outside in town: on a street, in a square, at a bus stop
    """
)

TIMES = _grow(
    """
    during the day
      in the morning: at dawn, at breakfast time
      after noon: at tea time, at two
    when it is dark
      in the evening: at nightfall, at bed time
      late at night: at midnight, in the small hours
    """
)

MANNERS = ("again", "nearby", "gladly", "today", "for fun", "as usual")

SCALES = (
    ("", "big", "huge", "tiny", "small"),
    ("", "brave", "fearless", "terrified", "shy"),
    ("", "happy", "thrilled", "miserable", "sad"),
    ("", "wet", "soaked", "parched", "dry"),
    ("", "clean", "spotless", "filthy", "dirty"),
    ("", "calm", "serene", "furious", "angry"),
    ("", "strong", "mighty", "feeble", "weak"),
    ("", "pretty", "gorgeous", "hideous", "ugly"),
)
"""Scales of antonyms, indexed by degree: 1 big, 2 huge, -1 small, -2 tiny."""

NUMBERS = ("zero", "one", "two", "three", "four", "five")


@cache
def plural(noun: str) -> str:
    """Return the plural of a noun phrase whose last word is its head."""
    *before, head = noun.split()
    return " ".join([*before, PLURALS.get(head, head + "s")])


class Determiner(StrEnum):
    """The determiner of the subject, on which the monotonicity of both arguments depends."""

    SOME = "a"
    EXACTLY = "exactly"
    AT_LEAST = "at least"
    NO = "no"
    AT_MOST = "at most"
    EVERY = "every"


class Frame(Enum):
    """The order of a sentence's parts, which does not change its meaning."""

    PLAIN = 0  # a poodle is sprinting in a kitchen at dawn
    FRONTED = 1  # in a kitchen at dawn a poodle is sprinting
    EXISTENTIAL = 2  # there is a poodle sprinting in a kitchen at dawn


class Sentence(NamedTuple):
    """A structured sentence about a scene.

    A scene has at most one group of animals and one of people, each of one kind, and one activity
    of them all. As in SNLI, premise and hypothesis describe the same event, so that "a poodle is
    running" and "a dog is sleeping" contradict each other.

    Attributes:
        determiner: determiner of the subject.
        nouns, verbs: one of each, or two joined by "or".
        number: number with EXACTLY, AT_LEAST and AT_MOST.
        adjectives: (scale, degree) of the subject's adjectives, at most one of each scale.
        companion: another noun, joined by "and" (with SOME only).
        negated: whether the verb is negated by "is not" (with SOME only).
        place, time, manner: modifiers of the verb.
        frame: order of the parts.
    """

    determiner: Determiner
    nouns: tuple[Term, ...]
    verbs: tuple[Term, ...]
    number: int = 1
    adjectives: tuple[tuple[int, int], ...] = ()
    companion: Term | None = None
    negated: bool = False
    place: Term | None = None
    time: Term | None = None
    manner: str | None = None
    frame: Frame = Frame.PLAIN

    @property
    def subject_upward(self) -> bool:
        """Whether a more general subject makes the sentence weaker."""
        return self.determiner in _UPWARD_SUBJECT

    @property
    def predicate_upward(self) -> bool:
        """Whether a more general predicate makes the sentence weaker."""
        return self.determiner in _UPWARD_PREDICATE and not self.negated

    def frames(self) -> tuple[Frame, ...]:
        """Return the frames in which the sentence is grammatical and unambiguous."""
        if self.negated or self.determiner is Determiner.EVERY:
            return (Frame.PLAIN,)
        if self.place is None and self.time is None:
            return Frame.PLAIN, Frame.EXISTENTIAL
        return _FRAMES

    def text(self) -> str:
        """Return the sentence in lower case, without a full stop."""
        subject, many = self._subject()
        verb = " or ".join(verb.text for verb in self.verbs)
        where = [term.text for term in (self.place, self.time) if term is not None]
        manner = [self.manner] if self.manner else []
        copula = "are" if many else "is"
        if self.negated:
            copula += " not"
        if self.frame is Frame.FRONTED:
            return " ".join([*where, subject, copula, verb, *manner])
        if self.frame is Frame.EXISTENTIAL:
            return " ".join(["there", copula, subject, verb, *manner, *where])
        return " ".join([subject, copula, verb, *manner, *where])

    def words(self) -> int:
        """Return the number of words of the text."""
        return self.text().count(" ") + 1

    def _subject(self) -> tuple[str, bool]:
        """Return the subject with its determiner, and whether the verb is plural."""
        kind, words = self.determiner, [SCALES[s][d] for s, d in self.adjectives]
        many = kind in _COUNTED and self.number != 1
        names = [plural(noun.text) if many else noun.text for noun in self.nouns]
        if kind is Determiner.SOME:
            first, *rest = (" ".join([*words, name]) for name in names)
            text = " or ".join(map(_with_article, [first, *rest]))
            if self.companion is None:
                return text, False
            return f"{text} and {_with_article(self.companion.text)}", True
        opening = kind.value if kind is not Determiner.EXACTLY else ""
        number = NUMBERS[self.number] if kind in _COUNTED else ""
        return " ".join(filter(None, [opening, number, *words, " or ".join(names)])), many


_FRAMES = tuple(Frame)
_UPWARD_SUBJECT = {Determiner.SOME, Determiner.EXACTLY, Determiner.AT_LEAST}
_UPWARD_PREDICATE = {*_UPWARD_SUBJECT, Determiner.EVERY}
_COUNTED = {Determiner.EXACTLY, Determiner.AT_LEAST, Determiner.AT_MOST}


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
