"""The Python API: functions to tune or fit a method, load and compare studies, evaluate a model."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pandas as pd

from sentune.corpora.schema import left_out
from sentune.corpora.tables import Data, are_columns, specs_of
from sentune.errors import InvalidValue, SentuneError
from sentune.job.command import FAILED, Ended
from sentune.job.notebook import silence_widget_warnings
from sentune.job.options import StudyOptions, parse
from sentune.study.space.domains import python_number
from sentune.study_result import StudyResult
from sentune.terminal import Terminal, print_line
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
"""Data of one or several corpora, or a mapping from a task to its data."""


class StudyFailed(SentuneError):
    """Raised if a study fails; the message says why."""


def method(kind: Method) -> Method:
    """Decorator that checks a user-defined method when its class is defined.

    Pass the class to ``tune`` or ``fit``, and its address, ``MODULE:CLASS``, to commands and
    options that take the name of a method.

    Raises:
        InvalidValue: the class is not derived from ``SentenceMethod``, or is incomplete.
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
    """Tune a method and return the study; the same call resumes it.

    Args:
        method: name of a method, as listed by ``sentune tune --help``, or of an entry point in the
            group ``sentune.methods``; or your own class, or its address, ``MODULE:CLASS``.
        corpus: to train on; None: the built-in one.
        dev: to select on; several in a list, or a mapping from a task to its data.
        test: to test the winner on, once, at the end; as ``dev``.
        space: search space; None: that of the method in ``search_spaces``, or the attribute
            ``space`` of your own class.
        set: setting -> a value that fixes it, a list of values, or ``"LOW..HIGH"`` to search.
        options: other options of ``sentune tune METHOD --help`` with ``_`` for ``-``, such as
            ``trials=8, storage="studies"``, except ``--dry-run``; ``sampler`` may be a class.

    Returns:
        The study: complete, stopped by a budget, or interrupted.

    Raises:
        InvalidValue: an option or a value cannot be used; says what is allowed.
        CorpusError: data cannot be read.
        StudyFailed: too many trials failed, none was completed, or the storage cannot be written.
        StudyConflict: the study has another space, corpus, method or objective, or another process
            drives it.
    """
    from search_spaces import find_job
    from sentune.job.run import tune as run_job

    job = find_job(_name_of(method), space)
    space = job.space
    flags = ("quick",) if job.quick is not None else ()
    fields = type(job.defaults).model_fields.keys() - {"dry_run"}  # it has no study to return
    _check_known(options, known=(*fields, *flags))
    options = _plain(options)
    chosen = {**options, "set": _texts(_settings(set))}
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
        print_line(Terminal(stderr=True), end.line)
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
        method, corpus, dev: as in ``tune``.
        set: setting or readout -> value; the others have the method's defaults.
        out: folder of the run, which the same call resumes; None: a temporary folder, which is
            removed when the program ends.
        workers: number of processes, one per GPU if there are any.
        options: other options of ``sentune train --help`` with ``_`` for ``-``: ``encoder``,
            ``vectors``, ``max_examples``, ``seed``, ...

    Raises:
        InvalidValue: an option or a value cannot be used, or ``out`` has another run.
        CorpusError: data cannot be read.
        TrialFailed: the training cannot continue.
    """
    silence_widget_warnings()
    from sentune.embedder.embedder import Embedder
    from sentune.terminal import say
    from sentune.training.local import LocalRun, run_locally

    _check_known(options, known=LocalRun.model_fields.keys() - {"settings"})
    if out is None:
        out = tempfile.mkdtemp(prefix="sentune-")
        atexit.register(shutil.rmtree, out, ignore_errors=True)
    if not (place := str(out)) or re.match(r"\w+:/", place):
        raise InvalidValue("out", place, "give a folder of this machine")
    folder = Path(out).expanduser()
    rows = str(folder / "data")
    run = LocalRun.of(
        method=_name_of(method),
        settings=_plain(_settings(set)),
        corpus=() if corpus is None else specs_of(corpus, "corpus", rows),
        dev=() if dev is None else _specs_of(dev, "dev", rows),
        **_plain(options),
    )
    return Embedder.load(run_locally(run, folder, workers=workers, say=say))


def load_study(
    name: str, *, storage: str | Path | None = None, optuna: str | None = None
) -> StudyResult:
    """Load a study in its present state, which may be running or incomplete.

    Args:
        name: of the study.
        storage: folder or URI of all studies; None: ``$SENTUNE_STORAGE``, else ``studies``.
        optuna: the job's ``--optuna``, if it had one.

    Raises:
        InvalidValue: there is no such study; lists those that exist.
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
        studies: studies, or their names.
        metric: ``task/metric``, or ``task/metric:min`` if smaller is better; None: the objective,
            which the studies must share.
        storage: of the studies given by name, as in ``load_study``.

    Returns:
        One row per study, the best on dev first: ``method``, ``metric``, ``dev``, ``error``,
        ``seeds``, ``test``, ``test_error``, ``p`` (Welch's t-test over the seeds against the first
        row), ``p_pairs`` (exact sign test against the first row on the same test pairs),
        ``judged_on``, ``encoder``, ``state``.

    Raises:
        InvalidValue: no study is given, one does not exist, or the objectives differ.
    """
    from sentune.report.leaderboard import leaderboard

    loaded = [load_study(s, storage=storage) if isinstance(s, str) else s for s in studies]
    for one in loaded:
        if not isinstance(one, StudyResult):
            raise InvalidValue("studies", one, "give studies or their names, each as an argument")
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
        tasks: task (``rte``, ``direction``, ``sts``, ... or your own) -> its data; docs/tasks.md
            lists all tasks.
        dev: task -> development set on which readouts such as the threshold are chosen; None: the
            readouts stored with the model are used.
        prior: class prior of ambiguous-rte to which ``dev`` is weighted: ``both=0.3`` or
            ``balanced``.
        batch_size: sentences encoded together.
        folds: number of folds of transfer tasks; SentEval has 10.
        exclude: pairs that ``direction`` leaves out if a corpus labels both directions:
            ``both-ways`` (GumbelCSE) or ``none`` (GaussCSE).
        component_from: principal component that invertible decoders remove for sts: that of the
            training ``corpus``, or of the sentences of the ``task``, as in papers.

    Returns:
        One row per task and metric, with its ``value`` (a fraction, not percent). A metric that
        the model cannot have has no value but a ``reason``.

    Raises:
        InvalidValue: a task is unknown, or there is no such model.
        CorpusError: data cannot be read.
    """
    from sentune.embedder.embedder import Embedder
    from sentune.tasks import pose

    for name, data in (("tasks", tasks), ("dev", dev or {})):
        if not isinstance(data, Mapping) or (name == "tasks" and not data):
            raise InvalidValue(name, data, "give task -> data, as in {'rte': pairs}")
    if prior and not dev:
        raise InvalidValue("prior", prior, "it weights the pairs of dev; give dev too")
    embedder = model if isinstance(model, Embedder) else Embedder.load(model)
    embedder.require_component(component_from)
    judge = partial(embedder.evaluate, batch_size=batch_size, component_from=component_from)
    stored = embedder.references.for_tasks() if embedder.references is not None else None
    how: Any = {"prior": prior, "exclude": exclude, "references": stored, "folds": folds}
    chosen, tuned = pose(_corpora(tasks), _corpora(dev or {}), judge, **how)
    result = judge(chosen, {**embedder.readouts, **tuned.readouts})
    rows: list[tuple[Any, ...]] = [(name, value, "") for name, value in result.metrics.items()]
    rows += [(name, None, why) for name, why in result.skipped.items()]
    return pd.DataFrame(rows, columns=["metric", "value", "reason"]).set_index("metric")


