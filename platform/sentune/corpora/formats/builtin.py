"""``builtin:NAME``: the corpora that the package makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from sentune.corpora.builtin import derivations, triplets
from sentune.corpora.builtin.operations import operations as generated_operations
from sentune.corpora.builtin.operations import scene_pairs
from sentune.corpora.builtin.stories import adjacent, story_pairs
from sentune.corpora.formats import operations, select
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.spec import FIELD, Spec, check_options
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue

Readers = Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]

LARGE = {"train": 100_000, "dev": 1_000, "test": 1_000}
MEDIUM = {"train": 30_000, "dev": 2_000, "test": 2_000}
SMALL = {"train": 1_000, "dev": 1_000, "test": 1_000}
"""Rows of each split where ``size`` is not given."""

_OPTIONS = {
    "split": "train, dev or test; default train",
    "size": "rows; each built-in corpus has its own default",
    "seed": "an integer; default 0",
}


def _counted(
    generate: Callable[[str, int], Iterator[Row]], sizes: Mapping[str, int], spec: Spec, log: Log
) -> Iterator[Row]:
    """As many rows of a split and seed as are asked for, counted as read."""
    split, seed = spec.choice("split", "train", sizes), spec.integer("seed", 0, minimum=0)
    size = spec.integer("size", sizes[split], minimum=1)
    for row in islice(generate(split, seed), size):
        log.counts["read"] += 1
        yield row


def _labelled_pairs(split: str, seed: int) -> Iterator[Row]:
    """Three pairs of each premise, so that labels are balanced."""
    for made in derivations(split, seed):
        premise, reverse = made.premise.text(), "entailment" if made.neutral_entails else "neutral"
        yield premise, made.entailment.text(), "entailment", "neutral"
        yield premise, made.neutral.text(), "neutral", reverse
        yield premise, made.contradiction.text(), "contradiction", "contradiction"


def _operations(spec: Spec, log: Log) -> Iterator[Row]:
    """The operations that are asked for, in turn; ``size`` counts the rows of all together."""
    made = partial(generated_operations, chosen=operations.chosen_operations(spec))
    return _counted(made, LARGE, spec, log)


_adjacent = partial(_counted, adjacent, MEDIUM)


def _sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """The distinct sentences of ``size`` pairs."""
    return select.sentences(_adjacent(spec, log), (0, 1))


def _unsorted(
    pairs: Callable[[str, int], Iterator[tuple[str, str, float]]], split: str, seed: int
) -> Iterator[Row]:
    """Scored pairs of sentences, which belong to no subset."""
    return ((*row, None) for row in pairs(split, seed))


class Builtin(NamedTuple):
    """A built-in corpus.

    Attributes:
        readers: the kinds that it gives and how to make them.
        options: its own options with their meaning, beside those of all.
    """

    readers: Readers
    options: Mapping[str, str] = {}


NAMES: dict[str, Builtin] = {
    "nli": Builtin(
        {
            Kind.TRIPLETS: partial(_counted, triplets, MEDIUM),
            Kind.LABELLED_PAIRS: partial(_counted, _labelled_pairs, MEDIUM),
        },
    ),
    "operations": Builtin(
        {Kind.OPERATIONS: _operations},
        operations.OPTION,
    ),
    "scenes": Builtin(
        {Kind.SCORED_PAIRS: partial(_counted, partial(_unsorted, scene_pairs), SMALL)},
    ),
    "stories": Builtin(
        {Kind.ADJACENT_SENTENCES: _adjacent, Kind.SENTENCES: _sentences},
    ),
    "similarity": Builtin(
        {Kind.SCORED_PAIRS: partial(_counted, partial(_unsorted, story_pairs), SMALL)},
    ),
}

OPTIONS = _OPTIONS | {
    option: meaning for made in NAMES.values() for option, meaning in made.options.items()
}


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
    check_options(replace(spec, options=options), {**_OPTIONS, **made.options})
    return made.readers
