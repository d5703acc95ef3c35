"""Examples a second of a trial with two workers of Ray Train against one, a core each.

A worker has one thread of arithmetic. Counted is the time from the first milestone to the last one:
neither the start of the processes nor the first steps. The trial is GumbelCSE's.

SENTUNE_MODELS names the folder with all-MiniLM-L6-v2, SENTUNE_DATA the one with SNLI; without them
the built-in encoder and corpus are measured, whose steps are short, so that more of them is spent
on passing embeddings and gradients on.
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from measure import machine
from rich.console import Console
from rich.table import Table
from trial_overhead import ProbeTimes

from sentune.corpora import Kind, read
from sentune.corpora.stream import hand_out, share
from sentune.methods import TRAINED
from sentune.study.config import StudyConfig
from sentune.study.planning.connect import connected
from sentune.study.space import SearchSpace
from sentune.study.study import Study
from sentune.training.inputs import InputMaker, Inputs
from sentune.training.loop import train
from sentune.training.trial import Opens, TrialSpec

BATCH, LENGTH, STEPS, ROUNDS, AIM = 64, 64, 24, 2, 1.8
WARM_UP = 4
"""Steps before the first milestone."""


def make_spec(
    inputs: Inputs, corpus: Opens, dev: Opens,
    settings: dict[str, Any], name: str, seed: int, milestones: tuple[int, ...],
) -> TrialSpec:  # fmt: skip
    """The training run of a configuration."""
    return TrialSpec(
        trial=name, method="gumbel", settings={**settings, "batch_size": BATCH}, seed=seed,
        encoder=inputs.folder, corpus=corpus, dev=dev, max_examples=milestones[-1],
        milestones=(WARM_UP * BATCH, milestones[-1]), objective="direction/accuracy",
    )  # fmt: skip


def examples_a_second(inputs: Inputs, workers: int, storage: str) -> float:
    """Of a study of one trial."""
    watch = ProbeTimes()
    dev = read("builtin:nli?split=dev", Kind.LABELLED_PAIRS)
    dev = replace(dev, table=dev.table.slice(0, 8))
    config = StudyConfig(
        name=f"workers-{workers}", storage=storage, trials=1, finalists=0, scheduler="none",
        launcher="train", workers=workers, max_examples=(WARM_UP + STEPS) * BATCH,
    )  # fmt: skip
    space = SearchSpace(method="gumbel", objective="direction/accuracy", settings={})
    spec = partial(make_spec, inputs, hand_out(inputs.tokens[0]), share([dev]))
    Study(config, space, spec, train, [watch]).run()
    first, *_, last = watch.milestones
    return STEPS * BATCH / (last - first)


def main() -> None:
    """Prints examples a second of the best of a few rounds, and their ratio."""
    logging.disable(logging.WARNING)
    # as nice as this process, or a busy machine decides; the name is Ray's
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    data, models = os.environ.get("SENTUNE_DATA"), os.environ.get("SENTUNE_MODELS")
    corpus = f"snli:{data}/snli/snli_1.0_train_first100k.jsonl.gz" if data else "builtin:nli"
    encoder = f"{models}/all-MiniLM-L6-v2" if models else "builtin:tiny"
    best = {1: 0.0, 2: 0.0}
    with tempfile.TemporaryDirectory() as scratch, connected():
        rows = BATCH * (WARM_UP + STEPS)
        maker = InputMaker(max_length=LENGTH, cache=Path(scratch, "cache"), limit=rows)
        inputs = maker.inputs(TRAINED["gumbel"], (corpus,), encoder=encoder)
        for turn in range(ROUNDS):
            for workers in best:
                speed = examples_a_second(inputs, workers, f"{scratch}/{turn}")
                best[workers] = max(best[workers], speed)
    name = Path(encoder).name
    table = Table(title=f"GumbelCSE, {name}, batch {BATCH}", title_justify="left")
    for column in ("workers", "examples a second", "of one worker's"):
        table.add_column(column, justify="right")
    for workers, speed in best.items():
        table.add_row(str(workers), f"{speed:.1f}", f"{speed / best[1]:.2f}x")
    console = Console(width=110)
    console.print(table)
    console.print(machine(1))
    if models and best[2] < AIM * best[1]:
        raise SystemExit(f"two workers are to be at least {AIM} times as fast as one")


if __name__ == "__main__":
    main()
