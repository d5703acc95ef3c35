"""Recognise errors of exhausted memory, and free memory between trials."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sentune.errors import TrialFailed, first_line
from sentune.lazy_import import torch

DEVICE, HOST = "the device", "the host"

_HOST_WORDS = ("can't allocate memory", "not enough memory: you tried to allocate")
_DEVICE_WORDS = ("out of memory", "_status_alloc_failed")


class OutOfMemory(TrialFailed):
    """A trial ran out of memory.

    Attributes:
        micro_batch: micro-batch with which a restart may fit; 0 if no smaller one would help.
    """

    def __init__(self, reason: str, micro_batch: int = 0) -> None:
        super().__init__(reason)
        self.micro_batch = micro_batch


def short_of_memory(error: BaseException) -> str:
    """Return ``the device`` or ``the host`` if an error says that its memory is exhausted, or "".

    CUDA's allocator raises an error class of its own. Errors of MPS, cuBLAS, cuDNN, NCCL and
    torch's CPU allocator can be recognised only by their text.
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
    """Convert errors of exhausted memory in the block to ``OutOfMemory``.

    Args:
        why: what the memory was needed for, and what would need less.
        before: beginning of the message.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not (where := short_of_memory(error)):
            raise
        raise OutOfMemory(f"{before}out of memory on {where} {why} ({first_line(error)})") from None


_settled_modules = 0


def settle() -> None:
    """Exclude imported modules from garbage collection, if any were imported since the last call.

    Otherwise ``free`` would traverse their objects after each trial: 250 of the 290 ms of an empty
    trial.
    """
    global _settled_modules
    if len(sys.modules) != _settled_modules:
        gc.collect()
        gc.freeze()
        _settled_modules = len(sys.modules)


def use_threads(count: int) -> None:
    """Set the number of threads of torch, whether or not it is imported already."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        torch.set_num_threads(count)


def free() -> None:
    """Collect garbage and return the allocators' unused memory to the system.

    Each trial of a reused process runs in a new thread with one of glibc's arenas, of which there
    are up to eight for each core. After fifty trials of 16 MiB each on two cores, the arenas kept
    240 MiB without this function and 100 MiB with it.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc
    if trim is not None:
        trim(0)
    if "torch" in sys.modules:
        torch.cuda.empty_cache()  # does nothing unless CUDA is in use
        if torch.backends.mps.is_available():
            torch.mps.empty_cache()
