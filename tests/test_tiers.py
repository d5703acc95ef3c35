"""Which tier a test has, and the lines that .ci/run ends with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import FOLDERS, TIERS, main, tier_of


def test_a_mark_wins_over_the_folder_and_without_both_it_is_the_default() -> None:
    assert tier_of(["timeout", "long"], "faults") == "long"
    assert tier_of(["timeout"], "faults") == "faults"
    assert tier_of([], "geometry") == "default"


def test_two_tiers_are_refused() -> None:
    with pytest.raises(ValueError, match="cluster and servers"):
        tier_of(["servers", "cluster"], "study")


def test_the_folders_are_there() -> None:
    assert set(FOLDERS.values()) <= set(TIERS)
    assert [name for name in FOLDERS if not (Path(__file__).parent / name).is_dir()] == []


def test_counts_of_several_runs_are_added_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts"
    file.write_text('{"default": {"passed": 3, "skipped": 1}}\n{"default": {"failed": 1}}\n')
    main(str(file))
    by_tier, closing = capsys.readouterr().out.splitlines()
    assert "default 4, smoke 0" in by_tier
    assert closing == "3 passed, 1 failed, 1 skipped"


def test_tests_that_run_in_two_processes_are_counted_once(tmp_path: Path) -> None:
    file, target = tmp_path / "counts", f"{__file__}::test_the_folders_are_there"
    command = ["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--tier-counts={file}"]
    subprocess.run([sys.executable, *command, target], check=True, capture_output=True)
    assert file.read_text() == '{"default": {"passed": 1}}\n'


def test_a_test_that_would_begin_too_late_is_skipped_and_says_so(tmp_path: Path) -> None:
    target = f"{__file__}::test_the_folders_are_there"
    for minutes, outcome in (("60", "1 passed"), ("0", "1 skipped")):
        command = ["-m", "pytest", "-rs", "-n", "1", "-p", "no:cacheprovider", "-o", "addopts="]
        command += ["--import-mode=importlib", f"--within={minutes}", target]
        done = subprocess.run(
            [sys.executable, *command], check=True, capture_output=True, text=True
        )
        assert outcome in done.stdout
        assert ("the 0 minutes of this run were over" in done.stdout) is (minutes == "0")
