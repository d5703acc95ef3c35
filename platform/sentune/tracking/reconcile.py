"""Updates MLflow's runs of a study to the state of a snapshot by sending the differences."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.errors import Overtaken
from sentune.io.atomic import read_document
from sentune.io.object_store import on_this_machine
from sentune.records import StudySummary
from sentune.report.sweep_figures import write_tables
from sentune.tracking.client import DOUBTFUL, NEVER, Point, Refusals, Refused, RunKey, digest_of
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

DIGEST = "sentune.digest"
"""Tag of a run with the digest of its content."""
GENERATION = "sentune.generation"
"""Tag of a study's run with the number of the start that has written it."""
LEFT = {"artifacts": "artifacts", "report.html": "report", "report.md": "report"}
"""File or folder in a study's folder -> folder of MLflow's artifacts that it is uploaded to."""
ONE_CALL = 100
"""Number of params, tags and metrics that MLflow's client sends in one call."""
Item = tuple[str, Any]
"""``("param", (name, value))``, ``("tag", (name, value))`` or ``("point", Point)``."""


class Server:
    """One connection to MLflow, with the state of a study's runs on the server.

    Do not use it after an error. ``refusals`` are shared with later connections.
    """

    def __init__(self, client: Any, runs: StudyRuns, refusals: Refusals) -> None:
        self._client, self._runs, self._refusals = client, runs, refusals
        self._sent: dict[RunKey, tuple[StoredRun, bool, bool]] = {}
        self._done: set[str] = set()

    def reconcile(
        self, study: StudySnapshot, summary: StudySummary, work: Path, registered: str
    ) -> str:
        """Update MLflow to the state of a snapshot and a summary.

        Args:
            work: the study's local folder with report and artifacts.
            registered: name of the registered model.

        Returns:
            MLflow's id of the study's run.

        Raises:
            Overtaken: the study's run has the generation of a later start.
        """
        of_study, folder = study_content(study, summary, registered), study.place.folder
        whole = self._runs.get(RunKey(), of_study.began or _now())
        self._once(of_study.digest, lambda: self._refuse_late(whole, of_study))
        if driven := of_study.status == RUNNING:
            self._send(of_study, folder)
        for run in (*study.runs, *study.finals):
            sent = run, run.name in study.tables, driven or run.ended is not None
            if self._sent.get(key := RunKey(run.trial, run.seed)) != sent:
                content = run_content(run, tables=sent[1], varied=study.varied, driven=driven)
                self._send(content, folder)
                self._sent[key] = sent
        self._once(("datasets", summary.corpora), lambda: self._datasets(whole, summary.corpora))
        for file, text in documents(study, summary).items():
            self._once((file, text), partial(self._document, whole, file, text))
        if not driven:
            self._leave(whole, of_study, summary, work, registered)
            self._send(of_study, folder)
        return whole.id

    def _leave(
        self, whole: Run, of_study: RunContent, summary: StudySummary, work: Path, registered: str
    ) -> None:
        """Send the results of a study that has ended: its pages, its model and its finding."""
        described, winner = of_study.tags["mlflow.note.content"], winner_of(summary)
        for name, into in LEFT.items():
            if (path := work / name).exists():
                send = partial(upload, self._client, whole, path, into)
                self._once((name, of_study.digest), send)
        if summary.model is not None and winner is not None:
            tags = model_tags(summary, winner)
            register = partial(self._model, whole, summary.model, registered, described, tags)
            self._once((summary.model, of_study.digest), register)
        found = described.partition("\n")[0]
        self._once(("found", found), lambda: self._runs.describe(found))

    def _refuse_late(self, whole: Run, of_study: RunContent) -> None:
        """Refuse to overwrite the run of a later start of the study.

        Raises:
            Overtaken: the run has a larger generation.
        """
        ours = int(of_study.tags.get(GENERATION, 0))
        theirs = int(self._client.get_run(whole.id).data.tags.get(GENERATION, 0))
        if ours and theirs > ours:
            raise Overtaken(f"start {theirs} of this study has written there, this is start {ours}")

    def _once(self, content: Any, action: Callable[[], object]) -> None:
        """Run an action unless this connection has already sent its content."""
        if (known := digest_of(content)) not in self._done:
            self._refusals.guard(content, action)
            self._done.add(known)

    def _send(self, content: RunContent, folder: str) -> None:
        """Send the missing parts of a run in one call, then its end."""
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
        if len(items) >= ONE_CALL:  # MLflow's client splits it into several calls
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
        """Log items in one call; if it is refused, find the refused items by bisection."""
        items = [item for item in items if (run.id, item) not in self._refusals]
        if not items:
            return
        try:
            self._batch(run, items)
        except Exception as error:
            several = len(items) > 1 and getattr(error, "error_code", "") in NEVER | DOUBTFUL
            if not several and not self._refusals.is_final((run.id, items[0]), error):
                raise
            run.check(self._client, error)
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
            run.points[point.name][point.step] = point.value

    def _tables(self, run: Run, folder: str, name: str) -> None:
        """Upload the tables of a run's sweeps, with their figures."""
        from sentune.study.store.study_view import TABLES

        if (text := read_document(f"{folder}/trials/{name}", TABLES)) is None:
            return

        def send() -> None:
            with tempfile.TemporaryDirectory(prefix="sentune-readouts-") as scratch:
                write_tables(json.loads(text), Path(scratch))
                self._client.log_artifacts(run.id, scratch, "readouts")

        run.put(self._client, "readouts", digest_of(text), send)

    def _document(self, whole: Run, file: str, text: str) -> None:
        client = self._client
        whole.put(client, file, digest_of(text), lambda: client.log_text(whole.id, text, file))

    def _datasets(self, whole: Run, corpora: Mapping[str, Mapping[str, Any]]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        said = without_credentials(dict(corpora))
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
        client = self._client
        whole.put(client, "datasets", digest_of(said), lambda: client.log_inputs(whole.id, inputs))

    def _model(
        self, whole: Run, place: str, name: str, description: str, tags: Mapping[str, str]
    ) -> None:
        """Register a model folder or URI as the champion of a registered model."""
        with ExitStack() as copy:
            try:
                folder = copy.enter_context(on_this_machine(place))
            except FileNotFoundError as error:
                raise Refused(f"{place} does not exist") from error
            publish(self._client, whole, folder, name, description, tags)


def _now() -> int:
    return round(1000 * time.time())
