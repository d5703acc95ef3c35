"""What holds for all tests: their tiers, Hypothesis' settings, the servers that they share."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from sentune.lazy_import import collect_rarely
from tests.tiers import DEFAULT, TIERS, ran, tier_of
from tests.wheels import installed

if TYPE_CHECKING:
    from tests.backends import Servers

# the clusters of the tests have a token of their own, not the one of the user's home folder
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

# several processes of tests share the cores: with a thread per core each, they wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")

# limits and parity are those of CPUs; export CUDA_VISIBLE_DEVICES to run on a GPU all the same
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# the clusters of the tests start no worker for each CPU as the first driver joins: none of them has
# a job's runtime environment, so that no trial uses it
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")

# a node joins its cluster as late as a busy machine makes it; Ray gives up after ten seconds
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")

collect_rarely()

# an example may take as long as a busy machine makes it take
settings.register_profile("sentune", deadline=None)
settings.load_profile("sentune")

TESTS = Path(__file__).parent
COUNTS = pytest.StashKey[dict[str, Counter[str]]]()
BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--tier-counts FILE``: adds a line of JSON with the counts of this run to it.

    ``--within MINUTES``: no test begins after them; those that did not are skipped, and counted so.
    """
    parser.addoption("--tier-counts", metavar="FILE", help="add this run's counts to a file")
    parser.addoption("--within", metavar="MINUTES", type=float, help="begin no test after them")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks of ``tests/tiers.py``, so that pytest knows these alone."""
    for name, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.stash[COUNTS], config.stash[BEGAN] = defaultdict(Counter), time.monotonic()
    config.pluginmanager.register(TierCounter(config.stash[COUNTS]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier, before ``-m`` selects, and orders them by it."""
    order = (*TIERS, DEFAULT)
    places = {}
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        try:
            tier = tier_of((mark.name for mark in item.iter_markers()), folder)
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error
        if tier != DEFAULT:
            item.add_marker(tier)
        item.user_properties.append(("tier", tier))
        places[item.nodeid] = order.index(tier)
    items.sort(key=lambda item: places[item.nodeid])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that would begin after the minutes of ``--within``."""
    within = item.config.getoption("within")
    if within is not None and time.monotonic() > item.config.stash[BEGAN] + 60 * within:
        pytest.skip(f"not run: the {within:g} minutes of this run were over")


class TierCounter:
    """Counts outcomes by tier in the process that prints them; xdist's workers send theirs."""

    def __init__(self, counts: dict[str, Counter[str]]) -> None:
        self._counts = counts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the call; a set-up only where there was no call, a tear-down that failed."""
        if report.when == "call" or report.outcome != "passed":
            tier = dict(report.user_properties).get("tier", DEFAULT)
            self._counts[str(tier)][report.outcome] += 1


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says how many tests of each tier ran."""
    counts = config.stash[COUNTS]
    if counts:
        terminalreporter.write_line(ran(counts))
    file = config.getoption("tier_counts")
    if file and not hasattr(config, "workerinput"):  # one of xdist's workers has its share alone
        with Path(file).open("a") as lines:
            lines.write(json.dumps(counts) + "\n")


@pytest.fixture(scope="session")
def both_servers() -> Iterator[Servers]:
    """PostgreSQL and S3, started when the first test wants them; one pair of a kind, as their
    addresses are in the environment."""
    from tests.backends import servers

    with servers() as both:
        yield both


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment into which the built wheel was installed."""
    return installed(tmp_path_factory.mktemp("wheel"))
