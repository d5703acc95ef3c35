"""Index of the studies in a folder, bucket or database."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentune.errors import DamagedFile, InvalidValue
from sentune.io.atomic import read_document
from sentune.io.databases import sqlite_from, sqlite_path
from sentune.io.object_store import absolute, asked, files_at, is_local
from sentune.study.store import DATABASE, JOURNAL
from sentune.summary import FIX

DESCRIPTION, SUMMARY, TEST_READS = "study.json", "summary.json", "test_reads.json"
FINALS = "/finalists"
"""Suffix of the Optuna name of a study's finals."""


@dataclass(frozen=True, kw_only=True)
class StudyPlace:
    """Addresses of a study's folder and trials.

    Attributes:
        folder: local path or URI of its own folder; empty if only its database is known.
        url: path of its journal or URL of its database; empty if it has none yet.
        description: content of its ``study.json`` (``job``, ``options``, ``space``, ``command``,
            ``started``), which each start writes; empty before the first.
        trouble: why ``study.json`` cannot be read; empty if it can.
    """

    name: str
    folder: str
    url: str
    description: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""

    def summary(self) -> dict[str, Any]:
        """Return the last ``summary.json``; empty if there is none or it is damaged."""
        return self.read_summary()[0]

    def read_summary(self) -> tuple[dict[str, Any], str]:
        """Return the last ``summary.json``, and why it cannot be read; empty if it can."""
        try:
            content = read_json(f"{self.folder}/{SUMMARY}") if self.folder else {}
            if not all(isinstance(content.get(name, ""), str) for name in ("state", "reason")):
                raise ValueError("state or reason is not a string")
        except ValueError as error:
            return {}, f"{SUMMARY} is damaged ({error}); {FIX}"
        return content, ""

    def test_reads(self) -> list[dict[str, Any]]:
        """Return the readings of the test corpora from ``test_reads.json``, or else the summary.

        Raises:
            DamagedFile: ``test_reads.json`` is damaged, and the summary has no readings.
        """
        text = read_document(self.folder, TEST_READS) if self.folder else None
        kept = self.summary().get("test_reads", [])
        try:
            return _readings(kept if text is None else json.loads(text))
        except ValueError as error:
            if text is not None and kept:
                with suppress(ValueError):
                    return _readings(kept)
            file = f"{self.folder}/{SUMMARY if text is None else TEST_READS}"
            fix = "restore it from a copy, or move it away and give --force-test, which is recorded"
            raise DamagedFile(file, f"it is damaged ({error})", fix) from None


def every_study(storage: str, optuna_url: str | None = None) -> list[StudyPlace]:
    """Return the studies of a storage, ordered by name.

    Args:
        storage: folder or URI whose folders are studies, or the URL of an Optuna database.
        optuna_url: the studies' ``--optuna``, the database with the trials of all of them.

    Raises:
        InvalidValue: there is no such folder or database.
    """
    if is_database(storage):
        return _in_database(storage)
    files, root = files_at(storage)

    def folders() -> list[str] | None:
        return files.ls(root, detail=False) if files.isdir(root) else None

    paths = folders() if is_local(files) else asked(storage, folders)
    if paths is None:
        fix = "there is no such folder; give the job's --storage"
        raise InvalidValue("--storage", storage, fix)
    base = absolute(storage).rstrip("/")
    names = sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)
    found = (_in_folder(name, f"{base}/{name}", optuna_url) for name in names)
    return [place for place in found if place is not None]


def find_study(storage: str, name: str, optuna_url: str | None = None) -> StudyPlace:
    """Return one study by its name.

    Raises:
        InvalidValue: there is none; the message lists the existing ones.
    """
    places = {place.name: place for place in every_study(storage, optuna_url)}
    if name in places:
        return places[name]
    known = ", ".join(sorted(places)[:20]) or "none yet"
    raise InvalidValue("STUDY", name, f"the studies in {storage} are: {known}")


def is_database(storage: str) -> bool:
    """Return whether a storage is the URL of a database, not a folder or bucket."""
    scheme, separator, _ = storage.partition("://")
    kinds = ("sqlite", "postgresql", "postgres", "mysql")
    return bool(separator) and scheme.split("+")[0] in kinds


def read_json(path: str) -> dict[str, Any]:
    """Return the object in a JSON file, local or remote; empty if there is no file.

    Raises:
        ValueError: the file is not JSON, or not an object.
    """
    folder, _, name = path.rpartition("/")
    text = read_document(folder, name)
    content = json.loads(text) if text is not None else {}
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def _readings(content: Any) -> list[dict[str, Any]]:
    """Return a list of readings; raise ``ValueError`` for anything else."""
    needed = {"run", "test", "time", "forced"}
    listed: list[Any] = content if isinstance(content, list) else [None]
    if not all(isinstance(one, dict) and needed <= one.keys() for one in listed):
        raise ValueError("it is not a list of readings")
    return listed


def _in_folder(name: str, folder: str, optuna_url: str | None) -> StudyPlace | None:
    """Return the study in a folder; None if the folder holds none."""
    trouble = ""
    try:
        description = read_json(f"{folder}/{DESCRIPTION}")
        if not isinstance(description.get("options", {}), dict):
            raise ValueError("options is not an object")
    except ValueError as error:  # one damaged file must not hide the other studies
        description = {}
        trouble = f"{DESCRIPTION} is damaged ({error}); run the study's own command to rewrite it"
    stored = description.get("options", {}).get("optuna") or ""
    named = optuna_url or sqlite_from(stored, description.get("folder", ""))
    if not named and "://" not in folder:
        journal, database = Path(folder, JOURNAL), Path(folder, DATABASE)
        old = f"sqlite:///{database}" if database.exists() else ""
        named = str(journal) if journal.exists() else old
    if not (description or trouble):  # a database of all studies says nothing about a folder
        files, root = files_at(f"{folder}/trials")
        if not named or (named == optuna_url and not files.isdir(root)):
            return None
    return StudyPlace(
        name=name, folder=folder, url=named or "", description=description, trouble=trouble
    )


def _in_database(url: str) -> list[StudyPlace]:
    from sentune.study.store.storage import open_storage

    if (file := sqlite_path(url)) is not None and not file.exists():
        raise InvalidValue("--storage", url, "there is no such file")
    names = sorted(study.study_name for study in open_storage(url).get_all_studies())
    return [
        StudyPlace(name=name, folder="", url=url) for name in names if not name.endswith(FINALS)
    ]
