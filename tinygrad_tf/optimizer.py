"""What every optimizer is: parameters in groups, their state, and steps over all of them at once.

An optimizer of its own defines `update`, a few operations on arrays; the rest is here.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from .dtypes import as_array
from .engine import enable_grad, mark_written
from .errors import called, shown
from .flat import Flat
from .tensor import Tensor
from .threads import in_parts

PIECE = 1 << 18  # elements updated at a time: longer pieces are fewer calls, and at each a thread may have to wait for Python


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """What a closure of the training program returns, its graph recorded even inside no_grad; None without one."""
    if closure is None:
        return None
    if not callable(closure):
        raise TypeError(f"{called()}closure is a function that computes the loss, not {shown(closure)}")
    with enable_grad():
        return closure()


class Entry(dict):
    """What an optimizer keeps of one parameter, to look at: a moment is changed in place, as in entry["exp_avg"].zero_()."""

    def __setitem__(self, name: str, value: Any) -> None:
        if value is not self.get(name):  # `entry[name] = entry[name].to(device)` is no change
            raise TypeError(f"step() would not see another {name}: change it in place, or call load_state_dict()")


class Optimizer:
    """Parameters in groups, each a dict with its own options, as torch.optim.Optimizer.

    `params`: tensors, or dicts with "params" and options of their own. A parameter whose grad is None is skipped entirely;
    one whose grad is zero still decays and moves by its momentum. `zero_grad()` sets None by default. A step in which no
    parameter has a gradient warns: an optimizer knows the parameters of the model it was made for, not those of the next.

    The parameters move into memory of the optimizer's when it is made (`flat.py`): what was taken of them before, as `p.data`,
    a `state_dict()` or memory that two of them shared, shows the numbers of that time from then on.
    """

    moments: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if callable(getattr(params, "parameters", None)):
            raise TypeError(f"an optimizer takes parameters, not a {type(params).__name__}: pass model.parameters()")
        if isinstance(params, Tensor):
            raise TypeError("an optimizer takes a list of tensors: put this one in a list")
        if not np.iterable(params):
            raise TypeError(f"{called()}params are a list of tensors, as model.parameters(), or of groups, not {shown(params)}")
        given = list(params)
        if not given:
            raise ValueError("the optimizer got no parameters")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        self.defaults = defaults
        own = type(self).step is not Optimizer.step and type(self).update is Optimizer.update and not self.moments
        self._own: Any = defaultdict(dict) if own else None
        self.param_groups: list[dict[str, Any]] = []
        self._flat: list[Flat | None] = []
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        if not isinstance(group, dict) or "params" not in group:
            raise TypeError(f"{called()}a group is a dict with its tensors as \"params\", not {shown(group)}")
        params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                named = ": pass parameters(), not named_parameters()" if isinstance(p, tuple) else ""
                raise ValueError(f"an optimizer takes tensors, not a {type(p).__name__}{named}")
            if p.node is not None:
                raise ValueError("an optimizer takes parameters and other leaf tensors, not what ops have computed")
            if hasattr(p, "materialize"):
                raise ValueError("a lazy layer has no parameters yet: call the model once before the optimizer is made")
            if id(p) in known:
                raise ValueError(f"a parameter of shape {p.shape} is listed twice: it would be stepped twice")
            known.add(id(p))
        self.param_groups.append({**self.defaults, **group, "params": params})
        self._flat.append(self._gathered(self.param_groups[-1]))

    def _gathered(self, group: dict[str, Any], before: Flat | None = None) -> Flat | None:
        """The flat arrays of a group, with the state that its parameters had before."""
        if not group["params"]:
            return None
        flat, start = Flat(list(group["params"]), self.moments), self.first(group)
        if start:
            for moment in flat.moments.values():
                moment[...] = start
        if before is not None:
            flat.inherit(before)
        return flat

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.array[...] = 0

    def flats(self) -> list[Flat]:
        """The arrays of all groups that have parameters."""
        self._follow()
        return [flat for flat in self._flat if flat is not None]

    def _follow(self) -> None:
        """Make the arrays anew of each group whose list of parameters somebody has changed."""
        for i, (group, flat) in enumerate(zip(self.param_groups, self._flat, strict=True)):
            if group["params"] if flat is None else not flat.of(group["params"]):
                self._flat[i] = self._gathered(group, flat)

    def rows(self) -> list[Tensor]:
        """Tensors that have all gradients: one for a group whose gradients lie in a row, else its parameters."""
        return [p for flat in self.flats() for p in ([flat.whole] if flat.in_a_row() else flat.params)]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. A closure is called first, to compute them; its answer is returned."""
        loss = evaluated(closure)
        for group, flat in self._checked():
            flat.adopt()
            self._move(group, flat)
            mark_written(flat.data)
        return loss

    def _move(self, group: dict[str, Any], flat: Flat) -> None:
        """Update the parameters of one group."""
        for part, count in flat.runs():
            places = range(part.start, part.stop)
            in_parts(partial(self._in_pieces, group, flat, count), places, numbers=len(places))

    def _in_pieces(self, group: dict[str, Any], flat: Flat, step: int, places: range) -> None:
        scratch = np.empty(min(PIECE, len(places)), flat.data.dtype)
        for start in range(places.start, places.stop, PIECE):
            stop = min(start + PIECE, places.stop)
            g = flat.gradient(start, stop, scratch)
            if group.get("maximize"):
                g *= -1
            self.update(group, step, flat.data[start:stop], g, *[m[start:stop] for m in flat.moments.values()])

    def _checked(self) -> list[tuple[dict[str, Any], Flat]]:
        """Groups with their flat arrays, once it is sure that every one of them can be stepped."""
        self._follow()
        pairs = [(group, flat) for group, flat in zip(self.param_groups, self._flat, strict=True) if flat is not None]
        for _, flat in pairs:
            flat.check()
        if not any(p.grad is not None for _, flat in pairs for p in flat.params):
            warnings.warn("step() moved nothing: no parameter has a gradient. backward() comes first; and to a model that was "
                          "built again belongs an optimizer that is built again", stacklevel=3)  # fmt: skip
        return pairs

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        """Change p in place, elementwise; g may be overwritten."""
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    def kept(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Those of the moments that a group with these options uses."""
        return self.moments

    def first(self, group: dict[str, Any]) -> float | None:
        """What the moments hold before the first step, if that is part of the state; else they hold 0."""
        return None

    @property
    def state(self) -> Mapping[Tensor, dict[str, Any]]:
        """{parameter: {"step", moments ...}} for those that have been stepped; the tensors share memory with what step() uses.

        An optimizer of your own, with a step() of its own in place of an `update`, keeps here for each parameter what it likes.
        """
        if self._own is not None:
            return self._own
        params = self._params()
        return MappingProxyType({params[number]: Entry(entry) for number, entry in self.state_dict()["state"].items()})

    @state.setter
    def state(self, entries: Mapping[Tensor, dict[str, Any]]) -> None:
        """An empty one begins anew; of a full one the moments are copied."""
        if self._own is not None:
            self._own = entries
            return
        numbers = {p: number for number, p in enumerate(self._params())}
        if any(p not in numbers for p in entries):
            raise ValueError("the state has a parameter that this optimizer has not")
        self.load_state_dict({**self.state_dict(), "state": {numbers[p]: entry for p, entry in entries.items()}})

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {"step", moments ...}}, "param_groups": [...]}, in PyTorch's layout; tensors share memory."""
        self._follow()
        state, groups, index = {}, [], 0
        for group, flat in zip(self.param_groups, self._flat, strict=True):
            numbers = range(index, index + len(group["params"]))
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": list(numbers)})
            for i, number in enumerate(numbers):
                if flat is not None and (flat.steps[i] or self.first(group) is not None):
                    views = {name: Tensor(flat.moments[name][flat.parts[i]].reshape(flat.params[i].shape))
                             for name in self.kept(group)}  # fmt: skip
                    state[number] = {"step": flat.steps[i], **views}
            index += len(numbers)
        if self._own is not None:
            state = {number: dict(self._own[p]) for number, p in enumerate(self._params()) if p in self._own}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer over the same parameters returned. Checked before anything is written."""
        self._write_state(*self._read_state(state_dict))

    def _read_state(self, state_dict: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
        """The groups and the state, if they fit. A moment without a step count, as PyTorch saves for SGD, has seen one step."""
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= state_dict.keys():
            raise TypeError(f"{called()}a state is a dict with \"state\" and \"param_groups\", as state_dict() gives it, "
                            f"not {shown(state_dict)}")
        groups = state_dict["param_groups"]
        if any(group.get("amsgrad") for group in groups):
            raise ValueError("the state was saved with amsgrad=True, which no optimizer here has")
        sizes, own = [len(g["params"]) for g in groups], [len(g["params"]) for g in self.param_groups]
        if sizes != own:
            raise ValueError(f"the state has parameter groups of sizes {sizes}, this optimizer {own}")
        begun = {"step": 1} if self._own is None else {}
        state = {int(number): begun | entry for number, entry in state_dict["state"].items()}
        params = self._params()
        options = [{**a, **b} for a, b in zip(self.param_groups, groups, strict=True) for _ in a["params"]]
        for number, entry in state.items():
            if not 0 <= number < len(params):
                raise ValueError(f"the state has a parameter {number}, this optimizer has 0 to {len(params) - 1}")
            for name in self.kept(options[number]):
                if entry.get(name) is None or as_array(entry[name]).shape != params[number].shape:
                    raise ValueError(f"the state of parameter {number} has no {name} of shape {params[number].shape}")
        return groups, state

    def _write_state(self, groups: list[dict[str, Any]], state: dict[int, dict[str, Any]]) -> None:
        for group, new in zip(self.param_groups, groups, strict=True):
            group.update({k: v for k, v in new.items() if k != "params"})
        if self._own is not None:
            params = self._params()
            self._own = defaultdict(dict, {params[number]: dict(entry) for number, entry in state.items()})
            return
        places = [(flat, i, self.first(group)) for group, flat in zip(self.param_groups, self._flat, strict=True)
                  if flat is not None for i in range(len(flat.params))]  # fmt: skip
        for number, (flat, i, first) in enumerate(places):
            entry = state.get(number, {"step": 0})
            flat.steps[i] = int(entry["step"])
            for name, moment in flat.moments.items():
                moment[flat.parts[i]] = as_array(entry[name]).reshape(-1) if name in entry else first or 0
