"""The whole decoder against the same model written in plain PyTorch: logits, loss and every gradient."""

import numpy as np
import pytest

from tinygrad_tf import Tensor
from tinygrad_tf.models import Decoder, DecoderConfig

SMALL = {"vocab_size": 23, "block_size": 12, "n_layer": 3, "n_head": 4, "n_embd": 16, "init_std": 0.3}
GPT2 = {**SMALL, "norm": "layer", "ffn": "gelu_tanh", "positions": "learned", "bias": True}
MODERN = {**SMALL, "norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 2}
CONFIGS = {
    "gpt2": GPT2,
    "gpt2 untied": {**GPT2, "tied": False},
    "nanogpt": {**GPT2, "ffn": "gelu", "bias": False},
    "2017": {**GPT2, "norm_order": "post", "ffn": "relu"},
    "modern": MODERN,
    "modern untied": {**MODERN, "tied": False},
    "one kv head": {**MODERN, "n_kv_head": 1, "rope_base": 500.0, "qk_norm": False},
    "both sides": {**MODERN, "norm_order": "both", "ffn": "geglu", "bias": True},
    "scaled": {**MODERN, "layer_scale": 0.5, "ffn": "silu", "n_hidden": 10},
    "no positions": {**GPT2, "positions": "none", "ffn": "relu2", "layer_scale": 0.1},
}


def twin(torch, c, p, ids):
    """Logits of the decoder described by `c`, in plain PyTorch, from the parameters `p` by name."""
    F = torch.nn.functional
    d, heads, width = c.n_embd, c.n_head, c.n_embd // c.n_head
    kv_heads = c.n_kv_head or heads

    def linear(x, name):
        return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def norm(x, name):
        if c.norm == "rms":
            return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * p[f"{name}.weight"]
        return F.layer_norm(x, (d,), p[f"{name}.weight"], p.get(f"{name}.bias"), 1e-5)

    def turn(x):
        half = width // 2
        speeds = float(c.rope_base) ** (-torch.arange(half, dtype=torch.float64) * 2 / width)
        angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def split(x, n):
        return x.view(*x.shape[:2], n, width).transpose(1, 2)

    def attention(x, name):
        q, k, v = (
            split(linear(x, f"{name}.q_proj"), heads),
            split(linear(x, f"{name}.k_proj"), kv_heads),
            linear(x, f"{name}.v_proj"),
        )
        v = split(v, kv_heads)
        if c.qk_norm:
            q, k = (y / (y.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() for y in (q, k))
        if c.positions == "rotary":
            q, k = turn(q), turn(k)
        k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (k, v))
        t = x.shape[1]
        scores = (q @ k.mT / width**0.5).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape), f"{name}.out_proj")

    def feed_forward(x, name):
        up = linear(x, f"{name}.up")
        if c.ffn in ("swiglu", "geglu"):
            act = {"swiglu": F.silu, "geglu": F.gelu}[c.ffn]
            return linear(act(linear(x, f"{name}.gate")) * up, f"{name}.down")
        act = {"relu": F.relu, "relu2": lambda u: F.relu(u) ** 2, "silu": F.silu, "gelu": F.gelu,
               "gelu_tanh": lambda u: F.gelu(u, approximate="tanh")}[c.ffn]  # fmt: skip
        return linear(act(up), f"{name}.down")

    x = p["token_embedding.weight"][ids]
    if c.positions == "learned":
        x = x + p["position_embedding.weight"][: ids.shape[1]]
    for i in range(c.n_layer):
        for part, branch in (("attn", attention), ("ffn", feed_forward)):
            name = f"blocks.{i}.{part}"
            update = branch(x if c.norm_order == "post" else norm(x, f"{name}_norm"), name)
            if c.norm_order == "both":
                update = norm(update, f"{name}_after")
            if c.layer_scale is not None:
                update = update * p[f"{name}_scale.weight"]
            x = x + update
            if c.norm_order == "post":
                x = norm(x, f"{name}_norm")
    x = x if c.norm_order == "post" else norm(x, "norm")
    return x @ p["token_embedding.weight" if c.tied else "lm_head.weight"].T


def built(name, dtype):
    """The model with every parameter, gains and biases too, at random values."""
    model = Decoder(DecoderConfig(**CONFIGS[name]), np.random.default_rng(1)).to(dtype)
    generator = np.random.default_rng(2)
    for p in model.parameters():
        if p.ndim == 1:
            p.data = (p.array + generator.normal(0, 0.2, p.shape)).astype(dtype)
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_every_gradient(oracle, against, name, dtype):
    torch, model = oracle, built(name, dtype)
    ids = np.random.default_rng(3).integers(0, 23, (2, 12))
    targets = np.random.default_rng(4).integers(0, 23, (2, 12))
    p = {n: torch.from_numpy(q.array.copy()).requires_grad_() for n, q in model.named_parameters()}
    logits = twin(torch, model.config, p, torch.from_numpy(ids))
    loss = torch.nn.functional.cross_entropy(logits.view(-1, 23), torch.from_numpy(targets).view(-1))
    loss.backward()

    assert model.token_embedding.weight.dtype == dtype
    against.close(model(ids), logits, "logits")
    ours = model.loss(ids, targets)
    against.close(ours, loss, "loss")
    ours.backward()
    for n, q in model.named_parameters():
        against.close(q.grad, p[n].grad, f"gradient of {n}")


@pytest.mark.parametrize("name", ["gpt2", "modern"])
def test_the_comparison_notices_a_model_that_is_slightly_different(oracle, against, name):
    model = built(name, np.float64)
    ids = np.arange(12).reshape(1, 12)
    p = {n: oracle.from_numpy(q.array.copy()) for n, q in model.named_parameters()}
    p["blocks.1.ffn.up.weight"][0, 0] += 1e-6
    with pytest.raises(AssertionError, match="logits"):
        against.close(model(ids), twin(oracle, model.config, p, oracle.from_numpy(ids)), "logits")


def test_dropout_of_zero_and_evaluation_change_nothing(oracle, against):
    torch, model = oracle, built("gpt2", np.float64)
    ids = np.arange(12).reshape(1, 12)
    p = {n: torch.from_numpy(q.array) for n, q in model.named_parameters()}
    expected = twin(torch, model.config, p, torch.from_numpy(ids))
    dropping = Decoder(DecoderConfig(**{**GPT2, "dropout": 0.5})).double()
    dropping.load_state_dict(model.state_dict())
    against.close(dropping.eval()(ids), expected, "evaluation")
    assert not dropping.train()(ids).allclose(Tensor(expected.numpy()))
