"""One driver per study: a lease in Optuna's database, kept by a beat.

A lease whose beat has not moved for ``EXPIRY`` seconds of the observer's own clock has expired;
machines need not agree on the time. On the holder's own machine nobody waits for that: a process
that is gone is seen at once.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType

import optuna
from sqlalchemy.exc import SQLAlchemyError

from sentune.errors import StudyConflict
from sentune.study.store.driver import Driver
from sentune.study.store.holders import Holder, holder
from sentune.study.store.lease_table import FREE, LeaseTable, Row

logger = logging.getLogger(__name__)

BEAT, EXPIRY = 2.0, 20.0


class Lease:
    """The right to drive a study, held from ``acquire`` to ``release`` by a thread that beats.

    Args:
        storage: of the study, a database.
        study: its name.
        beat: seconds between beats.
        expiry: seconds without a beat after which others take the lease.
        counted: whether the time counts as time in which the study was driven.
        clock: seconds of this machine, never set back.
        sleep: waits for so many of them.

    Attributes:
        wish: what ``sentune study stop`` asks for: nothing, ``stop`` or ``stop now``; as of the
            last beat.
        lost_because: why this driver must stop writing; empty while the lease is ours.

    Raises:
        InvalidValue: the storage is no database.
    """

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        study: str,
        *,
        beat: float = BEAT,
        expiry: float = EXPIRY,
        counted: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.table, self.study = LeaseTable.of(storage), study
        self.beat, self.expiry, self.clock, self.sleep = beat, expiry, clock, sleep
        self.wish = self.lost_because = ""
        self.counted = counted
        self._token = uuid.uuid4().hex
        self._beaten = self._seconds = 0.0
        self._complained = False
        self._lock, self._left = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> Lease:
        """Takes the lease, or watches its holder until that one beats or has expired.

        Raises:
            StudyConflict: somebody drives the study; says who, since when, and what to do.
        """
        self.table.prepare(self.study)
        first, watching_since = self._read(), self.clock()
        row = first
        while not self._take(row, expired=self.clock() - watching_since >= self.expiry):
            row = self._read()
            if row.token != FREE and row.beat != first.beat and not _driver(row).dead:
                raise self._refusal(row)
            self.sleep(self.beat / 4)
        self._thread = threading.Thread(target=self._run, name="sentune-lease", daemon=True)
        self._thread.start()
        return self

    def _take(self, row: Row, *, expired: bool) -> bool:
        if row.token != FREE and not expired and not _driver(row).dead:
            return False
        now = self.clock()
        taken = self.table.take(self.study, row, self._token, Driver.current().to_json())
        if taken is None:
            return False
        self._beaten, self._seconds = now, taken.seconds
        if row.token != FREE:
            logger.warning("%s: taken over from %s, which is gone", self.study, _driver(row))
        return True

    def _read(self) -> Row:
        row = self.table.read(self.study)
        if row is None:
            raise StudyConflict(f"the lease of study {self.study!r} was deleted; start it again")
        return row

    def _refusal(self, row: Row) -> StudyConflict:
        return StudyConflict(
            f"study {self.study!r} is driven by another process: {Holder.of(row)}.\n"
            f"Stop it with: sentune study stop {self.study}\n"
            f"If its machine has died since, this works {self.expiry:g} s after its last beat."
        )

    @property
    def lost(self) -> bool:
        """Whether somebody else may drive the study: it was suspended, or cut off, for too long.

        A driver that was suspended asks the database before it goes on.
        """
        if self.clock() - self._beaten >= self.expiry:
            self.renew()
        return bool(self.lost_because)

    @property
    def hours(self) -> float:
        """Hours of wall time in which the study was driven, over all of its starts."""
        since = 0.0 if self._left.is_set() else self._driven(self.clock())
        return (self._seconds + since) / 3600

    def _driven(self, now: float) -> float:
        """Seconds since the last beat, as they count."""
        return now - self._beaten if self.counted else 0.0

    def renew(self) -> None:
        """One beat. A database that does not answer is asked again at the next one."""
        with self._lock:
            if self.lost_because or self._left.is_set():
                return
            now = self.clock()
            try:
                row = self.table.renew(self.study, self._token, self._driven(now))
            except SQLAlchemyError as error:
                self._unanswered(now, error)
                return
            if row is None:
                self.lost_because = self._loss()
                return
            self._beaten, self._seconds, self.wish = now, row.seconds, row.wish
            self._complained = False

    def _run(self) -> None:
        while not self._left.wait(self.beat) and not self.lost_because:
            self.renew()

    def _unanswered(self, now: float, error: SQLAlchemyError) -> None:
        silence = now - self._beaten
        if silence >= self.expiry:
            self.lost_because = f"the database has not answered for {silence:.0f} s: {_line(error)}"
        elif not self._complained:
            self._complained = True
            logger.warning("%s: no beat, trying again: %s", self.study, _line(error))

    def _loss(self) -> str:
        try:
            row = self.table.read(self.study)
        except SQLAlchemyError as error:
            return f"somebody else has taken the study over (who: {_line(error)})"
        if row is None or row.token == FREE:
            return "somebody else has driven the study meanwhile, and left"
        return f"the study is driven by another process: {Holder.of(row)}"

    def release(self) -> None:
        """Leaves the study to whoever comes next."""
        if self._left.is_set() or self._thread is None:
            return
        self._left.set()
        self._thread.join()
        if self.lost_because:
            return
        try:
            row = self.table.leave(self.study, self._token, self._driven(self.clock()))
        except SQLAlchemyError as error:  # the next driver sees that this process is gone
            logger.warning("%s: the lease could not be given back: %s", self.study, _line(error))
            return
        if row is not None:
            self._seconds = row.seconds

    def __enter__(self) -> Lease:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def ask(storage: optuna.storages.BaseStorage, study: str, wish: str) -> Holder | None:
    """Leaves a wish with who drives the study, ``stop`` or ``stop now``.

    Returns:
        Who was asked; None if nobody drives it.
    """
    asked = holder(storage, study)
    if asked is None or asked.gone:
        return None
    stronger = wish if len(wish) > len(asked.wish) else asked.wish  # "stop" is no way back
    return asked if LeaseTable.of(storage).wish(study, asked.token, stronger) else None


def _driver(row: Row) -> Driver:
    return Driver.from_json(row.driver)


def _line(error: Exception) -> str:
    """The first line: SQLAlchemy adds statement, parameters and a link."""
    return str(error).strip().splitlines()[0]
