"""LAES's embeddings and similarities against one sentence and one model at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentune.errors import InvalidValue
from sentune.methods import laes, laes_fit
from sentune.methods.laes import Laes, LaesSettings
from tests.methods.laes_scenes import Model, cosine, embedding, sentences, table, vectors
from tests.rounding import rounding

FORMS = ("hid", "reco", "res", "bres-sum", "bres-cat")
WORDS = table()
TRAIN = sentences([5, 3, 7, 1, 6, 4, 7, 2, 5, 6, 3, 7, 4, 6, 5, 7], seed=1)
TEXTS = sentences([4, 0, 9, 1, 3, 7, 1, 6, 2, 5, 0, 8], seed=2)
LARGEST = 12


def fitted(form: str, longest: int | None = None) -> Laes:
    model = Laes(WORDS, LaesSettings(form=form, max_length=longest))
    statistics = model.statistics()
    statistics.add(TRAIN)
    model.solve(statistics, LARGEST)
    return model


ROWS = sum(len(text.split()) for text in TRAIN)
"""Of the data matrix, at most: a decomposition errs by as many eps of the largest eigenvalue."""
MODELS = {form: fitted(form) for form in FORMS}


def slow(form: str, p: int, texts: list[str], longest: int | None = None) -> np.ndarray:
    model = fitted(form, longest) if longest else MODELS[form]
    parts: list[Model] = [(units.A[:p], units.B[:p, :p]) for units in model._units]
    pair = (parts[0], parts[1] if len(parts) == 2 else None)
    return np.array([embedding(form, *pair, vectors(WORDS, text, longest)) for text in texts])


def all_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.meshgrid(np.arange(count), np.arange(count))
    return first.ravel(), second.ravel()


def slow_cosines(embedded: np.ndarray) -> np.ndarray:
    first, second = all_pairs(len(embedded))
    return np.array([cosine(embedded[i], embedded[j]) for i, j in zip(first, second, strict=True)])


@pytest.mark.parametrize("form", FORMS[1:])
def test_the_encoder_s_own_states_are_decoded(form: str) -> None:
    model = Laes(WORDS, LaesSettings(form=form, decoding="states"))
    model.load_state(MODELS[form].state())
    for p in (3, 12):
        parts = [(units.A[:p], units.B[:p, :p]) for units in MODELS[form]._units]
        pair = (parts[0], parts[1] if len(parts) == 2 else None)
        expected = [embedding(form, *pair, vectors(WORDS, t), "states") for t in TEXTS]
        np.testing.assert_allclose(model.embed(TEXTS, p), expected, rtol=1e-5, atol=1e-6)
        assert np.abs(np.array(expected) - slow(form, p, TEXTS)).max() > 0.1


def test_a_sentence_whose_gram_matrix_takes_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = " ".join(["w1", "w2"] * 40)
    monkeypatch.setattr(laes_fit, "_LARGEST", 4 * 5**2 * 80 * 81 - 1)
    with pytest.raises(InvalidValue, match=r"words of a sentence: 80 .*max_length=25"):
        Laes(WORDS, LaesSettings()).statistics().add([text])
    Laes(WORDS, LaesSettings(max_length=79)).statistics().add([text])


@pytest.mark.parametrize("budget", [1 << 27, 600])
@pytest.mark.parametrize("form", FORMS)
def test_every_size_equals_the_slow_loop(
    form: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laes, "_BUDGET", budget)
    values = [7, 1, 2, 12, 5]
    found = MODELS[form].similarities(TEXTS, *all_pairs(len(TEXTS)), values)
    for row, p in zip(found, values, strict=True):
        expected = slow(form, p, TEXTS)
        np.testing.assert_allclose(row, slow_cosines(expected), atol=1e-9)
        embedded = MODELS[form].embed(TEXTS, p)
        assert embedded.dtype == np.float32
        np.testing.assert_allclose(embedded, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slow_cosines(embedded.astype(float)), row, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=9), st.integers(1, LARGEST))
def test_sentences_of_any_length(form: str, lengths: list[int], p: int) -> None:
    texts = sentences(lengths, seed=sum(lengths))
    (found,) = MODELS[form].similarities(texts, *all_pairs(len(texts)), [p])
    np.testing.assert_allclose(found, slow_cosines(slow(form, p, texts)), atol=1e-9)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_both_ways_to_sum_what_is_decoded_agree(lengths: list[int], p: int) -> None:
    rng, words = np.random.default_rng(p), np.sort(np.array(lengths))[::-1]
    h, B = rng.normal(size=(len(words), p)), rng.normal(size=(p, p)) / p
    active = [int((words > t).sum()) for t in range(words.max())]
    by_length = laes._by_length(h, B, words)

    def summed(h: np.ndarray, B: np.ndarray) -> np.ndarray:
        powers = [np.linalg.matrix_power(B.T, i) for i in range(10)]
        rows = zip(h, words, strict=True)
        return np.array(
            [sum((power @ row for power in powers[:n]), np.zeros(p)) for row, n in rows]
        )

    error = rounding(9 * p, summed(abs(h), abs(B)).max())
    by_word = laes._by_word(h, B, active)
    np.testing.assert_allclose(by_word, by_length, rtol=0, atol=error)
    np.testing.assert_allclose(by_length, summed(h, B), rtol=0, atol=error)


@pytest.mark.parametrize("form", FORMS)
def test_a_sentence_without_words_is_zero_and_resembles_nothing(form: str) -> None:
    model = MODELS[form]
    embedded = model.embed(["", "unknown", "w1 w2"], 4)
    assert not embedded[:2].any()
    assert embedded[2].any()
    found = model.similarities(["", "w1 w2"], np.array([0, 0, 1]), np.array([0, 1, 1]), [1, 4])
    np.testing.assert_allclose(found, [[0, 0, 1], [0, 0, 1]], rtol=0, atol=rounding(24))
    assert model.embed([], 4).shape == (0, embedded.shape[1])


def test_long_sentences_are_cut_alike_in_fit_and_use() -> None:
    cut = [" ".join(text.split()[:3]) for text in sentences([7, 5, 2], seed=3)]
    long = [text + " w5 w6 w7" if len(text.split()) == 3 else text for text in cut]
    model = fitted("res", longest=3)
    np.testing.assert_array_equal(model.embed(long, 5), model.embed(cut, 5))
    np.testing.assert_allclose(model.embed(TEXTS, 5), slow("res", 5, TEXTS, 3), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_state_comes_back(form: str) -> None:
    fresh = Laes(WORDS, LaesSettings(form=form, max_length=None))
    fresh.load_state(MODELS[form].state())
    np.testing.assert_array_equal(fresh.embed(TEXTS, 9), MODELS[form].embed(TEXTS, 9))
    assert fresh.residual == MODELS[form].residual < rounding(ROWS)


def test_a_state_of_another_model_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"backward\.A is missing"):
        Laes(WORDS, LaesSettings(form="bres-sum")).load_state(MODELS["res"].state())
    with pytest.raises(InvalidValue, match="the word vectors have 3 dimensions"):
        Laes(table(width=3), LaesSettings()).load_state(MODELS["res"].state())


@pytest.mark.parametrize("value", [0, 13])
def test_units_that_the_fit_does_not_hold_are_named(value: int) -> None:
    with pytest.raises(InvalidValue, match=rf"n_h: {value} cannot be used; the fit has 1 to 12"):
        MODELS["res"].embed(TEXTS, value)
    with pytest.raises(InvalidValue, match="fit the method first"):
        Laes(WORDS, LaesSettings()).embed(TEXTS, 1)


def test_grids_are_the_papers() -> None:
    assert MODELS["res"].grid() == MODELS["bres-cat"].grid() == tuple(range(1, 151))
    assert MODELS["hid"].grid() == MODELS["reco"].grid() == (150, 300, 600, 1200, 2400)
    assert Laes.axis.checked(MODELS["hid"].grid())
