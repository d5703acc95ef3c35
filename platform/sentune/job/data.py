"""The corpora of a job: what each role reads, and what rules without a model reach on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sentune.corpora.formats import read, read_pairs
from sentune.corpora.schema import Corpus
from sentune.errors import InvalidValue
from sentune.job.options import JobOptions
from sentune.methods import REGISTRY

BUILTIN = "builtin:nli"


@dataclass(frozen=True, kw_only=True)
class Corpora:
    """What a study trains on and selects on. The test corpora are not read before its end."""

    train: Corpus
    dev: tuple[Corpus, ...]

    def described(self) -> dict[str, dict[str, Any]]:
        """Role -> what was read, as it stands in the summary."""
        roles = {"corpus": self.train}
        roles |= {_numbered("dev", i): corpus for i, corpus in enumerate(self.dev)}
        return {role: describe(corpus) for role, corpus in roles.items()}

    def sentences(self) -> Iterator[str]:
        """The sentences of the training corpus, for a tokenizer to learn its words from."""
        for column in self.train.table.itercolumns():
            yield from column.to_pylist()


def describe(corpus: Corpus) -> dict[str, Any]:
    """A corpus as it stands in the summary."""
    return {
        "spec": corpus.spec,
        "fingerprint": corpus.fingerprint,
        "rows": corpus.table.num_rows,
        "kind": corpus.kind.value,
        "counts": dict(corpus.counts),
    }


def _numbered(role: str, index: int) -> str:
    return role if index == 0 else f"{role}-{index + 1}"


def read_corpora(options: JobOptions, method: str) -> Corpora:
    """Reads ``--corpus`` and ``--dev``.

    Raises:
        CorpusError, InvalidValue: what cannot be read, with file and line or option.
    """
    train = read(options.corpus, REGISTRY[method].kind, limit=options.limit)
    if not train.table.num_rows:
        raise InvalidValue("--corpus", options.corpus, "it has no row to train on")
    return Corpora(train=train, dev=read_evaluation(options.dev or default_specs("dev")))


def default_specs(role: str) -> tuple[str, ...]:
    """The builtin corpus's split of that role."""
    return (f"{BUILTIN}?split={role}",)


def test_specs(options: JobOptions) -> tuple[str, ...]:
    """``--test``; where everything else is builtin, so is the test set."""
    if options.test or not options.corpus.startswith(BUILTIN) or options.dev:
        return options.test
    return default_specs("test")


def read_evaluation(specs: Sequence[str]) -> tuple[Corpus, ...]:
    """Labelled pairs where the format has them, else scored pairs."""
    return tuple(read_pairs(spec) for spec in specs)
