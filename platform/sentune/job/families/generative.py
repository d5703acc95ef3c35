"""Methods with a decoder: sentence operations (InterSent), ordered sentences (invertible)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sentune.corpora.mixing import MixedHandle, apart, weight_names
from sentune.corpora.schema import Kind
from sentune.job.families.trained import TrainedFamily
from sentune.job.options import OperationOptions, WordOptions
from sentune.study.config import StudyConfig
from sentune.study.space.domains import Dimension, Uniform
from sentune.study.space.space import SearchSpace
from sentune.training.inputs import InputMaker, Inputs
from sentune.training.trial import Opens


class OperationFamily(TrainedFamily):
    """InterSent: an encoder, a decoder, and corpora of operations mixed."""

    prefer = Kind.SCORED_PAIRS
    builtin = ("builtin:operations", "builtin:scenes")
    options: OperationOptions

    @property
    def pretrained(self) -> str:
        return self.options.encoder

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        specs = self.options.corpora
        self._weights = weight_names(specs) if len(specs) > 1 else ()
        return super().requested(with_weights(space, self._weights) if self._weights else space)

    def read(self, maker: InputMaker) -> Inputs:
        options = self.options
        return maker.operations(options.corpora, encoder=options.encoder, decoder=options.decoder)

    def handle(
        self, settings: dict[str, Any], handles: Sequence[Opens]
    ) -> tuple[Opens, dict[str, Any]]:
        """Return batches mixed by the trial's weights, and the settings without these."""
        if not self._weights:
            return super().handle(settings, handles)
        kept, weights = apart(settings, self._weights)
        return MixedHandle(tuple(handles), weights), kept


class WordFamily(TrainedFamily):
    """Invertible decoders: fixed word vectors, and sentences in their order."""

    prefer = Kind.SCORED_PAIRS
    builtin = ("builtin:similarity",)
    options: WordOptions

    @property
    def pretrained(self) -> str:
        return self.options.vectors

    def read(self, maker: InputMaker) -> Inputs:
        options = self.options
        return maker.words(options.corpus, vectors=options.vectors, frequencies=options.frequencies)


def with_weights(space: SearchSpace, names: Sequence[str]) -> SearchSpace:
    """Return the space with the weights of all corpora but the first, whose own is 1.

    Of weights only their ratios matter; 1 draws a corpus as often as its size has it.
    """
    first, *others = names
    searched: dict[str, Dimension] = {name: Uniform(0.1, 10.0, log=True) for name in others}
    return replace(
        space,
        settings={**space.settings, **searched},
        fixed={first: 1.0, **space.fixed},
        published={**dict.fromkeys(others, 1.0), **space.published},
    )
