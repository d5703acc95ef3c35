"""Methods with a decoder: sentence operations (InterSent), ordered sentences (invertible)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.corpora.mixing import MixedHandle
from sentune.corpora.schema import Kind
from sentune.corpora.weights import apart, weight_names
from sentune.job.corpora import dev_corpora, numbered, with_weights
from sentune.job.families.base import TrainedFamily
from sentune.job.options import OperationOptions, WordOptions
from sentune.study.space.space import SearchSpace
from sentune.terminal import print_line
from sentune.training.inputs import Inputs, operation_inputs, word_inputs
from sentune.training.trial import Opens


class GenerativeFamily(TrainedFamily):
    """See ``JobFamily``."""

    prefer: ClassVar[Kind | None] = Kind.SCORED_PAIRS
    _inputs: Inputs

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """The training corpora."""
        corpora = self._inputs.corpora
        return {numbered("corpus", i): corpus.described() for i, corpus in enumerate(corpora)}

    def keep(self, inputs: Inputs) -> None:
        """Keep the inputs, and read the dev corpora."""
        self._inputs, self.folder, self.tokens = inputs, inputs.folder, inputs.tokens
        self.dev = dev_corpora(self.options, self.builtin, self.prefer)


class OperationFamily(GenerativeFamily):
    """InterSent: an encoder, a decoder, and corpora of operations mixed."""

    name = "operations"
    builtin = ("builtin:operations", "builtin:scenes")
    options: OperationOptions

    @property
    def pretrained(self) -> str:
        """The encoder."""
        return self.options.encoder

    def widened(self, space: SearchSpace) -> SearchSpace:
        """With a weight for each of several corpora."""
        return with_weights(space, self._weights) if self._weights else space

    @property
    def _weights(self) -> tuple[str, ...]:
        specs = self.options.corpora
        return weight_names(specs) if len(specs) > 1 else ()

    def read(self, cache: Path, console: Console) -> None:
        """The corpora as shards; encoder, decoder and tokens in the cache."""
        del console
        self.keep(
            operation_inputs(
                self.options.corpora,
                encoder=self.options.encoder,
                decoder=self.options.decoder,
                max_length=self.training.max_length,
                cache=cache,
                limit=self.options.limit,
            )
        )

    def handle(self, settings: dict[str, Any], handles: Sequence[Opens]) -> Opens:
        """Batches mixed by the trial's weights, which are taken out of the settings."""
        if not self._weights:
            return super().handle(settings, handles)
        kept, weights = apart(settings, self._weights)
        settings.clear()
        settings.update(kept)
        return MixedHandle(tuple(handles), weights)


class WordFamily(GenerativeFamily):
    """Invertible decoders: fixed word vectors, and sentences in their order."""

    name = "words"
    builtin = ("builtin:similarity",)
    options: WordOptions

    @property
    def pretrained(self) -> str:
        """The word vectors."""
        return self.options.vectors

    def read(self, cache: Path, console: Console) -> None:
        """The corpus as shards, word vectors, tokens and counts in the cache."""
        inputs = word_inputs(
            self.options.corpus,
            vectors=self.options.vectors,
            frequencies=self.options.frequencies,
            max_length=self.training.max_length,
            cache=cache,
            limit=self.options.limit,
        )
        self.keep(inputs)
        print_line(console, inputs.note)
