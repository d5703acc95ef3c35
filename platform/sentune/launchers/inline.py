"""The inline launcher: the loop runs in the Tune trial's own process, which is used again.

For one-device trials and closed-form methods. Eight empty trials, two at a time, took 31 s this way
and 137 s through a Ray Train group each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from ray import tune
from ray.tune import PlacementGroupFactory

from sentune.launchers.control_signal import Listener
from sentune.launchers.opaque_value import OpaqueValue
from sentune.launchers.run_trial import guarded
from sentune.training.group import Group
from sentune.training.memory import free, settle, use_threads
from sentune.training.trial import Program, TrialSpec

UNWIND_SECONDS = "600"
"""How long a stopped trial may take to leave; Tune's two seconds break the reuse and the study."""

STRATEGIES = ("PACK", "SPREAD")
"""For a single bundle they mean the same; Tune keeps actors apart that ask for different ones."""


def inline_trainable(
    program: Program, *, cpus: float, gpus: float, code: str, control: Any
) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function that runs one trial after the other in its actor.

    Args:
        program: what trains.
        cpus: CPUs of a trial; torch uses as many threads.
        gpus: GPUs of a trial, fractions allowed.
        code: fingerprint of the driver's code; a worker with another one fails.
        control: actor that says when a trial is to leave.
    """

    def trial(config: dict[str, Any]) -> None:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = UNWIND_SECONDS
        use_threads(max(1, int(cpus)))
        settle()
        spec: OpaqueValue[TrialSpec] = config["spec"]
        try:
            # closed here, so that a trial that Tune stops has let go of its model before ``free``
            with (
                Listener(control) as ask,
                closing(guarded(program, spec.value, Group.single(), code, ask)) as reports,
            ):
                for report in reports:
                    tune.report(replace(report, gpus=gpus).to_result())
        finally:
            free()

    def resources(config: dict[str, Any]) -> PlacementGroupFactory:
        bundle = {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}
        strategy = STRATEGIES[config["generation"] % len(STRATEGIES)]
        return PlacementGroupFactory([bundle], strategy=strategy)

    return tune.with_resources(trial, resources)
