"""What an evaluation task is: data, protocol and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from sentune.geometry.base import Geometry


@dataclass(kw_only=True)
class Result:
    """What one or more tasks found.

    Attributes:
        metrics: ``task/metric`` -> fraction.
        readouts: ``task/readout`` -> value that was swept or applied.
        tables: file name -> content, JSON types: curves, counts of pairs.
        skipped: ``task`` or ``task/metric`` -> why it is not among the metrics.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    readouts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def update(self, other: Result) -> None:
        """Takes over everything that ``other`` found."""
        self.metrics.update(other.metrics)
        self.readouts.update(other.readouts)
        self.tables.update(other.tables)
        self.skipped.update(other.skipped)


class Task(Protocol):
    """Data and protocol of one evaluation."""

    @property
    def name(self) -> str:
        """First part of the names of its metrics."""

    def sentences(self) -> list[str]:
        """The distinct sentences whose embeddings the task needs."""

    def evaluate(
        self,
        embeddings: Tensor,
        geometry: Geometry,
        readouts: Mapping[str, Any] | None = None,
    ) -> Result:
        """[S, D] packed embeddings of ``sentences()`` -> metrics.

        Without ``readouts`` they are swept here, on the development set; with them, the values
        found there are applied as they are, on the test set.
        """


def readout_of(readouts: Mapping[str, Any], task: str, kind: str, name: str) -> Any | None:
    """The value for a task's readout: its own, else that of the first task of its kind.

    ``rte-sick`` reads ``rte-sick/threshold``, or the ``rte/threshold`` that was tuned on SNLI
    (GumbelCSE section 4.2 judges all corpora by the threshold from SNLI dev). None if neither is
    there.
    """
    own = readouts.get(f"{task}/{name}")
    return own if own is not None else readouts.get(f"{kind}/{name}")
