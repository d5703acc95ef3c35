"""Methods with a decoder: sentence operations (InterSent), ordered sentences (invertible)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.console import Console

from sentune.corpora.mixing import MixedHandle, apart, weight_names
from sentune.corpora.schema import Kind
from sentune.job.corpora import dev_corpora, numbered
from sentune.job.families.base import TrainedFamily
from sentune.job.options import OperationOptions, WordOptions
from sentune.study.config import StudyConfig
from sentune.study.space.domains import Dimension, Uniform
from sentune.study.space.space import SearchSpace
from sentune.terminal import print_line
from sentune.training.inputs import Inputs
from sentune.training.trial import Opens


class GenerativeFamily(TrainedFamily):
    """See ``JobFamily``."""

    prefer: ClassVar[Kind | None] = Kind.SCORED_PAIRS
    _inputs: Inputs

    def manifests(self) -> Sequence[str]:
        return [*(corpus.manifest_file for corpus in self._inputs.corpora), *super().manifests()]

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        corpora = self._inputs.corpora
        return {numbered("corpus", i): corpus.described() for i, corpus in enumerate(corpora)}

    def read(self, console: Console) -> None:
        """Read the dev corpora, which are short, before the training corpora."""
        self.dev = dev_corpora(self.options, self.builtin, self.prefer)
        inputs = self._inputs = self.inputs()
        self.folder, self.tokens = inputs.folder, inputs.tokens
        if inputs.note:
            print_line(console, inputs.note)

    @abstractmethod
    def inputs(self) -> Inputs:
        """Return what a run is given."""


class OperationFamily(GenerativeFamily):
    """InterSent: an encoder, a decoder, and corpora of operations mixed."""

    name = "operations"
    builtin = ("builtin:operations", "builtin:scenes")
    options: OperationOptions

    @property
    def pretrained(self) -> str:
        return self.options.encoder

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        specs = self.options.corpora
        self._weights = weight_names(specs) if len(specs) > 1 else ()
        return super().requested(with_weights(space, self._weights) if self._weights else space)

    def inputs(self) -> Inputs:
        encoder, decoder = self.options.encoder, self.options.decoder
        return self.input_maker.operations(self.options.corpora, encoder=encoder, decoder=decoder)

    def handle(
        self, settings: dict[str, Any], handles: Sequence[Opens]
    ) -> tuple[Opens, dict[str, Any]]:
        """Return batches mixed by the trial's weights, and the settings without these."""
        if not self._weights:
            return super().handle(settings, handles)
        kept, weights = apart(settings, self._weights)
        return MixedHandle(tuple(handles), weights), kept


class WordFamily(GenerativeFamily):
    """Invertible decoders: fixed word vectors, and sentences in their order."""

    name = "words"
    builtin = ("builtin:similarity",)
    options: WordOptions

    @property
    def pretrained(self) -> str:
        return self.options.vectors

    def inputs(self) -> Inputs:
        options = self.options
        return self.input_maker.words(
            options.corpus, vectors=options.vectors, frequencies=options.frequencies
        )


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
