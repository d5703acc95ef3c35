"""``sentune train`` and ``sentune linear``: train on this machine, without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from sentune.cli.options import (
    Encoder,
    Json,
    Limit,
    Prior,
    ReferenceCorpus,
    Settings,
    key_and_value,
    look_here,
)
from sentune.errors import InvalidValue, option_name
from sentune.terminal import Terminal, say


def train(
    context: typer.Context,
    method: Annotated[
        str,
        Option(
            metavar="NAME|MODULE:CLASS",
            help="simcse, simcse-pairs, simcse-unsupervised, sbert-softmax, infersent, gauss, "
            "gumbel, intersent, invertible, laes or sif; your own method is MODULE:CLASS.",
        ),
    ],
    out: Annotated[Path, Option(help="Folder of the run; the same command resumes the run there.")],
    corpus: Annotated[
        list[str] | None,
        Option(
            metavar="FORMAT:PATH",
            help="Training corpus; default: a built-in one. Repeatable for intersent, which mixes "
            "several.",
        ),
    ] = None,
    dev: Annotated[
        list[str] | None,
        Option(
            metavar="[TASK=]FORMAT:PATH",
            help="Corpus to validate on, for one task or all that it fits. Repeatable.",
        ),
    ] = None,
    encoder: Encoder = "builtin:tiny",
    decoder: Annotated[
        str,
        Option(metavar="NAME|PATH", help="Hugging Face decoder, or builtin:tiny, for intersent."),
    ] = "builtin:tiny",
    vectors: Annotated[
        str,
        Option(
            metavar="glove:FILE|fasttext:FILE",
            help="Word vectors for infersent, invertible, laes and sif; builtin:ppmi is learned "
            "from the corpus.",
        ),
    ] = "builtin:ppmi",
    frequencies: Annotated[
        str | None,
        Option(metavar="FILE|wordfreq:LANG", help="Word counts, for methods with --vectors."),
    ] = None,
    max_examples: Annotated[int, Option(help="Number of examples to train on.")] = 30_000,
    limit: Limit = None,
    set_: Settings = None,
    references: ReferenceCorpus = None,
    validate_every: Annotated[
        int | None, Option(help="Steps between validations; default: at most ten per run.")
    ] = None,
    objective: Annotated[
        str | None,
        Option(metavar="TASK/METRIC", help="Metric that the best checkpoint is chosen by."),
    ] = None,
    seed: Annotated[int, Option(help="Seed of weights, data order and dropout.")] = 0,
    workers: Annotated[int, Option(help="Number of processes, one per GPU if there are any.")] = 1,
) -> None:
    """Train one configuration of a method and write the best model to OUT/model."""
    from sentune.training.local import LocalRun, run_locally

    look_here()
    if out.exists() and not out.is_dir():
        raise InvalidValue("--out", str(out), "it is a file; give a folder")
    given = context.params | {"corpus": tuple(corpus or ()), "dev": tuple(dev or ())}
    given = {name: value for name, value in given.items() if name not in ("out", "set_", "workers")}
    settings = dict(key_and_value("--set", item, "give key=value") for item in set_ or [])
    run = LocalRun.of(**given, settings=settings)
    say(f"model: {run_locally(run, out, workers=workers, say=say)}")


def linear(
    context: typer.Context,
    corpus: Annotated[
        str, Option(metavar="FORMAT:PATH", help="Training corpus, read as triplets.")
    ],
    encoder: Encoder,
    test: Annotated[
        list[str],
        Option(
            metavar="TASK=FORMAT:PATH",
            help="Task rte, measured after the first stage, or ambiguous-rte, measured at the end. "
            "Repeatable.",
        ),
    ],
    ambiguous: Annotated[
        str | None,
        Option(
            metavar="FORMAT:PATH",
            help="Pairs with several labels for a second stage with three classes; all are trained "
            "on, so none is left to choose the number of epochs. Without this option there are "
            "two classes, and the answer to ambiguous-rte is never both.",
        ),
    ] = None,
    epochs: Annotated[int, Option(min=1, help="Epochs of the first stage.")] = 1,
    second_epochs: Annotated[int, Option(min=1, help="Epochs of the second stage.")] = 3,
    batch_size: Annotated[int, Option(min=1, help="Pairs per step.")] = 32,
    learning_rate: Annotated[float, Option(help="Highest learning rate.")] = 5e-5,
    max_length: Annotated[int, Option(min=8, help="Largest number of tokens of a pair.")] = 128,
    limit: Limit = None,
    max_examples: Annotated[
        int | None,
        Option(min=1, help="Largest number of pairs of the first stage; a triplet makes two."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of weights, dropout and data order.")] = 0,
    prior: Prior = None,
    json: Json = None,
) -> None:
    """Train and measure a linear classifier of sentence pairs on BERT (LINEAR in GumbelCSE)."""
    from sentune.cli.evaluate import report_results
    from sentune.tasks.base import free_name
    from sentune.training.linear import KINDS, LinearSettings, run_linear
    from sentune.training.settings import validated

    fix = f"give TASK=FORMAT:PATH with TASK one of {', '.join(KINDS)}"
    tests: dict[str, tuple[str, str]] = {}
    for text in test:
        kind, spec = key_and_value("--test", text, fix, KINDS)
        tests[free_name([kind, f"{kind}-{spec.partition(':')[0]}"], tests)] = kind, spec
    if prior and ambiguous is None:
        raise InvalidValue("--prior", prior, "it weights the pairs of --ambiguous; give it too")
    own = LinearSettings.model_fields.keys()
    settings = validated(LinearSettings, {n: context.params[n] for n in own}, option_name)
    given = {n: v for n, v in context.params.items() if n not in {"test", "json", *own}}
    given["prior"] = prior or ""
    report_results(run_linear(**given, tests=tests, settings=settings, say=say), Terminal(), json)
