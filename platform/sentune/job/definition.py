"""What makes a job: a search space, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentune.job.options import StudyOptions
from sentune.study.space.space import SearchSpace


@dataclass(frozen=True, kw_only=True)
class JobDefinition:
    """Arguments that a job's script hands to ``job.run``, which explains them."""

    space: SearchSpace
    defaults: StudyOptions
    quick: Mapping[str, Any] | None = None
