"""Random programs for the engine: ops, views, slices, broadcasts, reuse, changes in place, no_grad, detach, a second backward.

A program is a list of plain tuples, and any list of them is a program: numbers are taken modulo what there is to choose from.
It runs on three machines in step: here, on NumPy's arrays, and where it is installed on PyTorch. After every step they agree on
values, on what is tracked, and on what is an error. At the end gradients are compared with PyTorch's and with the slopes that
NumPy's machine finds by finite differences.

Where PyTorch and this engine differ on purpose: a tracked change in place is refused here if the memory is shared with a view,
and a second backward through a freed graph is always an error.
"""

import operator
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import Phase, event, example, given, settings
from hypothesis import strategies as st

import tinygrad_tf

SHAPES = [(3,), (2, 3), (), (1, 3), (2, 1), (2, 2, 3), (3, 3), (1,), (0, 3)]
LIMIT = 4.0  # larger values are brought back by tanh, so that slopes stay comparable
VIEW, CHANGED, FREED = "shares its memory with another", "changed in place afterwards", "already walked backward and freed"


def numbers(shape, salt):
    """Numbers between -1.5 and 1.5 that are nothing special: no zeros, no ties."""
    return np.random.default_rng([salt, *shape]).uniform(-1.5, 1.5, shape)


def places(x, n):
    """An index of x: slices with steps, one place, a new axis."""
    index = []
    for size in x.shape:
        start, stop, step, n = n % (size + 1), size - n // 4 % 2, 1 + n // 8 % 2, n // 16 + 5
        index.append(start % size if size and n % 3 == 0 else slice(start, stop, step))
    return (None, *index) if n % 5 == 0 else tuple(index)


def axis(x, n):
    """One axis, counted from either end."""
    return n % x.ndim - x.ndim * (n // 8 % 2) if x.ndim else -(n % 2)


def mask(x):
    return (np.arange(np.prod(x.shape, dtype=int)).reshape(tuple(x.shape)) % 3) == 0


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True)) if x.size else x
    return e / e.sum(dim, keepdims=True)


def on_axes(function):
    """A NumPy function along one axis, for which a 0-d array is one with a single place."""
    return lambda x, n: function(x, axis(x, n)) if x.ndim else function(x.reshape(1), 0).reshape(())


