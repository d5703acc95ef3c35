"""A sweep knows its best combination and travels as JSON."""

import json

import numpy as np
import pytest

from sentune.errors import InvalidValue
from sentune.readouts.sweep import Sweep

VALUES = np.array([[np.nan, 0.5, 0.7], [np.nan, np.nan, 0.7]])
BETA = np.array([[np.nan, 0.1, 0.2], [np.nan, np.nan, 0.3]])
AXES = {"alpha_1": (0.2, 0.4), "alpha_2": (0.2, 0.4, 0.6)}


def test_the_first_of_equal_values_is_chosen_with_what_was_found_exactly_there() -> None:
    sweep = Sweep(metric="t/f1", axes=AXES, values=VALUES, exact={"beta": BETA})
    assert sweep.best == 0.7
    assert sweep.chosen == {"alpha_1": 0.2, "alpha_2": 0.6, "beta": 0.2}


def test_the_table_is_json_with_null_where_nothing_is_allowed() -> None:
    table = Sweep(metric="t/f1", axes=AXES, values=VALUES, exact={"beta": BETA}).to_table()
    again = json.loads(json.dumps(table, allow_nan=False))
    assert again["values"] == [[None, 0.5, 0.7], [None, None, 0.7]]
    assert again["best"] == {"value": 0.7, "alpha_1": 0.2, "alpha_2": 0.6, "beta": 0.2}


def test_a_shape_that_does_not_fit_and_a_grid_without_a_combination_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"\(2, 3\)"):
        Sweep(metric="t/f1", axes=AXES, values=VALUES.T)
    with pytest.raises(InvalidValue, match="no combination"):
        Sweep(metric="t/f1", axes=AXES, values=np.full((2, 3), np.nan))
