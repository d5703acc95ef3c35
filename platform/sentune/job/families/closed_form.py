"""Methods fitted in closed form on word vectors (SIF, LAES): one fit a trial, every readout swept.

The fit is deterministic, so there are no finals: the best trial is the winner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sentune.corpora.batches import Held
from sentune.corpora.prepare import prepared
from sentune.corpora.schema import Kind
from sentune.corpora.stream import share
from sentune.credentials import without_credentials
from sentune.encoders.words import WordTable, open_words
from sentune.errors import InvalidValue
from sentune.job.corpora import read_evaluation, shipped_words
from sentune.job.families.base import JobFamily, first_configuration, first_rows
from sentune.job.options import ClosedFormOptions
from sentune.job.product import Product
from sentune.job.search_request import cache_folder, searching, with_readouts
from sentune.methods import find_closed_form
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe, searched
from sentune.study.planning.probe import probe_fit
from sentune.study.space.domains import Choice, Value
from sentune.study.space.space import SearchSpace
from sentune.study.study import StudyOutcome
from sentune.terminal import print_line
from sentune.training.closed_form import fit_and_sweep
from sentune.training.closed_form_model import VECTORS, closed_form_settings, export_closed_form
from sentune.training.trial import Opens, Program

PROBED_ROWS = 4_000
"""Rows of the larger of two fits of a probe; the other one has a quarter."""


class ClosedFormFamily(JobFamily):
    """See ``JobFamily``."""

    name = "word-vectors"
    prefer = Kind.SCORED_PAIRS
    options: ClosedFormOptions

    def requested(
        self, options: ClosedFormOptions, space: SearchSpace
    ) -> tuple[SearchSpace, StudyConfig]:
        """With the word vectors among the settings: searched where several are given."""
        options.complete()
        self.method = find_closed_form(space.method)
        first, *more = self._sources
        if more:
            sources = {VECTORS: Choice(first, *more), **space.settings}
            published = {VECTORS: first, **space.published}
            space = replace(space, settings=sources, published=published)
        else:
            space = replace(space, fixed={VECTORS: first, **space.fixed})
        others = self.method.settings_type.model_fields

        def typed(name: str, text: str) -> Value:
            value: Value = getattr(closed_form_settings(space.method, {name: text}), name)
            return value

        left = space.narrow(options.narrowing, others, (self.method.axis,), typed)
        closed_form_settings(space.method, left.fixed)
        left = with_readouts(left, options, (self.method.axis,))
        return left, self._config(left, 1)

    @property
    def _sources(self) -> dict[str, str]:
        """Word vectors as settings name them, which are stored and shown -> as they are read."""
        return {without_credentials(source): source for source in self.options.vectors}

    def _config(self, space: SearchSpace, rows: int) -> StudyConfig:
        """One milestone: the whole corpus; nothing to compare before it, nothing to seed."""
        return StudyConfig(
            **searching(self.options, space),
            max_examples=rows,
            first_rung=rows,
            finalists=0,
            launcher="inline",
        )

    def prepare(self, console: Console) -> None:
        """Reads corpora and word vectors; says how many of the words are known."""
        options, cache = self.options, cache_folder(self.config)
        self.sentences = prepared(
            options.corpus, Kind.SENTENCES, cache / "sentences", limit=options.limit
        )
        self.dev = read_evaluation(options.dev, self.prefer)
        config = self._config(self.space, self.sentences.rows)
        self.config = replace(config, data_cpus=1.0) if self._streams else config
        self.words = {
            name: open_words(source, options.frequencies, cache)
            for name, source in self._sources.items()
        }
        judged = [text for corpus in self.dev for text in corpus.table["sentence1"].to_pylist()]
        for source, table in self.words.items():
            known = table.known_share(judged)
            line = f"vectors {source}: {len(table.words):,} words, {known:.1%} of dev's"
            print_line(console, line)

    @property
    def _streams(self) -> bool:
        return self.sentences.nbytes > self.options.share_mb << 20

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """The sentences."""
        return {"corpus": self.sentences.described()}

    def program(self) -> Program:
        """One fit and its sweep, with the word tables."""
        cache = cache_folder(self.config) / "whole-words"
        words = {source: shipped_words(table, cache) for source, table in self.words.items()}
        return partial(fit_and_sweep, words=words, workers=self.options.workers)

    def fingerprints(self) -> dict[str, Any]:
        """With the word tables."""
        words = {source: table.fingerprint for source, table in self.words.items()}
        return {**super().fingerprints(), "words": words}

    def handles(self) -> Sequence[Opens]:
        """The sentences, shared where they fit, else as shards that a trial streams."""
        if self._streams:
            return [Held(self.sentences.paths)]
        return [share(self.sentences.load())]

    def probe(self, seconds: float) -> Probe:
        """Two fits, the smaller one on a quarter of the rows."""
        table = first_rows(self.sentences.batches(), PROBED_ROWS)
        settings: dict[str, Any] = first_configuration(searched(self.config, self.space))
        specs = {}
        for rows in (max(1, table.num_rows // 4), table.num_rows):
            make_spec = self.spec_maker(hold=Held, handles=[Held(table.slice(0, rows))])
            spec = make_spec(settings, "probe", self.config.seed, (rows,))
            specs[rows] = replace(spec, max_examples=rows)
        words = {source: Held(table) for source, table in self.words.items()}
        program = partial(fit_and_sweep, words=words)
        return probe_fit(program, specs, seconds=seconds, threads=1)

    def stated_cost(self, examples_per_second: float, validation_seconds: float) -> Probe:
        """Not possible."""
        del validation_seconds
        fix = "how long a fit takes does not go by examples; give --probe"
        raise InvalidValue("--examples-per-second", examples_per_second, fix)

    def product(self, outcome: StudyOutcome) -> ClosedFormProduct:
        """The best trial's fit, at the readout that was best by the objective."""
        best = self.best_run(outcome)
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        axis, task = self.method.axis.name, self.space.objective.rpartition("/")[0]
        return ClosedFormProduct(
            settings=settings,
            readouts={**best.readouts, axis: best.readouts[f"{task}/{axis}"]},
            checkpoint=Path(outcome.best_checkpoint or ""),
            storage=self.config.folder,
            test=self.options.test,
            dev=self.dev,
            prefer=self.prefer,
            words=self.words[str(settings[VECTORS])],
            force_test=self.options.force_test,
        )


@dataclass(frozen=True, kw_only=True)
class ClosedFormProduct(Product):
    """The product of a fit.

    Attributes:
        words: that it was fitted with.
    """

    words: WordTable

    def export(
        self, summary: StudySummary, folder: Path, card: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """The fit, its words, settings, readouts and card."""
        del summary
        export_closed_form(
            self.checkpoint,
            folder,
            words=self.words,
            settings=self.settings,
            readouts=self.readouts,
            card=card,
        )
