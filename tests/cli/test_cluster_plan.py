"""``sentune cluster plan`` as it is typed: the job's own options, prices, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentune import job
from sentune.cli import app
from sentune.cli.cluster_plan import cluster_of, options_of, parse_prices, read_job
from sentune.errors import InvalidValue, SentuneError
from sentune.job.options import JobOptions, OperationOptions
from sentune.study.planning.capacity import machines

ROOT = Path(__file__).resolve().parents[2]
GUMBEL = ROOT / "jobs/tune_gumbel.py"
STUDY = ("--trials", "40", "--gpus-per-worker", "1", "--set", "batch_size=64")
RATE = ("--examples-per-second", "45")


def plan(*arguments: str, script: Path = GUMBEL, file: str = "cluster.yaml") -> str:
    """What the command prints; raises what it refuses."""
    named = ("--cluster-file", str(ROOT / file)) if file else ()
    done = CliRunner().invoke(app, ["cluster", "plan", str(script), *named, *arguments])
    if isinstance(done.exception, SentuneError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def row(printed: str, start: str) -> list[str]:
    """The cells of the line that starts so."""
    [line] = [line for line in printed.splitlines() if line.startswith(start)]
    return re.split(r"\s{2,}", line.strip())


def test_nodes_hours_and_dollars() -> None:
    prices = ("--price", "gpu-spot=0.5", "--price", "gpu-on-demand=1.5", "--price", "head=0.2")
    printed = plan(*STUDY, *RATE, *prices)
    assert row(printed, "search")[:3] == ["search", "40", "8"]
    assert row(printed, "search")[4] == "1 head, 8 gpu-spot"
    cells = row(printed, "gpu-spot")
    hours, price, dollars = map(float, cells[-3:])
    assert price == 0.5
    assert dollars == pytest.approx(hours * price, abs=0.01)
    total = float(row(printed, "total")[-1])
    assert total == pytest.approx(dollars + float(row(printed, "head")[-1]), abs=0.01)
    assert "If it is used throughout" in printed
    assert "45 examples per second per worker" in printed


def test_without_a_rate_hours_are_not_made_up() -> None:
    printed = plan(*STUDY)
    assert row(printed, "search")[3] == "-"
    assert "Give --probe" in printed


def test_the_options_are_the_jobs_and_so_are_its_errors() -> None:
    assert row(plan(*STUDY, "--concurrent", "3"), "search")[2] == "3"
    with pytest.raises(InvalidValue, match="--trials"):
        plan("--trials", "0")
    with pytest.raises(InvalidValue, match="--tirals"):
        plan("--tirals", "9")
    with pytest.raises(InvalidValue, match="--trials"):
        plan("--trials")
    with pytest.raises(InvalidValue, match="--gpus-per-worker"):
        plan("--gpus-per-worker", "2")


def test_options_are_read_as_the_script_reads_them() -> None:
    asked = read_job(GUMBEL)
    words = ["--study=s", "--set", "batch_size=64", "--set=dimension=16", "--workers", "1-4"]
    options = options_of(asked, [*words, "--search-readouts"])
    assert isinstance(options, JobOptions)
    assert (options.study, options.workers) == ("s", (1, 4))
    assert options.set == ("batch_size=64", "dimension=16")
    assert options.search_readouts is True
    assert options.trials == asked.defaults.trials
    assert job.run.__module__ == "sentune.job.run"


def test_a_first_look_is_known_where_the_job_has_one() -> None:
    asked = read_job(ROOT / "jobs/tune_intersent.py")
    assert isinstance(asked.defaults, OperationOptions)
    options = options_of(asked, ["--quick", "--trials", "5"])
    assert (options.study, options.trials) == ("intersent-quick", 5)
    with pytest.raises(InvalidValue, match="--quick"):
        options_of(read_job(GUMBEL), ["--quick"])


def test_what_is_no_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="JOB"):
        plan(script=tmp_path / "missing.py")
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(InvalidValue, match="does not call"):
        plan(script=tmp_path / "other.py")


def test_kuberay_grows_alike_and_own_machines_are_described() -> None:
    assert row(plan(*STUDY, file="cluster/kuberay.yaml"), "search") == row(plan(*STUDY), "search")
    printed = plan(*STUDY, "--node", "gpu=8,2,3", "--node", "head=0,0,1", file="")
    assert row(printed, "search")[-1] == "3 gpu, 1 head"
    assert row(printed, "search")[2] == "6"
    with pytest.raises(InvalidValue, match="--node"):
        plan("--node", "gpu=8,2,3")
    with pytest.raises(InvalidValue, match="--node"):
        plan(file="cluster/onprem.yaml")


def test_a_corpus_that_streams_keeps_a_cpu_free() -> None:
    two = ("--node", "one=1,0,2", "--trials", "9", "--set", "batch_size=64")
    assert row(plan(*two, file=""), "search")[2] == "2"
    assert row(plan(*two, "--streams", file=""), "search")[2] == "1"


def test_a_fit_in_closed_form_is_not_reckoned_by_examples() -> None:
    words = ("--corpus", "text:a.txt", "--dev", "stsb:b.csv", "--vectors", "glove:c.txt")
    sif = ROOT / "jobs/tune_sif.py"
    assert row(plan(*words, script=sif), "search")[0] == "search"
    with pytest.raises(InvalidValue, match="--probe"):
        plan(*words, *RATE, script=sif)


@pytest.mark.parametrize("text", ["gpu", "gpu=", "gpu=-1", "=3", "gpu=nan", "gpu=inf", "gpu=1=2"])
def test_prices_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"--price.*give NODE_TYPE=DOLLARS_PER_HOUR"):
        parse_prices([text], ("gpu",))


def test_prices_of_nodes_that_are_not_there_or_stand_twice() -> None:
    with pytest.raises(InvalidValue, match="gpu-spot, gpu-on-demand"):
        plan("--price", "gpu=1")
    with pytest.raises(InvalidValue, match="once"):
        parse_prices(["a=1", "a=2"], ("a",))


@pytest.mark.parametrize("text", ["gpu", "gpu=8,1", "gpu=8,1,x", "=8,1,1"])
def test_nodes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValue, match="--node"):
        cluster_of(None, [text])
    with pytest.raises(InvalidValue, match="each name once"):
        cluster_of(None, ["a=8,1,2", "a=4,0,1"])


def test_described_nodes_are_up_and_stay() -> None:
    assert [(n.cpus, n.gpus) for n in machines(cluster_of(None, ["a=8,1,2"]))] == [(8, 1)] * 2
