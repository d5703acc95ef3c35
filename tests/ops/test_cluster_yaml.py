"""The cluster files: accepted by Ray's own check, in step, and closed, cheap and reachable."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sentune.cluster import read_cluster
from sentune.cluster.limits import running_cluster_file
from tests.ops.conftest import FILE, ROOT, read
from tests.third_party_internals import prepare_config, read_kuberay, validate_config

LOCKS = ("requirements-torch.lock", "requirements.lock")
GCP, ONPREM, KUBERAY = (ROOT / f"cluster/{name}.yaml" for name in ("gcp", "onprem", "kuberay"))
LAUNCHED = (FILE, GCP, ONPREM)
"""Files for ``ray up``."""

EVERY = (*LAUNCHED, KUBERAY)
RENTED = (FILE, GCP)
SECRETS = ("~/.ray/auth_token", "~/.pgpass", "~/.mlflow/credentials")


@pytest.fixture(params=LAUNCHED, ids=lambda path: path.stem)
def launched(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read(request.param)


def _start(commands: list[str]) -> str:
    [line] = [line for line in commands if "ray start" in line]
    return line


def test_ray_accepts_it(launched: dict[str, Any]) -> None:
    prepared = prepare_config(launched)
    validate_config(prepared)
    own = launched["provider"]["type"] == "local"
    assert prepared["head_node_type"] == ("local.cluster.node" if own else "head")


def test_rays_check_can_fail(config: dict[str, Any]) -> None:
    config["max_worker"] = 3
    with pytest.raises(Exception, match="max_worker"):
        validate_config(prepare_config(config))


def test_own_machines_all_run_ray_from_the_start() -> None:
    """A cluster whose machines come later would look too small to the plan of a study."""
    prepared = prepare_config(read(ONPREM))
    group = prepared["available_node_types"]["local.cluster.node"]
    assert group["min_workers"] == len(prepared["provider"]["worker_ips"])


def test_the_head_takes_no_trial(launched: dict[str, Any]) -> None:
    head = launched.get("available_node_types", {}).get("head", {"resources": {"CPU": 0}})
    assert head["resources"] == {"CPU": 0}
    command = shlex.split(_start(launched["head_start_ray_commands"]))
    assert {"--num-cpus=0", "--num-gpus=0"} <= set(command)


def test_workers_come_when_wanted_and_cost_nothing_otherwise() -> None:
    for file in RENTED:
        config = read(file)
        workers = {n: t for n, t in config["available_node_types"].items() if n != "head"}
        assert all(worker["min_workers"] == 0 for worker in workers.values())
        spot = [name for name, t in workers.items() if "spot" in str(t["node_config"]).lower()]
        assert spot == ["gpu-spot", "data"]
        counted = sum(workers[name]["max_workers"] for name in spot)
        assert config["max_workers"] == counted
        assert config["provider"]["cache_stopped_nodes"] is False
        assert config["idle_timeout_minutes"] <= 10


def test_what_the_clouds_have_in_common_is_the_same() -> None:
    """Files are written by hand: what is changed in one and forgotten in another is found here."""
    whole = read(FILE)
    common = [key for key in whole if key not in ("provider", "available_node_types")]
    for other in (GCP, ONPREM):
        config = read(other)
        for key in common:
            if key in config and not (other == ONPREM and key in ("auth", "max_workers")):
                assert config[key] == whole[key], f"{other.name}: {key}"
    assert set(common) - set(read(ONPREM)) == {
        "idle_timeout_minutes", "upscaling_speed", "head_node_type",
    }  # fmt: skip
    assert set(common) <= set(read(GCP))
    for name, node_type in whole["available_node_types"].items():
        other_type = dict(read(GCP)["available_node_types"][name], node_config=None)
        assert other_type == dict(node_type, node_config=None)


def test_all_clusters_grow_alike() -> None:
    limits = read_cluster(FILE).kinds
    assert read_cluster(GCP).kinds == read_cluster(KUBERAY).kinds == limits
    assert read_cluster(KUBERAY).largest() == read_cluster(FILE).largest()
    assert (
        read_cluster(KUBERAY).idle_hours == read_cluster(FILE).idle_hours == pytest.approx(5 / 60)
    )


def test_ray_reads_the_groups_of_kuberay_as_the_plan_does() -> None:
    cluster = read(KUBERAY)
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    cluster["metadata"]["namespace"] = "default"
    seen = read_kuberay(cluster)["available_node_types"]
    limits = read_cluster(KUBERAY).kinds
    for name, limit in limits.items():
        found = seen["headgroup" if limit.head else name]
        assert found["resources"]["CPU"] == limit.cpus
        assert found["resources"].get("GPU", 0) == limit.gpus
        assert limit.head or found["max_workers"] == limit.max_nodes
        assert found.get("priority", 0) == limit.priority


FIELDS = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {
        *("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions"),
        *("headGroupSpec", "workerGroupSpecs"),
    },
    "autoscalerOptions": {"version", "idleTimeoutSeconds", "env", "volumeMounts"},
    "headGroupSpec": {"rayStartParams", "template"},
    "workerGroupSpecs": {
        *("groupName", "priority", "replicas", "minReplicas", "maxReplicas"),
        *("rayStartParams", "template"),
    },
}
"""Of the RayCluster's definition in ray.io/v1; what it does not know is dropped without a word."""


