"""Whether what a job trains on, selects on and tests on is apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from rich.console import Console

from sentune.corpora.overlap import same_rows, shared_rows
from sentune.corpora.schema import Corpus
from sentune.errors import InvalidValue
from sentune.job.corpora import numbered
from sentune.job.options import StudyOptions
from sentune.tasks import task_and_corpus
from sentune.terminal import print_line

if TYPE_CHECKING:
    from sentune.job.families.base import JobFamily


def refuse_equal_corpora(options: StudyOptions) -> None:
    """Refuse a corpus that stands in two of ``--corpus``, ``--dev`` and ``--test``.

    Raises:
        InvalidValue: names both options, and why the corpora are one.
    """
    if options.allow_overlap:
        return
    roles = {"--corpus": options.corpora, "--dev": options.dev, "--test": options.test}
    for one, other in combinations(roles, 2):
        for first in filter(None, roles[one]):
            for second in roles[other]:
                if why := same_rows(task_and_corpus(first)[1], task_and_corpus(second)[1]):
                    fix = (
                        f"{why} as in {one} {first}: a result on it would say little; name another "
                        "corpus, other rows of it (?rows=A:B), or give --allow-overlap"
                    )
                    raise InvalidValue(other, second, fix)


def print_overlap(job: JobFamily, test: Sequence[Corpus], console: Console) -> None:
    """Print a warning for each corpus of which rows stand in one that is read before it, too.

    Args:
        job: prepared.
        test: its test corpora; empty where they have been read before.
    """
    judged = _roles("dev", job.dev)
    for role, corpus in [*judged, *_roles("test", test)]:
        trained = (c for role, c in job.sources.items() if role.startswith("corpus"))
        others = [(c.spec, c.kind, c.batches()) for c in trained]
        if role.startswith("test"):
            others += [(c.spec, c.kind, iter(c.table.to_batches())) for c in job.dev]
        for spec, kind, batches in others:
            found = shared_rows(corpus, kind, batches)
            if found.rows:
                line = (
                    f"warning: {role}: {found.rows:,} of {found.of:,} rows stand in {spec}, too "
                    f"({found.compared:,} of its rows were compared)"
                )
                print_line(console, line, "yellow")


def _roles(role: str, corpora: Sequence[Corpus]) -> list[tuple[str, Corpus]]:
    return [(numbered(role, index), corpus) for index, corpus in enumerate(corpora)]
