"""``sentune study``: list, show, stop, resume, fork, export and clean up studies."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from typer import Argument, Option

from sentune.cli.options import Group, Optuna, Settings, Storage, StudyName, look_here
from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, SentuneError
from sentune.formatting import counted
from sentune.io.atomic import disk_faults
from sentune.io.databases import sqlite_from
from sentune.io.folders import folder_bytes
from sentune.study.store.driver_lock import DriverLock, Holder, ask, break_lock, standing
from sentune.study.store.driver_process import ProcessState
from sentune.study.store.study_index import DESCRIPTION, StudyPlace, every_study, find_study
from sentune.study.store.study_view import StudySnapshot, StudyView
from sentune.terminal import Terminal, print_line, say, screen

if TYPE_CHECKING:
    from sentune.job.options import StudyOptions

app = Group()

POLL = 0.5
"""Seconds between two checks of a driver that was asked to stop."""

_NEW = "New value of the job's option; default: that of the last start."
NewCount = Annotated[str | None, Option(metavar="N", help=_NEW)]
NewHours = Annotated[str | None, Option(metavar="H", help=_NEW)]
DryRun = Annotated[bool, Option("--dry-run", help="Print the plan and exit.")]


@app.callback()
def study() -> None:
    """List, show, stop, resume, fork, export and clean up studies."""


@app.command("ls")
def list_studies(storage: Storage = None, optuna: Optuna = None) -> None:
    """List the studies of a storage: state, trials, best value, hours, driver."""
    from sentune.cli.study_screen import studies_table

    place = storage_of(storage)
    found, damaged = [], []
    for study in every_study(place, optuna):
        try:
            found.append(StudyView(study).snapshot())
        except SentuneError as error:  # the other studies are still listed
            damaged.append(f"{study.name}: {error}")
    if found:
        screen().print(studies_table(found))
    elif not damaged:
        say(f"no study in {without_credentials(place)}")
    for line in damaged:
        say(line)
    if damaged:
        raise typer.Exit(1)


@app.command()
def show(
    name: StudyName,
    storage: Storage = None,
    optuna: Optuna = None,
    watch: Annotated[
        bool, Option("--watch", help="Update the display until the study ends or Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print all data as JSON.")] = False,
    rows: Annotated[
        int, Option(min=3, help="Largest number of trials: the running, best and latest ones.")
    ] = 30,
) -> None:
    """Show a study: state, driver, budget, trials and finalists."""
    from sentune.cli.study_screen import as_document, study_screen
    from sentune.cli.study_screen import watch as watch_study

    view, console = view_of(name, storage, optuna), screen()
    if as_json:
        typer.echo(as_document(view.snapshot()))
    elif watch:
        watch_study(view, console, rows)
    else:
        console.print(study_screen(view.snapshot(), console.width, rows))


@app.command()
def stop(
    name: StudyName,
    storage: Storage = None,
    optuna: Optuna = None,
    now: Annotated[bool, Option("--now", help="Do not wait for the trials' checkpoints.")] = False,
) -> None:
    """Ask a study's driver to stop, and wait until it has stopped.

    Its trials write checkpoints first; `sentune study resume` continues from these. Fits of SIF
    and LAES have none and start again.
    """
    view = view_of(name, storage, optuna)
    url = view.place.url
    asked = ask(url, name, "stop now" if now else "stop")
    if asked is None:
        say(f"{name} has no driver: it is {_state(view.snapshot())}")
        return
    how = "at once" if now else "after its trials have left"
    say(
        f"asked {asked.driver} to stop {name} {how}; waiting (Ctrl-C does not withdraw the request)"
    )
    if stays := _wait_for_end(url, name, asked):
        say(stays)
        return
    study = view.snapshot()
    say(f"{name} is {_state(study)}; trials that have ended: {study.ended:,}")
    if study.state != "complete":
        there = f" --storage {shlex.quote(storage)}" if storage else ""
        resume = f"sentune study resume {name}{there}" if view.place.folder else "its own command"
        say(f"resume it with: {resume}")


def _state(study: StudySnapshot) -> str:
    return f"{study.state} ({study.reason})" if study.reason else study.state


def _wait_for_end(url: str, name: str, asked: Holder) -> str:
    """Wait until the study's driver stops; return why it does not, empty if it has stopped."""
    while (found := standing(url, name).holder) is not None:
        if found.generation != asked.generation:
            return f"it has stopped, and {found} drives the study now"
        if found.gone:
            return f"{found.driver} has died; the next start takes over the study"
        if found.state is ProcessState.SUSPENDED:
            return f"{found.driver} is suspended: resume or kill it; the request stays"
        if found.state is ProcessState.UNKNOWN:
            return (
                f"{found.driver} has sent no beat for {found.quiet:.0f} s; if its machine is dead, "
                "free the study with `sentune study release` and the same --storage"
            )
        time.sleep(POLL)
    return ""


