"""The functions of the Python API: tune or fit a method, load a study, measure a model."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pandas as pd

from sentune.corpora.tables import Data, are_columns, specs_of
from sentune.errors import InvalidValue, SentuneError
from sentune.job.command import FAILED, Ended
from sentune.job.notebook import without_advice
from sentune.job.options import StudyOptions, parse
from sentune.study.space.domains import python_number
from sentune.study_result import StudyResult
from sentune.user_code import address_of

if TYPE_CHECKING:
    from sentune.corpora.schema import Corpus
    from sentune.embedder.embedder import Embedder
    from sentune.methods import SentenceMethod
    from sentune.methods.invertible import ComponentFrom
    from sentune.study.space.space import SearchSpace
    from sentune.tasks.direction import Exclude

Method = TypeVar("Method", bound="type[SentenceMethod]")


Judged: TypeAlias = "Data | Sequence[Data] | Mapping[str, Data]"
"""Corpora to judge on; of a mapping each for the task that it is under."""


class StudyFailed(SentuneError):
    """A study that failed; the message says why."""


def method(kind: Method) -> Method:
    """Check a method of one's own where its class is defined; a decorator.

    The class may then stand in ``tune`` and ``fit``, and its address, ``MODULE:CLASS``, wherever a
    method is named.

    Raises:
        InvalidValue: it is not derived from ``SentenceMethod``, or lacks something.
    """
    from sentune.methods import checked

    checked(kind)
    return kind


def tune(
    method: str | type[SentenceMethod],
    corpus: Data | Sequence[Data] | None = None,
    *,
    dev: Judged | None = None,
    test: Judged | None = None,
    space: SearchSpace | None = None,
    set: Mapping[str, Any] | None = None,
    **options: Any,
) -> StudyResult:
    """Tune a method as its job does, and return the study; the same call resumes it.

    Args:
        method: name of a method, as ``sentune tune --help`` lists them; or a class of one's own,
            its address, ``MODULE:CLASS``, or its name among the entry points ``sentune.methods``.
        corpus: to train on; None: the one that ships with the package.
        dev: to select on; several in a list, or a mapping from a task to its data.
        test: read once, at the end, for the winner; as ``dev``.
        space: what is searched; None: the method's own of ``search_spaces``, or the class's own
            ``space``.
        set: setting -> a value that fixes it, a list of values, or ``"LOW..HIGH"`` to search.
        options: of the job, such as ``trials=8, storage="studies"``: those of
            ``sentune tune METHOD --help`` but ``--dry-run``, with ``_`` for ``-``; ``sampler`` may
            be a class.

    Returns:
        The study, complete, stopped by a budget, or interrupted.

    Raises:
        InvalidValue: an option or a value that cannot be used, with what is allowed.
        CorpusError: data that cannot be read.
        StudyFailed: too many trials failed, none came to its end, or the storage cannot be written.
        StudyConflict: the study was made from something else, or another process drives it.
    """
    from search_spaces import find_job
    from sentune.job.run import tune as run_job

    job = find_job(_name_of(method), space)
    space = job.space
    flags = ("quick",) if job.quick is not None else ()
    fields = type(job.defaults).model_fields.keys() - {"dry_run"}  # there is no study to return
    _check_known(options, known=(*fields, *flags))
    options = _plain(options)
    chosen = {**options, "set": _set(set or {})}
    quick = dict(job.quick or {}) if chosen.pop("quick", False) else {}
    if isinstance(chosen.get("sampler"), type):
        chosen["sampler"] = address_of(chosen["sampler"])
    storage = str(options.get("storage") or job.defaults.storage)
    for role, data in (("corpus", corpus), ("dev", dev), ("test", test)):
        if data is not None:
            found = _specs_of(data, role, f"{storage}/.cache/data")
            single = role == "corpus" and isinstance(job.defaults.corpus, str)
            chosen[role] = found[0] if single and len(found) == 1 else found
    asked: StudyOptions = parse(chosen, parse(quick, job.defaults))
    try:
        run_job(asked, space)
    except Ended as end:
        if end.code == FAILED:
            raise StudyFailed(end.line) from None
    return load_study(asked.fork or asked.study, storage=asked.storage, optuna=asked.optuna)


def fit(
    method: str | type[SentenceMethod],
    corpus: Data | Sequence[Data] | None = None,
    *,
    dev: Judged | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    **options: Any,
) -> Embedder:
    """Train one configuration on this machine, without Ray, and return its best model.

    Args:
        method, corpus, dev: as of ``tune``.
        set: setting or readout -> its value; the others are the method's own.
        out: folder of the run, which the same call continues; None: a temporary one, which is
            removed when the program ends.
        workers: processes; on a machine with GPUs each takes one.
        options: those of ``sentune train --help``, with ``_`` for ``-``: ``encoder``,
            ``vectors``, ``max_examples``, ``seed``, ...

    Raises:
        InvalidValue: an option or a value that cannot be used, or ``out`` holds another run.
        CorpusError: data that cannot be read.
        TrialFailed: the training cannot go on.
    """
    without_advice()
    from sentune.embedder.embedder import Embedder
    from sentune.terminal import say
    from sentune.training.local import LocalRun, run_locally

    _check_known(options, known=LocalRun.model_fields.keys() - {"settings"})
    if out is None:
        out = tempfile.mkdtemp(prefix="sentune-")
        atexit.register(shutil.rmtree, out, ignore_errors=True)
    folder = Path(out)
    rows = str(folder / "data")
    run = LocalRun.of(
        method=_name_of(method),
        settings=_plain(set or {}),
        corpus=() if corpus is None else specs_of(corpus, "corpus", rows),
        dev=() if dev is None else _specs_of(dev, "dev", rows),
        **_plain(options),
    )
    return Embedder.load(run_locally(run, folder, workers=workers, say=say))


def load_study(
    name: str, *, storage: str | Path | None = None, optuna: str | None = None
) -> StudyResult:
    """Return a study of a storage as it stands, in whatever state.

    Args:
        name: of the study.
        storage: folder or URI of all studies; None: ``$SENTUNE_STORAGE``, else ``studies``.
        optuna: its Optuna storage where the job had ``--optuna``.

    Raises:
        InvalidValue: there is no such study; says which ones there are.
    """
    from sentune.job.options import default_storage
    from sentune.study.store.study_index import find_study
    from sentune.study.store.study_view import StudyView

    place = os.fspath(storage or default_storage())
    return StudyResult(StudyView(find_study(place, name, optuna)), place)


def compare(
    *studies: str | StudyResult, metric: str | None = None, storage: str | Path | None = None
) -> pd.DataFrame:
    """Compare studies of any methods by one metric.

    Args:
        studies: loaded ones, or names.
        metric: ``task/metric``, or ``task/metric:min`` where smaller is better; None: the
            objective, which all of them have to share.
        storage: of those that are named, as of ``load_study``.

    Returns:
        A row for each study, the best on dev first: ``method``, ``metric``, ``dev``, ``error``,
        ``seeds``, ``test``, ``test_error``, ``p`` (Welch's t test over the seeds against the first
        row), ``p_pairs`` (exact sign test against it on the same test pairs), ``judged_on``,
        ``encoder``, ``state``.

    Raises:
        InvalidValue: no study, one that is not there, or objectives that differ.
    """
    from sentune.report.leaderboard import leaderboard

    loaded = [load_study(s, storage=storage) if isinstance(s, str) else s for s in studies]
    return leaderboard([study.view for study in loaded], metric)


def evaluate(
    model: str | Path | Embedder,
    tasks: Mapping[str, Data],
    *,
    dev: Mapping[str, Data] | None = None,
    prior: str = "",
    batch_size: int = 64,
    folds: int = 10,
    exclude: Exclude = "both-ways",
    component_from: ComponentFrom = "corpus",
) -> pd.DataFrame:
    """Measure a model on tasks.

    Args:
        model: a folder, a URI, ``models:/NAME@champion``, or a loaded model.
        tasks: task (``rte``, ``direction``, ``sts``, ... or one of one's own) -> its data;
            docs/tasks.md lists all.
        dev: as ``tasks``: development sets on which readouts such as the threshold are chosen;
            None: those that the model was tuned to.
        prior: of the classes of ambiguous-rte, to which ``dev`` is weighted: ``both=0.3`` or
            ``balanced``.
        batch_size: sentences encoded together.
        folds: of transfer tasks; SentEval has 10.
        exclude: pairs that ``direction`` leaves out where a corpus labels both directions:
            ``both-ways`` (GumbelCSE) or ``none`` (GaussCSE).
        component_from: of invertible decoders: ``corpus``, or ``task`` for sts without the
            principal component of the task's own sentences, as in papers.

    Returns:
        A row for each task and metric, with its ``value`` (fractions, not per cent). What the
        model cannot do has no value and a ``reason``.

    Raises:
        InvalidValue: an unknown task, or what is no model.
        CorpusError: data that cannot be read.
    """
    from sentune.embedder.embedder import Embedder
    from sentune.tasks import make_tasks, with_prior

    if not tasks:
        raise InvalidValue("tasks", dict(tasks), "give task -> data, as in {'rte': pairs}")
    if prior and not dev:
        raise InvalidValue("prior", prior, "give dev too, whose pairs it weights")
    embedder = model if isinstance(model, Embedder) else Embedder.load(model)
    embedder.require_component(component_from)
    judge: Any = {"batch_size": batch_size, "component_from": component_from}
    stored = embedder.references.for_tasks() if embedder.references is not None else None
    how: Any = {"exclude": exclude, "references": stored, "folds": folds}
    readouts = dict(embedder.readouts)
    posed = _corpora(dev or {})
    if prior:
        names, corpora = zip(*posed, strict=True)
        posed = list(zip(names, with_prior(corpora, prior), strict=True))
    if posed:
        tuning = make_tasks(posed, **how)
        readouts |= embedder.evaluate(tuning, **judge).readouts
    chosen = make_tasks(_corpora(tasks), dev=posed, **how)
    result = embedder.evaluate(chosen, readouts, **judge)
    rows = [
        {"metric": name, "value": value, "reason": ""} for name, value in result.metrics.items()
    ]
    rows += [{"metric": name, "value": None, "reason": why} for name, why in result.skipped.items()]
    return pd.DataFrame(rows).set_index("metric")


def _name_of(method: str | type[SentenceMethod]) -> str:
    """Return the name under which a method is found, that of a class being its address."""
    if isinstance(method, str):
        return method
    from sentune.methods import checked

    return address_of(checked(method))


def _specs_of(data: Judged, role: str, folder: str) -> tuple[str, ...]:
    """Return ``FORMAT:PATH`` of each corpus, behind ``TASK=`` where it is given for a task."""
    from sentune.tasks import task_and_corpus
    from sentune.tasks.own import in_other_processes

    if isinstance(data, Mapping) and not are_columns(data, role):
        parts = [(t, spec) for t, one in data.items() for spec in specs_of(one, role, folder)]
    else:
        parts = [task_and_corpus(spec) for spec in specs_of(data, role, folder)]
    return tuple(f"{in_other_processes(t)}={spec}" if t else spec for t, spec in parts)


def _check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse options that are not known."""
    for name in options:
        if name not in known:
            raise InvalidValue(name, options[name], f"give one of {', '.join(sorted(known))}")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with numpy's numbers and paths as those of Python and as text."""
    return {
        name: os.fspath(value) if isinstance(value, Path) else python_number(value)
        for name, value in values.items()
    }


def _set(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return settings as ``--set`` has them."""

    def text(value: Any) -> str:
        return "none" if value is None else str(value)

    return tuple(
        f"{name}={','.join(map(text, value)) if isinstance(value, list | tuple) else text(value)}"
        for name, value in settings.items()
    )


def _corpora(tasks: Mapping[str, Data]) -> list[tuple[str, Corpus]]:
    """Return (task, corpus) for each task; rows in memory are read from a file of this process."""
    from sentune.corpora.formats import read
    from sentune.tasks import kind_of, of_task

    with tempfile.TemporaryDirectory(prefix="sentune-data-") as folder:
        return [
            (task, read(of_task(spec, task), kind_of(task)))
            for task, data in tasks.items()
            for spec in specs_of(data, task, folder)
        ]
