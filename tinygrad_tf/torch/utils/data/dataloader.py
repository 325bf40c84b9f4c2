"""`DataLoader`: batches of a dataset, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from ....errors import shown
from ....functions import stack
from ....functions import tensor as as_new_tensor
from ....tensor import Tensor
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


def default_collate(batch: list) -> Any:
    """A list of items as one: tensors stacked, numbers as a tensor, tuples and dicts part by part, strings as they are."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray):
        return Tensor(np.stack(batch))
    if isinstance(first, np.generic):
        return Tensor(np.asarray(batch))
    if isinstance(first, float):
        return as_new_tensor(batch, dtype=np.dtype(np.float64))
    if isinstance(first, int):
        return as_new_tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, dict):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(parts)) for parts in zip(*batch, strict=True)))
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each item of a batch must have the same number of parts")
        return [default_collate(list(parts)) for parts in zip(*batch, strict=True)]
    raise TypeError(f"a batch of {type(first).__name__} is none: give collate_fn, which makes a batch of a list of items")


def default_convert(data: Any) -> Any:
    """An item that is no part of a batch: arrays as tensors of the same memory, tuples as lists, all else as it is."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biuf":
        return Tensor(np.asarray(data))
    if isinstance(data, dict):
        return {key: default_convert(part) for key, part in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    return list(map(default_convert, data)) if isinstance(data, (tuple, list)) else data


class DataLoader:
    """Iterate over batches of a dataset.

    `num_workers`, `pin_memory` and what belongs to them are taken and change nothing: items are made in this process. Random
    order draws from `generator`, or from the default generator.
    """

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True):
        if num_workers < 0:
            raise ValueError(f"num_workers is a number of processes, not {num_workers}")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader takes a sampler or shuffle, not both")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("a batch_sampler says what batch_size, shuffle, sampler and drop_last would say")
        self.iterated = isinstance(dataset, IterableDataset)
        if not self.iterated and sampler is None and batch_sampler is None and not hasattr(dataset, "__len__"):
            raise TypeError(f"DataLoader: a dataset has __len__ or is an IterableDataset, which {shown(dataset)} is not")
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError(f"DataLoader: collate_fn is a function of a list of items, not {shown(collate_fn)}")
        if self.iterated and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if batch_size is None and drop_last:
            raise ValueError("without a batch_size there is no last batch to drop")
        self.dataset, self.batch_size, self.drop_last, self.generator = dataset, batch_size, drop_last, generator
        self.num_workers, self.pin_memory = num_workers, pin_memory
        if sampler is None and not self.iterated:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None and not self.iterated:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        batches = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batches else default_convert)

    def __iter__(self) -> Iterator[Any]:
        if self.iterated:
            yield from self._of_iterated()
        elif self.batch_sampler is None:
            for place in self.sampler:
                yield self.collate_fn(self.dataset[place])
        else:
            for places in self.batch_sampler:
                yield self.collate_fn([self.dataset[place] for place in places])

    def _of_iterated(self) -> Iterator[Any]:
        items = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, items)
            return
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self) -> int:
        if self.iterated:
            n = len(self.dataset)
            return n if self.batch_size is None else n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
