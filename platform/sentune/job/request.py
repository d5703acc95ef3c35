"""What the options ask of a search: the space that is left, the study, its places on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentune.errors import InvalidValue
from sentune.job.data import Corpora
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.search.config import StudyConfig
from sentune.search.space import SearchSpace
from sentune.training.settings import TrainingSettings, split


def narrowed(space: SearchSpace, options: JobOptions) -> SearchSpace:
    """The space that ``--set`` and ``--objective`` leave.

    Raises:
        InvalidValue: a setting that there is not, or a value that it cannot have.
    """
    method = find(space.method)
    others = {*method.settings_type.model_fields, *TrainingSettings.model_fields}
    left = space.narrow(options.narrowing, others).for_encoder(options.encoder)
    split(left.fixed, method)
    if "max_length" in left.settings:
        fix = "fix one length: a corpus is tokenised once for all trials"
        raise InvalidValue("--set max_length", options.narrowing["max_length"], fix)
    if options.objective is None:
        return left
    return replace(left, objective=options.objective)


def study_config(options: JobOptions) -> StudyConfig:
    """The study that the options ask for; a local storage becomes an absolute path."""
    storage = options.storage.removeprefix("file://")
    if "://" not in storage:
        storage = str(Path(storage).expanduser().resolve())
    return StudyConfig(
        name=options.study,
        storage=storage,
        optuna_url=options.optuna,
        trials=options.trials,
        concurrent=options.concurrent,
        max_examples=options.max_examples,
        validate_every=options.validate_every,
        eta=options.eta,
        finalists=options.finalists,
        seeds=options.seeds,
        sampler=options.sampler,
        seed=options.seed,
        launcher=options.launcher,
        workers=options.workers,
        gpus_per_worker=options.gpus_per_worker,
    )


def check_batch(space: SearchSpace, corpora: Corpora) -> None:
    """Refuses a corpus that is smaller than the largest batch that may be tried."""
    dimension = space.settings.get("batch_size")
    sizes = getattr(dimension, "values", ()) or (space.fixed.get("batch_size", 0),)
    rows = corpora.train.table.num_rows
    if max(sizes) > rows:
        fix = f"--corpus has {rows} rows; narrow it with --set batch_size={min(rows, 32)}"
        raise InvalidValue("batch_size", max(sizes), fix)


def cache_folder(config: StudyConfig) -> Path:
    """Where tokens and built-in encoders are kept: beside the studies, or in the home folder."""
    if "://" in config.storage:
        return Path.home() / ".cache" / "sentune"
    return Path(config.storage) / ".cache"
