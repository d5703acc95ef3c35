"""How often a part of dev lets the same trials go on as all of dev, on recorded trials.

    SENTUNE_DATA=FOLDER python benchmarks/rung_judgement.py --encoder FOLDER --out FOLDER

Trains GumbelCSE in configurations drawn from its search space on SNLI, and records at each rung
what each row of SNLI dev scored (``--out``; recorded once). Then decisions are replayed: trials in
random order come to a rung, successive halving (eta 3) says of the last one whether it goes on,
once by all of dev and once by a part of a size, drawn anew for every decision as for a study of its
own. "Verdicts" is the share of decisions that are the same, "survivors" the share of rungs at which
a whole set of nine trials has the same best three; "lost" is by how much the three that a part has
chosen are worse on all of dev, in the mean. "Error" is the standard error of the difference
of two trials, which the same rows have judged; the mean over all pairs of trials.

Printed beside it: CPU seconds of an example of training, of a validation on all of dev and on a
part, and the share of validation in a trial of the default budget.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import sentune
from search_spaces.gumbel import DEFAULTS, SPACE
from sentune.corpora import Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.schema import Corpus
from sentune.corpora.stratified import stratified_rows
from sentune.geometry.base import Geometry
from sentune.methods import find
from sentune.readouts.threshold import precision_recall
from sentune.study.schedulers import Halving
from sentune.tasks import Result, read_judged
from sentune.tasks.pairs import Pairs, extent_direction, half_ties
from sentune.training.group import Group
from sentune.training.inputs import InputMaker
from sentune.training.loop import train
from sentune.training.trial import TrialSpec

Floats = NDArray[np.float64]
SIZES = (250, 500, 1000, 2000, 4000)
ROWS = ("by_similarity", "by_extent", "entails")


@sentune.task("rows", kind="labelled-pairs")
class Rows:
    """What every pair scored: how right each rule of direction is on it, and P(entails)."""

    def __init__(self, corpus: Corpus, name: str) -> None:
        columns = corpus.table.to_pydict()
        self.name, self.pairs = name, Pairs(tuple(columns["premise"]), tuple(columns["hypothesis"]))

    def sentences(self) -> list[str]:
        return list(self.pairs.sentences)

    def evaluate(self, embeddings: Tensor, geometry: Geometry, readouts: Any = None) -> Result:
        rules = (geometry.direction, extent_direction(geometry))
        hits = [half_ties(self.pairs.compare(embeddings, rule)) for rule in rules]
        rows = (*hits, self.pairs.compare(embeddings, geometry.entails))
        return Result(
            metrics={f"{self.name}/entails": float(rows[-1].mean())},
            tables=dict(zip(ROWS, rows, strict=True)),
        )


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What was recorded: [T, M, N] of each of ``ROWS``, T trials, M rungs, N pairs."""

    rungs: tuple[int, ...]
    rows: dict[str, NDArray[np.float32]]


def specs(data: Path, encoder: str, cache: Path, trials: int, rungs: tuple[int, ...]) -> Iterator:
    """Training runs of configurations drawn at random, the published one first."""
    settings = {"method": "gumbel", "corpus": f"snli:{data}/snli_1.0_train_first100k.jsonl.gz"}
    dev = f"rows=snli:{data}/snli_1.0_dev.jsonl.gz"
    inputs = InputMaker(max_length=48, cache=cache, limit=20_000).inputs(
        find("gumbel"), (settings["corpus"],), encoder=encoder
    )
    corpus, judged = Held(SharedSource(inputs.tokens[0].load())), Held([read_judged(dev)])
    draw = np.random.default_rng(0)
    for number in range(trials):
        drawn = SPACE.draw(lambda _, dimension: dimension.at(float(draw.random())))
        yield TrialSpec(
            trial=f"{number:04d}",
            method="gumbel",
            settings={**drawn, "max_length": 48},
            encoder=inputs.folder,
            corpus=corpus,
            dev=judged,
            max_examples=rungs[-1],
            milestones=rungs,
            objective="rows/entails",
        )


def record(runs: Iterator[TrialSpec], file: Path) -> Recording:
    """Train and write what every row scored; what is in the file already is not trained again."""
    if not file.is_file():
        found: dict[str, list[list[Floats]]] = {name: [] for name in ROWS}
        rungs: tuple[int, ...] = ()
        for spec in runs:
            rungs, began = spec.milestones, time.process_time()
            said = [progress.tables for progress in train(spec, Group.single())]
            for name in ROWS:
                found[name].append([tables[name] for tables in said])
            print(f"trial {spec.trial}: {time.process_time() - began:.0f} CPU s", flush=True)
        np.savez_compressed(
            file, rungs=rungs, **{n: np.array(v, dtype=np.float32) for n, v in found.items()}
        )
    with np.load(file) as held:
        return Recording(
            rungs=tuple(held["rungs"].tolist()), rows={name: held[name] for name in ROWS}
        )


Judge = Callable[[NDArray[np.int64]], Floats]
"""Rows of dev -> [T, M] the objective of each trial at each rung."""


