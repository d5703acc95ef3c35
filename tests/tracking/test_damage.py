"""A damaged database of MLflow: named, and written again from the studies once it is moved away."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentune.cli import dashboard
from sentune.errors import DamagedFile
from sentune.tracking import Tracker, resolve_model
from sentune.tracking.database import check_tracking_file
from sentune.tracking.environment import tracking_uri_in
from tests.cli.test_damaged_studies import garbage, pages, truncated
from tests.servers import free_port
from tests.tracking.story import Held, Story


def comparable(runs: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers that MLflow gives runs, and what it derives from them."""
    return {
        name: {key: run[key] for key in ("status", "parent", "params", "points", "artifacts")}
        for name, run in runs.items()
    }


@pytest.mark.parametrize("harm", [truncated, pages, garbage])
def test_a_damaged_database_is_named_and_written_again_once_it_is_moved_away(
    harm: Callable[[Path], None],
    empty_store: Path,
    storage: Path,
    story: Story,
    held: Held,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def start(uri: str) -> Tracker:
        options = {"tracking_uri": uri, "first_wait": 0.05}
        tracker = Tracker("little", str(storage), **options)
        tracker.start(story.snapshot, story.summary())
        tracker.update(story.ending())
        return tracker

    for number in range(2, 4):
        story.trial(number)
    story.finalists()
    uri, file = tracking_uri_in(str(storage)), storage / "mlflow.db"
    assert start(uri).close(120)
    whole = comparable(held(uri))
    check_tracking_file(uri)
    harm(file)
    with pytest.raises(DamagedFile, match=r"mlflow\.db: the database is damaged .*mv ") as told:
        check_tracking_file(uri)
    with pytest.raises(DamagedFile):
        dashboard.dashboard(str(storage), free_port())
    with pytest.raises(DamagedFile):
        resolve_model("models:/little@champion", uri)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert not start(uri).close(2)
    (line,) = [record.message for record in caplog.records if "training goes on" in record.message]
    assert f"{file}: the database is damaged" in line
    assert "Traceback" not in capfd.readouterr().err
    command = str(told.value).partition("(mv ")[2].partition(")")[0]
    subprocess.run(["mv", *command.split()], check=True)
    shutil.copy(empty_store, file)  # a start makes the tables anew
    # as another process would open it: MLflow keeps connections by the text of the address
    anew = f"sqlite:///{storage}/./mlflow.db"
    assert start(anew).close(120)
    assert comparable(held(anew)) == whole
