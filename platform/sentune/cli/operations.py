"""``sentune fuse``, ``difference``, ``compress``, ``reconstruct`` and ``compose``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sentune.cli.options import Device, TunedModel
from sentune.errors import InvalidValue
from sentune.formatting import counted
from sentune.terminal import say

if TYPE_CHECKING:
    from sentune.embedder.encode import Embeddings
    from sentune.embedder.operations import Operations

ARITY = {"fuse": 2, "difference": 2, "compress": 1}

Beams = Annotated[int, Option(min=1, help="Number of beams; 1 is greedy search.")]
Length = Annotated[
    int | None, Option(min=2, help="Largest number of tokens to decode; default: the model's.")
]
Text = Annotated[str, Argument(help="A sentence.")]


def fuse(
    model: TunedModel,
    sentences: Annotated[list[str], Argument(help="Two or more sentences.")],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Fuse sentences into one: the first two, then the result with the third, and so on."""
    if len(sentences) < 2:
        raise InvalidValue("SENTENCES", " ".join(sentences), "give two or more sentences")
    values = {f"S{number}": sentence for number, sentence in enumerate(sentences, 1)}
    expression = reduce(lambda fused, name: f"fuse({fused}, {name})", values)
    _answer(model, expression, values, beams, max_length, device)


def difference(
    model: TunedModel,
    whole: Annotated[str, Argument(help="A sentence that contains the other.")],
    part: Annotated[str, Argument(help="The sentence to remove.")],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Print what the first sentence says and the second one does not."""
    _answer(model, "difference(A, B)", {"A": whole, "B": part}, beams, max_length, device)


def compress(
    model: TunedModel,
    sentence: Text,
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Shorten a sentence."""
    _answer(model, "compress(A)", {"A": sentence}, beams, max_length, device)


def reconstruct(
    model: TunedModel,
    sentence: Text,
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Decode a sentence from its own embedding."""
    _answer(model, "A", {"A": sentence}, beams, max_length, device)


def compose(
    model: TunedModel,
    expression: Annotated[
        str,
        Argument(
            help="Operations fuse(x, y), difference(x, y) and compress(x), nested as needed: "
            "'difference(fuse(A, B), A)'."
        ),
    ],
    sentences: Annotated[
        list[str],
        Argument(metavar="NAME=SENTENCE...", help="Sentences for the names: A='They sang.'"),
    ],
    beams: Beams = 1,
    max_length: Length = None,
    device: Device = None,
) -> None:
    """Apply several operations to embeddings and decode the result once, at the end."""
    values: dict[str, str] = {}
    for item in sentences:
        name, equals, sentence = item.partition("=")
        if not (equals and name.isidentifier() and sentence.strip()):
            raise InvalidValue("NAME=SENTENCE", item, "give it as in A='They sang.'")
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
    """Print the sentence decoded from the embedding that an expression evaluates to."""
    from sentune.embedder.embedder import Embedder

    tree = parse(expression, tuple(values))
    embedder = Embedder.load(model, device)
    embedding = evaluate(tree, values, embedder)
    say(embedder.decode(embedding, beams=beams, max_length=max_length))


def parse(text: str, names: tuple[str, ...]) -> ast.expr:
    """Parse an expression such as ``difference(fuse(A, B), A)`` to a tree of calls and names.

    Raises:
        InvalidValue: it is not such an expression, or it has a name that is not in ``names``.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        fix = f"{error.msg}; give one such as fuse(A, B) or compress(fuse(A, B))"
        raise InvalidValue("EXPRESSION", text, fix) from None
    if fix := _problem(tree, names):
        raise InvalidValue("EXPRESSION", text, fix)
    return tree


def _problem(node: ast.expr, names: tuple[str, ...]) -> str:
    """Return the first error in an expression; empty if there is none."""
    if isinstance(node, ast.Name):
        return "" if node.id in names else f"{node.id} has no sentence; add {node.id}='...'"
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or node.keywords:
        return f"{ast.unparse(node)} is neither a name nor one of {', '.join(ARITY)}"
    wanted = ARITY.get(node.func.id)
    if wanted is None:
        return f"the operations are {', '.join(ARITY)}"
    if len(node.args) != wanted:
        return f"{node.func.id} takes {counted(wanted, 'argument')}, not {len(node.args)}"
    return next(filter(None, (_problem(argument, names) for argument in node.args)), "")


def evaluate(node: ast.expr, values: Mapping[str, str], model: Operations) -> Embeddings:
    """Return the embedding [D] of a parsed expression."""
    if isinstance(node, ast.Name):
        return model.encode(values[node.id])
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    parts = [evaluate(argument, values, model) for argument in node.args]
    result: Embeddings = getattr(model, node.func.id)(*parts)
    return result