def judges(dev: Corpus, recording: Recording) -> dict[str, Judge]:
    """Return objective -> what judges by it."""
    columns = dev.table.select(["label", "reverse_label"]).to_pydict()
    pairs = zip(columns["label"], columns["reverse_label"], strict=True)
    positive = np.array([label == "entailment" for label in columns["label"]])
    one_way = np.array([a == "entailment" and b != "entailment" for a, b in pairs])

    def direction(rows: NDArray[np.int64]) -> Floats:
        chosen = rows[one_way[rows]]
        rules = [recording.rows[name][..., chosen].mean(axis=-1) for name in ROWS[:2]]
        return np.maximum(*rules).astype(np.float64)

    def auc(rows: NDArray[np.int64]) -> Floats:
        scores = recording.rows["entails"][..., rows]
        area = [[precision_recall(s, positive[rows]).area for s in trial] for trial in scores]
        return np.array(area)

    return {"direction/accuracy": direction, "rte/auc": auc}


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Of one size: shares of equal decisions, what they lose, standard error of a difference."""

    verdicts: float
    survivors: float
    lost: float
    error: float


def replay(dev: Corpus, judge: Judge, size: int, decisions: int) -> Replay:
    """Decide by all of dev and by parts; each decision is of a part, a rung and an order anew."""
    whole = judge(np.arange(dev.table.num_rows))
    draw, same, kept, lost = np.random.default_rng(1), [], [], list[float]()
    errors: list[Floats] = []
    rule = Halving(max_examples=3, first_rung=1, eta=3)
    for seed in range(decisions):
        part = judge(stratified_rows(dev, size, seed))
        rung, order = int(draw.integers(whole.shape[1])), draw.permutation(len(whole))
        come = int(draw.integers(3, len(order) + 1))
        curves = [
            {n: {1: float(values[trial, rung])} for n, trial in enumerate(order[:come])}
            for values in (whole, part)
        ]
        said = [bool(rule.verdict(curve, come - 1, 1)) for curve in curves]
        same.append(said[0] == said[1])
        best = [set(sorted(order[:9], key=lambda t, v=v: -v[t, rung])[:3]) for v in (whole, part)]
        kept.append(best[0] == best[1])
        means = [whole[[*chosen], rung].mean() for chosen in best]
        lost.append(float(means[0] - means[1]))
        errors.append(part - whole)
    apart = [np.std([e[i] - e[j] for e in errors]) for i, j in combinations(range(len(whole)), 2)]
    return Replay(
        verdicts=fmean(same),
        survivors=fmean(kept),
        lost=fmean(lost),
        error=fmean(map(float, apart)),
    )


def cost(spec: TrialSpec, size: int) -> tuple[float, float, float]:
    """CPU seconds of an example, of a validation on all of dev, and of one on a part."""
    batch, steps = int(spec.settings["batch_size"]), 12
    at = tuple(batch * n for n in (steps - 8, steps - 4, steps))
    short = replace(spec, milestones=at, max_examples=at[-1], rung_rows=size, every_step=True)
    took: dict[bool, list[float]] = {True: [], False: []}
    began = time.process_time()
    for progress in train(short, Group.single()):
        took[progress.milestone].append(time.process_time() - began)
        began = time.process_time()
    step = fmean(took[False][1:])
    first, second, whole = took[True]
    return step / batch, whole - step, (first + second) / 2 - step


def main() -> None:
    """Records, replays, and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="builtin:tiny")
    parser.add_argument("--rungs", type=int, nargs="+", default=[3_000, 9_000])
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--objectives", nargs="+", default=["direction/accuracy", "rte/auc"])
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--rows", type=int, default=DEFAULTS.rung_rows, help="of the part timed")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(os.environ["SENTUNE_DATA"]) / "snli"
    given.out.mkdir(parents=True, exist_ok=True)
    runs = specs(data, given.encoder, given.out / "cache", given.trials, tuple(given.rungs))
    recording = record(runs, given.out / "rows.npz")
    dev = read(f"snli:{data}/snli_1.0_dev.jsonl.gz", Kind.LABELLED_PAIRS)
    trials = len(recording.rows["entails"])
    print(f"{trials} trials, rungs at {recording.rungs}, {dev.table.num_rows:,} rows of SNLI dev")
    for objective in given.objectives:
        judge = judges(dev, recording)[objective]
        values = judge(np.arange(dev.table.num_rows))
        spread = ", ".join(f"{v.min():.1%} to {v.max():.1%}" for v in values.T)
        print(f"\n{objective}: {spread}\n{'rows':>6} | verdicts | survivors |  lost | error")
        for size in SIZES:
            found = replay(dev, judge, size, given.decisions)
            shares = f"{found.verdicts:8.1%} | {found.survivors:9.1%}"
            print(f"{size:6,} | {shares} | {found.lost:.2%} | {found.error:.2%}", flush=True)
    settings = {**SPACE.published, "batch_size": 64, "pooling": "mean"}
    (first,) = specs(data, given.encoder, given.out / "cache", 1, (3_000,))
    judged = replace(first, settings=settings, dev=Held([dev]), objective=SPACE.objective)
    example, whole, part = cost(judged, given.rows)
    print(
        f"\nCPU seconds: {example:.4f} an example, {whole:.2f} a validation on all of dev, "
        f"{part:.2f} on {given.rows:,} rows"
    )
    for budget in (DEFAULTS.max_examples, 3_000):
        before, after = (v / (v + budget * example) for v in (3 * whole, whole + 2 * part))
        stopped = [v / (v + budget / 9 * example) for v in (whole, part)]
        print(
            f"a trial of {budget:,} examples validates in {before:.1%} of its time, with parts at "
            f"rungs in {after:.1%}; one that the first rung stops in {stopped[0]:.1%} and "
            f"{stopped[1]:.1%}"
        )


if __name__ == "__main__":
    main()
