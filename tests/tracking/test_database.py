"""The database that MLflow's tables are made in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
