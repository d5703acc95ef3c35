"""A study's trials in Optuna's journal: one file that one driver writes in whole batches.

Plain Optuna and optuna-dashboard read the file with ``JournalFileBackend``. The lines of a batch
carry ``batch: [i, n]``. A batch that was torn by a kill is not read, and the driver cuts it off
before it writes. (Optuna's own backend appends the next line to a torn one and so loses it.) Each
line ends with ``crc``, a checksum of the line without it.
"""

from __future__ import annotations

import array
import errno
import io
import json
import logging
import os
import shlex
import weakref
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from sentune.errors import DamagedFile, InvalidValue, Overtaken, StudyConflict
from sentune.io.atomic import StorageError, writing
from sentune.study.store.driver_lock import DriverLock

logger = logging.getLogger(__name__)

Log = dict[str, Any]

_CRC = b',"crc":'


class JournalFile(BaseJournalBackend):
    """Backend of Optuna's ``JournalStorage``: reads and appends the lines of a journal.

    Attributes:
        driver: whether this process may write; a missing file is then created.
        generation: generation of the driver's lock; it grows with every driver. Lines of an
            earlier driver after lines of a later one are not read.
        check: called before each write; raises if the driver has lost its lock.
        batch: lines to be written at once; None if each is written as it comes.
    """

    def __init__(self, path: str, *, driver: bool) -> None:
        self.path, self.generation, self._newest = str(Path(path).absolute()), 0, 0
        self.check: Callable[[], None] = lambda: None
        self.batch: list[Log] | None = None
        self._starts = array.array("q", [0])  # number of a valid line -> offset in bytes
        flags = os.O_RDWR | os.O_CREAT if driver else os.O_RDONLY
        self._fd = os.open(self.path, flags | os.O_APPEND, 0o666)
        weakref.finalize(self, os.close, self._fd)
        self.driver = driver

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(JournalFile, driver=self.driver), (self.path,)

    @property
    def replaced(self) -> bool:
        """Whether a compaction has replaced the file."""
        try:
            return not os.path.samestat(Path(self.path).stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def read_logs(self, log_number_from: int) -> Iterable[Log]:
        """Return the lines from a number on; while there is a batch, the lines of the batch."""
        del self._starts[log_number_from + 1 :]
        if log_number_from == 0:  # a fresh JournalStorage
            self._starts[0] = self._newest = 0
            if not self.batch:
                return self._scan()  # a long journal is not held in memory
        logs = enumerate(self.batch or self._scan(), len(self._starts) - 1)
        return [log for number, log in logs if number >= log_number_from]

    def _scan(self) -> Iterator[Log]:
        """Yield the new lines of whole batches, and remember where each of them ends."""
        at = self._starts[-1]
        held: list[tuple[int, Log]] = []
        new = os.pread(self._fd, os.fstat(self._fd).st_size - at, at)
        for line in new.split(b"\n")[:-1]:  # without the torn rest after the last newline
            at += len(line) + 1
            try:
                log = _parsed(line)
            except ValueError as error:
                raise self._damaged(at, error) from None
            held.append((at, log))
            place, size = log.get("batch", (1, 1))
            if place < size:
                continue
            if log.get("driver", self._newest) < self._newest:
                self._starts[-1] = at  # skip a batch of a driver that had lost its lock
            else:
                self._newest = log.get("driver", self._newest)
                for end, one in held:
                    self._starts.append(end)
                    yield one
            held = []

    def _damaged(self, at: int, error: ValueError) -> DamagedFile:
        """Return the error of a damaged line, by the offset of its end."""
        number = os.pread(self._fd, at, 0).count(b"\n")
        whole = os.pread(self._fd, self._starts[-1], 0).count(b"\n")
        path, head = shlex.quote(self.path), shlex.quote(f"{self.path}.head")
        fix = (
            "restore the file from a copy, or drop this and all later lines: "
            f"head -n {whole} {path} > {head} && mv {head} {path}"
        )
        return DamagedFile(f"{self.path}:{number}", f"the line is damaged ({error})", fix)

    def append_logs(self, logs: list[Log]) -> None:
        """Write lines, or add them to the batch.

        Raises:
            StorageError: the disk is full; the file is as before.
            Overtaken: a later driver has written.
        """
        if self.batch is not None:
            self.batch.extend(json.loads(json.dumps(logs)))  # in JSON types, as when read back
            return
        for _ in self._scan():  # skip lines of a dashboard; Optuna reads them after this
            pass
        self._write(logs)

    def commit(self) -> bool:
        """Write the batch, and return whether no other process has written meanwhile.

        Raises:
            StorageError, Overtaken: see ``append_logs``.
            StudyConflict: another process has added a study or a trial.
        """
        logs, self.batch = self.batch, None
        if not logs:
            return True
        others = list(self._scan())
        if any({"study_name", "datetime_start"} & log.keys() for log in others):
            raise StudyConflict(f"{self.path}: another process has added a study or a trial")
        self._write(logs)
        return not others

    def _write(self, logs: list[Log]) -> None:
        if not self.driver:
            raise io.UnsupportedOperation(f"{self.path} is open for reading only")
        self.check()
        if self.generation < self._newest:
            raise Overtaken(f"{self.path}: another driver has taken over the study")
        end, size = self._starts[-1], len(logs)
        if os.fstat(self._fd).st_size > end:
            os.ftruncate(self._fd, end)  # cut off a batch that was torn by a kill
        lines = []
        for place, log in enumerate(logs, 1):
            driver = {"driver": self.generation} if self.generation else {}
            batch = {"batch": [place, size]} if size > 1 else {}
            line = json.dumps({**log, **driver, **batch}, separators=(",", ":")).encode()
            lines.append(b"%s%s%d}\n" % (line[:-1], _CRC, zlib.crc32(line)))
        text = b"".join(lines)
        try:
            with writing(self.path):
                if os.write(self._fd, text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, end)
            raise
        self._newest = self.generation
        self._starts.extend(end + done for done in accumulate(map(len, lines)))


def _parsed(line: bytes) -> Log:
    """Return the content of a line; raise ``ValueError`` if it is damaged.

    Lines of Optuna itself and of older versions have no checksum.
    """
    log = json.loads(line)
    if not isinstance(log, dict) or "op_code" not in log:
        raise ValueError("it is not an operation of Optuna")
    content, seal, _ = line.rpartition(_CRC)
    if seal and log.get("crc") != zlib.crc32(content + b"}"):
        raise ValueError("its checksum does not match")
    return log


class StudyJournal(JournalStorage):
    """Optuna's ``JournalStorage`` over a ``JournalFile``, which only a study's driver writes.

    It is not thread-safe; another thread opens a journal of its own.

    Raises:
        InvalidValue: there is no such file to read.
        DamagedFile: a line is damaged.
    """

    def __init__(self, path: str, *, driver: bool = False) -> None:
        self._open(path, driver=driver)

    def _open(self, path: str, *, driver: bool) -> None:
        try:
            self.file = JournalFile(path, driver=driver)
        except FileNotFoundError:
            raise InvalidValue("--storage", path, "there is no such journal") from None
        super().__init__(self.file)

    def guard(self, lock: DriverLock) -> None:
        """Check a lock before each write, and write its generation into each line."""
        self.file.generation, self.file.check = lock.generation, lock.check

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write everything inside the block as one batch at its end; nothing after an error."""
        if self.file.batch is not None:
            yield
            return
        known, self.file.batch = False, []
        try:
            yield
            known = self.file.commit()
        finally:
            self.file.batch = None
            if not known:  # read the file again: the memory differs from it
                super().__init__(self.file)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Return the trials of a study by number, also after a compaction by its driver."""
        if not self.file.driver and self.file.replaced:
            self._open(self.file.path, driver=False)
        return super().get_all_trials(study_id, deepcopy, states)

    def compact(self) -> None:
        """Rewrite the file with one line per trial; readers open the new file by themselves.

        A dashboard cannot append meanwhile, because it writes under the same lock of Optuna's. If
        the disk is too full for another file, the old one stays.
        """
        old, beside = self.file, Path(f"{self.file.path}.partial")
        lock, link = JournalFileSymlinkLock(old.path), Path(f"{old.path}.lock")
        if link.is_symlink() and not link.exists():  # killed before the storage was moved
            link.unlink(missing_ok=True)  # Optuna would wait for it forever
        try:
            lock.acquire()
        except OSError as error:  # a file system without links, where no dashboard can write either
            logger.debug("the journal is compacted without Optuna's lock: %s", error)
        try:
            beside.unlink(missing_ok=True)
            copy = StudyJournal(str(beside), driver=True)
            copy.file.generation, copy.file.check = old.generation, old.check
            with copy.together():
                copy_studies(self, copy, [study.study_name for study in self.get_all_studies()])
            beside.replace(old.path)
            self._open(old.path, driver=old.driver)
            self.file.generation, self.file.check = old.generation, old.check
        except StorageError as error:
            logger.warning("the journal could not be compacted: %s", error)
            beside.unlink(missing_ok=True)
        finally:
            with suppress(RuntimeError):  # never taken, or released by a dashboard after 30 s
                lock.release()


def copy_studies(source: BaseStorage, target: BaseStorage, names: list[str]) -> int:
    """Copy studies with all trials, in the order of their creation; return the number of trials."""
    trials: list[tuple[int, int, FrozenTrial]] = []
    for name in names:
        old = source.get_study_id_from_name(name)
        new = target.create_new_study(source.get_study_directions(old), name)
        for key, value in source.get_study_user_attrs(old).items():
            target.set_study_user_attr(new, key, value)
        for key, value in source.get_study_system_attrs(old).items():
            target.set_study_system_attr(new, key, value)
        trials += [
            (source.get_trial_id_from_study_id_trial_number(old, trial.number), new, trial)
            for trial in source.get_all_trials(old, deepcopy=False)
        ]
    for _, study, trial in sorted(trials, key=lambda one: one[0]):
        target.create_new_trial(study, trial)
    return len(trials)
