"""What the jobs of all methods that are trained by gradient have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stream import hand_out
from sentune.corpora.tokens import TokenFolder
from sentune.corpora.weights import is_weight
from sentune.job.assembly import make_study
from sentune.job.data import describe, numbered, test_specs
from sentune.job.kinds import Publishes
from sentune.job.options import TrainingOptions
from sentune.job.product import TrainedProduct
from sentune.job.request import cache_folder, check_batch, narrowed, study_config
from sentune.methods import find
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.runner.retention import ranked
from sentune.study.space.objectives import Objective
from sentune.study.space.space import SearchSpace
from sentune.study.study import Study, StudyOutcome, objectives_of
from sentune.tasks.references import References
from sentune.training.settings import TrainingSettings, split
from sentune.training.trial import Opens


class TrainedJob(ABC):
    """See ``sentune.job.kinds.Job``.

    Attributes:
        builtin: corpora that it is judged on where no others are named.
        folder: what every trial builds its method from (``TrialSpec.encoder``).
        tokens: the training corpora as token shards.
        dev: what is selected on.
        references: of interpretations; None where the method has none.
        prefer: kind of pairs that it is judged on where a format has several, such as SICK.
    """

    prefer: ClassVar[Kind | None] = None
    reads_before_plan: ClassVar[bool] = False
    builtin: tuple[str, ...]
    folder: str
    tokens: tuple[TokenFolder, ...]
    dev: tuple[Corpus, ...]
    references: References | None = None

    def __init__(self, options: TrainingOptions, space: SearchSpace) -> None:
        self.options = options
        self.space = narrowed(self.widened(space), options, self.suits)
        self.config = study_config(options, self.space)

    @property
    @abstractmethod
    def suits(self) -> str:
        """What the starts of the space are for: the encoder, or the word vectors."""

    @property
    def training(self) -> TrainingSettings:
        """The training's settings as far as they are fixed; the length of sentences always is."""
        fixed = {k: v for k, v in self.space.fixed.items() if not is_weight(k)}
        return split(fixed, find(self.space.method))[1]

    def widened(self, space: SearchSpace) -> SearchSpace:
        """The space with what depends on the options."""
        return space

    @abstractmethod
    def read(self, cache: Path, console: Console) -> None:
        """Reads the corpora; sets ``folder``, ``tokens``, ``dev`` and ``references``."""

    @abstractmethod
    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> the training corpora and what goes with them."""

    def train_table(self) -> Corpus | None:
        """The training corpus, where rules without a model learn from it."""
        return None

    def handle(self, settings: dict[str, Any], handles: Sequence[Opens]) -> Opens:
        """The batches of a trial. May take settings out that the training does not know."""
        del settings
        (only,) = handles
        return only

    def prepare(self, console: Console) -> None:
        """Reads the corpora and prepares what every trial needs."""
        self.read(cache_folder(self.config), console)
        check_batch(self.space, sum(tokens.num_rows for tokens in self.tokens))
        if sum(tokens.nbytes for tokens in self.tokens) > self.options.share_mb << 20:
            self.config = replace(self.config, data_cpus=1.0)

    def handles(self) -> list[Opens]:
        """The token shards, shared where they fit together, else streamed."""
        limit = self.options.share_mb << 20
        whole = sum(tokens.nbytes for tokens in self.tokens)
        return [hand_out(t, share_up_to=limit if whole <= limit else 0) for t in self.tokens]

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> what was read."""
        dev = {numbered("dev", i): describe(corpus) for i, corpus in enumerate(self.dev)}
        return {**self.trained_on(), **dev}

    def study(self) -> Study:
        """The study on the cluster."""
        return make_study(self)

    def product(self, outcome: StudyOutcome) -> Publishes:
        """The winner; without finalists the best trial is the winner."""
        best = best_run(outcome, objectives_of(self.config, self.space))
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        return TrainedProduct(
            settings=self.shipped_settings(settings),
            readouts=best.readouts,
            checkpoint=Path(outcome.best_checkpoint or ""),
            encoder=self.folder,
            storage=self.config.folder,
            test=test_specs(self.options, self.builtin),
            dev=self.dev,
            train=self.train_table(),
            references=self.references,
            prefer=self.prefer,
            gpus=self.options.gpus_per_worker,
            force_test=self.options.force_test,
        )

    def shipped_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """What of the settings belongs to the model."""
        return settings


def best_run(
    outcome: StudyOutcome, objectives: Sequence[Objective]
) -> FinalistRecord | TrialRecord:
    """The winning finalist, or the best trial where no finals were asked for."""
    if outcome.winner is not None:
        return outcome.finalists[outcome.winner]
    return ranked(outcome.trials, objectives)[0]
