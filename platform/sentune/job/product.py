"""The product of a study: the winner's model, measured once on the test corpora."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from sentune.corpora.ray_map import over_cluster, several_machines
from sentune.corpora.schema import Corpus, Kind
from sentune.embedder.embedder import Embedder
from sentune.embedder.references import StoredReferences
from sentune.errors import SentuneError
from sentune.job.corpora import (
    STORED,
    baselines,
    describe,
    needs_references,
    numbered,
    read_evaluation,
)
from sentune.job.test_set import TestReads, Winner
from sentune.launchers.artifact_transfer import ShippedFolder, ship
from sentune.readouts.sweep import sweeps_among
from sentune.records import StudySummary
from sentune.study.planning.connect import run_on_worker
from sentune.study.runner.retention import note_published
from sentune.summary import read_summary
from sentune.tasks import Result, tasks_for
from sentune.tasks.references import References
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.model import export_checkpoint

MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Product(ABC):
    """How the winner becomes a model folder.

    Attributes:
        settings: of the winner, fixed ones included.
        readouts: found on the model that is shipped.
        checkpoint: of the winner's best seed.
        storage: the study's own folder or URI.
        test: ``FORMAT:PATH`` of the test corpora.
        dev: what was selected on.
        prefer: kind of pairs to read where a format has several.
        gpus: GPUs that judging may use; without any it happens in this process.
        force_test: read the test corpora once more, for another winner; it is recorded.
    """

    settings: Mapping[str, Any]
    readouts: Mapping[str, Any]
    checkpoint: Path
    storage: str
    test: tuple[str, ...]
    dev: tuple[Corpus, ...]
    prefer: Kind | None = None
    gpus: float = 0.0
    force_test: bool = False

    @abstractmethod
    def export(
        self, summary: StudySummary, folder: Path, card: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Writes the model into a local folder."""

    def rules(self, judged: Sequence[Corpus]) -> dict[str, float]:
        """Return the metrics of rules without a model."""
        return baselines(None, judged)

    def references_for(self, judged: Sequence[Corpus]) -> References | None:
        """The reference sentences that judging on these corpora needs."""
        del judged
        return None

    def publish(self, summary: StudySummary) -> dict[str, Any]:
        """Writes ``model/``; test metrics, baselines and the model's place go into ``summary``.

        The test corpora are read here for the first time, and only once: a study that was complete
        before keeps the figures that it had, as long as winner and test corpora are the same.

        Returns:
            file name -> content of the tables: the sweeps of dev, and curves and counts of the
            test, without one of dev.

        Raises:
            StudyConflict: the test corpora were read before for another winner, or others were;
                model and summary stay as they are.
            SentuneError: the winner's checkpoint is gone.
        """
        tables = _read_tables(self.checkpoint)
        winner, reads = Winner.of(summary), TestReads(self.storage)
        known = _published(self.storage, summary, self.test)
        if known is not None:
            summary.corpora, summary.test = known["corpora"], known["test"]
            summary.baselines = known["baselines"]
        elif self.test:
            reads.begin(winner, self.test, force=self.force_test)
            tables = {**sweeps_among(tables), **self._judge(summary, reads)}
        else:
            summary.baselines = self.rules(self.dev)
        summary.best, summary.test_reads = winner.trial, reads.known
        summary.model = f"{self.storage}/{MODEL}"
        self._write(summary, _card(summary))
        note_published(self.storage, winner.run)
        return tables

    def _judge(self, summary: StudySummary, reads: TestReads) -> dict[str, Any]:
        test = read_evaluation(self.test, self.prefer)
        described = [describe(corpus) for corpus in test]
        reads.identify([corpus["fingerprint"] for corpus in described])
        for index, corpus in enumerate(described):
            summary.corpora[numbered("test", index)] = corpus
        with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
            folder = Path(scratch, MODEL)
            self.export(summary, folder, {})
            result = self._measured(str(folder), test)
        summary.baselines = _beside(result.metrics, self.rules(test))
        summary.test = {k: v for k, v in result.metrics.items() if k not in summary.baselines}
        return result.tables

    def _measured(self, folder: str, test: tuple[Corpus, ...]) -> Result:
        references = self.references_for(test)
        if not self.gpus:
            return _measure(folder, test, references)
        shipped = ship(folder)
        result: Result = run_on_worker(_measure_shipped, shipped, test, references, gpus=self.gpus)
        return result

    def _write(self, summary: StudySummary, card: Mapping[str, Mapping[str, Any]]) -> None:
        if "://" not in self.storage:
            self.export(summary, Path(self.storage, MODEL), card)
            return
        filesystem, path = fsspec.core.url_to_fs(self.storage)
        with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
            self.export(summary, Path(scratch, MODEL), card)
            filesystem.put(f"{scratch}/{MODEL}/", f"{path}/{MODEL}/", recursive=True)


