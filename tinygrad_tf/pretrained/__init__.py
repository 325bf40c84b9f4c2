"""Public checkpoints: their weights, their tokenizers, and a folder in their names for other programs.

With a folder "gpt2" that holds the public config.json, model.safetensors and tokenizer.json:

    model, tokenizer = load_pretrained("gpt2"), load_tokenizer("gpt2")
    print(tokenizer.decode(list(generate(model, tokenizer.encode("The sea was"), 20, temperature=0, stop=tokenizer.ends))))
"""

from .exporting import export
from .loading import load_pretrained
from .sentences import embed
from .tokenizer import Tokenizer, load_tokenizer
from .weightfiles import PretrainedError

__all__ = ["PretrainedError", "Tokenizer", "embed", "export", "load_pretrained", "load_tokenizer"]
