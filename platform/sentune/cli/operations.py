"""``sentune fuse``, ``difference``, ``compress``, ``reconstruct`` and ``compose``: operations on
embeddings, decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sentune.cli.model import Device, Model
from sentune.errors import InvalidValue
from sentune.terminal import say

if TYPE_CHECKING:
    from sentune.embedder.encode import Embeddings

Beams = Annotated[int, typer.Option(min=1, help="Beams of the search; 1 is greedy.")]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Most tokens of the answer; default: the model's.")
]


def fuse(
    model: Model,
    sentences: Annotated[list[str], typer.Argument(help="Two sentences, or more.")],
    beams: Beams = 1,
    max_length: MaxLength = None,
    device: Device = None,
) -> None:
    """Fuse sentences: the first two, then the result with the third, and so on."""
    if len(sentences) < 2:
        raise InvalidValue("SENTENCES", " ".join(sentences), "give two sentences, or more")
    names = [f"S{number}" for number in range(1, len(sentences) + 1)]
    expression = names[0]
    for name in names[1:]:
        expression = f"fuse({expression}, {name})"
    values = dict(zip(names, sentences, strict=True))
    say(_answer(model, expression, values, beams, max_length, device))


def difference(
    model: Model,
    whole: Annotated[str, typer.Argument(help="A sentence that contains the other.")],
    part: Annotated[str, typer.Argument(help="What is taken away.")],
    beams: Beams = 1,
    max_length: MaxLength = None,
    device: Device = None,
) -> None:
    """Say what the first sentence says and the second one does not."""
    values = {"A": whole, "B": part}
    say(_answer(model, "difference(A, B)", values, beams, max_length, device))


def compress(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
    beams: Beams = 1,
    max_length: MaxLength = None,
    device: Device = None,
) -> None:
    """Shorten a sentence."""
    say(_answer(model, "compress(A)", {"A": sentence}, beams, max_length, device))


def reconstruct(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
    beams: Beams = 1,
    max_length: MaxLength = None,
    device: Device = None,
) -> None:
    """Say what is left of a sentence in its embedding."""
    say(_answer(model, "A", {"A": sentence}, beams, max_length, device))


def compose(
    model: Model,
    expression: Annotated[
        str,
        typer.Argument(
            help="fuse(x, y), difference(x, y) and compress(x) of names and of each other: "
            "'difference(fuse(A, B), A)'."
        ),
    ],
    sentences: Annotated[
        list[str], typer.Argument(metavar="NAME=SENTENCE...", help="What the names stand for.")
    ],
    beams: Beams = 1,
    max_length: MaxLength = None,
    device: Device = None,
) -> None:
    """Carry out several operations one after the other, in the space of embeddings."""
    say(_answer(model, expression, _named(sentences), beams, max_length, device))


def _named(items: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for item in items:
        name, equals, sentence = item.partition("=")
        if not (equals and name.isidentifier() and sentence.strip()):
            raise InvalidValue("NAME=SENTENCE", item, "write it as A='They sang.'")
        values[name] = sentence
    return values


def _answer(
    model: str,
    expression: str,
    values: dict[str, str],
    beams: int,
    max_length: int | None,
    device: str | None,
) -> str:
    from sentune.cli.expressions import evaluate, parse
    from sentune.embedder.embedder import Embedder

    tree = parse(expression, tuple(values))
    embedder = Embedder.load(model, device)
    embedding: Embeddings = evaluate(tree, values, embedder)
    return embedder.decode(embedding, beams=beams, max_length=max_length)
