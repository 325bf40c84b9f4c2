"""Twins of the public models in plain PyTorch, whose parameters have the public names; and folders written in that layout."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

GPT2 = {"model_type": "gpt2", "vocab_size": 61, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}  # fmt: skip
BERT = {"model_type": "bert", "vocab_size": 61, "max_position_embeddings": 24, "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 48, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "type_vocab_size": 2}  # fmt: skip
LLAMA = {"model_type": "llama", "vocab_size": 61, "max_position_embeddings": 24, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "hidden_act": "silu",
         "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": False}  # fmt: skip


def make_twins(torch):
    nn, F = torch.nn, torch.nn.functional

    def attend(q, k, v, heads, mask=None, causal=False):
        """(B, T, d) -> (B, T, d); keys and values may have fewer heads."""
        width = q.shape[-1] // heads
        q, k, v = (x.view(*x.shape[:2], -1, width).transpose(1, 2) for x in (q, k, v))
        k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return y.transpose(1, 2).flatten(2)

    class Group(nn.Module):
        """Modules under names."""

        def __init__(self, /, **parts):  # one of the names is self
            super().__init__()
            for name, part in parts.items():
                self.add_module(name, part)

    class Conv1D(nn.Module):
        """A linear layer whose matrix is (in, out)."""

        def __init__(self, n_in, n_out):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(n_in, n_out) * 0.2), nn.Parameter(torch.randn(n_out) * 0.2)

        def forward(self, x):
            return x @ self.weight + self.bias

    class GPT2Twin(nn.Module):
        def __init__(self, c):
            super().__init__()
            d, self.heads = c["n_embd"], c["n_head"]
            norm = lambda: nn.LayerNorm(d, c["layer_norm_epsilon"])
            self.transformer = Group(
                wte=nn.Embedding(c["vocab_size"], d), wpe=nn.Embedding(c["n_positions"], d),
                h=nn.ModuleList(Group(ln_1=norm(), attn=Group(c_attn=Conv1D(d, 3 * d), c_proj=Conv1D(d, d)), ln_2=norm(),
                                      mlp=Group(c_fc=Conv1D(d, 4 * d), c_proj=Conv1D(4 * d, d))) for _ in range(c["n_layer"])),
                ln_f=norm())  # fmt: skip
            self.lm_head = nn.Linear(d, c["vocab_size"], bias=False)
            if c.get("tie_word_embeddings", True):
                self.lm_head.weight = self.transformer.wte.weight

        def forward(self, ids):
            t = self.transformer
            x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1]))
            for b in t.h:
                x = x + b.attn.c_proj(attend(*b.attn.c_attn(b.ln_1(x)).chunk(3, -1), self.heads, causal=True))
                x = x + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(x)), approximate="tanh"))
            return self.lm_head(t.ln_f(x))

    class BertTwin(nn.Module):
        def __init__(self, c):
            super().__init__()
            d, f, self.heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
            norm = lambda: nn.LayerNorm(d, c["layer_norm_eps"])
            self.embeddings = Group(
                word_embeddings=nn.Embedding(c["vocab_size"], d), token_type_embeddings=nn.Embedding(c["type_vocab_size"], d),
                position_embeddings=nn.Embedding(c["max_position_embeddings"], d), LayerNorm=norm())  # fmt: skip
            self.encoder = Group(layer=nn.ModuleList(
                Group(attention=Group(self=Group(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)),
                                      output=Group(dense=nn.Linear(d, d), LayerNorm=norm())),
                      intermediate=Group(dense=nn.Linear(d, f)), output=Group(dense=nn.Linear(f, d), LayerNorm=norm()))
                for _ in range(c["num_hidden_layers"])))  # fmt: skip
            self.pooler = Group(dense=nn.Linear(d, d))

        def forward(self, ids, mask=None, segments=None):
            e = self.embeddings
            segments = torch.zeros_like(ids) if segments is None else segments
            x = e.word_embeddings(ids) + e.position_embeddings(torch.arange(ids.shape[1])) + e.token_type_embeddings(segments)
            x = e.LayerNorm(x)
            mask = None if mask is None else mask[:, None, None, :]
            for b in self.encoder.layer:
                a = b.attention
                y = attend(a.self.query(x), a.self.key(x), a.self.value(x), self.heads, mask)
                x = a.output.LayerNorm(x + a.output.dense(y))
                x = b.output.LayerNorm(x + b.output.dense(F.gelu(b.intermediate.dense(x))))
            return x, torch.tanh(self.pooler.dense(x[:, 0]))

    class LlamaTwin(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.c, d, f, heads = c, c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
            kv = d // heads * c["num_key_value_heads"]
            linear = lambda n_in, n_out: nn.Linear(n_in, n_out, bias=False)
            norm = lambda: nn.RMSNorm(d, c["rms_norm_eps"])
            self.model = Group(
                embed_tokens=nn.Embedding(c["vocab_size"], d),
                layers=nn.ModuleList(
                    Group(input_layernorm=norm(), post_attention_layernorm=norm(),
                          self_attn=Group(q_proj=linear(d, d), k_proj=linear(d, kv), v_proj=linear(d, kv), o_proj=linear(d, d)),
                          mlp=Group(gate_proj=linear(d, f), up_proj=linear(d, f), down_proj=linear(f, d)))
                    for _ in range(c["num_hidden_layers"])),
                norm=norm())  # fmt: skip
            self.lm_head = linear(d, c["vocab_size"])
            if c["tie_word_embeddings"]:
                self.lm_head.weight = self.model.embed_tokens.weight

        def speeds(self, width):
            """Radians per position, slowed down as rope_scaling says (Meta's own program, written out)."""
            c = self.c
            scaling = c.get("rope_scaling") or {}
            speeds = c["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
            if scaling.get("rope_type") == "linear":
                return speeds / scaling["factor"]
            if scaling.get("rope_type") != "llama3":
                return speeds
            slowed, low, high = [], scaling["low_freq_factor"], scaling["high_freq_factor"]
            for speed in speeds.tolist():
                wave = 2 * np.pi / speed
                original = scaling["original_max_position_embeddings"]
                share = (original / wave - low) / (high - low)
                slow = speed / scaling["factor"]
                mixed = (1 - share) * slow + share * speed
                slowed.append(speed if wave < original / high else slow if wave > original / low else mixed)
            return torch.tensor(slowed, dtype=torch.float64)

        def turn(self, x, width):
            """The pairs are (x_i, x_{i + width/2}) of each head."""
            angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * self.speeds(width)
            cos, sin = (w.to(x.dtype)[:, None] for w in (angles.cos(), angles.sin()))
            a, b = x.view(*x.shape[:2], -1, width).chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).flatten(2)

        def forward(self, ids):
            heads = self.c["num_attention_heads"]
            width = self.c["hidden_size"] // heads
            x = self.model.embed_tokens(ids)
            for b in self.model.layers:
                y, a, m = b.input_layernorm(x), b.self_attn, b.mlp
                q, k = self.turn(a.q_proj(y), width), self.turn(a.k_proj(y), width)
                x = x + a.o_proj(attend(q, k, a.v_proj(y), heads, causal=True))
                y = b.post_attention_layernorm(x)
                x = x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))
            return self.lm_head(self.model.norm(x))

    return {"gpt2": GPT2Twin, "bert": BertTwin, "llama": LlamaTwin}