def _name_of(method: str | type[SentenceMethod]) -> str:
    """Return a method's name, or the address of its class."""
    if isinstance(method, str):
        return method
    from sentune.methods import checked

    return address_of(checked(method))


def _specs_of(data: Judged, role: str, folder: str) -> tuple[str, ...]:
    """Return ``FORMAT:PATH`` of each corpus, or ``TASK=FORMAT:PATH`` if it is for one task."""
    from sentune.tasks import task_and_corpus
    from sentune.tasks.own import in_other_processes

    if isinstance(data, Mapping) and not are_columns(data, role):
        parts = [(t, spec) for t, one in data.items() for spec in specs_of(one, role, folder)]
    else:
        parts = [task_and_corpus(spec) for spec in specs_of(data, role, folder)]
    return tuple(f"{in_other_processes(t)}={spec}" if t else spec for t, spec in parts)


def _check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse unknown options."""
    for name in options:
        if name not in known:
            raise InvalidValue(name, options[name], f"give one of {', '.join(sorted(known))}")


def _settings(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the argument ``set``, by default empty; refuse other types, such as a text."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidValue("set", given, "give a dict, as in {'batch_size': 32}")
    return given or {}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numpy's numbers to Python's, and paths to text."""
    return {
        name: os.fspath(value) if isinstance(value, Path) else python_number(value)
        for name, value in values.items()
    }


def _texts(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return settings as values of ``--set``."""

    def text(value: Any) -> str:
        return "none" if value is None else str(value)

    lists = {n: v if isinstance(v, list | tuple) else [v] for n, v in settings.items()}
    return tuple(f"{name}={','.join(map(text, values))}" for name, values in lists.items())


def _corpora(tasks: Mapping[str, Data]) -> list[tuple[str, Corpus]]:
    """Return (task, corpus) for each task; data in memory are read through a temporary file."""
    from sentune.corpora.formats import read
    from sentune.tasks import kind_of, of_task

    with tempfile.TemporaryDirectory(prefix="sentune-data-") as folder:
        found = [
            (task, read(of_task(spec, task), kind_of(task)))
            for task, data in tasks.items()
            for spec in specs_of(data, task, folder)
        ]
    for task, corpus in found:
        if warning := left_out(corpus.described()):
            print_line(Terminal(stderr=True), f"warning: {task}: {warning}")
    return found
