"""A job of a method that is trained by gradient on fixed word vectors and ordered sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.corpora.schema import Kind
from sentune.job.data import dev_corpora
from sentune.job.options import WordOptions
from sentune.job.trained import TrainedJob
from sentune.training.inputs import Inputs, word_inputs


class WordsJob(TrainedJob):
    """See ``TrainedJob``."""

    builtin = ("builtin:similarity",)
    prefer: ClassVar[Kind | None] = Kind.SCORED_PAIRS
    options: WordOptions
    _inputs: Inputs

    @property
    def suits(self) -> str:
        """The word vectors."""
        return self.options.vectors

    def read(self, cache: Path, console: Console) -> None:
        """The corpus as shards, word vectors, tokens and counts in the cache."""
        options = self.options
        self._inputs = made = word_inputs(
            options.corpus,
            vectors=options.vectors,
            frequencies=options.frequencies,
            max_length=self.training.max_length,
            cache=cache,
            limit=options.limit,
        )
        self.folder, self.tokens = made.folder, made.tokens
        self.dev = dev_corpora(options, self.builtin, self.prefer)
        console.print(made.note, soft_wrap=True, markup=False, highlight=False)

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """The training corpus."""
        (corpus,) = self._inputs.corpora
        return {"corpus": corpus.described()}
