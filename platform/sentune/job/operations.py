"""A job of a method that decodes: an encoder, a decoder, and corpora of operations mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from sentune.corpora.mixing import MixedHandle
from sentune.corpora.schema import Kind
from sentune.corpora.weights import apart, is_weight, weight_names
from sentune.job.data import dev_corpora, numbered
from sentune.job.options import OperationOptions
from sentune.job.trained import TrainedJob
from sentune.job.weights import with_weights
from sentune.study.space.space import SearchSpace
from sentune.training.inputs import Inputs, operation_inputs
from sentune.training.trial import Opens


class OperationsJob(TrainedJob):
    """See ``TrainedJob``."""

    builtin = ("builtin:operations", "builtin:scenes")
    prefer: ClassVar[Kind | None] = Kind.SCORED_PAIRS
    options: OperationOptions
    _inputs: Inputs

    @property
    def suits(self) -> str:
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
        self._inputs = made = operation_inputs(
            self.options.corpora,
            encoder=self.options.encoder,
            decoder=self.options.decoder,
            max_length=self.training.max_length,
            cache=cache,
            limit=self.options.limit,
        )
        self.folder, self.tokens = made.folder, made.tokens
        self.dev = dev_corpora(self.options, self.builtin, self.prefer)

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        """The training corpora."""
        corpora = self._inputs.corpora
        return {numbered("corpus", i): corpus.described() for i, corpus in enumerate(corpora)}

    def handle(self, settings: dict[str, Any], handles: Sequence[Opens]) -> Opens:
        """Batches mixed by the trial's weights, which are taken out of the settings."""
        if not self._weights:
            return super().handle(settings, handles)
        kept, weights = apart(settings, self._weights)
        settings.clear()
        settings.update(kept)
        return MixedHandle(tuple(handles), weights)

    def shipped_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Without the weights of corpora."""
        return {name: value for name, value in settings.items() if not is_weight(name)}
