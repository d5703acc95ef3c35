"""The summary is a stable interface: what is written satisfies the schema and reads back."""

import json
from pathlib import Path

import jsonschema
import pytest

from sentune.errors import DamagedFile
from sentune.records import FinalistRecord, Spread, StudySummary, TrialRecord, TrialState
from sentune.summary import NAME, read_summary, schema, write_summary


def summary() -> StudySummary:
    trial = TrialRecord(
        id=0,
        state=TrialState.COMPLETE,
        settings={"batch_size": 32},
        readouts={"rte/threshold": 0.4},
        metrics={"direction/accuracy": 0.93, "rte/auc": float("nan")},
        examples=1000,
        seconds=3.5,
        curve={1000: {"direction/accuracy": 0.93}},
    )
    failed = TrialRecord(id=1, state=TrialState.FAILED, settings={}, reason="loss is nan at 64")
    finalist = FinalistRecord(
        trial=0,
        settings={"batch_size": 32},
        seeds=[1, 2],
        metrics={"direction/accuracy": Spread(mean=0.92, sd=0.01, values=[0.91, 0.93])},
    )
    return StudySummary(
        study="s",
        method="gumbel",
        state="complete",
        objective="direction/accuracy",
        mode="max",
        corpora={"corpus": {"spec": "builtin:nli", "fingerprint": "f", "rows": 10}},
        space={"batch_size": {"choice": [32]}},
        trials=[trial, failed],
        finalists=[finalist],
        winner=0,
        best=0,
        test={"direction/accuracy": 0.9},
        model="model",
    )


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    where = write_summary(summary(), str(tmp_path / "new" / "s"))
    content = read_summary(str(tmp_path / "new" / "s"))
    assert Path(where).name == NAME
    assert content["trials"][0]["readouts"] == {"rte/threshold": 0.4}
    assert content["finalists"][0]["metrics"]["direction/accuracy"]["values"] == [0.91, 0.93]
    assert "curve" not in content["trials"][0]


def test_a_figure_that_is_not_finite_is_left_out_as_json_has_none(tmp_path: Path) -> None:
    text = Path(write_summary(summary(), str(tmp_path))).read_text()
    assert "NaN" not in text
    assert json.loads(text)["trials"][0]["metrics"] == {"direction/accuracy": 0.93}


def test_a_metric_that_a_finalist_could_not_measure_is_left_out(tmp_path: Path) -> None:
    runs = {
        seed: TrialRecord(
            id=0, state=TrialState.COMPLETE, settings={}, metrics={"own/a": 0.5, "own/b": value}
        )
        for seed, value in ((1, float("nan")), (2, 0.5))
    }
    found = summary()
    found.finalists = [FinalistRecord.of(runs, trial=0, settings={})]
    write_summary(found, str(tmp_path))
    assert [*read_summary(str(tmp_path))["finalists"][0]["metrics"]] == ["own/a"]


def test_a_summary_that_breaks_the_schema_is_not_written(tmp_path: Path) -> None:
    broken = summary()
    broken.state = "unheard-of"
    with pytest.raises(jsonschema.ValidationError):
        write_summary(broken, str(tmp_path))
    assert not (tmp_path / NAME).exists()


def test_writing_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_summary(summary(), str(tmp_path))
    changed = summary()
    changed.state = "interrupted"
    write_summary(changed, str(tmp_path))
    assert read_summary(str(tmp_path))["state"] == "interrupted"
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


def test_another_version_is_refused_on_reading(tmp_path: Path) -> None:
    where = Path(write_summary(summary(), str(tmp_path)))
    content = json.loads(where.read_text())
    where.write_text(json.dumps({**content, "version": 99}))
    with pytest.raises(DamagedFile, match=r"summary\.json: it is damaged \(99 is not one of"):
        read_summary(str(tmp_path))


def test_a_summary_before_best_still_reads(tmp_path: Path) -> None:
    where = Path(write_summary(summary(), str(tmp_path)))
    content = json.loads(where.read_text())
    assert (content["version"], content["best"]) == (3, 0)
    del content["best"]
    where.write_text(json.dumps({**content, "version": 2}))
    assert read_summary(str(tmp_path))["study"] == "s"


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
