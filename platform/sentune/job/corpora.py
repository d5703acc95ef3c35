"""The corpora of a job: how they are read, shown, and kept apart from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from rich.console import Console

from sentune.corpora.formats import kinds_of, read
from sentune.corpora.formats.spec import allow_bad_rows
from sentune.corpora.overlap import local_file, same_rows, shared_rows
from sentune.corpora.prepare import Prepared
from sentune.corpora.ray_map import in_turn
from sentune.corpora.schema import Corpus, Kind
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
"""A corpus by its specification, its kind, and its parts: shards or batches of rows."""

SMALL = 100_000
"""Rows of a training corpus up to which it is read once more to tell its overlap early."""

STORED = 1_000
"""n of the references that go with a model where no task has chosen one: 3,000 sentences, half a
minute for a BERT of 6 layers on a CPU."""


def check_tasks(options: StudyOptions) -> None:
    """Check the tasks that ``--dev`` and ``--test`` name; from here on workers get their code.

    Raises:
        InvalidValue: there is no such task; names the option.
    """
    for option, specs in (("--dev", options.dev), ("--test", options.test)):
        for task, _ in filter(all, map(task_and_corpus, specs)):
            kind_of(task, option)


def check_measured(dev: Sequence[Corpus], config: StudyConfig, space: SearchSpace) -> None:
    """Check that development corpora pose the tasks that a study is judged by.

    Raises:
        InvalidValue: an objective or a constraint is of a task that none of them poses; says
            which ones they pose.
    """
    metrics = [objective.metric for objective in objectives_of(config, space)]
    check_posed("--objective", metrics, dev)
    check_posed("--constraint", [limit.metric for limit in config.constraints], dev)


def refuse_equal_corpora(options: StudyOptions) -> None:
    """Refuse a corpus that stands in two of ``--corpus``, ``--dev`` and ``--test``.

    One with a test split may stand in the last two, of which only the last reads that.

    Raises:
        InvalidValue: names both options, and why the corpora are one.
    """
    if options.allow_overlap:
        return
    roles = {"--corpus": options.corpora, "--dev": options.dev, "--test": options.test}
    for one, other in combinations(roles, 2):
        for first in filter(None, roles[one]):
            for second in roles[other]:
                why = same_rows(_as_task(first), _as_task(second))
                apart = (one, other) == ("--dev", "--test") and why and _has_test_split(second)
                if why and not apart:
                    fix = (
                        f"{why} as in {one} {first}: a result on it would say little; name another "
                        "corpus, other rows of it (?rows=A:B), or give --allow-overlap"
                    )
                    raise InvalidValue(other, second, fix)


def _as_task(text: str) -> str:
    """Return ``FORMAT:PATH`` of ``TASK=FORMAT:PATH``, as the task reads it."""
    task, spec = task_and_corpus(text)
    return of_task(spec, task)


def _has_test_split(text: str) -> bool:
    """Return whether ``--dev`` leaves out rows of a corpus, which ``--test`` judges."""
    split = {Kind.CLASSIFIED, Kind.RELATED} & set(kinds_of(_as_task(text)))
    return bool(split) and LEFT_OUT in read_selected(text).counts


def with_bad_rows(specs: Sequence[str], most: str | None) -> tuple[str, ...]:
    """Return ``FORMAT:PATH`` of each with ``--bad-rows``, where it names no other number; what
    ships with the package has no bad row."""
    return tuple(
        allow_bad_rows(spec, most)
        if most and spec and not task_and_corpus(spec)[1].startswith("builtin:")
        else spec
        for spec in specs
    )


def read_corpora_of(options: AnyOptions) -> AnyOptions:
    """Return a job's options with ``--bad-rows`` on the corpora that it trains and selects on."""
    named: dict[str, Any] = {}
    for name in {"corpus", "dev", "references"} & type(options).model_fields.keys():
        given = getattr(options, name)
        if isinstance(given, str):
            (named[name],) = with_bad_rows((given,), options.bad_rows)
        elif given:
            named[name] = with_bad_rows(given, options.bad_rows)
    return options.model_copy(update=named)


