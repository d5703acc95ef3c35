"""Requests that `sentune serve` answers a second, and how long each waits: in batches against one
at a time.

Sixteen clients ask for one embedding each, again and again, of a small model made here, and of
all-MiniLM-L6-v2 where SENTUNE_MODELS names its folder. Needs the extra `serve`.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import torch
from measure import MODELS, machine, minilm

from sentune.encoders import load, prepare
from sentune.methods import REGISTRY
from sentune.training.model import save_model
from sentune.training.settings import TrainingSettings

CLIENTS, SECONDS, SENTENCE = 16, 20.0, "a small brown dog runs across a wide green meadow"


def made(spec: str, folder: Path) -> Path:
    """Return the folder of a model of boxes on an encoder."""
    encoder = prepare(spec, [SENTENCE], folder / "encoders")
    torch.manual_seed(0)
    method = REGISTRY["gumbel"](load(encoder), REGISTRY["gumbel"].settings_type())
    training = TrainingSettings(max_length=32)
    save_model(method, encoder, folder / "model", training=training, readouts={}, card={})
    return folder / "model"


def waited(model: Path, max_batch: int) -> list[float]:
    """Return the seconds that each request took, of those that were answered in ``SECONDS``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sentune", "serve", str(model), "--port", str(port),
               "--max-batch", str(max_batch)]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert "Ctrl-C stops it" in server.stdout.readline()
    answers: list[tuple[float, float]] = []
    over = threading.Event()
    body = json.dumps({"sentences": [SENTENCE]}).encode()

    def ask() -> None:
        while not over.is_set():
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/embeddings", body, {"Content-Type": "application/json"}
            )
            asked = time.perf_counter()
            with urllib.request.urlopen(request, timeout=60) as answer:
                json.load(answer)
            answers.append((time.perf_counter(), time.perf_counter() - asked))

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(SECONDS / 4)
    begun = time.perf_counter()
    time.sleep(SECONDS)
    over.set()
    for client in clients:
        client.join()
    server.send_signal(signal.SIGINT)
    server.wait(60)
    return [took for at, took in answers if begun <= at < begun + SECONDS]


def main() -> None:
    print(f"{'':28}requests/s   median      99 %")
    for spec in ("builtin:tiny", *([minilm()] if MODELS else [])):
        with tempfile.TemporaryDirectory() as folder:
            model = made(spec, Path(folder))
            found = {size: waited(model, size) for size in (1, 32)}
        for size, seconds in found.items():
            middle, late = np.quantile(seconds, [0.5, 0.99]) * 1000
            name = f"{Path(spec).name}, " + ("in batches" if size > 1 else "one at a time")
            rate = len(seconds) / SECONDS
            print(f"{name:34}{rate:4.0f} {middle:5.0f} ms  {late:5.0f} ms")
        print(f"{'':28}{len(found[32]) / len(found[1]):.2f} times the requests")
    print(machine(1))


if __name__ == "__main__":
    main()
