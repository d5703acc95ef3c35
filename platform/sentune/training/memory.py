"""What runs out of memory, and what a smaller micro-batch can do about it."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sentune.errors import TrialFailed, first_line
from sentune.lazy_import import LazyModule

if TYPE_CHECKING:
    import torch
else:
    torch = LazyModule("torch")

DEVICE, HOST = "the device", "the host"

_HOST_WORDS = ("can't allocate memory", "not enough memory: you tried to allocate")
_DEVICE_WORDS = ("out of memory", "_status_alloc_failed")


class OutOfMemory(TrialFailed):
    """A trial that found no memory; a new start may fit with ``micro_batch``, unless that is 0."""

    def __init__(self, reason: str, micro_batch: int = 0) -> None:
        super().__init__(reason)
        self.micro_batch = micro_batch


def short_of_memory(error: BaseException) -> str:
    """``the device`` or ``the host`` where an error means that its memory is used up, else ``""``.

    CUDA's allocator has its own error; MPS, cuBLAS, cuDNN, NCCL and torch's allocator on the CPU
    only say it in words.
    """
    if isinstance(error, torch.OutOfMemoryError):
        return DEVICE
    if isinstance(error, MemoryError):
        return HOST
    if not isinstance(error, RuntimeError):
        return ""
    words = str(error).lower()
    if any(said in words for said in _HOST_WORDS):
        return HOST
    return DEVICE if any(said in words for said in _DEVICE_WORDS) else ""


@contextmanager
def raising_out_of_memory(why: str, before: str = "") -> Iterator[None]:
    """Raise a lack of memory in the block as ``OutOfMemory``; other errors pass.

    ``why`` says what the memory was for and what would need less, ``before`` begins the message.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not (where := short_of_memory(error)):
            raise
        raise OutOfMemory(f"{before}out of memory on {where} {why} ({first_line(error)})") from None


_settled_modules = 0


def settle() -> None:
    """Exclude what this process has imported from garbage collection, whenever it has grown.

    ``free`` after each trial would traverse all of it again: 250 ms of an empty trial's 290.
    """
    global _settled_modules
    if len(sys.modules) != _settled_modules:
        gc.collect()
        gc.freeze()
        _settled_modules = len(sys.modules)


def use_threads(count: int) -> None:
    """So many threads for torch, whether this process has imported it or will."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        torch.set_num_threads(count)


def free() -> None:
    """Give back what nothing holds any more, and what allocators keep for later.

    Each trial of a reused process has a thread of its own, and with it one of glibc's arenas, of
    which there are eight for each core: fifty trials of 16 MiB each on two cores left 240 MiB in
    them, and 100 MiB with what is done here.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)
    if "torch" in sys.modules:
        torch.cuda.empty_cache()  # nothing where CUDA has not been used
        if torch.backends.mps.is_available():
            torch.mps.empty_cache()
