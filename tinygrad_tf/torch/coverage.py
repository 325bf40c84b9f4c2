"""COVERAGE.md: every name of PyTorch that educational transformer code uses, what it takes here, and where it differs.

    python -m tinygrad_tf.torch.coverage      writes the page anew

surface.txt lists the names, one a line: `tier; name; keywords seen`. Tier A is used by five or more of 32 public programs, B by
two to four, E by one; C are names that programs of other courses use.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import tinygrad_tf.torch as torch
from tinygrad_tf import Tensor
from tinygrad_tf.optim import Optimizer

FOLDER = Path(__file__).parent
TIERS = {"A": "Used by five or more programs", "B": "Used by two to four programs", "E": "Used by one program, or expected",
         "C": "Used by programs of other kinds in courses"}
BEFORE = ("self", "cls", "input", "args", "kwargs", "settings", "x", "a", "b", "shape", "sizes", "index")  # said by position

GENERAL = """
- Numbers live in NumPy arrays on the CPU. A device other than the CPU is a RuntimeError, never the CPU in silence.
- dtypes: float32, float64, float16, int8 to int64, uint8, bool. bfloat16 exists in name; there are no complex numbers.
- Errors come where PyTorch has them: for shapes that do not fit a ValueError, for dtypes a TypeError, both RuntimeErrors there.
- An array or a list may stand where a tensor does: its numbers take the dtype that the tensors have, so a float64 array
  beside float32 tensors is taken as float32. PyTorch raises, or goes on in NumPy's dtype without a gradient. Ids in an array
  may be any integers.
- Booleans count as 0 and 1 in `abs`, `relu`, `floor`, `argmax` and `@`, where PyTorch raises.
- `x.requires_grad = True` on a tensor of integers is refused at backward, `requires_grad_()` at once.
- Random streams are NumPy's: a seed gives the same numbers again, but not PyTorch's.
- A shape is a tuple, a dtype is NumPy's, and so they print: (2, 3), float32. `x.size()` is `x.shape`; for `x.shape.numel()`
  take `x.numel()`, for that of a part of it `math.prod(x.shape[1:])`.
- `optimizer.state` is there to be looked at, and moments to be changed in place; an optimizer with a `step()` of its own keeps
  there what it likes.
- A tensor prints as in PyTorch, but for the names in dtype=float64 and grad_fn=<mul>.
- A module may leave out `super().__init__()`.
- An integer that a dtype cannot hold is an OverflowError; PyTorch wraps it around.
- A tensor, or a view of it, is changed in place while gradients are recorded unless another view of the same memory is still in
  use: that is a RuntimeError, where PyTorch follows them all. Outside the graph (`no_grad`, `.data`) it always may be changed.
- A value that backward still needs and that was changed in place is a RuntimeError that names both lines.
- A list of modules or parameters as a plain attribute, which no optimizer would see, is a TypeError: use ModuleList.
- Backward hooks of modules, modules as objects in a file, views of another dtype, sparse and quantized tensors and the
  compiler are not here. Names that are out of scope say so when they are asked for, with the supported way.
