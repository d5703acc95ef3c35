"""Evaluation: a task is data, protocol and metrics."""

from sentune.tasks.bag_of_words import bag_of_words_direction
from sentune.tasks.base import Result, Task
from sentune.tasks.choose import TASKS, make_tasks, tasks_for
from sentune.tasks.direction import Direction, entailment_pairs
from sentune.tasks.evaluate import evaluate
from sentune.tasks.rte import Rte
from sentune.tasks.sts import Sts

__all__ = [
    "TASKS",
    "Direction",
    "Result",
    "Rte",
    "Sts",
    "Task",
    "bag_of_words_direction",
    "entailment_pairs",
    "evaluate",
    "make_tasks",
    "tasks_for",
]
