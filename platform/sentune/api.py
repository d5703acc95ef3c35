"""The Python API: tune a method, look at a study, measure a model."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sentune.corpora.tables import Data, specs_of
from sentune.errors import InvalidValue, SentuneError
from sentune.io.atomic import write_document
from sentune.job.command import FAILED, Ended
from sentune.job.options import StudyOptions, parse

if TYPE_CHECKING:
    import optuna
    import plotly.graph_objects as go

    from sentune.corpora.schema import Corpus
    from sentune.embedder.embedder import Embedder
    from sentune.records import TrialRecord
    from sentune.report.view import View
    from sentune.study.space.space import SearchSpace


class StudyFailed(SentuneError):
    """A study whose trials failed; the message says why."""


def tune(
    method: str,
    corpus: Data | Sequence[Data] | None = None,
    *,
    dev: Data | Sequence[Data] | None = None,
    test: Data | Sequence[Data] | None = None,
    space: SearchSpace | None = None,
    set: Mapping[str, Any] | None = None,
    **options: Any,
) -> StudyResult:
    """Tune a method as its job does, and return the study; the same call resumes it.

    Args:
        method: ``gumbel``, ``gauss``, ``simcse``, ``simcse-pairs``, ``simcse-unsupervised``,
            ``intersent``, ``invertible``, ``laes`` or ``sif``.
        corpus: to train on; None: the one that ships with the package.
        dev: to select on; several in a list.
        test: read once, at the end, for the winner; several in a list.
        space: what is searched; None: the method's own of ``search_spaces``.
        set: setting -> a value that fixes it, a list of values, or ``"LOW..HIGH"`` to search.
        options: of the job, such as ``trials=8, storage="studies"``: those of
            ``sentune tune METHOD --help``, with ``_`` for ``-``.

    Returns:
        The study, complete, stopped by a budget, or interrupted.

    Raises:
        InvalidValue: an option or a value that cannot be used, with what is allowed.
        CorpusError: data that cannot be read.
        StudyFailed: too many trials failed.
    """
    from search_spaces import find
    from sentune.job.run import tune as run_job

    job = find(method)
    space = space or job.space
    _check_known(options, known=type(job.defaults).model_fields)
    chosen = {**options, "set": _set(set or {})}
    storage = str(options.get("storage") or job.defaults.storage)
    for role, data in (("corpus", corpus), ("dev", dev), ("test", test)):
        if data is not None:
            found = specs_of(data, role, f"{storage}/.cache/data")
            single = role == "corpus" and isinstance(job.defaults.corpus, str)
            chosen[role] = found[0] if single and len(found) == 1 else found
    asked: StudyOptions = parse(chosen, job.defaults)
    try:
        run_job(asked, space)
    except Ended as end:
        if end.code == FAILED:
            raise StudyFailed(end.line) from None
    return load_study(asked.fork or asked.study, storage=asked.storage, optuna=asked.optuna)


def fit(
    method: str,
    corpus: Data | Sequence[Data] | None = None,
    *,
    dev: Data | Sequence[Data] | None = None,
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
    from sentune.embedder.embedder import Embedder
    from sentune.terminal import say
    from sentune.training.local import LocalRun, run_locally

    _check_known(options, known=LocalRun.__dataclass_fields__)
    folder = Path(out) if out is not None else Path(_temporary_folder())
    rows = str(folder / "data")
    run = LocalRun(
        method=method,
        settings=dict(set or {}),
        corpus=() if corpus is None else specs_of(corpus, "corpus", rows),
        dev=() if dev is None else specs_of(dev, "dev", rows),
        **options,
    )
    return Embedder.load(run_locally(run, folder, workers=workers, say=say))


def load_study(name: str, *, storage: str | None = None, optuna: str | None = None) -> StudyResult:
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

    place = storage or default_storage()
    return StudyResult(StudyView(find_study(place, name, optuna)), place)


class StudyResult:
    """A study as it stood when it was loaded.

    Attributes:
        name: of the study.
        state: ``complete``, ``stopped``, ``interrupted``, ``failed``, ``running`` or ``new``.
        reason: of the state; empty where there is none.
        figures: its figures, for a notebook or a page.
    """

    def __init__(self, view: Any, storage: str) -> None:
        from sentune.job.artifacts import view_of

        snapshot = view.snapshot()
        self.name, self.state, self.reason = snapshot.name, snapshot.state, snapshot.reason
        self._place = snapshot.place
        self._view = view_of(snapshot, storage)
        self.figures = StudyFigures(self._view)

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial by number, with ``settings.``, ``metrics.`` and ``readouts.``."""
        rows = [trial.row() for trial in self._view.summary.trials]
        return pd.DataFrame(rows).set_index("trial") if rows else pd.DataFrame()

    @property
    def best(self) -> TrialRecord | None:
        """The trial that the shipped model comes from, else the best so far."""
        summary = self._view.summary
        known = {trial.id: trial for trial in summary.trials}
        return known[summary.best] if summary.best is not None else self._view.best

    @property
    def finalists(self) -> pd.DataFrame:
        """A row for each finalist and seed, the best finalist first."""
        rows = [
            {"trial": one.trial, "seed": seed}
            | {name: over.values[place] for name, over in one.metrics.items()}
            for one in self._view.summary.finalists
            for place, seed in enumerate(one.seeds)
        ]
        return pd.DataFrame(rows)

    @property
    def metrics(self) -> pd.DataFrame:
        """A row for each metric.

        Columns: ``dev`` and ``sd`` (over the winner's seeds; none for one run), ``test`` (of the
        shipped model), and ``baseline``, what a rule without a model reaches.
        """
        summary, measured = self._view.summary, self._view.measured
        columns = {
            "dev": {name: over.mean for name, over in measured.items()},
            "sd": {name: over.sd for name, over in measured.items() if len(over.values) > 1},
            "test": summary.test,
            "baseline": summary.baselines,
        }
        table = pd.DataFrame(columns, dtype=float).sort_index()
        return table[~table.index.str.startswith("train/")]

    @property
    def baselines(self) -> dict[str, float]:
        """Metric -> what a rule without a model reaches."""
        return dict(self._view.summary.baselines)

    @property
    def verdict(self) -> str:
        """What the study found, in one or two sentences with the error."""
        from sentune.report.study_page import finding

        return " ".join(filter(None, (finding(self._view), self._view.summary.verdict)))

    @cached_property
    def model(self) -> Embedder:
        """The shipped model.

        Raises:
            InvalidValue: the study has left none yet.
        """
        from sentune.embedder.embedder import Embedder

        folder = self._view.summary.model
        if folder is None:
            fix = f"the study is {self.state}; the same call goes on"
            raise InvalidValue("model", self.name, fix)
        moved = f"{self._place.folder}/model"  # a storage that was copied has its own
        return Embedder.load(moved if Path(moved).is_dir() else folder)

    @property
    def optuna(self) -> optuna.Study:
        """The study as Optuna has it, opened to be read."""
        import optuna

        from sentune.study.store.storage import open_storage

        return optuna.load_study(study_name=self.name, storage=open_storage(self._place.url))

    def report(self, out: str | Path) -> Path:
        """Write the study's report as one HTML page, and return where it stands.

        Raises:
            StorageError: the disk is full, read-only or at fault.
        """
        from sentune.report import build
        from sentune.report.render import to_html

        path, page = Path(out), to_html(build(self._view))
        return Path(write_document(str(path.parent), path.name, page))

    def __repr__(self) -> str:
        return f"<study {self.name}: {self.state}. {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the finding and the metrics, for a notebook."""
        from html import escape

        table = self.metrics.to_html(float_format="{:.4f}".format, na_rep="", border=0)
        return f"<p><b>{escape(self.name)}</b> ({self.state}): {escape(self.verdict)}</p>{table}"


