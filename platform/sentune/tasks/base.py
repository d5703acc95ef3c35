"""What an evaluation task is: data, protocol and metrics; and how tasks are run on a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
"""Readouts to apply, as chosen on a development set; None to choose them."""

ParallelMap: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""As ``map``, here or over a cluster: one result for each part, in order. Work and parts can be
pickled."""


@dataclass(kw_only=True)
class Result:
    """What one or more tasks found.

    Attributes:
        metrics: ``task/metric`` -> fraction.
        readouts: ``task/readout`` -> value that was swept or applied.
        tables: file name -> content, JSON types: curves, counts of pairs.
        hits: ``task/accuracy`` -> [N], how right each of N items is: 1, 0, or 1/2 for a tie.
        scored: ``task`` -> [2, N], similarities and human scores of the N pairs of STS.
        skipped: ``task`` or ``task/metric`` -> why it is not among the metrics.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    readouts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    hits: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    scored: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def update(self, other: Result) -> None:
        """Take over everything that ``other`` found."""
        for name, found in vars(other).items():
            getattr(self, name).update(found)


class Task(Protocol):
    """Data and protocol of one evaluation."""

    @property
    def name(self) -> str:
        """First part of the names of its metrics."""

    def sentences(self) -> list[str]:
        """Return the S sentences whose embeddings the task needs; equal ones are encoded once."""

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Given = None) -> Result:
        """[S, D] packed embeddings of ``sentences()`` -> metrics.

        Without ``readouts`` they are swept here, on the development set; given ones are applied.
        """


Embed = Callable[[list[str]], Tensor]
"""S sentences -> [S, D] packed embeddings."""

Generate = Callable[[str, Sequence[str], Sequence[str] | None], list[str]]
"""Operation, N first sentences, N second ones (None where it takes one) -> N sentences."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a task may ask of a model.

    Attributes:
        embed: embeddings that ``geometry`` compares.
        features: embeddings for a linear classifier on top, where they differ from ``embed``.
        generate: carries out an operation and decodes the result; None without a decoder.
    """

    embed: Embed
    geometry: Geometry
    features: Embed | None = None
    generate: Generate | None = None


@runtime_checkable
class ModelTask(Protocol):
    """A task that asks the model itself, not for the embeddings of a list of sentences."""

    @property
    def name(self) -> str:
        """First part of the names of its metrics."""

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Metrics; what the model cannot do is among the skipped, with the reason."""


def readout_of(readouts: Mapping[str, Any], task: str, kind: str, name: str) -> Any | None:
    """Return the value for a task's readout: its own, else that of the first task of its kind.

    ``rte-sick`` reads ``rte-sick/threshold``, or the ``rte/threshold`` that was tuned on SNLI dev
    (as GumbelCSE section 4.2 does). None if neither is there.
    """
    own = readouts.get(f"{task}/{name}")
    return own if own is not None else readouts.get(f"{kind}/{name}")


def free_name(names: Sequence[str], taken: Collection[str]) -> str:
    """Return the first of the names that is not taken, else the last of them with a number."""
    numbered = (f"{names[-1]}-{number}" for number in count(2))
    return next(name for name in chain(names, numbered) if name not in taken)


def require(corpus: Corpus, kind: Kind, task: str) -> None:
    """Raise a CorpusError where the corpus is not of the kind that a task needs."""
    if corpus.kind is not kind:
        raise CorpusError(corpus.spec, f"{task} needs {kind.value}, not {corpus.kind.value}")


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
        tasks: with distinct names.
        embed: called once for all tasks that compare embeddings.
        readouts: None to sweep them (development set), or the values to apply (test set).
        features, generate: as in ``sentune.tasks.base.Model``.

    Raises:
        TrialFailed: an embedding is not finite; the message shows a sentence.
        InvalidValue: a task returns something else than a ``Result``.
    """
    model = Model(embed=embed, geometry=geometry, features=features, generate=generate)
    needs = {t.name: t.sentences() for t in tasks if not isinstance(t, ModelTask)}
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
            for values in (found.metrics, found.readouts):  # numbers of torch and numpy, too
                values.update({n: v.item() for n, v in values.items() if hasattr(v, "item")})
            result.update(found)
    return result


def finite(embeddings: Tensor, sentences: Sequence[str]) -> Tensor:
    """Return the embeddings as they are; a ``TrialFailed`` with a sentence if one is not finite."""
    bad = (~torch.isfinite(embeddings).all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise TrialFailed(
            f"{len(bad)} of {len(sentences)} embeddings are not finite, "
            f"the first that of {sentences[bad[0]]!r}"
        )
    return embeddings
