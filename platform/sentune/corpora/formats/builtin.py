"""``builtin:NAME``: the corpora that the package makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sentune.corpora.builtin import groups, triplets
from sentune.corpora.builtin.operations import operations as generated_operations
from sentune.corpora.builtin.scenes import pairs as scene_pairs
from sentune.corpora.builtin.similarity import pairs as story_pairs
from sentune.corpora.builtin.stories import adjacent
from sentune.corpora.formats import operations, seeded, select
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.seeded import counted, split_and_seed
from sentune.corpora.formats.spec import FIELD, Spec, check_options
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue

Readers = Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """A built-in corpus.

    Attributes:
        readers: the kinds that it gives and how to make them.
        what: a few words for people.
        options: its own options with their meaning, beside those of ``seeded``.
    """

    readers: Readers
    what: str
    options: Mapping[str, str] = field(default_factory=dict)


LARGE = {"train": 100_000, "dev": 1_000, "test": 1_000}
MEDIUM = {"train": 30_000, "dev": 2_000, "test": 2_000}
SMALL = {"train": 1_000, "dev": 1_000, "test": 1_000}
"""Rows of each split where ``size`` is not given."""


def _triplets(spec: Spec, log: Log) -> Iterator[Row]:
    """Premise, entailment and contradiction."""
    return counted(spec, log, triplets(*split_and_seed(spec, MEDIUM)), MEDIUM)


def _labelled_pairs(spec: Spec, log: Log) -> Iterator[Row]:
    """Three pairs of each premise, so that labels are balanced."""

    def rows() -> Iterator[Row]:
        for group in groups(*split_and_seed(spec, MEDIUM)):
            yield group.premise, group.entailment, "entailment", "neutral"
            yield group.premise, group.neutral, "neutral", group.neutral_reverse
            yield group.premise, group.contradiction, "contradiction", "contradiction"

    return counted(spec, log, rows(), MEDIUM)


def _operations(spec: Spec, log: Log) -> Iterator[Row]:
    """The operations that are asked for, in turn; ``size`` counts the rows of all together."""
    chosen = operations.chosen_operations(spec)
    return counted(spec, log, generated_operations(*split_and_seed(spec, LARGE), chosen), LARGE)


def _adjacent(spec: Spec, log: Log) -> Iterator[Row]:
    """Pairs of a sentence and the one that follows it; ``size`` counts pairs."""
    return counted(spec, log, adjacent(*split_and_seed(spec, MEDIUM)), MEDIUM)


def _sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """The distinct sentences of ``size`` pairs."""
    return select.sentences(_adjacent(spec, log), (0, 1))


def _scored(
    pairs: Callable[[str, int], Iterator[tuple[str, str, float]]], spec: Spec, log: Log
) -> Iterator[Row]:
    """Scored pairs of sentences, which belong to no subset."""
    rows = ((*row, None) for row in pairs(*split_and_seed(spec, SMALL)))
    return counted(spec, log, rows, SMALL)


NAMES: dict[str, Builtin] = {
    "nli": Builtin(
        readers={Kind.TRIPLETS: _triplets, Kind.LABELLED_PAIRS: _labelled_pairs},
        what="inference in English",
    ),
    "operations": Builtin(
        readers={Kind.OPERATIONS: _operations},
        options=operations.OPTION,
        what="fusion, difference, compression and reconstruction of short sentences",
    ),
    "scenes": Builtin(
        readers={Kind.SCORED_PAIRS: partial(_scored, scene_pairs)},
        what="pairs of such sentences, scored by what they share",
    ),
    "stories": Builtin(
        readers={Kind.ADJACENT_SENTENCES: _adjacent, Kind.SENTENCES: _sentences},
        what="ordered sentences of little stories",
    ),
    "similarity": Builtin(
        readers={Kind.SCORED_PAIRS: partial(_scored, story_pairs)},
        what="pairs of such sentences, scored by what they share",
    ),
}

OPTIONS = seeded.OPTIONS | {
    option: meaning for made in NAMES.values() for option, meaning in made.options.items()
}
WHAT = "seeded generators: " + ", ".join(f"builtin:{n} ({m.what})" for n, m in NAMES.items())


def readers(spec: Spec) -> Readers:
    """Return the kinds that the named corpus gives.

    Raises:
        InvalidValue: there is no such corpus, or an option belongs to another one.
    """
    if spec.path not in NAMES:
        names = ", ".join(f"builtin:{name}" for name in NAMES)
        raise InvalidValue(FIELD, spec.text, f"the built-in corpora are {names}")
    made = NAMES[spec.path]
    options = {option: value for option, value in spec.options.items() if option in OPTIONS}
    check_options(replace(spec, options=options), {**seeded.OPTIONS, **made.options})
    return made.readers
