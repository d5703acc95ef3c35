"""A worker whose group is taken down under it says that a peer is lost, not that it has failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from sentune.launchers.failures import passes
from sentune.launchers.run_trial import run_trial
from sentune.training.group import Group
from sentune.training.trial import Progress, TrialSpec

SPEC = TrialSpec(
    trial="0000", method="gumbel", settings={}, encoder="", corpus=None, dev=None,  # type: ignore[arg-type]
    max_examples=96, milestones=(96,), objective="direction/accuracy",
)  # fmt: skip


def collective(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    """What a step does; here there is no process group any more."""
    group.agree(1)
    yield Progress(examples=96, metrics={}, save=lambda folder: None)


def wrong(spec: TrialSpec, group: Group) -> Iterator[Progress]:
    raise ValueError("eight is too much")
    yield


def test_a_group_that_is_gone_may_be_there_at_the_next_start() -> None:
    with pytest.raises(RuntimeError, match=r"another worker is lost \(Default process") as told:
        list(run_trial(collective, SPEC, Group(1, 2, torch.device("cpu"))))
    assert passes(told.value)


def test_an_error_of_one_worker_alone_stays_its_own() -> None:
    with pytest.raises(ValueError, match="eight is too much") as told:
        list(run_trial(wrong, SPEC, Group.single("cpu")))
    assert not passes(told.value)
