"""Evaluation tasks: their data, protocols and metrics."""

from sentune.tasks.ambiguous import AmbiguousRte
from sentune.tasks.base import ModelTask, Result, Task, evaluate
from sentune.tasks.choose import (
    LEFT_OUT,
    TRAINING,
    check_posed,
    judged_rows,
    kind_of,
    of_task,
    pose,
    read_judged,
    read_selected,
    task_and_corpus,
    tasks_for,
)
from sentune.tasks.direction import DirectionTask, bag_of_words_direction, entailment_pairs
from sentune.tasks.generation import Generation
from sentune.tasks.own import TASKS
from sentune.tasks.references import References
from sentune.tasks.rte import Rte
from sentune.tasks.sts import Sts
from sentune.tasks.transfer import Transfer

__all__ = [
    "LEFT_OUT",
    "TASKS",
    "TRAINING",
    "AmbiguousRte",
    "DirectionTask",
    "Generation",
    "ModelTask",
    "References",
    "Result",
    "Rte",
    "Sts",
    "Task",
    "Transfer",
    "bag_of_words_direction",
    "check_posed",
    "entailment_pairs",
    "evaluate",
    "judged_rows",
    "kind_of",
    "of_task",
    "pose",
    "read_judged",
    "read_selected",
    "task_and_corpus",
    "tasks_for",
]
