"""The worker group of a trial and its collective operations.

A group of one worker does not use ``torch.distributed``, so that the training loop is the same for
one worker and for several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sentune.lazy_import import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

T = TypeVar("T")


class Streams:
    """Independent, numbered streams of random numbers for each training step."""

    def __init__(self) -> None:
        self._step: tuple[int, ...] = ()

    def start(self, *step: int) -> None:
        """Begin a step, identified by these numbers."""
        self._step = step

    def use(self, stream: int) -> None:
        """Seed torch's generators with the start of a stream of the current step."""
        entropy = [number % 2**64 for number in (*self._step, stream)]
        state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0] >> 1))


@dataclass(frozen=True)
class Group:
    """A worker group, as seen by the worker of ``rank``.

    Attributes:
        place: device of this worker's tensors; None: CUDA if available, else the CPU.
        shards: number of parts of a batch, each with its own random numbers; 0: one for each
            worker. An elastic group has one for each possible worker, so that the dropout masks do
            not depend on the number of workers.
        streams: random numbers of this worker.
    """

    rank: int
    world_size: int
    place: torch.device | str | None = None
    shards: int = 0
    streams: Streams = field(default_factory=Streams, compare=False)

    @classmethod
    def single(cls, device: torch.device | str | None = None, shards: int = 0) -> Group:
        """Return a group of one worker, by default on CUDA if available."""
        return cls(0, 1, device, shards)

    @classmethod
    def from_torch_distributed(
        cls, device: torch.device | str | None = None, shards: int = 0
    ) -> Group:
        """Return the default process group, which must be initialised."""
        if device is None:
            nccl = torch.distributed.get_backend() == "nccl"
            device = f"cuda:{torch.cuda.current_device()}" if nccl else "cpu"
        return cls(torch.distributed.get_rank(), torch.distributed.get_world_size(), device, shards)

    @cached_property
    def device(self) -> torch.device:
        """The device of this worker's tensors."""
        usual = "cuda" if self.place is None and torch.cuda.is_available() else "cpu"
        return torch.device(self.place or usual)

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that reads and writes files for all."""
        return self.rank == 0

    def sizes(self, rows: int) -> list[int]:
        """Return the number of rows of each worker's slice; the first workers get the remainder."""
        return _parts(rows, self.world_size)

    def shards_by_worker(self, rows: int) -> list[range]:
        """Return the shard numbers of each worker for a batch of ``rows``."""
        parts = _parts(max(self.world_size, min(self.shards, rows)), self.world_size)
        return [range(*ends) for ends in pairwise([0, *accumulate(parts)])]

    def slice(self, rows: int) -> slice:
        """Return this worker's slice of a global batch of ``rows``."""
        start = self.offset(rows)
        return slice(start, start + self.sizes(rows)[self.rank])

    def offset(self, rows: int) -> int:
        """Return the index of this worker's first row in a global batch of ``rows``."""
        return sum(self.sizes(rows)[: self.rank])

    def gather(self, local: Tensor, rows: int) -> Tensor:
        """Gather the slices of a global batch of ``rows`` from all workers, [n, ...] -> [B, ...].

        See ``gather_shares`` for gradients.
        """
        return self.gather_shares(local, self.sizes(rows))

    def gather_shares(self, local: Tensor, sizes: list[int]) -> Tensor:
        """Gather rows from all workers in the order of ranks, [n, ...] -> [sum(sizes), ...].

        The gradient of a gathered row is summed over the workers and returned to the worker that
        owns the row. A plain ``all_gather`` passes no gradients; with the local rows put back, the
        gradient would be 1/world_size of the correct one.

        Args:
            local: rows of this worker.
            sizes: number of rows of each worker, equal on all workers; they may differ or be 0.

        Raises:
            ValueError: ``local`` has another number of rows than ``sizes`` states.
        """
        if self.world_size == 1:
            return local
        if sizes[self.rank] != len(local):
            expected = f"{sizes[self.rank]} of {sum(sizes)} belong to this worker"
            raise ValueError(f"{len(local)} local rows, but {expected}")
        from sentune.training.gradients import Gather  # imports torch

        apply: Callable[..., Tensor] = Gather.apply  # torch declares no types for it
        return apply(local, sizes, self.rank)

    def all_reduce_mean(self, value: Tensor) -> Tensor:
        """Return the mean over the workers, without gradient."""
        total = value.detach().clone()
        if self.world_size > 1:
            torch.distributed.all_reduce(total)
        return total / self.world_size

    def agree(self, value: int) -> int:
        """Return the first worker's ``value`` on every worker."""
        if self.world_size == 1:
            return value
        box = torch.tensor(value, dtype=torch.int64, device=self.device)
        torch.distributed.broadcast(box, src=0)
        return int(box)

    def broadcast_object(self, value: T, source: int = 0) -> T:
        """Return the picklable ``value`` of worker ``source`` on every worker."""
        if self.world_size == 1:
            return value
        box = [value]
        torch.distributed.broadcast_object_list(box, src=source, device=self.device)
        return box[0]

    def collect(self, value: T) -> list[T]:
        """Return the picklable values of all workers, in the order of ranks, on every worker."""
        return [self.broadcast_object(value, source) for source in range(self.world_size)]

    def add_up(self, array: NDArray[Any]) -> None:
        """Sum a numpy array over the workers, in place and in its own dtype."""
        if self.world_size > 1:
            own = torch.from_numpy(array)
            total = own.to(self.device)  # on the CPU, the array itself
            torch.distributed.all_reduce(total)
            own.copy_(total)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradients on every worker by their mean over the workers.

        A missing gradient counts as zero unless it is missing on all workers, as for an operator
        that no row of the batch uses. (DistributedDataParallel requires every parameter to take
        part in every step on every worker.)
        """
        if self.world_size == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        used = [p.grad is not None for p in trained]
        counts = torch.tensor(used, dtype=torch.int32, device=self.device)
        torch.distributed.all_reduce(counts)
        grads: list[Tensor] = []
        for parameter, workers in zip(trained, counts.tolist(), strict=True):
            if workers:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                grads.append(parameter.grad)
        if grads:
            flat = torch.nn.utils.parameters_to_vector(grads)
            torch.distributed.all_reduce(flat)
            flat /= self.world_size
            torch.nn.utils.vector_to_parameters(flat, grads)

    def send_parameters(self, module: nn.Module) -> None:
        """Broadcast the parameters of the first worker to all workers."""
        if self.world_size > 1:
            for parameter in module.parameters():
                torch.distributed.broadcast(parameter.data, src=0)


def _parts(rows: int, parts: int) -> list[int]:
    """Return the sizes of nearly equal parts; the first parts get the remainder."""
    share, rest = divmod(rows, parts)
    return [share + (part < rest) for part in range(parts)]
