from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import mlflow
import pytest

from sentune.errors import InvalidValue
from sentune.records import Spread
from sentune.tracking import Tracker
from sentune.tracking.client import mlflow_client
from sentune.tracking.environment import tracking_uri_in
from sentune.tracking.registry import resolve_model
from tests.tracking.story import Held, Story


def tell(story: Story, storage: Path) -> str:
    tracker = Tracker(story.name, str(storage))
    story.tell(tracker)
    assert tracker.close(120)
    return tracker.tracking_uri


def tell_end(story: Story, storage: Path, model: str) -> str:
    """A study of three trials without finals that leaves a model."""
    for number in range(3):
        story.trial(number)
    tracker = Tracker(story.name, str(storage))
    tracker.start(story.snapshot, story.summary("complete", model=model))
    assert tracker.close(120)
    return tracker.tracking_uri


def test_the_winner_is_the_champion(storage: Path, story: Story) -> None:
    uri = tell(story, storage)
    folder = resolve_model("models:/little@champion", uri)
    assert (folder / "model.safetensors").read_text() == "weights"
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "settings.json"}
    client = mlflow_client(uri)
    version = client.get_model_version_by_alias("little", "champion")
    run = client.get_run(version.run_id)
    assert run.info.run_name == "little"
    assert version.tags["metric.direction/accuracy"] == "0.8"
    assert "Embedder.load" in version.description


def test_a_storage_that_was_moved_keeps_its_champion_and_its_artifacts(
    storage: Path, story: Story, tmp_path: Path, held: Held
) -> None:
    uri = tell(story, storage)
    before = held(uri)
    runs = held(tell(story, storage.rename(tmp_path / "50%_moved")))
    assert {n: run["artifacts"] for n, run in runs.items()} == {
        n: run["artifacts"] for n, run in before.items()
    }
    moved = (tmp_path / "50%_moved").rename(tmp_path / "again")
    uri = tracking_uri_in(str(moved))
    folder = resolve_model("models:/little@champion", uri)
    assert folder.is_relative_to(moved / "mlartifacts")
    assert (folder / "model.safetensors").read_text() == "weights"
    client = mlflow_client(uri)
    (experiment,) = client.search_experiments(filter_string="name LIKE 'sentune/%'")
    assert experiment.artifact_location == (moved / "mlartifacts").as_uri()
    version = client.get_model_version_by_alias("little", "champion")
    assert client.get_run(version.run_id).info.artifact_uri.startswith((moved).as_uri())


def test_a_model_in_an_object_store_is_the_champion_too(
    storage: Path, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, place = fsspec.filesystem("memory"), "memory://registry/little/model"
    store.put(str(story.model("weights")), "/registry/little/model", recursive=True)
    uri = tell_end(story, storage, place)
    store.rm("/registry", recursive=True)
    folder = resolve_model("models:/little@champion", uri)
    assert (folder / "model.safetensors").read_text() == "weights"
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "settings.json"}


