"""The interface of a family of methods to a job, and the base of those trained by gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.code import result_code
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.mixing import MixedHandle, is_weight
from sentune.corpora.prepare import Prepared
from sentune.corpora.ray_map import in_turn, on_worker
from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stream import hand_out, share
from sentune.corpora.tokens import META, TokenFolder
from sentune.embedder.embedder import Embedder
from sentune.embedder.references import StoredReferences
from sentune.errors import InvalidValue
from sentune.io.cached_file import node_cache
from sentune.job.corpora import STORED, describe, needs_references, numbered, read_corpora_of
from sentune.job.options import TrainingOptions
from sentune.launchers.artifact_transfer import ShippedFolder, WithEncoder, ship
from sentune.launchers.run_trial import run_trial
from sentune.methods import find
from sentune.readouts.grid import Readout
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe, searched
from sentune.study.planning.probe import checkpoint_size, probe_training
from sentune.study.runner.limits import Budget
from sentune.study.space.domains import Dimension, Integer, Value
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import read_json
from sentune.study.study import MakeSpec
from sentune.tasks.references import References
from sentune.training.inputs import InputMaker
from sentune.training.loop import train
from sentune.training.model import export_checkpoint
from sentune.training.recipes import recipe_of
from sentune.training.settings import TrainingSettings, split
from sentune.training.trial import Opens, Program, TrialSpec

PROBED_ROWS = 20_000
"""Rows of a corpus that a probe reads; whole shards are read, so there may be more."""

Card = Mapping[str, Mapping[str, Any]]
"""Section of a model card -> name -> value."""


class JobFamily(ABC):
    """A job of one family of methods; ``sentune.job.run`` calls its methods in this order.

    Attributes:
        name: of the family, as the options name it.
        space: what is searched, narrowed to what the user asked for.
        config: the study that the options ask for; ``prepare`` may change it.
        folder: what every trial builds its method from (``TrialSpec.encoder``).
        train: the training corpus, where rules without a model learn from it.
        dev: the corpora that are selected on.
        references: sentences of interpretations; None where the method has none.
        prefer: kind of pairs that is read where a format has several, such as SICK.
        builtin: corpora that it is judged on where no others are named.
    """

    name: ClassVar[str]
    prefer: ClassVar[Kind | None] = None
    builtin: tuple[str, ...] = ()
    space: SearchSpace
    config: StudyConfig
    folder: str = ""
    train: Prepared | None = None
    dev: tuple[Corpus, ...]
    references: References | None = None

    def __init__(self, options: Any, space: SearchSpace) -> None:
        self.options: Any = read_corpora_of(options)
        self.space, self.config = self.requested(space)

    @abstractmethod
    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        """Return the space narrowed by the options, and the study's configuration.

        Raises:
            InvalidValue: an option, a setting or a value that cannot be used.
        """

    def with_readouts(self, space: SearchSpace, readouts: Sequence[Readout]) -> SearchSpace:
        """Return the space with the ``--objective`` and, by ``--search-readouts``, its readouts."""
        if self.options.search_readouts:
            if not readouts:
                fix = f"{space.method} has none that are swept over a grid"
                raise InvalidValue("--search-readouts", True, fix)
            space = space.searching(readouts)
        if not self.options.objective:
            return space
        first = Objective.parse(self.options.objective[0], space.mode)
        return replace(space, objective=first.metric, mode=first.mode)

    def configured(self, space: SearchSpace, **others: Any) -> StudyConfig:
        """Return the study's configuration; options with the name of a field are copied.

        Args:
            space: narrowed.
            others: fields with other values than the options have.
        """
        options = self.options
        named = {field.name for field in fields(StudyConfig)} & type(options).model_fields.keys()
        asked = {
            **{name: getattr(options, name) for name in named},
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
        }
        return StudyConfig(**{**asked, **others})

    @abstractmethod
    def prepare(self, console: Console) -> None:
        """Read the corpora and make what every trial needs, before a Ray of our own is up."""

    @property
    def cache_uri(self) -> str:
        """URI of the cache in an object store; empty where it is a folder, which all nodes see."""
        place = absolute(self.options.cache or f"{self.config.storage.rstrip('/')}/.cache")
        return place.rstrip("/") if "://" in place else ""

    @property
    def cache(self) -> Path:
        """Folder of prepared corpora, tokens and encoders; at home where they have a URI too."""
        if self.cache_uri:
            return node_cache()
        return Path(absolute(self.options.cache or f"{self.config.storage}/.cache"))

    def ship(self, folder: str) -> ShippedFolder:
        """Put a folder's files into the object store of the cache, else into Ray's."""
        return ship(folder, self.cache_uri and f"{self.cache_uri}/encoders")

    @abstractmethod
    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """Return role -> the training corpora and what goes with them, for the summary."""

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Return role -> what was read, for the summary."""
        dev = {numbered("dev", i): describe(corpus) for i, corpus in enumerate(self.dev)}
        return {**self.trained_on(), **dev}

    @abstractmethod
    def manifests(self) -> Sequence[str]:
        """Return the manifests of the folders in the cache that hold the training corpora."""

    def derived(self) -> dict[str, str]:
        """Return folder -> checksum of its manifest; in a local storage relative to that."""
        above = f"{self.config.storage.rstrip('/')}/"
        found = {file: read_json(file) for file in self.manifests()}
        return {
            file.rpartition("/")[0].removeprefix(above): manifest["checksum"]
            for file, manifest in found.items()
            if manifest  # else another process has emptied the cache
        }

    @abstractmethod
    def program(self) -> Program:
        """Return the program of a trial; its larger parts go to the object store once, here."""

    def fingerprints(self) -> dict[str, Any]:
        """Return fingerprints of the corpora and the code, on which results depend."""
        corpora = {role: corpus["fingerprint"] for role, corpus in self.corpora().items()}
        return {"corpora": corpora, "code": result_code(self.modules())}

    @abstractmethod
    def modules(self) -> Sequence[str]:
        """Return the modules that, with what they import, decide about a trial's figures."""

    @abstractmethod
    def handles(self) -> Sequence[Opens]:
        """Return handles of the training corpora, shared or streamed."""

    def handle(
        self, settings: dict[str, Any], handles: Sequence[Opens]
    ) -> tuple[Opens, dict[str, Any]]:
        """Return the training corpus of a trial, and the settings that are the training's."""
        (only,) = handles
        return only, settings

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
            values, grids = space.apart({**space.fixed, **settings})
            corpus, kept = self.handle(values, corpora)
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
        """Time the first configuration on this machine, without Ray; after ``prepare``.

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
        """Return the bytes of a checkpoint of the first configuration; 0 where it is small."""
        return 0

    @property
    def test(self) -> tuple[str, ...]:
        """``--test``; where all else ships with the package, so does the test corpus."""
        own = [spec for spec in self.options.corpora if not spec.startswith("builtin:")]
        if self.options.test or own or self.options.dev:
            given: tuple[str, ...] = self.options.test
            return given
        return tuple(f"{name}?split=test" for name in self.builtin)

    @abstractmethod
    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        """Write the model of the winner into a local folder.

        Args:
            best: the winner.
            checkpoint: of its best seed.
            card: empty for a model that is only judged.
        """


class TrainedFamily(JobFamily):
    """Methods that are trained by gradient.

    Attributes:
        tokens: the training corpora as token shards.
    """

    options: TrainingOptions
    tokens: tuple[TokenFolder, ...]

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        options, method = self.options, find(space.method)
        known = {*method.settings_type.model_fields, *TrainingSettings.model_fields}

        def typed(name: str, text: str) -> Value:
            own, training = split({name: text}, method)
            value: Value = getattr(own if name in type(own).model_fields else training, name)
            return value

        left = space.narrow(options.narrowing, known, method.readouts, typed)
        left = left.for_encoder(self.pretrained)
        split({k: v for k, v in left.fixed.items() if not is_weight(k)}, method)
        if "max_length" in left.settings:
            fix = "fix one length: a corpus is tokenised once for all trials"
            raise InvalidValue("--set max_length", options.narrowing["max_length"], fix)
        left = self.with_readouts(left, method.readouts)
        if not options.population:
            return left, self.configured(left, generations=1)
        # its best checkpoint is the result: a schedule has no settings to seed
        trials = options.population * options.generations
        return left, self.configured(left, trials=trials, finalists=0, scheduler="none")

    @property
    @abstractmethod
    def pretrained(self) -> str:
        """Name of the encoder or word vectors, which choose the space's first points."""

    @property
    def training(self) -> TrainingSettings:
        """The training's settings as far as they are fixed; the length of sentences always is."""
        fixed = {k: v for k, v in self.space.fixed.items() if not is_weight(k)}
        return split(fixed, find(self.space.method))[1]

    @property
    def input_maker(self) -> InputMaker:
        """What makes the inputs of the run, on a cluster's workers where there is one."""
        return InputMaker(
            max_length=self.training.max_length,
            cache=self.cache,
            limit=self.options.limit,
            uri=self.cache_uri,
            spread=in_turn,
            run=on_worker,
        )

    @abstractmethod
    def read(self, console: Console) -> None:
        """Read the corpora; set ``folder``, ``tokens``, ``dev`` and ``references``."""

    def prepare(self, console: Console) -> None:
        self.read(console)
        self.check_batch(sum(tokens.num_rows for tokens in self.tokens))
        if self._nbytes > self.options.share_mb << 20:
            self.config = replace(self.config, data_cpus=1.0)

    def manifests(self) -> Sequence[str]:
        return [f"{tokens.uri or tokens.path}/{META}" for tokens in self.tokens]

    def check_batch(self, rows: int) -> None:
        """Refuse a corpus whose rows are fewer than the largest batch that may be tried."""
        dimension = self.space.settings.get("batch_size")
        sizes = getattr(dimension, "values", ()) or (self.space.fixed.get("batch_size", 0),)
        if isinstance(dimension, Integer):
            sizes = (dimension.high,)
        if max(sizes) > rows:
            fix = f"--corpus has {rows} rows; narrow it with --set batch_size={min(rows, 32)}"
            raise InvalidValue("batch_size", max(sizes), fix)

    @property
    def _nbytes(self) -> int:
        return sum(tokens.nbytes for tokens in self.tokens)

    def handles(self) -> list[Opens]:
        """Return the token shards, shared where they fit together, else streamed."""
        limit = self.options.share_mb << 20
        fits = self._nbytes <= limit
        return [hand_out(t, share_up_to=limit if fits else 0) for t in self.tokens]

    @cached_property
    def _shipped(self) -> ShippedFolder:
        return self.ship(self.folder)

    def program(self) -> Program:
        return WithEncoder(train, self._shipped)

    def modules(self) -> list[str]:
        method = find(self.space.method)
        parts = (run_trial, train, method, type(recipe_of(method)), hand_out, MixedHandle)
        return [part.__module__ for part in parts]

    def fingerprints(self) -> dict[str, Any]:
        return {**super().fingerprints(), "encoder": self._shipped.digest}

    def probe(self, seconds: float) -> Probe:
        spec = self._local_spec()
        _, training = split(spec.settings, find(spec.method))
        threads = max(1, int(self.config.cpus_per_worker))
        return probe_training(
            spec, batch_size=training.batch_size, seconds=seconds, threads=threads
        )

    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
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
        return checkpoint_size(self._local_spec())

    def _local_spec(self) -> TrialSpec:
        """Return the first configuration on data that this process holds."""
        handles = [Held(SharedSource(_first_shards(tokens).load())) for tokens in self.tokens]
        make_spec = self.spec_maker(hold=Held, handles=handles)
        settings: dict[str, Any] = first_configuration(searched(self.config, self.space))
        return make_spec(settings, "probe", self.config.seed, (self.config.max_examples,))

    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        """Write weights, tokenizer, settings, readouts, card, and the references."""
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        export_checkpoint(
            checkpoint,
            folder,
            method=self.space.method,
            settings={name: value for name, value in settings.items() if not is_weight(name)},
            encoder=self.folder,
            readouts=best.readouts,
            card=card,
        )
        if card and self.references is not None:
            chosen = [int(n) for k, n in best.readouts.items() if k.endswith("/references")]
            counts = self.references.within(chosen or [STORED])
            sizes = {count: self.references.sizes[count] for count in counts}
            kept = self.references.sentences[: sizes[counts[-1]]]
            embeddings = Embedder.load(folder).embed(kept, show_progress=False)
            StoredReferences(kept, embeddings.cpu(), sizes).save(folder)


def first_configuration(space: SearchSpace) -> dict[str, Value]:
    """Return the first point of a search; settings that it leaves open are at their middle."""
    points = space.first_points()
    known = points[0] if points else {}

    def suggest(name: str, dimension: Dimension) -> Value:
        return known[name] if name in known else dimension.at(0.5)

    return space.draw(suggest)


def _first_shards(tokens: TokenFolder) -> TokenFolder:
    count, rows = 0, 0
    while count < len(tokens.shards) and rows < PROBED_ROWS:
        rows += tokens.shards[count]
        count += 1
    return replace(tokens, shards=tokens.shards[:count])


def absolute(place: str) -> str:
    """Return a folder as an absolute path, as workers run elsewhere; a URI as it is."""
    place = place.removeprefix("file://")
    return place if "://" in place else str(Path(place).expanduser().resolve())
