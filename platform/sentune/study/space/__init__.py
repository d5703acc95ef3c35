"""The search: what is tried, in which order, for how long, and which trial wins.

Only the space is imported here, so that a search space and ``--help`` need neither Ray nor Optuna.
"""

from sentune.study.space.space import Choice, Integer, SearchSpace, Uniform

__all__ = ["Choice", "Integer", "SearchSpace", "Uniform"]
