"""The interface of a family of methods to a job, and the base of those trained by gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from rich.console import Console

from sentune.code import result_fingerprint
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stream import hand_out, share
from sentune.corpora.tokens import TokenFolder
from sentune.corpora.weights import is_weight
from sentune.job.corpora import describe, needs_references, numbered, test_specs
from sentune.job.options import TrainingOptions
from sentune.job.product import Product, TrainedProduct
from sentune.job.search_request import cache_folder, check_batch, narrowed, study_config
from sentune.launchers.artifact_transfer import ShippedFolder, WithEncoder, ship
from sentune.methods import find
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe, searched
from sentune.study.planning.probe import checkpoint_size, probe_training
from sentune.study.runner.retention import ranked
from sentune.study.space.domains import Dimension, Value
from sentune.study.space.space import SearchSpace
from sentune.study.study import MakeSpec, StudyOutcome, objectives_of
from sentune.tasks.references import References
from sentune.training.loop import train
from sentune.training.settings import TrainingSettings, split
from sentune.training.trial import Opens, Program, TrialSpec

PROBED_ROWS = 20_000
"""Rows of a corpus that a probe reads; whole shards are read, so there may be more."""


class JobFamily(ABC):
    """A job of one family of methods; ``sentune.job.run`` calls its methods in this order.

    Attributes:
        name: of the family, as the options name it.
        space: what is searched, narrowed to what the user asked for.
        config: the study that the options ask for; ``prepare`` may change it.
        folder: what every trial builds its method from (``TrialSpec.encoder``).
        dev: the corpora that are selected on.
        references: sentences of interpretations; None where the method has none.
        prefer: kind of pairs that is read where a format has several, such as SICK.
    """

    name: ClassVar[str]
    prefer: ClassVar[Kind | None] = None
    space: SearchSpace
    config: StudyConfig
    folder: str = ""
    dev: tuple[Corpus, ...]
    references: References | None = None

    def __init__(self, options: Any, space: SearchSpace) -> None:
        self.options: Any = options
        self.space, self.config = self.requested(options, space)

    @abstractmethod
    def requested(self, options: Any, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        """Return the narrowed space and the study's configuration.

        Raises:
            InvalidValue: an option, a setting or a value that cannot be used.
        """

    @abstractmethod
    def prepare(self, console: Console) -> None:
        """Reads the corpora and makes what every trial needs, before Ray is up."""

    @abstractmethod
    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> the training corpora and what goes with them, for the summary."""

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> what was read, for the summary."""
        dev = {numbered("dev", i): describe(corpus) for i, corpus in enumerate(self.dev)}
        return {**self.trained_on(), **dev}

    @abstractmethod
    def program(self) -> Program:
        """Return the program of a trial; its larger parts go to the object store once, here."""

    def fingerprints(self) -> dict[str, Any]:
        """Return fingerprints of the corpora and the code, on which results depend."""
        corpora = {role: corpus["fingerprint"] for role, corpus in self.corpora().items()}
        return {"corpora": corpora, "code": result_fingerprint()}

    @abstractmethod
    def handles(self) -> Sequence[Opens]:
        """Handles of the training corpora, shared or streamed."""

    def handle(self, settings: dict[str, Any], handles: Sequence[Opens]) -> Opens:
        """Return the training corpus of a trial; may remove settings unknown to the training."""
        del settings
        (only,) = handles
        return only

    def spec_maker(
        self,
        *,
        hold: Callable[[Any], Opens] = share,
        handles: Sequence[Opens] | None = None,
    ) -> MakeSpec:
        """Return a function from settings to a ``TrialSpec``; corpora go to the object store once.

        Args:
            hold: makes a handle of something; ``Held`` keeps it in this process, without Ray.
            handles: of the training corpora; None: as ``handles`` gives them.
        """
        config, space = self.config, self.space
        corpora = self.handles() if handles is None else handles
        dev, references = hold(list(self.dev)), None
        if self.references is not None and needs_references(self.dev):
            references = hold(self.references)

        def make_spec(
            settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
        ) -> TrialSpec:
            kept, grids = space.apart({**space.fixed, **settings})
            corpus = self.handle(kept, corpora)
            return TrialSpec(
                study=config.name,
                trial=name,
                method=space.method,
                settings=kept,
                encoder=self.folder,
                corpus=corpus,
                dev=dev,
                max_examples=config.max_examples,
                milestones=milestones,
                objective=space.objective,
                mode=space.mode,
                seed=seed,
                readouts=grids,
                references=references,
            )

        return make_spec

    @abstractmethod
    def probe(self, seconds: float) -> Probe:
        """Times the first configuration on this machine, without Ray; after ``prepare``.

        Raises:
            TrialFailed: it cannot be trained, or not one step was through in time.
            InvalidValue: its settings do not fit together, the encoder or the corpus.
        """

    @abstractmethod
    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        """Return the cost that a user states in place of a probe.

        Raises:
            InvalidValue: the cost of a trial does not go by examples.
        """

    def checkpoint_bytes(self) -> int:
        """Bytes of a checkpoint of the first configuration; 0 where it is small."""
        return 0

    @abstractmethod
    def product(self, outcome: StudyOutcome) -> Product:
        """How the winner becomes a model folder."""

    def best_run(self, outcome: StudyOutcome) -> FinalistRecord | TrialRecord:
        """The winning finalist, or the best trial where no finals were asked for."""
        if outcome.winner is not None:
            return outcome.finalists[outcome.winner]
        return ranked(outcome.trials, objectives_of(self.config, self.space))[0]


class TrainedFamily(JobFamily):
    """Methods that are trained by gradient.

    Attributes:
        builtin: corpora that it is judged on where no others are named.
        tokens: the training corpora as token shards.
    """

    options: TrainingOptions
    builtin: tuple[str, ...]
    tokens: tuple[TokenFolder, ...]

    def requested(
        self, options: TrainingOptions, space: SearchSpace
    ) -> tuple[SearchSpace, StudyConfig]:
        """Narrowed by ``--set``, with the starts that suit the encoder or the word vectors."""
        left = narrowed(self.widened(space), options, self.pretrained)
        return left, study_config(options, left)

    @property
    @abstractmethod
    def pretrained(self) -> str:
        """Name of the encoder or word vectors, which choose the space's first points."""

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

    def prepare(self, console: Console) -> None:
        """Reads the corpora and prepares what every trial needs."""
        self.read(cache_folder(self.config), console)
        check_batch(self.space, sum(tokens.num_rows for tokens in self.tokens))
        if self._nbytes > self.options.share_mb << 20:
            self.config = replace(self.config, data_cpus=1.0)

    @property
    def _nbytes(self) -> int:
        return sum(tokens.nbytes for tokens in self.tokens)

    def handles(self) -> list[Opens]:
        """The token shards, shared where they fit together, else streamed."""
        limit = self.options.share_mb << 20
        fits = self._nbytes <= limit
        return [hand_out(t, share_up_to=limit if fits else 0) for t in self.tokens]

    @cached_property
    def _shipped(self) -> ShippedFolder:
        return ship(self.folder)

    def program(self) -> Program:
        """The training loop, with the folder that methods are built from."""
        return WithEncoder(train, self._shipped)

    def fingerprints(self) -> dict[str, Any]:
        """With the encoder."""
        return {**super().fingerprints(), "encoder": self._shipped.digest}

    def probe(self, seconds: float) -> Probe:
        """A few steps of training."""
        spec = self._local_spec()
        _, training = split(spec.settings, find(spec.method))
        threads = max(1, int(self.config.cpus_per_worker))
        return probe_training(
            spec, batch_size=training.batch_size, seconds=seconds, threads=threads
        )

    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        """On a GPU."""
        return Probe(
            start_seconds=0.0,
            seconds_per_example=1 / examples_per_second,
            seconds_per_validation=validation_seconds,
            checkpoint_bytes=0,
            gpu=True,
            basis=f"{examples_per_second:g} examples a second of a worker and "
            f"{validation_seconds:g} s a validation, as stated",
        )

    def checkpoint_bytes(self) -> int:
        """Of weights and optimiser."""
        return checkpoint_size(self._local_spec())

    def _local_spec(self) -> TrialSpec:
        """The first configuration on data that this process holds."""
        handles = [Held(SharedSource(_first_shards(tokens).load())) for tokens in self.tokens]
        make_spec = self.spec_maker(hold=Held, handles=handles)
        settings: dict[str, Any] = first_configuration(searched(self.config, self.space))
        return make_spec(settings, "probe", self.config.seed, (self.config.max_examples,))

    def product(self, outcome: StudyOutcome) -> TrainedProduct:
        """The winner; without finalists the best trial is the winner."""
        best = self.best_run(outcome)
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        return TrainedProduct(
            settings={name: value for name, value in settings.items() if not is_weight(name)},
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

    def train_table(self) -> Corpus | None:
        """The training corpus, where rules without a model learn from it."""
        return None


def first_configuration(space: SearchSpace) -> dict[str, Value]:
    """Return the first point of a search; settings that it leaves open are at their middle."""
    points = space.first_points()
    known = points[0] if points else {}

    def suggest(name: str, dimension: Dimension) -> Value:
        return known[name] if name in known else dimension.at(0.5)

    return space.draw(suggest)


def first_rows(batches: Iterator[pa.RecordBatch], rows: int) -> pa.Table:
    """Return the first rows of a corpus without reading the batches behind them."""
    taken: list[pa.RecordBatch] = []
    for batch in batches:
        taken.append(batch)
        if sum(part.num_rows for part in taken) >= rows:
            break
    return pa.Table.from_batches(taken).slice(0, rows)


def _first_shards(tokens: TokenFolder) -> TokenFolder:
    count, rows = 0, 0
    while count < len(tokens.shards) and rows < PROBED_ROWS:
        rows += tokens.shards[count]
        count += 1
    return replace(tokens, shards=tokens.shards[:count])
