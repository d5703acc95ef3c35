"""The specification of a training run, its identity, and the progress that it yields."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sentune.formatting import differences
from sentune.io.checksums import document_checksum

if TYPE_CHECKING:
    from sentune.training.group import Group


class Opens(Protocol):
    """A picklable handle of data: ``open()`` gives the data in the process that needs it."""

    def open(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """One training run, complete: the same spec gives the same run on any launcher.

    Attributes:
        trial: its name in the study: ``0007``, or ``finalist-0007-seed-3``.
        method: name in ``sentune.methods.REGISTRY``.
        settings: values for the method's and the training's settings, flat.
        encoder: path or name of the encoder as ``sentune.encoders.prepare`` resolved it.
        corpus: opens to a ``sentune.corpora.batches.BatchSource``.
        dev: opens to a list of ``sentune.corpora.Corpus`` to validate on.
        max_examples: budget, in examples of the training corpus.
        milestones: examples after which to validate and report; increasing, the last one is
            ``max_examples``.
        objective: metric (``task/metric``) by which the best milestone is chosen.
        seed: of initialisation, data order and dropout.
        readouts: readout -> grid to sweep at each validation; what is missing has the method's.
        references: opens to ``sentune.tasks.References``; None where no task needs them.
        directory: absolute path or fsspec URI of the trial's checkpoints.
        checkpoint_every: examples after which to write a checkpoint to resume from between
            milestones; 0: at milestones alone.
        start_from: directory or URI of another run's checkpoints, whose weights and optimiser are
            taken up where ``directory`` has no checkpoint (population-based training); learning
            rate, weight decay and all the rest come from ``settings``.
        start_at: examples of the checkpoint to take from there; 0: the newest.
        micro_batch: at most so many examples in a worker's memory, whatever the settings say; 0:
            as they say. Set after a run has died of memory.
        rung_rows: rows of each development corpus that milestones before the last are judged on; 0:
            all. What they measure carries ``sentune.records.PART``.
        generation: number of the study's start that asks for the run, written into checkpoints; one
            in ``directory`` of a later start ends the run.
        identity: as ``identity_of`` gives it, written into checkpoints; those of
            another run in ``directory`` are set aside. Empty: all there are its own.
        every_step: yield the progress after each optimiser step too (``Progress.milestone`` is
            False). Launchers set it; callers that wait for milestones alone do without.
    """

    trial: str
    method: str
    settings: Mapping[str, Any]
    encoder: str
    corpus: Opens
    dev: Opens
    max_examples: int
    milestones: tuple[int, ...]
    objective: str
    mode: str = "max"
    seed: int = 0
    directory: str = ""
    readouts: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    references: Opens | None = None
    checkpoint_every: int = 0
    start_from: str = ""
    start_at: int = 0
    micro_batch: int = 0
    rung_rows: int = 0
    generation: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict)
    every_step: bool = False


SETTINGS, LIVE = "settings", "live"
"""Parts of an identity: settings, and those of them that may change while a model is trained."""


def identity_of(
    spec: TrialSpec,
    settings: Mapping[str, Any],
    fingerprints: Mapping[str, Any],
    live: Collection[str] = (),
) -> dict[str, Any]:
    """Return the identity of a training run, part -> value, JSON types: whose a checkpoint is.

    It has everything that decides about weights and score. Parts are kept apart, so that a message
    can name the one in which two runs differ. Corpora, encoder and code are digests.

    Args:
        spec: of the run.
        settings: all of the run's, weights of corpora and readouts too.
        fingerprints: of corpora, encoder and code, as the job has them, JSON types.
        live: settings that may change while a model is trained.
    """
    plain = json.loads(json.dumps(dict(settings)))
    return {
        "method": spec.method,
        SETTINGS: {name: value for name, value in plain.items() if name not in live},
        LIVE: {name: value for name, value in plain.items() if name in live},
        "seed": spec.seed,
        "max_examples": spec.max_examples,
        "objective": f"{spec.objective}:{spec.mode}",
        **{part: document_checksum(value) for part, value in fingerprints.items()},
    }


def other_run(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return in what two identities differ; empty where they are equal."""
    whole = ({**run.get(SETTINGS, {}), **run.get(LIVE, {})} for run in (was, now))
    return _differing(was, now, *whole)


def other_donor(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return why a run may not go on from another run's checkpoint; empty where it may.

    Settings that may change while a model is trained are left out, and those that only one of the
    runs has: a condition on one of these may bring them in.
    """
    both = was.get(SETTINGS, {}).keys() & now.get(SETTINGS, {}).keys()
    return _differing(
        was, now, *({name: run[SETTINGS][name] for name in both} for run in (was, now))
    )


def _differing(
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    settings_was: Mapping[str, Any],
    settings_now: Mapping[str, Any],
) -> str:
    if not was:
        return "it does not say of which"
    other = {**was, SETTINGS: settings_was, LIVE: {}}
    return "; ".join(differences(other, {**now, SETTINGS: settings_now, LIVE: {}}))


@dataclass(kw_only=True)
class Measured:
    """How far a trial is, and what was measured there.

    Attributes:
        examples: the milestone (trials of different batch sizes meet at the same number), or
            between milestones the examples seen.
        metrics: ``task/metric`` -> fraction, and ``train/...`` figures.
        readouts: ``task/readout`` -> best value on the model as it stands.
        tables: file name -> content of larger results for the tracker (sweep tables, curves).
        trace: of the training since the last milestone: examples seen, loss, examples a second and
            UTC epoch seconds of each point.
        final: the budget is used up; a trial that ends without it was stopped.
        milestone: False after a step between milestones, where nothing was measured.
    """

    examples: int
    metrics: dict[str, float]
    readouts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    trace: list[list[float]] = field(default_factory=list)
    final: bool = False
    milestone: bool = True

    def measured(self) -> dict[str, Any]:
        """Return the values of the fields that every record of a trial's progress has."""
        return {part.name: getattr(self, part.name) for part in fields(Measured)}


@dataclass(kw_only=True)
class Progress(Measured):
    """Yielded at each milestone, and after each step between them where the spec asks for it.

    Attributes:
        save: writes the resumable state into an existing empty local folder. Every rank calls
            it; rank 0 writes.
        notes: what the trial did beside training, a sentence each, over all its starts.
    """

    save: Callable[[Path], None]
    notes: list[str] = field(default_factory=list)


Program = Callable[[TrialSpec, "Group"], Iterator[Progress]]
"""What a launcher runs: a picklable function that trains and yields its progress.

It resumes by itself from the newest checkpoint in ``spec.directory`` and first yields the
last progress again, so that a report that was lost with a killed driver arrives after all.
"""
