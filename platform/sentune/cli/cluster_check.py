"""``sentune cluster check``: joins a cluster, asks its nodes, and says what to mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sentune.cluster.findings import Finding, NodeAnswer, findings_of
from sentune.study.planning.cluster_doctor import (
    StudyAddresses,
    address_of,
    ask_nodes,
    job_server,
    joined,
    left,
    versions,
)

SUBMIT = "ray job submit -- sentune cluster check --address auto"
TICK, CROSS = "✓", "✗"


def check_cluster(address: str | None, addresses: StudyAddresses, console: Console) -> bool:
    """Prints a line for each question; returns whether all are ticks."""
    where = address_of(address)
    if where.startswith(("http://", "https://")):
        findings, note = job_server(where), f"The nodes are asked from within: {SUBMIT} ..."
    else:
        findings, note = _from_within(where, addresses)
    console.print(findings_table(findings))
    console.print(Text(note))
    return all(finding.ok for finding in findings)


def _from_within(address: str, addresses: StudyAddresses) -> tuple[list[Finding], str]:
    findings = joined(address)
    if not all(finding.ok for finding in findings if finding.subject != "dashboard"):
        return findings, "The nodes were not asked."
    try:
        nodes = ask_nodes(addresses)
        return [*findings, *findings_of(nodes, **versions())], _count(nodes)
    finally:
        left()


def findings_table(findings: Sequence[Finding]) -> Table:
    """A tick or a cross for each question, and under each cross the fix."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        sign = Text(TICK, style="green") if finding.ok else Text(CROSS, style="bold red")
        table.add_row(sign, finding.subject, Text("\n".join(_lines(finding))))
    return table


def _lines(finding: Finding) -> Iterator[str]:
    yield finding.said
    if finding.fix:
        yield f"fix: {finding.fix}"


def _count(nodes: Sequence[NodeAnswer]) -> str:
    up = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    return f"{up} asked. Nodes that come later are not: ask again while a study runs."
