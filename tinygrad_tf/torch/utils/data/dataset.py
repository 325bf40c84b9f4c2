"""Datasets: what has a length and gives item i; what is only iterated; parts of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....errors import shown
from ....functions import randperm
from ....tensor import Tensor


class Dataset:
    """Base class: define `__getitem__(i)` and `__len__()`."""

    def __class_getitem__(cls, item: Any) -> type:  # Dataset[int] in an annotation
        return cls

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base class: define `__iter__()`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


class TensorDataset(Dataset):
    """Item i is row i of each tensor."""

    def __init__(self, *tensors: Tensor):
        for x in tensors:
            if not getattr(x, "ndim", 0):
                raise TypeError(f"TensorDataset takes tensors with an axis of items, not {shown(x)}")
        if len({len(x) for x in tensors}) > 1:
            raise ValueError(f"TensorDataset: tensors of different lengths: {[len(x) for x in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The items of a dataset at these places."""

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The items of several datasets, one after the other."""

    def __init__(self, datasets: Sequence[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset needs at least one dataset")

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        index %= len(self)
        for dataset in self.datasets:
            if index < len(dataset):
                return dataset[index]
            index -= len(dataset)
        raise IndexError(index)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Disjoint random parts of these lengths; fractions that add up to 1 share out the whole, the first parts take the rest."""
    if isinstance(lengths, str) or not np.iterable(lengths) or any(isinstance(n, str) for n in lengths):
        raise TypeError(f"random_split: lengths are a list of numbers, not {shown(lengths)}")
    lengths, total = [getattr(n, "item", lambda n=n: n)() for n in lengths], len(dataset)
    if lengths and abs(sum(lengths) - 1) < 1e-9:
        sizes = [int(total * share) for share in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(n) for n in lengths]
    if sum(sizes) != total:
        raise ValueError(f"random_split: lengths {list(lengths)} do not add up to the {total} items of the dataset")
    order = randperm(total, generator=generator).tolist()
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [Subset(dataset, order[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
