"""``sentune serve``, over HTTP, against the embedder itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from ray.exceptions import ActorAlreadyExistsError

import sentune
from sentune.embedder.embedder import Embedder
from sentune.encoders import prepare
from sentune.errors import InvalidValue, SentuneError
from sentune.study.planning.capacity import Capacity, Node
from sentune.training.model import seal_model
from tests.servers import free_port
from tests.training.test_model import saved

pytestmark = [pytest.mark.extras, pytest.mark.timeout(900)]
PAIRS = [["a poodle runs", "a dog runs"], ["a dog runs", "no animal moves"]]
SENTENCES = [sentence for pair in PAIRS for sentence in pair]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    encoder = prepare("builtin:tiny?layers=1&width=32", SENTENCES, folder / "encoders")
    saved("gumbel", encoder, folder / "model")
    seal_model(folder / "model", {})
    return folder / "model"


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "sentune", "serve", str(model), "--port", str(port)]
    with (model.parent / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            while f"http://127.0.0.1:{port}: " not in (model.parent / "log").read_text():
                assert server.poll() is None, (model.parent / "log").read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


@pytest.mark.parametrize(
    ("replicas", "given", "each"), [(1, None, 1), (3, None, 0.5), (4, None, 0.5), (4, 0.0, 0)]
)
def test_replicas_share_the_gpus(
    replicas: int, given: float | None, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    from sentune import serving

    deployment = MagicMock()
    monkeypatch.setattr(serving, "ModelServer", deployment)
    monkeypatch.setattr(serving, "serve", MagicMock())
    two = Capacity.fixed(Node(cpus=8, gpus=2))
    monkeypatch.setattr(serving, "available", lambda: two)
    monkeypatch.setattr(serving, "list_named_actors", lambda all_namespaces: [])
    with serving.running("model", host="h", port=1, replicas=replicas, max_batch=1, gpus=given):
        pass
    needs = {"num_gpus": each}
    deployment.options.assert_called_once_with(num_replicas=replicas, ray_actor_options=needs)


@pytest.mark.parametrize(
    ("reachable", "gpus", "said"),
    [
        (2, None, "--replicas: 6 .*room for 2, a CPU each"),
        (8, 0.5, "--replicas: 6 .*room for 0, a CPU and 0.5 GPUs each"),
        (8, None, ""),
    ],
)
def test_replicas_without_room_are_refused_or_wait_for_the_cluster_to_grow(
    reachable: int,
    gpus: float | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    from sentune import serving

    small, large = Node(cpus=2), Node(cpus=reachable)
    monkeypatch.setattr(serving, "available", lambda: Capacity(nodes=(small,), reachable=(large,)))
    monkeypatch.setattr(serving, "list_named_actors", lambda all_namespaces: [])
    monkeypatch.setattr(serving, "serve", MagicMock())
    monkeypatch.setattr(serving, "ModelServer", MagicMock())
    given: dict[str, Any] = {"replicas": 6, "max_batch": 1, "gpus": gpus}
    if said:
        with (
            pytest.raises(InvalidValue, match=said),
            serving.running("model", host="h", port=1, **given),
        ):
            pass
        assert not serving.serve.start.called
    else:
        with serving.running("model", host="h", port=1, **given):
            pass
        assert "room for 2 of 6 replicas" in capsys.readouterr().out


def test_a_server_on_a_cluster_replaces_no_other_and_ends_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    from sentune import serving

    serve, actors = MagicMock(), list[dict[str, str]]()
    given = {"host": "h", "port": 1, "replicas": 1, "max_batch": 1, "gpus": None}
    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(serving, "ModelServer", MagicMock())
    monkeypatch.setattr(serving, "list_named_actors", lambda all_namespaces: actors)
    monkeypatch.setattr(serving, "available", lambda: Capacity.fixed(Node(cpus=2)))
    with serving.running("model", **given):
        assert not serve.shutdown.called
    assert serve.shutdown.call_count == 1
    with pytest.raises(KeyboardInterrupt), serving.running("model", **given):
        raise KeyboardInterrupt
    deployment = MagicMock(message="Traceback ...\nno such folder")
    application = MagicMock(deployments={"ModelServer": deployment})
    for known, why in (({}, "it failed"), ({"sentune": application}, "no such folder")):
        serve.status.return_value.applications = known
        serve.run.side_effect = RuntimeError("it failed\nat a line")
        with pytest.raises(SentuneError, match=f"cannot start it: {why}"):
            serving.running("model", **given).__enter__()
    assert serve.shutdown.call_count == 4
    serve.start.side_effect = ActorAlreadyExistsError("a server that was started meanwhile")
    with pytest.raises(SentuneError, match="runs Ray Serve already"):
        serving.running("model", **given).__enter__()
    serve.start.side_effect = None
    actors.append({"name": "SERVE_CONTROLLER_ACTOR", "namespace": "serve"})
    with pytest.raises(SentuneError, match="runs Ray Serve already"):
        serving.running("model", **given).__enter__()
    assert serve.shutdown.call_count == 4, "another one's is not ended"


def test_a_replica_that_encodes_answers_health_checks() -> None:
    """A check neither waits for the encoding nor encodes beside it."""
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    from sentune import serving

    begun, checked = threading.Event(), threading.Event()

    def encode(sentences: list[str], **_: Any) -> Any:
        begun.set()
        assert checked.wait(30), "the check came after the encoding"
        return np.zeros((len(sentences), 2), np.float32)

    own = serving.ModelServer.func_or_class.__mro__[1]  # without what Ray Serve puts around it
    replica = object.__new__(own)
    replica.embedder = MagicMock(encode=MagicMock(side_effect=encode))
    replica._encoding = threading.Lock()

    async def ask() -> Any:
        answer = asyncio.ensure_future(own._embed.__wrapped__(replica, [["a dog runs"]]))
        assert await asyncio.to_thread(begun.wait, 30)
        replica.check_health()
        checked.set()
        return await answer

    assert [rows.shape for rows in asyncio.run(ask())] == [(1, 2)]
    replica.embedder.encode.assert_called_once()


def asked(address: str, route: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{address}/{route}", content, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_it_answers_as_the_embedder_does(address: str, model: Path) -> None:
    own = Embedder.load(model, "cpu")
    left, right = map(list, zip(*PAIRS, strict=True))
    assert asked(address, "health") == {"status": "ok", "method": "gumbel", "model": str(model)}
    vectors = asked(address, "embeddings", {"sentences": SENTENCES})["embeddings"]
    np.testing.assert_allclose(vectors, own.encode(SENTENCES), atol=1e-5)
    scores = asked(address, "entails", {"pairs": PAIRS})["scores"]
    assert scores == pytest.approx([one.score for one in own.entails(left, right)], abs=1e-5)
    similar = asked(address, "similarity", {"pairs": PAIRS})["scores"]
    assert similar == pytest.approx(own.similarity(left, right), abs=1e-5)
    directions = asked(address, "direction", {"pairs": PAIRS})["entailing"]
    assert directions == [one.entailing for one in own.direction(left, right)]


def test_many_clients_get_their_own_answers(address: str, model: Path) -> None:
    """Their sentences are encoded in one batch."""
    own = Embedder.load(model, "cpu")
    sentences = [[f"{count} dogs run"] * (1 + count % 3) for count in range(24)]
    found: dict[int, Any] = {}

    def ask(place: int) -> None:
        found[place] = asked(address, "embeddings", {"sentences": sentences[place]})["embeddings"]

    clients = [threading.Thread(target=ask, args=(place,)) for place in range(len(sentences))]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for place, said in found.items():
        np.testing.assert_allclose(said, own.encode(sentences[place]), atol=1e-5)
    assert len(found) == len(sentences)


def test_its_interface_is_described_and_wrong_requests_are_refused(address: str) -> None:
    described = asked(address, "openapi.json")
    assert described["info"]["version"] == sentune.__version__
    paths = described["paths"]
    assert set(paths) == {"/health", "/embeddings", "/entails", "/similarity", "/direction"}
    with urllib.request.urlopen(f"{address}/docs", timeout=60) as page:
        assert b"/openapi.json" in page.read()
    for route, body, field in (
        ("embeddings", {"sentences": []}, "sentences"),
        ("entails", {"pairs": [["alone"]]}, "pairs"),
        ("embeddings", {"sentences": ["half a pair: \ud83d"]}, "sentences"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(address, route, body)
        assert refused.value.code == 422
        assert field in refused.value.read().decode()
