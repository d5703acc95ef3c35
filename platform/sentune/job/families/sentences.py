"""Methods that embed sentences and compare them (SimCSE, GaussCSE, GumbelCSE): an encoder, and one
corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.tokens import tokenise_batches
from sentune.encoders import prepare
from sentune.job.corpora import Corpora, read_corpora, sample_references
from sentune.job.families.base import TrainedFamily
from sentune.job.options import JobOptions
from sentune.job.search_request import check_batch
from sentune.methods import find
from sentune.training.recipes.sentences import Sentences


class SentenceFamily(TrainedFamily):
    """See ``JobFamily``; its trials are ``sentune.training.loop.train`` by ``Sentences``."""

    name = "sentences"
    options: JobOptions
    _data: Corpora

    @property
    def builtin(self) -> tuple[str, ...]:  # type: ignore[override]
        """What ships with the package to judge its kind of method on."""
        pairs = find(self.space.method).kind is Kind.SENTENCE_PAIRS
        return ("builtin:scenes",) if pairs else ("builtin:nli",)

    @property
    def pretrained(self) -> str:
        """The encoder."""
        return self.options.encoder

    def read(self, cache: Path, console: Console) -> None:
        """The corpora; encoder and tokens in the cache."""
        del console
        self._data = data = read_corpora(self.options, self.space.method, self.builtin)
        check_batch(self.space, data.train.table.num_rows)
        self.dev = data.dev
        self.folder = prepare(self.options.encoder, data.sentences(), cache)
        encoder = Sentences().table_encoder(self.folder, self.training.max_length)
        batches, fingerprint = data.train.table.to_batches(), data.train.fingerprint
        self.tokens = (tokenise_batches(batches, fingerprint, encoder, cache / "tokens"),)
        self.references = sample_references(self.space, data, self.options.seed)

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """The training corpus, and that of the references."""
        return self._data.trained_on()

    def train_table(self) -> Corpus:
        """A bag of words learns from it."""
        return self._data.train
