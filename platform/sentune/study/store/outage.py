"""A database that is away for a moment (restarted, cut off): waited for, then told as such."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import optuna
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from sentune.credentials import without_credentials
from sentune.errors import SentuneError

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 15.0
"""Seconds; less than those (``driver_lock.EXPIRY``) after which another machine may drive."""

FIRST_WAIT, LONGEST_WAIT = 0.25, 2.0


class DatabaseGone(SentuneError):
    """A study's database that did not come back; everything that was stored is whole."""


def in_transaction(engine: Engine, action: Callable[[Connection], T]) -> T:
    """What an action gives, in a transaction of its own, tried again where the database was away.

    A commit whose answer was lost is not tried again: it may have been made.

    Raises:
        DatabaseGone: it did not come back, or went in a commit.
        StorageInternalError: it answers, and refuses.
    """
    committing = False

    def attempt() -> T:
        nonlocal committing
        with engine.connect() as connection, connection.begin():
            done = action(connection)
            committing = True
        return done

    return waiting(engine, attempt, give_up=lambda: committing)


def waiting(
    engine: Engine, action: Callable[[], T], *, give_up: Callable[[], bool] = lambda: False
) -> T:
    """What an action on the database gives, tried again for ``PATIENCE`` seconds.

    Args:
        engine: of the database.
        action: writes nothing, or nothing that an error leaves behind.
        give_up: says whether it may have written.

    Raises:
        DatabaseGone, StorageInternalError: see ``in_transaction``.
    """
    began, wait = time.monotonic(), FIRST_WAIT
    while True:
        try:
            return action()
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if not _away(engine, error):
                if isinstance(error, SQLAlchemyError):
                    raise optuna.exceptions.StorageInternalError(str(error)) from error
                raise
            silent = time.monotonic() - began
            if give_up() or silent + wait > PATIENCE:
                raise _gone(engine, error, silent) from error
            if wait == FIRST_WAIT:
                logger.warning("%s is away, trying again: %s", _name(engine), _line(error))
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _away(engine: Engine, error: Exception) -> bool:
    """Whether a server was lost; what a file's database says is about the file."""
    cause = error if isinstance(error, SQLAlchemyError) else error.__cause__
    lost = isinstance(cause, OperationalError | InterfaceError) or bool(
        getattr(cause, "connection_invalidated", False)
    )
    return lost and engine.dialect.name != "sqlite"


def _gone(engine: Engine, error: Exception, seconds: float) -> DatabaseGone:
    return DatabaseGone(
        f"--optuna {_name(engine)}: the database has not answered for {seconds:.0f} s "
        f"({_line(error)}). Everything that was stored is whole: start the database and run the "
        "same command again; trials go on from their checkpoints"
    )


def _name(engine: Engine) -> str:
    return str(without_credentials(engine.url.render_as_string(hide_password=True)))


def _line(error: Exception) -> str:
    """The first line: SQLAlchemy adds statement, parameters and a link."""
    told = error.__cause__ if not isinstance(error, SQLAlchemyError) and error.__cause__ else error
    return str(without_credentials(str(told).strip().splitlines()[0]))
