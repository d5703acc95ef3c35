"""A study put together: corpora as tokens and handles, the encoder shipped, the trials' specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentune.code import result_fingerprint
from sentune.corpora.stream import hand_out, share
from sentune.corpora.tokens import TokenFolder, tokenise_batches
from sentune.job.data import Corpora
from sentune.job.options import JobOptions
from sentune.methods import find
from sentune.records import StudyListener
from sentune.search.config import StudyConfig
from sentune.search.shipping import WithEncoder, ship
from sentune.search.space import SearchSpace
from sentune.search.study import MakeSpec, Study
from sentune.training.loop import train
from sentune.training.settings import split
from sentune.training.trial import TrialSpec


def tokenised(space: SearchSpace, corpora: Corpora, encoder: str, cache: Path) -> TokenFolder:
    """The training corpus as token shards, from the cache where they are there."""
    _, training = split(space.fixed, find(space.method))
    return tokenise_batches(
        corpora.train.table.to_batches(),
        corpora.train.fingerprint,
        encoder,
        training.max_length,
        cache / "tokens",
    )


def make_study(
    config: StudyConfig,
    space: SearchSpace,
    corpora: Corpora,
    tokens: TokenFolder,
    encoder: str,
    options: JobOptions,
    listeners: Sequence[StudyListener],
) -> Study:
    """The study on the cluster that this process has joined; refuses what cannot run."""
    shipped = ship(encoder)
    world = {
        "corpora": {role: c["fingerprint"] for role, c in corpora.described().items()},
        "encoder": shipped.digest,
        "code": result_fingerprint(),
    }
    return Study(
        config,
        space,
        spec_maker(config, space, corpora, tokens, encoder, options),
        WithEncoder(train, shipped),
        listeners,
        world,
    )


def spec_maker(
    config: StudyConfig,
    space: SearchSpace,
    corpora: Corpora,
    tokens: TokenFolder,
    encoder: str,
    options: JobOptions,
) -> MakeSpec:
    """Makes a training run of settings: the corpora go to the object store once, here."""
    corpus = hand_out(tokens, share_up_to=options.share_mb << 20)
    dev = share(list(corpora.dev))

    def make_spec(
        settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
    ) -> TrialSpec:
        return TrialSpec(
            study=config.name,
            trial=name,
            method=space.method,
            settings={**space.fixed, **settings},
            encoder=encoder,
            corpus=corpus,
            dev=dev,
            max_examples=config.max_examples,
            milestones=milestones,
            objective=space.objective,
            mode=space.mode,
            seed=seed,
        )

    return make_spec