""".strip()

DIFFERENCES = {
    "torch.empty": "zeros: leftovers in memory would let a mistake look like a number",
    "torch.Generator": "NumPy's stream",
    "torch.manual_seed": "NumPy's stream",
    "torch.compile": "returns its argument",
    "torch.load": "runs no code, weights_only or not; reads PyTorch's zip files too, of tensors and plain containers",
    "torch.save": "a zip of JSON and .npy; tensors, numbers, strings and plain containers; a whole module is a TypeError",
    "torch.multinomial": "drawing more than there are without replacement is an error",
    "torch.unique": "carries no gradient",
    "torch.topk": "always sorted; among equal numbers the first comes first",
    "torch.device": "also a string",
    "torch.relu": "of NaN the slope is 0",
    "F.relu": "of NaN the slope is 0",
    "Tensor.relu": "of NaN the slope is 0",
    "Tensor.abs": "of NaN the slope is NaN",
    "torch.abs": "of NaN the slope is NaN",
    "Tensor.view": "copies where the memory has another order and PyTorch raises",
    "Tensor.to": "the CPU alone; non_blocking changes nothing",
    "Tensor.type": "dtypes, and the older classes such as torch.LongTensor",
    "Tensor.T": "every axis reversed, whatever their number",
    "op: a - b": "1 - mask is an integer; PyTorch refuses to subtract booleans",
    "op: t[...]": "copies for an index of integers or booleans, as PyTorch; a negative step works, as do int8 and int16",
    "F.cross_entropy": "with every target ignored the mean is 0, not NaN",
    "nn.CrossEntropyLoss": "with every target ignored the mean is 0, not NaN",
    "F.pad": "constant padding",
    "F.scaled_dot_product_attention": "a query that may look nowhere gives zeros",
    "nn.Embedding": "max_norm works; sparse and scale_grad_by_freq do not",
    "nn.RMSNorm": "eps is 1e-6 unless given; PyTorch takes the epsilon of the dtype",
    "nn.Module": "prints a table of shapes and counts; no _parameters, _modules",
    "Module.load_state_dict": "checked as a whole before anything is written; problems are a ValueError",
    "Module.register_buffer": "not for a name that hides a method",
    "nn.utils.clip_grad_norm_": "the 2-norm; gradients that hold NaN are left as they are",
    "torch.utils.data.DataLoader": "in this process: num_workers, pin_memory and what belongs to them change nothing",
    "torch.utils.data.dataloader.DataLoader": "as torch.utils.data.DataLoader",
    "torch.utils.checkpoint.checkpoint": "one way, use_reentrant=False; random numbers are always drawn the same again",
    "torch.linalg.norm": "vector norms, and the Frobenius norm",
    "optim.Adam": "fused=True and foreach=True warn and change nothing; amsgrad is not here",
    "optim.AdamW": "fused=True and foreach=True warn and change nothing; amsgrad is not here",
    "optim.Muon": "the step has the size of AdamW's (adjust_lr_fn of PyTorch: match_rms_adamw)",
    "torch.distributions.Categorical": "probs, logits, sample, log_prob, entropy",
    "torch.Tensor": "a class to ask about and a constructor; what it makes is a Tensor of the engine",
    **{f"{place}.softmax": "a row that is all -inf gives zeros, not NaN" for place in ("torch", "F", "Tensor")},
    "nn.Softmax": "a row that is all -inf gives zeros, not NaN",
    "nn.Conv1d": "padding_mode is zeros",
    "nn.Conv2d": "padding_mode is zeros",
    **{f"{name}{n}d": "ceil_mode and return_indices are not here" for name in ("nn.MaxPool", "F.max_pool") for n in (1, 2)},
    **{f"{name}{n}d": "ceil_mode is not here, nor whole numbers" for name in ("nn.AvgPool", "F.avg_pool") for n in (1, 2)},
    "nn.LSTM": "proj_size is not here",
    "nn.GRU": "proj_size is not here, as in PyTorch",
    "Tensor.detach_": "of a view too",
    "nn.EmbeddingBag": "sums and means; no max_norm and no scale_grad_by_freq; sparse changes nothing",
    "F.embedding_bag": "sums and means; no max_norm and no scale_grad_by_freq; sparse changes nothing",
    "torch.meshgrid": "without a warning where indexing is left out",
    "torch.mode": "the place is the last one of the number",
    "torch.median": "of equal numbers along dim the first place",
    "torch.kthvalue": "of equal numbers the first place",
    "torch.cdist": "holds every difference at once",
    "Tensor.unfold": "a copy",
    "optim.Adadelta": "foreach=True warns and changes nothing",
    "optim.Adamax": "foreach=True warns and changes nothing",
    "optim.RAdam": "foreach=True warns and changes nothing",
}


def surface() -> list[tuple[str, str, list[str]]]:
    """(tier, name, keywords seen) of every line of surface.txt."""
    lines = (FOLDER / "surface.txt").read_text(encoding="utf-8").splitlines()
    parts = [[part.strip() for part in line.split(";")] for line in lines]
    return [(tier, name, keywords.split()) for tier, name, keywords in parts]


def found(name: str) -> Any:
    """What the door has under a name; AttributeError if nothing."""
    if name.startswith("op: "):
        return None
    root, _, rest = name.partition(".")
    if root == "Optimizer/Module":
        return getattr(Optimizer if rest in ("step", "zero_grad") else torch.nn.Module, rest, None)
    nn = torch.nn
    roots = {"torch": torch, "Tensor": Tensor, "Module": nn.Module, "F": nn.functional, "nn": nn, "optim": torch.optim}
    if name == "Module.reset_parameters":
        return torch.nn.Linear.reset_parameters
    value = roots[root]
    for part in rest.split("."):
        value = getattr(value, part)
    return value


def keywords(name: str) -> list[str]:
    """What can be said by name."""
    value = found(name)
    if not callable(value) or name.startswith("op: "):
        return []
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in BEFORE]


def page() -> str:
    """The text of COVERAGE.md."""
    source = "Written by `python -m tinygrad_tf.torch.coverage`; compared with PyTorch in `tests/torch`."
    lines = ["# What the door covers", "", source, "", GENERAL, ""]
    for tier, title in TIERS.items():
        names = [(name, seen) for t, name, seen in surface() if t == tier]
        lines += [f"## {title} ({len(names)} names)", "", "| name | keywords | where it differs |", "| --- | --- | --- |"]
        for name, seen in names:
            known = keywords(name)
            both = [*known, *(k for k in seen if k not in known and k != "**")]
            shown = name.replace("|", "\\|")
            lines.append(f"| `{shown}` | {' '.join(f'`{k}`' for k in both)} | {DIFFERENCES.get(name, '')} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (FOLDER / "COVERAGE.md").write_text(page(), encoding="utf-8")
