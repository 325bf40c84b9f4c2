"""Threads: models side by side compute what each computes alone; the threads of NumPy's products change last digits only.

tests/engine/test_threads.py has the threads of this package itself, tests/engine/test_modes.py the modes of each thread.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from tinygrad_tf import is_grad_enabled, nn, no_grad, optim
from tinygrad_tf.models import Decoder, DecoderConfig

ROOT = Path(__file__).parents[2]


def trained(seed, meet=lambda: None, steps=12):
    """The losses of some steps, and the bytes of all parameters after them."""
    generator = np.random.default_rng(seed)
    model = Decoder(DecoderConfig(11, 8, 2, 2, n_embd=16 + 4 * seed, dropout=0.2), generator)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.generator = generator
    optimizer, losses = optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        meet()  # both are in the middle of a step
        ids = generator.integers(0, 11, (4, 9))
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [p.array.tobytes() for p in model.parameters()]


def test_two_models_in_two_threads_are_those_of_one_after_the_other():
    """Bit for bit, while a third thread computes without gradients."""
    alone = [trained(0), trained(1)]
    both, found, over, modes = threading.Barrier(2, timeout=60), {}, threading.Event(), set()

    def without():
        with no_grad():
            model = Decoder(DecoderConfig(11, 8, 1, 2, n_embd=16), np.random.default_rng(2)).eval()
            while not over.is_set():
                modes.add((is_grad_enabled(), model(np.array([[1, 2, 3]])).requires_grad))

    def work(seed):
        found[seed] = trained(seed, both.wait)
        modes.add((is_grad_enabled(), True))

    third = threading.Thread(target=without)
    workers = [threading.Thread(target=work, args=(seed,)) for seed in (0, 1)]
    for thread in (third, *workers):
        thread.start()
    for thread in workers:
        thread.join(120)
    over.set()
    third.join(60)
    assert [found[0], found[1]] == alone
    assert modes == {(False, False), (True, True)}


STEPS = """
import json, sys
import numpy as np
from tinygrad_tf import optim
from tinygrad_tf.models import Decoder, DecoderConfig
model = Decoder(DecoderConfig(50, 64, 1, 4, n_embd=128), np.random.default_rng(0))
optimizer, losses = optim.SGD(model.parameters(), lr=0.1), []
for step in range(2):
    ids = np.random.default_rng(step).integers(0, 50, (4, 65))
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
json.dump([losses, *(p.array.ravel().tolist() for p in model.parameters())], sys.stdout)
"""


def test_the_threads_of_products_change_last_digits_only():
    def run(threads):
        counts = {f"{name}_NUM_THREADS": threads for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}
        env = {**os.environ, **counts, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", STEPS], env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout

    one, again, two = run("1"), run("1"), run("2")
    assert one == again  # every bit: JSON has all digits
    for a, b in zip(json.loads(one), json.loads(two), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
