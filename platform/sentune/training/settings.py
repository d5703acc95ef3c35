"""Training settings, validation of a trial's settings, learning-rate schedules and milestones."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from sentune.errors import InvalidValue, invalid_value
from sentune.methods.base import GradientMethod, Settings

Precision = Literal["float32", "bfloat16", "float64"]
Schedule = Literal["linear", "constant", "rising"]
S = TypeVar("S", bound=Settings)


class TrainingSettings(Settings):
    """Training settings of all methods; defaults follow SimCSE's published code unless noted."""

    batch_size: int = Field(64, ge=2)
    """Examples of a step over all workers; SimCSE and GumbelCSE use 512, GaussCSE 64 to 512."""
    micro_batch: int | None = Field(None, ge=1)
    """Examples that a worker processes at a time. If it is smaller than the worker's share of the
    batch, gradients are cached (GradCache), with the same result and less memory."""
    learning_rate: float = Field(5e-5, gt=0.0)
    """Highest learning rate of AdamW."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decay of weight matrices; biases and layer norms have none."""
    schedule: Schedule = "linear"
    """linear: warm-up, then down to 0 at the end of the budget. constant: warm-up, then constant.
    rising: GaussCSE's, from 0 up to the learning rate at the last step."""
    warmup: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the steps over which the learning rate rises from 0."""
    clip_norm: float | None = Field(1.0, gt=0.0)
    """Maximum norm of the gradient; none: no clipping."""
    precision: Precision = "float32"
    """bfloat16: the encoder under autocast, weights and losses in float32. float64: for tests."""
    max_length: int = Field(64, ge=4)
    """Maximum tokens of a sentence, including special tokens; SimCSE uses 32."""


def split(
    settings: Mapping[str, Any], method: type[GradientMethod]
) -> tuple[Any, TrainingSettings]:
    """Split a trial's settings into the validated settings of the method and of the training.

    Texts are converted to numbers for numeric settings, and the text ``none`` to None.

    Raises:
        InvalidValue: a setting is unknown or its value is not allowed, or the method redefines a
            training setting.
    """
    own, general = method.settings_type.model_fields, TrainingSettings.model_fields
    refuse_unknown(settings, {*own, *general}, method.title)
    if both := own.keys() & general.keys():
        fix = "it is a training setting; set its default in training_defaults instead"
        raise InvalidValue(f"settings_type of {method.__name__}", min(both), fix)
    training = {**method.training_defaults, **settings}
    return (
        validated(method.settings_type, {k: v for k, v in settings.items() if k in own}),
        validated(TrainingSettings, {k: v for k, v in training.items() if k in general}),
    )


def check_defaults(method: type[GradientMethod]) -> None:
    """Raise ``InvalidValue`` if ``training_defaults`` has a name that is no training setting."""
    title = f"training_defaults of {method.__name__}"
    refuse_unknown(method.training_defaults, TrainingSettings.model_fields, title)


def check_length(max_length: int, largest: int, part: str = "encoder") -> None:
    """Raise ``InvalidValue`` if ``max_length`` exceeds the ``largest`` length of an encoder."""
    if max_length > largest:
        raise InvalidValue("max_length", max_length, f"the {part} takes at most {largest} tokens")


def refuse_unknown(settings: Mapping[str, Any], known: Collection[str], title: str) -> None:
    """Raise ``InvalidValue`` for the first setting that a method does not have."""
    for name, value in settings.items():
        if name not in known:
            raise InvalidValue(name, value, f"settings of {title} are {', '.join(sorted(known))}")


def validated(kind: type[S], values: Mapping[str, Any], shown: Callable[[str], str] = str) -> S:
    """Return validated settings; the text ``none`` is converted to None.

    Args:
        shown: function from the name of a field to the name that its user writes.

    Raises:
        InvalidValue: a value is not allowed.
    """
    given = {k: None if v == "none" else v for k, v in values.items()}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise invalid_value(error, given, shown) from None


def learning_rate_factor(schedule: Schedule, *, step: int, steps: int, warmup: float) -> float:
    """Return the factor of the highest learning rate at a step from 0 to ``steps - 1``.

    ``linear`` and ``constant`` rise over the first ``warmup * steps`` steps. ``rising`` is
    GaussCSE's schedule (appendix A), from 0 at the start to the set value in the last step. With
    it, the early rungs of trials with unequal budgets cannot be compared and predict the last rung
    poorly, because at a tenth of the budget only a tenth of the learning rate is reached.
    """
    if schedule == "rising":
        return (step + 1) / steps
    rise = math.ceil(warmup * steps)
    if step < rise:
        return (step + 1) / (rise + 1)
    if schedule == "constant":
        return 1.0
    return (steps - step) / (steps - rise)


def check_budget(max_examples: int, batch_size: int) -> None:
    """Raise ``InvalidValue`` if ``--max-examples`` is less than one batch."""
    if max_examples < batch_size:
        fix = f"it is less than one batch: give at least {batch_size}, or --set a lower batch_size"
        raise InvalidValue("--max-examples", max_examples, fix)


def steps_for(examples: int, batch_size: int) -> int:
    """Return the number of steps after which at least ``examples`` examples were seen."""
    return -(-examples // batch_size)


def milestones(max_examples: int, every: int) -> tuple[int, ...]:
    """Return the multiples of ``every`` below ``max_examples``, and ``max_examples``.

    The papers validate every 100 steps, which is ``every = 100 * batch_size``.
    """
    return (*range(every, max_examples, every), max_examples)
