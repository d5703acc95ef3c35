"""What a study leaves: the winner's model, judged once on the test corpora."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from sentune.corpora.schema import Corpus
from sentune.embedder import Embedder
from sentune.job.baselines import baselines
from sentune.job.data import Corpora, describe, read_evaluation
from sentune.records import StudySummary
from sentune.search.cluster import run_on_worker
from sentune.search.shipping import ShippedFolder, ship
from sentune.summary import read_summary
from sentune.tasks import Result, evaluate, tasks_for
from sentune.training.checkpoints import PROGRESS_FILE
from sentune.training.model import export_checkpoint

MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Product:
    """How the winner becomes a model folder.

    Attributes:
        settings: of the winner, fixed ones included.
        readouts: found on the model that is shipped.
        checkpoint: of the winner's best seed.
        encoder: folder that the trials' encoder came from.
        storage: the study's own folder or URI.
        test: ``FORMAT:PATH`` of the test corpora.
        gpus: GPUs that judging may use; without any it happens in this process.
    """

    settings: Mapping[str, Any]
    readouts: Mapping[str, Any]
    checkpoint: Path
    encoder: str
    storage: str
    test: tuple[str, ...]
    gpus: float = 0.0

    def publish(self, summary: StudySummary, corpora: Corpora) -> dict[str, Any]:
        """Writes ``model/``; test metrics, baselines and the model's place go into ``summary``.

        The test corpora are read here for the first time, and only once: a study that was complete
        before keeps the figures that it had, as long as winner and test corpora are the same.

        Returns:
            file name -> content of the tables (curves, counts) of the test, without one of dev.
        """
        tables = {} if self.test else _read_tables(self.checkpoint)
        known = _published(self.storage, summary, self.test)
        if known is not None:
            summary.corpora, summary.test = known["corpora"], known["test"]
            summary.baselines = known["baselines"]
        elif self.test:
            tables = self._judge(summary, corpora)
        else:
            summary.baselines = baselines(corpora.train, corpora.dev)
        summary.model = f"{self.storage}/{MODEL}"
        self._write(summary, _card(summary))
        return tables

    def _judge(self, summary: StudySummary, corpora: Corpora) -> dict[str, Any]:
        test = read_evaluation(self.test)
        for index, corpus in enumerate(test):
            role = "test" if index == 0 else f"test-{index + 1}"
            summary.corpora[role] = describe(corpus)
        with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
            folder = Path(scratch, MODEL)
            self._export(summary, folder, {})
            result = self._measured(str(folder), test)
        summary.baselines = _beside(result.metrics, baselines(corpora.train, test))
        summary.test = {k: v for k, v in result.metrics.items() if k not in summary.baselines}
        return result.tables

    def _measured(self, folder: str, test: tuple[Corpus, ...]) -> Result:
        if not self.gpus:
            return _measure(folder, test)
        result: Result = run_on_worker(_measure_shipped, ship(folder), test, gpus=self.gpus)
        return result

    def _export(
        self, summary: StudySummary, folder: Path, card: Mapping[str, Mapping[str, Any]]
    ) -> None:
        export_checkpoint(
            self.checkpoint,
            folder,
            method=summary.method,
            settings=self.settings,
            encoder=self.encoder,
            readouts=self.readouts,
            card=card,
        )

    def _write(self, summary: StudySummary, card: Mapping[str, Mapping[str, Any]]) -> None:
        if "://" not in self.storage:
            self._export(summary, Path(self.storage, MODEL), card)
            return
        filesystem, path = fsspec.core.url_to_fs(self.storage)
        with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
            self._export(summary, Path(scratch, MODEL), card)
            filesystem.put(f"{scratch}/{MODEL}/", f"{path}/{MODEL}/", recursive=True)


def _beside(measured: Mapping[str, float], rules: Mapping[str, float]) -> dict[str, float]:
    """The rules of the tasks that the model can do: a point has no direction to compare."""
    tasks = {name.partition("/")[0] for name in measured}
    return {name: value for name, value in rules.items() if name.partition("/")[0] in tasks}


def _read_tables(checkpoint: Path) -> dict[str, Any]:
    said = json.loads((checkpoint / PROGRESS_FILE).read_text(encoding="utf-8"))
    tables: dict[str, Any] = said["tables"]
    return tables


def _measure(folder: str, test: tuple[Corpus, ...]) -> Result:
    embedder = Embedder.load(folder)
    return evaluate(
        tasks_for(*test),
        lambda sentences: embedder.embed(sentences, show_progress=False),
        embedder.geometry,
        embedder.readouts,
    )


def _measure_shipped(folder: ShippedFolder, test: tuple[Corpus, ...]) -> Result:
    return _measure(folder.open(), test)


def _published(storage: str, summary: StudySummary, test: tuple[str, ...]) -> dict[str, Any] | None:
    """The summary that stands, if it is complete and of the same winner and test corpora."""
    try:
        known = read_summary(storage)
    except FileNotFoundError:
        return None
    specs = tuple(c["spec"] for role, c in known["corpora"].items() if role.startswith("test"))
    same = (
        known["state"] == "complete"
        and _winner(known) == _winner(summary.to_dict())
        and specs == test
        and bool(known["test"])
    )
    return known if same else None


def _winner(summary: Mapping[str, Any]) -> Any:
    """What tells two winners apart: trial and seeds, or all trials where there are no finals."""
    if summary["winner"] is None:
        return [(trial["id"], trial["metrics"]) for trial in summary["trials"]]
    finalist = summary["finalists"][summary["winner"]]
    return finalist["trial"], finalist["seeds"], finalist["metrics"]


def _card(summary: StudySummary) -> dict[str, dict[str, Any]]:
    """Sections of the model card."""
    winner = summary.finalists[summary.winner].metrics if summary.winner is not None else {}
    return {
        "Development set, mean and standard deviation over seeds": {
            name: f"{100 * spread.mean:.2f} % ± {100 * spread.sd:.2f}"
            for name, spread in winner.items()
            if not name.startswith("train/")
        },
        "Test set, this model": {n: f"{100 * v:.2f} %" for n, v in summary.test.items()},
        "Rules without a model": {n: f"{100 * v:.2f} %" for n, v in summary.baselines.items()},
        "Corpora": {
            role: f"{corpus['spec']} ({corpus['rows']:,} rows, {corpus['fingerprint']})"
            for role, corpus in summary.corpora.items()
        },
        "Lineage": summary.lineage,
    }
