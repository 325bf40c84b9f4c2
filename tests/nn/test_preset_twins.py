"""Every named model, at a size that runs in a blink, against the same model built from PyTorch's own modules.

GPT-2, BERT, the 2017 models and Whisper are torch.nn.TransformerEncoderLayer and torch.nn.TransformerDecoderLayer; the others
torch.nn.RMSNorm, torch.nn.LayerNorm and scaled_dot_product_attention. Logits, and the gradient of every parameter.
"""

import numpy as np
import pytest

from tinygrad_tf import Tensor
from tinygrad_tf.models import build
from tinygrad_tf.models.presets import MODELS, reduced

ATTENTION = {"in_proj_{}": "q_proj.{0} k_proj.{0} v_proj.{0}", "out_proj.{}": "out_proj.{0}"}
T, FRAMES = 9, 22
TIMES = 10  # rounding adds up over a whole model


def alike(*beginnings):
    """The names of the models that begin so, one of those that are the same at the reduced size."""
    chosen = {}
    for name, model in MODELS.items():
        if name.startswith(beginnings):
            chosen.setdefault(reduced(model.config), name)
    return list(chosen.values())


GPT2, BERT, PAIRS = alike("gpt2"), alike("bert"), alike("2017", "whisper")
ROTARY = alike("llama", "tinyllama", "mistral", "helium", "moshi", "mimi")


def built(name, dtype):
    """The reduced model with every parameter, gains and biases too, at random values."""
    model = build(reduced(MODELS[name].config, init_std=0.3, dropout=0.0), np.random.default_rng(1)).to(dtype)
    generator = np.random.default_rng(2)
    for p in model.parameters():
        if p.ndim == 1:
            p.data = (p.array + generator.normal(0, 0.2, p.shape)).astype(dtype)
    return model


def ids(seed, *shape):
    return np.random.default_rng(seed).integers(0, 29, shape)


class Weights:
    """The parameters of ours, in PyTorch: theirs by our names, and layers of theirs filled with them."""

    def __init__(self, torch, model, dtype):
        self.torch, self.dtype = torch, getattr(torch, str(dtype))
        self.ours = dict(model.named_parameters())
        self.theirs = {n: torch.from_numpy(p.array.copy()).requires_grad_() for n, p in self.ours.items()}

    def __getitem__(self, name):
        return self.theirs[name]

    def get(self, name):
        return self.theirs.get(name)

    def call(self, module, at, x, cross=False, **options):
        """A layer of theirs on x, with our weights under the names of its own parameters; gradients go to `theirs`."""
        names = {}
        for kind in ("weight", "bias"):
            for sub, ours in [("self_attn", "attn"), *([("multihead_attn", "cross")] if cross else [])]:
                for theirs, group in ATTENTION.items():
                    names[f"{sub}.{theirs.format(kind)}"] = [f"{ours}.{n}" for n in group.format(kind).split()]
            norms = ["attn_norm", *(["cross_norm"] if cross else []), "ffn_norm"]
            names |= {f"norm{i + 1}.{kind}": [f"{n}.{kind}"] for i, n in enumerate(norms)}
            names |= {f"linear1.{kind}": [f"ffn.up.{kind}"], f"linear2.{kind}": [f"ffn.down.{kind}"]}
        width = self.theirs[f"{at}attn.q_proj.weight"].shape[0]
        zeros = self.torch.zeros(width, dtype=self.dtype)  # Whisper's keys have no bias
        have = lambda name: zeros if self.get(at + name) is None else self[at + name]
        given = {name: self.torch.cat([have(ours) for ours in group]) for name, group in names.items()}
        return self.torch.func.functional_call(module, given, (x,) if "memory" not in options else (x, options.pop("memory")),
                                               options)  # fmt: skip

    def norm(self, x, at, eps=1e-5):
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:], self[f"{at}.weight"], self.get(f"{at}.bias"), eps)

    def compare(self, against):
        for name, p in self.ours.items():
            grad = self.theirs[name].grad
            grad = self.torch.zeros_like(self.theirs[name]) if grad is None else grad
            zero = name.endswith("k_proj.bias")  # but for rounding: it adds one number to all scores of a query
            against.close(p.grad, grad, f"gradient of {name}", 100 * TIMES if zero else TIMES)


