"""cluster.yaml: accepted by Ray's own check, and closed, cheap and reachable as it promises."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from sentune.cluster import NodeLimit, cluster_limits, running_cluster_file
from sentune.errors import InvalidValue

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "cluster.yaml"


@pytest.fixture
def config() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


def _start(commands: list[str]) -> str:
    [line] = [line for line in commands if "ray start" in line]
    return line


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    prepared = prepare_config(config)
    validate_config(prepared)
    assert prepared["head_node_type"] == "head"


def test_rays_check_can_fail(config: dict[str, Any]) -> None:
    config["max_worker"] = 3
    with pytest.raises(Exception, match="max_worker"):
        validate_config(prepare_config(config))


def test_the_head_takes_no_trial(config: dict[str, Any]) -> None:
    head = config["available_node_types"]["head"]
    assert head["resources"] == {"CPU": 0}
    command = shlex.split(_start(config["head_start_ray_commands"]))
    assert {"--num-cpus=0", "--num-gpus=0"} <= set(command)


def test_workers_come_when_wanted_and_cost_nothing_otherwise(config: dict[str, Any]) -> None:
    workers = [t for name, t in config["available_node_types"].items() if name != "head"]
    assert all(worker["min_workers"] == 0 for worker in workers)
    assert all(
        worker["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
        for worker in workers
    )
    assert config["max_workers"] == sum(worker["max_workers"] for worker in workers)
    assert config["provider"]["cache_stopped_nodes"] is False
    assert config["idle_timeout_minutes"] <= 10


def test_nothing_is_served_beyond_loopback(config: dict[str, Any]) -> None:
    command = _start(config["head_start_ray_commands"])
    assert "--dashboard-host=127.0.0.1" in shlex.split(command)
    assert "0.0.0.0" not in FILE.read_text()


def test_jobs_start_in_the_mounted_project(config: dict[str, Any]) -> None:
    assert "cd ~/sentune && ray start" in _start(config["head_start_ray_commands"])
    mounts = config["file_mounts"]
    needed = ["platform", "search_spaces", "jobs", "pyproject.toml", "requirements.lock"]
    assert all(mounts[f"~/sentune/{name}"] == name for name in needed)
    local = [path for path in mounts.values() if not path.startswith("~")]
    assert all((ROOT / path).exists() for path in local if path != "README.md")
    assert {".git", ".venv"} <= set(config["rsync_exclude"])


def test_setup_installs_exactly_the_lock(config: dict[str, Any]) -> None:
    installs = [line for line in config["setup_commands"] if "pip install" in line]
    assert installs[0].endswith("-r ~/sentune/requirements.lock")
    assert "--no-deps" in installs[1]


def test_the_lock_holds_names_and_versions_only() -> None:
    """Nodes install it as it stands: no path of another machine, no index address."""
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line]
    odd = [line for line in lines if not re.match(r"#|[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+$", line)]
    assert not odd


def test_token_is_a_private_file_and_the_mode_is_set_once(
    config: dict[str, Any], tmp_path: Path
) -> None:
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    token = tmp_path / ".ray/auth_token"
    token.parent.mkdir()
    token.write_text("secret")
    token.chmod(0o644)  # as `ray get-auth-token --generate` leaves it
    (tmp_path / ".bashrc").touch()
    lines = [
        line for line in config["setup_commands"] if "auth_token" in line or "AUTH_MODE" in line
    ]
    assert len(lines) == 2
    for line in lines * 2:
        subprocess.run(["bash", "-c", line], env={**os.environ, "HOME": str(tmp_path)}, check=True)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    asked = subprocess.run(
        ["bash", "-c", ". ~/.bashrc; echo $RAY_AUTH_MODE; echo $PATH"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert asked == ["token", f"{tmp_path}/venv/bin:/usr/bin:/bin"]
    assert (tmp_path / ".bashrc").read_text().count("RAY_AUTH_MODE") == 1
    assert "secret" not in FILE.read_text()


def test_limits_are_read() -> None:
    limits = cluster_limits(FILE)
    assert limits["head"] == NodeLimit(cpus=0, gpus=0, max_nodes=1, head=True)
    assert limits["gpu"] == NodeLimit(cpus=4, gpus=1, max_nodes=8)
    assert limits["data"].gpus == 0


def test_a_head_knows_its_own_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert running_cluster_file() is None
    (tmp_path / "ray_bootstrap_config.yaml").write_text(FILE.read_text())
    found = running_cluster_file()
    assert found is not None
    assert cluster_limits(found) == cluster_limits(FILE)


def _written(config: Any, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


def test_the_whole_clusters_maximum_bounds_each_group(
    config: dict[str, Any], tmp_path: Path
) -> None:
    config["max_workers"] = 3
    assert cluster_limits(_written(config, tmp_path))["gpu"].max_nodes == 3


def test_a_group_without_its_own_maximum_has_the_clusters(
    config: dict[str, Any], tmp_path: Path
) -> None:
    del config["available_node_types"]["gpu"]["max_workers"]
    assert cluster_limits(_written(config, tmp_path))["gpu"].max_nodes == 10


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("available_node_types.gpu.resources.CPU", {"resources": {"GPU": 1}}),
        ("available_node_types.gpu.resources.GPU", {"resources": {"CPU": 1, "GPU": "two"}}),
        ("available_node_types.gpu.max_workers", {"max_workers": -1}),
    ],
)
def test_a_number_that_cannot_be_known_is_named(
    config: dict[str, Any], tmp_path: Path, field: str, change: dict[str, Any]
) -> None:
    config = deepcopy(config)
    config["available_node_types"]["gpu"].update(change)
    with pytest.raises(InvalidValue) as error:
        cluster_limits(_written(config, tmp_path))
    assert error.value.field == field


@pytest.mark.parametrize("content", ["a: [", "just text", "provider: {type: aws}", ""])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidValue, match="cluster file"):
        cluster_limits(_written(content, tmp_path))


def test_an_unknown_head_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    config["head_node_type"] = "boss"
    with pytest.raises(InvalidValue, match="head_node_type"):
        cluster_limits(_written(config, tmp_path))


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="not YAML"):
        cluster_limits(_written("a: !!python/object/apply:os.getcwd []", tmp_path))
