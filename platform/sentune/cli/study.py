"""``sentune study``: looking at studies, stopping them, going on with them, taking them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sentune.credentials import without_credentials
from sentune.errors import InvalidValue
from sentune.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

    from sentune.study.store.study_view import StudyView

app = typer.Typer(
    help="Look at studies, stop them, go on with them, and take out what they found.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")]
StorageOption = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Folder or URI of all studies, as the job's --storage, or the URL of their database "
        "(default: studies, or $SENTUNE_STORAGE).",
        show_default=False,
    ),
]
OptunaOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="SENTUNE_OPTUNA",
        show_envvar=False,
        help="Their Optuna storage, where the job had --optuna (default: $SENTUNE_OPTUNA).",
    ),
]


@app.command("ls")
def list_studies(storage: StorageOption = None, optuna: OptunaOption = None) -> None:
    """List the studies of a storage: state, trials, best value, hours, driver."""
    from sentune.cli.study_tables import studies_table
    from sentune.study.store.study_index import every_study
    from sentune.study.store.study_view import StudyView

    place = storage_of(storage)
    found = [StudyView(study).snapshot() for study in every_study(place, optuna)]
    if found:
        _console().print(studies_table(found))
    else:
        say(f"no study in {without_credentials(place)}")


@app.command()
def show(
    name: NameArgument,
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Redraw until the study ends; q or Ctrl-C leaves.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    rows: Annotated[
        int, typer.Option(min=3, help="Trials to show: those that run, the best, the latest.")
    ] = 30,
) -> None:
    """Show a study: state, driver, budget, trials, finalists."""
    from sentune.cli.study_tables import as_document, study_screen

    view = view_of(name, storage, optuna)
    console = _console()
    if as_json:
        typer.echo(as_document(view.snapshot()))
    elif watch:
        from sentune.cli.study_watch import watch as watched

        watched(view, console, rows)
    else:
        console.print(study_screen(view.snapshot(), console.width, rows))


@app.command()
def stop(
    name: NameArgument,
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for the trials' checkpoints.")
    ] = False,
) -> None:
    """Ask a study's driver to stop, and wait until it has left.

    Its trials write checkpoints first; `sentune study resume` goes on from there.
    """
    from sentune.cli.study_stop import stop as stopped

    stopped(view_of(name, storage, optuna), _console(), now=now)


@app.command()
def release(
    name: NameArgument,
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Free the lock of a study whose driver's machine is dead.

    A driver that is alive, running or suspended, keeps it.
    """
    from sentune.study.store.driver_lock import break_lock, standing

    place = view_of(name, storage, optuna).place
    if holder := standing(place.url, name).holder:
        say(f"{name} is driven by {holder}")
        if not yes:
            typer.confirm("Is that machine dead, or its network cut for good?", abort=True)
    say(break_lock(place.url, name) if place.url else f"{name} was never driven")


@app.command()
def resume(
    name: NameArgument,
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    tracking: Annotated[
        str | None, typer.Option(metavar="URI", help="MLflow, where it has changed.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials in all.")] = None,
    concurrent: Annotated[str | None, typer.Option(help="Trials at a time, or auto.")] = None,
    max_concurrent: Annotated[int | None, typer.Option(min=1, help="As the job's.")] = None,
    priority: Annotated[float | None, typer.Option(min=0.01, help="As the job's.")] = None,
    max_trials: Annotated[int | None, typer.Option(min=1, help="As the job's.")] = None,
    max_hours: Annotated[float | None, typer.Option(min=0, help="As the job's.")] = None,
    max_gpu_hours: Annotated[float | None, typer.Option(min=0, help="As the job's.")] = None,
    stop_after_no_gain: Annotated[int | None, typer.Option(min=1, help="As the job's.")] = None,
) -> None:
    """Go on with a study as its own command would; its budget may be another one."""
    from sentune.cli.study_again import changed, start, stored_job

    job = stored_job(view_of(name, storage, optuna).place)
    given = {
        "optuna": optuna,
        "tracking": tracking,
        "trials": trials,
        "concurrent": concurrent,
        "max_concurrent": max_concurrent,
        "priority": priority,
        "max_trials": max_trials,
        "max_hours": max_hours,
        "max_gpu_hours": max_gpu_hours,
        "stop_after_no_gain": stop_after_no_gain,
    }
    start(changed(job, {key: value for key, value in given.items() if value is not None}))


@app.command()
def fork(
    name: NameArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new study.")],
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As the job's; repeat it for several."),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials of the new study.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the new study.")] = None,
) -> None:
    """Start a new study from an old one with another space; it knows the old trials that hold."""
    from sentune.cli.study_again import changed, start, stored_job, with_settings

    _check(new, "NEW")
    job = stored_job(view_of(name, storage, optuna).place)
    given = {"fork": new, "trials": trials, "seed": seed, "set": with_settings(job, settings or [])}
    start(changed(job, {key: value for key, value in given.items() if value is not None}))


@app.command()
def export(
    name: NameArgument,
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="FILE.csv, FILE.json or FILE.parquet to write; or, as Optuna has the trials, "
            "FILE.journal or the URL of a database.",
        ),
    ],
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="With the metrics at every milestone.")
    ] = False,
) -> None:
    """Write every trial with its settings, metrics, readouts and cost to a file."""
    from sentune.cli.study_export import copy_study, is_optuna
    from sentune.cli.study_export import export as exported

    view = view_of(name, storage, optuna)
    if is_optuna(out):
        written = copy_study(view, out)
    else:
        written = exported(view.snapshot().trials, out, curves=curves)
    say(f"{out}: {written:,} trials")


@app.command()
def gc(
    name: Annotated[str | None, typer.Argument(metavar="STUDY", help="Name of the study.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All studies of the storage.")] = False,
    storage: StorageOption = None,
    optuna: OptunaOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and drop nothing.")
    ] = False,
) -> None:
    """Drop checkpoints that are not needed, and what killed processes have left.

    The winner's checkpoint stays, and so does everything of a study that is driven.
    """
    from sentune.cli.study_gc import collect
    from sentune.study.store.study_index import every_study
    from sentune.study.store.study_view import StudyView

    if (name is None) is not every:
        raise InvalidValue("STUDY", name or "", "name a study, or give --all")
    if name is not None:
        views = [view_of(name, storage, optuna)]
    else:
        views = [StudyView(place) for place in every_study(storage_of(storage), optuna)]
    collect(views, _console(), dry_run=dry_run)


def view_of(name: str, storage: str | None, optuna: str | None) -> StudyView:
    """The study that a command line names.

    Raises:
        InvalidValue: it is no name, or there is no such study.
    """
    from sentune.study.store.study_index import find_study
    from sentune.study.store.study_view import StudyView

    _check(name, "STUDY")
    return StudyView(find_study(storage_of(storage), name, optuna))


def storage_of(given: str | None) -> str:
    """``--storage``, or where the jobs keep studies by default."""
    from sentune.job.options import default_storage

    return given or default_storage()


def _check(name: str, field: str) -> None:
    from sentune.job.options import NAME

    if not NAME.fullmatch(name):
        fix = "give letters, digits, '.', '_' and '-' (at most 64), no path"
        raise InvalidValue(field, name, fix)


def _console() -> Console:
    from sentune.terminal import screen

    return screen()
