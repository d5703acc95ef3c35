"""The specification of a training run, its identity, and the progress that it yields."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from sentune.formatting import differences
from sentune.io.checksums import document_checksum

if TYPE_CHECKING:
    from sentune.training.group import Group


class Opens(Protocol):
    """A picklable handle of data; ``open()`` returns the data in the process that needs it."""

    def open(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """The complete specification of a training run; it gives the same run on any launcher.

    Attributes:
        trial: name in the study, such as ``0007`` or ``finalist-0007-seed-3``.
        method: name or address of the method, see ``sentune.methods.find``.
        settings: settings of the method and of the training in one dictionary.
        encoder: path or name of the encoder as ``sentune.encoders.prepare`` resolved it.
        corpus: opens to a ``sentune.corpora.batches.BatchSource``.
        dev: opens to a list of ``sentune.corpora.Corpus`` to validate on.
        max_examples: budget, in examples of the training corpus.
        milestones: increasing numbers of examples after which to validate and report; the last one
            is ``max_examples``.
        objective: metric (``task/metric``) by which the best milestone is chosen.
        mode: ``max`` or ``min``, the direction in which the objective improves.
        seed: seed of initialisation, data order and dropout.
        directory: absolute path or fsspec URI of the trial's checkpoints.
        readouts: readout -> grid to sweep at each validation; a missing readout uses its own grid.
        references: opens to ``sentune.tasks.References``; None if no task needs them.
        checkpoint_every: number of examples after which to write a checkpoint between milestones;
            0: at milestones only.
        start_from: directory or URI of another run's checkpoints, from which weights and optimiser
            are loaded if ``directory`` has no checkpoint (population-based training). Learning
            rate, weight decay and all else come from ``settings``.
        start_at: number of examples of the checkpoint in ``start_from``; 0: the newest.
        micro_batch: upper bound of the micro-batch, set after a run ran out of memory; 0: none.
        rung_rows: rows of each development corpus on which milestones before the last are
            validated; 0: all. Such metrics include ``sentune.records.PART``.
        generation: number of the study's start that requests the run, written into checkpoints. A
            checkpoint of a later start in ``directory`` ends the run.
        identity: result of ``identity_of``, written into checkpoints. Checkpoints of another run in
            ``directory`` are set aside; if empty, they are not compared.
        every_step: whether to yield progress also after each optimiser step, with
            ``Progress.milestone`` False. Launchers set it.
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
"""Parts of an identity: fixed settings, and settings that may change during training."""


def identity_of(
    spec: TrialSpec,
    settings: Mapping[str, Any],
    fingerprints: Mapping[str, Any],
    live: Collection[str] = (),
) -> dict[str, Any]:
    """Return the identity of a training run, which tells whether a checkpoint belongs to it.

    The identity has all that determines weights and score, as JSON types, part -> value, so that a
    message can name the part in which two runs differ.

    Args:
        spec: specification of the run.
        settings: all settings of the run, including weights of corpora and readouts.
        fingerprints: fingerprints of corpora, encoder and code, as JSON types; only their digests
            are stored.
        live: names of settings that may change during training.
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


Identity: TypeAlias = Mapping[str, Any]
"""A result of ``identity_of``."""


def other_run(was: Identity, now: Identity) -> str:
    """Return the differences between two identities, or an empty text if they are equal."""
    return _differing(was, now, lambda run: {**run.get(SETTINGS, {}), **run.get(LIVE, {})})


def other_donor(was: Identity, now: Identity) -> str:
    """Return why a run cannot start from another run's checkpoint, or an empty text if it can.

    Settings that may change during training are ignored, and so are settings that only one run has,
    because they may be conditional on the former.
    """
    both = was.get(SETTINGS, {}).keys() & now.get(SETTINGS, {}).keys()
    return _differing(was, now, lambda run: {name: run[SETTINGS][name] for name in both})


def _differing(was: Identity, now: Identity, settings: Callable[[Identity], Any]) -> str:
    if not was:
        return "the checkpoint does not name its run"
    before, after = ({**run, SETTINGS: settings(run), LIVE: {}} for run in (was, now))
    return "; ".join(differences(before, after))


@dataclass(kw_only=True)
class Measured:
    """The measurements of a trial at some point of its training.

    Attributes:
        examples: number of examples of the milestone, which is the same for all batch sizes, or,
            between milestones, number of examples seen.
        metrics: ``task/metric`` -> fraction, and ``train/...`` values.
        readouts: ``task/readout`` -> best value for the current model.
        tables: file name -> content of larger results for the tracker (sweep tables, curves).
        trace: points of the training since the last milestone: examples seen, loss, examples a
            second, and UTC epoch seconds.
        final: whether the budget is used up; it is never set for a trial that was stopped.
        milestone: whether this is a milestone; nothing is measured between milestones.
    """

    examples: int
    metrics: dict[str, float]
    readouts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    trace: list[list[float]] = field(default_factory=list)
    final: bool = False
    milestone: bool = True

    def measured(self) -> dict[str, Any]:
        """Return field -> value of the fields of ``Measured``, without those of subclasses."""
        return {part.name: getattr(self, part.name) for part in fields(Measured)}


@dataclass(kw_only=True)
class Progress(Measured):
    """The progress that a training run yields at milestones and, if requested, after each step.

    Attributes:
        save: function that writes the resumable state into an existing empty local folder. Every
            rank must call it; rank 0 writes.
        notes: events other than training over all starts, one sentence each.
    """

    save: Callable[[Path], None]
    notes: list[str] = field(default_factory=list)


Program = Callable[[TrialSpec, "Group"], Iterator[Progress]]
"""A picklable function that trains and yields its progress, which a launcher runs.

It resumes from the newest checkpoint in ``spec.directory`` and first yields the last progress
again, in case a killed driver lost the report.
"""
