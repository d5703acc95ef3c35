"""The options of a job as a narrowed search space and a study's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentune.corpora.weights import is_weight
from sentune.errors import InvalidValue
from sentune.job.options import StudyOptions, TrainingOptions
from sentune.methods import find
from sentune.readouts.grid import Readout
from sentune.study.config import StudyConfig
from sentune.study.runner.limits import Budget
from sentune.study.space.domains import Integer, Value
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import SearchSpace
from sentune.training.settings import TrainingSettings, split

SEARCHING = (
    *("trials", "concurrent", "max_concurrent", "priority", "sampler", "seed"),
    *("failed_share", "keep", "warm_start"),
)
"""Options that are copied into every study's configuration."""

TRAINING = (
    *("population", "max_examples", "validate_every", "eta", "finalists", "seeds"),
    *("launcher", "workers", "gpus_per_worker", "scheduler", "checkpoint_every"),
)
"""Further options that are copied for methods trained by gradient."""


def narrowed(space: SearchSpace, options: TrainingOptions, pretrained: str) -> SearchSpace:
    """Return the space narrowed by ``--set``, ``--objective`` and ``--search-readouts``.

    Args:
        pretrained: encoder or word vectors, which choose the space's first points.

    Raises:
        InvalidValue: a setting that there is not, or a value that it cannot have.
    """
    method = find(space.method)
    others = {*method.settings_type.model_fields, *TrainingSettings.model_fields}

    def typed(name: str, text: str) -> Value:
        own, training = split({name: text}, method)
        value: Value = getattr(own if name in type(own).model_fields else training, name)
        return value

    left = space.narrow(options.narrowing, others, method.readouts, typed).for_encoder(pretrained)
    split({k: v for k, v in left.fixed.items() if not is_weight(k)}, method)
    if "max_length" in left.settings:
        fix = "fix one length: a corpus is tokenised once for all trials"
        raise InvalidValue("--set max_length", options.narrowing["max_length"], fix)
    return with_readouts(left, options, method.readouts)


def with_readouts(
    space: SearchSpace, options: StudyOptions, readouts: Sequence[Readout]
) -> SearchSpace:
    """Return the space with the ``--objective`` and, by ``--search-readouts``, its readouts."""
    if options.search_readouts:
        if not readouts:
            fix = f"{space.method} has none that are swept over a grid"
            raise InvalidValue("--search-readouts", True, fix)
        space = space.searching(readouts)
    if not options.objective:
        return space
    first = Objective.parse(options.objective[0], space.mode)
    return replace(space, objective=first.metric, mode=first.mode)


def searching(options: StudyOptions, space: SearchSpace) -> dict[str, Any]:
    """Return the fields of ``StudyConfig`` that every job sets from its options."""
    return {
        "name": options.study,
        "storage": absolute(options.storage),
        "optuna_url": options.optuna,
        "budget": Budget(
            max_trials=options.max_trials,
            max_hours=options.max_hours,
            max_gpu_hours=options.max_gpu_hours,
            no_gain=options.stop_after_no_gain,
        ),
        "objectives": tuple(Objective.parse(text) for text in options.objective[1:]),
        "constraints": tuple(map(Constraint.parse, options.constraint)),
        "points": tuple(map(space.parse_point, options.try_first)),
        **{name: getattr(options, name) for name in SEARCHING},
    }


def study_config(options: TrainingOptions, space: SearchSpace) -> StudyConfig:
    """Return the configuration of a study of methods trained by gradient."""
    if options.population:  # its best checkpoint is the result: a schedule has no settings to seed
        members, stops = options.population, options.generations
        options = options.model_copy(
            update={"trials": members * stops, "finalists": 0, "scheduler": "none"}
        )
    return StudyConfig(
        **searching(options, space),
        generations=options.generations if options.population else 1,
        **{name: getattr(options, name) for name in TRAINING},
    )


def absolute(storage: str) -> str:
    """Return a local storage as an absolute path, a URI as it is."""
    storage = storage.removeprefix("file://")
    return storage if "://" in storage else str(Path(storage).expanduser().resolve())


def check_batch(space: SearchSpace, rows: int) -> None:
    """Refuses a corpus whose rows are fewer than the largest batch that may be tried."""
    dimension = space.settings.get("batch_size")
    sizes = getattr(dimension, "values", ()) or (space.fixed.get("batch_size", 0),)
    if isinstance(dimension, Integer):
        sizes = (dimension.high,)
    if max(sizes) > rows:
        fix = f"--corpus has {rows} rows; narrow it with --set batch_size={min(rows, 32)}"
        raise InvalidValue("batch_size", max(sizes), fix)


def cache_folder(config: StudyConfig) -> Path:
    """Return the folder of tokens and built-in encoders: in a local storage, else at home."""
    if "://" in config.storage:
        return Path.home() / ".cache" / "sentune"
    return Path(config.storage) / ".cache"
