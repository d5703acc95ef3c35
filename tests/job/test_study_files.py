"""What a start of a study finds of the one before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentune.job.study_files import origin
from sentune.study.config import StudyConfig


@pytest.mark.parametrize("described", ['{"forked_from": "old"}', '{"forked_f', None])
def test_a_fork_keeps_its_origin_though_its_description_is_damaged(
    tmp_path: Path, described: str | None
) -> None:
    config = StudyConfig(name="new", storage=str(tmp_path), max_examples=10, trials=1)
    folder = Path(config.folder)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"forked_from": "old"}))
    if described is not None:
        (folder / "study.json").write_text(described)
    assert origin(config) == ("old" if described else None)
    (folder / "summary.json").write_text("{")
    assert origin(config) == ("old" if described and described.endswith("}") else None)
