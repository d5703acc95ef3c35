"""``sentune dashboard``: MLflow's web interface for the studies of a storage folder."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from sentune.cli.options import check_port
from sentune.cli.study import storage_of
from sentune.errors import InvalidValue
from sentune.io.object_store import absolute
from sentune.terminal import say
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import artifact_root_in, quieten_mlflow, tracking_uri_in
from sentune.tracking.runs import runs_page

HOST = "127.0.0.1"


def dashboard(
    storage: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="Folder of the studies, as the job's --storage (default: studies, or "
            "$SENTUNE_STORAGE).",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Show studies, trials, curves, artifacts and models in the browser, with MLflow.

    The server listens on 127.0.0.1 only. To reach it from another machine, use a tunnel:
    ssh -L 5000:127.0.0.1:5000 HOST.
    """
    place = storage_of(storage)
    command = server_command(place, port)
    uri = tracking_uri_in(place)
    ensure_database(uri)  # or a study and this server might both create the tables
    page = runs_page(uri)
    say(f"MLflow for {place}: http://{HOST}:{port}{page} (Ctrl-C stops it)")
    quieten_mlflow()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # deprecations inside MLflow's server
    # MLflow's background jobs are not used, and they start several processes.
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    sys.stdout.flush()
    os.execv(command[0], command)


def server_command(storage: str, port: int) -> list[str]:
    """Return the command that starts an MLflow server on the storage's tracking database.

    The server refuses host headers other than this machine's names, which prevents DNS rebinding,
    and requests of other origins.

    Raises:
        InvalidValue: the storage has no tracking database, or the port is in use.
    """
    if "://" in absolute(storage):
        fix = "give a local folder; for other storages see the MLflow server of --tracking"
        raise InvalidValue("--storage", storage, fix)
    database = Path(tracking_uri_in(storage).removeprefix("sqlite:///"))
    if not database.exists():
        makes = f"sentune tune gumbel --storage {shlex.quote(storage)}"
        fix = f"{database} does not exist; `{makes}` creates it"
        raise InvalidValue("--storage", storage, fix)
    check_port(HOST, port)
    names = ("127.0.0.1", "localhost")
    return [
        *(sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)),
        *("--backend-store-uri", tracking_uri_in(storage)),
        *("--default-artifact-root", artifact_root_in(storage)),
        "--no-serve-artifacts",  # or any local process could upload files
        *("--allowed-hosts", ",".join(f"{name}:*" for name in names)),
        *("--cors-allowed-origins", ",".join(f"http://{name}:{port}" for name in names)),
        *("--x-frame-options", "DENY", "--workers", "1", "--uvicorn-opts", "--log-level warning"),
    ]
