"""Requests that `sentune serve` answers a second, in batches against one at a time.

Sixteen clients ask for one embedding each, again and again, of a small model made here. Needs the
extra `serve`.
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
from collections import Counter
from pathlib import Path

import torch
from measure import machine

from sentune.encoders import load, prepare
from sentune.methods import REGISTRY
from sentune.training.model import save_model
from sentune.training.settings import TrainingSettings

CLIENTS, SECONDS, SENTENCE = 16, 20.0, "a small brown dog runs across a wide green meadow"


def made(folder: Path) -> Path:
    """Return the folder of a model of boxes on the built-in encoder."""
    encoder = prepare("builtin:tiny", [SENTENCE], folder / "encoders")
    torch.manual_seed(0)
    method = REGISTRY["gumbel"](load(encoder), REGISTRY["gumbel"].settings_type())
    training = TrainingSettings(max_length=32)
    save_model(method, encoder, folder / "model", training=training, readouts={}, card={})
    return folder / "model"


def answered(model: Path, max_batch: int) -> float:
    """Return answers a second."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sentune", "serve", str(model), "--port", str(port),
               "--max-batch", str(max_batch)]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert "Ctrl-C ends it" in server.stdout.readline()
    counts: Counter[bool] = Counter()
    over = threading.Event()
    body = json.dumps({"sentences": [SENTENCE]}).encode()

    def ask() -> None:
        while not over.is_set():
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/embeddings", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                json.load(answer)
            counts[True] += 1

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(SECONDS / 4)
    begun = counts[True]
    time.sleep(SECONDS)
    rate = (counts[True] - begun) / SECONDS
    over.set()
    for client in clients:
        client.join()
    server.send_signal(signal.SIGINT)
    server.wait(60)
    return rate


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = made(Path(folder))
        one, many = answered(model, 1), answered(model, 32)
    print(f"one at a time  {one:6.0f} requests a second")
    print(f"in batches     {many:6.0f} requests a second, {many / one:.2f} times")
    print(machine(1))


if __name__ == "__main__":
    main()
