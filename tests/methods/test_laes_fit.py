"""What LAES fits: the Gram matrix without the data matrix, and the autoencoder that it gives."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from sentune.errors import InvalidValue, TrialFailed
from sentune.methods import laes_fit
from sentune.methods.laes import Laes, LaesSettings
from sentune.methods.laes_fit import Gram, GramStatistics, of_gram
from tests.methods.laes_scenes import (
    autoencoder,
    data_matrix,
    decoded,
    sentences,
    table,
    vectors,
)
from tests.methods.reducing import all_reduce
from tests.rounding import rounding

WORDS = table()
LENGTHS = (3, 0, 7, 1, 5, 5, 2, 6, 1, 4, 7, 3, 2, 6, 5, 4)
TEXTS = sentences(LENGTHS)
FORWARD = [vectors(WORDS, text) for text in TEXTS]
BACKWARD = [x[::-1] for x in FORWARD]


def statistics(*parts: list[str], both: bool = True) -> GramStatistics:
    found = GramStatistics(WORDS, 1e-3, None, both=both)
    for part in parts:
        found.add(part)
    return found


def whole(gram: Gram) -> np.ndarray:
    lower = np.tril(gram.lower())
    return lower + np.tril(lower, -1).T


def fitted(largest: int, **settings: object) -> Laes:
    model = Laes(WORDS, LaesSettings(**settings))
    added = model.statistics()
    added.add(TEXTS)
    model.solve(added, largest)
    return model


def joint_signs(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same autoencoder with the largest entry of each row of A positive."""
    signs = np.sign(A[np.arange(len(A)), np.abs(A).argmax(axis=1)])
    return signs[:, None] * A, signs[:, None] * B * signs


@pytest.mark.parametrize("chunk", [1024, 3])
def test_the_gram_matrix_is_the_data_matrix_squared(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laes_fit, "_CHUNK", chunk)
    for gram, sequences in zip(statistics(TEXTS).grams, (FORWARD, BACKWARD), strict=True):
        gram.sum_diagonals()
        xi = data_matrix(sequences)
        size = abs(xi).T @ abs(xi)
        error = rounding(len(xi), size.max())
        np.testing.assert_allclose(whole(gram), xi.T @ xi, rtol=0, atol=error)
        for shape in ((gram.size,), (gram.size, 3)):
            x = np.random.default_rng(0).normal(size=shape)
            error = rounding(len(xi) + gram.size, (size @ abs(x)).max())
            np.testing.assert_allclose(gram @ x, xi.T @ (xi @ x), rtol=0, atol=error)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(0, 12))
def test_workers_add_up_to_one_pass(lengths: list[int], cut: int) -> None:
    texts = sentences(lengths)
    once, first, second = statistics(texts), statistics(texts[cut:]), statistics(texts[:cut])
    all_reduce([first, second])
    grams = zip(once.grams + once.grams, first.grams + second.grams, strict=True)
    for one, other in grams:
        # no entry's terms add up to more than the largest sum of squares, which is on the diagonal
        size = max((abs(panel).max() for panel in one.panels), default=0.0)
        assert one.size == other.size == WORDS.vectors.shape[1] * max(lengths)
        for mine, theirs in zip(one.panels, other.panels, strict=True):
            error = rounding(sum(lengths), size)
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=error)


@pytest.mark.parametrize("solver", ["auto", "exact"])
def test_a_device_decomposes_as_lapack_does(solver: str) -> None:
    """``cpu:0`` is torch's way, as on a GPU; ``cpu`` is LAPACK's."""
    here, there = (of_gram(statistics(TEXTS).grams[0], 5, solver, at) for at in ("cpu", "cpu:0"))
    error = rounding(len(here.U), here.eigenvalues[0])
    np.testing.assert_allclose(there.eigenvalues, here.eigenvalues, rtol=0, atol=error)
    np.testing.assert_allclose(there.U, here.U, rtol=0, atol=1e-9)


