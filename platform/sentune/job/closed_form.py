"""A job of a method on word vectors: sentences, word tables, one fit a trial, every readout swept.

The fit is deterministic, so there are no finals: the best trial is the winner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.code import result_fingerprint
from sentune.corpora.formats import read_pairs
from sentune.corpora.prepared import prepared
from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.stream import share
from sentune.credentials import without_credentials
from sentune.encoders.words import WordTable, open_words
from sentune.job.data import describe, numbered
from sentune.job.kinds import Publishes
from sentune.job.options import ClosedFormOptions
from sentune.job.product import Product
from sentune.job.request import cache_folder, searching, with_readouts
from sentune.job.trained import best_run
from sentune.job.word_tables import shipped
from sentune.methods import find_closed_form
from sentune.records import StudySummary
from sentune.study.config import StudyConfig
from sentune.study.space.domains import Choice
from sentune.study.space.space import SearchSpace
from sentune.study.study import MakeSpec, Study, StudyOutcome, objectives_of
from sentune.training.closed_form import FitAndSweep, Shards
from sentune.training.closed_form_model import export_closed_form
from sentune.training.fits import VECTORS, closed_form_settings
from sentune.training.trial import TrialSpec


class ClosedFormJob:
    """See ``sentune.job.kinds.Job``."""

    reads_before_plan: ClassVar[bool] = True

    def __init__(self, options: ClosedFormOptions, space: SearchSpace) -> None:
        self.options = options
        self.method = find_closed_form(space.method)
        self.space = self._narrowed(space)
        self.config = self._config(1)

    def _narrowed(self, space: SearchSpace) -> SearchSpace:
        """With the word vectors among the settings: searched where several are given."""
        first, *more = self._sources
        if more:
            sources = {VECTORS: Choice(first, *more), **space.settings}
            published = {VECTORS: first, **space.published}
            space = replace(space, settings=sources, published=published)
        else:
            space = replace(space, fixed={VECTORS: first, **space.fixed})
        others = self.method.settings_type.model_fields
        left = space.narrow(self.options.narrowing, others, (self.method.axis,))
        closed_form_settings(space.method, left.fixed)
        return with_readouts(left, self.options, (self.method.axis,))

    @property
    def _sources(self) -> dict[str, str]:
        """Word vectors as settings name them, which are stored and shown -> as they are read."""
        return {without_credentials(source): source for source in self.options.vectors}

    def _config(self, rows: int) -> StudyConfig:
        """One milestone: the whole corpus; nothing to compare before it, nothing to seed."""
        return StudyConfig(
            **searching(self.options, self.space),
            max_examples=rows,
            first_rung=rows,
            finalists=0,
            launcher="inline",
        )

    def prepare(self, console: Console) -> None:
        """Reads corpora and word vectors; says how many of the words are known."""
        cache = cache_folder(self.config)
        self.sentences = prepared(
            self.options.corpus, Kind.SENTENCES, cache / "sentences", limit=self.options.limit
        )
        self.dev = tuple(read_scored(spec) for spec in self.options.dev)
        self.config = self._config(self.sentences.rows)
        if self._streams:
            self.config = replace(self.config, data_cpus=1.0)
        self.words = {
            name: open_words(source, self.options.frequencies, cache)
            for name, source in self._sources.items()
        }
        judged = [text for corpus in self.dev for text in corpus.table["sentence1"].to_pylist()]
        for source, table in self.words.items():
            known = table.known_share(judged)
            line = f"vectors {source}: {len(table.words):,} words, {known:.1%} of dev's"
            console.print(line, soft_wrap=True, markup=False, highlight=False)

    @property
    def _streams(self) -> bool:
        return self.sentences.nbytes > self.options.share_mb << 20

    def corpora(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> what was read."""
        dev = {numbered("dev", i): describe(corpus) for i, corpus in enumerate(self.dev)}
        return {"corpus": self.sentences.described(), **dev}

    def study(self) -> Study:
        """The study on the cluster; word tables go to the object store once, here."""
        cache = cache_folder(self.config) / "whole-words"
        program = FitAndSweep(
            words={source: shipped(table, cache) for source, table in self.words.items()},
            workers=self.options.workers,
        )
        world = {
            "corpora": {role: c["fingerprint"] for role, c in self.corpora().items()},
            "words": {source: table.fingerprint for source, table in self.words.items()},
            "code": result_fingerprint(),
        }
        return Study(self.config, self.space, self._spec_maker(), program, world=world)

    def _spec_maker(self) -> MakeSpec:
        corpus = Shards(self.sentences.paths) if self._streams else share(self.sentences.load())
        dev = share(list(self.dev))
        space = self.space

        def make_spec(
            settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
        ) -> TrialSpec:
            kept, grids = space.apart({**space.fixed, **settings})
            return TrialSpec(
                study=self.config.name,
                trial=name,
                method=space.method,
                settings=kept,
                encoder="",
                corpus=corpus,
                dev=dev,
                max_examples=self.config.max_examples,
                milestones=milestones,
                objective=space.objective,
                mode=space.mode,
                seed=seed,
                readouts=grids,
            )

        return make_spec

    def product(self, outcome: StudyOutcome) -> Publishes:
        """The best trial's fit, at the readout that was best by the objective."""
        best = best_run(outcome, objectives_of(self.config, self.space))
        settings, _ = self.space.apart({**self.space.fixed, **best.settings})
        axis, task = self.method.axis.name, self.space.objective.rpartition("/")[0]
        return ClosedFormProduct(
            settings=settings,
            readouts={**best.readouts, axis: best.readouts[f"{task}/{axis}"]},
            checkpoint=Path(outcome.best_checkpoint or ""),
            storage=self.config.folder,
            test=self.options.test,
            dev=self.dev,
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

    def read_test(self) -> tuple[Corpus, ...]:
        """Scored pairs."""
        return tuple(read_scored(spec) for spec in self.test)

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


def read_scored(spec: str) -> Corpus:
    """A corpus of scored pairs, also where the format has labels as well."""
    return read_pairs(spec, prefer=Kind.SCORED_PAIRS)
