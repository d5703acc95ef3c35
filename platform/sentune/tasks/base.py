"""Interfaces of evaluation tasks and of their models, and the evaluation of tasks on a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.beats import beat
from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue, TrialFailed
from sentune.geometry.base import Geometry

Given: TypeAlias = Mapping[str, Any] | None
"""Readouts to apply, as chosen on a development set, or None to choose them."""

ParallelMap: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function like ``map``, local or on a cluster: one result per part, in order. The function and
the parts can be pickled."""


@dataclass(kw_only=True)
class Result:
    """Metrics and other results of one or more tasks.

    Attributes:
        metrics: ``task/metric`` -> fraction.
        readouts: ``task/readout`` -> value that was chosen or applied.
        tables: file name -> content in JSON types, such as curves and counts of pairs.
        hits: ``task/accuracy`` -> score of each of N items, [N]: 1, 0, or 1/2 for a tie.
        scored: ``task`` -> similarities and human scores of the N pairs of an STS task, [2, N].
        skipped: ``task`` or ``task/metric`` -> reason why it is not among the metrics, or why its
            value is undefined and counts as 0.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    readouts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    hits: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    scored: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def update(self, other: Result) -> None:
        """Add everything in ``other``, replacing equal names."""
        for name, found in vars(other).items():
            getattr(self, name).update(found)


class Task(Protocol):
    """A task that evaluates the embeddings of a list of sentences."""

    @property
    def name(self) -> str:
        """Return the first part of the names of its metrics."""

    def sentences(self) -> list[str]:
        """Return the S sentences to embed; equal sentences are encoded once."""

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """Return the metrics of embeddings.

        Args:
            embeddings: packed embeddings of ``sentences()``, [S, D].
            geometry: compares the embeddings.
            readouts: values to apply; None: choose them on this task's data, the development set.
        """


Embed = Callable[[list[str]], Tensor]
"""Function of S sentences that returns packed embeddings, [S, D]."""

Generate = Callable[[str, Sequence[str], Sequence[str] | None], list[str]]
"""Function of an operation, N first sentences and N second ones (None for an operation on single
sentences) that returns N sentences."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """Functions of a model that tasks use.

    Attributes:
        embed: returns embeddings that ``geometry`` compares.
        features: returns features for a linear classifier, if they differ from ``embed``'s.
        generate: applies an operation and decodes the result; None without a decoder.
    """

    embed: Embed
    geometry: Geometry
    features: Embed | None = None
    generate: Generate | None = None


@runtime_checkable
class ModelTask(Protocol):
    """A task that calls the model itself, instead of taking the embeddings of its sentences."""

    @property
    def name(self) -> str:
        """Return the first part of the names of its metrics."""

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Return the metrics of a model, and as ``skipped`` what it cannot do."""


def readout_of(readouts: Mapping[str, Any], task: str, kind: str, name: str) -> Any | None:
    """Return a task's readout: its own, else that of the first task of its kind, else None.

    The task ``rte-sick`` uses ``rte-sick/threshold`` or else ``rte/threshold``, which was chosen on
    SNLI dev (as in GumbelCSE section 4.2).
    """
    own = readouts.get(f"{task}/{name}")
    return own if own is not None else readouts.get(f"{kind}/{name}")


def under(task: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with ``task/`` before their names."""
    return {f"{task}/{name}": value for name, value in values.items()}


def free_name(names: Sequence[str], taken: Collection[str]) -> str:
    """Return the first name that is not taken, else the last name with a number."""
    numbered = (f"{names[-1]}-{number}" for number in count(2))
    return next(name for name in chain(names, numbered) if name not in taken)


def require(corpus: Corpus, kind: Kind, task: str) -> None:
    """Check that a corpus is of the kind that a task needs.

    Raises:
        CorpusError: it is of another kind.
    """
    if corpus.kind is not kind:
        raise CorpusError(corpus.spec, f"{task} needs {kind.value}, not {corpus.kind.value}")


def _sentences(task: Task) -> list[str]:
    found: Any = task.sentences()
    with suppress(TypeError):  # not iterable
        if not isinstance(found, str):
            return list(found)
    raise InvalidValue(f"sentences of task {task.name}", found, "return a list of strings")


def evaluate(
    tasks: Sequence[Task | ModelTask],
    embed: Embed,
    geometry: Geometry,
    readouts: Given = None,
    *,
    features: Embed | None = None,
    generate: Generate | None = None,
) -> Result:
    """Return metrics, readouts and tables of all tasks.

    Args:
        tasks: tasks with distinct names.
        embed: called once with the distinct sentences of all tasks that compare embeddings.
        readouts: values to apply (test set), or None to choose them (development set).
        features, generate: as in ``sentune.tasks.base.Model``.

    Raises:
        TrialFailed: an embedding is not finite; the message has the sentence.
        InvalidValue: a task does not return a ``Result``, or no list of sentences.
    """
    model = Model(embed=embed, geometry=geometry, features=features, generate=generate)
    needs = {t.name: _sentences(t) for t in tasks if not isinstance(t, ModelTask)}
    row = {s: i for i, s in enumerate(dict.fromkeys(s for need in needs.values() for s in need))}
    result = Result()
    with torch.no_grad():
        embeddings = finite(embed(list(row)), list(row)) if row else torch.zeros(0)
        for done, task in enumerate(sorted(tasks, key=lambda t: isinstance(t, ModelTask))):
            beat("validating", done=done, total=len(tasks))
            if isinstance(task, ModelTask):
                found = task.run(model, readouts)
            else:
                places = [row[s] for s in needs[task.name]]
                chosen = torch.tensor(places, dtype=torch.long, device=embeddings.device)
                found = task.evaluate(embeddings[chosen], geometry, readouts)
            if not isinstance(found, Result):
                raise InvalidValue(f"task {task.name}", found, "let it return sentune.tasks.Result")
            for values in (found.metrics, found.readouts):  # may have scalars of torch and numpy
                values.update({n: v.item() for n, v in values.items() if hasattr(v, "item")})
            result.update(found)
    return result


def finite(embeddings: Tensor, sentences: Sequence[str]) -> Tensor:
    """Return the embeddings unchanged if all are finite.

    Raises:
        TrialFailed: an embedding is not finite; the message has the first such sentence.
    """
    bad = (~torch.isfinite(embeddings).all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise TrialFailed(
            f"{len(bad)} of {len(sentences)} embeddings are not finite, "
            f"the first that of {sentences[bad[0]]!r}"
        )
    return embeddings
