"""Methods that embed sentences and compare them (SimCSE, GaussCSE, GumbelCSE)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from sentune.corpora.formats import kinds_of
from sentune.corpora.prepare import Prepared
from sentune.corpora.schema import Kind
from sentune.encoders.transformer import word_averages
from sentune.errors import InvalidValue
from sentune.job.corpora import STORED
from sentune.job.families.trained import TrainedFamily
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.readouts.grid import grid_of
from sentune.readouts.interpretation import REFERENCES
from sentune.study.config import StudyConfig
from sentune.study.space.domains import Choice
from sentune.study.space.space import SearchSpace
from sentune.tasks.references import References
from sentune.training.inputs import InputMaker, Inputs


class SentenceFamily(TrainedFamily):
    """One encoder and one corpus; references where the method has interpretations."""

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

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        given = self.options.references
        if given is not None and REFERENCES not in find(space.method).readouts:
            fix = f"{space.method} has no interpretations; leave it out"
            raise InvalidValue("--references", given, fix)
        return super().requested(space)

    def read(self, maker: InputMaker) -> Inputs:
        """Read ``--references``, then ``--corpus``; without the former they are of the latter."""
        options, method = self.options, find(self.space.method)
        if options.references is not None:
            self._referred = maker.prepared(options.references, kinds_of(options.references)[0])
        inputs = maker.sentences(options.corpus, method, encoder=options.encoder)
        (self.train,) = inputs.corpora
        if REFERENCES in method.readouts:
            self.references = self._sampled(self._referred or self.train)
        return inputs

    def _sampled(self, corpus: Prepared) -> References:
        """Return a sample of a corpus for each n of the grid."""
        drawn = self.space.settings.get(REFERENCES.name)
        grid = (
            drawn.values
            if isinstance(drawn, Choice)
            else grid_of(REFERENCES, self.space.grids_for(self.space.fixed))
        )
        counts = {STORED, *(int(n) for n in grid if n is not None)}
        return References.sample(corpus, sorted(counts), self.options.seed)

    def manifests(self) -> Sequence[str]:
        return [*super().manifests(), *([self._referred.manifest_file] if self._referred else [])]

    def trained_on(self) -> Mapping[str, Mapping[str, Any]]:
        referred = {"references": self._referred.described()} if self._referred else {}
        return {**super().trained_on(), **referred}

    def word_averages(self) -> Callable[[Sequence[str]], Tensor] | None:
        return word_averages(self.folder) if self.folder else None
