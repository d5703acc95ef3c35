"""Samplers of a user's own, by their addresses; the first one is that of docs/extending.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from optuna.trial import TrialState
from toys import OBJECTIVE, SPACE, Drawn, open_store, play, table

import sentune
from sentune import user_code
from sentune.errors import InvalidValue, SentuneError, StudyConflict
from sentune.job.options import JobOptions, parse
from sentune.study.config import StudyConfig
from sentune.study.samplers.registry import identity_of_own, make_sampler
from sentune.study.space.domains import Choice, Integer, Uniform
from sentune.study.space.objectives import Constraint
from sentune.study.space.space import SearchSpace
from sentune.study.store.storage import open_storage, open_study
from sentune.study.store.trial_codec import MEMORY

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
(MUTATION,) = (b for b in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "Mutation" in b)
OTHERS = """
from optuna.samplers import GPSampler, GridSampler

class Gp(GPSampler):
    pass

class Unseeded(GPSampler):
    def __init__(self):
        super().__init__(seed=1)

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with ``mutation.py`` and ``others.py``, importable here."""
    (tmp_path / "mutation.py").write_text(MUTATION)
    (tmp_path / "others.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(user_code, "_SHIPPED", {})
    yield tmp_path
    for module in ("mutation", "others"):
        sys.modules.pop(module, None)


def test_a_restarted_study_draws_what_it_would_have_drawn(folder: Path) -> None:
    for place, restarts in (("whole", (8,)), ("restarted", (1, 2, 6, 8))):
        (folder / place).mkdir()
        for trials in restarts:
            store = open_store(folder / place)
            play(store, folder / place, trials=trials, sampler="mutation:Mutation")
    whole, restarted = (table(open_store(folder / place)) for place in ("whole", "restarted"))
    assert whole == restarted
    assert len({str(row[3]) for row in whole}) == 8


def test_it_draws_within_the_space_and_near_the_best(folder: Path) -> None:
    settings = {"x": Uniform(0, 1), "y": Integer(1, 64, log=True), "z": Choice("a", "b", "c")}
    space = SearchSpace(
        method="toy", objective=OBJECTIVE, settings=settings, conditions={"x": {"z": ("b", "c")}}
    )
    drawn, kept = Drawn(make_sampler("mutation:Mutation", space, trials=30, seed=2), space), 0
    best: dict[str, object] = {}
    for number in range(30):
        point = drawn.next()
        assert all(settings[name].contains(value) for name, value in point.items())
        kept += sum(best.get(name) == value for name, value in point.items())
        drawn.ends(value=float(-number))  # the first one stays the best
        best = best or dict(point)
    assert kept > 30  # of 58 draws of y and z; at random, ten of z


@pytest.mark.parametrize("name", ["others:Gp", "others:Unseeded"])
def test_trials_without_memory_end_no_model(folder: Path, name: str) -> None:
    """Optuna's Gaussian process refuses trials with different constraints."""
    settings = {"x": Uniform(0, 1), "y": Uniform(0, 1)}
    space = SearchSpace(method="toy", objective=OBJECTIVE, settings=settings)
    bound = Constraint(metric="train/seconds", bound=600.0, at_most=True)
    drawn = Drawn(make_sampler(name, space, trials=16, seed=1, constraints=[bound]), space)
    for number in range(14):
        point = drawn.next()
        if number % 3 == 1:
            drawn.ends(state=TrialState.FAIL, constraints={MEMORY: 1.0})
        else:
            drawn.ends(value=point["x"], constraints={str(bound): point["x"] - 0.5})
    assert drawn.draw.notes


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("magic", r"one of tpe.*grid:NAME, or MODULE:CLASS"),
        ("nowhere:Sampler", "cannot be imported here.*PYTHONPATH"),
        ("mutation:Nothing", "check the name; module mutation has no Nothing"),
        ("others:number", "not a class"),
        ("pathlib:Path", "derived from optuna.samplers.BaseSampler"),
        ("others:GridSampler", "needs more than a seed.*search_space.*name a subclass"),
    ],
)
def test_what_is_no_sampler_is_refused_before_a_cluster_is_asked_for(
    folder: Path, name: str, said: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^--sampler: '{name}'.*({said})"):
        StudyConfig(name="s", storage="s", max_examples=9, sampler=name)
    if ":" not in name:
        with pytest.raises(InvalidValue, match=f"^--sampler: '{name}'.*({said})"):
            parse({"sampler": name}, JobOptions())


def test_its_name_and_its_code_are_in_the_identity_and_ours_are_not(folder: Path) -> None:
    assert identity_of_own("gp") == identity_of_own("grid:paper") == {}

    def opened() -> None:
        own = identity_of_own("mutation:Mutation")
        fingerprint = {"space": SPACE.identity(), **own}
        storage = open_storage(str(folder / "optuna.journal"), driver=True)
        open_study(storage, "toy", modes=["max"], fingerprint=fingerprint)

    opened()
    opened()
    (folder / "mutation.py").write_text(MUTATION.replace("0.3", "0.5"))
    with pytest.raises(StudyConflict, match=r"sampler\.mutation\.py: was .*, is now "):
        opened()


def test_an_entry_point_is_a_sampler_of_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("mutate", "mutation:Mutation", "sentune.samplers")
    monkeypatch.setattr(user_code.metadata, "entry_points", lambda group: [point])
    assert parse({"sampler": "mutate"}, JobOptions()).sampler == "mutate"
    by_name = make_sampler("mutate", SPACE, trials=4, seed=3).draw([], 0, ())
    assert by_name == make_sampler("mutation:Mutation", SPACE, trials=4, seed=3).draw([], 0, ())
    with pytest.raises(InvalidValue, match="priorband, mutate, grid:NAME"):
        parse({"sampler": "mutates"}, JobOptions())


def test_a_program_gives_the_class_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mutation  # type: ignore[import-not-found]

    asked: list[str] = []

    def seen(options: JobOptions, space: SearchSpace) -> None:
        asked.append(options.sampler)
        raise SentuneError("far enough")

    monkeypatch.setattr(import_module("sentune.job.run"), "tune", seen)
    with pytest.raises(SentuneError, match="far enough"):
        sentune.tune("gumbel", sampler=mutation.Mutation, storage=str(folder))
    assert asked == ["mutation:Mutation"]
