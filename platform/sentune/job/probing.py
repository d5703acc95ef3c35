"""What a job's first configuration costs on this machine, tried for a few seconds without Ray."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.tokens import TokenFolder
from sentune.job.assembly import spec_maker
from sentune.job.closed_form import ClosedFormJob
from sentune.job.kinds import Job
from sentune.job.trained import TrainedJob
from sentune.methods import find
from sentune.study.planning.estimate import Probe
from sentune.study.planning.plan import searched
from sentune.study.planning.probe import checkpoint_size, probe_fit, probe_training
from sentune.study.space.domains import Dimension, Value
from sentune.study.space.space import SearchSpace
from sentune.training.closed_form import FitAndSweep
from sentune.training.settings import split
from sentune.training.trial import TrialSpec

SECONDS = 60.0
"""A job on the built-in corpus and encoder takes 3 to 20; a BERT on a CPU is cut off here."""

MOST_ROWS = 20_000
"""Rows of a corpus that a probe reads; whole shards are read, so there may be more."""

FIT_ROWS = 4_000
"""Rows of the larger of two fits; the other one has a quarter."""


def probed(job: Job, *, seconds: float = SECONDS) -> Probe:
    """Times a job's first configuration; the job has been prepared.

    Raises:
        TrialFailed: it cannot be trained, or not one step was through in time.
        InvalidValue: its settings do not fit together, the encoder or the corpus.
    """
    if isinstance(job, ClosedFormJob):
        return _fit_probed(job, seconds)
    assert isinstance(job, TrainedJob)
    spec = _local_spec(job)
    _, training = split(spec.settings, find(spec.method))
    threads = max(1, int(job.config.cpus_per_worker))
    return probe_training(spec, batch_size=training.batch_size, seconds=seconds, threads=threads)


def checkpoint_bytes(job: Job) -> int:
    """Bytes of a checkpoint of the first configuration; 0 for a fit, which is small."""
    return checkpoint_size(_local_spec(job)) if isinstance(job, TrainedJob) else 0


def first_configuration(space: SearchSpace) -> dict[str, Value]:
    """What a search tries first; what no known point says is taken from the middle."""
    points = space.first_points()
    known = points[0] if points else {}

    def suggest(name: str, dimension: Dimension) -> Value:
        return known[name] if name in known else dimension.at(0.5)

    return space.draw(suggest)


def _local_spec(job: TrainedJob) -> TrialSpec:
    """The first configuration on data that this process holds."""
    handles = [Held(SharedSource(_first_rows(tokens).load())) for tokens in job.tokens]
    make_spec = spec_maker(job, hold=Held, handles=handles)
    settings: dict[str, Any] = first_configuration(searched(job.config, job.space))
    return make_spec(settings, "probe", job.config.seed, (job.config.max_examples,))


def _first_rows(tokens: TokenFolder) -> TokenFolder:
    count, rows = 0, 0
    while count < len(tokens.shards) and rows < MOST_ROWS:
        rows += tokens.shards[count]
        count += 1
    return replace(tokens, shards=tokens.shards[:count])


def _fit_probed(job: ClosedFormJob, seconds: float) -> Probe:
    space = searched(job.config, job.space)
    settings, grids = space.apart({**space.fixed, **first_configuration(space)})
    table = _first_sentences(job)
    whole = TrialSpec(
        study=job.config.name,
        trial="probe",
        method=space.method,
        settings=settings,
        encoder="",
        corpus=Held(table),
        dev=Held(list(job.dev)),
        max_examples=table.num_rows,
        milestones=(table.num_rows,),
        objective=space.objective,
        mode=space.mode,
        seed=job.config.seed,
        readouts=grids,
    )
    few = max(1, table.num_rows // 4)
    part = replace(whole, corpus=Held(table.slice(0, few)), max_examples=few, milestones=(few,))
    program = FitAndSweep(words={source: Held(words) for source, words in job.words.items()})
    return probe_fit(program, {few: part, table.num_rows: whole}, seconds=seconds, threads=1)


def _first_sentences(job: ClosedFormJob) -> pa.Table:
    taken: list[pa.RecordBatch] = []
    for batch in job.sentences.batches():
        taken.append(batch)
        if sum(part.num_rows for part in taken) >= FIT_ROWS:
            break
    return pa.Table.from_batches(taken).slice(0, FIT_ROWS)
