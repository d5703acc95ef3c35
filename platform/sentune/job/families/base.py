"""Interface of a job to the family of its method: the corpora, the trials, the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.console import Console
from torch import Tensor

from sentune.code import result_code
from sentune.corpora.batches import Held
from sentune.corpora.prepare import Prepared
from sentune.corpora.ray_map import in_turn, on_worker
from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stream import share
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.io.cached_file import node_cache
from sentune.io.object_store import absolute
from sentune.job.corpora import (
    check_tasks,
    describe,
    identity_of,
    modules_of,
    needs_references,
    numbered,
    read_corpora_of,
)
from sentune.job.options import StudyOptions
from sentune.launchers.artifact_transfer import ShippedFolder, ship
from sentune.methods import ClosedForm, GradientMethod
from sentune.methods.sif import Averages, SifSettings
from sentune.readouts.grid import Readout
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.config import Budget, StudyConfig
from sentune.study.planning.plan import Probe, searched
from sentune.study.space.domains import Dimension, Value
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import read_json
from sentune.study.study import MakeSpec
from sentune.tasks import read_selected
from sentune.tasks.references import References
from sentune.training.inputs import InputMaker
from sentune.training.trial import Opens, Program, TrialSpec

Card = Mapping[str, Mapping[str, Any]]
"""Section of a model card -> name -> value."""


class JobFamily(ABC):
    """A job of one family of methods; ``sentune.job.run`` calls its methods in this order.

    Attributes:
        method: the method's class.
        space: what is searched, narrowed to what the user asked for.
        config: the study that the options ask for; ``prepare`` may change it.
        folder: what every trial builds its method from (``TrialSpec.encoder``).
        sources: role -> training corpus, and that of the references where they have one.
        references: sentences of interpretations; None where the method has none.
        prefer: kind of pairs that is read where a format has several, such as SICK.
        builtin: corpora that it is judged on where no others are named.
    """

    prefer: ClassVar[Kind | None] = Kind.SCORED_PAIRS
    builtin: tuple[str, ...] = ()
    method: type[GradientMethod] | type[ClosedForm]
    space: SearchSpace
    config: StudyConfig
    folder: str = ""
    sources: dict[str, Prepared]
    references: References | None = None

    def __init__(self, options: Any, space: SearchSpace) -> None:
        check_tasks(options)
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
        asked = {
            **_fields_of(StudyConfig, options),
            "name": options.study,
            "storage": absolute(options.storage),
            "optuna_url": options.optuna,
            "budget": Budget(**_fields_of(Budget, options), no_gain=options.stop_after_no_gain),
            "objectives": tuple(Objective.parse(text) for text in options.objective[1:]),
            "constraints": tuple(map(Constraint.parse, options.constraint)),
            "points": tuple(map(space.parse_point, options.try_first)),
        }
        return StudyConfig(**{**asked, **others})

    @cached_property
    def dev(self) -> tuple[Corpus, ...]:
        """The corpora that are selected on, which are short, without rows of a test split."""
        builtin = [f"{name}?split=dev" for name in self.builtin]
        specs = self.options.dev or builtin
        return tuple(read_selected(spec, prefer=self.prefer) for spec in specs)

    @abstractmethod
    def check(self) -> None:
        """Check that all is there that the training reads, without reading it.

        Raises:
            InvalidValue, CorpusError: an option names what is not there or cannot be used.
        """

    @abstractmethod
    def prepare(self, console: Console) -> None:
        """Read the training corpora, make what every trial needs; before a Ray of our own is up."""

    @property
    def cache_uri(self) -> str:
        """URI of the cache in an object store; empty where it is a folder, which all nodes see."""
        return self._cache_place if "://" in self._cache_place else ""

    @property
    def cache(self) -> Path:
        """Folder of prepared corpora, tokens and encoders; at home where they have a URI too."""
        return node_cache() if self.cache_uri else Path(self._cache_place)

    @property
    def _cache_place(self) -> str:
        named = self.options.cache or f"{self.config.storage.rstrip('/')}/.cache"
        return absolute(named).rstrip("/")

    def ship(self, folder: str | Path) -> ShippedFolder:
        """Put a folder's files into the object store of the cache, else into Ray's."""
        return ship(str(folder), self.cache_uri and f"{self.cache_uri}/encoders")

    def maker(self, max_length: int = 0) -> InputMaker:
        """Return what prepares corpora in the cache, and tokens of so many a sentence."""
        return InputMaker(
            max_length=max_length,
            cache=self.cache,
            limit=self.options.limit,
            uri=self.cache_uri,
            spread=in_turn,
            run=on_worker,
        )

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Return role -> what was read, for the summary."""
        trained = {role: corpus.described() for role, corpus in self.sources.items()}
        dev = {numbered("dev", i): describe(corpus) for i, corpus in enumerate(self.dev)}
        return {**trained, **dev}

    def manifests(self) -> list[str]:
        """Return the manifests of the folders in the cache that hold the training corpora."""
        return [corpus.manifest_file for corpus in self.sources.values()]

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
        corpora = {role: identity_of(corpus) for role, corpus in self.corpora().items()}
        return {"corpora": corpora, "code": result_code([*self.modules(), *modules_of(self.dev)])}

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

    def first_spec(self, handles: Sequence[Opens], examples: int) -> TrialSpec:
        """Return the first configuration's run of so many examples, on corpora held here."""
        make_spec = self.spec_maker(hold=Held, handles=handles)
        settings: dict[str, Any] = first_configuration(searched(self.config, self.space))
        spec = make_spec(settings, "probe", self.config.seed, (examples,))
        return replace(spec, max_examples=examples)

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
        """Return the bytes of a checkpoint of the first configuration; 0 where it is small, or
        not known before ``prepare``."""
        return 0

    @property
    def test(self) -> tuple[str, ...]:
        """``--test``; where all else ships with the package, so does the test corpus."""
        own = [spec for spec in self.options.corpora if not spec.startswith("builtin:")]
        if self.options.test or own or self.options.dev:
            given: tuple[str, ...] = self.options.test
            return given
        return tuple(f"{name}?split=test" for name in self.builtin)

    def word_averages(self) -> Callable[[Sequence[str]], Tensor] | None:
        """Return a function from N sentences to [N, D] averages of the vectors of their words, as
        they are before any training; None where there are none."""
        return None

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


def first_configuration(space: SearchSpace) -> dict[str, Value]:
    """Return the first point of a search; settings that it leaves open are at their middle."""
    points = space.first_points()
    known = points[0] if points else {}

    def suggest(name: str, dimension: Dimension) -> Value:
        return known[name] if name in known else dimension.at(0.5)

    return space.draw(suggest)


def _fields_of(kind: type[StudyConfig | Budget], options: StudyOptions) -> dict[str, Any]:
    """Return the options that have the name of a field."""
    given = vars(options)
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


def averages_of(words: WordTable) -> Callable[[Sequence[str]], Tensor]:
    """Return a function from N sentences to [N, n] averages of the vectors of their known words."""
    average = Averages(words, SifSettings(variant="average"))
    return lambda sentences: torch.from_numpy(average(sentences))
