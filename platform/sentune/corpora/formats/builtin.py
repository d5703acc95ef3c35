"""``builtin:NAME``: the corpora that the package makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from sentune.corpora.builtin import derivations, triplets
from sentune.corpora.builtin.operations import operations as generated_operations
from sentune.corpora.builtin.operations import scene_pairs
from sentune.corpora.builtin.stories import adjacent, story_pairs
from sentune.corpora.formats import operations, select
from sentune.corpora.formats.reading import Log, Reader, Readers, Row
from sentune.corpora.formats.spec import FIELD, Spec, check_options
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue

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


def _scored(pairs: Callable[[str, int], Iterator[tuple[str, str, float]]]) -> Reader:
    """Return the reader of scored pairs, which belong to no subset."""
    return partial(_counted, lambda *made: ((*row, None) for row in pairs(*made)), SMALL)


NAMES: dict[str, Readers] = {
    "nli": {
        Kind.TRIPLETS: partial(_counted, triplets, MEDIUM),
        Kind.LABELLED_PAIRS: partial(_counted, _labelled_pairs, MEDIUM),
    },
    "operations": {Kind.OPERATIONS: _operations},
    "scenes": {Kind.SCORED_PAIRS: _scored(scene_pairs)},
    "stories": {Kind.ADJACENT_SENTENCES: _adjacent, Kind.SENTENCES: _sentences},
    "similarity": {Kind.SCORED_PAIRS: _scored(story_pairs)},
}

OPTIONS = _OPTIONS | operations.OPTION


def readers(spec: Spec) -> Readers:
    """Return the kinds that the named corpus gives; refuse an option of another one."""
    if spec.path not in NAMES:
        names = ", ".join(f"builtin:{name}" for name in NAMES)
        raise InvalidValue(FIELD, spec.text, f"the built-in corpora are {names}")
    options = {option: value for option, value in spec.options.items() if option in OPTIONS}
    own = OPTIONS if spec.path == "operations" else _OPTIONS
    check_options(replace(spec, options=options), own)
    return NAMES[spec.path]
