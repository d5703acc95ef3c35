"""``sentune cluster``: what a cluster will grow to for a study, and whether it is fit for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column
from rich.text import Text
from typer import Argument, Option

from sentune.cli.options import Group
from sentune.errors import InvalidValue
from sentune.terminal import plain_table, screen

app = Group()

ANY_OPTION = {"allow_extra_args": True, "ignore_unknown_options": True}
SUBMIT = "ray job submit -- sentune cluster check --address auto"


@app.callback()
def cluster() -> None:
    """See how a cluster will grow for a study, and whether it is fit for one."""


@app.command(context_settings=ANY_OPTION)
def plan(
    context: typer.Context,
    script: Annotated[Path, Argument(metavar="JOB", help="A job's script: jobs/tune_gumbel.py.")],
    cluster_file: Annotated[
        Path | None,
        Option(help="Of ray up or KubeRay (default: cluster.yaml).", show_default=False),
    ] = None,
    node: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=CPUS,GPUS,MOST",
            help="Machines of your own, instead of a file. Repeatable.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        Option(metavar="NODE_TYPE=DOLLARS", help="Price of a node, an hour. Repeatable."),
    ] = None,
    examples_per_second: Annotated[
        float | None, Option(min=1e-6, help="That one worker trains on.")
    ] = None,
    validation_seconds: Annotated[
        float, Option(min=0, help="Of one validation, beside --examples-per-second.")
    ] = 0.0,
    probe: Annotated[
        bool, Option("--probe", help="Try it on this machine: reads the corpora, a minute at most.")
    ] = False,
    streams: Annotated[
        bool, Option("--streams", help="The corpus is larger than the job's --share-mb.")
    ] = False,
) -> None:
    """Show how a cluster will grow for a study: nodes, hours, dollars. Starts nothing.

    All other options are the job's: sentune cluster plan jobs/tune_gumbel.py --trials 40
    --gpus-per-worker 1 --price gpu-spot=0.35
    """
    from sentune.cli.cluster_plan import (
        cluster_of,
        growth_report,
        options_of,
        parse_prices,
        read_job,
    )
    from sentune.job.families import make_job
    from sentune.job.plan import SECONDS

    cluster, console = cluster_of(cluster_file, node or []), screen()
    prices = parse_prices(price or [], cluster.kinds)
    if probe and examples_per_second is not None:
        raise InvalidValue("--probe", True, "leave it out where --examples-per-second is given")
    script_job = read_job(script)
    job, cost = make_job(options_of(script_job, context.args), script_job.space), None
    if probe:
        job.prepare(console)
        cost = job.probe(SECONDS)
    elif examples_per_second is not None:
        cost = job.stated_cost(examples_per_second, validation_seconds)
    config = replace(job.config, data_cpus=1.0) if streams else job.config
    console.print(growth_report(config, job.space, cluster, prices, cost))


@app.command()
def check(
    address: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT|http://HOST:PORT",
            help="The cluster, or its job server (default: $RAY_ADDRESS, or what runs here).",
            show_default=False,
        ),
    ] = None,
    storage: Annotated[str | None, Option(metavar="URI", help="As the job's --storage.")] = None,
    optuna: Annotated[str | None, Option(metavar="URL", help="As the job's --optuna.")] = None,
    tracking: Annotated[str | None, Option(metavar="URI", help="As the job's --tracking.")] = None,
) -> None:
    """Ask every node of a cluster whether it is fit for a study. Exit code 1 if one is not."""
    places = {"storage": storage, "Optuna": optuna, "tracking": tracking}
    if not check_cluster(address, places, screen()):
        raise typer.Exit(1)


def check_cluster(address: str | None, places: Mapping[str, str | None], console: Console) -> bool:
    """Print a line for each question, with the fix under a cross; return whether all are ticks."""
    from sentune.study.planning.cluster_doctor import address_of, from_within, job_server

    where = address_of(address)
    if where.startswith(("http://", "https://")):
        findings, note = job_server(where), f"The nodes are asked from within: {SUBMIT} ..."
    else:
        findings, note = from_within(where, places)
    table = plain_table(Column(no_wrap=True), Column(no_wrap=True), "", show_header=False)
    for finding in findings:
        sign = Text("✓", style="green") if finding.ok else Text("✗", style="bold red")
        fix = f"\nfix: {finding.fix}" if finding.fix else ""
        table.add_row(sign, finding.subject, Text(f"{finding.detail}{fix}"))
    console.print(table)
    console.print(Text(note))
    return all(finding.ok for finding in findings)
