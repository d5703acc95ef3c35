"""``sentune fuse``, ``difference``, ``compress``, ``reconstruct`` and ``compose``: operations on
embeddings, decoded."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sentune.cli.options import Device, Model
from sentune.errors import InvalidValue
from sentune.terminal import say

if TYPE_CHECKING:
    from sentune.embedder.encode import Embeddings
    from sentune.embedder.operations import Operations

ARITY = {"fuse": 2, "difference": 2, "compress": 1}

Beams = Annotated[int, Option(min=1, help="Beams of the search; 1 is greedy.")]
Length = Annotated[
    int | None,
    Option(min=2, help="Most tokens of the answer, its start included; default: the model's."),
]
Text = Annotated[str, Argument(help="A sentence.")]


def fuse(
    model: Model,
    sentences: Annotated[list[str], Argument(help="Two sentences, or more.")],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Fuse sentences: the first two, then the result with the third, and so on."""
    if len(sentences) < 2:
        raise InvalidValue("SENTENCES", " ".join(sentences), "give two sentences, or more")
    values = {f"S{number}": sentence for number, sentence in enumerate(sentences, 1)}
    expression = reduce(lambda fused, name: f"fuse({fused}, {name})", values)
    _answer(model, expression, values, beams, max_length, device)


def difference(
    model: Model,
    whole: Annotated[str, Argument(help="A sentence that contains the other.")],
    part: Annotated[str, Argument(help="What is taken away.")],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Say what the first sentence says and the second one does not."""
    _answer(model, "difference(A, B)", {"A": whole, "B": part}, beams, max_length, device)


def compress(
    model: Model, sentence: Text, beams: Beams = 1, max_length: Length = None, device: Device = None
) -> None:
    """Shorten a sentence."""
    _answer(model, "compress(A)", {"A": sentence}, beams, max_length, device)


def reconstruct(
    model: Model, sentence: Text, beams: Beams = 1, max_length: Length = None, device: Device = None
) -> None:
    """Say what is left of a sentence in its embedding."""
    _answer(model, "A", {"A": sentence}, beams, max_length, device)


def compose(
    model: Model,
    expression: Annotated[
        str,
        Argument(
            help="fuse(x, y), difference(x, y) and compress(x) of names and of each other: "
            "'difference(fuse(A, B), A)'."
        ),
    ],
    sentences: Annotated[
        list[str], Argument(metavar="NAME=SENTENCE...", help="What the names stand for.")
    ],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Carry out several operations one after the other, in the space of embeddings."""
    values: dict[str, str] = {}
    for item in sentences:
        name, equals, sentence = item.partition("=")
        if not (equals and name.isidentifier() and sentence.strip()):
            raise InvalidValue("NAME=SENTENCE", item, "write it as A='They sang.'")
        values[name] = sentence
    _answer(model, expression, values, beams, max_length, device)


def _answer(
    model: str,
    expression: str,
    values: Mapping[str, str],
    beams: int,
    max_length: int | None,
    device: str | None,
) -> None:
    """Print the sentence that a model decodes from the embedding of an expression."""
    from sentune.embedder.embedder import Embedder

    tree = parse(expression, tuple(values))
    embedder = Embedder.load(model, device)
    embedding = evaluate(tree, values, embedder)
    say(embedder.decode(embedding, beams=beams, max_length=max_length))


def parse(text: str, names: tuple[str, ...]) -> ast.expr:
    """Return an expression such as ``difference(fuse(A, B), A)`` as a tree of calls and names.

    Raises:
        InvalidValue: it is no such expression, or uses a name that stands for nothing.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        fix = f"write it as fuse(A, B) or compress(fuse(A, B)): {error.msg}"
        raise InvalidValue("EXPRESSION", text, fix) from None
    if fix := _problem(tree, names):
        raise InvalidValue("EXPRESSION", text, fix)
    return tree


def _problem(node: ast.expr, names: tuple[str, ...]) -> str:
    """Return what is wrong with an expression, empty if nothing is."""
    if isinstance(node, ast.Name):
        return "" if node.id in names else f"{node.id} stands for no sentence; add {node.id}='...'"
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or node.keywords:
        return f"{ast.unparse(node)} is neither a name nor one of {', '.join(ARITY)}"
    wanted = ARITY.get(node.func.id)
    if wanted is None:
        return f"the operations are {', '.join(ARITY)}"
    if len(node.args) != wanted:
        return f"{node.func.id} takes {wanted}, not {len(node.args)}"
    return next(filter(None, (_problem(argument, names) for argument in node.args)), "")


def evaluate(node: ast.expr, values: Mapping[str, str], model: Operations) -> Embeddings:
    """Return the embedding [D] that a parsed expression stands for."""
    if isinstance(node, ast.Name):
        return model.encode(values[node.id])
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    parts = [evaluate(argument, values, model) for argument in node.args]
    carried_out: Embeddings = getattr(model, node.func.id)(*parts)
    return carried_out
