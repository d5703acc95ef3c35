"""The format ``builtin``: corpora that the package generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from sentune.corpora.builtin.generate import derivations, triplets
from sentune.corpora.builtin.operations import operations as generated_operations
from sentune.corpora.builtin.operations import scene_pairs
from sentune.corpora.builtin.stories import adjacent, story_pairs
from sentune.corpora.formats import operations, select
from sentune.corpora.formats.reading import Log, Reader, Readers, Row
from sentune.corpora.formats.spec import FIELD, Spec, check_options
from sentune.corpora.schema import OPERATIONS, Kind
from sentune.errors import InvalidValue

LARGE = {"train": 100_000, "dev": 1_000, "test": 1_000}
MEDIUM = {"train": 30_000, "dev": 2_000, "test": 2_000}
SMALL = {"train": 1_000, "dev": 1_000, "test": 1_000}
"""Default number of rows of each split."""

_OPTIONS = {
    "split": "train, dev or test; default train",
    "size": "rows; each built-in corpus has its own default",
    "seed": "an integer; default 0",
}


def _counted(
    generate: Callable[[str, int], Iterator[Row]], sizes: Mapping[str, int], spec: Spec, log: Log
) -> Iterator[Row]:
    """Yield the first ``size`` generated rows of the split and seed that the options name."""
    split, seed = spec.choice("split", "train", sizes), spec.integer("seed", 0, minimum=0)
    size = spec.integer("size", sizes[split], minimum=1)
    for row in islice(generate(split, seed), size):
        log.counts["read"] += 1
        yield row


def _labelled_pairs(split: str, seed: int) -> Iterator[Row]:
    """Yield three pairs of each premise, one of each label."""
    for made in derivations(split, seed):
        premise, reverse = made.premise.text(), "entailment" if made.neutral_entails else "neutral"
        yield premise, made.entailment.text(), "entailment", "neutral"
        yield premise, made.neutral.text(), "neutral", reverse
        yield premise, made.contradiction.text(), "contradiction", "contradiction"


def _operations(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield rows of the chosen operations in turn, ``size`` in all."""
    chosen = spec.some_of("operations", OPERATIONS) or OPERATIONS
    made = partial(generated_operations, chosen=chosen)
    return _counted(made, LARGE, spec, log)


_adjacent = partial(_counted, adjacent, MEDIUM)


def _sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the distinct sentences of ``size`` pairs."""
    return select.sentences(_adjacent(spec, log), (0, 1))


def _scored(pairs: Callable[[str, int], Iterator[tuple[str, str, float]]]) -> Reader:
    """Return the reader of generated scored pairs, whose subset is null."""
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
    """Return the readers of the named corpus; refuse options that belong to another one."""
    if spec.path not in NAMES:
        names = ", ".join(f"builtin:{name}" for name in NAMES)
        raise InvalidValue(FIELD, spec.text, f"the built-in corpora are {names}")
    options = {option: value for option, value in spec.options.items() if option in OPTIONS}
    own = OPTIONS if spec.path == "operations" else _OPTIONS
    check_options(replace(spec, options=options), own)
    return NAMES[spec.path]
