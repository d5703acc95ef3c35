"""The code that a study's fingerprint names is the code that its trials run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from search_spaces.gumbel import SPACE
from sentune.code import FOLLOWED, PACKAGE, result_code
from sentune.job.families import make_job
from sentune.job.options import JobOptions
from sentune.launchers.run_trial import run_trial
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.trial import TrialSpec

LISTS = ("methods/__init__.py", "training/recipes/__init__.py")


@pytest.mark.long
def test_every_function_that_a_trial_calls_is_in_its_code(
    make_trial: Callable[..., TrialSpec],
) -> None:
    """From the encoder's folder to the checkpoint, a validation included."""
    spec, called = make_trial(max_examples=32, milestones=(32,)), set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        reports = list(run_trial(train, spec, Group.single("cpu")))
    finally:
        sys.setprofile(before)
    assert reports[-1].final
    own = {Path(name) for name in called if Path(name).is_relative_to(PACKAGE)}
    ran = {path.relative_to(PACKAGE).as_posix() for path in own}
    ran = {name for name in ran if name.partition("/")[0] in FOLLOWED}
    counted = result_code(make_job(JobOptions(), SPACE).modules())
    assert len(ran) > 25
    assert {name for name in ran if f"sentune/{name}" not in counted} <= {*LISTS}