def test_statistics_take_nothing_more_once_they_are_solved() -> None:
    solved = statistics(TEXTS)
    of_gram(solved.grams[0], 3)
    again = of_gram(solved.grams[0], 5)
    assert len(again.eigenvalues) == 5
    for late in (lambda: solved.add(TEXTS), lambda: all_reduce([solved])):
        with pytest.raises(InvalidValue, match="solved"):
            late()


def peak_of_adding(batches: int) -> int:
    tracemalloc.start()
    added = statistics(both=False)
    for seed in range(batches):
        added.add(sentences([10] * 50, seed=seed))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_ten_times_the_corpus_takes_the_same_memory() -> None:
    peak_of_adding(1)
    assert peak_of_adding(40) < 1.1 * peak_of_adding(4)


@pytest.mark.parametrize("solver", ["exact", "lanczos", "svd"])
@pytest.mark.parametrize("p", [1, 4, 12])
def test_the_autoencoder_is_that_of_the_full_svd(solver: str, p: int) -> None:
    model = fitted(p, solver=solver, form="bres-cat", max_length=None)
    assert model.residual < rounding(sum(LENGTHS))
    for units, sequences in zip(model._units, (FORWARD, BACKWARD), strict=True):
        expected = joint_signs(*autoencoder(sequences, p))
        for ours, theirs in zip(joint_signs(units.A, units.B), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_fewer_units_are_the_leading_blocks_of_more() -> None:
    small, large = fitted(5)._units[0], fitted(14)._units[0]
    np.testing.assert_allclose(small.A, large.A[:5], atol=1e-9)
    np.testing.assert_allclose(small.B, large.B[:5, :5], atol=1e-9)


@pytest.mark.parametrize(("solver", "power"), [("exact", 2), ("svd", 1)])
def test_with_the_rank_as_units_every_sentence_is_decoded(solver: str, power: int) -> None:
    """To the condition number of the data, which a Gram matrix squares."""
    rank = int(np.linalg.matrix_rank(data_matrix(FORWARD)))
    sigma = np.linalg.svd(data_matrix(FORWARD), compute_uv=False)[:rank]
    error = rounding(sum(LENGTHS), (sigma[0] / sigma[-1]) ** power)
    units = fitted(rank, solver=solver)._units[0]
    for x in FORWARD:
        off = np.linalg.norm(decoded((units.A, units.B), x) - x)
        assert off <= error * np.linalg.norm(x)


@pytest.mark.parametrize("solver", ["exact", "lanczos", "svd"])
def test_more_units_than_the_rank_are_refused_with_the_rank(solver: str) -> None:
    model = Laes(WORDS, LaesSettings(solver=solver))
    added = model.statistics()
    added.add(["w1 w2", "w3"])  # rank 3 of 10: x_1, x_2 x_1 and x_3
    with pytest.raises(
        TrialFailed, match="n_h: 4 units were requested, but the sentences span only 3"
    ):
        model.solve(added, 4)
    empty = model.statistics()
    empty.add(["", "unknown"])
    with pytest.raises(TrialFailed, match="span only 0"):
        model.solve(empty, 1)


def test_lanczos_gives_the_same_bits_twice() -> None:
    one, two = (fitted(6, solver="lanczos").state() for _ in range(2))
    for key, array in one.items():
        np.testing.assert_array_equal(array, two[key])


def test_a_rough_decomposition_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exact = scipy.linalg.eigh

    def rough(matrix: np.ndarray, **options: object) -> tuple[np.ndarray, np.ndarray]:
        values, U = exact(matrix, **options)
        return values, U + 1e-3

    monkeypatch.setattr(scipy.linalg, "eigh", rough)
    with caplog.at_level(logging.WARNING):
        found = of_gram(statistics(TEXTS).grams[0], 4)
    assert found.residual > 1e-5
    assert "set solver to exact" in caplog.text


def test_auto_takes_lanczos_for_few_units_of_a_large_matrix() -> None:
    faster = laes_fit._lanczos_is_faster
    assert faster(7_500, 150)
    assert not faster(7_500, 2_400)
    assert not faster(1_500, 10)


def test_a_data_matrix_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laes_fit, "_WIDEST", 1000)
    with pytest.raises(InvalidValue, match=r"solver: 'svd'.*GiB; use auto"):
        fitted(2, solver="svd")
