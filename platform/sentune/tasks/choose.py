"""Selection and names of the tasks that corpora are evaluated by."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from sentune.corpora.formats import FORMATS, read, read_pairs
from sentune.corpora.schema import Corpus, Kind
from sentune.credentials import without_credentials
from sentune.errors import CorpusError, InvalidValue
from sentune.formatting import counted
from sentune.readouts.grid import Grids
from sentune.tasks.ambiguous import AmbiguousRte
from sentune.tasks.base import ModelTask, ParallelMap, Result, Task, free_name
from sentune.tasks.csts import Csts
from sentune.tasks.direction import DirectionTask, Exclude, entailment_pairs
from sentune.tasks.generation import Generation
from sentune.tasks.own import POSES, TASKS, find_own
from sentune.tasks.references import References
from sentune.tasks.retrieval import Retrieval
from sentune.tasks.rte import Rte
from sentune.tasks.sts import Sts
from sentune.tasks.transfer import FOLDS, TRANSFER, Transfer, TransferRelatedness

TRAINING = "train"
"""First part of the names of the training's own metrics."""


def tasks_for(
    *corpora: Corpus,
    references: References | None = None,
    grids: Grids | None = None,
    spread: ParallelMap = map,
    dev: Sequence[Corpus] = (),
) -> list[Task | ModelTask]:
    """Return all tasks of the corpora, with distinct names.

    Labelled pairs have the task ``rte`` if both classes occur, and ``direction`` if a pair entails
    in one direction only. ``POSES`` has the task of each other kind. All operations are one task,
    and a corpus of SentEval names its own. A corpus that was given for a task has that task alone.

    The first task of a kind has the bare name, the others add the format of their corpus: ``rte``,
    ``rte-sick``, ``rte-sick-2``. Years of STS have the year in their name: ``sts12``.

    Args:
        dev: development corpora; a task with the kind, format and year of one of theirs has its
            name.
        references, grids, spread: as in ``make_tasks``.

    Raises:
        CorpusError: a corpus has no task.
    """
    wanted, known = (
        [(kind, one) for one in some for kind in _posed(one)] for some in (corpora, dev)
    )
    return make_tasks(wanted, references=references, grids=grids, spread=spread, dev=known)


def make_tasks(
    wanted: Sequence[tuple[str, Corpus]],
    *,
    exclude: Exclude = "both-ways",
    references: References | None = None,
    grids: Grids | None = None,
    spread: ParallelMap = map,
    folds: int = FOLDS,
    dev: Sequence[tuple[str, Corpus]] = (),
) -> list[Task | ModelTask]:
    """Return tasks of given kinds, named as ``tasks_for`` does.

    Args:
        wanted: kind of task and corpus of each task.
        exclude: pairs that ``direction`` leaves out.
        references: reference sentences of interpretations; without them, tasks compare whole
            sentences only.
        grids: grids of readouts instead of the tasks' defaults.
        spread: maps over the parts of a large task, locally or on a cluster.
        folds: folds of transfer tasks.
        dev: kind of task and corpus of the development tasks, see ``tasks_for``.

    Raises:
        InvalidValue: there is no such kind of task.
        CorpusError: a corpus does not suit its task.
    """
    makers: dict[str, Any] = {
        "rte": Rte,
        "direction": partial(DirectionTask, exclude=exclude),
        "ambiguous-rte": partial(AmbiguousRte, references=references, grids=grids, spread=spread),
        "csts": partial(Csts, references=references, grids=grids),
        "sts": Sts,
        "retrieval": Retrieval,
    }
    for task, of in TRANSFER.items():
        own = Transfer if of is Kind.CLASSIFIED else TransferRelatedness
        makers[task] = partial(own, folds=folds)
    operations = [corpus for kind, corpus in wanted if kind == "generation"]
    made: list[Task | ModelTask] = [Generation(operations)] if operations else []
    for name, (kind, corpus) in zip(_names(wanted, dev), wanted, strict=True):
        if kind == "generation":
            continue
        maker: Any = makers[kind] if kind in TASKS else find_own(kind)
        task = maker(corpus, name)
        if not hasattr(task, "name"):
            fix = "let the __init__ of its class set self.name to its argument name"
            raise InvalidValue("task", name, fix)
        made.append(task)
    return made


