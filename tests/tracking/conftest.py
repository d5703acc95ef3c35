from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sentune.tracking.environment import quieten_mlflow
from tests.tracking.story import Held, Story


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs: making its tables takes longer than most tests."""
    quieten_mlflow()
    import mlflow

    folder = tmp_path_factory.mktemp("empty")
    mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def storage(empty_store: Path, tmp_path: Path) -> Path:
    """A folder of studies."""
    return copied(empty_store, tmp_path / "storage")


@pytest.fixture
def other(empty_store: Path, tmp_path: Path) -> Path:
    """Another folder of studies."""
    return copied(empty_store, tmp_path / "other")


def copied(store: Path, folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(store, folder)
    return folder


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "product")


@pytest.fixture
def held() -> Held:
    """What a store holds: run name -> status, parent, params, tags, metric points, artifacts."""

    def read(tracking_uri: str) -> dict[str, Any]:
        import mlflow

        client = mlflow.MlflowClient(tracking_uri)
        experiments = client.search_experiments(filter_string="name LIKE 'sentune/%'")
        found = client.search_runs([e.experiment_id for e in experiments], max_results=1000)
        names = {run.info.run_id: run.info.run_name for run in found}
        assert len(set(names.values())) == len(found), "a run appears twice"
        return {
            run.info.run_name: {
                "id": run.info.run_id,
                "status": run.info.status,
                "parent": names.get(run.data.tags.get("mlflow.parentRunId", "")),
                "params": run.data.params,
                "tags": {
                    k: v for k, v in run.data.tags.items() if k.startswith(("sentune", "setting."))
                },
                "points": {
                    name: sorted(
                        (point.step, point.value)
                        for point in client.get_metric_history(run.info.run_id, name)
                    )
                    for name in run.data.metrics
                },
                "artifacts": sorted(a.path for a in client.list_artifacts(run.info.run_id)),
            }
            for run in found
        }

    return read