def test_two_processes_may_fetch_a_model_at_a_time(
    storage: Path, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    uri = tell_end(story, storage, str(story.model("weights")))
    client = mlflow_client(uri)
    ours = client.get_model_version_by_alias("little", "champion")
    of_run = ours.source.partition(f"{ours.run_id}/artifacts/")[2]
    source = f"runs:/{ours.run_id}/{of_run}"  # no folder of this machine, as on a server
    other = client.create_model_version("little", source, ours.run_id, tags=ours.tags)
    address, download = f"models:/little/{other.version}", mlflow.artifacts.download_artifacts
    first: list[Path] = []

    def overtaken(*where: Any, **options: Any) -> str:
        found: str = download(*where, **options)
        monkeypatch.setattr(mlflow.artifacts, "download_artifacts", download)
        first.append(resolve_model(address, uri))
        return found

    monkeypatch.setattr(mlflow.artifacts, "download_artifacts", overtaken)
    folder = resolve_model(address, uri)
    assert [folder] == first
    assert (folder / "model.safetensors").read_text() == "weights"
    (fetched,) = (tmp_path / "cache/sentune/models/little").iterdir()
    assert folder.is_relative_to(fetched)


def test_a_model_that_is_gone_is_said_and_holds_nothing_up(
    storage: Path, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    uri = tell_end(story, storage, "memory://registry/nowhere")
    assert "memory://registry/nowhere does not exist" in caplog.text
    run = mlflow_client(uri).search_runs(["1"], "run_name = 'little'")[0]
    assert run.info.status == "FINISHED"


def test_without_finalists_the_best_trial_is_the_champion(storage: Path, story: Story) -> None:
    client = mlflow_client(tell_end(story, storage, str(story.model("weights"))))
    version = client.get_model_version_by_alias("little", "champion")
    assert r"| learning\_rate | 0.01 |" in version.description
    assert "trial 2, one training run" in version.description


def test_the_champion_holds_every_constraint(storage: Path, story: Story) -> None:
    story.trial(2)
    story.trial(5)  # as good
    story.runs[2].record.violations = {"train/seconds<=1": 0.5}
    tracker = Tracker(story.name, str(storage))
    tracker.start(story.snapshot, story.summary("complete", model=str(story.model("weights"))))
    assert tracker.close(120)
    client = mlflow_client(tracker.tracking_uri)
    version = client.get_model_version_by_alias("little", "champion")
    assert "trial 5, one training run" in version.description


def test_same_content_is_one_version_and_a_new_one_leaves_the_old_alone(
    storage: Path, story: Story
) -> None:
    uri = tell(story, storage)
    tell(story, storage)
    client = mlflow_client(uri)
    assert str(client.get_model_version_by_alias("little", "champion").version) == "1"
    for start in range(2):
        model = story.model("better weights")
        for name in ("README.md", "manifest.json"):
            (model / name).write_text(f"written at start {start}")
        tell_end(story, storage, str(model))
        assert str(client.get_model_version_by_alias("little", "champion").version) == "2"
    for address, weights in (
        ("models:/little@champion", "better weights"),
        ("models:/little/1", "weights"),
    ):
        assert (resolve_model(address, uri) / "model.safetensors").read_text() == weights


def test_the_default_store_is_that_of_the_working_directory(
    storage: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_TRACKING_URI", "SENTUNE_TRACKING", "SENTUNE_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(storage)
    with pytest.raises(InvalidValue, match="MLFLOW_TRACKING_URI"):
        resolve_model("models:/little@champion")
    uri = tell(story, storage)
    (storage / "studies").symlink_to(storage)
    found = resolve_model("models:/little@champion")
    assert found == resolve_model("models:/little@champion", uri)
    monkeypatch.chdir(storage.parent)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert resolve_model("models:/little@champion") == found
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///nowhere.db")
    monkeypatch.setenv("SENTUNE_TRACKING", uri)
    assert resolve_model("models:/little@champion") == found
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.delenv("SENTUNE_TRACKING")
    monkeypatch.setenv("SENTUNE_STORAGE", str(storage))
    assert resolve_model("models:/little@champion") == found


@pytest.mark.parametrize("address", ["models:/little@loser", "models:/other@champion"])
def test_an_unknown_model_names_the_known_ones(storage: Path, story: Story, address: str) -> None:
    uri = tell(story, storage)
    with pytest.raises(InvalidValue, match="known models: little"):
        resolve_model(address, uri)


def test_an_address_of_another_form_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"models:/NAME@champion"):
        resolve_model("little@champion", "sqlite:///nowhere.db")


def test_damage_is_found(storage: Path, story: Story) -> None:
    uri = tell(story, storage)
    folder = resolve_model("models:/little@champion", uri)
    (folder / "model.safetensors").write_text("weighty")
    with pytest.raises(InvalidValue, match="has changed since it was registered"):
        resolve_model("models:/little@champion", uri)


def test_a_store_lies_where_its_storage_lies(tmp_path: Path) -> None:
    assert tracking_uri_in(str(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"
    assert tracking_uri_in(f"file://{tmp_path}") == f"sqlite:///{tmp_path}/mlflow.db"


def test_only_shares_are_percentages_in_the_description(storage: Path, story: Story) -> None:
    means = {
        "direction/accuracy": 0.8125, "probe/examples_per_second": 128569.2,
        "probe/seconds": 2175.7, "probe/loss": 0.399,
    }  # fmt: skip
    story.trial(2)
    summary = story.ending()
    summary.test = summary.baselines = {}
    summary.finalists[0].metrics = {
        name: Spread(mean=mean, sd=mean / 100, values=[0.99 * mean, 1.01 * mean])
        for name, mean in means.items()
    }
    tracker = Tracker(story.name, str(storage))
    tracker.start(story.snapshot, summary)
    assert tracker.close(120)
    client = mlflow_client(tracker.tracking_uri)
    text = client.get_model_version_by_alias("little", "champion").description
    assert [line for line in text.splitlines() if "/" in line and line.startswith("|")] == [
        "| **direction/accuracy** | 81.2 ± 0.8 % |",
        r"| probe/examples\_per\_second | 128,569 ± 1,286 |",
        "| probe/loss | 0.399 ± 0.004 |",
        "| probe/seconds | 36:16 ± 0:22 |",
    ]
