"""The words of ``builtin:nli``: trees of terms from general to specific, and antonyms.

A general term is sometimes longer than a specific one ("poodle", "four-legged animal"),
sometimes shorter ("golden retriever", "dog"), so that length says nothing about generality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from textwrap import dedent


@dataclass(eq=False)
class Term:
    """A word or phrase in a tree, as it stands in a sentence (singular; ``-ing`` form of a verb).

    The parent is the next more general term, the children are more specific ones; ``tree`` has all
    terms, each before its children.
    """

    text: str
    parent: Term | None
    tree: list[Term] = field(repr=False)
    children: list[Term] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ancestors: tuple[Term, ...] = (
            () if self.parent is None else (self.parent, *self.parent.ancestors)
        )
        self.root: Term = self.ancestors[-1] if self.ancestors else self
        self.key = len(self.tree)  # number in the tree
        self.tree.append(self)
        if self.parent is not None:
            self.parent.children.append(self)

    def __repr__(self) -> str:
        return f"Term({self.text!r})"

    @cached_property
    def unrelated(self) -> tuple[Term, ...]:
        """The terms of the tree that neither cover this one nor are covered by it."""
        return tuple(other for other in self.tree if not self.related(other))

    def covers(self, other: Term) -> bool:
        """Return whether every ``other`` is one of these."""
        return other is self or self in other.ancestors

    def related(self, other: Term) -> bool:
        """Return whether one covers the other."""
        return self.covers(other) or other.covers(self)


@dataclass(frozen=True)
class Scale:
    """A pair of antonyms, each with its stronger form: huge > big | small > tiny."""

    plus: str
    very_plus: str
    minus: str
    very_minus: str

    def word(self, degree: int) -> str:
        """Return the word for a degree: 2 very plus, 1 plus, -1 minus, -2 very minus."""
        return {2: self.very_plus, 1: self.plus, -1: self.minus, -2: self.very_minus}[degree]


def _grow(text: str) -> list[Term]:
    """Return the terms of an indented list, each before its children, leaves behind a colon."""
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
    Scale("big", "huge", "small", "tiny"),
    Scale("brave", "fearless", "shy", "terrified"),
    Scale("happy", "thrilled", "sad", "miserable"),
    Scale("wet", "soaked", "dry", "parched"),
    Scale("clean", "spotless", "dirty", "filthy"),
    Scale("calm", "serene", "angry", "furious"),
    Scale("strong", "mighty", "weak", "feeble"),
    Scale("pretty", "gorgeous", "ugly", "hideous"),
)

NUMBERS = ("zero", "one", "two", "three", "four", "five")


def plural(noun: str) -> str:
    """Return the plural of a noun phrase whose last word is its head."""
    *before, head = noun.split()
    return " ".join([*before, PLURALS.get(head, head + "s")])
