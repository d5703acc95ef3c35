"""``sentune serve``: a model behind HTTP."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Annotated

from typer import Option

from sentune.cli.options import Model
from sentune.errors import InvalidValue, SentuneError
from sentune.terminal import say


def serve(
    model: Model,
    host: Annotated[str, Option(help="Address that it listens on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535)] = 8000,
    replicas: Annotated[int, Option(min=1, help="Processes with the model.")] = 1,
    max_batch: Annotated[int, Option(min=1, help="Requests encoded at once.")] = 32,
) -> None:
    """Answer embeddings, entails, similarity and direction over HTTP, with Ray Serve.

    It has no authentication: leave it on 127.0.0.1, or put it behind a proxy that has.
    """
    from sentune.embedder.load import folder_of
    from sentune.training.model import check_model, read_settings

    folder = folder_of(model).resolve()
    read_settings(folder)
    check_model(folder)
    try:
        from sentune import serving
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "sentune":
            raise
        fix = "Ray Serve is not installed: pip install 'sentune[serve]'"
        raise SentuneError(fix) from error
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            fix = f"it cannot be listened on ({error.strerror}); give another one"
            raise InvalidValue("--port", f"{host}:{port}", fix) from error
    from sentune.study.planning.connect import connected

    with connected():
        serving.run(str(folder), host=host, port=port, replicas=replicas, max_batch=max_batch)
        say(f"http://{host}:{port}: {', '.join(ROUTES)}; /docs describes them (Ctrl-C ends it)")
        over = threading.Event()
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, lambda *_: over.set())
        over.wait()


ROUTES = ("/embeddings", "/entails", "/similarity", "/direction", "/health")
