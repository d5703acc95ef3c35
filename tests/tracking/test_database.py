"""The database that MLflow's tables are made in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from sentune.io.atomic import StorageError
from sentune.tracking.database import TABLES, ensure_database
from tests.interpreter import run_python

Usage = namedtuple("Usage", "total used free")
PACKAGE = """
import sys, time
version = None
sys.modules["__main__"].begun.set()
time.sleep(2)
import mlflow.store.tracking
version = "whole"
"""
STORE = """
import sys
assert sys.modules["mlflow"].version == "whole", "imported while its package was being imported"

class SqlAlchemyStore:
    def __init__(self, uri, artifacts):
        open(uri.removeprefix("sqlite:///"), "w").write("tables")
        self.engine = self

    def dispose(self):
        pass
"""
PROGRAM = """
import sys, threading
import sqlalchemy.engine  # its import would outlast the other one
from sentune.tracking.database import ensure_database

begun = threading.Event()
own = threading.Thread(target=lambda: (begun.wait(), ensure_database("sqlite:///" + sys.argv[1])))
own.start()
import mlflow
own.join()
"""


def test_tables_are_made_while_another_thread_imports_mlflow(tmp_path: Path) -> None:
    """Ray Tune does so on the driver's main thread; two that wait for each other end the study.

    A package of that name stands in for MLflow, whose import takes two seconds here.
    """
    store = tmp_path / "mlflow/store/tracking/sqlalchemy_store.py"
    store.parent.mkdir(parents=True)
    store.write_text(STORE)
    for folder in ("mlflow/store/tracking", "mlflow/store"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "mlflow/__init__.py").write_text(PACKAGE)
    path = [str(tmp_path), *sys.path]
    program = f"import sys; sys.path[:] = {path!r}\n{PROGRAM}"
    database = tmp_path / "mlflow.db"
    done = subprocess.run(
        [sys.executable, "-c", program, str(database)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert database.read_text() == "tables"


def test_a_disk_that_fills_while_the_tables_are_made_is_given_back_and_used_once_it_is_free(
    tmp_path: Path,
) -> None:
    """A limit on the size of files stands in for a full disk, and is then lifted."""
    code = f"""
import os, resource
from pathlib import Path
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import quieten_mlflow

quieten_mlflow()
for most in (400_000, 400_000, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        ensure_database("sqlite:///{tmp_path}/mlflow.db")
    except Exception as error:
        print(str(error).splitlines()[0])
    held = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    print([path.name for path in held if path.is_relative_to({str(tmp_path)!r})])
    print(os.listdir({str(tmp_path)!r}))
"""
    full = ["(sqlite3.OperationalError) disk I/O error", "[]", "[]"]
    assert run_python(code).splitlines() == [*full, *full, "[]", "['mlflow.db']"]


def test_tables_take_no_room_from_checkpoints_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, TABLES - 1))
    with pytest.raises(StorageError, match=r"mlflow\.db: the disk is full: 2,000,000 bytes"):
        ensure_database(f"sqlite:///{tmp_path}/mlflow.db")
    assert list(tmp_path.iterdir()) == []