class StudyFigures:
    """The figures of a study as plotly figures, which a notebook shows as they are."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _optuna(self) -> dict[str, Callable[[], go.Figure]]:
        from sentune.study.interactive_page import figures_of, plain_study

        metrics = [metric for metric, _ in self._view.objectives]
        return figures_of(plain_study(self._view.summary), metrics)

    def history(self) -> go.Figure:
        """Return the objective of each trial, and the best so far."""
        return self._optuna["history"]()

    def curves(self) -> go.Figure:
        """Return the objective of each trial over the examples seen."""
        return self._optuna["curves"]()

    def parallel(self) -> go.Figure:
        """Return a line for each trial through its settings to its objective."""
        return self._optuna["parallel"]()

    def importance(self) -> go.Figure:
        """Return the importance of each setting.

        Raises:
            InvalidValue: too few trials are complete.
        """
        try:
            return self._optuna["importance"]()
        except (ValueError, RuntimeError) as error:
            raise InvalidValue("importance", self._view.summary.study, str(error)) from error

    def seeds(self) -> go.Figure:
        """Return every seed of each finalist, on dev."""
        import plotly.graph_objects as go

        objective = self._view.summary.objective
        figure = go.Figure(layout={"yaxis_title": objective, "xaxis_title": "finalist"})
        for finalist in self._view.summary.finalists:
            over, name = finalist.metrics[objective], f"trial {finalist.trial}"
            text = [f"seed {seed}" for seed in finalist.seeds]
            marks = go.Scatter(
                x=[name] * len(text), y=over.values, text=text, mode="markers", name=name
            )
            figure.add_trace(marks)
        return figure

    def readouts(self) -> dict[str, go.Figure]:
        """Return sweep -> the metric over each readout of the winner, the others at their best."""
        import plotly.graph_objects as go

        from sentune.report.sweep_figures import sweeps_in

        found = {}
        folder = self._view.folder
        for name, table in (sweeps_in(folder) if folder is not None else {}).items():
            figure = go.Figure(layout={"yaxis_title": table.metric})
            for readout, grid in table.axes.items():
                values = table.at_best(readout).tolist()
                figure.add_trace(go.Scatter(x=[*grid], y=values, name=readout))
            found[name] = figure
        return found


def evaluate(
    model: str | Path | Embedder,
    tasks: Mapping[str, Data],
    *,
    dev: Mapping[str, Data] | None = None,
    batch_size: int = 64,
) -> pd.DataFrame:
    """Measure a model on tasks.

    Args:
        model: a folder, a URI, ``models:/NAME@champion``, or a loaded model.
        tasks: task (``rte``, ``direction``, ``sts``, ...) -> its data; docs/tasks.md lists all.
        dev: as ``tasks``: development sets on which readouts such as the threshold are chosen;
            None: those that the model was tuned to.
        batch_size: sentences encoded together.

    Returns:
        A row for each task and metric, with its ``value`` (fractions, not per cent). What the
        model cannot do has no value and a ``reason``.

    Raises:
        InvalidValue: an unknown task, or what is no model.
        CorpusError: data that cannot be read.
    """
    from sentune.embedder.embedder import Embedder
    from sentune.tasks import make_tasks

    embedder = model if isinstance(model, Embedder) else Embedder.load(model)
    stored = embedder.references.for_tasks() if embedder.references is not None else None
    readouts = dict(embedder.readouts)
    if dev:
        tuning = make_tasks(_corpora(dev), references=stored)
        readouts |= embedder.evaluate(tuning, batch_size=batch_size).readouts
    chosen = make_tasks(_corpora(tasks), references=stored)
    result = embedder.evaluate(chosen, readouts, batch_size=batch_size)
    rows = [
        {"metric": name, "value": value, "reason": ""} for name, value in result.metrics.items()
    ]
    rows += [{"metric": name, "value": None, "reason": why} for name, why in result.skipped.items()]
    return pd.DataFrame(rows).set_index("metric")


def _check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse options that are not known."""
    for name in options:
        if name not in known:
            raise InvalidValue(name, options[name], f"give one of {', '.join(sorted(known))}")


def _temporary_folder() -> str:
    """Return a new folder that is removed when the program ends."""
    folder = tempfile.mkdtemp(prefix="sentune-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _set(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return settings as ``--set`` has them."""
    return tuple(
        f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in settings.items()
    )


def _corpora(tasks: Mapping[str, Data]) -> list[tuple[str, Corpus]]:
    """Return (task, corpus) for each task; rows in memory are read from a file of this process."""
    from sentune.corpora.formats import read
    from sentune.tasks import TASKS, of_task

    found = []
    for task, data in tasks.items():
        if task not in TASKS:
            raise InvalidValue("task", task, f"choose one of {', '.join(TASKS)}")
        with tempfile.TemporaryDirectory(prefix="sentune-data-") as folder:
            for spec in specs_of(data, task, folder):
                found.append((task, read(of_task(spec, task), TASKS[task])))
    return found
