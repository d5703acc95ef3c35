"""Settings, schedules and milestones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sentune.errors import InvalidValue
from sentune.methods import REGISTRY, Gausscse, Gumbelcse
from sentune.methods.gumbelcse import GumbelcseSettings
from sentune.training.settings import (
    TrainingSettings,
    check_defaults,
    learning_rate_factor,
    milestones,
    split,
    steps_for,
)


def test_split_tells_method_and_training_apart_and_reads_text() -> None:
    own, training = split(
        {"dimension": "8", "learning_rate": "5e-4", "batch_size": 32, "clip_norm": "none"},
        Gumbelcse,
    )
    assert own.dimension == 8  # type: ignore[attr-defined]
    assert (training.learning_rate, training.batch_size, training.clip_norm) == (5e-4, 32, None)


@pytest.mark.parametrize(
    ("settings", "field", "fix"),
    [
        ({"dimensions": 8}, "dimensions", "contradiction_weight"),
        ({"intersection_temperature": 0}, "intersection_temperature", "greater than 0"),
        ({"batch_size": "many"}, "batch_size", "integer"),
        ({"schedule": "cosine"}, "schedule", "'linear', 'constant' or 'rising'"),
        ({"warmup": 1.0}, "warmup", "less than 1"),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, object], field: str, fix: str) -> None:
    with pytest.raises(InvalidValue, match=fix) as error:
        split(settings, Gumbelcse)
    assert error.value.field == field


def test_a_setting_of_one_method_is_unknown_to_another() -> None:
    with pytest.raises(InvalidValue, match="settings of GaussCSE are"):
        split({"intersection_temperature": 0.1}, Gausscse)


def test_a_setting_of_the_training_is_none_of_a_method() -> None:
    class Own(Gumbelcse):
        class settings_type(GumbelcseSettings):  # noqa: N801
            learning_rate: float = 1e-3

    with pytest.raises(InvalidValue, match=r"settings_type of Own: 'learning_rate'.*defaults"):
        split({}, Own)


def test_every_setting_is_described_and_no_name_stands_twice() -> None:
    for method in REGISTRY.values():
        own, general = method.settings_type.model_fields, TrainingSettings.model_fields
        assert all(field.description for field in [*own.values(), *general.values()])
        assert not set(own) & set(general)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TrainingSettings().batch_size = 3  # type: ignore[misc]


def factors(schedule: str, steps: int, warmup: float) -> list[float]:
    return [
        learning_rate_factor(schedule, step=step, steps=steps, warmup=warmup)  # type: ignore[arg-type]
        for step in range(steps)
    ]


def test_linear_rises_and_falls_to_nothing() -> None:
    assert factors("linear", 10, 0.2) == pytest.approx(
        [1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    )
    assert factors("linear", 4, 0.0) == [1.0, 0.75, 0.5, 0.25]


def test_constant_and_rising() -> None:
    assert factors("constant", 4, 0.25) == [0.5, 1.0, 1.0, 1.0]
    assert factors("rising", 4, 0.0) == [0.25, 0.5, 0.75, 1.0], "the set value in the last step"


@pytest.mark.parametrize("schedule", ["linear", "constant", "rising"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_no_step_is_wasted_or_above_the_set_value(schedule: str, warmup: float, steps: int) -> None:
    assert all(0 < factor <= 1 for factor in factors(schedule, steps, warmup))


def test_milestones_end_with_the_budget() -> None:
    assert milestones(1000, 300) == (300, 600, 900, 1000)
    assert milestones(100, 500) == (100,)
    assert milestones(600, 300) == (300, 600)


def test_steps_cover_the_examples() -> None:
    assert [steps_for(n, 64) for n in (1, 64, 65)] == [1, 1, 2]


def test_a_default_that_is_no_setting_of_the_training_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Gumbelcse, "training_defaults", {"batchsize": 3})
    with pytest.raises(InvalidValue, match=r"batchsize: 3 .*training_defaults of Gumbelcse"):
        check_defaults(Gumbelcse)
    split({}, Gumbelcse)  # models that were trained with it load
