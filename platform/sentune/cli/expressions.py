"""Operations on sentences written as an expression: ``difference(fuse(A, B), A)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Protocol

from sentune.embedder.encode import Embeddings
from sentune.errors import InvalidValue

ARITY = {"fuse": 2, "difference": 2, "compress": 1}


class Operates(Protocol):
    """A model with sentence operations, on single sentences or embeddings [D]."""

    def encode(self, sentences: str) -> Embeddings: ...

    def fuse(self, a: Embeddings, b: Embeddings) -> Embeddings: ...

    def difference(self, a: Embeddings, b: Embeddings) -> Embeddings: ...

    def compress(self, a: Embeddings) -> Embeddings: ...


def parse(text: str, names: tuple[str, ...]) -> ast.expr:
    """The expression as a tree of calls and names.

    Raises:
        InvalidValue: it is no such expression, or uses a name that stands for nothing.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        fix = f"write it as fuse(A, B) or compress(fuse(A, B)): {error.msg}"
        raise InvalidValue("EXPRESSION", text, fix) from None
    _check(tree, text, names)
    return tree


def _check(node: ast.expr, text: str, names: tuple[str, ...]) -> None:
    if isinstance(node, ast.Name):
        if node.id not in names:
            fix = f"{node.id} stands for no sentence; add {node.id}='...'"
            raise InvalidValue("EXPRESSION", text, fix)
        return
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords):
        fix = f"{ast.unparse(node)} is neither a name nor one of {', '.join(ARITY)}"
        raise InvalidValue("EXPRESSION", text, fix)
    wanted = ARITY.get(node.func.id)
    if wanted is None:
        raise InvalidValue("EXPRESSION", text, f"the operations are {', '.join(ARITY)}")
    if len(node.args) != wanted:
        fix = f"{node.func.id} takes {wanted}, not {len(node.args)}"
        raise InvalidValue("EXPRESSION", text, fix)
    for argument in node.args:
        _check(argument, text, names)


def evaluate(node: ast.expr, values: Mapping[str, str], model: Operates) -> Embeddings:
    """[D]: the embedding that a parsed expression stands for."""
    if isinstance(node, ast.Name):
        return model.encode(values[node.id])
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    parts = [evaluate(argument, values, model) for argument in node.args]
    carried_out: Embeddings = getattr(model, node.func.id)(*parts)
    return carried_out
