"""Who drives which study at this moment, for whoever only looks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import optuna

from sentune.study.store.driver import Driver
from sentune.study.store.lease_table import FREE, LeaseTable, Row


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds a study's lease.

    Attributes:
        since: when it took it, by the database's clock.
        quiet: seconds since its last beat, by the same clock.
        wish: what it was asked for and has not done yet.
        token: changes with every holder.
    """

    driver: Driver
    since: datetime
    quiet: float
    wish: str
    token: str

    @classmethod
    def of(cls, row: Row) -> Holder:
        """The holder of a lease that is not free."""
        return cls(
            driver=Driver.from_json(row.driver),
            since=row.since,
            quiet=row.quiet,
            wish=row.wish,
            token=row.token,
        )

    @property
    def gone(self) -> bool:
        """Whether it ran on this machine and is dead."""
        return self.driver.dead

    def __str__(self) -> str:
        since = f"{self.since.astimezone():%Y-%m-%d %H:%M:%S}"
        return f"{self.driver}, since {since}, last beat {self.quiet:.0f} s ago"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A study's lease: who holds it, if anybody, and for how long it was driven so far."""

    holder: Holder | None = None
    hours: float = 0.0

    @classmethod
    def of(cls, row: Row) -> Standing:
        """What a row says."""
        held = row.token != FREE
        return cls(holder=Holder.of(row) if held else None, hours=row.seconds / 3600)


def holder(storage: optuna.storages.BaseStorage, study: str) -> Holder | None:
    """Who holds a study's lease, dead or alive; None if nobody does."""
    return standing(storage, study).holder


def standing(storage: optuna.storages.BaseStorage, study: str) -> Standing:
    """The lease of one study; an empty one where it was never driven."""
    return standings(storage).get(study, Standing())


def standings(storage: optuna.storages.BaseStorage) -> dict[str, Standing]:
    """Study -> its lease, for all that were ever driven in this database."""
    rows = LeaseTable.of(storage).read_all()
    return {study: Standing.of(row) for study, row in rows.items()}