def layer(torch, c, dtype, kind="TransformerEncoderLayer"):
    activation = {"gelu": "gelu", "relu": "relu", "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh")}[c.ffn]
    return getattr(torch.nn, kind)(c.n_embd, c.n_head, c.hidden, 0.0, activation, c.norm_eps or 1e-5, batch_first=True,
                                   norm_first=c.norm_order == "pre", dtype=getattr(torch, str(dtype)))  # fmt: skip


def agree(against, weights, ours, theirs):
    against.close(ours, theirs, "logits", TIMES)
    g = np.random.default_rng(9).standard_normal(ours.shape).astype(ours.dtype)
    ours.backward(g)
    theirs.backward(weights.torch.from_numpy(g))
    weights.compare(against)


def sines(torch, dtype, n, d, halves):
    places, pairs = torch.arange(n, dtype=torch.float64), d // 2
    steps = 10000.0 ** -(torch.arange(pairs, dtype=torch.float64) / (pairs - 1 if halves else pairs))
    angles = places[:, None] * steps
    waves = torch.cat([angles.sin(), angles.cos()], 1) if halves else torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
    return waves.to(getattr(torch, str(dtype)))


@pytest.mark.parametrize("name", GPT2)
def test_S28_gpt2(oracle, against, dtype, name):
    torch, model = oracle, built(name, dtype)
    w, c, tokens = Weights(torch, model, dtype), model.config, ids(3, 2, T)
    x = w["token_embedding.weight"][tokens] + w["position_embedding.weight"][:T]
    later = torch.ones(T, T).triu(1).bool()
    for i in range(c.n_layer):
        x = w.call(layer(torch, c, dtype), f"blocks.{i}.", x, src_mask=later)
    agree(against, w, model(tokens), w.norm(x, "norm") @ w["token_embedding.weight"].T)


@pytest.mark.parametrize("name", BERT)
@pytest.mark.parametrize("pooled", [False, True])
def test_S27_bert(oracle, against, dtype, name, pooled):
    torch, model = oracle, built(name, dtype)
    w, c, tokens, segments = Weights(torch, model, dtype), model.config, ids(3, 2, T), ids(4, 2, T) % 2
    mask = np.arange(T) < np.array([[5], [T]])
    x = w["token_embedding.weight"][tokens] + w["position_embedding.weight"][:T] + w["segment_embedding.weight"][segments]
    x = w.norm(x, "embedding_norm", 1e-12)
    for i in range(c.n_layer):
        x = w.call(layer(torch, c, dtype), f"blocks.{i}.", x, src_key_padding_mask=torch.from_numpy(~mask))
    if pooled:
        theirs = (x[:, 0] @ w["pooler.weight"].T + w["pooler.bias"]).tanh()
        ours = model.pooled(tokens, mask, segments)
    else:
        theirs, ours = x @ w["token_embedding.weight"].T, model(tokens, mask, segments)
        model.pooler.weight.grad = Tensor(np.zeros_like(model.pooler.weight.array))
        model.pooler.bias.grad = Tensor(np.zeros_like(model.pooler.bias.array))
    agree(against, w, ours, theirs)


