"""Evaluation: a task is data, protocol and metrics."""

from sentune.tasks.ambiguous import AmbiguousRte
from sentune.tasks.bag_of_words import bag_of_words_direction
from sentune.tasks.base import Result, Task
from sentune.tasks.choose import TASKS, make_tasks, tasks_for
from sentune.tasks.csts import Csts
from sentune.tasks.direction import Direction, entailment_pairs
from sentune.tasks.evaluate import evaluate
from sentune.tasks.family import evaluate_family
from sentune.tasks.references import References
from sentune.tasks.rte import Rte
from sentune.tasks.sts import Sts

__all__ = [
    "TASKS",
    "AmbiguousRte",
    "Csts",
    "Direction",
    "References",
    "Result",
    "Rte",
    "Sts",
    "Task",
    "bag_of_words_direction",
    "entailment_pairs",
    "evaluate",
    "evaluate_family",
    "make_tasks",
    "tasks_for",
]
