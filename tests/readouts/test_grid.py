"""A readout's grid can be narrowed, widened and fixed, within what the readout allows."""

import math

import pytest

from sentune.errors import InvalidValue
from sentune.readouts.grid import ALPHA_1, INTERSECTION, REFERENCES, Readout, grid_of

UNITS = Readout(name="n_h", grid=(1, 2, 3), low=1, high=5000, integer=True)


@pytest.mark.parametrize(
    ("readout", "text", "grid"),
    [
        (ALPHA_1, "0.5", (0.5,)),
        (ALPHA_1, "0.33, 0.35", (0.33, 0.35)),
        (UNITS, "1..4", (1, 2, 3, 4)),
        (UNITS, "2400", (2400,)),
        (INTERSECTION, "hard", ("hard",)),
        (REFERENCES, "100,1000", (100, 1000)),
    ],
)
def test_a_text_becomes_a_grid(readout: Readout, text: str, grid: tuple) -> None:
    assert readout.parse(text) == grid
    assert [type(value) for value in readout.parse(text)] == [type(value) for value in grid]


@pytest.mark.parametrize(
    ("readout", "text", "fix"),
    [
        (ALPHA_1, "1.5", "numbers from 0 to 1"),
        (ALPHA_1, "some", "numbers from 0 to 1"),
        (ALPHA_1, "0.5,0.5", "each value once"),
        (UNITS, "0", "whole numbers from 1 to 5000"),
        (UNITS, "2.5", "whole numbers"),
        (UNITS, "9..2", "smaller number first"),
        (UNITS, "1..6000000", "6000000 cannot be used; use whole numbers from 1 to 5000"),
        (INTERSECTION, "soft", "gumbel or hard"),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_fix(readout: Readout, text: str, fix: str) -> None:
    with pytest.raises(InvalidValue, match=f"readout {readout.name}") as caught:
        readout.parse(text)
    assert fix in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_whole_number_must_be_finite(value: float) -> None:
    with pytest.raises(InvalidValue, match="use whole numbers from 1 to 5000"):
        UNITS.checked((value,))


def test_an_empty_grid_means_found_exactly_and_is_not_the_own_one() -> None:
    assert grid_of(UNITS, {"n_h": ()}) == ()
    assert grid_of(UNITS, {}) == (1, 2, 3)
