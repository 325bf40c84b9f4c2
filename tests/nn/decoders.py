"""Small decoders of several kinds, for tests."""

SMALL = {"vocab_size": 23, "block_size": 12, "n_layer": 2, "n_head": 4, "n_embd": 16, "init_std": 0.3}
CONFIGS = {
    "gpt2": {**SMALL, "ffn": "gelu_tanh", "bias": True},
    "post": {**SMALL, "norm_order": "post", "tied": False},
    "modern": {**SMALL, "norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 2},
    "both": {**SMALL, "norm": "rms", "norm_order": "both", "ffn": "geglu", "positions": "rotary", "layer_scale": 0.2},
}
