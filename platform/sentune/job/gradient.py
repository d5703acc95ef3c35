"""A job of a method that is trained by gradient: corpora as tokens, an encoder, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.encoders import prepare
from sentune.job.assembly import make_study, tokenised
from sentune.job.data import Corpora, read_corpora, sample_references, test_specs
from sentune.job.kinds import Publishes
from sentune.job.options import JobOptions
from sentune.job.product import TrainedProduct
from sentune.job.request import cache_folder, check_batch, narrowed, study_config
from sentune.records import FinalistRecord, StudyListener, TrialRecord, TrialState
from sentune.search.space import SearchSpace
from sentune.search.study import Study, StudyOutcome


class GradientJob:
    """See ``sentune.job.kinds.Job``."""

    reads_before_plan: ClassVar[bool] = False

    def __init__(self, options: JobOptions, space: SearchSpace) -> None:
        self.options = options
        self.space = narrowed(space, options)
        self.config = study_config(options)
        self.data: Corpora | None = None

    def prepare(self, console: Console) -> None:
        """Reads the corpora; prepares encoder and tokens."""
        del console
        self.data = read_corpora(self.options, self.space.method)
        check_batch(self.space, self.data)
        cache = cache_folder(self.config)
        self.encoder = prepare(self.options.encoder, self.data.sentences(), cache)
        self.tokens = tokenised(self.space, self.data, self.encoder, cache)
        self.references = sample_references(self.space, self.data, self.options.seed)
        if self.tokens.nbytes > self.options.share_mb << 20:
            self.config = replace(self.config, data_cpus=1.0)

    @property
    def _data(self) -> Corpora:
        assert self.data is not None, "prepare() comes first"
        return self.data

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> what was read."""
        return self._data.described()

    def study(self, listeners: Sequence[StudyListener]) -> Study:
        """The study on the cluster."""
        return make_study(self, listeners)

    def product(self, outcome: StudyOutcome) -> Publishes:
        """The winner; without finalists the best trial is the winner."""
        best = best_run(outcome, self.space)
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        return TrainedProduct(
            settings=settings,
            readouts=best.readouts,
            checkpoint=Path(outcome.best_checkpoint or ""),
            encoder=self.encoder,
            storage=self.config.folder,
            test=test_specs(self.options),
            dev=self._data.dev,
            train=self._data.train,
            references=self.references,
            gpus=self.options.gpus_per_worker,
        )


def best_run(outcome: StudyOutcome, space: SearchSpace) -> FinalistRecord | TrialRecord:
    """The winning finalist, or the best complete trial where no finals were asked for."""
    if outcome.winner is not None:
        return outcome.finalists[outcome.winner]
    sign = 1 if space.mode == "max" else -1
    complete = [trial for trial in outcome.trials if trial.state is TrialState.COMPLETE]
    return max(complete, key=lambda trial: (sign * trial.metrics[space.objective], -trial.id))
