from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sentune.tracking.lineage import git_state, lineage


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_commit_and_dirty_flag(checkout: Path) -> None:
    clean = git_state(checkout / "code")
    assert clean is not None
    assert clean["commit"] == git(checkout, "rev-parse", "HEAD")
    assert clean["dirty"] is False
    (checkout / "code" / "new.txt").write_text("results beside the code are no change of it")
    assert git_state(checkout / "code") == clean
    (checkout / "code" / "a.py").write_text("2")
    assert git_state(checkout / "code") == {**clean, "dirty": True}


def test_no_commit_outside_a_checkout_and_for_what_git_does_not_track(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert git_state(tmp_path_factory.mktemp("plain")) is None
    installed = checkout / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "b.py").write_text("3")
    assert git_state(installed) is None


def test_packages_and_command_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["tune.py", "--tracking", "http://ann:pw@h:5000", "--token", "t0p"]
    monkeypatch.setattr("sys.argv", command)
    found = lineage()
    assert found["packages"]["ray"]
    assert found["packages"]["torch"]
    assert found["python"].startswith("3.")
    assert found["command"] == "tune.py --tracking http://h:5000 --token ***"
