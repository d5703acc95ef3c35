"""A study put together: corpora as tokens and handles, the encoder shipped, the trials' specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.code import result_fingerprint
from sentune.corpora.stream import hand_out, share
from sentune.corpora.tokens import TokenFolder, tokenise_batches
from sentune.job.data import Corpora, needs_references
from sentune.methods import find
from sentune.records import StudyListener
from sentune.search.shipping import WithEncoder, ship
from sentune.search.space import SearchSpace
from sentune.search.study import MakeSpec, Study
from sentune.training.loop import train
from sentune.training.recipes import recipe_of
from sentune.training.settings import split
from sentune.training.trial import TrialSpec

if TYPE_CHECKING:
    from sentune.job.gradient import GradientJob


def tokenised(space: SearchSpace, corpora: Corpora, encoder: str, cache: Path) -> TokenFolder:
    """The training corpus as token shards, from the cache where they are there."""
    kind = find(space.method)
    _, training = split(space.fixed, kind)
    return tokenise_batches(
        corpora.train.table.to_batches(),
        corpora.train.fingerprint,
        recipe_of(kind).table_encoder(encoder, training.max_length),
        cache / "tokens",
    )


def make_study(job: GradientJob, listeners: Sequence[StudyListener]) -> Study:
    """The study on the cluster that this process has joined; refuses what cannot run."""
    shipped = ship(job.encoder)
    world = {
        "corpora": {role: c["fingerprint"] for role, c in job.corpora().items()},
        "encoder": shipped.digest,
        "code": result_fingerprint(),
    }
    program = WithEncoder(train, shipped)
    return Study(job.config, job.space, spec_maker(job), program, listeners, world)


def spec_maker(job: GradientJob) -> MakeSpec:
    """Makes a training run of settings: the corpora go to the object store once, here."""
    config, space = job.config, job.space
    assert job.data is not None
    corpus = hand_out(job.tokens, share_up_to=job.options.share_mb << 20)
    dev = share(list(job.data.dev))
    wanted = needs_references(job.data.dev)
    references = share(job.references) if wanted and job.references is not None else None

    def make_spec(
        settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
    ) -> TrialSpec:
        kept, grids = space.apart({**space.fixed, **settings})
        return TrialSpec(
            study=config.name,
            trial=name,
            method=space.method,
            settings=kept,
            encoder=job.encoder,
            corpus=corpus,
            dev=dev,
            max_examples=config.max_examples,
            milestones=milestones,
            objective=space.objective,
            mode=space.mode,
            seed=seed,
            readouts=grids,
            references=references,
        )

    return make_spec
