"""What all trials of a study share; a study of another world is never continued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentune.study.config import StudyConfig
from sentune.study.space.space import SearchSpace


def world_of(config: StudyConfig, space: SearchSpace, world: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that makes two trials comparable, as JSON types.

    How many trials, which sampler and which resources do not belong to it: they may change from
    one start to the next.

    Args:
        config: budget and seed count.
        space: what is searched, and by which objective.
        world: fingerprints of corpora, encoder and code.
    """
    return {
        **world,
        "space": space.identity(),
        "max_examples": config.max_examples,
        "rungs": list(config.scheduling(space.mode).rungs),
        "milestones": list(config.milestones(space.mode)),
        "seed": config.seed,
        "objectives": [objective.to_dict() for objective in config.objectives],
        "population": [config.population, config.generations],
        "constraints": sorted(map(str, config.constraints)),
    }
