"""SIF with all numbers of removed components against one number, from sentences to Pearson's r.

SENTUNE_DATA=FOLDER python benchmarks/sif_components.py takes STS Benchmark and the word vectors in
that folder; without it, random words and sentences of the same size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from laes_units import glove
from measure import DATA, Work, measure_all, options, report, time_ratio
from numpy.typing import NDArray

from sentune.corpora import Kind, read
from sentune.encoders.words import WordTable
from sentune.methods.sif import Sif, SifSettings, Variant

ALL = range(1, 151)
ONE = range(20, 21)


@dataclass(frozen=True)
class Pairs:
    """Scored pairs; the sentences of the first side, then those of the second."""

    sentences: list[str]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Word vectors, sentences to fit on and pairs to evaluate."""

    words: WordTable
    train: list[str]
    dev: Pairs


def real(folder: Path, cache: Path) -> Data:
    """STS Benchmark with GloVe."""
    parts = []
    for name in ("train", "dev"):
        corpus = read(f"stsb:{folder}/stsbenchmark/sts-{name}.csv", Kind.SCORED_PAIRS)
        columns = corpus.table.to_pydict()
        sentences = columns["sentence1"] + columns["sentence2"]
        parts.append(Pairs(sentences, np.array(columns["score"])))
    return Data(glove(folder, cache), parts[0].sentences, parts[1])


def random(words: int = 33_860, pairs: int = 1_500, train: int = 11_498) -> Data:
    """Words as frequent as Zipf's law has it, in sentences of 11 words on average."""
    rng = np.random.default_rng(0)
    p = 1 / np.arange(1, words + 1)
    p /= p.sum()
    names = np.array([f"w{i}" for i in range(words)])
    vectors = rng.normal(size=(words, 300)).astype(np.float32)
    table = WordTable(tuple(names.tolist()), vectors, p, listed=p)

    def sentences(count: int) -> list[str]:
        lengths = rng.integers(4, 19, count)
        return [" ".join(names[rng.choice(words, size, p=p)]) for size in lengths]

    return Data(table, sentences(train), Pairs(sentences(2 * pairs), rng.uniform(0, 5, pairs)))


def load(cache: Path) -> Data:
    return real(Path(DATA), cache) if DATA else random()


def work(cache: Path, variant: Variant, values: Sequence[int]) -> Work:
    """Fits, which is not timed, and gives the evaluation at some numbers of components."""
    data = load(cache)
    method = Sif(data.words, SifSettings(variant=variant))
    statistics = method.statistics()
    statistics.add(data.train)
    method.solve(statistics, ALL[-1])
    side = np.arange(len(data.dev.scores))
    scores = data.dev.scores - data.dev.scores.mean()
    scores /= np.linalg.norm(scores)

    def evaluate() -> NDArray[np.float64]:
        found = method.similarities(data.dev.sentences, side, side + len(side), values)
        found -= found.mean(axis=1, keepdims=True)
        correlations: NDArray[np.float64] = found @ scores / np.linalg.norm(found, axis=1)
        return correlations

    return evaluate


def main() -> None:
    o = options(__doc__, variants=["sif", "usif"], repeats=9)
    os.environ["OPENBLAS_NUM_THREADS"] = str(o.threads)  # for the processes that measure
    source = "STS Benchmark dev" if DATA else "random sentences"
    with TemporaryDirectory() as folder:
        cache = Path(folder)
        load(cache)
        for variant in o.variants:
            ways = {"1 number of components": ONE, "all from 1 to 150": ALL}
            works = {name: partial(work, cache, variant, way) for name, way in ways.items()}
            rows = measure_all(works, repeats=o.repeats, threads=o.threads)
            report(f"{variant}: sentences to Pearson's r, {source}, 1500 pairs", rows, o.threads)
            one, every = (make() for make in works.values())
            ratio = time_ratio(every, one, o.repeats)
            print(
                f"Called in turns, all take {ratio:.2f} times as long as one (150 trials: 150).\n"
            )


if __name__ == "__main__":
    main()
