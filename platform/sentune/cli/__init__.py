"""The command ``sentune``. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys

import typer

from sentune.cli import (
    cluster,
    corpora,
    dashboard,
    interpret,
    linear,
    model,
    operations,
    report,
    study,
    train,
)
from sentune.errors import SentuneError
from sentune.terminal import harmless

app = typer.Typer(
    help="Tunes sentence-embedding methods, and uses what was tuned.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command()(train.train)
app.command()(model.evaluate)
app.command()(model.encode)
app.command()(interpret.interpret)
app.command()(operations.fuse)
app.command()(operations.difference)
app.command()(operations.compress)
app.command()(operations.reconstruct)
app.command()(operations.compose)
app.command()(linear.linear)
app.command()(dashboard.dashboard)
app.command()(report.report)
app.add_typer(cluster.app, name="cluster")
app.add_typer(corpora.app, name="corpora")
app.add_typer(study.app, name="study")


def main() -> None:
    """Runs the command line; what a user did wrong is one line and exit code 2."""
    try:
        app()
    except SentuneError as error:
        sys.stderr.write(harmless("sentune: " + " ".join(str(error).split())) + "\n")
        raise SystemExit(2) from None
