"""Operations on embeddings compose and are decoded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sentune.embedder.embedder import Embedder
from sentune.embedder.operations import compress, decode, difference, fuse
from sentune.encoders import load_tokenizer
from sentune.errors import InvalidValue
from sentune.methods import Simcse, SimcseSettings
from tests.methods.intersent_scenes import build, folder

A, B, C = "the dog slept in the garden", "the cat chased the ball", "the boy ran in the park"


@pytest.fixture(scope="module")
def model() -> Embedder:
    tokenizer = load_tokenizer(f"{folder()}/encoder")
    settings = {"max_length": 12}
    return Embedder(build()[0], tokenizer, settings=settings, readouts={}, device="cpu")


def test_sentences_and_their_embeddings_give_the_same(model):
    a, b = model.encode([A, B])
    for operation in (fuse, difference):
        single = operation(model, A, B)
        assert single.shape == (16,)
        assert single.dtype == np.float32
        np.testing.assert_allclose(operation(model, a, b), single, rtol=1e-5, atol=1e-6)
        assert not np.allclose(operation(model, B, A), single), "the order counts"
    np.testing.assert_allclose(compress(model, a), compress(model, A), rtol=1e-5, atol=1e-6)


def test_operations_are_the_methods(model):
    rows = model.embed([A, B])
    operators = model.method.operators
    with torch.no_grad():
        expected = operators.compress(operators.fuse(rows[:1], rows[1:]))
        taken = operators.subtract(rows[:1], rows[1:])
    found = compress(model, fuse(model, A, B))
    np.testing.assert_allclose(found, expected[0].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(difference(model, A, B), taken[0], rtol=1e-5, atol=1e-6)


def test_lists_are_paired_or_meet_one(model):
    found = fuse(model, [A, B, C], [B, C, A])
    assert found.shape == (3, 16)
    np.testing.assert_allclose(found[1], fuse(model, B, C), rtol=1e-4, atol=1e-5)
    one = fuse(model, [A, B, C], C)
    np.testing.assert_allclose(one[0], fuse(model, A, C), rtol=1e-4, atol=1e-5)
    assert fuse(model, [], C).shape == (0, 16)
    with pytest.raises(InvalidValue, match="3 and 2"):
        fuse(model, [A, B, C], [A, B])


def test_embeddings_are_decoded_greedily_and_by_beams(model):
    rows = fuse(model, [A, B, C], C)
    texts = decode(model, rows)
    ids = model.method.decode(torch.from_numpy(rows), 1, 12)
    assert texts == model.method.decoder.texts(ids)
    assert decode(model, rows, batch_size=2) == texts
    assert decode(model, rows[0]) == texts[0]
    assert len(decode(model, rows, beams=3, max_length=5)) == 3
    assert decode(model, rows[:0]) == []
    short = model.method.decode(torch.from_numpy(rows), 1, 4)
    assert max(map(len, short)) <= 3


def test_what_cannot_be_is_refused(model):
    with pytest.raises(InvalidValue, match="16 numbers"):
        decode(model, np.zeros((2, 5), np.float32))
    with pytest.raises(InvalidValue, match="beams"):
        decode(model, fuse(model, A, B), beams=0)
    simcse = Simcse(model.method.encoder, SimcseSettings())
    other = Embedder(simcse, model.tokenizer, settings={}, readouts={}, device="cpu")
    for call in (lambda: fuse(other, A, B), lambda: decode(other, np.zeros(16, np.float32))):
        with pytest.raises(InvalidValue, match="simcse"):
            call()
