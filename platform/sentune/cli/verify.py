"""``sentune verify``: a study or a model against the checksums of what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column
from rich.text import Text
from typer import Argument

from sentune.cli.options import Optuna, Storage
from sentune.errors import InvalidValue
from sentune.terminal import Terminal, plain_table, print_line, say, screen

if TYPE_CHECKING:
    from sentune.study.store.study_index import StudyPlace


def verify(
    subject: Annotated[
        str,
        Argument(
            metavar="STUDY|MODEL",
            help="Name of a study; or a model folder, its URI, or models:/NAME@champion.",
        ),
    ],
    storage: Storage = None,
    optuna: Optuna = None,
) -> None:
    """Recompute what a study or a model was made of, from corpora to model, and change nothing.

    Exit codes: 0 all that is here is as it was recorded, 1 something is not, 2 a wrong value.
    """
    from sentune.job.verify import Check, Outcome, verify_model, verify_study

    marks = {
        Outcome.HOLDS: Text("✓", "green"),
        Outcome.BROKEN: Text("✗", "red"),
        Outcome.ABSENT: Text("-", "dim"),
    }
    if "/" in subject or Path(subject).is_dir():
        checks: list[Check] = [*verify_model(_model(subject))]
    else:
        checks = [*verify_study(_study(subject, storage, optuna))]
    table = plain_table(
        "", Column("what", no_wrap=True), Column("where", overflow="fold"), Column(overflow="fold")
    )
    for one in checks:
        table.add_row(marks[one.outcome], one.part, one.place, one.found)
    screen().print(table)
    broken = [one for one in checks if one.outcome is Outcome.BROKEN]
    if broken:
        first = broken[0]
        line = f"broken: {first.part} {first.place}: {first.found}"
        print_line(Terminal(stderr=True), line, "red")
        raise typer.Exit(1)
    gone = sum(one.outcome is Outcome.ABSENT for one in checks)
    say(f"{len(checks) - gone} of {len(checks)} hold" + (f", {gone} are not here" if gone else ""))


def _model(subject: str) -> str:
    """Return the path or URI of a model folder."""
    from sentune.embedder.load import folder_of
    from sentune.io.object_store import asked, files_at, names_in
    from sentune.training.model import MANIFEST, SETTINGS_FILE

    place = subject.rstrip("/")
    if place.startswith("models:/") or "://" not in place:
        place = str(folder_of(place).resolve())
    files, root = files_at(place)
    if not {MANIFEST, SETTINGS_FILE} & set(asked(place, lambda: names_in(files, root))):
        fix = "no model lies there; a study is named without its folder, beside --storage"
        raise InvalidValue("MODEL", subject, fix)
    return place


def _study(name: str, storage: str | None, optuna: str | None) -> StudyPlace:
    from sentune.cli.study import place_of

    place = place_of(name, storage, optuna)
    if not place.folder:
        fix = "its folder is not known; give the --storage of its job, and --optuna"
        raise InvalidValue("STUDY", name, fix)
    return place
