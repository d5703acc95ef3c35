from __future__ import annotations

from pathlib import Path

import pytest

from sentune.credentials import without_credentials
from sentune.records import TrialRecord, TrialState
from tests.tracking.story import Story, close, tracker_in


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://ann:pw@host:5000/x", "http://host:5000/x"),
        ("postgresql+psycopg2://ann:p@ss:w@db/optuna", "postgresql+psycopg2://db/optuna"),
        ("failed at http://u:p@h, then http://v:q@i/", "failed at http://h, then http://i/"),
        ("https://x/y?sig=abc%2F&a=1", "https://x/y?sig=***&a=1"),
        ("s3://bucket/x?X-Amz-Signature=ff&b=2", "s3://bucket/x?X-Amz-Signature=***&b=2"),
        ("AWS_SECRET_ACCESS_KEY=abc job.py", "AWS_SECRET_ACCESS_KEY=*** job.py"),
        ("tune.py --api-key abc --trials 3", "tune.py --api-key *** --trials 3"),
        ("tune.py --token=abc", "tune.py --token=***"),
    ],
)
def test_credentials_go(text: str, clean: str) -> None:
    assert without_credentials(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=512 tokenizer=bert --set temperature=0.05",
        "snli:/data/a@b.jsonl",
        "hf:org/name@main?split=train",
        "models:/gumbel@champion",
        "sqlite:////home/ann/studies/mlflow.db",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_lists_and_dicts_are_walked() -> None:
    nested = {"a": ["http://u:p@h/", {"b": "?token=x"}], "n": 1, "none": None}
    assert without_credentials(nested) == {
        "a": ["http://h/", {"b": "?token=***"}],
        "n": 1,
        "none": None,
    }


def test_no_credential_leaves(storage: Path, story: Story) -> None:
    summary = story.summary()
    summary.corpora["corpus"]["spec"] = "parquet:s3://key:hush@bucket/x"
    summary.lineage["command"] = "tune.py --tracking http://ann:hush@host --token hush"
    summary.plan = {"optuna": "postgresql://ann:hush@db/x"}
    settings = {"encoder": "https://u:hush@hub/x", "list": ["http://u:hush@h"]}
    trial = TrialRecord(id=0, state=TrialState.FAILED, settings=settings)
    trial.reason = "cannot open http://u:hush@h/x?sig=hush"
    story.store(trial)
    tracker = tracker_in(storage)
    tracker.start(story.snapshot, summary)
    close(tracker)
    files = [path for path in storage.rglob("*") if path.is_file()]
    assert any(path.name == "mlflow.db" for path in files)
    assert [path for path in files if b"hush" in path.read_bytes()] == []
