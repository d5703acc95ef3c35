"""Methods that embed sentences and compare them (SimCSE, GaussCSE, GumbelCSE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Console

from sentune.corpora.formats import check_opens
from sentune.encoders import load_tokenizer
from sentune.errors import InvalidValue
from sentune.job.corpora import STORED
from sentune.job.families.trained import TrainedFamily, batch_sizes
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.readouts.grid import REFERENCES, grid_of
from sentune.study.config import StudyConfig
from sentune.study.space.domains import Choice
from sentune.study.space.space import SearchSpace
from sentune.tasks.choose import with_prior
from sentune.tasks.references import AT_RUNGS, References, kind_of_references
from sentune.training.inputs import InputMaker, Inputs


class SentenceFamily(TrainedFamily):
    """Jobs with one encoder and one corpus, and references if the method has interpretations."""

    options: JobOptions

    def requested(self, space: SearchSpace) -> tuple[SearchSpace, StudyConfig]:
        given = self.options.references
        if given is not None and REFERENCES not in find(space.method).readouts:
            fix = f"{space.method} has no interpretations; leave it out"
            raise InvalidValue("--references", given, fix)
        left, config = super().requested(space)
        if self.options.profile is None:
            return left, config
        if self.options.objective or self.options.validate_every:
            fix = "it sets --objective and --validate-every; leave these out"
            raise InvalidValue("--profile", self.options.profile, fix)
        # GumbelCSE section 4.1, GaussCSE appendix A
        config = replace(config, validate_every=100 * min(batch_sizes(left)))
        return replace(left, objective="rte/auc", mode="max"), config

    def prepare(self, console: Console) -> None:
        super().prepare(console)
        if self.options.prior:
            self.dev = with_prior(self.dev, self.options.prior)

    def check(self) -> None:
        super().check()
        if self.folder:  # a built-in encoder has a [CLS]
            tokenizer = load_tokenizer(self.folder)
            fixed = Choice(self.space.fixed.get("pooling", "cls"))
            poolings: Any = self.space.settings.get("pooling", fixed)
            for pooling in poolings.values:
                tokenizer.check_pooling(str(pooling))
        if (named := self.options.references) is not None:
            check_opens(named, kind_of_references(named))

    def read(self, maker: InputMaker) -> Inputs:
        """Read ``--references`` and ``--corpus``; references come from the latter by default."""
        named, source = self.options.references, None
        if named is not None:
            source = maker.prepared(named, kind_of_references(named))
        inputs = super().read(maker)
        if source is not None:
            self.sources["references"] = source
        if REFERENCES in self.method.readouts:
            source = source or self.sources["corpus"]
            self.references = References.sample(source, self._counts(), self.options.seed)
        return inputs

    def _counts(self) -> list[int]:
        """Return all numbers n of references that are needed, in ascending order.

        They are those of the grid of references, ``STORED`` and ``AT_RUNGS``.
        """
        drawn = self.space.settings.get(REFERENCES.name)
        grid = (
            drawn.values
            if isinstance(drawn, Choice)
            else grid_of(REFERENCES, self.space.grids_for(self.space.fixed))
        )
        return sorted({AT_RUNGS, STORED, *(int(n) for n in grid if n is not None)})