def modules_of(corpora: Sequence[Corpus]) -> list[str]:
    """Return the modules of a user's tasks that corpora were given for."""
    own = {corpus.task for corpus in corpora} - {"", *TASKS}
    return sorted(find_own(task).__module__ for task in own)


def needs_references(corpora: Sequence[Corpus]) -> bool:
    """Return whether a task of these corpora asks for interpretations."""
    return any(c.kind in (Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS) for c in corpora)


def numbered(role: str, index: int) -> str:
    """Return the name of the nth corpus of a role: ``dev``, ``dev-2``, ``dev-3``."""
    return role if index == 0 else f"{role}-{index + 1}"


def describe(corpus: Corpus) -> dict[str, Any]:
    """Return a corpus as it stands in the summary."""
    return {
        "spec": f"{corpus.task}={corpus.spec}" if corpus.task else corpus.spec,
        "fingerprint": corpus.fingerprint,
        "rows": corpus.table.num_rows,
        "kind": corpus.kind.value,
        "counts": dict(corpus.counts),
        **({"task": corpus.task} if corpus.task else {}),
        **({"prior": corpus.prior} if corpus.prior else {}),
        **({"first_bad": str(corpus.quarantine[0])} if corpus.quarantine else {}),
    }


def identity_of(corpus: Mapping[str, Any]) -> str:
    """Return what a study is known by of a corpus, as ``describe`` gives it: what its figures
    depend on."""
    return "=".join(filter(None, map(corpus.get, ("task", "fingerprint", "prior"))))


def print_corpora(corpora: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print a line for each corpus (by role, as ``describe`` gives it); warn of bad rows."""
    for role, corpus in corpora.items():
        line = f"{role:<7} {corpus['spec']}: {corpus['rows']:,} {corpus['kind'].replace('-', ' ')}"
        print_line(console, line)
        if first := corpus.get("first_bad"):
            bad = counted(corpus["counts"]["bad"], "bad row")
            print_line(console, f"warning: {role}: {bad} left out, the first: {first}", "yellow")


def small_corpora(options: StudyOptions, kind: Kind) -> list[Rows] | None:
    """Return the training corpora where all are local files of at most ``SMALL`` rows."""
    found: list[Rows] = []
    for spec in options.corpora:
        if local_file(spec) is None:
            return None
        corpus = read(spec, kind, limit=min(options.limit or SMALL + 1, SMALL + 1))
        if corpus.table.num_rows > SMALL:
            return None
        found.append((spec, kind, corpus.table.to_batches()))
    return found


def prepared_corpora(sources: Mapping[str, Prepared]) -> list[Rows]:
    """Return the training corpora among what a job has prepared, by role."""
    trained = [corpus for name, corpus in sources.items() if name.startswith("corpus")]
    return [(corpus.spec, corpus.kind, corpus.cached) for corpus in trained]


def print_overlap(
    trained: Sequence[Rows], dev: Sequence[Corpus], test: Sequence[Corpus], console: Console
) -> None:
    """Print a warning for each corpus of which rows stand in one that is read before it, too.

    Args:
        test: empty where the test corpora have been read before.
    """
    for role, corpora in (("dev", dev), ("test", test)):
        for index, corpus in enumerate(corpora):
            others, judged = list(trained), corpus
            if role == "test":
                judged = judged_rows(corpus)
                others += [(c.spec, c.kind, c.table.to_batches()) for c in dev]
            for spec, kind, parts in others:
                found = shared_rows(judged, kind, parts, spread=in_turn)
                if found.rows:
                    line = (
                        f"warning: {numbered(role, index)}: {found.rows:,} of {found.of:,} "
                        f"rows stand in {spec}, too ({counted(found.compared, 'row')})"
                    )
                    print_line(console, line, "yellow")
