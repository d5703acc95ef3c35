"""Methods that embed sentences and compare them (SimCSE, GaussCSE, GumbelCSE): an encoder, and one
corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from sentune.corpora.formats import kinds_of
from sentune.corpora.prepare import Prepared
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.job.corpora import STORED, dev_corpora
from sentune.job.families.base import TrainedFamily
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.readouts.grid import grid_of
from sentune.readouts.interpretation import REFERENCES
from sentune.study.space.domains import Choice
from sentune.tasks.references import References


class SentenceFamily(TrainedFamily):
    """See ``JobFamily``; its trials are ``sentune.training.loop.train`` by ``Sentences``."""

    name = "sentences"
    options: JobOptions
    train: Prepared
    _referred: Prepared | None = None

    @property
    def builtin(self) -> tuple[str, ...]:  # type: ignore[override]
        pairs = find(self.space.method).kind is Kind.SENTENCE_PAIRS
        return ("builtin:scenes",) if pairs else ("builtin:nli",)

    @property
    def pretrained(self) -> str:
        return self.options.encoder

    def read(self, console: Console) -> None:
        """Read ``--dev``, ``--references`` and ``--corpus``; encoder and tokens go to the cache.

        Raises:
            CorpusError, InvalidValue: what cannot be read, with file and line or option.
        """
        del console
        options, method = self.options, find(self.space.method)
        if options.references is not None and REFERENCES not in method.readouts:
            fix = f"{self.space.method} has no interpretations; leave it out"
            raise InvalidValue("--references", options.references, fix)
        self.dev = dev_corpora(options, self.builtin)
        if options.references is not None:
            self._referred = self.input_maker.prepared(
                options.references, kinds_of(options.references)[0]
            )
        inputs = self.input_maker.sentences(options.corpus, method, encoder=options.encoder)
        (self.train,), self.tokens, self.folder = inputs.corpora, inputs.tokens, inputs.folder
        self.references = self._sampled() if REFERENCES in method.readouts else None

    def _sampled(self) -> References:
        """Return a sample of the references' corpus for each n of the grid."""
        drawn = self.space.settings.get(REFERENCES.name)
        grid = (
            drawn.values
            if isinstance(drawn, Choice)
            else grid_of(REFERENCES, self.space.grids_for(self.space.fixed))
        )
        counts = {STORED, *(int(n) for n in grid if n is not None)}
        return References.sample(self._referred or self.train, sorted(counts), self.options.seed)

    def manifests(self) -> Sequence[str]:
        corpora = [self.train] if self._referred is None else [self.train, self._referred]
        return [*(corpus.manifest_file for corpus in corpora), *super().manifests()]

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        roles = {"corpus": self.train}
        if self._referred is not None:
            roles["references"] = self._referred
        return {role: corpus.described() for role, corpus in roles.items()}
