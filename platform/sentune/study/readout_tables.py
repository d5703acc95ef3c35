"""The tables of swept readouts, which stay when a run's checkpoints go."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from sentune.io.atomic import StorageError, write_document
from sentune.records import TrialRecord, TrialState
from sentune.study.config import StudyConfig
from sentune.study.store.study_view import TABLES, StudyView
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import sweeps_in

logger = logging.getLogger(__name__)


def keep_tables(view: StudyView, config: StudyConfig, runs: Mapping[str, TrialRecord]) -> None:
    """Write ``readouts.json`` of the runs, by name, that have ended and have swept readouts.

    Their checkpoints, which hold the sweeps, may go after it.
    """
    kept = view.with_tables()
    ended = {n: run for n, run in runs.items() if run.state is not TrialState.RUNNING}
    due = [name for name, run in ended.items() if run.readouts and name not in kept]
    if len(due) > 1:
        there = set(storage_of(config.runs_folder).entries())
        due = [name for name in due if name in there]
    for name in due:
        folder = config.directory(name)
        try:
            if tables := sweeps_in(folder):
                write_document(folder, TABLES, json.dumps(tables))
                kept.add(name)
        except StorageError as error:  # MLflow and the report do without these pictures
            logger.warning("%s: its readout tables could not be kept: %s", name, error)
