"""Starting a study again from what its ``study.json`` says, as it was or with changes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentune.errors import InvalidValue
from sentune.job.command import exit_codes
from sentune.job.options import StudyOptions, parse
from sentune.study.space.space import SearchSpace
from sentune.study.store.study_index import DESCRIPTION, StudyPlace
from sentune.terminal import Terminal, print_line


def start_again(place: StudyPlace, given: Mapping[str, Any]) -> None:
    """Run a study's job as its own command would, with other options, and end as that one does.

    Relative paths of corpora count from the folder in which the study was started.

    Args:
        place: of the study.
        given: options that replace those of the last start, None for none; of ``set``, those of
            the same key.

    Raises:
        InvalidValue: an option and what is allowed, or the study's description is missing or of
            another version.
    """
    from sentune.job.run import tune

    stored = stored_options(place)
    changed = {option: value for option, value in given.items() if value is not None}
    by_key = {item.partition("=")[0]: item for item in (*stored.set, *changed.get("set", ()))}
    options = parse({**changed, "set": tuple(by_key.values())}, stored)
    space = SearchSpace.from_dict(place.description["space"])
    folder = place.description.get("folder", "")
    there = bool(folder) and Path(folder).is_dir()
    if folder and not there:
        missing = f"{folder} is not on this machine; relative paths of corpora count from here"
        print_line(Terminal(stderr=True), f"warning: {missing}")
    with (
        exit_codes("interrupted; sentune study resume goes on"),
        contextlib.chdir(folder) if there else contextlib.nullcontext(),
    ):
        tune(options, space)


def stored_options(place: StudyPlace) -> StudyOptions:
    """Return the options of a study's last start, with the storage where it was found now.

    Raises:
        InvalidValue: its description is missing or of another version.
    """
    from sentune.job.families import FAMILIES

    stored, kinds = place.description, {kind.__name__: kind for kind in FAMILIES}
    if not stored:
        fix = f"{place.trouble or f'it has no {DESCRIPTION}'}; run the command that started it"
        raise InvalidValue("STUDY", place.name, fix)
    if stored["job"] not in kinds:
        fix = f"give one of {', '.join(kinds)} in {place.folder}/{DESCRIPTION}"
        raise InvalidValue("job", stored["job"], fix)
    known = {**stored["options"], "study": place.name, "storage": place.folder.rpartition("/")[0]}
    return parse(known, kinds[stored["job"]]())
