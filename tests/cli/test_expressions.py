"""Expressions of operations, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from sentune.cli import operations
from sentune.cli.operations import evaluate, parse
from sentune.embedder.encode import Embeddings
from sentune.errors import InvalidValue


class Arithmetic:
    """Operations that can be told apart by their results: sentences are numbers."""

    def encode(self, sentences: str) -> Embeddings:
        return np.array([float(sentences)], dtype=np.float32)

    def fuse(self, a: Embeddings, b: Embeddings) -> Embeddings:
        return a * 10 + b

    def difference(self, a: Embeddings, b: Embeddings) -> Embeddings:
        return a - b

    def compress(self, a: Embeddings) -> Embeddings:
        return -a


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", 1),
        ("fuse(A, B)", 12),
        ("fuse(fuse(A, B), C)", 123),
        ("fuse(A, fuse(B, C))", 33),
        ("difference(fuse(A, B), A)", 11),
        ("compress(fuse(A, B))", -12),
    ],
)
def test_operations_are_carried_out_from_the_inside(text: str, expected: float) -> None:
    values = {"A": "1", "B": "2", "C": "3"}
    assert evaluate(parse(text, tuple(values)), values, Arithmetic()) == [expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse(A, D)", "D has no sentence"),
        ("fuse(A)", "fuse takes 2 arguments, not 1"),
        ("join(A, B)", "the operations are fuse, difference, compress"),
        ("A + B", "neither a name nor"),
        ("fuse(A, B", "give one such as"),
        ("__import__('os').system('ls')", "neither a name nor|operations are"),
        ("fuse(A, x=B)", "neither a name nor"),
    ],
)
def test_what_is_no_such_expression_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        parse(text, ("A", "B"))


def test_a_name_stands_before_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[dict[str, str]] = []
    monkeypatch.setattr(operations, "_answer", lambda *given: answered.append(given[2]))
    operations.compose("model", "A", ["A=x = y"])
    assert answered == [{"A": "x = y"}]
    with pytest.raises(InvalidValue, match="give it as"):
        operations.compose("model", "A", ["They sang."])
