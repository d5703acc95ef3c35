"""The HTTP server of ``sentune serve``, with Ray Serve. Needs the extra ``serve``.

Annotations are not postponed in this module, because Ray Serve pickles the class by value and
FastAPI would look up their names in a module that the replica does not have.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from ray import serve
from ray.exceptions import ActorAlreadyExistsError, RayError
from ray.util import list_named_actors

from sentune import __version__
from sentune.embedder.embedder import Embedder
from sentune.embedder.encode import Embeddings
from sentune.errors import InvalidValue, SentuneError, first_line
from sentune.study.planning.capacity import available
from sentune.study.planning.connect import STARTED_HERE
from sentune.terminal import say

NAME, NAMESPACE = "sentune", "serve"
"""Name of the application, and Ray's namespace of the actors of Ray Serve."""
TAKEN = (
    "this cluster runs Ray Serve already; end it with RAY_DASHBOARD_ADDRESS=http://HEAD:8265 "
    "`serve shutdown -y`, or unset RAY_ADDRESS to serve from this machine"
)
MOST = 4096
"""Largest number of sentences or pairs per request."""

Sentence = Annotated[str, Field(max_length=100_000)]


class SentencesBody(BaseModel):
    """Sentences to embed."""

    sentences: list[Sentence] = Field(min_length=1, max_length=MOST)


class PairsBody(BaseModel):
    """Pairs of sentences to compare."""

    pairs: list[tuple[Sentence, Sentence]] = Field(min_length=1, max_length=MOST)


class EmbeddingsAnswer(BaseModel):
    """Embeddings, [N, D]."""

    embeddings: list[list[float]]


class ScoresAnswer(BaseModel):
    """Scores, [N]."""

    scores: list[float]


class DirectionsAnswer(BaseModel):
    """The sentence of each pair that entails the other: ``first``, ``second`` or ``neither``."""

    entailing: list[str]


class HealthAnswer(BaseModel):
    """The model that answers requests."""

    status: str
    method: str
    model: str


web = FastAPI(title="sentune", description="A model of sentence embeddings.", version=__version__)


@web.exception_handler(RequestValidationError)
async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
    """Return errors without the refused input, which may be a surrogate that cannot be encoded."""
    named = ("type", "loc", "msg")
    said = [{name: one[name] for name in named} for one in error.errors()]
    return JSONResponse({"detail": said}, status_code=422)


@serve.deployment
@serve.ingress(web)
class ModelServer:
    """A replica with the model; simultaneous requests are encoded in one batch.

    Args:
        model: its folder.
        max_batch: largest number of requests per batch.
    """

    def __init__(self, model: str, max_batch: int) -> None:
        self.model, self.embedder = model, Embedder.load(model)
        self._encoding = threading.Lock()
        self._embed.set_max_batch_size(max_batch)

    def check_health(self) -> None:
        """Encode a sentence, unless the replica is busy encoding.

        Ray Serve restarts a replica if this fails or takes 30 s.
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
        rows = await asyncio.to_thread(self._encode, every)  # does not block health checks
        return np.split(rows, np.cumsum([len(request) for request in requests])[:-1])

    async def _sides(self, pairs: Sequence[tuple[str, str]]) -> tuple[Embeddings, Embeddings]:
        rows: Embeddings = await self._embed([one for pair in pairs for one in pair])
        return rows[::2], rows[1::2]

    @web.get("/health")
    async def health(self) -> HealthAnswer:
        """Return the status and the model."""
        return HealthAnswer(status="ok", method=self.embedder.name, model=self.model)

    @web.post("/embeddings")
    async def embeddings(self, body: SentencesBody) -> EmbeddingsAnswer:
        """Return packed embeddings, like ``Embedder.encode``."""
        rows: Embeddings = await self._embed(body.sentences)
        return EmbeddingsAnswer(embeddings=rows.tolist())

    @web.post("/entails")
    async def entails(self, body: PairsBody) -> ScoresAnswer:
        """Return scores of how far the first sentence of each pair entails the second."""
        found: Any = self.embedder.entails(*await self._sides(body.pairs))
        return ScoresAnswer(scores=[one.score for one in found])

    @web.post("/similarity")
    async def similarity(self, body: PairsBody) -> ScoresAnswer:
        """Return the symmetric similarity of each pair."""
        found: Any = self.embedder.similarity(*await self._sides(body.pairs))
        return ScoresAnswer(scores=found.tolist())

    @web.post("/direction")
    async def direction(self, body: PairsBody) -> DirectionsAnswer:
        """Return which sentence of each pair entails the other."""
        try:
            found: Any = self.embedder.direction(*await self._sides(body.pairs))
        except InvalidValue as error:
            raise HTTPException(422, str(error)) from error
        return DirectionsAnswer(entailing=[one.entailing for one in found])


@contextmanager
def running(
    model: str, *, host: str, port: int, replicas: int, max_batch: int, gpus: float | None
) -> Iterator[None]:
    """Run the server on the cluster that this process has joined, from its first answer on.

    On a joined cluster Ray Serve would go on after this process, so it is shut down in the end.

    Args:
        model: its folder.
        host, port: to listen on.
        replicas: number of processes with the model.
        max_batch: largest number of requests per batch.
        gpus: per replica; None: the largest equal share, at most one, with which all replicas fit.

    Raises:
        InvalidValue: the cluster has no room for the replicas even at its largest.
        SentuneError: the cluster runs Ray Serve already, or Ray Serve cannot start the server.
    """
    cluster = available()
    if gpus is None:  # the same number of replicas on each GPU: a share must be of a single GPU
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
    if any(actor["namespace"] == NAMESPACE for actor in list_named_actors(all_namespaces=True)):
        raise SentuneError(TAKEN)
    deployment: Any = ModelServer
    placed = deployment.options(num_replicas=replicas, ray_actor_options={"num_gpus": gpus})
    with ExitStack() as ending:
        if not STARTED_HERE.is_set():  # else it ends with the cluster
            ending.callback(serve.shutdown)
        try:
            serve.start(http_options={"host": host, "port": port})
            serve.run(placed.bind(model, max_batch), name=NAME, route_prefix="/")
        except ActorAlreadyExistsError as error:  # of a server that was started meanwhile
            ending.pop_all()
            raise SentuneError(TAKEN) from error
        except (RuntimeError, RayError) as error:
            raise SentuneError(f"Ray Serve cannot start it: {_reason(error)}") from error
        yield


def _reason(error: Exception) -> str:
    """Return why a deployment failed: the last line of its message, else that of the error."""
    try:
        application = serve.status().applications.get(NAME)
    except RayError:  # Ray Serve is gone, too
        application = None
    deployments = [] if application is None else application.deployments.values()
    lines = [line for one in deployments for line in one.message.splitlines() if line.strip()]
    return lines[-1].strip() if lines else first_line(error)
