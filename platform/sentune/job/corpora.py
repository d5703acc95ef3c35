"""The corpora that a job selects on and tests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sentune.corpora.formats import read_pairs
from sentune.corpora.schema import Corpus, Kind
from sentune.job.options import StudyOptions

STORED = 1_000
"""n of the references that go with a model where no task has chosen one: 3,000 sentences, half a
minute for a BERT of 6 layers on a CPU."""


def describe(corpus: Corpus) -> dict[str, Any]:
    """Return a corpus as it stands in the summary."""
    return {
        "spec": corpus.spec,
        "fingerprint": corpus.fingerprint,
        "rows": corpus.table.num_rows,
        "kind": corpus.kind.value,
        "counts": dict(corpus.counts),
    }


def needs_references(corpora: Sequence[Corpus]) -> bool:
    """Return whether a task of these corpora asks for interpretations."""
    return any(c.kind in (Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS) for c in corpora)


def numbered(role: str, index: int) -> str:
    """Return the name of the nth corpus of a role: ``dev``, ``dev-2``, ``dev-3``."""
    return role if index == 0 else f"{role}-{index + 1}"


def dev_corpora(
    options: StudyOptions, builtin: Sequence[str], prefer: Kind | None = None
) -> tuple[Corpus, ...]:
    """Read ``--dev``, else the dev split of what ships with the package."""
    return read_evaluation(options.dev or [f"{name}?split=dev" for name in builtin], prefer)


def read_evaluation(specs: Sequence[str], prefer: Kind | None = None) -> tuple[Corpus, ...]:
    """Read corpora of pairs; of a format with several kinds the preferred one, else labels."""
    return tuple(read_pairs(spec, prefer=prefer) for spec in specs)
