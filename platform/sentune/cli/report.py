"""``sentune report``: a study as one HTML page and as Markdown, whatever state it is in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from sentune.cli.options import Optuna, Storage, StudyName
from sentune.cli.study import storage_of, view_of
from sentune.errors import InvalidValue
from sentune.terminal import say


def report(
    name: StudyName,
    storage: Storage = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Folder to write into (default: the study's own).")
    ] = None,
    optuna: Optuna = None,
) -> None:
    """Write report.html and report.md: what a study found, how, from what, and at what cost."""
    from sentune.job import artifacts
    from sentune.report import build, write

    study = view_of(name, storage, optuna).snapshot()
    pages, own = build(artifacts.view_of(study, storage_of(storage))), study.place.folder
    if out is None and (not own or "://" in own):
        fix = "the study has no folder on this machine; add --out DIR"
        raise InvalidValue("--out", "", fix)
    for path in write(pages, out or Path(own)):
        say(path)
