"""SIF and LAES on Ray Train groups: as one worker fits them, whatever becomes of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from sentune import Embedder
from sentune.summary import read_summary
from tests.end_to_end.jobs import finish, start
from tests.end_to_end.test_closed_form_jobs import WORDS, best, write_files
from tests.soak import SOAK

FIXED = {
    "tune_sif": ["--set=variant=sif", "--set=a=1e-3", "--set=components=0,1,2,3,5,8"],
    "tune_laes": ["--set=form=bres-cat", "--set=a=1e-3", "--set=max_length=9", "--set=n_h=1..20"],
}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Of three CPUs: two workers, and one that stays free for Ray Data."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ADDRESS", made.address)
        yield
    made.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))


def options(files: Path, *given: str) -> list[str]:
    return [
        f"--corpus=stsb:{files}/train.csv", f"--dev=stsb:{files}/dev.csv",
        f"--vectors=glove:{files}/vectors.txt", f"--frequencies={files}/counts.txt",
        "--trials=1", *given,
    ]  # fmt: skip


WAYS = {"shared": [], "streamed": ["--share-mb=0"]}
"""How two workers get the corpus."""

CASES = [(job, [*WAYS]) for job in FIXED] if SOAK else [("tune_laes", ["streamed"])]


@pytest.mark.parametrize(("job", "ways"), CASES)
def test_two_workers_fit_what_one_fits(
    job: str, ways: list[str], files: Path, tmp_path: Path
) -> None:
    for study, given in {
        "alone": ["--workers=1"], **{way: ["--workers=2", *WAYS[way]] for way in ways},
    }.items():  # fmt: skip
        finish(job, options(files, f"--study={study}", *given, *FIXED[job]), tmp_path)
    alone = best(tmp_path, "alone")
    for study in ways:
        assert read_summary(str(tmp_path / study))["plan"]["launcher"] == "train"
        two = best(tmp_path, study)
        assert two["readouts"] == alone["readouts"]
        for name, value in alone["metrics"].items():
            if name != "train/seconds":
                assert two["metrics"][name] == pytest.approx(value, abs=1e-10)
        sentence = " ".join(WORDS[:5])
        models = [Embedder.load(tmp_path / one / "model") for one in ("alone", study)]
        first, second = (model.embed([sentence]) for model in models)
        assert abs(first - second).max() < 1e-6 * abs(first).max()


def test_more_workers_than_the_cluster_holds_are_refused(files: Path, tmp_path: Path) -> None:
    done = start("tune_sif", options(files, "--workers=9"), tmp_path)
    assert done.returncode == 2
    assert "--workers" in done.stdout + done.stderr