def pose(
    wanted: Sequence[tuple[str, Corpus]],
    dev: Sequence[tuple[str, Corpus]],
    judge: Callable[[Sequence[Task | ModelTask]], Result],
    *,
    prior: str = "",
    grids: Grids | None = None,
    **others: Any,
) -> tuple[list[Task | ModelTask], Result]:
    """Return tasks, and the result of ``judge`` on ``dev``, which has the readouts chosen there.

    ``prior`` weights ``dev`` as in ``with_prior``, and ``grids`` are those of ``dev``. For other
    arguments and for errors see ``make_tasks``.
    """
    if prior:
        weighted = with_prior([corpus for _, corpus in dev], prior)
        dev = [(kind, corpus) for (kind, _), corpus in zip(dev, weighted, strict=True)]
    tasks = make_tasks(wanted, dev=dev, **others)
    tuning = make_tasks(dev, grids=grids, **others)
    return tasks, judge(tuning) if tuning else Result()


def _names(
    wanted: Sequence[tuple[str, Corpus]], dev: Sequence[tuple[str, Corpus]] = ()
) -> list[str]:
    """Return the names of tasks; a task that is also in ``dev`` has the same name as there."""
    known = list(zip(_names(dev), dev, strict=True)) if dev else []
    named: dict[int, str] = {}
    for place, one in enumerate(wanted):
        same = (name for name, other in known if _choices(*other) == _choices(*one))
        if name := next((name for name in same if name not in named.values()), ""):
            named[place] = name
    for place, one in enumerate(wanted):
        if place not in named:
            named[place] = free_name(_choices(*one), named.values())
    return [named[place] for place in range(len(wanted))]


def _choices(kind: str, corpus: Corpus) -> list[str]:
    """Return candidate names of a task: STS with its year, else its kind, bare or with format."""
    if kind == "sts" and (year := re.search(r"^sts:[^?]*20(\d\d)", corpus.spec)):
        return [f"sts{year[1]}"]
    name = kind if kind in TASKS else find_own(kind).kind
    return [name, f"{name}-{corpus.spec.partition(':')[0]}"]


def check_posed(option: str, metrics: Sequence[str], dev: Sequence[Corpus]) -> None:
    """Check that an option's metrics are of the tasks of the development corpora.

    Raises:
        InvalidValue: a metric is of no such task; the message lists the tasks.
    """
    if not metrics:
        return
    posed: list[str] = []
    for task in tasks_for(*dev):
        operations = task.items if isinstance(task, Generation) else []
        posed += [task.name, *(operation.name for operation in operations)]
    for metric in metrics:
        if metric.partition("/")[0] not in (*posed, TRAINING):
            fix = f"--dev poses {', '.join(posed)}; name a metric of one of them"
            raise InvalidValue(option, metric, fix)


def kind_of(task: str, option: str = "task") -> Kind:
    """Return the kind of corpus that a built-in or a user's task reads.

    Raises:
        InvalidValue: there is no such task; the message names ``option``.
    """
    if task in TASKS:
        return TASKS[task]
    kind: Kind = find_own(task, option).reads
    return kind


def task_and_corpus(text: str) -> tuple[str, str]:
    """Return task and corpus of ``TASK=FORMAT:PATH``; the task of ``FORMAT:PATH`` is empty."""
    found = re.fullmatch(r"([\w.-]+(?::\w+)?)=([\w-]+:.+)", text, re.DOTALL)
    if found is None or (":" in found[1] and found[1].partition(":")[0] in FORMATS):
        return "", text
    return found[1], found[2]


