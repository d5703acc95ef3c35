"""Examples a second of a trial with two workers of Ray Train against one, a core each.

A worker has one thread of arithmetic. The figure is the trial's own, without the start of processes
and the first steps. Beside it stand two trials of one worker each, side by side, which send each
other nothing: more than those two cores give together no group can reach. The method is GumbelCSE.

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

from measure import MODELS, machine, minilm, show, snli, table_of

from sentune.corpora import Kind, read
from sentune.corpora.stream import hand_out, share
from sentune.methods import TRAINED
from sentune.study.config import StudyConfig
from sentune.study.planning.connect import connected
from sentune.study.space import SearchSpace, Uniform
from sentune.study.study import Study
from sentune.training.inputs import InputMaker, Inputs
from sentune.training.loop import train
from sentune.training.trial import Opens, TrialSpec

BATCH, LENGTH, STEPS, ROUNDS, AIM = 64, 64, 16, 2, 1.8
WARM_UP = 4
"""Steps before the first milestone."""
WAYS = {"one worker": (1, 1), "two workers": (1, 2), "two trials, a worker each": (2, 1)}
"""Trials at a time and the workers of each."""


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


def examples_a_second(inputs: Inputs, trials: int, workers: int, storage: str) -> float:
    """Of so many trials at a time, in all."""
    dev = read("builtin:nli?split=dev", Kind.LABELLED_PAIRS)
    dev = replace(dev, table=dev.table.slice(0, 8))
    config = StudyConfig(
        name=f"{trials}-{workers}", storage=storage, trials=trials, concurrent=trials, finalists=0,
        scheduler="none", sampler="random", launcher="train", workers=workers,
        max_examples=(WARM_UP + STEPS) * BATCH,
    )  # fmt: skip
    settings = {"temperature": Uniform(0.04, 0.06)}  # each trial's own, or one would answer both
    space = SearchSpace(method="gumbel", objective="direction/accuracy", settings=settings)
    spec = partial(make_spec, inputs, hand_out(inputs.tokens[0]), share([dev]))
    ended = Study(config, space, spec, train, (), {}).run().trials
    return sum(trial.metrics["train/examples_per_second"] for trial in ended)


def main() -> None:
    """Prints examples a second of the best of a few rounds, and their ratios."""
    logging.disable(logging.WARNING)
    # as nice as this process, or a busy machine decides; the name is Ray's
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    corpus, encoder = snli("train_first100k"), minilm()
    best = dict.fromkeys(WAYS, 0.0)
    with tempfile.TemporaryDirectory() as scratch, connected():
        rows = BATCH * (WARM_UP + STEPS)
        maker = InputMaker(max_length=LENGTH, cache=Path(scratch, "cache"), limit=rows)
        inputs = maker.inputs(TRAINED["gumbel"], (corpus,), encoder=encoder)
        for turn in range(ROUNDS):
            for way, (trials, workers) in WAYS.items():
                speed = examples_a_second(inputs, trials, workers, f"{scratch}/{turn}")
                best[way] = max(best[way], speed)
    name, one = Path(encoder).name, next(iter(best.values()))
    title = f"GumbelCSE, {name}, batch {BATCH}"
    table = table_of(title, "", "examples a second", "of one worker's", caption=machine(1))
    for way, speed in best.items():
        table.add_row(way, f"{speed:.1f}", f"{speed / one:.2f}x")
    show(table)
    if MODELS and best["two workers"] < AIM * one:
        raise SystemExit(f"two workers are to be at least {AIM} times as fast as one")


if __name__ == "__main__":
    main()