def test_kuberay_has_only_fields_of_a_raycluster() -> None:
    cluster = read(KUBERAY)
    spec = cluster["spec"]
    assert set(cluster) <= FIELDS[""]
    assert set(spec) <= FIELDS["spec"]
    for part in ("autoscalerOptions", "headGroupSpec"):
        assert set(spec[part]) <= FIELDS[part]
    for group in spec["workerGroupSpecs"]:
        assert set(group) <= FIELDS["workerGroupSpecs"]
        assert group["replicas"] == group["minReplicas"] == 0


def test_pods_start_what_their_limits_hold() -> None:
    spec = read(KUBERAY)["spec"]
    for group in spec["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        stated = group["rayStartParams"]
        assert stated["num-cpus"] == limits["cpu"]
        assert stated["num-gpus"] == limits.get("nvidia.com/gpu", "0")
        assert group["template"]["spec"]["restartPolicy"] == "Never"


def test_ray_is_the_locked_one() -> None:
    locked = re.search(r"^ray==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert locked is not None
    assert read(KUBERAY)["spec"]["rayVersion"] == locked.group(1)


def test_nothing_is_served_beyond_loopback() -> None:
    for file in LAUNCHED:
        command = _start(read(file)["head_start_ray_commands"])
        assert "--dashboard-host=127.0.0.1" in shlex.split(command)
    head = read(KUBERAY)["spec"]["headGroupSpec"]
    assert head["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    for file in (*EVERY, *(ROOT / "cluster").iterdir()):
        assert "0.0.0.0" not in file.read_text()


def test_jobs_start_in_the_mounted_project(launched: dict[str, Any]) -> None:
    assert "cd ~/sentune && ray start" in _start(launched["head_start_ray_commands"])
    mounts = launched["file_mounts"]
    needed = ["platform", "search_spaces", "jobs", "cluster", "pyproject.toml", *LOCKS]
    assert all(mounts[f"~/sentune/{name}"] == name for name in needed)
    local = [path for path in mounts.values() if not path.startswith("~")]
    assert all((ROOT / path).exists() for path in local)
    assert {".git", ".venv"} <= set(launched["rsync_exclude"])


def test_the_image_holds_what_is_mounted_elsewhere() -> None:
    copied = " ".join(
        line
        for line in (ROOT / "cluster/Dockerfile").read_text().splitlines()
        if line.startswith("COPY")
    )
    for path in read(FILE)["file_mounts"].values():
        assert path.startswith("~") or path in shlex.split(copied), path


def test_the_plan_of_a_pod_knows_how_far_its_cluster_can_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = (ROOT / "cluster/Dockerfile").read_text()
    (made,) = re.findall(r"^RUN ln -s sentune/(\S+) /home/ray/(\S+)$", image, re.M)
    (tmp_path / made[1]).symlink_to(ROOT / made[0])
    monkeypatch.setenv("HOME", str(tmp_path))
    file = running_cluster_file()
    assert file is not None
    assert read_cluster(file) == read_cluster(KUBERAY)


def test_setup_installs_exactly_the_lock(launched: dict[str, Any]) -> None:
    installs = [line for line in launched["setup_commands"] if "pip install" in line]
    assert installs[0].endswith(" ".join(f"-r ~/sentune/{lock}" for lock in LOCKS))
    assert "--no-deps" in installs[1]
    assert len(installs) == 2, "everything is pinned with its hash"


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_hold_names_versions_and_hashes_only(lock: str) -> None:
    """Nodes install them as they stand: no path of another machine, no index address."""
    text = (ROOT / lock).read_text().replace(" \\\n    --hash", " --hash")
    pin = r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+"
    hashed = pin if lock == "requirements-torch.lock" else pin + r"( --hash=sha256:[0-9a-f]{64})+"
    odd = [line for line in text.splitlines() if not re.fullmatch(rf"#.*|{hashed}", line)]
    assert not odd


def test_secrets_are_private_files_and_the_mode_is_set_once(
    config: dict[str, Any], tmp_path: Path
) -> None:
    files = [tmp_path / name.removeprefix("~/") for name in SECRETS]
    for name, file in zip(SECRETS, files, strict=True):
        assert config["file_mounts"][name].startswith("~/")
        file.parent.mkdir(exist_ok=True)
        file.write_text("secret")
        file.chmod(0o644)  # as `ray get-auth-token --generate` leaves it
    (tmp_path / ".bashrc").touch()
    (tmp_path / "sentune").mkdir()
    (tmp_path / "sentune/cluster").symlink_to(ROOT / "cluster")
    lines = [
        line for line in config["setup_commands"] if "auth_token" in line or "AUTH_MODE" in line
    ]
    assert len(lines) == 2
    for line in lines * 2:
        subprocess.run(["bash", "-c", line], env={**os.environ, "HOME": str(tmp_path)}, check=True)
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    asked = subprocess.run(
        ["bash", "-c", ". ~/.bashrc; echo $RAY_AUTH_MODE; echo $PATH; echo $SENTUNE_OPTUNA"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert asked[:2] == ["token", f"{tmp_path}/venv/bin:/usr/bin:/bin"]
    assert asked[2].startswith("postgresql")
    assert (tmp_path / ".bashrc").read_text().count("RAY_AUTH_MODE") == 1
    assert (tmp_path / ".bashrc").read_text().count("RAY_JOB_STOP_WAIT_TIME_S=300") == 1


def test_no_file_of_the_repository_holds_a_password() -> None:
    for file in (*EVERY, *(ROOT / "cluster").iterdir()):
        text = file.read_text()
        assert not re.search(r"://[^/\s:@]+:[^/\s@$]+@", text), file
        assert not re.search(r"(?i)(password|token)\w*['\"]?\s*[:=]\s*['\"]?\w{8,}", text), file
    secrets = [
        entry["valueFrom"]["secretKeyRef"]["name"]
        for container in read(KUBERAY)["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        for entry in container["env"]
        if "PASSWORD" in entry["name"]
    ]
    assert len(secrets) == 4


def test_pods_get_the_token_as_a_file() -> None:
    spec = read(KUBERAY)["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    pods = [group["template"]["spec"]["containers"][0] for group in groups]
    for holder in (*pods, spec["autoscalerOptions"]):
        env = {entry["name"]: entry.get("value") for entry in holder["env"]}
        assert env["RAY_AUTH_MODE"] == "token"
        assert env["RAY_JOB_STOP_WAIT_TIME_S"] == "300"
        [mount] = holder["volumeMounts"]
        assert env["RAY_AUTH_TOKEN_PATH"] == f"{mount['mountPath']}/auth_token"


MLFLOW = """#!/bin/sh
printf '%s\\n' "$@" > "$OUT"; env >> "$OUT"; cat "$MLFLOW_AUTH_CONFIG_PATH" >> "$OUT"
"""

PYTHON = """#!/bin/sh
[ "$1" = -c ] && echo key || echo "$@" > "$OUT.databases"
"""


def test_mlflow_wants_a_password_and_takes_it_from_the_users_file(tmp_path: Path) -> None:
    for place in ("venv/bin", ".mlflow"):
        (tmp_path / place).mkdir(parents=True)
    for name, text in (("mlflow", MLFLOW), ("python", PYTHON)):
        program = tmp_path / "venv/bin" / name
        program.write_text(text)
        program.chmod(0o755)
    credentials = (
        "[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = long one=1\n"
    )
    (tmp_path / ".mlflow/credentials").write_text(credentials)
    out = tmp_path / "out"
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "OUT": str(out)}
    subprocess.run(["bash", str(ROOT / "cluster/mlflow.sh")], env=env, check=True)
    told = out.read_text().splitlines()
    assert Path(f"{out}.databases").read_text() == "databases.py\n"
    assert "MLFLOW_FLASK_SERVER_SECRET_KEY=key" in told
    assert told[:5] == ["server", "--app-name", "basic-auth", "--host", "127.0.0.1"]
    assert "MLFLOW_AUTH_ADMIN_USERNAME=ann" in told
    assert "MLFLOW_AUTH_ADMIN_PASSWORD=long one=1" in told
    assert "default_permission = NO_PERMISSIONS" in told
    assert not any("long one" in word for word in told[: told.index("--allowed-hosts")])


def test_mlflow_does_not_start_without_a_password(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "cluster/mlflow.sh")],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "MLFLOW_TRACKING_USERNAME: write it into ~/.mlflow/credentials" in done.stderr
