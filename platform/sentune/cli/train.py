"""``sentune train`` and ``sentune linear``: training on this machine, without Ray."""

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
from sentune.errors import InvalidValue
from sentune.terminal import Terminal, say


def train(
    context: typer.Context,
    method: Annotated[
        str,
        Option(
            help="simcse, simcse-pairs, simcse-unsupervised, sbert-softmax, infersent, gauss, "
            "gumbel, intersent, invertible, laes or sif; one of one's own is MODULE:CLASS."
        ),
    ],
    out: Annotated[
        Path, Option(help="Folder of the run; the same command continues what is there.")
    ],
    corpus: Annotated[
        list[str] | None,
        Option(
            metavar="FORMAT:PATH",
            help="Training corpus; default: one that ships with the package. Repeatable for "
            "intersent, which mixes several.",
        ),
    ] = None,
    dev: Annotated[
        list[str] | None,
        Option(
            metavar="[TASK=]FORMAT:PATH",
            help="Corpus to validate on, for all tasks that it can pose or for one. Repeatable.",
        ),
    ] = None,
    encoder: Encoder = "builtin:tiny",
    decoder: Annotated[
        str, Option(metavar="NAME|PATH", help="intersent: Hugging Face decoder, or builtin:tiny.")
    ] = "builtin:tiny",
    vectors: Annotated[
        str,
        Option(
            metavar="glove:FILE|fasttext:FILE",
            help="infersent, invertible, laes, sif: word vectors, or builtin:ppmi, learned from "
            "the corpus.",
        ),
    ] = "builtin:ppmi",
    frequencies: Annotated[
        str | None,
        Option(metavar="FILE|wordfreq:LANG", help="As --vectors: counts of words."),
    ] = None,
    max_examples: Annotated[int, Option(help="Examples to train on.")] = 30_000,
    limit: Limit = None,
    set_: Settings = None,
    references: ReferenceCorpus = None,
    validate_every: Annotated[
        int | None, Option(help="Steps between validations; default: ten over the run at most.")
    ] = None,
    objective: Annotated[
        str | None,
        Option(metavar="TASK/METRIC", help="Metric that the best checkpoint is chosen by."),
    ] = None,
    seed: Annotated[int, Option(help="Of weights, data order and dropout.")] = 0,
    workers: Annotated[int, Option(help="Processes; on a GPU machine each takes one GPU.")] = 1,
) -> None:
    """Train one method with given settings and leave the best model in OUT/model."""
    from sentune.training.local import LocalRun, run_locally

    look_here()
    if out.exists() and not out.is_dir():
        raise InvalidValue("--out", str(out), "it is a file; name a folder")
    given = context.params | {"corpus": tuple(corpus or ()), "dev": tuple(dev or ())}
    given = {name: value for name, value in given.items() if name not in ("out", "set_", "workers")}
    settings = dict(key_and_value("--set", item, "give key=value") for item in set_ or [])
    run = LocalRun.of(**given, settings=settings)
    say(f"model: {run_locally(run, out, workers=workers, say=say)}")


def linear(
    context: typer.Context,
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
    prior: Prior = None,
    json: Json = None,
) -> None:
    """Train BERT with a linear layer on pairs of sentences (LINEAR in GumbelCSE), and judge it."""
    from sentune.cli.evaluate import report_results
    from sentune.tasks.base import free_name
    from sentune.training.linear import KINDS, LinearSettings, run_linear

    fix = f"write TASK=FORMAT:PATH with TASK one of {', '.join(KINDS)}"
    tests: dict[str, tuple[str, str]] = {}
    for text in test:
        kind, spec = key_and_value("--test", text, fix, KINDS)
        tests[free_name([kind, f"{kind}-{spec.partition(':')[0]}"], tests)] = kind, spec
    if prior and ambiguous is None:
        raise InvalidValue("--prior", prior, "give --ambiguous too, whose pairs it weights")
    if not learning_rate > 0:
        raise InvalidValue("--learning-rate", learning_rate, "give a positive number")
    own = LinearSettings.model_fields.keys()
    settings = LinearSettings(**{name: context.params[name] for name in own})
    given = {n: v for n, v in context.params.items() if n not in {"test", "json", *own}}
    given["prior"] = prior or ""
    report_results(run_linear(**given, tests=tests, settings=settings, say=say), Terminal(), json)