@pytest.mark.parametrize("name", PAIRS)
def test_S29_encoder_decoder(oracle, against, dtype, name):
    torch, model = oracle, built(name, dtype)
    w, c, tokens = Weights(torch, model, dtype), model.config, ids(3, 2, T)
    table = w["decoder.token_embedding.weight" if c.n_mels else "encoder.token_embedding.weight"]
    hidden = None
    if c.n_mels:
        sound = np.random.default_rng(5).standard_normal((2, c.n_mels, FRAMES)).astype(dtype)
        conv, gelu = torch.nn.functional.conv1d, torch.nn.functional.gelu
        x = gelu(conv(torch.from_numpy(sound), w["encoder.front.conv1.weight"], w["encoder.front.conv1.bias"], padding=1))
        x = gelu(conv(x, w["encoder.front.conv2.weight"], w["encoder.front.conv2.bias"], stride=2, padding=1)).mT
        x = x + sines(torch, dtype, FRAMES // 2, c.n_embd, True)
        y = table[tokens] + w["decoder.position_embedding.weight"][:T]
        ours = model(sound, tokens)
    else:
        source, mask = ids(6, 2, 7), np.arange(7) < np.array([[7], [4]])
        hidden = torch.from_numpy(~mask)
        x = table[source] * c.n_embd**0.5 + sines(torch, dtype, 7, c.n_embd, False)
        y = table[tokens] * c.n_embd**0.5 + sines(torch, dtype, T, c.n_embd, False)
        ours = model(source, tokens, mask)
    for i in range(c.n_layer):
        x = w.call(layer(torch, c, dtype), f"encoder.blocks.{i}.", x, src_key_padding_mask=hidden)
    memory = w.norm(x, "encoder.norm") if c.n_mels else x
    later = torch.ones(T, T).triu(1).bool()
    for i in range(c.n_layer):
        theirs = layer(torch, c, dtype, "TransformerDecoderLayer")
        y = w.call(theirs, f"decoder.blocks.{i}.", y, cross=True, memory=memory, tgt_mask=later, memory_key_padding_mask=hidden)
    y = w.norm(y, "decoder.norm") if c.n_mels else y
    agree(against, w, ours, y @ table.T)


def rotated(torch, x, c):
    """Pairs as complex numbers, turned."""
    speeds = float(c.rope_base) ** -(torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
    if c.rope_scaling == "llama3":
        wave = 2 * torch.pi / speeds
        smooth = ((c.rope_original / wave - 1) / 3).clamp(0, 1)
        speeds = speeds * (smooth + (1 - smooth) / c.rope_factor)
    angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speeds
    turn = torch.polar(torch.ones_like(angles), angles)
    pairs = x.double().unflatten(-1, (-1, 2)) if c.rope_interleaved else x.double().unflatten(-1, (2, -1)).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return (turned.flatten(-2) if c.rope_interleaved else turned.mT.flatten(-2)).to(x.dtype)


@pytest.mark.parametrize("name", ROTARY)
def test_S28_S30_rotary_models(oracle, against, dtype, name):
    torch, model = oracle, built(name, dtype)
    w, c, F = Weights(torch, model, dtype), model.config, torch.nn.functional
    rows = torch.arange(T)[:, None] - torch.arange(T)
    near = (rows >= 0) & (rows < (c.window or T))

    def norm(x, at):
        if c.norm == "rms":
            return F.rms_norm(x, x.shape[-1:], w[f"{at}.weight"], c.norm_eps)
        return F.layer_norm(x, x.shape[-1:], w[f"{at}.weight"], w[f"{at}.bias"], 1e-5)

    def attention(x, at):
        split = lambda part, n: (x @ w[f"{at}.{part}_proj.weight"].T).unflatten(-1, (n, -1)).transpose(1, 2)
        q, k, v = split("q", c.n_head), split("k", c.n_kv_head or c.n_head), split("v", c.n_kv_head or c.n_head)
        q, k = rotated(torch, q, c), rotated(torch, k, c)
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=near, enable_gqa=True)
        return read.transpose(1, 2).flatten(2) @ w[f"{at}.out_proj.weight"].T

    def feed_forward(x, at):
        up = x @ w[f"{at}.up.weight"].T
        hidden = F.silu(x @ w[f"{at}.gate.weight"].T) * up if c.ffn == "swiglu" else F.gelu(up)
        return hidden @ w[f"{at}.down.weight"].T

    given = np.random.default_rng(5).standard_normal((2, T, c.n_embd)).astype(dtype)
    tokens = ids(3, 2, T)
    x = torch.from_numpy(given) if c.arrangement == "stack" else w["token_embedding.weight"][tokens]
    for i in range(c.n_layer):
        for part, branch in (("attn", attention), ("ffn", feed_forward)):
            update = branch(norm(x, f"blocks.{i}.{part}_norm"), f"blocks.{i}.{part}")
            x = x + (update if c.layer_scale is None else update * w[f"blocks.{i}.{part}_scale.weight"])
    if c.arrangement == "stack":
        return agree(against, w, model(Tensor(given), causal=True), x)
    return agree(against, w, model(tokens), norm(x, "norm") @ w["token_embedding.weight" if c.tied else "lm_head.weight"].T)


def test_every_named_model_is_compared():
    compared = {reduced(MODELS[name].config) for name in (*GPT2, *BERT, *PAIRS, *ROTARY)}
    assert {reduced(model.config) for model in MODELS.values()} == compared