@dataclass(frozen=True, kw_only=True)
class TrainedProduct(Product):
    """The product of a method that was trained by gradient.

    Attributes:
        encoder: folder that the trials' encoder came from.
        train: the training corpus.
        references: of interpretations; None where the method has none.
    """

    encoder: str
    train: Corpus | None
    references: References | None

    def rules(self, judged: Sequence[Corpus]) -> dict[str, float]:
        """Also what a bag of words learns from the training corpus."""
        return baselines(self.train, judged)

    def references_for(self, judged: Sequence[Corpus]) -> References | None:
        """All that were drawn, where a task compares interpretations."""
        return self.references if needs_references(judged) else None

    def export(
        self, summary: StudySummary, folder: Path, card: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Weights, tokenizer, settings, readouts, card, and the references."""
        export_checkpoint(
            self.checkpoint,
            folder,
            method=summary.method,
            settings=self.settings,
            encoder=self.encoder,
            readouts=self.readouts,
            card=card,
        )
        if card and self.references is not None:  # without a card it is only judged
            chosen = [int(n) for k, n in self.readouts.items() if k.endswith("/references")]
            counts = self.references.within(chosen or [STORED])
            sizes = {count: self.references.sizes[count] for count in counts}
            kept = self.references.sentences[: sizes[counts[-1]]]
            embeddings = Embedder.load(folder).embed(kept, show_progress=False)
            StoredReferences(kept, embeddings.cpu(), sizes).save(folder)


def _beside(measured: Mapping[str, float], rules: Mapping[str, float]) -> dict[str, float]:
    """Return the rules of the tasks that the model can do (a point has no direction)."""
    tasks = {name.partition("/")[0] for name in measured}
    return {name: value for name, value in rules.items() if name.partition("/")[0] in tasks}


def _read_tables(checkpoint: Path) -> dict[str, Any]:
    file = checkpoint / PROGRESS_FILE
    if not file.is_file():
        raise SentuneError(
            f"{checkpoint}: the winner's checkpoint is gone; start a new study with --fork NAME, "
            "which knows this one's trials and trains its finalists again"
        )
    said = json.loads(file.read_text(encoding="utf-8"))
    tables: dict[str, Any] = said["tables"]
    return tables


def _measure(folder: str, test: tuple[Corpus, ...], references: References | None) -> Result:
    embedder = Embedder.load(folder)
    spread = over_cluster if several_machines() else map
    tasks = tasks_for(*test, references=references, spread=spread)
    return embedder.evaluate(tasks, embedder.readouts)


def _measure_shipped(
    folder: ShippedFolder, test: tuple[Corpus, ...], references: References | None
) -> Result:
    return _measure(folder.open(), test, references)


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
    """Return a key of the winner: trial, seeds and metrics, or all trials without finals."""
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
        "Readings of the test set": _readings(summary),
        "Rules without a model": {n: f"{100 * v:.2f} %" for n, v in summary.baselines.items()},
        "Corpora": {
            role: f"{corpus['spec']} ({corpus['rows']:,} rows, {corpus['fingerprint']})"
            for role, corpus in summary.corpora.items()
        },
        "Lineage": summary.lineage,
    }


def _readings(summary: StudySummary) -> dict[str, str]:
    """Return time -> run of each reading where there were several, else nothing."""
    if len({read["run"] for read in summary.test_reads}) < 2:
        return {}
    return {
        read["time"]: f"{read['run']}{' (forced)' if read['forced'] else ''}"
        for read in summary.test_reads
    }
