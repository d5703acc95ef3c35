"""Settings that exist only where another one has certain values."""

from __future__ import annotations

import itertools
import json

import pytest
from toys import Drawn

from sentune.errors import InvalidValue
from sentune.study.samplers.registry import make_sampler
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.space import SearchSpace
from sentune.study.store.trial_codec import key

SPACE = SearchSpace(
    method="toy",
    objective="a/b",
    settings={
        "mixing": Choice("plain", "gated"),  # depends on what comes after it
        "layers": Integer(1, 4),
        "decoder": Choice("linear", "coupling", "recurrent"),
        "width": Choice(64, 128),
        "gate": Choice(0, 1, 2),
    },
    conditions={
        "layers": {"decoder": ("coupling", "recurrent")},
        "mixing": {"decoder": ("coupling",)},
        "gate": {"mixing": ("gated",), "width": (128,)},
    },
    published={"decoder": "coupling", "layers": 2, "width": 128, "mixing": "gated", "gate": 1},
    grids={"table": {"decoder": ("linear", "coupling"), "layers": (2, 4)}},
)


def by_hand(point: dict) -> dict:
    """The active settings of a whole point."""
    kept = dict(point)
    if point["decoder"] != "coupling":
        del kept["mixing"]
    if point["decoder"] == "linear":
        del kept["layers"]
    if kept.get("mixing") != "gated" or point["width"] != 128:
        del kept["gate"]
    return kept


ALL = {
    key(by_hand(dict(zip(("mixing", "layers", "decoder", "width", "gate"), values, strict=True))))
    for values in itertools.product(
        ("plain", "gated"), (1, 2, 3, 4), ("linear", "coupling", "recurrent"), (64, 128), (0, 1, 2)
    )
}


def test_every_configuration_comes_once_and_is_counted_once():
    points = [key(point) for point in SPACE.points()]
    assert len(points) == len(set(points)) == SPACE.size
    assert set(points) == ALL


def test_settings_stand_after_those_they_depend_on():
    order = list(SPACE.settings)
    for name, asked in SPACE.conditions.items():
        assert all(order.index(other) < order.index(name) for other in asked)
    asked_for: list[str] = []

    def suggest(name: str, dimension: object) -> object:
        asked_for.append(name)
        return {"decoder": "linear", "width": 128}[name]

    assert SPACE.draw(suggest) == {"decoder": "linear", "width": 128}
    assert set(asked_for) == {"decoder", "width"}


@pytest.mark.parametrize(
    ("wanted", "settings", "fixed", "conditions"),
    [
        ({"decoder": "linear"}, {"width"}, {"decoder": "linear"}, set()),
        ({"decoder": "coupling"}, {"mixing", "layers", "width", "gate"}, {"decoder": "coupling"},
         {"gate"}),
        ({"decoder": "linear,recurrent"}, {"decoder", "layers", "width"}, {}, {"layers"}),
        ({"width": "64"}, {"mixing", "layers", "decoder"}, {"width": 64}, {"mixing", "layers"}),
        ({"layers": "3"}, set(SPACE.settings), {}, {"mixing", "layers", "gate"}),
        ({"mixing": "gated"}, set(SPACE.settings), {}, {"mixing", "layers", "gate"}),
    ],
)  # fmt: skip
def test_narrowing_leaves_what_can_still_be_active(wanted, settings, fixed, conditions):
    narrowed = SPACE.narrow(wanted)
    assert (set(narrowed.settings), narrowed.fixed) == (settings, fixed)
    assert set(narrowed.conditions) == conditions
    points = [key({**point, **fixed}) for point in narrowed.points()]
    assert len(points) == len(set(points)) == narrowed.size
    left = {p for p in ALL if all(_holds(json.loads(p), n, t) for n, t in wanted.items())}
    assert set(points) == left


def _holds(point: dict, name: str, text: str) -> bool:
    return name not in point or str(point[name]) in text.split(",")


def test_a_setting_without_meaning_is_refused():
    with pytest.raises(InvalidValue, match=r"--set layers: '3'.*decoder coupling or recurrent"):
        SPACE.narrow({"decoder": "linear", "layers": "3"})
    with pytest.raises(InvalidValue, match=r"--try-first gate: 1.*mixing gated and width 128"):
        SPACE.with_points([{"width": 64, "gate": 1}])


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"layers": {"decodr": ("coupling",)}}, "decodr"),
        ({"layers": {"decoder": ("couplign",)}}, "couplign"),
        ({"layers": {"rate": (0.1,)}}, "rate"),
        ({"gate": {"decoder": ("coupling",)}}, "gate"),
        ({"layers": {"decoder": "coupling"}}, r"layers: .*as in \('coupling',\)"),
        ({"decoder": {"decoder": ("coupling",)}}, "decoder"),
        ({"decoder": {"mixing": ("gated",)}, "mixing": {"decoder": ("linear",)}}, "circle"),
    ],
)
def test_conditions_on_nothing_or_in_a_circle_are_refused(conditions, said):
    settings = {
        "decoder": Choice("linear", "coupling"),
        "mixing": Choice("plain", "gated"),
        "layers": Integer(1, 4),
        "rate": Uniform(0, 1),
    }
    with pytest.raises(InvalidValue, match=said):
        SearchSpace(method="toy", objective="a/b", settings=settings, conditions=conditions)


def test_known_points_and_grids_keep_to_what_is_active():
    assert SPACE.first_points() == [SPACE.published]
    plain = SPACE.narrow({"mixing": "plain"})
    assert plain.first_points() == []
    assert SPACE.narrow({"decoder": "linear"}).first_points() == [{"width": 128}]
    grid = SPACE.on_grid("table")
    assert [{**p, **grid.fixed} for p in grid.points()] == [
        {"decoder": "linear", "width": 128},
        *({"decoder": "coupling", "layers": n, "mixing": "gated", "width": 128, "gate": 1}
          for n in (2, 4)),
    ]  # fmt: skip


def test_a_conditional_space_survives_json():
    again = SearchSpace.from_dict(json.loads(json.dumps(SPACE.to_dict())))
    assert again.identity() == SPACE.identity()
    assert list(again.points()) == list(SPACE.points())
    other = SearchSpace.from_dict({**SPACE.to_dict(), "conditions": {}})
    assert other.identity() != SPACE.identity()


@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "grid"])
def test_samplers_walk_the_active_settings_and_repeat_no_configuration(name: str):
    space = SPACE.narrow({"layers": "1,2"})
    drawn, seen = Drawn(make_sampler(name, space, trials=30, seed=1), space), []
    for number in range(20):
        seen.append(key(drawn.next()))
        assert seen[-1] in ALL
        drawn.ends(values=[float(number % 5)])
    if name != "qmc":  # a sequence has its places; what it repeats is answered from the store
        assert len(set(seen)) == space.size


@pytest.mark.parametrize("name", ["gp", "cmaes", "nsga2"])
def test_samplers_that_would_draw_them_at_random_refuse_them(name: str):
    with pytest.raises(InvalidValue, match="--sampler"):
        make_sampler(name, SPACE, trials=8, seed=0)
