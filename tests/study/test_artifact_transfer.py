"""A folder that only the driver's machine has reaches every worker."""

from pathlib import Path

import pytest
import ray

from sentune.launchers.artifact_transfer import WithEncoder, ship
from sentune.training.group import Group
from sentune.training.trial import TrialSpec

pytestmark = pytest.mark.cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "encoder"
    (made / "inner").mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "inner" / "weights").write_bytes(bytes(range(256)))
    return made


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_where_the_folder_is_it_is_used_as_it_is(folder: Path) -> None:
    assert ship(str(folder)).open() == str(folder)


def test_elsewhere_a_copy_with_the_same_content_is_made_once(folder: Path) -> None:
    shipped = ship(str(folder))
    away = folder.rename(folder.with_name("moved"))
    first, second = Path(shipped.open()), Path(shipped.open())
    assert first == second != folder
    for file in away.rglob("*"):
        if file.is_file():
            assert (first / file.relative_to(away)).read_bytes() == file.read_bytes()
    assert [p.name for p in first.parent.iterdir()] == [first.name]


def test_a_folder_of_the_same_name_and_other_content_is_not_taken_for_it(folder: Path) -> None:
    shipped = ship(str(folder))
    (folder / "config.json").write_text("changed")
    assert (Path(shipped.open()) / "config.json").read_text() == "{}"


def test_the_copy_lies_in_this_user_s_cache(folder: Path) -> None:
    shipped = ship(str(folder))
    folder.rename(folder.with_name("moved"))
    assert Path(shipped.open()) == Path.home() / ".cache/sentune/fetched" / shipped.digest


def test_a_folder_that_was_planted_is_not_trusted(folder: Path) -> None:
    shipped = ship(str(folder))
    folder.rename(folder.with_name("moved"))
    forged = Path.home() / ".cache/sentune/fetched" / shipped.digest
    forged.mkdir(parents=True)
    (forged / "config.json").write_text("forged")
    opened = Path(shipped.open())
    assert (opened / "config.json").read_text() == "{}"


def test_a_copy_that_is_not_as_it_was_written_is_written_anew(folder: Path) -> None:
    shipped = ship(str(folder))
    folder.rename(folder.with_name("moved"))
    copy = Path(shipped.open())
    (copy / "config.json").write_text("changed")
    (copy / "more").write_text("planted")
    again = Path(shipped.open())
    assert (again / "config.json").read_text() == "{}"
    assert not (again / "more").exists()


def test_the_program_gets_the_encoder_s_place_on_its_machine(folder: Path) -> None:
    def program(spec, group):
        yield spec.encoder

    shipped = ship(str(folder))
    folder.rename(folder.with_name("moved"))
    spec = TrialSpec(
        trial="0", method="gumbel", settings={}, encoder=str(folder), corpus=None,
        dev=None, max_examples=1, milestones=(1,), objective="a/b",
    )  # fmt: skip
    (told,) = WithEncoder(program, shipped)(spec, Group.single())
    assert (Path(told) / "config.json").is_file()
