"""Samplers: in which order a loader takes the items. Drawn while they are iterated, never listed ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....functions import multinomial, tensor
from ....random import default as default_generator

DRAWN = 1024  # numbers drawn at a time


class Sampler:
    """Base class: define `__iter__()`, which yields places, and `__len__()`."""

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __init__(self, data_source: Any = None):
        pass

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Any):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All places in random order, over and over until there are num_samples; with `replacement`, each drawn from all."""

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None):
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples < 0):
            raise ValueError(f"RandomSampler: num_samples counts items, so it is not {num_samples!r}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        rng, n, left = self.generator or default_generator(), len(self.data_source), self.num_samples
        while left > 0:
            part = rng.integers(n, size=min(left, DRAWN)) if self.replacement else rng.permutation(n)[:left]
            if not len(part):
                return
            left -= len(part)
            yield from part.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """These places in random order."""

    def __init__(self, indices: Any, generator: Any = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[Any]:
        order = (self.generator or default_generator()).permutation(len(self.indices)).tolist()
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """num_samples places, drawn with these weights."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None):
        self.weights = tensor(weights).double()
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        return iter(multinomial(self.weights, self.num_samples, self.replacement, self.generator).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size places from another sampler; the last, shorter one is left out if `drop_last`."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool = False):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size counts items, so it is not {batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list]:
        batch = []
        for place in self.sampler:
            batch.append(place)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
