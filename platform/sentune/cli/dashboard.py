"""``sentune dashboard``: MLflow's pages over what studies have left in a storage folder."""

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
    """Show studies, trials, curves, artifacts and models in the browser.

    It listens on 127.0.0.1 alone and answers only requests addressed to this machine. From
    elsewhere, go through a tunnel: ssh -L 5000:127.0.0.1:5000 HOST.
    """
    place = storage_of(storage)
    command = server_command(place, port)
    uri = tracking_uri_in(place)
    ensure_database(uri)  # before a study and this server both find it empty and make its tables
    page = runs_page(uri)
    say(f"MLflow over {place}: http://{HOST}:{port}{page} (Ctrl-C ends it)")
    quieten_mlflow()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # deprecations inside MLflow's server
    # Nothing here runs MLflow's background jobs, which start several processes more.
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    sys.stdout.flush()
    os.execv(command[0], command)


def server_command(storage: str, port: int) -> list[str]:
    """Return the command of a server over the storage's tracking database.

    Host headers other than this machine's names are refused (a page elsewhere could otherwise
    reach the server by rebinding its own name), and so are other origins than the server's own.

    Raises:
        InvalidValue: the storage has no tracking database, or the port is taken.
    """
    if "://" in absolute(storage):
        fix = "give a local folder; studies elsewhere are on the MLflow server of their --tracking"
        raise InvalidValue("--storage", storage, fix)
    database = Path(tracking_uri_in(storage).removeprefix("sqlite:///"))
    if not database.exists():
        makes = f"sentune tune gumbel --storage {shlex.quote(storage)}"
        fix = f"{database} does not exist; `{makes}` makes it"
        raise InvalidValue("--storage", storage, fix)
    check_port(HOST, port)
    names = ("127.0.0.1", "localhost")
    return [
        *(sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)),
        *("--backend-store-uri", tracking_uri_in(storage)),
        *("--default-artifact-root", artifact_root_in(storage)),
        "--no-serve-artifacts",  # else any local process may upload files into its working folder
        *("--allowed-hosts", ",".join(f"{name}:*" for name in names)),
        *("--cors-allowed-origins", ",".join(f"http://{name}:{port}" for name in names)),
        *("--x-frame-options", "DENY", "--workers", "1", "--uvicorn-opts", "--log-level warning"),
    ]
