"""A trial of builtin:nli on Ray against the same loop without Ray, once both are running.

Seconds of the second milestone span (training and validation), one thread each, in turn.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from measure import machine, show, table_of

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.corpora.stream import hand_out, share
from sentune.corpora.tokens import TokenFolder, tokenise_batches
from sentune.encoders import prepare
from sentune.launchers.run_trial import run_trial
from sentune.study.config import StudyConfig
from sentune.study.planning.connect import connected
from sentune.study.space import SearchSpace
from sentune.study.study import Study
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import Opens, TrialSpec

SETTINGS: dict[str, Any] = {"batch_size": 64, "learning_rate": 5e-4}
EXAMPLES, ROUNDS = 18_000, 3


class ProbeTimes:
    """Keeps when something was stored: the study's start, the trial's, milestones, its end."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def __call__(self) -> None:
        self.told.append(time.perf_counter())

    @property
    def milestones(self) -> list[float]:
        """When milestones were stored."""
        return self.told[2:-1]


def spec_of(
    settings: Mapping[str, Any],
    name: str,
    corpus: Opens,
    dev: Opens,
    encoder: str,
    milestones: tuple[int, ...],
    directory: str = "",
) -> TrialSpec:
    """The training run that both take."""
    return TrialSpec(
        trial=name,
        method="gumbel",
        settings={**SETTINGS, **settings},
        encoder=encoder,
        corpus=corpus,
        dev=dev,
        max_examples=milestones[-1],
        milestones=milestones,
        objective="direction/accuracy",
        directory=directory,
    )


def without_ray(folder: TokenFolder, dev: Corpus, encoder: str, scratch: Path) -> float:
    """Seconds from the first milestone to the last, in this process."""
    corpus = Held(SharedSource(folder.load()))
    milestones = (EXAMPLES // 9, EXAMPLES // 3, EXAMPLES)
    spec = spec_of({}, "0", corpus, Held([dev]), encoder, milestones, str(scratch))
    # with the same checkpoints that a trial writes
    told = [time.perf_counter() for _ in run_trial(train, spec, Group.single(torch.device("cpu")))]
    return told[-1] - told[0]


def with_ray(folder: TokenFolder, dev: Corpus, encoder: str, scratch: Path) -> float:
    """The same as a study of one trial."""
    watch = ProbeTimes()
    shared, held = hand_out(folder), share([dev])

    def make_spec(
        settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...]
    ) -> TrialSpec:
        return spec_of(settings, name, shared, held, encoder, milestones)

    config = StudyConfig(
        name="overhead", storage=str(scratch), trials=1, finalists=0, max_examples=EXAMPLES
    )
    space = SearchSpace(method="gumbel", objective="direction/accuracy", settings={})
    Study(config, space, make_spec, train, [watch]).run()
    return watch.milestones[-1] - watch.milestones[0]


def main() -> None:
    """Prints seconds of the best of a few rounds, and their ratio."""
    logging.disable(logging.WARNING)
    # as nice as this process, or a busy machine decides; the name is Ray's
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    torch.set_num_threads(1)
    corpus = read("builtin:nli", Kind.TRIPLETS)
    dev = read("builtin:nli?split=dev", Kind.LABELLED_PAIRS)
    found: dict[str, list[float]] = {"loop alone": [], "trial on Ray": []}
    with tempfile.TemporaryDirectory() as name, connected():
        scratch = Path(name)
        texts = (text for column in corpus.table.itercolumns() for text in column.to_pylist())
        encoder = prepare("builtin:tiny", texts, scratch)
        batches = corpus.table.to_batches()
        folder = tokenise_batches(
            batches, corpus.fingerprint, Encoder(encoder, 64), scratch / "tokens"
        )
        for turn in range(ROUNDS):
            place = (folder, dev, encoder, scratch / str(turn))
            found["loop alone"].append(without_ray(*place))
            found["trial on Ray"].append(with_ray(*place))
    best = {way: min(seconds) for way, seconds in found.items()}
    title = f"{EXAMPLES * 8 // 9:,} examples of builtin:nli with two validations"
    table = table_of(title, "", "seconds", "of the loop alone", caption=machine(1))
    for way, seconds in best.items():
        table.add_row(way, f"{seconds:.2f}", f"{seconds / best['loop alone']:.3f}x")
    show(table)


if __name__ == "__main__":
    main()
