"""A study put together: corpora as handles, what methods are built from shipped, trials' specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sentune.code import result_fingerprint
from sentune.corpora.stream import share
from sentune.job.data import needs_references
from sentune.launchers.artifact_transfer import WithEncoder, ship
from sentune.study.study import MakeSpec, Study
from sentune.training.loop import train
from sentune.training.trial import Opens, TrialSpec

if TYPE_CHECKING:
    from sentune.job.trained import TrainedJob


def make_study(job: TrainedJob) -> Study:
    """The study on the cluster that this process has joined; refuses what cannot run."""
    shipped = ship(job.folder)
    world = {
        "corpora": {role: c["fingerprint"] for role, c in job.corpora().items()},
        "encoder": shipped.digest,
        "code": result_fingerprint(),
    }
    program = WithEncoder(train, shipped)
    return Study(job.config, job.space, spec_maker(job), program, world=world)


def spec_maker(
    job: TrainedJob,
    *,
    hold: Callable[[Any], Opens] = share,
    handles: Sequence[Opens] | None = None,
) -> MakeSpec:
    """Makes a training run of settings: the corpora go to the object store once, here.

    Args:
        job: which has been prepared.
        hold: makes a handle of something; without Ray it stays in this process.
        handles: of the training corpora; None: as the job hands them out.
    """
    config, space = job.config, job.space
    corpora = job.handles() if handles is None else handles
    dev = hold(list(job.dev))
    wanted = needs_references(job.dev)
    references = hold(job.references) if wanted and job.references is not None else None

    def make_spec(
        settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
    ) -> TrialSpec:
        kept, grids = space.apart({**space.fixed, **settings})
        corpus = job.handle(kept, corpora)
        return TrialSpec(
            study=config.name,
            trial=name,
            method=space.method,
            settings=kept,
            encoder=job.folder,
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
