"""Brings MLflow up to date with a study's storage and folder; one thread sends what differs.

Nothing waits in a queue. An outage, a kill and a new server are the same case: the next pass (of
this process, or of the study's next start) finds what differs.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.errors import Overtaken
from sentune.io.atomic import read_document
from sentune.io.object_store import on_this_machine
from sentune.io.waits import WAITS
from sentune.records import StudySummary
from sentune.report.sweep_figures import write_sweeps
from sentune.tracking.client import (
    DOUBTFUL,
    NEVER,
    Point,
    Refusals,
    Refused,
    RunKey,
    digest_of,
    legal,
    mlflow_client,
)
from sentune.tracking.database import ensure_database
from sentune.tracking.environment import (
    artifact_root_in,
    local_folder,
    quieten_mlflow,
    shorten_timeouts,
    tracking_uri_in,
)
from sentune.tracking.registry import publish
from sentune.tracking.run_content import (
    RUNNING,
    RunContent,
    documents,
    model_tags,
    run_content,
    study_content,
    winner_of,
)
from sentune.tracking.runs import Run, StudyRuns, upload

if TYPE_CHECKING:
    from sentune.study.store.study_view import StoredRun, StudySnapshot

log = logging.getLogger(__name__)

GATHER = 1.0
"""Seconds between two passes of a study: what is stored meanwhile goes in one call a run."""
LONGEST_WAIT = 30.0
"""Seconds between two tries, at most."""
DIGEST = "sentune.digest"
"""Tag of a run with the digest of all that it was sent."""
GENERATION = "sentune.generation"
"""Tag of a study's run with the number of the study's start that has written there."""
ONE_CALL = 100
"""Params, tags and metrics that go in one call in any case."""
Item = tuple[str, Any]
"""``("param", (name, value))``, ``("tag", (name, value))`` or ``("point", Point)``."""


class Server:
    """One connection to MLflow with a study's runs as the server has them; no use after an error.

    Args:
        client: an ``MlflowClient``.
        runs: of the study.
        refusals: what is not tried again; it outlives the connection.
    """

    def __init__(self, client: Any, runs: StudyRuns, refusals: Refusals) -> None:
        self._client, self._runs, self._refusals = client, runs, refusals
        self._sent: dict[RunKey, tuple[StoredRun, bool]] = {}
        self._done: set[str] = set()

    def reconcile(
        self, study: StudySnapshot, summary: StudySummary, work: Path | None, registered: str
    ) -> None:
        """Bring MLflow's runs of a study to the state of a snapshot.

        Args:
            study: as it is stored.
            summary: what its driver says of it.
            work: local folder with what the job leaves for its readers; None: the study's own.
            registered: name of the registered model.
        """
        from sentune.study.store.study_view import artifacts_in

        of_study, folder = study_content(study, summary, registered), study.place.folder
        self._once(("start", of_study.digest), lambda: self._refuse_late(of_study))
        if of_study.status == RUNNING:
            self._send(of_study, folder)
        for run in (*study.runs, *study.finals):
            sent = run, run.name in study.tables
            if self._sent.get(key := RunKey(run.trial, run.seed)) != sent:
                self._send(run_content(run, tables=sent[1]), folder)
                self._sent[key] = sent
        self._once(("datasets", summary.corpora), lambda: self._datasets(summary.corpora))
        for file, text in documents(study, summary).items():
            self._once((file, text), partial(self._document, file, text))
        if of_study.status == RUNNING:
            return
        for path, into in study.artifacts if work is None else artifacts_in(str(work)):
            send = partial(upload, self._client, self._of_study(), path, into)
            self._once((str(path), of_study.digest), send)
        if summary.model is not None and winner_of(summary) is not None:
            described, tags = of_study.tags["mlflow.note.content"], model_tags(summary)
            register = partial(self._model, summary.model, registered, described, tags)
            self._once((summary.model, of_study.digest), register)
        self._send(of_study, folder)

    def _refuse_late(self, of_study: RunContent) -> None:
        """Refuse to send what an earlier start says of a study that a later one has sent.

        Raises:
            Overtaken: the study's run has the generation of a later start.
        """
        ours = int(of_study.tags.get(GENERATION, 0))
        run = self._runs.get(RunKey(), of_study.began or _now())
        theirs = int(self._client.get_run(run.id).data.tags.get(GENERATION, 0))
        if ours and theirs > ours:
            raise Overtaken(f"start {theirs} of this study has written there, this is start {ours}")

    def _once(self, content: Any, action: Callable[[], object]) -> None:
        """Run an action for a content that this connection has not sent."""
        if (known := digest_of(content)) not in self._done:
            self._refusals.guard(content, action)
            self._done.add(known)

    def _send(self, content: RunContent, folder: str) -> None:
        """Send what the server lacks of a run in one call, then its end."""
        known = str(content.key), content.digest
        self._refusals.guard(known, lambda: self._send_difference(content, folder))

    def _send_difference(self, content: RunContent, folder: str) -> None:
        run = self._runs.get(content.key, content.began or _now())
        if run.tags.get(DIGEST) == content.digest and run.status == content.status:
            return
        if content.tables:
            self._tables(run, folder, content.tables)
        items: list[Item] = [
            *(("param", pair) for pair in content.params.items() if pair[0] not in run.params),
            *(("tag", pair) for pair in content.tags.items() if run.tags.get(pair[0]) != pair[1]),
            *(("point", point) for point in self._runs.missing(run, content.points)),
        ]
        if len(items) >= ONE_CALL:  # MLflow's client makes several calls of it
            self._log(run, items)
            items = []
        self._log(run, [*items, ("tag", (DIGEST, content.digest))])
        if content.key.trial is None and content.status != RUNNING:
            self._runs.drop_doubles()
        if run.status != content.status:
            if content.status == RUNNING:
                self._client.update_run(run.id, status=RUNNING)
            else:
                self._client.set_terminated(run.id, content.status, content.ended or _now())
            run.status = content.status

    def _log(self, run: Run, items: Sequence[Item]) -> None:
        """Log items in one call; of a refused call, halves find the refused item."""
        items = [item for item in items if (run.id, item) not in self._refusals]
        if not items:
            return
        try:
            self._batch(run, items)
        except Exception as error:
            several = len(items) > 1 and getattr(error, "error_code", "") in NEVER | DOUBTFUL
            if not several and not self._refusals.is_final((run.id, items[0]), error):
                raise
            if self._client.get_run(run.id).info.lifecycle_stage != "active":
                raise ConnectionError(f"run {run.id} was deleted; it is made again") from error
            if several:
                self._log(run, items[: len(items) // 2])
                self._log(run, items[len(items) // 2 :])
            else:
                self._refusals.add((run.id, items[0]), error)

    def _batch(self, run: Run, items: Sequence[Item]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        now = _now()
        points: list[Point] = [said for kind, said in items if kind == "point"]
        params = dict(said for kind, said in items if kind == "param")
        tags = dict(said for kind, said in items if kind == "tag")
        self._client.log_batch(
            run.id,
            metrics=[Metric(p.name, p.value, p.time or now, p.step) for p in points],
            params=[Param(name, value) for name, value in params.items()],
            tags=[RunTag(name, value) for name, value in tags.items()],
        )
        run.params |= params.keys()
        run.tags |= tags
        for point in points:
            run.points[point.name].add(point.step)

    def _tables(self, run: Run, folder: str, name: str) -> None:
        """Upload the tables of a run's sweeps, with their pictures."""
        from sentune.study.store.study_view import TABLES

        text = read_document(f"{folder}/trials/{name}", TABLES)
        if text is None or run.holds("readouts", digest_of(text)):
            return
        with tempfile.TemporaryDirectory(prefix="sentune-readouts-") as scratch:
            write_sweeps(json.loads(text), Path(scratch))
            upload(self._client, run, Path(scratch), "readouts", digest_of(text))

    def _of_study(self) -> Run:
        return self._runs.get(RunKey(), _now())

    def _document(self, file: str, text: str) -> None:
        run = self._of_study()
        if not run.holds(file, digest_of(text)):
            self._client.log_text(run.id, text, file)
            run.note(self._client, file, digest_of(text))

    def _datasets(self, corpora: Mapping[str, Mapping[str, Any]]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        run, said = self._of_study(), without_credentials(dict(corpora))
        if run.holds("datasets", digest_of(said)):
            return
        inputs = [
            DatasetInput(
                Dataset(
                    name=str(corpus.get("spec", role))[:500],
                    digest=str(corpus.get("fingerprint", ""))[:36],
                    source_type="sentune",
                    source=json.dumps({"spec": corpus.get("spec")})[:65535],
                    profile=json.dumps(corpus.get("counts") or {"rows": corpus.get("rows")}),
                ),
                [InputTag("mlflow.data.context", role)],
            )
            for role, corpus in said.items()
        ]
        self._client.log_inputs(run.id, inputs)
        run.note(self._client, "datasets", digest_of(said))

    def _model(self, place: str, name: str, description: str, tags: Mapping[str, str]) -> None:
        """Register a model folder or URI as the champion of a name."""
        with ExitStack() as copy:
            try:
                folder = copy.enter_context(on_this_machine(place))
            except FileNotFoundError as error:
                raise Refused(f"{place} is gone") from error
            publish(self._client, self._of_study(), folder, name, description, tags)


class Tracker:
    """Reconciles MLflow with one study, from a thread of its own, at most once a second.

    Calls return at once, whether the server answers or not. Call ``close`` at the end: it makes
    the last pass.

    Args:
        study: name of the study.
        tracking_uri: MLflow's server or database.
        artifact_root: where a new experiment keeps its artifacts; None leaves it to the server.
        work: local folder with what the job leaves for its readers; None: the study's own.
        first_wait: seconds until a failed pass is tried again; doubles up to ``LONGEST_WAIT``.
    """

    def __init__(
        self,
        study: str,
        tracking_uri: str,
        *,
        artifact_root: str | None = None,
        work: Path | None = None,
        first_wait: float = 0.5,
    ) -> None:
        quieten_mlflow()
        shorten_timeouts()
        self.study, self.tracking_uri = study, tracking_uri
        self._artifact_root, self._work, self._first_wait = artifact_root, work, first_wait
        self._refusals = Refusals(tracking_uri)
        self._take_snapshot: Callable[[], StudySnapshot] | None = None
        self._summary: StudySummary | None = None
        self._server: Server | None = None
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._hurry = self._left = self._overtaken = False
        self._check: Callable[[], None] = lambda: None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="sentune-tracking", daemon=True)

    @classmethod
    def in_storage(
        cls, study: str, storage: str, *, tracking_uri: str | None = None, **options: Any
    ) -> Tracker:
        """The tracker of a study in a storage, with the storage's own database by default.

        Args:
            storage: folder of all studies; a URI needs ``tracking_uri``.
            options: as the class takes them.

        Raises:
            InvalidValue: the storage is no local folder and no ``tracking_uri`` was given.
        """
        uri = tracking_uri or tracking_uri_in(storage)
        if not uri.startswith(("http://", "https://", "databricks")):
            options.setdefault("artifact_root", artifact_root_in(storage))
        return cls(study, uri, work=local_folder(storage, study), **options)

    def start(
        self,
        take_snapshot: Callable[[], StudySnapshot],
        summary: StudySummary,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the thread.

        Args:
            take_snapshot: takes a snapshot of the study; called from another thread.
            summary: what its driver says of it; ``update`` gives a newer one.
            check: raises ``Overtaken`` where another start drives the study; called before each
                pass. After that, nothing is sent any more.
        """
        self._take_snapshot, self._check = take_snapshot, check
        self.update(summary)
        self._thread.start()

    def notify(self) -> None:
        """Ask for a pass, since the study has changed."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def update(self, summary: StudySummary) -> None:
        """Take a new summary of the driver, and ask for a pass."""
        self._summary = replace(summary, corpora=dict(summary.corpora))
        self.notify()

    def flush(self, timeout: float) -> bool:
        """Waits for a pass after this call, at most ``timeout`` seconds; tries at once.

        Returns:
            Whether MLflow holds all of the study.
        """
        with self._changed:
            self._hurry = True
            self.notify()
            asked = self._asked
            return self._changed.wait_for(lambda: self._done >= asked, timeout)

    def close(self, timeout: float = 60.0) -> bool:
        """Makes the last pass, at most ``timeout`` seconds long, and ends the thread.

        Returns:
            Whether MLflow holds all of the study; what it does not is sent by the next start.
        """
        if self._take_snapshot is None:
            return True
        done = self.flush(timeout)
        with self._changed:
            self._left = True
            self._changed.notify_all()
        if done:
            self._thread.join(timeout)
        else:
            log.warning(
                "not everything reached %s (%s); the study's next start (the same command) sends "
                "what is missing",
                without_credentials(self.tracking_uri),
                self._trouble or f"{timeout:g} s were not enough",
            )
        return done

    def _run(self) -> None:
        wait = self._first_wait
        while (asked := self._next()) is not None:
            done = self._pass()
            with self._changed:
                self._hurry = self._hurry and self._asked > asked
                if done:
                    self._done, wait = asked, self._first_wait
                    self._changed.notify_all()
                    continue
                self._changed.wait_for(lambda: self._hurry or self._left, wait)
                wait = self._first_wait if self._hurry else min(2 * wait, LONGEST_WAIT)

    def _next(self) -> int | None:
        """Waits until a pass is due; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked > self._done or self._left)
            if not self._trouble:  # a pass that failed has waited
                self._changed.wait_for(lambda: self._hurry or self._left, GATHER)
            return None if self._left else self._asked

    def _pass(self) -> bool:
        """One pass; False where it failed, which is reported once."""
        name = without_credentials(self.tracking_uri)
        if self._overtaken:
            return True
        try:
            with WAITS.until(f"MLflow at {self.tracking_uri}", "training goes on meanwhile"):
                self._check()
                self._reconcile()
        except Overtaken as error:
            log.warning("nothing more of this start is sent to %s: %s", name, error)
            self._overtaken = True
            return True
        except Exception as error:  # noqa: BLE001  # MLflow may fail in any way, a study must not
            self._server = None
            if not self._trouble:
                log.warning(
                    "%s cannot be reached (%s); training goes on, and MLflow gets what it lacks "
                    "when it answers",
                    name,
                    _reason(error),
                )
            self._trouble = _reason(error)
            return False
        if self._trouble:
            log.info("%s answers again", name)
            self._trouble = ""
        return True

    def _reconcile(self) -> None:
        assert self._take_snapshot is not None
        assert self._summary is not None
        study, summary = self._take_snapshot(), self._summary
        if self._server is None:
            ensure_database(self.tracking_uri)
            client = mlflow_client(self.tracking_uri)
            runs = StudyRuns(client, self._artifact_root, self.study, study.identity)
            self._server = Server(client, runs, self._refusals)
        self._server.reconcile(study, summary, self._work, re.sub("[/:]", "-", legal(self.study)))


def _now() -> int:
    return round(1000 * time.time())


def _reason(error: BaseException) -> str:
    """Return a short reason: the operating system's error under an HTTP client's, if any."""
    root = error
    while root.__cause__ or root.__context__:
        root = root.__cause__ or root.__context__  # type: ignore[assignment]
    told = root if isinstance(root, OSError) else error
    text: str = without_credentials(f"{type(told).__name__}: {told}")
    return text if len(text) <= 500 else f"{text[:500]} ..."
