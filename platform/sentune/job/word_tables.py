"""Word tables that the trials of a job are given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import save_whole
from sentune.io.folders import whole_folder
from sentune.launchers.artifact_transfer import ShippedFolder, ship


@dataclass(frozen=True)
class ShippedWords:
    """A word table in the object store; on the driver's machine it stays where it is cached."""

    folder: ShippedFolder

    def open(self) -> WordTable:
        """The table, memory-mapped."""
        return WordTable.load(self.folder.open())


def shipped(table: WordTable, cache: Path) -> ShippedWords:
    """The table in the object store, from a folder that holds all of it."""
    folder = cache / table.fingerprint
    if not folder.is_dir():
        with whole_folder(folder) as beside:
            save_whole(table, beside)
    return ShippedWords(ship(str(folder)))
