"""``sentune linear``: the baseline LINEAR, trained and judged in one go."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from sentune.cli.options import Encoder, Json, Limit, key_and_value
from sentune.errors import InvalidValue
from sentune.terminal import Terminal, say


def linear(
    corpus: Annotated[
        str, Option(metavar="FORMAT:PATH", help="Training corpus, read as triplets as SimCSE's.")
    ],
    encoder: Encoder,
    test: Annotated[
        list[str],
        Option(
            metavar="TASK=FORMAT:PATH",
            help="rte, judged after the first stage, or ambiguous-rte, judged in the end. "
            "Repeatable.",
        ),
    ],
    ambiguous: Annotated[
        str | None,
        Option(
            metavar="FORMAT:PATH",
            help="Pairs of several labels for a second stage with three classes. All of them are "
            "trained on: none is kept to choose the number of epochs. Without it there are two "
            "classes, and ambiguous-rte is never answered by both.",
        ),
    ] = None,
    epochs: Annotated[int, Option(min=1, help="Passes over the corpus.")] = 1,
    second_epochs: Annotated[int, Option(min=1, help="Passes over --ambiguous.")] = 3,
    batch_size: Annotated[int, Option(min=1, help="Pairs of a step.")] = 32,
    learning_rate: Annotated[float, Option(help="Highest learning rate.")] = 5e-5,
    max_length: Annotated[int, Option(min=8, help="Most tokens of a pair.")] = 128,
    limit: Limit = None,
    max_examples: Annotated[
        int | None, Option(min=1, help="Pairs of the first stage at most; a triplet makes two.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Of weights, dropout and order.")] = 0,
    json: Json = None,
) -> None:
    """Train BERT with a linear layer on pairs of sentences (LINEAR in GumbelCSE), and judge it."""
    from sentune.cli.results import report_results
    from sentune.training.linear import KINDS, LinearSettings, run_linear

    fix = f"write TASK=FORMAT:PATH with TASK one of {', '.join(KINDS)}"
    tests = tuple(key_and_value("--test", text, fix, KINDS) for text in test)
    if not learning_rate > 0:
        raise InvalidValue("--learning-rate", learning_rate, "give a positive number")
    settings = LinearSettings(
        batch_size=batch_size, learning_rate=learning_rate, max_length=max_length, seed=seed
    )
    result = run_linear(
        corpus=corpus,
        encoder=encoder,
        tests=tests,
        ambiguous=ambiguous,
        epochs=epochs,
        second_epochs=second_epochs,
        limit=limit,
        max_examples=max_examples,
        settings=settings,
        say=say,
    )
    report_results(result, Terminal(), json)
