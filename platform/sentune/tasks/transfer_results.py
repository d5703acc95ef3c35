"""What transfer tasks report besides their metrics on the judged rows.

Legend: F = folds, G = strengths of regularisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentune.tasks.base import Result
from sentune.tasks.transfer_protocols import ChosenStrength, Nested, Part, judged_split

NO_TEST = (
    "the corpus has no test split: judged on dev, with the regularisation chosen by "
    "cross-validation on train"
)


def split_result(
    name: str, parts: Mapping[str, Part], chosen: ChosenStrength, metric: str
) -> Result:
    """Readout, dev score and tables of a task with splits; ``metric`` is what chose C.

    ``unconverged`` in the table counts the fits that stopped before their minimum.
    """
    judged = judged_split(parts)
    chosen_on = parts["dev" if chosen.on == "dev" else "train"]
    counts = {"pairs": len(parts[judged].targets), f"dev_{metric}": len(chosen_on.targets)}
    table = {
        "C": list(chosen.grid),
        f"dev_{metric}": chosen.scores.tolist(),
        "chosen": chosen.strength,
        "chosen_on": chosen.on,
        "judged_on": judged,
        "unconverged": chosen.unconverged,
    }
    return Result(
        metrics={f"{name}/dev_{metric}": float(chosen.scores[chosen.place])},
        readouts={f"{name}/C": chosen.strength},
        tables={f"{name}/counts.json": counts, f"{name}/regularisation.json": table},
        skipped={f"{name}/test": NO_TEST} if judged == "dev" else {},
    )


def nested_result(name: str, found: Nested, grid: Sequence[float]) -> Result:
    """Metrics and tables of a task without splits; every outer fold has a C of its own."""
    folds = len(found.scores)
    table = {
        "C": list(grid),
        "dev_accuracy": found.inner.mean(axis=0).tolist(),
        "chosen": [grid[place] for place in found.places],
        "accuracy": found.scores.tolist(),
        "chosen_on": f"{folds} inner folds of each outer fold's training rows",
        "judged_on": f"{folds} outer folds",
        "unconverged": found.unconverged,
    }
    chosen = found.inner[range(folds), found.places]
    return Result(
        metrics={
            f"{name}/accuracy": float(found.scores.mean()),
            f"{name}/dev_accuracy": float(chosen.mean()),
        },
        tables={
            f"{name}/counts.json": {"pairs": len(found.predictions)},
            f"{name}/regularisation.json": table,
        },
    )
