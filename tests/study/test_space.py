"""What a search space holds, and what ``--set`` makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.surfaces import TABLE_3
from search_spaces import gauss, gumbel, intersent, invertible, laes, sif, simcse
from sentune.errors import InvalidValue
from sentune.methods.sif import Sif
from sentune.study.space.domains import Choice, Integer, Uniform, dimension_from_dict
from sentune.study.space.space import SearchSpace

GAUSS = gauss.SPACE
SPACES = (
    GAUSS, gumbel.SPACE, intersent.SPACE, invertible.SPACE, laes.SPACE, sif.SPACE, simcse.SPACE,
    simcse.UNSUPERVISED, simcse.PAIRS,
)  # fmt: skip

SPACE = SearchSpace(
    method="toy",
    objective="direction/accuracy",
    settings={
        "batch_size": Choice(16, 32, 64),
        "learning_rate": Uniform(1e-5, 1e-3, log=True),
        "layers": Integer(1, 9, step=2),
        "pooling": Choice("cls", "mean"),
    },
    published={"batch_size": 64, "learning_rate": 5e-5, "layers": 3, "pooling": "cls"},
    grids={"table3": {"batch_size": (16, 128), "learning_rate": (1e-5, 3e-5)}},
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ({"batch_size": "16,64"}, Choice(16, 64)),
        ({"batch_size": "20..64"}, Choice(32, 64)),
        ({"learning_rate": "1e-4..5e-4"}, Uniform(1e-4, 5e-4, log=True)),
        ({"learning_rate": "1e-4, 5e-4"}, Choice(1e-4, 5e-4)),
        ({"layers": "3..7"}, Integer(3, 7, step=2)),
        ({"layers": "1,9"}, Choice(1, 9)),
        ({"pooling": "mean,cls"}, Choice("mean", "cls")),
    ],
)
def test_a_range_or_a_list_narrows(text, left):
    (name,) = text
    narrowed = SPACE.narrow(text)
    assert narrowed.settings[name] == left
    assert name not in narrowed.fixed


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("batch_size", "32", 32),
        ("batch_size", "30..40", 32),
        ("learning_rate", "5e-05", 5e-5),
        ("learning_rate", "1e-4..1e-4", 1e-4),
        ("layers", "5", 5),
        ("pooling", "mean", "mean"),
    ],
)
def test_one_value_fixes(name, text, value):
    narrowed = SPACE.narrow({name: text})
    assert narrowed.fixed == {name: value}
    assert type(narrowed.fixed[name]) is type(value)
    assert name not in narrowed.settings
    assert list(narrowed.settings) == [key for key in SPACE.settings if key != name]


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("batch_size", "17", "16, 32, 64"),
        ("batch_size", "16,17", "16, 32, 64"),
        ("batch_size", "70..90", "16, 32, 64"),
        ("batch_size", "a..b", "give a number"),
        ("learning_rate", "1", "1e-05..0.001"),
        ("learning_rate", "fast", "give a number"),
        ("learning_rate", "nan", "finite"),
        ("learning_rate", "5e-4..1e-4", "is not a range"),
        ("layers", "2", "1..9 in steps of 2"),
        ("layers", "3.5", "1..9 in steps of 2"),
        ("pooling", "max", "cls, mean"),
        ("poling", "cls", "pooling"),
    ],
)
def test_a_wrong_name_or_value_is_refused_with_what_is_allowed(name, text, allowed):
    with pytest.raises(InvalidValue) as refused:
        SPACE.narrow({name: text})
    assert str(refused.value).startswith(f"--set {name}: {text!r}")
    assert allowed in str(refused.value)


def test_other_settings_may_be_fixed_where_the_caller_knows_them():
    others = {"max_length": int, "schedule": str, "clip_norm": float}
    wanted = {"max_length": "32", "schedule": "linear", "clip_norm": "1e-1"}
    assert SPACE.narrow(wanted, others, typed=lambda name, text: others[name](text)).fixed == {
        "max_length": 32,
        "schedule": "linear",
        "clip_norm": 0.1,
    }


def test_values_of_another_setting_are_chosen_from():
    space = SPACE.narrow({"max_length": "32, 64"}, ["max_length"], typed=lambda _, text: int(text))
    assert space.settings["max_length"] == Choice(32, 64)


def test_a_fixed_number_stays_a_number():
    space = replace(SPACE, fixed={"mix_a": 1.0})
    assert space.narrow({"mix_a": "3"}).fixed == {"mix_a": 3}
    with pytest.raises(InvalidValue, match=r"--set mix_a: 'much'.*give a number"):
        space.narrow({"mix_a": "much"})


def test_the_published_point_comes_first_and_what_changed_is_said():
    assert SPACE.first_points() == [SPACE.published]
    assert SPACE.first_note() == ""
    left = SPACE.narrow({"batch_size": "16,32", "learning_rate": "1e-4..1e-3"})
    point = {"batch_size": 32, "learning_rate": 1e-4, "layers": 3, "pooling": "cls"}
    assert left.first_points() == [point]
    assert "batch_size 64 -> 32" in left.first_note()
    assert "learning_rate 5e-05 -> 0.0001" in left.first_note()
    fixed = SPACE.narrow({"batch_size": "16"})
    assert "batch_size" not in fixed.first_points()[0]
    assert "batch_size 64 -> 16" in fixed.first_note()


def test_where_nothing_is_near_the_published_point_is_not_tried():
    other = SearchSpace(method="toy", objective="a/b", settings={"pooling": Choice("max", "mean")},
                        published={"pooling": "cls"})  # fmt: skip
    assert other.first_points() == []
    assert "pooling" in other.first_note()


def test_the_start_of_an_encoders_class_comes_before_the_published_point():
    space = replace(SPACE, starts={"scratch": {"learning_rate": 1e-3}, "small": {"layers": 1}})
    suited = space.for_trials("scratch", 100 * 64)
    assert suited.first_points() == [{**SPACE.published, "learning_rate": 1e-3}, SPACE.published]
    assert suited.first_note() == "the start for an encoder from scratch; then the published point"
    assert suited.identity() == SPACE.identity()
    assert SearchSpace.from_dict(suited.to_dict()) == suited
    for other in (space, space.for_trials("base", 6400), space.for_trials("", 6400)):
        assert other.first_points() == [SPACE.published]
        assert other.first_note() == ""


def test_a_start_that_a_narrowed_space_makes_equal_is_not_tried_twice():
    space = replace(SPACE, starts={"small": {"batch_size": 16}}).narrow({"batch_size": "32"})
    assert len(space.for_trials("small", 10_000).first_points()) == 1


@given(examples=st.integers(1, 100_000))
def test_the_published_point_has_a_hundred_steps_or_the_smallest_batch(examples):
    (point,) = SPACE.for_trials("base", examples).first_points()
    batch, published = point["batch_size"], SPACE.published["batch_size"]
    assert examples / batch >= 100 or batch == 16
    larger = [size for size in (16, 32, 64) if size > batch]
    assert all(examples / size < 100 for size in larger), "no smaller than it has to be"
    assert point["learning_rate"] == pytest.approx(5e-5 * (batch / published) ** 0.5)
    assert point["layers"] == SPACE.published["layers"]


def test_the_plan_says_what_the_budget_changed():
    space = SPACE.for_trials("small", 3_000)
    assert space.first_note() == (
        "the published point, changed: batch_size 64 -> 16, learning_rate 5e-05 -> 2.5e-05"
    )
    fixed = SPACE.narrow({"batch_size": "64"}).for_trials("small", 3_000)
    assert fixed.first_points()[0]["learning_rate"] == 5e-5, "a batch of the user's is kept"
    assert fixed.first_note() == ""


def test_points_to_try_come_before_the_first_one_and_are_as_it_where_they_say_nothing():
    point = SPACE.parse_point("batch_size=16, learning_rate=1e-4,pooling=mean")
    assert point == {"batch_size": 16, "learning_rate": 1e-4, "pooling": "mean"}
    space = SPACE.with_points([point, {"layers": 9}])
    assert space.first_points() == [
        {**SPACE.published, **point},
        {**SPACE.published, "layers": 9},
        SPACE.published,
    ]
    assert space.identity() == SPACE.identity(), "they do not change what is searched"
    assert SearchSpace.from_dict(space.to_dict()).first_points() == space.first_points()
    assert SPACE.with_points([SPACE.published]).first_points() == [SPACE.published]
    started = replace(SPACE, starts={"small": {"layers": 9}}).for_trials("small", 10_000)
    assert started.with_points([point]).first_points()[0] == {
        **SPACE.published,
        **point,
        "layers": 9,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_size=17", "--try-first batch_size: '17' cannot be used; give one of 16, 32, 64$"),
        ("batchsize=16", "--try-first batchsize: '16'.*the searched settings are batch_size"),
        ("layers=2", r"--try-first layers: '2'.*1..9 in steps of 2"),
        ("batch_size", "write setting=value,setting=value"),
        ("batch_size=16,batch_size=32", "each setting once"),
        ("", "write setting=value"),
    ],
)
def test_a_wrong_point_is_refused_by_its_setting(text, said):
    with pytest.raises(InvalidValue, match=said):
        SPACE.parse_point(text)


def test_a_point_is_checked_against_the_space_that_is_left():
    left = SPACE.narrow({"batch_size": "16,32"})
    with pytest.raises(InvalidValue, match=r"--try-first batch_size: 64.*16, 32"):
        left.with_points([{"batch_size": 64}])
    with pytest.raises(InvalidValue, match="--try-first rate: 1"):
        left.with_points([{"batch_size": 16, "rate": 1}])
    unknown = replace(SPACE, published={})
    with pytest.raises(InvalidValue, match="add learning_rate=VALUE"):
        unknown.with_points([{"batch_size": 16}])


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.method)
def test_the_papers_spaces_hold_their_own_points_and_grids(space):
    assert space.first_points()[0].items() <= space.published.items()
    assert space.first_note() == ""
    assert space.live <= space.settings.keys()
    for name in space.grids:
        assert space.on_grid(name).size == len(list(space.on_grid(name).points()))


def test_gausscses_table_3_is_a_grid():
    grid = GAUSS.on_grid("table3")
    assert grid.size == 15
    assert {(p["batch_size"], p["learning_rate"]) for p in grid.points()} == {
        (batch, rate) for batch, row in TABLE_3.items() for rate in row
    }


@given(st.floats(0, 1, exclude_max=True))
def test_a_share_of_a_dimension_lies_in_it_and_shares_are_in_order(share: float):
    for dimension in SPACE.settings.values():
        assert dimension.contains(dimension.at(share))
    for dimension in (
        Uniform(1e-5, 1e-3, log=True),
        Integer(1, 9, step=2),
        Integer(1, 99, log=True),
    ):
        assert dimension.at(0.0) <= dimension.at(share / 2) <= dimension.at(share)
        assert dimension.at(0.0) == pytest.approx(dimension.low)


def test_a_named_grid_is_a_space_of_choices():
    grid = SPACE.on_grid("table3")
    assert grid.settings == {"batch_size": Choice(16, 128), "learning_rate": Choice(1e-5, 3e-5)}
    assert grid.fixed == {"layers": 3, "pooling": "cls"}
    assert grid.size == 4
    assert list(grid.points())[:2] == [
        {"batch_size": 16, "learning_rate": 1e-5},
        {"batch_size": 16, "learning_rate": 3e-5},
    ]


def test_a_grid_keeps_to_what_the_user_has_narrowed():
    grid = SPACE.narrow({"batch_size": "16,32", "learning_rate": "2e-5"}).on_grid("table3")
    assert grid.settings == {"batch_size": Choice(16)}
    assert grid.fixed["learning_rate"] == 2e-5
    with pytest.raises(InvalidValue, match="batch_size"):
        SPACE.narrow({"batch_size": "32,64"}).on_grid("table3")
    with pytest.raises(InvalidValue, match="grid:table3"):
        SPACE.on_grid("table4")
    with pytest.raises(InvalidValue, match="learning_rate"):
        list(SPACE.points())


def test_the_fingerprint_is_that_of_what_is_searched():
    assert SPACE.identity() == SearchSpace.from_dict(SPACE.to_dict()).identity()
    assert SPACE.identity() != SPACE.narrow({"layers": "3"}).identity()
    assert SPACE.to_dict() == json.loads(json.dumps(SPACE.to_dict()))


dimensions = st.one_of(
    st.lists(st.integers(-99, 99), min_size=1, max_size=5, unique=True).map(lambda v: Choice(*v)),
    st.tuples(st.floats(-9, 9), st.floats(0, 9)).map(lambda p: Uniform(p[0], p[0] + p[1])),
    st.tuples(st.integers(-9, 9), st.integers(0, 20), st.integers(1, 4)).map(
        lambda p: Integer(p[0], p[0] + p[1], step=p[2])
    ),
)


def test_whole_numbers_written_as_floats_are_whole_and_others_are_refused() -> None:
    assert Integer(1e2, 1e3, log=True) == Integer(100, 1000, log=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"1\.5\.\.3: give whole numbers"):
        Integer(1.5, 3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_those_of_python() -> None:
    space = (Choice(np.int64(32), np.float64(0.5)), Uniform(np.float32(0.5), np.float64(1)))
    assert space == (Choice(32, 0.5), Uniform(0.5, 1.0))
    assert json.loads(json.dumps([d.to_dict() for d in space])) == [d.to_dict() for d in space]


@pytest.mark.parametrize("value", [[32, 64], np.array([32, 64]), {"a": 1}])
def test_what_is_no_value_or_no_dimension_is_refused_where_it_is_written(value: Any) -> None:
    with pytest.raises(ValueError, match="without a list, as in Choice"):
        Choice(value)
    with pytest.raises(InvalidValue, match=r"settings\[batch_size\]: .*Choice\(VALUE\)"):
        replace(SPACE, settings={"batch_size": value})


@given(dimensions, st.floats(-200, 200))
def test_the_nearest_value_is_allowed_and_none_is_nearer(dimension, value):
    nearest = dimension.nearest(value)
    assert dimension.contains(nearest)
    for number in range(-100, 101):
        if dimension.contains(number):
            assert abs(nearest - value) <= abs(number - value) + 1e-9


@given(dimensions)
def test_a_dimension_survives_json(dimension):
    assert dimension_from_dict(json.loads(json.dumps(dimension.to_dict()))) == dimension


def test_grids_by_a_number_or_a_truth_survive_json():
    space = SearchSpace(
        method="toy",
        objective="toy/score",
        settings={"size": Choice(32, 64), "tied": Choice(True, False)},
        readouts={
            "alpha": {"size": {32: (0.1,), 64: (0.2,)}},
            "beta": {"tied": {True: (1,), False: (2,)}},
        },
    )
    settings = {"size": 64, "tied": True}
    assert space.grids_for(settings) == {"alpha": (0.2,), "beta": (1,)}
    again = SearchSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again.grids_for(settings) == space.grids_for(settings)
    assert space.grids_for({"size": 64.0, "tied": 1}) == space.grids_for(settings)


def test_a_searched_average_has_no_component_removed_whatever_is_set():
    space = sif.SPACE.narrow({"components": "0,1,40"}, readouts=(Sif.axis,))
    assert space.grids_for({"variant": "average"}) == {"components": (0,)}
    assert space.grids_for({"variant": "usif"}) == {"components": (0, 1, 40)}
    wanted = {"components": "1", "variant": "average"}  # a row of the paper
    space = sif.SPACE.narrow(wanted, readouts=(Sif.axis,))
    assert space.grids_for(space.fixed) == {"components": (1,)}
