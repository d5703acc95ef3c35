"""Inline launcher: training runs in the Tune trial's own process, which is reused.

It is for one-device trials and closed-form methods. Eight empty trials, two at a time, took 31 s
this way and 137 s with a Ray Train group each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from ray import tune
from ray.tune import PlacementGroupFactory

from sentune.launchers.control_actor import listening
from sentune.launchers.launch import Launch
from sentune.launchers.run_trial import guarded
from sentune.lazy_import import collect_as_usual
from sentune.training.group import Group
from sentune.training.memory import free, settle, use_threads

UNWIND_SECONDS = "600"
"""Seconds that a stopped trial may take to end; Tune's two seconds break reuse and the study."""

STRATEGIES = ("PACK", "SPREAD")
"""Strategies that are equivalent for a single bundle; Tune never reuses an actor across them."""


def inline_trainable(launch: Launch) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function that runs trials, one after the other, in its actor."""

    def trial(config: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        use_threads(max(1, int(launch.cpus)))
        collect_as_usual()
        settle()
        spec, group, control = config["spec"].value, Group.single(), launch.control.actor
        try:
            # close the generator here, so that a stopped trial releases its model before ``free``
            with (
                listening(control, spec.trial) as ask,
                closing(guarded(launch.program, spec, group, launch.code, ask)) as reports,
            ):
                for report in reports:
                    tune.report(replace(report, gpus=launch.gpus).to_result())
        finally:
            control.forget.remote(spec.trial)  # the process is free for another trial
            free()

    def resources(config: dict[str, Any]) -> PlacementGroupFactory:
        strategy = STRATEGIES[config["generation"] % len(STRATEGIES)]
        return PlacementGroupFactory([launch.needs], strategy=strategy)

    placed: Callable[[dict[str, Any]], None] = tune.with_resources(trial, resources)
    return placed
