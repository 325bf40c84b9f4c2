"""`tinygrad-tf train --init-from`: a model that has learned something goes on, on another text."""

import json
import signal
from importlib.util import find_spec

import numpy as np
import pytest
from safetensors.numpy import save_file

from tinygrad_tf import checkpoint
from tinygrad_tf.generate import generate
from tinygrad_tf.models import Decoder, build
from tinygrad_tf.models.presets import MODELS, reduced
from tinygrad_tf.pretrained import export, load_pretrained, load_tokenizer
from tinygrad_tf.report import Progress
from tinygrad_tf.run import Run, load_model
from tinygrad_tf.runfolder import CHECKPOINT
from tinygrad_tf.train import resume, train
from tinygrad_tf.writing import write

needs_tokenizers = pytest.mark.skipif(
    find_spec("tokenizers") is None,
    reason="not trained with a tokenizer (tokenizers is not installed: pip install -e '.[pretrained]')",
)
OTHER = "the dog sat on the mat; the cat sat on the dog.\n" * 20
AGAIN = ["--block-size", 8, "--batch-size", 4, "--eval-every", 0, "--eval-batches", 2, "--sample-tokens", 8, "--lr", "3e-3"]


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.txt"
    path.write_text(OTHER, encoding="utf-8", newline="")
    return path


@pytest.fixture
def public(tmp_path):
    """A small GPT-2 with a tokenizer of its own, in a folder; only some pairs are in it, and all bytes."""
    import tokenizers

    from tinygrad_tf.pretrained import Tokenizer

    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator([OTHER], tokenizers.trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet,
                                                                      show_progress=False))  # fmt: skip
    model = Decoder(reduced(MODELS["gpt2"].config, vocab_size=280), np.random.default_rng(0))
    export(model, tmp_path / "gpt2", "gpt2", Tokenizer(inner))
    return tmp_path / "gpt2"


def test_a_run_goes_on_with_another_text(inside, options, other, tmp_path):
    assert inside("train", *options, "--run", "first", "--steps", 30).returncode == 0
    first, words = load_model(tmp_path / "first")
    still = ["--steps", 1, "--lr", 0, "--muon-lr", 0]
    done = inside("train", *AGAIN, "--init-from", "first", "--text", other, "--run", "second", *still)
    assert done.returncode == 0, done.stderr
    run = Run.load(tmp_path / "second" / CHECKPOINT)
    for (name, p), q in zip(first.named_parameters(), run.model.parameters()):
        assert np.array_equal(p.array, q.array), name  # a step of length 0 away
    assert run.vocabulary == words and run.step == 1
    assert run.model.config.dropout == 0 and first.config.dropout == 0.2  # of each training its own
    said = json.loads((tmp_path / "second" / "config.json").read_text())
    assert said["init_from"] == str(tmp_path / "first") and said["n_embd"] == 16 and said["n_layer"] == 1
    assert inside("sample", "second", "--tokens", 5).returncode == 0


class StopAfter(Progress):
    """Presses Ctrl-C during a step."""

    def __init__(self, step):
        super().__init__()
        self.at = step

    def step(self, step, metrics):
        super().step(step, metrics)
        if step == self.at:
            signal.raise_signal(signal.SIGINT)


def test_stopped_and_resumed_without_its_source_it_is_the_straight_run(small, other, tmp_path, no_pictures):
    train(small(steps=3), tmp_path / "first", Progress())
    config = small(text=str(other), init_from=str(tmp_path / "first"), dropout=0.3)
    train(config, tmp_path / "straight", Progress())
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "stopped", StopAfter(4))
    (tmp_path / "first" / CHECKPOINT).unlink()
    resume(tmp_path / "stopped", Progress())
    assert (tmp_path / "straight" / CHECKPOINT).read_bytes() == (tmp_path / "stopped" / CHECKPOINT).read_bytes()


@needs_tokenizers
def test_a_public_checkpoint_learns_and_writes(inside, public, other, tmp_path):
    before = (public / "model.safetensors").read_bytes()
    done = inside("train", *AGAIN, "--init-from", public, "--text", other, "--run", "tuned", "--steps", 80,
                  "--optimizer", "adamw", "--progress", "plain")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "270 different tokens" in done.stderr + done.stdout and "nats per token" in done.stderr + done.stdout
    run = Run.load(tmp_path / "tuned" / CHECKPOINT)
    assert run.history[-1]["final_val_loss"] < 0.5 * run.history[0]["loss"]
    assert run.model.config.block_size == 16 and run.config.block_size == 8 and run.model.config.vocab_size == 280
    assert (public / "model.safetensors").read_bytes() == before
    told = inside("sample", "tuned", "--prompt", "the dog", "--temperature", 0, "--tokens", 12)
    assert told.returncode == 0 and told.stdout.startswith("the dog") and " the " in told.stdout
    assert inside("train", "--resume", "tuned", "--steps", 82).returncode == 0
    export(load_model(tmp_path / "tuned")[0], tmp_path / "out", "gpt2", run.vocabulary)
    assert inside("train", *AGAIN, "--init-from", "out", "--text", other, "--run", "again", "--steps", 1).returncode == 0


