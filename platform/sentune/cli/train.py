"""``sentune train``: one training run on this machine, without a cluster and without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentune.errors import InvalidValue


def train(
    method: Annotated[str, typer.Option(help="simcse, simcse-unsupervised, gauss or gumbel.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the run; the same command continues what is there.")
    ],
    corpus: Annotated[
        str, typer.Option(metavar="FORMAT:PATH", help="Training corpus.")
    ] = "builtin:nli",
    dev: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT:PATH", help="Corpus to validate on. Repeatable."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(metavar="NAME|PATH", help="Hugging Face encoder, or builtin:tiny.")
    ] = "builtin:tiny",
    max_examples: Annotated[int, typer.Option(min=1, help="Examples to train on.")] = 30_000,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows of the corpus at most.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting's value, or a readout's grid (alpha_1=0.3,0.5). Repeatable.",
        ),
    ] = None,
    references: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT:PATH",
            help="Corpus of the reference sentences of interpretations; default: the training one.",
        ),
    ] = None,
    validate_every: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between validations; default: ten over the run."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(metavar="TASK/METRIC", help="Metric that the best checkpoint is chosen by."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, data order and dropout.")] = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; on a GPU machine each takes one GPU.")
    ] = 1,
) -> None:
    """Train one method with given settings and leave the best model in OUT/model."""
    from sentune.training.local import LocalRun, run_locally

    run = LocalRun(
        method=method,
        settings=_pairs(set_ or []),
        corpus=corpus,
        dev=tuple(dev or _builtin_dev(corpus)),
        encoder=encoder,
        max_examples=max_examples,
        limit=limit,
        validate_every=validate_every,
        objective=objective,
        seed=seed,
        references=references,
    )
    folder = run_locally(run, out, workers=workers, say=typer.echo)
    typer.echo(f"model: {folder}")


def _pairs(items: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not (key and equals and value):
            raise InvalidValue("--set", item, "give key=value")
        pairs[key] = value
    return pairs


def _builtin_dev(corpus: str) -> tuple[str, ...]:
    if not corpus.startswith("builtin:"):
        raise InvalidValue("--dev", "", f"say on which corpus to validate, as --corpus is {corpus}")
    return ("builtin:nli?split=dev",)
