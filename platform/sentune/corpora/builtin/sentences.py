"""The structured form of a sentence of ``builtin:nli``, and its English."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sentune.corpora.builtin.lexicon import NUMBERS, SCALES, Term, plural


class Determiner(Enum):
    """How many. Members differ in which way their two arguments are monotone."""

    SOME = "a"
    EXACTLY = "exactly"
    AT_LEAST = "at least"
    NO = "no"
    AT_MOST = "at most"
    EVERY = "every"


class Frame(Enum):
    """The order of the parts, which changes nothing in meaning."""

    PLAIN = 0  # a poodle is sprinting in a kitchen at dawn
    FRONTED = 1  # in a kitchen at dawn a poodle is sprinting
    EXISTENTIAL = 2  # there is a poodle sprinting in a kitchen at dawn


class Sentence(NamedTuple):
    """A sentence about a scene.

    A scene has at most one group of animals and one of people, each of one sort, and one thing
    that they all do. As in SNLI, premise and hypothesis tell of the same event, which makes "a
    poodle is running" and "a dog is sleeping" a contradiction.

    Attributes:
        determiner: how many of the subject.
        nouns, verbs: one of each, or two joined by "or".
        number: of EXACTLY, AT_LEAST and AT_MOST.
        adjectives: (scale, degree) of the subject, at most one of each scale.
        companion: another noun, joined by "and" (after SOME only).
        negated: "is not" (after SOME only).
        place, time, manner: modifiers of what is done.
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
        """Whether a more general subject makes a weaker sentence."""
        return self.determiner in _UPWARD_SUBJECT

    @property
    def predicate_upward(self) -> bool:
        """Whether a more general predicate makes a weaker sentence."""
        return self.determiner in _UPWARD_PREDICATE and not self.negated

    def frames(self) -> tuple[Frame, ...]:
        """Return the frames in which this sentence is English and has one reading."""
        if self.negated or self.determiner is Determiner.EVERY:
            return (Frame.PLAIN,)
        if self.place is None and self.time is None:
            return Frame.PLAIN, Frame.EXISTENTIAL
        return tuple(Frame)

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
        return len(self.text().split())

    def _subject(self) -> tuple[str, bool]:
        """Return the subject with its determiner, and whether the verb is plural."""
        kind, words = self.determiner, [SCALES[s].word(d) for s, d in self.adjectives]
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


_UPWARD_SUBJECT = {Determiner.SOME, Determiner.EXACTLY, Determiner.AT_LEAST}
_UPWARD_PREDICATE = {*_UPWARD_SUBJECT, Determiner.EVERY}
_COUNTED = {Determiner.EXACTLY, Determiner.AT_LEAST, Determiner.AT_MOST}


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
