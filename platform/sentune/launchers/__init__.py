"""Start training runs: in the Tune trial's own process, or on a Ray Train group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentune.launchers.launch import Launch


def trainable(launch: Launch) -> Callable[[dict[str, Any]], None]:
    """Return the Tune function of a study's launcher."""
    if launch.launcher != "train":
        from sentune.launchers.inline import inline_trainable  # loads Ray Tune

        return inline_trainable(launch)
    from sentune.launchers.ray_train import train_trainable  # loads Ray Train

    return train_trainable(launch)
