"""Methods that are trained by gradient: what their jobs have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.formats import check_opens
from sentune.corpora.mixing import MixedHandle, apart, weight_names
from sentune.corpora.schema import Kind
from sentune.corpora.stream import hand_out
from sentune.corpora.tokens import META, TokenFolder
from sentune.embedder.embedder import Embedder
from sentune.embedder.references import StoredReferences
from sentune.encoders.prepare import encoder_class, named_folder
from sentune.encoders.transformer import word_averages
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.job.corpora import STORED, numbered
from sentune.job.families.base import Card, JobFamily, averages_of
from sentune.job.options import TrainingOptions
from sentune.launchers.artifact_transfer import ShippedFolder, WithEncoder
from sentune.launchers.run_trial import run_trial
from sentune.methods import GradientMethod, find
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe
from sentune.study.planning.probe import checkpoint_size, probe_training
from sentune.study.schedulers import default_first_rung
from sentune.study.space.domains import Dimension, Integer, Uniform, Value
from sentune.study.space.space import SearchSpace
from sentune.terminal import print_line
from sentune.training.inputs import BUILTIN, PRETRAINED, InputMaker, Inputs, check_word_table
from sentune.training.loop import train
from sentune.training.model import export_checkpoint
from sentune.training.recipes import recipe_of
from sentune.training.recipes.intersent import ENCODER
from sentune.training.settings import (
    TrainingSettings,
    check_budget,
    check_defaults,
    refuse_unknown,
    split,
)
from sentune.training.trial import Opens, Program

PROBED_ROWS = 20_000
"""Rows of a corpus that a probe reads, rounded up to whole shards."""


class TrainedFamily(JobFamily):
    """Jobs that train by gradient on one corpus, or on a mix of several.

    Attributes:
        inputs: the training corpora and their token shards.
    """

    options: TrainingOptions
    method: type[GradientMethod]
    inputs: Inputs

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        options = self.options
        self.method = method = find(space.method)
        self._weights = weight_names(options.corpora) if len(options.corpora) > 1 else ()
        if self._weights:
            space = with_weights(space, self._weights)
        known = {*method.settings_type.model_fields, *TrainingSettings.model_fields}

        def typed(name: str, text: str) -> Value:
            own, training = split({name: text}, method)
            value: Value = getattr(own if name in type(own).model_fields else training, name)
            return value

        check_defaults(method)
        refuse_unknown(self._others(space.settings), known, method.title)
        space.check_names(known, method.readouts)
        left = space.narrow(options.narrowing, known, method.readouts, typed)
        split(self._others(left.fixed), method)
        if "max_length" in left.settings:
            fix = "fix one length: a corpus is tokenised once for all trials"
            found = options.narrowing.get("max_length", left.settings["max_length"])
            raise InvalidValue("--set max_length", found, fix)
        left = self.with_readouts(left, method.readouts)
        if not options.population:
            return left, self.configured(left, generations=1)
        # no finals: the settings change during a run, so it cannot be repeated from other seeds
        trials = options.population * options.generations
        return left, self.configured(left, trials=trials, finalists=0, scheduler="none")

    @property
    def builtin(self) -> tuple[str, ...]:  # type: ignore[override]
        return BUILTIN[self.method.kind][1]

    @property
    def training(self) -> TrainingSettings:
        """The fixed settings of the training; ``max_length`` is always among them."""
        return split(self._others(self.space.fixed), self.method)[1]

    def check(self) -> None:
        """As in the base class; sets ``folder`` if the encoder has one."""
        for spec in self.options.corpora:
            check_opens(spec, self.method.kind)
        named = self.options.model_dump(include=PRETRAINED)
        if "vectors" in named:
            check_word_table(**named)
            return
        folder = named_folder(named["encoder"])
        if "decoder" in named:  # ``prepare`` puts both into one folder
            named_folder(named["decoder"], "decoder")
        else:
            self.folder = folder

    def read(self, maker: InputMaker) -> Inputs:
        """Read the training corpora and tokenise them, once."""
        given = self.options.model_dump(include=PRETRAINED)
        inputs = maker.inputs(self.method, self.options.corpora, **given)
        self.sources = {numbered("corpus", i): c for i, c in enumerate(inputs.corpora)}
        return inputs

    def prepare(self, console: Console) -> None:
        """As in the base class.

        Raises:
            InvalidValue: the corpus has fewer rows than the largest batch of the search, or
                ``--max-examples`` is below the smallest.
        """
        self.inputs = self.read(self.maker(self.training.max_length))
        self.folder = self.inputs.folder
        kind = encoder_class(self.options.pretrained, self.folder)
        self.space = self.space.for_trials(kind, self.config.max_examples)
        if self.config.first_rung is None:
            batch: Any = self.space.prior.get("batch_size", min(batch_sizes(self.space)))
            rung = default_first_rung(self.config.max_examples, self.config.eta, batch)
            self.config = replace(self.config, first_rung=rung)
        if self.inputs.note:
            print_line(console, self.inputs.note)
        largest, budget = max(batch_sizes(self.space)), self.config.max_examples
        check_budget(budget, min(batch_sizes(self.space)))
        rows = sum(sum(tokens.shards) for tokens in self.inputs.tokens)
        if largest > rows:
            fix = f"--corpus has {rows} rows; narrow it with --set batch_size={min(rows, 32)}"
            raise InvalidValue("batch_size", largest, fix)
        if largest > budget:
            line = f"--max-examples {budget:,} is less than a batch of {largest:,}"
            effect = "trials with such a batch train on one whole batch"
            print_line(console, f"warning: {line}; {effect}", "yellow")
        if self._nbytes > self.options.share_mb << 20:
            self.config = replace(self.config, data_cpus=1.0)

    def manifests(self) -> list[str]:
        tokens = (f"{one.uri or one.path}/{META}" for one in self.inputs.tokens)
        return [*super().manifests(), *tokens]

    @property
    def _nbytes(self) -> int:
        return sum(tokens.nbytes for tokens in self.inputs.tokens)

    def handles(self) -> list[Opens]:
        """Return the token shards: shared if all fit ``--share-mb`` together, else streamed."""
        limit = self.options.share_mb << 20
        fits = self._nbytes <= limit
        return [hand_out(t, share_up_to=limit if fits else 0) for t in self.inputs.tokens]

    def handle(
        self, settings: dict[str, Any], handles: Sequence[Opens]
    ) -> tuple[Opens, dict[str, Any]]:
        """Return the corpora mixed by the trial's weights, and the settings without weights."""
        if not self._weights:
            return super().handle(settings, handles)
        kept, weights = apart(settings, self._weights)
        return MixedHandle(tuple(handles), weights), kept

    def _others(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return values or ranges of settings without the corpora's weights, which are not of the
        training."""
        return {name: value for name, value in settings.items() if name not in self._weights}

    @cached_property
    def _shipped(self) -> ShippedFolder:
        return self.ship(self.folder)

    def program(self) -> Program:
        return WithEncoder(train, self._shipped)

    def modules(self) -> list[str]:
        recipe = type(recipe_of(self.method))
        parts = (run_trial, train, self.method, recipe, hand_out, MixedHandle)
        return [part.__module__ for part in parts]

    def word_averages(self) -> Callable[[Sequence[str]], Tensor] | None:
        """As in the base class, for the word vectors or the encoder's input embeddings."""
        if not self.folder:  # not prepared
            return None
        if self.method.on_words:
            return averages_of(WordTable.load(self.folder))
        decodes = self.method.kind is Kind.OPERATIONS
        return word_averages(f"{self.folder}/{ENCODER}" if decodes else self.folder)

    def fingerprints(self) -> dict[str, Any]:
        return {**super().fingerprints(), "encoder": self._shipped.digest}

    def probe(self, seconds: float) -> Probe:
        handles = [Held(SharedSource(_first_shards(t).load())) for t in self.inputs.tokens]
        spec = self.first_spec(handles, self.config.max_examples)
        _, training = split(spec.settings, self.method)
        gpu = bool(self.config.gpus_per_worker)
        found = probe_training(spec, batch_size=training.batch_size, seconds=seconds, gpu=gpu)
        return replace(found, rung_share=self._rung_share)

    @property
    def _rung_share(self) -> float:
        """Share of dev's rows that trials are validated on at rungs."""
        sizes: list[int] = [corpus.table.num_rows for corpus in self.dev]
        most = self.config.rows_at_rungs or max(sizes)
        return sum(min(size, most) for size in sizes) / sum(sizes)

    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        return Probe(
            start_seconds=0.0,
            seconds_per_example=1 / examples_per_second,
            seconds_per_validation=validation_seconds,
            checkpoint_bytes=0,
            gpu=True,
            basis=f"{examples_per_second:g} examples per second per worker and "
            f"{validation_seconds:g} s per validation, as given",
            rung_share=self._rung_share,
        )

    def checkpoint_bytes(self) -> int:
        """As in the base class; 0 for built-in encoders, whose checkpoints are small."""
        named = self.options.model_dump(include=PRETRAINED).values()
        builtin = not self.method.on_words and all(spec.startswith("builtin:") for spec in named)
        return 0 if builtin or not self.folder else self._checkpoint_bytes

    @cached_property
    def _checkpoint_bytes(self) -> int:
        handles = [Held(None)] * len(self.options.corpora)
        return checkpoint_size(self.first_spec(handles, self.config.max_examples))

    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        """As in the base class; stores the embeddings of the references, too."""
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        export_checkpoint(
            checkpoint,
            folder,
            method=self.space.method,
            settings=self._others(settings),
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


def with_weights(space: SearchSpace, names: Sequence[str]) -> SearchSpace:
    """Return the space with the weights of mixed corpora as settings.

    Only the ratios of weights matter, so the first one is fixed at 1. If all are 1, corpora are
    drawn in proportion to their sizes.
    """
    first, *others = names
    searched: dict[str, Dimension] = {name: Uniform(0.1, 10.0, log=True) for name in others}
    return replace(
        space,
        settings={**space.settings, **searched},
        fixed={first: 1.0, **space.fixed},
        published={**dict.fromkeys(others, 1.0), **space.published},
    )


def _first_shards(tokens: TokenFolder) -> TokenFolder:
    count, rows = 0, 0
    while count < len(tokens.shards) and rows < PROBED_ROWS:
        rows += tokens.shards[count]
        count += 1
    return replace(tokens, shards=tokens.shards[:count])


def batch_sizes(space: SearchSpace) -> tuple[int, ...]:
    """Return the batch sizes of the search; for a range its two ends, without one the default."""
    dimension = space.settings.get("batch_size")
    if isinstance(dimension, Integer):
        return dimension.low, dimension.high
    if (values := getattr(dimension, "values", ())) or "batch_size" in space.fixed:
        return tuple(map(int, values or (space.fixed["batch_size"],)))
    return (split({}, find(space.method))[1].batch_size,)
