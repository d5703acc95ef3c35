"""A search space names every readout of its method, with the grid that also serves without it."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.methods import CLOSED_FORM, find
from sentune.study.space import SearchSpace

SPACES = [
    space
    for path in sorted((Path(__file__).resolve().parents[2] / "search_spaces").glob("*.py"))
    for space in vars(importlib.import_module(f"search_spaces.{path.stem}")).values()
    if isinstance(space, SearchSpace)
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.method)
def test_a_space_has_the_grid_of_every_readout(space: SearchSpace) -> None:
    if space.method in CLOSED_FORM:
        kind = CLOSED_FORM[space.method]
        assert set(space.readouts) == {kind.axis.name}
        return
    own = {readout.name: readout.grid for readout in find(space.method).readouts}
    assert space.apart({})[1] == own
    for readout in find(space.method).readouts:
        if readout.grid:
            assert readout.checked(own[readout.name])


@pytest.mark.parametrize(
    ("method", "setting"), [("laes", "form"), ("sif", "variant")], ids=["laes", "sif"]
)
def test_a_grid_by_setting_is_that_of_the_method(method: str, setting: str) -> None:
    (space,) = (space for space in SPACES if space.method == method)
    kind, vectors = CLOSED_FORM[method], np.ones((4, 200), dtype=np.float32)
    words = WordTable(("a", "b", "c", "d"), vectors, np.full(4, 0.25), listed=np.full(4, 0.25))
    grids = space.readouts[kind.axis.name]
    assert not isinstance(grids, tuple)
    for value in grids[setting]:
        model = kind(words, kind.settings_type.model_validate({setting: value}))
        assert space.apart({setting: value})[1] == {kind.axis.name: model.grid()}


def test_a_space_with_grids_by_setting_comes_back_from_json() -> None:
    for space in SPACES:
        again = SearchSpace.from_dict(space.to_dict())
        assert again.readouts == space.readouts
        assert again.identity() == space.identity()


def test_a_given_grid_takes_the_place_of_all() -> None:
    (space,) = (space for space in SPACES if space.method == "laes")
    kind = CLOSED_FORM["laes"]
    left = space.narrow({"n_h": "1..3"}, (), (kind.axis,))
    assert left.apart({"form": "hid"})[1] == {"n_h": (1, 2, 3)}
    with pytest.raises(InvalidValue, match="n_h"):
        space.narrow({"n_h": "0"}, (), (kind.axis,))
