"""``sentune cluster``: what a cluster will grow to for a study, and whether it is fit for one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="See how a cluster will grow for a study, and whether it is fit for one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ANY_OPTION = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=ANY_OPTION)
def plan(
    context: typer.Context,
    script: Annotated[
        Path, typer.Argument(metavar="JOB", help="A job's script: jobs/tune_gumbel.py.")
    ],
    cluster_file: Annotated[
        Path | None,
        typer.Option(help="Of ray up or KubeRay (default: cluster.yaml).", show_default=False),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CPUS,GPUS,MOST",
            help="Machines of your own, instead of a file. Repeatable.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE_TYPE=DOLLARS", help="Price of a node, an hour. Repeatable."),
    ] = None,
    examples_per_second: Annotated[
        float | None, typer.Option(min=1e-6, help="That one worker trains on.")
    ] = None,
    validation_seconds: Annotated[
        float, typer.Option(min=0, help="Of one validation, beside --examples-per-second.")
    ] = 0.0,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Try it on this machine: reads the corpora, a minute at most."
        ),
    ] = False,
    streams: Annotated[
        bool, typer.Option("--streams", help="The corpus is larger than the job's --share-mb.")
    ] = False,
) -> None:
    """Show how a cluster will grow for a study: nodes, hours, dollars. Starts nothing.

    All other options are the job's: sentune cluster plan jobs/tune_gumbel.py --trials 40
    --gpus-per-worker 1 --price gpu-spot=0.35
    """
    from sentune.cli.cluster_plan import (
        ClusterPlanRequest,
        cluster_of,
        parse_prices,
        show_cluster_plan,
    )
    from sentune.terminal import screen

    request = ClusterPlanRequest(
        cluster=cluster_of(cluster_file, node or []),
        prices=parse_prices(price or []),
        examples_per_second=examples_per_second,
        validation_seconds=validation_seconds,
        probe=probe,
        streams=streams,
    )
    show_cluster_plan(script, context.args, request, screen())


@app.command()
def check(
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|http://HOST:PORT",
            help="The cluster, or its job server (default: $RAY_ADDRESS, or what runs here).",
            show_default=False,
        ),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URI", help="As the job's --storage.")
    ] = None,
    optuna: Annotated[
        str | None, typer.Option(metavar="URL", help="As the job's --optuna.")
    ] = None,
    tracking: Annotated[
        str | None, typer.Option(metavar="URI", help="As the job's --tracking.")
    ] = None,
) -> None:
    """Ask every node of a cluster whether it is fit for a study. Exit code 1 if one is not."""
    from sentune.cli.cluster_check import check_cluster
    from sentune.study.planning.cluster_doctor import StudyAddresses
    from sentune.terminal import screen

    addresses = StudyAddresses(storage=storage, optuna=optuna, tracking=tracking)
    if not check_cluster(address, addresses, screen()):
        raise typer.Exit(1)
