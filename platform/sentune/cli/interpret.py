"""``sentune interpret``: what a sentence may mean, as sentences that its box overlaps with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from rich.table import Column
from rich.text import Text
from typer import Argument, Option

from sentune.cli.options import Device, Model
from sentune.terminal import Terminal, number_column, plain_table, print_line

if TYPE_CHECKING:
    from sentune.embedder.interpret import Interpreted

NEAREST = "nearest other: similarity of an overlap to the most similar other one shown, 0 to 1."


def interpret(
    model: Model,
    sentence: Annotated[str, Argument(help="The sentence to interpret, in quotes.")],
    k: Annotated[int, Option("-k", min=1, help="Interpretations at most.")] = 5,
    references: Annotated[
        str | None,
        Option(
            metavar="FORMAT:PATH",
            help="Reference sentences from a corpus, in place of those stored with the model.",
        ),
    ] = None,
    alpha_1: Annotated[
        float | None,
        Option(
            help="Share of the sentence's box that an overlap must exceed; default: the "
            "model's own, else so low that the best 3 k references are in question."
        ),
    ] = None,
    alpha_2: Annotated[
        float | None,
        Option(help="Share that it must stay below; default: the model's own, else 1."),
    ] = None,
    device: Device = None,
) -> None:
    """Show the most distinct interpretations of a sentence, by a model of boxes."""
    from sentune.corpora.formats import read
    from sentune.corpora.schema import Kind
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.interpret import interpret as run

    given = None
    if references is not None:
        given = read(references, Kind.SENTENCES).table["text"].to_pylist()
    found = run(Embedder.load(model, device), sentence, k, given, alpha_1, alpha_2)
    console = Terminal()
    if found.interpretations:
        columns = (
            Column("overlap with", overflow="fold"),
            number_column("coverage"),
            number_column("nearest other"),
        )
        table = plain_table(*columns, title=Text(sentence), header_style="dim")
        for one in found.interpretations:
            near = "" if math.isnan(one.similarity) else f"{one.similarity:.2g}"
            table.add_row(Text(one.reference), f"{100 * one.coverage:.3g} %", near)
        console.print(table)
    print_line(console, _summary(found))


def _summary(found: Interpreted) -> str:
    """Return how many references were in question, and what to do if none was."""
    bounds = f"alpha_1 {found.alpha_1:.4g} and alpha_2 {found.alpha_2:.4g}"
    text = f"{found.between:,} of {found.references:,} references have a coverage between {bounds}"
    if found.between:
        return f"{text}.\n{NEAREST}"
    if found.largest is None:
        return f"{text}; none has one below alpha_2, so give a larger --alpha-2."
    return f"{text}; the largest below alpha_2 is {found.largest:.4g}, so give a lower --alpha-1."
