"""A job's first configuration, probed without Ray and without a trace."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console
from transformers import BertConfig, BertModel

from sentune.encoders import prepare
from sentune.errors import InvalidValue, PlanError, TrialFailed
from sentune.job.families import JobFamily, make_job
from sentune.job.families.base import first_configuration
from sentune.job.options import ClosedFormOptions, JobOptions
from sentune.job.plan import checked_plan, show_plan
from sentune.methods.gumbelcse import Gumbelcse, GumbelcseSettings
from sentune.study.config import StudyConfig
from sentune.study.planning.plan import Probe
from sentune.study.space import Choice, SearchSpace, Uniform
from sentune.training.recipes.sentences import Sentences
from sentune.training.settings import TrainingSettings
from tests.servers import free_port

SPACE = SearchSpace(
    method="gumbel",
    objective="direction/accuracy",
    settings={"learning_rate": Uniform(1e-4, 1e-2, log=True), "dimension": Choice(2, 4, 8)},
    fixed={"batch_size": 16, "max_length": 32},
    published={"learning_rate": 1e-3, "dimension": 4},
    starts={"scratch": {"dimension": 2}},
)
QUIET = Console(file=io.StringIO())


def test_the_first_configuration_is_the_published_one_or_from_the_middle() -> None:
    assert first_configuration(SPACE) == {"learning_rate": 1e-3, "dimension": 4}
    unknown = SearchSpace(method="gumbel", objective="a/b", settings=SPACE.settings)
    middle = first_configuration(unknown)
    assert middle["dimension"] == 4
    assert abs(float(middle["learning_rate"]) - 1e-3) < 1e-9  # type: ignore[arg-type]


def small(folder: Path, **others: Any) -> JobOptions:
    """Options of a job of seconds, with its storage there."""
    return JobOptions(
        corpus="builtin:nli?size=192",
        dev=("builtin:nli?split=dev&size=60",),
        encoder="builtin:tiny?layers=1&width=16&heads=2&inner=32",
        storage=str(folder),
        **others,
    )


def test_a_job_that_trains(tmp_path: Path) -> None:
    options = small(tmp_path, dry_run=True)
    job, text = make_job(options, SPACE), io.StringIO()
    show_plan(job, Console(file=text, width=100), seconds=600)
    assert job.space.first_points()[0]["dimension"] == 2
    first = "the start for an encoder from scratch; then the published point"
    for shown in (first, "CPU hours", "probe of 10 steps of batch 16", "a checkpoint"):
        assert shown in text.getvalue()
    assert [path.name for path in tmp_path.iterdir()] == [".cache"]


@pytest.mark.parametrize(
    "given", [{"objective": ("direction/foo",)}, {"constraint": ("direction/foo>=0.5",)}]
)
def test_a_metric_that_the_probe_does_not_measure_is_refused(
    tmp_path: Path, given: dict[str, tuple[str]]
) -> None:
    options = small(tmp_path, dry_run=True, **given)
    said = r"--(objective|constraint): 'direction/foo'.*direction has.*direction/accuracy"
    with pytest.raises(InvalidValue, match=said):
        show_plan(make_job(options, SPACE), QUIET, seconds=600)


def test_pooling_cls_is_refused_where_the_encoder_puts_no_cls_before_a_sentence(
    tmp_path: Path,
) -> None:
    encoder = tmp_path / "encoder"
    source = prepare("builtin:tiny?layers=1&width=16&heads=2&inner=32", ["a dog runs"], tmp_path)
    shutil.copytree(source, encoder)
    BertModel(BertConfig.from_pretrained(source)).save_pretrained(encoder)
    tokenizer = json.loads((encoder / "tokenizer.json").read_text())
    (encoder / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}))
    given = {"encoder": str(encoder), "corpus": "builtin:nli?size=64", "storage": str(tmp_path)}

    def job(**fixed: str) -> JobFamily:
        space = replace(SPACE, fixed=SPACE.fixed | fixed)
        dev = ("builtin:nli?split=dev&size=30",)
        return make_job(JobOptions(**given, dev=dev), space)  # type: ignore[arg-type]

    job(pooling="mean").check()
    for refused in (job(), job(pooling="cls")):  # it is the method's default
        with pytest.raises(InvalidValue, match=r"pooling: 'cls' .*puts no \[CLS\].*use mean"):
            refused.check()
    settings = GumbelcseSettings(pooling="cls")
    with pytest.raises(InvalidValue, match="use mean"):
        Sentences().build(partial(Gumbelcse, settings=settings), TrainingSettings(), str(encoder))


def prepared_job(storage: Path, tracking: str | None = None) -> JobFamily:
    """A job with nothing to prepare, whose probe comes to no step in time."""

    def probe(seconds: float) -> Probe:
        raise TrialFailed(f"no step was through in {seconds:g} s")

    job = SimpleNamespace(
        config=StudyConfig(name="s", storage=str(storage), max_examples=900),
        space=SPACE,
        options=JobOptions(storage=str(storage), tracking=tracking),
        corpora=dict,
        prepare=lambda console: None,
        checkpoint_bytes=lambda: 0,
        probe=probe,
    )
    return cast("JobFamily", job)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:{port}", "localhost:{port}", "damaged"])
def test_a_dry_run_refuses_a_tracking_address_that_does_not_answer(
    uri: str, tmp_path: Path
) -> None:
    (tmp_path / "mlflow.db").write_text("not what SQLite writes" * 100)
    given = None if uri == "damaged" else uri.format(port=free_port())
    with pytest.raises(
        PlanError, match=r"--tracking.*(does not answer|write http|mv .*mlflow\.db)"
    ):
        show_plan(prepared_job(tmp_path, given), QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]
    if given is None or given.startswith("http"):  # training does not wait for MLflow
        text = io.StringIO()
        checked_plan(prepared_job(tmp_path, given), Console(file=text, width=900))
        assert "training starts anyway" in text.getvalue()


def test_a_plan_whose_cost_is_not_found_in_time_is_shown_without(tmp_path: Path) -> None:
    text = io.StringIO()
    console, slow = Console(file=text, width=100), prepared_job(tmp_path)
    show_plan(slow, console, seconds=7)
    assert "8, drawn by tpe" in text.getvalue()
    assert "cannot be estimated: no step was through in 7 s" in text.getvalue()


def test_a_job_that_fits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    rows = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(rows) + "\n")
    pairs = [
        f"main\tmade\t2026\t{n}\t{rng.uniform(0, 5):.2f}\t"
        + "\t".join(" ".join(rng.choice(words, size=4)) for _ in range(2))
        for n in range(80)
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs) + "\n")
    options = ClosedFormOptions(
        corpus=f"stsb:{tmp_path}/pairs.csv",
        dev=(f"stsb:{tmp_path}/pairs.csv",),
        vectors=(f"glove:{tmp_path}/vectors.txt",),
        storage=str(tmp_path / "studies"),
    )
    space = SearchSpace(method="sif", objective="sts/pearson", settings={"a": Choice(1e-3, 1e-4)})
    job = make_job(options, space)
    job.prepare(QUIET)
    found = job.probe(600)
    assert "fits on 40 and 160 rows" in found.basis
    assert found.checkpoint_bytes > 0
    assert job.checkpoint_bytes() == 0
    assert [path.name for path in (tmp_path / "studies").iterdir()] == [".cache"]


def test_a_budget_below_the_smallest_batch_of_the_search_is_refused(tmp_path: Path) -> None:
    options = small(tmp_path, max_examples=31, set=("batch_size=32,64",))
    searched = replace(SPACE, settings={**SPACE.settings, "batch_size": Choice(32, 64)})
    searched = replace(searched, fixed={"max_length": 32})
    with pytest.raises(InvalidValue, match=r"--max-examples: 31 .*give at least 32"):
        make_job(options, searched).prepare(QUIET)


@pytest.mark.parametrize(
    ("batch", "rungs"), [("16", (320, 960)), ("17", (960,)), ("17,32", (960,))]
)
def test_a_job_compares_trials_after_twenty_steps_of_its_first_point(
    batch: str, rungs: tuple[int, ...], tmp_path: Path
) -> None:
    options = small(tmp_path, max_examples=2880, set=(f"batch_size={batch}",))
    searched = replace(
        SPACE,
        settings={**SPACE.settings, "batch_size": Choice(16, 17, 32)},
        fixed={"max_length": 32},
        published={**SPACE.published, "batch_size": 17},
    )
    job = make_job(options, searched)
    job.prepare(QUIET)
    assert job.config.scheduling("max").rungs == rungs
