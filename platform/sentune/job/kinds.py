"""The two kinds of jobs: methods trained by gradient, and methods fitted in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from rich.console import Console

from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace
from sentune.study.study import Study, StudyOutcome


class Publishes(Protocol):
    """How a study's winner becomes a model folder."""

    def publish(self, summary: StudySummary) -> dict[str, Any]:
        """Writes ``model/`` and judges it; returns file name -> content of its tables."""


class Job(Protocol):
    """What ``flow.tune`` asks of a job, in this order.

    Attributes:
        space: what is searched, narrowed to what the user asked for.
        config: the study that the options ask for.
        reads_before_plan: whether the plan depends on what is read.
    """

    space: SearchSpace
    config: StudyConfig
    reads_before_plan: ClassVar[bool]

    def prepare(self, console: Console) -> None:
        """Reads the corpora and makes what every trial needs, before Ray is up.

        ``config`` may change with what was read.
        """

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> what was read, as it stands in the summary."""

    def study(self) -> Study:
        """The study on the cluster that this process has joined; refuses what cannot run."""

    def product(self, outcome: StudyOutcome) -> Publishes:
        """How the winner becomes a model folder."""
