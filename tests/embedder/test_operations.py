"""Operations on embeddings compose and are decoded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentune.embedder.embedder import Embedder
from sentune.encoders import load_tokenizer
from sentune.errors import InvalidValue
from sentune.methods.simcse import Simcse, SimcseSettings
from tests.methods.intersent_scenes import build, folder

A, B, C = "the dog slept in the garden", "the cat chased the ball", "the boy ran in the park"


@pytest.fixture(scope="module")
def model() -> Embedder:
    tokenizer = load_tokenizer(f"{folder()}/encoder")
    settings = {"max_length": 12}
    return Embedder(build()[0], tokenizer, settings=settings, readouts={}, device="cpu")


def test_sentences_and_their_embeddings_give_the_same(model):
    a, b = model.encode([A, B])
    for operation in (model.fuse, model.difference):
        single = operation(A, B)
        assert single.shape == (16,)
        assert single.dtype == np.float32
        np.testing.assert_allclose(operation(a, b), single, rtol=1e-5, atol=1e-6)
        assert not np.allclose(operation(B, A), single), "the order counts"
    np.testing.assert_allclose(model.compress(a), model.compress(A), rtol=1e-5, atol=1e-6)


def test_operations_are_the_methods(model):
    rows = model.embed([A, B])
    operators = model.method.operators
    with torch.no_grad():
        expected = operators.compress(operators.fuse(rows[:1], rows[1:]))
        taken = operators.subtract(rows[:1], rows[1:])
    found = model.compress(model.fuse(A, B))
    np.testing.assert_allclose(found, expected[0].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.difference(A, B), taken[0], rtol=1e-5, atol=1e-6)


def test_lists_are_paired_or_meet_one(model):
    found = model.fuse([A, B, C], [B, C, A])
    assert found.shape == (3, 16)
    np.testing.assert_allclose(found[1], model.fuse(B, C), rtol=1e-4, atol=1e-5)
    one = model.fuse([A, B, C], C)
    np.testing.assert_allclose(one[0], model.fuse(A, C), rtol=1e-4, atol=1e-5)
    assert model.fuse([], C).shape == (0, 16)
    with pytest.raises(InvalidValue, match="3 and 2"):
        model.fuse([A, B, C], [A, B])


def test_embeddings_are_decoded_greedily_and_by_beams(model):
    rows = model.fuse([A, B, C], C)
    texts = model.decode(rows)
    ids = model.method.decode(torch.from_numpy(rows), 1, 12)
    assert texts == model.method.decoder.tokenizer.texts(ids)
    assert model.decode(rows, batch_size=2) == texts
    assert model.decode(rows[0]) == texts[0]
    assert len(model.decode(rows, beams=3, max_length=5)) == 3
    assert model.decode(rows[:0]) == []
    short = model.method.decode(torch.from_numpy(rows), 1, 4)
    assert max(map(len, short)) <= 3


@pytest.mark.parametrize("length", [-2, 0, 1])
def test_a_decoded_sentence_has_room_for_a_token_behind_its_start(model, length):
    with pytest.raises(InvalidValue, match=r"max_length: .* at least 2"):
        model.decode(model.fuse(A, B), max_length=length)
    assert isinstance(model.decode(model.fuse(A, B), max_length=2), str)


def test_what_cannot_be_is_refused(model):
    with pytest.raises(InvalidValue, match="16 numbers"):
        model.decode(np.zeros((2, 5), np.float32))
    rows = model.fuse([A, B, C], C)
    rows[1:, 3] = np.nan, np.inf
    with pytest.raises(InvalidValue, match=r"embeddings: 'row 1' .*2 of 3 are not finite"):
        model.decode(rows)
    with pytest.raises(InvalidValue, match="beams"):
        model.decode(model.fuse(A, B), beams=0)
    simcse = Simcse(model.method.encoder, SimcseSettings())
    other = Embedder(simcse, model.tokenizer, settings={}, readouts={}, device="cpu")
    for call in (lambda: other.fuse(A, B), lambda: other.decode(np.zeros(16, np.float32))):
        with pytest.raises(InvalidValue, match="simcse"):
            call()
