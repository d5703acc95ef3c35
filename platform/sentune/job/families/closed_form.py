"""Methods fitted in closed form on word vectors (SIF, LAES): a trial is one fit and its sweeps.

The fit is deterministic, so there are no finals, and the best trial is the winner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from torch import Tensor

from sentune.corpora.batches import Held
from sentune.corpora.formats import check_opens
from sentune.corpora.schema import Kind
from sentune.corpora.stream import share
from sentune.credentials import without_credentials
from sentune.encoders.words import WordTable, check_words, open_words
from sentune.encoders.words.whole import save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import new_folder
from sentune.job.families.base import Card, JobFamily, averages_of
from sentune.job.options import ClosedFormOptions
from sentune.launchers.artifact_transfer import ShippedFolder
from sentune.launchers.run_trial import run_trial
from sentune.methods import find_closed_form
from sentune.readouts.grid import Grid
from sentune.records import FinalistRecord, TrialRecord
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe
from sentune.study.planning.probe import probe_fit
from sentune.study.space.domains import Choice, Value
from sentune.study.space.space import SearchSpace
from sentune.terminal import print_line
from sentune.training.closed_form import fit_and_sweep, grid_within
from sentune.training.closed_form_model import (
    NEEDS_FREQUENCIES,
    VECTORS,
    build_closed_form,
    check_scored,
    closed_form_settings,
    export_closed_form,
)
from sentune.training.trial import Opens, Program

PROBED_ROWS = 4_000
"""Rows of the larger of the two fits of a probe; the smaller one has a quarter of them."""


class ClosedFormFamily(JobFamily):
    """Jobs of methods that are fitted in closed form."""

    options: ClosedFormOptions

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        """As in the base class; the word vectors are a setting, searched if there are several."""
        options = self.options
        options.check_complete()
        self.method = find_closed_form(space.method)
        # without credentials, because settings are stored and shown
        self._sources = {without_credentials(source): source for source in options.vectors}
        first, *more = self._sources
        if more:
            sources = {VECTORS: Choice(first, *more), **space.settings}
            published = {VECTORS: first, **space.published}
            space = replace(space, settings=sources, published=published)
        else:
            space = replace(space, fixed={VECTORS: first, **space.fixed})
        others = self.method.settings_type.model_fields
        space.check_names(others, (self.method.axis,))

        def typed(name: str, text: str) -> Value:
            value: Value = getattr(closed_form_settings(space.method, {name: text}), name)
            return value

        left = space.narrow(options.narrowing, others, (self.method.axis,), typed)
        closed_form_settings(space.method, left.fixed)
        left = self.with_readouts(left, (self.method.axis,))
        return left, self.configured(left, max_examples=1, first_rung=1, finalists=0)

    def check(self) -> None:
        check_opens(self.options.corpus, Kind.SENTENCES)
        for source in self._sources.values():
            check_words(source, self.options.frequencies)
        variant = self.space.settings.get("variant", Choice(self.space.fixed.get("variant")))
        weighed = variant.contains("sif") or variant.contains("usif")
        if weighed and not self.options.frequencies:
            raise InvalidValue("--frequencies", "", NEEDS_FREQUENCIES)
        check_scored(self.dev, self.method.name)

    def prepare(self, console: Console) -> None:
        """Read corpora and word vectors; print the share of dev's words that have a vector."""
        options = self.options
        self.sentences = self.maker().prepared(options.corpus, Kind.SENTENCES, options.limit)
        self.sources = {"corpus": self.sentences}
        # one milestone, the whole corpus: nothing to compare before it
        rows, cpus = self.sentences.num_rows, 1.0 if self._streams else 0.0
        self.config = replace(self.config, max_examples=rows, first_rung=rows, data_cpus=cpus)
        self.words = {
            name: open_words(source, options.frequencies, self.cache)
            for name, source in self._sources.items()
        }
        sides = ("sentence1", "sentence2")
        judged = [
            text for dev in self.dev for side in sides for text in dev.table[side].to_pylist()
        ]
        weighted = any(table.probabilities.any() for table in self.words.values())
        if "a" in self.space.settings and not weighted:
            line = "warning: without --frequencies all words have the same weight, whatever a is"
            print_line(console, line, "yellow")
        for source, table in self.words.items():
            known = table.known_share(judged)
            model = build_closed_form(self.method.name, table, self.space.fixed)
            for grid in self._grids(source):
                grid_within(model, grid, source)
            line = f"vectors {source}: {len(table.words):,} words, {known:.1%} of the words in dev"
            print_line(console, line)

    def _grids(self, source: str) -> list[Grid]:
        """Return the grids of the readout that trials on these word vectors may have."""
        axis = find_closed_form(self.method.name).axis.name
        if axis in self.space.searched_readouts:
            drawn: Any = self.space.settings[axis]
            return [(value,) for value in drawn.values]
        asked = self.space.readouts.get(axis, {})
        if isinstance(asked, tuple):
            return [asked]
        return [
            grid
            for setting, by_value in asked.items()
            for value, grid in by_value.items()
            if setting != VECTORS or value == source
        ]

    @property
    def _streams(self) -> bool:
        return self.sentences.nbytes > self.options.share_mb << 20

    def program(self) -> Program:
        """Return one fit and its sweep, with the word tables."""
        words = {}
        for source, table in self.words.items():
            place = self.cache / "whole-words" / table.fingerprint
            words[source] = ShippedWords(self.ship(new_folder(place, partial(save_whole, table))))
        return partial(fit_and_sweep, words=words)

    def word_averages(self) -> Callable[[Sequence[str]], Tensor]:
        """As in the base class, for the first word vectors."""
        return averages_of(next(iter(self.words.values())))

    def modules(self) -> list[str]:
        return [part.__module__ for part in (run_trial, fit_and_sweep, self.method)]

    def fingerprints(self) -> dict[str, Any]:
        words = {source: table.fingerprint for source, table in self.words.items()}
        return {**super().fingerprints(), "words": words}

    def handles(self) -> Sequence[Opens]:
        """Return the sentences: shared if they fit ``--share-mb``, else shards to stream."""
        if self._streams:
            return [Held(self.sentences)]
        return [share(self.sentences.load())]

    def probe(self, seconds: float) -> Probe:
        """Time two fits, the smaller one on a quarter of the rows."""
        table = self.sentences.take(np.arange(min(PROBED_ROWS, self.sentences.num_rows)))
        specs = {
            rows: self.first_spec([Held(table.slice(0, rows))], rows)
            for rows in (max(1, table.num_rows // 4), table.num_rows)
        }
        words = {source: Held(table) for source, table in self.words.items()}
        program = partial(fit_and_sweep, words=words)
        return probe_fit(program, specs, seconds=seconds)

    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        del validation_seconds
        fix = "the time of a fit is not proportional to examples; give --probe"
        raise InvalidValue("--examples-per-second", examples_per_second, fix)

    def export(
        self, best: FinalistRecord | TrialRecord, checkpoint: Path, folder: Path, card: Card
    ) -> None:
        """Write the best trial's fit with the readout that is best by the objective."""
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        export_closed_form(
            checkpoint,
            folder,
            words=self.words[str(settings[VECTORS])],
            settings=settings,
            readouts=best.readouts,
            objective=self.space.objective,
            card=card,
        )


@dataclass(frozen=True)
class ShippedWords:
    """A word table in the object store; on the driver's machine the cached file is used."""

    folder: ShippedFolder

    def open(self) -> WordTable:
        """Return the table, memory-mapped."""
        return WordTable.load(self.folder.open())
