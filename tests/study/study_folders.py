"""Study folders as a driver leaves them, made without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from sentune.study.space.space import Choice, SearchSpace, Uniform
from sentune.study.store.storage import FINGERPRINT, open_storage

OBJECTIVE = "toy/score"
SPACE = SearchSpace(
    method="toy",
    objective=OBJECTIVE,
    settings={"rate": Uniform(0.0, 1.0), "pooling": Choice("mean", "cls")},
    fixed={"layers": 2},
)
AXES = {"rate": FloatDistribution(0.0, 1.0), "pooling": CategoricalDistribution(["mean", "cls"])}


def fingerprint(**changes: Any) -> dict[str, Any]:
    """What the trials of a study share."""
    return {
        "corpus": {"fingerprint": "1234"},
        "space": SPACE.identity(),
        "max_examples": 900,
        "seed": 0,
        **changes,
    }


def trial_of(
    rate: float,
    *,
    pooling: str = "mean",
    state: TrialState = TrialState.COMPLETE,
    examples: int = 900,
    reason: str = "",
    notes: dict[str, Any] | None = None,
) -> optuna.trial.FrozenTrial:
    """A trial that scored 1 - |rate - 0.3| at its end, half of that before."""
    score = 1 - abs(rate - 0.3)
    curve = {at: score * (0.5 if at < 900 else 1.0) for at in (100, 300, 900) if at <= examples}
    said = {
        f"milestone:{at:012d}": {
            "metrics": {OBJECTIVE: value, "toy/loss": 1 - value},
            "readouts": {"toy/beta": 0.5},
            "seconds": at / 10,
        }
        for at, value in curve.items()
    }
    params = {"rate": rate, "pooling": pooling}
    return create_trial(
        state=state,
        value=score if state == TrialState.COMPLETE else None,
        params=params,
        distributions=AXES,
        intermediate_values=dict(curve),
        user_attrs={
            "settings": {**params, "layers": 2},
            "seed": 0,
            **({"reason": reason} if reason else {}),
            "cost:0": {"seconds": examples / 10, "gpus": 2.0},
            **said,
            **(notes or {}),
        },
    )


TRIALS = (
    trial_of(0.5),
    trial_of(0.1, state=TrialState.PRUNED, examples=100, reason="0.4 at 100 examples; too little"),
    trial_of(0.31, pooling="cls"),
    trial_of(0.5, notes={"twin": 0}),
    trial_of(0.9, state=TrialState.FAIL, examples=300, reason="the loss is not a number"),
    trial_of(0.3, notes={"warm_from": "older", "warm_number": 8}),
    trial_of(0.7, state=TrialState.RUNNING, examples=100),
)
"""Number 3 is a copy; number 5, the best, was run by another study."""


def make_study(
    storage: Path,
    name: str = "toy",
    *,
    trials: tuple[optuna.trial.FrozenTrial, ...] = TRIALS,
    finals: tuple[tuple[int, int, float], ...] = (),
    told: dict[str, Any] | None = None,
    summary: dict[str, Any] | None = None,
    url: str = "",
    **changes: Any,
) -> Path:
    """A study's folder.

    Args:
        finals: (trial, seed, rate) of runs that are complete.
        told: ``study.json``.
        summary: ``summary.json``.
        url: of its database, where that is not in its folder.
        changes: of its fingerprint.
    """
    folder = storage / name
    folder.mkdir(parents=True)
    _fill(url or str(folder / "optuna.journal"), name, trials, finals, changes)
    for file, content in (("study.json", told), ("summary.json", summary)):
        if content is not None:
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
    return folder


def _fill(url: str, name: str, trials: Any, finals: Any, changes: dict[str, Any]) -> None:
    opened = open_storage(url, driver=True)
    study = optuna.create_study(storage=opened, study_name=name, direction="maximize")
    study.set_user_attr(FINGERPRINT, json.loads(json.dumps(fingerprint(**changes))))
    study.add_trials(trials)
    if finals:
        of_finals = optuna.create_study(
            storage=opened, study_name=f"{name}/finalists", direction="maximize"
        )
        for trial, seed, rate in finals:
            of_finals.add_trial(trial_of(rate, notes={"trial": trial, "seed": seed}))