@app.command()
def release(
    name: StudyName,
    storage: Storage = None,
    optuna: Optuna = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Release the lock of a study whose driver's machine is dead.

    The lock of a driver that is alive, running or suspended, is not released.
    """
    url = view_of(name, storage, optuna).place.url
    if holder := standing(url, name).holder:
        say(f"{name} is driven by {holder}")
        if not yes:
            typer.confirm("Is that machine dead or permanently cut off?", abort=True)
    say(break_lock(url, name) if url else f"{name} was never driven")


@app.command()
def resume(
    context: typer.Context,
    name: StudyName,
    storage: Storage = None,
    optuna: Optuna = None,
    tracking: Annotated[str | None, Option(metavar="URI", help=_NEW)] = None,
    trials: NewCount = None,
    concurrent: Annotated[str | None, Option(metavar="N|auto", help=_NEW)] = None,
    max_concurrent: NewCount = None,
    priority: Annotated[str | None, Option(metavar="X", help=_NEW)] = None,
    max_trials: NewCount = None,
    max_hours: NewHours = None,
    max_gpu_hours: NewHours = None,
    stop_after_no_gain: NewCount = None,
    dry_run: DryRun = False,
) -> None:
    """Resume a study with the options of its last start, or with a new budget."""
    job_options = context.params.keys() - {"name", "storage"}
    given = {option: context.params[option] for option in job_options}
    start_again(view_of(name, storage, optuna).place, given)


@app.command()
def fork(
    name: StudyName,
    new: Annotated[str, Argument(metavar="NEW", help="Name of the new study.")],
    storage: Storage = None,
    optuna: Optuna = None,
    settings: Settings = None,
    trials: NewCount = None,
    seed: NewCount = None,
    dry_run: DryRun = False,
) -> None:
    """Start a new study from an old one, with another search space or seed.

    The new study learns from those old trials that are valid in its space.
    """
    _check(new, "NEW")
    given = {"fork": new, "optuna": optuna, "trials": trials, "seed": seed, "set": settings}
    start_again(view_of(name, storage, optuna).place, {**given, "dry_run": dry_run})


def start_again(place: StudyPlace, given: Mapping[str, Any]) -> None:
    """Run a study's job again, with some options changed, in the folder where it was started.

    The process exits as the study's own command does.

    Args:
        given: option -> new value; None keeps that of the last start. ``set`` is merged by key.

    Raises:
        InvalidValue: an option has a wrong value, or the study's description is missing or of
            another version.
    """
    from sentune.job.command import exit_codes
    from sentune.job.options import parse
    from sentune.job.run import tune
    from sentune.study.space.space import SearchSpace

    stored = stored_options(place)
    here, places = str(Path.cwd()), ("optuna", "tracking")
    changed = {
        option: sqlite_from(value, here) if option in places else value
        for option, value in given.items()
        if value is not None
    }
    by_key = {item.partition("=")[0]: item for item in (*stored.set, *changed.get("set", ()))}
    if changed.get("fork"):
        known = {other.name for other in every_study(stored.storage, changed.get("optuna"))}
        changed["warm_start"] = tuple(name for name in stored.warm_start if name in known)
        for name in set(stored.warm_start).difference(known):
            line = f"warning: trials of study {name} are not taken over, because it is gone"
            print_line(Terminal(stderr=True), line)
    options = parse({**changed, "set": tuple(by_key.values())}, stored)
    space = SearchSpace.from_dict(place.description["space"])
    folder = place.description.get("folder", "")
    there = bool(folder) and Path(folder).is_dir()
    if folder and not there:
        missing = f"{folder} is not on this machine; relative paths of corpora start here"
        print_line(Terminal(stderr=True), f"warning: {missing}")
    with (
        exit_codes("interrupted; `sentune study resume` continues the study"),
        contextlib.chdir(folder) if there else contextlib.nullcontext(),
    ):
        look_here()
        tune(options, space)


def stored_options(place: StudyPlace) -> StudyOptions:
    """Return the options of a study's last start, with the storage in which it is now.

    Raises:
        InvalidValue: its description is missing or of another version.
    """
    from sentune.job.families import FAMILIES
    from sentune.job.options import parse

    stored, kinds = place.description, {kind.__name__: kind for kind in FAMILIES}
    if lacking := [key for key in ("job", "options", "space") if key not in stored]:
        lacks = f"its {DESCRIPTION} lacks {lacking[0]}" if stored else f"it has no {DESCRIPTION}"
        fix = f"{place.trouble or lacks}; run the command that started it"
        if not place.folder:
            fix = "its folder is unknown; give the --storage of its job, and --optuna"
        raise InvalidValue("STUDY", place.name, fix)
    if stored["job"] not in kinds:
        fix = f"give one of {', '.join(kinds)} in {place.folder}/{DESCRIPTION}"
        raise InvalidValue("job", stored["job"], fix)
    known = {**stored["options"], "study": place.name, "storage": place.folder.rpartition("/")[0]}
    if str(known.get("sampler")).partition(":")[0] == "grid":  # earlier versions ignored it there
        known["try_first"] = ()
    return parse(known, kinds[stored["job"]]())


@app.command()
def export(
    name: StudyName,
    out: Annotated[
        str,
        Option(
            metavar="FILE",
            help="FILE.csv, FILE.json or FILE.parquet; or, as an Optuna storage, FILE.journal or "
            "the URL of a database.",
        ),
    ],
    storage: Storage = None,
    optuna: Optuna = None,
    curves: Annotated[bool, Option("--curves", help="Add the metrics at every milestone.")] = False,
) -> None:
    """Write all trials with their settings, metrics, readouts and costs to a file."""
    from sentune.cli.study_export import copy_study, is_optuna, write_trials

    view = view_of(name, storage, optuna)
    with disk_faults(out, option="--out"):
        if is_optuna(out):
            written = copy_study(view, out)
            finals = ", with those of the finals" if view.snapshot().finals else ""
        else:
            written, finals = write_trials(view.snapshot().ends, out, curves=curves), ""
    say(f"{out}: {counted(written, 'trial')}{finals}")


@app.command()
def gc(
    name: Annotated[str | None, Argument(metavar="STUDY", help="Name of the study.")] = None,
    every: Annotated[bool, Option("--all", help="Clean up all studies of the storage.")] = False,
    storage: Storage = None,
    optuna: Optuna = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print what would be deleted, and delete nothing.")
    ] = False,
) -> None:
    """Delete checkpoints that are no longer needed, and files of killed processes.

    The winner's checkpoint is kept. Studies that have a driver are skipped.
    """
    from sentune.study.runner.retention import abandoned_scratch

    if (name is None) is not every:
        raise InvalidValue("STUDY", name or "", "give the name of a study, or --all")
    if name is not None:
        views = [view_of(name, storage, optuna)]
    else:
        views = [StudyView(place) for place in every_study(storage_of(storage), optuna)]
    total = sum(_collect(view, dry_run=dry_run) for view in views)
    for path in abandoned_scratch(name):
        size = folder_bytes(path)
        total += size
        if not dry_run:
            shutil.rmtree(path)
        say(f"{path}: temporary files of a killed driver, {decimal(size)}")
    say(f"{decimal(total)} {'could be freed' if dry_run else 'freed'}")


def _collect(view: StudyView, *, dry_run: bool) -> int:
    """Delete what a study no longer needs, print a line for each kind, and return the bytes."""
    from sentune.study.runner.retention import removable_of

    name, url = view.place.name, view.place.url
    held = standing(url, name).holder
    if not url or not view.place.folder:
        say(f"{name}: skipped, its folder or its database is unknown")
        return 0
    if held is not None and not held.gone:
        say(f"{name}: skipped, it is driven by {held}")
        return 0
    if dry_run:
        found = removable_of(view)
    else:
        with DriverLock(url, name, counted=False):
            found = removable_of(view)
            for one in found:
                one.drop()
    kinds: dict[str, list[int]] = defaultdict(list)
    for one in found:
        kinds[one.why].append(one.bytes)
    for why, sizes in kinds.items():
        say(f"{name}: {why}: {len(sizes):,}, {decimal(sum(sizes))}")
    return sum(one.bytes for one in found)


def view_of(name: str, storage: str | None, optuna: str | None) -> StudyView:
    """Open the study that a command names; raises the errors of ``place_of``."""
    return StudyView(place_of(name, storage, optuna))


def place_of(name: str, storage: str | None, optuna: str | None) -> StudyPlace:
    """Return the place of the study that a command names, without opening its store.

    Raises:
        InvalidValue: the name is not valid, or there is no such study.
    """
    _check(name, "STUDY")
    return find_study(storage_of(storage), name, optuna)


def storage_of(given: str | None) -> str:
    """Return ``--storage``, or the default storage of the jobs."""
    from sentune.job.options import default_storage

    return given or default_storage()


def _check(name: str, field: str) -> None:
    from sentune.job.options import check_name

    try:
        check_name(name)
    except ValueError as error:
        raise InvalidValue(field, name, str(error)) from None
