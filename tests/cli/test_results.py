"""Metrics on the screen: shares in per cent, everything else as a number."""

from __future__ import annotations

import pytest
from rich.console import Console

from sentune.cli.evaluate import report_results
from sentune.tasks import Result


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        ("accuracy", "37.87%"),
        ("dev_accuracy", "37.87%"),
        ("pearson", "0.3787"),
        ("dev_pearson", "0.3787"),
        ("sen_pearson", "0.3787"),
        ("words_pearson", "0.3787"),
        ("MSRpar/pearson", "0.3787"),
        ("pearson_weighted_mean", "0.3787"),
        ("mse", "0.3787"),
        ("references_per_sentence", "0.3787"),
    ],
)
def test_only_shares_are_in_per_cent(metric: str, shown: str) -> None:
    console = Console(width=100)
    with console.capture() as screen:
        report_results(Result(metrics={f"sick-r/{metric}": 0.37866}), console)
    assert shown in screen.get().split()
