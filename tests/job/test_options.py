"""Options are refused before anything starts, naming the option, the value and what is allowed."""

from dataclasses import replace

import pytest

from search_spaces.intersent import SPACE
from sentune.errors import InvalidValue
from sentune.job.command import JobDefinition, command
from sentune.job.families import make_job
from sentune.job.families.trained import batch_sizes
from sentune.job.options import (
    ClosedFormOptions,
    JobOptions,
    OperationOptions,
    StudyOptions,
    default_storage,
    forked,
    parse,
)
from sentune.methods import Gumbelcse
from sentune.study.space import Choice, SearchSpace
from sentune.training.settings import split

DEFAULTS = JobOptions(study="gumbel")


def test_text_from_the_command_line_becomes_typed_values() -> None:
    options = parse({"trials": "3", "workers": "1-4", "gpus_per_worker": "0.5"}, DEFAULTS)
    assert (options.trials, options.workers, options.gpus_per_worker) == (3, (1, 4), 0.5)
    assert options.study == "gumbel"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"fork": "gumbel"}, "--fork"),
        ({"fork": "new", "warm_start": ("new",)}, "--fork"),
        ({"warm_start": ("older", "gumbel")}, "--warm-start"),
    ],
)
def test_a_study_does_not_learn_from_itself(given: dict[str, object], option: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{option}: .* cannot learn from itself"):
        forked(parse(given, DEFAULTS))
    new = forked(parse({"fork": "new", "warm_start": "older"}, DEFAULTS))
    assert (new.study, new.fork, new.warm_start) == ("new", None, ("older", "gumbel"))


def test_options_without_a_default_are_asked_for_at_once() -> None:
    with pytest.raises(InvalidValue, match=r"^--corpus, --vectors: missing; give .*; give word"):
        ClosedFormOptions(dev=("stsb:sts-dev.csv",)).check_complete()


def test_concurrent_auto_leaves_the_choice_to_the_plan() -> None:
    assert parse({"concurrent": "auto"}, DEFAULTS).concurrent is None
    assert parse({"concurrent": "2"}, DEFAULTS).concurrent == 2


@pytest.mark.parametrize(
    ("given", "option", "hint"),
    [
        ({"trials": "0"}, "--trials", "greater than or equal to 1"),
        ({"trials": "many"}, "--trials", "integer"),
        ({"workers": "a-b"}, "--workers", "range (1-8)"),
        ({"workers": "4-2"}, "--workers", "MIN <= MAX"),
        ({"workers": "0-2"}, "--workers", "MIN <= MAX"),
        ({"workers": (8, 2)}, "--workers", "MIN <= MAX"),
        ({"workers": [0, 4]}, "--workers", "MIN <= MAX"),
        ({"gpus_per_worker": "-1"}, "--gpus-per-worker", "greater than or equal to 0"),
        ({"launcher": "spark"}, "--launcher", "inline"),
        ({"scheduler": "pbt"}, "--scheduler", "asha"),
        ({"eta": "1"}, "--eta", "greater than or equal to 2"),
        ({"max_examples": "0"}, "--max-examples", "greater than or equal to 1"),
        ({"max_trials": "0"}, "--max-trials", "greater than or equal to 1"),
        ({"max_hours": "0"}, "--max-hours", "greater than 0"),
        ({"max_gpu_hours": "0"}, "--max-gpu-hours", "greater than 0"),
        ({"stop_after_no_gain": "0"}, "--stop-after-no-gain", "greater than or equal to 1"),
        ({"sampler": "guess"}, "--sampler", "tpe"),
        ({"study": "../x"}, "--study", "no path"),
        ({"population": "1"}, "--population", "2 or more members"),
        ({"objective": ["rte/auc", "rte/auc:min"]}, "--objective", "each metric once"),
        ({"corpus": "snli:train.jsonl"}, "--dev", "give a corpus to select on"),
        ({"limit": "-3"}, "--limit", "greater than or equal to 1"),
        ({"prior": "both=2"}, "--prior", "both=SHARE with 0 < SHARE < 1"),
    ],
)
def test_a_wrong_value_names_option_value_and_what_is_allowed(
    given: dict[str, object], option: str, hint: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse(given, DEFAULTS)
    assert str(caught.value).startswith(option)
    assert hint in str(caught.value)


def test_set_is_split_at_the_first_equals_sign() -> None:
    options = parse({"set": ["learning_rate=1e-5..1e-4", "batch_size=16,32"]}, DEFAULTS)
    assert options.narrowing == {"learning_rate": "1e-5..1e-4", "batch_size": "16,32"}


@pytest.mark.parametrize("items", [["batch_size"], ["=3"], ["x="], ["a=1", "a=2"]])
def test_a_malformed_or_doubled_set_is_refused(items: list[str]) -> None:
    with pytest.raises(InvalidValue, match="--set"):
        _ = parse({"set": items}, DEFAULTS).narrowing


def test_storage_leaves_an_uploaded_copy(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("SENTUNE_STORAGE", raising=False)
    uploaded = tmp_path / "session" / "runtime_resources" / "working_dir_files" / "abc"
    uploaded.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert default_storage() == "studies"
    monkeypatch.chdir(uploaded)
    assert not default_storage().startswith(str(tmp_path))
    monkeypatch.setenv("SENTUNE_STORAGE", "s3://bucket/studies")
    assert default_storage() == "s3://bucket/studies"


def test_a_relative_storage_in_an_uploaded_copy_is_refused(tmp_path, monkeypatch) -> None:
    uploaded = tmp_path / "session" / "runtime_resources" / "working_dir_files" / "abc"
    uploaded.mkdir(parents=True)
    monkeypatch.chdir(uploaded)
    with pytest.raises(InvalidValue, match=r"--storage: 'studies'.*deleted by Ray"):
        parse({"storage": "studies"}, DEFAULTS)
    for kept in ("s3://bucket/studies", str(tmp_path), "~/studies"):
        assert parse({"storage": kept}, DEFAULTS).storage == kept


def test_a_cluster_says_where_trials_and_runs_are_kept(monkeypatch) -> None:
    places = {"SENTUNE_OPTUNA": "postgresql://db/s", "SENTUNE_TRACKING": "http://127.0.0.1:5000"}
    for name, place in places.items():
        monkeypatch.setenv(name, place)
    options = JobOptions()
    assert (options.optuna, options.tracking) == (*places.values(),)
    assert JobOptions(optuna="sqlite:///x.db").optuna == "sqlite:///x.db"
    for name in places:
        monkeypatch.setenv(name, "")
    assert (JobOptions().optuna, JobOptions().tracking) == (None, None)


def test_quick_sets_several_options_and_what_is_given_beside_it_holds() -> None:
    seen: list[StudyOptions] = []
    defaults = OperationOptions(study="usual", trials=8)
    main = command(
        JobDefinition(space=SPACE, defaults=defaults, quick={"trials": 2, "study": "fast"}),
        lambda options, space: seen.append(options),
    )
    main(quick=True)
    main(quick=True, trials="3")
    main()
    assert [(o.study, o.trials) for o in seen] == [("fast", 2), ("fast", 3), ("usual", 8)]


def test_several_corpora_are_given_by_repeating_the_option() -> None:
    given = {"corpus": ["wikisplit:a", "compression:b"], "dev": ["wikisplit:c"]}
    options = parse(given, OperationOptions(study="mix"))
    assert options.corpora == ("wikisplit:a", "compression:b")
    with pytest.raises(InvalidValue, match=r"--dev.*wikisplit:a"):
        parse({"corpus": ["builtin:operations", "wikisplit:a"]}, OperationOptions(study="mix"))


def test_one_text_is_enough_where_several_may_be_given() -> None:
    for seed in ("-1", str(10**20)):
        with pytest.raises(InvalidValue, match="--seed"):
            parse({"seed": seed}, JobOptions())
    options = parse({"objective": "rte/auc", "try_first": "batch_size=32"}, JobOptions())
    assert (options.objective, options.try_first) == (("rte/auc",), ("batch_size=32",))


def test_a_space_without_batches_has_those_of_the_method() -> None:
    space = SearchSpace(method="gumbel", objective="rte/auc", settings={})
    assert batch_sizes(space) == (split({}, Gumbelcse)[1].batch_size,)
    assert batch_sizes(replace(space, fixed={"batch_size": 8})) == (8,)
    job = make_job(parse({"profile": "paper"}, JobOptions()), space)
    assert job.config.validate_every == 100 * batch_sizes(space)[0]


def test_a_searched_length_is_refused_by_name() -> None:
    space = SearchSpace(
        method="gumbel", objective="rte/auc", settings={"max_length": Choice(32, 64)}
    )
    with pytest.raises(InvalidValue, match=r"--set max_length: .*fix one length"):
        make_job(JobOptions(), space)