@needs_tokenizers
def test_a_text_ends_where_the_checkpoint_says(inside, public, other, tmp_path):
    """At its eos_token_id: with `sample`, with `write`, and after a way through a run and an export."""
    model, tokenizer = load_pretrained(public), load_tokenizer(public)
    prompt = tokenizer.encode("the dog")
    drawn = lambda: {"temperature": 1.0, "generator": np.random.default_rng(0)}
    free = list(generate(model, prompt, 12, **drawn()))
    end = next(token for token in free[2:] if token not in free[:2])  # something that it writes, not at once
    config = json.loads((public / "config.json").read_text())
    (public / "config.json").write_text(json.dumps({**config, "eos_token_id": end}))
    tokenizer = load_tokenizer(public)
    expected = free[: free.index(end) + 1]
    assert list(generate(model, prompt, 12, stop=tokenizer.ends, **drawn())) == expected
    assert write(model, tokenizer, ["the dog"], 12, **drawn()) == [tokenizer.decode(expected)]
    assert write(model, tokenizer, ["the dog"], 12, stop=(), **drawn()) == [tokenizer.decode(free)]

    still = ["--steps", 1, "--lr", 0, "--muon-lr", 0, "--min-lr", 0, "--clip", 0]
    assert inside("train", *AGAIN[:-2], "--init-from", public, "--text", other, "--run", "tuned", *still).returncode == 0
    told = inside("sample", "tuned", "--prompt", "the dog", "--temperature", 1, "--tokens", 12)
    assert told.stdout == "the dog" + tokenizer.decode(expected) + "\n"
    export(load_model(tmp_path / "tuned")[0], tmp_path / "out", "gpt2", load_model(tmp_path / "tuned")[1])
    assert load_tokenizer(tmp_path / "out").ends == (end,)


def one_line(done):
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    return done.stderr


def test_what_cannot_go_on(inside, options, other, tmp_path):
    assert inside("train", *options, "--run", "first", "--steps", 1).returncode == 0
    start = ["train", "--text", other, "--run", "second", "--init-from"]
    assert "nowhere is not there" in one_line(inside(*start, "nowhere"))
    (tmp_path / "README.md").write_text("# A page of words\n")
    save_file({"w": np.zeros(2)}, tmp_path / "model.safetensors")
    for name, what in [("README.md", "no checkpoint"),
                       ("model.safetensors", "a safetensors file, but no checkpoint of tinygrad-tf")]:  # fmt: skip
        steps = "name the folder of a run, such as runs/tiny-1, or of weights"
        assert one_line(inside(*start, name)) == f"error: --init-from: {tmp_path / name} is {what}; {steps}\n"
        assert one_line(inside("sample", name)) == f"error: {name} is {what}; {steps.partition(', or')[0]}\n"
    assert "holds no checkpoint.safetensors of a run, no config.json of a public" in one_line(inside(*start, tmp_path))
    assert "leave out --n-layer, --bias" in one_line(inside(*start, "first", "--n-layer", 1, "--bias"))
    assert "--block-size 96 is more than the context of first, 8 characters" in one_line(inside(*start, "first"))
    other.write_text("Émile " * 100, encoding="utf-8")
    told = one_line(inside(*start, "first", "--block-size", 8))
    assert "has characters that" in told and '"É" (U+00C9)' in told and "or train a new model" in told
    assert "leave them out, go on from a model with a tokenizer, such as gpt2" in told
    assert "--init-from cannot change" in one_line(inside("train", "--resume", "first", "--init-from", "first"))
    assert "must be a run or a folder" in one_line(inside(*start, ""))
    assert not (tmp_path / "second").exists()


@needs_tokenizers
def test_public_folders_that_cannot_be_trained(inside, public, other, tmp_path):
    start = ["train", *AGAIN, "--text", other, "--run", "second", "--init-from"]
    config = json.loads((public / "config.json").read_text())
    (public / "config.json").write_text(json.dumps({**config, "vocab_size": 279}))
    assert "wte.weight has shape (280, 32), by config.json it is (279, 32)" in one_line(inside(*start, public))
    (public / "config.json").write_text(json.dumps(config))
    (public / "tokenizer.json").unlink()
    assert "holds no tokenizer" in one_line(inside(*start, public))
    export(build(reduced(MODELS["bert-base"].config)), tmp_path / "bert", "bert")
    assert "holds an encoder" in one_line(inside(*start, "bert"))
    export(Decoder(reduced(MODELS["gpt2"].config)), tmp_path / "few", "gpt2")
    (tmp_path / "few" / "tokenizer.json").write_text(saved_tokenizer())
    assert "its tokenizer has 40 entries, its model 29" in one_line(inside(*start, "few"))


def saved_tokenizer():
    import tokenizers

    words = {f"w{i}": i for i in range(40)}
    return tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0")).to_str()


def test_a_checkpoint_whose_model_has_fewer_tokens_than_its_vocabulary(inside, options, other, tmp_path):
    assert inside("train", *options, "--run", "first", "--steps", 1).returncode == 0
    assert inside("train", *AGAIN, "--init-from", "first", "--text", other, "--run", "second", "--steps", 1).returncode == 0
    path = tmp_path / "second" / CHECKPOINT
    tensors, state = checkpoint.load(path)
    for changes, message in [({"vocab_size": 3}, "its model 3"), ({"n_layer": 10**6}, "describes a model of more than"),
                             ({"arrangement": "encoder"}, "is no decoder"), ({"width": 3}, "width")]:  # fmt: skip
        checkpoint.save(path, tensors, {**state, "decoder": {**state["decoder"], **changes}})
        assert message in one_line(inside("sample", "second"))
    del state["decoder"]
    checkpoint.save(path, tensors, state)
    assert "decoder" in one_line(inside("sample", "second"))