# name: (on tensors of either library, on arrays); x and y are variables, n a number
VIEWS = {
    "transpose": (lambda x, n: x.transpose(axis(x, n), axis(x, n + 1)) if x.ndim > 1 else x[None],
                  lambda x, n: x.swapaxes(axis(x, n), axis(x, n + 1)) if x.ndim > 1 else x[None]),
    "reshape": (lambda x, n: x.reshape((-1,) if n % 2 else (1, *x.shape)),
                lambda x, n: x.reshape((-1,) if n % 2 else (1, *x.shape))),
    "unsqueeze": (lambda x, n: x.unsqueeze(n % (x.ndim + 1)), lambda x, n: np.expand_dims(x, n % (x.ndim + 1))),
    "squeeze": (lambda x, n: x.squeeze(), lambda x, n: x.squeeze()),
    "slice": (lambda x, n: x[places(x, n)], lambda x, n: x[(*places(x, n), ...)]),
    "expand": (lambda x, n: x.expand(2, *x.shape), lambda x, n: np.broadcast_to(x, (2, *x.shape))),
    "detach": (lambda x, n: x.detach(), lambda x, n: x[...]),
}  # fmt: skip
UNARY = {
    "neg": (lambda x, n: -x, lambda x, n: -x),
    "tanh": (lambda x, n: x.tanh(), lambda x, n: np.tanh(x)),
    "sin": (lambda x, n: x.sin(), lambda x, n: np.sin(x)),
    "exp": (lambda x, n: (x * 0.3).exp(), lambda x, n: np.exp(x * 0.3)),
    "log": (lambda x, n: (x * x + 0.7).log(), lambda x, n: np.log(x * x + 0.7)),
    "sqrt": (lambda x, n: (x.square() + 0.5).sqrt(), lambda x, n: np.sqrt(x * x + 0.5)),
    "sigmoid": (lambda x, n: x.sigmoid(), lambda x, n: 1 / (1 + np.exp(-x))),
    "relu": (lambda x, n: x.relu(), lambda x, n: np.maximum(x, 0)),
    "abs": (lambda x, n: x.abs(), lambda x, n: np.abs(x)),
    "cube": (lambda x, n: x**3, lambda x, n: x**3),
    "times": (lambda x, n: x * (n % 7 - 3.5), lambda x, n: x * (n % 7 - 3.5)),
    "clamp": (lambda x, n: x.clamp(-0.7, 0.9), lambda x, n: np.clip(x, -0.7, 0.9)),
    "clone": (lambda x, n: x.clone(), lambda x, n: x.copy()),
    "masked_fill": (lambda x, n: x.masked_fill(like(x, mask(x)), 0.25), lambda x, n: np.where(mask(x), 0.25, x)),
    "flip": (lambda x, n: x.flip(axis(x, n)) if x.ndim else x * 1, on_axes(lambda x, d: np.flip(x, d).copy())),
    "twice": (lambda x, n: x[[0, -1, 0]] if x.ndim else x * 1, lambda x, n: x[[0, -1, 0]] if x.ndim else x * 1),
    "rows": (lambda x, n: x[like(x, mask(x))], lambda x, n: x[mask(x)]),
    "sum": (lambda x, n: x.sum(), lambda x, n: x.sum()),
    "sum dim": (lambda x, n: x.sum(axis(x, n), keepdim=n // 2 % 2 == 0),
                lambda x, n: x.sum(axis(x, n), keepdims=n // 2 % 2 == 0) if x.ndim else x.copy()),
    "mean": (lambda x, n: x.sum(axis(x, n)) / 3, on_axes(lambda x, d: x.sum(d) / 3)),
    "cumsum": (lambda x, n: x.cumsum(axis(x, n)), on_axes(np.cumsum)),
    "prod": (lambda x, n: x.prod(axis(x, n)), on_axes(np.prod)),
    "softmax": (lambda x, n: x.softmax(axis(x, n)), on_axes(softmax)),
    "log_softmax": (lambda x, n: x.log_softmax(axis(x, n)), on_axes(lambda x, d: np.log(softmax(x, d)))),
    "logsumexp": (lambda x, n: x.logsumexp(axis(x, n)), on_axes(lambda x, d: np.log(np.exp(x).sum(d)))),
    "amax": (lambda x, n: x.amax(axis(x, n)), on_axes(lambda x, d: x.max(d))),
    "max": (lambda x, n: x.max(axis(x, n))[0], on_axes(lambda x, d: x.max(d))),
}  # fmt: skip
BINARY = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "div": (lambda x, y: x / (y * y + 0.6), lambda x, y: x / (y * y + 0.6)),
    "matmul": (operator.matmul, operator.matmul),
    "maximum": (lambda x, y: x.maximum(y), np.maximum),
    "where": (lambda x, y: x.where(like(x, mask(x)), y), lambda x, y: np.where(mask(x), x, y)),
    "cat": (lambda x, y: module(x).cat([x, y]), lambda x, y: np.concatenate([x, y])),
    "stack": (lambda x, y: module(x).stack([x, y], -1), lambda x, y: np.stack([x, y], -1)),
}
CHANGES = {
    "add_": (lambda x, y, n: x.add_(y), lambda x, y, n: x + y),
    "sub_": (lambda x, y, n: x.sub_(y), lambda x, y, n: x - y),
    "mul_": (lambda x, y, n: x.mul_(y), lambda x, y, n: x * y),
    "halve_": (lambda x, y, n: x.div_(2.0), lambda x, y, n: x / 2.0),
    "copy_": (lambda x, y, n: x.copy_(y), lambda x, y, n: np.broadcast_to(y, x.shape)),
    "fill_": (lambda x, y, n: x.fill_(0.3), lambda x, y, n: np.full(x.shape, 0.3)),
    "zero_": (lambda x, y, n: x.zero_(), lambda x, y, n: np.zeros(x.shape)),
    "relu_": (lambda x, y, n: x.relu_(), lambda x, y, n: np.maximum(x, 0)),
    "clamp_": (lambda x, y, n: x.clamp_(-0.6, 0.8), lambda x, y, n: np.clip(x, -0.6, 0.8)),
    "masked_fill_": (lambda x, y, n: x.masked_fill_(like(x, mask(x)), -0.4), lambda x, y, n: np.where(mask(x), -0.4, x)),
    "set": (lambda x, y, n: x.__setitem__(places(x, n), y if n % 2 else 0.5),
            lambda x, y, n: put(x, places(x, n), y if n % 2 else 0.5)),
}  # fmt: skip
NAMES = [*VIEWS, *UNARY, *BINARY, *CHANGES, "backward", "retain_grad"]


def module(x):
    return tinygrad_tf if isinstance(x, tinygrad_tf.Tensor) else pytest.importorskip("torch")


def like(x, array):
    """A constant for the library that x is from."""
    return module(x).as_tensor(array)


def put(x, index, value):
    x = x.copy()
    x[(*index, ...)] = value
    return x


def compute(machine, name, x, y, n):
    """What a step makes; the value that takes the place of x for a change, on arrays."""
    if name in CHANGES:
        return CHANGES[name][machine](x, y, n)
    return BINARY[name][machine](x, y) if name in BINARY else (VIEWS | UNARY)[name][machine](x, n)


def values(x):
    return x if isinstance(x, np.ndarray) else x.array if isinstance(x, tinygrad_tf.Tensor) else x.numpy(force=True)


def weights(x, i):
    return numbers(tuple(x.shape), 100 + i)


def assert_close(mine, wanted, what, tolerance=1e-9):
    mine, wanted = np.asarray(mine), np.asarray(wanted)
    assert mine.shape == wanted.shape, f"{what}: {mine.shape}, not {wanted.shape}"
    off = np.abs(mine - wanted).max(initial=0) / (1 + np.abs(wanted).max(initial=0))
    assert off <= tolerance, f"{what}: off by {off:.2g}:\n{mine}\n{wanted}"


def said_so(error):
    """False, after an error that says that a value was changed which backward needs."""
    if CHANGED not in str(error) and "modified by an inplace operation" not in str(error):
        raise error
    return False


class Program:
    """Runs the steps on all machines."""

    def __init__(self, leaves, steps, torch=None, moved=0.0):
        self.torch, self.made_of = torch, (leaves, steps)
        arrays = [numbers(SHAPES[shape % len(SHAPES)], i) for i, shape in enumerate(leaves)]
        tracked = [i == 0 or shape // len(SHAPES) % 2 == 0 for i, shape in enumerate(leaves)]
        arrays = [np.asarray(a + t * moved * weights(a, 60 + i)) for i, (a, t) in enumerate(zip(arrays, tracked))]
        self.leaves, self.tracked_leaves = arrays, tracked
        self.ours = [tinygrad_tf.tensor(a, requires_grad=t) for a, t in zip(arrays, tracked)]
        self.theirs = [torch.tensor(a, requires_grad=t) for a, t in zip(arrays, tracked)] if torch else None
        self.plain = [a.copy() for a in arrays]
        self.log = []  # (step, what it read of variables that are not tracked, which are after it)
        self.detached = []  # memory that a variable outside the graph shares with one inside
        self.sound = True  # whether a slope of the program is its gradient
        self.pure = True  # whether there is no constant that depends on a leaf
        self.kept = []
        for step in steps:
            self.step(*step)

    def step(self, name, a, b, n, grad):
        """One step; where it is an error, an error on every machine, and nothing has happened."""
        x, y = a % len(self.ours), b % len(self.ours)
        if name == "retain_grad":
            if not self.ours[x].is_leaf and self.ours[x].requires_grad:
                self.ours[x].retain_grad()
                if self.torch:
                    self.theirs[x].retain_grad()
                self.kept.append(x)
            return
        if name == "backward":
            if self.ours[x].requires_grad:
                self.walk(x)
            return
        if name == "cat" and (0,) in (self.plain[x].shape, self.plain[y].shape):
            return  # PyTorch joins that with anything
        if not self.plain[x].size and (name == "logsumexp" or name in CHANGES):
            return  # ln 0 is no number to go on with; a change of nothing may be allowed or refused
        before = self.ours[x].requires_grad
        grad = grad or name in VIEWS  # in PyTorch a view made under no_grad asks for a gradient that does not arrive anywhere
        out, error = self.attempt(tinygrad_tf, self.ours, name, x, y, n, grad)
        if error is not None and VIEW in str(error):
            event("refused: the memory is shared with a view")
            return
        if "read-only" in str(error):
            return  # of an expanded tensor PyTorch allows some changes
        if self.torch:
            made, refused = self.attempt(self.torch, self.theirs, name, x, y, n, grad)
            if error is None and "refer to a single memory location" in str(refused):
                event("PyTorch refuses operands that overlap")
                self.torch = None
            assert (error is None) == (refused is None) or self.torch is None, f"{name}: here {error!r}, in PyTorch {refused!r}"
        if error is not None:
            assert isinstance(error, (ValueError, IndexError, RuntimeError, TypeError))
            assert "\n" not in str(error)
            event("an error on every machine")
            return
        untracked = {i: self.plain[i].copy() for i in {x, y} if not (before if i == x else self.ours[i].requires_grad)}
        result = compute(1, name, self.plain[x], self.plain[y], n)
        if name in CHANGES:
            if any(np.shares_memory(self.plain[x], memory) for memory in self.detached):
                self.sound = False
            for i, (v, p) in enumerate(zip(self.ours, self.plain)):
                if (i != x or not grad) and v.requires_grad and np.shares_memory(p, self.plain[x]):
                    self.sound = False  # a write that the graph of v does not know of
            np.copyto(self.plain[x], result)
        else:
            self.ours.append(out)
            if self.torch:
                self.theirs.append(made)
            self.plain.append(np.asarray(result))
            if (before or (name in BINARY and self.ours[y].requires_grad)) and not out.requires_grad:
                self.pure = False
                if name in VIEWS:
                    self.detached.append(self.plain[-1])
        self.log.append(((name, x, y, n), untracked))
        self.agree(name)
        changed = x if name in CHANGES else -1
        if np.abs(self.plain[changed]).max(initial=0) > LIMIT and name != "tanh":
            self.step("tanh", changed % len(self.ours), 0, 0, True)

    @staticmethod
    def attempt(library, variables, name, x, y, n, grad):
        try:
            with nullcontext() if grad else library.no_grad():
                return compute(0, name, variables[x], variables[y], n), None
        except Exception as error:
            return None, error

    def agree(self, what):
        for i, (mine, plain) in enumerate(zip(self.ours, self.plain)):
            assert_close(mine.array, plain, f"variable {i} after {what}")
            if self.torch:
                assert_close(mine.array, values(self.theirs[i]), f"variable {i} after {what}, PyTorch")
                assert mine.requires_grad == self.theirs[i].requires_grad, f"variable {i} after {what}"

    # ------------------------------------------------------------------------------------------------ gradients

    def walk(self, x):
        """A backward in the middle, which keeps the graph."""
        seed = weights(self.plain[x], x)
        mine = self.backward_of(lambda: self.ours[x].backward(seed, retain_graph=True))
        if self.torch:
            theirs = self.backward_of(lambda: self.theirs[x].backward(self.torch.from_numpy(seed), retain_graph=True))
            self.sound &= mine == theirs  # after a refusal on one side the sums are not the same any more
            if mine and not theirs:
                self.torch = None
        if mine:
            self.log.append((("backward", x, x, 0), {}))
        else:
            self.torch = None

    @staticmethod
    def backward_of(call):
        try:
            call()
        except RuntimeError as error:
            return said_so(error)
        return True

    def total(self, variables, library):
        """Everything that is tracked, times numbers that are nothing special, as one number."""
        total = 0.0
        for i, v in enumerate(variables):
            if self.ours[i].requires_grad:
                w = weights(v, i)
                total = total + (v * (library.as_tensor(w) if library else w)).sum()
        return total

    def value(self, leaf, t):
        """What all backwards together are the gradient of, with one leaf moved by t times some direction."""
        variables = [a + t * weights(a, 50) if i == leaf else a.copy() for i, a in enumerate(self.leaves)]
        total = 0.0
        for (name, x, y, n), untracked in self.log:
            if name == "backward":
                total += (variables[x] * weights(variables[x], x)).sum()
                continue
            known = {} if name in VIEWS else untracked
            result = compute(1, name, known.get(x, variables[x]), known.get(y, variables[y]), n)
            if name in CHANGES:
                np.copyto(variables[x], result)
            else:
                variables.append(np.asarray(result))
        return total + self.total(variables, None)

    def slope(self, leaf, step=1e-4):
        """The derivative of `value` along the direction; None at a kink."""
        down2, down, here, up, up2 = (self.value(leaf, k * step) for k in (-2, -1, 0, 1, 2))
        bend = max(abs(up + down - 2 * here), abs(up2 + down2 - 2 * here))
        if bend > 1e-2 * step * (1 + abs(up - down) / step):
            return None
        return (down2 - 8 * down + 8 * up - up2) / (12 * step)

    def gradients(self, times=1):
        """Compare what leaves and kept variables hold now."""
        for i, x in enumerate(self.ours[: len(self.leaves)]):
            if self.torch and self.tracked_leaves[i]:
                wanted = self.theirs[i].grad
                assert (x.grad is None) == (wanted is None), f"leaf {i}: {x.grad}, in PyTorch {wanted}"
                if wanted is not None:
                    assert_close(x.grad.array, values(wanted), f"gradient of leaf {i}, PyTorch")
            if self.tracked_leaves[i] and x.grad is not None and self.sound:
                slope = self.slope(i)
                if slope is not None:
                    mine = float((x.grad.array * weights(x.array, 50)).sum()) / times
                    assert abs(mine - slope) <= 1e-5 * (1 + abs(slope)), f"gradient of leaf {i}: {mine}, slope {slope}"
        for i in self.kept:
            if self.torch and self.sound:  # there a view whose memory changed beside the graph gets a new node
                mine, wanted = self.ours[i].grad, self.theirs[i].grad
                assert (mine is None) == (wanted is None), f"kept gradient of variable {i}: {mine}, in PyTorch {wanted}"
                if wanted is not None:
                    assert_close(mine.array, values(wanted), f"kept gradient of variable {i}")

    def end(self, ending):
        """The last backward, in one of four ways."""
        walked = any(step[0][0] == "backward" for step in self.log)
        twice = ending == 1 and not walked
        mine = self.total(self.ours, tinygrad_tf)
        theirs = self.total(self.theirs, self.torch) if self.torch else None
        if ending == 3 and not walked:
            return self.second(mine, theirs)
        went = self.backward_of(lambda: mine.backward(retain_graph=twice))
        if not went:
            event("refused: a value was changed that backward needs")
        if self.torch:
            possible = self.backward_of(lambda: theirs.backward(retain_graph=twice))
            if possible != went:
                event("PyTorch refuses, here it is right" if went else "PyTorch does not refuse")
                self.torch = None
        if not went:
            return None
        self.gradients()
        if twice:
            mine.backward()
            if self.torch:
                theirs.backward()
            self.gradients(times=2)
        elif ending == 2:
            with pytest.raises(RuntimeError, match=FREED):
                mine.backward()
            self.gradients()
        return None

    def second(self, mine, theirs):
        """The gradient of the gradient, with PyTorch; and with finite differences of the gradient where nothing is constant."""
        leaves = [i for i, t in enumerate(self.tracked_leaves) if t]
        results = []
        for library, variables, total in ((tinygrad_tf, self.ours, mine), (self.torch, self.theirs, theirs)):
            if library is None:
                continue
            grad = library.grad if library is tinygrad_tf else library.autograd.grad
            own = [variables[i] for i in leaves]
            try:
                first = grad(total, own, create_graph=True)
            except RuntimeError as error:
                event("refused: a second derivative")
                return said_so(error)
            parts = [(g * library.as_tensor(weights(g, 70 + i))).sum() for i, g in enumerate(first) if g.requires_grad]
            if parts:
                sum(parts[1:], parts[0]).backward()
            second = [np.zeros(tuple(x.shape)) if x.grad is None else values(x.grad) for x in own]
            results.append([*(values(g) for g in first), *second])
        for found, wanted in zip(results[0], results[-1]):
            assert_close(found, wanted, "first and second derivatives")
        if self.pure and self.sound:
            self.slope_of_the_gradient(leaves, results[0][len(leaves) :])
        return True

    def slope_of_the_gradient(self, leaves, second, step=1e-5):
        """Move all leaves along some direction: what the gradient, times numbers, gains is the second derivative."""
        gains = []
        for moved in (-step, 0.0, step):
            other = Program(*self.made_of, moved=moved)
            first = tinygrad_tf.grad(other.total(other.ours, tinygrad_tf), [other.ours[i] for i in leaves])
            gains.append(sum(float((g.array * weights(g, 70 + i)).sum()) for i, g in enumerate(first)))
        down, here, up = gains
        slope = (up - down) / (2 * step)
        if abs(up + down - 2 * here) < 1e-2 * step * (1 + abs(slope)):  # else at a kink
            mine = sum(float((g * weights(g, 60 + i)).sum()) for i, g in zip(leaves, second))
            assert abs(mine - slope) <= 1e-5 * (1 + abs(slope)), f"second derivative {mine}, slope {slope}"


steps_ = st.lists(
    st.tuples(st.sampled_from(NAMES), *[st.integers(0, 30)] * 2, st.integers(0, 255), st.sampled_from([True] * 5 + [False])),
    min_size=1,
    max_size=12,
)
leaves_ = st.lists(st.integers(0, 2 * len(SHAPES) - 1), min_size=1, max_size=3)
many = settings(
    max_examples=10 * settings().max_examples,  # 400 in ci, 20,000 in nightly
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # explaining a failure would take minutes
)
FOUND = [  # what was wrong once
    ([0], [("flip", 0, 0, 0, True), ("add_", 0, 0, 0, False)], 0),  # flip showed the memory of its input
    ([0, 7], [("sum", 0, 0, 0, True), ("copy_", 2, 1, 0, True)], 0),  # one axis more was taken for none
    ([0, 16], [("neg", 0, 0, 0, True), ("set", 2, 1, 209, True)], 0),  # the same into a single place: an error of NumPy's
    ([0], [("neg", 0, 0, 0, True), ("retain_grad", 1, 0, 0, True), ("add_", 1, 1, 0, True)], 0),  # of the value before
    ([0], [("neg", 0, 0, 0, True), ("add_", 1, 0, 0, False), ("mul", 0, 1, 0, True)], 3),  # made again without the change
    ([3], [("twice", 0, 0, 0, True), ("clamp_", 1, 0, 0, False), ("mul", 0, 1, 0, True)], 3),  # the same of a copy by index
    ([8], [("log_softmax", 0, 0, 0, True)], 3),  # along an axis of size 0
]


def programs(test):
    for leaves, steps, ending in FOUND:
        test = example(leaves=leaves, steps=steps, ending=ending)(test)
    return given(leaves=leaves_, steps=steps_, ending=st.integers(0, 3))(test)


@many
@programs
def test_a_program_has_the_gradients_that_finite_differences_find(leaves, steps, ending):
    Program(leaves, steps).end(ending)


@many
@programs
def test_a_program_does_what_it_does_in_pytorch(oracle, leaves, steps, ending):
    Program(leaves, steps, oracle).end(ending)
