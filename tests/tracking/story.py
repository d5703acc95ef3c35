"""A small study that is told to a listener."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sentune.records import (
    FinalistRecord,
    Spent,
    Spread,
    StudyListener,
    StudySummary,
    TrialRecord,
    TrialState,
)

MILESTONES = (1000, 2000, 4000)
SPENT = Spent(trials=6, examples=24_000, hours=1.5, gpu_hours=3.0)


@dataclass
class Story:
    """Six trials: one fails, two are stopped early, three end; trial 0 gets two finalist seeds."""

    folder: Path
    name: str = "little"
    trials: int = 6
    state: str = "complete"
    records: list[TrialRecord] = field(default_factory=list)

    def summary(self, state: str = "running") -> StudySummary:
        return StudySummary(
            study=self.name,
            method="gumbel",
            state=state,
            objective="direction/accuracy",
            mode="max",
            corpora={"corpus": {"spec": "builtin:nli", "fingerprint": "f" * 16, "rows": 100}},
            space={"settings": {"learning_rate": {"uniform": [1e-5, 1e-2], "log": True}}},
            lineage={"packages": {"ray": "2.60.0"}, "git": {"commit": "c0ffee", "dirty": False}},
            trials=list(self.records),
        )

    def start(self, listener: StudyListener) -> None:
        listener.study_started(self.summary(), {"trials": self.trials, "max_examples": 4000})

    def trial(self, listener: StudyListener, number: int) -> None:
        settings = {"learning_rate": 10.0**-number, "pooling": "cls", "deep": {"er": [1, 2]}}
        record = TrialRecord(id=number, state=TrialState.RUNNING, settings=settings)
        listener.trial_started(record)
        for examples in MILESTONES[: 1 + number % 3]:
            metrics = {"direction/accuracy": 0.5 + examples / 10000, "train/loss": 1.0}
            record.curve[examples], record.examples = metrics, examples
            record.metrics = {"direction/accuracy": metrics["direction/accuracy"]}
            listener.trial_progressed(record, examples, metrics)
        record.state = (TrialState.PRUNED, TrialState.FAILED, TrialState.COMPLETE)[number % 3]
        record.reason = "" if record.state == "complete" else f"because of {number}"
        record.readouts, record.seconds = {"rte/threshold": 0.25}, 1.5
        record.gpu_seconds, record.restarts, record.notes = 3.0, number, [f"note of {number}"]
        listener.trial_ended(record)
        self.records.append(record)

    def finalists(self, listener: StudyListener) -> None:
        for seed in (1, 2):
            listener.finalist_started(2, seed)
            for examples in MILESTONES:
                listener.finalist_progressed(2, seed, examples, {"direction/accuracy": 0.8})
            listener.finalist_ended(2, seed, {"direction/accuracy": 0.8}, {"rte/threshold": 0.2})

    def end(self, listener: StudyListener) -> None:
        summary = self.summary("complete")
        spread = Spread(mean=0.8, sd=0.01, values=[0.79, 0.81])
        summary.finalists = [
            FinalistRecord(
                trial=2,
                settings=self.records[2].settings,
                seeds=[1, 2],
                metrics={"direction/accuracy": spread},
            )
        ]
        summary.spent, summary.verdict = SPENT, "trial 2 won; the difference is within noise"
        summary.winner, summary.test = 0, {"direction/accuracy": 0.78}
        summary.model = str(self.model("weights"))
        listener.artifact(self.note(), "notes")
        listener.study_ended(summary)

    def model(self, weights: str) -> Path:
        folder = self.folder / "model"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_text(weights)
        (folder / "settings.json").write_text("{}")
        return folder

    def note(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "note.txt").write_text("content")
        return self.folder / "note.txt"

    def tell(self, listener: StudyListener) -> None:
        """The whole story."""
        self.records = []
        self.start(listener)
        for number in range(self.trials):
            self.trial(listener, number)
        self.finalists(listener)
        self.end(listener)
