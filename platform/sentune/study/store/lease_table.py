"""The table of leases in Optuna's database, and the few statements that change it.

Each statement that changes a lease names the beat that it has seen: whoever comes second changes
no row. A beat's number only ever grows, whoever holds the lease. Times come from the database's
clock alone, so that no two machines need the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import optuna
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    Float,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from sentune.errors import InvalidValue
from sentune.study.store.journal import StudyJournal

FREE = ""

LEASES = Table(
    "sentune_leases",
    MetaData(),
    Column("study", String(512), primary_key=True),
    Column("token", String(32), nullable=False, default=FREE),  # of who holds it; FREE: nobody
    Column("beat", BigInteger, nullable=False, default=0),
    Column("driver", Text, nullable=False, default=""),
    Column("since", DateTime(timezone=True)),
    Column("seen", DateTime(timezone=True)),
    Column("wish", String(16), nullable=False, default=""),
    Column("seconds", Float, nullable=False, default=0.0),
)


def engine_of(storage: optuna.storages.BaseStorage) -> Engine:
    """The database behind a storage, also where Optuna keeps a cache before it.

    Raises:
        InvalidValue: it is none.
    """
    if isinstance(storage, StudyJournal):  # a database of leases alone, beside it
        return create_engine(f"sqlite:///{storage.file.path}.leases")
    engine = getattr(storage, "engine", None)
    if isinstance(engine, Engine):
        return engine
    fix = "a study needs a database: give sqlite:////PATH or postgresql://..."
    raise InvalidValue("--optuna", type(storage).__name__, fix)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A lease as it was read.

    Attributes:
        quiet: seconds between the last beat and this reading.
    """

    token: str
    beat: int
    driver: str
    since: datetime
    quiet: float
    wish: str
    seconds: float


@dataclass(frozen=True)
class LeaseTable:
    """The leases of one database."""

    engine: Engine

    @classmethod
    def of(cls, storage: optuna.storages.BaseStorage) -> LeaseTable:
        """The leases beside a storage's trials.

        Raises:
            InvalidValue: the storage is no database, so that two drivers cannot see each other.
        """
        return cls(engine_of(storage))

    def exists(self) -> bool:
        """Whether a study of this database was ever driven."""
        return inspect(self.engine).has_table(LEASES.name)

    def prepare(self, study: str) -> None:
        """Makes the table and the study's row where they are missing; another one may have."""
        try:
            LEASES.create(self.engine, checkfirst=True)
        except DBAPIError:
            if not self.exists():
                raise
        try:
            with self.engine.begin() as connection:
                connection.execute(insert(LEASES).values(study=study))
        except IntegrityError:
            return  # the row is there, which is all that is wanted

    def read(self, study: str) -> Row | None:
        """The study's lease; None if it never had one."""
        with self.engine.connect() as connection:
            return _read(connection, study)

    def read_all(self) -> dict[str, Row]:
        """Study -> its lease."""
        if not self.exists():
            return {}
        with self.engine.connect() as connection:
            rows = connection.execute(select(LEASES, func.now().label("now")))
            return {row.study: _row(row) for row in rows}

    def take(self, study: str, seen: Row, token: str, driver: str) -> Row | None:
        """Takes the lease that was seen; None if it has changed since."""
        taken = {"token": token, "driver": driver, "since": func.now(), "wish": ""}
        return self._change(study, seen.token, taken, beat=seen.beat)

    def renew(self, study: str, token: str, seconds: float) -> Row | None:
        """One more beat, with the seconds since the last one; None if the lease is not ours."""
        return self._change(study, token, {"seconds": LEASES.c.seconds + seconds})

    def leave(self, study: str, token: str, seconds: float) -> Row | None:
        """The last beat; the lease is free after it. None if it was not ours."""
        values = {"token": FREE, "wish": "", "seconds": LEASES.c.seconds + seconds}
        return self._change(study, token, values)

    def wish(self, study: str, token: str, wish: str) -> bool:
        """Leaves a wish for who holds the lease; False if that one has left."""
        with self.engine.begin() as connection:
            chosen = (LEASES.c.study == study) & (LEASES.c.token == token)
            return connection.execute(update(LEASES).where(chosen).values(wish=wish)).rowcount == 1

    def _change(
        self, study: str, token: str, values: dict[str, Any], *, beat: int | None = None
    ) -> Row | None:
        chosen = (LEASES.c.study == study) & (LEASES.c.token == token)
        if beat is not None:
            chosen &= LEASES.c.beat == beat
        moved = {**values, "beat": LEASES.c.beat + 1, "seen": func.now()}
        with self.engine.begin() as connection:
            changed = connection.execute(update(LEASES).where(chosen).values(moved)).rowcount
            return _read(connection, study) if changed == 1 else None


def _read(connection: Any, study: str) -> Row | None:
    found = select(LEASES, func.now().label("now")).where(LEASES.c.study == study)
    row = connection.execute(found).one_or_none()
    return None if row is None else _row(row)


def _row(row: Any) -> Row:
    now = _aware(row.now)
    return Row(
        token=row.token,
        beat=row.beat,
        driver=row.driver,
        since=_aware(row.since or row.now),
        quiet=max(0.0, (now - _aware(row.seen or row.now)).total_seconds()),
        wish=row.wish,
        seconds=row.seconds,
    )


def _aware(time: datetime) -> datetime:
    """SQLite's times are UTC and do not say so."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
