"""Base class of jobs: what a family of methods does with corpora, trials and the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from sentune.code import result_code
from sentune.corpora.batches import Held
from sentune.corpora.prepare import Prepared
from sentune.corpora.ray_map import in_turn, on_worker
from sentune.corpora.schema import Corpus
from sentune.corpora.stream import share
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.io.cached_file import node_cache
from sentune.io.object_store import absolute
from sentune.job.corpora import (
    check_tasks,
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
from sentune.study.space.domains import Value
from sentune.study.space.objectives import Constraint, Objective
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import read_json
from sentune.study.study import MakeSpec
from sentune.tasks import read_selected
from sentune.tasks.references import References
from sentune.training.inputs import InputMaker, preferred_pairs
from sentune.training.trial import Opens, Program, TrialSpec

Card = Mapping[str, Mapping[str, Any]]
"""Section of a model card -> name -> value."""


class JobFamily(ABC):
    """A job of one family of methods; ``sentune.job.run`` calls its methods in the order below.

    Attributes:
        given: options and space as given, for ``study.json``.
        method: the method's class.
        space: the search space, narrowed by the user's options.
        config: of the study; ``prepare`` may change it.
        folder: the encoder or word vectors of all trials (``TrialSpec.encoder``).
        sources: role -> training corpus, and the corpus of the references if there is one.
        references: sentences for interpretations; None if the method has none.
        builtin: corpora to judge on if the user gives none.
    """

    builtin: tuple[str, ...] = ()
    given: tuple[StudyOptions, SearchSpace]
    method: type[GradientMethod] | type[ClosedForm]
    space: SearchSpace
    config: StudyConfig
    folder: str = ""
    sources: dict[str, Prepared]
    references: References | None = None

    def __init__(self, options: Any, space: SearchSpace) -> None:
        check_tasks(options)
        self.given = options, space
        self.options: Any = read_corpora_of(options)
        self.space, self.config = self.requested(space)

    @abstractmethod
    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        """Return the space narrowed by the options, and the study's configuration.

        Raises:
            InvalidValue: an option, a setting or a value that cannot be used.
        """

    def with_readouts(self, space: SearchSpace, readouts: Sequence[Readout]) -> SearchSpace:
        """Return the space with ``--objective`` and, if ``--search-readouts`` is set, readouts.

        Raises:
            InvalidValue: the method has no readouts to search.
        """
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
        """Return the study's configuration, made from the options of the same names.

        The values in ``others`` replace those of the options.
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
        """The development corpora, in memory, without the rows of a test split."""
        builtin = [f"{name}?split=dev" for name in self.builtin]
        specs = self.options.dev or builtin
        prefer = preferred_pairs(self.method)
        return tuple(read_selected(spec, prefer=prefer) for spec in specs)

    @abstractmethod
    def check(self) -> None:
        """Check that the inputs of the training exist, without reading them in full.

        Raises:
            InvalidValue, CorpusError: an input is missing or cannot be used.
        """

    @abstractmethod
    def prepare(self, console: Console) -> None:
        """Read the training corpora and make the inputs of all trials.

        It is called before a local Ray is started.
        """

    @property
    def cache_uri(self) -> str:
        """URI of the cache in an object store; empty if the cache is a folder."""
        return self._cache_place if "://" in self._cache_place else ""

    @property
    def cache(self) -> Path:
        """Folder of prepared corpora, tokens and encoders; with a URI it is in the home folder."""
        return node_cache() if self.cache_uri else Path(self._cache_place)

    @property
    def _cache_place(self) -> str:
        named = self.options.cache or f"{self.config.storage.rstrip('/')}/.cache"
        return absolute(named).rstrip("/")

    def ship(self, folder: str | Path) -> ShippedFolder:
        """Upload a folder to the cache's object store if it has one, else to Ray's."""
        return ship(str(folder), self.cache_uri and f"{self.cache_uri}/encoders")

    def maker(self, max_length: int = 0) -> InputMaker:
        """Return a maker of cached corpora and tokens, with ``max_length`` tokens a sentence."""
        return InputMaker(
            max_length=max_length,
            cache=self.cache,
            limit=self.options.limit,
            uri=self.cache_uri,
            spread=in_turn,
            run=on_worker,
        )

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Return role -> entry of the corpus in ``summary.json``."""
        trained = {role: corpus.described() for role, corpus in self.sources.items()}
        dev = {numbered("dev", i): corpus.described() for i, corpus in enumerate(self.dev)}
        return {**trained, **dev}

    def manifests(self) -> list[str]:
        """Return the manifest files of the training corpora in the cache."""
        return [corpus.manifest_file for corpus in self.sources.values()]

    def derived(self) -> dict[str, str]:
        """Return cache folder -> checksum of its manifest; folders in the storage are relative."""
        above = f"{self.config.storage.rstrip('/')}/"
        found = {file: read_json(file) for file in self.manifests()}
        return {
            file.rpartition("/")[0].removeprefix(above): manifest["checksum"]
            for file, manifest in found.items()
            if manifest  # empty if another process has deleted the cache
        }

    @abstractmethod
    def program(self) -> Program:
        """Return the program of a trial; this uploads its large parts to the object store."""

    def fingerprints(self) -> dict[str, Any]:
        """Return the fingerprints of the corpora and of the code that results depend on."""
        corpora = {role: identity_of(corpus) for role, corpus in self.corpora().items()}
        return {"corpora": corpora, "code": result_code([*self.modules(), *modules_of(self.dev)])}

    @abstractmethod
    def modules(self) -> Sequence[str]:
        """Return the modules whose code, with their imports, determines a trial's metrics."""

    @abstractmethod
    def handles(self) -> Sequence[Opens]:
        """Return handles of the training corpora, shared or streamed."""

    def handle(
        self, settings: dict[str, Any], handles: Sequence[Opens]
    ) -> tuple[Opens, dict[str, Any]]:
        """Return the training corpus of a trial, and the settings of its training."""
        (only,) = handles
        return only, settings

    def spec_maker(
        self, *, hold: Callable[[Any], Opens] = share, handles: Sequence[Opens] | None = None
    ) -> MakeSpec:
        """Return a function from settings to a ``TrialSpec``; this uploads the corpora once.

        Args:
            hold: makes a handle of an object; ``Held`` keeps it in this process, without Ray.
            handles: of the training corpora; None: the result of ``self.handles()``.
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
        """Return the spec of the first configuration, for a run in this process without Ray.

        ``handles`` are of the training corpora, and ``examples`` is the budget of the run.
        """
        make_spec = self.spec_maker(hold=Held, handles=handles)
        settings: dict[str, Any] = first_configuration(searched(self.config, self.space))
        spec = make_spec(settings, "probe", self.config.seed, (examples,))
        return replace(spec, max_examples=examples)

    @abstractmethod
    def probe(self, seconds: float) -> Probe:
        """Time the first configuration on this machine, without Ray; call ``prepare`` first.

        Raises:
            TrialFailed: it cannot be trained, or no step was finished within ``seconds``.
            InvalidValue: its settings do not fit each other, the encoder or the corpus.
        """

    @abstractmethod
    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        """Return a probe with costs given by the user.

        Raises:
            InvalidValue: the cost of a trial is not proportional to its examples.
        """

    def checkpoint_bytes(self) -> int:
        """Return the bytes of a checkpoint of the first configuration.

        It is 0 if they are few, or unknown before ``prepare``.
        """
        return 0

    @property
    def test(self) -> tuple[str, ...]:
        """``--test``, or the built-in test corpora if the other corpora are built in."""
        options: StudyOptions = self.options
        own = [spec for spec in options.corpora if not spec.startswith("builtin:")]
        if options.test or own or options.dev:
            return options.test
        return tuple(f"{name}?split=test" for name in self.builtin)

    def word_averages(self) -> Callable[[Sequence[str]], Tensor] | None:
        """Return a function from N sentences to averages of their untrained word vectors, [N, D],
        or None if the job has no word vectors."""
        return None

    @abstractmethod
    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        """Write the winner's model, from the checkpoint of its best seed, into a local folder.

        ``card`` is empty for a model that is only evaluated.
        """


def first_configuration(space: SearchSpace) -> dict[str, Value]:
    """Return the first point of a search, with settings that it leaves open at mid-range."""
    known = next(iter(space.first_points()), {})
    return space.draw(lambda name, dimension: known.get(name, dimension.at(0.5)))


def _fields_of(kind: type[StudyConfig | Budget], options: StudyOptions) -> dict[str, Any]:
    """Return the options that are also fields of ``kind``."""
    given = vars(options)
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


def averages_of(words: WordTable) -> Callable[[Sequence[str]], Tensor]:
    """Return a function from N sentences to the averages of their known word vectors, [N, D]."""
    average = Averages(words, SifSettings(variant="average"))
    return lambda sentences: torch.from_numpy(average(sentences))
