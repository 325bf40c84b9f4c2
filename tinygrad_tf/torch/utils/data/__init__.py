"""torch.utils.data: datasets, samplers, the loader."""

from ...unsupported import lookup
from . import dataloader, dataset, distributed, sampler
from .dataloader import DataLoader, default_collate, default_convert
from .dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from .distributed import DistributedSampler
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__getattr__ = lookup("torch.utils.data")
