"""Methods that embed sentences and compare them (SimCSE, GaussCSE, GumbelCSE): an encoder, and one
corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from sentune.corpora.formats import kinds_of, read
from sentune.corpora.schema import Corpus, Kind
from sentune.corpora.tokens import tokenise_batches
from sentune.encoders import prepare
from sentune.errors import InvalidValue
from sentune.job.corpora import STORED, describe, dev_corpora
from sentune.job.families.base import TrainedFamily
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.readouts.grid import grid_of
from sentune.readouts.interpretation import REFERENCES
from sentune.study.space.domains import Choice
from sentune.tasks.references import References
from sentune.training.recipes.sentences import Sentences


class SentenceFamily(TrainedFamily):
    """See ``JobFamily``; its trials are ``sentune.training.loop.train`` by ``Sentences``."""

    name = "sentences"
    options: JobOptions
    train: Corpus
    _referred: Corpus | None = None

    @property
    def builtin(self) -> tuple[str, ...]:  # type: ignore[override]
        pairs = find(self.space.method).kind is Kind.SENTENCE_PAIRS
        return ("builtin:scenes",) if pairs else ("builtin:nli",)

    @property
    def pretrained(self) -> str:
        return self.options.encoder

    def read(self, console: Console) -> None:
        """Read ``--corpus``, ``--dev`` and ``--references``; encoder and tokens go to the cache.

        Raises:
            CorpusError, InvalidValue: what cannot be read, with file and line or option.
        """
        del console
        options, method, cache = self.options, find(self.space.method), self.cache
        self.train = train = read(options.corpus, method.kind, limit=options.limit)
        if not train.table.num_rows:
            raise InvalidValue("--corpus", options.corpus, "it has no row to train on")
        if options.references is not None:
            if REFERENCES not in method.readouts:
                fix = f"{self.space.method} has no interpretations; leave it out"
                raise InvalidValue("--references", options.references, fix)
            self._referred = read(options.references, kinds_of(options.references)[0])
        self.dev = dev_corpora(options, self.builtin)
        self.check_batch(train.table.num_rows)
        self.folder = prepare(options.encoder, self._texts(), cache)
        encoder = Sentences().table_encoder(self.folder, self.training.max_length)
        batches = train.table.to_batches()
        self.tokens = (tokenise_batches(batches, train.fingerprint, encoder, cache / "tokens"),)
        self.references = self._sampled() if REFERENCES in method.readouts else None

    def _texts(self) -> Iterator[str]:
        """Yield the sentences of the training corpus, for a tokenizer to learn its words from."""
        for column in self.train.table.itercolumns():
            yield from column.to_pylist()

    def _sampled(self) -> References:
        """Return a sample of the references' corpus for each n of the grid."""
        drawn = self.space.settings.get(REFERENCES.name)
        grid = (
            drawn.values
            if isinstance(drawn, Choice)
            else grid_of(REFERENCES, self.space.grids_for(self.space.fixed))
        )
        counts = {STORED, *(int(n) for n in grid if n is not None)}
        corpus = self._referred or self.train
        return References.sample(corpus.table, sorted(counts), self.options.seed)

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        roles = {"corpus": self.train}
        if self._referred is not None:
            roles["references"] = self._referred
        return {role: describe(corpus) for role, corpus in roles.items()}
