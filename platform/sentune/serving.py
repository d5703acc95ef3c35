"""A model behind HTTP, by Ray Serve: ``sentune serve``. Needs the extra ``serve``.

Annotations are not postponed here: Ray Serve sends the class by value, and FastAPI would look for
the names in a module that the replica does not have.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from ray import serve

from sentune import __version__
from sentune.embedder.embedder import Embedder
from sentune.embedder.encode import Embeddings
from sentune.errors import InvalidValue
from sentune.study.planning.capacity import available
from sentune.terminal import say

MOST = 4096
"""Sentences or pairs of one request."""

Sentence = Annotated[str, Field(max_length=100_000)]


class SentencesBody(BaseModel):
    """Sentences to embed."""

    sentences: list[Sentence] = Field(min_length=1, max_length=MOST)


class PairsBody(BaseModel):
    """Pairs of sentences to compare."""

    pairs: list[tuple[Sentence, Sentence]] = Field(min_length=1, max_length=MOST)


class EmbeddingsAnswer(BaseModel):
    """[N, D] embeddings."""

    embeddings: list[list[float]]


class ScoresAnswer(BaseModel):
    """[N] scores."""

    scores: list[float]


class DirectionsAnswer(BaseModel):
    """Which of each pair entails the other: ``first``, ``second`` or ``neither``."""

    entailing: list[str]


class HealthAnswer(BaseModel):
    """What answers."""

    status: str
    method: str
    model: str


web = FastAPI(title="sentune", description="A model of sentence embeddings.", version=__version__)


@web.exception_handler(RequestValidationError)
async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
    """Say what is wrong without repeating it: half of a surrogate pair cannot be sent."""
    named = ("type", "loc", "msg")
    said = [{name: one[name] for name in named} for one in error.errors()]
    return JSONResponse({"detail": said}, status_code=422)


@serve.deployment
@serve.ingress(web)
class ModelServer:
    """A replica with the model; what requests ask for at the same time is encoded in one batch."""

    def __init__(self, model: str, max_batch: int) -> None:
        self.model, self.embedder = model, Embedder.load(model)
        self._encoding = threading.Lock()
        self._embed.set_max_batch_size(max_batch)

    def check_health(self) -> None:
        """Encode a sentence, unless one that encodes already shows that it lives.

        Ray Serve starts a replica anew where that fails, or takes 30 s.
        """
        if self._encoding.acquire(blocking=False):
            try:
                self.embedder.encode("health")
            finally:
                self._encoding.release()

    def _encode(self, sentences: list[str]) -> Embeddings:
        with self._encoding:
            return self.embedder.encode(sentences, show_progress=False)

    @serve.batch(batch_wait_timeout_s=0.005)  # type: ignore[untyped-decorator]
    async def _embed(self, requests: list[list[str]]) -> list[Embeddings]:
        """Return [n, D] embeddings for each request of n sentences."""
        every = [sentence for request in requests for sentence in request]
        rows = await asyncio.to_thread(self._encode, every)  # health checks are answered meanwhile
        return np.split(rows, np.cumsum([len(request) for request in requests])[:-1])

    async def _sides(self, pairs: Sequence[tuple[str, str]]) -> tuple[Embeddings, Embeddings]:
        rows: Embeddings = await self._embed([one for pair in pairs for one in pair])
        return rows[::2], rows[1::2]

    @web.get("/health")
    async def health(self) -> HealthAnswer:
        """Which model answers."""
        return HealthAnswer(status="ok", method=self.embedder.name, model=self.model)

    @web.post("/embeddings")
    async def embeddings(self, body: SentencesBody) -> EmbeddingsAnswer:
        """Packed embeddings, as ``Embedder.encode`` gives them."""
        rows: Embeddings = await self._embed(body.sentences)
        return EmbeddingsAnswer(embeddings=rows.tolist())

    @web.post("/entails")
    async def entails(self, body: PairsBody) -> ScoresAnswer:
        """How far the first sentence of each pair entails the second."""
        found: Any = self.embedder.entails(*await self._sides(body.pairs))
        return ScoresAnswer(scores=[one.score for one in found])

    @web.post("/similarity")
    async def similarity(self, body: PairsBody) -> ScoresAnswer:
        """Similarity of each pair, the same both ways."""
        found: Any = self.embedder.similarity(*await self._sides(body.pairs))
        return ScoresAnswer(scores=found.tolist())

    @web.post("/direction")
    async def direction(self, body: PairsBody) -> DirectionsAnswer:
        """Which sentence of each pair entails the other."""
        try:
            found: Any = self.embedder.direction(*await self._sides(body.pairs))
        except InvalidValue as error:
            raise HTTPException(422, str(error)) from error
        return DirectionsAnswer(entailing=[one.entailing for one in found])


def run(
    model: str, *, host: str, port: int, replicas: int, max_batch: int, gpus: float | None
) -> None:
    """Start the server on the cluster that this process has joined, and wait until it answers.

    Args:
        gpus: of a replica; None: the largest even part of one with which all have room.

    Raises:
        InvalidValue: the cluster has no room for so many replicas, and cannot grow to it.
        RuntimeError: Ray Serve could not start it.
    """
    cluster = available()
    if gpus is None:  # as many to each GPU, since one of them holds a replica's part
        total = sum(node.gpus for node in cluster.nodes)
        gpus = 1 / math.ceil(max(1.0, replicas / total)) if total else 0.0
    now, most = (
        sum(node.holds(gpus) for node in nodes) for nodes in (cluster.nodes, cluster.reachable)
    )
    if replicas > most:
        each = "a CPU" + (f" and {gpus:.3g} GPUs" if gpus else "")
        raise InvalidValue("--replicas", replicas, f"the cluster has room for {most}, {each} each")
    if replicas > now:
        say(f"waiting for the cluster to grow: it has room for {now} of {replicas} replicas")
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    serve.start(http_options={"host": host, "port": port})
    deployment: Any = ModelServer
    needs = {"num_gpus": gpus}
    served = deployment.options(num_replicas=replicas, ray_actor_options=needs).bind(
        model, max_batch
    )
    serve.run(served, name="sentune", route_prefix="/")
