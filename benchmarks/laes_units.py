"""LAES-RES at all units from one fit, against one model after the other.

SENTUNE_DATA=FOLDER python benchmarks/laes_units.py

On STS Benchmark dev with GloVe where SENTUNE_DATA names a folder that has them, else on random
words. The peer runs Algorithm 2 of the paper, batched: sentences padded to the longest with a mask,
encode, decode, mean, cosine, for 1, 2, ... units. It gets its padded vectors made beforehand, and
the models themselves for nothing.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measure import Work, measure_all, options, report
from threadpoolctl import threadpool_limits

from sentune.corpora import Kind, read
from sentune.encoders.words import WordTable
from sentune.encoders.words.open import open_words
from sentune.methods.laes import Laes, LaesSettings

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
Pairs = tuple[list[str], np.ndarray, np.ndarray]


def glove(data: Path, cache: Path) -> WordTable:
    """GloVe's 33,860 commonest words with Wikipedia's counts."""
    vectors = f"glove:{data}/words/glove.840B.300d.33860.txt.gz"
    return open_words(vectors, f"{data}/words/enwiki_vocab_min200.txt", cache)


def words_of(cache: Path) -> WordTable:
    """GloVe with the words' frequencies, or 5,000 random words."""
    if DATA.is_dir():
        return glove(DATA, cache)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5_000, 300)).astype(np.float32)
    shares = 1 / np.arange(1, 5_001)
    return WordTable(tuple(f"w{i}" for i in range(5_000)), vectors, shares / shares.sum())


def pairs_of(split: str) -> Pairs:
    """Distinct sentences, and the rows of both sides of each pair."""
    if DATA.is_dir():
        rows = read(f"stsb:{DATA}/stsbenchmark/sts-{split}.csv", Kind.SCORED_PAIRS).table
        both = rows.column("sentence1").to_pylist() + rows.column("sentence2").to_pylist()
    else:
        count = 3_000 if split == "dev" else 11_000
        rng = np.random.default_rng(count)
        lengths = rng.integers(4, 24, size=count)
        both = [" ".join(f"w{i}" for i in rng.zipf(1.3, size=n) % 5_000) for n in lengths]
    sentences, places = np.unique(both, return_inverse=True)
    first, second = places.reshape(2, -1)
    return sentences.tolist(), first, second


def fitted(words: WordTable, largest: int) -> Laes:
    model = Laes(words, LaesSettings(max_length=25))
    statistics = model.statistics()
    statistics.add(pairs_of("train")[0])
    model.solve(statistics, largest)
    return model


def padded(model: Laes, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """[S, l, n] weighted vectors and [S] lengths."""
    rows = model.words.ids(sentences, model.settings.max_length)
    x = np.zeros((len(rows), rows.lengths.max(), model.words.vectors.shape[1]))
    weights = model.settings.a / (model.settings.a + model.words.probabilities)
    for number, (start, end) in enumerate(zip(rows.offsets, rows.offsets[1:], strict=False)):
        ids = rows.ids[start:end]
        x[number, : len(ids)] = weights[ids, None] * model.words.vectors[ids]
    return x, rows.lengths


def residuals(x: np.ndarray, lengths: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """[S, n] e_res of one model (Algorithm 2), all sentences at once."""
    h = np.zeros((len(x), len(A)))
    decoded = np.zeros((len(x), x.shape[2]))
    for t in range(x.shape[1]):
        h = np.where((t < lengths)[:, None], x[:, t] @ A.T + h @ B.T, h)
    for t in range(x.shape[1]):
        decoded += (t < lengths)[:, None] * (h @ A)
        h = h @ B
    return (x.sum(axis=1) - decoded) / np.maximum(lengths, 1)[:, None]


def one_after_the_other(model: Laes, pairs: Pairs, largest: int) -> Work:
    sentences, first, second = pairs
    x, lengths = padded(model, sentences)
    A, B = (model.state()[f"forward.{name}"] for name in ("A", "B"))

    def work() -> np.ndarray:
        found = []
        for p in range(1, largest + 1):
            e = residuals(x, lengths, A[:p], B[:p, :p])
            e /= np.maximum(np.linalg.norm(e, axis=1, keepdims=True), 1e-300)
            found.append(np.einsum("nd,nd->n", e[first], e[second]))
        return np.array(found)

    return work


def all_at_once(model: Laes, pairs: Pairs, largest: int) -> Work:
    return partial(model.similarities, *pairs, range(1, largest + 1))


WAYS = {"one model after the other": one_after_the_other, "sentune": all_at_once}


def make(way: str, folder: Path, largest: int, threads: int) -> Work:
    """What is timed, in a process of its own that takes back the fit."""
    threadpool_limits(threads)
    model = Laes(words_of(folder), LaesSettings(max_length=25))
    model.load_state(dict(np.load(folder / "fit.npz")))
    return WAYS[way](model, pairs_of("dev"), largest)


def check(folder: Path, threads: int) -> float:
    """Largest difference between the ways' cosines for up to 40 units."""
    ours, peer = (make(way, folder, 40, threads)() for way in ("sentune", *list(WAYS)[:1]))
    return float(np.abs(np.asarray(ours) - np.asarray(peer)).max())


def main() -> None:
    o = options(__doc__, units=150, repeats=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "fit.npz", **fitted(words_of(folder), o.units).state())
        print(f"largest difference of a cosine, 1 to 40 units: {check(folder, o.threads):.1e}")
        ways = {way: partial(make, way, folder, o.units, o.threads) for way in WAYS}
        rows = measure_all(ways, repeats=o.repeats, threads=o.threads)
    where = "STS Benchmark dev, GloVe" if DATA.is_dir() else "random words"
    report(f"LAES-RES, 1 to {o.units} units, similarities of {where}", rows, o.threads)


if __name__ == "__main__":
    main()
