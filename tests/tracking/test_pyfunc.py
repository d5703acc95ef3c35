"""A registered model answers through MLflow as ``Embedder`` does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sentune
from sentune import Embedder
from sentune.errors import InvalidValue
from tests.servers import free_port
from tests.tracking.story import Story
from tests.tracking.test_registry import tell_end

PAIRS = pd.DataFrame({"sentence": ["a poodle runs", "a dog"], "other": ["a dog runs", "a cat"]})


@pytest.fixture
def uri(storage: Path, story: Story, tmp_path: Path) -> str:
    """Database in which a small GumbelCSE model is the champion of ``little``."""
    settings, run = {"learning_rate": 1e-3}, tmp_path / "run"
    sentune.fit("gumbel", set=settings, max_examples=64, limit=64, out=run)
    return tell_end(story, storage, str(run / "model"))


def test_the_champion_is_loaded_and_predicts(
    uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.set_tracking_uri(uri)
    ours = Embedder.load("models:/little@champion")
    theirs = mlflow.pyfunc.load_model("models:/little@champion")
    first, second = PAIRS["sentence"].tolist(), PAIRS["other"].tolist()
    np.testing.assert_array_equal(theirs.predict(PAIRS[["sentence"]]), ours.encode(first))
    card = (tmp_path / "run/model/README.md").read_text(encoding="utf-8")
    (line,) = (line for line in card.splitlines() if line.startswith("mlflow.pyfunc"))
    shown = eval(line.replace("NAME", "little"), {"mlflow": mlflow})
    np.testing.assert_array_equal(shown, ours.encode(["A poodle runs."]))
    scores = theirs.predict(PAIRS, params={"output": "entails"})
    assert scores == [one.score for one in ours.entails(first, second)]
    np.testing.assert_array_equal(
        theirs.predict(PAIRS, params={"output": "similarity"}), ours.similarity(first, second)
    )
    directions = theirs.predict(PAIRS, params={"output": "direction"})
    assert directions == [one.entailing for one in ours.direction(first, second)]
    with pytest.raises(InvalidValue, match=r"output.*embeddings, entails"):
        theirs.predict(PAIRS, params={"output": "colour"})
    with pytest.raises(InvalidValue, match="second sentence"):
        theirs.predict(PAIRS[["sentence"]], params={"output": "entails"})


@pytest.mark.servers
def test_mlflow_serves_it(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    port, own = free_port(), str(Path(sys.executable).parent)  # it calls uvicorn by its name
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    where = ["--model-uri", "models:/little@champion", "--port", str(port), "--host", "127.0.0.1"]

    def answer(output: str) -> Any:
        body = {"dataframe_split": PAIRS.to_dict("split"), "params": {"output": output}}
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=60) as said:
            return json.load(said)["predictions"]

    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([*command, *where], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 300
            while not listens(port):
                assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-2000:]
                time.sleep(0.5)
            scores, directions = answer("entails"), answer("direction")
            similar, vectors = answer("similarity"), answer("embeddings")
        finally:
            server.terminate()
            server.wait()
    ours = Embedder.load("models:/little@champion")
    pair = PAIRS["sentence"].tolist(), PAIRS["other"].tolist()
    assert scores == pytest.approx([one.score for one in ours.entails(*pair)])
    assert directions == [one.entailing for one in ours.direction(*pair)]
    assert similar == pytest.approx(ours.similarity(*pair))
    np.testing.assert_allclose(vectors, ours.encode(pair[0]), rtol=1e-5)


def listens(port: int) -> bool:
    """Return whether a server takes connections at a port of this machine."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