def read_judged(text: str, *, prefer: Kind | None = None) -> Corpus:
    """Read an evaluation corpus, ``FORMAT:PATH``, or ``TASK=FORMAT:PATH`` for that task alone.

    Args:
        prefer: as in ``read_pairs``, if no task is named.

    Raises:
        InvalidValue: there is no such task, or the format cannot provide its kind of corpus.
        CorpusError: as in ``read``.
    """
    task, spec = task_and_corpus(text)
    if not task:
        return read_pairs(spec, prefer=prefer)
    corpus = read(of_task(spec, task), kind_of(task))
    return replace(corpus, spec=without_credentials(spec), task=task)


LEFT_OUT = "left_out_test"
"""Name of the count of test rows that are left out of a development corpus."""


def read_selected(text: str, *, prefer: Kind | None = None) -> Corpus:
    """Read a development corpus, as ``read_judged`` does, without the rows of its test split.

    The fingerprint is that of all rows.

    Raises:
        InvalidValue: as in ``read_judged``.
        CorpusError: as in ``read_judged``, or the corpus has test rows that are not marked.
    """
    corpus = read_judged(text, prefer=prefer)
    if marked := corpus.counts.get("of_test_split"):
        fix = "add ?split=TRAIN+TRIAL, since a study selects on no test split"
        raise CorpusError(corpus.spec, f"{counted(marked, 'row')} of the test split; {fix}")
    if not (left := _in_test_split(corpus)):
        return corpus
    table = corpus.table.filter(pc.not_equal(pc.fill_null(corpus.table["split"], ""), "test"))
    return replace(corpus, table=table, counts={**corpus.counts, LEFT_OUT: left})


def judged_rows(corpus: Corpus) -> Corpus:
    """Return the corpus with the rows of its test split, or all rows if it has no test split."""
    if not _in_test_split(corpus):
        return corpus
    return replace(corpus, table=corpus.table.filter(pc.equal(corpus.table["split"], "test")))


def _in_test_split(corpus: Corpus) -> int:
    """Return the number of rows of the test split."""
    if "split" not in corpus.table.column_names:
        return 0
    return int(pc.sum(pc.equal(corpus.table["split"], "test")).as_py() or 0)


def with_prior(corpora: Sequence[Corpus], prior: str) -> tuple[Corpus, ...]:
    """Return the development corpora, with a prior of the classes for those of several labels.

    Raises:
        InvalidValue: no corpus has several labels.
    """
    several = Kind.SEVERAL_LABELS
    if all(corpus.kind is not several for corpus in corpora):
        fix = "it needs --dev pairs of several labels, such as snli:TRAIN?votes=2"
        raise InvalidValue("--prior", prior, fix)
    return tuple(replace(c, prior=prior) if c.kind is several else c for c in corpora)


def of_task(spec: str, kind: str) -> str:
    """Return a corpus with ``task=KIND`` if it is a SentEval folder, which has several tasks."""
    if kind not in TRANSFER or not spec.startswith("senteval:") or "task=" in spec:
        return spec
    return f"{spec}{'&' if '?' in spec else '?'}task={kind}"


def _posed(corpus: Corpus) -> list[str]:
    """Return the kinds of task of a corpus."""
    if corpus.task:
        return [corpus.task]
    if corpus.kind in POSES:
        return [POSES[corpus.kind]]
    if corpus.kind in TRANSFER.values():
        named = re.search(r"[?&]task=([a-z0-9-]+)", corpus.spec)
        if named is None or TRANSFER.get(named[1]) is not corpus.kind:
            known = ", ".join(TRANSFER)
            fix = f"name its task: senteval:FOLDER?task=NAME with NAME one of {known}"
            raise CorpusError(corpus.spec, fix)
        return [named[1]]
    if corpus.kind is not Kind.LABELLED_PAIRS:
        fix = "give pairs, operations, queries, or a corpus of SentEval"
        raise CorpusError(corpus.spec, f"{corpus.kind.value} have no task; {fix}")
    entails = np.array([label == "entailment" for label in corpus.table["label"].to_pylist()])
    kinds = ["rte"] if entails.any() and not entails.all() else []
    kinds += ["direction"] if entailment_pairs(corpus) else []
    if not kinds:
        raise CorpusError(corpus.spec, "no pair is labelled entailment, so it has no task")
    return kinds
