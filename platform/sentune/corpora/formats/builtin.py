"""``builtin:NAME``: the corpora that the package makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sentune.corpora.formats import (
    builtin_nli,
    builtin_operations,
    builtin_stories,
    operations,
    seeded,
)
from sentune.corpora.formats.reading import Log, Row
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


NAMES: dict[str, Builtin] = {
    "nli": Builtin(
        readers={Kind.TRIPLETS: builtin_nli.triplets, Kind.LABELLED_PAIRS: builtin_nli.pairs},
        what="inference in English",
    ),
    "operations": Builtin(
        readers={Kind.OPERATIONS: builtin_operations.operations},
        options=operations.OPTION,
        what="fusion, difference, compression and reconstruction of short sentences",
    ),
    "scenes": Builtin(
        readers={Kind.SCORED_PAIRS: builtin_operations.scenes},
        what="pairs of such sentences, scored by what they share",
    ),
    "stories": Builtin(
        readers={
            Kind.ADJACENT_SENTENCES: builtin_stories.adjacent,
            Kind.SENTENCES: builtin_stories.sentences,
        },
        what="ordered sentences of little stories",
    ),
    "similarity": Builtin(
        readers={Kind.SCORED_PAIRS: builtin_stories.similarity},
        what="pairs of such sentences, scored by what they share",
    ),
}

OPTIONS = seeded.OPTIONS | {
    option: meaning for made in NAMES.values() for option, meaning in made.options.items()
}
WHAT = "seeded generators: " + ", ".join(f"builtin:{n} ({m.what})" for n, m in NAMES.items())


def readers(spec: Spec) -> Readers:
    """The kinds that the named corpus gives.

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
