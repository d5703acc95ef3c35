"""``sentune cluster``: forecast how a cluster scales for a study, and check its nodes."""

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
    """Forecast how a cluster scales for a study, and check its nodes."""


@app.command(context_settings=ANY_OPTION)
def plan(
    context: typer.Context,
    script: Annotated[Path, Argument(metavar="JOB", help="A job's script: jobs/tune_gumbel.py.")],
    cluster_file: Annotated[
        Path | None,
        Option(help="File for ray up or KubeRay (default: cluster.yaml).", show_default=False),
    ] = None,
    node: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=CPUS,GPUS,COUNT",
            help="A node type, instead of a file: COUNT nodes that are always up. Repeatable.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        Option(metavar="NODE_TYPE=DOLLARS", help="Price of a node per hour. Repeatable."),
    ] = None,
    examples_per_second: Annotated[
        float | None, Option(min=1e-6, help="Training speed of one worker.")
    ] = None,
    validation_seconds: Annotated[
        float, Option(min=0, help="Duration of a validation, with --examples-per-second.")
    ] = 0.0,
    probe: Annotated[
        bool,
        Option(
            "--probe",
            help="Measure the speed on this machine, for a minute after reading the data.",
        ),
    ] = False,
    streams: Annotated[
        bool, Option("--streams", help="The corpus is larger than the job's --share-mb.")
    ] = False,
) -> None:
    """Forecast a study on a cluster: nodes, hours and dollars. Nothing is started.

    All other options are those of the job: sentune cluster plan jobs/tune_gumbel.py --trials 40
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
        raise InvalidValue("--probe", True, "give it or --examples-per-second, not both")
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
            help="The cluster or its job server (default: $RAY_ADDRESS, else the local cluster).",
            show_default=False,
        ),
    ] = None,
    storage: Annotated[str | None, Option(metavar="URI", help="The job's --storage.")] = None,
    optuna: Annotated[str | None, Option(metavar="URL", help="The job's --optuna.")] = None,
    tracking: Annotated[str | None, Option(metavar="URI", help="The job's --tracking.")] = None,
) -> None:
    """Check that every node of a cluster can run a study. Exits with 1 if a check fails."""
    places = {"storage": storage, "Optuna": optuna, "tracking": tracking}
    if not check_cluster(address, places, screen()):
        raise typer.Exit(1)


def check_cluster(address: str | None, places: Mapping[str, str | None], console: Console) -> bool:
    """Print the result of each check, with a fix if it failed; return whether all passed."""
    from sentune.study.planning.cluster_doctor import address_of, from_within, job_server

    where = address_of(address)
    if where.startswith(("http://", "https://")):
        left = [f" and {name}" for name, place in places.items() if place is not None]
        findings, note = job_server(where), f"To check the nodes{''.join(left)}, run {SUBMIT} ..."
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
