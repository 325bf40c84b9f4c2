"""torch.utils.data: batches, orders and parts as in PyTorch; what is drawn is drawn late."""

from collections import namedtuple
from itertools import islice

import numpy as np
import pytest

import tinygrad_tf.torch as ours

Point = namedtuple("Point", "x y")


def data(m):
    return m.utils.data


class Squares:
    """A dataset by its two methods alone."""

    def __init__(self, m, n):
        self.m, self.n = m, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.m.tensor([i, i * i]), i


SIZES = [(1, 1), (5, 2), (6, 2), (7, 3), (3, 5), (10, 4), (2, 2), (9, 1), (8, 8), (12, 5), (4, 3)]
LOADERS = {
    "torch.utils.data.DataLoader": lambda m, n, b: data(m).DataLoader(Squares(m, n), batch_size=b),
    "torch.utils.data.dataloader.DataLoader": lambda m, n, b: data(m).dataloader.DataLoader(
        Squares(m, n), batch_size=b, drop_last=True, num_workers=0, pin_memory=False, shuffle=False
    ),
    "collate_fn": lambda m, n, b: data(m).DataLoader(Squares(m, n), b, collate_fn=lambda items: [y for _, y in items]),
    "sampler": lambda m, n, b: data(m).DataLoader(Squares(m, n), b, sampler=list(range(n))[::-1]),
    "batch_sampler": lambda m, n, b: data(m).DataLoader(Squares(m, n), batch_sampler=data(m).BatchSampler(range(n), b, True)),
    "without batches": lambda m, n, b: data(m).DataLoader(Squares(m, n), batch_size=None),
    "tensors": lambda m, n, b: data(m).DataLoader(data(m).TensorDataset(m.arange(n), m.ones(n, 2)), b),
    "subset": lambda m, n, b: data(m).DataLoader(data(m).Subset(Squares(m, n), [0, n - 1]), b),
    "joined": lambda m, n, b: data(m).DataLoader(data(m).ConcatDataset([Squares(m, n), Squares(m, 2)]), b),
    "dicts": lambda m, n, b: data(m).DataLoader([{"a": i, "b": 0.5 * i, "c": str(i)} for i in range(n)], b),
    "named": lambda m, n, b: data(m).DataLoader([Point(i, np.full(2, i)) for i in range(n)], b),
    "numpy": lambda m, n, b: data(m).DataLoader([np.float32(i) for i in range(n)], b),
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches(agree, name):
    for n, b in SIZES:
        agree(
            lambda m, make, n, b: [len(make(m, n, b)), [x for batch in make(m, n, b) for x in parts(batch)]],
            LOADERS[name],
            n,
            b,
        )


def parts(batch):
    return batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else [batch]


def test_a_shuffled_loader_gives_every_item_once_in_an_order_that_the_seed_decides():
    for n, b in SIZES:
        orders = []
        for seed in (1, 1, 2):
            generator = ours.Generator().manual_seed(seed)
            loader = data(ours).DataLoader(
                Squares(ours, n), b, shuffle=True, generator=generator, num_workers=4, pin_memory=True
            )
            orders.append([y for _, ys in loader for y in ys.tolist()])
            assert sorted(orders[-1]) == list(range(n))
        assert orders[0] == orders[1]
        assert orders[0] != orders[2] or n < 5
    loader = data(ours).DataLoader(Squares(ours, 50), 50, shuffle=True)
    assert next(iter(loader))[1].tolist() != next(iter(loader))[1].tolist()  # another order each time


def test_the_loaders_class_is_one():
    from tinygrad_tf.torch.utils.data import DataLoader
    from tinygrad_tf.torch.utils.data.dataloader import DataLoader as other

    assert DataLoader is other


def test_a_random_sampler_of_ten_thousand_million_draws_is_not_drawn_ahead():
    """torch.utils.data.RandomSampler"""
    sampler = data(ours).RandomSampler(Squares(ours, 7), replacement=True, num_samples=int(1e10))
    assert len(sampler) == 10**10
    drawn = list(islice(iter(sampler), 5000))
    assert set(drawn) == set(range(7))
    assert abs(np.mean(drawn) - 3) < 0.2
    loader = data(ours).DataLoader(Squares(ours, 7), sampler=sampler, batch_size=4)
    assert len(loader) == 10**10 // 4
    assert next(iter(loader))[0].shape == (4, 2)


@pytest.mark.parametrize("count", [0, 1, 3, 5, 6, 10, 11, 12, 15, 17])
def test_without_replacement_every_place_comes_before_one_comes_again(oracle, count):
    for m in (ours, oracle):
        drawn = list(data(m).RandomSampler(range(5), num_samples=count)) if count else []
        assert len(drawn) == count
        for start in range(0, count - 4, 5):
            assert sorted(drawn[start : start + 5]) == list(range(5))


def test_random_split(oracle):
    """torch.utils.data.random_split"""
    for lengths in ([3, 2], [5], [0, 5], [1, 1, 3], [0.5, 0.5], [0.9, 0.1], [0.4, 0.4, 0.2], [2, 3], [5, 0], [0.25, 0.75]):
        sizes = []
        for m in (ours, oracle):
            split = data(m).random_split(list("abcde"), lengths, generator=m.Generator().manual_seed(1))
            assert sorted(item for part in split for item in part) == list("abcde")
            sizes.append([len(part) for part in split])
        assert sizes[0] == sizes[1]
    with pytest.raises(ValueError, match="do not add up to the 5 items"):
        data(ours).random_split(list("abcde"), [1, 2])


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"shuffle": True, "sampler": [0]},
        {"num_workers": -1},
        {"batch_size": None, "drop_last": True},
        {"batch_sampler": [[0]], "batch_size": 2},
    ],
)
def test_errors_where_pytorch_has_them(oracle, settings):
    for m in (oracle, ours):
        with pytest.raises(ValueError, match="."):
            data(m).DataLoader([1, 2], **settings)


def test_datasets(agree):
    """torch.utils.data.Dataset"""

    def f(m):
        class Counted(data(m).Dataset):
            def __init__(self):
                super().__init__()
                self.items = [1, 2, 3]

            def __len__(self):
                return len(self.items)

            def __getitem__(self, i):
                return self.items[i]

        class Stream(data(m).IterableDataset):
            def __iter__(self):
                return iter(range(5))

        batches = data(m).DataLoader(Stream(), 2, drop_last=True)
        return [list(data(m).DataLoader(Counted() + Counted(), 4)), list(batches), len(Counted())]

    agree(f)
    with pytest.raises(NotImplementedError):
        data(ours).Dataset()[0]


def test_without_batches_arrays_become_tensors(oracle):
    items = [(np.arange(3), np.float32(2), "a", {"x": np.ones(2)}, Point(1, np.zeros(1)))]
    for m in (ours, oracle):
        ((first, second, third, fourth, fifth),) = data(m).DataLoader(items, batch_size=None)
        assert (first.tolist(), second.item(), third, fourth["x"].tolist()) == ([0, 1, 2], 2.0, "a", [1.0, 1.0])
        assert type(fifth) is Point and fifth.x == 1 and fifth.y.tolist() == [0.0]
        assert all(isinstance(part, m.Tensor) for part in (first, second, fourth["x"], fifth.y))


@pytest.mark.parametrize("lengths", [[0.8, 0.2, 0], [1], [0, 1.0], np.array([4, 6])], ids=str)
def test_lengths_of_parts(oracle, lengths):
    parts = [[len(part) for part in data(m).random_split(range(10), lengths)] for m in (ours, oracle)]
    assert parts[0] == parts[1]
