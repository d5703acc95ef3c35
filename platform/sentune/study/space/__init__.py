"""Search spaces of a study, their dimensions, objectives and constraints.

Importing this package needs neither Ray nor Optuna, so search spaces and ``--help`` load fast.
"""

from sentune.study.space.space import Choice, Integer, SearchSpace, Uniform

__all__ = ["Choice", "Integer", "SearchSpace", "Uniform"]
