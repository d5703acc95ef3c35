"""Settings of the training loop, the split of a trial's settings, learning rates and milestones."""

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
    """How any method is trained. Defaults follow SimCSE's published code unless said otherwise."""

    batch_size: int = Field(64, ge=2)
    """Examples of a step over all workers; SimCSE and GumbelCSE take 512, GaussCSE 64 to 512."""
    micro_batch: int | None = Field(None, ge=1)
    """Examples that a worker's memory holds at a time; a smaller one than its share of the batch
    trains with cached gradients (GradCache), which gives the same result."""
    learning_rate: float = Field(5e-5, gt=0.0)
    """Highest learning rate of AdamW."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decay of weight matrices; biases and layer norms have none."""
    schedule: Schedule = "linear"
    """linear: warm-up, then down to 0 at the end of the budget. constant: warm-up, then level.
    rising: GaussCSE's, from 0 up to the learning rate at the last step."""
    warmup: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the steps over which the learning rate rises from 0."""
    clip_norm: float | None = Field(1.0, gt=0.0)
    """Largest norm of the whole gradient; none: no clipping."""
    precision: Precision = "float32"
    """bfloat16: the encoder under autocast, weights and losses in float32. float64 for tests."""
    max_length: int = Field(64, ge=4)
    """Most tokens of a sentence, special tokens included; SimCSE takes 32."""


def split(
    settings: Mapping[str, Any], method: type[GradientMethod]
) -> tuple[Any, TrainingSettings]:
    """Return a trial's settings as the method's and the training's, typed and checked.

    Text is turned into numbers where a number belongs, and ``none`` into no value.

    Raises:
        InvalidValue: an unknown name or a value that is not allowed, naming it.
    """
    own, general = method.settings_type.model_fields, TrainingSettings.model_fields
    refuse_unknown(settings, {*own, *general}, method.title)
    if both := own.keys() & general.keys():
        fix = "it is one of the training's; name another default of it in training_defaults"
        raise InvalidValue(f"settings_type of {method.__name__}", min(both), fix)
    training = {**method.training_defaults, **settings}
    return (
        validated(method.settings_type, {k: v for k, v in settings.items() if k in own}),
        validated(TrainingSettings, {k: v for k, v in training.items() if k in general}),
    )


def check_length(max_length: int, largest: int, part: str = "encoder") -> None:
    """Raise ``InvalidValue`` for texts longer than the ``largest`` that an encoder takes."""
    if max_length > largest:
        raise InvalidValue("max_length", max_length, f"the {part} takes at most {largest} tokens")


def refuse_unknown(settings: Mapping[str, Any], known: Collection[str], title: str) -> None:
    """Raise ``InvalidValue`` for the first setting that the method of this title has not."""
    for name, value in settings.items():
        if name not in known:
            raise InvalidValue(name, value, f"settings of {title} are {', '.join(sorted(known))}")


def validated(kind: type[S], values: Mapping[str, Any], shown: Callable[[str], str] = str) -> S:
    """Return settings, typed and checked; the text ``none`` is no value.

    Args:
        shown: name of a field -> as its user writes it.

    Raises:
        InvalidValue: naming the first value that is not allowed.
    """
    given = {k: None if v == "none" else v for k, v in values.items()}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise invalid_value(error, given, shown) from None


def learning_rate_factor(schedule: Schedule, *, step: int, steps: int, warmup: float) -> float:
    """Return the share of the highest learning rate at a step, from 0 to ``steps - 1``.

    ``linear`` and ``constant`` rise over the first ``warmup * steps`` steps. ``rising`` is
    GaussCSE's (appendix A): 0 at the beginning, the set value in the last step. Under it a rung at
    a tenth of the budget has seen a tenth of the learning rate, so the early rungs of trials with
    unequal budgets cannot be compared, nor do early rungs say much about the last one.
    """
    if schedule == "rising":
        return (step + 1) / steps
    rise = math.ceil(warmup * steps)
    if step < rise:
        return (step + 1) / (rise + 1)
    if schedule == "constant":
        return 1.0
    return (steps - step) / (steps - rise)


def steps_for(examples: int, batch_size: int) -> int:
    """Steps until at least that many examples have been seen."""
    return -(-examples // batch_size)


def milestones(max_examples: int, every: int) -> tuple[int, ...]:
    """Every so many examples, and the end of the budget.

    The papers validate every 100 steps: ``every = 100 * batch_size``.
    """
    if every < 1:
        raise InvalidValue("--validate-every", every, "give a positive number of examples")
    return (*range(every, max_examples, every), max_examples)