def write(folder, tensors, config, name="model.safetensors"):
    """A folder with these arrays and this config.json."""
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    save_file({key: np.ascontiguousarray(array) for key, array in tensors.items()}, folder / name)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture
def public():
    """The small configurations in the public words, and `write`."""
    return SimpleNamespace(gpt2=GPT2, bert=BERT, llama=LLAMA, write=write)


@pytest.fixture
def twin_of(oracle):
    """Make a twin as PyTorch starts it."""
    return lambda config: make_twins(oracle)[config["model_type"]](config).eval()


@pytest.fixture
def twin(oracle):
    """Make a twin with random numbers, none of them at a value that would hide a mistake; `arrays` of it by public name."""

    def make(config):
        oracle.manual_seed(0)
        model = make_twins(oracle)[config["model_type"]](config).eval()
        with oracle.no_grad():
            for parameter in model.parameters():
                parameter.add_(oracle.randn_like(parameter) * 0.2)
            for module in model.modules():  # where the stream is mostly the token itself, a tied head says that token again
                if isinstance(module, oracle.nn.Embedding):
                    module.weight.mul_(0.1)
        return model.requires_grad_(False)

    return make


@pytest.fixture
def arrays():
    """The arrays of a twin by public name; a tied head only if `tied` asks for it."""

    def of(model, tied=False):
        shown, seen = {}, set()
        for name, tensor in model.state_dict().items():
            if tied or tensor.data_ptr() not in seen:
                shown[name] = tensor.numpy()
            seen.add(tensor.data_ptr())
        return shown

    return of
