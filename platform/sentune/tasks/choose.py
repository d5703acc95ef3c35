"""Which tasks a corpus can pose, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.tasks.base import Task
from sentune.tasks.direction import Direction, Exclude, entailment_pairs
from sentune.tasks.rte import Rte
from sentune.tasks.sts import Sts

TASKS: dict[str, Kind] = {
    "rte": Kind.LABELLED_PAIRS,
    "direction": Kind.LABELLED_PAIRS,
    "sts": Kind.SCORED_PAIRS,
}


def tasks_for(*corpora: Corpus, exclude: Exclude = "both-ways") -> list[Task]:
    """Every task that the corpora can pose, named apart.

    Labelled pairs pose ``rte`` where both classes occur and ``direction`` where a pair entails
    one way; scored pairs pose ``sts``. Of several corpora of a kind the first keeps the bare name
    and the next ones add their format: ``rte``, ``rte-sick``, ``rte-sick-2``.

    Raises:
        CorpusError: a corpus poses no task.
    """
    return make_tasks(
        [(kind, corpus) for corpus in corpora for kind in _posed(corpus, exclude)], exclude=exclude
    )


def make_tasks(
    wanted: Sequence[tuple[str, Corpus]], *, exclude: Exclude = "both-ways"
) -> list[Task]:
    """The tasks asked for as (kind, corpus), named apart as ``tasks_for`` does.

    Raises:
        InvalidValue: there is no such kind of task.
        CorpusError: the corpus cannot pose the task.
    """
    made: list[Task] = []
    for kind, corpus in wanted:
        if kind not in TASKS:
            raise InvalidValue("task", kind, f"choose one of {', '.join(TASKS)}")
        name = _free_name(kind, corpus, {task.name for task in made})
        made.append(_makers(exclude)[kind](corpus, name))
    return made


def _makers(exclude: Exclude) -> dict[str, Callable[[Corpus, str], Task]]:
    return {
        "rte": Rte,
        "direction": lambda corpus, name: Direction(corpus, name, exclude=exclude),
        "sts": Sts,
    }


def _free_name(kind: str, corpus: Corpus, taken: Iterable[str]) -> str:
    name = kind
    if name in taken:
        name = base = f"{kind}-{corpus.spec.partition(':')[0]}"
        count = 2
        while name in taken:
            name, count = f"{base}-{count}", count + 1
    return name


def _posed(corpus: Corpus, exclude: Exclude) -> list[str]:
    if corpus.kind is Kind.SCORED_PAIRS:
        return ["sts"]
    if corpus.kind is not Kind.LABELLED_PAIRS:
        reason = f"{corpus.kind.value} pose no task; give labelled pairs or scored pairs"
        raise CorpusError(corpus.spec, reason)
    entails = np.array([label == "entailment" for label in corpus.table["label"].to_pylist()])
    kinds = ["rte"] if entails.any() and not entails.all() else []
    kinds += ["direction"] if entailment_pairs(corpus, exclude) else []
    if not kinds:
        raise CorpusError(corpus.spec, "no pair is labelled entailment, so there is no task in it")
    return kinds
