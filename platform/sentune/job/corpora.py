"""Reads, describes and prints the corpora of a job, and checks them for overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

from rich.console import Console

from sentune.corpora.formats import kinds_of, read
from sentune.corpora.formats.spec import allow_bad_rows
from sentune.corpora.overlap import local_file, same_rows, shared_rows
from sentune.corpora.prepare import Prepared
from sentune.corpora.ray_map import in_turn
from sentune.corpora.schema import Corpus, Kind, left_out
from sentune.errors import InvalidValue
from sentune.formatting import counted
from sentune.job.options import AnyOptions, StudyOptions
from sentune.study.config import StudyConfig, objectives_of
from sentune.study.space.space import SearchSpace
from sentune.tasks import (
    LEFT_OUT,
    check_posed,
    judged_rows,
    kind_of,
    of_task,
    read_selected,
    task_and_corpus,
)
from sentune.tasks.own import TASKS, find_own
from sentune.terminal import print_line

Rows: TypeAlias = tuple[str, Kind, Any]
"""A corpus as (``FORMAT:PATH``, kind, shards or batches of rows)."""

SMALL = 100_000
"""Training corpora of up to this many rows are read twice, to warn of overlap early."""

STORED = 1_000
"""Number n of the references stored with a model if no task has chosen one: 3,000 sentences, which
a BERT of 6 layers embeds in half a minute on a CPU."""


def check_tasks(options: StudyOptions) -> None:
    """Check the tasks named in ``--dev`` and ``--test``, and register user code for workers.

    Raises:
        InvalidValue: a task is unknown.
    """
    for option, specs in (("--dev", options.dev), ("--test", options.test)):
        for task, _ in filter(all, map(task_and_corpus, specs)):
            kind_of(task, option)


def check_measured(dev: Sequence[Corpus], config: StudyConfig, space: SearchSpace) -> None:
    """Check that the development corpora have the tasks of all objectives and constraints.

    Raises:
        InvalidValue: none has the task of an objective or constraint; lists the tasks they have.
    """
    metrics = [objective.metric for objective in objectives_of(config, space)]
    check_posed("--objective", metrics, dev)
    check_posed("--constraint", [limit.metric for limit in config.constraints], dev)


def refuse_equal_corpora(options: StudyOptions) -> None:
    """Refuse a corpus that is given to two of ``--corpus``, ``--dev`` and ``--test``.

    A corpus with a test split may be given to both ``--dev`` and ``--test``, because only
    ``--test`` reads that split.

    Raises:
        InvalidValue: names both options and says why the corpora are equal.
    """
    if options.allow_overlap:
        return
    roles = {"--corpus": options.corpora, "--dev": options.dev, "--test": options.test}
    for one, other in combinations(roles, 2):
        for first, second in product(filter(None, roles[one]), roles[other]):
            why = same_rows(_as_task(first), _as_task(second))
            apart = (one, other) == ("--dev", "--test") and why and _has_test_split(second)
            if why and not apart:
                fix = (
                    f"{why} as in {one} {first}, which would bias the result; name another corpus, "
                    "other rows of it (?rows=A:B), or give --allow-overlap"
                )
                raise InvalidValue(other, second, fix)


def _as_task(text: str) -> str:
    """Return ``FORMAT:PATH`` of ``TASK=FORMAT:PATH``, with the task's own selection of rows."""
    task, spec = task_and_corpus(text)
    return of_task(spec, task)


def _has_test_split(text: str) -> bool:
    """Return whether a corpus has rows that ``--dev`` leaves out for ``--test``."""
    split = {Kind.CLASSIFIED, Kind.RELATED} & set(kinds_of(_as_task(text)))
    return bool(split) and LEFT_OUT in read_selected(text).counts


def with_bad_rows(specs: Sequence[str], most: str | None) -> tuple[str, ...]:
    """Return corpus specifications with ``--bad-rows`` added, unless they set their own number.

    Built-in corpora have no bad rows and stay as they are.
    """
    return tuple(
        allow_bad_rows(spec, most)
        if most and spec and not task_and_corpus(spec)[1].startswith("builtin:")
        else spec
        for spec in specs
    )


def read_corpora_of(options: AnyOptions) -> AnyOptions:
    """Return the options with ``--bad-rows`` added to training, dev and reference corpora."""
    named: dict[str, Any] = {}
    for name in {"corpus", "dev", "references"} & type(options).model_fields.keys():
        given = getattr(options, name)
        if isinstance(given, str):
            (named[name],) = with_bad_rows((given,), options.bad_rows)
        elif given:
            named[name] = with_bad_rows(given, options.bad_rows)
    return options.model_copy(update=named)


def modules_of(corpora: Sequence[Corpus]) -> list[str]:
    """Return the modules of the user-defined tasks of these corpora."""
    own = {corpus.task for corpus in corpora} - {"", *TASKS}
    return sorted(find_own(task).__module__ for task in own)


def needs_references(corpora: Sequence[Corpus]) -> bool:
    """Return whether a task of these corpora needs interpretations, hence references."""
    return any(c.kind in (Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS) for c in corpora)


def numbered(role: str, index: int) -> str:
    """Return the name of the nth corpus of a role: ``dev``, ``dev-2``, ``dev-3``."""
    return role if index == 0 else f"{role}-{index + 1}"


def identity_of(corpus: Mapping[str, Any]) -> str:
    """Return task, fingerprint and prior of a corpus, on which results depend, as one key."""
    return "=".join(filter(None, map(corpus.get, ("task", "fingerprint", "prior"))))


def print_corpora(corpora: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print one line per corpus with its role, and a warning if the corpus has bad rows."""
    for role, corpus in corpora.items():
        line = f"{role:<7} {corpus['spec']}: {corpus['rows']:,} {corpus['kind'].replace('-', ' ')}"
        print_line(console, line)
        if warning := left_out(corpus):
            print_line(console, f"warning: {role}: {warning}", "yellow")


def small_corpora(options: StudyOptions, kind: Kind) -> list[Rows] | None:
    """Return the training corpora if all are local files of at most ``SMALL`` rows, else None."""
    if any(local_file(spec) is None for spec in options.corpora):
        return None
    found: list[Rows] = []
    for spec in options.corpora:
        table = read(spec, kind, limit=min(options.limit or SMALL + 1, SMALL + 1)).table
        if table.num_rows > SMALL:
            return None
        found.append((spec, kind, table.to_batches()))
    return found


def prepared_corpora(sources: Mapping[str, Prepared]) -> list[Rows]:
    """Return the training corpora among the prepared corpora of a job, which are keyed by role."""
    trained = [corpus for name, corpus in sources.items() if name.startswith("corpus")]
    return [(corpus.spec, corpus.kind, corpus.cached) for corpus in trained]


def print_overlap(
    trained: Sequence[Rows], dev: Sequence[Corpus], test: Sequence[Corpus], console: Console
) -> None:
    """Warn of rows of dev corpora in training corpora, and of test corpora in either.

    ``test`` is empty if an earlier start has read these corpora.
    """
    for role, corpora in (("dev", dev), ("test", test)):
        for index, corpus in enumerate(corpora):
            others, judged = list(trained), corpus
            if role == "test":
                judged = judged_rows(corpus)
                others += [(c.spec, c.kind, c.table.to_batches()) for c in dev]
            for spec, kind, parts in others:
                found = shared_rows(judged, kind, parts, spread=in_turn)
                shared = f"{numbered(role, index)}: {found.rows:,} of {found.of:,} rows"
                if found.rows:
                    also = f"are also in {spec} ({counted(found.compared, 'row')})"
                    print_line(console, f"warning: {shared} {also}", "yellow")
