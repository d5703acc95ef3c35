"""Fitting LAES: the Gram matrix of one pass against the SVD of the data matrix Xi.

SENTUNE_DATA=FOLDER python benchmarks/laes_fit.py

The whole Xi of 10,000 sentences with 300-dimensional vectors is too much for most machines, so the
SVD is timed on a part: the same share of the sentences and of the dimensions. Its cost, T D^2 and
D^3 (Golub and Van Loan, section 8.6, whatever the constants), then grows with the cube of the
share. Its memory is Xi and V, computed. The last table is about a corpus ten times longer, whose
sentences ``--max-length`` cuts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from laes_units import DATA, pairs_of, words_of
from measure import Measurement, Work, measure, measure_all, options, report
from scipy.linalg import svd
from threadpoolctl import threadpool_limits

from sentune.corpora.reduce import accumulate_here
from sentune.encoders.words import WordTable
from sentune.methods.laes import Laes, LaesSettings
from sentune.methods.laes_fit import KeptSentences

SENTENCES, UNITS, BATCH = 10_000, 150, 2_048


def batches(sentences: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(sentences, BATCH)):
        yield batch


def our_fit(folder: Path, threads: int) -> Work:
    threadpool_limits(threads)
    words, texts = words_of(folder), pairs_of("train")[0][:SENTENCES]
    model = Laes(words, LaesSettings(max_length=25))

    def work() -> None:
        model.solve(accumulate_here(batches(iter(texts)), model.statistics), UNITS)

    return work


def part_of_data(folder: Path, share: float) -> KeptSentences:
    """A share of the sentences, evenly drawn, with the same share of each vector's dimensions."""
    words, texts = words_of(folder), pairs_of("train")[0][:SENTENCES]
    width = round(share * words.vectors.shape[1])
    narrow = WordTable(words.words, np.array(words.vectors[:, :width]), words.probabilities)
    kept = KeptSentences(narrow, 1e-3, 25)
    kept.add(texts[:: round(1 / share)])
    return kept


def their_fit(folder: Path, share: float, threads: int) -> Work:
    threadpool_limits(threads)
    xi = part_of_data(folder, share).data_matrix()
    return partial(svd, xi, full_matrices=False)


def whole(part: Measurement, folder: Path, share: float) -> Measurement:
    """What the SVD of all of Xi would take: its shape, and the cube of the share."""
    rows = part_of_data(folder, 1.0).rows
    entries = len(rows.ids) * int(rows.lengths.max()) * 300
    print(f"Xi of {SENTENCES} sentences: {len(rows.ids)} x {int(rows.lengths.max()) * 300}")
    return Measurement(part.seconds / share**3, 2 * 8 * entries)


def fit_table(folder: Path, share: float, threads: int, repeats: int) -> None:
    how = {"repeats": repeats, "threads": threads}
    theirs = measure(partial(their_fit, folder, share, threads), **how)
    ours = measure(partial(our_fit, folder, threads), **how)
    rows = [
        (f"SVD of Xi, {share:g} of sentences and dimensions", theirs),
        ("SVD of Xi, extrapolated", whole(theirs, folder, share)),
        (f"sentune, {UNITS} units", ours),
    ]
    report(f"Fit of LAES on {SENTENCES} sentences of 300-dimensional words", rows, threads)


def long_corpus() -> Iterator[str]:
    """The sentences of the books, one at a time; 90,000 of random words where there are none."""
    if not DATA.is_dir():
        rng = np.random.default_rng(0)
        for _ in range(90_000):
            yield " ".join(f"w{i}" for i in rng.integers(5_000, size=20))
    for book in sorted(DATA.glob("gutenberg/*.txt")):
        with book.open(encoding="latin-1") as lines:
            yield from sentences_of(lines)


def sentences_of(lines: Iterator[str]) -> Iterator[str]:
    """What ends in a full stop or its like, or before an empty line."""
    pending = ""
    for line in lines:
        *ended, pending = f"{pending} {line.strip()}".replace("!", ".").replace("?", ".").split(".")
        yield from (sentence for sentence in ended if sentence.strip())
        if not line.strip() and pending.strip():
            yield pending
            pending = ""


def pass_over(folder: Path, count: int, longest: int, threads: int) -> Work:
    """One pass over the first sentences of the corpus."""
    threadpool_limits(threads)
    model = Laes(words_of(folder), LaesSettings(max_length=longest))

    def work() -> None:
        accumulate_here(batches(islice(long_corpus(), count)), model.statistics)

    return work


def length_table(folder: Path, longest: int, threads: int) -> None:
    total = sum(1 for _ in long_corpus())
    ways = {
        f"{count} sentences": partial(pass_over, folder, count, longest, threads)
        for count in (total // 10, total)
    }
    rows = measure_all(ways, repeats=1, threads=1)
    report(f"One pass, sentences cut to {longest} words", rows, threads)


def main() -> None:
    o = options(__doc__, share=0.2, max_length=10, repeats=1)
    with tempfile.TemporaryDirectory() as name:
        fit_table(Path(name), o.share, o.threads, o.repeats)
        length_table(Path(name), o.max_length, o.threads)


if __name__ == "__main__":
    main()
